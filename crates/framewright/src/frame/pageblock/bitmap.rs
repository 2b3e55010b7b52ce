//! The bitmap of a pageblock that a CPU holds: one bit a frame, set where the frame is free.
//!
//! The holder takes blocks out of the bitmap without a search through it. For each word it knows the
//! orders of the maximal free runs (`orders`), and a run of whole words is found from those alone. It
//! also knows by how much it changed two sums over all pageblocks: free frames in blocks of order 3
//! and more (`large`), and free blocks of order 2 (`order_2`).
//!
//! A change of a word brings all three up to date at once. Where the first frames of a free run are taken, what is left of
//! it says how they change (`leave_of_runs`). Where many frees change one word, its part
//! of the sums is taken out before the first (`go_ahead`) and put in again after the last, together
//! with the word's orders (`sum_up`), at the latest before the descriptor is written.

use super::descriptor::BlockCounts;
use super::{FULL_WORDS, HeldBlock, small_orders};
use crate::slots::{
    WORD_ORDER, count_orders_2_and_3, ones_at, orders_in, run_mask, runs_in, words_of,
};
use crate::sync::Ordering::Relaxed;
use crate::units::{Mobility, Order};
use core::ops::Range;

impl<P> HeldBlock<'_, '_, P> {
    #[inline(always)]
    pub(super) fn word_orders(&self, word: usize) -> u8 {
        (self.orders[word / 8] >> (word % 8 * 8)) as u8
    }

    #[inline(always)]
    fn set_word(&mut self, word: usize, bits: u64) {
        self.sum_up();
        let at = &self.zone.bitmap(self.id)[word];
        let (twos, threes) = count_orders_2_and_3(at.load(Relaxed));
        at.store(bits, Relaxed);
        let (twos_now, threes_now) = count_orders_2_and_3(bits);
        self.order_2 += i64::from(twos_now) - i64::from(twos);
        self.large += 8 * (i64::from(threes_now) - i64::from(threes));
        self.set_word_orders(word, orders_in(bits));
    }

    #[inline(always)]
    fn set_word_orders(&mut self, word: usize, orders: u8) {
        let shift = word % 8 * 8;
        let all = &mut self.orders[word / 8];
        *all = *all & !(0xff << shift) | u64::from(orders) << shift;
    }

    /// Writes `bits` to a word: of the maximal runs of order `found` that it had, the first `runs` are taken, but for the
    /// last `left` slots of the last of them. `has_more`: whether the word keeps any.
    ///
    /// The first slots of a run are taken, so what is left of it are runs of different orders, the binary digits of its
    /// length, and each is maximal, because slots of its other half are taken.
    #[inline(always)]
    fn leave_of_runs(
        &mut self,
        (word, bits): (usize, u64),
        (found, runs): (u8, u32),
        left: u32,
        has_more: bool,
    ) {
        debug_assert!(self.ahead == 0 && left < 1 << found, "F2");
        self.zone.bitmap(self.id)[word].store(bits, Relaxed);
        let none = if has_more { 0 } else { 1 << found };
        let orders = self.word_orders(word) & !none | left as u8;
        debug_assert_eq!(orders, orders_in(bits), "F2");
        self.set_word_orders(word, orders);
        let mut order_2 = i64::from(left >> 2 & 1);
        let mut large = i64::from(left & !7);
        match found {
            0 | 1 => {}
            2 => order_2 -= i64::from(runs),
            _ => large -= i64::from(runs << found),
        }
        self.order_2 += order_2;
        self.large += large;
    }

    /// Leaves a word, which had `bits` so far, to [`sum_up`](Self::sum_up).
    #[inline(always)]
    pub(super) fn go_ahead(&mut self, word: usize, bits: u64) {
        let bit = 1 << word;
        if self.ahead & bit == 0 {
            self.ahead |= bit;
            let (twos, threes) = count_orders_2_and_3(bits);
            self.order_2 -= i64::from(twos);
            self.large -= 8 * i64::from(threes);
        }
    }

    /// Brings the sums up to date with the words that are ahead.
    #[inline(always)]
    pub(super) fn sum_up(&mut self) {
        while self.ahead != 0 {
            let word = self.ahead.trailing_zeros() as usize;
            self.ahead &= self.ahead - 1;
            let bits = self.zone.bitmap(self.id)[word].load(Relaxed);
            let (twos, threes) = count_orders_2_and_3(bits);
            self.order_2 += i64::from(twos);
            self.large += 8 * i64::from(threes);
            let shift = word % 8 * 8;
            let orders = &mut self.orders[word / 8];
            *orders = *orders & !(0xff << shift) | u64::from(orders_in(bits)) << shift;
        }
    }

    /// The words that are entirely free, one bit each.
    #[inline(always)]
    fn full_words(&self) -> u64 {
        let gather = |orders: u64| {
            // Bit 6 of each byte, brought together by a multiplication.
            ((orders >> 6 & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080)) >> 56
        };
        gather(self.orders[0]) | gather(self.orders[1]) << 8
    }

    /// The orders of all maximal free blocks in the pageblock, one bit each.
    #[inline(always)]
    pub(super) fn all_orders(&self) -> u16 {
        let orders = self.orders[0] | self.orders[1];
        let small = small_orders(orders);
        if orders & FULL_WORDS == 0 {
            return small;
        }
        small | u16::from(orders_in(self.full_words())) << WORD_ORDER
    }

    /// Takes up to `want` blocks of `order` from maximal free blocks of order `found`, which is at
    /// least `order`, the lowest first. Writes the offsets of their first frames in the zone to
    /// `out` from `taken` on, and returns how many there are then.
    #[inline]
    pub(in super::super) fn take(
        &mut self,
        found: u8,
        order: Order,
        mobility: Mobility,
        out: &mut [u32],
        mut taken: usize,
    ) -> usize {
        self.sum_up();
        let before = taken;
        let base = (self.id << self.zone.map.pageblock_order) as u32;
        let order = order.get();
        let pieces = 1u32 << (found - order);
        if found < WORD_ORDER {
            for word in 0..self.zone.map.words_per_block {
                if self.word_orders(word) >> found & 1 == 0 {
                    continue;
                }
                let mut bits = self.zone.bitmap(self.id)[word].load(Relaxed);
                let mut runs = runs_in(bits, found);
                let (mut gone, mut left) = (0, 0);
                while runs != 0 && taken < out.len() {
                    let start = runs.trailing_zeros();
                    runs &= runs - 1;
                    let now = pieces.min((out.len() - taken) as u32);
                    (gone, left) = (gone + 1, (pieces - now) << order);
                    // Less than a word.
                    bits &= !ones_at(start, now << order);
                    let mut first = base + word as u32 * 64 + start;
                    for out in &mut out[taken..taken + now as usize] {
                        *out = first;
                        first += 1 << order;
                    }
                    taken += now as usize;
                }
                self.leave_of_runs((word, bits), (found, gone), left, runs != 0);
                if taken == out.len() {
                    break;
                }
            }
        } else {
            let mut runs = runs_in(self.full_words(), found - WORD_ORDER);
            while runs != 0 && taken < out.len() {
                let start = runs.trailing_zeros() * 64;
                runs &= runs - 1;
                let now = pieces.min((out.len() - taken) as u32);
                for piece in 0..now {
                    out[taken] = base + start + (piece << order);
                    taken += 1;
                }
                self.clear_low((start / 64) as usize, (now << order) as usize);
            }
        }
        self.counts = self
            .counts
            .take(((taken - before) as u64) << order, mobility);
        taken
    }

    /// Takes the first `frames` frames of the lowest maximal free block of order `found`, which has at least as
    /// many. Returns the slot at which they begin; `None`, without any change, if there is no such block.
    #[inline]
    pub(in super::super) fn take_first(
        &mut self,
        found: u8,
        frames: usize,
        mobility: Mobility,
    ) -> Option<usize> {
        self.sum_up();
        let slot = if found < WORD_ORDER {
            let has_run = |word: &usize| self.word_orders(*word) >> found & 1 != 0;
            let word = (0..self.zone.map.words_per_block).find(has_run)?;
            let bits = self.zone.bitmap(self.id)[word].load(Relaxed);
            let runs = runs_in(bits, found);
            let start = runs.trailing_zeros();
            let taken = ones_at(start, frames as u32);
            debug_assert!(
                bits & taken == taken,
                "F2: the orders are those of the bits"
            );
            let left = (1 << found) - frames as u32;
            let has_more = runs & (runs - 1) != 0;
            self.leave_of_runs((word, bits & !taken), (found, 1), left, has_more);
            word * 64 + start as usize
        } else {
            let runs = runs_in(self.full_words(), found - WORD_ORDER);
            if runs == 0 {
                return None;
            }
            let word = runs.trailing_zeros() as usize;
            self.clear_low(word, frames);
            word * 64
        };
        self.counts = self.counts.take(frames as u64, mobility);
        Some(slot)
    }

    /// Takes up to `max` whole words of the lowest maximal free block of order `found`, which is at
    /// least that of a word. Returns the slot at which they begin, and how many there are.
    #[inline]
    pub(in super::super) fn take_words(
        &mut self,
        found: u8,
        max: usize,
        mobility: Mobility,
    ) -> (usize, usize) {
        let runs = runs_in(self.full_words(), found - WORD_ORDER);
        debug_assert!(runs != 0, "there is a free block of that order");
        let word = runs.trailing_zeros() as usize;
        let len = max.min(1 << (found - WORD_ORDER));
        self.set_whole_words(word..word + len, false);
        self.counts = self.counts.take(64 * len as u64, mobility);
        (64 * word, len)
    }

    /// Marks the first `len` frames of the full words from `word` on as taken.
    #[inline(always)]
    fn clear_low(&mut self, word: usize, len: usize) {
        let whole = word + len / 64;
        if whole > word {
            self.set_whole_words(word..whole, false);
        }
        if !len.is_multiple_of(64) {
            let left = 64 - len % 64;
            self.leave_of_runs(
                (whole, !0 << (len % 64)),
                (WORD_ORDER, 1),
                left as u32,
                false,
            );
        }
    }

    /// Makes words that were entirely taken free, or the other way round.
    #[inline(always)]
    pub(super) fn set_whole_words(&mut self, words: Range<usize>, free: bool) {
        self.sum_up();
        let bits = if free { !0 } else { 0 };
        let len = words.len();
        for word in &self.zone.bitmap(self.id)[words.clone()] {
            word.store(bits, Relaxed);
        }
        // A full word has one maximal run, of order 6, and 8 runs of order 3.
        for (nth, orders) in self.orders.iter_mut().enumerate() {
            let low = words.start.clamp(8 * nth, 8 * nth + 8);
            let high = words.end.clamp(8 * nth, 8 * nth + 8);
            if low < high {
                let mask = ones_at(8 * (low % 8) as u32, 8 * (high - low) as u32);
                *orders = *orders & !mask | if free { mask & FULL_WORDS } else { 0 };
            }
        }
        let large = 64 * len as i64;
        self.large += if free { large } else { -large };
    }

    /// Takes the block of `order` at `slot` of the pageblock. False, without any change, if one of
    /// its frames is not free.
    pub(in super::super) fn take_at(
        &mut self,
        slot: usize,
        order: Order,
        mobility: Mobility,
    ) -> bool {
        let bitmap = self.zone.bitmap(self.id);
        let (word, order) = (slot / 64, order.get());
        if order < WORD_ORDER {
            let mask = run_mask((slot % 64) as u32, order);
            let bits = bitmap[word].load(Relaxed);
            if bits & mask != mask {
                return false;
            }
            self.set_word(word, bits & !mask);
        } else {
            let words = word..word + (1 << (order - WORD_ORDER));
            if bitmap[words.clone()].iter().any(|w| w.load(Relaxed) != !0) {
                return false;
            }
            self.set_whole_words(words, false);
        }
        self.counts = self.counts.take(1 << order, mobility);
        true
    }

    /// Makes the absent frames at `slots` present and free.
    pub(in super::super) fn add(&mut self, slots: Range<usize>) {
        self.set_slots(slots.clone(), true);
        self.counts = BlockCounts(self.counts.0 + slots.len() as u64);
        let absence = self.record.absence();
        self.record.set_absence(absence.less(slots.len()));
    }

    /// Makes the free frames at `slots` absent.
    pub(in super::super) fn remove(&mut self, slots: Range<usize>) {
        self.set_slots(slots.clone(), false);
        self.counts = BlockCounts(self.counts.0 - slots.len() as u64);
        let absence = self.record.absence();
        self.record.set_absence(absence.more(slots.len()));
    }

    /// Makes `slots` free that were not, or the other way round.
    fn set_slots(&mut self, slots: Range<usize>, free: bool) {
        if slots.start.is_multiple_of(64) && slots.end.is_multiple_of(64) {
            return self.set_whole_words(slots.start / 64..slots.end / 64, free);
        }
        for (word, mask) in words_of(&slots) {
            let bits = self.zone.bitmap(self.id)[word].load(Relaxed);
            self.set_word(word, if free { bits | mask } else { bits & !mask });
        }
    }

    pub(in super::super) fn is_free(&self, slot: usize) -> bool {
        self.zone.bitmap(self.id)[slot / 64].load(Relaxed) >> (slot % 64) & 1 != 0
    }
}
