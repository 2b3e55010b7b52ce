//! Spare frames: ordinary ones that no longer hold a page that was put back.
//!
//! They stay with their descriptors, where the next page that is put back finds one without asking a supply. No request
//! of an owner gives them back: that would take it longer than all else that a request for one frame does. Reclaim
//! asks for them.

use super::area::Reserve;
use super::places::words_of;
use super::record::BLOCK;
use crate::frame::{FrameSource, origin_word};
use crate::platform::ReservePlatform;
use crate::reclaim::{Ask, Shrink, Shrunk};
use crate::sync::Ordering::Relaxed;
use crate::units::Frame;

impl<P: ReservePlatform> Reserve<'_, P> {
    /// Gives `supply` the ordinary frames that no longer hold a page: a get took it away, or it was
    /// written or invalidated. Returns how many; 0 if they have another origin (C11).
    ///
    /// These include the frames of pages that are invalid by their pool's generation. Time: a few ns for each 64 pages
    /// that [may be](super::ReserveLayout::ordinary) in ordinary frames, and for each frame.
    pub fn collect(&self, supply: &mut (impl FrameSource + ?Sized)) -> u64 {
        self.collect_some(supply, u64::MAX)
    }

    /// The same, until there are `wanted`: up to 63 more.
    fn collect_some(&self, supply: &mut (impl FrameSource + ?Sized), wanted: u64) -> u64 {
        if self.own.supply.load(Relaxed) != origin_word(supply.origin()) {
            return 0;
        }
        let mut collected = 0;
        for (nth, mask) in words_of(&self.table.ordinary()) {
            if collected >= wanted {
                break;
            }
            if self.table.lane(nth).stocked.load(Relaxed) & mask == 0 {
                continue;
            }
            let mut spare = [None; 64];
            self.collect_of(nth, mask, &mut spare);
            // The supply is called under no lock.
            for frame in spare.into_iter().flatten() {
                supply.free_frame(frame);
                collected += 1;
            }
        }
        collected
    }

    /// Takes the frames that are no longer needed from 64 descriptors.
    fn collect_of(&self, nth: usize, mask: u64, spare: &mut [Option<Frame>; 64]) {
        let table = &self.table;
        let _owners = self.lock_owners();
        self.drop_dead_of(nth, mask);
        let lane = table.lane(nth);
        let mut bits = lane.free.load(Relaxed) & lane.stocked.load(Relaxed) & mask;
        if bits == 0 {
            return;
        }
        // Waits for any CPU that still reads one of the frames. No further one comes: no state says
        // that a page is there.
        let _shut = table.shut(nth * 64 / BLOCK, &self.platform);
        while bits != 0 {
            let slot = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let id = nth * 64 + slot;
            if table.claim_free(id) {
                spare[slot] = self.ordinary_frame(id);
                table.desc(id).value.store(0, Relaxed);
                lane.stocked.fetch_and(!(1 << slot), Relaxed);
                table.set_free(id);
            }
        }
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

impl<F: FrameSource, P: ReservePlatform> Shrink<F> for Reserve<'_, P> {
    /// The spare frames.
    fn holding(&self) -> u64 {
        let words = words_of(&self.table.ordinary());
        let spare = words.map(|(nth, mask)| {
            let lane = self.table.lane(nth);
            let bits = lane.free.load(Relaxed) & lane.stocked.load(Relaxed) & mask;
            u64::from(bits.count_ones())
        });
        spare.sum()
    }

    /// Gives spare frames back, as [`collect`](Self::collect); none to a request that must not wait, or of another
    /// source.
    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        if !ask.context.may_block {
            return Shrunk::default();
        }
        let freed = self.collect_some(frames, ask.wanted.min(ask.scan));
        Shrunk {
            scanned: freed,
            freed,
        }
    }
}
