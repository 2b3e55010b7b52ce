//! What `gcma` says: its tables, the requests' and the build's; its plots, and what came out.
//!
//! Both tables have the columns of every experiment, `before` being CMA and `proposed` GCMA; behind them what only
//! this document has.

use super::metrics::{self as m, Of};
use super::{BACKGROUND, BesideRequests, Device, GcmaOptions, Lengths, SIZES};
use crate::experiment::timing::FOREIGN_MAX;
use crate::experiment::{CalibratedClock, Detail, FRAMEWRIGHT, Findings};
use crate::measure::Metric;
use crate::report::{
    Accent, CardFigure, Figure, FigureColumn, FigureSource, Item, MachineRecord, Note, OverTime,
    PlotLine, Scale, Tabled, VerdictCard, figure_cases, figure_grid_of, figure_value,
};

pub(super) const INTRODUCTION: &str = "\
S. Park, 2015: requests for 1 to 32,000 contiguous frames, each released at once. CMA lends the area to whatever can
be moved and moves it away (before); the proposal, GCMA, lends it to pages that may be dropped (proposed); framewright
drops them by moving a generation on. Beside it a build-like job reads, compiles and writes real files, with the
compilers' heaps in paged memory and the page cache in all that is left.
";

pub(super) const METHOD: &str = "\
From a request's call to its return, served or not, less what reading the clock takes. Beside a build requests come by \
time (in the document one each two seconds) and take no heed of how long others took; the table says how often, and \
whether a variant knows their lengths. Between two of them the guests fill the area again, which is not timed. \
preempted: requests during which the scheduler took the CPU away, whose latency is then the scheduler's. The build: CPU \
time of its threads, and the time until the last of them is done. The document's machine had four CPUs of 1 GHz: \
compare columns of one machine.";

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
        (true, _) => "guests' clean pages in every frame, no build at work",
        (false, BesideRequests::None) => "every frame free, no build at work",
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
            "gcma: {} from {} MiB of {} MiB; {beside}; {}",
            asked_for(options),
            options.reserve_bytes >> 20,
            options.ram_bytes >> 20,
            match options.lengths {
                Lengths::Unknown => "no variant knows their lengths before",
                Lengths::Known => "all variants know their lengths before",
            }
        ),
        grid: figure_grid_of(&COLUMNS[..OF_REQUESTS], figures, shows),
        notes: notes.into_iter().map(Note::Text).collect(),
    }
}

/// How many requests there are, and how often one comes. Beside a build there are more, if it lasts.
fn asked_for(options: &GcmaOptions) -> String {
    let of = if options.is_drawn() {
        "sizes that are drawn"
    } else {
        "each size"
    };
    if options.at_work() != BesideRequests::Build {
        return format!("{} requests of {of}", options.requests);
    }
    let often = options.interval.as_secs_f64();
    format!(
        "at least {} requests of {of}, one each {often} s,",
        options.requests
    )
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

const MEAN_LATENCY: &str = "Mean latency of a request";

/// The longest and the mean latencies by size, and the latencies of each size.
pub(super) fn plots(findings: &Findings) -> Vec<Item> {
    let figures = &findings.figures;
    let mut items = vec![
        by_frames("Longest latency of a request", Of::Max, figures),
        by_frames(MEAN_LATENCY, Of::Avg, figures),
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
                mark: None,
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

/// What was reproduced, by how much it differs, and what was counted where it was not: only what these figures say, of
/// `runs` builds of each variant.
pub(super) fn verdict(figures: &[Figure], runs: u32) -> Vec<String> {
    let lines = [
        against_cma(figures),
        longest(figures),
        build(figures, runs),
        ours(figures),
        our_build(figures, runs),
    ];
    let load = beside_load(figures);
    let lines = lines.into_iter().flatten();
    lines.map(|line| format!("{load}{line}")).collect()
}

/// At how many sizes discarding is faster than moving.
pub(super) fn card(findings: &Findings, runs: u32) -> Option<VerdictCard> {
    let times = sizes_ahead(&findings.figures);
    let ahead = times.iter().filter(|t| t.1 > 1.0).count();
    against_cma(&findings.figures)?;
    Some(VerdictCard {
        verdict: verdict(&findings.figures, runs).into_iter().next()?,
        figure: CardFigure::new(
            format!("{ahead} of {}", times.len()),
            "sizes at which lent memory comes back sooner by discarding (gcma) than by moving (cma), of those at which it \
             does in the document",
        ),
        plot: Some(by_frames(MEAN_LATENCY, Of::Avg, &findings.figures)),
    })
}

/// What stands before each sentence where others had the CPUs meanwhile.
fn beside_load(figures: &[Figure]) -> String {
    let of_load = figures.iter().filter(|f| f.metric == m::FOREIGN_LOAD);
    let most = of_load.map(|f| f.value).fold(0.0, f64::max);
    if most > FOREIGN_MAX {
        format!("Others had up to {most:.1} CPUs meanwhile. ")
    } else {
        String::new()
    }
}

/// Of how many builds a figure is.
fn of_runs(runs: u32) -> String {
    match runs {
        1 => "(one build)".into(),
        more => format!("(means of {more} builds)"),
    }
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

/// Each size with its ratio and what the counters say of cma's requests of that size, where the ratio is not as it
/// should be.
fn excused(figures: &[Figure], times: &[(u64, f64, f64)], least: f64) -> String {
    let of = |frames: u64, variant, metric| {
        figure_value(figures, &frames.to_string(), variant, metric, false).unwrap_or(0.0)
    };
    let below = times.iter().filter(|t| t.1 < least);
    let one = |(frames, own, theirs): &(u64, f64, f64)| {
        let requests = of(*frames, CMA, m::REQUESTS).max(1.0);
        format!(
            "at {frames} frames, {} times (published {}), a request of cma's moved {:.0} pages and waited {:.0} us, one \
             of gcma's dropped {:.0}",
            ratio(*own),
            ratio(*theirs),
            of(*frames, CMA, m::PAGES_MIGRATED) / requests,
            of(*frames, CMA, m::WAIT_US) / requests,
            of(*frames, GCMA, m::PAGES_DISCARDED) / of(*frames, GCMA, m::REQUESTS).max(1.0),
        )
    };
    below.map(one).collect::<Vec<_>>().join("; ")
}

/// By how much cma's mean is above gcma's, at the sizes at which it is in the document.
fn sizes_ahead(figures: &[Figure]) -> Vec<(u64, f64, f64)> {
    let mut times = times(figures, m::LATENCY_US.of(Of::Avg as usize), CMA, GCMA);
    times.retain(|t| t.2 > 1.0);
    times
}

/// The means, at the sizes at which the document has gcma's below cma's.
fn against_cma(figures: &[Figure]) -> Option<String> {
    let times = sizes_ahead(figures);
    let (all, ahead) = (times.len(), times.iter().filter(|t| t.1 > 1.0).count());
    let said = "gcma's mean request is shorter than cma's";
    match all {
        0 => None,
        _ if ahead == all => Some(format!(
            "Reproduced: {said} at all {all} sizes at which it is in the document; times shorter by frames, published \
             in brackets: {}.",
            listed(&times)
        )),
        _ => Some(format!(
            "Not reproduced: {said} at {ahead} of the {all} sizes at which it is in the document. Counted: {}.",
            excused(figures, &times, 1.0)
        )),
    }
}

/// The longest ones, from the size on from which the document has CMA's in the hundreds of milliseconds.
fn longest(figures: &[Figure]) -> Option<String> {
    const FROM: u64 = 2048;
    const TIMES: f64 = 20.0;
    let mut times = times(figures, m::LATENCY_US.of(Of::Max as usize), CMA, GCMA);
    times.retain(|t| t.0 >= FROM && t.2 >= TIMES);
    let preempted = |variant| sum(figures, variant, m::PREEMPTED);
    let requests = |variant| sum(figures, variant, m::REQUESTS);
    let said = format!(
        "cma's longest request takes {TIMES} times as long as gcma's, from {FROM} frames up"
    );
    let lost = format!(
        "Of all sizes together the scheduler took the CPU from {} of cma's {} requests and {} of gcma's {}.",
        preempted(CMA),
        requests(CMA),
        preempted(GCMA),
        requests(GCMA)
    );
    match times.iter().filter(|t| t.1 < TIMES).count() {
        _ if times.is_empty() => None,
        0 => Some(format!(
            "Reproduced: {said}; times by frames, published in brackets: {}. {lost}",
            listed(&times)
        )),
        _ => Some(format!(
            "Not reproduced: {said}. Counted: {}. {lost}",
            excused(figures, &times, TIMES)
        )),
    }
}

/// This engine's mean and longest requests against both, and how many requests of each variant failed.
fn ours(figures: &[Figure]) -> Option<String> {
    let lines = [(Of::Avg, "mean"), (Of::Max, "longest")].map(|(of, word)| {
        let metric = m::LATENCY_US.of(of as usize);
        let at = |case: &str| {
            let of = |variant| figure_value(figures, case, variant, metric, false);
            let own = of(FRAMEWRIGHT)?;
            let others = [CMA, GCMA].map(of);
            // Where no other was measured, nothing is the shortest.
            others.iter().flatten().next()?;
            let is_least = others.iter().flatten().all(|other| own < *other);
            let shown = |us: Option<f64>| us.map_or_else(|| "-".into(), |us| metric.shown(us));
            let text = format!(
                "{case} {} ({}, {})",
                shown(Some(own)),
                shown(others[0]),
                shown(others[1])
            );
            Some((is_least, text))
        };
        let cases = figure_cases(figures);
        let all: Vec<(bool, String)> = cases.into_iter().filter_map(at).collect();
        let least = all.iter().filter(|(is_least, _)| *is_least).count();
        let texts: Vec<String> = all.iter().map(|(_, text)| text.clone()).collect();
        (
            all.len(),
            format!(
                "{word} request the shortest at {least} of {} sizes, in us (cma's, gcma's): {}",
                all.len(),
                texts.join(", ")
            ),
        )
    });
    let failures = [FRAMEWRIGHT, CMA, GCMA].into_iter().filter_map(|variant| {
        let is_run = |f: &Figure| f.variant == variant && f.metric == m::FAILURES;
        let count = sum(figures, variant, m::FAILURES);
        figures
            .iter()
            .any(is_run)
            .then(|| format!("{count} of {variant}'s"))
    });
    let failures: Vec<String> = failures.collect();
    (lines[0].0 > 0).then(|| {
        format!(
            "Counted: framewright has the {}; the {}. Requests that got nothing: {}.",
            lines[0].1,
            lines[1].1,
            failures.join(", ")
        )
    })
}

/// The build's time over that of `original`.
fn build(figures: &[Figure], runs: u32) -> Option<String> {
    let of = |variant, metric, is_published| {
        figure_value(figures, BACKGROUND, variant, metric, is_published)
    };
    let elapsed = |variant| of(variant, m::ELAPSED_VS_ORIGINAL, false);
    let (cma, gcma) = (elapsed(CMA)?, elapsed(GCMA)?);
    let theirs = |variant| {
        let published = of(variant, m::ELAPSED_VS_ORIGINAL, true);
        published.map_or_else(|| "-".into(), |v| format!("{v:.3}"))
    };
    let said = format!(
        "the build beside gcma is at most 1 % slower than beside cma: {gcma:.3} and {cma:.3} times original's time {} \
         (published {} and {})",
        of_runs(runs),
        theirs(GCMA),
        theirs(CMA)
    );
    if gcma <= cma * 1.01 {
        return Some(format!("Reproduced: {said}."));
    }
    let sum = |variant, metrics: &[Metric]| -> f64 {
        let of = |metric: &Metric| of(variant, *metric, false).unwrap_or(0.0);
        metrics.iter().map(of).sum()
    };
    let (cpu, stored) = ([m::USER_S, m::SYSTEM_S], [m::SWAP_PAGES_STORED]);
    Some(format!(
        "Not reproduced: {said}. Counted: {:.1} s of CPU time beside gcma and {:.1} s beside cma, {:.0} and {:.0} pages \
         swapped out.",
        sum(GCMA, &cpu),
        sum(CMA, &cpu),
        sum(GCMA, &stored),
        sum(CMA, &stored),
    ))
}

/// The build's time beside this engine, against the others that were run.
fn our_build(figures: &[Figure], runs: u32) -> Option<String> {
    let metric = m::ELAPSED_VS_ORIGINAL;
    let elapsed = |variant| figure_value(figures, BACKGROUND, variant, metric, false);
    let own = elapsed(FRAMEWRIGHT)?;
    let others = [CMA, GCMA].into_iter().filter_map(|variant| {
        let other = elapsed(variant)?;
        let word = if own <= other { "no longer" } else { "longer" };
        Some(format!("{word} than beside {variant} ({other:.3})"))
    });
    let others: Vec<String> = others.collect();
    (!others.is_empty()).then(|| {
        format!(
            "Counted: the build beside framewright takes {own:.3} times original's time {}, {}.",
            of_runs(runs),
            others.join(", ")
        )
    })
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
        let all = verdict(&figures, 1);
        assert_eq!(all.len(), 2, "{all:?}");
        let mean = "Reproduced: gcma's mean request is shorter than cma's at all 1 sizes";
        assert!(
            all[0].starts_with(mean),
            "the document has it at 2048 only: {}",
            all[0]
        );
        assert!(all[0].contains("2048 30 (30)."), "{}", all[0]);
        assert!(
            all[1].starts_with("Reproduced") && all[1].contains("2048 200 (29)"),
            "{}",
            all[1]
        );
        // As soon as ours falls short, it is said what the requests had to do.
        figures[4].value = 1.5;
        figures[8].value = 40.0;
        for (metric, value) in [
            (m::REQUESTS, 4.0),
            (m::PAGES_MIGRATED, 40.0),
            (m::WAIT_US, 12.0),
        ] {
            figures.push(figure("2048", CMA, metric, value, false));
        }
        let all = verdict(&figures, 1);
        let why = "a request of cma's moved 10 pages and waited 3 us";
        for line in &all {
            assert!(
                line.starts_with("Not reproduced") && line.contains(why),
                "{line}"
            );
        }
        figures.push(figure("512", FRAMEWRIGHT, avg, 0.75, false));
        // At a size that no other was measured at it is not the shortest.
        figures.push(figure("1", FRAMEWRIGHT, avg, 0.5, false));
        figures.push(figure("512", CMA, m::FAILURES, 3.0, false));
        let ours = &verdict(&figures, 1)[2];
        assert!(
            ours.contains(
                "mean request the shortest at 1 of 1 sizes, in us (cma's, gcma's): 512 0.75 (1"
            ) && ours.ends_with("Requests that got nothing: 3 of cma's."),
            "{ours}"
        );
        for (variant, own) in [(CMA, 1.1), (GCMA, 1.2), (FRAMEWRIGHT, 1.15)] {
            let metric = m::ELAPSED_VS_ORIGINAL;
            figures.push(figure(BACKGROUND, variant, metric, own, false));
        }
        let build = &verdict(&figures, 1)[2];
        let says =
            "1.200 and 1.100 times original's time (one build) (published - and -). Counted: ";
        assert!(
            build.starts_with("Not reproduced") && build.contains(says),
            "{build}"
        );
        let ours = &verdict(&figures, 5)[4];
        let says = "1.150 times original's time (means of 5 builds), longer than beside cma (1.100), no longer than \
                    beside gcma (1.200).";
        assert!(ours.ends_with(says), "{ours}");
        figures
            .iter_mut()
            .filter(|f| f.variant == GCMA && f.case == BACKGROUND)
            .for_each(|f| f.value = 1.11);
        assert!(verdict(&figures, 1)[2].starts_with("Reproduced"));
        figures.push(figure(BACKGROUND, CMA, m::FOREIGN_LOAD, 1.25, false));
        for line in verdict(&figures, 1) {
            assert!(
                line.starts_with("Others had up to 1.2 CPUs meanwhile. "),
                "{line}"
            );
        }
    }

    #[test]
    fn framewright_alone_is_neither_the_shortest_nor_the_fastest() {
        let avg = m::LATENCY_US.of(Of::Avg as usize);
        let figures = [
            figure("512", FRAMEWRIGHT, avg, 0.75, false),
            figure(BACKGROUND, FRAMEWRIGHT, m::ELAPSED_VS_ORIGINAL, 0.9, false),
        ];
        assert_eq!(verdict(&figures, 1), [""; 0]);
    }

    #[test]
    fn a_caption_says_how_many_requests_come_how_often_and_which_variants_know_their_lengths() {
        let caption = |options: &GcmaOptions| tables(&[], options, Detail::Full)[0].caption.clone();
        let mut options = super::super::command::sized(false);
        assert_eq!(
            caption(&options),
            "gcma: at least 2 requests of each size, one each 0.1 s, from 64 MiB of 192 MiB; beside a build on the \
             host's own device; no variant knows their lengths before"
        );
        options.idle = true;
        options.lengths = Lengths::Known;
        assert_eq!(
            caption(&options),
            "gcma: 2 requests of each size from 64 MiB of 192 MiB; guests' clean pages in every frame, no build at work; \
             all variants know their lengths before"
        );
        options.requests = 2000;
        assert!(caption(&options).starts_with("gcma: 2000 requests of sizes that are drawn from"));
    }
}
