//! Two kinds of failure are kept apart: there is no region at all, or pages of one stay as they are.

use crate::window::WindowError;
use framewright::Page;
use framewright::frame::AllocError;
use framewright::platform::MapError;
use std::fmt;

/// Why there is no region. Nothing is left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnonError {
    /// There is no address space for it, or it is not possible over this RAM.
    Window(WindowError),
    /// The process has as many regions as the handler of faults can know.
    Regions {
        /// The limit.
        max: usize,
    },
    /// The host did not allow a handler of faults to be installed; an errno.
    Handler(i32),
}

impl fmt::Display for AnonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(error) => error.fmt(f),
            Self::Regions { max } => write!(f, "the process has {max} regions, and no more can be"),
            Self::Handler(errno) => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                write!(f, "no handler of SIGSEGV: {reason}")
            }
        }
    }
}

impl std::error::Error for AnonError {}

/// Why pages were not populated, discarded or pinned. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageError {
    /// The page is not in the region.
    Outside(Page),
    /// No frame is behind the page.
    NotPopulated(Page),
    /// The page is pinned.
    Pinned(Page),
    /// The page has as many pins as can be counted.
    Pins(Page),
    /// There is no frame for a page.
    Frames(AllocError),
    /// The seat's frames have another [origin](framewright::frame::FrameSource::origin) than those of the region's RAM.
    OtherFrames,
    /// The frames cannot be shown.
    Map(MapError),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(page) => write!(f, "page {page} is not in the region"),
            Self::NotPopulated(page) => write!(f, "page {page} is not populated"),
            Self::Pinned(page) => write!(f, "page {page} is pinned"),
            Self::Pins(page) => write!(f, "page {page} has too many pins"),
            Self::Frames(error) => error.fmt(f),
            Self::OtherFrames => {
                f.write_str("the seat gives other frames than those of the region's RAM")
            }
            Self::Map(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PageError {}
