//! The table: a word for each frame, which says what `kv` has there (K1).
//!
//! The CPU that took a block enters it. Only the owner of a slab, or a CPU that has claimed the
//! owner's seat, changes the slab's entries. Any CPU may free or shorten a run: it changes the entry
//! by compare-and-exchange, so of several CPUs one succeeds. Writes release and reads acquire: a CPU
//! that finds a slab's entry sees the record as it was when the entry was made.

use super::slab::SizeClass;
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::units::{Addr, Frame, Order, Page};

/// What kind of object stands at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ObjectKind {
    /// A slot of a slab.
    Slab,
    /// A block of frames.
    Run,
    /// Mapped pages.
    Mapped,
}

/// The table's entry for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KvEntry {
    /// Not `kv`'s, or inside a run.
    None,
    /// A run of that order starts here.
    Run(Order),
    /// The frame belongs to a slab.
    Slab(SlabFrame),
}

// The bits of an entry: its kind, and for a slab the owner, which frame of the slab it is, the class, and from
// bit 32 on the record. The number of the frame stands where a page's number stands in an offset.
const KIND: u64 = 0b11;
const RUN: u64 = 1;
const SLAB: u64 = 2;
const OWNER_SHIFT: u32 = 2;
const OWNERS: u64 = 0x3ff;
const NTH_SHIFT: u32 = Page::BYTES.trailing_zeros();
const CLASS_SHIFT: u32 = 28;

/// What an entry has in common with all entries of slabs of that owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlabOwner(u64);

impl SlabOwner {
    pub(super) const fn new(cpu: u16) -> Self {
        Self(SLAB | (cpu as u64) << OWNER_SHIFT)
    }
}

/// A frame of a slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlabFrame(u64);

impl SlabFrame {
    /// The `nth` frame, from 0, of the slab with that record.
    pub(super) const fn new(record: u32, class: SizeClass, owner: u16, nth: usize) -> Self {
        Self(
            SlabOwner::new(owner).0
                | (class.index() as u64) << CLASS_SHIFT
                | (nth as u64) << NTH_SHIFT
                | (record as u64) << 32,
        )
    }

    #[inline(always)]
    pub(super) const fn record(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(super) const fn class(self) -> SizeClass {
        SizeClass::new(self.0 >> CLASS_SHIFT & 15)
    }

    #[inline(always)]
    pub(super) const fn owner(self) -> u16 {
        (self.0 >> OWNER_SHIFT & OWNERS) as u16
    }

    /// How many bytes of its slab lie before the frame.
    #[inline(always)]
    pub(super) const fn bytes_before(self) -> u64 {
        self.0 & 7 << NTH_SHIFT
    }

    /// The number of the frame in its slab, from 0.
    pub(super) const fn nth(self) -> u64 {
        self.bytes_before() >> NTH_SHIFT
    }
}

/// The entry of a frame at which a run starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunEntry(u64);

impl RunEntry {
    /// A run's entry is below all others but that of nothing, so one comparison finds it.
    #[inline(always)]
    fn of(word: u64) -> Option<Self> {
        const LONGEST: u64 = KvEntry::Run(Order::MAX).word();
        (word.wrapping_sub(1) < LONGEST).then_some(Self(word))
    }

    #[inline(always)]
    pub(super) fn order(self) -> Order {
        Order::new((self.0 >> 2) as u8).unwrap_or(Order::MAX)
    }
}

impl KvEntry {
    #[inline(always)]
    fn of(word: u64) -> Self {
        match word & KIND {
            SLAB => Self::Slab(SlabFrame(word)),
            RUN => Order::new((word >> 2 & 31) as u8).map_or(Self::None, Self::Run),
            _ => Self::None,
        }
    }

    #[inline(always)]
    const fn word(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Run(order) => RUN | (order.get() as u64) << 2,
            Self::Slab(part) => part.0,
        }
    }
}

/// A word for each frame that objects can lie in.
#[derive(Clone, Copy, Debug)]
pub(super) struct KvTable<'m> {
    words: &'m [AtomicU64],
    start: u64,
    /// Where the first frame lies.
    first: u64,
}

impl<'m> KvTable<'m> {
    /// The table of the frames from `start` on, which lie from the address `first` on.
    pub(super) const fn new(words: &'m [AtomicU64], start: Frame, first: Addr) -> Self {
        Self {
            words,
            start: start.0,
            first: first.0,
        }
    }

    /// How many frames objects can lie in.
    pub(super) const fn frames(self) -> usize {
        self.words.len()
    }

    /// The frame at a place.
    #[inline(always)]
    pub(super) const fn frame(self, place: usize) -> Frame {
        Frame(self.start + place as u64)
    }

    /// The place of a frame, if objects can lie in it.
    #[inline(always)]
    pub(super) fn place(self, frame: Frame) -> Option<usize> {
        let place = frame.0.wrapping_sub(self.start);
        (place < self.words.len() as u64).then_some(place as usize)
    }

    /// The place of a block's first frame, if objects can lie in all of the block.
    #[inline(always)]
    pub(super) fn place_of_block(self, first: Frame, order: Order) -> Option<usize> {
        let place = self.place(first)?;
        let last = place as u64 + (order.frames() - 1);
        (last < self.words.len() as u64).then_some(place)
    }

    /// The place of the frame that contains an address of the direct map, if objects can lie in it.
    #[inline(always)]
    pub(super) fn place_at(self, addr: Addr) -> Option<usize> {
        let place = addr.0.wrapping_sub(self.first) / Page::BYTES;
        (place < self.words.len() as u64).then_some(place as usize)
    }

    /// The address of the first byte of the frame at a place.
    #[inline(always)]
    pub(super) const fn addr(self, place: usize) -> Addr {
        let bytes = (place as u64).wrapping_mul(Page::BYTES);
        Addr(self.first.wrapping_add(bytes))
    }

    #[inline(always)]
    pub(super) fn get(self, place: usize) -> KvEntry {
        // Acquire pairs with the Release in `set`, `change` and `replace`.
        KvEntry::of(self.words[place].load(Acquire))
    }

    /// The entry of a frame, if a run starts there.
    #[inline(always)]
    pub(super) fn run_at(self, place: usize) -> Option<RunEntry> {
        // Acquire as above.
        RunEntry::of(self.words[place].load(Acquire))
    }

    /// The frame at a place, if it is part of a slab of that owner's.
    #[inline(always)]
    pub(super) fn slab_of(self, place: usize, owner: SlabOwner) -> Option<SlabFrame> {
        const KIND_AND_OWNER: u64 = KIND | OWNERS << OWNER_SHIFT;
        // Acquire as above.
        let word = self.words[place].load(Acquire);
        (word & KIND_AND_OWNER == owner.0).then_some(SlabFrame(word))
    }

    /// Sets the entry of a frame that had none.
    #[inline(always)]
    pub(super) fn set(self, place: usize, entry: KvEntry) {
        debug_assert!(self.words[place].load(Relaxed) == 0, "K1");
        self.words[place].store(entry.word(), Release);
    }

    /// Changes the entry of a slab's frame. The caller is the slab's owner or has claimed its seat.
    pub(super) fn change(self, place: usize, entry: KvEntry) {
        self.words[place].store(entry.word(), Release);
    }

    /// Changes the entry of a frame if it is still `from`: if several CPUs try, one succeeds. With
    /// `alone` there is only one CPU.
    #[inline(always)]
    pub(super) fn replace(self, place: usize, from: KvEntry, to: KvEntry, alone: bool) -> bool {
        self.replace_word(place, from.word(), to.word(), alone)
    }

    /// Clears the entry of a frame at which a run starts, in the same way.
    #[inline(always)]
    pub(super) fn clear_run(self, place: usize, run: RunEntry, alone: bool) -> bool {
        self.replace_word(place, run.0, 0, alone)
    }

    #[inline(always)]
    fn replace_word(self, place: usize, from: u64, to: u64, alone: bool) -> bool {
        let word = &self.words[place];
        if alone {
            let same = word.load(Relaxed) == from;
            if same {
                word.store(to, Relaxed);
            }
            return same;
        }
        word.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for class in SizeClass::all() {
            for owner in [0, 1, 1022] {
                for nth in [0, 7] {
                    let part = SlabFrame::new(u32::MAX, class, owner, nth);
                    assert_eq!((part.class(), part.owner()), (class, owner));
                    assert_eq!((part.nth(), part.record()), (nth as u64, u32::MAX));
                    let entry = KvEntry::Slab(part);
                    assert_eq!(KvEntry::of(entry.word()), entry);
                }
            }
        }
        for order in (0..=Order::MAX.get()).filter_map(Order::new) {
            let run = KvEntry::Run(order);
            assert_eq!(KvEntry::of(run.word()), run);
            let found = RunEntry::of(run.word());
            assert_eq!(found.map(RunEntry::order), Some(order));
        }
        // Records are numbered from 1.
        let least = SlabFrame::new(1, SizeClass::new(0), 0, 0);
        for other in [KvEntry::None, KvEntry::Slab(least)] {
            assert_eq!(RunEntry::of(other.word()), None);
        }
        assert_eq!(KvEntry::of(0), KvEntry::None, "a zeroed table");
    }
}
