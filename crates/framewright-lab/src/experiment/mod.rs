//! The experiments on virtual ranges: what two documents measured, repeated beside what this
//! project does instead.
//!
//! ```text
//!   va_fit, vmap_blocks     what is measured: cases, each with its preparation and its operation
//!         │
//!      Subject              one CPU's way into an allocator: alloc, free, map_ram, unmap_ram
//!      ┌──┴───────┐
//!   Busy        Engine      the busy list of `before`; the engine, by its configuration
//!      └──┬───────┘
//!   Null or Host            nothing is mapped; or a memfd's frames are
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

mod busy;
mod clock;
mod engine;
pub mod fallback;
pub mod gcma;
mod host;
pub mod kvmalloc;
mod null;
mod published;
pub mod range_metrics;
mod subject;
pub mod va_fit;
pub mod vmap_blocks;

pub use clock::Clock;
pub use subject::{Allocator, Counters, Subject};

use crate::measure::MetricTable;
use crate::report::{Distribution, Figure, Source};
use framewright::Page;
use framewright::vrange::{RangeError, RangeFreeError, SetupError};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every table of metrics, in the order of `docs/metrics.md`.
pub const METRICS: [MetricTable; 4] = [
    range_metrics::TABLE,
    kvmalloc::metrics::TABLE,
    fallback::metrics::TABLE,
    gcma::metrics::TABLE,
];

/// The seed where none is given. How many vmap blocks a random sequence frees with head insertion
/// depends on it: 33 to 59, 47 in the mean, for the seeds from 1 to 40, where the first document has 37
/// from a generator and a seed that it does not name. This is the first of them that has 37.
pub const SEED: u64 = 4;

/// The behaviour a document complains about.
pub const BEFORE: &str = "before";
/// What it proposes.
pub const PROPOSED: &str = "proposed";
/// This project's.
pub const FRAMEWRIGHT: &str = "framewright";

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
    const fn counted(self) -> Source {
        match self {
            Self::Null => Source::Simulated,
            Self::Host => Source::Measured,
        }
    }
}

/// What an experiment is run with.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What stands behind the pages.
    pub mapper: Mapper,
    /// Threads, each on a CPU of its own as far as there are so many.
    pub threads: u16,
    /// Operations a repetition; `None` for what each case takes by itself.
    pub loops: Option<u64>,
    /// Repetitions.
    pub repeat: u32,
    /// Of the random numbers.
    pub seed: u64,
}

/// What an experiment found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The figures.
    pub figures: Vec<Figure>,
    /// How long calls took, of those whose calls were timed one by one.
    pub latencies: Vec<Distribution>,
}

impl Findings {
    /// Takes the other's in.
    pub fn add(&mut self, other: Self) {
        self.figures.extend(other.figures);
        self.latencies.extend(other.latencies);
    }
}

impl From<Vec<Figure>> for Findings {
    fn from(figures: Vec<Figure>) -> Self {
        Self {
            figures,
            latencies: Vec::new(),
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

/// How far an experiment is, for whoever watches.
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
