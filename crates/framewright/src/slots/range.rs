//! A range of bits as the words that it lies in and its bits in each: the one place that says how.

use core::ops::Range;

/// Ones at `len` bits from `bit` on, inside one word; `len` at least 1.
#[inline(always)]
pub(crate) const fn ones_at(bit: u32, len: u32) -> u64 {
    (!0 >> (64 - len)) << bit
}

/// The words that a range of bits lies in, from the lowest up, and its bits in each.
#[inline(always)]
pub(crate) fn words_of(bits: &Range<usize>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let (mut at, end) = (bits.start, bits.end);
    core::iter::from_fn(move || {
        (at < end).then(|| {
            let bit = at % 64;
            let here = (64 - bit).min(end - at);
            let part = (at / 64, ones_at(bit as u32, here as u32));
            at += here;
            part
        })
    })
}

/// The first of a range of bits that is set in the words that `word` returns.
#[inline]
pub(crate) fn first_of(bits: &Range<usize>, word: impl Fn(usize) -> u64) -> Option<usize> {
    words_of(bits).find_map(|(nth, mask)| {
        let found = word(nth) & mask;
        (found != 0).then(|| nth * 64 + found.trailing_zeros() as usize)
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_words_of_a_range_have_its_bits_and_no_others() {
        // Miri looks for undefined behaviour, and a thousandth of the ranges has every kind of edge.
        let step = if cfg!(miri) { 31 } else { 1 };
        for start in (0..200_usize).step_by(step) {
            for end in (start.saturating_sub(1)..280).step_by(step) {
                let range = start..end;
                let parts: Vec<_> = words_of(&range).collect();
                assert!(parts.iter().all(|&(_, mask)| mask != 0), "{range:?}");
                assert!(parts.windows(2).all(|two| two[0].0 < two[1].0));
                let bits: Vec<_> = (0..320)
                    .filter(|bit| {
                        let mut words = parts.iter().filter(|part| part.0 == bit / 64);
                        words.any(|part| part.1 >> (bit % 64) & 1 != 0)
                    })
                    .collect();
                assert_eq!(bits, range.clone().collect::<Vec<_>>());
                for set in [3, 64, 127, 199, 256] {
                    let word = |nth| if nth == set / 64 { 1 << (set % 64) } else { 0 };
                    let found = range.contains(&set).then_some(set);
                    assert_eq!(first_of(&range, word), found, "{range:?}, {set}");
                }
            }
        }
    }
}
