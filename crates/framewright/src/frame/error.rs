//! What the frames refuse, and why.

use crate::policy::ConfigError;
use crate::raw::TooShort;
use crate::units::{CpuId, Frame, Order};
use core::fmt;

/// Why no block was allocated. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// Fewer frames are free than asked for, caches and remote frees included: some must be freed.
    Exhausted,
    /// Enough frames are free, but no free block of that order: some must be moved.
    Fragmented,
    /// Enough frames are free, and the request must not wait: there may be a block among what other CPUs
    /// have cached or hold, and it has not looked there.
    WouldWait,
    /// No such run exists, free or not: the request has more frames than lie side by side, an
    /// alignment that none of them has, no frame at all, or an alignment that is no power of two.
    Impossible,
    /// The zone serves no block of that order; it never will.
    TooLarge {
        /// The order asked for.
        order: Order,
        /// The largest order of the zone.
        max: Order,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted => f.write_str("fewer frames are free than asked for"),
            Self::Fragmented => {
                f.write_str("enough frames are free, but no block of the order asked for")
            }
            Self::WouldWait => f.write_str(
                "enough frames are free, but no block was there at once, and the request must not wait for \
                 what other CPUs have cached",
            ),
            Self::Impossible => f.write_str(
                "no run of that length and alignment exists: expected at least one frame, a power of two, \
                 and as many frames side by side",
            ),
            Self::TooLarge { order, max } => {
                write!(f, "{order} is above the maximum {}", max.get())
            }
        }
    }
}

impl core::error::Error for AllocError {}

/// Why a request with a bound got no block. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundedError {
    /// Other CPUs were in the way for longer than the [bound](super::Seat::alloc_within): there may be a
    /// block.
    WouldWait,
    /// As for a request without a bound.
    Alloc(AllocError),
}

impl fmt::Display for BoundedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldWait => f.write_str("other CPUs are at work: longer than was to be waited"),
            Self::Alloc(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BoundedError {}

impl From<AllocError> for BoundedError {
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

/// Why a block was not freed. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// The frame is not in the zone, or does not exist.
    Outside(Frame),
    /// The block is free already.
    AlreadyFree(Frame),
    /// An allocation of another order starts here.
    WrongOrder {
        /// The frame.
        frame: Frame,
        /// The order that it was allocated with.
        allocated: Order,
    },
    /// The frame is allocated, but no allocation starts here, or not of at least that order.
    NotTheFirst(Frame),
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(frame) => write!(f, "frame {frame} is not in the zone"),
            Self::AlreadyFree(frame) => write!(f, "frame {frame} is free already"),
            Self::WrongOrder { frame, allocated } => {
                write!(f, "frame {frame} was allocated with {allocated}")
            }
            Self::NotTheFirst(frame) => {
                write!(f, "frame {frame} is not the first of an allocation")
            }
        }
    }
}

impl core::error::Error for FreeError {}

/// Why an operation on a range of frames was refused. Nothing has changed.
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
        }
    }
}

impl core::error::Error for RunError {}

/// Why a zone was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneSetupError {
    /// The zone has no frame, or its end is past the number range.
    Empty,
    /// The zone spans more frames than the maximum, 2^32.
    TooManyFrames(u64),
    /// Pageblocks have the orders 1 to 10.
    PageblockOrder(Order),
    /// The largest order is below the pageblocks' order.
    MaxOrder {
        /// The largest order asked for.
        max: Order,
        /// The pageblocks' order.
        pageblock: Order,
    },
    /// There must be 1 to 1023 CPUs.
    Cpus(u16),
    /// The memory for metadata is too short.
    Metadata(TooShort),
    /// A policy's limit is broken.
    Config(ConfigError),
}

impl fmt::Display for ZoneSetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the zone has no frame or ends past the number range"),
            Self::TooManyFrames(found) => {
                write!(f, "a zone of {found} frames is above the maximum 2^32")
            }
            Self::PageblockOrder(found) => {
                write!(f, "pageblock {found} is not between 1 and 10")
            }
            Self::MaxOrder { max, pageblock } => {
                write!(
                    f,
                    "maximum {max} is below the pageblocks' {}",
                    pageblock.get()
                )
            }
            Self::Cpus(found) => write!(f, "{found} CPUs are not between 1 and 1023"),
            Self::Metadata(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ZoneSetupError {}

impl From<TooShort> for ZoneSetupError {
    fn from(error: TooShort) -> Self {
        Self::Metadata(error)
    }
}

/// Why a CPU's seat was not given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeatError {
    /// The seat is taken.
    Taken(CpuId),
    /// The zone was made for fewer CPUs.
    Unknown(CpuId),
}

impl fmt::Display for SeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(cpu) => write!(f, "the seat of {cpu} is taken"),
            Self::Unknown(cpu) => write!(f, "the zone has no seat for {cpu}"),
        }
    }
}

impl core::error::Error for SeatError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_error_says_what_is_wrong_with_the_number() {
        let order = |order| Order::new(order).unwrap();
        let frame = Frame(0x12);
        let messages = [
            AllocError::Exhausted.to_string(),
            AllocError::Fragmented.to_string(),
            AllocError::WouldWait.to_string(),
            AllocError::TooLarge {
                order: order(11),
                max: order(10),
            }
            .to_string(),
            FreeError::Outside(frame).to_string(),
            FreeError::AlreadyFree(frame).to_string(),
            FreeError::WrongOrder {
                frame,
                allocated: order(3),
            }
            .to_string(),
            FreeError::NotTheFirst(frame).to_string(),
            RunError::Outside.to_string(),
            RunError::NotWholePageblocks.to_string(),
            RunError::Present(frame).to_string(),
            RunError::Absent(frame).to_string(),
            RunError::NotFree(frame).to_string(),
            RunError::Isolation(frame).to_string(),
            RunError::Apart(frame).to_string(),
            RunError::Pins(frame).to_string(),
            SeatError::Taken(CpuId(3)).to_string(),
            SeatError::Unknown(CpuId(3)).to_string(),
        ];
        let expected = [
            "fewer frames are free than asked for",
            "enough frames are free, but no block of the order asked for",
            "enough frames are free, but no block was there at once, and the request must not wait for what \
             other CPUs have cached",
            "order 11 is above the maximum 10",
            "frame 0x12 is not in the zone",
            "frame 0x12 is free already",
            "frame 0x12 was allocated with order 3",
            "frame 0x12 is not the first of an allocation",
            "the range is empty or not inside the zone",
            "the range does not start and end at a pageblock",
            "frame 0x12 exists already",
            "frame 0x12 does not exist",
            "frame 0x12 is not free",
            "the pageblock of frame 0x12 is isolated, or is not",
            "the pageblock of frame 0x12 is being emptied",
            "the pageblock of frame 0x12 has no pin to take back, or as many as it can have",
            "the seat of cpu 3 is taken",
            "the zone has no seat for cpu 3",
        ];
        assert_eq!(messages, expected);
    }
}
