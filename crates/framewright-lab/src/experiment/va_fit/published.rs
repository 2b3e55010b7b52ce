//! The second document's own tables. Copied from the message; microseconds are its own.

use crate::experiment::range_metrics as m;
use crate::experiment::timing::spread;
use crate::experiment::{BEFORE, PROPOSED};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};

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
        source: FigureSource::Published,
    }
}

/// The second document's figures for that case: the middle of five runs, and its ratios.
pub(super) fn figures(case: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (_, i5, hikey) in FITS.iter().filter(|row| row.0 == case) {
        let machines = [
            (m::TEST_US_I5, m::TIME_VS_BEFORE, i5),
            (m::TEST_US_HIKEY, m::TIME_VS_BEFORE_HIKEY, hikey),
        ];
        for (metric, ratio, [before, after]) in machines {
            if metric == m::TEST_US_I5 {
                let ratios = before.iter().zip(after);
                let ratios: Vec<f64> = ratios.map(|(&b, &a)| a as f64 / b as f64).collect();
                let [least, _, most] = spread(&ratios);
                figures.push(figure(case, PROPOSED, m::TIME_VS_BEFORE_MIN, least));
                figures.push(figure(case, PROPOSED, m::TIME_VS_BEFORE_MAX, most));
            }
            let (before, after) = (middle(before), middle(after));
            figures.push(figure(case, BEFORE, metric, before));
            figures.push(figure(case, PROPOSED, metric, after));
            figures.push(figure(case, PROPOSED, ratio, after / before));
        }
    }
    figures
}

fn middle(runs: &[u64; 5]) -> f64 {
    let mut runs = *runs;
    runs.sort_unstable();
    runs[2] as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::published::{rows, shared};

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
    fn a_case_that_the_document_does_not_have_has_no_figures() {
        assert_eq!(figures("fix_size"), []);
        let long = figures("long_busy_list");
        let left = long.iter().find(|f| f.metric == m::TIME_VS_BEFORE).unwrap();
        assert!((left.value - 14_769_538.0 / 55_718_063.0).abs() < 1e-12);
        let hikey = long.iter().find(|f| f.metric == m::TIME_VS_BEFORE_HIKEY);
        assert!((hikey.unwrap().value - 33_467_529.0 / 429_232_377.0).abs() < 1e-12);
    }
}
