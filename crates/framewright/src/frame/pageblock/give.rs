//! Gives back to a pageblock: one block, blocks of one word, and what other CPUs left behind.

use super::super::counters::Counters;
use super::super::zone::Zone;
use super::tag::Tag;
use super::{HeldBlock, LOCKED, small_orders};
use crate::policy::Label;
use crate::slots::{WORD_ORDER, run_mask, runs_in};
use crate::sync::Ordering::{Acquire, Relaxed};
use crate::units::{Mobility, Order};

/// What becomes of a word's maximal runs when one run is given back.
///
/// The run joins its other half, if that is free, and the joined run does the same again. So there
/// is one more maximal run of the order where that ends, and one less of each order below.
struct Joined {
    /// The orders of the word's maximal runs.
    orders: u8,
    /// The change in runs of order 2, and in frames in runs of order 3 and more.
    order_2: i64,
    large: i64,
}

impl Joined {
    /// What becomes of a word with `bits`, whose maximal runs have `orders`, when the taken run of
    /// `order` at bit `start` is given back.
    #[inline(always)]
    fn new(bits: u64, start: u32, order: u8, orders: u8) -> Self {
        let mut found = order;
        while found < WORD_ORDER {
            let half = run_mask(start >> found << found ^ 1 << found, found);
            if bits & half != half {
                break;
            }
            found += 1;
        }
        let now = bits | run_mask(start, order);
        let mut orders = orders | 1 << found;
        for below in order..found {
            orders &= !(u8::from(runs_in(now, below) == 0) << below);
        }
        let (order_2, large) = match found {
            0 | 1 => (0, 0),
            2 => (1, 0),
            // All other frames of the eight of order 3 were free.
            _ => (
                -i64::from(order <= 2),
                if order > 3 { 1 << order } else { 8 },
            ),
        };
        Self {
            orders,
            order_2,
            large,
        }
    }
}

/// Blocks of one order in a word, a bit for each frame, and how many they are. No frame is in two of them.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct WordMask {
    mask: u64,
    blocks: u64,
}

impl WordMask {
    /// Adds the block of `order`, below a word's, at bit `start`.
    #[inline(always)]
    pub(in super::super) fn add(&mut self, start: u32, order: Order) {
        let block = run_mask(start, order.get());
        debug_assert!(
            self.mask & block == 0,
            "a block's tag is gone after the first time"
        );
        self.mask |= block;
        self.blocks += 1;
    }
}

/// The result of giving a block back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum GiveOutcome {
    /// Given, with little else touched.
    AtOnce,
    /// Given under the lock, and the pageblock summed up.
    Locked,
    /// Another CPU holds the pageblock, or left something in it. Nothing has changed.
    No,
    /// Only a racing double free explains the state that was found.
    Corrupt,
}

impl<'m, P> Zone<'m, P> {
    /// Gives back one block of an order below a word's, whose tag is `from`.
    ///
    /// The result is that of locking, giving and unlocking. But where neither class nor orders of
    /// the pageblock change, as mostly in fragmented memory, it touches little else.
    #[inline(always)]
    pub(in super::super) fn give_one(
        &self,
        counters: &'m Counters,
        offset: usize,
        (order, mobility): (Order, Mobility),
        from: Tag,
    ) -> GiveOutcome {
        let id = offset >> self.map.pageblock_order;
        let record = self.descriptor(id);
        if !self.lock_untouched(record) {
            return GiveOutcome::No;
        }
        if self.tag(offset) != from {
            self.let_go(counters, id);
            return GiveOutcome::Corrupt;
        }
        self.set_tag(offset, Tag::NONE);
        let slot = self.slot(offset);
        let (word, start) = (slot / 64, (slot % 64) as u32);
        let at = &self.bitmap(id)[word];
        let bits = at.load(Relaxed);
        let mask = run_mask(start, order.get());
        let before = record.counts();
        let frames = order.frames();
        if bits & mask == 0 && u64::from(before.by_mobility(mobility)) >= frames {
            let counts = before.give(frames, mobility);
            let row = &record.orders[word / 8 % 2];
            let orders = row.load(Relaxed);
            let shift = word % 8 * 8;
            let joined = Joined::new(bits, start, order.get(), (orders >> shift) as u8);
            let now = orders & !(0xff << shift) | u64::from(joined.orders) << shift;
            let other = record.orders[(word / 8 + 1) % 2].load(Relaxed);
            let meta = record.meta();
            // The word is not full, and was not.
            let is_same = joined.orders >> WORD_ORDER == 0
                && small_orders(now | other) == meta.orders() & 0x3f;
            if is_same && counts.is_classed_like(before, self.policy.classes()) {
                let since = self.account_taken(counters);
                at.store(bits | mask, Relaxed);
                row.store(now, Relaxed);
                record.set_counts(counts);
                if joined.order_2 != 0 {
                    counters.order_2.add(joined.order_2 as u64);
                }
                if joined.large != 0 {
                    counters.large.add(joined.large as u64);
                }
                if meta.label() == Label::Contiguous {
                    counters.lent.add(frames);
                }
                if self.try_unlock(record) {
                    self.account_given_up(counters, since);
                } else {
                    self.let_go(counters, id);
                }
                return GiveOutcome::AtOnce;
            }
        }
        self.give_held(counters, slot, order, mobility, id)
    }

    /// The same, under the lock.
    #[inline(never)]
    fn give_held(
        &self,
        counters: &'m Counters,
        slot: usize,
        order: Order,
        mobility: Mobility,
        id: usize,
    ) -> GiveOutcome {
        let mut held = self.hold(counters, id);
        let given = held.give(slot, order, mobility);
        held.unlock();
        if given {
            GiveOutcome::Locked
        } else {
            GiveOutcome::Corrupt
        }
    }
}

impl<P> HeldBlock<'_, '_, P> {
    /// Frees the taken run of `order` at bit `start` of a word, which has `bits`.
    #[inline(always)]
    fn give_run(&mut self, word: usize, bits: u64, start: u32, order: u8) {
        let now = bits | run_mask(start, order);
        self.zone.bitmap(self.id)[word].store(now, Relaxed);
        if self.ahead >> word & 1 != 0 {
            return;
        }
        let joined = Joined::new(bits, start, order, self.word_orders(word));
        let shift = word % 8 * 8;
        let all = &mut self.orders[word / 8];
        *all = *all & !(0xff << shift) | u64::from(joined.orders) << shift;
        self.order_2 += joined.order_2;
        self.large += joined.large;
    }

    /// Gives back the block of `order` at `slot`. False, without any change, if one of its frames
    /// is free already: the caller had no right to it.
    #[inline]
    pub(in super::super) fn give(&mut self, slot: usize, order: Order, mobility: Mobility) -> bool {
        let bitmap = self.zone.bitmap(self.id);
        let (word, order) = (slot / 64, order.get());
        let frames = 1u64 << order;
        if u64::from(self.counts.by_mobility(mobility)) < frames {
            return false;
        }
        if order < WORD_ORDER {
            let mask = run_mask((slot % 64) as u32, order);
            let bits = bitmap[word].load(Relaxed);
            if bits & mask != 0 {
                return false;
            }
            self.give_run(word, bits, (slot % 64) as u32, order);
        } else {
            let words = word..word + (1 << (order - WORD_ORDER));
            if bitmap[words.clone()].iter().any(|w| w.load(Relaxed) != 0) {
                return false;
            }
            self.set_whole_words(words, true);
        }
        self.counts = self.counts.give(frames, mobility);
        true
    }

    /// Gives back the blocks of `order` in a mask of one word. Returns how many. Others were
    /// free already, or not of that mobility: the caller had no right to them, and each counts as a
    /// corruption.
    #[inline(always)]
    pub(in super::super) fn give_mask(
        &mut self,
        word: usize,
        of_word: WordMask,
        order: Order,
        mobility: Mobility,
    ) -> u64 {
        let WordMask { mask, blocks } = of_word;
        let bits = self.zone.bitmap(self.id)[word].load(Relaxed);
        let start = mask.trailing_zeros();
        if blocks == 1 {
            let given = self.give(word * 64 + start as usize, order, mobility);
            if !given {
                self.zone.count_corruption();
            }
            return u64::from(given);
        }
        if bits & mask != 0 {
            return self.give_each(word, mask, order, mobility);
        }
        let frames = blocks << order.get();
        if u64::from(self.counts.by_mobility(mobility)) < frames {
            return self.give_each(word, mask, order, mobility);
        }
        self.go_ahead(word, bits);
        self.zone.bitmap(self.id)[word].store(bits | mask, Relaxed);
        self.counts = self.counts.give(frames, mobility);
        blocks
    }

    /// [`give_mask`](Self::give_mask), block by block.
    #[cold]
    fn give_each(&mut self, word: usize, mut mask: u64, order: Order, mobility: Mobility) -> u64 {
        let mut given = 0;
        while mask != 0 {
            let start = mask.trailing_zeros();
            mask &= !run_mask(start, order.get());
            if self.give(word * 64 + start as usize, order, mobility) {
                given += 1;
            } else {
                self.zone.count_corruption();
            }
        }
        given
    }

    /// Turns the remote blocks of the pageblock into free ones.
    #[cold]
    pub(super) fn collect(&mut self) {
        // Acquire pairs with the Release of the fetch_or that set PENDING: the bits are seen.
        self.record.lock.swap(LOCKED, Acquire);
        let zone = self.zone;
        for (word, remote) in zone.remote_bitmap(self.id).iter().enumerate() {
            if remote.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = remote.swap(0, Acquire);
            while bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let offset = self.id << zone.map.pageblock_order | slot;
                let freed = zone.tag(offset).as_remote();
                let given = freed.is_some_and(|(order, mobility)| {
                    zone.set_tag(offset, Tag::NONE);
                    self.give(slot, order, mobility)
                });
                if !given {
                    zone.count_corruption();
                }
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::slots::{count_orders_2_and_3, orders_in};

    #[test]
    fn a_run_that_is_given_back_changes_its_word_as_counting_it_anew_does() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..500u64 {
            bits = bits.rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (step << 32);
            // Words with more and more bits set.
            let bits = (0..step % 6).fold(bits, |bits, by| bits | bits.rotate_left(1 << by));
            for order in 0..WORD_ORDER {
                for start in (0..64).step_by(1 << order) {
                    let mask = run_mask(start, order);
                    let before = bits & !mask;
                    let joined = Joined::new(before, start, order, orders_in(before));
                    let now = before | mask;
                    assert_eq!(joined.orders, orders_in(now), "{before:#x} {start} {order}");
                    let sums = [before, now].map(|word| {
                        let (twos, threes) = count_orders_2_and_3(word);
                        (i64::from(twos), 8 * i64::from(threes))
                    });
                    assert_eq!(sums[0].0 + joined.order_2, sums[1].0, "{before:#x} {start}");
                    assert_eq!(sums[0].1 + joined.large, sums[1].1, "{before:#x} {start}");
                }
            }
        }
    }
}
