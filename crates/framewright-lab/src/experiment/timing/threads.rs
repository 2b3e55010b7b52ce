//! Threads that are timed: where they run, and how long they had a CPU.

use std::time::Duration;

/// The time that the calling thread has had a CPU. A thread that works alone never waits for another,
/// so in the rest of the wall time other processes had the CPU.
pub(in crate::experiment) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(time.tv_sec.unsigned_abs(), nanoseconds)
}

/// The same in nanoseconds.
pub(in crate::experiment) fn cpu_ns() -> u64 {
    u64::try_from(cpu_time().as_nanos()).unwrap_or(u64::MAX)
}

/// What a thread returned; its panic goes on here.
pub(in crate::experiment) fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Binds the calling thread to the `n`-th CPU that the process may use, counted around. Where that
/// is refused the scheduler places it.
pub(in crate::experiment) fn bind(n: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&c| allowed.is_set(c))
        .collect();
    if let Some(&cpu) = cpus.get(n % cpus.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(cpu);
        let _ = sched_setaffinity(None, &one);
    }
}
