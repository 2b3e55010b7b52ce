//! The fourth document's own figures.

use super::metrics as m;
use crate::experiment::{BEFORE, PROPOSED};
use crate::measure::metric::metric_named;
use crate::report::{Figure, FigureSource};

/// ChengYi He, "avoid external fragmentation related to migration fallback", linux-kernel, 30 January
/// 2016: two devices after two and a half days, without and with the patch.
const FALLBACK: [(&str, u64, u64); 37] = [
    ("mem_free_kb", 194_524, 47_612),
    ("free_unmovable_order0", 43_852, 272),
    ("free_unmovable_order1", 701, 243),
    ("free_unmovable_order2", 0, 126),
    ("free_unmovable_order3", 0, 1),
    ("free_reclaimable_order0", 3357, 0),
    ("free_reclaimable_order1", 0, 361),
    ("free_reclaimable_order2", 0, 168),
    ("free_reclaimable_order3", 0, 46),
    ("free_movable_order0", 0, 4103),
    ("free_movable_order1", 5, 1782),
    ("free_movable_order2", 0, 130),
    ("free_movable_order3", 0, 3),
    ("blocks_unmovable", 362, 183),
    ("blocks_reclaimable", 80, 12),
    ("blocks_movable", 170, 417),
    ("blocks_reserve", 2, 2),
    ("blocks_cma", 113, 113),
    ("pgsteal_kswapd", 31_755_040, 50_710_868),
    ("pgsteal_direct", 34_597_394, 1_756_780),
    ("pgscan_kswapd", 36_427_664, 58_281_837),
    ("pgscan_direct", 39_490_711, 2_022_049),
    ("kswapd_low_wmark_hit_quickly", 201_929, 37_599),
    ("kswapd_high_wmark_hit_quickly", 4858, 13_564),
    ("allocstall", 664_269, 27_510),
    ("allocstall_order_0", 9738, 26_101),
    ("allocstall_order_1", 1787, 23),
    ("allocstall_order_2", 637_608, 1224),
    ("allocstall_order_3", 15_136, 162),
    ("pgmigrate_success", 2_941_956, 63_751),
    ("pgmigrate_fail", 1033, 7),
    ("compact_migrate_scanned", 142_985_157, 278_170),
    ("compact_free_scanned", 4_734_040_109, 6_155_410),
    ("compact_isolated", 7_720_362, 140_762),
    ("compact_stall", 65_978, 749),
    ("compact_fail", 46_084, 54),
    ("compact_success", 11_717, 22),
];

/// The fourth document's figures, as those of that case.
pub(super) fn figures(case: &str) -> Vec<Figure> {
    let figures = FALLBACK.iter().filter_map(|&(name, before, proposed)| {
        let metric = metric_named(m::TABLE, name)?;
        Some(
            [(BEFORE, before), (PROPOSED, proposed)].map(|(variant, value)| Figure {
                case: case.to_owned(),
                variant,
                metric,
                value: value as f64,
                source: FigureSource::Published,
            }),
        )
    });
    figures.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::published::{rows, shared};

    #[test]
    fn the_fourth_documents_figures_are_those_of_its_table() {
        let figures = figures("seed/1");
        assert_eq!(figures.len(), 2 * FALLBACK.len());
        let Some(text) = shared("fallback.csv") else {
            return;
        };
        let mut compared = 0;
        for row in rows(&text) {
            let [counter, before, after] = row[..] else {
                panic!("{row:?}");
            };
            let name = match counter {
                "MemTotal_kB" => continue,
                "MemFree_kB" => "mem_free_kb",
                counter => counter.trim_end_matches("_dma"),
            };
            for (variant, text) in [(BEFORE, before), (PROPOSED, after)] {
                let mut of = figures.iter().filter(|f| f.variant == variant);
                let figure = of.find(|f| f.metric.name() == name);
                let value = figure.map(|figure| figure.value);
                assert_eq!(value, text.parse().ok(), "{row:?}");
                compared += 1;
            }
        }
        assert_eq!(compared, figures.len());
    }
}
