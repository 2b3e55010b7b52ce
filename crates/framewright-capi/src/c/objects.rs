// UNSAFETY: exported names.

//! Objects: contiguous ones, and those that may be mapped pages.

use super::{FwHost, address, coded, pointed, pointed_with, pointer};
use framewright_capi_core::arguments::{FW_ZERO, object_of, request_of};
use framewright_capi_core::pointers;
use std::ffi::{c_int, c_void};

/// Allocates an object of `bytes` bytes, contiguous in memory, aligned to 16 bytes; where `bytes` is a power of two, to
/// that length or a page. The contents are undefined.
///
/// Cost: up to 2048 bytes mostly nanoseconds; above, a block of frames. Before it fails it stops the calls of all threads,
/// to collect what they have cached.
///
/// Errors: NULL, and `fw_last_error` is `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` for more than a block of frames has
/// (4 MiB), or `FW_EINVAL` for 0 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kmalloc(host: *mut FwHost, bytes: usize) -> *mut c_void {
    fw_kmalloc_with(host, bytes, 1, 0)
}

/// As `fw_kmalloc`, and all bytes are zero.
///
/// Errors: as `fw_kmalloc`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kzalloc(host: *mut FwHost, bytes: usize) -> *mut c_void {
    fw_kmalloc_with(host, bytes, 1, FW_ZERO)
}

/// As `fw_kmalloc`, at a multiple of `align_bytes`, a power of two, and by a caller that may do less while it waits:
/// `flags` are of `FW_ZERO`, `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`. With `FW_NOWAIT` it stops no thread before it fails.
///
/// Errors: as `fw_kmalloc`; `FW_EFBIG` for an alignment that no block has; `FW_EAGAIN` with `FW_NOWAIT` if others may have
/// what it needs, or another thread is in the shared seat.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kmalloc_with(
    host: *mut FwHost,
    bytes: usize,
    align_bytes: usize,
    flags: u32,
) -> *mut c_void {
    pointed_with(host, flags, |seat| {
        let request = object_of(bytes, align_bytes, flags)?;
        // It searches what other threads have cached before it fails.
        let request = match request.context.may_block {
            true => request.may_compact(),
            false => request,
        };
        Ok(pointer(seat.cpu().kmalloc(&request)?))
    })
}

/// Frees an object that is contiguous: of `fw_kmalloc` or `fw_kzalloc`, from whichever thread. NULL is no object, and no
/// error.
///
/// Cost: nanoseconds.
///
/// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for mapped pages (`fw_kvfree` frees those).
/// Nothing has changed then. If the memory has been handed out again since, a second free is that owner's.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kfree(host: *mut FwHost, object: *mut c_void) -> c_int {
    coded(host, |seat| {
        if !object.is_null() {
            seat.cpu().objects().kfree(address(object))?;
        }
        Ok(())
    })
}

/// Allocates an object of `bytes` bytes: contiguous if such memory is free at once, else of mapped pages. The contents are
/// undefined.
///
/// Cost: as `fw_kmalloc` where it is contiguous, else as `fw_vmalloc`.
///
/// Errors: NULL, and `fw_last_error` is `FW_ENOMEM`, `FW_ENOSPC`, `FW_EMAPPINGS`, `FW_EFBIG`, or `FW_EINVAL` for 0 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kvmalloc(host: *mut FwHost, bytes: usize) -> *mut c_void {
    fw_kvmalloc_with(host, bytes, 1, 0)
}

/// As `fw_kvmalloc`, and all bytes are zero.
///
/// Errors: as `fw_kvmalloc`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kvzalloc(host: *mut FwHost, bytes: usize) -> *mut c_void {
    fw_kvmalloc_with(host, bytes, 1, FW_ZERO)
}

/// As `fw_kvmalloc`, at a multiple of `align_bytes`, a power of two, and by a caller that may do less while it waits:
/// `flags` as for `fw_kmalloc_with`.
///
/// Errors: as `fw_kvmalloc`; `FW_EAGAIN` with `FW_NOWAIT` if others may have what it needs, or another thread is in the
/// shared seat.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kvmalloc_with(
    host: *mut FwHost,
    bytes: usize,
    align_bytes: usize,
    flags: u32,
) -> *mut c_void {
    pointed_with(host, flags, |seat| {
        let request = object_of(bytes, align_bytes, flags)?;
        Ok(pointer(seat.cpu().kvmalloc(&request)?))
    })
}

/// Changes the length of an object to `bytes`, and returns where it is now; the bytes that both lengths have are kept, and
/// what is behind is undefined. NULL as `object` makes a new one.
///
/// It stays where it is if it fits there, unless it has four times what it needs.
///
/// Cost: nanoseconds in place; else that of `fw_kvmalloc`, and a copy.
///
/// Errors: NULL, and the object is as it was: as `fw_kvmalloc`, and as `fw_kvfree` for the address. 0 bytes are
/// `FW_EINVAL`, and free nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kvrealloc(
    host: *mut FwHost,
    object: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    if object.is_null() {
        return fw_kvmalloc(host, bytes);
    }
    pointed(host, |seat| {
        let moved = seat
            .cpu()
            .objects()
            .kvrealloc(address(object), &request_of(bytes)?);
        Ok(pointer(moved?))
    })
}

/// Frees an object of either kind: of `fw_kvmalloc`, `fw_kvzalloc`, `fw_kvrealloc`, `fw_kmalloc`, from whichever thread.
/// NULL is no object, and no error.
///
/// Cost: as `fw_kfree` or `fw_vfree`.
///
/// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EKIND` for an area of `fw_map_ram`. Nothing has
/// changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kvfree(host: *mut FwHost, object: *mut c_void) -> c_int {
    coded(host, |seat| {
        if !object.is_null() {
            seat.cpu().kvfree(address(object))?;
        }
        Ok(())
    })
}

/// Writes how many bytes an object of either kind has room for to `bytes`: at least as many as were asked for.
///
/// Cost: nanoseconds.
///
/// Errors: as `fw_kvfree`. `bytes` is unchanged then.
///
/// # Safety
/// `bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kvsize(
    host: *mut FwHost,
    object: *mut c_void,
    bytes: *mut usize,
) -> c_int {
    coded(host, |seat| {
        pointers::check(bytes, "bytes")?;
        let room = seat.cpu().objects().kvsize(address(object))?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(bytes, room as usize, "bytes") }?)
    })
}
