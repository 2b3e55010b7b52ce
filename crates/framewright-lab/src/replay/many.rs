use super::reclaim::{Content, replay_with_reclaim, with_kernel};
use super::{Memory, Options, Outcome, Policy, ReplayError, replay};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// One replay to run: a policy on one memory.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The policy.
    pub policy: Policy,
    /// What to replay.
    pub memory: &'a Memory<'a>,
    /// How.
    pub options: Options,
}

/// Runs the jobs on up to `threads` threads; the outcomes come in the order of the jobs, whatever
/// thread finished first.
///
/// # Errors
/// The error of the first job, in their order, that had one.
pub fn replay_all(
    jobs: &[Job<'_>],
    threads: usize,
    done: &AtomicU64,
) -> Result<Vec<Outcome>, ReplayError> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Outcome, ReplayError>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    // By the first job with the same memory: it takes a look at every operation.
    let contents: Vec<OnceLock<Vec<Content>>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            // Relaxed: the counter only hands out indices; results are passed by the scope's join.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let is_same = |other: &Job<'_>| std::ptr::eq(other.memory, job.memory);
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
    // A thread that panics makes the scope panic, so every job has its result here.
    results
        .into_iter()
        .filter_map(|slot| slot.into_inner().ok().flatten())
        .collect()
}

fn run(
    job: &Job<'_>,
    contents: &OnceLock<Vec<Content>>,
    done: &AtomicU64,
) -> Result<Outcome, ReplayError> {
    let policy = job.policy.name();
    let (memory, options) = (job.memory, job.options);
    let result = if options.reclaim.is_some() {
        let contents = contents.get_or_init(|| Content::of_all(memory.trace));
        with_kernel(job.policy, memory, |kernel| {
            replay_with_reclaim(policy, kernel, memory, contents, options, done)
        })
    } else {
        let follow = |subject: &mut dyn super::Subject| replay(subject, memory, options, done);
        job.policy.with(memory, follow)
    };
    result.unwrap_or_else(|why| Err(ReplayError::Unbuilt { policy, why }))
}
