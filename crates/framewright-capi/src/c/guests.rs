// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! Guests of the reserve: pages that lie in its frames until their owner takes those.

use super::{FwHost, coded};
use crate::codes::CallRefusal;
use crate::registry::HostedSeat;
use framewright::reserve::{Guest, Key, PoolConfig, PoolId};
use framewright_capi_core::arguments::{FW_PAGE_BYTES, WrongArgument};
use framewright_capi_core::codes::{FW_ENODEV, FW_ENOENT, FW_ENOSPC};
use framewright_capi_core::pointers;
use framewright_linux::Windowed;
use std::ffi::{c_int, c_void};

/// A get leaves its page in the pool. Without it a get takes its page away: the caller has it then.
pub const FW_POOL_KEEPS: u32 = 1;
/// Pages may be put that are on no device yet (`fw_guest_put_dirty`).
pub const FW_POOL_DIRTY: u32 = 2;

fn guest(seat: &mut HostedSeat) -> Result<&mut Guest<'static, 'static, Windowed>, CallRefusal> {
    let guest = seat.cpu().guest();
    guest.ok_or_else(|| CallRefusal::plain(FW_ENODEV))
}

/// A pool's number, as C has it: none is longer than 16 bits.
fn pool_of(pool: u32) -> Result<PoolId, CallRefusal> {
    let known = u16::try_from(pool).map(PoolId);
    known.map_err(|_| CallRefusal::new(FW_ENOENT, &format_args!("{pool} is the number of no pool")))
}

fn key_of(pool: u32, object: u64, index: u64) -> Result<Key, CallRefusal> {
    let pool = pool_of(pool)?;
    Ok(Key {
        pool,
        object,
        index,
    })
}

/// Opens a pool of pages in the reserve, and writes its number to `pool`. A page of it is named by an object and an index,
/// such as a file and a place in it; guests lose clean pages when an owner takes their frames.
///
/// `flags` are of `FW_POOL_KEEPS` and `FW_POOL_DIRTY`. At most `dirty_pages_max` pages are on no device yet.
///
/// Cost: microseconds; it takes the lock of the reserve's owners.
///
/// Errors: `FW_ENODEV` without a reserve, `FW_ENOSPC` if there are 256 pools of the kind already, `FW_EINVAL`. `pool` is
/// unchanged then.
///
/// # Safety
/// `pool` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_pool_open(
    host: *mut FwHost,
    flags: u32,
    dirty_pages_max: u64,
    pool: *mut u32,
) -> c_int {
    coded(host, |seat| {
        if flags & !(FW_POOL_KEEPS | FW_POOL_DIRTY) != 0 {
            return Err(WrongArgument::Flags(flags).into());
        }
        pointers::check(pool, "pool")?;
        let base = match flags & FW_POOL_DIRTY {
            0 => PoolConfig::CLEAN,
            _ => PoolConfig::SWAP,
        };
        let config = PoolConfig {
            exclusive: flags & FW_POOL_KEEPS == 0,
            dirty_pages_max,
            ..base
        };
        let reserve = seat.host().reserve();
        let reserve = reserve.ok_or_else(|| CallRefusal::plain(FW_ENODEV))?;
        let opened = reserve.open_pool(&config);
        let opened = opened.ok_or_else(|| CallRefusal::plain(FW_ENOSPC))?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(pool, u32::from(opened.0), "pool") }?)
    })
}

/// Closes a pool: all of its pages are gone, those that are on no device too.
///
/// Cost: nanoseconds.
///
/// Errors: `FW_ENOENT` if there is no such pool, `FW_ENODEV` without a reserve.
#[unsafe(no_mangle)]
pub extern "C" fn fw_pool_close(host: *mut FwHost, pool: u32) -> c_int {
    coded(host, |seat| {
        let pool = pool_of(pool)?;
        match guest(seat)?.invalidate_pool(pool) {
            true => Ok(()),
            false => Err(CallRefusal::plain(FW_ENOENT)),
        }
    })
}

/// Puts a copy of a page, `FW_PAGE_BYTES` bytes, into a pool. It may vanish at any time later, so it is a copy of what the
/// caller can get again. If it is refused, the pool has no version of the page, an earlier one neither.
///
/// Calls for the same page do not overlap: the caller sees to it.
///
/// Cost: below a microsecond, most of it the copy. It never waits for memory.
///
/// Errors: `FW_ENOSPC` if owners have the frames, `FW_EAGAIN` if the page, its object or its pool was put or dropped
/// meanwhile, `FW_ENOENT` if there is no such pool, `FW_ENODEV` without a reserve, `FW_EINVAL` for a page that is not
/// aligned to 8 bytes.
///
/// # Safety
/// `page` can be read, and does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_guest_put(
    host: *mut FwHost,
    pool: u32,
    object: u64,
    index: u64,
    page: *const c_void,
) -> c_int {
    coded(host, |seat| {
        let key = key_of(pool, object, index)?;
        // SAFETY: promised by the caller.
        let page = unsafe { pointers::page(page) }?;
        Ok(guest(seat)?.put(key, page)?)
    })
}

/// As `fw_guest_put`, for a page that is on no device yet: it stays until the caller drops it, or has written it
/// (`fw_guest_clean`). No owner gets its frame before.
///
/// Errors: as `fw_guest_put`; `FW_ENOSPC` also where the pool has as many such pages as it may, `FW_ENOENT` also where it
/// was opened for none.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_guest_put_dirty(
    host: *mut FwHost,
    pool: u32,
    object: u64,
    index: u64,
    page: *const c_void,
) -> c_int {
    coded(host, |seat| {
        let key = key_of(pool, object, index)?;
        // SAFETY: promised by the caller.
        let page = unsafe { pointers::page(page) }?;
        Ok(guest(seat)?.put_dirty(key, page)?)
    })
}

/// Copies a page of a pool to `page`, `FW_PAGE_BYTES` bytes. What it writes is whole, and of one put: the last one.
///
/// Cost: below a microsecond, most of it the copy.
///
/// Errors: `FW_ENOENT` if the page is not there, any longer or at all; what `page` holds is undefined then. `FW_ENODEV`
/// without a reserve, `FW_EINVAL` for a page that is not aligned to 8 bytes.
///
/// # Safety
/// `page` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_guest_get(
    host: *mut FwHost,
    pool: u32,
    object: u64,
    index: u64,
    page: *mut c_void,
) -> c_int {
    coded(host, |seat| {
        let key = key_of(pool, object, index)?;
        // SAFETY: promised by the caller.
        let page = unsafe { pointers::page_mut(page) }?;
        match guest(seat)?.get(key, page) {
            true => Ok(()),
            false => Err(CallRefusal::plain(FW_ENOENT)),
        }
    })
}

/// Drops a page: no later get finds what was put before. A page that is not there is no error.
///
/// Cost: below a microsecond.
///
/// Errors: `FW_ENODEV` without a reserve, `FW_ENOENT` for a number that no pool can have.
#[unsafe(no_mangle)]
pub extern "C" fn fw_guest_drop(host: *mut FwHost, pool: u32, object: u64, index: u64) -> c_int {
    coded(host, |seat| {
        let key = key_of(pool, object, index)?;
        guest(seat)?.invalidate_page(key);
        Ok(())
    })
}

/// Drops all pages of an object.
///
/// Cost: nanoseconds; O(frames of the reserve) where the pool was opened with `FW_POOL_DIRTY`.
///
/// Errors: as `fw_guest_drop`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_guest_drop_object(host: *mut FwHost, pool: u32, object: u64) -> c_int {
    coded(host, |seat| {
        let pool = pool_of(pool)?;
        guest(seat)?.invalidate_object(pool, object);
        Ok(())
    })
}

/// What `fw_guest_clean` calls: with its `argument`, a page's name and its contents, `FW_PAGE_BYTES` bytes, which it only
/// reads. It returns 0 if the page is on its device now.
pub type FwWritePage = Option<
    unsafe extern "C" fn(
        argument: *mut c_void,
        pool: u32,
        object: u64,
        index: u64,
        page: *const c_void,
    ) -> c_int,
>;

/// Has up to `pages` pages written that are on no device yet: calls `write` for each. Afterwards they may vanish as any
/// other page. `written`, unless it is NULL, gets how many were.
///
/// `write` must return, and must not call the library: it would get `FW_EREENTRY`.
///
/// Cost: O(frames of the reserve / 64), and that of `write`.
///
/// Errors: `FW_EINVAL` if `write` is NULL, `FW_ENODEV` without a reserve. What `write` returned is no error.
///
/// # Safety
/// `write` can be called with `argument`. Unless it is NULL, `written` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_guest_clean(
    host: *mut FwHost,
    pages: u64,
    write: FwWritePage,
    argument: *mut c_void,
    written: *mut u64,
) -> c_int {
    coded(host, |seat| {
        let write = write.ok_or(WrongArgument::Pointer {
            what: "write",
            address: 0,
        })?;
        if !written.is_null() {
            pointers::check(written, "written")?;
        }
        let first = seat.host().ram().frames().start();
        let base = seat.host().ram().address(first)?;
        let cleaned = guest(seat)?.clean(pages, |key, frame| {
            let offset = (frame.0 - first.0) as usize * FW_PAGE_BYTES;
            let page = base.wrapping_add(offset).cast_const().cast();
            // SAFETY: promised by the caller.
            unsafe { write(argument, key.pool.0.into(), key.object, key.index, page) == 0 }
        });
        if !written.is_null() {
            // SAFETY: promised by the caller.
            unsafe { pointers::put(written, cleaned.written, "written") }?;
        }
        Ok(())
    })
}
