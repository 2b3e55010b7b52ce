//! The documents' own tables, carried in the program. Copied from the two messages; microseconds
//! are theirs, and so is what they leave out.

use super::fallback::metrics as phone;
use super::kvmalloc::metrics as kv;
use super::range_metrics as m;
use super::{BEFORE, PROPOSED};
use crate::measure::Metric;
use crate::measure::metric::metric_named;
use crate::report::{Figure, Source};

/// R. Pen, "fix possible exhaustion of vmalloc space caused by vm_map_ram allocator", 2015: ftrace's
/// function profile, blocks of 1024 pages, one CPU. Hits and microseconds in all of `vm_map_ram`,
/// `vm_unmap_ram`; hits of `alloc_vmap_area`, `free_vmap_block`.
type Profile = (&'static str, [(u64, f64); 2], [u64; 2]);

const BLOCKS_BEFORE: [Profile; 3] = [
    (
        "exhaust",
        [(126_000, 30_683.30), (126_000, 22_003.24)],
        [1000, 0],
    ),
    (
        "random",
        [(10_000, 10_170.01), (10_000, 5_321.823)],
        [420, 37],
    ),
    (
        "orders",
        [(2_032_000, 399_545.2), (2_032_000, 363_225.7)],
        [7001, 6993],
    ),
];

const BLOCKS_PROPOSED: [Profile; 3] = [
    (
        "exhaust",
        [(126_000, 28_713.13), (126_000, 20_403.96)],
        [993, 992],
    ),
    (
        "random",
        [(10_000, 7_745.637), (10_000, 5_460.573)],
        [414, 412],
    ),
    (
        "orders",
        [(2_032_000, 394_259.7), (2_032_000, 292_500.7)],
        [7000, 7000],
    ),
];

/// U. Rezki, "improve vmalloc allocation", LKML, October 2018: microseconds of one whole test, before
/// and after, five runs on each of two machines (i5-3320M, HiKey960). How many operations a test
/// has, the message does not say.
type Test = (&'static str, [[u64; 5]; 2], [[u64; 5]; 2]);

const FITS: [Test; 4] = [
    (
        "le_fit",
        [
            [1_218_459, 1_219_721, 1_226_255, 1_239_828, 1_232_131],
            [1_146_597, 1_145_212, 1_142_134, 1_144_809, 1_144_775],
        ],
        [
            [2_382_168, 2_772_909, 2_772_579, 2_770_596, 2_759_768],
            [2_115_617, 2_114_988, 2_113_069, 2_111_823, 2_111_868],
        ],
    ),
    (
        "b_fit",
        [
            [972_322, 1_013_817, 1_002_057, 985_092, 1_031_320],
            [1_008_655, 994_195, 993_364, 977_549, 999_952],
        ],
        [
            [2_864_080, 2_968_612, 2_748_495, 2_966_023, 2_765_568],
            [2_081_309, 2_062_716, 2_106_658, 2_071_139, 2_125_216],
        ],
    ),
    (
        "ne_fit",
        [
            [2_056_336, 2_043_136, 2_042_384, 2_041_287, 2_039_014],
            [2_043_121, 2_041_888, 2_040_181, 2_038_905, 2_038_632],
        ],
        [
            [4_353_846, 4_133_506, 4_134_769, 4_132_224, 4_410_969],
            [4_241_838, 4_241_615, 4_240_714, 4_242_281, 4_240_864],
        ],
    ),
    (
        "long_busy_list",
        [
            [55_866_315, 57_601_435, 52_612_371, 48_894_648, 55_718_063],
            [15_037_680, 14_809_454, 14_550_292, 14_769_538, 14_727_350],
        ],
        [
            [
                239_789_754,
                778_283_461,
                210_244_212,
                429_232_377,
                527_560_967,
            ],
            [33_364_305, 34_551_548, 33_467_529, 33_307_173, 33_661_115],
        ],
    ),
];

fn figure(case: &str, variant: &'static str, metric: Metric, value: f64) -> Figure {
    Figure {
        case: case.to_owned(),
        variant,
        metric,
        value,
        source: Source::Published,
    }
}

/// The first document's figures for that case.
pub(super) fn vmap_blocks(case: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (variant, table) in [(BEFORE, &BLOCKS_BEFORE), (PROPOSED, &BLOCKS_PROPOSED)] {
        for (_, [map, unmap], [areas, frees]) in table.iter().filter(|row| row.0 == case) {
            let mean_ns = |(hits, us): &(u64, f64)| us * 1000.0 / *hits as f64;
            figures.extend([
                figure(case, variant, m::MAP_CALLS, map.0 as f64),
                figure(case, variant, m::MAP_NS_MEAN, mean_ns(map)),
                figure(case, variant, m::UNMAP_CALLS, unmap.0 as f64),
                figure(case, variant, m::UNMAP_NS_MEAN, mean_ns(unmap)),
                figure(case, variant, m::AREA_ALLOCS, *areas as f64),
                figure(case, variant, m::BLOCK_FREES, *frees as f64),
            ]);
        }
    }
    figures
}

/// The second document's figures for that case: the middle of five runs.
pub(super) fn va_fit(case: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (_, i5, hikey) in FITS.iter().filter(|row| row.0 == case) {
        for (metric, [before, after]) in [(m::TEST_US_I5, i5), (m::TEST_US_HIKEY, hikey)] {
            let (before, after) = (middle(before), middle(after));
            figures.push(figure(case, BEFORE, metric, before));
            figures.push(figure(case, PROPOSED, metric, after));
            if metric == m::TEST_US_I5 {
                figures.push(figure(case, PROPOSED, m::TIME_VS_BEFORE, after / before));
            }
        }
    }
    figures
}

/// D. Chinner's two profiles, in the commit that the message quotes: percent of all CPU time of a
/// machine under a file system's load, before and after, in the allocation of shadow buffers and in
/// copying. After, the allocation is a kmalloc and a vmalloc.
const KVMALLOC_PERCENT: [(&str, f64, f64); 2] =
    [(BEFORE, 31.62, 13.73), (PROPOSED, 8.45 + 5.72, 16.01)];

/// What the message says of both: CPU time of an allocation about a fifth, commits more than twice.
const KVMALLOC_STATED: [(Metric, f64); 2] = [
    (kv::COMMITS_VS_BEFORE, 2.0),
    (kv::KVMALLOC_CPU_VS_BEFORE, 0.2),
];

/// The third document's figures, as those of that case.
pub(super) fn kvmalloc(case: &str) -> Vec<Figure> {
    let figure = |variant, metric, value| Figure {
        case: case.to_owned(),
        variant,
        metric,
        value,
        source: Source::Published,
    };
    let mut figures = Vec::new();
    for (variant, kvmalloc, copy) in KVMALLOC_PERCENT {
        figures.extend([
            figure(variant, kv::KVMALLOC_SHARE, kvmalloc / 100.0),
            figure(variant, kv::COPY_SHARE, copy / 100.0),
            figure(variant, kv::KVMALLOC_VS_COPY, kvmalloc / copy),
        ]);
    }
    let stated = KVMALLOC_STATED.map(|(metric, value)| figure(PROPOSED, metric, value));
    figures.extend(stated);
    figures
}

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
pub(super) fn fallback(case: &str) -> Vec<Figure> {
    let figures = FALLBACK.iter().filter_map(|&(name, before, proposed)| {
        let metric = metric_named(phone::TABLE, name)?;
        Some(
            [(BEFORE, before), (PROPOSED, proposed)].map(|(variant, value)| Figure {
                case: case.to_owned(),
                variant,
                metric,
                value: value as f64,
                source: Source::Published,
            }),
        )
    });
    figures.flatten().collect()
}

fn middle(runs: &[u64; 5]) -> f64 {
    let mut runs = *runs;
    runs.sort_unstable();
    runs[2] as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The tables of the documents, where they lie beside the repository.
    fn shared(name: &str) -> Option<String> {
        let root = std::env::var_os("FRAMEWRIGHT_SHARED").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
            Into::into,
        );
        let path = root.join("published").join(name);
        let text = std::fs::read_to_string(&path).ok();
        if text.is_none() {
            println!("skipped: {} is not there", path.display());
        }
        text
    }

    fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .skip(1)
            .map(|line| line.split(',').collect())
    }

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
                "vm_map_ram" => (m::MAP_CALLS, Some(m::MAP_NS_MEAN)),
                "vm_unmap_ram" => (m::UNMAP_CALLS, Some(m::UNMAP_NS_MEAN)),
                "alloc_vmap_area" => (m::AREA_ALLOCS, None),
                _ => (m::BLOCK_FREES, None),
            };
            let figures = vmap_blocks(case);
            let of = |metric| {
                let found = figures
                    .iter()
                    .find(|f| f.variant == variant && f.metric == metric);
                found.unwrap().value
            };
            let hits: f64 = hits.parse().unwrap();
            assert_eq!(of(calls), hits, "{row:?}");
            if let Some(mean) = mean {
                let ns = total.parse::<f64>().unwrap() * 1000.0 / hits;
                assert!((of(mean) - ns).abs() < 1e-9, "{row:?}");
            }
            compared += 1;
        }
        assert_eq!(compared, 24);
    }

    #[test]
    fn the_second_documents_figures_are_those_of_its_tables() {
        let Some(text) = shared("va-fit.csv") else {
            return;
        };
        let mut compared = 0;
        for row in rows(&text) {
            let [machine, test, run, before, after] = row[..] else {
                panic!("{row:?}");
            };
            let case = test.trim_end_matches("_alloc_test");
            let (_, i5, hikey) = FITS.iter().find(|row| row.0 == case).unwrap();
            let table = if machine == "Hikey960" { hikey } else { i5 };
            let run = run.parse::<usize>().unwrap() - 1;
            let expected = [before, after].map(|us| us.parse::<u64>().unwrap());
            assert_eq!([table[0][run], table[1][run]], expected, "{row:?}");
            compared += 1;
        }
        assert_eq!(compared, 40);
    }

    #[test]
    fn the_third_documents_figures_are_those_of_its_table() {
        let Some(text) = shared("kvmalloc.csv") else {
            return;
        };
        let percent = |function: &str, column: usize| -> f64 {
            let row = rows(&text).find(|row| row[0] == function).unwrap();
            row[column].parse().unwrap()
        };
        let [before, proposed] = KVMALLOC_PERCENT;
        assert_eq!(before.1, percent("kvmalloc_node", 1));
        assert_eq!(proposed.1, percent("kmalloc", 2) + percent("vmalloc", 2));
        assert_eq!(
            [before.2, proposed.2],
            [1, 2].map(|column| percent("memcpy", column))
        );
    }

    #[test]
    fn the_fourth_documents_figures_are_those_of_its_table() {
        let figures = fallback("seed/1");
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

    #[test]
    fn a_case_that_no_document_has_has_no_figures() {
        assert_eq!(va_fit("fix_size"), []);
        assert_eq!(vmap_blocks("exhaust").len(), 12);
        let long = va_fit("long_busy_list");
        let left = long.iter().find(|f| f.metric == m::TIME_VS_BEFORE).unwrap();
        assert!((left.value - 14_769_538.0 / 55_718_063.0).abs() < 1e-12);
    }
}
