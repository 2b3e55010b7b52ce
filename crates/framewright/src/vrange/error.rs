use crate::frame::AllocError;
use crate::platform::MapError;
use crate::units::{CpuId, Page};
use core::fmt;

/// Why no area was allocated or mapped. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeError {
    /// Zero pages were asked for.
    Empty,
    /// More pages than the window has, or than can be numbered.
    TooLong {
        /// The pages asked for.
        pages: u64,
    },
    /// The alignment is no power of two.
    Align {
        /// The alignment asked for, in bytes.
        bytes: u64,
    },
    /// No gap of that length and alignment: not even with everything purged.
    NoSpace {
        /// The pages asked for, without the guard page.
        pages: u64,
        /// The alignment asked for, in bytes.
        align_bytes: u64,
    },
    /// The frames for the area could not be had.
    Frames(AllocError),
    /// The platform could not map them.
    Map(MapError),
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("0 pages were asked for"),
            Self::TooLong { pages } => write!(f, "{pages} pages are more than the window has"),
            Self::Align { bytes } => write!(f, "alignment {bytes} is not a power of two"),
            Self::NoSpace { pages, align_bytes } => {
                write!(f, "no gap of {pages} pages aligned to {align_bytes} bytes")
            }
            Self::Frames(error) => write!(f, "no frames for the area: {error}"),
            Self::Map(error) => write!(f, "the area cannot be mapped: {error}"),
        }
    }
}

impl core::error::Error for RangeError {}

/// Why an area was not freed or unmapped. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeFreeError {
    /// The page is not in the window.
    Outside(Page),
    /// The area that starts there is free already.
    AlreadyFree(Page),
    /// The page lies inside an area that starts elsewhere.
    NotTheFirst {
        /// The page.
        page: Page,
        /// Where its area starts.
        start: Page,
    },
    /// No area has the page.
    NotAllocated(Page),
    /// The area was made by another call: freed by `vfree` what `map_ram` mapped, or the like.
    WrongKind(Page),
    /// The area has another length than was said.
    WrongLength {
        /// The page.
        page: Page,
        /// The length said, in pages.
        pages: u64,
        /// The area's, in pages.
        mapped: u64,
    },
}

impl fmt::Display for RangeFreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(page) => write!(f, "page {page} is not in the window"),
            Self::AlreadyFree(page) => write!(f, "the area at page {page} is free already"),
            Self::NotTheFirst { page, start } => {
                write!(f, "page {page} is inside the area at page {start}")
            }
            Self::NotAllocated(page) => write!(f, "page {page} is in no area"),
            Self::WrongKind(page) => {
                write!(
                    f,
                    "the area at page {page} was not made by the call's counterpart"
                )
            }
            Self::WrongLength {
                page,
                pages,
                mapped,
            } => {
                write!(f, "the area at page {page} has {mapped} pages, not {pages}")
            }
        }
    }
}

impl core::error::Error for RangeFreeError {}

/// Why there is no space or no seat in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// A window has 1 to 2^30 - 1 pages.
    Pages(u64),
    /// The window ends past the number range.
    End(Page),
    /// Spans have a power of two of pages, 4 to 1024.
    SpanPages(u32),
    /// The window does not start at a multiple of a span's length.
    Misaligned {
        /// Where it starts.
        start: Page,
        /// The length of a span in pages.
        span_pages: u32,
    },
    /// A space has 1 to 1023 CPUs.
    Cpus(u16),
    /// The metadata handed in is too short.
    Metadata {
        /// The words that were handed in.
        words: usize,
        /// The words that are needed.
        needed: usize,
    },
    /// The CPU is not one of the space's.
    UnknownCpu(CpuId),
    /// The CPU's seat is in use.
    SeatTaken(CpuId),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(pages) => {
                write!(f, "a window of {pages} pages is not between 1 and 2^30 - 1")
            }
            Self::End(start) => {
                write!(f, "the window from page {start} ends past the number range")
            }
            Self::SpanPages(pages) => {
                write!(
                    f,
                    "{pages} pages a span are no power of two between 4 and 1024"
                )
            }
            Self::Misaligned { start, span_pages } => {
                write!(
                    f,
                    "the window's first page {start} is no multiple of {span_pages}"
                )
            }
            Self::Cpus(cpus) => write!(f, "{cpus} CPUs are not between 1 and 1023"),
            Self::Metadata { words, needed } => {
                write!(f, "{words} words of metadata, {needed} are needed")
            }
            Self::UnknownCpu(cpu) => write!(f, "{cpu} is not one of the space's"),
            Self::SeatTaken(cpu) => write!(f, "the seat of {cpu} is in use"),
        }
    }
}

impl core::error::Error for SetupError {}
