//! What requests that stall cost in a replay with reclaim, and the values of those metrics.

use crate::measure::metric::metric_named;
use crate::measure::replay as m;
use crate::measure::{MAX_ORDER, Metric};
use crate::replay::Tries;
use framewright::stats::ReclaimStats;

/// What requests cost that could not be served at once, over the trace without the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stalls {
    /// What the kernel counted, under Linux's names.
    pub stats: ReclaimStats,
    /// Requests that compacted, by order: each attempt is counted.
    pub compact_stall: [u64; MAX_ORDER + 1],
    /// Objects of the trace that reclaim took. Whether their program would have read them again,
    /// and when, no recording says.
    pub reclaimed_objects: u64,
    /// Frees of such objects, and of parts of them: passed over.
    pub frees_of_reclaimed: u64,
    /// The huge pages requested after the trace.
    pub huge: HugeProbes,
}

/// Requests for huge pages after the trace, each held. The kernel may compact for them, and no client
/// gives frames back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugeProbes {
    /// Requests and those that were served.
    pub tries: Tries,
    /// Frames moved for them.
    pub migrated: u64,
    /// Looks of both of compaction's scanners for them.
    pub scanned: u64,
}

impl Stalls {
    /// The metrics that only a replay with reclaim has.
    pub(in crate::replay) fn values(&self) -> Vec<(Metric, f64)> {
        let mut values = vec![
            (m::RECLAIMED_OBJECTS, self.reclaimed_objects),
            (m::FREES_OF_RECLAIMED, self.frees_of_reclaimed),
        ];
        for order in 0..=MAX_ORDER {
            values.push((m::STALL.of(order), self.stats.allocstall[order]));
            values.push((
                m::COMPACT_STALL_BY_ORDER.of(order),
                self.compact_stall[order],
            ));
        }
        let counters = self.stats.named().into_iter();
        values.extend(
            counters.filter_map(|(name, count)| Some((metric_named(m::TABLE, name)?, count))),
        );
        if self.huge.tries.tried > 0 {
            values.extend([
                (m::HUGE_PROBES, self.huge.tries.tried),
                (m::HUGE_PROBES_SERVED, self.huge.tries.served),
                (m::HUGE_PROBES_MIGRATED, self.huge.migrated),
                (m::HUGE_PROBES_SCANNED, self.huge.scanned),
            ]);
        }
        values
            .into_iter()
            .map(|(metric, count)| (metric, count as f64))
            .collect()
    }
}
