//! What `va-fit` says: its table, its plots, and what came out.

use super::VaFit;
use super::measuring::peer;
use super::variants::{LINUX, TREE};
use crate::experiment::range_metrics as m;
use crate::experiment::timing::FOREIGN_MAX;
use crate::experiment::{
    BEFORE, CalibratedClock, Detail, FRAMEWRIGHT, FRAMEWRIGHT_KEPT, Findings, Mapper, PROPOSED,
};
use crate::measure::Metric;
use crate::report::{
    CardFigure, Distribution, Figure, FigureColumn, Grid, Item, Note, Tabled, VerdictCard,
    figure_cases, figure_grid_of, figure_value,
};

pub(super) const INTRODUCTION: &str = "\
U. Rezki, 2018: vmalloc walked a list of busy areas (before); he proposed a list of free areas, first fit, and a purge
that gives way less (proposed). Beside them this engine's tree of gaps under one lock (tree), and the engine, whose CPUs
own spans (framewright). First the address-space level alone, then with frames taken and mapped.
";

pub(super) const METHOD: &str = "\
op_ns: a repetition is a batch of operations between two readings of the thread's CPU time, on a fresh allocator; the \
variants take turns, repetition by repetition, so that neighbours are the same for all of them; least, middle and \
longest repetition are shown. time_vs_before: the ratio of two repetitions of one turn; the middle ratio and the range. \
Latencies: a pass of its own with a reading of the clock before and after each call, less what two readings take by \
themselves. Counts: from that second pass, on an allocator that has done nothing before.

The document's own times are of a whole test, of which it does not say how many operations it has; so only its ratios \
are beside ours. Its test module could not be had: the cases are made by its description.";

/// The rows of `va-fit`'s table that fit a screen; JSON has everything.
fn in_full(metric: Metric) -> bool {
    let in_json = [
        m::ALLOC_NS.named("p99"),
        m::FREE_NS.named("p99"),
        m::ALLOC_NS.named("max"),
        m::FREE_NS.named("max"),
        m::AREA_ALLOCS,
        m::STOLEN_CPUS,
    ];
    !in_json.contains(&metric)
}

/// Fewer rows still, for the main job.
fn in_short(metric: Metric) -> bool {
    let shown = [
        m::OP_NS_MEDIAN,
        m::TIME_VS_BEFORE,
        m::TIME_VS_BEFORE_HIKEY,
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
    let mut notes = vec![
        told_load(figures),
        format!(
            "Batches of all variants by turns, {} repetition(s); the clock's own {clock} ns are \
         subtracted from each latency.",
            options.repeat
        ),
    ];
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
                "Nothing is mapped: this is the address-space level alone, and what stays mapped after a free is no \
                 question. before and proposed have no figure for vm_map_ram: their blocks are the other experiment."
            }
            Mapper::Host => {
                "Frames are taken, mapped with mmap, and given back, from the same source in all variants. Strict: before, \
                 proposed, tree and framewright unmap an area before its free returns, as Linux clears its page-table \
                 entries. Kept: framewright-kept is the engine with `strict: false`; its freed areas stay mapped, up to \
                 128 pages until the next request of their length, longer ones until a purge; reading them does not \
                 fault. A host usually allows a process \
                 65,530 mappings, so le_fit, b_fit, full_fit, both long_busy_list and steady_random have \
                 fewer areas than with the null mapper (docs/metrics.md); what asks how far something \
                 goes is at the address-space level here too."
            }
        }
        .into(),
    );
    notes.push(if mapper == Mapper::Null.name() && threads == 1 {
        peer::told()
    } else {
        format!("{LINUX} skipped: its program has one thread and maps nothing (--mapper null).")
    });
    Tabled {
        caption: format!(
            "va-fit, mapper {mapper}, threads {threads}, an operation is an allocation and its free"
        ),
        grid: marked(figure_grid_of(&columns(figures), figures, shows), figures),
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

/// The columns that have figures.
fn columns(figures: &[Figure]) -> Vec<FigureColumn> {
    let all: [FigureColumn; 8] = [
        (BEFORE, true, "published\nbefore"),
        (PROPOSED, true, "published\nproposed"),
        (BEFORE, false, BEFORE),
        (PROPOSED, false, PROPOSED),
        (TREE, false, TREE),
        (FRAMEWRIGHT, false, FRAMEWRIGHT),
        (FRAMEWRIGHT_KEPT, false, "framewright\n-kept"),
        (LINUX, false, LINUX),
    ];
    let often = |variant| variant != FRAMEWRIGHT_KEPT && variant != LINUX;
    let has = |variant| figures.iter().any(|figure| figure.variant == variant);
    all.into_iter()
        .filter(|&(variant, ..)| often(variant) || has(variant))
        .collect()
}

/// The foreign load of a case.
fn foreign(figures: &[Figure], case: &str) -> Option<f64> {
    let found = figures
        .iter()
        .find(|figure| figure.case == case && figure.metric == m::FOREIGN_LOAD);
    found.map(|figure| figure.value)
}

/// Times under foreign load have a mark.
fn marked(mut grid: Grid, figures: &[Figure]) -> Grid {
    let timed: Vec<String> = figures
        .iter()
        .filter(|figure| m::is_timed(figure.metric) && !is_load(figure.metric))
        .map(|figure| figure.metric.name())
        .collect();
    let mut case = String::new();
    for row in &mut grid.rows {
        if !row.labels[0].is_empty() {
            case.clone_from(&row.labels[0]);
        }
        let is_loaded = foreign(figures, &case).is_some_and(|load| load > FOREIGN_MAX);
        if !is_loaded || !timed.contains(&row.labels[1]) {
            continue;
        }
        for (heading, cell) in grid.headings.iter().zip(&mut row.cells) {
            if !heading.is_published && cell != "-" {
                cell.push('*');
            }
        }
    }
    grid
}

fn is_load(metric: Metric) -> bool {
    [m::LOAD_AVERAGE, m::FOREIGN_LOAD, m::STOLEN_CPUS].contains(&metric)
}

fn told_load(figures: &[Figure]) -> String {
    let of = |metric| {
        let values = figures.iter().filter(move |figure| figure.metric == metric);
        values.map(|figure| figure.value)
    };
    let least = |metric| of(metric).fold(f64::INFINITY, f64::min);
    let most = |metric| of(metric).fold(0.0, f64::max);
    if of(m::FOREIGN_LOAD).next().is_none() {
        return "How busy the machine was is not known.".into();
    }
    format!(
        "Load average {:.2} to {:.2}; other processes and the hypervisor had {:.2} to {:.2} CPUs (foreign_load). Times \
         of a case in which that was above {FOREIGN_MAX} are marked with *.",
        least(m::LOAD_AVERAGE),
        most(m::LOAD_AVERAGE),
        least(m::FOREIGN_LOAD),
        most(m::FOREIGN_LOAD),
    )
}

/// What is appended to a sentence whose figures were taken beside other work.
fn beside_load(figures: &[Figure], case: &str) -> String {
    match foreign(figures, case) {
        Some(load) if load > FOREIGN_MAX => {
            format!(" (taken while others had {load:.1} CPUs)")
        }
        _ => String::new(),
    }
}

/// A line each: what was reproduced, and what not, and why.
pub(super) fn verdict(figures: &[Figure], mapper: Mapper) -> Vec<String> {
    let mut lines = Vec::new();
    if mapper == Mapper::Null {
        lines.extend(backlog(figures));
    }
    let cases = figure_cases(figures).into_iter();
    lines.extend(cases.filter_map(|case| compared(figures, case, mapper)));
    lines.extend(engine(figures, mapper));
    lines
}

/// The case that the document begins with: a search beside many busy areas.
pub(super) fn card(plan: &VaFit, findings: &Findings) -> Option<VerdictCard> {
    let case = "long_busy_list";
    let figures = &findings.figures;
    let left = |variant| figure_value(figures, case, variant, m::TIME_VS_BEFORE, false);
    let (proposed, ours) = (left(PROPOSED)?, left(FRAMEWRIGHT)?);
    let mut plots = plots(plan, findings).into_iter();
    Some(VerdictCard {
        verdict: engine(figures, plan.options.mapper)?,
        figure: CardFigure::new(
            m::TIME_VS_BEFORE.shown(ours),
            format!(
                "of before's time beside many busy areas with framewright, {} with the proposal",
                m::TIME_VS_BEFORE.shown(proposed)
            ),
        ),
        plot: plots.find(|plot| match plot {
            Item::Latency(latency) => latency.of.iter().any(|one| one.case == case),
            _ => false,
        }),
    })
}

/// A purge that a free runs into keeps the CPU for more than a millisecond.
fn backlog(figures: &[Figure]) -> Option<String> {
    let case = "backlog";
    let worst = |variant| figure_value(figures, case, variant, m::FREE_NS_WORST, false);
    let (before, proposed) = (worst(BEFORE)?, worst(PROPOSED)?);
    let (tree, ours) = (worst(TREE)?, worst(FRAMEWRIGHT)?);
    let us = |ns: f64| format!("{:.1} us", ns / 1e3);
    let linux =
        worst(LINUX).map(|ns| format!(", {} with {LINUX}, which puts the purge off", us(ns)));
    let linux = linux.unwrap_or_default();
    let (word, because) = if before > 1e6 {
        ("Reproduced", String::new())
    } else {
        let why = format!(
            "; because the purge of 30,000 areas takes {} on this machine",
            us(before)
        );
        ("Not reproduced", why)
    };
    Some(format!(
        "{word}: the document complains of more than 1 ms without preemption; with 30,000 freed areas pending one free \
         takes {} before, {} with the proposal, which purges in the same call, {} with a tree, {} with \
         framewright{linux}{because}{}.",
        us(before),
        us(proposed),
        us(tree),
        us(ours),
        beside_load(figures, case),
    ))
}

/// How far from the nearer machine's ratio is still the document's.
const TOLERANCE: f64 = 0.1;

/// Free areas walked past in an operation from which on the walk is what it costs.
const WALK_LONG: f64 = 10.0;

/// One of the document's tests.
fn compared(figures: &[Figure], case: &str, mapper: Mapper) -> Option<String> {
    let own = |metric| figure_value(figures, case, PROPOSED, metric, false);
    let published = |metric| figure_value(figures, case, PROPOSED, metric, true);
    let (i5, hikey) = (
        published(m::TIME_VS_BEFORE)?,
        published(m::TIME_VS_BEFORE_HIKEY)?,
    );
    let ours = own(m::TIME_VS_BEFORE)?;
    let range = (own(m::TIME_VS_BEFORE_MIN)?, own(m::TIME_VS_BEFORE_MAX)?);
    let (least, most) = (i5.min(hikey), i5.max(hikey));
    let level = match mapper {
        Mapper::Null => "the search alone",
        Mapper::Host => "with frames and mappings",
    };
    let told = format!(
        "{case}, {level}: the proposal takes {} ({} to {}) of before's time, in the document {i5:.2} (i5-3320M) and \
         {hikey:.2} (HiKey960)",
        m::TIME_VS_BEFORE.shown(ours),
        m::TIME_VS_BEFORE.shown(range.0),
        m::TIME_VS_BEFORE.shown(range.1),
    );
    let load = beside_load(figures, case);
    if ours >= least * (1.0 - TOLERANCE) && ours <= most * (1.0 + TOLERANCE) {
        return Some(format!("Reproduced: {told}{load}."));
    }
    let walked = own(m::AREAS_WALKED).zip(own(m::OPS));
    let walked = walked.map_or(0.0, |(walked, ops)| walked / ops);
    let why = match (mapper, ours < least) {
        (_, false) if walked > WALK_LONG => format!(
            "what was freed waits for a flush, so the proposal walks past {walked:.0} free areas that are too short each \
             time, and the document's own test, which could not be had, leaves none"
        ),
        (Mapper::Null, true) => {
            "frames and page tables, which cost both the same, are in the document's times and not in these".into()
        }
        (Mapper::Null, false) => "no walk is long here, and each operation of the proposal changes a set of busy areas and \
                                  a list of free ones, where before changes one"
            .into(),
        (Mapper::Host, true) => {
            "the walk is longer beside what a mapping costs here than beside what it cost there".into()
        }
        (Mapper::Host, false) => "a mapping by mmap takes microseconds in both, more than a kernel's page-table entries, \
                                  and hides a search"
            .to_owned(),
    };
    Some(format!("Not reproduced: {told}; because {why}{load}."))
}

/// What the engine takes of the same.
fn engine(figures: &[Figure], mapper: Mapper) -> Option<String> {
    let left = |variant: &str| {
        let cases = figure_cases(figures).into_iter().filter_map(|case| {
            figure_value(figures, case, PROPOSED, m::TIME_VS_BEFORE, true)?;
            let own = figure_value(figures, case, variant, m::TIME_VS_BEFORE, false)?;
            Some(format!("{case} {}", m::TIME_VS_BEFORE.shown(own)))
        });
        cases.collect::<Vec<_>>().join(", ")
    };
    let strict = left(FRAMEWRIGHT);
    if strict.is_empty() {
        return None;
    }
    Some(match mapper {
        Mapper::Null => {
            format!("Of before's time framewright takes, where nothing is mapped: {strict}.")
        }
        Mapper::Host => format!(
            "Of before's time framewright takes, unmapping before each free returns: {strict}; with freed areas left \
             mapped, which is not what Linux's vfree does: {}.",
            left(FRAMEWRIGHT_KEPT)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::FigureSource;

    fn figure(variant: &'static str, metric: Metric, value: f64, published: bool) -> Figure {
        Figure {
            case: "le_fit".into(),
            variant,
            metric,
            value,
            source: if published {
                FigureSource::Published
            } else {
                FigureSource::Measured
            },
        }
    }

    fn found(ours: f64, foreign: f64) -> Vec<Figure> {
        vec![
            figure(PROPOSED, m::TIME_VS_BEFORE, 0.93, true),
            figure(PROPOSED, m::TIME_VS_BEFORE_HIKEY, 0.76, true),
            figure(PROPOSED, m::TIME_VS_BEFORE, ours, false),
            figure(PROPOSED, m::TIME_VS_BEFORE_MIN, ours, false),
            figure(PROPOSED, m::TIME_VS_BEFORE_MAX, ours, false),
            figure(FRAMEWRIGHT, m::TIME_VS_BEFORE, 0.1, false),
            figure(PROPOSED, m::FOREIGN_LOAD, foreign, false),
        ]
    }

    #[test]
    fn a_ratio_near_either_machines_is_reproduced_and_another_one_has_a_cause() {
        let said = |ours| verdict(&found(ours, 0.0), Mapper::Null)[0].clone();
        for ours in [0.69, 0.8, 1.02] {
            assert!(
                said(ours).starts_with("Reproduced: le_fit"),
                "{}",
                said(ours)
            );
        }
        for ours in [0.68, 1.03] {
            let line = said(ours);
            assert!(
                line.starts_with("Not reproduced: le_fit") && line.contains("; because "),
                "{line}"
            );
        }
        assert!(
            said(0.8).contains("0.93 (i5-3320M) and 0.76 (HiKey960)"),
            "{}",
            said(0.8)
        );
    }

    #[test]
    fn what_was_taken_beside_other_work_is_marked() {
        let text = |foreign| {
            let figures = found(0.8, foreign);
            marked(
                figure_grid_of(&columns(&figures), &figures, |_| true),
                &figures,
            )
            .text()
        };
        assert!(text(0.51).contains('*') && !text(0.5).contains('*'));
        let loaded = text(0.51);
        let row = loaded
            .lines()
            .find(|line| line.contains("hikey960"))
            .unwrap();
        assert!(!row.contains('*'), "the document's has no mark: {row}");
        let row = loaded
            .lines()
            .find(|line| line.contains("foreign_load"))
            .unwrap();
        assert!(!row.contains('*'), "{row}");
        let line = &verdict(&found(0.8, 1.3), Mapper::Null)[0];
        assert!(line.contains("others had 1.3 CPUs"), "{line}");
    }
}
