//! Blocks that go back from a cache, those of one pageblock together.

use super::super::pageblock::{GiveOutcome, Tag};
use super::super::zone::Zone;
use super::caches::SeatWords;
use crate::slots::run_mask;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::units::{Mobility, Order};

impl<'m, P> Zone<'m, P> {
    /// Gives cached blocks back to their pageblocks. Never waits.
    pub(in super::super) fn give_cached(
        &self,
        seat: SeatWords<'m>,
        blocks: &[AtomicU32],
        order: Order,
        mobility: Mobility,
    ) {
        let mut given = 0;
        for blocks in blocks.chunks(Chains::MAX) {
            given += self.give_batch(seat, blocks, order, mobility);
        }
        seat.counters()
            .net
            .add((given * order.frames()).wrapping_neg());
    }

    /// Gives up to 64 cached blocks back, those of one pageblock together. Returns how many
    /// belonged to the seat.
    #[inline]
    fn give_batch(
        &self,
        seat: SeatWords<'m>,
        blocks: &[AtomicU32],
        order: Order,
        mobility: Mobility,
    ) -> u64 {
        let cached = Tag::cached(seat.number, order, mobility);
        let chains = Chains::new(blocks, self.map.pageblock_order);
        let mut done = 0u64;
        let mut given = 0;
        for first in 0..blocks.len() {
            if done >> first & 1 != 0 {
                continue;
            }
            let id = chains.pageblock(first);
            if chains.next_of(first, id).is_none() {
                let offset = chains.offset(first);
                match self.give_one(seat.counters(), offset, order, mobility, cached) {
                    GiveOutcome::Yes => {
                        given += 1;
                        continue;
                    }
                    GiveOutcome::Corrupt => {
                        self.count_corruption();
                        continue;
                    }
                    GiveOutcome::No => {}
                }
            }
            let Some(mut held) = self.try_lock(seat.counters(), id) else {
                let offset = chains.offset(first);
                if self.change_tag(offset, cached, Tag::remote(order, mobility)) {
                    given += 1;
                    self.leave(seat.counters(), offset);
                    seat.counters().remote.add(1);
                } else {
                    self.count_corruption();
                }
                continue;
            };
            // Gathers the blocks of one word, to give them back together.
            let (mut word, mut mask) = (self.slot(chains.offset(first)) / 64, 0);
            let mut next = Some(first);
            while let Some(nth) = next {
                next = chains.next_of(nth, id);
                done |= 1 << nth;
                let offset = chains.offset(nth);
                if self.tag(offset) != cached {
                    self.count_corruption();
                    continue;
                }
                self.set_tag(offset, Tag::NONE);
                let slot = self.slot(offset);
                if slot / 64 != word {
                    given += held.give_mask(word, mask, order, mobility);
                    (word, mask) = (slot / 64, 0);
                }
                mask |= run_mask((slot % 64) as u32, order.get());
            }
            given += held.give_mask(word, mask, order, mobility);
            held.unlock();
        }
        given
    }
}

/// Up to 64 blocks, in chains by a few bits of their pageblocks: from a block to the next that may
/// lie in the same one. So the blocks of one pageblock are found without a look at all others.
struct Chains {
    offsets: [u32; Self::MAX],
    /// The place of the next in the chain, [`END`](Self::END) at its end.
    next: [u8; Self::MAX],
    pageblock_order: u8,
}

impl Chains {
    const MAX: usize = 64;
    const END: u8 = 0xff;

    #[inline(always)]
    fn new(blocks: &[AtomicU32], pageblock_order: u8) -> Self {
        let mut chains = Self {
            offsets: [0; Self::MAX],
            next: [Self::END; Self::MAX],
            pageblock_order,
        };
        let mut heads = [Self::END; Self::MAX];
        // Goes from the last to the first, so that each chain goes from the first to the last.
        for (nth, block) in blocks.iter().enumerate().take(Self::MAX).rev() {
            chains.offsets[nth] = block.load(Relaxed);
            let head = &mut heads[chains.pageblock(nth) % Self::MAX];
            chains.next[nth] = *head;
            *head = nth as u8;
        }
        chains
    }

    #[inline(always)]
    const fn offset(&self, nth: usize) -> usize {
        self.offsets[nth % Self::MAX] as usize
    }

    #[inline(always)]
    const fn pageblock(&self, nth: usize) -> usize {
        self.offset(nth) >> self.pageblock_order
    }

    /// The next block after `nth` that lies in pageblock `id`, like `nth`.
    #[inline(always)]
    const fn next_of(&self, nth: usize, id: usize) -> Option<usize> {
        let mut nth = nth;
        loop {
            nth = match self.next[nth % Self::MAX] {
                Self::END => return None,
                next => next as usize,
            };
            if self.pageblock(nth) == id {
                return Some(nth);
            }
        }
    }
}
