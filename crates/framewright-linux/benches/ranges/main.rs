//! What `vmalloc` and `vfree` cost on real memory.
//!
//! `cargo bench -p framewright-linux --bench ranges` prints nanoseconds for a pair of calls, the
//! least and the median of 15 repetitions, and how often anything was torn down. With
//! `-- --only NAME`, those whose names start so.

use framewright::frame::ZoneLayout;
use framewright::platform::Barrier;
use framewright::policy::RangeConfig;
use framewright::vrange::AreaRequest;
use framewright::{Frame, Page};
use framewright_linux::{HostRangeSeat, HostSpace, Options, RangeOptions};
use std::error::Error;
use std::time::Instant;

const REPEATS: usize = 15;

/// One line: a churn of areas of 1 to `pages_max` pages, of which `live` are live at any time.
struct Churn {
    name: &'static str,
    pages_max: u64,
    live: usize,
    kept_pages_max: u64,
    zero: bool,
    pairs: u64,
}

const CHURNS: [Churn; 7] = [
    churn("1..=16 pages", 16, 8, 1024, false, 200_000),
    churn("1..=16 pages, one live", 16, 1, 1024, false, 200_000),
    churn("1 page", 1, 8, 1024, false, 200_000),
    churn("1..=64 pages", 64, 8, 4096, false, 200_000),
    churn("1..=16 pages, zeroed", 16, 8, 1024, true, 50_000),
    churn("1 page, nothing kept", 1, 8, 0, false, 10_000),
    churn("1..=16 pages, nothing kept", 16, 8, 0, false, 10_000),
];

const fn churn(
    name: &'static str,
    pages_max: u64,
    live: usize,
    kept_pages_max: u64,
    zero: bool,
    pairs: u64,
) -> Churn {
    Churn {
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
    let quick = std::env::args().all(|argument| argument != "--bench");
    println!("ns for a pair of vmalloc and vfree        min  median   maps/1000  unmaps/1000");
    let only = std::env::args()
        .skip_while(|argument| argument != "--only")
        .nth(1);
    let only = only.unwrap_or_default();
    for churn in CHURNS.iter().filter(|churn| churn.name.starts_with(&only)) {
        let layout = ZoneLayout::new(Frame(0), 1 << 16).with_cpus(2);
        let mut ranges = RangeOptions::new(1 << 16);
        let mut config = RangeConfig::for_cpus(2);
        config.kept_pages_max = churn.kept_pages_max;
        ranges.config = Some(config);
        let options = Options::new(layout);
        match HostSpace::new(&options, &ranges) {
            Ok(host) => run(churn, &host, quick)?,
            Err(_) => run(churn, &HostSpace::fenced(&options, &ranges)?, quick)?,
        }
    }
    Ok(())
}

fn run<B: Barrier + Clone>(
    churn: &Churn,
    host: &HostSpace<B>,
    quick: bool,
) -> Result<(), Box<dyn Error>> {
    let pairs = if quick {
        churn.pairs / 100
    } else {
        churn.pairs
    };
    let mut seat = host.range_seat()?;
    let mut live = vec![None; churn.live];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    // Lengths and slots beforehand: the generator is not what is measured.
    let steps: Vec<(usize, u64)> = (0..pairs)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let slot = (state >> 40) as usize % churn.live;
            (slot, 1 + (state >> 20) % churn.pages_max)
        })
        .collect();
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
    let after = host.space().stats();
    let frees = (after.area_frees - before.area_frees) as f64 / 1000.0;
    let built = (after.area_allocs - before.area_allocs) - (after.kept_takes - before.kept_takes);
    println!(
        "{:<38} {:>7.0} {:>7.0} {:>11.1} {:>12.1}",
        churn.name,
        times[0],
        times[times.len() / 2],
        built as f64 / frees,
        (after.unmap_calls - before.unmap_calls) as f64 / frees,
    );
    for at in live.into_iter().flatten() {
        seat.vfree(at)?;
    }
    seat.drain();
    host.space().verify()?;
    Ok(())
}

fn churned<B: Barrier + Clone>(
    seat: &mut HostRangeSeat<'_, B>,
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
