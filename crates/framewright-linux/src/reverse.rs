//! The reverse map of memory at user addresses: which page is in front of each frame.

use crate::mapping::Mapping;
use framewright::{Frame, Run};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A word for each frame of a run. A user that holds the gate writes and trusts it; any thread may
/// read.
///
/// In the words of pages, frames have *numbers*: counted from the first, plus one; zero means no
/// frame.
#[derive(Debug)]
pub(crate) struct Reverse {
    words: Mapping,
    run: Run,
}

impl Reverse {
    /// No page is in front of any of `frames`. Parts that are not touched cost no memory.
    pub(crate) fn new(frames: Run) -> Result<Self, Errno> {
        Ok(Self {
            words: Mapping::anonymous(frames.frames() as usize * 8)?,
            run: frames,
        })
    }

    /// The frame with a number.
    pub(crate) fn frame(&self, number: u64) -> Option<Frame> {
        Some(Frame(self.run.start().0 + number.checked_sub(1)?))
    }

    /// The number of a frame.
    pub(crate) fn number(&self, frame: Frame) -> u64 {
        frame.0 - self.run.start().0 + 1
    }

    /// Whether a page can be in front of `frame`.
    pub(crate) fn has(&self, frame: Frame) -> bool {
        self.run.contains(frame)
    }

    /// The page in front of `frame`, which may be any frame.
    pub(crate) fn page_of(&self, frame: Frame) -> Option<usize> {
        if !self.has(frame) {
            return None;
        }
        // Relaxed: trusted only with the gate shut.
        let page = self.word(frame).load(Relaxed);
        (page as usize).checked_sub(1)
    }

    /// Records that `page` is in front of `frame`, or that no page is.
    pub(crate) fn set(&self, frame: Frame, page: Option<usize>) {
        let page = page.map_or(0, |page| page as u64 + 1);
        self.word(frame).store(page, Relaxed);
    }

    fn word(&self, frame: Frame) -> &AtomicU64 {
        let nth = frame.0 - self.run.start().0;
        &self.words.words(nth as usize * 8, 1)[0]
    }
}
