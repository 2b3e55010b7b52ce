//! Threads that start together, and what they took.

use std::hint::black_box;
use std::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};
use std::thread;
use std::time::Instant;

/// Where threads wait for each other: all spin, so that they leave within a moment.
pub(crate) struct SpinGate {
    threads: usize,
    arrived: AtomicUsize,
}

impl SpinGate {
    pub(crate) fn wait(&self) {
        let nth = self.arrived.fetch_add(1, AcqRel);
        let all = (nth / self.threads + 1) * self.threads;
        let mut spins = 0u32;
        while self.arrived.load(Acquire) < all {
            spins += 1;
            if spins.is_multiple_of(4096) {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// When one thread was at work on one phase.
#[derive(Clone, Copy)]
pub(crate) struct PhaseSpan {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) ops: usize,
}

/// Whether standard error is told which pattern runs, and how many operations each phase had.
static PHASES_SAID: AtomicBool = AtomicBool::new(false);

/// From now on each pattern says its name and each phase its operations, for `cargo xtask rivals`.
pub(crate) fn say_phases() {
    PHASES_SAID.store(true, Relaxed);
}

/// Says all patterns, each with its figures, and all subjects.
pub(crate) fn say_all(cases: impl Iterator<Item = String>, subjects: &[&str], empty: &str) {
    cases.for_each(|case| println!("case {case}"));
    let subjects = subjects.iter().chain([&empty]);
    subjects.for_each(|name| println!("subject {name}"));
}

/// Says which pattern comes, if phases are said.
pub(crate) fn say_case(at: &str) {
    if PHASES_SAID.load(Relaxed) {
        eprintln!("case {at}");
    }
}

/// Where a phase begins or ends. By its name callgrind knows what to count.
#[inline(never)]
fn phase_edge() {
    black_box(0);
}

pub(crate) fn timed(ops: usize, work: impl FnOnce()) -> PhaseSpan {
    phase_edge();
    let start = Instant::now();
    work();
    let end = Instant::now();
    phase_edge();
    if PHASES_SAID.load(Relaxed) {
        eprintln!("phase {ops}");
    }
    PhaseSpan { start, end, ops }
}

/// A thread that panics ends the process: the others would wait for it for ever.
struct EndsTheProcess;

impl Drop for EndsTheProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::exit(101);
        }
    }
}

/// Runs `work` in as many threads as the load has, each on a CPU of its own where there is one.
pub(crate) fn in_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize, &SpinGate) -> T + Sync,
) -> Vec<T> {
    let gate = SpinGate {
        threads,
        arrived: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let spawn = |nth| {
            scope.spawn(move || {
                crate::machine::pin(nth);
                let _alone = EndsTheProcess;
                work(nth, gate)
            })
        };
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, T>| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    })
}

/// The mean over the threads, and how much of the time they shared.
pub(crate) fn summary(threads: &[Vec<PhaseSpan>]) -> (f64, f64) {
    let of_thread = |spans: &Vec<PhaseSpan>| {
        let ns: u128 = spans.iter().map(|s| (s.end - s.start).as_nanos()).sum();
        let ops: usize = spans.iter().map(|span| span.ops).sum();
        ns as f64 / ops as f64
    };
    let mean = threads.iter().map(of_thread).sum::<f64>() / threads.len() as f64;
    let (mut shared, mut whole) = (0.0, 0.0);
    for phase in 0..threads[0].len() {
        let spans = || threads.iter().map(|spans| spans[phase]);
        let first = spans().map(|span| span.start).min().expect("a thread");
        let last = spans().map(|span| span.end).max().expect("a thread");
        let all_from = spans().map(|span| span.start).max().expect("a thread");
        let all_to = spans().map(|span| span.end).min().expect("a thread");
        shared += all_to.saturating_duration_since(all_from).as_secs_f64();
        whole += (last - first).as_secs_f64();
    }
    (mean, shared / whole)
}
