//! How a body is measured: batches that take turns, and one pass with a look at every call.

use crate::experiment::timing::{CalibratedClock, Latencies, bind, cpu_time, joined};
use crate::experiment::va_fit::body::{FitBody, Setting};
use crate::experiment::{Allocator, Failure, SpaceSubject};
use framewright::Page;
use framewright::vrange::{RangeError, RangeFreeError};
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

/// What one thread works with, on cache lines of its own, which the CPU fetches in pairs. A body's
/// random numbers change with every operation; beside another thread's they made `random_size` on
/// two threads as slow as on one, whatever the allocator.
#[repr(align(128))]
struct ThreadPlace<S, B> {
    seat: S,
    body: B,
}

/// The body `B` over the seats of one allocator.
pub(super) struct Threads<'a, A: Allocator + 'a, B> {
    places: Vec<ThreadPlace<A::Seat<'a>, B>>,
    loops: u64,
    bound: bool,
}

impl<'a, A: Allocator, B: FitBody> Threads<'a, A, B> {
    /// Prepares the body for each thread, and warms it up.
    pub(super) fn prepare(
        allocator: &'a A,
        threads: u16,
        loops: u64,
        setting: Setting,
    ) -> Result<Self, Failure> {
        let mut prepared = Self {
            places: Vec::new(),
            loops,
            bound: threads > 1,
        };
        for thread in 0..threads {
            let mut seat = allocator.seat(thread)?;
            let mut body = B::prepare(&mut seat, Setting { thread, ..setting })?;
            for _ in 0..loops / 10 {
                body.op(&mut seat)?;
            }
            prepared.places.push(ThreadPlace { seat, body });
        }
        Ok(prepared)
    }

    /// A repetition with all threads, or with the first one only.
    pub(super) fn repetition(&mut self, all: bool) -> Result<Rate, Failure> {
        let threads = if all { self.places.len() } else { 1 };
        if !self.bound {
            let ThreadPlace { seat, body } = &mut self.places[0];
            let start = cpu_time();
            for _ in 0..self.loops {
                body.op(seat)?;
            }
            let time = cpu_time().saturating_sub(start);
            return Ok(rate(&[ThreadTiming::new(self.loops, time, time)]));
        }
        let barrier = Barrier::new(threads);
        let stop = AtomicBool::new(false);
        let loops = self.loops;
        let parts: Result<Vec<_>, Failure> = std::thread::scope(|scope| {
            let places = self.places.iter_mut().take(threads);
            let running: Vec<_> = places
                .enumerate()
                .map(|(cpu, ThreadPlace { seat, body })| {
                    let (barrier, stop) = (&barrier, &stop);
                    scope.spawn(move || {
                        bind(cpu);
                        barrier.wait();
                        let part = until_one_is_done(seat, body, loops, stop);
                        // The first one ends it for all, also where it failed.
                        stop.store(true, Ordering::Relaxed);
                        part
                    })
                })
                .collect();
            running.into_iter().map(joined).collect()
        });
        Ok(rate(&parts?))
    }
}

fn until_one_is_done(
    seat: &mut impl SpaceSubject,
    body: &mut impl FitBody,
    loops: u64,
    stop: &AtomicBool,
) -> Result<ThreadTiming, Failure> {
    let start = Instant::now();
    let cpu_start = cpu_time();
    let mut done = 0;
    while done < loops && !stop.load(Ordering::Relaxed) {
        let chunk = CHUNK.min(loops - done);
        for _ in 0..chunk {
            body.op(seat)?;
        }
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
struct ClockedSeat<'s, S> {
    seat: &'s mut S,
    clock: CalibratedClock,
    seen: SeenCalls,
}

impl<S: SpaceSubject> ClockedSeat<'_, S> {
    #[inline]
    fn allocated(&mut self, got: &Result<Page, RangeError>, pages: u64, ns: u64) {
        self.seen.allocs.record(ns);
        match got {
            Ok(page) => self.seen.reach(page.0, page.0 + pages),
            Err(_) => self.seen.failed += 1,
        }
    }
}

impl<S: SpaceSubject> SpaceSubject for ClockedSeat<'_, S> {
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

/// The body on an allocator that has done nothing before, every call watched. The latencies are
/// those of `loops` operations behind a warm-up; span and counters those of everything.
pub(super) fn watched<A: Allocator, B: FitBody>(
    allocator: &A,
    threads: u16,
    loops: u64,
    setting: Setting,
    clock: CalibratedClock,
) -> Result<SeenCalls, Failure> {
    let mut prepared = Vec::new();
    for thread in 0..threads {
        let mut seat = allocator.seat(thread)?;
        let mut watched = ClockedSeat {
            seat: &mut seat,
            clock,
            seen: SeenCalls::new(),
        };
        let body = B::prepare(&mut watched, Setting { thread, ..setting })?;
        let seen = watched.seen;
        prepared.push((seat, body, seen));
    }
    let work = |seat: &mut A::Seat<'_>, body: &mut B, seen: SeenCalls| {
        let mut watched = ClockedSeat { seat, clock, seen };
        for _ in 0..loops / 10 {
            body.op(&mut watched)?;
        }
        watched.seen.allocs.forget();
        watched.seen.frees.forget();
        for _ in 0..loops {
            body.op(&mut watched)?;
        }
        Ok::<SeenCalls, Failure>(watched.seen)
    };
    let mut all = SeenCalls::new();
    if let [(_, _, _)] = prepared[..] {
        for (mut seat, mut body, seen) in prepared {
            all.add(&work(&mut seat, &mut body, seen)?);
        }
        return Ok(all);
    }
    let barrier = Barrier::new(prepared.len());
    let parts: Result<Vec<SeenCalls>, Failure> = std::thread::scope(|scope| {
        let running: Vec<_> = prepared
            .into_iter()
            .enumerate()
            .map(|(cpu, (mut seat, mut body, seen))| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    bind(cpu);
                    barrier.wait();
                    work(&mut seat, &mut body, seen)
                })
            })
            .collect();
        running.into_iter().map(joined).collect()
    });
    for part in parts? {
        all.add(&part);
    }
    Ok(all)
}
