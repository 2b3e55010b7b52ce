//! What the reserve refuses, and why.

use crate::raw::TooShort;
use crate::units::{Frame, Run};
use core::fmt;

/// Why a reserve was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveSetupError {
    /// No frame, or more than 2^30.
    Frames(u64),
    /// More than 2^29 pages without a frame of the reserve.
    Values(u64),
    /// No CPU, or more than 1023.
    Cpus(u16),
    /// More than 256 pools, or none.
    Pools(u16),
    /// The memory for metadata is too short.
    Metadata(TooShort),
}

impl fmt::Display for ReserveSetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames(n) => write!(f, "a reserve of {n} frames, expected 1 to {}", 1u64 << 30),
            Self::Values(n) => write!(
                f,
                "{n} pages without a frame of the reserve, expected at most {}",
                1u32 << 29
            ),
            Self::Cpus(n) => write!(f, "a reserve for {n} CPUs, expected 1 to 1023"),
            Self::Pools(n) => write!(f, "a reserve with {n} pools, expected 1 to 256"),
            Self::Metadata(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReserveSetupError {}

impl From<TooShort> for ReserveSetupError {
    fn from(error: TooShort) -> Self {
        Self::Metadata(error)
    }
}

/// Why a reservation was not placed. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservationError {
    /// No frame asked for, or an alignment that is no power of two.
    Malformed,
    /// No run of that length and alignment is left beside the other reservations.
    NoRoom,
    /// A run would be left, but every one has frames that are owned, or pages that are not yet on
    /// their device: trying again may help.
    Busy,
    /// As many reservations as the reserve can remember.
    TooMany(usize),
}

impl fmt::Display for ReservationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => {
                f.write_str("a reservation has at least one frame and a power of two as alignment")
            }
            Self::NoRoom => {
                f.write_str("no run of that length and alignment is left beside the reservations")
            }
            Self::Busy => f.write_str(
                "every run of that length has frames that are owned or hold pages not yet written",
            ),
            Self::TooMany(max) => write!(f, "{max} reservations are as many as there can be"),
        }
    }
}

impl core::error::Error for ReservationError {}

/// Why a run was not taken. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeError {
    /// It is owned already, or part of it is.
    Taken(Run),
    /// The reservation is not this reserve's, or was given up.
    Unknown,
    /// A guest is copying a page there, or another owner is at work, and has not ended within the
    /// [bound](super::Reserve::try_take).
    WouldWait,
    /// No frame asked for, or an alignment that is no power of two.
    Malformed,
    /// No run of that length and alignment exists beside reservations and owned frames.
    NoRoom,
    /// There would be a run if pages that are on no device yet found ordinary memory: there was
    /// none for the page in this frame.
    NoMemory(Frame),
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(run) => write!(f, "{run:?} is taken already"),
            Self::Unknown => f.write_str("there is no such reservation"),
            Self::WouldWait => f.write_str(
                "a guest copies a page there, or another owner is at work: longer than was to be waited",
            ),
            Self::Malformed => {
                f.write_str("a run has at least one frame and a power of two as alignment")
            }
            Self::NoRoom => f.write_str(
                "no run of that length and alignment is left beside reservations and owned frames",
            ),
            Self::NoMemory(frame) => {
                write!(f, "no ordinary memory for the page in frame {frame}")
            }
        }
    }
}

impl core::error::Error for TakeError {}

/// Why a run was not released. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReleaseError {
    /// A frame of it is not owned, or it is not inside the reserve.
    NotOwned(Run),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::NotOwned(run) = self;
        write!(f, "{run:?} is not owned, or not all of it")
    }
}

impl core::error::Error for ReleaseError {}

/// Why a page was not stored. No version of it is in the reserve then (C5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PutRefused {
    /// The pool is not there, or takes no such pages: dirty ones only if it was opened for them.
    NoPool,
    /// No frame is free and no page could be evicted: owners have the frames, or the shares forbid
    /// it.
    Full,
    /// The key was put again meanwhile, or it, its object or its pool was invalidated.
    Overtaken,
    /// The index has no room for the key beside pages that may not be dropped.
    IndexFull,
    /// The pool has as many dirty pages as it may: clean some first.
    DirtyFull,
}

impl PutRefused {
    /// How many reasons there are.
    pub const COUNT: usize = 5;
}
