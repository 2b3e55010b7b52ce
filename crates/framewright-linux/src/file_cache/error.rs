//! A write that failed keeps its page dirty, and a sync that failed makes pages dirty again: so these errors may be
//! answered by another try, and their texts say which page.

use crate::ram::NotInRam;
use framewright::frame::AllocError;
use std::fmt;

/// Why nothing was read or written. The cache and the file are as before, except for what the
/// result says was done until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileError {
    /// There is no frame for a page, and none could be evicted.
    Frames(AllocError),
    /// The supply's frames are not in the cache's RAM.
    Foreign(NotInRam),
    /// The supply's frames have another [origin](framewright::frame::FrameSource::origin) than those of the cache's RAM.
    OtherFrames,
    /// The page could not be read; an errno.
    Read {
        /// The page in the file.
        page: u64,
        /// Why.
        errno: i32,
    },
    /// The page could not be written; an errno. It stays dirty: trying again may help.
    Write {
        /// The page in the file.
        page: u64,
        /// Why.
        errno: i32,
    },
    /// The file did not say that it is on its device; an errno.
    Sync {
        /// Why.
        errno: i32,
    },
    /// The file did not confirm that it is on its device; an errno.
    Length {
        /// Why.
        errno: i32,
    },
    /// The file is shorter than the cache knows: another program has truncated it. See
    /// [`refresh`](super::FileCache::refresh).
    Truncated {
        /// The page that is not there.
        page: u64,
    },
    /// The page is behind the end of the file.
    PastTheEnd {
        /// The page.
        page: u64,
    },
    /// A file ends at 2^63 - 1 bytes at the latest.
    TooLong,
    /// It was opened for reading only.
    ReadOnly,
    /// It is open in another cache, and not in this one.
    OtherCache,
    /// The process was forked off from the one that has the cache.
    Forked,
    /// The page has as many pins as can be counted, 2^32 - 1.
    Pins {
        /// The page.
        page: u64,
    },
    /// As many pages are dirty as may be, and no page could be written.
    Dirty {
        /// How many.
        pages: u64,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = |errno: &i32| std::io::Error::from_raw_os_error(*errno);
        match self {
            Self::Frames(error) => write!(f, "no frame for a page of a file: {error}"),
            Self::Foreign(error) => error.fmt(f),
            Self::Read { page, errno } => write!(f, "page {page} was not read: {}", reason(errno)),
            Self::Write { page, errno } => {
                write!(f, "page {page} was not written: {}", reason(errno))
            }
            Self::Sync { errno } => write!(f, "the file was not synced: {}", reason(errno)),
            Self::Length { errno } => write!(f, "the file's length: {}", reason(errno)),
            Self::Truncated { page } => {
                write!(
                    f,
                    "page {page} is gone: another program has truncated the file"
                )
            }
            Self::PastTheEnd { page } => write!(f, "page {page} is past the end of the file"),
            Self::TooLong => f.write_str("a file has at most 2^63 - 1 bytes"),
            Self::ReadOnly => f.write_str("the file was opened for reading only"),
            Self::OtherFrames => {
                f.write_str("the supply gives other frames than those of the cache's RAM")
            }
            Self::OtherCache => f.write_str("the file is open in another cache"),
            Self::Forked => {
                f.write_str("the cache is the parent's: this process was forked off from it")
            }
            Self::Pins { page } => write!(f, "page {page} has as many pins as can be counted"),
            Self::Dirty { pages } => write!(
                f,
                "{pages} pages are dirty, as many as may be, and none could be written"
            ),
        }
    }
}

impl std::error::Error for FileError {}
