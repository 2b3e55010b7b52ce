//! A histogram of fixed length for times: buckets grow with the value.

use std::fmt;

/// Each power of two is divided into this many parts of equal length: the length of a bucket is at
/// most an eighth of its lower end.
const PARTS: usize = 8;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Values below `PARTS` have a bucket each; then come the powers from 2^3 to 2^63.
const BUCKETS: usize = PARTS + (64 - PART_BITS as usize) * PARTS;

/// How often an operation took how long: a histogram of fixed size, below 4 KiB, with buckets that
/// grow with the value. The engine has no clock: its caller fills this.
///
/// Any unit will do, as long as it is always the same; [`Display`](fmt::Display) and the rest of
/// this workspace use nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LatencyHistogram {
    buckets: [u64; BUCKETS],
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buckets: [0; BUCKETS],
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Counts one more value. O(1).
    pub const fn record(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The least and the greatest value, exactly; `None` if it is empty.
    #[must_use]
    pub const fn min_max(&self) -> Option<(u64, u64)> {
        if self.count == 0 {
            return None;
        }
        Some((self.min, self.max))
    }

    /// The mean, rounded down; `None` if it is empty.
    #[must_use]
    pub const fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }

    /// A value that `per_mille` of 1000 do not exceed, and at most an eighth above the least such
    /// value: the end of its bucket, or the greatest value if that is less. 500 is the median, 990
    /// the 99th percentile; above 1000 counts as 1000. `None` if it is empty.
    #[must_use]
    pub fn percentile(&self, per_mille: u32) -> Option<u64> {
        let per_mille = u128::from(per_mille.min(1000));
        // At least one: the least value.
        let wanted = (u128::from(self.count) * per_mille).div_ceil(1000).max(1) as u64;
        let mut seen = 0;
        for (nth, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(last_of(nth).min(self.max));
            }
        }
        None
    }

    /// The buckets that are not empty: the greatest value of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, count)| **count != 0)
            .map(|(nth, count)| (last_of(nth), *count))
    }
}

impl fmt::Display for LatencyHistogram {
    /// One line: the count, and in nanoseconds the least value, the median, the 99th percentile and
    /// the greatest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count {}", self.count)?;
        let (Some((min, max)), Some(p50), Some(p99)) =
            (self.min_max(), self.percentile(500), self.percentile(990))
        else {
            return Ok(());
        };
        write!(
            f,
            " min_ns {min} p50_ns {p50} p99_ns {p99} max_ns {max} mean_ns {}",
            self.mean().unwrap_or_default()
        )
    }
}

/// The bucket of a value.
const fn bucket(value: u64) -> usize {
    if value < PARTS as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    let part = (value >> (power - PART_BITS)) as usize & (PARTS - 1);
    PARTS + (power - PART_BITS) as usize * PARTS + part
}

/// The greatest value of a bucket.
const fn last_of(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(PARTS) else {
        return bucket as u64;
    };
    let (shift, part) = ((above / PARTS) as u32, (above % PARTS) as u64);
    let first = (PARTS as u64 + part) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use framewright_sim::Random;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_in_order() {
        let mut values: Vec<u64> = (0..200).collect();
        for power in 3..64 {
            let step = 1u64 << power;
            values.extend([step - 1, step, step + step / 8, step + (step - 1)]);
        }
        values.sort_unstable();
        for pair in values.windows(2) {
            assert!(bucket(pair[0]) <= bucket(pair[1]), "{pair:?}");
        }
        for &value in &values {
            let end = last_of(bucket(value));
            assert!(
                end >= value && end - value <= value / 8,
                "{value} up to {end}"
            );
            assert_eq!(bucket(end), bucket(value));
            assert!(end == u64::MAX || bucket(end + 1) == bucket(value) + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!(size_of::<LatencyHistogram>() <= 4096);
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values_and_at_most_an_eighth_above() {
        let mut random = Random::new(1);
        let mut histogram = LatencyHistogram::new();
        let mut values = Vec::new();
        for _ in 0..5000 {
            let value = random.bits() >> 32 >> random.below(32);
            values.push(value);
            histogram.record(value);
        }
        values.sort_unstable();
        for per_mille in [0, 1, 10, 250, 500, 900, 990, 999, 1000, 2000] {
            let rank = (5000 * per_mille.min(1000) as usize).div_ceil(1000).max(1);
            let exact = values[rank - 1];
            let found = histogram.percentile(per_mille).unwrap();
            assert!(
                found >= exact && found - exact <= exact / 8,
                "{per_mille}: {found}"
            );
        }
        assert_eq!(histogram.count(), 5000);
        assert_eq!(histogram.min_max(), Some((values[0], values[4999])));
        assert_eq!(
            histogram.mean(),
            Some(values.iter().sum::<u64>() / 5000),
            "rounded down"
        );
        assert_eq!(histogram.buckets().map(|(_, n)| n).sum::<u64>(), 5000);
    }

    #[test]
    fn what_two_counted_is_counted_by_their_sum() {
        let (mut one, mut other, mut all) = (
            LatencyHistogram::new(),
            LatencyHistogram::new(),
            LatencyHistogram::new(),
        );
        for value in 0..1000 {
            all.record(value * value);
            if value % 3 == 0 {
                one.record(value * value);
            } else {
                other.record(value * value);
            }
        }
        one.add(&other);
        assert_eq!(one, all);
    }

    #[test]
    fn an_empty_one_has_no_percentile_and_says_only_that() {
        let empty = LatencyHistogram::new();
        assert_eq!(empty.percentile(500), None);
        assert_eq!(empty.min_max(), None);
        assert_eq!(empty.mean(), None);
        assert_eq!(empty.to_string(), "count 0");
        let mut one = empty;
        one.record(100);
        assert_eq!(
            one.to_string(),
            "count 1 min_ns 100 p50_ns 100 p99_ns 100 max_ns 100 mean_ns 100"
        );
    }
}
