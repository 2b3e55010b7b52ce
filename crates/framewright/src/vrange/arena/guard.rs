//! The arena: the free pages of a window that no CPU has, as gaps in a tree.

use super::super::areas::AreaTable;
use super::fit::{Fit, WantedGap};
use super::path::{HEIGHT_MAX, Path};
use super::record::ArenaRecord;
use super::tree::{GapTree, TreePlace};
use crate::sync::{AtomicU64, Lock, LockGuard, Ordering::Relaxed};
use core::fmt;

/// A range that cannot be given to the arena. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ArenaError {
    /// The range has no page, or leaves the window.
    Outside {
        /// Where it starts, in pages from the window's beginning.
        start: u32,
        /// Its length in pages.
        pages: u32,
    },
    /// A page of the given range is in a gap already.
    Free {
        /// Where that gap starts.
        gap: u32,
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
        }
    }
}

impl core::error::Error for ArenaError {}

/// A free range between areas, in pages from the window's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Gap {
    /// Its first page.
    pub(in super::super) start: u32,
    /// Its length in pages.
    pub(in super::super) pages: u32,
}

impl Gap {
    /// The page behind it.
    #[must_use]
    pub(in super::super) const fn end(self) -> u32 {
        self.start + self.pages
    }
}

/// The arena of one window: its gaps, behind one lock.
///
/// ```text
///     | area | gap | area | gap | area | gap at the end |
///               └── tree ──┘                └── a length
/// ```
///
/// Pages are counted from the window's beginning; alignments are of absolute page numbers. The
/// arena knows only gaps: the pages between them belong to the CPUs that took them.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Arena<'m> {
    table: AreaTable<'m>,
    words: &'m ArenaRecord,
    base: u64,
}

impl<'m> Arena<'m> {
    /// The arena of the window with the table `table`, whose first page has the absolute number
    /// `base`. To make an arena without a gap one gap, give it the whole window.
    ///
    /// # Panics
    /// If the window ends past the number range.
    #[must_use]
    pub(in super::super) const fn new(
        table: AreaTable<'m>,
        words: &'m ArenaRecord,
        base: u64,
    ) -> Self {
        assert!(
            base.checked_add(table.pages() as u64).is_some(),
            "the window's end is a number"
        );
        Self { table, words, base }
    }

    /// Takes the arena's lock, calling `relax` with the number of the attempt while it waits. Also returns
    /// whether it was found taken.
    #[inline]
    pub(in super::super) fn lock_and_tell(&self, relax: impl Fn(u32)) -> (ArenaGuard<'m>, bool) {
        let (held, waited) = Lock::new(&self.words.lock).lock_and_tell(relax);
        let arena = *self;
        let guard = ArenaGuard { arena, _held: held };
        (guard, waited)
    }

    /// How many pages the gaps have together; stale as soon as it is returned, unless the caller
    /// holds the lock.
    #[inline]
    #[must_use]
    pub(crate) fn free_pages(&self) -> u32 {
        self.words.free_pages.load(Relaxed) as u32
    }

    /// How many gaps there are; as stale.
    #[inline]
    #[must_use]
    pub(crate) fn gap_count(&self) -> u32 {
        self.words.gaps.load(Relaxed) as u32
    }

    #[inline(always)]
    fn tree(&self) -> GapTree<'m> {
        GapTree::new(self.table, &self.words.root, self.base)
    }

    /// The gap at the window's end, which is not in the tree. Most long ranges come from it, and it
    /// has no nodes above to update. Its length may be 0.
    #[inline(always)]
    fn end_gap(&self) -> Gap {
        let pages = self.words.end_pages.load(Relaxed) as u32;
        Gap {
            start: self.table.pages() - pages,
            pages,
        }
    }

    #[inline(always)]
    fn set_end_gap(&self, pages: u32) {
        self.words.end_pages.store(u64::from(pages), Relaxed);
    }

    /// A page behind which no gap of the tree ends.
    #[inline(always)]
    fn tree_end(&self) -> u32 {
        self.words.tree_end.load(Relaxed) as u32
    }

    #[inline(always)]
    fn raise_tree_end(&self, end: u32) {
        if end > self.tree_end() {
            self.words.tree_end.store(u64::from(end), Relaxed);
        }
    }
}

/// Counts, for the holder of the lock.
#[inline(always)]
fn count(word: &AtomicU64, difference: i64) {
    word.store(word.load(Relaxed).wrapping_add_signed(difference), Relaxed);
}

/// The arena with its lock held: all operations on gaps. Nothing here calls out.
#[derive(Debug)]
pub(crate) struct ArenaGuard<'m> {
    arena: Arena<'m>,
    _held: LockGuard<'m>,
}

impl ArenaGuard<'_> {
    /// Takes the lowest range that there is (first fit). Returns its first page and where it lay in its gap.
    ///
    /// The search is exact: `None` means that no gap has such a range.
    ///
    /// Time: O(log n) for any length at alignment 1 and for a length equal to the alignment, with n
    /// gaps; O(1) if only the gap at the window's end is long enough. With another alignment
    /// O(log n) more for each gap of at most `pages + align_pages - 2` pages that lies below the
    /// found one and is long enough but has no aligned range.
    #[inline]
    pub(in super::super) fn alloc_wanted(&mut self, wanted: &WantedGap) -> Option<(u32, Fit)> {
        let pages = wanted.pages();
        let base = self.arena.base;
        // Refuses if no page of the window is aligned so, or too few pages follow it.
        wanted.start_in(base, 0, self.arena.table.pages())?;
        let mut path = Path::new();
        if let Some(start) = self.arena.tree().find(wanted, &mut path) {
            let depth = path.depth();
            let fit = self.cut(&mut path, depth, start, pages);
            return Some((start, fit));
        }
        let end = self.arena.end_gap();
        let start = wanted.start_in(base, end.start, end.pages)?;
        Some((start, self.cut_end(end, start, pages)))
    }

    /// Cuts a range out of the gap at `depth`, the last of the path, in which it lies.
    #[inline(always)]
    fn cut(&self, path: &mut Path, depth: usize, start: u32, pages: u32) -> Fit {
        let tree = self.arena.tree();
        let gap = self.gap(path.at(depth));
        let fit = Fit::of(gap.start, gap.pages, start, pages);
        count(&self.arena.words.free_pages, -i64::from(pages));
        match fit {
            Fit::Full => {
                tree.remove(path);
                count(&self.arena.words.gaps, -1);
            }
            Fit::LeftEdge => tree.reshape(path, depth, start + pages, gap.pages - pages),
            Fit::RightEdge => tree.reshape(path, depth, gap.start, gap.pages - pages),
            Fit::NoEdge => {
                tree.reshape(path, depth, gap.start, start - gap.start);
                let behind = start + pages;
                tree.insert_behind(path, behind, gap.end() - behind);
                count(&self.arena.words.gaps, 1);
            }
        }
        fit
    }

    /// Cuts a range out of the gap at the window's end, in which it lies.
    #[inline(always)]
    fn cut_end(&self, end: Gap, start: u32, pages: u32) -> Fit {
        let fit = Fit::of(end.start, end.pages, start, pages);
        count(&self.arena.words.free_pages, -i64::from(pages));
        self.arena.set_end_gap(end.end() - (start + pages));
        if start > end.start {
            self.insert(&mut Path::new(), end.start, start - end.start);
            count(&self.arena.words.gaps, 1);
        }
        if start + pages == end.end() {
            count(&self.arena.words.gaps, -1);
        }
        fit
    }

    /// Adds a gap that touches no other, below all of them.
    #[cold]
    fn insert(&self, path: &mut Path, start: u32, pages: u32) {
        let tree = self.arena.tree();
        tree.place(start, path);
        tree.insert(path, start, pages);
        self.arena.raise_tree_end(start + pages);
    }

    /// Gives the `pages` pages from `start` back, and joins them with the gaps beside them. Time:
    /// O(log n); mostly O(1) directly before the gap at the window's end.
    ///
    /// # Errors
    /// [`ArenaError::Free`] if some of them are in a gap, [`ArenaError::Outside`].
    #[inline]
    pub(crate) fn give(&mut self, start: u32, pages: u32) -> Result<(), ArenaError> {
        self.check(start, pages)?;
        let end = start + pages;
        let last = self.arena.end_gap();
        if end > last.start {
            return Err(ArenaError::Free { gap: last.start });
        }
        let mut path = Path::new();
        if end == last.start && start > self.arena.tree_end() {
            self.join_end(start, pages);
            return Ok(());
        }
        let tree = self.arena.tree();
        let TreePlace { before, after } = tree.place(start, &mut path);
        let mut left = None;
        if let Some(depth) = before {
            let gap = self.gap(path.at(depth));
            if gap.end() > start {
                return Err(ArenaError::Free { gap: gap.start });
            }
            if gap.end() == start {
                left = Some((depth, gap));
            }
        }
        let mut right = None;
        if let Some(depth) = after {
            let gap = path.at(depth);
            if gap < end {
                return Err(ArenaError::Free { gap });
            }
            if gap == end {
                right = Some((depth, self.gap(gap)));
            }
        }
        if end == last.start {
            self.give_end(path, before, left, start, pages);
            return Ok(());
        }
        count(&self.arena.words.free_pages, i64::from(pages));
        match (left, right) {
            (None, None) => {
                tree.insert(&path, start, pages);
                count(&self.arena.words.gaps, 1);
                self.arena.raise_tree_end(end);
            }
            (Some((depth, gap)), None) => {
                tree.reshape(&mut path, depth, gap.start, gap.pages + pages);
                self.arena.raise_tree_end(end);
            }
            (None, Some((depth, gap))) => {
                tree.reshape(&mut path, depth, start, pages + gap.pages);
            }
            (Some((left, before)), Some((right, behind))) => {
                // One of the two neighbours is above the other, and the other one ends the path.
                let all = before.pages + pages + behind.pages;
                tree.join(&mut path, left.min(right), before.start, all);
                count(&self.arena.words.gaps, -1);
            }
        }
        Ok(())
    }

    /// Joins the range before the gap at the window's end with that gap, and with the gap `left`,
    /// if it touches the range. `before` is the last gap of the tree.
    #[cold]
    fn give_end(
        &self,
        mut path: Path,
        before: Option<usize>,
        left: Option<(usize, Gap)>,
        start: u32,
        pages: u32,
    ) {
        let tree_end = match left {
            // No gap before `left` touches it.
            Some((_, gap)) => gap.start - u32::from(gap.start > 0),
            None => before.map_or(0, |depth| self.gap(path.at(depth)).end()),
        };
        self.join_end(start, pages);
        if let Some((depth, gap)) = left {
            path.cut_to(depth);
            self.arena.tree().remove(&mut path);
            self.arena
                .set_end_gap(self.arena.end_gap().pages + gap.pages);
            count(&self.arena.words.gaps, -1);
        }
        self.arena
            .words
            .tree_end
            .store(u64::from(tree_end), Relaxed);
    }

    /// Joins the range before the gap at the window's end with that gap.
    #[inline(always)]
    fn join_end(&self, start: u32, pages: u32) {
        count(&self.arena.words.free_pages, i64::from(pages));
        if start + pages == self.arena.table.pages() {
            count(&self.arena.words.gaps, 1);
        }
        self.arena.set_end_gap(self.arena.end_gap().pages + pages);
    }

    #[inline(always)]
    fn check(&self, start: u32, pages: u32) -> Result<(), ArenaError> {
        let window = self.arena.table.pages();
        if pages == 0 || start >= window || pages > window - start {
            return Err(ArenaError::Outside { start, pages });
        }
        Ok(())
    }

    /// The gap that contains `page`. Time: O(log n).
    #[must_use]
    pub(crate) fn gap_at(&self, page: u32) -> Option<Gap> {
        let mut path = Path::new();
        let last = self.arena.end_gap();
        let gap = if page >= last.start {
            last
        } else {
            let place = self.arena.tree().place(page, &mut path);
            self.gap(path.at(place.before?))
        };
        (page < gap.end()).then_some(gap)
    }

    /// The length of the longest gap, 0 if there is no gap. Time: O(1).
    #[must_use]
    pub(crate) fn longest(&self) -> u32 {
        let tree = self.arena.tree();
        let longest = |root| tree.node(root).reach().longest;
        tree.root()
            .map_or(0, longest)
            .max(self.arena.end_gap().pages)
    }

    /// How many pages the gaps have together.
    #[must_use]
    pub(crate) fn free_pages(&self) -> u32 {
        self.arena.free_pages()
    }

    /// How many gaps there are.
    #[must_use]
    pub(crate) fn gap_count(&self) -> u32 {
        self.arena.gap_count()
    }

    #[inline(always)]
    fn gap(&self, page: u32) -> Gap {
        Gap {
            start: page,
            pages: self.arena.tree().node(page).pages(),
        }
    }

    /// Whether V2 holds: gaps lie in the window and do not touch; the tree is ordered and balanced,
    /// each node is right about its reach, and the counts are right. Time: O(n).
    ///
    /// # Errors
    /// The page of a node that is wrong, or the window's length if a count is wrong.
    pub(crate) fn verify(&self) -> Result<(), u32> {
        let tree = self.arena.tree();
        let window = self.arena.table.pages();
        let last = self.arena.end_gap();
        let mut seen = WalkSeen {
            tree,
            table: self.arena.table,
            limit: last.start,
            next: 0,
            pages: last.pages,
            gaps: u32::from(last.pages > 0),
        };
        if let Some(root) = tree.root() {
            seen.below(root, HEIGHT_MAX)?;
        }
        let bounded = tree.root().is_none() || seen.next <= self.arena.tree_end() + 1;
        let counted = (seen.pages, seen.gaps) == (self.free_pages(), self.gap_count());
        if bounded && counted {
            Ok(())
        } else {
            Err(window)
        }
    }
}

/// What a walk through the tree in order has seen.
struct WalkSeen<'m> {
    tree: GapTree<'m>,
    table: AreaTable<'m>,
    /// Gaps of the tree end before this page: the start of the gap at the window's end, or the
    /// window's end.
    limit: u32,
    /// The first page at which the next gap may start without touching the last.
    next: u32,
    pages: u32,
    gaps: u32,
}

impl WalkSeen<'_> {
    /// The height of the subtree at `page`, if it is right and at most `most`.
    fn below(&mut self, page: u32, most: usize) -> Result<usize, u32> {
        if most == 0 || page >= self.table.pages() || !self.table.is_gap(page) {
            return Err(page);
        }
        let node = self.tree.node(page);
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
        if page < self.next || end >= u64::from(self.limit) {
            return Err(page);
        }
        self.next = end as u32 + 1;
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
#[path = "../tests/arena/arena_twin.rs"]
mod twin;

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "../tests/arena/arena.rs"]
mod tests;
