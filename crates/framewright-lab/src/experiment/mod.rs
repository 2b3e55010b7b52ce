//! The experiments: what five documents measured, repeated beside what this project does instead.
//!
//! # One shape
//! An experiment is a type that implements [`Experiment`], in a folder of its own. A value of the type is one
//! *plan*: everything that a run is given. The folder holds all that is particular to it:
//!
//! ```text
//!   mod.rs        what is measured and how
//!   command.rs    the plan, its options on the command line, `impl Experiment`
//!   metrics.rs    the table of metrics; vmap_blocks and va_fit share range_metrics.rs
//!   report.rs     introduction, method, tables, plots, verdict
//!   published.rs  the document's own figures
//! ```
//!
//! One of some size has files besides, with the same names where they hold the same:
//!
//! ```text
//!   plan.rs       the plan's types, where command.rs would be too long (kvmalloc, gcma)
//!   variant.rs    what is compared, as one list (kvmalloc; va_fit: variants.rs)
//!   machine.rs    the memory and the engine, or what stands in for it, of one variant (kvmalloc, gcma)
//!   figures.rs    from what a run counted to the metrics' values (kvmalloc, fallback)
//! ```
//!
//! `all_experiments!` lists them all, once. From the list come the subcommands of `framewright lab`, the sections
//! of the main job, and the tables of `docs/metrics.md`. One runner (`cmd/runner.rs`) does for each of them what
//! is the same: progress, JSON Lines with a record of the machine, CSV, assertions, tables, the page's section.
//! A new experiment is a folder and a line in the list; CONTRIBUTING.md says what comes with it.
//!
//! # The experiments on virtual ranges
//! ```text
//!   va_fit, vmap_blocks     what is measured: cases, each with its preparation and its operation
//!         │
//!     SpaceSubject          one CPU's way into an `Allocator`: alloc, free, map_ram, unmap_ram
//!      ┌──┴─────────┐
//!   VmallocList  RangeEngine   the lists of `before` and `proposed` (lists.rs); the engine, configured (engine.rs)
//!      └──┬─────────┘
//!   Null or MappedHost      nothing is mapped (null.rs); or a memfd's frames are (host.rs)
//! ```
//!
//! # How time is taken
//! - `op_ns_*`: a repetition is a batch of operations between two readings of a clock: of the
//!   thread's CPU time where there is one thread, so that what others have the CPU for is not in
//!   it; of the wall clock where threads wait for one another. The variants take turns, repetition
//!   by repetition, so that caches and neighbours are the same for all of them.
//! - Latencies: a pass of its own, with a reading before and after each call. What two readings
//!   cost by themselves, measured at the start, is subtracted.
//! - Counters and spans of addresses are taken in that second pass, on an allocator that has done
//!   nothing before: with one thread and the same seed they are the same, whatever the clock says.
//! - Threads are bound to one CPU each, begin at a barrier, and stop all as soon as the first one
//!   is done; only what was done until then counts.
//!
//! # What is not here
//! What a kernel's own page tables, interrupts and preemption cost.
//!
//! # Sources
//! `vmap_blocks`: R. Pen, "fix possible exhaustion of vmalloc space caused by vm_map_ram allocator",
//! 2015. `va_fit`: U. Rezki, "improve vmalloc allocation", LKML, October 2018, and the cases of
//! Linux's lib/test_vmalloc.c, by their description.

mod clock;
mod engine;
mod failure;
pub mod fallback;
pub mod gcma;
mod host;
pub mod kvmalloc;
mod lists;
mod load;
mod null;
mod progress;
#[cfg(test)]
mod published;
pub mod range_metrics;
mod ranges;
mod shape;
mod subject;
mod threads;
pub mod va_fit;
pub mod vmap_blocks;
mod window;

pub use crate::report::Size;
pub use clock::CalibratedClock;
pub use failure::Failure;
pub use progress::Progress;
pub use ranges::SpaceOptions;
pub use shape::{Detail, Experiment, Findings, JsonArgs, Outputs, available};
pub use subject::{Allocator, SpaceSubject, SubjectCounters};
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
