//! The simulation beside benchmarks that ran on one and on two threads.

use super::tables::{FAST_MIN, percent};
use super::{NAME, found};
use crate::pages::{ResultFiles, number};
use std::fmt::Write as _;

/// A load that a benchmark runs on one and on two threads: its name, the file, the variant, the case without the number of
/// threads, and the times of an operation.
pub(super) type CheckedLoad = [&'static str; 4];

/// All of them, with their times.
pub(super) const CHECKS: &[(CheckedLoad, &[&str])] = &[
    (
        ["pair, order 0, warm", "frames", "framewright", "hot pair/0"],
        &["alloc_ns"],
    ),
    (
        ["pair, order 3, warm", "frames", "framewright", "hot pair/3"],
        &["alloc_ns"],
    ),
    (
        ["pair, order 4, warm", "frames", "framewright", "hot pair/4"],
        &["alloc_ns"],
    ),
    (
        ["pair, order 9", "frames", "framewright", "hot pair/9"],
        &["alloc_ns"],
    ),
    (
        ["bulk, order 0", "frames", "framewright", "bulk/0"],
        &["alloc_ns", "free_ns"],
    ),
    (
        ["bulk, order 3", "frames", "framewright", "bulk/3"],
        &["alloc_ns", "free_ns"],
    ),
    (
        ["kmalloc 64, pair", "objects", "seat", "kmalloc pair/64"],
        &["pair_ns"],
    ),
    (
        ["kmalloc 4096, pair", "objects", "seat", "kmalloc pair/4096"],
        &["pair_ns"],
    ),
    (
        [
            "kmalloc 64, 1000 live",
            "objects",
            "seat",
            "kmalloc 1000/64",
        ],
        &["pair_ns"],
    ),
    (
        [
            "kmalloc 4096, 1000 live",
            "objects",
            "seat",
            "kmalloc 1000/4096",
        ],
        &["pair_ns"],
    ),
];

/// The place of each, from the highest on; equal ones share the mean of their places.
fn ranks(values: &[f64]) -> Vec<f64> {
    let place = |value: &f64| {
        let above = values.iter().filter(|other| *other > value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        above as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(place).collect()
}

/// How far two rows of ranks go together: 1 is the same order, -1 the opposite one, 0 none. No number where one has no order.
fn correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (first, second) = (mean(one), mean(other));
    let spread = |of: &[f64], mean: f64| of.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let both = (spread(one, first) * spread(other, second)).sqrt();
    let pairs = one.iter().zip(other);
    let common: f64 = pairs.map(|(a, b)| (a - first) * (b - second)).sum();
    (both > 0.0).then(|| common / both)
}

/// A load on one and on two CPUs: times of an operation.
struct CheckedTimes {
    load: &'static str,
    measured: [f64; 2],
    /// How often each was measured.
    counts: [u32; 2],
    simulated: [f64; 2],
}

impl CheckedTimes {
    /// In percent of one CPU's throughput, as the table has it.
    fn kept([one, two]: [f64; 2]) -> f64 {
        (1000.0 * one / two).round() / 10.0
    }
}

fn checked_times(files: &mut ResultFiles) -> Result<Vec<CheckedTimes>, String> {
    let mut all = Vec::new();
    for ([load, file, variant, case], metrics) in CHECKS {
        let mut times = CheckedTimes {
            load,
            measured: [0.0; 2],
            counts: [u32::MAX; 2],
            simulated: [0.0; 2],
        };
        for (at, cpus) in ["1", "2"].into_iter().enumerate() {
            let case = format!("{case}/{cpus}");
            for metric in *metrics {
                let row = found(files, file, [&case, variant, metric])?;
                times.measured[at] += row.median;
                times.counts[at] = times.counts[at].min(row.n as u32);
            }
            times.simulated[at] = found(files, NAME, [load, cpus, "operation"])?.median;
        }
        all.push(times);
    }
    Ok(all)
}

/// What benchmarks on two threads say beside the simulation.
pub(super) fn check_table(files: &mut ResultFiles) -> Result<String, String> {
    Ok(check_text(&checked_times(files)?))
}

fn check_text(all: &[CheckedTimes]) -> String {
    let measured: Vec<f64> = all
        .iter()
        .map(|of| CheckedTimes::kept(of.measured))
        .collect();
    let simulated: Vec<f64> = all
        .iter()
        .map(|of| CheckedTimes::kept(of.simulated))
        .collect();
    let (places, simulated_places) = (ranks(&measured), ranks(&simulated));
    let mut out = "| load | measured, 1 thread, ns (n) | 2 threads (n) | lost, ns | simulated, 1 CPU, ns | lost, ns | kept, measured, % (rank) | kept, simulated, % (rank) | error, points |\n\
                   |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (nth, of) in all.iter().enumerate() {
        let lost = |[one, two]: [f64; 2]| format!("{:+.1}", two - one);
        let [one, two] = of.measured.map(number);
        let [one_count, two_count] = of.counts;
        let (kept, told) = (measured[nth], simulated[nth]);
        let _ = writeln!(
            out,
            "| {} | {one} ({one_count}) | {two} ({two_count}) | {} | {} | {} | {} ({}) | {} ({}) | {:+.1} |",
            of.load,
            lost(of.measured),
            number(of.simulated[0]),
            lost(of.simulated),
            percent(kept),
            places[nth],
            percent(told),
            simulated_places[nth],
            told - kept
        );
    }
    let keeps = |kept: &f64| *kept >= FAST_MIN;
    let both = measured.iter().zip(&simulated);
    let both = both
        .filter(|(one, other)| keeps(one) && keeps(other))
        .count();
    let (of_measured, of_simulated) = (
        measured.iter().filter(|kept| keeps(kept)).count(),
        simulated.iter().filter(|kept| keeps(kept)).count(),
    );
    let correlation = correlation(&places, &simulated_places);
    let correlation = correlation.map_or("none".to_owned(), |of| format!("{of:.2}"));
    let _ = writeln!(
        out,
        "\nLoads that keep 90 %: {of_simulated} simulated, {of_measured} measured, {both} of them in both. Rank correlation of all \
         {}: {correlation}.",
        all.len()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_their_correlation_are_those_of_the_kept_shares() {
        assert_eq!(ranks(&[100.0, 50.0, 100.0, 7.0]), [1.5, 3.0, 1.5, 4.0]);
        let of = |one: &[f64], other: &[f64]| correlation(&ranks(one), &ranks(other));
        assert_eq!(of(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]), Some(1.0));
        assert_eq!(of(&[1.0, 2.0, 3.0], &[9.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(of(&[1.0, 1.0], &[1.0, 2.0]), None);
        let times = |load, measured, simulated| CheckedTimes {
            load,
            measured,
            counts: [7, 5],
            simulated,
        };
        let told = check_text(&[
            times("one", [10.0, 20.0], [5.0, 5.0]),
            times("two", [10.0, 10.0], [5.0, 50.0]),
        ]);
        let expected = "| one | 10 (7) | 20 (5) | +10.0 | 5 | +0.0 | 50.0 (2) | 100.0 (1) | +50.0 |\n\
            | two | 10 (7) | 10 (5) | +0.0 | 5 | +45.0 | 100.0 (1) | 10.0 (2) | -90.0 |\n\
            \nLoads that keep 90 %: 1 simulated, 1 measured, 0 of them in both. Rank correlation of all 2: -1.00.\n";
        assert!(told.ends_with(expected), "{told}");
    }
}
