//! What `kvmalloc` says: its table, its plots, and what came out.

use super::metrics as m;
use super::{Kvmalloc, batch_items};
use crate::experiment::{Detail, FRAMEWRIGHT, Findings, Mapper, PROPOSED};
use crate::measure::Metric;
use crate::report::{Figure, Item, Note, Tabled, figure_cases, figure_grid, figure_value};

pub(super) const INTRODUCTION: &str = "\
D. Chinner, 2023: a journal on two threads asks for 64 KiB at a high rate. `before` compacts and reclaims before
it maps pages, `proposed` maps them at once, both under one lock for all address space; framewright maps at
once, and has no lock that all share on that way. First with pages in a table of the experiment's own, which
costs what a kernel pays; then with mmap, which costs some twenty times that.
";

pub(super) const METHOD: &str = "\
A thread reads its CPU time between the phases of a commit, so a call's CPU time is the mean of a batch. In every fourth \
commit each call is timed by the wall clock instead; the plots are of those. Shares are of all CPU time of the threads \
and the background. Counts (compact_stall, allocstall) are of all repetitions. Frames, who has which of them, items and \
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
        m::KVMALLOC_VS_COPY,
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
        m::SPILLED_SHARE,
        m::COMPACT_STALL,
        m::ALLOCSTALL,
    ];
    shown.contains(&metric)
}

/// The table and what a reader must know.
pub(super) fn table(plan: &Kvmalloc, figures: &[Figure], detail: Detail) -> Tabled {
    let shows = match detail {
        Detail::Full if plan.threads.len() > 1 => in_curve,
        Detail::Full => in_full,
        Detail::Short => in_short,
    };
    let options = plan.options;
    let runs = format!(
        "The middle of {} repetition(s) of {} s, variants by turns, each in fresh memory; counts of all of them. A \
         commit is a batch of\n{} buffers: read in, kvmalloc, copy, checksum, free the oldest batch.",
        options.repeat,
        options.seconds,
        batch_items(options.object_bytes),
    );
    let published = "published: shares of all CPU time of a machine under a file system's load, half of which is not the \
                     journal's;\nof ours, all but the background is the journal's threads'. Compare the ratios between columns.";
    Tabled {
        caption: format!(
            "kvmalloc, mapper {}: buffers of {} bytes; {} of 100 blocks of their order have a frame that cannot go",
            options.mapper.name(),
            options.object_bytes,
            options.fragmented,
        ),
        grid: figure_grid(figures, shows),
        notes: vec![Note::Text(runs), Note::Text(published.into())],
    }
}

/// How long calls take.
pub(super) fn plots(plan: &Kvmalloc, findings: &Findings) -> Vec<Item> {
    let title = format!(
        "mapper {}: how long a kvmalloc takes",
        plan.options.mapper.name()
    );
    Item::latencies(title, findings.latencies.clone())
        .into_iter()
        .collect()
}

/// CPU time of a call, and commits.
pub(super) fn verdict(figures: &[Figure], mapper: Mapper) -> Vec<String> {
    let line = |case| {
        let of =
            |variant, metric, published| figure_value(figures, case, variant, metric, published);
        let own = |variant| {
            Some((
                of(variant, m::KVMALLOC_CPU_VS_BEFORE, false)?,
                of(variant, m::COMMITS_VS_BEFORE, false)?,
            ))
        };
        let (cpu, commits) = own(PROPOSED)?;
        let (our_cpu, our_commits) = own(FRAMEWRIGHT)?;
        let their_cpu = of(PROPOSED, m::KVMALLOC_CPU_VS_BEFORE, true)?;
        let their_commits = of(PROPOSED, m::COMMITS_VS_BEFORE, true)?;
        let why = match mapper {
            Mapper::Null => {
                "an attempt to compact looks at more pageblocks here than in the document's kernel, and two \
                 threads share their CPUs with other work"
            }
            Mapper::Host => {
                "mmap takes some twenty times what a kernel takes to map, and hides most of what compaction costs"
            }
        };
        Some(format!(
            "mapper {}: a call of the proposal takes {cpu:.2} of before's CPU time (published {their_cpu:.2}), commits \
             are {commits:.2} times before's (published: more than {their_commits:.0}); {why}. framewright: \
             {our_cpu:.3} and {our_commits:.2}.",
            mapper.name()
        ))
    };
    figure_cases(figures).into_iter().filter_map(line).collect()
}
