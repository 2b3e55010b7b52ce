//! What contiguous memory costs while somebody else has it: the fifth document's experiment.
//!
//! ```text
//!   foreground                    the area                         background
//!   1 ... 32,000 frames,   ──▶  cma          movable pages   ◀──  a build-like job on real files,
//!   32 of each, released        gcma         GCMA version 2        or a guest that is always busy,
//!   at once, paced              framewright  the reserve           or nobody
//! ```
//!
//! # How time is taken
//! The latency of a request is from its call to its return by the wall clock, served or not, less what the
//! clock itself costs; its release, the pause and what fills the area again are outside.
//!
//! # Sources
//! S. Park, "introduce gcma", LKML RFC v2, February 2015; its two tables.

mod area;
mod guest;
mod plan;
mod published;
mod request;

pub use request::SIZES;

use super::va_fit::joined;
use super::{Clock, Failure, Progress};
use crate::measure::GcmaMetric as M;
use crate::report::{Figure, Source};
use area::{Area, with_area};
use plan::Plan;
use request::{Outcome, Series};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Between a release and the next request.
const PAUSE: Duration = Duration::from_millis(5);

/// Who has the area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Variant {
    /// GCMA version 2
    Gcma,
    /// This engine's reserve
    Framewright,
}

impl Variant {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 2] = [Self::Gcma, Self::Framewright];

    /// The name on the command line and in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gcma => "gcma",
            Self::Framewright => super::FRAMEWRIGHT,
        }
    }
}

/// What runs beside the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Background {
    /// A guest that gets and puts pages without a pause
    Guest,
    /// Nobody
    None,
}

impl Background {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::None => "none",
        }
    }
}

/// What the experiment is run with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memory in all.
    pub ram_bytes: u64,
    /// Of that, the area.
    pub reserve_bytes: u64,
    /// Requests of each size.
    pub requests: u32,
    /// What runs beside them.
    pub background: Background,
    /// Nobody is at work, and before each request the area is filled with guests' pages.
    pub idle: bool,
    /// Threads of the background.
    pub workers: u16,
    /// Of everything that is drawn.
    pub seed: u64,
    /// In the order in which they are run.
    pub variants: Vec<Variant>,
}

impl Options {
    /// Who is at work beside the requests.
    const fn at_work(&self) -> Background {
        if self.idle {
            Background::None
        } else {
            self.background
        }
    }
}

/// Steps of progress: a request each.
#[must_use]
pub fn steps(options: &Options) -> u64 {
    (options.variants.len() * SIZES.len()) as u64 * u64::from(options.requests)
}

/// The variants' figures, behind the document's.
///
/// # Errors
/// If the memory asked for cannot be laid out or had, or a request fails in a way that no variant's
/// requests fail.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Vec<Figure<M>>, Failure> {
    let plan = Plan::new(options)?;
    let clock = Clock::calibrated();
    let mut figures = Vec::new();
    for &frames in &plan.sizes {
        figures.extend(published::latencies(frames));
    }
    for &variant in &options.variants {
        let outcomes = with_area(variant, &plan, |area| {
            requests(area, &plan, options, clock, progress)
        });
        for (frames, outcome) in outcomes.map_err(|e| e.of("", variant.name()))? {
            figures.extend(outcome.figures().into_iter().map(|(metric, value)| Figure {
                case: frames.to_string(),
                variant: variant.name(),
                metric,
                value,
                source: Source::Measured,
            }));
        }
    }
    Ok(figures)
}

/// All sizes' requests beside the background.
fn requests(
    area: &dyn Area,
    plan: &Plan,
    options: &Options,
    clock: Clock,
    progress: Progress<'_>,
) -> Result<Vec<(u64, Outcome)>, Failure> {
    let stop = AtomicBool::new(false);
    let mut filler = guest::Filler::default();
    // With an empty area nobody is ever a guest.
    let is_filled = options.idle || options.background == Background::Guest;
    if is_filled {
        filler.put(area, plan.reserve_frames);
    }
    std::thread::scope(|scope| {
        let beside = (options.at_work() == Background::Guest).then(|| {
            let (stop, frames) = (&stop, plan.reserve_frames);
            scope.spawn(move || guest::be_busy(area, options.seed, frames, stop))
        });
        let mut owner = area.owner();
        // What the request before has left free.
        let mut free = 0;
        let each = |&frames: &u64| {
            let series = Series {
                frames,
                requests: options.requests,
                pause: PAUSE,
            };
            let mut prepare = || {
                if is_filled {
                    filler.put(area, free);
                }
                free = frames;
                Ok(())
            };
            let counted = || area.counted();
            let outcome = series.run(&mut *owner, clock, &counted, &mut prepare, progress)?;
            Ok((frames, outcome))
        };
        let outcomes = plan.sizes.iter().map(each).collect();
        stop.store(true, Relaxed);
        beside.into_iter().for_each(joined);
        outcomes
    })
}

/// The cases that were measured, in order.
#[must_use]
pub fn cases(figures: &[Figure<M>]) -> Vec<&str> {
    let mut cases: Vec<&str> = Vec::new();
    for figure in figures.iter().filter(|f| f.source != Source::Published) {
        if !cases.contains(&figure.case.as_str()) {
            cases.push(&figure.case);
        }
    }
    cases
}
