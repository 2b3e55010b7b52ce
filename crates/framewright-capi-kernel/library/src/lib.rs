//! `libframewright_kernel.a`: the functions of `framewright-capi-kernel`, and the panic handler that a library without
//! `std` must bring.
//!
//! A program links one static library of Rust, because each brings Rust's core and a handler.
#![no_std]

pub use framewright_capi_kernel::c;

#[panic_handler]
fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    c::panic::panicked(info)
}

/// Rust's core for hosts, which was built to unwind, names it. Nothing unwinds here, so nothing calls it.
#[cfg(not(target_os = "none"))]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
