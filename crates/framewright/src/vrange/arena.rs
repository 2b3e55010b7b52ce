//! The arena: what is free of a window and belongs to nobody, as gaps in a tree.

use super::fit::{Fit, Wanted};
use super::table::{PAGES_MAX, Table};
use super::tree::{GapTree, HEIGHT_MAX, Node, Path, Place, Side};
use crate::sync::{AtomicU64, Lock, LockGuard, Ordering::Relaxed};
use core::fmt;

/// A range that is not the arena's to take or to give. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArenaError {
    /// The range has no page, or leaves the window.
    Outside {
        /// Where it starts, in pages from the window's beginning.
        start: u32,
        /// Its length in pages.
        pages: u32,
    },
    /// Some of what was given is in a gap already.
    Free {
        /// Where that gap starts.
        gap: u32,
    },
    /// Some of what was to be taken is in no gap.
    Taken {
        /// The first such page.
        page: u32,
    },
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside { start, pages } => {
                write!(
                    f,
                    "{pages} pages from {start:#x} are no range of the window"
                )
            }
            Self::Free { gap } => write!(f, "the gap at {gap:#x} has some of the pages already"),
            Self::Taken { page } => write!(f, "page {page:#x} is in no gap"),
        }
    }
}

impl core::error::Error for ArenaError {}

/// A free range between areas, in pages from the window's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Its first page.
    pub start: u32,
    /// Its length in pages.
    pub pages: u32,
}

impl Gap {
    /// The page behind it.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.start + self.pages
    }
}

/// One cache line, so that nobody waits for the lock's line who does not want the lock.
const WORDS: usize = 8;

/// The arena of one window: its gaps, behind one lock.
///
/// Pages are counted from the window's beginning; alignments are of absolute page numbers. The
/// arena knows gaps only: what is between them is whoever's who took it.
#[derive(Clone, Copy, Debug)]
pub struct Arena<'m> {
    table: Table<'m>,
    /// Lock, root, free pages, gaps.
    words: &'m [AtomicU64; WORDS],
    base: u64,
}

impl<'m> Arena<'m> {
    /// How many words an arena needs besides its table.
    pub const WORDS: usize = WORDS;

    const ROOT: usize = 1;
    const FREE_PAGES: usize = 2;
    const GAPS: usize = 3;

    /// The arena of the window whose table is `table` and whose first page has the absolute number
    /// `base`, with [`WORDS`](Self::WORDS) words of its own. Zeroed words are an arena without a
    /// gap; to make all of the window one, give it.
    ///
    /// # Panics
    /// If the window ends past the number range, or there are fewer words.
    #[must_use]
    pub const fn new(table: Table<'m>, words: &'m [AtomicU64], base: u64) -> Self {
        let words = words.first_chunk().expect("an arena has its words");
        assert!(
            base.checked_add(table.pages() as u64).is_some(),
            "the window's end is a number"
        );
        Self { table, words, base }
    }

    /// Takes the arena's lock, calling `relax` with the number of the attempt while it waits.
    #[inline]
    pub fn lock(&self, relax: impl Fn(u32)) -> ArenaGuard<'m> {
        ArenaGuard {
            arena: *self,
            _held: Lock::new(&self.words[0]).lock(relax),
        }
    }

    /// How many pages the gaps have together; stale as soon as it is returned, if nobody holds the
    /// lock.
    #[inline]
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.words[Self::FREE_PAGES].load(Relaxed) as u32
    }

    /// How many gaps there are; stale likewise.
    #[inline]
    #[must_use]
    pub fn gap_count(&self) -> u32 {
        self.words[Self::GAPS].load(Relaxed) as u32
    }

    #[inline(always)]
    fn tree(&self) -> GapTree<'m> {
        GapTree::new(self.table, &self.words[Self::ROOT], self.base)
    }

    /// Counts, for the holder of the lock.
    #[inline(always)]
    fn count(&self, word: usize, difference: i64) {
        let word = &self.words[word];
        word.store(word.load(Relaxed).wrapping_add_signed(difference), Relaxed);
    }
}

/// The arena with its lock held: all that can be done with gaps. Nothing here calls out.
#[derive(Debug)]
pub struct ArenaGuard<'m> {
    arena: Arena<'m>,
    _held: LockGuard<'m>,
}

impl<'m> ArenaGuard<'m> {
    /// Takes `pages` pages whose first one's absolute number is a multiple of `align_pages`, a
    /// power of two: the lowest there are (first fit). Returns the first page and how the range
    /// lay in its gap.
    ///
    /// The search is exact: `None` means that no gap has such a range.
    ///
    /// Time: O(log n) for any length at alignment 1 and for a length equal to the alignment, with n
    /// gaps. Otherwise O(log n) more for each gap, at most `pages + align_pages - 2` pages long,
    /// that lies below the found one and is long enough but in the wrong place; gaps that hold no
    /// multiple of the alignment, or, for a request longer than its alignment, no aligned block of
    /// its length, are not among them unless another beside them in the tree does.
    ///
    /// A request for no pages, or with an alignment that is no power of two, finds nothing.
    #[inline]
    pub fn alloc(&mut self, pages: u32, align_pages: u64) -> Option<(u32, Fit)> {
        let wanted = Wanted::new(pages, align_pages)?;
        let window = self.arena.table.pages();
        // No page of the window is aligned so, or too few are behind it.
        wanted.start_in(self.arena.base, 0, window)?;
        let (mut path, start) = self.arena.tree().find(&wanted)?;
        let depth = path.depth();
        let fit = self.cut(&mut path, depth, start, pages);
        Some((start, fit))
    }

    /// Takes exactly the `pages` pages from `start`. Time: O(log n).
    ///
    /// # Errors
    /// [`ArenaError::Taken`] if not all of them are in a gap, [`ArenaError::Outside`].
    pub fn alloc_at(&mut self, start: u32, pages: u32) -> Result<Fit, ArenaError> {
        self.check(start, pages)?;
        let tree = self.arena.tree();
        let Place {
            mut path, before, ..
        } = tree.place(start);
        let depth = before.ok_or(ArenaError::Taken { page: start })?;
        let end = path.at(depth) + tree.node(path.at(depth)).pages();
        if end < start + pages {
            let page = end.max(start);
            return Err(ArenaError::Taken { page });
        }
        path.cut_to(depth);
        Ok(self.cut(&mut path, depth, start, pages))
    }

    /// Cuts a range out of the gap at `depth`, the last of the path, in which it lies.
    #[inline(always)]
    fn cut(&self, path: &mut Path, depth: usize, start: u32, pages: u32) -> Fit {
        let tree = self.arena.tree();
        let gap = path.at(depth);
        let gap_pages = tree.node(gap).pages();
        let fit = Fit::of(gap, gap_pages, start, pages);
        self.arena.count(Arena::FREE_PAGES, -i64::from(pages));
        match fit {
            Fit::Full => {
                tree.remove(path);
                self.arena.count(Arena::GAPS, -1);
            }
            Fit::LeftEdge => tree.reshape(path, depth, start + pages, gap_pages - pages),
            Fit::RightEdge => tree.reshape(path, depth, gap, gap_pages - pages),
            Fit::NoEdge => {
                tree.reshape(path, depth, gap, start - gap);
                let behind = start + pages;
                tree.insert_behind(path, behind, gap + gap_pages - behind);
                self.arena.count(Arena::GAPS, 1);
            }
        }
        fit
    }

    /// Gives the `pages` pages from `start` back, and joins them with the gaps beside them.
    /// Time: O(log n).
    ///
    /// # Errors
    /// [`ArenaError::Free`] if some of them are in a gap, [`ArenaError::Outside`].
    #[inline]
    pub fn give(&mut self, start: u32, pages: u32) -> Result<(), ArenaError> {
        self.check(start, pages)?;
        let end = start + pages;
        let tree = self.arena.tree();
        let Place {
            mut path,
            before,
            after,
        } = tree.place(start);
        let mut left = None;
        if let Some(depth) = before {
            let gap = path.at(depth);
            let gap_pages = tree.node(gap).pages();
            if gap + gap_pages > start {
                return Err(ArenaError::Free { gap });
            }
            if gap + gap_pages == start {
                left = Some((depth, gap, gap_pages));
            }
        }
        let mut right = None;
        if let Some(depth) = after {
            let gap = path.at(depth);
            if gap < end {
                return Err(ArenaError::Free { gap });
            }
            if gap == end {
                right = Some((depth, tree.node(gap).pages()));
            }
        }
        self.arena.count(Arena::FREE_PAGES, i64::from(pages));
        match (left, right) {
            (None, None) => {
                tree.insert(&mut path, start, pages);
                self.arena.count(Arena::GAPS, 1);
            }
            (Some((depth, gap, gap_pages)), None) => {
                tree.reshape(&mut path, depth, gap, gap_pages + pages);
            }
            (None, Some((depth, gap_pages))) => {
                tree.reshape(&mut path, depth, start, pages + gap_pages);
            }
            (Some((left, gap, before)), Some((right, behind))) => {
                // One of two neighbours is above the other, and the other one ends the path.
                let upper = left.min(right);
                tree.join(&mut path, upper, gap, before + pages + behind);
                self.arena.count(Arena::GAPS, -1);
            }
        }
        Ok(())
    }

    fn check(&self, start: u32, pages: u32) -> Result<(), ArenaError> {
        let window = self.arena.table.pages();
        if pages == 0 || start >= window || pages > window - start {
            return Err(ArenaError::Outside { start, pages });
        }
        Ok(())
    }

    /// The gap that has `page`. Time: O(log n).
    #[must_use]
    pub fn gap_at(&self, page: u32) -> Option<Gap> {
        let place = self.arena.tree().place(page);
        let gap = self.gap(place.path.at(place.before?));
        (page < gap.end()).then_some(gap)
    }

    /// The length of the longest gap, 0 if there is none. Time: O(1).
    #[must_use]
    pub fn longest(&self) -> u32 {
        let tree = self.arena.tree();
        tree.root()
            .map_or(0, |root| tree.node(root).reach().longest)
    }

    /// How many pages the gaps have together.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.arena.free_pages()
    }

    /// How many gaps there are.
    #[must_use]
    pub fn gap_count(&self) -> u32 {
        self.arena.gap_count()
    }

    /// The gaps, ascending. Time: O(log n) each.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> + '_ {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let gap = self.gap_from(from?)?;
            from = (gap.end() < self.arena.table.pages()).then_some(gap.end());
            Some(gap)
        })
    }

    /// The first gap that starts at or after `page`. Time: O(log n).
    #[must_use]
    pub fn gap_from(&self, page: u32) -> Option<Gap> {
        let Place {
            path,
            before,
            after,
        } = self.arena.tree().place(page);
        before
            .filter(|&depth| path.at(depth) == page)
            .or(after)
            .map(|depth| self.gap(path.at(depth)))
    }

    /// The first page and the page behind the last one that are in no gap; `None` if all of the
    /// window is free. Time: O(log n).
    #[must_use]
    pub fn taken_span(&self) -> Option<(u32, u32)> {
        let window = self.arena.table.pages();
        let tree = self.arena.tree();
        let outermost = |side| tree.outermost(side).map(|page| self.gap(page));
        let first = outermost(Side::Left).filter(|gap| gap.start == 0);
        let last = outermost(Side::Right).filter(|gap| gap.end() == window);
        let start = first.map_or(0, Gap::end);
        let end = last.map_or(window, |gap| gap.start);
        (start < end).then_some((start, end))
    }

    fn gap(&self, page: u32) -> Gap {
        Gap {
            start: page,
            pages: self.arena.tree().node(page).pages(),
        }
    }

    /// Whether V2 holds: gaps lie in the window and do not touch; the tree is ordered, balanced
    /// and right about what each node reaches; and the counts are right. Time: O(n).
    ///
    /// # Errors
    /// The page of a node that is wrong, or of the root where a count is.
    pub fn verify(&self) -> Result<(), u32> {
        let tree = self.arena.tree();
        let mut seen = Seen {
            tree,
            table: self.arena.table,
            // Gaps do not touch: the next one starts behind this page at least.
            next: 0,
            pages: 0,
            gaps: 0,
        };
        let Some(root) = tree.root() else {
            return match (self.free_pages(), self.gap_count()) {
                (0, 0) => Ok(()),
                _ => Err(0),
            };
        };
        seen.below(root, HEIGHT_MAX)?;
        if (seen.pages, seen.gaps) == (self.free_pages(), self.gap_count()) {
            Ok(())
        } else {
            Err(root)
        }
    }
}

/// What a walk through the tree in order has met.
struct Seen<'m> {
    tree: GapTree<'m>,
    table: Table<'m>,
    next: u32,
    pages: u32,
    gaps: u32,
}

impl Seen<'_> {
    /// The height of the subtree at `page`, if it is right and at most `most`.
    fn below(&mut self, page: u32, most: usize) -> Result<usize, u32> {
        if most == 0 || page >= self.table.pages() || !self.table.is_gap(page) {
            return Err(page);
        }
        let node: Node = self.tree.node(page);
        let mut reach = self.tree.own(page, node.pages());
        let mut side = |seen: &mut Self, child: Option<u32>| match child {
            None => Ok::<usize, u32>(0),
            Some(child) => {
                let height = seen.below(child, most - 1)?;
                reach = reach.or(seen.tree.node(child).reach());
                Ok(height)
            }
        };
        let left = side(self, node.left())?;
        let end = u64::from(page) + u64::from(node.pages());
        if page < self.next || end > u64::from(self.table.pages()) {
            return Err(page);
        }
        self.next = (end as u32).saturating_add(1).min(PAGES_MAX);
        self.pages += node.pages();
        self.gaps += 1;
        let right = side(self, node.right())?;
        if reach != node.reach() || !node.is_balanced(left, right) {
            return Err(page);
        }
        Ok(left.max(right) + 1)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "tests/arena.rs"]
mod tests;
