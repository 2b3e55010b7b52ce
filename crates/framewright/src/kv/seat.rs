//! A CPU's seat in an object allocator: magazines, the heads of its lists of slabs, and counters.
//!
//! Only its CPU writes a seat, or a CPU that has claimed it (K3), except for the inbox, to which
//! other CPUs push, and the words by which threads take and claim the seat. A magazine is the place
//! of a word of free slots, and the address of the first of these: the slots stay in their slab's
//! record.
//!
//! A busy seat never enters the seat in the space. Of the zones it takes only blocks that are there
//! at once, and it gives blocks back.

use super::Kv;
use super::class::{PLACES, SizeClass};
use super::held::Held;
use super::slab::SlabState;
use crate::frame::FrameSource;
use crate::platform::{FramePlatform, NoRelief, Relief};
use crate::raw::record;
use crate::seats::{ClaimWords, Taken, Turn};
use crate::sync::{AtomicU64, CounterWord, Ordering::Relaxed};
use crate::units::{CpuId, Frame, Order};
use crate::vrange::RangeSeat;

record! {
    /// The counters of a seat: events since the allocator was made.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct KvCounters {
        pub(super) slab_allocs: CounterWord,
        pub(super) slab_frees: CounterWord,
        pub(super) remote_frees: CounterWord,
        /// Frames of slabs made, less those of slabs given back; wraps.
        pub(super) slab_frames: CounterWord,
        pub(super) slab_makes: CounterWord,
        pub(super) slab_returns: CounterWord,
        pub(super) run_allocs: CounterWord,
        pub(super) run_frees: CounterWord,
        pub(super) mapped_allocs: CounterWord,
        pub(super) spills: CounterWord,
        pub(super) mapped_frees: CounterWord,
        pub(super) failures: CounterWord,
        pub(super) compact_stall: CounterWord,
        pub(super) alloc_stall: CounterWord,
        pub(super) drains: CounterWord,
        pub(super) bad_frees: CounterWord,
        pub(super) double_frees: CounterWord,
    }

    /// The metadata of one seat, in whole cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct KvSeatRecord {
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
        claims: ClaimWords,
        _others: [AtomicU64; 6],

        // The owner's.
        /// By class: where the word of a slab's free slots is from which the seat serves the class, and the address
        /// of the first of these slots.
        magazines: [[AtomicU64; 2]; PLACES],

        // Other CPUs push here.
        /// The slabs in which other CPUs freed objects, as a list of records.
        pub(super) inbox: AtomicU64,
        _pushed: [AtomicU64; 7],

        // The owner's.
        /// By class: slabs with free slots and others, and those whose slots are all free.
        partial: [AtomicU64; PLACES],
        empty: [AtomicU64; PLACES],
        pub(super) counters: KvCounters,
    } = 112 words, claims at 8, magazines at 16, inbox at 48, partial at 56, counters at 88;
}

impl KvSeatRecord {
    #[inline(always)]
    pub(super) const fn turn(&self) -> Turn<'_> {
        Turn::new(&self.busy, &self.claims)
    }

    /// The magazine of a class: where its word of free slots is, and the address of the first of these.
    #[inline(always)]
    pub(super) fn magazine(&self, class: SizeClass) -> (u64, u64) {
        let [word, first] = &self.magazines[class.index()];
        (word.load(Relaxed), first.load(Relaxed))
    }

    pub(super) fn set_magazine(&self, class: SizeClass, word: u64, first: u64) {
        let magazine = &self.magazines[class.index()];
        magazine[0].store(word, Relaxed);
        magazine[1].store(first, Relaxed);
    }

    /// The head of the list that slabs of that class and state are in, if they are in one.
    pub(super) fn list(&self, state: SlabState, class: SizeClass) -> Option<&AtomicU64> {
        match state {
            SlabState::Partial => Some(&self.partial[class.index()]),
            SlabState::Empty => Some(&self.empty[class.index()]),
            SlabState::Surplus => Some(&self.surplus),
            SlabState::None | SlabState::Full | SlabState::Current => None,
        }
    }

    /// The first slab of that list; 0 if it has none.
    pub(super) fn first(&self, state: SlabState, class: SizeClass) -> u32 {
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
    pub(super) fn has_loose(&self) -> bool {
        self.loose.load(Relaxed) != 0
    }

    pub(super) fn set_loose(&self, frame: Frame, order: Order) {
        debug_assert!(!self.has_loose(), "K6: one block at a time is loose");
        self.loose.store(frame.0 + 1, Relaxed);
        self.loose_order.store(order.get().into(), Relaxed);
    }

    pub(super) fn end_loose(&self) {
        self.loose.store(0, Relaxed);
    }

    /// The first record that is no slab's, and how many the seat has.
    pub(super) fn records(&self) -> (u32, u32) {
        let word = self.records.load(Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    pub(super) fn set_records(&self, first: u32, count: u32) {
        let word = u64::from(count) << 32 | u64::from(first);
        self.records.store(word, Relaxed);
    }
}

/// A CPU's place in an object allocator. The CPU does all its work in the allocator through it.
///
/// It holds the CPU's seat in the space, which holds the one in the zones. Only one thread at a time has
/// it, and two threads cannot share it. `R` gives memory back when a request asks for that: see
/// [`with_relief`](Self::with_relief).
#[derive(Debug)]
pub struct KvSeat<'k, 's, 'm, P, F, R = NoRelief> {
    pub(super) kv: &'k Kv<'m, P>,
    /// What the busy seat's own thread works with.
    pub(super) held: Held<'m>,
    pub(super) ranges: RangeSeat<'s, 'm, P, F>,
    pub(super) relief: R,
    taken: Taken<'m>,
}

impl<'k, 's, 'm, P, F, R> KvSeat<'k, 's, 'm, P, F, R> {
    /// The object allocator.
    #[must_use]
    pub const fn kv(&self) -> &'k Kv<'m, P> {
        self.kv
    }

    /// The CPU whose seat it is.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.ranges.cpu()
    }

    /// The CPU's seat in the space, for areas and mappings; its
    /// [`frames`](RangeSeat::frames) are the seat in the zones.
    #[must_use]
    pub const fn ranges(&mut self) -> &mut RangeSeat<'s, 'm, P, F> {
        &mut self.ranges
    }
}

impl<'k, 's, 'm, P: FramePlatform, F: FrameSource> KvSeat<'k, 's, 'm, P, F> {
    pub(super) fn take(kv: &'k Kv<'m, P>, ranges: RangeSeat<'s, 'm, P, F>) -> Option<Self> {
        let held = kv.held(ranges.cpu().0);
        Taken::take(&held.words.claims).map(|taken| Self {
            kv,
            held,
            ranges,
            relief: NoRelief,
            taken,
        })
    }

    /// The same seat, with `relief` for the requests whose [effort](crate::policy::Effort) allows to ask for
    /// it. Until then there is none.
    #[must_use]
    pub fn with_relief<R: Relief<F>>(self, relief: R) -> KvSeat<'k, 's, 'm, P, F, R> {
        KvSeat {
            kv: self.kv,
            held: self.held,
            ranges: self.ranges,
            relief,
            taken: self.taken,
        }
    }
}

impl<'k, 's, 'm, P: FramePlatform, F: FrameSource, R> KvSeat<'k, 's, 'm, P, F, R> {
    /// Another relief of the same kind from now on.
    pub(crate) fn set_relief(&mut self, relief: R) {
        self.relief = relief;
    }

    /// From here to [`exit`](Self::exit) no other CPU touches the seat, and a CPU that stops all CPUs
    /// waits for this one. In between the caller must not enter the seat in the space. Of the zones it
    /// may take only blocks that are there at once, and it may give blocks back.
    #[inline(always)]
    pub(super) fn enter(&self) {
        if !self.try_enter() {
            self.wait_if_claimed();
        }
    }

    /// Enters, but does not wait: see `Turn::try_enter`.
    #[inline(always)]
    pub(super) fn try_enter(&self) -> bool {
        self.held.words.turn().try_enter::<P>()
    }

    /// In a busy seat, before the caller does anything in it: lets a CPU that claims the seat have it
    /// first.
    #[inline]
    pub(super) fn wait_if_claimed(&self) {
        self.held.words.turn().wait_if_claimed(&self.kv.platform);
    }

    #[inline(always)]
    pub(super) fn exit(&self) {
        self.held.words.turn().exit();
    }
}
