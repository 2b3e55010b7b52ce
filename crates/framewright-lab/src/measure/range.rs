use super::Better;

/// A metric of the experiments on virtual ranges; `docs/metrics.md` holds the same list with the
/// formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RangeMetric {
    /// Time of an operation, the best repetition.
    OpNsMin,
    /// Time of an operation, the middle repetition.
    OpNsMedian,
    /// What is left of `before`'s time.
    TimeVsBefore,
    /// A document's whole test on its first machine.
    TestUsI5,
    /// A document's whole test on its second machine.
    TestUsHikey,
    /// Latency of an allocation or a mapping.
    AllocNs(Quantile),
    /// Latency of a free or an unmapping.
    FreeNs(Quantile),
    /// Calls of `map_ram`.
    MapCalls,
    /// Mean time of `map_ram`.
    MapNsMean,
    /// Calls of `unmap_ram`.
    UnmapCalls,
    /// Mean time of `unmap_ram`.
    UnmapNsMean,
    /// Operations that the counts are of.
    Ops,
    /// Areas cut from the address space.
    AreaAllocs,
    /// vmap blocks given back.
    BlockFrees,
    /// From the lowest to the highest byte handed out.
    VaSpanBytes,
    /// The most lazy pages at once.
    LazyPagesPeak,
    /// The bound on lazy pages; in `before` a threshold.
    LazyPagesBound,
    /// What the peak is never above: the bound and one batch for each CPU.
    LazyPagesMost,
    /// Flushes of the whole TLB.
    TlbFlushes,
    /// Allocations that filled their gap.
    FitsFull,
    /// Allocations at a gap's left edge.
    FitsLeftEdge,
    /// Allocations at a gap's right edge.
    FitsRightEdge,
    /// Allocations in the middle of a gap.
    FitsNoEdge,
    /// Busy areas that allocations walked past.
    AreasWalked,
    /// Requests that could not be served and said so.
    Failed,
    /// Operations of all threads in a second.
    OpsPerSecond,
    /// Throughput of all threads over that of one.
    Speedup,
    /// The same by the threads' CPU time.
    SpeedupCpu,
    /// What handing an area to another thread costs without the allocator.
    QueueNs,
    /// Cost of an area freed by another thread over one freed at home.
    RemoteVsLocal,
    /// Requests made.
    Requests,
    /// Requests served.
    Served,
    /// Mappings of one page that were live when the window was full.
    LiveMappings,
    /// Share of the window that was live when a request first failed.
    Occupancy,
    /// The same in the worst of several runs.
    OccupancyWorst,
    /// Time of an operation with 1,000 areas live.
    OpNsFewLive,
    /// Time of an operation with 1,000,000 areas live.
    OpNsManyLive,
    /// The second over the first.
    CostGrowth,
    /// Lazy areas that were pending.
    LazyAreas,
    /// The longest free there, undisturbed.
    FreeNsWorst,
    /// A purge of everything there, undisturbed.
    PurgeNs,
    /// The most areas given back under one hold of the lock.
    MergesPerHoldMax,
    /// What so many take, by the purge.
    LockHoldNs,
    /// Bytes of metadata over bytes mapped.
    MetadataShare,
}

/// Which of many latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantile {
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
    /// All of them, ascending.
    pub const ALL: [Self; 4] = [Self::P50, Self::P99, Self::P999, Self::Max];

    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Max => "max",
        }
    }
}

impl RangeMetric {
    /// All metrics, in the order in which they are printed.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::OpNsMin,
            Self::OpNsMedian,
            Self::TimeVsBefore,
            Self::TestUsI5,
            Self::TestUsHikey,
        ];
        all.extend(Quantile::ALL.map(Self::AllocNs));
        all.extend(Quantile::ALL.map(Self::FreeNs));
        all.extend([
            Self::MapCalls,
            Self::MapNsMean,
            Self::UnmapCalls,
            Self::UnmapNsMean,
            Self::Ops,
            Self::AreaAllocs,
            Self::BlockFrees,
            Self::VaSpanBytes,
            Self::LazyPagesPeak,
            Self::LazyPagesBound,
            Self::LazyPagesMost,
            Self::TlbFlushes,
            Self::FitsFull,
            Self::FitsLeftEdge,
            Self::FitsRightEdge,
            Self::FitsNoEdge,
            Self::AreasWalked,
            Self::Failed,
            Self::OpsPerSecond,
            Self::Speedup,
            Self::SpeedupCpu,
            Self::QueueNs,
            Self::RemoteVsLocal,
            Self::Requests,
            Self::Served,
            Self::LiveMappings,
            Self::Occupancy,
            Self::OccupancyWorst,
            Self::OpNsFewLive,
            Self::OpNsManyLive,
            Self::CostGrowth,
            Self::LazyAreas,
            Self::FreeNsWorst,
            Self::PurgeNs,
            Self::MergesPerHoldMax,
            Self::LockHoldNs,
            Self::MetadataShare,
        ]);
        all
    }

    /// The name in figures.
    #[must_use]
    pub fn name(self) -> String {
        let name = match self {
            Self::AllocNs(quantile) => return format!("alloc_ns_{}", quantile.suffix()),
            Self::FreeNs(quantile) => return format!("free_ns_{}", quantile.suffix()),
            Self::OpNsMin => "op_ns_min",
            Self::OpNsMedian => "op_ns_median",
            Self::TimeVsBefore => "time_vs_before",
            Self::TestUsI5 => "test_us_i5_3320m",
            Self::TestUsHikey => "test_us_hikey960",
            Self::MapCalls => "map.calls",
            Self::MapNsMean => "map.ns_mean",
            Self::UnmapCalls => "unmap.calls",
            Self::UnmapNsMean => "unmap.ns_mean",
            Self::Ops => "ops",
            Self::AreaAllocs => "area_allocs",
            Self::BlockFrees => "block_frees",
            Self::VaSpanBytes => "va_span_bytes",
            Self::LazyPagesPeak => "lazy_pages_peak",
            Self::LazyPagesBound => "lazy_pages_bound",
            Self::LazyPagesMost => "lazy_pages_most",
            Self::TlbFlushes => "tlb_flushes",
            Self::FitsFull => "fits_full",
            Self::FitsLeftEdge => "fits_left_edge",
            Self::FitsRightEdge => "fits_right_edge",
            Self::FitsNoEdge => "fits_no_edge",
            Self::AreasWalked => "areas_walked",
            Self::Failed => "failed",
            Self::OpsPerSecond => "ops_per_second",
            Self::Speedup => "speedup",
            Self::SpeedupCpu => "speedup_cpu",
            Self::QueueNs => "queue_ns",
            Self::RemoteVsLocal => "remote_vs_local",
            Self::Requests => "requests",
            Self::Served => "served",
            Self::LiveMappings => "live_mappings",
            Self::Occupancy => "occupancy",
            Self::OccupancyWorst => "occupancy_worst",
            Self::OpNsFewLive => "op_ns_live_1000",
            Self::OpNsManyLive => "op_ns_live_1000000",
            Self::CostGrowth => "cost_growth",
            Self::LazyAreas => "lazy_areas",
            Self::FreeNsWorst => "free_ns_worst",
            Self::PurgeNs => "purge_ns",
            Self::MergesPerHoldMax => "merges_per_hold_max",
            Self::LockHoldNs => "lock_hold_ns",
            Self::MetadataShare => "metadata_share",
        };
        name.to_owned()
    }

    /// The unit of its values; `1` for a share or a ratio.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::OpNsMin
            | Self::OpNsMedian
            | Self::AllocNs(_)
            | Self::FreeNs(_)
            | Self::MapNsMean
            | Self::UnmapNsMean
            | Self::QueueNs
            | Self::OpNsFewLive
            | Self::OpNsManyLive
            | Self::FreeNsWorst
            | Self::PurgeNs
            | Self::LockHoldNs => "ns",
            Self::TestUsI5 | Self::TestUsHikey => "us",
            Self::TimeVsBefore
            | Self::Speedup
            | Self::SpeedupCpu
            | Self::RemoteVsLocal
            | Self::Occupancy
            | Self::OccupancyWorst
            | Self::CostGrowth
            | Self::MetadataShare => "1",
            Self::MapCalls | Self::UnmapCalls => "calls",
            Self::AreaAllocs
            | Self::FitsFull
            | Self::FitsLeftEdge
            | Self::FitsRightEdge
            | Self::FitsNoEdge
            | Self::AreasWalked
            | Self::MergesPerHoldMax
            | Self::LazyAreas => "areas",
            Self::BlockFrees => "blocks",
            Self::VaSpanBytes => "bytes",
            Self::LazyPagesPeak | Self::LazyPagesBound | Self::LazyPagesMost => "pages",
            Self::Ops => "operations",
            Self::TlbFlushes => "flushes",
            Self::Failed | Self::Requests | Self::Served => "requests",
            Self::OpsPerSecond => "operations/s",
            Self::LiveMappings => "mappings",
        }
    }

    /// Which value is the better one.
    #[must_use]
    pub const fn better(self) -> Better {
        match self {
            Self::OpsPerSecond
            | Self::Speedup
            | Self::SpeedupCpu
            | Self::Served
            | Self::LiveMappings
            | Self::Occupancy
            | Self::OccupancyWorst => Better::Higher,
            Self::MapCalls
            | Self::UnmapCalls
            | Self::BlockFrees
            | Self::LazyPagesBound
            | Self::LazyPagesMost
            | Self::Ops
            | Self::FitsFull
            | Self::FitsLeftEdge
            | Self::FitsRightEdge
            | Self::FitsNoEdge
            | Self::Failed
            | Self::QueueNs
            | Self::LazyAreas
            | Self::Requests => Better::Neither,
            _ => Better::Lower,
        }
    }

    /// Whether its values are counts, without a fraction.
    #[must_use]
    pub fn is_count(self) -> bool {
        !matches!(self.unit(), "ns" | "us" | "1" | "operations/s")
    }

    /// Whether it comes from the clock, and so differs from run to run.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self.unit(), "ns" | "us" | "operations/s")
            || matches!(
                self,
                Self::TimeVsBefore
                    | Self::Speedup
                    | Self::SpeedupCpu
                    | Self::RemoteVsLocal
                    | Self::CostGrowth
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
        let all = RangeMetric::all();
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
