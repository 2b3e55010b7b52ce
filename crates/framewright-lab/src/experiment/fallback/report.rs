//! What `fallback` says: its table, its plots, and what came out.

use super::metrics as m;
use super::{Course, FallbackExperiment, LifeJob, LifeOutcome, LifeSpan, middles};
use crate::experiment::{BEFORE, Detail, FRAMEWRIGHT, Findings, PROPOSED};
use crate::measure::Metric;
use crate::report::{
    Accent, CardFigure, Figure, Item, Note, OverTime, PlotLine, Scale, Tabled, VerdictCard,
    figure_cases, figure_grid, figure_value,
};

pub(super) const INTRODUCTION: &str = "\
ChengYi He, 2016: a synthetic phone lives on the document's kernel as it was (before), with the document's patch
(proposed), and on this engine (framewright): requests of order 2 and 3 that had to reclaim or compact, and
pageblocks that mix what can be moved with what cannot.
";

pub(super) const METHOD: &str = "\
Virtual time: nothing here is measured with a clock. The phone's demand is drawn from one seed and is the same for all \
three kernels; what was killed or evicted is asked for again. allocstall: requests that reclaimed themselves. \
compact_stall: requests that compacted. Lists and pageblocks: at the end. docs/design/0009-fallback-and-reclaim.md says how \
the phone was fitted, and how far each row is off.";

/// The document's time: its counts are to be compared with those of as much.
pub(super) const PUBLISHED_DAYS_MILLI: u64 = 2500;

/// What the command shows: what the document has, and what the phone felt.
fn in_full(metric: Metric) -> bool {
    let is_of = |family: Metric, few: usize| (0..few).any(|at| metric == family.of(at));
    if metric.is(m::FREE) {
        return (0..3).any(|list| (0..4).any(|order| metric == m::FREE.of_two(list, order)));
    }
    if metric.is(m::ALLOCSTALL_ORDER) {
        return is_of(m::ALLOCSTALL_ORDER, 4);
    }
    ![m::KSWAPD_WAKE, m::COMPACT_DAEMON_WAKE, m::REQUESTS].contains(&metric)
}

/// What the main job shows.
fn in_short(metric: Metric) -> bool {
    let is_of = |family: Metric, few: usize| (0..few).any(|at| metric == family.of(at));
    let shown = [
        m::MIXED_PAGEBLOCKS,
        m::MIXED_PAGEBLOCKS_MEAN,
        m::ALLOCSTALL,
        m::PGSTEAL_KSWAPD,
        m::PGSTEAL_DIRECT,
        m::COMPACT_STALL,
        m::COMPACT_FREE_SCANNED,
        m::PGMIGRATE_SUCCESS,
    ];
    is_of(m::BLOCKS, 3) || is_of(m::ALLOCSTALL_ORDER, 4) || shown.contains(&metric)
}

/// The table and what a reader must know.
pub(super) fn table(plan: &FallbackExperiment, figures: &[Figure], detail: Detail) -> Tabled {
    let shows = match detail {
        Detail::Full => in_full,
        Detail::Short => in_short,
    };
    let (span, seeds) = (plan.span, &plan.seeds);
    let days = span.days_milli as f64 / 1000.0;
    let several = seeds.len() > 1;
    let middle = if several {
        middles(figures, seeds.len())
    } else {
        Vec::new()
    };
    let shown = if several { &middle } else { figures };
    let mut notes = Vec::new();
    if span.days_milli != PUBLISHED_DAYS_MILLI {
        notes.push("published: counts of 2.5 days, which are not to be compared with those of another time.");
    }
    notes.push(
        "The phone was fitted once, to the document's before column; proposed and framewright are \
         predictions\n(docs/design/0009-fallback-and-reclaim.md). Mixed pageblocks hold movable frames and \
         others; the document\ndoes not count them.",
    );
    Tabled {
        caption: format!(
            "fallback: a synthetic phone of 2.7 GB, {days} days; pageblocks of 4 MiB, lists at the end, counts of \
             all the time"
        ),
        grid: figure_grid(shown, shows),
        notes: notes
            .into_iter()
            .map(|note| Note::Text(note.into()))
            .collect(),
    }
}

const STALLS_SO_FAR: &str = "Requests that had to reclaim before they were served, so far";

/// The first seed's lives over time.
pub(super) fn courses(jobs: &[LifeJob], outcomes: &[LifeOutcome]) -> Vec<OverTime> {
    let first = jobs.first().map(|job| job.seed);
    let over_time = |title: &str, value, note: &str, course| {
        let lives = jobs.iter().zip(outcomes);
        let of_first = lives.filter(|(job, _)| Some(job.seed) == first);
        let line = |(job, outcome): (&LifeJob, &LifeOutcome)| PlotLine {
            name: job.policy.name().into(),
            accent: Accent::of(job.policy.name()),
            is_published: false,
            points: outcome.course(course),
            mark: None,
        };
        OverTime {
            title: title.into(),
            across: "hours awake",
            scale: Scale::Linear,
            value,
            lines: of_first.map(line).collect(),
            note: note.into(),
        }
    };
    vec![
        over_time(
            "Free memory of the phone",
            "MiB",
            "Frames on the kernel's free lists.",
            Course::FreeMib,
        ),
        over_time(
            "Pageblocks that hold movable frames and others",
            "pageblocks of 4 MiB",
            "Seen from outside, from what the phone holds, the same for all three.",
            Course::MixedPageblocks,
        ),
        over_time(STALLS_SO_FAR, "requests", "Of all orders.", Course::Stalls),
    ]
}

/// Requests of orders 2 and 3 that had to reclaim first.
fn stalls(figures: &[Figure], case: &str, variant: &str, published: bool) -> Option<f64> {
    let of = |order| {
        figure_value(
            figures,
            case,
            variant,
            m::ALLOCSTALL_ORDER.of(order),
            published,
        )
    };
    Some(of(2)? + of(3)?)
}

/// Stalls of orders 2 and 3.
pub(super) fn verdict(figures: &[Figure], span: LifeSpan) -> Vec<String> {
    let line = |case| {
        let stalls = |variant, published| stalls(figures, case, variant, published);
        let fewer = |before: f64, after: f64| match after {
            none if none < 1.0 => "none left".into(),
            some => format!("{:.0} times fewer", before / some),
        };
        let (before, proposed) = (stalls(BEFORE, false)?, stalls(PROPOSED, false)?);
        let ours = stalls(FRAMEWRIGHT, false)?;
        let published = fewer(stalls(BEFORE, true)?, stalls(PROPOSED, true)?);
        let why = if span.days_milli == PUBLISHED_DAYS_MILLI {
            "before was fitted to the document's column, the factor was not"
        } else {
            "this is an hour, not two and a half days: `framewright lab all --full` lives those"
        };
        Some(format!(
            "stalls of orders 2 and 3: {before:.0} before, {proposed:.0} proposed, {} (published: {published}); {why}. framewright: {ours:.0}.",
            fewer(before, proposed)
        ))
    };
    figure_cases(figures).into_iter().filter_map(line).collect()
}

/// The same of the first case.
pub(super) fn card(findings: &Findings, span: LifeSpan) -> Option<VerdictCard> {
    let figures = &findings.figures;
    let case = figure_cases(figures).into_iter().next()?;
    let [before, ours] = [BEFORE, FRAMEWRIGHT].map(|variant| stalls(figures, case, variant, false));
    let plot = findings
        .courses
        .iter()
        .find(|plot| plot.title == STALLS_SO_FAR);
    Some(VerdictCard {
        verdict: verdict(figures, span).into_iter().next()?,
        figure: CardFigure::new(
            format!(
                "{} → {}",
                m::ALLOCSTALL.shown(before?),
                m::ALLOCSTALL.shown(ours?)
            ),
            "requests of orders 2 and 3 that had to reclaim first, from before to framewright",
        ),
        plot: plot.cloned().map(Item::OverTime),
    })
}
