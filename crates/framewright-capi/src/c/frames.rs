// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! Page frames, by number.

use super::{FwHost, coded, coded_with, pointed};
use crate::codes::CallRefusal;
use framewright::{Frame, Page};
use framewright_capi_core::arguments::{
    align_of, context_of, count_of, mobility_of, order_of, run_of,
};
use framewright_capi_core::codes::FW_EFOREIGN;
use framewright_capi_core::pointers;
use std::ffi::{c_int, c_void};

/// Allocates a block of 2^`order` frames, at a multiple of its length, and writes the number of the first one to `frame`.
/// The contents are undefined. `mobility` is one of `FW_UNMOVABLE`, `FW_MOVABLE`, `FW_RECLAIMABLE`.
///
/// Cost: tens of nanoseconds for order 0. Before it fails it stops the calls of all threads, to collect what they have
/// cached.
///
/// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` above the maximum order (10), `FW_EINVAL`. `frame` is unchanged then.
///
/// # Safety
/// `frame` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_frame_alloc(
    host: *mut FwHost,
    order: u32,
    mobility: c_int,
    frame: *mut u64,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { fw_frame_alloc_with(host, order, mobility, 0, frame) }
}

/// As `fw_frame_alloc`, by a caller that may do less while it waits: `flags` are of `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`.
///
/// Errors: as `fw_frame_alloc`; `FW_EAGAIN` with `FW_NOWAIT` if others may have a block cached, or another thread is in
/// the shared seat.
///
/// # Safety
/// `frame` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_frame_alloc_with(
    host: *mut FwHost,
    order: u32,
    mobility: c_int,
    flags: u32,
    frame: *mut u64,
) -> c_int {
    coded_with(host, flags, |seat| {
        let (order, mobility) = (order_of(order)?, mobility_of(mobility)?);
        let context = context_of(flags)?;
        pointers::check(frame, "frame")?;
        let first = seat.cpu().alloc(order, mobility, context)?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(frame, first.0, "frame") }?)
    })
}

/// Frees the block of 2^`order` frames that begins with `frame`, from whichever thread.
///
/// Cost: tens of nanoseconds.
///
/// Errors: `FW_EALREADY`, `FW_ELENGTH` for another order, `FW_EINSIDE`, `FW_EFOREIGN`. Nothing has changed then. If the
/// block has been allocated again since, with the same order, a second free is that owner's.
#[unsafe(no_mangle)]
pub extern "C" fn fw_frame_free(host: *mut FwHost, frame: u64, order: u32) -> c_int {
    coded(host, |seat| {
        Ok(seat.cpu().free(Frame(frame), order_of(order)?)?)
    })
}

/// Frees the block of 2^`order` frames that begins with `frame`: a whole allocation, or an aligned part of one. With order
/// 0 it frees one frame, of whatever allocation; the rest stays allocated.
///
/// Cost: as `fw_frame_free` for a whole allocation; microseconds for a part.
///
/// Errors: as `fw_frame_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_frame_free_part(host: *mut FwHost, frame: u64, order: u32) -> c_int {
    coded(host, |seat| {
        let order = order_of(order)?;
        Ok(seat.cpu().free_part(Frame(frame), order)?)
    })
}

/// Makes the block of 2^`order` frames that begins with `frame` into blocks of 2^`into` frames, each of which is freed by
/// itself. `into` is at most `order`.
///
/// Cost: nanoseconds for each frame.
///
/// Errors: as `fw_frame_free`. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_frame_split(host: *mut FwHost, frame: u64, order: u32, into: u32) -> c_int {
    coded(host, |seat| {
        let (order, into) = (order_of(order)?, order_of(into)?);
        Ok(seat.cpu().split(Frame(frame), order, into)?)
    })
}

/// Allocates `frames` frames side by side, the first at a multiple of `align_frames`, and writes its number to `first`.
/// Unlike `fw_frame_alloc` it serves any length. The contents are undefined.
///
/// Cost: microseconds, and for what no block can serve a search that stops the calls of all threads.
///
/// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` if no such run exists, `FW_EINVAL`. `first` is unchanged then.
///
/// # Safety
/// `first` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_run_alloc(
    host: *mut FwHost,
    frames: u64,
    align_frames: u64,
    mobility: c_int,
    first: *mut u64,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { fw_run_alloc_with(host, frames, align_frames, mobility, 0, first) }
}

/// As `fw_run_alloc`, by a caller that may do less while it waits: `flags` as for `fw_frame_alloc_with`. With `FW_NOWAIT`
/// it looks for nothing but a block in which the run fits.
///
/// Errors: as `fw_run_alloc`, and `FW_EAGAIN` as for `fw_frame_alloc_with`.
///
/// # Safety
/// `first` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_run_alloc_with(
    host: *mut FwHost,
    frames: u64,
    align_frames: u64,
    mobility: c_int,
    flags: u32,
    first: *mut u64,
) -> c_int {
    coded_with(host, flags, |seat| {
        let (mobility, context) = (mobility_of(mobility)?, context_of(flags)?);
        pointers::check(first, "first")?;
        let (frames, align) = (count_of(frames)?, align_of(align_frames)?);
        let run = seat.cpu().alloc_run(frames, align, mobility, context)?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(first, run.start().0, "first") }?)
    })
}

/// Frees `frames` frames from `first` on: what `fw_run_alloc` gave, or a part of it.
///
/// Cost: microseconds.
///
/// Errors: as `fw_frame_free`; frames before the one that is refused may be free then, and the message says which one it
/// was.
#[unsafe(no_mangle)]
pub extern "C" fn fw_run_free(host: *mut FwHost, first: u64, frames: u64) -> c_int {
    coded(host, |seat| {
        Ok(seat.cpu().free_run(run_of(first, frames)?)?)
    })
}

/// The address at which the contents of a frame, allocated or not, always are: frames side by side are side by side there.
/// Only the owner of a frame may touch them.
///
/// Cost: nanoseconds.
///
/// Errors: NULL with `FW_EFOREIGN` if the host has no such frame.
#[unsafe(no_mangle)]
pub extern "C" fn fw_frame_address(host: *mut FwHost, frame: u64) -> *mut c_void {
    pointed(host, |seat| {
        Ok(seat.host().ram().address(Frame(frame))?.cast())
    })
}

/// Writes the number of the frame behind an address to `frame`: of `fw_frame_address`, or of an area that is mapped.
///
/// Cost: nanoseconds.
///
/// Errors: `FW_EFOREIGN` if no frame of the host's is there now. `frame` is unchanged then.
///
/// # Safety
/// `frame` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_frame_of(
    host: *mut FwHost,
    at: *const c_void,
    frame: *mut u64,
) -> c_int {
    coded(host, |seat| {
        pointers::check(frame, "frame")?;
        let direct = seat.host().ram().frame_at(at.cast());
        let mapped = || {
            seat.host()
                .window()
                .frame_of(Page::of_address(at.addr() as u64))
        };
        let found = direct.or_else(mapped).ok_or_else(|| {
            CallRefusal::new(
                FW_EFOREIGN,
                &format_args!("no frame is at {:#x}", at.addr()),
            )
        })?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(frame, found.0, "frame") }?)
    })
}
