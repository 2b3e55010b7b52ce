use super::Better;
use crate::pressure::{LIST_NAMES, LISTS};
use framewright::stats::ReclaimStats;

/// The largest order whose free blocks and stalls are metrics: a document's tables end there.
const ORDER_MAX: u8 = 10;

/// Of these the sum is the number of all counters but the stalls.
const COUNTERS: usize = 16;

/// A metric of what memory under pressure costs; `docs/metrics.md` holds the same list with the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PressureMetric {
    /// Pageblocks by list.
    Blocks(u8),
    /// Pageblocks that hold movable frames and others, at the end.
    MixedPageblocks,
    /// Those on average of the life.
    MixedPageblocksMean,
    /// The most of them at once.
    MixedPageblocksMax,
    /// Pageblocks that hold a frame which cannot be moved, at the end.
    ContaminatedPageblocks,
    /// Those on average of the life.
    ContaminatedPageblocksMean,
    /// Free blocks by list and order.
    Free(u8, u8),
    /// Free memory.
    MemFreeKb,
    /// Memory of files.
    FileKb,
    /// Requests that reclaimed.
    Allocstall,
    /// Those of one order.
    AllocstallOrder(u8),
    /// A counter of reclaim or compaction, by its place among them.
    Counter(u8),
    /// Processes killed by rank.
    Kills,
    /// Processes killed because memory was out.
    OomKills,
    /// Applications started anew.
    Starts,
    /// Pages of files read from the device.
    PagesMissed,
    /// Blocks asked for.
    Requests,
    /// Requests that may not wait and were not served.
    Refused,
    /// Requests that may wait and failed.
    Failed,
}

impl PressureMetric {
    /// All metrics, in the order in which they are printed.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let lists = || 0..LISTS as u8;
        let mut all: Vec<Self> = lists().map(Self::Blocks).collect();
        all.extend([
            Self::MixedPageblocks,
            Self::MixedPageblocksMean,
            Self::MixedPageblocksMax,
            Self::ContaminatedPageblocks,
            Self::ContaminatedPageblocksMean,
        ]);
        all.extend(lists().flat_map(|list| (0..=ORDER_MAX).map(move |k| Self::Free(list, k))));
        all.extend([Self::MemFreeKb, Self::FileKb, Self::Allocstall]);
        all.extend((0..=ORDER_MAX).map(Self::AllocstallOrder));
        all.extend((0..COUNTERS as u8).map(Self::Counter));
        all.extend([
            Self::Kills,
            Self::OomKills,
            Self::Starts,
            Self::PagesMissed,
            Self::Requests,
            Self::Refused,
            Self::Failed,
        ]);
        all
    }

    /// The name in figures: Linux's where Linux has one.
    #[must_use]
    pub fn name(self) -> String {
        let list = |list: u8| LIST_NAMES[usize::from(list)].to_lowercase();
        let name = match self {
            Self::Blocks(of) => return format!("blocks_{}", list(of)),
            Self::Free(of, order) => return format!("free_{}_order{order}", list(of)),
            Self::AllocstallOrder(order) => return format!("allocstall_order_{order}"),
            Self::Counter(nth) => ReclaimStats::default().named()[usize::from(nth)].0,
            Self::MixedPageblocks => "mixed_pageblocks",
            Self::MixedPageblocksMean => "mixed_pageblocks_mean",
            Self::MixedPageblocksMax => "mixed_pageblocks_max",
            Self::ContaminatedPageblocks => "contaminated_pageblocks",
            Self::ContaminatedPageblocksMean => "contaminated_pageblocks_mean",
            Self::MemFreeKb => "mem_free_kb",
            Self::FileKb => "file_kb",
            Self::Allocstall => "allocstall",
            Self::Kills => "kills",
            Self::OomKills => "oom_kills",
            Self::Starts => "starts",
            Self::PagesMissed => "pages_missed",
            Self::Requests => "requests",
            Self::Refused => "refused",
            Self::Failed => "failed",
        };
        name.to_owned()
    }

    /// The metric of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|metric| metric.name() == name)
    }

    /// The unit of its values.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Blocks(_)
            | Self::MixedPageblocks
            | Self::MixedPageblocksMean
            | Self::MixedPageblocksMax
            | Self::ContaminatedPageblocks
            | Self::ContaminatedPageblocksMean => "pageblocks",
            Self::Free(..) => "blocks",
            Self::MemFreeKb | Self::FileKb => "KiB",
            Self::Kills | Self::OomKills | Self::Starts => "processes",
            Self::PagesMissed => "pages",
            Self::Counter(_) if self.name().contains("scanned") => "looks",
            Self::Counter(_) if self.name().starts_with("pg") => "frames",
            Self::Counter(_) if self.name() == "compact_isolated" => "frames",
            Self::Counter(_) if self.name().starts_with("kswapd") => "times",
            _ => "requests",
        }
    }

    /// Which value is the better one.
    #[must_use]
    pub fn better(self) -> Better {
        match self {
            Self::Blocks(2) => Better::Higher,
            Self::Blocks(_) | Self::Free(..) | Self::MemFreeKb | Self::FileKb | Self::Requests => {
                Better::Neither
            }
            Self::Counter(_) if self.name() == "compact_success" => Better::Neither,
            _ => Better::Lower,
        }
    }

    /// Whether the table of a run shows it: what the document has, and what the phone felt.
    #[must_use]
    pub fn is_in_table(self) -> bool {
        match self {
            Self::Free(list, order) => list < 3 && order < 4,
            Self::AllocstallOrder(order) => order < 4,
            Self::Counter(_) => {
                !matches!(self.name().as_str(), "kswapd_wake" | "compact_daemon_wake")
            }
            Self::Requests => false,
            _ => true,
        }
    }

    /// Whether the main job's table shows it.
    #[must_use]
    pub fn is_in_short_table(self) -> bool {
        match self {
            Self::Blocks(list) => list < 3,
            Self::MixedPageblocks | Self::MixedPageblocksMean | Self::Allocstall => true,
            Self::AllocstallOrder(order) => order < 4,
            Self::Counter(_) => matches!(
                self.name().as_str(),
                "pgsteal_kswapd"
                    | "pgsteal_direct"
                    | "compact_stall"
                    | "compact_free_scanned"
                    | "pgmigrate_success"
            ),
            _ => false,
        }
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
        let all = PressureMetric::all();
        let names: BTreeSet<String> = all.iter().map(|m| m.name()).collect();
        assert_eq!(names.len(), all.len());
        for metric in all {
            let name = match metric {
                PressureMetric::Blocks(_) => "blocks_LIST".to_owned(),
                PressureMetric::Free(..) => "free_LIST_orderK".to_owned(),
                PressureMetric::AllocstallOrder(_) => "allocstall_order_K".to_owned(),
                named => named.name(),
            };
            assert!(
                text.contains(&format!("`{name}`")),
                "docs/metrics.md lacks {name}"
            );
            assert_eq!(PressureMetric::from_name(&metric.name()), Some(metric));
        }
    }
}
