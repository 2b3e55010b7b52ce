//! Two recordings, before and after a change: what differs beyond chance.
//!
//! ```text
//!   a recording, a replay ─▶ WindowedFigure a figure ─▶ ComparedFigure: both, the difference, its range ─▶ verdict, tables, JSON
//! ```

use super::calibrate::{SHARED, WAITS, WaitMetric};
use crate::measure::bootstrap::{
    DifferenceRange, RANGE_SHARE, WINDOWS_MIN, difference_range, mean,
};
use crate::measure::{MAX_ORDER, Metric, TimeWindows, grouped, replay as m};
use crate::replay::{ReplayOutcome, SeriesPoint};
use crate::report::form::json::{Record, line};
use crate::report::{
    FigureSource, Grid, GridRow, Heading, LINUX, MachineStalls, RunInfo, shown_variant,
};
use crate::size::shown_frames;
use crate::trace::reduce::ReferenceRow;
use crate::trace::{OpKind, RequestCounts, RequestWaits, Trace, WaitSum};
use serde::Serialize;
use std::collections::BTreeSet;

/// How many figures a sentence names.
const NAMED_MAX: usize = 5;
/// Points of a series in a window.
pub const POINTS_A_WINDOW: u64 = 20;

/// A figure of one recording, window by window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowedFigure {
    /// The metric's name.
    pub name: String,
    /// The unit of its values, with `/s` behind a rate's.
    pub unit: String,
    /// The metric whose values are shown as this one's; `None` for a rate.
    shown_as: Option<Metric>,
    /// Whether it says what was asked for, and not what became of it.
    is_load: bool,
    /// Over the whole recording.
    value: f64,
    /// What a state was when the recording began.
    at_start: Option<f64>,
    /// In each window; empty where there is one figure for all.
    windows: Vec<f64>,
}

impl WindowedFigure {
    fn rate(name: String, unit: &str, windows: Vec<f64>) -> Self {
        Self {
            name,
            unit: format!("{unit}/s"),
            shown_as: None,
            is_load: false,
            value: mean(&windows),
            at_start: None,
            windows,
        }
    }

    fn state(metric: Metric, states: &[(u64, f64)], windows: TimeWindows) -> Self {
        let means = windows.means(states);
        Self {
            name: metric.name(),
            unit: metric.unit().to_owned(),
            shown_as: Some(metric),
            is_load: false,
            value: mean(&means),
            at_start: states.first().map(|&(_, state)| state),
            windows: means,
        }
    }
}

/// What a recording says of the machine itself: requests and failures, how often it stalled and fell back, and what it made
/// of memory.
#[must_use]
pub fn machine_figures(
    trace: &Trace,
    reference: Option<&[ReferenceRow]>,
    stalls: Option<MachineStalls>,
    windows: TimeWindows,
) -> Vec<WindowedFigure> {
    let (failed, served) = (
        counts(trace, OpKind::Failed, windows),
        counts(trace, OpKind::Alloc, windows),
    );
    let rates = |counts: &[RequestCounts], of: &dyn Fn(&RequestCounts) -> u64| -> Vec<f64> {
        counts
            .iter()
            .map(|one| windows.rate(of(one) as f64))
            .collect()
    };
    let by_order = |metric: Metric,
                    counts: &[RequestCounts],
                    of: fn(&RequestCounts) -> &[u64; MAX_ORDER + 1]| {
        let figure = |order: usize| {
            let metric = metric.of(order);
            let rates = rates(counts, &|one| of(one)[order]);
            WindowedFigure::rate(metric.name(), metric.unit(), rates)
        };
        (0..=MAX_ORDER).map(figure).collect::<Vec<_>>()
    };
    let mut figures = by_order(m::FAILURES, &failed, |one| &one.all);
    figures.extend(by_order(m::FAILURES_REPORTED, &failed, |one| &one.reported));
    figures.extend(by_order(m::FAILURES_NO_RECLAIM, &failed, |one| {
        &one.no_reclaim
    }));
    figures.extend(by_order(m::FAILURES_OPTIONAL, &failed, |one| &one.optional));
    figures.push(WindowedFigure::rate(
        "huge_pages_not_had".into(),
        m::FAILURES.unit(),
        rates(&failed, &RequestCounts::huge_pages),
    ));
    if let Some(stalls) = stalls {
        let seconds = (windows.len_ms() * windows.count() as u64) as f64 / 1000.0;
        for (name, count) in [
            ("allocstall", stalls.reclaimed),
            ("compact_stall", stalls.compacted),
        ] {
            let mut figure = WindowedFigure::rate(name.into(), m::COMPACT_STALL.unit(), Vec::new());
            figure.value = count as f64 / seconds;
            figures.push(figure);
        }
    }
    figures.extend(waits(trace, windows));
    if let Some(rows) = reference.filter(|rows| !rows.is_empty()) {
        let points = |of: &dyn Fn(&ReferenceRow) -> f64| -> Vec<(u64, f64)> {
            rows.iter().map(|row| (row.ms, of(row))).collect()
        };
        figures.push(fallbacks(
            windows.rates(&points(&|row| row.extfrag_so_far as f64)),
        ));
        for (metric, of, _) in SHARED {
            figures.push(WindowedFigure::state(metric, &points(&of), windows));
        }
    }
    let all: Vec<RequestCounts> = served.iter().zip(&failed).map(|(a, b)| a.and(b)).collect();
    let requests = by_order(m::REQUESTS, &all, |one| &one.all);
    figures.extend(requests.into_iter().map(|figure| WindowedFigure {
        is_load: true,
        ..figure
    }));
    figures
}

/// What requests waited for, by order, where the recording shows it: how many, and how long.
fn waits(trace: &Trace, windows: TimeWindows) -> Vec<WindowedFigure> {
    let traced = trace.work.traced;
    let mut of_window = vec![RequestWaits::none(traced); windows.count()];
    let mut events = trace.work.events.iter().peekable();
    let mut ms = 0;
    for (at, op) in (0..).zip(&trace.ops) {
        while let Some(event) = events.next_if(|event| event.at <= at) {
            if let Some(window) = windows.at(ms) {
                of_window[window].note(event.kind);
            }
        }
        if op.kind() == OpKind::Tick {
            ms += u64::from(op.value);
        }
    }
    // What ends behind the last operation has no time of its own.
    if let Some(window) = windows.at(ms) {
        events.for_each(|event| of_window[window].note(event.kind));
    }
    let is_traced = |&(of, _): &WaitMetric| of(&RequestWaits::none(traced)).is_some();
    let mut figures = Vec::new();
    for order in 0..=MAX_ORDER {
        for (of, [requests, ms]) in WAITS.into_iter().filter(is_traced) {
            let rates = |value: fn(WaitSum) -> f64| {
                let sums = of_window.iter().filter_map(of);
                let rates = sums.map(|sums| windows.rate(value(sums[order])));
                rates.collect::<Vec<_>>()
            };
            let each = [
                (requests, rates(|sum| sum.requests as f64)),
                (ms, rates(WaitSum::ms)),
            ];
            figures.extend(each.map(|(metric, rates)| {
                WindowedFigure::rate(metric.of(order).name(), metric.unit(), rates)
            }));
        }
    }
    figures
}

/// The same of a replay, from its series.
#[must_use]
pub fn replay_figures(outcome: &ReplayOutcome, windows: TimeWindows) -> Vec<WindowedFigure> {
    let points = |of: &dyn Fn(&SeriesPoint) -> f64| -> Vec<(u64, f64)> {
        let point = |point: &SeriesPoint| (point.sample.ms, of(point));
        outcome.series.iter().map(point).collect()
    };
    let by_order = |metric: Metric, of: fn(&SeriesPoint) -> &[u64; MAX_ORDER + 1]| {
        let figure = |order: usize| {
            let metric = metric.of(order);
            let rates = windows.rates(&points(&|point| of(point)[order] as f64));
            WindowedFigure::rate(metric.name(), metric.unit(), rates)
        };
        (0..=MAX_ORDER).map(figure).collect::<Vec<_>>()
    };
    let mut figures = by_order(m::FAILURES, |point| &point.failures);
    figures.extend(by_order(m::FAILURES_REPORTED, |point| {
        &point.failures_reported
    }));
    let sum = |point: &SeriesPoint| {
        let all = (0..3).flat_map(|wanted| (0..3).map(move |taken| (wanted, taken)));
        let other = all.filter(|(wanted, taken)| wanted != taken);
        other
            .map(|(wanted, taken)| point.fallbacks[wanted][taken] as f64)
            .sum()
    };
    figures.push(fallbacks(windows.rates(&points(&sum))));
    for (metric, _, of) in SHARED {
        let states = points(&|point| of(&point.sample));
        figures.push(WindowedFigure::state(metric, &states, windows));
    }
    figures
}

/// Requests that were served from a pageblock of another mobility, all pairs together.
fn fallbacks(rates: Vec<f64>) -> WindowedFigure {
    WindowedFigure::rate("fallbacks".into(), m::FALLBACKS.unit(), rates)
}

/// The requests of a kind in each window, by what their flags say.
fn counts(trace: &Trace, kind: OpKind, windows: TimeWindows) -> Vec<RequestCounts> {
    let mut counts = vec![RequestCounts::default(); windows.count()];
    let mut ms = 0;
    for op in &trace.ops {
        if op.kind() == OpKind::Tick {
            ms += u64::from(op.value);
        } else if let (true, Some(window)) = (op.kind() == kind, windows.at(ms)) {
            counts[window].note(
                op.order().index(),
                trace.gfp.get(usize::from(op.gfp)).copied(),
            );
        }
    }
    counts
}

/// A figure of both recordings.
#[derive(Debug, Clone, PartialEq)]
struct ComparedFigure {
    name: String,
    unit: String,
    shown_as: Option<Metric>,
    is_load: bool,
    values: [f64; 2],
    /// How far apart the two were when the recordings began.
    start_difference: Option<f64>,
    range: Option<DifferenceRange>,
}

impl ComparedFigure {
    /// Whether the difference is more than chance, and came up within the recordings.
    fn is_beyond(&self) -> bool {
        self.range.is_some_and(|range| range.is_beyond_chance()) && !self.is_from_before()
    }

    /// Whether the difference is more than chance, and was there when the recordings began.
    fn is_from_before(&self) -> bool {
        match (self.range, self.start_difference) {
            (Some(range), Some(start)) => {
                range.is_beyond_chance() && (range.low..=range.high).contains(&start)
            }
            _ => false,
        }
    }

    fn difference(&self) -> f64 {
        self.range
            .map_or(self.values[1] - self.values[0], |range| range.difference)
    }

    /// How far the difference is from 0, in halves of its range.
    fn distance(&self) -> f64 {
        let half = self
            .range
            .map_or(f64::INFINITY, |range| (range.high - range.low) / 2.0);
        self.difference().abs() / half.max(f64::MIN_POSITIVE)
    }

    fn shown(&self, value: f64) -> String {
        match self.shown_as {
            Some(metric) => metric.shown(value),
            None => shown_rate(value),
        }
    }

    fn signed(&self, value: f64) -> String {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", self.shown(value))
    }
}

/// Three digits or more.
fn shown_rate(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1000.0 => grouped(value.round()),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// One recording of the two.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRecording {
    /// Its name.
    pub name: String,
    /// How long it lasts.
    pub ms: u64,
    /// Its memory: the frames that the recording knows.
    pub frames: u64,
    /// The frames that the machine's zones manage, where a file beside it says so.
    pub managed: Option<u64>,
    /// The kernel, where a file beside it says so.
    pub kernel: Option<String>,
    /// Why its figures say less than they seem to.
    pub hollow: Vec<String>,
}

/// The figures of the machine itself, or of a policy's replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedVariant {
    /// `linux`, or the policy's name.
    pub variant: String,
    /// Where they come from.
    pub source: FigureSource,
    figures: Vec<ComparedFigure>,
}

impl ComparedVariant {
    /// The figures that both have.
    #[must_use]
    pub fn of(variant: &str, source: FigureSource, both: [Vec<WindowedFigure>; 2]) -> Self {
        let [a, b] = both;
        let figure = |a: WindowedFigure| {
            let b = b.iter().find(|b| b.name == a.name)?;
            Some(ComparedFigure {
                range: difference_range(&a.windows, &b.windows),
                values: [a.value, b.value],
                start_difference: a.at_start.zip(b.at_start).map(|(a, b)| b - a),
                name: a.name,
                unit: a.unit,
                shown_as: a.shown_as,
                is_load: a.is_load,
            })
        };
        Self {
            variant: variant.to_owned(),
            source,
            figures: a.into_iter().filter_map(figure).collect(),
        }
    }

    /// What the tables show and the verdict counts: a rate that is 0 in both says nothing.
    fn shown(&self) -> impl Iterator<Item = &ComparedFigure> {
        let occurs =
            |figure: &&ComparedFigure| figure.shown_as.is_some() || figure.values != [0.0; 2];
        self.figures.iter().filter(occurs)
    }

    fn grid(&self) -> Grid {
        let heading = |title: &str| Heading {
            title: title.into(),
            accent: None,
            is_published: false,
            is_base: false,
        };
        let row = |figure: &ComparedFigure| {
            let mark = match (figure.is_beyond(), figure.is_from_before()) {
                (true, _) => " *",
                (_, true) => " ^",
                _ => "",
            };
            let range = match figure.range {
                Some(range) => format!(
                    "{} to {}{mark}",
                    figure.signed(range.low),
                    figure.signed(range.high)
                ),
                None => "-".into(),
            };
            let rate = if figure.shown_as.is_none() { "/s" } else { "" };
            GridRow {
                labels: vec![format!("{}{rate}", figure.name)],
                unit: figure.unit.clone(),
                cells: vec![
                    figure.shown(figure.values[0]),
                    figure.shown(figure.values[1]),
                    range,
                    figure.signed(figure.difference()),
                ],
            }
        };
        Grid {
            labels: 1,
            headings: ["A", "B", "range of B - A", "B - A"].map(heading).to_vec(),
            rows: self.shown().map(row).collect(),
        }
    }
}

/// Two recordings, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingComparison {
    /// A, before the change, and B, after it.
    pub sides: [ComparedRecording; 2],
    /// Their windows.
    pub windows: [TimeWindows; 2],
    /// The machine first, then the policies.
    pub variants: Vec<ComparedVariant>,
}

impl RecordingComparison {
    /// What was compared, the verdict, and a table for the machine and for each policy.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for says in self.lead() {
            text += &format!("{says}\n");
        }
        text += "\nThe verdict\n";
        for says in self.verdict() {
            text += &format!("  {says}\n");
        }
        for variant in &self.variants {
            let what = match variant.source {
                FigureSource::Measured => "the machine itself",
                _ => "a replay of both",
            };
            text += &format!(
                "\n{} ({what})\n{}\n",
                shown_variant(&variant.variant),
                variant.grid().text()
            );
        }
        text += &format!(
            "\n* the {:.0} % range of the difference does not hold 0; ^ the same, but the two were as far apart when the \
             recordings began; /s: so many a second\n",
            RANGE_SHARE * 100.0
        );
        text
    }

    /// Both recordings, what they differ in, and what is hollow.
    fn lead(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for ((letter, side), windows) in ["A", "B"].into_iter().zip(&self.sides).zip(self.windows) {
            let kernel = side.kernel.as_deref().unwrap_or("not known");
            lines.push(format!(
                "{letter} is {}: {:.1} s (windows: {} of {} s), {} frames, kernel {kernel}",
                side.name,
                side.ms as f64 / 1000.0,
                windows.count(),
                windows.len_ms() as f64 / 1000.0,
                shown_frames(side.frames),
            ));
        }
        let [a, b] = &self.sides;
        let mut unlike = Vec::new();
        // As long as each other to the window.
        if self.windows[0].count() != self.windows[1].count() {
            unlike.push("length, so counts are rates");
        }
        if is_other_memory(a, b) {
            unlike.push("memory, so frames and blocks are of different wholes");
        }
        if let (Some(a), Some(b)) = (&a.kernel, &b.kernel)
            && a != b
        {
            unlike.push("kernel");
        }
        if !unlike.is_empty() {
            lines.push(format!("They differ in {}.", unlike.join("; in ")));
        }
        for (letter, side) in ["A", "B"].into_iter().zip(&self.sides) {
            lines.extend(
                side.hollow
                    .iter()
                    .map(|says| format!("Hollow in {letter}: {says}")),
            );
        }
        lines
    }

    fn is_too_short(&self) -> bool {
        self.windows
            .iter()
            .any(|windows| windows.count() < WINDOWS_MIN)
    }

    /// At most five sentences: what differs on the machine, under the policies, in the load, and how far that goes.
    #[must_use]
    pub fn verdict(&self) -> Vec<String> {
        if self.is_too_short() {
            let shorter = self
                .windows
                .iter()
                .map(TimeWindows::count)
                .min()
                .unwrap_or(0);
            return vec![format!(
                "These recordings cannot say what is chance: the shorter one has {shorter} of the {WINDOWS_MIN} \
                 windows that a range needs; record for longer, or give a shorter --window."
            )];
        }
        let mut sentences = Vec::new();
        let judged = |variant: &ComparedVariant, is_load: bool| -> Vec<ComparedFigure> {
            let of = |figure: &&ComparedFigure| figure.is_load == is_load && figure.range.is_some();
            variant.shown().filter(of).cloned().collect()
        };
        let (mut beyond, mut all) = (0, 0);
        let (mut from_before, mut not_before) = (BTreeSet::new(), BTreeSet::new());
        for variant in &self.variants {
            let figures = judged(variant, false);
            let differ: Vec<&ComparedFigure> =
                figures.iter().filter(|figure| figure.is_beyond()).collect();
            let from = figures.iter().filter(|figure| figure.is_from_before());
            from_before.extend(from.map(|figure| figure.name.clone()));
            not_before.extend(differ.iter().map(|figure| figure.name.clone()));
            (beyond, all) = (beyond + differ.len(), all + figures.len());
            let place = match variant.variant.as_str() {
                LINUX => "On the machine itself".to_owned(),
                policy => format!("Under {policy}"),
            };
            // The others stand in their tables.
            if !differ.is_empty() && sentences.len() < 2 {
                sentences.push(format!(
                    "{place} {} of {} figures differ beyond chance: {}.",
                    differ.len(),
                    figures.len(),
                    named(differ)
                ));
            }
        }
        if beyond == 0 {
            let within = match from_before.is_empty() {
                true => "",
                false => " that came up within the recordings",
            };
            sentences.push(format!(
                "Nothing{within} differs beyond chance, of {all} figures."
            ));
        }
        // What a sentence above names is not named again.
        let from_before: Vec<String> = from_before.difference(&not_before).cloned().collect();
        if !from_before.is_empty() {
            sentences.push(format!(
                "As far apart when the recordings began, so not of what was recorded: {}.",
                from_before.join(", ")
            ));
        }
        let load = self
            .variants
            .iter()
            .flat_map(|variant| judged(variant, true));
        let load: Vec<ComparedFigure> = load.filter(ComparedFigure::is_beyond).collect();
        if !load.is_empty() {
            sentences.push(format!(
                "The load differs, too: {}; what follows from that cannot be told from what the change did.",
                named(load.iter().collect())
            ));
        }
        if beyond > 0 {
            sentences.push(format!(
                "Of {all} figures about {:.0} lie outside their ranges by chance alone, and a range knows what varies \
                 within a recording, not from one to the next: compare two of one state of the machine first.",
                (all as f64 * (1.0 - RANGE_SHARE)).ceil()
            ));
        }
        sentences
    }

    /// The run and its figures as JSON Lines: a record a figure, also of those that are 0 in both. `value` is the
    /// difference.
    ///
    /// # Errors
    /// As [`json_lines`](crate::report::json_lines).
    pub fn json(&self, info: &RunInfo) -> serde_json::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct ComparedRecord<'a> {
            #[serde(flatten)]
            record: Record<'a>,
            a: f64,
            b: f64,
            /// Absent where there is no range.
            #[serde(skip_serializing_if = "Option::is_none")]
            low: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            high: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            is_beyond_chance: Option<bool>,
            /// Of a state.
            #[serde(skip_serializing_if = "Option::is_none")]
            start_difference: Option<f64>,
        }
        let mut out = Vec::new();
        line(&mut out, info)?;
        let case = format!("{}..{}", self.sides[0].name, self.sides[1].name);
        for variant in &self.variants {
            for figure in &variant.figures {
                let value = serde_json::Number::from_f64(figure.difference());
                let record = Record {
                    experiment: info.experiment,
                    case: &case,
                    variant: &variant.variant,
                    metric: figure.name.clone(),
                    value: value.unwrap_or_else(|| 0.into()),
                    unit: &figure.unit,
                    source: variant.source,
                };
                let [a, b] = figure.values;
                line(
                    &mut out,
                    &ComparedRecord {
                        record,
                        a,
                        b,
                        low: figure.range.map(|range| range.low),
                        high: figure.range.map(|range| range.high),
                        is_beyond_chance: figure.range.map(|range| range.is_beyond_chance()),
                        start_difference: figure.start_difference,
                    },
                )?;
            }
        }
        Ok(out)
    }
}

/// Memory that differs by no more than this part is one machine's: a recording knows the frames that were in use or free when it
/// began, and the next one of the same machine some others, because the kernel gives its own back and takes them.
const SAME_MEMORY_PART: u64 = 100;

/// Whether two recordings are of machines with different memory: by what their zones manage where both say it, and otherwise by
/// the frames that they know.
fn is_other_memory(a: &ComparedRecording, b: &ComparedRecording) -> bool {
    let (a, b) = a.managed.zip(b.managed).unwrap_or((a.frames, b.frames));
    a.abs_diff(b) > a.max(b) / SAME_MEMORY_PART
}

/// What is lower in B, and what is higher, the furthest from chance first.
fn named(mut figures: Vec<&ComparedFigure>) -> String {
    figures.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
    let more = figures.len().saturating_sub(NAMED_MAX);
    figures.truncate(NAMED_MAX);
    let part = |word: &str, is_lower: bool| {
        let of = |figure: &&&ComparedFigure| (figure.difference() < 0.0) == is_lower;
        let each = figures.iter().filter(of).map(|figure| {
            let [a, b] = figure.values;
            let unit = if figure.shown_as.is_none() {
                " a second"
            } else {
                ""
            };
            format!(
                "{} ({} to {}{unit})",
                figure.name,
                figure.shown(a),
                figure.shown(b)
            )
        });
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("{word} in B {}", each.join(", ")))
    };
    let mut parts: Vec<String> = [part("lower", true), part("higher", false)]
        .into_iter()
        .flatten()
        .collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

#[cfg(test)]
#[path = "compared_tests.rs"]
mod tests;
