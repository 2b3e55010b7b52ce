//! The clocks of the experiments, and what a reading costs; latencies and their quantiles.

use crate::report::Distribution;
use hdrhistogram::Histogram;
use std::time::Instant;

/// Empty intervals that the clock is judged by.
const CALIBRATIONS: usize = 20_001;

/// The clock, and what it costs to read.
#[derive(Debug, Clone, Copy)]
pub struct CalibratedClock {
    /// The middle one of many intervals with nothing in them: what is subtracted from each latency.
    pub own_ns: u64,
}

impl CalibratedClock {
    /// Measures the clock, some milliseconds long.
    #[must_use]
    pub fn calibrated() -> Self {
        let mut empty: Vec<u64> = (0..CALIBRATIONS)
            .map(|_| {
                let start = Instant::now();
                nanoseconds(start)
            })
            .collect();
        let (_, middle, _) = empty.select_nth_unstable(CALIBRATIONS / 2);
        Self { own_ns: *middle }
    }

    /// What `work` returns, and how long it took.
    #[inline]
    pub(in crate::experiment) fn time<T>(self, work: impl FnOnce() -> T) -> (T, u64) {
        let start = Instant::now();
        let result = work();
        (result, nanoseconds(start).saturating_sub(self.own_ns))
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Which of many latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiment) enum Quantile {
    /// Half are not longer.
    P50,
    /// 99 % are not longer.
    P99,
    /// 99.9 % are not longer.
    P999,
    /// The longest.
    Max,
}

impl Quantile {
    /// All of them, in the order of `measure::metric::QUANTILES`.
    pub(in crate::experiment) const ALL: [Self; 4] = [Self::P50, Self::P99, Self::P999, Self::Max];
}

/// Latencies of one kind of call.
#[derive(Debug, Clone)]
pub(in crate::experiment) struct Latencies(Histogram<u64>);

impl Latencies {
    /// None yet: 1 ns to a minute, three digits.
    pub(in crate::experiment) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        Self(histogram.expect("the bounds are in order and three digits are allowed"))
    }

    #[inline]
    pub(in crate::experiment) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    pub(in crate::experiment) fn forget(&mut self) {
        self.0.reset();
    }

    /// Takes the other's latencies in.
    pub(in crate::experiment) fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub(in crate::experiment) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, as those of `call`.
    pub(in crate::experiment) fn distribution(
        &self,
        case: &str,
        variant: &'static str,
        call: &'static str,
    ) -> Distribution {
        Distribution::of(case, variant, call, &self.0)
    }

    pub(in crate::experiment) fn at(&self, quantile: Quantile) -> f64 {
        let value = match quantile {
            Quantile::P50 => self.0.value_at_quantile(0.5),
            Quantile::P99 => self.0.value_at_quantile(0.99),
            Quantile::P999 => self.0.value_at_quantile(0.999),
            Quantile::Max => self.0.max(),
        };
        value as f64
    }
}

/// The least and the middle of some values; of an even number of them the upper middle.
pub(in crate::experiment) fn least_and_middle(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.first() {
        Some(&least) => (least, sorted[sorted.len() / 2]),
        None => (0.0, 0.0),
    }
}

/// The least, the middle and the most of some values; of an even number of them the upper middle.
pub(in crate::experiment) fn spread(values: &[f64]) -> [f64; 3] {
    let (least, middle) = least_and_middle(values);
    let most = values.iter().copied().fold(least, f64::max);
    [least, middle, most]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_was_recorded() {
        let mut latencies = Latencies::new();
        assert!(latencies.is_empty());
        (1..=1000).for_each(|ns| latencies.record(ns));
        let mut more = Latencies::new();
        more.record(0);
        more.record(1_000_000);
        latencies.add(&more);
        let at = Quantile::ALL.map(|q| latencies.at(q));
        assert_eq!(at[..3], [500.0, 991.0, 1000.0]);
        assert!(
            (1_000_000.0..1_001_000.0).contains(&at[3]),
            "three digits: {}",
            at[3]
        );
        latencies.forget();
        assert!(latencies.is_empty());
    }

    #[test]
    fn the_least_and_the_middle() {
        assert_eq!(least_and_middle(&[3.0, 1.0, 2.0]), (1.0, 2.0));
        assert_eq!(least_and_middle(&[]), (0.0, 0.0));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), [1.0, 2.0, 3.0]);
        let clock = CalibratedClock::calibrated();
        let (result, ns) = clock.time(|| std::thread::sleep(std::time::Duration::from_millis(2)));
        assert_eq!(result, ());
        assert!(ns > 1_900_000);
    }
}
