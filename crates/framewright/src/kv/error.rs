//! What the object allocator refuses, and why.

use super::lengths::addr_of;
use crate::frame::AllocError;
use crate::units::{Addr, Frame};
use crate::vrange::{RangeError, RangeFreeError};
use core::fmt;

/// Why no object was allocated. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvError {
    /// Zero bytes were asked for.
    Empty,
    /// More bytes than any object can have.
    TooLong {
        /// The bytes asked for.
        bytes: u64,
    },
    /// This many elements of this many bytes exceed the range of numbers.
    Overflow {
        /// The elements asked for.
        count: u64,
        /// The bytes of each.
        bytes_each: u64,
    },
    /// The alignment is no power of two.
    Align {
        /// The alignment asked for, in bytes.
        bytes: u64,
    },
    /// The object would have to be contiguous, and no contiguous object can have that alignment.
    AlignContiguous {
        /// The alignment asked for, in bytes.
        bytes: u64,
    },
    /// The request must succeed, but its context does not let it wait and reclaim.
    MustNotWait,
    /// The object would have to move, but it is mapped pages, which are freed without a context: a
    /// caller that may not wait must keep them.
    MustNotFree(Addr),
    /// This many contiguous bytes were not there at once, and the request does not wait for them:
    /// more effort may get them.
    NotNow {
        /// The bytes asked for.
        bytes: u64,
    },
    /// The zones did not give the frames, or not side by side where that was needed.
    Frames(AllocError),
    /// The zones gave a block, which starts at that frame, that does not lie entirely in the frames
    /// that objects can lie in, and so was given back: the zones have other frames, too.
    Outside(Frame),
    /// The space did not give the pages, or could not map them.
    Ranges(RangeError),
    /// The address of a change of length is not an object's.
    Free(KvFreeError),
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("0 bytes were asked for"),
            Self::TooLong { bytes } => write!(f, "{bytes} bytes are more than an object can have"),
            Self::Overflow { count, bytes_each } => write!(
                f,
                "{count} elements of {bytes_each} bytes are more than can be counted"
            ),
            Self::Align { bytes } => write!(f, "alignment {bytes} is not a power of two"),
            Self::AlignContiguous { bytes } => {
                write!(f, "no contiguous object is aligned to {bytes} bytes")
            }
            Self::MustNotFree(addr) => {
                write!(
                    f,
                    "the object at {addr} is mapped pages, which a caller that may not wait cannot free"
                )
            }
            Self::NotNow { bytes } => {
                write!(f, "{bytes} contiguous bytes were not there at once")
            }
            Self::MustNotWait => {
                f.write_str("a request that must succeed has to be allowed to wait and to reclaim")
            }
            Self::Frames(error) => write!(f, "no frames for the object: {error}"),
            Self::Outside(frame) => write!(
                f,
                "the block at frame {frame} is not in the frames that objects can lie in"
            ),
            Self::Ranges(error) => write!(f, "no pages for the object: {error}"),
            Self::Free(error) => write!(f, "the object cannot change its size: {error}"),
        }
    }
}

impl core::error::Error for KvError {}

/// Why an object was not freed. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvFreeError {
    /// The address is neither a frame's nor a page's of the space.
    Outside(Addr),
    /// The object that starts there is free already.
    AlreadyFree(Addr),
    /// The address lies inside an object: a slot of a slab, live or not, or mapped pages.
    NotTheFirst {
        /// The address.
        addr: Addr,
        /// Where it starts.
        start: Addr,
    },
    /// No object starts there.
    NotAllocated(Addr),
    /// The object is mapped pages, which `kfree` does not free.
    Mapped(Addr),
    /// The space refused to free it.
    Ranges(RangeFreeError),
}

impl KvFreeError {
    /// The error for the space's answer about the page at `addr`.
    pub(super) const fn of_mapped(addr: Addr, error: RangeFreeError) -> Self {
        match error {
            RangeFreeError::Outside(_) => Self::Outside(addr),
            RangeFreeError::AlreadyFree(_) => Self::AlreadyFree(addr),
            RangeFreeError::NotAllocated(_) => Self::NotAllocated(addr),
            RangeFreeError::NotTheFirst { start, .. } => Self::NotTheFirst {
                addr,
                start: addr_of(start),
            },
            RangeFreeError::WrongKind(_)
            | RangeFreeError::WrongLength { .. }
            | RangeFreeError::Poisoned => Self::Ranges(error),
        }
    }
}

impl fmt::Display for KvFreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(addr) => {
                write!(
                    f,
                    "address {addr} is in no frame and in no page of the space"
                )
            }
            Self::AlreadyFree(addr) => write!(f, "the object at {addr} is free already"),
            Self::NotTheFirst { addr, start } => {
                write!(f, "address {addr} is inside the object at {start}")
            }
            Self::NotAllocated(addr) => write!(f, "no object starts at {addr}"),
            Self::Mapped(addr) => {
                write!(f, "the object at {addr} is mapped pages: kvfree frees it")
            }
            Self::Ranges(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for KvFreeError {}
