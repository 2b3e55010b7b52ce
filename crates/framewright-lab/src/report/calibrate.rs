use super::{Calibration, Column, Deviation, Source};
use crate::measure::{MAX_ORDER, Metric, Sample};
use crate::replay::{Outcome, Placement};
use crate::trace::reduce::ReferenceRow;
use crate::trace::{OpKind, Trace};
use std::collections::BTreeMap;

/// The name of the column that holds what the recording kernel itself did.
pub const LINUX: &str = "linux";

/// A metric that a row of the reference and a sample both have, and its value in each.
type Shared = (Metric, fn(&ReferenceRow) -> f64, fn(&Sample) -> f64);

#[rustfmt::skip]
const SHARED: [Shared; 7] = [
    (Metric::FreeFrames, |r| r.free_frames as f64, |s| s.free_frames() as f64),
    (Metric::Free2mBlocks, |r| r.free_2m as f64, |s| s.free_2m_blocks() as f64),
    (Metric::UnusableIndex(3), |r| r.unusable_o3, |s| s.unusable_index(3)),
    (Metric::UnusableIndex(9), |r| r.unusable_o9, |s| s.unusable_index(9)),
    (Metric::ContaminatedBlocks, |r| r.blocks_unmov_any as f64, |s| s.contaminated_blocks as f64),
    (Metric::MixedBlocks, |r| r.blocks_mixed as f64, |s| s.mixed_blocks as f64),
    (Metric::MovableFramesInMixed, |r| r.movable_frames_in_mixed as f64, |s| s.movable_frames_in_mixed as f64),
];

/// What the recording kernel itself did, as a column: means over its rows, and the allocations
/// that failed on the recording machine, after all reclaim and compaction it tried.
#[must_use]
pub fn linux_column(trace: &Trace, reference: &[ReferenceRow]) -> Column {
    let mut values = BTreeMap::new();
    if !reference.is_empty() {
        for (metric, linux, _) in SHARED {
            let sum: f64 = reference.iter().map(linux).sum();
            values.insert(metric, sum / reference.len() as f64);
        }
        values.insert(Metric::Samples, reference.len() as f64);
    }
    for (order, &count) in failed(trace).iter().enumerate() {
        values.insert(Metric::Failures(order as u8), count as f64);
    }
    Column {
        variant: LINUX.to_owned(),
        source: Source::Measured,
        values,
    }
}

/// What memory looked like where the recording kernel put each allocation, as a column.
#[must_use]
pub fn placement_column(trace: &Trace, placement: &Placement) -> Column {
    let of_means = |metric| Some((metric, placement.means.value(metric)?));
    let mut values: BTreeMap<_, _> = Metric::all().into_iter().filter_map(of_means).collect();
    for (order, &count) in failed(trace).iter().enumerate() {
        values.insert(Metric::Failures(order as u8), count as f64);
    }
    Column {
        variant: LINUX.to_owned(),
        source: Source::Measured,
        values,
    }
}

/// Allocations that failed on the recording machine, by order.
fn failed(trace: &Trace) -> [u64; MAX_ORDER + 1] {
    let mut failed = [0; MAX_ORDER + 1];
    for op in trace.ops.iter().filter(|op| op.kind() == OpKind::Failed) {
        if let Some(count) = failed.get_mut(op.order().index()) {
            *count += 1;
        }
    }
    failed
}

/// Compares the replay of the recording kernel's model, with its series at the reference's own
/// interval, with what that kernel did.
///
/// `None` if no point of the series falls on a row of the reference.
#[must_use]
pub fn calibrate(
    trace: &Trace,
    reference: &[ReferenceRow],
    model: &Outcome,
) -> Option<Calibration> {
    let pairs: Vec<(&ReferenceRow, &Sample)> = reference
        .iter()
        .filter_map(|row| {
            let at = model
                .series
                .binary_search_by_key(&row.ms, |point| point.sample.ms)
                .ok()?;
            Some((row, &model.series[at].sample))
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let n = pairs.len() as f64;
    let mut deviations = BTreeMap::new();
    for (metric, of_row, of_sample) in SHARED {
        let mut deviation = Deviation {
            linux: 0.0,
            model: 0.0,
            error: 0.0,
        };
        for &(row, sample) in &pairs {
            deviation.linux += of_row(row) / n;
            deviation.model += of_sample(sample) / n;
            deviation.error += (of_row(row) - of_sample(sample)).abs() / n;
        }
        deviations.insert(metric, deviation);
    }
    for (order, &linux) in failed(trace).iter().enumerate() {
        // What failed on the machine is not among the trace's allocations, but tried again.
        let retries = model.retries[order];
        let model = model.failures[order] + retries.tried - retries.served;
        let deviation = Deviation {
            linux: linux as f64,
            model: model as f64,
            error: linux.abs_diff(model) as f64,
        };
        deviations.insert(Metric::Failures(order as u8), deviation);
    }
    Some(Calibration {
        model: model.policy,
        samples: pairs.len() as u64,
        deviations,
    })
}
