//! One word folded: which aligned runs of 2^o bits are all ones.

use super::WORD_ORDER;

/// For each order up to 6, the bits at which an aligned run of that order can start.
pub(super) const STARTS: [u64; WORD_ORDER as usize + 1] = [
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
pub(super) const fn fold_once(runs: u64, order: u8) -> u64 {
    runs & (runs >> (1 << order)) & STARTS[order as usize + 1]
}

/// The starts of all aligned free runs of `order` (at most 6) in `word`.
#[inline(always)]
pub(super) const fn fold(word: u64, order: u8) -> u64 {
    let mut runs = word;
    let mut o = 0;
    while o < order {
        runs = fold_once(runs, o);
        o += 1;
    }
    runs
}

/// Of the starts of free runs of `order` (below 6), those that lie in no free run of `order + 1`,
/// whose starts are `next`.
#[inline(always)]
pub(super) const fn maximal(runs: u64, next: u64, order: u8) -> u64 {
    runs & !(next | next << (1 << order))
}

/// `2^order` ones, `order` at most 6.
#[inline(always)]
pub(super) const fn ones(order: u8) -> u64 {
    !0 >> (64 - (1 << order))
}

/// Ones at the bits `start..start + len`, `len` from 1 to `64 - start`.
#[inline(always)]
pub(super) const fn ones_at(start: usize, len: usize) -> u64 {
    (!0 >> (64 - len)) << start
}

#[cfg(test)]
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
        assert_eq!((ones(0), ones(3), ones(6)), (1, 0xff, !0));
        assert_eq!((ones_at(63, 1), ones_at(0, 64)), (1 << 63, !0));
    }
}
