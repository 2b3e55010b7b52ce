//! The table answers both directions, page to frame and frame to page, without a search: users ask the first, a move
//! the second.

use crate::mapping::Mapping;
use crate::ram::FRAME_BYTES;
use crate::reverse::Reverse;
use framewright::{Frame, Run};
use rustix::io::Errno;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Bits of an entry for the frame, plus one; the pins are above.
const FRAME_BITS: u32 = 44;
const FRAME: u64 = (1 << FRAME_BITS) - 1;
const ONE_PIN: u64 = 1 << FRAME_BITS;
/// The most pins of a page at a time.
const PINS_MAX: u64 = (1 << (64 - FRAME_BITS)) - 1;
// No process maps more frames than that.
const _: () = assert!((FRAME as u128) * FRAME_BYTES as u128 > 1 << 54);

/// Which frame is behind each page, how often the page is pinned, and which page is in front of
/// each frame (the reverse map). Pages and frames are counted from the first.
///
/// # Invariants
/// - `frames[pages[p]] == p` for every populated page, and the entry of a frame without a page says
///   so.
/// - Only the thread that has shut the gate writes; every thread may read.
#[derive(Debug)]
pub(super) struct AnonTable {
    pages: Mapping,
    frames: Reverse,
}

impl AnonTable {
    /// For `pages` pages over `frames`, none of them populated. Parts that are not touched cost no
    /// memory.
    pub(super) fn new(pages: usize, frames: Run) -> Result<Self, Errno> {
        Ok(Self {
            pages: Mapping::anonymous(pages * 8)?,
            frames: Reverse::new(frames)?,
        })
    }

    /// The frame behind a page.
    pub(super) fn frame(&self, page: usize) -> Option<Frame> {
        // Acquire pairs with the Release in `set`: with the frame, its contents.
        self.frames.frame(self.page(page).load(Acquire) & FRAME)
    }

    /// The page in front of a frame.
    pub(super) fn page_of(&self, frame: Frame) -> Option<usize> {
        self.frames.page_of(frame)
    }

    /// Puts `frame` behind `page`, which has no pin.
    pub(super) fn set(&self, page: usize, frame: Frame) {
        self.frames.set(frame, Some(page));
        self.page(page).store(self.frames.number(frame), Release);
    }

    /// Records that `frame` has no page.
    pub(super) fn forget(&self, frame: Frame) {
        self.frames.set(frame, None);
    }

    /// Records that `page` has no frame.
    pub(super) fn clear(&self, page: usize) {
        self.page(page).store(0, Release);
    }

    pub(super) fn is_pinned(&self, page: usize) -> bool {
        self.page(page).load(Relaxed) >= ONE_PIN
    }

    /// Whether one more pin can be counted.
    pub(super) fn has_room_for_a_pin(&self, page: usize) -> bool {
        self.page(page).load(Relaxed) >> FRAME_BITS < PINS_MAX
    }

    pub(super) fn pin(&self, page: usize) {
        self.page(page).fetch_add(ONE_PIN, Relaxed);
    }

    pub(super) fn unpin(&self, page: usize) {
        self.page(page).fetch_sub(ONE_PIN, Relaxed);
    }

    fn page(&self, page: usize) -> &AtomicU64 {
        &self.pages.words(page * 8, 1)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_frames_know_each_other() {
        let frames = Run::new(Frame(1000), 16).unwrap();
        let table = AnonTable::new(32, frames).unwrap();
        assert_eq!((table.frame(31), table.page_of(Frame(1015))), (None, None));
        table.set(31, Frame(1015));
        table.set(0, Frame(1000));
        assert_eq!(table.frame(31), Some(Frame(1015)));
        assert_eq!(table.frame(0), Some(Frame(1000)));
        assert_eq!(table.page_of(Frame(1015)), Some(31));
        assert_eq!(table.page_of(Frame(1000)), Some(0));
        for outside in [0, 999, 1016, u64::MAX] {
            assert_eq!(table.page_of(Frame(outside)), None);
        }
        table.pin(31);
        table.pin(31);
        table.unpin(31);
        assert!(table.is_pinned(31) && table.has_room_for_a_pin(31));
        assert_eq!(table.frame(31), Some(Frame(1015)));
        table.unpin(31);
        assert!(!table.is_pinned(31));
        table.clear(31);
        table.forget(Frame(1015));
        assert_eq!((table.frame(31), table.page_of(Frame(1015))), (None, None));
    }
}
