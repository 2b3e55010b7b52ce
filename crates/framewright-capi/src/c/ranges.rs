// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! Areas of address space.

use super::{FwHost, address, coded, pointed_with, pointer};
use framewright::vrange::{AreaKind, AreaState};
use framewright::{Addr, Page};
use framewright_capi_core::arguments::{
    FW_PAGE_BYTES, FW_ZERO, WrongArgument, area_of, context_of, page_at,
};
use framewright_capi_core::pointers;
use std::ffi::{c_int, c_void};

/// The first byte of a page of the window.
fn at(page: Page) -> *mut c_void {
    // Pages of a window are addresses of this process, so they have one.
    pointer(Addr(page.address().unwrap_or(0)))
}

/// Allocates an area of whole pages with at least `bytes` bytes, and a page behind it that is never mapped. The frames are
/// anywhere, so no contiguous memory is needed. The contents are undefined.
///
/// Cost: system calls, one for each run of frames; where freed areas are kept (`keeps_mapped`), nanoseconds for one of
/// the same length. Before it fails, it has all kept areas of all threads unmapped.
///
/// Errors: NULL, and `fw_last_error` is `FW_ENOMEM`, `FW_ENOSPC`, `FW_EMAPPINGS`, `FW_EFBIG` for more than there is, or
/// `FW_EINVAL` for 0 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn fw_vmalloc(host: *mut FwHost, bytes: usize) -> *mut c_void {
    fw_vmalloc_with(host, bytes, 1, 0)
}

/// As `fw_vmalloc`, at a multiple of `align_bytes`: a power of two.
///
/// Errors: as `fw_vmalloc`; `FW_EINVAL` for an alignment that is no power of two.
#[unsafe(no_mangle)]
pub extern "C" fn fw_vmalloc_aligned(
    host: *mut FwHost,
    bytes: usize,
    align_bytes: usize,
) -> *mut c_void {
    fw_vmalloc_with(host, bytes, align_bytes, 0)
}

/// As `fw_vmalloc`, and all bytes of the pages are zero.
///
/// Cost: that of `fw_vmalloc`, and a pass over the bytes.
///
/// Errors: as `fw_vmalloc`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_vzalloc(host: *mut FwHost, bytes: usize) -> *mut c_void {
    fw_vmalloc_with(host, bytes, 1, FW_ZERO)
}

/// As `fw_vmalloc_aligned`, with `flags` of `FW_ZERO`, `FW_GUARD_BEFORE` and `FW_HUGE` for the area, and of `FW_NOWAIT`,
/// `FW_NOIO`, `FW_NOFS` for a caller that may do less while it waits. With `FW_NOWAIT` it may still make the system calls that
/// map.
///
/// Errors: as `fw_vmalloc_aligned`; `FW_EAGAIN` with `FW_NOWAIT` if others may have what it needs, or another thread is in
/// the shared seat.
#[unsafe(no_mangle)]
pub extern "C" fn fw_vmalloc_with(
    host: *mut FwHost,
    bytes: usize,
    align_bytes: usize,
    flags: u32,
) -> *mut c_void {
    pointed_with(host, flags, |seat| {
        let request = area_of(bytes, align_bytes, flags)?;
        Ok(at(seat.cpu().vmalloc(&request)?))
    })
}

/// Frees an area of `fw_vmalloc`, `fw_vmalloc_aligned` or `fw_vzalloc`, from whichever thread. NULL is no area, and no
/// error.
///
/// Its pages are unmapped when this returns: what is touched there later faults. With `keeps_mapped` they may stay mapped
/// for a while: then no fault tells.
///
/// Cost: system calls; with `keeps_mapped` nanoseconds up to 128 pages, unless kept areas become too many.
///
/// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_EKIND`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address inside a page.
/// Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_vfree(host: *mut FwHost, area: *mut c_void) -> c_int {
    coded(host, |seat| {
        if !area.is_null() {
            seat.cpu().vfree(page_at(address(area))?)?;
        }
        Ok(())
    })
}

/// Maps `count` frames of the caller's, in that order, at addresses that follow one another. Frames may come twice, and may
/// be of the reserve. No contiguous memory is needed, and nothing is copied.
///
/// The host does not know whose frames they are: the caller frees them only after `fw_unmap_ram`.
///
/// Cost: up to 64 frames nanoseconds, and one system call for each run of frames that follow one another.
///
/// Errors: NULL, and `fw_last_error` is `FW_ENOSPC`, `FW_EMAPPINGS`, `FW_EFOREIGN` for a frame that the host does not have,
/// or `FW_EINVAL`. Nothing is mapped then.
///
/// # Safety
/// `frames` has `count` numbers, which do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_map_ram(
    host: *mut FwHost,
    frames: *const u64,
    count: usize,
) -> *mut c_void {
    // SAFETY: promised by the caller.
    unsafe { fw_map_ram_with(host, frames, count, 0) }
}

/// As `fw_map_ram`, by a caller that may do less while it waits: `flags` are of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`. With
/// `FW_NOWAIT` it may still make the system calls that map, and frames that do not follow one another may be refused.
///
/// Errors: as `fw_map_ram`; `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or another thread is in the shared seat.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_map_ram_with(
    host: *mut FwHost,
    frames: *const u64,
    count: usize,
    flags: u32,
) -> *mut c_void {
    pointed_with(host, flags, |seat| {
        let context = context_of(flags)?;
        // SAFETY: promised by the caller.
        let frames = unsafe { pointers::frames(frames, count) }?;
        Ok(at(seat.cpu().map_ram(frames, context)?))
    })
}

/// Unmaps all that one call of `fw_map_ram` mapped: `count` frames. The frames stay the caller's. NULL is no area, and no
/// error.
///
/// Cost: a system call; with `keeps_mapped` nanoseconds, and the pages are unmapped later, many at a time.
///
/// Errors: `FW_EALREADY`, `FW_ELENGTH`, `FW_EKIND`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address
/// inside a page. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_unmap_ram(host: *mut FwHost, area: *mut c_void, count: usize) -> c_int {
    coded(host, |seat| {
        if !area.is_null() {
            seat.cpu()
                .unmap_ram(page_at(address(area))?, count as u64)?;
        }
        Ok(())
    })
}

/// An area of `fw_vmalloc` and its kin, or a mapped object of `fw_kvmalloc`.
pub const FW_AREA_VMALLOC: c_int = 1;
/// An area of `fw_map_ram`.
pub const FW_AREA_MAP_RAM: c_int = 2;

/// What `fw_for_each_area` calls: with its `argument`, an area's address, its length in bytes without the guard page, and
/// its kind. It returns 0 to go on.
pub type FwEachArea = Option<
    unsafe extern "C" fn(
        argument: *mut c_void,
        area: *mut c_void,
        bytes: usize,
        kind: c_int,
    ) -> c_int,
>;

/// Calls `each` for every area that is in use, by address, until it returns something else than 0.
///
/// `each` must return: no exception and no longjmp may leave it. The library is busy meanwhile, so it must not call it: it
/// would get `FW_EREENTRY`. Areas that other threads make or free meanwhile come, or do not.
///
/// Cost: O(areas).
///
/// Errors: `FW_EINVAL` if `each` is NULL. What `each` returned last is no error, and is not passed on.
///
/// # Safety
/// `each` can be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_for_each_area(
    host: *mut FwHost,
    each: FwEachArea,
    argument: *mut c_void,
) -> c_int {
    coded(host, |seat| {
        let each = each.ok_or(WrongArgument::Pointer {
            what: "each",
            address: 0,
        })?;
        let mut goes_on = true;
        seat.host().space().for_each_area(|area| {
            let kind = match area.kind {
                AreaKind::Vmalloc => FW_AREA_VMALLOC,
                AreaKind::Ram => FW_AREA_MAP_RAM,
                // No call of this library makes one.
                AreaKind::Plain => return,
            };
            if goes_on && area.state == AreaState::Live {
                let bytes = area.pages as usize * FW_PAGE_BYTES;
                // SAFETY: promised by the caller.
                goes_on = unsafe { each(argument, at(area.start), bytes, kind) } == 0;
            }
        });
        Ok(())
    })
}
