//! The counters as statistics, and what the frames are now.

use super::counters::{
    OPENED, PUT_BACK, RELEASED, TAKEN_COLD, TAKEN_FREE, TAKEN_HOT, TAKES, TAKES_FAILED, count,
};
use super::pool::KINDS;
use super::table::{FrameState, KEPT, OWNED};
use super::{PoolId, PoolKind, Reserve};
use crate::stats::{GuestStats, Occupancy, ReserveStats};
use crate::sync::Ordering::Relaxed;

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
