// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! Page frames, by number.

use super::{FwHost, coded, pointed, pointers};
use crate::codes::{CallRefusal, FW_EFBIG, FW_EFOREIGN};
use framewright::{Context, Frame, Mobility, Order, Page, Run};
use std::ffi::{c_int, c_void};

/// The contents stay where they are until their owner frees them.
pub const FW_UNMOVABLE: c_int = 0;
/// The contents can be copied elsewhere. It groups such frames together; nothing moves them by itself.
pub const FW_MOVABLE: c_int = 1;
/// The contents stay where they are, but the owner could give them up.
pub const FW_RECLAIMABLE: c_int = 2;

fn order_of(order: u32) -> Result<Order, CallRefusal> {
    let known = u8::try_from(order).ok().and_then(Order::new);
    known.ok_or_else(|| {
        CallRefusal::new(
            FW_EFBIG,
            &format_args!("order {order} is above the maximum"),
        )
    })
}

fn mobility_of(mobility: c_int) -> Result<Mobility, CallRefusal> {
    let known = usize::try_from(mobility)
        .ok()
        .and_then(Mobility::from_index);
    known.ok_or_else(|| CallRefusal::argument(&format_args!("there is no mobility {mobility}")))
}

/// A run that the caller names.
pub(super) fn run_of(first: u64, frames: u64) -> Result<Run, CallRefusal> {
    let run = Run::new(Frame(first), frames).filter(|run| !run.is_empty());
    run.ok_or_else(|| {
        CallRefusal::argument(&format_args!("{frames} frames from {first} on are no run"))
    })
}

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
    coded(host, |seat| {
        let (order, mobility) = (order_of(order)?, mobility_of(mobility)?);
        pointers::check(frame, "frame")?;
        let first = seat.cpu().alloc(order, mobility, Context::ANY)?;
        // SAFETY: promised by the caller.
        unsafe { pointers::put(frame, first.0, "frame") }
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
    coded(host, |seat| {
        let mobility = mobility_of(mobility)?;
        pointers::check(first, "first")?;
        if frames == 0 || !align_frames.is_power_of_two() {
            let message = format_args!(
                "{frames} frames, aligned to {align_frames}: expected one or more, and a power of two"
            );
            return Err(CallRefusal::argument(&message));
        }
        let run = seat
            .cpu()
            .alloc_run(frames, align_frames, mobility, Context::ANY)?;
        // SAFETY: promised by the caller.
        unsafe { pointers::put(first, run.start().0, "first") }
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
        unsafe { pointers::put(frame, found.0, "frame") }
    })
}
