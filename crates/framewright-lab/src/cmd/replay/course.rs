//! A replayed case over time: a plot a figure, with a line for each policy and the recording machine's own.

use crate::cmd::input::LoadedTrace;
use crate::measure::{Film, MAX_ORDER, Sample};
use crate::replay::{SAMPLE_MS, SeriesPoint};
use crate::report::{Accent, OverTime, PlotLine, RECORDED_KERNEL, Scale, accent};
use crate::trace::reduce::ReferenceRow;
use crate::trace::{OpKind, Trace};

// Plots that a card shows too, by their titles.
pub(super) const FREE_MEMORY: &str = "free memory";
pub(super) const UNUSABLE_O3: &str = "unusable index, order 3";
pub(super) const UNUSABLE_O9: &str = "unusable index, order 9";
pub(in crate::cmd) const MIXED_BLOCKS: &str = "mixed blocks";

pub(super) fn failures_of(order: usize) -> String {
    format!("failures of order {order}")
}

/// Plots of failures at most: one an order, those with the most.
const ORDERS_SHOWN: usize = 4;

const FRAMES_PER_MIB: f64 = 256.0;

/// What the recording machine did over time, as far as the recording says.
#[derive(Debug, Default)]
pub(in crate::cmd) struct MachineCourse {
    /// Memory, a row a second.
    pub(super) rows: Vec<ReferenceRow>,
    /// Requests that failed so far, by order, at each second and at the end.
    pub(super) failures: Vec<(u64, [u64; MAX_ORDER + 1])>,
    /// The watermarks min, low and high over all zones, in frames.
    marks: Option<[u64; 3]>,
    /// Its pageblocks.
    pub(super) film: Option<Film>,
}

impl MachineCourse {
    pub(super) fn of(loaded: &LoadedTrace, film: Option<Film>) -> Self {
        let marks = loaded.zones.as_ref().map(|zones| {
            let sum = |nth: usize| zones.iter().map(move |zone| zone.watermarks[nth]);
            [0, 1, 2].map(|nth| sum(nth).fold(0, u64::saturating_add))
        });
        Self {
            rows: loaded.reference.clone().unwrap_or_default(),
            failures: failures(&loaded.trace),
            marks,
            film,
        }
    }
}

/// Requests that failed on the recording machine, so far at each second.
fn failures(trace: &Trace) -> Vec<(u64, [u64; MAX_ORDER + 1])> {
    let mut so_far = [0; MAX_ORDER + 1];
    let mut points = vec![(0, so_far)];
    let (mut now_ms, mut next_ms) = (0, SAMPLE_MS);
    for op in &trace.ops {
        match op.kind() {
            OpKind::Failed => {
                if let Some(count) = so_far.get_mut(op.order().index()) {
                    *count += 1;
                }
            }
            OpKind::Tick => {
                now_ms += u64::from(op.value);
                if now_ms >= next_ms {
                    points.push((now_ms, so_far));
                    next_ms = now_ms + SAMPLE_MS;
                }
            }
            _ => {}
        }
    }
    points.push((now_ms, so_far));
    points
}

/// A figure over time: its title and unit, its value in a sample and in a row of the machine's, and what a reader must
/// know.
struct MemoryCourse {
    title: &'static str,
    unit: &'static str,
    of: fn(&Sample) -> f64,
    of_machine: fn(&ReferenceRow) -> f64,
    note: &'static str,
}

impl MemoryCourse {
    const fn new(
        title: &'static str,
        unit: &'static str,
        of: fn(&Sample) -> f64,
        of_machine: fn(&ReferenceRow) -> f64,
        note: &'static str,
    ) -> Self {
        Self {
            title,
            unit,
            of,
            of_machine,
            note,
        }
    }
}

#[rustfmt::skip]
static COURSES: [MemoryCourse; 6] = [
    MemoryCourse::new(FREE_MEMORY, "MiB",
        |sample| sample.free_frames() as f64 / FRAMES_PER_MIB, |row| row.free_frames as f64 / FRAMES_PER_MIB,
        "Frames that no allocation holds. The programs ask the same of every policy, so lines part only where requests fail."),
    MemoryCourse::new("free memory in whole blocks of 2 MiB", "MiB",
        |sample| (sample.free_2m_blocks() << 9) as f64 / FRAMES_PER_MIB, |row| (row.free_2m << 9) as f64 / FRAMES_PER_MIB,
        "What a huge page could be made of without moving anything."),
    MemoryCourse::new(UNUSABLE_O3, "share of free memory",
        |sample| sample.unusable_index(3), |row| row.unusable_o3,
        "How much of the free memory is of no use to a request of 8 frames in a row."),
    MemoryCourse::new(UNUSABLE_O9, "share of free memory",
        |sample| sample.unusable_index(9), |row| row.unusable_o9,
        "The same for a huge page."),
    MemoryCourse::new("contaminated blocks", "blocks of 2 MiB",
        |sample| sample.contaminated_blocks as f64, |row| row.blocks_unmov_any as f64,
        "Blocks with a frame that cannot be moved."),
    MemoryCourse::new(MIXED_BLOCKS, "blocks of 2 MiB",
        |sample| sample.mixed_blocks as f64, |row| row.blocks_mixed as f64,
        "Those that hold movable frames as well."),
];

/// What a policy did over time.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicySeries<'r> {
    pub(super) policy: &'r str,
    /// A point a second.
    pub(super) points: &'r [SeriesPoint],
    /// Requests that failed until the end, which a second rarely is.
    pub(super) failures: [u64; MAX_ORDER + 1],
}

/// The plots of a case.
pub(super) fn courses<'r>(
    case: &'r str,
    films: &'r [(&'r str, &'r Film)],
    series: &'r [PolicySeries<'r>],
    machine: &'r MachineCourse,
) -> impl Iterator<Item = OverTime> + 'r {
    let plot = move |title: String, value, lines, note: &str| OverTime {
        title: format!("{case}: {title}"),
        across: "seconds of the trace",
        scale: Scale::Linear,
        value,
        lines,
        note: note.into(),
    };
    let end = films.iter().flat_map(|(_, film)| film.pictures.last());
    let end = end.map(|last| last.sample.ms).max().unwrap_or(0);
    let memory = COURSES.iter().map(move |course| {
        let mut lines: Vec<PlotLine> = films
            .iter()
            .map(|&(policy, film)| {
                let samples = film.pictures.iter().map(|picture| &picture.sample);
                policy_line(policy, samples.map(|s| (s.ms, (course.of)(s))))
            })
            .collect();
        let rows = machine
            .rows
            .iter()
            .map(|row| (row.ms, (course.of_machine)(row)));
        lines.extend(machine_line(rows));
        let mut note = course.note.to_owned();
        if let (true, Some(marks)) = (std::ptr::eq(course, &COURSES[0]), machine.marks) {
            for (name, mark) in ["min", "low", "high"].into_iter().zip(marks) {
                let at = mark as f64 / FRAMES_PER_MIB;
                lines.push(line(
                    format!("watermark {name}"),
                    None,
                    [(0, at), (end, at)],
                ));
            }
            note += " The watermarks are the sums over all zones when the recording began.";
        }
        plot(course.title.into(), course.unit, lines, &note)
    });
    let orders = failing(series, machine).into_iter();
    let failures = orders.map(move |order| {
        let mut lines: Vec<PlotLine> = series
            .iter()
            .map(|one| {
                let value = |at: &SeriesPoint| (at.sample.ms, at.failures[order] as f64);
                let at_end = (!one.points.is_empty()).then_some((end, one.failures[order] as f64));
                policy_line(one.policy, one.points.iter().map(value).chain(at_end))
            })
            .collect();
        let points = machine.failures.iter();
        lines.extend(machine_line(points.map(|&(ms, so_far)| (ms, so_far[order] as f64))));
        let note = "Requests that failed so far. A policy's are those that the machine served: what failed there is \
                    asked of no policy as a demand.";
        plot(failures_of(order), "requests so far", lines, note)
    });
    memory.chain(failures)
}

/// The orders of which requests fail anywhere, those with the most, ascending.
fn failing(series: &[PolicySeries<'_>], machine: &MachineCourse) -> Vec<usize> {
    let ends: Vec<[u64; MAX_ORDER + 1]> = series
        .iter()
        .map(|one| one.failures)
        .chain(machine.failures.last().map(|last| last.1))
        .collect();
    // Without a series of a policy there is nothing to compare the machine with.
    if series.iter().all(|one| one.points.is_empty()) {
        return Vec::new();
    }
    let most = |order: usize| ends.iter().map(|end| end[order]).max().unwrap_or(0);
    let mut orders: Vec<usize> = (0..=MAX_ORDER).filter(|&order| most(order) > 0).collect();
    orders.sort_by_key(|&order| std::cmp::Reverse(most(order)));
    orders.truncate(ORDERS_SHOWN);
    orders.sort_unstable();
    orders
}

fn policy_line(policy: &str, points: impl IntoIterator<Item = (u64, f64)>) -> PlotLine {
    line(named(policy), accent(policy), points)
}

fn machine_line(points: impl Iterator<Item = (u64, f64)>) -> Option<PlotLine> {
    let line = line(RECORDED_KERNEL.into(), Some(Accent::Machine), points);
    (!line.points.is_empty()).then_some(line)
}

fn line(
    name: String,
    accent: Option<Accent>,
    points: impl IntoIterator<Item = (u64, f64)>,
) -> PlotLine {
    let points = points.into_iter();
    PlotLine {
        name,
        accent,
        is_published: false,
        points: points
            .map(|(ms, value)| (ms as f64 / 1000.0, value))
            .collect(),
        mark: None,
    }
}

/// A policy's name, with that of its column where it has one.
pub(super) fn named(policy: &str) -> String {
    match accent(policy).map(Accent::name) {
        Some(column) => format!("{policy} ({column})"),
        None => policy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceOp;
    use framewright::{Mobility, Order};

    fn failed(order: u8) -> TraceOp {
        let order = Order::new(order).unwrap();
        TraceOp::alloc(true, order, Mobility::Movable, 0, 0, 0)
    }

    #[test]
    fn failures_of_the_machine_are_counted_up_by_second_and_order() {
        let trace = Trace {
            ops: vec![
                failed(3),
                TraceOp::tick(400),
                failed(3),
                TraceOp::tick(700),
                failed(9),
                TraceOp::tick(10),
            ],
            ..Trace::default()
        };
        let points: Vec<_> = failures(&trace)
            .into_iter()
            .map(|(ms, so_far)| (ms, so_far[3], so_far[9]))
            .collect();
        assert_eq!(points, [(0, 0, 0), (1100, 2, 0), (1110, 2, 1)]);
    }

    #[test]
    fn the_machine_has_a_line_of_its_own_in_each_plot_and_failing_orders_have_one_each() {
        let film = Film {
            blocks_per_cell: 1,
            pictures: Vec::new(),
        };
        let mut failures = [0; MAX_ORDER + 1];
        (0..6).for_each(|order| failures[order] = 10 + order as u64);
        let points = [SeriesPoint {
            sample: Sample::default(),
            failures: [0; MAX_ORDER + 1],
            failures_reported: [0; MAX_ORDER + 1],
            fallbacks: [[0; 3]; 3],
            reclaim: None,
        }];
        let mut so_far = [0; MAX_ORDER + 1];
        so_far[9] = 100;
        let machine = MachineCourse {
            rows: vec![ReferenceRow {
                ms: 2000,
                free_frames: 512,
                unusable_o3: 0.25,
                ..ReferenceRow::default()
            }],
            failures: vec![(2000, so_far)],
            marks: Some([256, 512, 768]),
            film: None,
        };
        let films = [("linux-4.4", &film)];
        let series = PolicySeries {
            policy: "linux-4.4",
            points: &points,
            failures,
        };
        let plots: Vec<OverTime> = courses("c", &films, &[series], &machine).collect();
        let titles: Vec<&str> = plots.iter().map(|plot| &*plot.title).collect();
        let shown = ["c: failures of order 3", "c: failures of order 4"];
        assert_eq!(titles.len(), COURSES.len() + ORDERS_SHOWN, "{titles:?}");
        assert_eq!(titles[COURSES.len()..][..2], shown);
        assert_eq!(titles.last(), Some(&"c: failures of order 9"));
        for plot in &plots {
            let own = plot.lines.iter().find(|line| line.name == RECORDED_KERNEL);
            let own = own.unwrap();
            assert_eq!(own.accent, Some(Accent::Machine));
            assert_eq!(own.points.len(), 1);
        }
        let values = |plot: usize| plots[plot].lines.iter().map(|line| line.points.last());
        let free: Vec<_> = values(0).map(|last| last.map(|last| last.1)).collect();
        assert_eq!(free, [None, Some(2.0), Some(1.0), Some(2.0), Some(3.0)]);
        assert_eq!(values(2).nth(1).unwrap(), Some(&(2.0, 0.25)));
        // The line of a policy goes on to the end, where the most have failed.
        let ended: Vec<_> = values(COURSES.len()).map(|last| last.copied()).collect();
        assert_eq!(ended[0], Some((0.0, 13.0)));
        // A page of a replay without a series has none of failures.
        let none = PolicySeries {
            points: &[],
            ..series
        };
        let none = courses("c", &films, &[none], &machine).count();
        assert_eq!(none, COURSES.len());
    }
}
