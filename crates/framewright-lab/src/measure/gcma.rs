use super::Better;

/// Which of a size's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    /// The shortest.
    Min,
    /// The longest.
    Max,
    /// The mean of all.
    Avg,
    /// The middle one.
    P50,
    /// The one that 99 % are not longer than.
    P99,
}

impl Of {
    /// All of them, the document's first.
    pub const ALL: [Self; 5] = [Self::Min, Self::Max, Self::Avg, Self::P50, Self::P99];

    const fn suffix(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }
}

/// A metric of the experiment on contiguous memory; `docs/metrics.md` holds the same list with the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GcmaMetric {
    /// Latency of a request.
    LatencyUs(Of),
    /// Requests made.
    Requests,
    /// Of those, the ones that got nothing.
    Failures,
    /// Of those, the ones during which the scheduler took the CPU away.
    Preempted,
    /// Pages moved out of the way.
    PagesMigrated,
    /// Guests' pages dropped.
    PagesDiscarded,
    /// Time that requests waited for others.
    WaitUs,
    /// CPU time of the job in user mode.
    UserS,
    /// CPU time of the job in the kernel.
    SystemS,
    /// Time from the job's begin to its end.
    ElapsedS,
    /// The same over that of `original`.
    ElapsedVsOriginal,
    /// CPU time of the job over its time.
    CpuPercent,
    /// Bytes written to files and swap devices.
    DeviceBytesWritten,
    /// Versions of pages that were swapped out.
    SwapPagesStored,
    /// Pages that were written to the swap device.
    SwapPagesWritten,
    /// Of these, those whose contents had been written before.
    PagesWrittenTwice,
    /// Of the lookups in the reserve, those that found a page.
    HitRatio,
}

impl GcmaMetric {
    /// All metrics, in the order in which they are printed.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Of::ALL.map(Self::LatencyUs).into();
        all.extend([
            Self::Requests,
            Self::Failures,
            Self::Preempted,
            Self::PagesMigrated,
            Self::PagesDiscarded,
            Self::WaitUs,
            Self::UserS,
            Self::SystemS,
            Self::ElapsedS,
            Self::ElapsedVsOriginal,
            Self::CpuPercent,
            Self::DeviceBytesWritten,
            Self::SwapPagesStored,
            Self::SwapPagesWritten,
            Self::PagesWrittenTwice,
            Self::HitRatio,
        ]);
        all
    }

    /// The name in figures.
    #[must_use]
    pub fn name(self) -> String {
        let name = match self {
            Self::LatencyUs(of) => return format!("latency_us_{}", of.suffix()),
            Self::Requests => "requests",
            Self::Failures => "failures",
            Self::Preempted => "preempted",
            Self::PagesMigrated => "pages_migrated",
            Self::PagesDiscarded => "pages_discarded",
            Self::WaitUs => "wait_us",
            Self::UserS => "user_s",
            Self::SystemS => "system_s",
            Self::ElapsedS => "elapsed_s",
            Self::ElapsedVsOriginal => "elapsed_vs_original",
            Self::CpuPercent => "cpu_percent",
            Self::DeviceBytesWritten => "device_bytes_written",
            Self::SwapPagesStored => "swap_pages_stored",
            Self::SwapPagesWritten => "swap_pages_written",
            Self::PagesWrittenTwice => "pages_written_twice",
            Self::HitRatio => "hit_ratio",
        };
        name.to_owned()
    }

    /// The unit of its values; `1` for a share or a ratio.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::LatencyUs(_) | Self::WaitUs => "us",
            Self::Requests | Self::Failures | Self::Preempted => "requests",
            Self::PagesMigrated
            | Self::PagesDiscarded
            | Self::SwapPagesStored
            | Self::SwapPagesWritten
            | Self::PagesWrittenTwice => "pages",
            Self::UserS | Self::SystemS | Self::ElapsedS => "s",
            Self::CpuPercent => "%",
            Self::DeviceBytesWritten => "bytes",
            Self::ElapsedVsOriginal | Self::HitRatio => "1",
        }
    }

    /// Which value is the better one.
    #[must_use]
    pub const fn better(self) -> Better {
        match self {
            Self::Requests | Self::Preempted | Self::CpuPercent | Self::SwapPagesStored => {
                Better::Neither
            }
            Self::HitRatio => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// Whether its values are counts, without a fraction.
    #[must_use]
    pub fn is_count(self) -> bool {
        matches!(self.unit(), "requests" | "pages" | "bytes")
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
        let all = GcmaMetric::all();
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
