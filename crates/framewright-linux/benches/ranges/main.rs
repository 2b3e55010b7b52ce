//! What `vmalloc` and `vfree` cost on real memory.
//!
//! `cargo bench -p framewright-linux --bench ranges` prints nanoseconds for a pair of calls, the
//! least and the median of 15 repetitions, and how often anything was torn down. With `-- --only
//! NAME`, those with names that start so; with `-- --quick`, a hundredth of the calls; with `-- --json FILE`, the
//! figures are appended there, one a line.

#[path = "../frames/rows.rs"]
mod rows;

use framewright::frame::ZoneLayout;
use framewright::platform::FramePlatform;
use framewright::policy::RangeConfig;
use framewright::stats::RangeStats;
use framewright::vrange::AreaRequest;
use framewright::vrange::SpaceLayout;
use framewright::{Frame, Page};
use framewright_linux::{
    HostCpu, HostError, HostSpace, Membarrier, Options, RangeOptions, Windowed,
};
use framewright_sim::Random;
use std::error::Error;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Instant;

const REPEATS: usize = 15;

/// One line: a churn of areas of 1 to `pages_max` pages, of which `live` are live at any time.
struct AreaChurn {
    name: &'static str,
    pages_max: u64,
    live: usize,
    kept_pages_max: u64,
    zero: bool,
    pairs: u64,
}

const CHURNS: [AreaChurn; 7] = [
    churn("1..=16 pages", 16, 8, 1024, false, 200_000),
    churn("1..=16 pages, one live", 16, 1, 1024, false, 200_000),
    churn("1 page", 1, 8, 1024, false, 200_000),
    churn("1..=64 pages", 64, 8, 4096, false, 200_000),
    churn("1..=16 pages, zeroed", 16, 8, 1024, true, 50_000),
    churn("1 page, nothing kept", 1, 8, 0, false, 10_000),
    churn("1..=16 pages, nothing kept", 16, 8, 0, false, 10_000),
];

const PAIRS: [AreaChurn; 2] = [
    churn("1 page", 1, 8, 1024, false, 200_000),
    churn("1..=16 pages", 16, 8, 1024, false, 200_000),
];

const HAND_OVERS: [AreaChurn; 3] = [
    churn("1 page", 1, 0, 1024, false, 100_000),
    churn("1..=16 pages", 16, 0, 4096, false, 100_000),
    churn("1..=16 pages, nothing kept", 16, 0, 0, false, 10_000),
];

const fn churn(
    name: &'static str,
    pages_max: u64,
    live: usize,
    kept_pages_max: u64,
    zero: bool,
    pairs: u64,
) -> AreaChurn {
    AreaChurn {
        name,
        pages_max,
        live,
        kept_pages_max,
        zero,
        pairs,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too, to see that it works.
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let quick = has("--quick") || !has("--bench");
    let mut arguments = std::env::args().skip_while(|argument| argument != "--only");
    let only = arguments.nth(1).unwrap_or_default();
    let chosen = |churn: &&AreaChurn| churn.name.starts_with(&only);
    println!("ns for a pair of vmalloc and vfree        min  median  built/1000  unmaps/1000");
    for churn in CHURNS.iter().filter(chosen) {
        match &host(churn)? {
            EitherHost::Plain(host) => run(churn, host, quick)?,
            EitherHost::Fenced(host) => run(churn, host, quick)?,
        }
    }
    println!("two threads, each on its own");
    for churn in PAIRS.iter().filter(chosen) {
        match &host(churn)? {
            EitherHost::Plain(host) => side_by_side(churn, host, quick)?,
            EitherHost::Fenced(host) => side_by_side(churn, host, quick)?,
        }
    }
    println!("one thread allocates, another frees");
    for churn in HAND_OVERS.iter().filter(chosen) {
        match &host(churn)? {
            EitherHost::Plain(host) => hand_over(churn, host, quick)?,
            EitherHost::Fenced(host) => hand_over(churn, host, quick)?,
        }
    }
    Ok(())
}

/// A host with membarrier, or without if the kernel does not have it.
enum EitherHost {
    Plain(HostSpace<Membarrier>),
    Fenced(HostSpace<()>),
}

fn host(churn: &AreaChurn) -> Result<EitherHost, HostError> {
    let layout = ZoneLayout::new(Frame(0), 1 << 16).with_cpus(2);
    let mut ranges = RangeOptions::new(1 << 16);
    let mut config = RangeConfig::for_cpus(2).kept();
    config.strict = churn.kept_pages_max == 0;
    config.kept_pages_max = churn.kept_pages_max;
    ranges.config = Some(config);
    let options = Options::new(layout);
    match HostSpace::new(&options.with_ranges(ranges)) {
        Err(HostError::NoMembarrier) => {
            HostSpace::fenced(&options.with_ranges(ranges)).map(EitherHost::Fenced)
        }
        host => host.map(EitherHost::Plain),
    }
}

/// Lengths and slots beforehand: the generator is not what is measured.
fn steps_of(churn: &AreaChurn, pairs: u64) -> Vec<(usize, u64)> {
    let mut random = Random::new(1);
    (0..pairs)
        .map(|_| {
            let slot = random.below(churn.live as u64) as usize;
            (slot, 1 + random.below(churn.pages_max))
        })
        .collect()
}

/// The same churn on two threads at a time: the mean of what a pair costs each of them.
fn side_by_side<B: FramePlatform + Clone + Sync>(
    churn: &AreaChurn,
    host: &HostSpace<B>,
    quick: bool,
) -> Result<(), Box<dyn Error>> {
    let pairs = if quick {
        churn.pairs / 100
    } else {
        churn.pairs
    };
    let steps = steps_of(churn, pairs);
    let repeats = if quick { 1 } else { REPEATS };
    let together = std::sync::Barrier::new(2);
    let worker = || -> Result<Vec<f64>, String> {
        let mut seat = host.cpu().map_err(|error| error.to_string())?;
        let mut live = vec![None; churn.live];
        let mut times = Vec::with_capacity(repeats);
        for repeat in 0..=repeats {
            together.wait();
            let start = Instant::now();
            let done = churned(&mut seat, &mut live, &steps, churn.zero);
            done.map_err(|error| error.to_string())?;
            if repeat != 0 {
                times.push(start.elapsed().as_nanos() as f64 / pairs as f64);
            }
        }
        for at in live.into_iter().flatten() {
            seat.vfree(at).map_err(|error| error.to_string())?;
        }
        Ok(times)
    };
    let before = host.space().stats();
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(worker);
        (worker(), other.join())
    });
    let (one, other) = (one?, other.map_err(|_| "a thread panicked")??);
    let mut times: Vec<f64> = one.iter().zip(&other).map(|(a, b)| (a + b) / 2.0).collect();
    times.sort_by(f64::total_cmp);
    print_line(
        "two threads",
        churn.name,
        &times,
        &before,
        &host.space().stats(),
    );
    Ok(())
}

/// The pages that one thread has allocated and another one has not yet freed.
struct PageRing {
    slots: [AtomicU64; 64],
}

impl PageRing {
    fn put(&self, nth: usize, at: Page) {
        let slot = &self.slots[nth % 64];
        while slot.load(Relaxed) != 0 {
            std::thread::yield_now();
        }
        slot.store(at.0, Release);
    }

    fn take(&self, nth: usize) -> Page {
        let slot = &self.slots[nth % 64];
        loop {
            let at = slot.load(Acquire);
            if at != 0 {
                slot.store(0, Release);
                return Page(at);
            }
            std::thread::yield_now();
        }
    }
}

fn hand_over<B: FramePlatform + Clone + Sync>(
    churn: &AreaChurn,
    host: &HostSpace<B>,
    quick: bool,
) -> Result<(), Box<dyn Error>> {
    let pairs = if quick {
        churn.pairs / 100
    } else {
        churn.pairs
    } as usize;
    let mut times = Vec::with_capacity(REPEATS);
    let mut before = host.space().stats();
    for repeat in 0..=if quick { 1 } else { REPEATS } {
        let ring = PageRing {
            slots: [const { AtomicU64::new(0) }; 64],
        };
        let start = Instant::now();
        std::thread::scope(|scope| {
            let freeing = scope.spawn(|| {
                let mut seat = host.cpu().map_err(|error| error.to_string())?;
                for nth in 0..pairs {
                    let freed = seat.vfree(ring.take(nth));
                    freed.map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            });
            let mut seat = host.cpu()?;
            for nth in 0..pairs {
                let pages = 1 + nth as u64 * 7 % churn.pages_max;
                ring.put(nth, seat.vmalloc(&AreaRequest::new(pages))?);
            }
            freeing.join().map_err(|_| "a thread panicked")??;
            Ok::<(), Box<dyn Error>>(())
        })?;
        if repeat == 0 {
            before = host.space().stats();
        } else {
            times.push(start.elapsed().as_nanos() as f64 / pairs as f64);
        }
    }
    times.sort_by(f64::total_cmp);
    print_line(
        "handed over",
        churn.name,
        &times,
        &before,
        &host.space().stats(),
    );
    Ok(())
}

fn run<B: FramePlatform + Clone>(
    churn: &AreaChurn,
    host: &HostSpace<B>,
    quick: bool,
) -> Result<(), Box<dyn Error>> {
    let pairs = if quick {
        churn.pairs / 100
    } else {
        churn.pairs
    };
    let mut seat = host.cpu()?;
    let mut live = vec![None; churn.live];
    let steps = steps_of(churn, pairs);
    // Once to make what is kept.
    churned(&mut seat, &mut live, &steps, churn.zero)?;
    let before = host.space().stats();
    let mut times = Vec::with_capacity(REPEATS);
    for _ in 0..if quick { 1 } else { REPEATS } {
        let start = Instant::now();
        churned(&mut seat, &mut live, &steps, churn.zero)?;
        times.push(start.elapsed().as_nanos() as f64 / pairs as f64);
    }
    times.sort_by(f64::total_cmp);
    print_line(
        "one thread",
        churn.name,
        &times,
        &before,
        &host.space().stats(),
    );
    for at in live.into_iter().flatten() {
        seat.vfree(at)?;
    }
    seat.ranges().drain();
    host.space().verify()?;
    Ok(())
}

fn print_line(kind: &str, name: &str, times: &[f64], before: &RangeStats, after: &RangeStats) {
    let at = format!("{kind}/{}", name.replace(',', ""));
    rows::add(&at, "framewright", "pair_ns", "ns", times);
    let frees = (after.area_frees - before.area_frees) as f64 / 1000.0;
    let built = (after.area_allocs - before.area_allocs) - (after.kept_takes - before.kept_takes);
    println!(
        "{:<38} {:>7.0} {:>7.0} {:>11.1} {:>12.1}",
        name,
        times[0],
        times[times.len() / 2],
        built as f64 / frees,
        (after.unmap_calls - before.unmap_calls) as f64 / frees,
    );
}

fn churned<B: FramePlatform + Clone>(
    seat: &mut HostCpu<'_, Windowed<B>, SpaceLayout>,
    live: &mut [Option<Page>],
    steps: &[(usize, u64)],
    zero: bool,
) -> Result<(), Box<dyn Error>> {
    for &(slot, pages) in steps {
        if let Some(at) = live[slot].take() {
            seat.vfree(at)?;
        }
        let mut request = AreaRequest::new(pages);
        request.zero = zero;
        live[slot] = Some(seat.vmalloc(&request)?);
    }
    Ok(())
}
