//! The document's two tables, carried in the program.

use super::BACKGROUND;
use super::metrics::{self as m, Of};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};

/// Shortest, longest and mean latency in microseconds, 32 requests of each size beside a kernel build:
/// of CMA, of GCMA, and of GCMA with zram as swap device.
const LATENCY_US: [(u64, [[u32; 3]; 3]); 8] = [
    (1, [[381, 2853, 684], [13, 279, 26], [14, 274, 101]]),
    (
        512,
        [[818, 2382, 1162], [512, 10140, 2002], [510, 648, 600]],
    ),
    (
        1024,
        [
            [3113, 184_703, 12303],
            [1016, 17426, 3495],
            [1014, 1284, 1192],
        ],
    ),
    (
        2048,
        [
            [2545, 790_727, 33084],
            [2029, 27027, 5983],
            [2142, 3781, 2829],
        ],
    ),
    (
        4096,
        [
            [2899, 2_768_349, 298_640],
            [4087, 86887, 13091],
            [4101, 6046, 4780],
        ],
    ),
    (
        8192,
        [
            [4476, 3_496_211, 407_076],
            [8254, 75976, 17519],
            [9888, 11386, 10580],
        ],
    ),
    (
        16_384,
        [
            [7266, 4_132_546, 657_603],
            [16398, 98087, 30474],
            [21079, 23641, 22491],
        ],
    ),
    (
        32_000,
        [
            [8612, 3_910_423, 641_340],
            [32328, 92502, 44675],
            [44859, 654_966, 249_453],
        ],
    ),
];

/// Of the build beside them, the mean of five: user, system and elapsed seconds, and CPU use in percent.
const BUILD: [(&str, [f64; 4]); 4] = [
    ("original", [1675.388, 167.702, 507.738, 362.4]),
    ("cma", [1707.902, 172.184, 523.738, 358.4]),
    ("gcma", [1677.492, 170.016, 515.042, 358.2]),
    ("gcma.zram", [1678.104, 166.992, 513.622, 358.6]),
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

/// The document's latencies of that size.
pub(super) fn latencies(frames: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    let variants = ["cma", "gcma", "gcma.zram"];
    for (_, rows) in LATENCY_US.iter().filter(|(size, _)| *size == frames) {
        for (variant, row) in variants.into_iter().zip(rows) {
            for (of, us) in [Of::Min, Of::Max, Of::Avg].into_iter().zip(row) {
                let case = frames.to_string();
                figures.push(figure(
                    &case,
                    variant,
                    m::LATENCY_US.of(of as usize),
                    f64::from(*us),
                ));
            }
        }
    }
    figures
}

/// The document's figures of the build.
pub(super) fn background() -> Vec<Figure> {
    let metrics = [m::USER_S, m::SYSTEM_S, m::ELAPSED_S, m::CPU_PERCENT];
    let mut figures = Vec::new();
    let [_, _, original, _] = BUILD[0].1;
    for (variant, values) in BUILD {
        for (metric, value) in metrics.into_iter().zip(values) {
            figures.push(figure(BACKGROUND, variant, metric, value));
        }
        let ratio = values[2] / original;
        figures.push(figure(BACKGROUND, variant, m::ELAPSED_VS_ORIGINAL, ratio));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::published::{rows, shared};

    #[test]
    fn the_latencies_are_those_of_the_documents_table() {
        let Some(text) = shared("gcma-latency.csv") else {
            return;
        };
        let rows: Vec<_> = rows(&text).collect();
        assert_eq!(rows.len(), LATENCY_US.len());
        for row in rows {
            let figures = latencies(row[0].parse().unwrap());
            let values: Vec<f64> = figures.iter().map(|f| f.value).collect();
            let expected: Vec<f64> = row[1..].iter().map(|cell| cell.parse().unwrap()).collect();
            assert_eq!(values, expected, "{row:?}");
        }
    }

    #[test]
    fn the_builds_are_those_of_the_documents_table() {
        let Some(text) = shared("gcma-background.csv") else {
            return;
        };
        let rows: Vec<_> = rows(&text).collect();
        for (row, (variant, values)) in rows.iter().zip(BUILD) {
            assert_eq!(row[0], variant);
            assert_eq!(
                row[1..].join(","),
                values.map(|v| v.to_string()).join(","),
                "{row:?}"
            );
        }
        assert_eq!(rows.len(), BUILD.len());
    }
}
