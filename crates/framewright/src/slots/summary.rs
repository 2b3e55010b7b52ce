use super::WORD_ORDER;
use super::fold::{fold, fold_once, maximal, ones};

/// The orders of the maximal free runs in one word (S2), as a bit mask: bit `o` for order `o`, bit
/// 6 for the full word.
///
/// Time: some 20 instructions, less for an empty or a full word.
#[inline]
#[must_use]
pub const fn orders_in(word: u64) -> u8 {
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

/// How many maximal free runs of order 2 there are in one word (S2), and how many aligned free runs
/// of order 3.
#[inline]
#[must_use]
pub const fn count_orders_2_and_3(word: u64) -> (u32, u32) {
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

/// The starts of the maximal free runs of `order` (at most 6) in one word (S2).
#[inline]
#[must_use]
pub const fn runs_in(word: u64, order: u8) -> u64 {
    let runs = fold(word, order);
    if order == WORD_ORDER {
        runs
    } else {
        maximal(runs, fold_once(runs, order), order)
    }
}

/// The slots of the aligned run of `order` (below 6) at bit `start`.
#[inline]
#[must_use]
pub const fn run_mask(start: u32, order: u8) -> u64 {
    ones(order) << start
}

#[cfg(test)]
mod tests {
    use super::*;

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
