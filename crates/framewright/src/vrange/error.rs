//! What the space refuses, and why.

use crate::frame::AllocError;
use crate::platform::MapError;
use crate::raw::TooShort;
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
    /// More pages than there are frames, free or not: no frame was taken.
    TooManyFrames {
        /// The pages asked for.
        pages: u64,
        /// The most frames that the source could have.
        frames: u64,
    },
    /// The source had no frames for the area.
    Frames(AllocError),
    /// The platform could not map them.
    Map(MapError),
    /// A call out of the space has unwound in the middle of a change: the space cannot be used
    /// again.
    Poisoned,
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
            Self::TooManyFrames { pages, frames } => {
                write!(
                    f,
                    "{pages} pages are more than the {frames} frames that there are"
                )
            }
            Self::Frames(error) => write!(f, "no frames for the area: {error}"),
            Self::Map(error) => write!(f, "the area cannot be mapped: {error}"),
            Self::Poisoned => f.write_str(POISONED),
        }
    }
}

impl core::error::Error for RangeError {}

const POISONED: &str = "the space is poisoned: a call out of it has unwound";

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
    /// No area contains the page.
    NotAllocated(Page),
    /// Another call made the area: `vfree` of an area that `map_ram` mapped, or the like.
    WrongKind(Page),
    /// The area has another length than the caller said.
    WrongLength {
        /// The page.
        page: Page,
        /// The length said, in pages.
        pages: u64,
        /// The area's length, in pages.
        mapped: u64,
    },
    /// A call out of the space has unwound in the middle of a change: the space cannot be used
    /// again.
    Poisoned,
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
            Self::Poisoned => f.write_str(POISONED),
        }
    }
}

impl core::error::Error for RangeFreeError {}

/// Why there is no space or no seat in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeSetupError {
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
    /// The memory for metadata is too short.
    Metadata(TooShort),
    /// The CPU is not one of the space's.
    UnknownCpu(CpuId),
    /// The CPU's seat is in use.
    SeatTaken(CpuId),
    /// The seats that were taken before have frames of another [origin](crate::frame::Origin).
    OtherFrames(CpuId),
}

impl fmt::Display for RangeSetupError {
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
            Self::Metadata(error) => error.fmt(f),
            Self::UnknownCpu(cpu) => write!(f, "{cpu} is not one of the space's"),
            Self::SeatTaken(cpu) => write!(f, "the seat of {cpu} is in use"),
            Self::OtherFrames(cpu) => write!(
                f,
                "the frames for {cpu} are of another origin than those of the space's other seats"
            ),
        }
    }
}

impl core::error::Error for RangeSetupError {}

impl From<TooShort> for RangeSetupError {
    fn from(error: TooShort) -> Self {
        Self::Metadata(error)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::{String, ToString};

    #[test]
    fn a_refused_request_says_what_was_asked_for() {
        let texts: [(RangeError, &str); 8] = [
            (RangeError::Poisoned, "the space is poisoned: "),
            (
                RangeError::TooManyFrames {
                    pages: 9,
                    frames: 8,
                },
                "9 pages are more than the 8 frames that there are",
            ),
            (RangeError::Empty, "0 pages were asked for"),
            (
                RangeError::TooLong { pages: u64::MAX },
                "18446744073709551615 pages are more than the window has",
            ),
            (
                RangeError::Align { bytes: 4097 },
                "alignment 4097 is not a power of two",
            ),
            (
                RangeError::NoSpace {
                    pages: 7,
                    align_bytes: 1 << 63,
                },
                "no gap of 7 pages aligned to 9223372036854775808 bytes",
            ),
            (
                RangeError::Frames(AllocError::Exhausted),
                "no frames for the area: ",
            ),
            (
                RangeError::Map(MapError::Limit { max: 65_530 }),
                "the area cannot be mapped: the host's limit of 65530 mappings",
            ),
        ];
        for (error, text) in texts {
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }

    #[test]
    fn a_refused_free_says_which_page_and_what_it_is() {
        let page = Page(0x8001);
        let texts: [(RangeFreeError, &str); 7] = [
            (
                RangeFreeError::Poisoned,
                "the space is poisoned: a call out of it has unwound",
            ),
            (
                RangeFreeError::Outside(page),
                "page 0x8001 is not in the window",
            ),
            (
                RangeFreeError::AlreadyFree(page),
                "the area at page 0x8001 is free already",
            ),
            (
                RangeFreeError::NotTheFirst {
                    page,
                    start: Page(0x8000),
                },
                "page 0x8001 is inside the area at page 0x8000",
            ),
            (
                RangeFreeError::NotAllocated(page),
                "page 0x8001 is in no area",
            ),
            (
                RangeFreeError::WrongKind(page),
                "the area at page 0x8001 was not made by the call's counterpart",
            ),
            (
                RangeFreeError::WrongLength {
                    page,
                    pages: 0,
                    mapped: 3,
                },
                "the area at page 0x8001 has 3 pages, not 0",
            ),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn a_space_that_cannot_be_made_says_which_number_is_wrong() {
        let texts: [(RangeSetupError, &[&str]); 8] = [
            (RangeSetupError::Pages(0), &["0 pages"]),
            (RangeSetupError::End(Page(0x77)), &["0x77"]),
            (
                RangeSetupError::SpanPages(3),
                &["3 pages a span", "4 and 1024"],
            ),
            (
                RangeSetupError::Misaligned {
                    start: Page(0x11),
                    span_pages: 64,
                },
                &["0x11", "64"],
            ),
            (RangeSetupError::Cpus(1024), &["1024 CPUs", "1 and 1023"]),
            (
                RangeSetupError::Metadata(TooShort {
                    words: 5,
                    needed: 99,
                }),
                &["5 words", "99"],
            ),
            (RangeSetupError::UnknownCpu(CpuId(9)), &["9"]),
            (RangeSetupError::SeatTaken(CpuId(8)), &["8"]),
        ];
        for (error, numbers) in texts {
            let text: String = error.to_string();
            assert!(numbers.iter().all(|number| text.contains(number)), "{text}");
        }
    }
}
