//! Says to the linker that the shared library stays loaded: threads that used it call one of its functions at their end,
//! even after a dlclose(3).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
