//! A run that an owner reserves while it moves pages out of it, and other owners that want the frames.

use super::super::area::Reserve;
use super::super::places::RunPlaces;
use super::super::table::{Lane, add};
use crate::platform::{ReservePlatform, surely};
use crate::slots::words_of;
use crate::sync::Ordering::Relaxed;
use crate::units::Run;
use core::ops::Range;

/// How often an owner looks again at frames that another one clears, before it gives up. A page takes
/// 0.9 to 2.1 us; a look, with the CPU given away, 1 us and more.
pub(super) const LOOKS_IN_TRANSIT: u32 = 1 << 14;

/// A run that is reserved for one owner while it clears the run. Dropping this ends that.
pub(super) struct ClearingRun<'r, 'm, P: ReservePlatform> {
    pub(in super::super) reserve: &'r Reserve<'m, P>,
    pub(in super::super) ids: Range<usize>,
}

impl<'m, P: ReservePlatform> Reserve<'m, P> {
    /// A run that has just been reserved, for the owner that clears it. Under the owners' lock.
    pub(super) fn clearing_run(&self, ids: Range<usize>) -> ClearingRun<'_, 'm, P> {
        add(&self.own.clearing, 1);
        ClearingRun { reserve: self, ids }
    }

    /// Whether a request that found no room may find some when an owner has failed to take the run that it
    /// clears (C10). Under the owners' lock. Time: only while a run is being cleared, a search of the
    /// bitmaps.
    pub(super) fn is_in_transit(&self, frames: u64, align: u64, put_back: bool) -> bool {
        if self.own.clearing.load(Relaxed) == 0 {
            return false;
        }
        let obstacles = |nth| {
            let lane = self.table.lane(nth);
            lane.owned.load(Relaxed) | lane.staying(put_back) | self.bits_of_reservations(nth)
        };
        let places = RunPlaces::new(self.run(), frames, align);
        places.is_some_and(|places| places.first_fit(0, obstacles).is_some())
    }

    /// The frames of a word that lie in reservations.
    fn bits_of_reservations(&self, nth: usize) -> u64 {
        let word = nth * 64..(nth + 1) * 64;
        self.reservations.all().fold(0, |bits, entry| {
            let ids = self.offsets(entry.run());
            let here = ids.start.max(word.start)..ids.end.min(word.end);
            bits | words_of(&here).fold(0, |bits, (_, mask)| bits | mask)
        })
    }
}

impl<P: ReservePlatform> ClearingRun<'_, '_, P> {
    /// Takes the run, if it is clear.
    pub(super) fn take(self) -> Option<Run> {
        let reserve = self.reserve;
        let owners = reserve.lock_owners();
        if !reserve.discard(&self.ids, Lane::owned_or_dirty) {
            // The run is given up only after this, because that takes the lock.
            drop(owners);
            return None;
        }
        let run = reserve.run_at(&self.ids);
        self.end();
        core::mem::forget(self);
        Some(run)
    }

    /// Reserves it no longer. Under the owners' lock.
    fn end(&self) {
        self.reserve.reserved_no_more(&self.ids);
        let clearing = &self.reserve.own.clearing;
        clearing.store(clearing.load(Relaxed) - 1, Relaxed);
    }
}

impl<P: ReservePlatform> Drop for ClearingRun<'_, '_, P> {
    fn drop(&mut self) {
        surely(|| {
            let _owners = self.reserve.lock_owners();
            self.end();
        });
    }
}
