//! The counters as statistics, and what the frames are now.

use super::table::{FrameState, KINDS, add};
use super::{PoolId, Reserve};
use crate::stats::{GuestStats, Occupancy, ReserveStats};
use crate::sync::{AtomicU64, Ordering::Relaxed};

impl<P> Reserve<'_, P> {
    /// Under the owners' lock.
    pub(super) fn count_opened(&self, pool: PoolId) {
        add(&self.own.opened[usize::from(pool.0 % KINDS)], 1);
    }

    /// All counters, read one by one: while CPUs work they may be some operations apart.
    #[must_use]
    pub fn stats(&self) -> ReserveStats {
        let own = |word: &AtomicU64| word.load(Relaxed);
        let record = self.own;
        ReserveStats {
            cleancache: self.guest_stats(false),
            frontswap: self.guest_stats(true),
            takes: own(&record.takes),
            takes_failed: own(&record.takes_failed),
            taken_free: own(&record.taken_free),
            taken_cold: own(&record.taken_cold),
            taken_hot: own(&record.taken_hot),
            released_frames: own(&record.released),
            put_back_pages: own(&record.put_back),
        }
    }

    fn guest_stats(&self, is_swap: bool) -> GuestStats {
        let mut pools =
            (0..self.pools.len()).filter(|&pool| PoolId(pool as u16).is_swap() == is_swap);
        let Some(first) = pools.next() else {
            return GuestStats::default();
        };
        let mut stats = GuestStats {
            inits: self.own.opened[first].load(Relaxed),
            ..GuestStats::default()
        };
        for seat in self.seats() {
            let counters = &seat.counters[first];
            let read = |counter: &AtomicU64| counter.load(Relaxed);
            stats.stored_pages += read(&counters.stored);
            stats.loaded_pages += read(&counters.loaded);
            stats.load_failed_pages += read(&counters.missed);
            stats.evicted_pages += read(&counters.evicted);
            stats.invalidated_pages += read(&counters.invalidated_pages);
            stats.invalidated_objects += read(&counters.invalidated_objects);
            stats.invalidated_pools += read(&counters.invalidated_pools);
            stats.invalidate_failed_pools += read(&counters.invalidate_failed);
            for (sum, refused) in stats.refused.iter_mut().zip(&counters.refused) {
                *sum += read(refused);
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
            occupancy.reserved += u64::from(table.is_reserved(id));
            if table.has_bit(id, |lane| &lane.owned) {
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
        for id in table.frame_sections() * super::table::SECTION..self.ids() {
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
        let sum = self.held_by_seats(pool).fold(0, u64::wrapping_add);
        let held = sum.wrapping_sub(self.lost[pool].load(Relaxed));
        // The sum is below zero for a moment when one counter is behind another.
        if held as i64 > 0 { held } else { 0 }
    }
}
