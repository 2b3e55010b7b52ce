//! What a thread that moves pages and a thread that has touched one have in common. The second may be in a signal
//! handler, so nothing here allocates or takes a lock but the gate.

use super::table::AnonTable;
use super::{AnonStats, PageError};
use crate::fault::{Touch, Touched};
use crate::gate::SignalGate;
use crate::ram::FRAME_BYTES;
use crate::window::{MappingAccess, Window};
use framewright::{Frame, Page, PageRange, Run};
use rustix::thread::{NanosleepRelativeResult, nanosleep};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The parts of a region, which the handler of faults sees, too.
#[derive(Debug)]
pub(super) struct AnonRegion {
    pub(super) window: Window,
    pub(super) table: AnonTable,
    pub(super) gate: SignalGate,
    pub(super) counts: AnonCounts,
}

/// See [`AnonStats`].
#[derive(Debug, Default)]
pub(super) struct AnonCounts {
    pub(super) batches: AtomicU64,
    pub(super) moved_pages: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) shown: AtomicU64,
    pub(super) refused: AtomicU64,
}

impl AnonRegion {
    /// The pages of `range`, counted from the first.
    pub(super) fn pages_of(&self, range: PageRange) -> Result<Range<usize>, PageError> {
        let all = self.window.range();
        if range.start() < all.start() || range.start() > all.end() {
            return Err(PageError::Outside(range.start()));
        }
        if range.end() > all.end() {
            return Err(PageError::Outside(all.end()));
        }
        let start = (range.start().0 - all.start().0) as usize;
        Ok(start..start + range.pages() as usize)
    }

    /// The page's number as users know it.
    pub(super) fn page(&self, nth: usize) -> Page {
        Page(self.window.range().start().0 + nth as u64)
    }

    /// The pages as users know them.
    pub(super) fn range(&self, pages: &Range<usize>) -> PageRange {
        PageRange::new(self.page(pages.start), pages.len() as u64).expect("they are in the window")
    }

    /// How many pages it has.
    pub(super) fn page_count(&self) -> usize {
        self.window.range().pages() as usize
    }

    /// Shows a populated page if it is hidden. Returns whether it is visible.
    fn show_again(&self, nth: usize) -> bool {
        let Some(_shut) = self.gate.try_shut() else {
            return true;
        };
        match self.table.frame(nth) {
            Some(frame) if !self.is_shown(nth, frame) => {
                let run = Run::new(frame, 1).expect("the frame is in RAM");
                self.window
                    .remap(self.page(nth), run, MappingAccess::Write, false)
                    .is_ok()
            }
            _ => true,
        }
    }

    fn is_shown(&self, nth: usize, frame: Frame) -> bool {
        self.window.frame_of(self.page(nth)) == Some(frame)
    }

    pub(super) fn stats(&self) -> AnonStats {
        let counts = &self.counts;
        AnonStats {
            batches: counts.batches.load(Relaxed),
            moved_pages: counts.moved_pages.load(Relaxed),
            closed: counts.closed.load(Relaxed),
            shown: counts.shown.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            waits: self.gate.waits(),
        }
    }
}

impl Touched for AnonRegion {
    fn bytes(&self) -> Range<usize> {
        let range = self.window.range();
        range.start().0 as usize * FRAME_BYTES..range.end().0 as usize * FRAME_BYTES
    }

    fn touched(&self, address: usize, _is_write: Option<bool>) -> Touch {
        let nth = (address - self.bytes().start) / FRAME_BYTES;
        if self.gate.wait() {
            return Touch::Again;
        }
        let Some(frame) = self.table.frame(nth) else {
            return Touch::Wrong;
        };
        // A page that was moving is there now; or the kernel refused to show it, and may agree by
        // now.
        if !self.is_shown(nth, frame) && !self.show_again(nth) {
            pause();
        }
        Touch::Again
    }
}

/// A millisecond.
pub(crate) fn pause() {
    let time = rustix::thread::Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    let (NanosleepRelativeResult::Ok
    | NanosleepRelativeResult::Interrupted(_)
    | NanosleepRelativeResult::Err(_)) = nanosleep(&time);
}
