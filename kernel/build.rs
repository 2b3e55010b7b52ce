//! Links the kernel where its architecture's machines boot it.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    let script = format!("-T{folder}/src/arch/{arch}/kernel.ld");
    let is_bare = std::env::var("CARGO_CFG_TARGET_OS").unwrap() == "none";
    // On a host the linker is a C compiler, and what copies bytes is in C's library.
    let arguments: &[&str] = match is_bare {
        true => &["-no-pie", "--build-id=none", "--no-dynamic-linker", &script],
        false => &[
            "-nostartfiles",
            "-static",
            "-no-pie",
            "-Wl,--build-id=none",
            // The host's `alloc` can unwind. A kernel that panics has ended before that.
            "-Wl,--defsym=_Unwind_Resume=0,--defsym=rust_eh_personality=0",
            &script,
            "-lc",
        ],
    };
    for argument in arguments {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    for file in ["kernel.ld", "boot.s"] {
        println!("cargo:rerun-if-changed=src/arch/{arch}/{file}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
