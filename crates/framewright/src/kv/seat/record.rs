//! The allocator's own words, and a seat's: magazines, the heads of its lists of slabs, and counters.
//!
//! Only its CPU writes a seat, or a CPU that has claimed it (K3), except for the inbox, to which
//! other CPUs push, and the words by which threads take and claim the seat. A magazine is the place
//! of a word of free slots, and the address of the first of these: the slots stay in their slab's
//! record.

use super::super::slab::{PLACES, SizeClass, SlabState};
use crate::raw::record;
use crate::seats::{ACCOUNT_WORDS, ClaimWords, StoppedInVain, Turn};
use crate::sync::{AtomicU64, CounterWord, Ordering::Relaxed};
use crate::units::{Frame, Order};

/// How many kinds of requests the memo of stops tells apart.
pub(super) const KINDS: usize = (PLACES - 1) + (Order::MAX.index() + 1) + 1;

record! {
    /// The allocator's own words, in whole cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct KvRecord {
        // The holder of the stop lock writes the first line.
        pub(in super::super) stop_lock: AtomicU64,
        pub(in super::super) stop_account: [AtomicU64; ACCOUNT_WORDS],
        /// The space of all seats; 0 until there is one.
        pub(in super::super) space: AtomicU64,
        _stop: [AtomicU64; 3],

        // All CPUs write the second one: how often a record that no seat has was given back, and how many records
        // were ever taken.
        pub(in super::super) gives: AtomicU64,
        pub(in super::super) fresh: AtomicU64,
        _pool: [AtomicU64; 6],

        /// What stops of all CPUs found: by class, by order, and for pages.
        pub(in super::super) last_standstill: AtomicU64,
        pub(in super::super) in_vain: [StoppedInVain; KINDS],
    } = 96 words, gives at 8, last_standstill at 16;

    /// The counters of a seat: events since the allocator was made.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct KvCounters {
        pub(in super::super) slab_allocs: CounterWord,
        pub(in super::super) slab_frees: CounterWord,
        pub(in super::super) remote_frees: CounterWord,
        /// Frames of slabs made, less those of slabs given back; wraps.
        pub(in super::super) slab_frames: CounterWord,
        pub(in super::super) slab_makes: CounterWord,
        pub(in super::super) slab_returns: CounterWord,
        pub(in super::super) run_allocs: CounterWord,
        pub(in super::super) run_frees: CounterWord,
        pub(in super::super) mapped_allocs: CounterWord,
        pub(in super::super) spills: CounterWord,
        pub(in super::super) mapped_frees: CounterWord,
        pub(in super::super) failures: CounterWord,
        pub(in super::super) compact_stall: CounterWord,
        pub(in super::super) alloc_stall: CounterWord,
        pub(in super::super) drains: CounterWord,
        pub(in super::super) bad_frees: CounterWord,
        pub(in super::super) double_frees: CounterWord,
    }

    /// The metadata of one seat, in whole cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct KvSeatRecord {
        // The first line is its owner's.
        busy: AtomicU64,
        /// Slabs that are about to go back to the frames.
        surplus: AtomicU64,
        /// Records that are no slab's: the first one, and above it how many there are.
        records: AtomicU64,
        /// A block that no entry of the table names: its frame plus one, and its order. See
        /// [`loose`](KvSeatRecord::loose).
        loose: AtomicU64,
        loose_order: AtomicU64,
        _owners: [AtomicU64; 3],

        // Other CPUs write the second line.
        pub(in super::super) claims: ClaimWords,
        _others: [AtomicU64; 6],

        // The owner's.
        /// By class: where the word of a slab's free slots is from which the seat serves the class, and the address
        /// of the first of these slots.
        magazines: [[AtomicU64; 2]; PLACES],

        // Other CPUs push here.
        /// The slabs in which other CPUs freed objects, as a list of records.
        pub(in super::super) inbox: AtomicU64,
        _pushed: [AtomicU64; 7],

        // The owner's.
        /// By class: slabs with free slots and others, and those whose slots are all free.
        partial: [AtomicU64; PLACES],
        empty: [AtomicU64; PLACES],
        pub(in super::super) counters: KvCounters,
    } = 112 words, claims at 8, magazines at 16, inbox at 48, partial at 56, counters at 88;
}

impl KvSeatRecord {
    #[inline(always)]
    pub(in super::super) const fn turn(&self) -> Turn<'_> {
        Turn::new(&self.busy, &self.claims)
    }

    /// The magazine of a class: where its word of free slots is, and the address of the first of these.
    #[inline(always)]
    pub(in super::super) fn magazine(&self, class: SizeClass) -> (u64, u64) {
        let [word, first] = &self.magazines[class.index()];
        (word.load(Relaxed), first.load(Relaxed))
    }

    pub(in super::super) fn set_magazine(&self, class: SizeClass, word: u64, first: u64) {
        let magazine = &self.magazines[class.index()];
        magazine[0].store(word, Relaxed);
        magazine[1].store(first, Relaxed);
    }

    /// The head of the list that slabs of that class and state are in, if they are in one.
    pub(in super::super) fn list(&self, state: SlabState, class: SizeClass) -> Option<&AtomicU64> {
        match state {
            SlabState::Partial => Some(&self.partial[class.index()]),
            SlabState::Empty => Some(&self.empty[class.index()]),
            SlabState::Surplus => Some(&self.surplus),
            SlabState::None | SlabState::Full | SlabState::Current => None,
        }
    }

    /// The first slab of that list; 0 if it has none.
    pub(in super::super) fn first(&self, state: SlabState, class: SizeClass) -> u32 {
        self.list(state, class)
            .map_or(0, |head| head.load(Relaxed) as u32)
    }

    /// Whether a slab is about to go back to the frames.
    #[inline(always)]
    pub(super) fn has_surplus(&self) -> bool {
        self.surplus.load(Relaxed) != 0
    }

    /// A block that a call of the owner's had in its hands when it unwound, and that has not gone back yet.
    /// Only the thread that has the seat looks at it, whether the seat is busy or not.
    pub(super) fn loose(&self) -> Option<(Frame, Order)> {
        let frame = self.loose.load(Relaxed).checked_sub(1)?;
        let order = Order::new(self.loose_order.load(Relaxed) as u8)?;
        Some((Frame(frame), order))
    }

    #[inline(always)]
    pub(in super::super) fn has_loose(&self) -> bool {
        self.loose.load(Relaxed) != 0
    }

    pub(in super::super) fn set_loose(&self, frame: Frame, order: Order) {
        debug_assert!(!self.has_loose(), "K6: one block at a time is loose");
        self.loose.store(frame.0 + 1, Relaxed);
        self.loose_order.store(order.get().into(), Relaxed);
    }

    pub(in super::super) fn end_loose(&self) {
        self.loose.store(0, Relaxed);
    }

    /// The first record that is no slab's, and how many the seat has.
    pub(in super::super) fn records(&self) -> (u32, u32) {
        let word = self.records.load(Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    pub(in super::super) fn set_records(&self, first: u32, count: u32) {
        let word = u64::from(count) << 32 | u64::from(first);
        self.records.store(word, Relaxed);
    }
}
