//! Size classes: which slots serve which lengths.

use crate::units::{Order, Page};

/// The bytes of each class's slots: those of Linux, from 16 on, and 48.
const BYTES: &[u16; PLACES] = &[
    16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 0, 0, 0, 0, 0,
];
/// The order of a slab of each class, where a block of it is there: such that it has 64 to 256
/// slots if four frames hold so many, and 16 or more in any case.
const ORDERS: &[u8; PLACES] = &[0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 0, 0, 0, 0, 0];
/// How many classes there are.
pub(super) const CLASSES: usize = 11;
/// A power of two, so that a mask keeps every class's number inside.
const PLACES: usize = 16;

/// The longest object that a slot holds.
pub(super) const BYTES_MAX: u64 = 2048;
/// What every slot is aligned to.
const ALIGN: u64 = 16;
/// The most slots that a slab has.
pub(super) const SLOTS_MAX: usize = 256;

/// By length in units of 16 bytes, rounded up: the smallest class that holds it.
const BY_LENGTH: &[u8; (BYTES_MAX / ALIGN) as usize + 1] = &by_length();

const fn by_length() -> [u8; (BYTES_MAX / ALIGN) as usize + 1] {
    let mut classes = [0; (BYTES_MAX / ALIGN) as usize + 1];
    let (mut units, mut class) = (0, 0);
    while units < classes.len() {
        while (BYTES[class] as usize) < units * ALIGN as usize {
            class += 1;
        }
        classes[units] = class as u8;
        units += 1;
    }
    classes
}

/// The reciprocal of each class's bytes, rounded up, as a fraction of 2^32: exact for offsets in a
/// slab, which are below 2^15.
const RECIPROCALS: &[u32; PLACES] = &reciprocals();

const fn reciprocals() -> [u32; PLACES] {
    let mut all = [0; PLACES];
    let mut class = 0;
    while class < CLASSES {
        all[class] = (1u64 << 32).div_ceil(BYTES[class] as u64) as u32;
        class += 1;
    }
    all
}

const _: () = {
    assert!(BYTES[CLASSES - 1] as u64 == BYTES_MAX && CLASSES <= PLACES);
    let mut class = 0;
    while class < CLASSES {
        let slots = (Page::BYTES << ORDERS[class]) as usize / BYTES[class] as usize;
        assert!(16 <= slots && slots <= SLOTS_MAX);
        assert!(ORDERS[class] <= Class::ORDER_MAX.get());
        assert!((BYTES[class] as u64).is_multiple_of(ALIGN));
        class += 1;
    }
};

/// A size class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Class(u8);

impl Class {
    /// The largest order of a slab.
    pub(super) const ORDER_MAX: Order = Order::new(3).expect("an order");

    /// The smallest class that holds so many bytes, aligned to 16 bytes or less; `None` if there
    /// is none, or no such alignment.
    #[inline(always)]
    pub(super) const fn plain(bytes: u64, align_bytes: u64) -> Option<Self> {
        if bytes.wrapping_sub(1) >= BYTES_MAX || !matches!(align_bytes, 1 | 2 | 4 | 8 | 16) {
            return None;
        }
        Some(Self(BY_LENGTH[bytes.div_ceil(ALIGN) as usize]))
    }

    /// The smallest class that holds so many bytes, aligned so: slots begin at a page, and so are
    /// aligned to what divides their length.
    pub(super) fn of(bytes: u64, align_bytes: u64) -> Option<Self> {
        let least = Self::plain(bytes.max(align_bytes), 1)?;
        least
            .and_larger()
            .find(|class| class.bytes().is_multiple_of(align_bytes))
    }

    /// The class of that number.
    #[inline(always)]
    pub(super) const fn new(number: u64) -> Self {
        Self(number as u8 % PLACES as u8)
    }

    /// All classes, by size.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self(0).and_larger()
    }

    /// This class and all larger ones whose slots are aligned as its own are, by size: what a slot
    /// of this class is good for, one of theirs is.
    pub(super) fn and_larger(self) -> impl Iterator<Item = Self> {
        let align = self.align_bytes();
        let larger = (self.0..CLASSES as u8).map(Self);
        larger.filter(move |class| class.bytes().is_multiple_of(align))
    }

    /// What every slot is aligned to: slabs begin at a page.
    const fn align_bytes(self) -> u64 {
        1 << self.bytes().trailing_zeros()
    }

    /// The number, below 16.
    #[inline(always)]
    pub(super) const fn index(self) -> usize {
        self.0 as usize % PLACES
    }

    /// The length of a slot.
    #[inline(always)]
    pub(super) const fn bytes(self) -> u64 {
        BYTES[self.index()] as u64
    }

    /// The order of its slabs, where there are such blocks.
    pub(super) const fn order(self) -> Order {
        match Order::new(ORDERS[self.index()]) {
            Some(order) => order,
            None => Order::ZERO,
        }
    }

    /// How many slots a slab of that order has.
    pub(super) const fn slots(self, order: Order) -> u32 {
        ((order.frames() * Page::BYTES) / self.bytes()) as u32
    }

    /// The slot in which the byte at `offset` of a slab lies, and whether it is the slot's first.
    #[inline(always)]
    pub(super) const fn slot_at(self, offset: u64) -> (u32, bool) {
        let slot = (offset * RECIPROCALS[self.index()] as u64) >> 32;
        (slot as u32, slot * self.bytes() == offset)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn every_length_and_alignment_has_the_smallest_class_that_holds_it() {
        for bytes in 1..=BYTES_MAX {
            let class = Class::plain(bytes, 8).unwrap();
            assert!(class.bytes() >= bytes);
            let smaller = Class::all().take_while(|&c| c < class).last();
            assert!(smaller.is_none_or(|smaller| smaller.bytes() < bytes));
            for align in (0..12).map(|shift| 1 << shift) {
                let class = Class::of(bytes, align).unwrap();
                assert!(class.bytes() >= bytes && class.bytes().is_multiple_of(align));
                let worse = Class::all().take_while(|&c| c < class);
                let worse = worse.filter(|c| c.bytes() >= bytes && c.bytes().is_multiple_of(align));
                assert_eq!(worse.count(), 0, "{bytes} {align}");
            }
            assert_eq!(Class::of(bytes, 4096), None);
        }
        assert_eq!(Class::plain(0, 1), None);
        assert_eq!(Class::plain(BYTES_MAX + 1, 1), None);
        assert_eq!(Class::plain(u64::MAX, 1), None);
        assert_eq!(Class::plain(16, 0), None);
        assert_eq!(Class::plain(16, 3), None);
    }

    #[test]
    fn a_larger_class_that_serves_for_a_smaller_one_is_aligned_as_it_is() {
        for class in Class::all() {
            let larger: std::vec::Vec<u64> = class.and_larger().map(Class::bytes).collect();
            assert_eq!(larger[0], class.bytes());
            let align = class.bytes() & class.bytes().wrapping_neg();
            assert!(larger.iter().all(|bytes| bytes.is_multiple_of(align)));
            assert_eq!(larger.last(), Some(&BYTES_MAX));
        }
        assert_eq!(Class::all().count(), CLASSES);
        let of_128 = Class::plain(128, 1).unwrap().and_larger();
        assert_eq!(of_128.map(Class::bytes).nth(1), Some(256), "not 192");
    }

    #[test]
    fn slots_are_found_exactly_at_every_offset() {
        for class in Class::all() {
            for offset in 0..Page::BYTES << 3 {
                let (slot, first) = class.slot_at(offset);
                assert_eq!(u64::from(slot), offset / class.bytes());
                assert_eq!(first, offset % class.bytes() == 0);
            }
        }
    }
}
