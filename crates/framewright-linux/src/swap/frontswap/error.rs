use std::fmt;
use std::io;

/// Why a page was not stored, or not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SwapError {
    /// All slots of the device are in use; so many there are.
    Full(u64),
    /// The device failed.
    Device {
        /// The page, if it was about one.
        page: Option<u64>,
        /// Of which kind the error was.
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
    /// The page's contents are nowhere: the store kept them dirty and has them no longer, a write into their only slot
    /// failed, or the device became shorter. Said until the page is stored again or invalidated.
    Lost(u64),
    /// Dirty pages are left, because the store did not hand them out for writing.
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
