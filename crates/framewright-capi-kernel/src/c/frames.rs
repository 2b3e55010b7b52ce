// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! Page frames, by number.

use super::head::either;
use super::{FwkMemory, coded};
use core::ffi::c_int;
use framewright::Frame;
use framewright_capi_core::arguments::{
    align_of, context_of, count_of, mobility_of, order_of, run_of,
};
use framewright_capi_core::pointers;

/// Allocates a block of 2^`order` frames, at a multiple of its length, and writes the number of the first one to `frame`.
/// The contents are undefined. `mobility` is one of `FW_UNMOVABLE`, `FW_MOVABLE`, `FW_RECLAIMABLE`, `flags` are of
/// `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`.
///
/// Cost: tens of nanoseconds for order 0. Before it fails it stops all CPUs, to collect what they have cached; not with
/// `FW_NOWAIT`.
///
/// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` above the maximum order (10), `FW_EAGAIN` with `FW_NOWAIT` if other CPUs
/// may have a block, `FW_EINVAL`. `frame` is unchanged then.
///
/// # Safety
/// `frame` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_frame_alloc(
    memory: *mut FwkMemory,
    cpu: u32,
    order: u32,
    mobility: c_int,
    flags: u32,
    frame: *mut u64,
) -> c_int {
    coded(memory, cpu, |inside| {
        let (order, mobility) = (order_of(order)?, mobility_of(mobility)?);
        let context = context_of(flags)?;
        pointers::check(frame, "frame")?;
        let first =
            either!(KernelSeats, inside.seats, seats => seats.alloc(order, mobility, context))?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(frame, first.0, "frame") }?)
    })
}

/// Frees the block of 2^`order` frames that begins with `frame`, whichever CPU allocated it.
///
/// Cost: tens of nanoseconds.
///
/// Errors: `FW_EALREADY`, `FW_ELENGTH` for another order, `FW_EINSIDE`, `FW_EFOREIGN`, `FW_EFBIG`. Nothing has changed then.
/// If the block has been allocated again since, with the same order, a second free is that owner's.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_frame_free(
    memory: *mut FwkMemory,
    cpu: u32,
    frame: u64,
    order: u32,
) -> c_int {
    coded(memory, cpu, |inside| {
        let order = order_of(order)?;
        Ok(either!(KernelSeats, inside.seats, seats => seats.free(Frame(frame), order))?)
    })
}

/// Frees the block of 2^`order` frames that begins with `frame`: a whole allocation, or an aligned part of one. With order
/// 0 it frees one frame, of whatever allocation; the rest stays allocated.
///
/// Cost: as `fwk_frame_free` for a whole allocation; microseconds for a part.
///
/// Errors: as `fwk_frame_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_frame_free_part(
    memory: *mut FwkMemory,
    cpu: u32,
    frame: u64,
    order: u32,
) -> c_int {
    coded(memory, cpu, |inside| {
        let order = order_of(order)?;
        Ok(either!(KernelSeats, inside.seats, seats => seats.free_part(Frame(frame), order))?)
    })
}

/// Makes the block of 2^`order` frames that begins with `frame` into blocks of 2^`into` frames, each of which is freed by
/// itself. `into` is at most `order`.
///
/// Cost: nanoseconds for each frame.
///
/// Errors: as `fwk_frame_free`. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_frame_split(
    memory: *mut FwkMemory,
    cpu: u32,
    frame: u64,
    order: u32,
    into: u32,
) -> c_int {
    coded(memory, cpu, |inside| {
        let (order, into) = (order_of(order)?, order_of(into)?);
        Ok(either!(KernelSeats, inside.seats, seats => seats.split(Frame(frame), order, into))?)
    })
}

/// Allocates `frames` frames side by side, the first at a multiple of `align_frames`, and writes its number to `first`.
/// Unlike `fwk_frame_alloc` it serves any length. The contents are undefined. `flags` as there; with `FW_NOWAIT` it looks
/// for nothing but a block in which the run fits.
///
/// Cost: microseconds, and for what no block can serve a search that stops all CPUs.
///
/// Errors: `FW_ENOMEM`, `FW_EFRAGMENTED`, `FW_EFBIG` if no such run exists, `FW_EAGAIN` with `FW_NOWAIT`, `FW_EINVAL`.
/// `first` is unchanged then.
///
/// # Safety
/// `first` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_run_alloc(
    memory: *mut FwkMemory,
    cpu: u32,
    frames: u64,
    align_frames: u64,
    mobility: c_int,
    flags: u32,
    first: *mut u64,
) -> c_int {
    coded(memory, cpu, |inside| {
        let (mobility, context) = (mobility_of(mobility)?, context_of(flags)?);
        pointers::check(first, "first")?;
        let (frames, align) = (count_of(frames)?, align_of(align_frames)?);
        let run = either!(KernelSeats, inside.seats, seats => {
            seats.alloc_run(frames, align, mobility, context)
        })?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(first, run.start().0, "first") }?)
    })
}

/// Frees `frames` frames from `first` on: what `fwk_run_alloc` gave, or a part of it, or of a block.
///
/// Cost: microseconds.
///
/// Errors: as `fwk_frame_free`; frames before the one that is refused may be free then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_run_free(memory: *mut FwkMemory, cpu: u32, first: u64, frames: u64) -> c_int {
    coded(memory, cpu, |inside| {
        let run = run_of(first, frames)?;
        Ok(either!(KernelSeats, inside.seats, seats => seats.free_run(run))?)
    })
}
