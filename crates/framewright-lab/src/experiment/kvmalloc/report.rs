//! What `kvmalloc` says: its table, its plots, and what came out.

use super::metrics as m;
use super::{Kvmalloc, batch_items};
use crate::experiment::{
    BEFORE, Detail, FRAMEWRIGHT, FRAMEWRIGHT_KEPT, Findings, Mapper, PROPOSED,
};
use crate::measure::Metric;
use crate::report::{
    CardFigure, Distribution, Figure, FigureColumn, Item, Note, Tabled, VerdictCard, figure_cases,
    figure_grid_of, figure_value,
};

pub(super) const INTRODUCTION: &str = "\
D. Chinner, 2023: a journal on two threads asks for 64 KiB at a high rate. `before` compacts and reclaims before
it maps pages, `proposed` maps them at once, both under one lock for all address space; framewright maps at
once, and has no lock that all share on that way. All three unmap a freed area before the free returns, as
Linux does; framewright-kept leaves it mapped for the next buffer. First with
pages in a table of the experiment's own, which costs what a kernel pays; then with mmap, which costs some
twenty times that.
";

/// The columns.
const COLUMNS: [FigureColumn; 6] = [
    (BEFORE, true, "published\nbefore"),
    (PROPOSED, true, "published\nproposed"),
    (BEFORE, false, BEFORE),
    (PROPOSED, false, PROPOSED),
    (FRAMEWRIGHT, false, FRAMEWRIGHT),
    (FRAMEWRIGHT_KEPT, false, "framewright\n-kept"),
];

pub(super) const METHOD: &str = "\
A thread reads its CPU time between the phases of a commit, so a call's CPU time is the mean of a batch. In every fourth \
commit each call is timed by the wall clock instead; the plots are of those. Shares are of all CPU time of the threads \
and the background; those in compaction, in reclaim and at locks come from a run of its own, in which calls read the \
clock there too. Counts (compact_stall, allocstall) are of all repetitions. Frames, who has which of them, items and \
their order are the same for every variant.";

/// What the table of one number of threads shows: everything.
const fn in_full(_metric: Metric) -> bool {
    true
}

/// What a curve shows of each number of threads.
fn in_curve(metric: Metric) -> bool {
    let shown = [
        m::COMMITS_PER_S,
        m::COMMITS_VS_BEFORE,
        m::COMMITS_PER_CPU_S,
        m::KVMALLOC_CPU_NS,
        m::KVMALLOC_CPU_VS_BEFORE,
        m::KVMALLOC_VS_COPY,
        m::COPY_CPU_NS,
        m::COMPACT_SHARE,
        m::SPILLED_SHARE,
        m::COMPACT_STALL,
        m::ALLOCSTALL,
        m::WAITS,
    ];
    shown.contains(&metric)
}

/// What the main job shows.
fn in_short(metric: Metric) -> bool {
    let shown = [
        m::COMMITS_PER_S,
        m::COMMITS_VS_BEFORE,
        m::COMMITS_PER_CPU_VS_BEFORE,
        m::KVMALLOC_CPU_NS,
        m::KVMALLOC_CPU_VS_BEFORE,
        m::COPY_CPU_NS,
        m::KVMALLOC_SHARE,
        m::COPY_SHARE,
        m::COMPACT_SHARE,
        m::RECLAIM_SHARE,
        m::LOCK_WAIT_SHARE,
        m::SPILLED_SHARE,
        m::COMPACT_STALL,
        m::ALLOCSTALL,
    ];
    shown.contains(&metric)
}

/// The table and what a reader must know.
pub(super) fn table(plan: &Kvmalloc, figures: &[Figure], detail: Detail) -> Tabled {
    let shows = match detail {
        Detail::Full if !plan.is_one() => in_curve,
        Detail::Full => in_full,
        Detail::Short => in_short,
    };
    let options = plan.options;
    let runs = format!(
        "The middle of {} repetition(s) of {} s, variants by turns, each in fresh memory; counts of all of them. A \
         commit is a batch of\n{} buffers: read in, kvmalloc, copy, checksum, free the oldest batch.",
        options.repeat,
        options.seconds,
        batch_items(options.object),
    );
    let published = "published: shares of all CPU time of a machine under a file system's load, half of which is not the \
                     journal's;\nof ours, all but the background is the journal's threads'. Compare the ratios between columns.";
    let strict = "Strict: before, proposed and framewright unmap a freed area before its free returns. Kept: \
                  framewright-kept is the engine with\n`strict: false`. A fail-fast call of the engine never reclaims: where no\nframe is free it says so, and its writer reclaims 32 pages and asks \
                  again (waits, which are in allocstall).";
    let each = |all: Vec<String>| all.join(", ");
    let objects = each(plan.objects.iter().map(ToString::to_string).collect());
    let fragmented = each(plan.fragmented.iter().map(ToString::to_string).collect());
    Tabled {
        caption: format!(
            "kvmalloc, mapper {}: buffers of {objects} bytes; {fragmented} of 100 blocks of their order have a frame that \
             cannot go{}",
            options.mapper.name(),
            if options.is_short {
                "; no thread reclaims ahead"
            } else {
                ""
            },
        ),
        grid: figure_grid_of(&COLUMNS, figures, shows),
        notes: [runs, published.into(), strict.into()]
            .map(Note::Text)
            .into(),
    }
}

/// How long calls take, in each case.
pub(super) fn plots(plan: &Kvmalloc, findings: &Findings) -> Vec<Item> {
    let mapper = plan.options.mapper.name();
    let cases = findings.latencies.chunk_by(|a, b| a.case == b.case);
    let plot = |of: &[Distribution]| {
        let case = &of[0].case;
        Item::latencies(
            format!("{case}, mapper {mapper}: how long a kvmalloc takes"),
            of.to_vec(),
        )
    };
    cases.filter_map(plot).collect()
}

/// How far from what the document says is still what it says.
const TOLERANCE: f64 = 0.1;

/// How far the columns' times of one and the same copy may be apart.
const COPY_TOLERANCE: f64 = 0.1;

/// A line each: what was reproduced, what not, and why.
pub(super) fn verdict(plan: &Kvmalloc, figures: &[Figure]) -> Vec<String> {
    let mut lines = Vec::new();
    for case in figure_cases(figures) {
        let verdict = CaseVerdict {
            plan,
            figures,
            case,
        };
        lines.extend(verdict.proposal());
        lines.extend(verdict.compaction());
        lines.extend(verdict.engine());
        lines.extend(verdict.copies());
    }
    lines
}

/// The price of a call in the first case.
pub(super) fn card(plan: &Kvmalloc, findings: &Findings) -> Option<VerdictCard> {
    let figures = &findings.figures;
    let case = figure_cases(figures).into_iter().next()?;
    let verdict = CaseVerdict {
        plan,
        figures,
        case,
    };
    let of = |variant| verdict.own(variant, m::KVMALLOC_CPU_VS_BEFORE);
    let (proposed, ours) = (of(PROPOSED)?, of(FRAMEWRIGHT)?);
    Some(VerdictCard {
        verdict: verdict.engine()?,
        figure: CardFigure::new(
            m::KVMALLOC_CPU_VS_BEFORE.shown(ours),
            format!(
                "of before's CPU time for a call of framewright, {} for one of the proposal",
                m::KVMALLOC_CPU_VS_BEFORE.shown(proposed)
            ),
        ),
        plot: plots(plan, findings).into_iter().next(),
    })
}

/// What one case came to.
struct CaseVerdict<'v> {
    plan: &'v Kvmalloc,
    figures: &'v [Figure],
    case: &'v str,
}

impl CaseVerdict<'_> {
    fn own(&self, variant: &str, metric: Metric) -> Option<f64> {
        figure_value(self.figures, self.case, variant, metric, false)
    }

    fn published(&self, variant: &str, metric: Metric) -> Option<f64> {
        figure_value(self.figures, self.case, variant, metric, true)
    }

    fn place(&self) -> String {
        format!("{}, mapper {}", self.case, self.plan.options.mapper.name())
    }

    /// The document's two ratios.
    fn proposal(&self) -> Option<String> {
        let cpu = self.own(PROPOSED, m::KVMALLOC_CPU_VS_BEFORE)?;
        let commits = self.own(PROPOSED, m::COMMITS_VS_BEFORE)?;
        let their_cpu = self.published(PROPOSED, m::KVMALLOC_CPU_VS_BEFORE)?;
        let their_commits = self.published(PROPOSED, m::COMMITS_VS_BEFORE)?;
        let is_slower = if commits < 1.0 {
            ": here the proposal is slower than before"
        } else {
            ""
        };
        let told = format!(
            "{}: a call of the proposal takes {cpu:.2} of before's CPU time (in the document about {their_cpu:.2}), and \
             commits are {commits:.2} times before's (in the document more than {their_commits:.0} times){is_slower}",
            self.place()
        );
        let is_cpu = cpu <= their_cpu * (1.0 + TOLERANCE);
        if is_cpu && commits >= their_commits * (1.0 - TOLERANCE) {
            return Some(format!("Reproduced: {told}."));
        }
        let spilled = self.own(BEFORE, m::SPILLED_SHARE).unwrap_or_default();
        let share = self.own(BEFORE, m::KVMALLOC_SHARE).unwrap_or_default();
        let why = match self.plan.options.mapper {
            _ if spilled < 0.1 => "few calls find no block here, so there is little to save".to_owned(),
            Mapper::Null if is_cpu => format!(
                "calls are {} of all CPU time before, so that without any of it commits would be some {:.2} times as many",
                m::KVMALLOC_SHARE.shown(share),
                1.0 / (1.0 - share)
            ),
            Mapper::Null => "what is left of a call, single frames and their mapping under two locks, is more of it here".into(),
            Mapper::Host => "an mmap for each run of frames takes some twenty times what a kernel takes to map, and hides \
                             what compaction costs"
                .into(),
        };
        Some(format!("Not reproduced: {told}; because {why}."))
    }

    /// What of the price of a call compaction is.
    fn compaction(&self) -> Option<String> {
        let of = |part: Option<f64>, all: Option<f64>| Some(part? / all?);
        let published = |metric| self.published(BEFORE, metric);
        let own = |metric| self.own(BEFORE, metric);
        let theirs = of(published(m::COMPACT_SHARE), published(m::KVMALLOC_SHARE))?;
        let ours = of(own(m::COMPACT_SHARE), own(m::KVMALLOC_SHARE))?;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let told = format!(
            "{}: before, compaction is {} of what calls take, in the document {}",
            self.place(),
            percent(ours),
            percent(theirs)
        );
        let locks = [published(m::LOCK_WAIT_SHARE), own(m::LOCK_WAIT_SHARE)];
        let locks = match locks {
            [Some(theirs), Some(ours)] => format!(
                ", and threads waited for locks as long as {} of all CPU time, where the document's spun for {}",
                m::LOCK_WAIT_SHARE.shown(ours),
                m::LOCK_WAIT_SHARE.shown(theirs)
            ),
            _ => String::new(),
        };
        Some(if ours >= theirs / 2.0 && ours <= theirs * 2.0 {
            format!("Reproduced: {told}{locks}.")
        } else {
            format!(
                "Not reproduced: {told}{locks}; because most of a call is its single frames and their mapping here."
            )
        })
    }

    /// What the engine takes of the same.
    fn engine(&self) -> Option<String> {
        let of = |variant| {
            Some(format!(
                "{} of before's CPU time a call and {:.2} times its commits",
                m::KVMALLOC_CPU_VS_BEFORE.shown(self.own(variant, m::KVMALLOC_CPU_VS_BEFORE)?),
                self.own(variant, m::COMMITS_VS_BEFORE)?
            ))
        };
        let had_to = |variant| {
            Some(format!(
                "{} of {}",
                m::ALLOCSTALL.shown(self.own(variant, m::ALLOCSTALL)?),
                m::CALLS.shown(self.own(variant, m::CALLS)?)
            ))
        };
        Some(format!(
            "{}: framewright, unmapping before each free returns, has {}, and by default, with freed areas left mapped, {}; \
             something was reclaimed for {} of its calls, for {} before and {} with the proposal.",
            self.place(),
            of(FRAMEWRIGHT)?,
            of(FRAMEWRIGHT_KEPT)?,
            had_to(FRAMEWRIGHT)?,
            had_to(BEFORE)?,
            had_to(PROPOSED)?,
        ))
    }

    /// The copy is the same for all; where its time is not, why.
    fn copies(&self) -> Option<String> {
        let [before, proposed, strict, kept] =
            super::VARIANTS.map(|variant| self.own(variant, m::COPY_CPU_NS));
        let all = [before?, proposed?, strict?, kept?];
        let (least, most) = all.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), &ns| {
            (l.min(ns), h.max(ns))
        });
        (most > least * (1.0 + COPY_TOLERANCE)).then(|| {
            let [before, proposed, strict, kept] = all.map(|ns| format!("{ns:.0}"));
            let runs = super::VARIANTS.map(|variant| {
                let runs = self.own(variant, m::FRAME_RUNS);
                runs.map_or_else(|| "-".into(), |runs| format!("{runs:.1}"))
            });
            format!(
                "{}: the same copy takes {before} ns before, {proposed} with the proposal, {strict} with framewright and \
                 {kept} where it keeps areas; because an allocator decides of how many runs of neighbouring frames a buffer \
                 consists, here {}, and which frames are still in a cache.",
                self.place(),
                runs.join(", "),
            )
        })
    }
}
