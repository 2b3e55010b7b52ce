//! What several parts of the engine refuse for the same reasons: to be made, to give a seat, a range of frames.

use super::{Addr, CpuId, Frame, Run};
use core::fmt;

/// Why a part of the engine was not made, or a CPU was given no seat there, or none of its seats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// A number is outside its limits.
    Limit {
        /// Which one.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// A number is no multiple of what it must be a multiple of.
    Multiple {
        /// Which one.
        what: &'static str,
        /// The number found.
        found: u64,
        /// What it must be a multiple of.
        of: u64,
    },
    /// Frames or pages end past the range of their numbers.
    End {
        /// Which ones.
        what: &'static str,
        /// The number of the first.
        start: u64,
    },
    /// Pages of the space lie where the direct map has frames: one address would belong to two
    /// objects.
    Overlap {
        /// The first byte of the space's window.
        window: Addr,
        /// The first byte of the frames in the direct map.
        direct: Addr,
    },
    /// The run of an area is not one of whole pageblocks of the zone, or one of them is being emptied.
    Run(RunError),
    /// The memory for metadata is too short.
    Metadata {
        /// The words that were handed in.
        words: usize,
        /// The words that are needed.
        needed: usize,
    },
    /// The CPU's seat is taken.
    Taken(CpuId),
    /// There is no seat for the CPU: there are fewer CPUs.
    Unknown(CpuId),
    /// The seats in the space that were taken before have frames of another
    /// [origin](crate::frame::FrameSource::origin).
    OtherFrames(CpuId),
    /// The seats of the object allocator that were taken before are in another space.
    OtherSpace(CpuId),
}

impl SetupError {
    /// Passes a number within its limits.
    pub(crate) const fn limit(
        what: &'static str,
        found: u64,
        min: u64,
        max: u64,
    ) -> Result<(), Self> {
        if found >= min && found <= max {
            return Ok(());
        }
        Err(Self::Limit {
            what,
            found,
            min,
            max,
        })
    }

    /// Passes numbers within their limits: name, number, least and most.
    pub(crate) const fn limits(numbers: &[(&'static str, u64, u64, u64)]) -> Result<(), Self> {
        let mut nth = 0;
        while nth < numbers.len() {
            let (what, found, min, max) = numbers[nth];
            if let Err(error) = Self::limit(what, found, min, max) {
                return Err(error);
            }
            nth += 1;
        }
        Ok(())
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit {
                what, found, max, ..
            } if found > max => write!(f, "{what} {found} is above the maximum {max}"),
            Self::Limit {
                what, found, min, ..
            } => write!(f, "{what} {found} is below the minimum {min}"),
            Self::Multiple { what, found, of } => {
                write!(f, "{what} {found:#x} is no multiple of {of}")
            }
            Self::End { what, start } => {
                write!(f, "{what} from {start:#x} end past the number range")
            }
            Self::Overlap { window, direct } => write!(
                f,
                "the space's window at {window} overlaps the frames at {direct} in the direct map"
            ),
            Self::Run(error) => error.fmt(f),
            Self::Metadata { words, needed } => {
                write!(f, "{words} words of metadata, {needed} are needed")
            }
            Self::Taken(cpu) => write!(f, "the seat of {cpu} is taken"),
            Self::Unknown(cpu) => write!(f, "there is no seat for {cpu}"),
            Self::OtherFrames(cpu) => write!(
                f,
                "the frames for {cpu} are of another origin than those of the space's other seats"
            ),
            Self::OtherSpace(cpu) => write!(
                f,
                "the seat of {cpu} is in another space than the object allocator's other seats"
            ),
        }
    }
}

impl core::error::Error for SetupError {}

/// Why an operation on a range of frames was refused, or an owner did not get a run, a reservation, or rid of one.
/// Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunError {
    /// The range is empty or not inside the zone.
    Outside,
    /// The range must start and end at a pageblock.
    NotWholePageblocks,
    /// A frame of the range exists already.
    Present(Frame),
    /// A frame of the range does not exist.
    Absent(Frame),
    /// A frame of the range is not free.
    NotFree(Frame),
    /// A pageblock of the range is isolated, or is not, where the opposite was asked for.
    Isolation(Frame),
    /// A pageblock of the range is being emptied by another call. That ends by itself: ask again.
    Apart(Frame),
    /// The pageblock of the frame has no pin to take back, or as many as it can have.
    Pins(Frame),
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
    /// [wait](crate::reserve::Contiguous::try_take): a guest that copies a page, or another owner.
    WouldWait,
    /// A run would be left to reserve, but every one has frames that are owned, or pages that are not
    /// yet on their device: trying again may help.
    Held,
    /// As many reservations as can be remembered.
    TooMany(usize),
    /// The supply's frames have another [origin](crate::frame::FrameSource::origin) than those into which pages were put
    /// back before.
    OtherFrames,
    /// A frame of the run to be released is not owned, or is not inside.
    NotOwned(Run),
    /// What starts at the frame, or the pageblock there, is pinned: it is in the way of emptying the range, and will be. As
    /// with the next three, no part of the range is left isolated, and contents that had moved until then stay where they
    /// are now; an owner tried every place, and this is the last one's (`-EBUSY`).
    Pinned(Frame),
    /// The block at the frame is in the way of emptying the range just now: trying again may help.
    Busy(Frame),
    /// The block at the frame is in the way of emptying the range, and its contents cannot be moved: by their mobility, or
    /// because no client knows them.
    Unmovable(Frame),
    /// Contents in the way find no room elsewhere (`-ENOMEM`); this block was the first of them. Where an owner asked, no
    /// other place would do better.
    NoMemory(Frame),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside => f.write_str("the range is empty or not inside the zone"),
            Self::NotWholePageblocks => {
                f.write_str("the range does not start and end at a pageblock")
            }
            Self::Present(frame) => write!(f, "frame {frame} exists already"),
            Self::Absent(frame) => write!(f, "frame {frame} does not exist"),
            Self::NotFree(frame) => write!(f, "frame {frame} is not free"),
            Self::Isolation(frame) => {
                write!(f, "the pageblock of frame {frame} is isolated, or is not")
            }
            Self::Apart(frame) => {
                write!(f, "the pageblock of frame {frame} is being emptied")
            }
            Self::Pins(frame) => write!(
                f,
                "the pageblock of frame {frame} has no pin to take back, or as many as it can have"
            ),
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
            Self::OtherFrames => f.write_str(
                "the supply gives other frames than those into which pages were put back before",
            ),
            Self::NotOwned(run) => write!(f, "{run:?} is not owned, or not all of it"),
            Self::Pinned(frame) => write!(f, "the block at frame {frame} is pinned"),
            Self::Busy(frame) => write!(f, "the block at frame {frame} is in use"),
            Self::Unmovable(frame) => write!(f, "the block at frame {frame} cannot be moved"),
            Self::NoMemory(frame) => write!(
                f,
                "the block at frame {frame} finds no free block of its order elsewhere"
            ),
        }
    }
}

impl core::error::Error for RunError {}
