//! What `gcma` says: its tables, the requests' and the build's; its plots, and what came out.
//!
//! Both tables have the columns of every experiment, `before` being CMA and `proposed` GCMA; behind them what only
//! this document has.

use super::metrics::{self as m, Of};
use super::{BACKGROUND, BesideRequests, DRAWN_ABOVE, Device, GcmaOptions, SIZES};
use crate::experiment::{CalibratedClock, Detail, FRAMEWRIGHT, Findings};
use crate::measure::Metric;
use crate::report::{
    Accent, Figure, FigureColumn, FigureSource, Item, MachineRecord, Note, OverTime, PlotLine,
    Scale, Tabled, figure_cases, figure_grid_of, figure_value,
};

pub(super) const INTRODUCTION: &str = "\
S. Park, 2015: requests for 1 to 32,000 contiguous frames, each released at once. CMA lends the area to whatever can
be moved and moves it away (before); the proposal, GCMA, lends it to pages that may be dropped (proposed); framewright
drops them by moving a generation on. Beside it a build-like job reads, compresses and writes real files in memory too
small for it.
";

pub(super) const METHOD: &str = "\
From a request's call to its return, served or not, less what reading the clock takes; the requests of a size are \
spread over the build. Between two of them the guests fill the area again, which is not timed. preempted: requests \
during which the scheduler took the CPU away, whose latency is then the scheduler's. The build: CPU time of its \
threads, and the time until the last of them is done. The document's machine had four CPUs of 1 GHz: compare columns \
of one machine.";

/// The columns. The build's table has all of them; the requests' table has no `original`.
const COLUMNS: [FigureColumn; 9] = [
    ("cma", true, "published\nbefore\n(cma)"),
    ("gcma", true, "published\nproposed\n(gcma)"),
    ("cma", false, "before\n(cma)"),
    ("gcma", false, "proposed\n(gcma)"),
    ("framewright", false, "framewright"),
    ("gcma.zram", true, "published\ngcma.zram"),
    ("gcma.zram", false, "gcma.zram"),
    ("original", true, "published\noriginal"),
    ("original", false, "original"),
];

/// How many of them the requests' table has: the variant `original` makes no requests.
const OF_REQUESTS: usize = 7;

/// What the command shows.
fn in_full(metric: Metric) -> bool {
    ![m::REQUESTS, m::LATENCY_US.of(Of::P99 as usize)].contains(&metric)
}

/// What the main job shows.
fn in_short(metric: Metric) -> bool {
    in_full(metric) && ![m::PAGES_MIGRATED, m::PAGES_DISCARDED, m::WAIT_US].contains(&metric)
}

/// The tables and what a reader must know: the requests', and the build's if there was one.
pub(super) fn tables(figures: &[Figure], options: &GcmaOptions, detail: Detail) -> Vec<Tabled> {
    let shows = match detail {
        Detail::Full => in_full,
        Detail::Short => in_short,
    };
    let (builds, requests): (Vec<_>, Vec<_>) =
        figures.iter().cloned().partition(|f| f.case == BACKGROUND);
    let mut tables = vec![of_requests(&requests, options, shows)];
    if !builds.is_empty() {
        tables.push(of_builds(&builds, options, shows));
    }
    tables
}

fn of_requests(figures: &[Figure], options: &GcmaOptions, shows: fn(Metric) -> bool) -> Tabled {
    let machine = MachineRecord::this();
    let beside = match (options.idle, options.background) {
        (true, _) => "guests' clean pages in every frame, nobody at work",
        (false, BesideRequests::None) => "every frame free, nobody at work",
        (false, BesideRequests::Build) => match options.device {
            Device::Card => "beside a build on an emulated class 10 SD card",
            Device::Host => "beside a build on the host's own device",
        },
        (false, BesideRequests::Guest) => {
            "guests' clean pages in every frame, one guest always busy"
        }
    };
    let mut notes = vec![format!(
        "published: CuBox i4 Pro, 4 CPUs ARMv7 at 1 GHz, 800 MiB, 256 MiB reserved, beside a kernel build. Ours: {},\n\
         {} CPUs. From a request's call to its return, less the clock's own {} ns.",
        machine.cpu,
        machine.cpus,
        CalibratedClock::calibrated().own_ns,
    )];
    let has = |frames: &u64| figures.iter().any(|f| f.case == frames.to_string());
    let (last, lacking) = (
        SIZES.iter().rfind(|s| has(s)),
        SIZES.iter().filter(|s| !has(s)).count(),
    );
    if let (Some(last), 1..) = (last, lacking) {
        notes.push(format!(
            "{lacking} of the document's {} sizes are not shown: an area of {} MiB has room for one request of each \
             up to {last} frames.",
            SIZES.len(),
            options.reserve_bytes >> 20,
        ));
    }
    Tabled {
        caption: format!(
            "gcma: {} requests of {} from {} MiB of {} MiB; {beside}",
            options.requests,
            if options.requests > DRAWN_ABOVE {
                "sizes that are drawn"
            } else {
                "each size"
            },
            options.reserve_bytes >> 20,
            options.ram_bytes >> 20,
        ),
        grid: figure_grid_of(&COLUMNS[..OF_REQUESTS], figures, shows),
        notes: notes.into_iter().map(Note::Text).collect(),
    }
}

fn of_builds(figures: &[Figure], options: &GcmaOptions, shows: fn(Metric) -> bool) -> Tabled {
    let notes = format!(
        "published: five kernel builds on that board. Ours: {} build(s) of each variant by turns, {} worker(s).",
        options.runs, options.workers
    );
    Tabled {
        caption:
            "gcma, the build: what it takes beside the requests; original is cma without a request"
                .into(),
        grid: figure_grid_of(&COLUMNS, figures, shows),
        notes: vec![Note::Text(notes)],
    }
}

/// The longest and the mean latencies by size, and the latencies of each size.
pub(super) fn plots(findings: &Findings) -> Vec<Item> {
    let figures = &findings.figures;
    let mut items = vec![
        by_frames("Longest latency of a request", Of::Max, figures),
        by_frames("Mean latency of a request", Of::Avg, figures),
    ];
    let sizes = findings.latencies.chunk_by(|a, b| a.case == b.case);
    items.extend(sizes.filter_map(|of| {
        let title = format!("Frames asked for: {}; how long a request takes", of[0].case);
        Item::latencies(title, of.to_vec())
    }));
    items
}

const CMA: &str = "cma";
const GCMA: &str = "gcma";

/// Latency over the number of frames, behind ours the document's lines of the two that every document has.
fn by_frames(title: &str, of: Of, figures: &[Figure]) -> Item {
    let mut lines: Vec<PlotLine> = Vec::new();
    for figure in figures
        .iter()
        .filter(|f| f.metric == m::LATENCY_US.of(of as usize))
    {
        let is_published = figure.source == FigureSource::Published;
        let accent = Accent::of(figure.variant);
        let Ok(frames) = figure.case.parse::<f64>() else {
            continue;
        };
        if is_published && accent.is_none() {
            continue;
        }
        let published = if is_published { "published " } else { "" };
        let name = format!("{published}{}", figure.variant);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((frames, figure.value)),
            None => lines.push(PlotLine {
                name,
                accent,
                is_published,
                points: vec![(frames, figure.value)],
            }),
        }
    }
    Item::OverTime(OverTime {
        title: title.into(),
        across: "frames asked for",
        value: "microseconds",
        scale: Scale::Logarithmic,
        lines,
        note: "Both axes are logarithmic. The document's lines are of another machine.".into(),
    })
}

/// What was reproduced, by how much it differs, and why: only what these figures say.
pub(super) fn verdict(figures: &[Figure], device: Device) -> Vec<String> {
    let lines = [
        against_cma(figures, device),
        longest(figures),
        ours(figures),
        build(figures),
    ];
    lines.into_iter().flatten().collect()
}

/// How many times one variant's value is the other's, at each size at which both were measured: ours and the
/// document's.
fn times(figures: &[Figure], metric: Metric, over: &str, under: &str) -> Vec<(u64, f64, f64)> {
    let of = |case: &str, is_published| {
        let of = |variant| figure_value(figures, case, variant, metric, is_published);
        Some(of(over)? / of(under)?).filter(|ratio| ratio.is_finite())
    };
    let at = |case: &str| Some((case.parse().ok()?, of(case, false)?, of(case, true)?));
    figure_cases(figures).into_iter().filter_map(at).collect()
}

/// Each size with ours and, in brackets, the document's.
fn listed(times: &[(u64, f64, f64)]) -> String {
    let one = |(frames, own, theirs): &(u64, f64, f64)| {
        format!("{frames} {} ({})", ratio(*own), ratio(*theirs))
    };
    times.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// With as many digits as matter.
fn ratio(value: f64) -> String {
    match value {
        large if large >= 10.0 => format!("{large:.0}"),
        small if small < 0.1 => format!("{small:.3}"),
        _ => format!("{value:.1}"),
    }
}

/// The sum of a count over all sizes.
fn sum(figures: &[Figure], variant: &str, metric: Metric) -> f64 {
    let of = |f: &&Figure| {
        f.variant == variant && f.metric == metric && f.source != FigureSource::Published
    };
    figures.iter().filter(of).map(|f| f.value).sum()
}

/// The means, which is what the document's claim is about.
fn against_cma(figures: &[Figure], device: Device) -> Option<String> {
    let times = times(figures, m::LATENCY_US.of(Of::Avg as usize), CMA, GCMA);
    let all = times.len();
    let ahead = |of: fn(&(u64, f64, f64)) -> f64| times.iter().filter(|t| of(t) > 1.0).count();
    let why = match device {
        _ if times.iter().all(|t| t.1 >= t.2) => "",
        Device::Host => {
            "; where ours is less: on the document's board cma waits for pages that are on their way to an SD card, \
             here files and swap lie on the host's own device"
        }
        Device::Card => {
            "; where ours is less: cma finds frames that are free, or fewer pages on their way to the card, which is \
             emulated"
        }
    };
    (all > 0).then(|| {
        format!(
            "gcma's mean latency is below cma's at {} of {all} sizes (published: {}); cma's over gcma's by frames, \
             published in brackets: {}{why}.",
            ahead(|t| t.1),
            ahead(|t| t.2),
            listed(&times)
        )
    })
}

/// The longest ones, from the size on from which the document has CMA's in the hundreds of milliseconds.
fn longest(figures: &[Figure]) -> Option<String> {
    const FROM: u64 = 2048;
    let mut times = times(figures, m::LATENCY_US.of(Of::Max as usize), CMA, GCMA);
    times.retain(|t| t.0 >= FROM);
    let preempted = |variant| sum(figures, variant, m::PREEMPTED);
    let all = |variant| sum(figures, variant, m::REQUESTS);
    (!times.is_empty()).then(|| {
        format!(
            "longest latency from {FROM} frames up, cma's over gcma's: {}; others had the CPU during {} of cma's {} \
             requests and {} of gcma's {}, and what they took of it is in the longest.",
            listed(&times),
            preempted(CMA),
            all(CMA),
            preempted(GCMA),
            all(GCMA)
        )
    })
}

/// This engine's middle latencies, and how many requests of each variant failed. The middle holds no time
/// slice of another thread's, as the longest may.
fn ours(figures: &[Figure]) -> Option<String> {
    let at = |case: &str| {
        let of = |variant| {
            figure_value(
                figures,
                case,
                variant,
                m::LATENCY_US.of(Of::P50 as usize),
                false,
            )
        };
        let shown = |us: f64| m::LATENCY_US.of(Of::P50 as usize).shown(us);
        let own = shown(of(FRAMEWRIGHT)?);
        let others = [CMA, GCMA].map(|variant| of(variant).map_or_else(|| "-".into(), shown));
        Some(format!("{case} {own} ({}, {})", others[0], others[1]))
    };
    let all: Vec<String> = figure_cases(figures).into_iter().filter_map(at).collect();
    let failures = |variant| sum(figures, variant, m::FAILURES);
    (!all.is_empty()).then(|| {
        format!(
            "framewright's middle latency in us by frames (cma's, gcma's): {}. Requests that got nothing: {} of \
             framewright's, {} of cma's, {} of gcma's.",
            all.join(", "),
            failures(FRAMEWRIGHT),
            failures(CMA),
            failures(GCMA)
        )
    })
}

/// The build's time over that of `original`.
fn build(figures: &[Figure]) -> Option<String> {
    let of = |variant, is_published| {
        figure_value(
            figures,
            BACKGROUND,
            variant,
            m::ELAPSED_VS_ORIGINAL,
            is_published,
        )
    };
    let own = [CMA, GCMA, FRAMEWRIGHT].map(|variant| of(variant, false));
    let [Some(cma), Some(gcma), Some(ours)] = own else {
        return None;
    };
    let theirs = |variant| of(variant, true).map_or_else(|| "-".into(), |v| format!("{v:.2}"));
    let holds = |is: bool| if is { "holds" } else { "does not hold" };
    let asked = sum(figures, GCMA, m::REQUESTS);
    let seconds = figure_value(figures, BACKGROUND, GCMA, m::ELAPSED_S, false)?;
    Some(format!(
        "the build takes {cma:.2} times as long beside cma (published {}), {gcma:.2} beside gcma (published {}), {ours:.2} \
         beside framewright: gcma <= cma, as published, {}, framewright <= gcma {}. What a request drops the build reads \
         again: gcma had {asked} requests beside builds of {seconds:.0} s, the document's some 256 beside one of 515 s.",
        theirs(CMA),
        theirs(GCMA),
        holds(gcma <= cma),
        holds(ours <= gcma)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(
        case: &str,
        variant: &'static str,
        metric: Metric,
        value: f64,
        is_published: bool,
    ) -> Figure {
        let source = if is_published {
            FigureSource::Published
        } else {
            FigureSource::Measured
        };
        Figure {
            case: case.into(),
            variant,
            metric,
            value,
            source,
        }
    }

    #[test]
    fn a_line_says_what_the_figures_say_and_nothing_of_what_was_not_run() {
        let of = |metric, case, variant, own, theirs| {
            [
                figure(case, variant, metric, own, false),
                figure(case, variant, metric, theirs, true),
            ]
        };
        let (avg, max) = (
            m::LATENCY_US.of(Of::Avg as usize),
            m::LATENCY_US.of(Of::Max as usize),
        );
        let mut figures = [
            of(avg, "512", CMA, 1.0, 5.0),
            of(avg, "512", GCMA, 2.0, 10.0),
            of(avg, "2048", CMA, 60.0, 90.0),
            of(avg, "2048", GCMA, 2.0, 3.0),
            of(max, "2048", CMA, 800.0, 58.0),
            of(max, "2048", GCMA, 4.0, 2.0),
        ]
        .concat();
        let all = verdict(&figures, Device::Host);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(
            all[0].contains("at 1 of 2 sizes (published: 1)"),
            "{}",
            all[0]
        );
        assert!(
            all[0].contains("512 0.5 (0.5), 2048 30 (30)."),
            "{}",
            all[0]
        );
        assert!(all[1].contains("2048 200 (29)"), "{}", all[1]);
        // As soon as ours falls short, it is said why.
        figures[0].value = 0.5;
        assert!(verdict(&figures, Device::Host)[0].contains("SD card"));
        let p50 = m::LATENCY_US.of(Of::P50 as usize);
        figures.push(figure("512", FRAMEWRIGHT, p50, 0.75, false));
        figures.push(figure("512", CMA, m::FAILURES, 3.0, false));
        let ours = &verdict(&figures, Device::Host)[2];
        assert!(
            ours.contains("512 0.75 (-, -)") && ours.contains("3 of cma's"),
            "{ours}"
        );
        for (variant, own) in [(CMA, 1.1), (GCMA, 1.2), (FRAMEWRIGHT, 1.15)] {
            let metric = m::ELAPSED_VS_ORIGINAL;
            figures.push(figure(BACKGROUND, variant, metric, own, false));
        }
        figures.push(figure(BACKGROUND, GCMA, m::ELAPSED_S, 9.0, false));
        let build = &verdict(&figures, Device::Host)[3];
        let says = "as published, does not hold, framewright <= gcma holds";
        assert!(build.contains(says), "{build}");
    }
}
