//! How a body is measured: batches that take turns, and one pass with a look at every call.

use crate::experiment::timing::{CalibratedClock, Latencies, bind, cpu_time, joined};
use crate::experiment::va_fit::body::{FitBody, Setting};
use crate::experiment::{Allocator, Failure, SpaceSubject, SubjectCounters};
use framewright::Page;
use framewright::vrange::{RangeError, RangeFreeError};
use std::marker::PhantomData;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Operations between two looks at whether another thread is done.
const CHUNK: u64 = 64;

/// What a repetition took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    /// Time of one operation, the mean of the threads.
    pub(super) op_ns: f64,
    /// The same by the threads' CPU time.
    pub(super) cpu_ns: f64,
    /// Operations of all threads in a second.
    pub(super) ops_per_second: f64,
}

/// One thread's part of a case. The loop over the operations stands behind this, so that what is timed is compiled for one
/// allocator and one body, and all around it only once.
pub(super) trait ThreadWork: Send {
    /// So many operations.
    fn operate(&mut self, ops: u64) -> Result<(), Failure>;
}

/// A part that looks at the clock before and after each call.
pub(super) trait WatchedWork: ThreadWork {
    fn seen(&mut self) -> &mut SeenCalls;
}

/// A case over one allocator, and what its threads begin with.
pub(super) trait PreparedCase {
    /// The part of a thread.
    fn part(&self, setting: Setting) -> Result<Box<dyn ThreadWork + '_>, Failure>;

    /// The part of a thread that watches each call.
    fn watched_part(
        &self,
        setting: Setting,
        clock: CalibratedClock,
    ) -> Result<Box<dyn WatchedWork + '_>, Failure>;

    fn counters(&self) -> SubjectCounters;
}

/// The body `B` over the seats of `allocator`.
pub(super) struct BodyOver<'a, A, B> {
    allocator: &'a A,
    body: PhantomData<fn() -> B>,
}

impl<'a, A: Allocator, B: FitBody> BodyOver<'a, A, B> {
    pub(super) const fn new(allocator: &'a A) -> Self {
        Self {
            allocator,
            body: PhantomData,
        }
    }
}

impl<A: Allocator, B: FitBody> PreparedCase for BodyOver<'_, A, B> {
    fn part(&self, setting: Setting) -> Result<Box<dyn ThreadWork + '_>, Failure> {
        let mut seat = self.allocator.seat(setting.thread)?;
        let body = B::prepare(&mut seat, setting)?;
        Ok(Box::new(ThreadPlace { seat, body }))
    }

    fn watched_part(
        &self,
        setting: Setting,
        clock: CalibratedClock,
    ) -> Result<Box<dyn WatchedWork + '_>, Failure> {
        let mut seat = ClockedSeat {
            seat: self.allocator.seat(setting.thread)?,
            clock,
            seen: SeenCalls::new(),
        };
        let body = B::prepare(&mut seat, setting)?;
        Ok(Box::new(ThreadPlace { seat, body }))
    }

    fn counters(&self) -> SubjectCounters {
        self.allocator.counters()
    }
}

/// What one thread works with, on cache lines of its own, which the CPU fetches in pairs. A body's
/// random numbers change with every operation; beside another thread's they made `random_size` on
/// two threads as slow as on one, whatever the allocator.
#[repr(align(128))]
struct ThreadPlace<S, B> {
    seat: S,
    body: B,
}

impl<S: SpaceSubject + Send, B: FitBody> ThreadWork for ThreadPlace<S, B> {
    fn operate(&mut self, ops: u64) -> Result<(), Failure> {
        for _ in 0..ops {
            self.body.op(&mut self.seat)?;
        }
        Ok(())
    }
}

impl<S: SpaceSubject + Send, B: FitBody> WatchedWork for ThreadPlace<ClockedSeat<S>, B> {
    fn seen(&mut self) -> &mut SeenCalls {
        &mut self.seat.seen
    }
}

/// All threads of a case.
pub(super) struct FitThreads<'a> {
    parts: Vec<Box<dyn ThreadWork + 'a>>,
    loops: u64,
    bound: bool,
}

impl<'a> FitThreads<'a> {
    /// Prepares the case for each thread, and warms it up.
    pub(super) fn prepare(
        case: &'a dyn PreparedCase,
        threads: u16,
        loops: u64,
        setting: Setting,
    ) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        for thread in 0..threads {
            let mut part = case.part(Setting { thread, ..setting })?;
            part.operate(loops / 10)?;
            parts.push(part);
        }
        Ok(Self {
            parts,
            loops,
            bound: threads > 1,
        })
    }

    /// A repetition with all threads, or with the first one only.
    pub(super) fn repetition(&mut self, all: bool) -> Result<Rate, Failure> {
        let threads = if all { self.parts.len() } else { 1 };
        let loops = self.loops;
        if !self.bound {
            let start = cpu_time();
            self.parts[0].operate(loops)?;
            let time = cpu_time().saturating_sub(start);
            return Ok(rate(&[ThreadTiming::new(loops, time, time)]));
        }
        let stop = AtomicBool::new(false);
        let parts = self.parts[..threads].iter_mut();
        let parts = at_once(parts, |part| {
            let timing = until_one_is_done(part.as_mut(), loops, &stop);
            // The first one ends it for all, also where it failed.
            stop.store(true, Ordering::Relaxed);
            timing
        });
        Ok(rate(&parts?))
    }
}

/// `work` on each part, on threads that are bound to a CPU each and begin together.
fn at_once<P: Send, T: Send>(
    parts: impl ExactSizeIterator<Item = P>,
    work: impl Fn(P) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let barrier = Barrier::new(parts.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = parts
            .enumerate()
            .map(|(cpu, part)| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    bind(cpu);
                    barrier.wait();
                    work(part)
                })
            })
            .collect();
        running.into_iter().map(joined).collect()
    })
}

fn until_one_is_done(
    part: &mut dyn ThreadWork,
    loops: u64,
    stop: &AtomicBool,
) -> Result<ThreadTiming, Failure> {
    let start = Instant::now();
    let cpu_start = cpu_time();
    let mut done = 0;
    while done < loops && !stop.load(Ordering::Relaxed) {
        let chunk = CHUNK.min(loops - done);
        part.operate(chunk)?;
        done += chunk;
    }
    let cpu = cpu_time().saturating_sub(cpu_start);
    Ok(ThreadTiming::new(done, start.elapsed(), cpu))
}

/// What one thread took for an operation.
#[derive(Debug, Clone, Copy)]
struct ThreadTiming {
    wall_ns: f64,
    cpu_ns: f64,
}

impl ThreadTiming {
    fn new(ops: u64, wall: Duration, cpu: Duration) -> Self {
        // A clock that has not gone on is no reason to divide by zero.
        let each = |time: Duration| time.as_nanos().max(1) as f64 / ops.max(1) as f64;
        Self {
            wall_ns: each(wall),
            cpu_ns: each(cpu),
        }
    }
}

fn rate(parts: &[ThreadTiming]) -> Rate {
    let mean =
        |of: fn(&ThreadTiming) -> f64| parts.iter().map(of).sum::<f64>() / parts.len() as f64;
    Rate {
        op_ns: mean(|part| part.wall_ns),
        cpu_ns: mean(|part| part.cpu_ns),
        ops_per_second: parts.iter().map(|part| 1e9 / part.wall_ns).sum(),
    }
}

/// What was seen of each call of one thread.
#[derive(Debug)]
pub(super) struct SeenCalls {
    pub(super) allocs: Latencies,
    pub(super) frees: Latencies,
    /// The lowest page handed out, and the one behind the highest.
    pub(super) span: Option<(u64, u64)>,
    pub(super) failed: u64,
}

impl SeenCalls {
    fn new() -> Self {
        Self {
            allocs: Latencies::new(),
            frees: Latencies::new(),
            span: None,
            failed: 0,
        }
    }

    /// Takes what another thread saw in.
    fn add(&mut self, other: &Self) {
        self.allocs.add(&other.allocs);
        self.frees.add(&other.frees);
        self.failed += other.failed;
        if let Some((low, high)) = other.span {
            self.reach(low, high);
        }
    }

    fn reach(&mut self, low: u64, high: u64) {
        let (least, most) = self.span.unwrap_or((low, high));
        self.span = Some((least.min(low), most.max(high)));
    }

    /// Bytes from the lowest to the highest one handed out.
    pub(super) fn span_bytes(&self) -> u64 {
        self.span
            .map_or(0, |(low, high)| (high - low) * Page::BYTES)
    }
}

/// A seat that looks at the clock before and after each call.
struct ClockedSeat<S> {
    seat: S,
    clock: CalibratedClock,
    seen: SeenCalls,
}

impl<S: SpaceSubject> ClockedSeat<S> {
    #[inline]
    fn allocated(&mut self, got: &Result<Page, RangeError>, pages: u64, ns: u64) {
        self.seen.allocs.record(ns);
        match got {
            Ok(page) => self.seen.reach(page.0, page.0 + pages),
            Err(_) => self.seen.failed += 1,
        }
    }
}

impl<S: SpaceSubject> SpaceSubject for ClockedSeat<S> {
    #[inline]
    fn alloc(&mut self, pages: u64, align_bytes: u64) -> Result<Page, RangeError> {
        let (got, ns) = self.clock.time(|| self.seat.alloc(pages, align_bytes));
        self.allocated(&got, pages, ns);
        got
    }

    #[inline]
    fn free(&mut self, page: Page) -> Result<(), RangeFreeError> {
        let (got, ns) = self.clock.time(|| self.seat.free(page));
        self.seen.frees.record(ns);
        got
    }

    #[inline]
    fn map_ram(&mut self, pages: u64) -> Result<Page, RangeError> {
        let (got, ns) = self.clock.time(|| self.seat.map_ram(pages));
        self.allocated(&got, pages, ns);
        got
    }

    #[inline]
    fn unmap_ram(&mut self, page: Page, pages: u64) -> Result<(), RangeFreeError> {
        let (got, ns) = self.clock.time(|| self.seat.unmap_ram(page, pages));
        self.seen.frees.record(ns);
        got
    }

    fn purge(&mut self) {
        self.seat.purge();
    }

    fn drain(&mut self) {
        self.seat.drain();
    }
}

/// The case on an allocator that has done nothing before, every call watched. The latencies are
/// those of `loops` operations behind a warm-up; span and counters those of everything.
pub(super) fn watched(
    case: &dyn PreparedCase,
    threads: u16,
    loops: u64,
    setting: Setting,
    clock: CalibratedClock,
) -> Result<SeenCalls, Failure> {
    let parts: Result<Vec<_>, Failure> = (0..threads)
        .map(|thread| case.watched_part(Setting { thread, ..setting }, clock))
        .collect();
    let mut parts = parts?;
    let work = |part: &mut Box<dyn WatchedWork + '_>| {
        part.operate(loops / 10)?;
        let seen = part.seen();
        seen.allocs.forget();
        seen.frees.forget();
        part.operate(loops)
    };
    if let [part] = &mut parts[..] {
        work(part)?;
    } else {
        at_once(parts.iter_mut(), work)?;
    }
    let mut all = SeenCalls::new();
    for part in &mut parts {
        all.add(part.seen());
    }
    Ok(all)
}
