//! The table of figures by which two arms of a comparison are compared, and the reading of them from the kernel's
//! counters. One table serves runs, predictions and scores, so that a figure has one name and one source in all of
//! them. A figure that no replay can predict says so here.

use std::collections::BTreeMap;

/// What a figure is, which says how a replay's change becomes a change of the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// A count that begins at 0: a replay says by which factor it changes.
    Count,
    /// A difference between two moments, of either sign: a replay says by how much it changes.
    Difference,
}

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbFigure {
    /// Its name in files and tables.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How it changes.
    pub kind: FigureKind,
    /// Where it comes from.
    pub source: &'static str,
    /// Why no replay predicts it, where none does.
    pub unpredicted: Option<&'static str>,
}

const fn count(
    name: &'static str,
    unit: &'static str,
    source: &'static str,
    unpredicted: Option<&'static str>,
) -> AbFigure {
    AbFigure {
        name,
        unit,
        kind: FigureKind::Count,
        source,
        unpredicted,
    }
}

const NO_RECLAIM: Option<&str> =
    Some("a replay of this kernel's rules neither reclaims nor compacts");
const NO_WORK: Option<&str> = Some("a replay does what the recording did, and no more");

/// The figures of a run. The first two words of a source say whose count it is.
pub const AB_FIGURES: [AbFigure; 17] = [
    count(
        "external_fallbacks",
        "times",
        "trace events mm_page_alloc_extfrag",
        None,
    ),
    AbFigure {
        name: "mixed_blocks_added",
        unit: "blocks",
        kind: FigureKind::Difference,
        source: "page flags after less before",
        unpredicted: None,
    },
    AbFigure {
        name: "contaminated_blocks_added",
        unit: "blocks",
        kind: FigureKind::Difference,
        source: "page flags after less before",
        unpredicted: None,
    },
    count("allocstall", "requests", "vmstat allocstall_*", None),
    count("compact_stall", "requests", "vmstat compact_stall", None),
    count(
        "failures_order0",
        "requests",
        "trace events mm_page_alloc without a frame",
        None,
    ),
    count(
        "failures_order1_3",
        "requests",
        "trace events mm_page_alloc without a frame",
        None,
    ),
    count(
        "failures_order4_8",
        "requests",
        "trace events mm_page_alloc without a frame",
        None,
    ),
    count(
        "failures_order9_10",
        "requests",
        "trace events mm_page_alloc without a frame",
        None,
    ),
    count(
        "thp_fault_fallback",
        "faults",
        "vmstat thp_fault_fallback",
        None,
    ),
    count(
        "thp_fault_alloc",
        "faults",
        "vmstat thp_fault_alloc",
        NO_WORK,
    ),
    count(
        "compact_fail",
        "requests",
        "vmstat compact_fail",
        NO_RECLAIM,
    ),
    count(
        "compact_daemon_wake",
        "times",
        "vmstat compact_daemon_wake",
        NO_RECLAIM,
    ),
    count(
        "pgmigrate_success",
        "frames",
        "vmstat pgmigrate_success",
        NO_RECLAIM,
    ),
    count(
        "pgsteal_direct",
        "frames",
        "vmstat pgsteal_direct",
        NO_RECLAIM,
    ),
    count(
        "pgsteal_kswapd",
        "frames",
        "vmstat pgsteal_kswapd",
        NO_RECLAIM,
    ),
    count("work", "rounds", "the load's last line", NO_WORK),
];

/// The figures of one run, by name.
pub type RunFigures = BTreeMap<String, f64>;

/// What the kernel counted between two moments.
pub(super) fn counted(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> RunFigures {
    let delta = |name: &str| {
        let of = |at: &BTreeMap<String, u64>| at.get(name).copied();
        Some(of(after)?.saturating_sub(of(before)?) as f64)
    };
    let mut figures = RunFigures::new();
    for figure in AB_FIGURES {
        let Some(name) = figure.source.strip_prefix("vmstat ") else {
            continue;
        };
        let value = match name.strip_suffix('*') {
            None => delta(name),
            Some(prefix) => {
                let each = after.keys().filter(|key| key.starts_with(prefix));
                let each: Vec<f64> = each.filter_map(|key| delta(key)).collect();
                (!each.is_empty()).then(|| each.iter().sum())
            }
        };
        figures.extend(value.map(|value| (figure.name.to_owned(), value)));
    }
    figures
}

/// The figure for failures of an order.
pub(super) const fn failures_of(order: usize) -> &'static str {
    match order {
        0 => "failures_order0",
        1..=3 => "failures_order1_3",
        4..=8 => "failures_order4_8",
        _ => "failures_order9_10",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_figures_and_those_of_zones_are_added() {
        let of = |all: &[(&str, u64)]| -> BTreeMap<String, u64> {
            all.iter().map(|&(name, n)| (name.to_owned(), n)).collect()
        };
        let before = of(&[
            ("allocstall_dma32", 5),
            ("allocstall_normal", 7),
            ("compact_stall", 1),
        ]);
        let after = of(&[
            ("allocstall_dma32", 6),
            ("allocstall_normal", 17),
            ("compact_stall", 1),
        ]);
        let figures = counted(&before, &after);
        assert_eq!(figures["allocstall"], 11.0);
        assert_eq!(figures["compact_stall"], 0.0);
        // What this kernel does not count is not 0.
        assert!(!figures.contains_key("pgsteal_direct"));
    }

    #[test]
    fn every_order_has_a_figure() {
        for order in 0..=10 {
            let name = failures_of(order);
            assert!(AB_FIGURES.iter().any(|figure| figure.name == name));
        }
    }
}
