//! The layout of a space: what the user chooses, and where each part of the metadata then lies.
//!
//! `SpaceShape` checks the layout once, before there is a space; nothing of it changes later. The space
//! cuts its memory in the order of `SpaceShape::parts`, from the start of a cache line on. Seats and
//! records are whole lines.

use super::super::span::{SpanRecord, Spans};
use super::record::SpaceRecord;
use super::seat_record::SpaceSeatRecord;
use crate::raw::{Carver, RawRecord};
use crate::units::{FRAMES_MAX, Page, SetupError};

/// The place and the shape of a space. It determines the size of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLayout {
    /// The window's first page, a multiple of `span_pages`.
    pub start: Page,
    /// The window's length in pages, less than 2^30; at most 2^25 where addresses have 32 bits.
    pub pages: u64,
    /// The length of a span and of a vmap block in pages: a power of two from 4 to 1024.
    pub span_pages: u32,
    /// How many CPUs may have a seat, 1 to 1023.
    pub cpus: u16,
}

impl SpaceLayout {
    /// A window with spans of 1024 pages, for one CPU.
    #[must_use]
    pub const fn new(start: Page, pages: u64) -> Self {
        Self {
            start,
            pages,
            span_pages: 1024,
            cpus: 1,
        }
    }

    /// The same for `cpus` CPUs.
    #[must_use]
    pub const fn with_cpus(mut self, cpus: u16) -> Self {
        self.cpus = cpus;
        self
    }

    /// The same with spans of `span_pages`.
    #[must_use]
    pub const fn with_span_pages(mut self, span_pages: u32) -> Self {
        self.span_pages = span_pages;
        self
    }

    /// How many words of metadata the space needs.
    ///
    /// Two words for each page of the window; 832 bytes for each span of 1024 pages; 1.4 KiB for
    /// each CPU: in all 0.41 % of the window. A page's two words are not touched until a page of
    /// the window near it is used.
    ///
    /// # Errors
    /// If no space can have the layout.
    pub fn words_needed(&self) -> Result<usize, SetupError> {
        Ok(SpaceShape::new(self)?.words)
    }
}

/// The longest slot of a vmap block, as Linux has it (`VMAP_MAX_ALLOC`, the bits of a word).
pub(super) const SLOT_MAX: u32 = 64;
/// How many spans with waiting pages one request makes free.
pub(in super::super) const RELEASES: usize = 4;
/// The most gaps given back under one hold of the arena's lock.
pub(in super::super) const MERGES_MAX: usize = 32;

/// The most pages of a window: their numbers and lengths fit 30 bits, and one number means "none". No more than frames.
pub(in super::super) const PAGES_MAX: u64 = if FRAMES_MAX < 1 << 30 {
    FRAMES_MAX
} else {
    (1 << 30) - 1
};

/// Where each part lies in the words handed in.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SpaceShape {
    pub(in super::super) start: Page,
    pub(in super::super) pages: usize,
    pub(super) span_shift: u32,
    pub(in super::super) cpus: u16,
    /// How many spans begin in the window; the last one may end past it.
    pub(in super::super) spans: usize,
    pub(in super::super) words: usize,
}

impl SpaceShape {
    pub(super) fn new(layout: &SpaceLayout) -> Result<Self, SetupError> {
        let span_pages = layout.span_pages;
        SetupError::limit("span_pages", span_pages.into(), 4, 1024)?;
        if !span_pages.is_power_of_two() {
            return Err(SetupError::Multiple {
                what: "span_pages",
                found: span_pages.into(),
                of: span_pages.next_power_of_two().into(),
            });
        }
        SetupError::limits(&[
            ("number of pages", layout.pages, 1, PAGES_MAX),
            ("number of CPUs", layout.cpus.into(), 1, 1023),
        ])?;
        let end = layout.start.checked_add(layout.pages);
        if end.and_then(Page::address).is_none() {
            let (what, start) = ("the window's pages", layout.start.0);
            return Err(SetupError::End { what, start });
        }
        if !layout.start.0.is_multiple_of(u64::from(span_pages)) {
            return Err(SetupError::Multiple {
                what: "the window's first page",
                found: layout.start.0,
                of: span_pages.into(),
            });
        }
        let mut shape = Self {
            start: layout.start,
            pages: layout.pages as usize,
            span_shift: span_pages.trailing_zeros(),
            cpus: layout.cpus,
            spans: (layout.pages as usize).div_ceil(span_pages as usize),
            words: 0,
        };
        let seats = usize::from(layout.cpus) * SpaceSeatRecord::WORDS;
        let spans = shape.spans * SpanRecord::WORDS;
        let parts = shape.parts().iter().sum::<usize>();
        shape.words = Carver::words_needed(SpaceRecord::WORDS + seats + spans + parts);
        Ok(shape)
    }

    /// The lengths of the parts behind the records (the space's own, the seats', the spans'): the spans' bitmaps,
    /// the table.
    pub(super) fn parts(&self) -> [usize; 2] {
        let bitmaps = Spans::bitmaps_words(self.span_shift);
        [self.spans * bitmaps, self.pages * 2]
    }
}
