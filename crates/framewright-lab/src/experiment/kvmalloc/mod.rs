//! `kvmalloc`: a journal on every thread asks for large buffers at a high rate, in memory that is in
//! pieces.
//!
//! ```text
//!   KvmallocPlan     options, watermarks, the holder of each frame
//!     │
//!   JournalMachine   frames of a memfd, and pages: mmap's, or a table of ours
//!     │
//!   JournalVariant   before, proposed: the kernel's way (before::journal); framewright, framewright-kept: the engine
//!     │
//!   Writer           a thread: read in, kvmalloc a batch, copy, checksum, free the oldest batch
//! ```
//!
//! # What is the same for every variant
//! - The seed gives frames, the holder of each, items and their order.
//! - The cache, its list and its reclaim.
//! - A freed area is unmapped before its free returns, except in `framewright-kept`.
//! - What a call must reclaim is counted in one place: `before` and `proposed` do it inside, the engine is fail-fast
//!   and says no, and then its writer does it.
//! - The background thread sleeps until a thread finds less than the low mark free, and then reclaims
//!   up to the high mark.
//! - Below the floor, a thread that reads in reclaims by itself, so that single frames are there; with `--short` it
//!   does not, and calls find too little free.
//! - The window.
//! - Copies and checksums go word by word through the direct map, with a look at the page table for
//!   each mapped page.
//!
//! As a journal keeps the buffers of all commits until their checkpoint is written, live buffers are
//! an eighth of memory.
//!
//! # How time is taken
//! A thread warms up until it has filled its window of live batches and freed it once. Then it reads
//! its CPU time between the phases of a commit, so that the time of a call is the mean of a batch.
//! In every fourth commit it times each call of `kvmalloc` instead, by the wall clock. The variants take
//! turns, repetition by repetition, each in fresh memory. A run of its own accounts for locks, and for the CPU time of
//! calls in compaction and reclaim.
//!
//! # Sources
//! D. Chinner, "mm: vmalloc: use rwsem, mutex ...", LKML, March 2023.

mod command;
mod published;
mod report;

pub use command::KvmallocArgs;
pub use plan::Kvmalloc;

mod figures;
mod journal;
mod layout;
mod machine;
pub mod metrics;
mod plan;
#[cfg(test)]
mod tests;
mod variant;

pub use plan::{KvmallocOptions, MEMORY_BYTES, ObjectSize, batch_items};

/// Of a hundred blocks, those with a frame that cannot go, where nothing else is asked for.
pub const FRAGMENTED: u32 = 99;

use super::timing::CalibratedClock;
use super::{BEFORE, FRAMEWRIGHT, FRAMEWRIGHT_KEPT, Failure, Findings, PROPOSED, Progress};
use crate::before::journal::tenants::JournalTenants;
use crate::before::journal::{Rule, Wake};
use framewright::Frame;
use journal::Measured;
use machine::JournalMachine;
use plan::KvmallocPlan;
use std::sync::Arc;

/// The variants, in the order in which they take turns.
const VARIANTS: [&str; 4] = [BEFORE, PROPOSED, FRAMEWRIGHT, FRAMEWRIGHT_KEPT];

/// The figures of a case, and the document's.
///
/// Steps of progress: one a repetition of a variant and one a variant for its accounts, [`steps`] in all.
///
/// # Errors
/// If the objects do not fit, memory cannot be had, or anything is lost.
pub fn run(
    case: &str,
    options: KvmallocOptions,
    progress: Progress<'_>,
) -> Result<Findings, Failure> {
    let plan = KvmallocPlan::new(options)?;
    let clock = CalibratedClock::calibrated();
    let mut runs: [Vec<Measured>; VARIANTS.len()] = Default::default();
    // Accounts read a clock: not while anything is timed.
    let mut accounts = Vec::new();
    for variant in VARIANTS {
        let accounted = one(variant, &plan, clock, true);
        accounts.push(accounted.map_err(|e| e.of(case, variant))?);
        progress.step();
    }
    for _ in 0..options.repeat {
        for (variant, runs) in VARIANTS.into_iter().zip(&mut runs) {
            let measured = one(variant, &plan, clock, false);
            runs.push(measured.map_err(|e| e.of(case, variant))?);
            progress.step();
        }
    }
    let latencies = VARIANTS.iter().zip(&runs);
    let latencies = latencies
        .map(|(variant, runs)| figures::latencies(runs).distribution(case, variant, "kvmalloc"));
    Ok(Findings {
        figures: figures::of(case, options, &VARIANTS, &runs, &accounts),
        latencies: latencies.collect(),
        ..Findings::default()
    })
}

/// How many steps of progress a run has.
#[must_use]
pub fn steps(options: KvmallocOptions) -> u64 {
    VARIANTS.len() as u64 * (1 + u64::from(options.repeat))
}

/// One repetition of a variant, in fresh memory.
fn one(
    variant: &'static str,
    plan: &KvmallocPlan,
    clock: CalibratedClock,
    has_accounts: bool,
) -> Result<Measured, Failure> {
    let machine = JournalMachine::new(plan.frames, plan.options.mapper)?;
    let layout = &plan.layout;
    let tenants = Arc::new(JournalTenants::new(
        plan.frames,
        layout.movable.len() as u32,
    ));
    let frame = |number: &u32| Frame(u64::from(*number));
    for (page, number) in layout.movable.iter().enumerate() {
        tenants.settle(&machine, frame(number), page as u32);
    }
    let cached = layout.cache.iter().map(frame).zip(0..);
    tenants.read_in(&machine, &cached.collect::<Vec<_>>());
    let wake = Arc::new(Wake::default());
    let (tenants, wake, machine) = (&tenants, &wake, &machine);
    let journal = |rule| {
        variant::with_journal(
            rule,
            plan,
            machine,
            tenants,
            wake,
            has_accounts,
            |journal| journal::run(journal, plan, machine, tenants, wake, clock, has_accounts),
        )
    };
    let is_strict = variant != FRAMEWRIGHT_KEPT;
    match variant {
        BEFORE => journal(Rule::Stall),
        PROPOSED => journal(Rule::FailFast),
        _ => variant::with_engine(plan, machine, tenants, is_strict, has_accounts, |engine| {
            journal::run(engine, plan, machine, tenants, wake, clock, has_accounts)
        }),
    }
}
