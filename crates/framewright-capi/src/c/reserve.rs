// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! The reserve: contiguous memory that is set aside, and taken when it is wanted.
//!
//! ```text
//!   set_aside ──▶ reserved ──take──▶ taken ──release──▶ reserved ──give_up──▶ (free)
//!   alloc ──────────────────────────▶ owned ──free──▶ (free)
//! ```

use super::{FwHost, address, coded, pointed};
use crate::codes::CallRefusal;
use crate::registry::HostedSeat;
use framewright::reserve::Reserve;
use framewright::{Run, RunError};
use framewright_capi_core::arguments::{page_at, pages_for, shape_of};
use framewright_capi_core::codes::{FW_EFOREIGN, FW_ENODEV};
use framewright_capi_core::pointers;
use framewright_linux::Windowed;
use std::ffi::{c_char, c_int, c_void};

fn reserve_of(seat: &HostedSeat) -> Result<&Reserve<'_, Windowed>, CallRefusal> {
    seat.host()
        .reserve()
        .ok_or_else(|| CallRefusal::plain(FW_ENODEV))
}

/// The first byte of a run, in the direct map.
fn first_byte(seat: &HostedSeat, run: Run) -> Result<*mut c_void, CallRefusal> {
    Ok(seat.host().ram().address(run.start())?.cast())
}

/// Sets contiguous memory of the reserve aside: at least `bytes` bytes of whole pages, at a multiple of `align_bytes` both
/// as frames and as an address of the direct map up to a page. Writes the reservation's number to `id`.
///
/// From now on `fw_reserve_take` gets it without fail. `name` is for messages; its first sixteen bytes are kept.
///
/// Cost: O(frames of the reserve) at worst, microseconds mostly.
///
/// Errors: `FW_ENOSPC` if no such run is left, or 64 reservations exist; `FW_ENODEV` without a reserve; `FW_EINVAL`. `id` is
/// unchanged then.
///
/// # Safety
/// `name` ends with a zero byte, and `id` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_reserve_set_aside(
    host: *mut FwHost,
    name: *const c_char,
    bytes: usize,
    align_bytes: usize,
    id: *mut u64,
) -> c_int {
    coded(host, |seat| {
        let (frames, align) = shape_of(bytes, align_bytes)?;
        // SAFETY: promised by the caller.
        let name = unsafe { pointers::name(name) }?;
        pointers::check(id, "id")?;
        let reservation = reserve_of(seat)?.reserve(name, frames, align)?;
        let number = seat.remember(reservation);
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(id, number, "id") }?)
    })
}

/// Takes a reservation: returns its first byte, from which on all of it is contiguous. `frame`, unless it is NULL, gets the
/// number of its first frame, as for `fw_map_ram`. The contents are undefined.
///
/// Cost: about 1 ns a page. It waits for no input or output.
///
/// Errors: NULL, and `fw_last_error` is `FW_EBUSY` if it is taken already, or `FW_ENOENT` if there is no such reservation.
///
/// # Safety
/// Unless it is NULL, `frame` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_reserve_take(
    host: *mut FwHost,
    id: u64,
    frame: *mut u64,
) -> *mut c_void {
    pointed(host, |seat| {
        if !frame.is_null() {
            pointers::check(frame, "frame")?;
        }
        let reservation = seat.reservation(id)?;
        let run = reserve_of(seat)?.take(reservation)?;
        if !frame.is_null() {
            // SAFETY: promised by the caller.
            unsafe { pointers::put(frame, run.start().0, "frame") }?;
        }
        first_byte(seat, run)
    })
}

/// Gives the memory of a reservation back, which stays set aside: it can be taken again.
///
/// Cost: O(frames), about 1 ns each.
///
/// Errors: `FW_EALREADY` if it is not taken, `FW_ENOENT` if there is no such reservation. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_reserve_release(host: *mut FwHost, id: u64) -> c_int {
    coded(host, |seat| {
        let reservation = seat.reservation(id)?;
        let reserve = reserve_of(seat)?;
        let run = reserve.run_of(reservation).ok_or(RunError::Unknown)?;
        Ok(reserve.release(run)?)
    })
}

/// Gives a reservation up: its memory is for others again.
///
/// Cost: O(frames), below 1 ns each.
///
/// Errors: `FW_EBUSY` if it is taken, `FW_ENOENT` if there is no such reservation. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_reserve_give_up(host: *mut FwHost, id: u64) -> c_int {
    coded(host, |seat| {
        reserve_of(seat)?.unreserve(seat.reservation(id)?)?;
        seat.forget(id);
        Ok(())
    })
}

/// Takes contiguous memory of the reserve that no reservation has: at least `bytes` bytes of whole pages, the first frame
/// at a multiple of `align_bytes`. Returns its first byte; `frame`, unless it is NULL, gets the number of its first frame.
/// The contents are undefined.
///
/// Cost: a search of nanoseconds for each 64 frames, and about 1 ns a page.
///
/// Errors: NULL, and `fw_last_error` is `FW_ENOSPC`, `FW_ENODEV` without a reserve, or `FW_EINVAL`.
///
/// # Safety
/// Unless it is NULL, `frame` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_reserve_alloc(
    host: *mut FwHost,
    bytes: usize,
    align_bytes: usize,
    frame: *mut u64,
) -> *mut c_void {
    pointed(host, |seat| {
        if !frame.is_null() {
            pointers::check(frame, "frame")?;
        }
        let (frames, align) = shape_of(bytes, align_bytes)?;
        let run = reserve_of(seat)?.alloc_contig(frames, align)?;
        if !frame.is_null() {
            // SAFETY: promised by the caller.
            unsafe { pointers::put(frame, run.start().0, "frame") }?;
        }
        first_byte(seat, run)
    })
}

/// Gives memory of `fw_reserve_alloc` back, all of it or a part: the pages of `bytes` bytes from `memory` on. NULL is no
/// memory, and no error.
///
/// Cost: O(frames), about 1 ns each.
///
/// Errors: `FW_EALREADY` if not all of it is owned, or it is part of a reservation; `FW_EFOREIGN` if it is not in the
/// reserve; `FW_EINVAL` for an address inside a page. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_reserve_free(host: *mut FwHost, memory: *mut c_void, bytes: usize) -> c_int {
    coded(host, |seat| {
        if memory.is_null() {
            return Ok(());
        }
        let (frames, reserve) = (pages_for(bytes)?, reserve_of(seat)?);
        let addr = address(memory);
        page_at(addr)?;
        let first = seat.host().ram().frame_at(memory.cast());
        let run = first.and_then(|first| Run::new(first, frames));
        let all = reserve.run();
        let run = run.filter(|run| run.start() >= all.start() && run.end() <= all.end());
        let run = run.ok_or_else(|| {
            CallRefusal::new(
                FW_EFOREIGN,
                &format_args!("{bytes} bytes at {addr} are not the reserve's"),
            )
        })?;
        Ok(reserve.release(run)?)
    })
}
