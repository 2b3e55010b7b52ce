//! Looks at the index: what a search asks, and what it tidies up on its way.

use super::{BlockIndex, REGION};
use crate::policy::End;
use crate::slots::ones_at;
use crate::sync::Ordering::SeqCst;

/// What a search does about wrong bits of the summary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrongSummary {
    /// It leaves them: the searcher may not write them (I3).
    Stay,
    /// It leaves the first, and clears those after it.
    FirstStays,
    Cleared,
}

/// How many empty rows a search passes by before it tidies up. Where few pageblocks have room, a pageblock in use goes
/// from row to row, and tidying up behind it would cost more than finding the row empty once more.
const PASSED_BY: usize = 1;

/// So many rows that were left behind empty cost less than a search.
const LOOKS: usize = 8;

/// What a search does with the rows that it finds empty.
#[derive(Clone, Copy)]
pub(in super::super::super) struct Passing {
    /// Whether it may not write: it is neither in a busy seat nor has stopped all CPUs (I3).
    is_outside: bool,
    /// How many it passed by.
    rows: usize,
}

impl Passing {
    /// Of a search in a busy seat, or one by the CPU that stopped all others.
    pub(in super::super::super) const SEATED: Self = Self {
        is_outside: false,
        rows: 0,
    };
    /// Of any other search.
    pub(in super::super::super) const OUTSIDE: Self = Self {
        is_outside: true,
        rows: 0,
    };

    /// Whether it tidies up.
    #[inline(always)]
    pub(in super::super::super) const fn is_tidy(self) -> bool {
        !self.is_outside && self.rows >= PASSED_BY
    }
}

/// Where a search finds a free block.
#[derive(Clone, Copy)]
pub(in super::super::super) struct FoundRow {
    pub(in super::super::super) rank: usize,
    pub(in super::super::super) class: usize,
    /// The policy's cost.
    pub(in super::super::super) cost: i32,
    /// The row's pageblock nearest to the end from which the search looks.
    pub(in super::super::super) id: usize,
}

impl BlockIndex<'_> {
    /// The cheapest class of `list` that has a pageblock with a free block of `order`, from rank `from` on. Passes by the
    /// rows that are empty.
    #[inline(always)]
    pub(in super::super::super) fn first(
        &self,
        (list, order): (usize, usize),
        from: usize,
        end: End,
        passing: &mut Passing,
    ) -> Option<FoundRow> {
        let start = self.ranked_start(list, order);
        let ranked = &self.ranked[start..start + self.shape.flags];
        let mut mask = !0 << (from % 64);
        for (at, word) in ranked.iter().enumerate().skip(from / 64) {
            let mut bits = word.load(SeqCst) & mask;
            mask = !0;
            while bits != 0 {
                let rank = at * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (class, cost) = self.ranking.class(list, order, rank);
                let row = order * self.shape.classes + class;
                let id = match self.shape.summary {
                    1 => self.find_in_word(row, end, *passing),
                    _ => self.find_first(row, end, *passing),
                };
                if let Some(id) = id {
                    return Some(FoundRow {
                        rank,
                        class,
                        cost,
                        id,
                    });
                }
                if passing.is_tidy() {
                    self.lower_flag(list, row);
                }
                passing.rows += 1;
            }
        }
        None
    }

    /// The pageblock of `row` nearest to `end`, where a summary is one word.
    #[inline(always)]
    fn find_in_word(&self, row: usize, end: End, passing: Passing) -> Option<usize> {
        let all = self.summaries[row].load(SeqCst);
        let mut bits = all;
        let found = loop {
            let Some(leaf) = nearest_bit(bits, end) else {
                break None;
            };
            if let Some(id) = nearest_bit(self.leaf(row, leaf), end) {
                break Some(leaf * 64 + id);
            }
            bits &= !(1 << leaf);
        };
        let mut wrong = all ^ bits;
        if wrong != 0 && !passing.is_outside {
            if !passing.is_tidy()
                && let Some(first) = nearest_bit(wrong, end)
            {
                wrong &= !(1 << first);
            }
            if wrong != 0 {
                self.lower_bits(row, wrong);
            }
        }
        found
    }

    /// Clears the bits `wrong` of a summary of one word, below which there was no pageblock.
    #[cold]
    fn lower_bits(&self, row: usize, mut wrong: u64) {
        while let Some(leaf) = nearest_bit(wrong, End::Lowest) {
            wrong &= wrong - 1;
            self.lower(row, leaf);
        }
    }

    /// The same for a summary of any length.
    #[cold]
    fn find_first(&self, row: usize, end: End, passing: Passing) -> Option<usize> {
        let wrong = match (passing.is_outside, passing.is_tidy()) {
            (true, _) => WrongSummary::Stay,
            (false, false) => WrongSummary::FirstStays,
            (false, true) => WrongSummary::Cleared,
        };
        self.find_at_end(row, end)
            .or_else(|| self.find_on(row, end, None, wrong))
    }

    /// The cheapest class of `list` in which there may be a free block of `order`, from rank `from`
    /// on: its rank, its number and its cost.
    #[inline(always)]
    pub(in super::super::super) fn cheapest(
        &self,
        list: usize,
        order: usize,
        from: usize,
    ) -> Option<(usize, usize, i32)> {
        let start = self.ranked_start(list, order);
        let ranked = &self.ranked[start..start + self.shape.flags];
        let mut at = from / 64;
        let mut bits = ranked.get(at)?.load(SeqCst) & (!0 << (from % 64));
        while bits == 0 {
            at += 1;
            bits = ranked.get(at)?.load(SeqCst);
        }
        let rank = at * 64 + bits.trailing_zeros() as usize;
        let (class, cost) = self.ranking.class(list, order, rank);
        Some((rank, class, cost))
    }

    /// Whether `list` may have a pageblock with a free block of an order from `from` on, whatever its class: it looks for
    /// one for a while. Writes nothing. `false` is what a search through the list would have found meanwhile.
    #[inline(never)]
    pub(in super::super::super) fn may_have(&self, list: usize, from: usize) -> bool {
        let mut looks = LOOKS;
        for order in from..self.shape.orders {
            let start = self.ranked_start(list, order);
            let ranked = &self.ranked[start..start + self.shape.flags];
            for (at, word) in ranked.iter().enumerate() {
                // Searches through other lists clear bits of other words. One through this list may clear a bit for a moment,
                // and another search would miss that row, too.
                let mut bits = word.load(SeqCst);
                while bits != 0 {
                    let rank = at * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let (class, _) = self.ranking.class(list, order, rank);
                    if looks == 0 {
                        return true;
                    }
                    let row = order * self.shape.classes + class;
                    if self.peek(row, End::Lowest, None).is_some() {
                        return true;
                    }
                    looks -= 1;
                }
            }
        }
        false
    }

    /// What the cheapest class of `list` for `order` costs, whether or not it has a block.
    #[inline(always)]
    pub(in super::super::super) fn least_cost(&self, list: usize, order: usize) -> i32 {
        self.ranking.least_cost(list, order)
    }

    /// The pageblock of `row` nearest to `end`, beyond `from` if there is a `from`.
    ///
    /// Clears wrong bits of the summary. Without `tidy` it may leave one: where a pageblock comes
    /// and goes, clearing and setting cost more.
    #[inline(always)]
    pub(in super::super::super) fn find(
        &self,
        row: usize,
        end: End,
        from: Option<usize>,
        tidy: bool,
    ) -> Option<usize> {
        if from.is_none() {
            let found = self.find_at_end(row, end);
            if found.is_some() {
                return found;
            }
            let summary = &self.summaries[row * self.shape.summary];
            if self.shape.summary == 1 && summary.load(SeqCst) == 0 {
                return None;
            }
        }
        let wrong = if tidy {
            WrongSummary::Cleared
        } else {
            WrongSummary::FirstStays
        };
        self.find_on(row, end, from, wrong)
    }

    /// The same for a caller that is neither in a busy seat nor has stopped all CPUs: writes
    /// nothing (I3).
    #[inline]
    pub(in super::super::super) fn peek(
        &self,
        row: usize,
        end: End,
        from: Option<usize>,
    ) -> Option<usize> {
        self.find_on(row, end, from, WrongSummary::Stay)
    }

    /// The pageblock of `row` nearest to `end`, if the first look finds it, as it nearly always does.
    #[inline(always)]
    pub(in super::super::super) fn find_at_end(&self, row: usize, end: End) -> Option<usize> {
        let nearest = match end {
            End::Lowest => 0,
            End::Highest => self.shape.summary - 1,
        };
        let bits = self.summaries[row * self.shape.summary + nearest].load(SeqCst);
        let leaf = nearest * 64 + nearest_bit(bits, end)?;
        Some(leaf * 64 + nearest_bit(self.leaf(row, leaf), end)?)
    }

    /// The same, in one [`REGION`] only.
    #[inline(always)]
    pub(in super::super) fn find_in_region(
        &self,
        row: usize,
        end: End,
        region: usize,
    ) -> Option<usize> {
        let first = region * (REGION / 64);
        let summaries = &self.summaries[row * self.shape.summary..][..self.shape.summary];
        let bits = summaries.get(first / 64)?.load(SeqCst) >> (first % 64);
        let leaf = first + nearest_bit(bits & !(!0 << (REGION / 64)), end)?;
        Some(leaf * 64 + nearest_bit(self.leaf(row, leaf), end)?)
    }

    /// The full search of [`find`](Self::find).
    fn find_on(
        &self,
        row: usize,
        end: End,
        from: Option<usize>,
        mut wrong: WrongSummary,
    ) -> Option<usize> {
        let summaries = &self.summaries[row * self.shape.summary..][..self.shape.summary];
        // The first pageblock that it may be, and the bits of the words above that one which are not behind it.
        let start = match (from, end) {
            (None, End::Lowest) => 0,
            (None, End::Highest) => summaries.len() * 4096 - 1,
            (Some(from), End::Lowest) => from + 1,
            (Some(from), End::Highest) => from.checked_sub(1)?,
        };
        let (mut top, mut near) = (start / 4096, beyond(start / 64, end));
        while let Some(summary) = summaries.get(top) {
            let mut bits = summary.load(SeqCst) & near;
            near = !0;
            while let Some(found) = nearest_bit(bits, end) {
                bits &= !(1 << found);
                let found = top * 64 + found;
                let word = self.leaf(row, found);
                let ids = match found == start / 64 {
                    true => word & beyond(start, end),
                    false => word,
                };
                if let Some(nearest) = nearest_bit(ids, end) {
                    return Some(found * 64 + nearest);
                }
                if word == 0 {
                    match wrong {
                        WrongSummary::Stay => {}
                        WrongSummary::FirstStays => wrong = WrongSummary::Cleared,
                        WrongSummary::Cleared => self.lower(row, found),
                    }
                }
            }
            top = match end {
                End::Lowest => top + 1,
                End::Highest => top.checked_sub(1)?,
            };
        }
        None
    }
}

/// The set bit nearest to `end`.
#[inline(always)]
const fn nearest_bit(bits: u64, end: End) -> Option<usize> {
    if bits == 0 {
        return None;
    }
    Some(match end {
        End::Lowest => bits.trailing_zeros() as usize,
        End::Highest => bits.ilog2() as usize,
    })
}

/// The bits of a word from bit `at % 64` on, as seen from `end`.
#[inline(always)]
const fn beyond(at: usize, end: End) -> u64 {
    match end {
        End::Lowest => !0 << (at % 64),
        End::Highest => ones_at(0, at as u32 % 64 + 1),
    }
}
