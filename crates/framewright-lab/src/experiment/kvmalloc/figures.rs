//! From what threads measured to the figures of the report: the middle of the repetitions, and ratios to the
//! document's kernel. No measuring happens here.

use super::super::{BEFORE, FRAMEWRIGHT, FRAMEWRIGHT_KEPT, PROPOSED};
use super::journal::Measured;
use super::metrics as m;
use super::plan::{KvmallocOptions, ObjectSize};
use super::published;
use crate::before::journal::LockCount;
use crate::experiment::timing::{Latencies, Quantile, least_and_middle};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};

/// The figures of all variants, `runs` of each, behind the document's.
pub(super) fn of(
    case: &str,
    options: KvmallocOptions,
    variants: &[&'static str],
    runs: &[Vec<Measured>],
    accounts: &[Measured],
) -> Vec<Figure> {
    // The document's objects have one length.
    let mut figures = match options.object {
        ObjectSize::Bytes(_) => published::figures(case),
        ObjectSize::Mixed => Vec::new(),
    };
    let mut before = None;
    for ((variant, runs), accounts) in variants.iter().zip(runs).zip(accounts) {
        let summary = MiddleFigures::of(runs);
        if *variant == BEFORE {
            before = Some((
                summary.commits_per_s,
                summary.commits_per_cpu_s,
                summary.kvmalloc_cpu_ns,
            ));
        }
        let mut values = summary.values();
        // The baselines count their locks always; the engine's are accounted in that run alone.
        if [FRAMEWRIGHT, FRAMEWRIGHT_KEPT].contains(variant) {
            values.extend(lock_values(&accounts.counted.locks, accounts.all_calls()));
        } else {
            values.extend(lock_values(&summary.locks(), summary.calls()));
        }
        values.extend(account_values(variant, accounts));
        if let Some((commits, by_cpu, kvmalloc)) = before {
            values.push((m::COMMITS_VS_BEFORE, summary.commits_per_s / commits));
            values.push((
                m::COMMITS_PER_CPU_VS_BEFORE,
                summary.commits_per_cpu_s / by_cpu,
            ));
            values.push((
                m::KVMALLOC_CPU_VS_BEFORE,
                summary.kvmalloc_cpu_ns / kvmalloc,
            ));
        }
        figures.extend(values.into_iter().map(|(metric, value)| Figure {
            case: case.to_owned(),
            variant,
            metric,
            value: if value.is_finite() { value } else { 0.0 },
            source: FigureSource::Measured,
        }));
    }
    figures
}

/// Of several repetitions the middle one in each figure; counts of all together.
struct MiddleFigures<'r> {
    runs: &'r [Measured],
    commits_per_s: f64,
    commits_per_cpu_s: f64,
    kvmalloc_cpu_ns: f64,
}

impl<'r> MiddleFigures<'r> {
    fn of(runs: &'r [Measured]) -> Self {
        let mut summary = Self {
            runs,
            commits_per_s: 0.0,
            commits_per_cpu_s: 0.0,
            kvmalloc_cpu_ns: 0.0,
        };
        summary.commits_per_s = summary.middle(|run| run.commits_per_s);
        summary.commits_per_cpu_s = summary.middle(|run| run.commits as f64 * 1e9 / run.cpu_ns);
        summary.kvmalloc_cpu_ns = summary.middle(Measured::kvmalloc_cpu_ns);
        summary
    }

    fn middle(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        let values: Vec<f64> = self.runs.iter().map(of).collect();
        least_and_middle(&values).1
    }

    fn total(&self, of: impl Fn(&Measured) -> u64) -> f64 {
        self.runs.iter().map(of).sum::<u64>() as f64
    }

    fn values(&self) -> Vec<(Metric, f64)> {
        let share = |of: fn(&Measured) -> f64| self.middle(|run| of(run) / run.cpu_ns);
        let calls = self.calls() as f64;
        let mut values = vec![
            (m::COMMITS_PER_S, self.commits_per_s),
            (m::COMMITS_PER_CPU_S, self.commits_per_cpu_s),
            (m::KVMALLOC_CPU_NS, self.kvmalloc_cpu_ns),
            (
                m::KVFREE_CPU_NS,
                self.middle(|run| run.free_ns / run.all_calls() as f64),
            ),
            (m::COPY_CPU_NS, self.middle(Measured::copy_cpu_ns)),
            (
                m::KVMALLOC_VS_COPY,
                self.middle(|run| run.kvmalloc_cpu_ns() / run.copy_cpu_ns()),
            ),
            (
                m::KVMALLOC_SHARE,
                share(|run| run.kvmalloc_ns + run.timed_kvmalloc_ns),
            ),
            (m::COPY_SHARE, share(|run| run.copy_ns)),
            (m::KVFREE_SHARE, share(|run| run.free_ns)),
            (m::BACKGROUND_SHARE, share(|run| run.background_ns)),
            (
                m::SPILLED_SHARE,
                self.total(|run| run.counted.spills) / calls,
            ),
            (
                m::COMPACT_STALL,
                self.total(|run| run.counted.compact_stall),
            ),
            (
                m::COMPACT_SUCCESS,
                self.total(|run| run.counted.compact_success),
            ),
            (
                m::ALLOCSTALL,
                self.total(|run| run.counted.allocstall + run.waits),
            ),
            (
                m::RECLAIMED,
                self.total(|run| run.counted.reclaimed + run.reclaimed),
            ),
            (m::MIGRATED, self.total(|run| run.counted.migrated)),
            (m::WAITS, self.total(|run| run.waits)),
            (m::CALLS, calls),
        ];
        let latencies = latencies(self.runs);
        if !latencies.is_empty() {
            values.extend(Quantile::ALL.map(|q| (m::KVMALLOC_NS.of(q as usize), latencies.at(q))));
        }
        values
    }

    fn calls(&self) -> u64 {
        self.runs.iter().map(Measured::all_calls).sum()
    }

    fn locks(&self) -> Vec<LockCount> {
        let mut sums: Vec<LockCount> = Vec::new();
        for lock in self.runs.iter().flat_map(|run| &run.counted.locks) {
            match sums.iter_mut().find(|sum| sum.name == lock.name) {
                Some(sum) => sum.add(lock),
                None => sums.push(*lock),
            }
        }
        sums
    }
}

/// How long the calls took that were timed one by one, of all repetitions.
pub(super) fn latencies(runs: &[Measured]) -> Latencies {
    let mut latencies = Latencies::new();
    runs.iter().for_each(|run| latencies.add(&run.latencies));
    latencies
}

/// What locks counted in this many calls; of those that were taken.
fn lock_values(locks: &[LockCount], calls: u64) -> Vec<(Metric, f64)> {
    let mut values = Vec::new();
    for lock in locks.iter().filter(|lock| lock.acquisitions > 0) {
        let taken = lock.acquisitions as f64;
        values.extend([
            (
                m::LOCK_CONTENDED_SHARE.named(lock.name),
                lock.contended as f64 / taken,
            ),
            (m::LOCK_PER_CALL.named(lock.name), taken / calls as f64),
            (
                m::LOCK_HOLD_NS_MAX.named(lock.name),
                lock.hold_ns_max as f64,
            ),
        ]);
    }
    values
}

/// Where the CPU time of calls went, of the run that was accounted.
fn account_values(variant: &str, run: &Measured) -> Vec<(Metric, f64)> {
    let share = |ns: f64| ns / run.cpu_ns;
    let reclaim_ns = run.counted.reclaim_ns as f64 + run.reclaim_ns;
    let mut values = vec![
        (m::COMPACT_SHARE, share(run.counted.compact_ns as f64)),
        (m::RECLAIM_SHARE, share(reclaim_ns)),
        (
            m::FRAME_RUNS,
            run.frame_runs as f64 / run.all_calls() as f64,
        ),
    ];
    if [BEFORE, PROPOSED].contains(&variant) {
        let waited: u64 = run.counted.locks.iter().map(|lock| lock.waited_ns).sum();
        values.push((m::LOCK_WAIT_SHARE, share(waited as f64)));
    }
    values
}

impl Measured {
    fn all_calls(&self) -> u64 {
        self.calls + self.timed_calls
    }

    /// Of the calls that were not timed one by one; of all where those are too few.
    fn kvmalloc_cpu_ns(&self) -> f64 {
        match self.calls {
            0 => self.timed_kvmalloc_ns / self.timed_calls as f64,
            calls => self.kvmalloc_ns / calls as f64,
        }
    }

    fn copy_cpu_ns(&self) -> f64 {
        self.copy_ns / self.all_calls() as f64
    }
}
