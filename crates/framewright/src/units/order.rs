//! Orders: the base-2 logarithms of blocks' lengths.

use core::fmt;

/// The base-2 logarithm of a block's length in frames, 0 to [`Order::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order(u8);

impl Order {
    /// One frame.
    pub const ZERO: Self = Self(0);

    /// The largest order the engine can name: 2^20 frames of 4 KiB are 4 GiB, more than any
    /// buddy system hands out as one block; what a zone serves is its configured maximum.
    pub const MAX: Self = Self(20);

    /// An order, or `None` above [`Order::MAX`].
    #[must_use]
    pub const fn new(order: u8) -> Option<Self> {
        if order <= Self::MAX.0 {
            Some(Self(order))
        } else {
            None
        }
    }

    /// The smallest order whose blocks have at least `frames` frames, or `None` above [`Order::MAX`]. No frames
    /// need order 0.
    #[must_use]
    #[inline]
    pub const fn covering(frames: u64) -> Option<Self> {
        let more = frames.saturating_sub(1);
        if more >> Self::MAX.0 != 0 {
            return None;
        }
        // By a logarithm of what is never 0: a processor has an instruction for that.
        Some(Self((more << 1 | 1).ilog2() as u8))
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The length of a block of this order, in frames.
    #[must_use]
    pub const fn frames(self) -> u64 {
        1 << self.0
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order({})", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_above_the_maximum_is_none() {
        assert_eq!(Order::new(20), Some(Order::MAX));
        assert_eq!(Order::new(21), None);
        assert_eq!(Order::MAX.frames(), 1 << 20);
        let covering = [0, 1, 2, 3, 1 << 20, (1 << 20) + 1, u64::MAX].map(Order::covering);
        let numbers = covering.map(|order| order.map(Order::get));
        assert_eq!(
            numbers,
            [Some(0), Some(0), Some(1), Some(2), Some(20), None, None]
        );
        for frames in 1..5000u64 {
            let order = Order::covering(frames).unwrap();
            assert!(order.frames() >= frames && order.frames() < 2 * frames);
        }
    }
}
