//! Links the kernel where its architecture's machines boot it.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    let script = format!("-T{folder}/src/arch/{arch}/kernel.ld");
    for argument in ["-no-pie", "--build-id=none", "--no-dynamic-linker", &script] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    for file in ["kernel.ld", "boot.s"] {
        println!("cargo:rerun-if-changed=src/arch/{arch}/{file}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
