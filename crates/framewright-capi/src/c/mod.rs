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
pub mod guests;
pub(crate) mod held;
pub mod host;
pub mod objects;
pub mod ranges;
pub mod reserve;

pub use host::FwHost;

use crate::codes::CallRefusal;
use crate::registry::HostedSeat;
use crate::seats;
use framewright::{Addr, Context};
use framewright_capi_core::arguments::flags_of;
use framewright_capi_core::codes::FW_OK;
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

/// As [`coded`], for a request with these flags: without waiting for another thread, if it must not wait.
fn coded_with(
    host: *mut FwHost,
    flags: u32,
    work: impl FnOnce(&mut HostedSeat) -> Result<(), CallRefusal>,
) -> c_int {
    match context_for(flags).may_block {
        true => coded(host, work),
        false => match seats::call(|| seats::in_seat_at_once(host.addr(), work)) {
            Ok(()) => FW_OK,
            Err(code) => code,
        },
    }
}

/// As [`pointed`], likewise.
fn pointed_with(
    host: *mut FwHost,
    flags: u32,
    work: impl FnOnce(&mut HostedSeat) -> Result<*mut c_void, CallRefusal>,
) -> *mut c_void {
    match context_for(flags).may_block {
        true => pointed(host, work),
        false => {
            let done = seats::call(|| seats::in_seat_at_once(host.addr(), work));
            done.unwrap_or(ptr::null_mut())
        }
    }
}

/// The context that flags ask for. Wrong flags have any: the call itself refuses them.
fn context_for(flags: u32) -> Context {
    flags_of(flags).map_or(Context::ANY, |how| how.context)
}

/// The pointer to an address of the host's.
fn pointer(addr: Addr) -> *mut c_void {
    ptr::with_exposed_provenance_mut(addr.0 as usize)
}

/// The address that the caller means.
fn address(at: *mut c_void) -> Addr {
    Addr(at.expose_provenance() as u64)
}
