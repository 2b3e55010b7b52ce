//! What `vmap-blocks` says: its table, its plots, and what came out.

use super::VmapBlocks;
use crate::experiment::range_metrics as m;
use crate::experiment::{BEFORE, CalibratedClock, FRAMEWRIGHT, Findings, PROPOSED};
use crate::report::{
    Distribution, Figure, Item, Note, Tabled, figure_cases, figure_grid, figure_value,
};

pub(super) const INTRODUCTION: &str = "\
vm_map_ram cuts small mappings from blocks of 1024 pages. R. Pen, 2015: a block that has room for a page is
asked first by every request for two, so blocks pile up (before: a new block is put in front of the others;
proposed: behind them; framewright: slots of a block are used again as soon as they were flushed).
";

pub(super) const METHOD: &str = "\
map and unmap: the mean over all calls of a scenario, each timed by itself, less what reading the clock takes. Areas and \
blocks: counted by the allocator during the same run, which begins with an empty window. va_span_bytes: from the lowest \
to the highest byte that was handed out. lazy_pages_peak: the most pages that were unmapped by their user and not yet \
flushed.";

/// The table of `vmap-blocks` and what a reader must know.
pub(super) fn table(plan: &VmapBlocks, figures: &[Figure]) -> Tabled {
    let options = plan.options;
    let mapper = options.mapper.name();
    let clock = CalibratedClock::calibrated().own_ns;
    let published = format!(
        "published: a kernel of 2015 under ftrace, whose probes are in its times. Ours: the least \
         mean of {} run(s); the clock's own {clock} ns are subtracted from each call.",
        options.repeat,
    );
    let mut notes = vec![Note::Text(published)];
    if options.loops.is_some() {
        let other = "Not the document's number of iterations: its counts are not to be compared.";
        notes.push(Note::Text(other.into()));
    }
    Tabled {
        caption: format!(
            "vmap-blocks, mapper {mapper}: vm_map_ram and vm_unmap_ram by turns, blocks of 1024 \
             pages, one CPU"
        ),
        grid: figure_grid(figures, |_| true),
        notes,
    }
}

/// The latencies of each case.
pub(super) fn plots(findings: &Findings) -> Vec<Item> {
    let cases = findings.latencies.chunk_by(|a, b| a.case == b.case);
    let plot = |of: &[Distribution]| {
        Item::latencies(
            format!("{}: how long a vm_map_ram takes", of[0].case),
            of.to_vec(),
        )
    };
    cases.filter_map(plot).collect()
}

/// Counts, which must come out.
pub(super) fn verdict(figures: &[Figure]) -> Vec<String> {
    let (mut same, mut all, mut off) = (0, 0, 0.0_f64);
    let mut ours = Vec::new();
    for case in figure_cases(figures) {
        for variant in [BEFORE, PROPOSED] {
            for metric in [m::AREA_ALLOCS, m::BLOCK_FREES] {
                let of = |published| figure_value(figures, case, variant, metric, published);
                let (Some(theirs), Some(own)) = (of(true), of(false)) else {
                    continue;
                };
                all += 1;
                if theirs == own {
                    same += 1;
                } else {
                    off = off.max((own - theirs).abs() / theirs.max(1.0));
                }
            }
        }
        let of = |variant| figure_value(figures, case, variant, m::AREA_ALLOCS, false);
        if let (Some(proposed), Some(own)) = (of(PROPOSED), of(FRAMEWRIGHT)) {
            ours.push(format!("{case} {own} instead of {proposed}"));
        }
    }
    vec![format!(
        "reproduced: {same} of {all} published counts come out exactly, the others within {:.0} % (the document does not \
         give its random sequence); its times have the probes of ftrace in them and are not compared. framewright cuts \
         fewer areas than the proposal: {}.",
        (off * 100.0).ceil(),
        ours.join(", ")
    )]
}
