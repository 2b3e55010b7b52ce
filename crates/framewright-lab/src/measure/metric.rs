use super::MAX_ORDER;
use framewright::Mobility;
use framewright::stats::ReclaimStats;

/// Which of two values of a metric is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The lower.
    Lower,
    /// The higher.
    Higher,
    /// Neither: it describes.
    Neither,
}

/// A metric of a replay; `docs/metrics.md` holds the same list with the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Mean of `F`.
    FreeFrames,
    /// Mean of `S_9`.
    Free2mBlocks,
    /// Mean of `U_k`.
    UnusableIndex(u8),
    /// Mean of the fragmentation index over the samples at which no block of order k was free.
    FragmentationIndex(u8),
    /// Mean number of 2 MiB blocks with a non-movable frame.
    ContaminatedBlocks,
    /// Mean of the fewest blocks that the non-movable frames fit in.
    ContaminatedBlocksFloor,
    /// Mean number of contaminated blocks with a movable frame.
    MixedBlocks,
    /// Mean number of movable frames in mixed blocks.
    MovableFramesInMixed,
    /// Mean number of regions of 64 2 MiB blocks with a non-movable frame.
    TaintedRegions,
    /// Mean of the fewest regions that the non-movable frames fit in.
    TaintedRegionsFloor,
    /// Failed allocations of order k.
    Failures(u8),
    /// Failed requests while a free block of the order existed.
    FalseFailures,
    /// Requests of order k that failed on the recording machine, tried again here.
    Retried(u8),
    /// Of those, the served ones.
    RetriesServed(u8),
    /// Probes, one a trace second.
    Probes,
    /// Of those, the served ones.
    ProbesServed,
    /// Requests for the first mobility served from a pageblock of the second.
    Fallbacks(Mobility, Mobility),
    /// Mean number of pageblocks with this label.
    Pageblocks(Mobility),
    /// Mean number of free blocks of order k, those inside larger ones left out.
    FreeBlocks(u8),
    /// Mean number of free blocks of order k on the lists of this label.
    ListedBlocks(Mobility, u8),
    /// Initial objects and squeezed frames that found no place.
    UnplacedFrames,
    /// Frees of objects whose allocation had failed in this replay.
    FreesOfFailed,
    /// Requests of order k that reclaimed before they were served or failed.
    Stall(u8),
    /// Requests of order k that compacted, each attempt counted.
    CompactStall(u8),
    /// A counter of reclaim or compaction, by Linux's name for it.
    Vmstat(&'static str),
    /// Objects of the trace that reclaim took.
    ReclaimedObjects,
    /// Frees of objects that reclaim had taken.
    FreesOfReclaimed,
    /// Huge pages requested after the trace.
    HugeProbes,
    /// Of those, the served ones.
    HugeProbesServed,
    /// Frames moved for them.
    HugeProbesMigrated,
    /// Looks of both of compaction's scanners for them.
    HugeProbesScanned,
    /// Samples in each mean.
    Samples,
    /// Wall time an operation.
    ReplayNsPerOp,
}

impl Metric {
    /// All metrics, in the order in which they are printed.
    #[must_use]
    pub fn all() -> Vec<Self> {
        use Metric as M;
        let orders = || 0..=MAX_ORDER as u8;
        let pairs = Mobility::ALL
            .into_iter()
            .flat_map(|wanted| Mobility::ALL.map(|taken| (wanted, taken)))
            .filter(|(wanted, taken)| wanted != taken);
        let mut all = vec![M::FreeFrames, M::Free2mBlocks];
        all.extend(orders().skip(1).map(M::UnusableIndex));
        all.extend([
            M::ContaminatedBlocks,
            M::ContaminatedBlocksFloor,
            M::MixedBlocks,
            M::MovableFramesInMixed,
            M::TaintedRegions,
            M::TaintedRegionsFloor,
        ]);
        all.extend(orders().map(M::Failures));
        all.push(M::FalseFailures);
        all.extend(orders().flat_map(|k| [M::Retried(k), M::RetriesServed(k)]));
        all.extend([M::Probes, M::ProbesServed]);
        all.extend(pairs.map(|(wanted, taken)| M::Fallbacks(wanted, taken)));
        all.extend(Mobility::ALL.map(M::Pageblocks));
        all.extend(orders().map(M::FreeBlocks));
        for label in Mobility::ALL {
            all.extend(orders().map(|k| M::ListedBlocks(label, k)));
        }
        all.extend(orders().skip(1).map(M::FragmentationIndex));
        all.extend(orders().map(M::Stall));
        all.extend(orders().map(M::CompactStall));
        all.extend(
            ReclaimStats::default()
                .named()
                .map(|(name, _)| M::Vmstat(name)),
        );
        all.extend([
            M::ReclaimedObjects,
            M::FreesOfReclaimed,
            M::HugeProbes,
            M::HugeProbesServed,
            M::HugeProbesMigrated,
            M::HugeProbesScanned,
            M::UnplacedFrames,
            M::FreesOfFailed,
            M::Samples,
            M::ReplayNsPerOp,
        ]);
        all
    }

    /// The name in figures, series and assertions.
    #[must_use]
    pub fn name(self) -> String {
        let mobility = |m: Mobility| m.name().to_lowercase();
        match self {
            Self::FreeFrames => "free_frames".into(),
            Self::Free2mBlocks => "free_2m_blocks".into(),
            Self::UnusableIndex(k) => format!("unusable_index_order{k}"),
            Self::FragmentationIndex(k) => format!("fragmentation_index_order{k}"),
            Self::ContaminatedBlocks => "contaminated_blocks".into(),
            Self::ContaminatedBlocksFloor => "contaminated_blocks_floor".into(),
            Self::MixedBlocks => "mixed_blocks".into(),
            Self::MovableFramesInMixed => "movable_frames_in_mixed".into(),
            Self::TaintedRegions => "tainted_regions".into(),
            Self::TaintedRegionsFloor => "tainted_regions_floor".into(),
            Self::Failures(k) => format!("failures_order{k}"),
            Self::FalseFailures => "false_failures".into(),
            Self::Retried(k) => format!("retried_order{k}"),
            Self::RetriesServed(k) => format!("retries_served_order{k}"),
            Self::Probes => "probes".into(),
            Self::ProbesServed => "probes_served".into(),
            Self::Fallbacks(wanted, taken) => {
                format!("fallbacks_{}_{}", mobility(wanted), mobility(taken))
            }
            Self::Pageblocks(label) => format!("pageblocks_{}", mobility(label)),
            Self::FreeBlocks(k) => format!("free_blocks_order{k}"),
            Self::ListedBlocks(label, k) => format!("free_blocks_{}_order{k}", mobility(label)),
            Self::UnplacedFrames => "unplaced_frames".into(),
            Self::FreesOfFailed => "anomalies_frees_of_failed".into(),
            Self::Stall(k) => format!("allocstall_order{k}"),
            Self::CompactStall(k) => format!("compact_stall_order{k}"),
            Self::Vmstat(name) => name.into(),
            Self::ReclaimedObjects => "reclaimed_objects".into(),
            Self::FreesOfReclaimed => "frees_of_reclaimed".into(),
            Self::HugeProbes => "huge_probes".into(),
            Self::HugeProbesServed => "huge_probes_served".into(),
            Self::HugeProbesMigrated => "huge_probes_migrated".into(),
            Self::HugeProbesScanned => "huge_probes_scanned".into(),
            Self::Samples => "samples".into(),
            Self::ReplayNsPerOp => "replay_ns_per_op".into(),
        }
    }

    /// The unit of its values; `1` for a share.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::FreeFrames
            | Self::MovableFramesInMixed
            | Self::UnplacedFrames
            | Self::HugeProbesMigrated => "frames",
            Self::Free2mBlocks
            | Self::ContaminatedBlocks
            | Self::ContaminatedBlocksFloor
            | Self::MixedBlocks
            | Self::Pageblocks(_)
            | Self::FreeBlocks(_)
            | Self::ListedBlocks(..) => "blocks",
            Self::TaintedRegions | Self::TaintedRegionsFloor => "regions",
            Self::UnusableIndex(_) | Self::FragmentationIndex(_) => "1",
            Self::Failures(_)
            | Self::FalseFailures
            | Self::Retried(_)
            | Self::RetriesServed(_)
            | Self::Probes
            | Self::ProbesServed
            | Self::Fallbacks(..)
            | Self::Stall(_)
            | Self::CompactStall(_)
            | Self::HugeProbes
            | Self::HugeProbesServed => "requests",
            Self::FreesOfFailed | Self::FreesOfReclaimed => "operations",
            Self::ReclaimedObjects => "objects",
            Self::HugeProbesScanned => "looks",
            Self::Vmstat(name) => vmstat_unit(name),
            Self::Samples => "samples",
            Self::ReplayNsPerOp => "ns",
        }
    }

    /// Which value is the better one.
    ///
    /// Neither for free frames: where allocations fail, more frames stay free.
    #[must_use]
    pub const fn better(self) -> Better {
        match self {
            Self::UnusableIndex(_)
            | Self::ContaminatedBlocks
            | Self::MixedBlocks
            | Self::MovableFramesInMixed
            | Self::TaintedRegions
            | Self::Failures(_)
            | Self::FalseFailures
            | Self::Stall(_)
            | Self::CompactStall(_)
            | Self::HugeProbesMigrated
            | Self::HugeProbesScanned
            | Self::ReplayNsPerOp => Better::Lower,
            Self::Free2mBlocks
            | Self::RetriesServed(_)
            | Self::ProbesServed
            | Self::HugeProbesServed => Better::Higher,
            _ => Better::Neither,
        }
    }

    /// Whether its values are counts, without a fraction.
    #[must_use]
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::Failures(_)
                | Self::FalseFailures
                | Self::Retried(_)
                | Self::RetriesServed(_)
                | Self::Probes
                | Self::ProbesServed
                | Self::Fallbacks(..)
                | Self::UnplacedFrames
                | Self::FreesOfFailed
                | Self::Stall(_)
                | Self::CompactStall(_)
                | Self::Vmstat(_)
                | Self::ReclaimedObjects
                | Self::FreesOfReclaimed
                | Self::HugeProbes
                | Self::HugeProbesServed
                | Self::HugeProbesMigrated
                | Self::HugeProbesScanned
                | Self::Samples
        )
    }

    /// The metric of that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|metric| metric.name() == name)
    }
}

/// What a counter of Linux's counts.
const fn vmstat_unit(name: &str) -> &'static str {
    match name.as_bytes() {
        b"pgscan_kswapd" | b"pgscan_direct" | b"pgsteal_kswapd" | b"pgsteal_direct"
        | b"compact_isolated" | b"pgmigrate_success" | b"pgmigrate_fail" => "frames",
        b"compact_migrate_scanned" | b"compact_free_scanned" => "looks",
        b"compact_stall" | b"compact_success" | b"compact_fail" => "requests",
        _ => "times",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_metric_has_a_name_of_its_own() {
        let all = Metric::all();
        let names: BTreeSet<String> = all.iter().map(|m| m.name()).collect();
        assert_eq!(names.len(), all.len());
        for metric in all {
            assert_eq!(Metric::from_name(&metric.name()), Some(metric));
        }
        assert_eq!(Metric::from_name("unusable_index_order11"), None);
    }

    #[test]
    fn every_metric_stands_in_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let text = std::fs::read_to_string(path).unwrap();
        for metric in Metric::all() {
            // Families stand there once: orders as `K`, mobilities in capitals.
            let mut name = metric.name();
            if let Some(at) = name.find("_order") {
                name.replace_range(at.., "_orderK");
            }
            match metric {
                Metric::Fallbacks(..) => name = "fallbacks_FROM_TO".into(),
                Metric::Pageblocks(_) => name = "pageblocks_LABEL".into(),
                Metric::ListedBlocks(..) => name = "free_blocks_LABEL_orderK".into(),
                _ => {}
            }
            assert!(
                text.contains(&format!("`{name}`")),
                "docs/metrics.md lacks {name}"
            );
        }
    }
}
