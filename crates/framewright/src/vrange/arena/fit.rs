//! Whether a request fits into a gap, or perhaps into one of the gaps below a node of the tree.
//!
//! A node knows the *reach* of its gaps, three maxima: the longest gap, the largest aligned block,
//! and the roundest page. A request knows the least reach that could serve it. A search passes by
//! each part of the tree with less: so it misses no gap that fits, and it enters a part without one
//! only if the request has an alignment that is not its length.

use super::super::areas::PAGES_MAX;
use core::fmt;

/// Where a request lay in the gap it was cut from \[the document's fit types\].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Fit {
    /// It took the whole gap (FL).
    Full,
    /// It began where the gap began; the rest is behind it (LE).
    LeftEdge,
    /// It ended where the gap ended; the rest is before it (RE).
    RightEdge,
    /// It touched neither edge; two gaps remain (NE).
    NoEdge,
}

impl Fit {
    /// The fit of `pages` pages from `start` in the gap of `gap_pages` from `gap`.
    #[inline]
    #[must_use]
    pub(super) const fn of(gap: u32, gap_pages: u32, start: u32, pages: u32) -> Self {
        match (start == gap, start + pages == gap + gap_pages) {
            (true, true) => Self::Full,
            (true, false) => Self::LeftEdge,
            (false, true) => Self::RightEdge,
            (false, false) => Self::NoEdge,
        }
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "FL",
            Self::LeftEdge => "LE",
            Self::RightEdge => "RE",
            Self::NoEdge => "NE",
        })
    }
}

/// What the gaps below a node can serve: three maxima, each over all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reach {
    /// The longest gap in pages.
    pub(super) longest: u32,
    /// The order of the largest naturally aligned block in a gap.
    ///
    /// A gap of n pages, 2^f <= n < 2^(f + 1), holds an aligned block of order f - 1 wherever it
    /// lies, and none above f. So beside the longest gap this takes one bit.
    pub(super) order: u8,
    /// The largest k such that a multiple of 2^k pages lies in a gap, at most [`Self::POINT_MAX`].
    pub(super) point: u8,
}

impl Reach {
    /// Four bits could hold 15. But the roundest page of many gaps is the only one of its kind, and
    /// each time its gap comes and goes all nodes above must be updated. Alignments above 4 MiB are
    /// rare, and so are pages that have them.
    pub(super) const POINT_MAX: u8 = 10;

    /// The reach of no gap.
    pub(super) const NONE: Self = Self {
        longest: 0,
        order: 0,
        point: 0,
    };

    /// The reach of one gap: `pages` pages from the absolute page number `first`.
    #[inline(always)]
    pub(super) const fn of(first: u64, pages: u32) -> Self {
        let last = first + (pages as u64 - 1);
        // Counting up to `last` from before `first` changes bits up to this one, so the range
        // contains a number that ends in that many zeroes. Page 0 is a multiple of everything.
        let changed = first.wrapping_sub(1) ^ last;
        let point = 63 - changed.leading_zeros();
        let at = last >> point << point;
        // On both sides of that number, blocks of any order are aligned.
        let (before, behind) = (at - first, last - at + 1);
        let wider = if before > behind { before } else { behind };
        Self {
            longest: pages,
            order: wider.ilog2() as u8,
            point: if point > Self::POINT_MAX as u32 {
                Self::POINT_MAX
            } else {
                point as u8
            },
        }
    }

    #[inline(always)]
    pub(super) const fn or(self, other: Self) -> Self {
        const fn max(a: u8, b: u8) -> u8 {
            if a > b { a } else { b }
        }
        Self {
            longest: if self.longest > other.longest {
                self.longest
            } else {
                other.longest
            },
            order: max(self.order, other.order),
            point: max(self.point, other.point),
        }
    }

    /// Whether it is at least as large as `other` in each respect.
    #[inline(always)]
    pub(super) const fn covers(self, other: Self) -> bool {
        self.longest >= other.longest && self.order >= other.order && self.point >= other.point
    }

    /// Whether a part's change from `old` to `new` does not change this whole: where the part
    /// shrank, it did not make the maximum.
    #[inline(always)]
    pub(super) const fn hides(self, old: Self, new: Self) -> bool {
        (new.longest == old.longest || (self.longest > old.longest && self.longest >= new.longest))
            && (new.order == old.order || (self.order > old.order && self.order >= new.order))
            && (new.point == old.point || (self.point > old.point && self.point >= new.point))
    }
}

/// A change somewhere below: the reach of a subtree before and after.
#[derive(Clone, Copy)]
pub(super) struct ReachChange {
    pub(super) old: Reach,
    pub(super) new: Reach,
}

impl ReachChange {
    #[inline(always)]
    pub(super) fn is_of_the_point_only(&self) -> bool {
        self.old.longest == self.new.longest && self.old.order == self.new.order
    }
}

/// A request, in the form that the tree searches for.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct WantedGap {
    pages: u32,
    /// The alignment less one: of the absolute page number.
    mask: u64,
    /// How many pages of the range come before the one that is aligned.
    before: u32,
    /// The least reach of a gap that serves it.
    least: Reach,
}

impl WantedGap {
    /// `None` if the request makes no sense: no pages, or an alignment that is no power of two.
    #[inline]
    pub(in super::super) const fn new(pages: u32, align_pages: u64) -> Option<Self> {
        Self::aligned_behind(0, pages, align_pages)
    }

    /// The same for a range of which not the first page is aligned, but the one behind the first `before` ones.
    #[inline]
    pub(in super::super) const fn aligned_behind(
        before: u32,
        pages: u32,
        align_pages: u64,
    ) -> Option<Self> {
        if pages <= before || pages > PAGES_MAX || !align_pages.is_power_of_two() {
            return None;
        }
        let align = align_pages.trailing_zeros() as u8;
        Some(Self {
            pages,
            mask: align_pages - 1,
            before,
            least: Reach {
                longest: pages,
                // As long as its alignment, so its gap contains a whole aligned block.
                order: if (pages - before) as u64 >= align_pages {
                    align
                } else {
                    0
                },
                point: if align > Reach::POINT_MAX {
                    Reach::POINT_MAX
                } else {
                    align
                },
            },
        })
    }

    #[inline(always)]
    pub(in super::super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Whether any page is aligned enough.
    #[inline(always)]
    pub(super) const fn is_unaligned(&self) -> bool {
        self.mask == 0
    }

    /// Whether gaps with this reach may serve it. If not, none of them does. Without an alignment,
    /// or with one that equals the length, the opposite holds as well.
    #[inline(always)]
    pub(super) const fn may_lie_in(&self, reach: Reach) -> bool {
        reach.covers(self.least)
    }

    /// The first page of the window at or after `page` where the range may start, if the number range has one.
    #[inline(always)]
    pub(super) const fn aligned(&self, base: u64, page: u32) -> Option<u64> {
        let skip = (base + page as u64 + self.before as u64).wrapping_neg() & self.mask;
        (page as u64).checked_add(skip)
    }

    /// Where it starts in the gap of `pages` pages from `gap`, if it fits there.
    #[inline(always)]
    pub(super) const fn start_in(&self, base: u64, gap: u32, pages: u32) -> Option<u32> {
        match self.aligned(base, gap) {
            // No sum of two page numbers and lengths comes near the end of 64 bits.
            Some(start)
                if start < PAGES_MAX as u64
                    && start + self.pages as u64 <= gap as u64 + pages as u64 =>
            {
                Some(start as u32)
            }
            _ => None,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Computes the reach by looking at every page and every block.
    fn reach_by_looking(first: u64, pages: u32) -> Reach {
        let end = first + u64::from(pages);
        let fits = |order: u32| {
            let block = 1u64 << order;
            first.next_multiple_of(block) + block <= end
        };
        let point = (first..end).map(u64::trailing_zeros).max().unwrap();
        Reach {
            longest: pages,
            order: (0..31).rev().find(|&order| fits(order)).unwrap() as u8,
            point: point.min(u32::from(Reach::POINT_MAX)) as u8,
        }
    }

    #[test]
    fn the_reach_of_a_gap_is_what_its_pages_show() {
        let bases = [0, 1, 1000, 1024, 1 << 15, (1 << 20) - 3, (1 << 51) - 70];
        let most = if cfg!(miri) { 4 } else { 70 };
        for base in bases {
            for first in base..base + most {
                for pages in 1..=most as u32 {
                    let reach = Reach::of(first, pages);
                    assert_eq!(reach, reach_by_looking(first, pages), "{first} {pages}");
                    let least = pages.ilog2() as u8;
                    assert!(reach.order == least || reach.order + 1 == least);
                }
            }
        }
    }

    #[test]
    fn a_request_that_fits_is_never_ruled_out() {
        let base = 5;
        let most = if cfg!(miri) { 4 } else { 40 };
        for gap in 0..most {
            for len in 1..=most {
                for pages in 1..=len {
                    for align in 0..8 {
                        let wanted = WantedGap::new(pages, 1 << align).unwrap();
                        let start = (gap..=gap + len - pages)
                            .find(|&start| (base + u64::from(start)) % (1 << align) == 0);
                        assert_eq!(wanted.start_in(base, gap, len), start);
                        let may = wanted.may_lie_in(Reach::of(base + u64::from(gap), len));
                        assert!(may || start.is_none());
                        if align == 0 || 1 << align == pages {
                            assert_eq!(may, start.is_some(), "exact");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_none() {
        assert!(WantedGap::new(0, 1).is_none());
        assert!(WantedGap::new(1, 0).is_none());
        assert!(WantedGap::new(1, 3).is_none());
        assert!(WantedGap::new(PAGES_MAX + 1, 1).is_none());
        let far = WantedGap::new(1, 1 << 63).unwrap();
        assert_eq!(far.start_in(1, 0, PAGES_MAX), None);
        assert_eq!(far.start_in(0, 0, 1), Some(0));
    }

    #[test]
    fn a_change_is_hidden_where_another_gap_makes_the_maximum() {
        let reach = |longest, order, point| Reach {
            longest,
            order,
            point,
        };
        let whole = reach(9, 3, 5);
        assert!(whole.hides(reach(8, 3, 4), reach(2, 3, 1)));
        assert!(!whole.hides(reach(9, 3, 4), reach(2, 3, 1)));
        assert!(!whole.hides(reach(8, 3, 4), reach(2, 2, 1)));
        assert!(!whole.hides(reach(8, 3, 4), reach(10, 3, 4)));
        assert!(whole.covers(whole) && !whole.covers(reach(9, 3, 6)));
        assert_eq!(reach(1, 2, 3).or(reach(3, 2, 1)), reach(3, 2, 3));
    }

    #[test]
    fn fits_have_the_documents_names() {
        let names = [(0, 4), (0, 3), (1, 3), (1, 2)]
            .map(|(start, pages)| Fit::of(10, 4, 10 + start, pages))
            .map(|fit| std::format!("{fit}"));
        assert_eq!(names, ["FL", "LE", "RE", "NE"]);
    }
}
