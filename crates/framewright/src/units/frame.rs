//! Frames, by number.

use super::Order;
use core::fmt;

/// The number of a base-size piece of physical memory \[pfn\].
///
/// Frame 0 is an ordinary frame. The number is absolute: zones start where memory starts. It is
/// laid out like its number, so an array of frames is one of `uint64_t` to a caller in C.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Frame(pub u64);

/// The most frames between the first and the last of a zone, of all zones together, and of a reserve. With addresses of 32
/// bits there are fewer, so that no offset and no number of words of metadata is cut.
pub(crate) const FRAMES_MAX: u64 = if usize::BITS < 64 { 1 << 25 } else { 1 << 32 };

impl Frame {
    /// The bytes of a frame, and of a page.
    pub const BYTES: u64 = 4096;

    /// The frame that holds the byte at physical address `addr`.
    #[must_use]
    #[inline]
    pub const fn from_addr(addr: u64) -> Self {
        Self(addr / Self::BYTES)
    }

    /// How far the frame lies behind `origin`. Where that has more bits than an address, or lies before it, it is a number
    /// that no zone has.
    #[inline(always)]
    pub(crate) fn offset_from(self, origin: u64) -> usize {
        usize::try_from(self.0.wrapping_sub(origin)).unwrap_or(usize::MAX)
    }

    /// The physical address of its first byte, or `None` if that has more than 64 bits.
    #[must_use]
    #[inline]
    pub const fn addr(self) -> Option<u64> {
        self.0.checked_mul(Self::BYTES)
    }

    /// The frame `frames` further on, or `None` past the end of the number range.
    #[must_use]
    pub const fn checked_add(self, frames: u64) -> Option<Self> {
        match self.0.checked_add(frames) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// Whether this frame can start a block of `order`: blocks are naturally aligned.
    #[must_use]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.frames() - 1) == 0
    }

    /// The first frame of the block of `order` that contains this frame.
    #[must_use]
    pub const fn align_down(self, order: Order) -> Self {
        Self(self.0 & !(order.frames() - 1))
    }

    /// The first frame at or after this one that can start a block of `order`,
    /// or `None` past the end of the number range.
    #[must_use]
    pub const fn align_up(self, order: Order) -> Option<Self> {
        match self.0.checked_add(order.frames() - 1) {
            Some(n) => Some(Self(n).align_down(order)),
            None => None,
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({:#x})", self.0)
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_checked_at_the_end_of_the_number_range() {
        let nine = Order::new(9).unwrap();
        assert_eq!(Frame(1023).align_down(nine), Frame(512));
        assert_eq!(Frame(1).align_up(nine), Some(Frame(512)));
        assert_eq!(Frame(512).align_up(nine), Some(Frame(512)));
        assert_eq!(Frame(u64::MAX - 1).align_up(nine), None);
        assert_eq!(Frame(u64::MAX).checked_add(1), None);
        assert_eq!(Frame::from_addr(0x1fff), Frame(1));
        assert_eq!(Frame(2).addr(), Some(0x2000));
        assert_eq!(
            (Frame(1 << 52).addr(), Frame::from_addr(u64::MAX).addr()),
            (None, Some(!0xfff))
        );
        assert!(Frame(0).is_aligned(nine) && !Frame(256).is_aligned(nine));
    }
}
