//! An error names the page it is about, because batches carry many.

use std::fmt;
use std::io;

/// Why a page was not stored, or not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SwapError {
    /// All slots of the device are in use; with their number.
    Full(u64),
    /// The device failed.
    Device {
        /// The page, if the error is about one.
        page: Option<u64>,
        /// The kind of the error.
        kind: io::ErrorKind,
        /// What the device said.
        what: String,
    },
    /// A page above those that there are.
    Outside {
        /// The page.
        page: u64,
        /// How many there are.
        pages: u64,
    },
    /// The page's contents are nowhere: the store kept them dirty and has lost them, a write into
    /// their only slot failed, or the device became shorter. Returned until the page is stored
    /// again or invalidated.
    Lost(u64),
    /// Dirty pages remain, because the store did not hand them out for writing.
    Dirty(u64),
}

impl fmt::Display for SwapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(slots) => write!(f, "all {slots} slots of the swap device are in use"),
            Self::Device {
                page: Some(page),
                what,
                ..
            } => write!(f, "page {page}: {what}"),
            Self::Device { what, .. } => f.write_str(what),
            Self::Outside { page, pages } => write!(f, "page {page} is not below {pages}"),
            Self::Lost(page) => write!(
                f,
                "page {page} is lost: it is neither in the store nor on the device"
            ),
            Self::Dirty(pages) => write!(f, "{pages} dirty pages were not written"),
        }
    }
}

impl std::error::Error for SwapError {}
