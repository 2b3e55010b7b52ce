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
pub mod fallback;
pub mod gcma;
mod host;
pub mod kvmalloc;
mod lists;
mod load;
mod null;
#[cfg(test)]
mod published;
pub mod range_metrics;
mod ranges;
mod subject;
mod threads;
pub mod va_fit;
pub mod vmap_blocks;

pub use crate::report::Size;
pub use clock::CalibratedClock;
pub use ranges::SpaceOptions;
pub use subject::{Allocator, SpaceSubject, SubjectCounters};

use crate::measure::MetricTable;
use crate::report::{Distribution, Figure, FigureAssertion, FigureSource, Item, OverTime, Tabled};
use framewright::vrange::{RangeError, RangeFreeError};
use framewright::{Page, SetupError};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// How much a table shows; JSON has everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What the main job shows in its quick form.
    Short,
    /// All that fits a screen.
    Full,
}

/// Where a command writes, and what it demands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outputs<'a> {
    /// Figures as JSON Lines.
    pub json: Option<&'a Path>,
    /// A series over time.
    pub csv: Option<&'a Path>,
    /// What must hold in every case.
    pub assertions: &'a [FigureAssertion],
}

/// An experiment; its values are plans.
pub trait Experiment: Sized {
    /// Its name in figures and in addresses on the page.
    const NAME: &'static str;
    /// The question that it answers.
    const TITLE: &'static str;
    /// What is done, broken where a terminal breaks it.
    const INTRODUCTION: &'static str;
    /// How each kind of figure is taken.
    const METHOD: &'static str;
    /// What is measured.
    const METRICS: MetricTable;

    /// Its options on the command line; their comment is what `--help` says of the experiment.
    type Args: clap::Args;

    /// Where a command writes.
    fn outputs(args: &Self::Args) -> Outputs<'_>;

    /// What a command reads, files and folders: none of its outputs may be among it.
    fn inputs(_args: &Self::Args) -> Vec<&Path> {
        Vec::new()
    }

    /// The plan that a command asks for.
    ///
    /// # Errors
    /// What is wrong with the options.
    fn asked(args: &Self::Args) -> Result<Self, String>;

    /// The plans of the main job, each with tables of its own.
    fn sized(size: Size) -> Vec<Self>;

    /// Whether this machine has what the experiment needs.
    ///
    /// # Errors
    /// What it lacks.
    fn available() -> Result<(), Failure> {
        available()
    }

    /// How many steps of progress a run has.
    fn steps(&self) -> u64;

    /// Runs the plan.
    ///
    /// # Errors
    /// If the machine does not give what is needed, or a request fails that must not.
    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure>;

    /// Of the random numbers.
    fn seed(&self) -> u64;

    /// The plan as a record has it.
    fn described(&self) -> BTreeMap<&'static str, String>;

    /// The tables, and what a reader must know of them.
    fn tables(&self, figures: &[Figure], detail: Detail) -> Vec<Tabled>;

    /// The plots of a page.
    fn plots(&self, findings: &Findings) -> Vec<Item>;

    /// What was reproduced, by how much it differs, and why: a line each.
    fn verdict(&self, figures: &[Figure]) -> Vec<String>;
}

/// Writes figures: every experiment can.
#[derive(Debug, clap::Args)]
pub struct JsonArgs {
    /// Write the figures as JSON Lines; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// The seed where none is given. How many vmap blocks a random sequence frees with head insertion
/// depends on it: 33 to 59, 47 in the mean, for the seeds from 1 to 40, where the first document has 37
/// from a generator and a seed that it does not name. This is the first of them that has 37.
pub const SEED: u64 = 4;

/// The behaviour a document complains about.
pub const BEFORE: &str = "before";
/// What it proposes.
pub const PROPOSED: &str = "proposed";
/// This project's, as its defaults have it: a free unmaps before it returns, as in Linux.
pub const FRAMEWRIGHT: &str = "framewright";
/// The same, not strict: freed areas of up to 128 pages stay mapped until the next request of their length.
pub const FRAMEWRIGHT_KEPT: &str = "framewright-kept";

/// The window's length in pages: 32 GiB, what the first document's worst case leaves behind
/// (7001 blocks of 4 MiB) and some.
const WINDOW_PAGES: u64 = (32 << 30) / Page::BYTES;

/// Where a window begins that nothing is mapped in: 4 GiB, a multiple of every length that matters.
const WINDOW_START: Page = Page((4 << 30) / Page::BYTES);

/// What stands behind the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mapper {
    /// Nothing: the address-space level alone
    Null,
    /// The frames of a memfd, mapped with mmap
    Host,
}

impl Mapper {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Host => "host",
        }
    }

    /// Where counts come from: of real mappings, or of none.
    const fn counted(self) -> FigureSource {
        match self {
            Self::Null => FigureSource::Simulated,
            Self::Host => FigureSource::Measured,
        }
    }
}

/// What an experiment found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The figures.
    pub figures: Vec<Figure>,
    /// How long calls took, of those whose calls were timed one by one.
    pub latencies: Vec<Distribution>,
    /// What happened over time.
    pub courses: Vec<OverTime>,
    /// The same as CSV, where that was asked for.
    pub series: String,
}

impl Findings {
    /// Takes the other's in.
    pub fn add(&mut self, other: Self) {
        self.figures.extend(other.figures);
        self.latencies.extend(other.latencies);
        self.courses.extend(other.courses);
        self.series += &other.series;
    }
}

impl From<Vec<Figure>> for Findings {
    fn from(figures: Vec<Figure>) -> Self {
        Self {
            figures,
            ..Self::default()
        }
    }
}

/// Why an experiment ended without figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    case: String,
    variant: &'static str,
    cause: String,
}

impl Failure {
    fn new(cause: impl fmt::Display) -> Self {
        Self {
            case: String::new(),
            variant: "",
            cause: cause.to_string(),
        }
    }

    /// The same, in that case of that variant.
    fn of(mut self, case: &str, variant: &'static str) -> Self {
        if self.case.is_empty() {
            self.case = case.to_owned();
            self.variant = variant;
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.case.is_empty() {
            write!(f, "{}, {}: ", self.case, self.variant)?;
        }
        f.write_str(&self.cause)
    }
}

impl std::error::Error for Failure {}

macro_rules! failure_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        }
    )*};
}
failure_from!(RangeError, RangeFreeError, SetupError);

/// Whether the machine has what every experiment needs.
///
/// # Errors
/// What it lacks: the barrier on all threads that the engine's frequent paths are compiled for.
pub fn available() -> Result<(), Failure> {
    null::Null::new().map(drop)
}

/// How far an experiment is, for the command's progress bar.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a>(&'a AtomicU64);

impl<'a> Progress<'a> {
    /// Counts steps there.
    #[must_use]
    pub const fn new(steps: &'a AtomicU64) -> Self {
        Self(steps)
    }

    fn step(self) {
        // Shown to a person; nothing is ordered by it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
