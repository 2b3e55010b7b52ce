//! The index of pageblocks: which have a free block of order k and belong to class c.
//!
//! ```text
//!     ranked    for each list and order: one bit a row, at its rank; lowest bit = cheapest class
//!     some      one bit a row that may not be empty
//!       │
//!     summary   one bit for each leaf word of a row that may not be zero
//!       │
//!     leaves    row (k, c): one bit a pageblock
//! ```
//!
//! A *row* is a pair of an order and a class; a pageblock is in one row for each order of which it
//! has a maximal free block. A *list* is a kind of request; for each order it [ranks](super::ranking)
//! the classes by the policy's cost.
//!
//! # Invariants
//! - **I1** A leaf bit is set if and only if the pageblock, unlocked and not isolated, is of that
//!   class and has a maximal free block of that order.
//! - **I2** Above a leaf bit that is set, the bits of all levels are set, except while an insertion
//!   or a search is at work. The opposite does not hold: a search that finds nothing below them
//!   clears them, the ranked bits only in its own list. So a removal costs one atomic operation,
//!   and so do most insertions.
//! - **I3** The index is written only from a busy seat, or by the CPU that stopped all others. A
//!   look from outside of both ([`peek`](BlockIndex::peek)) leaves wrong bits as they are. No stop waits
//!   for such a look to end, so a bit that it had cleared and not yet set again would hide a block
//!   from a request that stopped all CPUs (F8).
//!
//! # Memory order
//! The inserter writes a level and then reads the next one up; the searcher clears the upper one
//! and then reads the lower one again. At least one must see the other's write, so all of these
//! are `SeqCst`.
//!
//! The ranked bits are many, so an inserter looks only at the row's bit in `some`: if it is set, it
//! takes the ranked bits for set. Setting goes from `some` to the ranked bits, clearing from a
//! ranked bit to `some` and then to the summary once more. Suppose the last write to `some` set it.
//! A CPU that cleared ranked bits did so before, and the setter, which skips ranked bits that are
//! set, has found them clear. A CPU that clears one after that sees the summary's bit, which is
//! older than `some`.
//!
//! Two kinds of looks need to know what may have escaped them. Of both, a CPU reads the counters first (Acquire), looks, and
//! keeps what it saw; it reads them again, later, to learn whether that holds.
//!
//! - A look for the cheapest row may miss a pageblock while a search has cleared a bit above it. The search sets the bit
//!   again, and then counts that in `again` (Release). A CPU that sees the count sees the bit.
//! - A look that finds nothing fails requests, later ones, too, and none of them may fail once the bit is set. So a search
//!   counts in `begun` before it clears a bit. A look that sees it cleared sees the count, because the clearing releases it
//!   and the look acquires it. When the search has set the bit again, or has seen that there is nothing, it counts in
//!   `ended` (Release). What a look found does not hold if `begun` was not `ended` before it, or has changed since. If all
//!   had ended and none has begun, then every pageblock that was in a row had all bits above it.

mod look;

pub(in super::super) use look::Passing;

use super::ranking::Ranking;
use crate::policy::LISTS;
use crate::raw::Carver;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    clear_bits, model_fence, set_bits,
};

/// Pageblocks whose bits of one row share a cache line, and one word of its summary.
pub(super) const REGION: usize = 512;
const _: () = assert!(4096 % REGION == 0);

/// The size of an index.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct IndexShape {
    orders: usize,
    classes: usize,
    /// Words of one row's leaves, of its summary, and of the bits of all classes.
    leaf: usize,
    summary: usize,
    flags: usize,
}

impl IndexShape {
    pub(in super::super) const fn new(orders: usize, classes: usize, blocks: usize) -> Self {
        let leaf = blocks.div_ceil(64);
        Self {
            orders,
            classes,
            leaf,
            summary: leaf.div_ceil(64),
            flags: classes.div_ceil(64),
        }
    }

    const fn rows(&self) -> usize {
        self.orders * self.classes
    }

    pub(in super::super) const fn words(&self) -> usize {
        let [leaves, summaries, some, ranked, ranks, at_rank, least] = self.parts();
        leaves + summaries + some + ranked + ranks + at_rank + least
    }

    const fn parts(&self) -> [usize; 7] {
        [
            self.rows() * self.leaf,
            self.rows() * self.summary,
            self.rows().div_ceil(64),
            LISTS * self.orders * self.flags,
            self.rows(),
            2 * self.rows(),
            self.orders,
        ]
    }
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct BlockIndex<'m> {
    shape: IndexShape,
    leaves: &'m [AtomicU64],
    summaries: &'m [AtomicU64],
    some: &'m [AtomicU64],
    ranked: &'m [AtomicU64],
    ranking: Ranking<'m>,
    /// How often a search cleared a bit above a pageblock and set it again. In between, looks may have missed the pageblock.
    again: &'m AtomicU64,
    /// How often a search has begun to clear a bit, and how often one is done with that.
    begun: &'m AtomicU64,
    ended: &'m AtomicU64,
    /// The platform's `ALONE`.
    alone: bool,
}

impl<'m> BlockIndex<'m> {
    /// The index in `words`, ranked by `cost(list, order, class)`; where that is
    /// `None`, the list leaves out the row. It counts in `again`, `begun` and `ended`.
    pub(in super::super) fn new(
        shape: IndexShape,
        mut words: Carver<'m>,
        ([again, begun, ended], alone): ([&'m AtomicU64; 3], bool),
        cost: impl Fn(usize, usize, usize) -> Option<i32>,
    ) -> Self {
        let parts = shape.parts().map(|len| words.words(len));
        let [leaves, summaries, some, ranked, ranks, at_rank, least] = parts;
        // The leaves, still unused, serve as scratch memory: there is at least one word a class.
        let ranking = Ranking::new(shape.classes, ranks, at_rank, least, leaves, cost);
        Self {
            shape,
            leaves,
            summaries,
            some,
            ranked,
            ranking,
            again,
            begun,
            ended,
            alone,
        }
    }

    #[inline(always)]
    fn ranked_start(&self, list: usize, order: usize) -> usize {
        (list * self.shape.orders + order) * self.shape.flags
    }

    /// Whether one thread at a time uses the zone.
    #[inline(always)]
    pub(super) const fn alone(&self) -> bool {
        self.alone
    }

    /// How often a look at the index may have missed a pageblock for a moment: read before all that the CPU reads after it.
    #[inline(always)]
    pub(in super::super) fn missed(&self) -> u64 {
        self.again.load(Acquire)
    }

    /// How often a search has begun to tidy up, and whether one is still at it: read before all that the CPU reads after it.
    #[inline(always)]
    pub(in super::super) fn tidied(&self) -> (u64, bool) {
        let ended = self.ended.load(Acquire);
        let begun = self.begun.load(Acquire);
        (begun, begun != ended)
    }

    /// How often a search has begun to tidy up.
    #[inline(always)]
    pub(in super::super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Counts a search as at it while it clears a bit, and sets that again if need be.
    #[inline(always)]
    fn tidy(&self, clear: impl FnOnce()) {
        if self.alone {
            // No look comes in between.
            return clear();
        }
        self.begun.fetch_add(1, Relaxed);
        clear();
        self.ended.fetch_add(1, Release);
    }

    /// The rank of `row` in `list`, if the list does not leave it out.
    #[inline(always)]
    pub(in super::super) fn rank(&self, list: usize, row: usize) -> Option<usize> {
        self.ranking.rank(list, row)
    }

    /// The class of that rank, and its cost.
    #[inline(always)]
    pub(in super::super) fn class(&self, list: usize, order: usize, rank: usize) -> (usize, i32) {
        self.ranking.class(list, order, rank)
    }

    /// Adds pageblock `id` to `row`.
    #[inline(always)]
    pub(in super::super) fn insert(&self, row: usize, id: usize) {
        let leaf = &self.leaves[row * self.shape.leaf + id / 64];
        set_bits(leaf, 1 << (id % 64), self.alone);
        self.raise(row, id / 64);
    }

    /// Sets the bits above leaf word `leaf` of `row`.
    #[inline(always)]
    fn raise(&self, row: usize, leaf: usize) {
        model_fence();
        let summary = &self.summaries[row * self.shape.summary + leaf / 64];
        let bit = 1 << (leaf % 64);
        if summary.load(SeqCst) & bit == 0 {
            set_bits(summary, bit, self.alone);
        }
        model_fence();
        if self.some[row / 64].load(SeqCst) >> (row % 64) & 1 == 0 {
            self.raise_flags(row);
        }
    }

    /// Sets the row's bits above its summary.
    #[cold]
    fn raise_flags(&self, row: usize) {
        set_bits(&self.some[row / 64], 1 << (row % 64), self.alone);
        model_fence();
        self.for_each_rank(row, |word, bit| {
            // Most were never cleared. A CPU that clears one now looks at the summary afterwards.
            if word.load(SeqCst) & bit == 0 {
                set_bits(word, bit, self.alone);
            }
        });
    }

    /// Calls `visit` with the word and the bit of the row in each list that ranks it.
    #[inline(always)]
    fn for_each_rank(&self, row: usize, mut visit: impl FnMut(&AtomicU64, u64)) {
        let mut start = self.ranked_start(0, row / self.shape.classes);
        for rank in self.ranking.ranks(row) {
            if let Some(rank) = rank {
                visit(&self.ranked[start + rank / 64], 1 << (rank % 64));
            }
            start += self.shape.orders * self.shape.flags;
        }
    }

    /// Removes pageblock `id` from `row`.
    #[inline]
    pub(in super::super) fn remove(&self, row: usize, id: usize) {
        let leaf = &self.leaves[row * self.shape.leaf + id / 64];
        clear_bits(leaf, 1 << (id % 64), self.alone);
    }

    #[inline]
    pub(in super::super) fn contains(&self, row: usize, id: usize) -> bool {
        self.leaves[row * self.shape.leaf + id / 64].load(SeqCst) >> (id % 64) & 1 != 0
    }

    /// One word of `row`: the pageblocks `64 * leaf` and on.
    #[inline]
    pub(super) fn leaf(&self, row: usize, leaf: usize) -> u64 {
        self.leaves[row * self.shape.leaf + leaf].load(SeqCst)
    }

    /// Clears the summary bit of a leaf word that was seen to be zero.
    #[cold]
    fn lower(&self, row: usize, leaf: usize) {
        let bit = 1 << (leaf % 64);
        let summary = &self.summaries[row * self.shape.summary + leaf / 64];
        self.tidy(|| {
            clear_bits(summary, bit, self.alone);
            model_fence();
            if self.leaf(row, leaf) != 0 {
                self.raise(row, leaf);
                self.again.fetch_add(1, Release);
            }
        });
    }

    /// Clears the bit in `list` of a row that was seen to be empty, and its bit in `some`. The
    /// other lists' bits stay until a search through them finds nothing either.
    #[cold]
    pub(in super::super) fn lower_flag(&self, list: usize, row: usize) {
        let Some(rank) = self.ranking.rank(list, row) else {
            return;
        };
        let start = self.ranked_start(list, row / self.shape.classes);
        let ranked = &self.ranked[start + rank / 64];
        let summaries = &self.summaries[row * self.shape.summary..][..self.shape.summary];
        self.tidy(|| {
            clear_bits(ranked, 1 << (rank % 64), self.alone);
            clear_bits(&self.some[row / 64], 1 << (row % 64), self.alone);
            model_fence();
            if summaries.iter().any(|summary| summary.load(SeqCst) != 0) {
                self.raise_flags(row);
                self.again.fetch_add(1, Release);
            }
        });
    }

    /// All bits that a search follows.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(in super::super) fn bits(&self) -> impl Iterator<Item = u64> {
        let words = [self.leaves, self.summaries, self.some, self.ranked];
        let words = words.into_iter().flatten();
        words.map(|word| word.load(Relaxed))
    }

    /// Whether I2 holds. Only meaningful while no CPU changes the index.
    pub(in super::super) fn is_consistent(&self) -> bool {
        (0..self.shape.rows()).all(|row| {
            let mut flagged = self.some[row / 64].load(Relaxed) >> (row % 64) & 1 != 0;
            self.for_each_rank(row, |word, bit| {
                flagged &= word.load(Relaxed) & bit != 0;
            });
            (0..self.shape.leaf).all(|leaf| {
                let summary = &self.summaries[row * self.shape.summary + leaf / 64];
                self.leaf(row, leaf) == 0
                    || flagged && summary.load(Relaxed) >> (leaf % 64) & 1 != 0
            })
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "../tests/pageblock/index.rs"]
mod tests;
