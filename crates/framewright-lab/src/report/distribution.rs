//! A distribution of times in few points, for the page: where it bends and where it ends, and not each call.

use hdrhistogram::Histogram;

/// Steps of a distribution for each halving of what is left: more than a plot can show.
const STEPS: u32 = 6;

/// How long calls of one kind took.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The case: `full_fit`.
    pub case: String,
    /// `before`, `proposed` or `framewright`.
    pub variant: &'static str,
    /// The call: `alloc`, `kvmalloc`.
    pub call: &'static str,
    /// Share of the calls, below 1, and the nanoseconds that this share took at most; ascending in both.
    pub shares: Vec<(f64, f64)>,
}

impl Distribution {
    /// Of a histogram of nanoseconds.
    #[must_use]
    pub fn of(
        case: &str,
        variant: &'static str,
        call: &'static str,
        latencies: &Histogram<u64>,
    ) -> Self {
        let mut shares: Vec<(f64, f64)> = Vec::new();
        for step in latencies.iter_quantiles(STEPS) {
            let (share, ns) = (step.quantile(), step.value_iterated_to() as f64);
            // The last step is all of them; where the share above is none there is no place for it.
            if share < 1.0 && shares.last().is_none_or(|last| last.0 < share) {
                shares.push((share, ns));
            }
        }
        Self {
            case: case.to_owned(),
            variant,
            call,
            shares,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_ascend_and_reach_into_the_tail() {
        let mut latencies = Histogram::new_with_bounds(1, 1_000_000_000, 3).unwrap();
        for ns in 1..=10_000u64 {
            latencies.record(ns).unwrap();
        }
        let distribution = Distribution::of("c", "before", "alloc", &latencies);
        let shares = &distribution.shares;
        assert!(shares.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert!(shares.len() < 200, "{} steps", shares.len());
        let at = |wanted: f64| shares.iter().find(|s| s.0 >= wanted).unwrap().1;
        for share in [0.5, 0.9, 0.99, 0.999] {
            let ns = at(share);
            assert!(
                (0.95..1.05).contains(&(ns / (share * 10_000.0))),
                "{share}: {ns}"
            );
        }
        let none = Histogram::new_with_bounds(1, 1000, 3).unwrap();
        assert_eq!(Distribution::of("c", "before", "alloc", &none).shares, []);
    }
}
