//! What `va-fit` says: its table, its plots, and what came out.

use super::VaFit;
use crate::experiment::range_metrics as m;
use crate::experiment::{BEFORE, CalibratedClock, Detail, FRAMEWRIGHT, Findings, Mapper, PROPOSED};
use crate::measure::Metric;
use crate::report::{
    Distribution, Figure, Item, Note, Tabled, figure_cases, figure_grid, figure_value,
};

pub(super) const INTRODUCTION: &str = "\
U. Rezki, 2018: vmalloc walked a list of busy areas (before), and a tree of gaps under one lock takes its place
(proposed); framewright has spans that belong to a CPU. First the address-space level alone, then with frames
taken and mapped.
";

pub(super) const METHOD: &str = "\
op_ns: a repetition is a batch of operations between two readings of the thread's CPU time; the variants take turns, \
repetition by repetition, so that caches and neighbours are the same for all of them; the middle repetition is shown. \
time_vs_before: the middle ones' ratio. Latencies: a pass of its own with a reading of the clock before and after each \
call, less what two readings take by themselves. Counts: from that second pass, on an allocator that has done nothing \
before.

The document's own times are of a whole test, of which it does not say how many operations it has; so only its ratio \
is beside ours.";

/// The rows of `va-fit`'s table that fit a screen; JSON has everything.
fn in_full(metric: Metric) -> bool {
    let in_json = [
        m::ALLOC_NS.named("p99"),
        m::FREE_NS.named("p99"),
        m::ALLOC_NS.named("max"),
        m::FREE_NS.named("max"),
        m::AREA_ALLOCS,
    ];
    !in_json.contains(&metric)
}

/// Fewer rows still, for the main job.
fn in_short(metric: Metric) -> bool {
    let shown = [
        m::OP_NS_MEDIAN,
        m::TIME_VS_BEFORE,
        m::REMOTE_VS_LOCAL,
        m::SERVED,
        m::LIVE_MAPPINGS,
        m::OCCUPANCY,
        m::COST_GROWTH,
        m::FREE_NS_WORST,
    ];
    shown.contains(&metric)
}

/// The table of `va-fit` and what a reader must know.
pub(super) fn table(plan: &VaFit, figures: &[Figure], detail: Detail) -> Tabled {
    let options = plan.options;
    let shows = match detail {
        Detail::Full => in_full,
        Detail::Short => in_short,
    };
    let mapper = options.mapper.name();
    let clock = CalibratedClock::calibrated().own_ns;
    let threads = options.threads;
    let mut notes = vec![format!(
        "Batches of all variants by turns, {} repetition(s); the clock's own {clock} ns are \
         subtracted from each latency.",
        options.repeat
    )];
    if shows(m::OPS) && makes_fewer(figures) {
        notes.push(
            "before makes fewer operations (ops) where each takes so long; its counts are of \
             those."
                .into(),
        );
    }
    notes.push(
        match options.mapper {
            Mapper::Null => {
                "Nothing is mapped: this is the address-space level alone. before has no figure for \
                 vm_map_ram: its blocks are the other experiment."
            }
            Mapper::Host => {
                "Frames are taken, mapped with mmap, and given back. A host usually allows a process \
                 65,530 mappings, so le_fit, b_fit, full_fit, both long_busy_list and steady_random have \
                 fewer areas than with the null mapper (docs/metrics.md); what asks how far something \
                 goes is at the address-space level here too."
            }
        }
        .into(),
    );
    Tabled {
        caption: format!(
            "va-fit, mapper {mapper}, threads {threads}, an operation is an allocation and its free"
        ),
        grid: figure_grid(figures, shows),
        notes: notes.into_iter().map(Note::Text).collect(),
    }
}

/// Whether `before` made fewer operations than ours in some case.
fn makes_fewer(figures: &[Figure]) -> bool {
    let of = |variant: &'static str| {
        let all = figures
            .iter()
            .filter(move |f| f.metric == m::OPS && f.variant == variant);
        all.map(|f| (&f.case, f.value))
    };
    of(BEFORE).any(|(case, fewer)| of(FRAMEWRIGHT).any(|(ours, ops)| ours == case && fewer < ops))
}

/// Cases whose latencies are drawn.
const DRAWN: [&str; 3] = ["full_fit", "long_busy_list", "random_size_align"];

/// How long allocations of some cases take.
pub(super) fn plots(plan: &VaFit, findings: &Findings) -> Vec<Item> {
    let mapper = plan.options.mapper.name();
    let plot = |case: &&str| {
        let of = |one: &&Distribution| one.case == *case && one.call == "alloc";
        let of = findings.latencies.iter().filter(of).cloned().collect();
        Item::latencies(
            format!("{case}, mapper {mapper}: how long an allocation takes"),
            of,
        )
    };
    DRAWN.iter().filter_map(plot).collect()
}

/// How much of `before`'s time is left.
pub(super) fn verdict(figures: &[Figure], mapper: Mapper) -> Vec<String> {
    let left = |case: &str, variant: &str, published| {
        figure_value(figures, case, variant, m::TIME_VS_BEFORE, published)
    };
    let mut compared = Vec::new();
    let mut ours = Vec::new();
    for case in figure_cases(figures) {
        let (Some(theirs), Some(own)) = (left(case, PROPOSED, true), left(case, PROPOSED, false))
        else {
            continue;
        };
        compared.push(format!(
            "{case} {} ({theirs:.2})",
            m::TIME_VS_BEFORE.shown(own)
        ));
        if let Some(own) = left(case, FRAMEWRIGHT, false) {
            ours.push(format!("{case} {}", m::TIME_VS_BEFORE.shown(own)));
        }
    }
    if compared.is_empty() {
        return Vec::new();
    }
    let why = match mapper {
        Mapper::Null => {
            "its tests have frames and page tables in their times, here is the search alone, so the long list \
             weighs more"
        }
        Mapper::Host => "mapping, by mmap, costs both the same and hides what a search costs",
    };
    let how = match mapper {
        Mapper::Null => "",
        Mapper::Host => ", which keeps areas as they stand for the next of their length",
    };
    vec![format!(
        "mapper {}: of before's time the proposal takes, beside the published share: {}; {why}. framewright{how}: {}.",
        mapper.name(),
        compared.join(", "),
        ours.join(", ")
    )]
}
