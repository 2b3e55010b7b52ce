//! Pageblocks: their descriptors, and the lock under which a CPU changes one (rank 2).
//!
//! ```text
//!     unlocked ── try_lock ──▶ held ── changes ──▶ publish ── try_unlock ──▶ unlocked
//!                                                     ▲            │ PENDING
//!                                                     └─ collect ◀─┘
//! ```
//!
//! Only the holder writes [bitmap](bitmap), counts and orders; it makes the index agree before it unlocks
//! (F2, F5). A CPU without the lock leaves a block: its tag, its bit in the second bitmap, then
//! `PENDING`; and it collects the block itself if the lock is free. Absent frames, pins and being apart
//! change only with all CPUs stopped. The worker is a hint.

pub(super) mod big;
mod bitmap;
mod descriptor;
mod give;
mod index;
mod ranking;
mod tag;
mod whole;

pub(super) use descriptor::{Meta, PageblockRecord};
pub(super) use give::{GiveOutcome, WordMask};
pub(super) use index::{BlockIndex, IndexShape, Passing};
pub(super) use tag::{SEATS_MAX, Tag};
pub(super) use whole::Whole;

use super::counters::Counters;
use super::zone::Zone;
use crate::policy::{BlockFacts, Label};
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::units::Mobility;
use descriptor::{Absence, BlockCounts};

/// A CPU holds the pageblock.
pub(super) const LOCKED: u64 = 1;
/// A remote block waits here to be collected: the CPU that unlocks collects it.
const PENDING: u64 = 2;

/// In each byte of a descriptor's orders, the bit of a full word.
pub(super) const FULL_WORDS: u64 = 0x4040_4040_4040_4040;

/// The orders below a word's, one bit each.
const SMALL_ORDERS: u16 = 0x3f;

/// The orders below a word's that occur in any byte of `orders`, one bit each.
#[inline(always)]
pub(super) const fn small_orders(orders: u64) -> u16 {
    let mut any = orders;
    any |= any >> 32;
    any |= any >> 16;
    any |= any >> 8;
    any as u16 & SMALL_ORDERS
}

/// Without the lock: what a look says was true at some moment, and may be stale at once.
impl<'m, P> Zone<'m, P> {
    #[inline(always)]
    pub(super) fn descriptor(&self, id: usize) -> &'m PageblockRecord {
        &self.descriptors[id]
    }

    #[inline(always)]
    pub(super) fn bitmap(&self, id: usize) -> &'m [AtomicU64] {
        let start = id * self.map.words_per_block;
        let words: &'m [AtomicU64] = self.free;
        &words[start..start + self.map.words_per_block]
    }

    #[inline(always)]
    pub(super) fn remote_bitmap(&self, id: usize) -> &'m [AtomicU64] {
        let start = id * self.map.words_per_block;
        let words: &'m [AtomicU64] = self.remote;
        &words[start..start + self.map.words_per_block]
    }

    #[inline(always)]
    pub(super) fn meta(&self, id: usize) -> Meta {
        self.descriptor(id).meta()
    }

    /// The facts of a pageblock, as of a moment at which no CPU works in it.
    pub(super) fn facts(&self, id: usize) -> BlockFacts {
        let record = self.descriptor(id);
        let absent = record.absence().frames();
        record.counts().facts(record.meta().label(), absent)
    }

    /// Turns a zeroed descriptor into that of a pageblock without any frame.
    pub(super) fn make_absent(&self, id: usize) {
        let record = self.descriptor(id);
        record.set_absence(Absence::of(self.map.block_frames() as u16));
        let label = Label::Of(Mobility::Movable);
        let facts = BlockCounts(0).facts(label, self.map.block_frames() as u32);
        let class = self.policy.classes().number(self.policy.class(&facts));
        record.set_meta(Meta::new(0, class, label, false));
    }

    /// Whether a CPU empties the pageblock, or moves a block that reaches into it.
    pub(super) fn is_apart(&self, id: usize) -> bool {
        self.descriptor(id).absence().is_apart()
    }

    pub(super) fn pins(&self, id: usize) -> u32 {
        self.descriptor(id).absence().pins()
    }

    #[inline(always)]
    pub(super) fn worker_of(&self, id: usize) -> Option<u16> {
        self.descriptor(id).worker()
    }

    #[inline(always)]
    pub(super) fn set_worker(&self, id: usize, cpu: Option<u16>) {
        self.descriptor(id).set_worker(cpu);
    }

    /// Locks pageblock `id` if no CPU holds it. Time: one compare-and-swap.
    #[inline(always)]
    pub(super) fn try_lock(&self, of: &'m Counters, id: usize) -> Option<HeldBlock<'_, 'm, P>> {
        let lock = &self.descriptor(id).lock;
        let mut found = lock.load(Relaxed);
        loop {
            if found & LOCKED != 0 {
                self.account_met(of);
                return None;
            }
            if self.index.alone() {
                lock.store(found | LOCKED, Relaxed);
                break;
            }
            // Acquire pairs with the Release of the last holder's unlock.
            match lock.compare_exchange_weak(found, found | LOCKED, Acquire, Relaxed) {
                Ok(_) => break,
                Err(now) => found = now,
            }
        }
        Some(self.hold(of, id))
    }

    /// Pageblock `id`, which this CPU has locked.
    #[inline(always)]
    pub(super) fn hold(&self, counters: &'m Counters, id: usize) -> HeldBlock<'_, 'm, P> {
        let record = self.descriptor(id);
        let (counts, meta) = (record.counts(), record.meta());
        HeldBlock {
            zone: self,
            counters,
            since: self.account_taken(counters),
            id,
            record,
            counts,
            orders: record.orders(),
            large: 0,
            order_2: 0,
            ahead: 0,
            free_lent: counts.free_lent(meta.label()),
            meta,
        }
    }

    /// Gives up the lock of a pageblock, unless a remote block waits in it.
    #[inline(always)]
    pub(super) fn try_unlock(&self, record: &PageblockRecord) -> bool {
        let lock = &record.lock;
        if !self.index.alone() {
            // Release pairs with the Acquire in `try_lock`.
            return lock.compare_exchange(LOCKED, 0, Release, Relaxed).is_ok();
        }
        let unlocked = lock.load(Relaxed) == LOCKED;
        if unlocked {
            lock.store(0, Relaxed);
        }
        unlocked
    }

    /// Leaves the block at `offset`, whose tag is already [`Tag::remote`], to the CPU that holds
    /// its pageblock. Never waits.
    pub(super) fn leave(&self, counters: &'m Counters, offset: usize) {
        let id = offset >> self.map.pageblock_order;
        let slot = offset & (self.map.block_frames() as usize - 1);
        // Release: the CPU that collects the bit sees the tag.
        self.remote_bitmap(id)[slot / 64].fetch_or(1 << (slot % 64), Release);
        // Release again: a CPU that sees PENDING sees the bit. If no CPU holds the lock now, the
        // last holder may have missed the bit, so this CPU collects it.
        let lock = &self.descriptor(id).lock;
        if lock.fetch_or(PENDING, AcqRel) & LOCKED == 0
            && let Some(held) = self.try_lock(counters, id)
        {
            held.unlock();
        }
        // Else another CPU has locked it since, and sees PENDING when it unlocks.
    }
}

/// A pageblock that this CPU holds: the only way to change one.
///
/// Bitmap, counts and orders are changed with plain loads and stores; [`unlock`](Self::unlock)
/// brings the index up to date and collects the blocks that became remote meanwhile.
#[must_use = "a pageblock that is not unlocked stays locked"]
pub(super) struct HeldBlock<'z, 'm, P> {
    pub(super) zone: &'z Zone<'m, P>,
    counters: &'m Counters,
    /// When the lock was taken, for its account.
    since: u64,
    pub(super) id: usize,
    pub(super) record: &'m PageblockRecord,
    pub(super) counts: BlockCounts,
    pub(super) orders: [u64; 2],
    /// Change since the lock was taken: free frames in blocks of order 3 and more, and free blocks
    /// of order 2.
    pub(super) large: i64,
    pub(super) order_2: i64,
    /// Words, one bit each, with bits that `orders`, `large` and `order_2` do not know yet: see
    /// `sum_up`.
    pub(super) ahead: u16,
    /// Free frames when it was locked, if it was lent then.
    free_lent: u64,
    /// As published: the index agrees with it.
    meta: Meta,
}

impl<P> HeldBlock<'_, '_, P> {
    #[inline(always)]
    pub(super) const fn meta(&self) -> Meta {
        self.meta
    }

    #[inline(always)]
    pub(super) fn facts(&self) -> BlockFacts {
        let absent = self.record.absence().frames();
        self.counts.facts(self.meta.label(), absent)
    }

    pub(super) fn set_pins(&mut self, pins: u32) {
        let absence = self.record.absence();
        self.record.set_absence(absence.with_pins(pins));
    }

    pub(super) fn set_apart(&mut self, apart: bool) {
        let absence = self.record.absence();
        self.record.set_absence(absence.with_apart(apart));
    }

    /// Adds the changes to the sums over all pageblocks, under the label that the pageblock has
    /// now.
    #[inline(always)]
    fn count_sums(&mut self, label: Label) {
        if self.large != 0 {
            self.counters.large.add(self.large as u64);
            self.large = 0;
        }
        if self.order_2 != 0 {
            self.counters.order_2.add(self.order_2 as u64);
            self.order_2 = 0;
        }
        let free_lent = self.counts.free_lent(label);
        if free_lent != self.free_lent {
            let by = free_lent.wrapping_sub(self.free_lent);
            self.counters.lent.add(by);
            self.free_lent = free_lent;
        }
    }

    /// The number of the pageblock's class if it has `label`.
    fn class(&self, label: Label) -> u16 {
        let facts = self.counts.facts(label, self.record.absence().frames());
        let policy = &self.zone.policy;
        policy.classes().number(policy.class(&facts))
    }

    /// Writes the descriptor and moves the pageblock in the index: first into its new rows, then
    /// out of the old ones, so that a search always finds it in one.
    #[inline(always)]
    fn publish(&mut self, label: Label, isolated: bool) {
        self.sum_up();
        let zone = self.zone;
        let before = self.record.counts();
        self.record.set_counts(self.counts);
        let mut changed = 0;
        for (word, orders) in self.record.orders.iter().zip(self.orders) {
            changed |= word.load(Relaxed) ^ orders;
            word.store(orders, Relaxed);
        }
        self.count_sums(label);
        let old = self.meta;
        let class =
            if old.has_label(label) && self.counts.is_classed_like(before, zone.policy.classes()) {
                debug_assert_eq!(
                    old.class(),
                    self.class(label),
                    "the inputs of its class are equal"
                );
                old.class()
            } else {
                self.class(label)
            };
        let orders = if changed == 0 {
            old.orders()
        } else if changed & FULL_WORDS == 0 {
            old.orders() & !SMALL_ORDERS | small_orders(self.orders[0] | self.orders[1])
        } else {
            self.all_orders()
        };
        debug_assert_eq!(orders, self.all_orders(), "F2");
        let new = Meta::new(orders, class, label, isolated);
        if new == old {
            return;
        }
        self.meta = new;
        self.record.set_meta(new);
        let indexed = |meta: Meta| if meta.is_isolated() { 0 } else { meta.orders() };
        let (mut gone, mut come) = (indexed(old), indexed(new));
        if old.class() == new.class() {
            (gone, come) = (gone & !come, come & !gone);
        }
        if come != 0 {
            while come != 0 {
                let order = come.trailing_zeros() as usize;
                come &= come - 1;
                zone.index.insert(zone.row(order, new.class()), self.id);
            }
            self.counters.inserted.add_after(1);
        }
        while gone != 0 {
            let order = gone.trailing_zeros() as usize;
            gone &= gone - 1;
            zone.index.remove(zone.row(order, old.class()), self.id);
        }
    }

    /// Gives the pageblock up, after collecting its remote blocks and updating the
    /// index. Time: one compare-and-swap, and the index if something changed.
    #[inline(always)]
    pub(super) fn unlock(mut self) {
        let before = self.record.counts();
        let is_same = self.ahead == 0
            && self.orders[0] == self.record.orders[0].load(Relaxed)
            && self.orders[1] == self.record.orders[1].load(Relaxed)
            && self
                .counts
                .is_classed_like(before, self.zone.policy.classes());
        if is_same {
            // The index does not change.
            self.record.set_counts(self.counts);
            self.count_sums(self.meta.label());
            if self.zone.try_unlock(self.record) {
                self.zone.account_given_up(self.counters, self.since);
                return;
            }
        }
        let (label, isolated) = (self.meta.label(), self.meta.is_isolated());
        self.unlock_as(label, isolated);
    }

    /// The same with a new label. Returns what the index now says of the pageblock.
    #[inline(always)]
    pub(super) fn unlock_as(mut self, label: Label, isolated: bool) -> Meta {
        // By reference, so that the caller does not copy it.
        self.give_up_as(label, isolated)
    }

    fn give_up_as(&mut self, label: Label, isolated: bool) -> Meta {
        loop {
            self.publish(label, isolated);
            if self.zone.try_unlock(self.record) {
                self.zone.account_given_up(self.counters, self.since);
                return self.meta;
            }
            self.collect();
        }
    }
}
