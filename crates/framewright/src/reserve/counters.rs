//! Which word counts what: the reserve's own words, and those of a guest's seat, by kind.

use super::pool::KINDS;
use super::table::{FrameState, KEPT, OWNED};
use super::{PoolId, PoolKind, PutRefused, Reserve};
use crate::stats::{GuestStats, Occupancy, REFUSALS, ReserveStats};
use crate::sync::Ordering::Relaxed;

// The reserve's own words, written under the owners' lock.
pub(super) const OWNERS_LOCK: usize = 0;
/// Where the search for a single frame goes on.
pub(super) const CURSOR: usize = 1;
/// What owners did.
pub(super) const TAKES: usize = 2;
pub(super) const TAKEN_FREE: usize = 3;
pub(super) const TAKEN_COLD: usize = 4;
pub(super) const TAKES_FAILED: usize = 5;
pub(super) const RELEASED: usize = 6;
pub(super) const TAKEN_HOT: usize = 7;
/// The lock of the CPU that writes dirty pages.
pub(super) const CLEANER: usize = 8;
/// Where the cleaner goes on.
pub(super) const CLEAN_CURSOR: usize = 9;
/// Pages copied into ordinary frames; added to under no lock.
pub(super) const PUT_BACK: usize = 10;
/// Runs that owners keep now while they clear them.
pub(super) const CLEARING: usize = 11;
/// Pools opened, by kind.
const OPENED: usize = 16;
/// Words of the reserve's own: whole cache lines.
pub(super) const OWN_WORDS: usize = 24;
const _: () = assert!(OPENED + KINDS as usize <= OWN_WORDS);

/// The words of a guest's seat, on cache lines of its own: only that seat writes them.
pub(super) mod count {
    use super::{KINDS, PutRefused};
    pub(in crate::reserve) const TAKEN: usize = 0;
    /// The block whose gate the seat is inside of, plus one.
    pub(in crate::reserve) const INSIDE: usize = 1;

    // What is counted for each kind, from the kind's first word on.
    pub(in crate::reserve) const STORED: usize = 0;
    pub(in crate::reserve) const LOADED: usize = 1;
    pub(in crate::reserve) const MISSED: usize = 2;
    pub(in crate::reserve) const EVICTED: usize = 3;
    pub(in crate::reserve) const INVALIDATED_PAGES: usize = 4;
    pub(in crate::reserve) const INVALIDATED_OBJECTS: usize = 5;
    pub(in crate::reserve) const INVALIDATED_POOLS: usize = 6;
    pub(in crate::reserve) const INVALIDATE_FAILED: usize = 7;
    pub(in crate::reserve) const REFUSED: usize = 8;
    /// Words of a kind: whole cache lines.
    const OF_KIND: usize = (REFUSED + PutRefused::COUNT).next_multiple_of(8);
    /// The first kind's first word.
    const KIND: usize = 8;

    /// Pages held, by pool: those that came by this seat less those that went; wraps.
    pub(in crate::reserve) const HELD: usize = KIND + KINDS as usize * OF_KIND;

    /// The word of a counter of a kind, by the number of one of its pools.
    #[inline]
    pub(in crate::reserve) const fn of(pool: usize, counter: usize) -> usize {
        KIND + pool % KINDS as usize * OF_KIND + counter
    }
}

const _: () = assert!(PutRefused::COUNT == REFUSALS.len());

impl<P> Reserve<'_, P> {
    /// Under the owners' lock.
    pub(super) fn count_opened(&self, pool: PoolId) {
        let word = &self.own[OPENED + usize::from(pool.0 % KINDS)];
        word.store(word.load(Relaxed) + 1, Relaxed);
    }

    /// All counters, read one by one: while CPUs work they may be some operations apart.
    #[must_use]
    pub fn stats(&self) -> ReserveStats {
        let own = |word: usize| self.own[word].load(Relaxed);
        ReserveStats {
            cleancache: self.guest_stats(PoolKind::Cleancache),
            frontswap: self.guest_stats(PoolKind::Frontswap),
            takes: own(TAKES),
            takes_failed: own(TAKES_FAILED),
            taken_free: own(TAKEN_FREE),
            taken_cold: own(TAKEN_COLD),
            taken_hot: own(TAKEN_HOT),
            released_frames: own(RELEASED),
            put_back_pages: own(PUT_BACK),
        }
    }

    fn guest_stats(&self, kind: PoolKind) -> GuestStats {
        let mut pools = (0..self.pools.len()).filter(|&pool| PoolId(pool as u16).kind() == kind);
        let Some(first) = pools.next() else {
            return GuestStats::default();
        };
        let mut stats = GuestStats {
            inits: self.own[OPENED + first].load(Relaxed),
            ..GuestStats::default()
        };
        for seat in self.seats() {
            let read = |counter| seat[count::of(first, counter)].load(Relaxed);
            stats.stored_pages += read(count::STORED);
            stats.loaded_pages += read(count::LOADED);
            stats.load_failed_pages += read(count::MISSED);
            stats.evicted_pages += read(count::EVICTED);
            stats.invalidated_pages += read(count::INVALIDATED_PAGES);
            stats.invalidated_objects += read(count::INVALIDATED_OBJECTS);
            stats.invalidated_pools += read(count::INVALIDATED_POOLS);
            stats.invalidate_failed_pools += read(count::INVALIDATE_FAILED);
            for (reason, sum) in stats.refused.iter_mut().enumerate() {
                *sum += read(count::REFUSED + reason);
            }
        }
        for pool in core::iter::once(first).chain(pools) {
            stats.held_pages += self.held(pool);
            stats.reclaimed_pages += self.lost[pool].load(Relaxed);
        }
        stats
    }

    /// What the frames are now. O(frames), some 50 µs for 256 MiB. While CPUs work, each frame
    /// counts as what it is at the moment of the look.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let table = &self.table;
        let mut occupancy = Occupancy::default();
        for id in 0..table.frames() {
            occupancy.reserved += u64::from(table.has_bit(id, KEPT));
            if table.has_bit(id, OWNED) {
                occupancy.owned += 1;
                continue;
            }
            match table.state(id).state() {
                FrameState::Free => occupancy.free += 1,
                FrameState::Filling => occupancy.filling += 1,
                FrameState::Cached => occupancy.cached += 1,
                FrameState::Loading => occupancy.loading += 1,
                FrameState::Dirty => occupancy.dirty += 1,
                FrameState::Writing => occupancy.writing += 1,
            }
        }
        for id in table.frame_blocks() * super::table::BLOCK..self.ids() {
            let has_page = u64::from(table.state(id).has_page());
            match table.is_ordinary(id) {
                true => occupancy.put_back += has_page,
                false => occupancy.without_frame += has_page,
            }
        }
        occupancy
    }

    /// The number of pages that a pool has; inexact while CPUs work. A page that is invalid by the
    /// generation of its object or its pool counts until its frame is used again.
    pub(super) fn held(&self, pool: usize) -> u64 {
        let sum = self.seats().fold(0u64, |sum, seat| {
            sum.wrapping_add(seat[count::HELD + pool].load(Relaxed))
        });
        let held = sum.wrapping_sub(self.lost[pool].load(Relaxed));
        // The sum is below zero for a moment when one counter is behind another.
        if held as i64 > 0 { held } else { 0 }
    }
}
