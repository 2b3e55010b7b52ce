//! The lengths of slots: one or three times a power of two, from 8 to 1024 bytes, and half a page.

use crate::units::Page;

/// The number of classes.
pub(super) const CLASSES: usize = 15;
/// The words of a slab's bits: as many bits as a page has slots of the shortest length.
pub(super) const SLOT_WORDS: usize = Page::BYTES as usize / LENGTHS[0] as usize / 64;

const LENGTHS: [u16; CLASSES] = [
    8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048,
];

/// A length of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnitClass(u8);

impl UnitClass {
    /// The shortest slots that hold `bytes` bytes at a multiple of `align_bytes`; `None` if an object of that kind has
    /// whole pages. A slab begins at a page, so a slot lies at a multiple of each power of two that divides its length.
    pub(super) fn of(bytes: u64, align_bytes: u64) -> Option<Self> {
        let fits = |length: &u16| {
            let length = u64::from(*length);
            length >= bytes && length & (align_bytes - 1) == 0
        };
        LENGTHS.iter().position(fits).map(|nth| Self(nth as u8))
    }

    /// The class of that number.
    pub(super) const fn new(number: u32) -> Self {
        Self(number as u8)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize % CLASSES
    }

    /// The bytes of a slot.
    pub(super) const fn bytes(self) -> u64 {
        LENGTHS[self.index()] as u64
    }

    /// How many slots a slab has.
    pub(super) const fn slots(self) -> u32 {
        (Page::BYTES / self.bytes()) as u32
    }
}
