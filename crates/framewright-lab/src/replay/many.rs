//! Replays on several threads. One replay is one thread's from its beginning to its end, so the figures do not
//! depend on how many there are.

use super::reclaim::{ObjectContent, replay_with_reclaim, with_kernel};
use super::{ReplayError, ReplayOptions, ReplayOutcome, ReplayPolicy, TraceMemory, replay};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// One replay to run: a policy on one memory.
#[derive(Debug, Clone, Copy)]
pub struct ReplayJob<'a> {
    /// The policy.
    pub policy: ReplayPolicy,
    /// What to replay.
    pub memory: &'a TraceMemory<'a>,
    /// How.
    pub options: ReplayOptions,
}

/// Runs the jobs on up to `threads` threads; the outcomes come in the order of the jobs, whatever
/// thread finished first.
///
/// # Errors
/// The error of the first job, in their order, that had one.
pub fn replay_all(
    jobs: &[ReplayJob<'_>],
    threads: usize,
    done: &AtomicU64,
) -> Result<Vec<ReplayOutcome>, ReplayError> {
    replay_all_until(jobs, threads, done, &AtomicBool::new(false))
}

/// The same, until another thread sets `stop`: jobs that run then come to their end, and no other begins.
///
/// # Errors
/// [`ReplayError::Stopped`] if a job had not begun, and as [`replay_all`].
pub fn replay_all_until(
    jobs: &[ReplayJob<'_>],
    threads: usize,
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Vec<ReplayOutcome>, ReplayError> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<ReplayOutcome, ReplayError>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    // By the first job with the same memory: it takes a look at every operation.
    let contents: Vec<OnceLock<Vec<ObjectContent>>> =
        jobs.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            // Relaxed: the counter only hands out indices; results are passed by the scope's join.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            // Relaxed: a job that begins a moment later is no harm.
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let is_same = |other: &ReplayJob<'_>| std::ptr::eq(other.memory, job.memory);
            let first = jobs.iter().position(is_same).unwrap_or(index);
            let result = run(job, &contents[first], done);
            if let Ok(mut slot) = results[index].lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    // A thread that panics makes the scope panic, so every job that has begun has its result here.
    let result = |slot: Mutex<Option<_>>| slot.into_inner().ok().flatten();
    results
        .into_iter()
        .map(|slot| result(slot).unwrap_or(Err(ReplayError::Stopped)))
        .collect()
}

fn run(
    job: &ReplayJob<'_>,
    contents: &OnceLock<Vec<ObjectContent>>,
    done: &AtomicU64,
) -> Result<ReplayOutcome, ReplayError> {
    let policy = job.policy.name();
    let (memory, options) = (job.memory, job.options);
    let result = if options.reclaim.is_some() {
        let contents = contents.get_or_init(|| ObjectContent::of_all(memory.trace));
        with_kernel(job.policy, memory, |kernel| {
            replay_with_reclaim(policy, kernel, memory, contents, options, done)
        })
    } else {
        let follow =
            |subject: &mut dyn super::ReplaySubject| replay(subject, memory, options, done);
        job.policy.with(memory, follow)
    };
    result.unwrap_or_else(|why| Err(ReplayError::Unbuilt { policy, why }))
}
