//! The foreground: requests for contiguous frames, one after the other, each released at once.

use super::machine::OwnerCounts;
use super::metrics::{self as m, Of};
use super::options::alignment;
use crate::experiment::Failure;
use crate::experiment::timing::{CalibratedClock, Latencies};
use crate::measure::Metric;
use crate::report::Distribution;
use framewright::RunError;
use framewright::reserve::Contiguous;
use nix::sys::resource::{UsageWho, getrusage};

/// What came of the requests of one size.
#[derive(Debug, Clone, Default)]
pub(super) struct SizeOutcome {
    /// Of each request, served or not, in nanoseconds.
    latencies: Vec<u64>,
    failures: u64,
    preempted: u64,
    counted: OwnerCounts,
}

/// Makes one request, and releases what it gave.
///
/// Its latency is from its call to its return, served or not, less what the clock costs.
pub(super) fn one(
    frames: u64,
    owner: &mut dyn Contiguous,
    clock: CalibratedClock,
    counted: &dyn Fn() -> OwnerCounts,
    outcome: &mut SizeOutcome,
) -> Result<(), Failure> {
    let earlier = counted();
    let switches = involuntary_switches();
    let (run, ns) = clock.time(|| owner.alloc_contig(frames, alignment(frames)));
    outcome.preempted += u64::from(involuntary_switches() != switches);
    outcome.counted.add(&counted().since(&earlier));
    outcome.latencies.push(ns);
    match run {
        Ok(run) => owner.release(run).map_err(Failure::new),
        Err(
            RunError::Pinned(_)
            | RunError::Busy(_)
            | RunError::Unmovable(_)
            | RunError::NoMemory(_)
            | RunError::NoRoom,
        ) => {
            outcome.failures += 1;
            Ok(())
        }
        Err(error) => Err(Failure::new(error)),
    }
}

/// How often the scheduler has taken the CPU from this thread.
fn involuntary_switches() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

impl SizeOutcome {
    /// How many requests there were.
    pub(super) const fn requests(&self) -> usize {
        self.latencies.len()
    }

    /// Takes another one's requests of the same size in.
    pub(super) fn add(&mut self, other: &Self) {
        self.latencies.extend(&other.latencies);
        self.failures += other.failures;
        self.preempted += other.preempted;
        self.counted.add(&other.counted);
    }

    /// How long the requests took, as those of that many frames.
    pub(super) fn distribution(&self, frames: &str, variant: &'static str) -> Distribution {
        let mut latencies = Latencies::new();
        self.latencies.iter().for_each(|&ns| latencies.record(ns));
        latencies.distribution(frames, variant, "request")
    }

    /// The figures; none of latencies where there was no request.
    pub(super) fn figures(&self) -> Vec<(Metric, f64)> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let mut figures = Vec::new();
        for of in Of::ALL {
            if let Some(ns) = at(&sorted, of) {
                figures.push((m::LATENCY_US.of(of as usize), ns / 1000.0));
            }
        }
        figures.extend([
            (m::REQUESTS, sorted.len() as f64),
            (m::FAILURES, self.failures as f64),
            (m::PREEMPTED, self.preempted as f64),
        ]);
        let counted = &self.counted;
        let pages = [
            (m::PAGES_MIGRATED, counted.migrated),
            (m::PAGES_DISCARDED, counted.discarded),
        ];
        figures.extend(pages.map(|(metric, pages)| (metric, pages as f64)));
        figures.push((m::WAIT_US, counted.wait_ns as f64 / 1000.0));
        figures
    }
}

/// One of some values in ascending order, by nearest rank: of an even number the lower middle.
fn at(sorted: &[u64], of: Of) -> Option<f64> {
    let rank = |hundredths: usize| (sorted.len() * hundredths).div_ceil(100).saturating_sub(1);
    let (first, last) = (sorted.first()?, sorted.last()?);
    Some(match of {
        Of::Min => *first as f64,
        Of::Max => *last as f64,
        Of::Avg => sorted.iter().sum::<u64>() as f64 / sorted.len() as f64,
        Of::P50 => sorted[rank(50)] as f64,
        Of::P99 => sorted[rank(99)] as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned_as_linuxs_callers_have_them() {
        assert_eq!(
            [1, 3, 200, 512, 32_000].map(alignment),
            [1, 4, 256, 256, 256]
        );
    }

    #[test]
    fn figures_are_of_all_requests() {
        let sorted: Vec<u64> = (1..=200).collect();
        let all = Of::ALL.map(|of| at(&sorted, of).unwrap());
        assert_eq!(all, [1.0, 200.0, 100.5, 100.0, 198.0]);
        assert_eq!(Of::ALL.map(|of| at(&[7], of)), [Some(7.0); 5]);
        assert_eq!(at(&[], Of::Min), None);
    }
}
