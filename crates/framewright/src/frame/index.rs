//! The index of pageblocks: which have a free block of order k and belong to class c.
//!
//! ```text
//!     flags     one bit a row, once per list, at the row's rank: lowest bit = cheapest row
//!       │
//!     summary   one bit for each leaf word of a row that may not be zero
//!       │
//!     leaves    row (k, c): one bit a pageblock
//! ```
//!
//! A *row* is a pair of an order and a class; a pageblock is in one row for each order of which it
//! has a maximal free block. A *list* is a kind of request; it ranks all rows by the policy's cost,
//! once, when the zone is made.
//!
//! # Invariants
//! - **I1** A leaf bit is set if and only if the pageblock, unlocked and not isolated, is of that
//!   class and has a maximal free block of that order.
//! - **I2** Above a leaf bit that is set, the summary bit and all flags are set, except while an
//!   insertion or a search is at work. The opposite does not hold: they are cleared by whoever
//!   searches there and finds nothing, so that a removal costs one atomic operation.
//!
//! # Memory order
//! The inserter writes a level and then reads the next one up; the searcher clears the upper one
//! and then reads the lower one again. At least one must see the other's write, so all of these
//! are `SeqCst`.

use crate::policy::End;
use crate::sync::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    model_fence,
};
use crate::units::Order;

/// Kinds of requests: one for each mobility, and one to spare.
pub(super) const LISTS: usize = 4;
const NO_RANK: u64 = 0xffff;

/// The size of an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    rows: usize,
    orders: usize,
    leaf: usize,
    summary: usize,
    flags: usize,
}

impl Shape {
    pub(super) const fn new(rows: usize, orders: usize, blocks: usize) -> Self {
        let leaf = blocks.div_ceil(64);
        Self {
            rows,
            orders,
            leaf,
            summary: leaf.div_ceil(64),
            flags: rows.div_ceil(64),
        }
    }

    pub(super) const fn words(&self) -> usize {
        let [leaves, summaries, flags, ranks, rows, feasible] = self.parts();
        leaves + summaries + flags + ranks + rows + feasible
    }

    const fn parts(&self) -> [usize; 6] {
        [
            self.rows * self.leaf,
            self.rows * self.summary,
            LISTS * self.flags,
            self.rows,
            self.rows,
            LISTS * self.orders * self.flags,
        ]
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Index<'m> {
    shape: Shape,
    leaves: &'m [AtomicU64],
    summaries: &'m [AtomicU64],
    flags: &'m [AtomicU64],
    /// By row: its rank in each list, 16 bits a list.
    ranks: &'m [AtomicU64],
    /// By rank: the row in each list, 16 bits a list.
    rows: &'m [AtomicU64],
    /// By list and order: the ranks of rows of at least that order.
    feasible: &'m [AtomicU64],
}

impl<'m> Index<'m> {
    /// The index in `words`, which are zero, ranked by `cost(list, row)`; `None` excludes a row
    /// from a list.
    pub(super) fn new(
        shape: Shape,
        words: &'m [AtomicU64],
        cost: impl Fn(usize, usize) -> Option<i32>,
    ) -> Self {
        let mut rest = words;
        let mut cut = |len: usize| {
            let (part, others) = rest.split_at(len);
            rest = others;
            part
        };
        let [leaves, summaries, flags, ranks, rows, feasible] = shape.parts().map(&mut cut);
        let index = Self {
            shape,
            leaves,
            summaries,
            flags,
            ranks,
            rows,
            feasible,
        };
        for list in 0..LISTS {
            index.rank(list, &cost);
        }
        index
    }

    /// Sorts the rows of `list`. The leaves, still unused, serve as scratch memory: one word a row.
    fn rank(&self, list: usize, cost: impl Fn(usize, usize) -> Option<i32>) {
        let mut found = 0;
        for row in 0..self.shape.rows {
            if let Some(cost) = cost(list, row) {
                // Sorts by cost, then by row: cost as an unsigned number with the same order.
                let key = u64::from((cost as u32) ^ (1 << 31)) << 16 | row as u64;
                self.leaves[found].store(key, Relaxed);
                found += 1;
            } else {
                put_part(&self.ranks[row], list, NO_RANK);
            }
        }
        sort(&self.leaves[..found]);
        let rows_per_order = self.shape.rows / self.shape.orders;
        for rank in 0..found {
            let row = (self.leaves[rank].load(Relaxed) & 0xffff) as usize;
            put_part(&self.ranks[row], list, rank as u64);
            put_part(&self.rows[rank], list, row as u64);
            for order in 0..=row / rows_per_order {
                let word = &self.feasible[self.feasible_start(list, order) + rank / 64];
                word.store(word.load(Relaxed) | 1 << (rank % 64), Relaxed);
            }
            self.leaves[rank].store(0, Relaxed);
        }
    }

    #[inline(always)]
    fn feasible_start(&self, list: usize, order: usize) -> usize {
        (list * self.shape.orders + order) * self.shape.flags
    }

    /// Adds pageblock `id` to `row`.
    #[inline]
    pub(super) fn insert(&self, row: usize, id: usize) {
        self.leaves[row * self.shape.leaf + id / 64].fetch_or(1 << (id % 64), SeqCst);
        self.raise(row, id / 64);
    }

    /// Makes the bits above leaf word `leaf` of `row` set.
    #[inline]
    fn raise(&self, row: usize, leaf: usize) {
        model_fence();
        let summary = &self.summaries[row * self.shape.summary + leaf / 64];
        let bit = 1 << (leaf % 64);
        if summary.load(SeqCst) & bit == 0 {
            summary.fetch_or(bit, SeqCst);
        }
        model_fence();
        let ranks = self.ranks[row].load(Relaxed);
        for list in 0..LISTS {
            let rank = (ranks >> (16 * list)) & 0xffff;
            if rank != NO_RANK {
                let flag = &self.flags[list * self.shape.flags + rank as usize / 64];
                let bit = 1 << (rank % 64);
                if flag.load(SeqCst) & bit == 0 {
                    flag.fetch_or(bit, SeqCst);
                }
            }
        }
    }

    /// Removes pageblock `id` from `row`.
    #[inline]
    pub(super) fn remove(&self, row: usize, id: usize) {
        self.leaves[row * self.shape.leaf + id / 64].fetch_and(!(1 << (id % 64)), SeqCst);
    }

    #[inline]
    pub(super) fn contains(&self, row: usize, id: usize) -> bool {
        self.leaves[row * self.shape.leaf + id / 64].load(SeqCst) >> (id % 64) & 1 != 0
    }

    /// One word of `row`: the pageblocks `64 * leaf` and on.
    #[inline]
    pub(super) fn leaf(&self, row: usize, leaf: usize) -> u64 {
        self.leaves[row * self.shape.leaf + leaf].load(SeqCst)
    }

    /// The cheapest row of `list`, of those with at least `order` and from rank `from` on, that
    /// may not be empty: its rank and itself.
    #[inline]
    pub(super) fn cheapest(
        &self,
        list: usize,
        order: Order,
        from: usize,
    ) -> Option<(usize, usize)> {
        let flags = &self.flags[list * self.shape.flags..][..self.shape.flags];
        let feasible = &self.feasible[self.feasible_start(list, order.index())..];
        let mut mask = !0 << (from % 64);
        for word in from / 64..flags.len() {
            let bits = flags[word].load(SeqCst) & feasible[word].load(Relaxed) & mask;
            if bits != 0 {
                let rank = word * 64 + bits.trailing_zeros() as usize;
                let row = self.rows[rank].load(Relaxed) >> (16 * list) & 0xffff;
                return Some((rank, row as usize));
            }
            mask = !0;
        }
        None
    }

    /// The pageblock of `row` nearest to `end`, of those beyond `from` if there is a `from`.
    ///
    /// Clears what claims that there is one and is wrong.
    #[inline]
    pub(super) fn find(&self, row: usize, end: End, from: Option<usize>) -> Option<usize> {
        let summaries = &self.summaries[row * self.shape.summary..][..self.shape.summary];
        let all = summaries.len() * 4096;
        // The range still to look at, half-open.
        let (mut low, mut high) = match (from, end) {
            (None, _) => (0, all),
            (Some(from), End::Lowest) => (from + 1, all),
            (Some(from), End::Highest) => (0, from),
        };
        while low < high {
            let at = match end {
                End::Lowest => low,
                End::Highest => high - 1,
            };
            let (top, leaf) = (at / 4096, at / 64);
            let bits = summaries[top].load(SeqCst);
            let near = match end {
                End::Lowest => bits & (!0 << (leaf % 64)),
                End::Highest => bits & (!0 >> (63 - leaf % 64)),
            };
            let found = match end {
                _ if near == 0 => None,
                End::Lowest => Some(near.trailing_zeros() as usize),
                End::Highest => Some(near.ilog2() as usize),
            };
            let Some(found) = found else {
                match end {
                    End::Lowest => low = (top + 1) * 4096,
                    End::Highest => high = top * 4096,
                }
                continue;
            };
            let found = top * 64 + found;
            let word = self.leaf(row, found);
            let ids = word & within(found * 64, low, high);
            if ids != 0 {
                return Some(match end {
                    End::Lowest => found * 64 + ids.trailing_zeros() as usize,
                    End::Highest => found * 64 + ids.ilog2() as usize,
                });
            }
            if word == 0 {
                self.lower(row, found);
            }
            match end {
                End::Lowest => low = (found + 1) * 64,
                End::Highest => high = found * 64,
            }
        }
        if from.is_none() {
            self.lower_flags(row);
        }
        None
    }

    /// Clears the summary bit of a leaf word that was seen to be zero.
    #[cold]
    fn lower(&self, row: usize, leaf: usize) {
        let bit = 1 << (leaf % 64);
        self.summaries[row * self.shape.summary + leaf / 64].fetch_and(!bit, SeqCst);
        model_fence();
        if self.leaf(row, leaf) != 0 {
            self.raise(row, leaf);
        }
    }

    /// Clears the flags of a row that was seen to be empty.
    #[cold]
    fn lower_flags(&self, row: usize) {
        let ranks = self.ranks[row].load(Relaxed);
        for list in 0..LISTS {
            let rank = (ranks >> (16 * list)) & 0xffff;
            if rank != NO_RANK {
                let flag = &self.flags[list * self.shape.flags + rank as usize / 64];
                flag.fetch_and(!(1 << (rank % 64)), SeqCst);
            }
        }
        model_fence();
        let summaries = &self.summaries[row * self.shape.summary..][..self.shape.summary];
        for (top, summary) in summaries.iter().enumerate() {
            let bits = summary.load(SeqCst);
            if bits != 0 {
                self.raise(row, top * 64 + bits.trailing_zeros() as usize);
            }
        }
    }

    /// Whether I2 holds. Only meaningful while nobody changes the index.
    pub(super) fn is_consistent(&self) -> bool {
        (0..self.shape.rows).all(|row| {
            let ranks = self.ranks[row].load(Relaxed);
            let flagged = (0..LISTS).all(|list| {
                let rank = ((ranks >> (16 * list)) & 0xffff) as usize;
                rank as u64 == NO_RANK
                    || self.flags[list * self.shape.flags + rank / 64].load(Relaxed) >> (rank % 64)
                        & 1
                        != 0
            });
            (0..self.shape.leaf).all(|leaf| {
                let summary = &self.summaries[row * self.shape.summary + leaf / 64];
                self.leaf(row, leaf) == 0
                    || flagged && summary.load(Relaxed) >> (leaf % 64) & 1 != 0
            })
        })
    }
}

/// The bits of the word that starts at `start` which lie in `low..high`.
#[inline(always)]
fn within(start: usize, low: usize, high: usize) -> u64 {
    let mut mask = !0;
    if low > start {
        mask &= !0 << (low - start);
    }
    if high < start + 64 {
        mask &= !0 >> (start + 64 - high);
    }
    mask
}

/// Sets the 16 bits of `list`, which are zero, in `word`.
fn put_part(word: &AtomicU64, list: usize, value: u64) {
    word.store(word.load(Relaxed) | value << (16 * list), Relaxed);
}

/// Sorts ascending, in place: Shell's sort with Ciura's gaps (2001).
fn sort(words: &[AtomicU64]) {
    for gap in [1750, 701, 301, 132, 57, 23, 10, 4, 1] {
        for start in gap..words.len() {
            let key = words[start].load(Relaxed);
            let mut at = start;
            while at >= gap && words[at - gap].load(Relaxed) > key {
                words[at].store(words[at - gap].load(Relaxed), Relaxed);
                at -= gap;
            }
            words[at].store(key, Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::raw::atomic_words;
    use std::collections::BTreeSet;
    use std::vec;

    #[test]
    fn the_index_finds_what_a_set_of_triples_holds_from_either_end() {
        let (rows, orders, blocks) = (12, 3, 5000);
        let shape = Shape::new(rows, orders, blocks);
        let mut memory = vec![0; shape.words()];
        // List 0 ranks by falling row, list 1 excludes odd rows, the others rank by row.
        let index = Index::new(shape, atomic_words(&mut memory), |list, row| match list {
            0 => Some(-(row as i32)),
            1 => (row % 2 == 0).then_some(row as i32),
            _ => Some(row as i32),
        });
        let mut model = BTreeSet::new();
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let row = (state >> 33) as usize % rows;
            let id = (state >> 40) as usize % blocks;
            if state >> 60 < 7 {
                if model.insert((row, id)) {
                    index.insert(row, id);
                }
            } else if model.remove(&(row, id)) {
                index.remove(row, id);
            }
            if state >> 20 & 63 == 0 && !model.is_empty() {
                model.retain(|&(r, i)| {
                    let keep = r == row;
                    if !keep {
                        index.remove(r, i);
                    }
                    keep
                });
            }
            let of_row = |row| model.range((row, 0)..(row, blocks)).map(|&(_, id)| id);
            let beyond = |f: &dyn Fn(usize) -> bool| of_row(row).filter(|&i| f(i)).min();
            assert_eq!(index.find(row, End::Lowest, None), of_row(row).next());
            assert_eq!(index.find(row, End::Highest, None), of_row(row).next_back());
            assert_eq!(index.find(row, End::Lowest, Some(id)), beyond(&|i| i > id));
            assert_eq!(
                index.find(row, End::Highest, Some(id)),
                of_row(row).filter(|&i| i < id).max()
            );
            assert!(index.is_consistent(), "I2");
            for (list, order) in [(0, 0), (1, 1), (2, 2)] {
                let order = Order::new(order).unwrap();
                let feasible = |row: &usize| row / (rows / orders) >= order.index();
                let expected = model.iter().map(|&(row, _)| row).filter(feasible);
                let expected = match list {
                    0 => expected.max(),
                    1 => expected.filter(|row| row % 2 == 0).min(),
                    _ => expected.min(),
                };
                let mut from = 0;
                let found = loop {
                    let Some((rank, row)) = index.cheapest(list, order, from) else {
                        break None;
                    };
                    if index.find(row, End::Lowest, None).is_some() {
                        break Some(row);
                    }
                    from = rank;
                };
                assert_eq!(found, expected, "list {list}");
            }
        }
    }
}
