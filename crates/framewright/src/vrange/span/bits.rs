//! Runs of any length in the bitmaps of a span.
//!
//! Does for any run what `slots` does for aligned runs of powers of two. All
//! accesses are `Relaxed`: one CPU at a time owns a bitmap.

use crate::slots::{self, ones_at};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The words of the range, and its bits in each.
#[inline(always)]
pub(in super::super) fn words_of(start: u32, len: u32) -> impl Iterator<Item = (usize, u64)> {
    slots::words_of(&(start as usize..(start + len) as usize))
}

/// The words in which a range has bits, one bit each: at most 16 for 1024 bits.
#[inline(always)]
pub(in super::super) const fn summary_of(start: u32, len: u32) -> u32 {
    (2 << ((start + len - 1) / 64)) - (1 << (start / 64))
}

/// The places of the bits that are set in a word, from the lowest up.
#[inline(always)]
pub(in super::super) fn places(mut word: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let place = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        place
    })
}

/// Sets the bits of the range.
#[inline(always)]
pub(in super::super) fn set(bits: &[AtomicU64], start: u32, len: u32) {
    for (word, mask) in words_of(start, len) {
        let word = &bits[word];
        word.store(word.load(Relaxed) | mask, Relaxed);
    }
}

/// Clears the bits of the range.
#[inline(always)]
pub(in super::super) fn clear(bits: &[AtomicU64], start: u32, len: u32) {
    for (word, mask) in words_of(start, len) {
        let word = &bits[word];
        word.store(word.load(Relaxed) & !mask, Relaxed);
    }
}

/// How many bits are set.
pub(in super::super) fn count(bits: &[AtomicU64]) -> u32 {
    bits.iter()
        .map(|word| word.load(Relaxed).count_ones())
        .sum()
}

/// Whether all bits of the range are set.
pub(in super::super) fn has_all(bits: &[AtomicU64], start: u32, len: u32) -> bool {
    count_in(bits, start, len) == len
}

/// How many bits of the range are set.
pub(in super::super) fn count_in(bits: &[AtomicU64], start: u32, len: u32) -> u32 {
    let mut count = 0;
    for (word, mask) in words_of(start, len) {
        count += (bits[word].load(Relaxed) & mask).count_ones();
    }
    count
}

/// Whether a bit is set.
pub(in super::super) fn has_any(bits: &[AtomicU64]) -> bool {
    bits.iter().any(|word| word.load(Relaxed) != 0)
}

/// The first bit at or after `from` that is set, or that is clear if `flip` is all ones; at most
/// `64 * words`.
#[inline(always)]
fn next(bits: &[AtomicU64], from: u32, flip: u64) -> u32 {
    let mut word = (from / 64) as usize;
    let mut mask = !0 << (from % 64);
    while word < bits.len() {
        let found = (bits[word].load(Relaxed) ^ flip) & mask;
        if found != 0 {
            return word as u32 * 64 + found.trailing_zeros();
        }
        mask = !0;
        word += 1;
    }
    bits.len() as u32 * 64
}

/// The runs of ones from `from` on, as the first bit and the bit behind the run.
pub(in super::super) fn runs(bits: &[AtomicU64], from: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = from;
    let end = bits.len() as u32 * 64;
    core::iter::from_fn(move || {
        let start = next(bits, at, 0);
        if start == end {
            return None;
        }
        at = next(bits, start, !0);
        Some((start, at))
    })
}

/// Searches from `from` on for the first run of ones that has `len` bits starting at a multiple of
/// `align`. Returns that multiple, and the bit behind the run. O(words), whatever the bits are.
#[inline]
pub(in super::super) fn find(
    bits: &[AtomicU64],
    from: u32,
    len: u32,
    align: u32,
) -> Option<(u32, u32)> {
    let at = if align > 64 {
        find_far_apart(bits, from, len, align)
    } else if len <= 64 {
        find_short(bits, from, len, align)
    } else {
        find_long(bits, from, len, align)
    }?;
    Some((at, next(bits, at + len, !0)))
}

/// The same where a word has few multiples of `align`: looks at each of them.
fn find_far_apart(bits: &[AtomicU64], from: u32, len: u32, align: u32) -> Option<u32> {
    let end = bits.len() as u32 * 64;
    let mut at = (from + (align - 1)) & !(align - 1);
    while at + len <= end {
        if next(bits, at, !0) >= at + len {
            return Some(at);
        }
        at += align;
    }
    None
}

/// Ones at the multiples of 1, 2, 4 and so on up to 64, in a word.
const MULTIPLES: [u64; 7] = {
    let mut all = [1; 7];
    let mut log = 0;
    while log < 6 {
        all[log] = !0 / ((1u128 << (1 << log)) - 1) as u64;
        log += 1;
    }
    all
};

/// The same for up to 64 bits at a multiple of up to 64: finds all starts in a word at once.
fn find_short(bits: &[AtomicU64], from: u32, len: u32, align: u32) -> Option<u32> {
    let multiples = MULTIPLES[align.trailing_zeros() as usize];
    let first = (from / 64) as usize;
    let mut mask = !0 << (from % 64);
    for word in first..bits.len() {
        let mut low = bits[word].load(Relaxed) & mask;
        mask = !0;
        if low == 0 {
            continue;
        }
        let mut high = bits.get(word + 1).map_or(0, |bits| bits.load(Relaxed));
        // Ones where runs of `length` ones begin.
        let mut length = 1;
        while length < len && low != 0 {
            let step = length.min(len - length);
            low &= low >> step | high << (64 - step);
            high &= high >> step;
            length += step;
        }
        let starts = low & multiples;
        if starts != 0 {
            return Some(word as u32 * 64 + starts.trailing_zeros());
        }
    }
    None
}

/// The same for more than 64 bits, which lie in several words.
fn find_long(bits: &[AtomicU64], from: u32, len: u32, align: u32) -> Option<u32> {
    let fits = |start: u32, end: u32| {
        let aligned = (start + (align - 1)) & !(align - 1);
        (aligned + len <= end).then_some(aligned)
    };
    let mut mask = !0 << (from % 64);
    // Where the run that reaches the end of the last word began.
    let mut start = from;
    for (word, here) in bits.iter().enumerate().skip((from / 64) as usize) {
        let here = here.load(Relaxed) & mask;
        mask = !0;
        if here == !0 {
            continue;
        }
        let base = word as u32 * 64;
        let found = fits(start, base + here.trailing_ones());
        if found.is_some() {
            return found;
        }
        start = base + 64 - here.leading_ones();
    }
    fits(start, bits.len() as u32 * 64)
}

/// The length of the longest run of ones, and how many ones there are.
pub(in super::super) fn survey(bits: &[AtomicU64]) -> (u32, u32) {
    let (mut best, mut open, mut ones) = (0, 0, 0);
    for word in bits {
        let word = word.load(Relaxed);
        if word == !0 {
            open += 64;
            ones += 64;
            continue;
        }
        if word == 0 {
            best = best.max(open);
            open = 0;
            continue;
        }
        ones += word.count_ones();
        best = best.max(open + word.trailing_ones());
        open = word.leading_ones();
        best = best.max(longest_above(word, best));
    }
    (best.max(open), ones)
}

/// The longest run inside one word, if it is longer than `least`; otherwise any number up to that.
#[inline]
fn longest_above(word: u64, least: u32) -> u32 {
    if word.count_ones() <= least {
        return least;
    }
    // Ones where runs of `length` ones begin. Folds until `least + 1`, then goes one by one.
    let (mut runs, mut length) = (word, 1);
    while length <= least {
        let step = length.min(least + 1 - length);
        runs &= runs >> step;
        length += step;
        if runs == 0 {
            return least;
        }
    }
    while runs != 0 {
        runs &= runs >> 1;
        length += 1;
    }
    length - 1
}

/// The last bit at or before `to` that is set.
pub(super) fn last_set_to(bits: &[AtomicU64], to: u32) -> Option<u32> {
    let mut mask = ones_at(0, to % 64 + 1);
    for word in (0..=(to / 64) as usize).rev() {
        let found = bits[word].load(Relaxed) & mask;
        if found != 0 {
            return Some(word as u32 * 64 + found.ilog2());
        }
        mask = !0;
    }
    None
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::random::Random;
    use std::vec::Vec;

    fn plain(bits: &[AtomicU64]) -> Vec<bool> {
        (0..bits.len() * 64)
            .map(|bit| bits[bit / 64].load(Relaxed) >> (bit % 64) & 1 != 0)
            .collect()
    }

    fn plain_runs(bits: &[AtomicU64]) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (at, set) in plain(bits).into_iter().enumerate() {
            match runs.last_mut() {
                Some(run) if set && run.1 == at as u32 => run.1 += 1,
                _ if set => runs.push((at as u32, at as u32 + 1)),
                _ => {}
            }
        }
        runs
    }

    #[test]
    fn runs_are_found_as_a_walk_bit_by_bit_finds_them() {
        let mut random = Random::new(1);
        let mut draw = |below| random.below(below);
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        for round in 0..rounds {
            let bits: [AtomicU64; 5] = core::array::from_fn(|_| AtomicU64::new(0));
            for _ in 0..draw(6) {
                let start = draw(320) as u32;
                let len = 1 + draw(u64::from(320 - start)) as u32;
                set(&bits, start, len);
                if draw(2) == 0 {
                    let hole = start + draw(u64::from(len)) as u32;
                    clear(&bits, hole, 1);
                }
            }
            let all = plain_runs(&bits);
            assert_eq!(runs(&bits, 0).collect::<Vec<_>>(), all, "round {round}");
            let most = all.iter().map(|run| run.1 - run.0).max().unwrap_or(0);
            let pages: u32 = all.iter().map(|run| run.1 - run.0).sum();
            assert_eq!(count(&bits), pages);
            assert_eq!(survey(&bits), (most, pages), "round {round}");
            let (len, align) = (1 + draw(150) as u32, 1 << draw(9));
            for from in [0, draw(320) as u32] {
                let expected = all.iter().find_map(|&(start, end)| {
                    let aligned = start.max(from).next_multiple_of(align);
                    (aligned + len <= end).then_some((aligned, end))
                });
                let found = find(&bits, from, len, align);
                assert_eq!(
                    found, expected,
                    "round {round}: {len} at {align} from {from}"
                );
            }
            let to = draw(320) as u32;
            let bit = plain(&bits);
            let before = (0..=to).rev().find(|&at| bit[at as usize]);
            assert_eq!(last_set_to(&bits, to), before);
        }
    }
}
