//! A pageblock's descriptor, and what its packed words say.

use crate::policy::{BlockFacts, Classes, Label};
use crate::raw::record;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::Mobility;

record! {
    /// A pageblock's descriptor: a cache line of its own, which CPUs that work in different pageblocks do not share.
    ///
    /// The holder of the lock writes counts, orders and meta; `absence` changes only with all CPUs stopped, and
    /// `worker` is a hint that any CPU may write. Zeroed, it is a pageblock with all frames allocated to no mobility,
    /// which `make_absent` turns into one without frames.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct PageblockRecord {
        /// Rank 2: whether a CPU holds the pageblock, and whether one left a block in it.
        pub(in super::super) lock: AtomicU64,
        counts: AtomicU64,
        /// One byte for each bitmap word: the orders of its maximal free runs ([`orders_in`](super::bitmap)).
        pub(in super::super) orders: [AtomicU64; 2],
        meta: AtomicU64,
        absence: AtomicU64,
        /// The CPU that works in it, plus one.
        worker: AtomicU64,
        _rest: AtomicU64,
    } = 8 words, orders at 2, meta at 4;
}

impl PageblockRecord {
    #[inline(always)]
    pub(super) fn counts(&self) -> BlockCounts {
        BlockCounts(self.counts.load(Relaxed))
    }

    #[inline(always)]
    pub(super) fn set_counts(&self, counts: BlockCounts) {
        self.counts.store(counts.0, Relaxed);
    }

    #[inline(always)]
    pub(super) fn orders(&self) -> [u64; 2] {
        [self.orders[0].load(Relaxed), self.orders[1].load(Relaxed)]
    }

    #[inline(always)]
    pub(super) fn set_orders(&self, orders: [u64; 2]) {
        self.orders[0].store(orders[0], Relaxed);
        self.orders[1].store(orders[1], Relaxed);
    }

    #[inline(always)]
    pub(super) fn meta(&self) -> Meta {
        Meta(self.meta.load(Relaxed))
    }

    #[inline(always)]
    pub(super) fn set_meta(&self, meta: Meta) {
        self.meta.store(meta.0, Relaxed);
    }

    #[inline(always)]
    pub(super) fn absence(&self) -> Absence {
        Absence(self.absence.load(Relaxed))
    }

    pub(super) fn set_absence(&self, absence: Absence) {
        self.absence.store(absence.0, Relaxed);
    }

    #[inline(always)]
    pub(super) fn worker(&self) -> Option<u16> {
        (self.worker.load(Relaxed) as u16).checked_sub(1)
    }

    #[inline(always)]
    pub(super) fn set_worker(&self, cpu: Option<u16>) {
        let value = cpu.map_or(0, |cpu| u64::from(cpu) + 1);
        self.worker.store(value, Relaxed);
    }
}

/// Absent frames (16 bits), pins above them (32 bits), and whether an owner empties the pageblock. Until it has finished,
/// no other CPU may pin the pageblock or change what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Absence(u64);

impl Absence {
    const APART: u64 = 1 << 63;

    /// `frames` absent ones, no pin, and not apart.
    pub(super) const fn of(frames: u16) -> Self {
        Self(frames as u64)
    }

    #[inline(always)]
    pub(super) const fn frames(self) -> u32 {
        self.0 as u16 as u32
    }

    /// The same with `frames` more absent ones; there are at most as many as a pageblock has.
    pub(super) const fn more(self, frames: usize) -> Self {
        Self(self.0 + frames as u64)
    }

    /// The same with `frames` fewer absent ones, of which there are at least that many.
    pub(super) const fn less(self, frames: usize) -> Self {
        Self(self.0 - frames as u64)
    }

    pub(super) const fn pins(self) -> u32 {
        (self.0 >> 16) as u32
    }

    pub(super) const fn with_pins(self, pins: u32) -> Self {
        Self((pins as u64) << 16 | self.0 & (Self::APART | 0xffff))
    }

    pub(super) const fn is_apart(self) -> bool {
        self.0 & Self::APART != 0
    }

    pub(super) const fn with_apart(self, apart: bool) -> Self {
        Self(self.0 & !Self::APART | if apart { Self::APART } else { 0 })
    }
}

/// What the index and searches need to know of a pageblock, in one word: the orders of its maximal
/// free blocks (bits 0 to 10), its class (16 to 31), its label (32 to 34), isolation (bit 35).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Meta(pub(in super::super) u64);

impl Meta {
    pub(super) const fn new(orders: u16, class: u16, label: Label, isolated: bool) -> Self {
        Self(
            orders as u64
                | (class as u64) << 16
                | (label.index() as u64) << 32
                | (isolated as u64) << 35,
        )
    }

    #[inline(always)]
    pub(in super::super) const fn orders(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(in super::super) const fn class(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    pub(in super::super) const fn label(self) -> Label {
        match Label::from_index((self.0 >> 32 & 7) as usize) {
            Some(label) => label,
            // Only the numbers of labels are ever written.
            None => Label::HighOrder,
        }
    }

    /// Whether it has that label, without finding out which it has.
    #[inline(always)]
    pub(super) const fn has_label(self, label: Label) -> bool {
        self.0 >> 32 & 7 == label.index() as u64
    }

    #[inline(always)]
    pub(in super::super) const fn is_isolated(self) -> bool {
        self.0 >> 35 & 1 != 0
    }
}

/// Free frames and allocated frames by mobility.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct BlockCounts(pub(in super::super) u64);

impl BlockCounts {
    #[inline(always)]
    pub(super) const fn free(self) -> u32 {
        self.0 as u16 as u32
    }

    #[inline(always)]
    pub(super) const fn by_mobility(self, mobility: Mobility) -> u32 {
        (self.0 >> (16 + 16 * mobility.index())) as u16 as u32
    }

    /// Whether a pageblock has the same class as with the counts `before`, without asking the
    /// policy: the same non-movable frames, some movable ones as before, and free frames of the
    /// same level.
    #[inline(always)]
    pub(super) const fn is_classed_like(self, before: Self, classes: Classes) -> bool {
        const NONMOVABLE: u64 = 0xffff_0000_ffff_0000;
        const _: () = assert!(Mobility::Movable.index() == 1);
        (self.0 ^ before.0) & NONMOVABLE == 0
            && self.by_mobility(Mobility::Movable) != 0
            && before.by_mobility(Mobility::Movable) != 0
            && classes.is_same_level(self.free(), before.free())
    }

    /// Its free frames, if its label lends them to movable contents.
    #[inline(always)]
    pub(super) const fn free_lent(self, label: Label) -> u64 {
        match label {
            Label::Contiguous => self.free() as u64,
            Label::Of(_) | Label::HighOrder => 0,
        }
    }

    /// Moves `frames` from free to `mobility`.
    #[inline(always)]
    pub(super) const fn take(self, frames: u64, mobility: Mobility) -> Self {
        // No carry crosses a part: none goes below zero or above a pageblock's 1024 frames.
        Self(self.0 - frames + (frames << (16 + 16 * mobility.index())))
    }

    #[inline(always)]
    pub(super) const fn give(self, frames: u64, mobility: Mobility) -> Self {
        Self(self.0 + frames - (frames << (16 + 16 * mobility.index())))
    }

    #[inline(always)]
    pub(super) const fn facts(self, label: Label, absent: u32) -> BlockFacts {
        BlockFacts {
            label,
            free: self.free(),
            by_mobility: [
                self.by_mobility(Mobility::Unmovable),
                self.by_mobility(Mobility::Movable),
                self.by_mobility(Mobility::Reclaimable),
            ],
            absent,
        }
    }
}
