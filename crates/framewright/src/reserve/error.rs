//! What the reserve refuses, and why.

use crate::reclaim::Obstacle;
use crate::units::{Frame, Run};
use core::fmt;

/// Why an owner did not get a run, a reservation, or rid of one. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContigError {
    /// No frame asked for, or an alignment that is no power of two.
    Malformed,
    /// No run of that length and alignment is left beside reservations and owned frames. Trying
    /// again helps after a release.
    NoRoom,
    /// It is owned already, or part of it is: the reservation's owner has this run.
    Taken(Run),
    /// The reservation is not this area's, or was given up.
    Unknown,
    /// Others were in the way for longer than the caller was willing to
    /// [wait](super::Contiguous::try_take): a guest that copies a page, or another owner.
    WouldWait,
    /// A run would be left to reserve, but every one has frames that are owned, or pages that are not
    /// yet on their device: trying again may help.
    Held,
    /// As many reservations as can be remembered.
    TooMany(usize),
    /// A frame of the run to be released is not owned, or is not inside.
    NotOwned(Run),
    /// Every place had something in it that did not go away (`-EBUSY`): in the last one the block
    /// at `frame`. Only where contents are [moved](super::ContiguousKind::Migrate); trying again may help.
    Busy {
        /// The first frame of the block that stays, or of the pageblock with the pin.
        frame: Frame,
        /// Why it stays.
        why: Obstacle,
    },
    /// Contents in the way find no room elsewhere (`-ENOMEM`); this block was the first of them.
    /// Only where contents are [moved](super::ContiguousKind::Migrate), or put back: no other place would do
    /// better.
    NoMemory(Frame),
}

impl fmt::Display for ContigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => {
                f.write_str("a run has at least one frame and a power of two as alignment")
            }
            Self::NoRoom => f.write_str(
                "no run of that length and alignment is left beside reservations and owned frames",
            ),
            Self::Taken(run) => write!(f, "{run:?} is taken already"),
            Self::Unknown => f.write_str("there is no such reservation"),
            Self::WouldWait => f.write_str(
                "a guest copies a page there, or another owner is at work: longer than was to be waited",
            ),
            Self::Held => f.write_str(
                "every run of that length has frames that are owned or hold pages not yet written",
            ),
            Self::TooMany(max) => write!(f, "{max} reservations are as many as there can be"),
            Self::NotOwned(run) => write!(f, "{run:?} is not owned, or not all of it"),
            Self::Busy { frame, why } => write!(f, "the block at frame {frame} {why}"),
            Self::NoMemory(frame) => {
                write!(f, "the block at frame {frame} {}", Obstacle::NoRoom)
            }
        }
    }
}

impl core::error::Error for ContigError {}

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
