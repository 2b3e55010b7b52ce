//! The table: two words a page, descriptors for what can start there.
//!
//! ```text
//!              63    60 59            30 29             0
//!     header   [ state ][ pages - 1     ][ tag or next   ]    word 0 of an area's first page
//!     node     [1|f|bal][ left + 1      ][ right         ]    word 0 of a gap's first page
//!              [ point ][ pages - 1     ][ longest - 1   ]    word 1 of a gap's first page
//!     frame    [ frame + 1                               ]    word 1 of a page with a frame
//!     run      [ 0                   | a ][ pages        ]    word 0 of the page behind a run's first page
//! ```
//!
//! A *run* is consecutive frames behind consecutive pages, as long as they were found: one call maps them, and one
//! gives them back. The page behind its first one is in the area too, because each has a guard page. *a* of a live area's
//! first run says that its pages are mapped for another access than the default (V14). Of a kept area it says so only in a
//! space that keeps areas mapped.
//!
//! A lazy header whose next area is its own says that the area is in no list, and unmapped.
//!
//! The words of other pages have no meaning and may have any value: the tree, or a span's bitmap,
//! tells what starts at a page. Even so, a header is never zero, and never a node.
//!
//! A gap's links need no special value for "none": page 0 is no gap's right neighbour, and no page
//! has the largest page number, because a window has fewer than 2^30.

use super::info::{AreaKind, AreaState};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::{Frame, Run};

/// The bits of a page's number, and of a length less one.
pub(in super::super) const PAGE_BITS: u32 = 30;
pub(in super::super) const PAGE_MASK: u64 = (1 << PAGE_BITS) - 1;
/// The bit of word 0 that tells a gap from an area.
pub(in super::super) const GAP: u64 = 1 << 63;
/// The most pages a window may have.
pub(in super::super) const PAGES_MAX: u32 = 1 << PAGE_BITS;

/// *a*, above a run's length.
const ACCESS: u64 = 1 << 32;

const STATE_SHIFT: u32 = 2 * PAGE_BITS;
/// Marks the end of a list: a window has fewer than 2^30 pages, so no area starts there.
const NO_NEXT: u32 = PAGES_MAX - 1;

/// Where the header of an area lies.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct AreaWord<'m>(&'m AtomicU64);

impl AreaWord<'_> {
    /// The header, if it is that of a live area of that kind.
    #[inline(always)]
    pub(in super::super) fn live_of(self, kind: AreaKind) -> Option<AreaHeader> {
        let header = AreaHeader(self.0.load(Relaxed));
        header.is_live_of(kind).then_some(header)
    }

    /// Changes the header if it is `from`; if several CPUs try, one succeeds. With `alone` there is only one CPU, which
    /// has looked.
    #[inline(always)]
    pub(in super::super) fn becomes(self, from: AreaHeader, to: AreaHeader, alone: bool) -> bool {
        if alone {
            self.0.store(to.0, Release);
            return true;
        }
        // Acquire pairs with the Release in `set_header`: the CPU that frees an area sees whose its span is.
        self.0
            .compare_exchange(from.0, to.0, Acquire, Relaxed)
            .is_ok()
    }
}

/// An area's header, one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AreaHeader(u64);

impl AreaHeader {
    /// A live area of `pages` pages, its guard page included, 1 to 2^30. It keeps 30 bits of the
    /// tag.
    #[inline]
    #[must_use]
    pub(crate) const fn live(kind: AreaKind, pages: u32, tag: u32) -> Self {
        let state = match kind {
            AreaKind::Plain => 1,
            AreaKind::Vmalloc => 2,
            AreaKind::Ram => 3,
        };
        Self::build(state, pages, tag)
    }

    /// The same area, whose free is still to come, in a list before `next`. Only `vmalloc` areas are deferred, and these have
    /// two pages at least, with their guard page. So the header is not zero.
    #[inline]
    #[must_use]
    pub(crate) const fn deferred(self, next: Option<u32>) -> Self {
        Self::build(0, self.pages(), Self::link(next))
    }

    /// The same area, freed but kept constructed, in a list before `next`. Only `vmalloc` areas are
    /// kept, so that becomes its kind.
    #[inline]
    #[must_use]
    pub(crate) const fn kept(self, next: Option<u32>) -> Self {
        Self::build(4, self.pages(), Self::link(next))
    }

    /// The same area, freed, in a list before `next`.
    #[inline]
    #[must_use]
    pub(crate) const fn lazy(self, next: Option<u32>) -> Self {
        let state = match self.kind() {
            AreaKind::Plain => 5,
            AreaKind::Vmalloc => 6,
            AreaKind::Ram => 7,
        };
        Self::build(state, self.pages(), Self::link(next))
    }

    const fn build(state: u64, pages: u32, low: u32) -> Self {
        debug_assert!(0 < pages && pages <= PAGES_MAX);
        let low = low as u64 & PAGE_MASK;
        Self(state << STATE_SHIFT | ((pages - 1) as u64) << PAGE_BITS | low)
    }

    const fn link(next: Option<u32>) -> u32 {
        match next {
            Some(page) => {
                debug_assert!(page < NO_NEXT);
                page
            }
            None => NO_NEXT,
        }
    }

    /// The header in a word; `None` for zero and for a gap's node.
    #[inline]
    const fn of(word: u64) -> Option<Self> {
        // Headers have a state from 1 to 7, or two pages at least; nodes have the topmost bit.
        if word.wrapping_sub(1 << PAGE_BITS) < GAP - (1 << PAGE_BITS) {
            Some(Self(word))
        } else {
            None
        }
    }

    /// The state.
    #[inline]
    #[must_use]
    pub(crate) const fn state(self) -> AreaState {
        match self.0 >> STATE_SHIFT {
            0 => AreaState::Deferred,
            1..=3 => AreaState::Live,
            4 => AreaState::Kept,
            _ => AreaState::Lazy,
        }
    }

    #[inline]
    pub(in super::super) fn is_deferred(&self) -> bool {
        self.state() == AreaState::Deferred
    }

    /// The call that made the area.
    #[inline]
    #[must_use]
    pub(crate) const fn kind(self) -> AreaKind {
        match self.0 >> STATE_SHIFT {
            1 | 5 => AreaKind::Plain,
            3 | 7 => AreaKind::Ram,
            _ => AreaKind::Vmalloc,
        }
    }

    /// Whether it is a live area of that kind.
    #[inline(always)]
    pub(in super::super) const fn is_live_of(self, kind: AreaKind) -> bool {
        let state = self.0 >> STATE_SHIFT;
        match kind {
            AreaKind::Plain => state == 1,
            AreaKind::Vmalloc => state == 2,
            AreaKind::Ram => state == 3,
        }
    }

    /// The length in pages, guard page included.
    #[inline]
    #[must_use]
    pub(crate) const fn pages(self) -> u32 {
        (self.0 >> PAGE_BITS & PAGE_MASK) as u32 + 1
    }

    /// The caller's tag; only of a live area.
    #[inline]
    #[must_use]
    pub(crate) const fn tag(self) -> u32 {
        (self.0 & PAGE_MASK) as u32
    }

    /// The next area in the list; only of a deferred, kept or lazy area.
    #[inline]
    #[must_use]
    pub(crate) const fn next(self) -> Option<u32> {
        match (self.0 & PAGE_MASK) as u32 {
            NO_NEXT => None,
            page => Some(page),
        }
    }
}

/// The table of a window: for each page two words. See the [module](super) for what they mean.
///
/// Accesses are `Relaxed`: the owner of a page owns its words, and for a gap that is the holder
/// of the arena's lock. Ownership is handed over with an ordering of its own. Only a free by a stale address comes without
/// one, so a header has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AreaTable<'m> {
    pages: &'m [[AtomicU64; 2]],
}

impl<'m> AreaTable<'m> {
    /// The table in `words`, two for each page, whatever they hold.
    ///
    /// # Panics
    /// If there are words for more than 2^30 pages.
    #[must_use]
    pub(crate) const fn new(words: &'m [AtomicU64]) -> Self {
        let (pages, _) = words.as_chunks();
        assert!(pages.len() <= PAGES_MAX as usize, "a page has 30 bits");
        Self { pages }
    }

    /// The length of the window in pages.
    #[inline]
    #[must_use]
    pub(crate) const fn pages(self) -> u32 {
        self.pages.len() as u32
    }

    /// Both words of a page.
    ///
    /// # Panics
    /// If the page is outside the window; all functions that take a page panic so.
    #[inline(always)]
    pub(in super::super) fn words(self, page: u32) -> &'m [AtomicU64; 2] {
        &self.pages[page as usize]
    }

    /// The word with the header of an area at `page`.
    #[inline(always)]
    pub(in super::super) fn area(self, page: u32) -> AreaWord<'m> {
        AreaWord(&self.words(page)[0])
    }

    /// The header of the area that starts at `page`; `None` for a gap's node and for zero.
    #[inline]
    #[must_use]
    pub(crate) fn header(self, page: u32) -> Option<AreaHeader> {
        AreaHeader::of(self.words(page)[0].load(Relaxed))
    }

    /// Starts an area at `page`, or changes its header.
    #[inline]
    pub(crate) fn set_header(self, page: u32, header: AreaHeader) {
        self.words(page)[0].store(header.0, Release);
    }

    /// Changes the header at `page` if it is `from`; if several CPUs try, one succeeds.
    #[inline]
    pub(in super::super) fn change_header(
        self,
        page: u32,
        from: AreaHeader,
        to: AreaHeader,
    ) -> bool {
        self.area(page).becomes(from, to, false)
    }

    /// Whether word 0 of `page` is a gap's node; only meaningful where something starts.
    #[inline]
    #[must_use]
    pub(crate) fn is_gap(self, page: u32) -> bool {
        self.words(page)[0].load(Relaxed) & GAP != 0
    }

    /// The frame behind a page, if it has one. Meaningless outside `vmalloc` areas.
    #[inline]
    #[must_use]
    pub(crate) fn frame(self, page: u32) -> Option<Frame> {
        self.words(page)[1].load(Relaxed).checked_sub(1).map(Frame)
    }

    /// The run that begins at `page`, of the pages below `end`; `None` if `page` has no frame.
    #[inline]
    pub(in super::super) fn run_at(self, page: u32, end: u32) -> Option<Run> {
        let most = u64::from(end.checked_sub(page).filter(|most| *most > 0)?);
        let start = self.frame(page)?;
        let pages = u64::from(self.words(page + 1)[0].load(Relaxed) as u32);
        Run::new(start, pages.min(most))
    }

    /// The run behind all `pages` pages of the area at `at`, if it is one, and [recorded](Self::note_access) for the default
    /// access.
    #[inline(always)]
    pub(in super::super) fn only_run(self, at: u32, pages: u64) -> Option<Run> {
        let is_all = self.words(at + 1)[0].load(Relaxed) == pages;
        is_all.then(|| Run::new(self.frame(at)?, pages))?
    }

    /// Calls `run` with each run behind the first `pages` pages of an area, and with the run's first page, until
    /// `run` fails.
    pub(in super::super) fn for_each_run<E>(
        self,
        at: u32,
        pages: u32,
        mut run: impl FnMut(u32, Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut page, end) = (at, at + pages);
        while page < end {
            match self.run_at(page, end) {
                Some(found) => {
                    run(page, found)?;
                    page += found.frames() as u32;
                }
                None => page += 1,
            }
        }
        Ok(())
    }

    /// The same with a `run` that cannot fail.
    pub(in super::super) fn for_all_runs(self, at: u32, pages: u32, mut run: impl FnMut(Run)) {
        let done = self.for_each_run(at, pages, |_, found| {
            run(found);
            Ok::<(), core::convert::Infallible>(())
        });
        match done {
            Ok(()) => {}
        }
    }

    /// Records consecutive frames behind `page` and the pages after it. They belong to the run that begins at
    /// `first`, at `page` or before, and make it end where they end. All of it is in one area with the page behind
    /// it. None of the frames may be the very last frame number.
    #[inline]
    pub(in super::super) fn set_run(self, first: u32, page: u32, run: Run) {
        let mut word = run.start().0.wrapping_add(1);
        for [_, frame] in &self.pages[page as usize..][..run.frames() as usize] {
            frame.store(word, Relaxed);
            word = word.wrapping_add(1);
        }
        let pages = u64::from(page - first) + run.frames();
        self.words(first + 1)[0].store(pages, Relaxed);
    }

    /// Records whether the area at `at`, whose frames are recorded, is mapped for another access than the default.
    #[inline(always)]
    pub(in super::super) fn note_access(self, at: u32, is_other: bool) {
        if self.has_access(at) != is_other {
            let word = &self.words(at + 1)[0];
            word.store(word.load(Relaxed) ^ ACCESS, Relaxed);
        }
    }

    /// Whether that was recorded of the `vmalloc` area at `at`.
    #[inline(always)]
    pub(in super::super) fn has_access(self, at: u32) -> bool {
        self.words(at + 1)[0].load(Relaxed) & ACCESS != 0
    }

    /// Records that this many pages have no frames.
    #[inline]
    pub(in super::super) fn clear_frames(self, page: u32, pages: u32) {
        for [_, frame] in &self.pages[page as usize..][..pages as usize] {
            frame.store(0, Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::raw::atomic_words;

    const KINDS: [AreaKind; 3] = [AreaKind::Plain, AreaKind::Vmalloc, AreaKind::Ram];

    #[test]
    fn a_header_keeps_its_state_kind_length_and_tag() {
        let mut memory = [0; 8];
        let table = AreaTable::new(atomic_words(&mut memory));
        assert_eq!(table.pages(), 4);
        assert!((0..4).all(|page| table.header(page).is_none() && !table.is_gap(page)));
        for kind in KINDS {
            for pages in [1, 2, PAGES_MAX] {
                for tag in [0, 5, PAGES_MAX - 1] {
                    let live = AreaHeader::live(kind, pages, tag);
                    table.set_header(3, live);
                    let read = table.header(3).unwrap();
                    assert_eq!(
                        (read.state(), read.kind(), read.pages(), read.tag()),
                        (AreaState::Live, kind, pages, tag)
                    );
                    for next in [None, Some(0), Some(PAGES_MAX - 2)] {
                        let lazy = live.lazy(next);
                        assert_eq!((lazy.state(), lazy.kind()), (AreaState::Lazy, kind));
                        assert_eq!((lazy.pages(), lazy.next()), (pages, next));
                        assert_eq!(lazy.lazy(None).kind(), kind);
                        if pages > 1 {
                            let deferred = live.deferred(next);
                            assert_eq!(AreaHeader::of(deferred.0), Some(deferred));
                            assert!(deferred.is_deferred() && deferred.kind() == AreaKind::Vmalloc);
                            assert_eq!((deferred.pages(), deferred.next()), (pages, next));
                        }
                        let kept = live.kept(next);
                        assert_eq!(
                            (kept.state(), kept.kind()),
                            (AreaState::Kept, AreaKind::Vmalloc)
                        );
                        assert_eq!((kept.pages(), kept.next()), (pages, next));
                    }
                }
            }
        }
        assert!(!table.is_gap(3));
    }

    #[test]
    fn no_header_is_taken_for_nothing_or_for_a_gap() {
        let live = AreaHeader::live(AreaKind::Plain, 1, 0);
        assert_eq!(AreaHeader::of(live.0), Some(live));
        let last = AreaHeader::live(AreaKind::Ram, PAGES_MAX, 0).lazy(None);
        assert_eq!(AreaHeader::of(last.0), Some(last));
        assert_eq!(last.0 & GAP, 0);
        assert_eq!(AreaHeader::of(GAP), None);
        assert_eq!(AreaHeader::of(!0), None);
    }

    #[test]
    fn frame_zero_is_a_frame_and_zero_is_none() {
        let mut memory = [0; 6];
        let table = AreaTable::new(atomic_words(&mut memory));
        assert_eq!(table.frame(1), None);
        for frame in [Frame(0), Frame(u64::MAX - 1)] {
            table.set_run(1, 1, Run::new(frame, 1).unwrap());
            assert_eq!(table.frame(1), Some(frame));
        }
        table.clear_frames(1, 1);
        assert_eq!((table.frame(1), table.frame(0)), (None, None));
        table.set_run(1, 1, Run::new(Frame(7), 1).unwrap());
        table.set_header(1, AreaHeader::live(AreaKind::Vmalloc, 1, 0));
        assert_eq!(table.frame(1), Some(Frame(7)), "the other word");
    }

    #[test]
    fn runs_are_found_as_long_as_they_were_recorded() {
        let run = |start, frames| Run::new(Frame(start), frames).unwrap();
        let mut memory = [0; 24];
        let table = AreaTable::new(atomic_words(&mut memory));
        // Two that became one, one apart, none, and the largest number before none.
        table.set_run(1, 1, run(5, 2));
        table.set_run(1, 3, run(7, 1));
        table.set_run(4, 4, run(3, 2));
        table.set_run(7, 7, run(u64::MAX - 1, 1));
        assert_eq!(table.run_at(0, 9), None);
        assert_eq!(table.run_at(1, 9), Some(run(5, 3)));
        assert_eq!(table.run_at(1, 3), Some(run(5, 2)), "not beyond the end");
        assert_eq!(table.run_at(7, 9), Some(run(u64::MAX - 1, 1)));
        assert_eq!(table.run_at(4, 4), None, "no pages");
        let mut found = [(0, run(0, 0)); 3];
        let mut count = 0;
        let done = table.for_each_run(0, 9, |page, run| {
            found[count] = (page, run);
            count += 1;
            if count == 3 { Err(page) } else { Ok(()) }
        });
        assert_eq!(done, Err(7));
        assert_eq!(
            found,
            [(1, run(5, 3)), (4, run(3, 2)), (7, run(u64::MAX - 1, 1))]
        );
        table.clear_frames(1, 2);
        assert_eq!((table.frame(2), table.frame(3)), (None, Some(Frame(7))));
        // The mark of an access is beside the length, and new frames take it away.
        assert!(!table.has_access(4));
        table.note_access(4, true);
        assert!(table.has_access(4) && table.run_at(4, 9) == Some(run(3, 2)));
        table.set_run(4, 4, run(3, 2));
        assert!(!table.has_access(4));
    }
}
