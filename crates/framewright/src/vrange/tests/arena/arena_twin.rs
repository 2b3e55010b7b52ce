//! The arena's obviously right twin, and what only tests ask an arena.

use super::*;
use crate::raw::{Carver, RawRecord, atomic_words};
use std::vec;
use std::vec::Vec;

impl<'m> Arena<'m> {
    /// Takes the arena's lock, calling `relax` with the number of the attempt while it waits.
    #[inline]
    pub(in crate::vrange) fn lock(&self, relax: impl Fn(u32)) -> ArenaGuard<'m> {
        self.lock_and_tell(relax).0
    }
}

/// Why a range cannot be taken. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// It is no range of the window.
    Outside(ArenaError),
    /// This page of it, the first such, is in no gap.
    Taken(u32),
}

impl ArenaGuard<'_> {
    /// Takes `pages` pages, of which the absolute number of the first is a multiple of `align_pages`. `None` for no pages, and
    /// for an alignment that is no power of two.
    pub(in crate::vrange) fn alloc(&mut self, pages: u32, align_pages: u64) -> Option<(u32, Fit)> {
        self.alloc_wanted(&WantedGap::new(pages, align_pages)?)
    }

    /// Takes exactly the `pages` pages from `start`. Time: O(log n).
    ///
    pub(super) fn alloc_at(&mut self, start: u32, pages: u32) -> Result<Fit, Refusal> {
        self.check(start, pages).map_err(Refusal::Outside)?;
        let end = self.arena.end_gap();
        if start >= end.start {
            return Ok(self.cut_end(end, start, pages));
        }
        let tree = self.arena.tree();
        let mut path = Path::new();
        let place = tree.place(start, &mut path);
        let depth = place.before.ok_or(Refusal::Taken(start))?;
        let end = self.gap(path.at(depth)).end();
        if end < start + pages {
            let page = end.max(start);
            return Err(Refusal::Taken(page));
        }
        path.cut_to(depth);
        Ok(self.cut(&mut path, depth, start, pages))
    }

    /// The first gap that starts at or after `page`. Time: O(log n).
    #[must_use]
    pub(super) fn gap_from(&self, page: u32) -> Option<Gap> {
        let mut path = Path::new();
        let TreePlace { before, after } = self.arena.tree().place(page, &mut path);
        let last = self.arena.end_gap();
        before
            .filter(|&depth| path.at(depth) == page)
            .or(after)
            .map(|depth| self.gap(path.at(depth)))
            .or((last.pages > 0 && page <= last.start).then_some(last))
    }

    /// The gaps, ascending. Time: O(log n) each.
    pub(super) fn gaps(&self) -> impl Iterator<Item = Gap> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let gap = self.gap_from(from)?;
            from = gap.end();
            Some(gap)
        })
    }

    /// The first page that is in no gap, and the page behind the last such page; `None` if all of
    /// the window is free. Time: O(log n).
    #[must_use]
    pub(super) fn taken_span(&self) -> Option<(u32, u32)> {
        let start = self.gap_at(0).map_or(0, Gap::end);
        let end = self.arena.end_gap().start;
        (start < end).then_some((start, end))
    }
}

/// How many words the table of a window of `pages` pages needs.
pub(super) fn table_words(pages: u32) -> usize {
    2 * pages as usize
}

/// An arena with memory of its own.
pub(super) struct ArenaWindow {
    pub(super) table: Vec<u64>,
    pub(super) words: [u64; ArenaRecord::WORDS],
    base: u64,
}

impl ArenaWindow {
    pub(super) fn new(base: u64, pages: u32) -> Self {
        Self {
            table: vec![0; table_words(pages)],
            words: [0; ArenaRecord::WORDS],
            base,
        }
    }

    pub(super) fn arena(&mut self) -> Arena<'_> {
        let table = AreaTable::new(atomic_words(&mut self.table));
        Arena::new(
            table,
            Carver::of(&mut self.words).in_zeroed(true).record(),
            self.base,
        )
    }
}

pub(super) fn lock<'m>(arena: &Arena<'m>) -> ArenaGuard<'m> {
    arena.lock(|_| panic!("one thread"))
}

/// The twin: the gaps as a sorted list, every question answered by walking it.
#[derive(Clone)]
pub(super) struct ArenaTwin {
    pub(super) base: u64,
    pub(super) pages: u32,
    pub(super) gaps: Vec<(u32, u32)>,
}

impl ArenaTwin {
    pub(super) fn alloc(&mut self, pages: u32, align: u64) -> Option<(u32, Fit)> {
        self.alloc_behind(0, pages, align)
    }

    /// The same with the page behind the first `before` ones aligned.
    pub(super) fn alloc_behind(
        &mut self,
        before: u32,
        pages: u32,
        align: u64,
    ) -> Option<(u32, Fit)> {
        for at in 0..self.gaps.len() {
            let (start, end) = self.gaps[at];
            let mut first = start;
            while first + pages <= end {
                if (self.base + u64::from(first + before)).is_multiple_of(align) {
                    return Some((first, self.cut(at, first, pages)));
                }
                first += 1;
            }
        }
        None
    }

    fn cut(&mut self, at: usize, first: u32, pages: u32) -> Fit {
        let (start, end) = self.gaps.remove(at);
        let (left, right) = (first > start, first + pages < end);
        if right {
            self.gaps.insert(at, (first + pages, end));
        }
        if left {
            self.gaps.insert(at, (start, first));
        }
        match (left, right) {
            (false, false) => Fit::Full,
            (false, true) => Fit::LeftEdge,
            (true, false) => Fit::RightEdge,
            (true, true) => Fit::NoEdge,
        }
    }

    pub(super) fn alloc_at(&mut self, first: u32, pages: u32) -> Result<Fit, ()> {
        let inside = |&(start, end): &(u32, u32)| start <= first && first + pages <= end;
        let at = self.gaps.iter().position(inside).ok_or(())?;
        Ok(self.cut(at, first, pages))
    }

    pub(super) fn give(&mut self, first: u32, pages: u32) -> Result<(), ()> {
        let end = first + pages;
        if pages == 0 || end > self.pages || self.gaps.iter().any(|g| g.0 < end && first < g.1) {
            return Err(());
        }
        self.gaps.push((first, end));
        self.gaps.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for &(start, end) in &self.gaps {
            match joined.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => joined.push((start, end)),
            }
        }
        self.gaps = joined;
        Ok(())
    }

    pub(super) fn taken_span(&self) -> Option<(u32, u32)> {
        let free = |page| self.gaps.iter().any(|g| g.0 <= page && page < g.1);
        let first = (0..self.pages).find(|&page| !free(page))?;
        let last = (0..self.pages).rev().find(|&page| !free(page))?;
        Some((first, last + 1))
    }

    pub(super) fn compare(&self, guard: &ArenaGuard<'_>) {
        guard.verify().unwrap();
        let gaps: Vec<_> = guard.gaps().map(|gap| (gap.start, gap.end())).collect();
        assert_eq!(gaps, self.gaps);
        let longest = self.gaps.iter().map(|g| g.1 - g.0).max();
        assert_eq!(guard.longest(), longest.unwrap_or(0));
        let free: u32 = self.gaps.iter().map(|g| g.1 - g.0).sum();
        assert_eq!(guard.free_pages(), free);
        assert_eq!(guard.gap_count() as usize, gaps.len());
    }
}
