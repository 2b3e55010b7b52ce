// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! Areas of address space.

use super::head::either;
use super::platform::{access_of, pointer};
use super::{FwkMemory, address, coded, head, pointed};
use core::ffi::{c_int, c_void};
use framewright::vrange::{AreaInfo, AreaKind, AreaState};
use framewright::{Addr, Page};
use framewright_capi_core::arguments::{
    FW_PAGE_BYTES, WrongArgument, area_of, context_of, page_at, run_of,
};
use framewright_capi_core::pointers;

/// The first byte of a page of the window.
fn at(page: Page) -> *mut c_void {
    // The layout was refused if a page of the window had no address.
    pointer(Addr(page.address().unwrap_or(0)))
}

/// Allocates an area of whole pages with at least `bytes` bytes, at a multiple of `align_bytes`, a power of two, and a page
/// behind it that is never mapped. The frames are anywhere, so no contiguous memory is needed. `flags` are of `FW_ZERO`,
/// `FW_GUARD_BEFORE` and `FW_HUGE` for the area, and of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS` for the caller; without `FW_ZERO` the
/// contents are undefined. They are also of `FWK_READ_ONLY` and `FWK_EXECUTABLE`, with which `map` is called; without them the area
/// is to read and write. `FWK_WRITE_COMBINING` and `FWK_UNCACHED` are refused: its frames lie in the direct map too.
///
/// Cost: one `map` for each run of frames; with `FWK_KEEPS_MAPPED` nanoseconds for an area as long as one freed lately. Before
/// it fails it stops all CPUs and has all freed areas flushed; not with `FW_NOWAIT`.
///
/// Errors: NULL, and `fwk_last_error` is `FW_ENOMEM` (too few frames, or `map` says so), `FW_ENOSPC`, `FW_EFBIG` for more
/// than there is, `FW_EHOST` if `map` refuses, `FW_EAGAIN` with `FW_NOWAIT` if waiting might have helped, or `FW_EINVAL`.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_vmalloc(
    memory: *mut FwkMemory,
    cpu: u32,
    bytes: usize,
    align_bytes: usize,
    flags: u32,
) -> *mut c_void {
    pointed(memory, cpu, |inside| {
        let (access, flags) = access_of(flags);
        let request = area_of(bytes, align_bytes, flags)?.mapped_for(access);
        let area = either!(KernelSeats, inside.seats, seats => seats.vmalloc(&request))?;
        Ok(at(area))
    })
}

/// Frees an area of `fwk_vmalloc`, whichever CPU allocated it. NULL is no area, and no error. Not for handlers: it may unmap,
/// flush, and wait for other CPUs. They have `fwk_vfree_atomic`.
///
/// Its pages are unmapped when this returns; a CPU may reach their frames by a translation until the next `flush`. With
/// `FWK_KEEPS_MAPPED` they may stay mapped for a while.
///
/// Cost: `unmap`, and `flush` where too many freed pages wait for one; with `FWK_KEEPS_MAPPED` nanoseconds up to 128 pages,
/// unless kept areas become too many.
///
/// Errors: `FW_EALREADY`, `FW_EINSIDE`, `FW_EKIND`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address inside a page.
/// Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_vfree(memory: *mut FwkMemory, cpu: u32, area: *mut c_void) -> c_int {
    coded(memory, cpu, |inside| {
        if !area.is_null() {
            let page = page_at(address(area))?;
            either!(KernelSeats, inside.seats, seats => seats.vfree(page))?;
        }
        Ok(())
    })
}

/// Defers the free of an area of `fwk_vmalloc`, whichever CPU allocated it: for a handler, and for a caller that holds a lock.
/// It names no CPU, so it may come inside any call, of this CPU too: from a handler that interrupted it, or from a callback.
/// NULL is no area, and no error.
///
/// The area keeps its pages, frames and mapping until `fwk_free_deferred` frees it. A drain begins with that, and so does a
/// request for an area or an object that may wait, before it fails. A request for frames does not, and fails while deferred
/// areas have them: so `fwk_free_deferred` should come soon. Meanwhile the area is no longer the caller's, and each other free
/// of it is refused. `fwk_for_each_area` leaves it out.
///
/// Cost: nanoseconds. It takes no lock, waits for no CPU and calls no callback.
///
/// Errors: as `fwk_vfree`, and `FW_EHANDLE`. Nothing has changed then. The code is all there is: `fwk_last_error` of each CPU
/// stays as it was, whatever this returns.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_vfree_atomic(memory: *mut FwkMemory, area: *mut c_void) -> c_int {
    head::without_seats(memory, |engine| {
        if !area.is_null() {
            let page = page_at(address(area))?;
            either!(KernelEngine, engine, engine => engine.space().vfree_atomic(page))?;
        }
        Ok(())
    })
}

/// Frees the areas whose free any CPU has deferred (`fwk_vfree_atomic`), each as `fwk_vfree` does. `freed`, unless it is
/// NULL, gets how many there were. A kernel has a thread of its own call it, now and then. Not for handlers, as `fwk_vfree`.
///
/// Cost: one read if there are none; else that of `fwk_vfree` for each.
///
/// Errors: `FW_EINVAL` for a `freed` that is not aligned. Nothing has changed then.
///
/// # Safety
/// Unless it is NULL, `freed` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_free_deferred(
    memory: *mut FwkMemory,
    cpu: u32,
    freed: *mut u64,
) -> c_int {
    coded(memory, cpu, |inside| {
        if !freed.is_null() {
            pointers::check(freed, "freed")?;
        }
        let areas = either!(KernelSeats, inside.seats, seats => seats.free_deferred());
        if !freed.is_null() {
            // SAFETY: promised by the caller.
            unsafe { pointers::put(freed, areas, "freed") }?;
        }
        Ok(())
    })
}

/// Maps `count` frames of the caller's, in that order, at addresses that follow one another. Frames may come twice, and may
/// be of the reserve, or of no memory at all if `map` can map them. `flags` are of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`, and
/// of `FWK_READ_ONLY`, `FWK_EXECUTABLE`, `FWK_WRITE_COMBINING`, `FWK_UNCACHED`, with which `map` is called. Before a caller maps
/// memory with one of the last two, it writes back what caches have of it, and it reaches it elsewhere no longer.
///
/// The library does not know whose frames they are: the caller frees them only after `fwk_unmap_ram`.
///
/// Cost: up to 64 frames nanoseconds, and one `map` for each run of frames that follow one another.
///
/// Errors: NULL, and `fwk_last_error` is `FW_ENOSPC`, `FW_ENOMEM` or `FW_EHOST` if `map` refuses, `FW_EAGAIN` with
/// `FW_NOWAIT`, or `FW_EINVAL`. Nothing is mapped then.
///
/// # Safety
/// `frames` has `count` numbers, which do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_map_ram(
    memory: *mut FwkMemory,
    cpu: u32,
    frames: *const u64,
    count: usize,
    flags: u32,
) -> *mut c_void {
    pointed(memory, cpu, |inside| {
        let (access, flags) = access_of(flags);
        let context = context_of(flags)?;
        // SAFETY: promised by the caller.
        let frames = unsafe { pointers::frames(frames, count) }?;
        let area = either!(KernelSeats, inside.seats, seats => {
            match access.is_data() {
                true => seats.map_ram(frames, context),
                false => seats.vmap(frames, access, context),
            }
        })?;
        Ok(at(area))
    })
}

/// Maps `count` frames from `first` on, which the library need not manage: a device's, with `FWK_UNCACHED`. `flags` are as of
/// `fwk_map_ram`, and `fwk_unmap_ram` unmaps them.
///
/// Cost: one `map`.
///
/// Errors: as `fwk_map_ram`, and `FW_EINVAL` for frames past the highest number. Nothing is mapped then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_map_run(
    memory: *mut FwkMemory,
    cpu: u32,
    first: u64,
    count: u64,
    flags: u32,
) -> *mut c_void {
    pointed(memory, cpu, |inside| {
        let (access, flags) = access_of(flags);
        let context = context_of(flags)?;
        let run = run_of(first, count)?;
        let area = either!(KernelSeats, inside.seats, seats => {
            seats.ioremap(run, access, context)
        })?;
        Ok(at(area))
    })
}

/// Unmaps all that one call of `fwk_map_ram` or `fwk_map_run` mapped: `count` frames. The frames stay the caller's. NULL is no area, and no
/// error. Not for handlers, as `fwk_vfree`.
///
/// Cost: as `fwk_vfree` of a long area; with `FWK_KEEPS_MAPPED` nanoseconds, and the pages are unmapped later, many at a
/// time.
///
/// Errors: `FW_EALREADY`, `FW_ELENGTH`, `FW_EKIND`, `FW_EINSIDE`, `FW_ENOENT`, `FW_EFOREIGN`, `FW_EINVAL` for an address
/// inside a page. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_unmap_ram(
    memory: *mut FwkMemory,
    cpu: u32,
    area: *mut c_void,
    count: usize,
) -> c_int {
    coded(memory, cpu, |inside| {
        if !area.is_null() {
            let page = page_at(address(area))?;
            either!(KernelSeats, inside.seats, seats => seats.unmap_ram(page, count as u64))?;
        }
        Ok(())
    })
}

/// An area of `fwk_vmalloc`, or a mapped object of `fwk_kvmalloc`.
pub const FW_AREA_VMALLOC: c_int = 1;
/// An area of `fwk_map_ram`.
pub const FW_AREA_MAP_RAM: c_int = 2;

/// What `fwk_for_each_area` calls: with its `argument`, an area's address, its length in bytes without the guard page, and
/// its kind. It returns 0 to go on.
pub type FwkEachArea = Option<
    unsafe extern "C" fn(
        argument: *mut c_void,
        area: *mut c_void,
        bytes: usize,
        kind: c_int,
    ) -> c_int,
>;

/// Calls `each` for every area that is in use, by address, until it returns something else than 0.
///
/// `each` must return. A call for the same CPU from there gets `FW_EREENTRY`. Areas that other CPUs make or free meanwhile
/// come, or do not.
///
/// Cost: O(areas).
///
/// Errors: `FW_EINVAL` if `each` is NULL. What `each` returned last is no error, and is not passed on.
///
/// # Safety
/// `each` can be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_for_each_area(
    memory: *mut FwkMemory,
    cpu: u32,
    each: FwkEachArea,
    argument: *mut c_void,
) -> c_int {
    coded(memory, cpu, |inside| {
        let each = each.ok_or(WrongArgument::Pointer {
            what: "each",
            address: 0,
        })?;
        let mut goes_on = true;
        let list = |area: AreaInfo| {
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
        };
        either!(KernelEngine, inside.engine, engine => engine.space().for_each_area(list));
        Ok(())
    })
}
