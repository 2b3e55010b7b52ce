//! The functions that C calls, by what they are about, and all that needs `unsafe`.
//!
//! - [`host`]: hosts, their options, statistics and checks; a thread's last error.
//! - [`frames`]: page frames, by number.
//! - [`ranges`]: areas of address space: `fw_vmalloc`, `fw_map_ram`.
//! - [`objects`]: `fw_kmalloc`, `fw_kvmalloc`.
//! - [`reserve`]: contiguous memory that is set aside.
//! - `pointers`: reads and writes of the caller's memory. `held`: the memory of a host that seats borrow from.
//!   `ending`: what a thread's end calls.
//!
//! An exported function is short: it checks its arguments, and asks the seat.

pub(crate) mod ending;
pub mod frames;
pub(crate) mod held;
pub mod host;
pub mod objects;
mod pointers;
pub mod ranges;
pub mod reserve;

pub use host::FwHost;

use crate::codes::{CallRefusal, FW_OK};
use crate::registry::HostedSeat;
use crate::seats;
use framewright::Addr;
use std::ffi::{c_int, c_void};
use std::ptr;

/// Works in a seat of the host; returns a code.
fn coded(
    host: *mut FwHost,
    work: impl FnOnce(&mut HostedSeat) -> Result<(), CallRefusal>,
) -> c_int {
    match seats::call(|| seats::in_seat(host.addr(), work)) {
        Ok(()) => FW_OK,
        Err(code) => code,
    }
}

/// Works in a seat of the host; returns an address, or null.
fn pointed(
    host: *mut FwHost,
    work: impl FnOnce(&mut HostedSeat) -> Result<*mut c_void, CallRefusal>,
) -> *mut c_void {
    let done = seats::call(|| seats::in_seat(host.addr(), work));
    done.unwrap_or(ptr::null_mut())
}

/// The pointer to an address of the host's.
fn pointer(addr: Addr) -> *mut c_void {
    ptr::with_exposed_provenance_mut(addr.0 as usize)
}

/// The address that the caller means.
fn address(at: *mut c_void) -> Addr {
    Addr(at.expose_provenance() as u64)
}
