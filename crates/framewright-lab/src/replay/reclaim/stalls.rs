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

/// Requests for huge pages after the trace, each held: with compaction, and with nobody who gives
/// frames back.
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
    /// The value of one of the metrics that only a replay with reclaim has.
    pub(in crate::replay) fn value(&self, metric: Metric) -> Option<f64> {
        let huge = (self.huge.tries.tried > 0).then_some(self.huge);
        let value = match metric {
            Metric::Stall(k) => self.stats.allocstall[usize::from(k)],
            Metric::CompactStall(k) => self.compact_stall[usize::from(k)],
            Metric::Vmstat(name) => {
                let named = self.stats.named();
                named.iter().find(|(known, _)| *known == name)?.1
            }
            Metric::ReclaimedObjects => self.reclaimed_objects,
            Metric::FreesOfReclaimed => self.frees_of_reclaimed,
            Metric::HugeProbes => huge?.tries.tried,
            Metric::HugeProbesServed => huge?.tries.served,
            Metric::HugeProbesMigrated => huge?.migrated,
            Metric::HugeProbesScanned => huge?.scanned,
            _ => return None,
        };
        Some(value as f64)
    }
}
