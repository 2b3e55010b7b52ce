//! The range of a difference between two means over windows: a block bootstrap.
//!
//! Windows of a recording are not independent of their neighbours, so blocks of neighbours are drawn instead of windows:
//! their length follows from how much a window tells of the next one. Few blocks say less of chance than many, so a range
//! is widened as Student's distribution is wider than the normal one.
//!
//! # Invariants
//! - **BS1** The range of `b - a` is that of `a - b` with its signs turned, to the last bit: each series is drawn with
//!   both of two streams of numbers, and each difference is of two streams.
//! - **BS2** Series of fewer than [`WINDOWS_MIN`] windows have no range.

use framewright_sim::Random;

/// Fewer windows than these say nothing of chance.
pub const WINDOWS_MIN: usize = 10;
/// The share of ranges that are to hold the difference.
pub const RANGE_SHARE: f64 = 0.9;

/// Draws with each of the two streams.
const DRAWS: usize = 1000;
/// The first two numbers of no special meaning.
const STREAMS: [u64; 2] = [0x5eed_0001, 0x5eed_0002];
/// The normal distribution's quantile at `(1 + RANGE_SHARE) / 2`.
const NORMAL: f64 = 1.644_853_626_951_472_2;
/// A block is no longer than this part of a series.
const BLOCK_PART: usize = 4;

/// A difference between two means, and the range that it has by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DifferenceRange {
    /// The mean of the second series less that of the first.
    pub difference: f64,
    /// Where the range begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl DifferenceRange {
    /// Whether no difference at all lies outside the range.
    #[must_use]
    pub const fn is_beyond_chance(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The mean; 0 of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The range of the difference between the means of two series of windows; `None` where one is too short for it (BS2).
#[must_use]
pub fn difference_range(a: &[f64], b: &[f64]) -> Option<DifferenceRange> {
    if a.len().min(b.len()) < WINDOWS_MIN {
        return None;
    }
    let (of_a, of_b) = (DrawnMeans::of(a), DrawnMeans::of(b));
    let scale = of_a.mean.abs().max(of_b.mean.abs());
    // What summing in another order leaves is no difference.
    let exact = |value: f64| {
        if value.abs() <= 1e-9 * scale {
            0.0
        } else {
            value
        }
    };
    let difference = exact(of_b.mean - of_a.mean);
    let widened = student_share(of_a.freedom_with(&of_b));
    let pairs = [(0, 1), (1, 0)];
    let off = |(s, t): (usize, usize)| {
        let both = of_b.off[s].iter().zip(&of_a.off[t]);
        both.map(|(b, a)| (b - a) * widened)
    };
    let mut off: Vec<f64> = pairs.into_iter().flat_map(off).collect();
    off.sort_by(f64::total_cmp);
    let outside = ((1.0 - RANGE_SHARE) / 2.0 * off.len() as f64) as usize;
    Some(DifferenceRange {
        difference,
        low: exact(difference + off[outside]),
        high: exact(difference + off[off.len() - 1 - outside]),
    })
}

/// How far the means of drawn series are off the mean.
struct DrawnMeans {
    mean: f64,
    /// By stream.
    off: [Vec<f64>; 2],
    variance: f64,
    /// How many blocks, less one: degrees of freedom.
    freedom: f64,
}

impl DrawnMeans {
    fn of(values: &[f64]) -> Self {
        let (n, mean) = (values.len(), mean(values));
        let r = neighbours(values, mean);
        let len = block_len(n, r);
        let freedom = n as f64 / len as f64 - 1.0;
        // A drawn mean varies by so much less than a mean does: the series' own mean is in the middle of what is drawn
        // from, and what windows of different blocks tell of one another is lost.
        let share = ((freedom + 1.0) / freedom / block_share(len, r)).sqrt();
        let mut sums = vec![0.0];
        for value in values.iter().chain(values) {
            sums.push(sums[sums.len() - 1] + value - mean);
        }
        let draw = |random: &mut Random| {
            let (mut left, mut sum) = (n, 0.0);
            while left > 0 {
                let from = random.below(n as u64) as usize;
                let len = len.min(left);
                sum += sums[from + len] - sums[from];
                left -= len;
            }
            sum / n as f64 * share
        };
        let off = STREAMS.map(|seed| {
            let mut random = Random::new(seed);
            (0..DRAWS).map(|_| draw(&mut random)).collect::<Vec<f64>>()
        });
        let squares = off.iter().flatten().map(|off| off * off).sum::<f64>();
        Self {
            mean,
            off,
            variance: squares / (STREAMS.len() * DRAWS) as f64,
            freedom,
        }
    }

    /// Degrees of freedom of a difference, after Welch and Satterthwaite.
    fn freedom_with(&self, other: &Self) -> f64 {
        let sum = self.variance + other.variance;
        let of = |one: &Self| one.variance * one.variance / one.freedom;
        // Where nothing varies there is nothing to widen.
        if sum > 0.0 {
            sum * sum / (of(self) + of(other))
        } else {
            f64::INFINITY
        }
    }
}

/// The correlation of neighbours: how much a window tells of the next one.
fn neighbours(values: &[f64], mean: f64) -> f64 {
    let square = |value: &f64| (value - mean) * (value - mean);
    let all: f64 = values.iter().map(square).sum();
    if all <= 0.0 {
        return 0.0;
    }
    let product = |two: &[f64]| (two[0] - mean) * (two[1] - mean);
    let found = values.windows(2).map(product).sum::<f64>() / all;
    // A short series shows too little of it.
    (found + (1.0 + 3.0 * found) / values.len() as f64).clamp(0.0, 0.99)
}

/// How many neighbouring windows make a block: the more, the more a window tells of the next one. For a process of
/// the first order the length at which the variance of the mean is estimated best is `(2 r / (1 - r^2))^(2/3) n^(1/3)`.
fn block_len(n: usize, r: f64) -> usize {
    let len = (2.0 * r / (1.0 - r * r)).powf(2.0 / 3.0) * (n as f64).cbrt();
    (len.round() as usize).clamp(1, n / BLOCK_PART)
}

/// The share of the variance of a mean that blocks of `len` windows keep, in a process of the first order.
fn block_share(len: usize, r: f64) -> f64 {
    let len = len as f64;
    1.0 - 2.0 * r * (1.0 - r.powf(len)) / (len * (1.0 - r * r))
}

/// How much wider Student's distribution is than the normal one at [`NORMAL`].
fn student_share(freedom: f64) -> f64 {
    let (z, v) = (NORMAL, freedom);
    let z2 = z * z;
    1.0 + (z2 + 1.0) / (4.0 * v)
        + (5.0 * z2 * z2 + 16.0 * z2 + 3.0) / (96.0 * v * v)
        + (3.0 * z2 * z2 * z2 + 19.0 * z2 * z2 + 17.0 * z2 - 15.0) / (384.0 * v * v * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 0 to 1.
    fn share(random: &mut Random) -> f64 {
        (random.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A series of windows with mean `mean`: each tells `r` of the next one, and the rest is skewed as rates are.
    fn windows(random: &mut Random, n: usize, mean: f64, r: f64) -> Vec<f64> {
        let mut state = 0.0;
        let mut next = || {
            state = state * r - share(random).max(1e-300).ln() - 1.0;
            state
        };
        for _ in 0..50 {
            next();
        }
        (0..n).map(|_| mean + next()).collect()
    }

    /// In which share of 1,500 trials the range holds the true difference.
    fn coverage(lens: [usize; 2], r: f64) -> f64 {
        const TRIALS: u32 = 1500;
        let mut random = Random::new(19);
        let held = |_: &u32| {
            let a = windows(&mut random, lens[0], 5.0, r);
            let b = windows(&mut random, lens[1], 6.0, r);
            let range = difference_range(&a, &b).unwrap();
            (range.low..=range.high).contains(&1.0)
        };
        f64::from((0..TRIALS).filter(held).count() as u32) / f64::from(TRIALS)
    }

    #[test]
    fn ranges_hold_the_difference_in_nine_of_ten_trials() {
        for (lens, r, least, most) in [
            ([20, 20], 0.0, 0.87, 0.93),
            ([12, 40], 0.0, 0.86, 0.93),
            ([60, 60], 0.0, 0.87, 0.93),
            ([60, 60], 0.5, 0.87, 0.93),
            ([200, 100], 0.8, 0.87, 0.93),
        ] {
            let held = coverage(lens, r);
            assert!((least..=most).contains(&held), "{lens:?} {r}: {held}");
        }
    }

    #[test]
    fn a_difference_that_is_there_is_found() {
        let mut random = Random::new(3);
        let a = windows(&mut random, 30, 5.0, 0.3);
        let b = windows(&mut random, 30, 9.0, 0.3);
        let range = difference_range(&a, &b).unwrap();
        assert!(range.is_beyond_chance() && range.low > 0.0, "{range:?}");
        assert!(range.low < range.difference && range.difference < range.high);
    }

    #[test]
    fn bs1_swapped_series_have_the_mirrored_range_and_a_series_does_not_differ_from_itself() {
        let mut random = Random::new(4);
        let a = windows(&mut random, 20, 5.0, 0.3);
        let b = windows(&mut random, 33, 5.5, 0.6);
        let (there, back) = (difference_range(&a, &b), difference_range(&b, &a));
        let (there, back) = (there.unwrap(), back.unwrap());
        assert_eq!(
            (there.difference, there.low, there.high),
            (-back.difference, -back.high, -back.low)
        );
        assert_eq!(difference_range(&a, &b), Some(there), "always the same");
        let same = difference_range(&a, &a).unwrap();
        assert_eq!((same.difference, same.low), (0.0, -same.high));
        assert!(same.high > 0.0 && !same.is_beyond_chance());
    }

    #[test]
    fn bs2_what_is_too_short_has_no_range_and_what_does_not_vary_a_narrow_one() {
        assert_eq!(difference_range(&[1.0; 9], &[1.0; 100]), None);
        let range = difference_range(&[0.1; 10], &[0.1; 27]).unwrap();
        assert_eq!((range.low, range.high), (0.0, 0.0));
        assert!(!range.is_beyond_chance());
        let range = difference_range(&[5.0; 10], &[7.0; 20]).unwrap();
        assert!((range.low - 2.0).abs() < 1e-12 && range.is_beyond_chance());
        // One window of twenty with something in it is chance.
        let mut once = [0.0; 20];
        once[7] = 3.0;
        assert!(
            !difference_range(&[0.0; 20], &once)
                .unwrap()
                .is_beyond_chance()
        );
    }

    #[test]
    fn a_block_is_as_long_as_windows_tell_of_one_another() {
        let mut random = Random::new(5);
        let len = |r| {
            let values = windows(&mut random, 400, 5.0, r);
            block_len(values.len(), neighbours(&values, mean(&values)))
        };
        let lens = [0.0, 0.5, 0.9].map(len);
        assert!(
            lens[0] <= 3 && lens[0] < lens[1] && lens[1] < lens[2],
            "{lens:?}"
        );
        // Of Student's distribution with 10 and 3 degrees of freedom: 1.812 and 2.353.
        assert!((student_share(10.0) * NORMAL - 1.812).abs() < 0.002);
        assert!((student_share(3.0) * NORMAL - 2.353).abs() < 0.02);
    }
}
