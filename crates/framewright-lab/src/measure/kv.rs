use super::{Better, Quantile};

/// A metric of the experiment on `kvmalloc`; `docs/metrics.md` holds the same list with the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KvMetric {
    /// Batches committed in a second, by all threads.
    CommitsPerS,
    /// The same over that of `before`.
    CommitsVsBefore,
    /// Batches committed in a second of CPU time.
    CommitsPerCpuS,
    /// The same over that of `before`.
    CommitsPerCpuVsBefore,
    /// CPU time of a `kvmalloc`.
    KvmallocCpuNs,
    /// The same over that of `before`.
    KvmallocCpuVsBefore,
    /// CPU time of copying an item.
    CopyCpuNs,
    /// The one over the other.
    KvmallocVsCopy,
    /// CPU time of a `kvfree`.
    KvfreeCpuNs,
    /// Of all CPU time, that in `kvmalloc`.
    KvmallocShare,
    /// Of all CPU time, that of copying.
    CopyShare,
    /// Of all CPU time, that in `kvfree`.
    KvfreeShare,
    /// Of all CPU time, the background's.
    BackgroundShare,
    /// Calls of `kvmalloc`.
    Calls,
    /// Of those, the ones served with mapped pages.
    SpilledShare,
    /// Calls that compacted.
    CompactStall,
    /// Of those, the ones that got a block by it.
    CompactSuccess,
    /// Calls that reclaimed.
    Allocstall,
    /// Pages that compaction moved.
    Migrated,
    /// Times a buffer had to wait for a frame.
    Waits,
    /// Latency of a `kvmalloc`.
    KvmallocNs(Quantile),
    /// Of a lock's acquisitions, those that waited.
    LockContendedShare(&'static str),
    /// A lock's acquisitions over calls of `kvmalloc`.
    LockPerCall(&'static str),
    /// A lock's longest hold.
    LockHoldNsMax(&'static str),
}

impl KvMetric {
    /// All metrics, with those of one lock, in the order in which they are printed.
    #[must_use]
    pub fn all(lock: &'static str) -> Vec<Self> {
        let mut all = vec![
            Self::CommitsPerS,
            Self::CommitsVsBefore,
            Self::CommitsPerCpuS,
            Self::CommitsPerCpuVsBefore,
            Self::KvmallocCpuNs,
            Self::KvmallocCpuVsBefore,
            Self::CopyCpuNs,
            Self::KvmallocVsCopy,
            Self::KvfreeCpuNs,
            Self::KvmallocShare,
            Self::CopyShare,
            Self::KvfreeShare,
            Self::BackgroundShare,
            Self::Calls,
            Self::SpilledShare,
            Self::CompactStall,
            Self::CompactSuccess,
            Self::Allocstall,
            Self::Migrated,
            Self::Waits,
        ];
        all.extend(Quantile::ALL.map(Self::KvmallocNs));
        all.extend([
            Self::LockContendedShare(lock),
            Self::LockPerCall(lock),
            Self::LockHoldNsMax(lock),
        ]);
        all
    }

    /// The name in figures.
    #[must_use]
    pub fn name(self) -> String {
        let name = match self {
            Self::KvmallocNs(quantile) => return format!("kvmalloc_ns_{}", quantile.suffix()),
            Self::LockContendedShare(lock) => return format!("lock_contended_share.{lock}"),
            Self::LockPerCall(lock) => return format!("lock_per_call.{lock}"),
            Self::LockHoldNsMax(lock) => return format!("lock_hold_ns_max.{lock}"),
            Self::CommitsPerS => "commits_per_s",
            Self::CommitsVsBefore => "commits_vs_before",
            Self::CommitsPerCpuS => "commits_per_cpu_s",
            Self::CommitsPerCpuVsBefore => "commits_per_cpu_vs_before",
            Self::KvmallocCpuNs => "kvmalloc_cpu_ns",
            Self::KvmallocCpuVsBefore => "kvmalloc_cpu_vs_before",
            Self::CopyCpuNs => "copy_cpu_ns",
            Self::KvmallocVsCopy => "kvmalloc_vs_copy",
            Self::KvfreeCpuNs => "kvfree_cpu_ns",
            Self::KvmallocShare => "kvmalloc_share",
            Self::CopyShare => "copy_share",
            Self::KvfreeShare => "kvfree_share",
            Self::BackgroundShare => "background_share",
            Self::Calls => "calls",
            Self::SpilledShare => "spilled_share",
            Self::CompactStall => "compact_stall",
            Self::CompactSuccess => "compact_success",
            Self::Allocstall => "allocstall",
            Self::Migrated => "migrated",
            Self::Waits => "waits",
        };
        name.to_owned()
    }

    /// The unit of its values; `1` for a share or a ratio.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::CommitsPerS | Self::CommitsPerCpuS => "commits/s",
            Self::KvmallocCpuNs
            | Self::CopyCpuNs
            | Self::KvfreeCpuNs
            | Self::KvmallocNs(_)
            | Self::LockHoldNsMax(_) => "ns",
            Self::CommitsVsBefore
            | Self::CommitsPerCpuVsBefore
            | Self::KvmallocCpuVsBefore
            | Self::KvmallocVsCopy
            | Self::KvmallocShare
            | Self::CopyShare
            | Self::KvfreeShare
            | Self::BackgroundShare
            | Self::SpilledShare
            | Self::LockContendedShare(_)
            | Self::LockPerCall(_) => "1",
            Self::Calls
            | Self::CompactStall
            | Self::CompactSuccess
            | Self::Allocstall
            | Self::Waits => "calls",
            Self::Migrated => "pages",
        }
    }

    /// Which value is the better one.
    #[must_use]
    pub const fn better(self) -> Better {
        match self {
            Self::CommitsPerS
            | Self::CommitsVsBefore
            | Self::CommitsPerCpuS
            | Self::CommitsPerCpuVsBefore => Better::Higher,
            Self::Calls | Self::CopyCpuNs | Self::CopyShare | Self::SpilledShare => Better::Neither,
            _ => Better::Lower,
        }
    }

    /// Whether its values are counts, without a fraction.
    #[must_use]
    pub fn is_count(self) -> bool {
        matches!(self.unit(), "calls" | "pages")
    }

    /// Whether it is a share, shown in percent.
    #[must_use]
    pub const fn is_share(self) -> bool {
        matches!(
            self,
            Self::KvmallocShare
                | Self::CopyShare
                | Self::KvfreeShare
                | Self::BackgroundShare
                | Self::SpilledShare
                | Self::LockContendedShare(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_metric_has_a_name_of_its_own_and_stands_in_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let text = std::fs::read_to_string(path).unwrap();
        let all = KvMetric::all("LOCK");
        let names: BTreeSet<String> = all.iter().map(|m| m.name()).collect();
        assert_eq!(names.len(), all.len());
        for metric in all {
            let name = metric.name();
            assert!(
                text.contains(&format!("`{name}`")),
                "docs/metrics.md lacks {name}"
            );
        }
    }
}
