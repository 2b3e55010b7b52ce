//! A slab's record: what it is, which of its slots are free, and what other CPUs freed.
//!
//! ```text
//!     line 0       header, place, links, free slots     the owner's
//!     line 1       slots of remote frees, inbox         other CPUs that free, and the owner
//! ```
//!
//! Records are numbered from 1. Number 0 is no record: its words are zero for ever, so that a
//! zeroed magazine is an empty one. Zeroed words are a record without a slab. A record holds anything until a seat first
//! takes it from the pool, and clears it; no other CPU knows its number before.
//!
//! The header of `kv` has a slab's states. Its owner writes line 0, or a CPU that has claimed the owner's seat (K3). A
//! slot is free in one bitmap or in the other, or live (K2). No lock.

mod class;
mod pool;

pub(super) use class::{BYTES_MAX, PLACES, SizeClass};
pub(super) use pool::RecordPool;

use crate::raw::{WordRecords, record};
use crate::seats::Parcel;
use crate::sync::{AtomicU64, Ordering::Relaxed, load_in_order};
use crate::units::Order;

/// Words of a bitmap: 256 slots.
pub(super) const BITMAP_WORDS: usize = 4;
const _: () = assert!(BITMAP_WORDS * 64 == class::SLOTS_MAX);

record! {
    /// A slab's record: two cache lines. Number 0 is no slab's.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct SlabRecord {
        // The first line is the owner's; other CPUs read the header when they free.
        header: AtomicU64,
        /// The place of its first frame in the table.
        place: AtomicU64,
        /// The neighbours in the owner's list.
        next: AtomicU64,
        prev: AtomicU64,
        /// Free slots.
        free: [AtomicU64; BITMAP_WORDS],

        // Other CPUs that free write the second one, and the owner when it collects.
        remote: [AtomicU64; BITMAP_WORDS],
        pending: AtomicU64,
        inbox_next: AtomicU64,
        _rest: [AtomicU64; 2],
    } = 16 words, free at 4, remote at 8;
}

/// The number of a record's first word of free slots.
const FREE: usize = 4;

/// Where a slab is. The last bit says that it is in no list, the one before that it may have free slots beside used ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(super) enum SlabState {
    /// Nowhere: the record has no slab.
    None = 0,
    /// In no list: no slot is free.
    Full = 1,
    /// In its class's magazine.
    Current = 3,
    /// In the list of slabs with both free and used slots.
    Partial = 2,
    /// In the list of slabs with only free slots.
    Empty = 4,
    /// The same, but about to go back to the frames.
    Surplus = 6,
}

impl SlabState {
    /// The states of slabs in lists.
    pub(super) const LISTED: [Self; 3] = [Self::Partial, Self::Empty, Self::Surplus];
}

/// What a slab is, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlabHeader(u64);

impl SlabHeader {
    pub(super) const fn new(class: SizeClass, order: Order, owner: u16) -> Self {
        let slots = class.slots(order) as u64;
        Self(
            (class.index() as u64) << 3
                | (order.get() as u64) << 7
                | (owner as u64) << 9
                | slots << 19,
        )
    }

    #[inline(always)]
    pub(super) const fn state(self) -> SlabState {
        match self.0 & 7 {
            1 => SlabState::Full,
            2 => SlabState::Partial,
            3 => SlabState::Current,
            4 => SlabState::Empty,
            6 => SlabState::Surplus,
            _ => SlabState::None,
        }
    }

    /// Whether the slab is full or current.
    #[inline(always)]
    pub(super) const fn is_in_no_list(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the slab is full, of one that is full, current or partial.
    #[inline(always)]
    pub(super) const fn is_full(self) -> bool {
        self.0 & 2 == 0
    }

    pub(super) const fn with_state(self, state: SlabState) -> Self {
        Self(self.0 & !7 | state as u64)
    }

    #[inline(always)]
    pub(super) const fn class(self) -> SizeClass {
        SizeClass::new(self.0 >> 3 & 15)
    }

    pub(super) const fn order(self) -> Order {
        match Order::new((self.0 >> 7 & 3) as u8) {
            Some(order) => order,
            None => Order::ZERO,
        }
    }

    pub(super) const fn owner(self) -> u16 {
        (self.0 >> 9 & 0x3ff) as u16
    }

    pub(super) const fn with_owner(self, owner: u16) -> Self {
        Self(self.0 & !(0x3ff << 9) | (owner as u64) << 9)
    }

    #[inline(always)]
    pub(super) const fn slots(self) -> u32 {
        (self.0 >> 19) as u32
    }

    /// The bits of all slots that the slab has in a word of a bitmap.
    #[inline(always)]
    pub(super) const fn all_in(self, word: usize) -> u64 {
        match (self.slots() as usize).saturating_sub(64 * word) {
            left @ 0..64 => (1 << left) - 1,
            _ => !0,
        }
    }
}

/// All records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records<'m>(WordRecords<'m, SlabRecord>);

impl<'m> Records<'m> {
    /// Words of a record, as a magazine counts them.
    const WORDS: u64 = 16;

    /// Clears number 0; the others may hold anything.
    pub(super) fn new(records: WordRecords<'m, SlabRecord>) -> Self {
        let records = Self(records);
        records.get(0).clear();
        records
    }

    /// How many records there are, number 0 not counted.
    pub(super) const fn count(self) -> u32 {
        (self.0.len() - 1) as u32
    }

    #[inline(always)]
    pub(super) fn get(self, number: u32) -> Slab<'m> {
        Slab(self.0.get(number as usize))
    }

    /// The same, if there is a slab of that number.
    #[inline(always)]
    pub(super) fn find(self, number: u32) -> Option<Slab<'m>> {
        self.0.find(number as usize).map(Slab)
    }

    /// The word of free slots that a magazine names, which there is in any case.
    #[inline(always)]
    pub(super) fn word(self, magazine: u64) -> Option<&'m AtomicU64> {
        self.0.word(magazine as usize)
    }

    /// The magazine value that names a word of a slab's free slots.
    pub(super) const fn magazine(number: u32, word: usize) -> u64 {
        number as u64 * Self::WORDS + (FREE + word) as u64
    }

    /// The slab that a magazine names; 0 if it names no slab.
    pub(super) const fn named_by(magazine: u64) -> u32 {
        (magazine / Self::WORDS) as u32
    }
}

/// One slab's record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slab<'m>(&'m SlabRecord);

impl<'m> Slab<'m> {
    #[inline(always)]
    pub(super) fn header(self) -> SlabHeader {
        SlabHeader(self.0.header.load(Relaxed))
    }

    pub(super) fn set_header(self, header: SlabHeader) {
        self.0.header.store(header.0, Relaxed);
    }

    /// The place of its first frame in the table.
    pub(super) fn place(self) -> usize {
        self.0.place.load(Relaxed) as usize
    }

    /// Makes it a slab with only free slots.
    pub(super) fn begin(self, header: SlabHeader, place: usize) {
        self.0.place.store(place as u64, Relaxed);
        for word in 0..BITMAP_WORDS {
            self.free(word).store(header.all_in(word), Relaxed);
            // Mostly there are none, and a mere look leaves the line with the CPU that has it.
            if self.remote(word).load(Relaxed) != 0 {
                self.remote(word).store(0, Relaxed);
            }
        }
        self.set_header(header);
    }

    /// Writes zeroes, whatever it holds.
    fn clear(self) {
        let record = self.0;
        let owners = [&record.header, &record.place, &record.next, &record.prev];
        let inbox = [&record.pending, &record.inbox_next];
        let words = owners.into_iter().chain(inbox);
        for word in words.chain(&record.free).chain(&record.remote) {
            word.store(0, Relaxed);
        }
    }

    /// Makes it a record without a slab.
    pub(super) fn end(self) {
        self.0.header.store(0, Relaxed);
    }

    pub(super) fn next(self) -> u32 {
        self.0.next.load(Relaxed) as u32
    }

    pub(super) fn set_next(self, number: u32) {
        self.0.next.store(u64::from(number), Relaxed);
    }

    pub(super) fn prev(self) -> u32 {
        self.0.prev.load(Relaxed) as u32
    }

    pub(super) fn set_prev(self, number: u32) {
        self.0.prev.store(u64::from(number), Relaxed);
    }

    /// A word of the bitmap of free slots; only the owner changes it.
    #[inline(always)]
    pub(super) fn free(self, word: usize) -> &'m AtomicU64 {
        &self.0.free[word % BITMAP_WORDS]
    }

    /// A word of the bitmap of remote frees that the owner has not yet seen.
    #[inline(always)]
    pub(super) fn remote(self, word: usize) -> &'m AtomicU64 {
        &self.0.remote[word % BITMAP_WORDS]
    }

    /// As what a seat is sent that owns the slab.
    #[inline(always)]
    pub(super) fn parcel(self) -> Parcel<'m> {
        Parcel {
            pending: &self.0.pending,
            next: &self.0.inbox_next,
        }
    }

    /// The first word of the bitmap that has a free slot.
    pub(super) fn first_free_word(self) -> Option<usize> {
        (0..BITMAP_WORDS).find(|&word| self.free(word).load(Relaxed) != 0)
    }

    /// Whether all slots are free.
    pub(super) fn is_empty(self) -> bool {
        let header = self.header();
        (0..BITMAP_WORDS).all(|word| self.free(word).load(Relaxed) == header.all_in(word))
    }

    /// Whether there is a remote free that the owner has not seen. If so, the owner sees
    /// from here on what the freeing CPU saw of the slab.
    pub(super) fn has_remote(self) -> bool {
        (0..BITMAP_WORDS).any(|word| load_in_order(self.remote(word)) != 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for class in SizeClass::all() {
            for order in (0..=3).filter_map(Order::new) {
                let slots = class.slots(order);
                if slots as usize > super::class::SLOTS_MAX {
                    continue;
                }
                let header = SlabHeader::new(class, order, 1022).with_state(SlabState::Surplus);
                assert_eq!((header.class(), header.order()), (class, order));
                assert_eq!((header.owner(), header.slots()), (1022, slots));
                assert_eq!(header.state(), SlabState::Surplus);
                assert_eq!(header.with_owner(0).owner(), 0);
                assert_eq!(header.with_owner(0).slots(), slots);
                let bits: u32 = (0..BITMAP_WORDS)
                    .map(|w| header.all_in(w).count_ones())
                    .sum();
                assert_eq!(bits, slots);
            }
        }
        assert_eq!(SlabHeader(0).state(), SlabState::None, "a zeroed record");
    }
}
