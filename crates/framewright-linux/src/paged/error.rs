//! One error for all calls of a region, because each may have to bring or evict any page on its way.

use crate::swap::SwapError;
use framewright::frame::AllocError;
use framewright::platform::MapError;
use std::fmt;

/// Why a page was not had, or not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PagedError {
    /// Bytes outside of the region, which has that many.
    Outside(u64),
    /// There is no frame for the page, and no page could be evicted.
    Frames(AllocError),
    /// The supply's frames have another [origin](framewright::frame::FrameSource::origin) than those of the region's RAM.
    OtherFrames,
    /// The page's contents could not be read or written.
    Swap(SwapError),
    /// The page cannot be shown.
    Map(MapError),
    /// No thread [serves](crate::paged::Paged::serve) the region.
    NotServed,
    /// A page of the range, as counted from the first, is pinned.
    Pinned(u64),
    /// A page of the range, as counted from the first, has as many pins as can be counted.
    Pins(u64),
}

impl fmt::Display for PagedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(bytes) => write!(f, "not inside of the region's {bytes} bytes"),
            Self::Frames(error) => error.fmt(f),
            Self::OtherFrames => {
                f.write_str("the supply gives other frames than those of the region's RAM")
            }
            Self::Swap(error) => error.fmt(f),
            Self::Map(error) => error.fmt(f),
            Self::NotServed => f.write_str("no thread serves the region"),
            Self::Pinned(page) => write!(f, "page {page} of the region is pinned"),
            Self::Pins(page) => write!(f, "page {page} of the region has too many pins"),
        }
    }
}

impl std::error::Error for PagedError {}

impl From<SwapError> for PagedError {
    fn from(error: SwapError) -> Self {
        Self::Swap(error)
    }
}

impl From<AllocError> for PagedError {
    fn from(error: AllocError) -> Self {
        Self::Frames(error)
    }
}
