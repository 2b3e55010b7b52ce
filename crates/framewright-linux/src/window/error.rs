//! The errors of a window itself. What a change of its mappings says is the engine's `MapError`.

use framewright::Page;
use std::fmt;

/// Why there is no window. Nothing is left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowError {
    /// A window has 1 to 2^30 pages.
    Pages(u64),
    /// The RAM lies in the host's pool of huge pages, of which single pages cannot be mapped.
    HugePool,
    /// The host gave no address space, or no memory for the window's records; an errno.
    Host(i32),
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(pages) => write!(f, "a window of {pages} pages is not between 1 and 2^30"),
            Self::HugePool => f.write_str("single pages of the host's huge pages cannot be mapped"),
            Self::Host(errno) => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                write!(f, "no address space for a window: {reason}")
            }
        }
    }
}

impl std::error::Error for WindowError {}

/// Why bytes of a window were not accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessError {
    /// The page is not in the window.
    Outside(Page),
    /// No frame is mapped there.
    NotMapped(Page),
    /// The host does not let a process copy from and to itself; an errno.
    Host(i32),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(page) => write!(f, "page {page} is not in the window"),
            Self::NotMapped(page) => write!(f, "page {page} is not mapped"),
            Self::Host(errno) => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                write!(f, "the host refuses to copy: {reason}")
            }
        }
    }
}

impl std::error::Error for AccessError {}
