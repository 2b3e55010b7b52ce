//! Blocks that go back from a cache, those of one pageblock together.

use super::super::pageblock::{GiveOutcome, HeldBlock, Tag, WordMask};
use super::super::zone::Zone;
use super::record::{CACHE_MAX, SeatWords};
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
        if self.is_by_words(blocks) {
            given = self.give_by_words(seat, blocks, order, mobility);
        } else {
            for blocks in blocks.chunks(Chains::MAX) {
                given += self
                    .give_batch(seat, blocks, (order, mobility), usize::MAX)
                    .0;
            }
        }
        seat.counters()
            .net
            .add((given * order.frames()).wrapping_neg());
    }

    /// Whether at least four blocks of one word, on average, come one after the other: what was allocated or freed
    /// frame by frame.
    fn is_by_words(&self, blocks: &[AtomicU32]) -> bool {
        let mut left = blocks.len() / 4;
        let mut last = u32::MAX;
        for block in blocks {
            let word = block.load(Relaxed) / 64;
            if word != last {
                if left == 0 {
                    return false;
                }
                (left, last) = (left - 1, word);
            }
        }
        true
    }

    /// Gives cached blocks back, those of one word together that come one after the other. Returns how many belonged
    /// to the seat.
    fn give_by_words(
        &self,
        seat: SeatWords<'m>,
        blocks: &[AtomicU32],
        order: Order,
        mobility: Mobility,
    ) -> u64 {
        let cached = Tag::cached(seat.number, order, mobility);
        let place = |offset: usize| {
            let id = offset >> self.map.pageblock_order;
            (id, self.slot(offset) / 64)
        };
        let mut held = None;
        let mut offsets = blocks.iter().map(|block| block.load(Relaxed) as usize);
        let mut next = offsets.next();
        let mut given = 0;
        while let Some(first) = next {
            let (id, word) = place(first);
            held = match held {
                Some((of, held)) if of == id => Some((of, held)),
                other => {
                    if let Some((_, Some(other))) = other {
                        HeldBlock::unlock(other);
                    }
                    Some((id, self.try_lock(seat.counters(), id)))
                }
            };
            let held = held.as_mut().and_then(|(_, held)| held.as_mut());
            let mut mask = WordMask::default();
            while let Some(offset) = next.filter(|offset| place(*offset) == (id, word)) {
                next = offsets.next();
                if held.is_none() {
                    given += self.leave_cached(seat, offset, (order, mobility));
                } else if self.tag(offset) == cached {
                    self.set_tag(offset, Tag::NONE);
                    mask.add((self.slot(offset) % 64) as u32, order);
                } else {
                    self.count_corruption();
                }
            }
            if let Some(held) = held {
                given += held.give_mask(word, mask, order, mobility);
            }
        }
        if let Some((_, Some(held))) = held {
            held.unlock();
        }
        given
    }

    /// Leaves a cached block to the CPU that holds its pageblock. How many belonged to the seat: 1 or 0.
    fn leave_cached(
        &self,
        seat: SeatWords<'m>,
        offset: usize,
        (order, mobility): (Order, Mobility),
    ) -> u64 {
        let cached = Tag::cached(seat.number, order, mobility);
        if self.change_tag(offset, cached, Tag::remote(order, mobility)) {
            self.leave(seat.counters(), offset);
            seat.counters().remote.add(1);
            1
        } else {
            self.count_corruption();
            0
        }
    }

    /// Gives cached blocks back, at most half a full cache of them, those of one pageblock together, until it has done
    /// `work_max` [work](WORK_AT_ONCE). Returns how many belonged to the seat, and by a bit each which of them have gone.
    #[inline]
    fn give_batch(
        &self,
        seat: SeatWords<'m>,
        blocks: &[AtomicU32],
        kind: (Order, Mobility),
        work_max: usize,
    ) -> (u64, u64) {
        let pageblock_order = self.map.pageblock_order;
        if blocks.len() <= Few::MAX {
            let few = Few {
                blocks,
                pageblock_order,
            };
            return self.give_chains(seat, &few, kind, work_max);
        }
        let mut chains = Chains::new(pageblock_order);
        chains.fill(blocks);
        self.give_chains(seat, &chains, kind, work_max)
    }

    /// The same, whichever way the blocks of one pageblock are found.
    #[inline(never)]
    fn give_chains(
        &self,
        seat: SeatWords<'m>,
        chains: &impl BlockChains,
        (order, mobility): (Order, Mobility),
        work_max: usize,
    ) -> (u64, u64) {
        let all = low_bits(chains.len());
        let mut done = 0u64;
        let mut given = 0;
        let mut work = 0;
        while done != all && work < work_max {
            let first = (!done).trailing_zeros() as usize;
            done |= 1 << first;
            let id = chains.pageblock(first);
            if chains.next_of(first, id).is_none() {
                let offset = chains.offset(first);
                match chains.give_one(self, seat, offset, (order, mobility)) {
                    GiveOutcome::AtOnce => {
                        given += 1;
                        work += WORK_AT_ONCE;
                        continue;
                    }
                    GiveOutcome::Locked => {
                        given += 1;
                        work += WORK_LOCKED;
                        continue;
                    }
                    GiveOutcome::Corrupt => {
                        work += WORK_LOCKED;
                        self.count_corruption();
                        continue;
                    }
                    GiveOutcome::No => {}
                }
            }
            work += WORK_LOCKED;
            let (given_here, done_here) =
                self.give_chain(seat, chains, (first, id), (order, mobility));
            given += given_here;
            done |= done_here;
        }
        (given, done)
    }

    /// The same for the blocks from `first` on that lie in pageblock `id`, under its lock. Where another CPU holds the lock, only
    /// `first` goes back.
    ///
    /// Not inlined: what this needs would lie on the stack where a block goes back without the lock.
    #[inline(never)]
    fn give_chain(
        &self,
        seat: SeatWords<'m>,
        chains: &impl BlockChains,
        (first, id): (usize, usize),
        (order, mobility): (Order, Mobility),
    ) -> (u64, u64) {
        let cached = Tag::cached(seat.number, order, mobility);
        let Some(mut held) = self.try_lock(seat.counters(), id) else {
            let offset = chains.offset(first);
            return (self.leave_cached(seat, offset, (order, mobility)), 0);
        };
        // Gathers the blocks of one word, to give them back together.
        let (mut word, mut mask) = (self.slot(chains.offset(first)) / 64, WordMask::default());
        let (mut given, mut done) = (0, 0);
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
                (word, mask) = (slot / 64, WordMask::default());
            }
            mask.add((slot % 64) as u32, order);
        }
        given += held.give_mask(word, mask, order, mobility);
        held.unlock();
        (given, done)
    }

    /// Gives back the oldest of at most half a full cache's blocks and those that lie in the same pageblocks, until that has
    /// been [some work](SOME_WORK). Returns by a bit each which of them have gone.
    pub(in super::super) fn give_some(
        &self,
        seat: SeatWords<'m>,
        blocks: &[AtomicU32],
        order: Order,
        mobility: Mobility,
    ) -> u64 {
        let (given, gone) = if self.is_by_words(blocks) {
            // A word for every four blocks, so that is no more work.
            let given = self.give_by_words(seat, blocks, order, mobility);
            (given, low_bits(blocks.len()))
        } else {
            self.give_batch(seat, blocks, (order, mobility), SOME_WORK)
        };
        seat.counters()
            .net
            .add((given * order.frames()).wrapping_neg());
        gone
    }
}

/// What it takes to give a block back where neither class nor orders of its pageblock change.
const WORK_AT_ONCE: usize = 1;
/// What it takes where they may: to lock a pageblock, to give back what lies in it, and to sum it up.
const WORK_LOCKED: usize = 8;
/// A cache that is full does about this much work at a time, so that no free takes long.
const SOME_WORK: usize = 56;
/// What goes back by words, four blocks of each and of half a full cache, takes hardly more.
const _: () = assert!(CACHE_MAX / 2 / 4 * WORK_LOCKED <= SOME_WORK + WORK_LOCKED);

/// The lowest bits of a word.
#[inline(always)]
pub(super) const fn low_bits(count: usize) -> u64 {
    if count < 64 { !(!0 << count) } else { !0 }
}

/// Blocks of which those of one pageblock are found one after the other.
trait BlockChains {
    fn len(&self) -> usize;

    fn offset(&self, nth: usize) -> usize;

    fn pageblock(&self, nth: usize) -> usize;

    /// The next block after `nth` that lies in pageblock `id`, like `nth`.
    fn next_of(&self, nth: usize, id: usize) -> Option<usize>;

    /// [`give_one`](Zone::give_one) of a block that has its pageblock for itself.
    fn give_one<'m, P>(
        &self,
        zone: &Zone<'m, P>,
        seat: SeatWords<'m>,
        offset: usize,
        kind: (Order, Mobility),
    ) -> GiveOutcome;
}

/// So few blocks that a look at all is less work than chains.
struct Few<'b> {
    blocks: &'b [AtomicU32],
    pageblock_order: u8,
}

impl Few<'_> {
    const MAX: usize = 4;
}

impl BlockChains for Few<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.blocks.len()
    }

    #[inline(always)]
    fn offset(&self, nth: usize) -> usize {
        self.blocks[nth].load(Relaxed) as usize
    }

    #[inline(always)]
    fn pageblock(&self, nth: usize) -> usize {
        self.offset(nth) >> self.pageblock_order
    }

    #[inline(always)]
    fn next_of(&self, nth: usize, id: usize) -> Option<usize> {
        (nth + 1..self.blocks.len()).find(|&nth| self.pageblock(nth) == id)
    }

    /// Not inlined into the loop: what the compiler would work out ahead of the loop takes longer than so few blocks.
    #[inline(never)]
    fn give_one<'m, P>(
        &self,
        zone: &Zone<'m, P>,
        seat: SeatWords<'m>,
        offset: usize,
        kind: (Order, Mobility),
    ) -> GiveOutcome {
        give_cached(zone, seat, offset, kind)
    }
}

/// Gives back a block that the seat has in its cache.
#[inline(always)]
fn give_cached<P>(
    zone: &Zone<'_, P>,
    seat: SeatWords<'_>,
    offset: usize,
    kind: (Order, Mobility),
) -> GiveOutcome {
    let tag = Tag::cached(seat.number, kind.0, kind.1);
    zone.give_one(seat.counters(), offset, kind, tag)
}

/// Up to half a full cache of blocks, in chains by a few bits of their pageblocks: from a block to the next that may
/// lie in the same one. So the blocks of one pageblock are found without a look at all others.
struct Chains {
    len: usize,
    offsets: [u32; Self::MAX],
    /// The place of the next in the chain, [`END`](Self::END) at its end.
    next: [u8; Self::MAX],
    pageblock_order: u8,
}

impl Chains {
    const MAX: usize = CACHE_MAX / 2;
    const HEADS: usize = 64;
    const END: u8 = 0xff;

    #[inline(always)]
    const fn new(pageblock_order: u8) -> Self {
        Self {
            len: 0,
            offsets: [0; Self::MAX],
            next: [Self::END; Self::MAX],
            pageblock_order,
        }
    }

    /// Puts blocks into chains that are empty.
    #[inline(always)]
    fn fill(&mut self, blocks: &[AtomicU32]) {
        let mut heads = [Self::END; Self::HEADS];
        let blocks = &blocks[..blocks.len().min(Self::MAX)];
        self.len = blocks.len();
        // Goes from the last to the first, so that each chain goes from the first to the last.
        for (nth, block) in blocks.iter().enumerate().rev() {
            let offset = block.load(Relaxed);
            self.offsets[nth] = offset;
            let head = &mut heads[(offset >> self.pageblock_order) as usize % Self::HEADS];
            self.next[nth] = *head;
            *head = nth as u8;
        }
    }
}

impl BlockChains for Chains {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn offset(&self, nth: usize) -> usize {
        self.offsets[nth % Self::MAX] as usize
    }

    #[inline(always)]
    fn pageblock(&self, nth: usize) -> usize {
        self.offset(nth) >> self.pageblock_order
    }

    #[inline(always)]
    fn next_of(&self, nth: usize, id: usize) -> Option<usize> {
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

    #[inline(always)]
    fn give_one<'m, P>(
        &self,
        zone: &Zone<'m, P>,
        seat: SeatWords<'m>,
        offset: usize,
        kind: (Order, Mobility),
    ) -> GiveOutcome {
        give_cached(zone, seat, offset, kind)
    }
}
