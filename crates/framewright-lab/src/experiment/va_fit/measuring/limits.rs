//! How far it goes: what no table of the documents has a cell for. One thread, nothing mapped.

use super::peer::{PeerProgram, Recorder};
use super::timed::{Rates, TimedCase, timed_body};
use crate::experiment::range_metrics as m;
use crate::experiment::ranges::{Null, NumberFrames, RangeEngine, with_space};
use crate::experiment::timing::{CalibratedClock, Latencies, Quantile, least_and_middle, spread};
use crate::experiment::va_fit::variants::{FitVariant, LINUX, TREE, VariantWork};
use crate::experiment::va_fit::{FitCase, body};
use crate::experiment::{
    Allocator, BEFORE, FRAMEWRIGHT, Failure, Mapper, PROPOSED, SpaceOptions, SpaceSubject,
    SubjectCounters, WINDOW_START,
};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};
use framewright::policy::RangeConfig;
use framewright::vrange::SpaceLayout;
use framewright::{Page, PageRange};
use framewright_sim::Random;

const PAGE: u64 = Page::BYTES;

fn figure(case: FitCase, variant: &'static str, metric: Metric, value: f64) -> Figure {
    Figure {
        case: case.name().to_owned(),
        variant,
        metric,
        value,
        source: if m::is_timed(metric) {
            FigureSource::Measured
        } else {
            FigureSource::Simulated
        },
    }
}

/// `work` with all variants in a window of `pages`.
fn on_all<W: VariantWork + Copy>(
    case: FitCase,
    pages: u64,
    lazy_pages_max: Option<u64>,
    work: W,
) -> Result<Vec<(&'static str, W::Out)>, Failure> {
    let window = PageRange::new(WINDOW_START, pages)
        .ok_or_else(|| Failure::new("the window ends past the number range"))?;
    let all = FitVariant::all(Mapper::Null).iter().map(|variant| {
        let out = variant.run_null(window, 1, lazy_pages_max, work);
        Ok((
            variant.name(),
            out.map_err(|e| e.of(case.name(), variant.name()))?,
        ))
    });
    all.collect()
}

/// Pages of 4 MiB.
const CHUNK: u64 = (4 << 20) / PAGE;

/// 1 GiB in chunks of 4 MiB: the odd ones, but for four, become free and lie between chunks that
/// are full of small areas and small gaps.
#[derive(Clone, Copy)]
struct AlignedHoles;

impl AlignedHoles {
    const WINDOW: u64 = (1 << 30) / PAGE;
    const HOLES: u64 = 124;
}

impl VariantWork for AlignedHoles {
    type Out = u64;

    fn with<A: Allocator>(self, _: &'static str, allocator: &A) -> Result<u64, Failure> {
        let mut seat = allocator.seat(0)?;
        let seat = &mut seat;
        let place = |page: Page| page.0 - WINDOW_START.0;
        // With its guard page each is a chunk.
        let mut chunks = Vec::new();
        for _ in 0..Self::WINDOW / CHUNK {
            chunks.push(seat.alloc(CHUNK - 1, CHUNK * PAGE)?);
        }
        let is_hole = |page: Page| {
            let chunk = place(page) / CHUNK;
            chunk % 2 == 1 && chunk / 2 < Self::HOLES
        };
        let (holes, others): (Vec<_>, Vec<_>) = chunks.into_iter().partition(|&c| is_hole(c));
        for chunk in others {
            seat.free(chunk)?;
        }
        seat.drain();
        let mut small = Vec::new();
        while let Ok(page) = seat.alloc(7, PAGE) {
            small.push(page);
        }
        // Every second one, but none beside a hole.
        for page in small {
            let nth = place(page) % CHUNK / 8;
            if nth % 2 == 1 && nth < CHUNK / 8 - 1 {
                seat.free(page)?;
            }
        }
        for hole in holes {
            seat.free(hole)?;
        }
        seat.drain();
        let served = (0..Self::HOLES).filter(|_| seat.alloc(CHUNK - 1, CHUNK * PAGE).is_ok());
        Ok(served.count() as u64)
    }
}

pub(in crate::experiment::va_fit) fn aligned_holes() -> Result<Vec<Figure>, Failure> {
    let case = FitCase::AlignedHoles;
    let all = on_all(case, AlignedHoles::WINDOW, None, AlignedHoles)?;
    let figures = all.into_iter().flat_map(|(variant, served)| {
        [
            figure(case, variant, m::REQUESTS, AlignedHoles::HOLES as f64),
            figure(case, variant, m::SERVED, served as f64),
        ]
    });
    Ok(figures.collect())
}

/// A window of 128 MiB.
const SMALL_WINDOW: u64 = (128 << 20) / PAGE;

/// Of 64 mappings of one page one stays, until one cannot be had.
struct PinnedBlocks;

impl VariantWork for PinnedBlocks {
    type Out = u64;

    fn with<A: Allocator>(self, _: &'static str, allocator: &A) -> Result<u64, Failure> {
        let mut seat = allocator.seat(0)?;
        for live in 0.. {
            if seat.map_ram(1).is_err() {
                return Ok(live);
            }
            for _ in 1..64 {
                let Ok(page) = seat.map_ram(1) else {
                    break;
                };
                seat.unmap_ram(page, 1)?;
            }
        }
        Err(Failure::new(
            "a window of 128 MiB takes mappings without end",
        ))
    }
}

/// The variants are those of `vmap-blocks`.
pub(in crate::experiment::va_fit) fn pinned_blocks() -> Result<Vec<Figure>, Failure> {
    let case = FitCase::PinnedBlocks;
    let ours = RangeConfig::for_cpus(1);
    let proposed = RangeConfig {
        recycle: false,
        ..ours
    };
    let before = RangeConfig {
        newest_first: true,
        ..proposed
    };
    let mut figures = Vec::new();
    for (variant, config) in [(BEFORE, before), (PROPOSED, proposed), (FRAMEWRIGHT, ours)] {
        let layout = SpaceLayout::new(WINDOW_START, SMALL_WINDOW);
        let live = with_space(&layout, &config, Null::new()?, |space| {
            let engine = RangeEngine::<_, _, false> {
                space,
                frames: &NumberFrames,
            };
            PinnedBlocks.with(variant, &engine)
        });
        let live = live.map_err(|e| e.of(case.name(), variant))?;
        figures.push(figure(case, variant, m::LIVE_MAPPINGS, live as f64));
    }
    Ok(figures)
}

/// Areas of 1 to 64 pages, one freed for [`MADE_FOR_ONE_FREED`] made, until one cannot be had: the
/// share of the window that is live then, guard pages included.
#[derive(Clone, Copy)]
struct OccupancyWork(u64);

/// With this many first fit, which `proposed` and `tree` are, comes to what Linux 6.12 was measured with in such a
/// window: 97 % in the mean, 94 to 96 % in the worst run.
const MADE_FOR_ONE_FREED: u64 = 16;

impl VariantWork for OccupancyWork {
    type Out = f64;

    fn with<A: Allocator>(self, _: &'static str, allocator: &A) -> Result<f64, Failure> {
        let mut seat = allocator.seat(0)?;
        let mut random = Random::new(self.0);
        let mut live: Vec<(Page, u64)> = Vec::new();
        let mut pages_live = 0;
        loop {
            let pages = 1 + random.below(64);
            let Ok(page) = seat.alloc(pages, PAGE) else {
                return Ok(pages_live as f64 / SMALL_WINDOW as f64);
            };
            pages_live += pages + 1;
            live.push((page, pages + 1));
            if random.below(MADE_FOR_ONE_FREED) == 0 {
                let (page, pages) = live.swap_remove(random.below(live.len() as u64) as usize);
                pages_live -= pages;
                seat.free(page)?;
            }
        }
    }
}

/// Runs whose worst one is told.
const RUNS: u64 = 16;

pub(in crate::experiment::va_fit) fn occupancy(seed: u64) -> Result<Vec<Figure>, Failure> {
    let case = FitCase::Occupancy;
    let mut runs: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for run in 0..RUNS {
        let work = OccupancyWork(seed.wrapping_add(run));
        for (nth, (variant, share)) in on_all(case, SMALL_WINDOW, None, work)?
            .into_iter()
            .enumerate()
        {
            match runs.get_mut(nth) {
                Some((_, shares)) => shares.push(share),
                None => runs.push((variant, vec![share])),
            }
        }
    }
    let mut figures = Vec::new();
    for (variant, shares) in runs {
        let mean = shares.iter().sum::<f64>() / RUNS as f64;
        let worst = shares.iter().copied().fold(1.0, f64::min);
        figures.push(figure(case, variant, m::OCCUPANCY, mean));
        figures.push(figure(case, variant, m::OCCUPANCY_WORST, worst));
        if variant == TREE || variant == FRAMEWRIGHT {
            let words = SpaceLayout::new(WINDOW_START, SMALL_WINDOW).words_needed()?;
            let mapped = mean * (SMALL_WINDOW * PAGE) as f64;
            let share = (words * 8) as f64 / mapped;
            figures.push(figure(case, variant, m::METADATA_SHARE, share));
        }
    }
    Ok(figures)
}

/// The operation of `long_busy_list` with 1,000 live areas and with 1,000,000.
pub(in crate::experiment::va_fit) fn long_busy_list_1m(
    options: SpaceOptions,
    clock: CalibratedClock,
    peer: Option<&PeerProgram>,
) -> Result<Vec<Figure>, Failure> {
    let case = FitCase::LongBusyList1m;
    let timed = TimedCase {
        case: case.name(),
        options: SpaceOptions {
            mapper: Mapper::Null,
            threads: 1,
            ..options
        },
        clock,
        peer,
    };
    let few = timed.batches(&timed_body::<body::LongBusyList<1_000, true>>())?;
    let many = timed.batches(&timed_body::<body::LongBusyList<1_000_000, true>>())?;
    let figures = few.iter().zip(&many).flat_map(|(few, many)| {
        let least = |rates: &Rates| least_and_middle(&rates.op_ns()).0;
        let (few_ns, many_ns) = (least(few), least(many));
        [
            figure(case, few.variant, m::OP_NS_FEW_LIVE, few_ns),
            figure(case, few.variant, m::OP_NS_MANY_LIVE, many_ns),
            figure(case, few.variant, m::COST_GROWTH, many_ns / few_ns),
        ]
    });
    Ok(figures.collect())
}

/// This many areas are lazy, none of them beside another one, when more are freed.
const LAZY_AREAS: u64 = 30_000;
/// This many more.
const MORE: u64 = 5_000;
/// Two pages each: the bound lies where the first of the others goes above it.
const LAZY_PAGES: u64 = LAZY_AREAS * 2;
/// 4 GiB: so large that the engine allows as many lazy pages, an eighth of it at most.
const BACKLOG_WINDOW: u64 = (4 << 30) / PAGE;

const _: () = assert!(LAZY_PAGES * 8 <= BACKLOG_WINDOW);

/// Frees above the bound with [`LAZY_AREAS`] pending, each timed, and then one purge.
#[derive(Clone, Copy)]
struct Backlog(CalibratedClock);

struct BacklogSeen {
    frees: Vec<u64>,
    purge_ns: u64,
    counters: SubjectCounters,
}

impl VariantWork for Backlog {
    type Out = BacklogSeen;

    fn with<A: Allocator>(self, _: &'static str, allocator: &A) -> Result<BacklogSeen, Failure> {
        let mut seat = allocator.seat(0)?;
        let mut areas = Vec::new();
        for _ in 0..(LAZY_AREAS + MORE) * 2 {
            areas.push(seat.alloc(1, PAGE)?);
        }
        let mut freed = areas.into_iter().step_by(2);
        for page in freed.by_ref().take(LAZY_AREAS as usize) {
            seat.free(page)?;
        }
        let pending = allocator.counters().lazy_pages_peak;
        if pending < LAZY_PAGES {
            let cause = format!("{pending} pages were lazy at most, expected {LAZY_PAGES}");
            return Err(Failure::new(cause));
        }
        let mut frees = Vec::new();
        for page in freed {
            let (result, ns) = self.0.time(|| seat.free(page));
            result?;
            frees.push(ns);
        }
        let ((), purge_ns) = self.0.time(|| seat.purge());
        Ok(BacklogSeen {
            frees,
            purge_ns,
            counters: allocator.counters(),
        })
    }
}

/// The same in Linux's own allocator, whose bound follows from the number of CPUs alone: with 64 of them it is 57,344
/// pages. What a purge takes is the time of the work that it puts off.
fn linux_backlog(peer: &PeerProgram, clock: CalibratedClock) -> Result<BacklogSeen, Failure> {
    let mut linux = peer.start(64)?;
    let bound = linux.counters()?.lazy_pages_bound;
    let mut recorder = Recorder::default();
    let mut areas = Vec::new();
    for _ in 0..(LAZY_AREAS + MORE) * 2 {
        areas.push(recorder.alloc(1, PAGE)?);
    }
    let mut freed = areas.into_iter().step_by(2);
    for page in freed.by_ref().take((bound / 2) as usize) {
        recorder.free(page)?;
    }
    linux.run(&recorder.take())?;
    for page in freed.take(MORE as usize) {
        recorder.free(page)?;
    }
    let frees = linux.timed(&recorder.take())?;
    let frees = frees.iter().map(|ns| ns.saturating_sub(clock.own_ns));
    let counters = linux.counters()?;
    Ok(BacklogSeen {
        frees: frees.collect(),
        purge_ns: counters.longest_work_ns,
        counters: SubjectCounters {
            lazy_pages_peak: counters.lazy_pages_peak,
            lazy_pages_bound: bound,
            ..SubjectCounters::default()
        },
    })
}

pub(in crate::experiment::va_fit) fn backlog(
    options: SpaceOptions,
    clock: CalibratedClock,
    peer: Option<&PeerProgram>,
) -> Result<Vec<Figure>, Failure> {
    let case = FitCase::Backlog;
    let work = Backlog(clock);
    // The same frees again and again: the least time of each is what it takes undisturbed.
    let mut least: Vec<(&'static str, BacklogSeen, Vec<f64>)> = Vec::new();
    for _ in 0..options.repeat.max(3) {
        let mut all = on_all(case, BACKLOG_WINDOW, Some(LAZY_PAGES), work)?;
        if let Some(peer) = peer {
            let seen = linux_backlog(peer, clock).map_err(|e| e.of(case.name(), LINUX))?;
            all.push((LINUX, seen));
        }
        for (nth, (variant, seen)) in all.into_iter().enumerate() {
            let worst = seen.frees.iter().copied().max().unwrap_or(0) as f64;
            if least.len() == nth {
                least.push((variant, seen, vec![worst]));
                continue;
            }
            let (_, best, worsts) = &mut least[nth];
            worsts.push(worst);
            best.purge_ns = best.purge_ns.min(seen.purge_ns);
            for (best, ns) in best.frees.iter_mut().zip(seen.frees) {
                *best = ns.min(*best);
            }
        }
    }
    let mut figures = Vec::new();
    for (variant, seen, worsts) in least {
        let mut latencies = Latencies::new();
        seen.frees.iter().for_each(|&ns| latencies.record(ns));
        let worst = seen.frees.iter().copied().max().unwrap_or(0);
        let mut push = |metric, value| figures.push(figure(case, variant, metric, value));
        let pending = LAZY_AREAS.min(seen.counters.lazy_pages_bound / 2);
        push(m::LAZY_AREAS, pending as f64);
        push(
            m::FREE_NS.of(Quantile::P50 as usize),
            latencies.at(Quantile::P50),
        );
        push(
            m::FREE_NS.of(Quantile::P999 as usize),
            latencies.at(Quantile::P999),
        );
        push(m::FREE_NS_WORST, worst as f64);
        let [_, middle, most] = spread(&worsts);
        push(m::FREE_NS_WORST_MEDIAN, middle);
        push(m::FREE_NS_WORST_MAX, most);
        push(m::PURGE_NS, seen.purge_ns as f64);
        push(m::LAZY_PAGES_PEAK, seen.counters.lazy_pages_peak as f64);
        push(m::LAZY_PAGES_BOUND, seen.counters.lazy_pages_bound as f64);
        if let Some(most) = seen.counters.lazy_pages_most {
            push(m::LAZY_PAGES_MOST, most as f64);
        }
        if let Some(merges) = seen.counters.merges_per_hold_max {
            push(m::MERGES_PER_HOLD_MAX, merges as f64);
            let areas = LAZY_AREAS as f64;
            push(
                m::LOCK_HOLD_NS,
                merges as f64 * seen.purge_ns as f64 / areas,
            );
        }
    }
    Ok(figures)
}
