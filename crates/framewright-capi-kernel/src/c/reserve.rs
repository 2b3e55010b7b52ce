// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! The reserve: contiguous memory that is set aside, and taken when it is wanted.
//!
//! ```text
//!   set_aside ──▶ reserved ──take──▶ taken ──release──▶ reserved ──give_up──▶ (free)
//!   alloc ──────────────────────────▶ owned ──free──▶ (free)
//! ```

use super::head::either;
use super::{FwkMemory, KernelRefusal, coded};
use core::ffi::{c_char, c_int};
use framewright::RunError;
use framewright_capi_core::arguments::{align_of, count_of, run_of};
use framewright_capi_core::codes::{FW_ENODEV, FW_ENOENT};
use framewright_capi_core::pointers;

/// Works with the reserve, and with the reservation of a number.
macro_rules! reservation {
    ($inside:ident, $id:expr, $reserve:ident, $found:ident => $work:expr) => {
        either!(KernelEngine, $inside.engine, engine => {
            let $reserve = engine.reserve().ok_or(KernelRefusal(FW_ENODEV))?;
            let $found = $reserve.numbered($id).ok_or(KernelRefusal(FW_ENOENT))?;
            $work
        })
    };
}

/// Sets `frames` contiguous frames of the reserve aside, the first at a multiple of `align_frames`, a power of two. Writes
/// the reservation's number to `id`: not 0.
///
/// From now on `fwk_reserve_take` gets it without fail. `name` is for messages; its first sixteen bytes are kept.
///
/// Cost: O(frames of the reserve) at worst, microseconds mostly.
///
/// Errors: `FW_ENOSPC` if no such run is left, or 64 reservations exist; `FW_ENODEV` without a reserve; `FW_EINVAL`. `id` is
/// unchanged then.
///
/// # Safety
/// `name` ends with a zero byte, and `id` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_reserve_set_aside(
    memory: *mut FwkMemory,
    cpu: u32,
    name: *const c_char,
    frames: u64,
    align_frames: u64,
    id: *mut u64,
) -> c_int {
    coded(memory, cpu, |inside| {
        let (frames, align) = (count_of(frames)?, align_of(align_frames)?);
        // SAFETY: promised by the caller.
        let name = unsafe { pointers::name(name) }?;
        pointers::check(id, "id")?;
        let reservation = either!(KernelEngine, inside.engine, engine => {
            let reserve = engine.reserve().ok_or(KernelRefusal(FW_ENODEV))?;
            reserve.reserve(name, frames, align)
        })?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(id, reservation.number(), "id") }?)
    })
}

/// Takes a reservation, and writes the number of its first frame to `first`: from there on all of it is contiguous. The
/// contents are undefined.
///
/// Cost: about 1 ns a page. It waits for no input or output, but for other owners, and for each CPU's copy of one page.
///
/// Errors: `FW_EBUSY` if it is taken already, `FW_ENOENT` if there is no such reservation, `FW_ENODEV`. `first` is unchanged
/// then.
///
/// # Safety
/// `first` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_reserve_take(
    memory: *mut FwkMemory,
    cpu: u32,
    id: u64,
    first: *mut u64,
) -> c_int {
    coded(memory, cpu, |inside| {
        pointers::check(first, "first")?;
        let run = reservation!(inside, id, reserve, found => reserve.take(found))?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(first, run.start().0, "first") }?)
    })
}

/// Gives the frames of a reservation back, which stays set aside: it can be taken again.
///
/// Cost: O(frames), about 1 ns each.
///
/// Errors: `FW_EALREADY` if it is not taken, `FW_ENOENT` if there is no such reservation, `FW_ENODEV`. Nothing has changed
/// then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_reserve_release(memory: *mut FwkMemory, cpu: u32, id: u64) -> c_int {
    coded(memory, cpu, |inside| {
        reservation!(inside, id, reserve, found => {
            let run = reserve.run_of(found).ok_or(RunError::Unknown)?;
            Ok(reserve.release(run)?)
        })
    })
}

/// Gives a reservation up: its frames are for others again.
///
/// Cost: O(frames), below 1 ns each.
///
/// Errors: `FW_EBUSY` if it is taken, `FW_ENOENT` if there is no such reservation, `FW_ENODEV`. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_reserve_give_up(memory: *mut FwkMemory, cpu: u32, id: u64) -> c_int {
    coded(
        memory,
        cpu,
        |inside| reservation!(inside, id, reserve, found => Ok(reserve.unreserve(found)?)),
    )
}

/// Takes `frames` contiguous frames of the reserve that no reservation has, the first at a multiple of `align_frames`, and
/// writes its number to `first`. The contents are undefined.
///
/// Cost: a search of nanoseconds for each 64 frames, and about 1 ns a page.
///
/// Errors: `FW_ENOSPC`, `FW_EAGAIN` while another owner clears what would do, `FW_ENODEV` without a reserve, `FW_EINVAL`.
/// `first` is unchanged then.
///
/// # Safety
/// `first` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_reserve_alloc(
    memory: *mut FwkMemory,
    cpu: u32,
    frames: u64,
    align_frames: u64,
    first: *mut u64,
) -> c_int {
    coded(memory, cpu, |inside| {
        pointers::check(first, "first")?;
        let (frames, align) = (count_of(frames)?, align_of(align_frames)?);
        let run = either!(KernelEngine, inside.engine, engine => {
            let reserve = engine.reserve().ok_or(KernelRefusal(FW_ENODEV))?;
            reserve.alloc_contig(frames, align)
        })?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(first, run.start().0, "first") }?)
    })
}

/// Gives frames of `fwk_reserve_alloc` back, all of them or a part: `frames` from `first` on.
///
/// Cost: O(frames), about 1 ns each.
///
/// Errors: `FW_EALREADY` if not all of them are owned, or they are part of a reservation; `FW_ENODEV` without a reserve,
/// `FW_EINVAL`. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_reserve_free(
    memory: *mut FwkMemory,
    cpu: u32,
    first: u64,
    frames: u64,
) -> c_int {
    coded(memory, cpu, |inside| {
        let run = run_of(first, frames)?;
        either!(KernelEngine, inside.engine, engine => {
            let reserve = engine.reserve().ok_or(KernelRefusal(FW_ENODEV))?;
            Ok(reserve.release(run)?)
        })
    })
}
