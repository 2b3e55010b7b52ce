//! Bitmaps of slots: the aligned free runs of 2^o slots in one word and in several. A bit is a slot, and 1
//! means free.

use super::{WORD_ORDER, WORD_SLOTS, ones_at};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// For each order up to 6, the bits at which an aligned run of that order can start.
const STARTS: [u64; WORD_ORDER as usize + 1] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    1,
];

/// From the starts of free runs of `order` to those of `order + 1`.
///
/// `order` is below 6.
#[inline(always)]
const fn fold_once(runs: u64, order: u8) -> u64 {
    runs & (runs >> (1 << order)) & STARTS[order as usize + 1]
}

/// The starts of all aligned free runs of `order` (at most 6) in `word`.
#[inline(always)]
const fn fold(word: u64, order: u8) -> u64 {
    let mut runs = word;
    let mut o = 0;
    while o < order {
        runs = fold_once(runs, o);
        o += 1;
    }
    runs
}

/// The starts of those free runs of `order` (below 6) that lie in no free run of `order + 1`. `runs` has the
/// starts of the former, `next` those of the latter.
#[inline(always)]
const fn maximal(runs: u64, next: u64, order: u8) -> u64 {
    runs & !(next | next << (1 << order))
}

/// The orders of the maximal free runs in one word (SL1), as a bit mask: bit `o` for order `o`, bit
/// 6 for the full word.
///
/// Time: some 20 instructions, less for an empty or a full word.
#[inline]
#[must_use]
pub(crate) const fn orders_in(word: u64) -> u8 {
    if word == 0 {
        return 0;
    }
    if word == !0 {
        return 1 << WORD_ORDER;
    }
    let mut orders = 0;
    let mut runs = word;
    let mut order = 0;
    while order < WORD_ORDER {
        let next = fold_once(runs, order);
        orders |= ((maximal(runs, next, order) != 0) as u8) << order;
        runs = next;
        order += 1;
    }
    orders
}

/// How many maximal free runs of order 2 there are in one word (SL1), and how many aligned free runs
/// of order 3.
#[inline]
#[must_use]
pub(crate) const fn count_orders_2_and_3(word: u64) -> (u32, u32) {
    const EACH_BYTE: u64 = 0x0101_0101_0101_0101;
    let twos = fold(word, 2);
    let threes = fold_once(twos, 2);
    let twos = maximal(twos, threes, 2);
    // At most two bits a byte, 16 in all: a multiplication adds the bytes up.
    let twos = (twos & EACH_BYTE) + (twos >> 4 & EACH_BYTE);
    (
        (twos.wrapping_mul(EACH_BYTE) >> 56) as u32,
        (threes.wrapping_mul(EACH_BYTE) >> 56) as u32,
    )
}

/// The starts of the maximal free runs of `order` (at most 6) in one word (SL1).
#[inline]
#[must_use]
pub(crate) const fn runs_in(word: u64, order: u8) -> u64 {
    let runs = fold(word, order);
    if order == WORD_ORDER {
        runs
    } else {
        maximal(runs, fold_once(runs, order), order)
    }
}

/// The slots of the aligned run of `order` (at most 6) at bit `start`.
#[inline]
#[must_use]
pub(crate) const fn run_mask(start: u32, order: u8) -> u64 {
    ones_at(start, 1 << order)
}

/// How many words hold `slots` slots.
pub(crate) const fn words_needed(slots: usize) -> usize {
    slots.div_ceil(WORD_SLOTS)
}

/// How many slots of a bitmap are free.
pub(crate) fn free_slots(words: &[AtomicU64]) -> u32 {
    words
        .iter()
        .map(|word| word.load(Relaxed).count_ones())
        .sum()
}

/// Adds to each `counts[o]` the number of maximal free runs of order o in a bitmap (SL1), as many as a buddy
/// system's free list would hold. The number of words is a power of two.
///
/// # Panics
/// If `counts` is too short for an order that occurs.
pub(crate) fn count_runs(words: &[AtomicU64], counts: &mut [u32]) {
    let is_full = |word: usize| words[word].load(Relaxed) == !0;
    let mut word = 0;
    while word < words.len() {
        if is_full(word) {
            let mut len = 1;
            let has_buddy = |len: usize| (word + len..word + 2 * len).all(is_full);
            while word % (2 * len) == 0 && word + 2 * len <= words.len() && has_buddy(len) {
                len *= 2;
            }
            counts[usize::from(WORD_ORDER) + len.ilog2() as usize] += 1;
            word += len;
            continue;
        }
        let bits = words[word].load(Relaxed);
        for order in 0..WORD_ORDER {
            counts[usize::from(order)] += runs_in(bits, order).count_ones();
        }
        word += 1;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn folding_finds_the_aligned_runs_and_no_others() {
        assert_eq!(fold(0b1110, 1), 0b0100);
        assert_eq!(fold(!0, 6), 1);
        assert_eq!(fold(!0 >> 1, 6), 0);
        assert_eq!(fold(!0 >> 1, 5), 1);
        assert_eq!(fold(0xff00, 3), 0x0100);
        assert_eq!(maximal(0b1110, fold(0b1110, 1), 0), 0b0010);
        assert_eq!(
            (run_mask(5, 0), run_mask(8, 3), run_mask(0, 6)),
            (32, 0xff00, !0)
        );
    }

    #[test]
    fn the_orders_of_a_word_are_those_that_have_runs() {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..1000u64 {
            word = word.rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (step << 32);
            let word = if step % 3 == 0 {
                word | word << 1 | word << 2
            } else {
                word
            };
            for order in 0..=6 {
                let has = orders_in(word) >> order & 1 != 0;
                assert_eq!(has, runs_in(word, order) != 0, "{word:#x} order {order}");
            }
            let (twos, threes) = count_orders_2_and_3(word);
            assert_eq!(twos, runs_in(word, 2).count_ones());
            assert_eq!(threes, fold(word, 3).count_ones());
            let all: u64 = (0..=5)
                .map(|order| u64::from(runs_in(word, order).count_ones()) << order)
                .sum();
            assert_eq!(all, u64::from(word.count_ones()), "{word:#x}");
        }
        assert_eq!(
            (orders_in(0), orders_in(!0), orders_in(!0 >> 1)),
            (0, 64, 63)
        );
        assert_eq!(run_mask(8, 3), 0xff00);
    }
}
