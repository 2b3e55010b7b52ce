//! The functions that C calls, by what they are about, and all that needs `unsafe`.
//!
//! - [`memory`]: a memory, its layout, frames that come and go, statistics and checks; a CPU's last error.
//! - [`frames`]: page frames, by number.
//! - [`ranges`]: areas of address space.
//! - [`objects`]: kmalloc, kvmalloc.
//! - [`percpu`]: per-CPU objects.
//! - [`reserve`]: contiguous memory that is set aside. [`guests`]: pages in it until it is taken.
//! - [`platform`]: the table of callbacks. `head`: what lies in the caller's metadata. [`mod@panic`]: what a panic calls.

pub mod frames;
pub mod guests;
pub(crate) mod head;
pub mod memory;
pub mod objects;
pub mod panic;
pub mod percpu;
pub mod platform;
pub mod ranges;
pub mod reserve;

pub use memory::FwkMemory;

use core::ffi::{c_int, c_void};
use core::ptr;
use framewright::Addr;
use framewright_capi_core::codes::{Coded, FW_OK};
use head::InMemory;

/// A call was refused, with that code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KernelRefusal(pub(crate) c_int);

impl<E: Coded> From<E> for KernelRefusal {
    #[cold]
    fn from(error: E) -> Self {
        Self(error.code())
    }
}

/// Works in the seats of a CPU; returns a code.
#[inline(always)]
fn coded(
    memory: *mut FwkMemory,
    cpu: u32,
    work: impl FnOnce(InMemory<'_>) -> Result<(), KernelRefusal>,
) -> c_int {
    match head::with(memory, cpu, work) {
        Ok(()) => FW_OK,
        Err(code) => code,
    }
}

/// Works in the seats of a CPU; returns an address, or null.
#[inline(always)]
fn pointed(
    memory: *mut FwkMemory,
    cpu: u32,
    work: impl FnOnce(InMemory<'_>) -> Result<*mut c_void, KernelRefusal>,
) -> *mut c_void {
    head::with(memory, cpu, work).unwrap_or(ptr::null_mut())
}

/// The address that the caller means.
fn address(at: *mut c_void) -> Addr {
    Addr(at.expose_provenance() as u64)
}
