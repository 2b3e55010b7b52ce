//! What each kind of request would pay for a free block, by the block's order and its pageblock's
//! class.
//!
//! A *list* is a kind of request. For each order it ranks the classes by the policy's cost; classes
//! of equal cost, by their number. The policy is asked once, when the zone is made, and no word
//! changes after that. So a search of the [index](super::index) compares ranks instead of costs, and
//! every CPU reads these words without any order among them.
//!
//! A word holds 16 bits for each list.

use crate::policy::LISTS;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The rank of a class that the list leaves out.
const NO_RANK: u64 = 0xffff;
const _: () = assert!(LISTS <= 4, "a word holds four ranks of 16 bits");

#[derive(Clone, Copy, Debug)]
pub(super) struct Ranking<'m> {
    /// How many classes there are.
    classes: usize,
    /// By order and class: the class's rank in each list.
    rank_of: &'m [AtomicU64],
    /// By order and rank: the class in each list, and what that class costs in each.
    at_rank: &'m [[AtomicU64; 2]],
    /// By order: the cost of the cheapest class in each list, side by side, because a search looks at all orders.
    least: &'m [AtomicU64],
}

impl<'m> Ranking<'m> {
    /// The ranking by `cost(list, order, class)`; where that is `None`, the list leaves out the
    /// class. `rank_of` has a word for each order and class, `at_rank` two, `least` one for each order. `scratch` has one for
    /// each class; it is zero before and after.
    pub(super) fn new(
        classes: usize,
        rank_of: &'m [AtomicU64],
        at_rank: &'m [AtomicU64],
        least: &'m [AtomicU64],
        scratch: &[AtomicU64],
        cost: impl Fn(usize, usize, usize) -> Option<i32>,
    ) -> Self {
        let ranking = Self {
            classes,
            rank_of,
            at_rank: at_rank.as_chunks().0,
            least,
        };
        for list in 0..LISTS {
            for order in 0..rank_of.len() / classes {
                ranking.sort_classes(list, order, scratch, |class| cost(list, order, class));
            }
        }
        ranking
    }

    /// Sorts the classes of `list` for `order`.
    fn sort_classes(
        &self,
        list: usize,
        order: usize,
        scratch: &[AtomicU64],
        cost: impl Fn(usize) -> Option<i32>,
    ) {
        let start = order * self.classes;
        let mut found = 0;
        for class in 0..self.classes {
            if let Some(cost) = cost(class) {
                debug_assert!(i16::try_from(cost).is_ok(), "a policy's cost has 16 bits");
                // Sorts by cost, then by class: cost as an unsigned number with the same order.
                let key = u64::from((cost as u32) ^ (1 << 31)) << 16 | class as u64;
                scratch[found].store(key, Relaxed);
                found += 1;
            } else {
                put_part(&self.rank_of[start + class], list, NO_RANK);
            }
        }
        let found = &scratch[..found];
        sort(found);
        if let Some(cheapest) = found.first() {
            let cost = (cheapest.load(Relaxed) >> 16) as u32 ^ (1 << 31);
            put_part(&self.least[order], list, u64::from(cost as u16));
        }
        for (rank, word) in found.iter().enumerate() {
            let key = word.load(Relaxed);
            let class = (key & 0xffff) as usize;
            let cost = (key >> 16) as u32 ^ (1 << 31);
            let [class_at, cost_at] = &self.at_rank[start + rank];
            put_part(cost_at, list, u64::from(cost as u16));
            put_part(&self.rank_of[start + class], list, rank as u64);
            put_part(class_at, list, class as u64);
            word.store(0, Relaxed);
        }
    }

    /// The rank of `row`, an order and a class, in each list, or none where the list leaves it out.
    #[inline(always)]
    pub(super) fn ranks(&self, row: usize) -> [Option<usize>; LISTS] {
        let ranks = self.rank_of[row].load(Relaxed);
        core::array::from_fn(|list| rank_in(ranks, list))
    }

    /// The rank of `row` in `list`.
    #[inline(always)]
    pub(super) fn rank(&self, list: usize, row: usize) -> Option<usize> {
        rank_in(self.rank_of[row].load(Relaxed), list)
    }

    /// The class of that rank, and its cost.
    #[inline(always)]
    pub(super) fn class(&self, list: usize, order: usize, rank: usize) -> (usize, i32) {
        let [class_at, cost_at] = &self.at_rank[order * self.classes + rank];
        let class = class_at.load(Relaxed) >> (16 * list) & 0xffff;
        let cost = (cost_at.load(Relaxed) >> (16 * list)) as i16;
        (class as usize, i32::from(cost))
    }

    /// The cost of the cheapest class.
    #[inline(always)]
    pub(super) fn least_cost(&self, list: usize, order: usize) -> i32 {
        i32::from((self.least[order].load(Relaxed) >> (16 * list)) as i16)
    }
}

/// The rank in `list` that a word of `rank_of` holds.
#[inline(always)]
const fn rank_in(ranks: u64, list: usize) -> Option<usize> {
    match ranks >> (16 * list) & 0xffff {
        NO_RANK => None,
        rank => Some(rank as usize),
    }
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
