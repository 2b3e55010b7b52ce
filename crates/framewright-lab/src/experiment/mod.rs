//! The experiments: what five documents measured, repeated beside what this project does instead.
//!
//! # One shape
//! An experiment is a type that implements [`Experiment`], in a folder of its own. A value of the type is one
//! *plan*: everything that a run is given. The folder holds all that is particular to it:
//!
//! ```text
//!   mod.rs        what is measured and how
//!   command.rs    the plan, its options on the command line, `impl Experiment`
//!   metrics.rs    the table of metrics; vmap_blocks and va_fit share ranges/range_metrics.rs
//!   report.rs     introduction, method, tables, plots, verdict
//!   published.rs  the document's own figures
//! ```
//!
//! One of some size has files besides, with the same names where they hold the same:
//!
//! ```text
//!   plan.rs       the plan's types, where command.rs would be too long (kvmalloc; gcma: options.rs)
//!   variant.rs    what is compared, as one list (kvmalloc; va_fit: variants.rs)
//!   machine.rs    the memory and the engine, or what stands in for it, of one variant (kvmalloc; gcma: machine/)
//!   figures.rs    from what a run counted to the metrics' values (kvmalloc, fallback)
//! ```
//!
//! `all_experiments!` lists them all, once. From the list come the subcommands of `framewright lab`, the sections
//! of the main job, and the tables of `docs/metrics.md`. One runner (`cmd/runner.rs`) does for each of them what
//! is the same: progress, JSON Lines with a record of the machine, CSV, assertions, tables, the page's section.
//! A new experiment is a folder and a line in the list; CONTRIBUTING.md says what comes with it.
//!
//! What experiments share is beside their folders: the names of what is compared and the window (`window.rs`), an
//! experiment's shape (`shape.rs`), what the two on virtual ranges ask (`ranges`), and how time is taken (`timing`).
//!
//! # What is not here
//! What a kernel's own page tables, interrupts and preemption cost.
//!
//! # Sources
//! `vmap_blocks`: R. Pen, "fix possible exhaustion of vmalloc space caused by vm_map_ram allocator",
//! 2015. `va_fit`: U. Rezki, "improve vmalloc allocation", LKML, October 2018, and the cases of
//! Linux's lib/test_vmalloc.c, by their description.

mod failure;
pub mod fallback;
pub mod gcma;
pub mod kvmalloc;
mod progress;
#[cfg(test)]
mod published;
mod ranges;
mod shape;
mod timing;
pub mod va_fit;
pub mod vmap_blocks;
mod window;

pub use crate::report::Size;
pub use failure::Failure;
pub use progress::Progress;
pub use ranges::range_metrics;
pub use ranges::{Allocator, SpaceOptions, SpaceSubject, SubjectCounters};
pub use shape::{Detail, Experiment, Findings, JsonArgs, Outputs, available};
pub use timing::CalibratedClock;
pub use window::{BEFORE, FRAMEWRIGHT, FRAMEWRIGHT_KEPT, Mapper, PROPOSED, SEED};
pub(in crate::experiment) use window::{WINDOW_PAGES, WINDOW_START};

use crate::measure::MetricTable;

/// The experiments, in the order in which they are run and shown: hands the list to a macro.
macro_rules! all_experiments {
    ($with:ident) => {
        $with! {
            VmapBlocks: $crate::experiment::vmap_blocks::VmapBlocks,
            VaFit: $crate::experiment::va_fit::VaFit,
            Kvmalloc: $crate::experiment::kvmalloc::Kvmalloc,
            Fallback: $crate::experiment::fallback::FallbackExperiment,
            Gcma: $crate::experiment::gcma::GcmaExperiment,
        }
    };
}
pub(crate) use all_experiments;

macro_rules! metrics_of {
    ($($name:ident: $experiment:ty,)*) => { vec![$(<$experiment as Experiment>::METRICS),*] };
}

/// The tables of metrics of all experiments, each once: experiments that share a table stand side by side in the
/// list.
#[must_use]
pub fn metric_tables() -> Vec<MetricTable> {
    let mut tables: Vec<MetricTable> = all_experiments!(metrics_of);
    tables.dedup_by_key(|table| table.0);
    tables
}
