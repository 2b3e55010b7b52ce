//! Tags: the 16 bits beside each frame, which say whether a block starts here, and in what state.
//!
//! The CPU that frees a live block changes its tag. A cached tag is its seat's, which alone hands
//! the block out (F3), or a CPU's that has claimed the seat. A remote tag is the business of the
//! CPU that holds the pageblock. The [header of page frames](super::super) lists each change of a tag and the CPU
//! that makes it. All accesses are relaxed: a block is handed over by its
//! pageblock's lock, or by its users. So a free needs no search to recognise a block. A second free
//! that comes later is refused until the block is handed out again. What happens when two CPUs free one block at the
//! same moment is said at F7.

use crate::slots::WORD_ORDER;
use crate::units::{Mobility, Order};

/// The 16 bits beside each frame: whether a block starts here, and in what state.
///
/// ```text
///     0                      free, or inside a block, but not its first frame; or of a pageblock that never had a frame
///     1                      absent: the frame does not exist
///     010. .... .ooo oomm    live: handed out           m mobility, o order
///     001. .... .ooo oomm    remote: a remote free, not yet collected
///     1sss ssss ssso oomm    cached by seat s           s 10 bits, o 0 to 4
///     1sss ssss sss0 mm11    64 frames in seat s's stock
/// ```
///
/// A cached tag names the seat, so if two seats free one frame at the same moment, only the seat
/// that the tag names in the end hands it out again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Tag(pub(in super::super) u16);

const CACHED: u16 = 0b100 << 13;
const LIVE: u16 = 0b010 << 13;
const REMOTE: u16 = 0b001 << 13;
/// The state of a block that is not cached: in a cached tag two of these bits are the seat's.
const STATE: u16 = 0b111 << 13;
/// Where the seat begins in a cached tag: above the mobility's two bits and three of the order.
const SEAT: u32 = 5;

/// How many seats a tag can name.
pub(in super::super) const SEATS_MAX: usize = 1 << 10;

const _: () = {
    // Order::MAX fits five bits; cached orders fit three.
    assert!(Order::MAX.get() < 32);
    assert!(super::super::seat::CACHED_ORDERS <= 8);
    assert!(SEATS_MAX << SEAT == CACHED as usize);
};

impl Tag {
    pub(in super::super) const NONE: Self = Self(0);
    pub(in super::super) const ABSENT: Self = Self(1);

    #[inline(always)]
    pub(in super::super) const fn live(order: Order, mobility: Mobility) -> Self {
        Self(LIVE | (order.get() as u16) << 2 | mobility as u16)
    }

    #[inline(always)]
    pub(in super::super) const fn cached(seat: u16, order: Order, mobility: Mobility) -> Self {
        Self(CACHED | seat << SEAT | (order.get() as u16) << 2 | mobility as u16)
    }

    /// A whole word in `seat`'s stock: no cache has that order.
    #[inline(always)]
    pub(in super::super) const fn stocked(seat: u16, mobility: Mobility) -> Self {
        Self(CACHED | seat << SEAT | (mobility as u16) << 2 | 3)
    }

    #[inline(always)]
    pub(in super::super) const fn remote(order: Order, mobility: Mobility) -> Self {
        Self(REMOTE | (order.get() as u16) << 2 | mobility as u16)
    }

    /// Order and mobility, if a block that is handed out starts here.
    #[inline(always)]
    pub(in super::super) fn as_live(self) -> Option<(Order, Mobility)> {
        if self.0 & STATE == LIVE {
            self.parts()
        } else {
            None
        }
    }

    /// The mobility, if a block of `order` that is handed out starts here.
    #[inline(always)]
    pub(in super::super) fn as_live_of(self, order: Order) -> Option<Mobility> {
        // What remains is the mobility's number and nothing else; in any other tag higher bits
        // remain.
        let left = u32::from(self.0) ^ (u32::from(LIVE) | u32::from(order.get()) << 2);
        Mobility::from_index(left as usize)
    }

    /// The difference between a live tag of a cached order and that of the same block in `seat`'s
    /// cache: exclusive or with it turns one into the other.
    pub(in super::super) const fn cache_mask(seat: u16) -> u16 {
        LIVE ^ (CACHED | seat << SEAT)
    }

    /// Order and mobility, if a remote block starts here.
    #[inline(always)]
    pub(super) fn as_remote(self) -> Option<(Order, Mobility)> {
        if self.0 & STATE == REMOTE {
            self.parts()
        } else {
            None
        }
    }

    /// Whether a cached or a remote block starts here.
    pub(in super::super) const fn is_on_its_way(self) -> bool {
        self.0 & (CACHED | REMOTE) != 0
    }

    /// Whether a cached block starts here, or a word of a stock.
    pub(in super::super) const fn is_cached(self) -> bool {
        self.0 & CACHED != 0
    }

    /// Seat, order and mobility, if a cached block starts here, or a word of a stock.
    pub(in super::super) fn as_cached(self) -> Option<(u16, Order, Mobility)> {
        if self.0 & CACHED == 0 {
            return None;
        }
        let (high, low) = (self.0 >> 2 & 7, self.0 & 3);
        let (order, mobility) = if low == 3 {
            (WORD_ORDER, high)
        } else {
            (high as u8, low)
        };
        let mobility = Mobility::from_index(usize::from(mobility))?;
        let seat = (self.0 & !CACHED) >> SEAT;
        Some((seat, Order::new(order)?, mobility))
    }

    #[inline(always)]
    fn parts(self) -> Option<(Order, Mobility)> {
        let mobility = Mobility::from_index(usize::from(self.0 & 3))?;
        Some((Order::new((self.0 >> 2 & 31) as u8)?, mobility))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::seat::CACHED_ORDERS;
    use super::*;

    #[test]
    fn a_tag_says_what_was_put_into_it_and_nothing_else() {
        for mobility in Mobility::ALL {
            for order in 0..=Order::MAX.get() {
                let order = Order::new(order).unwrap();
                let live = Tag::live(order, mobility);
                assert_eq!(live.as_live(), Some((order, mobility)));
                assert_eq!(live.as_live_of(order), Some(mobility));
                let other = Order::new(order.get() ^ 1).unwrap_or(Order::ZERO);
                assert_eq!(live.as_live_of(other), None);
                assert_eq!((live.as_remote(), live.as_cached()), (None, None));
                assert!(!live.is_on_its_way());
                let remote = Tag::remote(order, mobility);
                assert_eq!(remote.as_remote(), Some((order, mobility)));
                assert_eq!((remote.as_live(), remote.as_cached()), (None, None));
                assert!(remote.is_on_its_way());
                if order.index() < CACHED_ORDERS {
                    for seat in [0, 1, 1023] {
                        let cached = Tag::cached(seat, order, mobility);
                        assert_eq!(cached.as_cached(), Some((seat, order, mobility)));
                        assert_eq!(cached.0 ^ Tag::cache_mask(seat), live.0);
                        assert_eq!((cached.as_live(), cached.as_remote()), (None, None));
                        assert!(cached.is_on_its_way());
                    }
                }
            }
        }
        for (seat, mobility) in [0, 1, 1023]
            .map(|s| Mobility::ALL.map(|m| (s, m)))
            .as_flattened()
        {
            let stocked = Tag::stocked(*seat, *mobility);
            let word = Order::new(WORD_ORDER).unwrap();
            assert_eq!(stocked.as_cached(), Some((*seat, word, *mobility)));
            assert_eq!((stocked.as_live(), stocked.as_remote()), (None, None));
            assert!(stocked.is_on_its_way());
            for order in 0..CACHED_ORDERS {
                let order = Order::new(order as u8).unwrap();
                assert!(
                    Mobility::ALL
                        .iter()
                        .all(|&m| stocked != Tag::cached(*seat, order, m))
                );
                assert_eq!(stocked.as_live_of(order), None);
            }
        }
        for tag in [Tag::NONE, Tag::ABSENT] {
            assert_eq!(
                (tag.as_live(), tag.as_remote(), tag.as_cached()),
                (None, None, None)
            );
            assert!(!tag.is_on_its_way());
        }
    }
}
