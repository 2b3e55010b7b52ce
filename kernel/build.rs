//! Links the kernel at 2 MiB, where every machine of QEMU's has memory, with a note by which it is booted.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let script = format!("-T{folder}/kernel.ld");
    for argument in ["-no-pie", "--build-id=none", "--no-dynamic-linker", &script] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    for file in ["kernel.ld", "src/boot.s", "build.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
}
