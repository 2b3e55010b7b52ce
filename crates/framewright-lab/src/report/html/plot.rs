//! Plots, drawn by `plotters` in colours that the page's style maps to its own.

use crate::measure::grouped;
use crate::report::{Accent, Latency, OverTime, PlotLine, Scale};
use maud::{Markup, html};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt;

/// How large a plot is, in units of its own coordinates; the page scales it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlotSize {
    /// In a section.
    Full,
    /// On a card, which is narrower, so that text in it stays as large.
    Card,
}

impl PlotSize {
    const fn units(self) -> (u32, u32) {
        match self {
            Self::Full => (600, 290),
            Self::Card => (420, 220),
        }
    }
}

/// More points than a line's pixels cannot be seen.
const POINTS_MAX: usize = 360;

/// Stand-ins: the style gives each of them the page's colour, in its light and its dark form.
const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
const RULE: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const OTHER: RGBColor = RGBColor(0x88, 0x88, 0x88);
const ACCENTS: [RGBColor; 4] = [
    RGBColor(0xb4, 0x53, 0x09),
    RGBColor(0x03, 0x69, 0xa1),
    RGBColor(0x04, 0x78, 0x57),
    RGBColor(0x86, 0x19, 0x8f),
];

/// A plot that cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlotError(String);

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot draw a plot: {}", self.0)
    }
}

impl std::error::Error for PlotError {}

impl PlotError {
    fn of(cause: impl fmt::Display) -> Self {
        Self(cause.to_string())
    }
}

/// A document's line has a colour of its own, one step beside ours, so that the style tells them apart.
fn colour(line: &PlotLine) -> RGBColor {
    let Some(accent) = line.accent else {
        return OTHER;
    };
    let RGBColor(red, green, blue) = ACCENTS[accent as usize];
    RGBColor(red, green, blue + u8::from(line.is_published))
}

/// Values over time, or over another quantity.
pub(super) fn over_time(id: &str, plot: &OverTime, size: PlotSize) -> Result<String, PlotError> {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let end = positive(points().map(|point| point.0).fold(0.0, f64::max));
    let top = positive(points().map(|point| point.1).fold(0.0, f64::max));
    let svg = drawn(size, |area| match plot.scale {
        Scale::Linear => {
            let mut chart = builder(area)
                .build_cartesian_2d(0.0..end, 0.0..top * 1.05)
                .map_err(PlotError::of)?;
            let mut mesh = chart.configure_mesh();
            mesh.x_label_formatter(&|x| number(*x))
                .y_label_formatter(&|y| number(*y));
            styled(&mut mesh, plot.across, plot.value)?;
            lines(&mut chart, &plot.lines)?;
            let names = plot.lines.iter().filter_map(|line| name(line, end));
            chart.draw_series(names).map_err(PlotError::of)?;
            Ok(())
        }
        Scale::Logarithmic => {
            let above = |value: f64| value > 0.0;
            let least = |of: fn(&(f64, f64)) -> f64, most: f64| {
                let least = points().map(of).filter(|&v| above(v)).fold(most, f64::min);
                10f64.powf(least.log10().floor()).min(most / 10.0)
            };
            let (start, low) = (least(|p| p.0, end), least(|p| p.1, top));
            let mut chart = builder(area)
                .build_cartesian_2d((start..end).log_scale(), (low..top * 1.2).log_scale())
                .map_err(PlotError::of)?;
            let mut mesh = chart.configure_mesh();
            mesh.x_label_formatter(&|x| number(*x))
                .y_label_formatter(&|y| number(*y));
            styled(&mut mesh, plot.across, plot.value)?;
            let placed = |line: &PlotLine| PlotLine {
                points: line
                    .points
                    .iter()
                    .copied()
                    .filter(|p| above(p.0) && above(p.1))
                    .collect(),
                ..line.clone()
            };
            lines(
                &mut chart,
                &plot.lines.iter().map(placed).collect::<Vec<_>>(),
            )
        }
    })?;
    Ok(labelled(id, &plot.title, &described(plot), &svg, size))
}

/// A plot in words: the places it marks by both axes, or where its lines end.
fn described(plot: &OverTime) -> String {
    let marks = plot.lines.iter().filter_map(|line| {
        let (x, y) = line.mark?.at;
        Some(format!("{} {} and {}", line.name, number(x), number(y)))
    });
    let marks: Vec<String> = marks.collect();
    if !marks.is_empty() {
        return format!(
            "By {} and by {}: {}",
            plot.across,
            plot.value,
            marks.join("; ")
        );
    }
    let ends = plot.lines.iter().filter_map(|line| {
        let (_, value) = line.points.last()?;
        Some(format!("{} ends at {}", line.name, number(*value)))
    });
    ends.collect::<Vec<_>>().join("; ")
}

/// The name beside the place that a line marks, on the side where there is room.
fn name(line: &PlotLine, end: f64) -> Option<Text<'static, (f64, f64), String>> {
    let mark = line.mark.filter(|mark| mark.is_named)?;
    let side = match mark.at.0 * 2.0 > end {
        true => HPos::Right,
        false => HPos::Left,
    };
    let style = ("sans-serif", 13).into_font().color(&INK);
    let style = style.pos(Pos::new(side, VPos::Bottom));
    Some(Text::new(line.name.clone(), mark.at, style))
}

/// Draws the lines, those without an accent behind the others.
fn lines<X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    lines: &[PlotLine],
) -> Result<(), PlotError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for line in ordered(lines) {
        let style = colour(line).stroke_width(2);
        let drawn = chart.draw_series(LineSeries::new(thinned(&line.points), style));
        drawn.map_err(|e| PlotError(format!("{}: {e}", line.name)))?;
    }
    Ok(())
}

/// Latencies: what share of the calls took at most how long, the tail spread out.
pub(super) fn latency(id: &str, latency: &Latency, size: PlotSize) -> Result<String, PlotError> {
    let lines: Vec<PlotLine> = latency
        .of
        .iter()
        .map(|one| PlotLine {
            name: one.variant.to_owned(),
            accent: Accent::of(one.variant),
            is_published: false,
            points: one
                .shares
                .iter()
                .map(|&(share, ns)| (nines(share), ns))
                .collect(),
            mark: None,
        })
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let end = points().map(|point| point.0).fold(1.0, f64::max).ceil();
    let top = points().map(|point| point.1).fold(10.0, f64::max);
    let low = points().map(|point| point.1).fold(top, f64::min).max(1.0);
    let low = 10f64.powf(low.log10().floor());
    // More of them would run into one another.
    let every_second = size == PlotSize::Card && end > 4.0;
    let label = |x: &f64| match every_second && x.round() as i64 % 2 == 1 {
        true => String::new(),
        false => share(*x),
    };
    let svg = drawn(size, |area| {
        let mut chart = builder(area)
            .build_cartesian_2d(0.0..end, (low..top * 1.2).log_scale())
            .map_err(PlotError::of)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(end as usize + 1)
            .x_label_formatter(&label)
            .y_label_formatter(&|y| time(*y));
        styled(
            &mut mesh,
            "share of the calls that took no longer",
            "time of a call",
        )?;
        self::lines(&mut chart, &lines)
    })?;
    let at = |one: &crate::report::Distribution, share: f64| {
        let found = one.shares.iter().find(|step| step.0 >= share);
        found.map_or_else(|| "-".into(), |step| time(step.1))
    };
    let said: Vec<String> = latency
        .of
        .iter()
        .map(|one| {
            format!(
                "{}: half within {}, 99 % within {}",
                one.variant,
                at(one, 0.5),
                at(one, 0.99)
            )
        })
        .collect();
    Ok(labelled(id, &latency.title, &said.join("; "), &svg, size))
}

/// The documents' lines and those without an accent first, so that they lie behind the others.
fn ordered(lines: &[PlotLine]) -> impl Iterator<Item = &PlotLine> {
    let is_front = |line: &PlotLine| line.accent.is_some() && !line.is_published;
    let by = move |front: bool| lines.iter().filter(move |line| is_front(line) == front);
    by(false).chain(by(true))
}

type PlotArea<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// What `draw` draws, as SVG.
fn drawn(
    size: PlotSize,
    draw: impl FnOnce(&PlotArea<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size.units()).into_drawing_area();
        draw(&area)?;
        area.present().map_err(PlotError::of)?;
    }
    Ok(svg)
}

fn builder<'a, 's>(area: &'a PlotArea<'s>) -> ChartBuilder<'a, 's, SVGBackend<'s>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(6)
        .margin_right(24)
        .x_label_area_size(48)
        .y_label_area_size(84);
    builder
}

fn styled<X, Y>(
    mesh: &mut plotters::chart::MeshStyle<'_, '_, X, Y, SVGBackend<'_>>,
    x: &str,
    y: &str,
) -> Result<(), PlotError>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let text = ("sans-serif", 15).into_font().color(&INK);
    mesh.x_desc(x)
        .y_desc(y)
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RULE)
        .axis_style(INK)
        .label_style(text.clone())
        .axis_desc_style(text)
        .draw()
        .map_err(PlotError::of)
}

/// The picture with its name and a description in place of the size and the namespace that a file of
/// its own would need.
fn labelled(id: &str, title: &str, said: &str, svg: &str, size: PlotSize) -> String {
    let inner = svg
        .split_once('>')
        .map_or(svg, |(_, inner)| inner)
        .trim_start();
    let (width, height) = size.units();
    let mut text = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">"
    );
    let head: Markup = html! {
        title id={ (id) "-t" } { (title) }
        desc id={ (id) "-d" } { (said) }
    };
    text += &head.into_string();
    // Opaque is what everything is anyway.
    text += &inner.replace(" opacity=\"1\"", "");
    text
}

fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let last = points.len() - 1;
    (0..POINTS_MAX)
        .map(|nth| points[nth * last / (POINTS_MAX - 1)])
        .collect()
}

/// A value that an axis can end at.
fn positive(value: f64) -> f64 {
    if value.is_finite() && value > 0.0 {
        value
    } else {
        1.0
    }
}

/// How many nines a share has: 0 for none, 1 for 90 %, 2 for 99 %.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// The share with this many nines.
fn share(nines: f64) -> String {
    match nines.round() as i32 {
        ..=0 => "0 %".into(),
        1 => "90 %".into(),
        2 => "99 %".into(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

/// Nanoseconds in the unit that suits them.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", number(value))
}

/// With as many digits as matter.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        larger if larger >= 1000.0 => return grouped(value.round()),
        large if large >= 100.0 => 0,
        tiny if tiny < 0.05 => 4,
        small if small < 1.0 => 2,
        _ => 1,
    };
    let text = format!("{value:.digits$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::PlotMark;

    #[test]
    fn axes_say_shares_and_times_as_a_reader_wants_them() {
        assert_eq!(
            [0.0, 1.0, 2.0, 3.0, 4.0].map(share),
            ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]
        );
        assert_eq!(
            [7.0, 1500.0, 2e6, 3.25e9].map(time),
            ["7 ns", "1.5 µs", "2 ms", "3.2 s"]
        );
        assert!((nines(0.999) - 3.0).abs() < 1e-9);
        assert_eq!(
            [0.0, 0.0015, 0.2, 0.25, 1.5, 20.0, 1234.5].map(number),
            ["0", "0.0015", "0.2", "0.25", "1.5", "20", "1 235"]
        );
    }

    #[test]
    fn a_place_has_its_name_beside_it_and_both_its_costs_in_words() {
        let line = |name: &str, at: (f64, f64), is_named| PlotLine {
            name: name.into(),
            accent: None,
            is_published: false,
            points: vec![at],
            mark: Some(PlotMark { at, is_named }),
        };
        let plot = OverTime {
            title: "t".into(),
            across: "failures",
            scale: Scale::Linear,
            value: "blocks",
            lines: vec![
                line("first", (0.0, 4.0), true),
                line("second", (1200.0, 0.5), false),
                line("third", (1200.0, 0.0), true),
            ],
            note: String::new(),
        };
        let svg = over_time("id", &plot, PlotSize::Full).unwrap();
        assert!(
            svg.contains(
                "By failures and by blocks: first 0 and 4; second 1 200 and 0.5; third 1 200 and 0"
            ),
            "{svg}"
        );
        let is_drawn = |name: &str| svg.contains(&format!("{name}\n</text>"));
        assert!(
            is_drawn("first") && is_drawn("third") && !is_drawn("second"),
            "{svg}"
        );
    }

    #[test]
    fn a_long_line_keeps_its_ends() {
        let points: Vec<(f64, f64)> = (0..5000).map(|n| (f64::from(n), 0.0)).collect();
        let few = thinned(&points);
        assert_eq!(few.len(), POINTS_MAX);
        assert_eq!((few[0].0, few[POINTS_MAX - 1].0), (0.0, 4999.0));
    }
}
