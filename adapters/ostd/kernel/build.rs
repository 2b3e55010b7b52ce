//! Links the kernel where OSTD's boot code expects it.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let script = format!("-T{folder}/kernel.ld");
    for argument in [
        "-no-pie",
        "--build-id=none",
        "--no-dynamic-linker",
        "-zmax-page-size=4096",
        &script,
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    for file in ["kernel.ld", "build.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
}
