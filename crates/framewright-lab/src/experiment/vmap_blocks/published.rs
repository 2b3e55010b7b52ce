//! The first document's own tables. Copied from the message; microseconds are its own, and so is what it leaves
//! out.

use crate::experiment::range_metrics as m;
use crate::experiment::{BEFORE, PROPOSED};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};

/// R. Pen, "fix possible exhaustion of vmalloc space caused by vm_map_ram allocator", 2015: ftrace's
/// function profile, blocks of 1024 pages, one CPU. Hits and microseconds in all of `vm_map_ram`,
/// `vm_unmap_ram`, `alloc_vmap_area`, `free_vmap_block`.
type Profile = (&'static str, [(u64, f64); 2], [(u64, f64); 2]);

const BLOCKS_BEFORE: [Profile; 3] = [
    (
        "exhaust",
        [(126_000, 30_683.30), (126_000, 22_003.24)],
        [(1000, 4_132.065), (0, 0.0)],
    ),
    (
        "random",
        [(10_000, 10_170.01), (10_000, 5_321.823)],
        [(420, 2_150.239), (37, 159.587)],
    ),
    (
        "orders",
        [(2_032_000, 399_545.2), (2_032_000, 363_225.7)],
        [(7001, 30_627.76), (6993, 7_011.685)],
    ),
];

const BLOCKS_PROPOSED: [Profile; 3] = [
    (
        "exhaust",
        [(126_000, 28_713.13), (126_000, 20_403.96)],
        [(993, 3_916.795), (992, 654.157)],
    ),
    (
        "random",
        [(10_000, 7_745.637), (10_000, 5_460.573)],
        [(414, 2_201.650), (412, 574.421)],
    ),
    (
        "orders",
        [(2_032_000, 394_259.7), (2_032_000, 292_500.7)],
        [(7000, 31_103.11), (7000, 6_750.844)],
    ),
];

fn figure(case: &str, variant: &'static str, metric: Metric, value: f64) -> Figure {
    Figure {
        case: case.to_owned(),
        variant,
        metric,
        value,
        source: FigureSource::Published,
    }
}

/// The first document's figures for that case.
pub(super) fn figures(case: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (variant, table) in [(BEFORE, &BLOCKS_BEFORE), (PROPOSED, &BLOCKS_PROPOSED)] {
        for (_, [map, unmap], [areas, frees]) in table.iter().filter(|row| row.0 == case) {
            let mean_ns = |(hits, us): &(u64, f64)| us * 1000.0 / *hits as f64;
            figures.extend([
                figure(case, variant, m::MAP_CALLS, map.0 as f64),
                figure(case, variant, m::MAP_NS_MEAN, mean_ns(map)),
                figure(case, variant, m::UNMAP_CALLS, unmap.0 as f64),
                figure(case, variant, m::UNMAP_NS_MEAN, mean_ns(unmap)),
                figure(case, variant, m::AREA_ALLOCS, areas.0 as f64),
                figure(case, variant, m::BLOCK_FREES, frees.0 as f64),
                figure(case, variant, m::BLOCK_ALLOC_NS_MEAN, mean_ns(areas)),
            ]);
            if frees.0 > 0 {
                figures.push(figure(case, variant, m::BLOCK_FREE_NS_MEAN, mean_ns(frees)));
            }
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::published::{rows, shared};

    #[test]
    fn the_first_documents_figures_are_those_of_its_tables() {
        let Some(text) = shared("vmap-blocks.csv") else {
            return;
        };
        let mut compared = 0;
        for row in rows(&text) {
            let [scenario, _, insert, function, hits, total, _] = row[..] else {
                panic!("{row:?}");
            };
            let case = if scenario == "random_1_64" {
                "random"
            } else {
                scenario
            };
            let variant = if insert == "head" { BEFORE } else { PROPOSED };
            let (calls, mean) = match function {
                "vm_map_ram" => (m::MAP_CALLS, m::MAP_NS_MEAN),
                "vm_unmap_ram" => (m::UNMAP_CALLS, m::UNMAP_NS_MEAN),
                "alloc_vmap_area" => (m::AREA_ALLOCS, m::BLOCK_ALLOC_NS_MEAN),
                _ => (m::BLOCK_FREES, m::BLOCK_FREE_NS_MEAN),
            };
            let figures = figures(case);
            let of = |metric| {
                let found = figures
                    .iter()
                    .find(|f| f.variant == variant && f.metric == metric);
                found.unwrap().value
            };
            let hits: f64 = hits.parse().unwrap();
            assert_eq!(of(calls), hits, "{row:?}");
            if hits > 0.0 {
                let ns = total.parse::<f64>().unwrap() * 1000.0 / hits;
                assert!((of(mean) - ns).abs() < 1e-9, "{row:?}");
            }
            compared += 1;
        }
        assert_eq!(compared, 24);
    }

    #[test]
    fn a_case_has_eight_figures_of_each_column_and_no_time_of_what_did_not_happen() {
        assert_eq!(figures("random").len(), 16);
        assert_eq!(figures("exhaust").len(), 15);
    }
}
