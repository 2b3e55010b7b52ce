//! A page's state is one word, so that the handler of faults reads frame, marks and pins of one moment without a
//! lock.

use crate::mapping::Mapping;
use crate::reverse::Reverse;
use framewright::{Frame, Run};
use rustix::io::Errno;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Bits of a state for the frame, plus one.
const FRAME_BITS: u32 = 40;
const FRAME: u64 = (1 << FRAME_BITS) - 1;
const PINS_SHIFT: u32 = 49;
const ONE_PIN: u64 = 1 << PINS_SHIFT;
/// The most pins of a page at a time.
const PINS_MAX: u64 = (1 << (64 - PINS_SHIFT)) - 1;

/// Users may load there.
pub(super) const SHOWN: u64 = 1 << FRAME_BITS;
/// And may store.
pub(super) const WRITABLE: u64 = 2 << FRAME_BITS;
/// It differs from what the swap has for it, or from zero if the swap has no contents.
pub(super) const DIRTY: u64 = 4 << FRAME_BITS;
/// A thread copies it in or out: it is not evicted and does not move.
pub(super) const BUSY: u64 = 8 << FRAME_BITS;
/// It is being evicted: a thread that touches it waits.
pub(super) const LEAVING: u64 = 16 << FRAME_BITS;
/// It is in the list of hidden pages.
pub(super) const LISTED: u64 = 32 << FRAME_BITS;
/// A thread waits for it, and no pager has begun.
pub(super) const WANTED: u64 = 64 << FRAME_BITS;
/// It could not be brought, and no thread has been told yet.
pub(super) const FAILED: u64 = 128 << FRAME_BITS;
/// It was read ahead, and no thread has used it yet: it is hidden.
pub(super) const AHEAD: u64 = 256 << FRAME_BITS;
const _: () = assert!(AHEAD < ONE_PIN);

/// The state of a page: its frame, if any, marks, and pins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PagedState(u64);

impl PagedState {
    pub(super) const fn has_frame(self) -> bool {
        self.0 & FRAME != 0
    }

    /// Whether one of `marks` is set.
    pub(super) const fn is(self, marks: u64) -> bool {
        self.0 & marks != 0
    }

    #[must_use]
    pub(super) const fn with(self, marks: u64) -> Self {
        Self(self.0 | marks)
    }

    #[must_use]
    pub(super) const fn without(self, marks: u64) -> Self {
        Self(self.0 & !marks)
    }

    pub(super) const fn pins(self) -> u64 {
        self.0 >> PINS_SHIFT
    }

    /// Whether it may leave, or move: no thread is using it at the moment.
    pub(super) const fn is_idle(self) -> bool {
        self.has_frame() && !self.is(BUSY | LEAVING) && self.pins() == 0
    }

    /// With one more pin, if it can be counted.
    pub(super) fn pinned(self) -> Option<Self> {
        (self.pins() < PINS_MAX).then(|| Self(self.0 + ONE_PIN))
    }

    pub(super) const fn unpinned(self) -> Self {
        Self(self.0 - ONE_PIN)
    }
}

/// The state of each page, and the page in front of each frame. Pages and frames are counted from
/// the first.
///
/// # Invariants
/// - A frame behind a page names that page; any other frame names none.
/// - Only the thread that has shut the gate writes; every thread may read.
#[derive(Debug)]
pub(super) struct PagedTable {
    pages: Mapping,
    frames: Reverse,
}

impl PagedTable {
    /// For `pages` pages over `frames`, all without a frame. Parts that are not touched cost no
    /// memory.
    pub(super) fn new(pages: usize, frames: Run) -> Result<Self, Errno> {
        Ok(Self {
            pages: Mapping::anonymous(pages * 8)?,
            frames: Reverse::new(frames)?,
        })
    }

    pub(super) fn state(&self, page: usize) -> PagedState {
        // Acquire pairs with the Release in `set`: with the frame, its contents.
        PagedState(self.pages.words(page * 8, 1)[0].load(Acquire))
    }

    pub(super) fn set(&self, page: usize, state: PagedState) {
        self.pages.words(page * 8, 1)[0].store(state.0, Release);
    }

    /// The frame of a state.
    pub(super) fn frame(&self, state: PagedState) -> Option<Frame> {
        self.frames.frame(state.0 & FRAME)
    }

    /// The state of a page with `frame`, which names the page from now on.
    pub(super) fn with_frame(&self, page: usize, state: PagedState, frame: Frame) -> PagedState {
        self.frames.set(frame, Some(page));
        PagedState(state.0 & !FRAME | self.frames.number(frame))
    }

    /// The same without its frame, which then names no page.
    pub(super) fn without_frame(&self, state: PagedState) -> PagedState {
        if let Some(frame) = self.frame(state) {
            self.frames.set(frame, None);
        }
        PagedState(state.0 & !FRAME)
    }

    /// Whether a page can be in front of a frame.
    pub(super) fn has(&self, frame: Frame) -> bool {
        self.frames.has(frame)
    }

    /// The page in front of a frame.
    pub(super) fn page_of(&self, frame: Frame) -> Option<usize> {
        self.frames.page_of(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_marks_and_pins_do_not_touch_one_another() {
        let table = PagedTable::new(8, Run::new(Frame(1000), 16).unwrap()).unwrap();
        let all = SHOWN | WRITABLE | DIRTY | BUSY | LEAVING | LISTED | WANTED | FAILED | AHEAD;
        let mut state = table.with_frame(7, PagedState::default().with(all), Frame(1015));
        for _ in 0..PINS_MAX {
            state = state.pinned().unwrap();
        }
        assert!(state.pinned().is_none() && !state.is_idle());
        table.set(7, state);
        let read = table.state(7);
        assert_eq!(
            (table.frame(read), read.pins()),
            (Some(Frame(1015)), PINS_MAX)
        );
        assert_eq!(table.page_of(Frame(1015)), Some(7));
        for outside in [0, 999, 1000, 1016, u64::MAX] {
            assert_eq!(table.page_of(Frame(outside)), None);
        }
        let mut state = read.without(all);
        for _ in 0..PINS_MAX {
            assert!(!state.is_idle());
            state = state.unpinned();
        }
        assert!(state.is_idle() && !state.is(all));
        assert_eq!(table.without_frame(state), PagedState::default());
        assert_eq!(table.page_of(Frame(1015)), None);
    }
}
