//! What the frames refuse, and why.

use crate::units::{Frame, Order};
use core::fmt;

/// Why no block was allocated. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// Fewer frames are free than asked for, caches and remote frees included: some must be freed.
    Exhausted,
    /// Enough frames are free, but no free block of that order: some must be moved.
    Fragmented,
    /// There may be a block among what other CPUs have cached or hold: the request must not wait for them, or not
    /// for longer than its [bound](super::Seat::alloc_within).
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
                "no block was there at once, and the request must not wait, or not for longer, for what other \
                 CPUs have cached",
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

/// Why a block was not freed. Nothing has changed, unless the call says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// The frame is not in the zone.
    Outside(Frame),
    /// The frame lies in the zone's span, and is not there: nothing has [added](super::Zone::add) it.
    Absent(Frame),
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

impl FreeError {
    /// The frame that the error is about.
    pub(super) const fn frame(self) -> Frame {
        match self {
            Self::Outside(frame)
            | Self::Absent(frame)
            | Self::AlreadyFree(frame)
            | Self::WrongOrder { frame, .. }
            | Self::NotTheFirst(frame) => frame,
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(frame) => write!(f, "frame {frame} is not in the zone"),
            Self::Absent(frame) => write!(f, "frame {frame} does not exist"),
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::units::{CpuId, RunError, SetupError};
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
            FreeError::Absent(frame).to_string(),
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
            SetupError::Taken(CpuId(3)).to_string(),
            SetupError::Unknown(CpuId(3)).to_string(),
        ];
        let expected = [
            "fewer frames are free than asked for",
            "enough frames are free, but no block of the order asked for",
            "no block was there at once, and the request must not wait, or not for longer, for what other CPUs \
             have cached",
            "order 11 is above the maximum 10",
            "frame 0x12 is not in the zone",
            "frame 0x12 does not exist",
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
            "there is no seat for cpu 3",
        ];
        assert_eq!(messages, expected);
    }
}
