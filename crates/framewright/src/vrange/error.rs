//! What the space refuses, and why.

use crate::frame::AllocError;
use crate::platform::MapError;
use crate::units::{Page, PageAccess};
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
    /// An area with frames of the space's own can only be cached as all memory is: a direct map has its frames, too, and their
    /// contents are in caches.
    Caching(PageAccess),
    /// No gap of that length and alignment: not even with everything purged. A request that must not wait is told so only
    /// where it knows that.
    NoSpace {
        /// The pages asked for, without the guard page.
        pages: u64,
        /// The alignment asked for, in bytes.
        align_bytes: u64,
    },
    /// The request must not wait, and no gap was there at once, or too little room below the bound on lazy pages: there
    /// may be one after a purge, or in what other CPUs hold.
    WouldWait,
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

impl RangeError {
    /// Whether memory would have helped: frames for the area, or for a page table.
    pub(crate) const fn is_for_memory(self) -> bool {
        matches!(self, Self::Frames(_)) || self.is_for_tables()
    }

    /// Whether a page table lacked a frame.
    pub(crate) const fn is_for_tables(self) -> bool {
        matches!(self, Self::Map(MapError::NoMemory))
    }
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("0 pages were asked for"),
            Self::TooLong { pages } => write!(f, "{pages} pages are more than the window has"),
            Self::Align { bytes } => write!(f, "alignment {bytes} is not a power of two"),
            Self::Caching(access) => write!(
                f,
                "an area of memory is cached as all memory, so it cannot be {access:?}"
            ),
            Self::NoSpace { pages, align_bytes } => {
                write!(f, "no gap of {pages} pages aligned to {align_bytes} bytes")
            }
            Self::WouldWait => f.write_str(
                "no gap was there at once, and the request must not wait for a purge, or for what other CPUs hold",
            ),
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

/// The space is poisoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Poisoned;

impl From<Poisoned> for RangeError {
    fn from(_: Poisoned) -> Self {
        Self::Poisoned
    }
}

impl From<Poisoned> for RangeFreeError {
    fn from(_: Poisoned) -> Self {
        Self::Poisoned
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn a_refused_request_says_what_was_asked_for() {
        let texts: [(RangeError, &str); 10] = [
            (
                RangeError::Caching(PageAccess::DEVICE),
                "an area of memory is cached as all memory, so it cannot be PageAccess(rw, uncached)",
            ),
            (RangeError::WouldWait, "no gap was there at once, and "),
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
}
