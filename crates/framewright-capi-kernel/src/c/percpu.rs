// UNSAFETY: exported names.

//! Per-CPU objects: one address, and a copy in each CPU's unit.

use super::head::either;
use super::platform::pointer;
use super::{FwkMemory, address, coded, pointed};
use core::ffi::{c_int, c_void};
use framewright_capi_core::arguments::object_of;

/// Allocates an object of `bytes` bytes for each CPU that has a unit, each copy at a multiple of `align_bytes`, a power of
/// two up to a page, and full of zeroes. Returns the address of CPU 0's copy: CPU c's lies c times the layout's
/// `unit_bytes` behind it. `flags` are of `FW_ZERO`, which changes nothing, `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`.
///
/// An object of at most 2048 bytes shares a page with others, so mostly this takes no frame; a longer one has whole pages.
/// Cost: O(bytes of all copies), and a lock that each CPU holds for a bounded number of steps; for a page a frame and a
/// `map` for each CPU.
///
/// Errors: NULL, and `fwk_last_error` is `FW_ENOMEM`, what `map` refused with, `FW_ENOSPC` if the units are full,
/// `FW_EFBIG` for more than a unit or an alignment above a page, `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or `FW_EINVAL`.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_alloc_percpu(
    memory: *mut FwkMemory,
    cpu: u32,
    bytes: usize,
    align_bytes: usize,
    flags: u32,
) -> *mut c_void {
    pointed(memory, cpu, |inside| {
        let request = object_of(bytes, align_bytes, flags)?;
        let (align, context) = (request.align_bytes, request.context);
        let object = either!(KernelSeats, inside.seats, seats => {
            seats.alloc_percpu(request.bytes, align, context)
        })?;
        Ok(pointer(object))
    })
}

/// Frees such an object, all its copies, whichever CPU allocated it. NULL is no object, and no error.
///
/// Cost: nanoseconds mostly; a page without an object is unmapped for each CPU, and the CPUs flush once, but for four that
/// stay for the next object.
///
/// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_free_percpu(memory: *mut FwkMemory, cpu: u32, object: *mut c_void) -> c_int {
    coded(memory, cpu, |inside| {
        if !object.is_null() {
            let object = address(object);
            either!(KernelSeats, inside.seats, seats => seats.free_percpu(object))?;
        }
        Ok(())
    })
}
