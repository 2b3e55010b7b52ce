//! How near the model of the recording kernel comes to that kernel: its figures as a column, and by request how
//! many failures both have. A difference between policies that is smaller than this one means nothing.

use crate::measure::replay as m;
use crate::measure::{MAX_ORDER, Metric, Sample, grouped};
use crate::replay::by_flags;
use crate::replay::{Placement, ReplayOutcome};
use crate::report::{Calibration, Deviation, FigureSource, LINUX, ReportColumn};
use crate::trace::reduce::ReferenceRow;
use crate::trace::{OpKind, RequestCounts, RequestWaits, Trace, WaitSum};
use std::collections::BTreeMap;

/// A metric that a row of the reference and a sample both have, and its value in each.
pub(super) type SharedMetric = (Metric, fn(&ReferenceRow) -> f64, fn(&Sample) -> f64);

#[rustfmt::skip]
pub(super) const SHARED: [SharedMetric; 7] = [
    (m::FREE_FRAMES, |r| r.free_frames as f64, |s| s.free_frames() as f64),
    (m::FREE_2M_BLOCKS, |r| r.free_2m as f64, |s| s.free_2m_blocks() as f64),
    (m::UNUSABLE_INDEX.of(3), |r| r.unusable_o3, |s| s.unusable_index(3)),
    (m::UNUSABLE_INDEX.of(9), |r| r.unusable_o9, |s| s.unusable_index(9)),
    (m::CONTAMINATED_BLOCKS, |r| r.blocks_unmov_any as f64, |s| s.contaminated_blocks as f64),
    (m::MIXED_BLOCKS, |r| r.blocks_mixed as f64, |s| s.mixed_blocks as f64),
    (m::MOVABLE_FRAMES_IN_MIXED, |r| r.movable_frames_in_mixed as f64, |s| s.movable_frames_in_mixed as f64),
];

/// What requests of one kind waited for, by order, and the metrics of how many did and for how long.
pub(super) type WaitMetric = (
    fn(&RequestWaits) -> Option<[WaitSum; MAX_ORDER + 1]>,
    [Metric; 2],
);

#[rustfmt::skip]
pub(super) const WAITS: [WaitMetric; 2] = [
    (|waits| waits.reclaim, [m::RECLAIM_WAITS, m::RECLAIM_WAIT_MS]),
    (|waits| waits.compaction, [m::COMPACTION_WAITS, m::COMPACTION_WAIT_MS]),
];

/// What the recording kernel itself did, as a column: means over its rows, and the allocations
/// that failed on the recording machine, after all reclaim and compaction it tried.
#[must_use]
pub fn linux_column(trace: &Trace, reference: &[ReferenceRow]) -> ReportColumn {
    let mut values = BTreeMap::new();
    if !reference.is_empty() {
        for (metric, linux, _) in SHARED {
            let sum: f64 = reference.iter().map(linux).sum();
            values.insert(metric, sum / reference.len() as f64);
        }
        values.insert(m::SAMPLES, reference.len() as f64);
    }
    values.extend(failures(trace));
    values.extend(waits(trace));
    ReportColumn {
        variant: LINUX.to_owned(),
        source: FigureSource::Measured,
        values,
    }
}

/// What memory looked like where the recording kernel put each allocation, as a column.
#[must_use]
pub fn placement_column(trace: &Trace, placement: &Placement) -> ReportColumn {
    let mut values: BTreeMap<_, _> = placement.means.values().into_iter().collect();
    values.extend(failures(trace));
    values.extend(waits(trace));
    ReportColumn {
        variant: LINUX.to_owned(),
        source: FigureSource::Measured,
        values,
    }
}

/// What requests waited for on the recording machine, of the orders of which some did.
fn waits(trace: &Trace) -> impl Iterator<Item = (Metric, f64)> {
    let waits = RequestWaits::of(&trace.work);
    WAITS.into_iter().flat_map(move |(of, [requests, ms])| {
        let each = of(&waits).into_iter().flatten().enumerate();
        let waited = each.filter(|(_, sum)| sum.times > 0);
        waited.flat_map(move |(order, sum)| {
            [
                (requests.of(order), sum.requests as f64),
                (ms.of(order), sum.ms()),
            ]
        })
    })
}

/// What failed on the recording machine, of all that it was asked for.
fn failures(trace: &Trace) -> BTreeMap<Metric, f64> {
    let failed = RequestCounts::of_trace(trace, OpKind::Failed);
    let requests = failed.and(&RequestCounts::of_trace(trace, OpKind::Alloc));
    let mut values = BTreeMap::new();
    for order in 0..=MAX_ORDER {
        values.insert(m::FAILURES.of(order), failed.all[order] as f64);
        values.extend(by_flags(order, &requests, &failed));
    }
    values
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

/// Calibration by request, for rules replayed from the recorded layout without squeeze: of the requests that failed on
/// the recording machine how many fail here (recall), and of those that fail here how many failed there (precision); by
/// kind of request, and by kind and order.
pub fn calibrate_requests(outcome: &ReplayOutcome) -> BTreeMap<Metric, f64> {
    let (refused, met, wrong) = (
        &outcome.refused.counts,
        &outcome.met.counts,
        &outcome.failed.counts,
    );
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let mut values = BTreeMap::new();
    for (kind, of) in KINDS.into_iter().enumerate() {
        let mut sums = [0; 3];
        for order in 0..=MAX_ORDER {
            let counts = [refused, met, wrong].map(|counts| of(counts, order));
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
            let [refused, met, wrong] = counts;
            let recall = share(met, refused);
            let precision = share(met, met + wrong);
            values.extend(recall.map(|value| (m::RECALL.of_two(kind, order), value)));
            values.extend(precision.map(|value| (m::PRECISION.of_two(kind, order), value)));
        }
        let [refused, met, wrong] = sums;
        let recall = share(met, refused);
        let precision = share(met, met + wrong);
        values.extend(recall.map(|value| (m::RECALL_OF_ALL.of(kind), value)));
        values.extend(precision.map(|value| (m::PRECISION_OF_ALL.of(kind), value)));
    }
    values
}

/// How many requests of an order are of each kind of [`m::RECALL`], in the order of its members.
const KINDS: [fn(&RequestCounts, usize) -> u64; 4] = [
    |counts, order| counts.all[order],
    |counts, order| counts.no_reclaim[order],
    |counts, order| counts.all[order] - counts.no_reclaim[order] - counts.unseen[order],
    |counts, order| counts.optional[order],
];

/// What a calibration by request came to, a line an order of which some request failed on the machine or fails here.
#[must_use]
pub fn request_calibration_lines(outcome: &ReplayOutcome) -> Vec<String> {
    let (refused, met, wrong) = (
        &outcome.refused.counts,
        &outcome.met.counts,
        &outcome.failed.counts,
    );
    let line = |order: usize| {
        let [refused, met, wrong] = [refused, met, wrong].map(|counts| counts.all[order]);
        (refused + wrong > 0).then(|| {
            format!(
                "order {order}: of {} requests that failed on the machine {} fail under {} too; beside them {} fail \
                 that the machine served",
                grouped(refused as f64),
                grouped(met as f64),
                outcome.policy,
                grouped(wrong as f64),
            )
        })
    };
    (0..=MAX_ORDER).filter_map(line).collect()
}

/// Compares the replay of the recording kernel's model, with its series at the reference's own
/// interval, with what that kernel did.
///
/// `None` if no point of the series falls on a row of the reference.
#[must_use]
pub fn calibrate(
    trace: &Trace,
    reference: &[ReferenceRow],
    model: &ReplayOutcome,
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
        deviations.insert(m::FAILURES.of(order), deviation);
    }
    Some(Calibration {
        model: model.policy,
        samples: pairs.len() as u64,
        deviations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayOptions, ReplayPolicy, SAMPLE_MS, Start, TraceMemory, replay};
    use crate::trace::{TraceOp, WorkEvent, WorkKind};
    use framewright::{Mobility, Order};
    use std::sync::atomic::AtomicU64;

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    /// 1024 free frames; a second passes, and 512 of them are taken; then two requests of
    /// order 10 fail, one of which failed on the machine too.
    fn trace() -> Trace {
        let request = |n, failed| TraceOp::alloc(failed, order(n), Mobility::Unmovable, 0, 0, 0);
        Trace {
            nframes: 1024,
            ops: vec![
                TraceOp::tick(1),
                request(9, false),
                request(10, false),
                request(10, true),
                request(0, true),
                TraceOp::tick(1000),
            ],
            ..Trace::default()
        }
    }

    fn row(ms: u64, free_frames: u64) -> ReferenceRow {
        ReferenceRow {
            ms,
            free_frames,
            ..ReferenceRow::default()
        }
    }

    fn model(trace: &Trace) -> ReplayOutcome {
        let memory = TraceMemory::new(trace).unwrap();
        let options = ReplayOptions {
            every_ms: Some(SAMPLE_MS),
            ..ReplayOptions::new(Start::Imposed)
        };
        let done = AtomicU64::new(0);
        let outcome =
            ReplayPolicy::ASSUMED_KERNEL.with(&memory, |s| replay(s, &memory, options, &done));
        outcome.unwrap().unwrap()
    }

    #[test]
    fn errors_of_opposite_sign_do_not_cancel() {
        let trace = trace();
        // 24 too few in the first sample, 24 too many in the second.
        let reference = [row(1, 1000), row(1001, 536), row(5000, 0)];
        let calibration = calibrate(&trace, &reference, &model(&trace)).unwrap();
        assert_eq!((calibration.model, calibration.samples), ("linux-6.12", 2));
        let free = calibration.deviations[&m::FREE_FRAMES];
        assert_eq!(
            free,
            Deviation {
                linux: 768.0,
                model: 768.0,
                error: 24.0
            }
        );
        assert_eq!(
            calibration.tells_apart(m::FREE_FRAMES, 700.0, 724.0),
            Some(false)
        );
        assert_eq!(
            calibration.tells_apart(m::FREE_FRAMES, 725.0, 700.0),
            Some(true)
        );
        assert_eq!(calibration.tells_apart(m::FALSE_FAILURES, 0.0, 1.0), None);
    }

    #[test]
    fn failures_are_compared_with_those_of_the_machine_retries_included() {
        let trace = trace();
        let calibration = calibrate(&trace, &[row(1, 0)], &model(&trace)).unwrap();
        let of = |n| calibration.deviations[&m::FAILURES.of(n)];
        assert_eq!(
            of(10),
            Deviation {
                linux: 1.0,
                model: 2.0,
                error: 1.0
            }
        );
        assert_eq!(
            of(0),
            Deviation {
                linux: 1.0,
                model: 0.0,
                error: 1.0
            }
        );
        assert_eq!(of(9).error.to_bits(), 0);
    }

    #[test]
    fn calibration_by_request_tells_what_was_met_missed_and_made_up() {
        let mut outcome = model(&trace());
        // Of order 10 one failed here that the machine served, and one on both; of order 0 one on the machine alone.
        let values = calibrate_requests(&outcome);
        let value = |metric| values.get(&metric).copied();
        assert_eq!(value(m::RECALL.of_two(0, 10)), Some(1.0));
        assert_eq!(value(m::PRECISION.of_two(0, 10)), Some(0.5));
        assert_eq!(value(m::RECALL.of_two(0, 0)), Some(0.0));
        assert_eq!(value(m::PRECISION.of_two(0, 0)), None);
        assert_eq!(value(m::RECALL_OF_ALL.of(0)), Some(0.5));
        assert_eq!(value(m::PRECISION_OF_ALL.of(0)), Some(0.5));
        // Without flags they are of no kind.
        assert_eq!(value(m::RECALL_OF_ALL.of(1)), None);
        let lines = request_calibration_lines(&outcome);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(
            lines[1],
            "order 10: of 1 requests that failed on the machine 1 fail under linux-6.12 too; beside them 1 fail that \
             the machine served"
        );
        outcome.refused.counts.note(3, Some(0x2800));
        outcome.refused.counts.note(3, Some(0xcc0));
        outcome.met.counts.note(3, Some(0x2800));
        let values = calibrate_requests(&outcome);
        let of_kind = |kind| values.get(&m::RECALL.of_two(kind, 3)).copied();
        assert_eq!(
            [0, 1, 2, 3].map(of_kind),
            [Some(0.5), Some(1.0), Some(0.0), None]
        );
    }

    #[test]
    fn the_machine_s_column_says_what_its_requests_waited_for() {
        let mut trace = trace();
        assert!(waits(&trace).next().is_none());
        let reclaimed = |n, ns| WorkKind::Reclaimed {
            order: order(n),
            ns,
            frames: 1,
            is_again: false,
        };
        trace.work.traced.reclaim = true;
        for kind in [reclaimed(3, 1_500_000), reclaimed(3, 500_000)] {
            trace.work.events.push(WorkEvent { at: 0, kind });
        }
        let values = linux_column(&trace, &[]).values;
        assert_eq!(values[&m::RECLAIM_WAITS.of(3)].to_bits(), 2f64.to_bits());
        assert_eq!(values[&m::RECLAIM_WAIT_MS.of(3)].to_bits(), 2f64.to_bits());
        assert!(!values.contains_key(&m::RECLAIM_WAITS.of(0)));
        assert!(!values.contains_key(&m::COMPACTION_WAITS.of(3)));
    }

    #[test]
    fn without_a_common_sample_there_is_no_calibration() {
        let trace = trace();
        assert_eq!(calibrate(&trace, &[row(77, 0)], &model(&trace)), None);
        let column = linux_column(&trace, &[row(1, 10), row(2, 20)]);
        assert_eq!(column.values[&m::FREE_FRAMES].to_bits(), 15f64.to_bits());
        assert_eq!(column.values[&m::FAILURES.of(10)].to_bits(), 1f64.to_bits());
        assert!(!column.values.contains_key(&m::FALSE_FAILURES));
    }
}
