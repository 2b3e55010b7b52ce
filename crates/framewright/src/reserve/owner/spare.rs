//! Spare frames: ordinary ones that no longer hold a page that was put back.
//!
//! They stay with their descriptors, where the next page that is put back finds one without asking a supply. An owner's
//! request gives them back only if it lacks frames itself. Otherwise a caller collects them, or reclaim does, if it has
//! the reserve as a client.

use super::super::area::Reserve;
use super::super::table::{PoolId, SECTION};
use crate::frame::{FrameSource, origin_word};
use crate::platform::{OrElse, ReservePlatform};
use crate::reclaim::{Ask, Shrink, Shrunk};
use crate::slots::words_of;
use crate::sync::Ordering::Relaxed;
use crate::units::Frame;

impl<P: ReservePlatform> Reserve<'_, P> {
    /// Gives `supply` the ordinary frames that no longer hold a page: a get took it away, or it was
    /// written or invalidated. Returns how many; 0 if they have another origin (C11).
    ///
    /// These include the frames of pages that are invalid by their pool's generation. Time: a few ns for each 64 pages
    /// that [may be](super::super::ReserveLayout::ordinary) in ordinary frames, and for each frame. Takes the owners' lock,
    /// and shuts gates.
    pub fn collect(&self, supply: &mut (impl FrameSource + ?Sized)) -> u64 {
        self.collect_some(supply, u64::MAX, u64::MAX).freed
    }

    /// The same for up to `wanted` frames, of the `scan` descriptors with a frame that come next.
    fn collect_some(
        &self,
        supply: &mut (impl FrameSource + ?Sized),
        wanted: u64,
        scan: u64,
    ) -> Shrunk {
        let mut sum = Shrunk::default();
        if self.own.supply.load(Relaxed) != origin_word(supply.origin()) {
            return sum;
        }
        let ids = self.table.ordinary();
        let cursor = self.own.spare_cursor.load(Relaxed) as usize;
        let from = cursor.clamp(ids.start, ids.end);
        for (nth, mask) in words_of(&(from..ids.end)).chain(words_of(&(ids.start..from))) {
            let (wanted, scan) = (wanted - sum.freed, scan - sum.scanned);
            if wanted == 0 || scan == 0 {
                break;
            }
            let stocked = self.table.lane(nth).stocked.load(Relaxed) & mask;
            let looked = lowest(stocked, scan);
            if looked == 0 {
                continue;
            }
            let mut spare = [None; 64];
            let last = self.collect_of(nth, looked, wanted, &mut spare);
            // A hint: the next call goes on behind what this one looked at.
            self.own.spare_cursor.store(last as u64 + 1, Relaxed);
            sum.scanned += u64::from(looked.count_ones());
            sum.freed += give_to(supply, &mut spare);
        }
        sum
    }

    /// Takes up to `wanted` spare frames from the descriptors `looked` of 64. Returns the last descriptor that it looked
    /// at.
    fn collect_of(
        &self,
        nth: usize,
        looked: u64,
        wanted: u64,
        spare: &mut [Option<Frame>; 64],
    ) -> usize {
        let table = &self.table;
        let _owners = self.lock_owners();
        self.drop_dead_of(nth, looked);
        let lane = table.lane(nth);
        let bits = lane.free.load(Relaxed) & lane.stocked.load(Relaxed) & looked;
        let mut left = lowest(bits, wanted);
        let last = if left == bits { looked } else { left };
        let last = nth * 64 + 63 - last.leading_zeros() as usize;
        if left == 0 {
            return last;
        }
        // Waits for any CPU that still reads one of the frames. No further one comes: no state says
        // that a page is there.
        let _shut = table.shut(nth * 64 / SECTION, &self.platform);
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            let id = nth * 64 + slot;
            if table.clear_free(id) {
                spare[slot] = self.ordinary_frame(id);
                table.desc(id).value.store(0, Relaxed);
                lane.stocked.fetch_and(!(1 << slot), Relaxed);
                table.set_free(id);
            }
        }
        last
    }

    /// Drops pages in ordinary frames that are invalid by their pool's generation.
    fn drop_dead_of(&self, nth: usize, mask: u64) {
        let lane = self.table.lane(nth);
        let mut bits = lane.dirty.load(Relaxed) & mask;
        while bits != 0 {
            let id = nth * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if self.is_dead(id, self.table.state(id)) {
                self.drop_dead(&(id..id + 1));
            }
        }
    }
}

/// Gives frames that no descriptor has by now to `supply`, which is called under no lock. Returns how many. If
/// the supply unwinds, those that have not gone back go back all the same.
fn give_to(supply: &mut (impl FrameSource + ?Sized), spare: &mut [Option<Frame>; 64]) -> u64 {
    let give = |(supply, spare): &mut (&mut _, &mut [Option<Frame>; 64])| {
        let mut freed = 0;
        for place in spare.iter_mut() {
            if let Some(frame) = *place {
                FrameSource::free_frame(*supply, frame);
                *place = None;
                freed += 1;
            }
        }
        freed
    };
    let mut giving = (supply, spare);
    let unwound = OrElse::new(&mut giving, |giving| _ = give(giving));
    let freed = give(unwound.seat);
    unwound.end();
    freed
}

/// The lowest `count` bits that are set.
fn lowest(bits: u64, count: u64) -> u64 {
    let mut above = bits;
    for _ in 0..count.min(bits.count_ones().into()) {
        above &= above.wrapping_sub(1);
    }
    bits & !above
}

impl<F: FrameSource, P: ReservePlatform> Shrink<F> for Reserve<'_, P> {
    /// The spare frames, and those of pages that died with their pool.
    fn holding(&self) -> u64 {
        let count = |bits: u64| u64::from(bits.count_ones());
        let (mut stocked, mut spare) = (0, 0);
        for (nth, mask) in words_of(&self.table.ordinary()) {
            let lane = self.table.lane(nth);
            let here = lane.stocked.load(Relaxed) & mask;
            stocked += count(here);
            spare += count(here & lane.free.load(Relaxed));
        }
        let pools = 0..self.pools.len();
        let closed = pools.filter(|&pool| !self.pools.is_open(PoolId(pool as u16)));
        // Some of the dead pages may still be in frames of the reserve.
        let dead: u64 = closed.map(|pool| self.pools.dirty(pool)).sum();
        spare + dead.min(stocked - spare)
    }

    /// Gives spare frames back, as [`collect`](Self::collect); none to a request that must not wait, or of another
    /// source. So where several zones supply the reserve as one source, reclaim of one of them gets none.
    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        match ask.context.may_block {
            true => self.collect_some(frames, ask.wanted, ask.scan),
            false => Shrunk::default(),
        }
    }
}
