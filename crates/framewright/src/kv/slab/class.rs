//! Size classes: which slots serve which lengths.
//!
//! Lengths are one or three times a power of two, from 16 to 2048 bytes, so that, except for the
//! smallest, no slot is longer than its object by more than half. The number of a class determines
//! its length: half of an even number is the power, in units of 16 bytes; for an odd number from 3
//! on, half of it rounded up is one more than the power that is taken three times. No class has
//! number 1.

use crate::units::{Order, Page};

/// The alignment of every slot.
const ALIGN: u64 = 16;
/// The longest object that a slot holds.
pub(in super::super) const BYTES_MAX: u64 = 2048;
/// The number of the class with such slots.
const LAST: u8 = 14;
/// The number that no class has.
const NONE: u8 = 1;
/// A power of two, so that a mask keeps every number inside.
pub(in super::super) const PLACES: usize = 16;
/// The most slots that a slab has.
pub(super) const SLOTS_MAX: usize = 256;

/// The preferred order of a slab of each class, chosen so that it has some tens of slots, and no
/// fewer than 16.
const ORDERS: &[u8; PLACES] = &[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0];

/// The bytes of each class's slots.
const BYTES: &[u16; PLACES] = &bytes();

const fn bytes() -> [u16; PLACES] {
    let mut all = [0; PLACES];
    let mut number = 0;
    while number <= LAST as usize {
        let (factor, power) = SizeClass(number as u8).parts();
        all[number] = (ALIGN as u16 * factor) << power;
        number += 1;
    }
    all
}

/// By class: 2^32 divided by the bytes of a slot, rounded up.
const RECIPROCALS: &[u32; PLACES] = &reciprocals();

const fn reciprocals() -> [u32; PLACES] {
    let mut all = [0; PLACES];
    let mut number = 0;
    while number <= LAST as usize {
        all[number] = (1_u64 << 32).div_ceil(BYTES[number] as u64) as u32;
        number += 1;
    }
    all
}

/// By length in units of 16 bytes, rounded up: the smallest class that holds that many.
const BY_LENGTH: &[u8; (BYTES_MAX / ALIGN) as usize + 1] = &by_length();

const fn by_length() -> [u8; (BYTES_MAX / ALIGN) as usize + 1] {
    let mut classes = [0; (BYTES_MAX / ALIGN) as usize + 1];
    let (mut units, mut number) = (0, 0);
    while units < classes.len() {
        while (BYTES[number] as usize) < units * ALIGN as usize || number == NONE as usize {
            number += 1;
        }
        classes[units] = number as u8;
        units += 1;
    }
    classes
}

const _: () = {
    assert!(BYTES[LAST as usize] as u64 == BYTES_MAX && (LAST as usize) < PLACES);
    let mut number = 0;
    while number <= LAST as usize {
        let slots = (Page::BYTES << ORDERS[number]) as usize / BYTES[number] as usize;
        assert!(number == NONE as usize || 16 <= slots && slots <= SLOTS_MAX);
        assert!(ORDERS[number] <= SizeClass::ORDER_MAX.get());
        number += 1;
    }
};

/// A size class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in super::super) struct SizeClass(u8);

impl SizeClass {
    /// The largest order of a slab.
    pub(in super::super) const ORDER_MAX: Order = Order::new(3).expect("an order");

    /// The smallest class that holds this many bytes, aligned to 16 bytes or less; `None` if there is
    /// no such class, or the alignment is larger.
    #[inline(always)]
    pub(in super::super) const fn plain(bytes: u64, align_bytes: u64) -> Option<Self> {
        if bytes.wrapping_sub(1) >= BYTES_MAX || !matches!(align_bytes, 1 | 2 | 4 | 8 | 16) {
            return None;
        }
        Some(Self(BY_LENGTH[bytes.div_ceil(ALIGN) as usize]))
    }

    /// The smallest class that holds this many bytes, aligned so: slabs begin at a page, so a slot is
    /// aligned to each power of two that divides its length.
    pub(in super::super) fn of(bytes: u64, align_bytes: u64) -> Option<Self> {
        let least = Self::plain(bytes.max(align_bytes), 1)?;
        least
            .and_larger()
            .find(|class| class.bytes().is_multiple_of(align_bytes))
    }

    /// The class of that number.
    #[inline(always)]
    pub(in super::super) const fn new(number: u64) -> Self {
        Self(number as u8 % PLACES as u8)
    }

    /// All classes, by size.
    pub(in super::super) fn all() -> impl Iterator<Item = Self> {
        Self(0).and_larger()
    }

    /// This class and all larger ones with slots that are aligned as its own are, by size: such a
    /// slot can do all that a slot of this class can.
    pub(in super::super) fn and_larger(self) -> impl Iterator<Item = Self> {
        let align = self.align_bytes();
        let larger = (self.0..=LAST).filter(|&number| number != NONE).map(Self);
        larger.filter(move |class| class.bytes().is_multiple_of(align))
    }

    /// The alignment of every slot: slabs begin at a page.
    const fn align_bytes(self) -> u64 {
        1 << self.bytes().trailing_zeros()
    }

    /// The number, below 16.
    #[inline(always)]
    pub(in super::super) const fn index(self) -> usize {
        self.0 as usize % PLACES
    }

    /// The length of a slot.
    #[inline(always)]
    pub(in super::super) const fn bytes(self) -> u64 {
        BYTES[self.index()] as u64
    }

    /// The preferred order of its slabs.
    pub(in super::super) const fn order(self) -> Order {
        match Order::new(ORDERS[self.index()]) {
            Some(order) => order,
            None => Order::ZERO,
        }
    }

    /// How many slots a slab of that order has.
    pub(in super::super) const fn slots(self, order: Order) -> u32 {
        ((order.frames() * Page::BYTES) / self.bytes()) as u32
    }

    /// The bytes in units of 16: 1 or 3, times a power of two.
    const fn parts(self) -> (u16, u32) {
        let half = self.0 as u32 / 2;
        match self.0 % 2 {
            0 => (1, half),
            // For number 1, which no class has, this is 7: it only matters that a shift by it is
            // valid.
            _ => (3, half.wrapping_sub(1) % 8),
        }
    }

    /// The slot in which the byte at `offset` of a slab lies, and whether it is the slot's first.
    ///
    /// One multiplication gives both: the whole part of the quotient in the upper half, and in the lower half a
    /// fraction that is below the reciprocal only if the division leaves nothing. Exact for the 2^15 bytes of a slab.
    #[inline(always)]
    pub(in super::super) const fn slot_at(self, offset: u64) -> (u64, bool) {
        let reciprocal = RECIPROCALS[self.index()];
        let quotient = offset * reciprocal as u64;
        (quotient >> 32, (quotient as u32) < reciprocal)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn every_length_and_alignment_has_the_smallest_class_that_holds_it() {
        for bytes in 1..=BYTES_MAX {
            let class = SizeClass::plain(bytes, 8).unwrap();
            assert!(class.bytes() >= bytes);
            let smaller = SizeClass::all().take_while(|&c| c < class).last();
            assert!(smaller.is_none_or(|smaller| smaller.bytes() < bytes));
            for align in (0..12).map(|shift| 1 << shift) {
                let class = SizeClass::of(bytes, align).unwrap();
                assert!(class.bytes() >= bytes && class.bytes().is_multiple_of(align));
                let worse = SizeClass::all().take_while(|&c| c < class);
                let worse = worse.filter(|c| c.bytes() >= bytes && c.bytes().is_multiple_of(align));
                assert_eq!(worse.count(), 0, "{bytes} {align}");
            }
            assert_eq!(SizeClass::of(bytes, 4096), None);
        }
        assert_eq!(SizeClass::plain(0, 1), None);
        assert_eq!(SizeClass::plain(BYTES_MAX + 1, 1), None);
        assert_eq!(SizeClass::plain(u64::MAX, 1), None);
        assert_eq!(SizeClass::plain(16, 0), None);
        assert_eq!(SizeClass::plain(16, 3), None);
    }

    #[test]
    fn a_larger_class_that_serves_for_a_smaller_one_is_aligned_as_it_is() {
        for class in SizeClass::all() {
            let larger: std::vec::Vec<u64> = class.and_larger().map(SizeClass::bytes).collect();
            assert_eq!(larger[0], class.bytes());
            let align = class.bytes() & class.bytes().wrapping_neg();
            assert!(larger.iter().all(|bytes| bytes.is_multiple_of(align)));
            assert_eq!(larger.last(), Some(&BYTES_MAX));
        }
        assert_eq!(SizeClass::all().count(), 14);
        let of_128 = SizeClass::plain(128, 1).unwrap().and_larger();
        assert_eq!(of_128.map(SizeClass::bytes).nth(1), Some(256), "not 192");
    }

    #[test]
    fn slots_are_found_exactly_at_every_offset() {
        for class in SizeClass::all() {
            for offset in 0..Page::BYTES << 3 {
                let (slot, first) = class.slot_at(offset);
                assert_eq!(slot, offset / class.bytes());
                assert_eq!(first, offset % class.bytes() == 0);
            }
        }
    }
}
