//! `remote_free`: one thread allocates, another one frees, through a queue of bounded length.
//!
//! The experiment times allocations and frees by batches, without the queue. It measures the queue
//! apart, with page numbers that no allocator returned.

use crate::experiment::range_metrics as m;
use crate::experiment::ranges::relax;
use crate::experiment::timing::{CalibratedClock, Quantile, bind, joined, least_and_middle};
use crate::experiment::va_fit::variants::{FitVariant, VariantWork};
use crate::experiment::{Allocator, Failure, Mapper, SpaceOptions, SpaceSubject};
use crate::report::{Figure, FigureSource};
use framewright::Page;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Areas of one batch: enough that a reading of the clock is a small part of it.
const BATCH: usize = 64;

/// Places in the queue, a power of two.
const PLACES: usize = 1024;

/// The other end is no more: its thread has failed.
struct Gone;

/// Page numbers on their way from one thread to another. One puts, one takes.
struct PageQueue {
    places: Vec<AtomicU64>,
    taken: PaddedCount,
    put: PaddedCount,
    gone: AtomicBool,
}

/// A count on a cache line of its own, so that the ends do not disturb each other more than they
/// must.
#[repr(align(128))]
struct PaddedCount(AtomicU64);

impl PageQueue {
    fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            taken: PaddedCount(AtomicU64::new(0)),
            put: PaddedCount(AtomicU64::new(0)),
            gone: AtomicBool::new(false),
        }
    }

    fn wait(&self, until: impl Fn() -> bool) -> Result<(), Gone> {
        let mut attempt = 0;
        while !until() {
            if self.gone.load(Ordering::Relaxed) {
                return Err(Gone);
            }
            relax(attempt);
            attempt += 1;
        }
        Ok(())
    }

    fn put(&self, pages: &[Page]) -> Result<(), Gone> {
        let put = self.put.0.load(Ordering::Relaxed);
        let end = put + pages.len() as u64;
        // Acquire pairs with the Release in `take`: the places are free again.
        self.wait(|| end - self.taken.0.load(Ordering::Acquire) <= PLACES as u64)?;
        for (nth, page) in pages.iter().enumerate() {
            let place = (put as usize + nth) % PLACES;
            self.places[place].store(page.0, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in `take`: the thread that takes sees the page numbers, and
        // what the thread that put them did to the areas.
        self.put.0.store(end, Ordering::Release);
        Ok(())
    }

    fn take(&self, pages: &mut [Page]) -> Result<(), Gone> {
        let taken = self.taken.0.load(Ordering::Relaxed);
        let end = taken + pages.len() as u64;
        self.wait(|| self.put.0.load(Ordering::Acquire) >= end)?;
        for (nth, page) in pages.iter_mut().enumerate() {
            let place = (taken as usize + nth) % PLACES;
            *page = Page(self.places[place].load(Ordering::Relaxed));
        }
        self.taken.0.store(end, Ordering::Release);
        Ok(())
    }
}

/// Mean times of one area, batch by batch.
#[derive(Default)]
struct BatchTimes {
    allocs: Vec<f64>,
    frees: Vec<f64>,
}

impl BatchTimes {
    fn middle(&self) -> (f64, f64) {
        let middle = |ns: &[f64]| least_and_middle(ns).1;
        (middle(&self.allocs), middle(&self.frees))
    }
}

fn alloc_batch(
    seat: &mut impl SpaceSubject,
    pages: &mut [Page],
    clock: CalibratedClock,
    times: &mut Vec<f64>,
) -> Result<(), Failure> {
    let (done, ns) = clock.time(|| {
        for page in &mut *pages {
            *page = seat.alloc(1, Page::BYTES)?;
        }
        Ok::<(), Failure>(())
    });
    times.push(ns as f64 / BATCH as f64);
    done
}

fn free_batch(
    seat: &mut impl SpaceSubject,
    pages: &[Page],
    clock: CalibratedClock,
    times: &mut Vec<f64>,
) -> Result<(), Failure> {
    let (done, ns) = clock.time(|| {
        for &page in pages {
            seat.free(page)?;
        }
        Ok::<(), Failure>(())
    });
    times.push(ns as f64 / BATCH as f64);
    done
}

/// One thread does both.
fn local(
    seat: &mut impl SpaceSubject,
    batches: u64,
    clock: CalibratedClock,
) -> Result<BatchTimes, Failure> {
    let mut times = BatchTimes::default();
    let mut pages = [Page(0); BATCH];
    for _ in 0..batches {
        alloc_batch(seat, &mut pages, clock, &mut times.allocs)?;
        free_batch(seat, &pages, clock, &mut times.frees)?;
    }
    Ok(times)
}

/// Two threads; also how many areas passed from one to the other in a second.
fn remote<S: SpaceSubject + Send>(
    seats: [&mut S; 2],
    batches: u64,
    clock: CalibratedClock,
) -> Result<(BatchTimes, f64), Failure> {
    let queue = &PageQueue::new();
    let [here, there] = seats;
    let start = Instant::now();
    let (allocs, frees) = std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            bind(0);
            let mut times = Vec::new();
            let mut pages = [Page(0); BATCH];
            for _ in 0..batches {
                if let Err(failure) = alloc_batch(here, &mut pages, clock, &mut times) {
                    queue.gone.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
                if queue.put(&pages).is_err() {
                    break;
                }
            }
            Ok(times)
        });
        let consumer = scope.spawn(move || {
            bind(1);
            let mut times = Vec::new();
            let mut pages = [Page(0); BATCH];
            for _ in 0..batches {
                if queue.take(&mut pages).is_err() {
                    break;
                }
                if let Err(failure) = free_batch(there, &pages, clock, &mut times) {
                    queue.gone.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
            }
            Ok(times)
        });
        (joined(producer), joined(consumer))
    });
    let seconds = start.elapsed().as_secs_f64();
    let times = BatchTimes {
        allocs: allocs?,
        frees: frees?,
    };
    Ok((times, (batches * BATCH as u64) as f64 / seconds))
}

/// The queue alone.
struct NoAllocator;

impl SpaceSubject for NoAllocator {
    fn alloc(&mut self, _: u64, _: u64) -> Result<Page, framewright::vrange::RangeError> {
        Ok(Page(1))
    }

    fn free(&mut self, page: Page) -> Result<(), framewright::vrange::RangeFreeError> {
        std::hint::black_box(page);
        Ok(())
    }

    fn map_ram(&mut self, _: u64) -> Result<Page, framewright::vrange::RangeError> {
        Ok(Page(1))
    }

    fn unmap_ram(&mut self, _: Page, _: u64) -> Result<(), framewright::vrange::RangeFreeError> {
        Ok(())
    }

    fn purge(&mut self) {}

    fn drain(&mut self) {}
}

const CASE: &str = "remote_free";

/// CPUs of a pair.
const CPUS: u16 = 2;

pub(in crate::experiment::va_fit) fn figures(
    options: SpaceOptions,
    clock: CalibratedClock,
) -> Result<Vec<Figure>, Failure> {
    let batches = options.loops.unwrap_or(match options.mapper {
        Mapper::Null => crate::experiment::va_fit::plan::LOOPS_NULL,
        Mapper::Host => crate::experiment::va_fit::plan::LOOPS_HOST,
    }) / BATCH as u64
        + 1;
    let mut queue_ns = Vec::new();
    for _ in 0..options.repeat {
        let (_, per_second) = remote([&mut NoAllocator, &mut NoAllocator], batches, clock)?;
        queue_ns.push(1e9 / per_second);
    }
    let pair = ThreadPair {
        options,
        clock,
        batches,
        queue_ns: least_and_middle(&queue_ns).0,
    };
    let mut figures = Vec::new();
    for &variant in FitVariant::all(options.mapper) {
        let more = variant.run(options.mapper, CPUS, pair);
        figures.extend(more.map_err(|e| e.of(CASE, variant.name()))?);
    }
    Ok(figures)
}

#[derive(Clone, Copy)]
struct ThreadPair {
    options: SpaceOptions,
    clock: CalibratedClock,
    batches: u64,
    queue_ns: f64,
}

impl VariantWork for ThreadPair {
    type Out = Vec<Figure>;

    fn with<A: Allocator>(
        self,
        variant: &'static str,
        allocator: &A,
    ) -> Result<Vec<Figure>, Failure> {
        let mut here = allocator.seat(0)?;
        let mut there = allocator.seat(1)?;
        // By turns, so that both meet the same disturbances; the first turn warms up.
        let mut at_home = Vec::new();
        let mut away = Vec::new();
        let mut most = 0.0f64;
        for turn in 0..=self.options.repeat {
            let alone = local(&mut here, self.batches, self.clock)?.middle();
            let (times, rate) = remote([&mut here, &mut there], self.batches, self.clock)?;
            if turn > 0 {
                at_home.push(alone.0 + alone.1);
                away.push(times.middle());
                most = most.max(rate);
            }
        }
        let sums: Vec<f64> = away.iter().map(|(alloc, free)| alloc + free).collect();
        let (least, middle) = least_and_middle(&sums);
        let local_least = least_and_middle(&at_home).0;
        let part = |of: fn(&(f64, f64)) -> f64| {
            let parts: Vec<f64> = away.iter().map(of).collect();
            least_and_middle(&parts).1
        };
        let figure = |metric, value, source| Figure {
            case: CASE.to_owned(),
            variant,
            metric,
            value,
            source,
        };
        let timed = |metric, value| figure(metric, value, FigureSource::Measured);
        let counters = allocator.counters();
        let counted = self.options.mapper.counted();
        let ops = 2 * u64::from(self.options.repeat + 1) * self.batches * BATCH as u64;
        let mut figures = vec![
            timed(m::OP_NS_MIN, least),
            timed(m::OP_NS_MEDIAN, middle),
            timed(
                m::ALLOC_NS.of(Quantile::P50 as usize),
                part(|times| times.0),
            ),
            timed(m::FREE_NS.of(Quantile::P50 as usize), part(|times| times.1)),
            timed(m::OPS_PER_SECOND, most),
            timed(m::QUEUE_NS, self.queue_ns),
            timed(m::REMOTE_VS_LOCAL, least / local_least.max(0.1)),
            figure(m::OPS, ops as f64, counted),
            figure(m::LAZY_PAGES_PEAK, counters.lazy_pages_peak as f64, counted),
            figure(
                m::LAZY_PAGES_BOUND,
                counters.lazy_pages_bound as f64,
                counted,
            ),
            figure(m::TLB_FLUSHES, counters.tlb_flushes as f64, counted),
        ];
        let most = counters.lazy_pages_most;
        figures.extend(most.map(|most| figure(m::LAZY_PAGES_MOST, most as f64, counted)));
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_hands_over_every_page_once_and_in_order() {
        let queue = &PageQueue::new();
        let batches = 200;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for batch in 0..batches {
                    let pages: Vec<Page> =
                        (0..BATCH).map(|n| Page(batch * 1000 + n as u64)).collect();
                    assert!(queue.put(&pages).is_ok());
                }
            });
            let mut pages = [Page(0); BATCH];
            for batch in 0..batches {
                assert!(queue.take(&mut pages).is_ok());
                assert!((0..BATCH).all(|n| pages[n] == Page(batch * 1000 + n as u64)));
            }
        });
        queue.gone.store(true, Ordering::Relaxed);
        assert!(
            queue.take(&mut [Page(0)]).is_err(),
            "no thread is left to put an area"
        );
    }

    #[test]
    fn a_thread_that_fails_ends_the_pair() {
        struct FullQueue(u64);
        impl SpaceSubject for FullQueue {
            fn alloc(
                &mut self,
                pages: u64,
                align_bytes: u64,
            ) -> Result<Page, framewright::vrange::RangeError> {
                self.0 += 1;
                if self.0 > 100 {
                    return Err(framewright::vrange::RangeError::NoSpace { pages, align_bytes });
                }
                Ok(Page(self.0))
            }
            fn free(&mut self, _: Page) -> Result<(), framewright::vrange::RangeFreeError> {
                Ok(())
            }
            fn map_ram(&mut self, _: u64) -> Result<Page, framewright::vrange::RangeError> {
                Ok(Page(0))
            }
            fn unmap_ram(
                &mut self,
                _: Page,
                _: u64,
            ) -> Result<(), framewright::vrange::RangeFreeError> {
                Ok(())
            }
            fn purge(&mut self) {}

            fn drain(&mut self) {}
        }
        let clock = CalibratedClock { own_ns: 0 };
        let failed = remote([&mut FullQueue(0), &mut FullQueue(0)], 10, clock);
        let failure = failed.err().map(|f| f.to_string());
        assert_eq!(
            failure.as_deref(),
            Some("no gap of 1 pages aligned to 4096 bytes")
        );
    }
}
