//! It is apart from the edges, because a change of it needs no count: a change is published by the edges.

use crate::mapping::Mapping;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Which frame each page of a window shows: the kernel's page table knows, but cannot be asked.
///
/// For a page that is not mapped it has any value; the edges know which pages are mapped. Frames
/// are counted from the RAM's first.
#[derive(Debug)]
pub(super) struct ShownFrames {
    words: Mapping,
}

impl ShownFrames {
    /// For `pages` pages. Parts that are not touched cost no memory.
    pub(super) fn new(pages: usize) -> Result<Self, Errno> {
        let words = Mapping::anonymous(pages * 8)?;
        Ok(Self { words })
    }

    /// Records that the pages of `pages` are about to show as many frames from `first` on.
    pub(super) fn set(&self, pages: &Range<usize>, first: u64) {
        let words = self.words.words(pages.start * 8, pages.len());
        for (word, nth) in words.iter().zip(first..) {
            // Relaxed: published by the edges, which are changed after it.
            word.store(nth, Relaxed);
        }
    }

    /// The frame that `page` shows, if it is mapped.
    pub(super) fn get(&self, page: usize) -> u64 {
        self.words.words(page * 8, 1)[0].load(Relaxed)
    }
}
