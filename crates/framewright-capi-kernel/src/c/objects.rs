// UNSAFETY: exported names.

//! Objects: contiguous ones, and those that may be mapped pages.

use super::head::either;
use super::platform::pointer;
use super::{FwkMemory, address, coded, pointed};
use core::ffi::{c_int, c_void};
use framewright_capi_core::arguments::object_of;
use framewright_capi_core::pointers;

/// Allocates an object of `bytes` bytes, contiguous in the direct map, at a multiple of `align_bytes`, a power of two; in
/// any case aligned to 16 bytes, and where `bytes` is a power of two, to that length or a page. `flags` are of `FW_ZERO`,
/// `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`; without `FW_ZERO` the contents are undefined.
///
/// Cost: up to 2048 bytes mostly nanoseconds; above, a block of frames. Before it fails it stops all CPUs, to collect what
/// they have cached; not with `FW_NOWAIT`.
///
/// Errors: NULL, and `fwk_last_error` is `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` for more than a block of frames has
/// (4 MiB), `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or `FW_EINVAL`.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_kmalloc(
    memory: *mut FwkMemory,
    cpu: u32,
    bytes: usize,
    align_bytes: usize,
    flags: u32,
) -> *mut c_void {
    pointed(memory, cpu, |inside| {
        let request = object_of(bytes, align_bytes, flags)?;
        let request = match request.context.may_block {
            true => request.may_compact(),
            false => request,
        };
        let object = either!(KernelSeats, inside.seats, seats => seats.kmalloc(&request))?;
        Ok(pointer(object))
    })
}

/// Frees an object that is contiguous: of `fwk_kmalloc`, whichever CPU allocated it. NULL is no object, and no error.
///
/// Cost: nanoseconds. It waits only for a CPU that has stopped this one, so handlers may call it.
///
/// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for mapped pages (`fwk_kvfree` frees those).
/// Nothing has changed then. If the memory has been handed out again since, a second free is that owner's.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_kfree(memory: *mut FwkMemory, cpu: u32, object: *mut c_void) -> c_int {
    coded(memory, cpu, |inside| {
        if !object.is_null() {
            let object = address(object);
            either!(KernelSeats, inside.seats, seats => seats.objects().kfree(object))?;
        }
        Ok(())
    })
}

/// Allocates an object of `bytes` bytes: contiguous if such memory is free at once, else of mapped pages. Alignment and
/// `flags` as for `fwk_kmalloc`.
///
/// Cost: as `fwk_kmalloc` where it is contiguous, else as `fwk_vmalloc`.
///
/// Errors: NULL, and `fwk_last_error` is as for `fwk_kmalloc` or `fwk_vmalloc`.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_kvmalloc(
    memory: *mut FwkMemory,
    cpu: u32,
    bytes: usize,
    align_bytes: usize,
    flags: u32,
) -> *mut c_void {
    pointed(memory, cpu, |inside| {
        let request = object_of(bytes, align_bytes, flags)?;
        let object = either!(KernelSeats, inside.seats, seats => seats.kvmalloc(&request))?;
        Ok(pointer(object))
    })
}

/// Changes the length of an object to `bytes`, and returns where it is now; the bytes that both lengths have are kept. What is
/// behind is zero if the object's first request and all its changes had `FW_ZERO`, else undefined. NULL as `object` makes a
/// new one.
///
/// It stays where it is if it fits there, unless it has four times what it needs. `flags` as for `fwk_kmalloc`.
///
/// Cost: nanoseconds in place; else that of `fwk_kvmalloc`, and a copy.
///
/// Errors: NULL, and the object is as it was: as `fwk_kvmalloc`, and as `fwk_kvfree` for the address; `FW_EKIND` for an area of
/// `fwk_vmalloc` with flags of an access. 0 bytes are `FW_EINVAL`, and free nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_kvrealloc(
    memory: *mut FwkMemory,
    cpu: u32,
    object: *mut c_void,
    bytes: usize,
    flags: u32,
) -> *mut c_void {
    if object.is_null() {
        return fwk_kvmalloc(memory, cpu, bytes, 1, flags);
    }
    pointed(memory, cpu, |inside| {
        let (object, request) = (address(object), object_of(bytes, 1, flags)?);
        let moved = either!(KernelSeats, inside.seats, seats => {
            seats.objects().kvrealloc(object, &request)
        })?;
        Ok(pointer(moved))
    })
}

/// Frees an object of either kind, whichever CPU allocated it. NULL is no object, and no error. Not for handlers where the
/// object may be of mapped pages, as `fwk_vfree`.
///
/// Cost: as `fwk_kfree` or `fwk_vfree`.
///
/// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for an area of `fwk_map_ram`. Nothing has
/// changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_kvfree(memory: *mut FwkMemory, cpu: u32, object: *mut c_void) -> c_int {
    coded(memory, cpu, |inside| {
        if !object.is_null() {
            let object = address(object);
            either!(KernelSeats, inside.seats, seats => seats.kvfree(object))?;
        }
        Ok(())
    })
}

/// Writes how many bytes an object of either kind has room for to `bytes`: at least as many as were asked for.
///
/// Cost: nanoseconds.
///
/// Errors: as `fwk_kvfree`. `bytes` is unchanged then.
///
/// # Safety
/// `bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_kvsize(
    memory: *mut FwkMemory,
    cpu: u32,
    object: *mut c_void,
    bytes: *mut usize,
) -> c_int {
    coded(memory, cpu, |inside| {
        pointers::check(bytes, "bytes")?;
        let object = address(object);
        let room = either!(KernelSeats, inside.seats, seats => seats.objects().kvsize(object))?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(bytes, room as usize, "bytes") }?)
    })
}
