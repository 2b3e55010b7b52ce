//! What a fallback costs a phone in two and a half days: requests that stall, and blocks that mix.
//!
//! ```text
//!   phone.toml ──▶ Params ──▶ a phone: what is asked for, and when   PhoneKernel ──▶ a kernel
//!                               └──────────────── lives on ──────────────────────────┘
//!                                                    │
//!                              LifeOutcome: the kernel's counters and lists, the phone's own view
//! ```
//!
//! A synthetic phone lives on a [kernel](crate::pressure::Kernel): the document's own, as it was
//! (`before`) and with its patch (`proposed`), and this engine (`framewright`). What the phone asks
//! for is the same for all of them. What is mixed is seen from outside, the same for all.
//!
//! # How it was fitted
//! Once, `before` alone, to the document's before column; `phone.toml` says of each figure where it
//! comes from. The other columns are predictions; how blind they are stands in
//! docs/design/0009-fallback-and-reclaim.md.
//!
//! # Sources
//! ChengYi He, "avoid external fragmentation related to migration fallback", linux-kernel, 30 January
//! 2016.

mod command;
mod plan;
mod published;
mod report;

pub use command::FallbackArgs;
pub use plan::FallbackExperiment;

mod figures;
pub mod metrics;
pub mod params;
mod phone;
mod policy;
#[cfg(test)]
mod test_kernel;
#[cfg(test)]
mod tests;

pub use figures::{Course, case, figures, middles, series};
pub use params::{Params, ParamsError};
pub use policy::PhoneKernel;

use super::{Failure, Progress};
use crate::pressure::{Kernel, LISTS};
use framewright::stats::ReclaimStats;
use phone::{Lived, PhoneLife};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Microseconds of a day.
const DAY_US: u64 = 24 * 3600 * 1_000_000;

/// The place of movable pageblocks among the lists.
const MOVABLE: usize = 2;

/// What a phone's life on a kernel came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifeOutcome {
    /// What the kernel counted.
    pub stats: ReclaimStats,
    /// Free blocks by list and order, at the end.
    pub free_blocks: [[u64; 11]; LISTS],
    /// Pageblocks by list, at the end. Those without memory are movable, as Linux counts them.
    pub labels: [u64; LISTS],
    /// What the phone counted.
    lived: Lived,
    /// What memory looked like on the way.
    points: Vec<LifePoint>,
}

/// What memory looked like at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LifePoint {
    awake_s: u64,
    labels: [u64; LISTS],
    free_blocks: [[u64; 11]; LISTS],
    stalls: [u64; framewright::Order::MAX.index() + 1],
    lived: Lived,
}

/// How a phone lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeSpan {
    /// Thousandths of a day.
    pub days_milli: u64,
    /// Seconds awake between two points of the series; none without.
    pub every_s: Option<u64>,
}

impl LifeSpan {
    /// Virtual time awake, in microseconds.
    #[must_use]
    pub const fn awake_us(self, params: &Params) -> u64 {
        DAY_US / 1000 * self.days_milli / 1000 * params.time.awake_permille
    }

    /// Steps of the progress bar: seconds awake.
    #[must_use]
    pub const fn steps(self, params: &Params) -> u64 {
        self.awake_us(params) / 1_000_000
    }
}

/// A life to live: a seed on a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeJob {
    /// The kernel.
    pub policy: PhoneKernel,
    /// Of the demand.
    pub seed: u64,
}

/// Lives all lives on up to `threads` threads; the outcomes come in the order of the jobs.
///
/// # Errors
/// If a kernel cannot manage the phone's memory.
pub fn live_all(
    params: &Params,
    jobs: &[LifeJob],
    span: LifeSpan,
    threads: usize,
    progress: Progress<'_>,
) -> Result<Vec<LifeOutcome>, Failure> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<LifeOutcome, Failure>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            // Relaxed: the counter only hands out indices; results are passed by the scope's join.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let lived = job.policy.with(params, |kernel| {
                live(params, kernel, job.seed, span, progress)
            });
            let lived =
                lived.map_err(|why| Failure::new(why).of(&case(job.seed), job.policy.name()));
            if let Ok(mut slot) = results[index].lock() {
                *slot = Some(lived);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    // A thread that panics makes the scope panic, so every job has its result here.
    let each = results
        .into_iter()
        .filter_map(|slot| slot.into_inner().ok());
    each.flatten().collect()
}

/// A phone lives on a kernel that has all its memory free.
pub(crate) fn live(
    params: &Params,
    kernel: &mut dyn Kernel,
    seed: u64,
    span: LifeSpan,
    progress: Progress<'_>,
) -> LifeOutcome {
    let (lived, points) = PhoneLife::run(params, kernel, seed, span, progress);
    LifeOutcome {
        stats: kernel.stats(),
        free_blocks: kernel.free_blocks(),
        labels: labels(params, kernel),
        lived,
        points,
    }
}

/// Pageblocks by list; those that hold no memory are movable, as every one is at first.
fn labels(params: &Params, kernel: &dyn Kernel) -> [u64; LISTS] {
    let mut labels = kernel.labels();
    let listed: u64 = labels.iter().sum();
    labels[MOVABLE] += params.machine.pageblocks.saturating_sub(listed);
    labels
}
