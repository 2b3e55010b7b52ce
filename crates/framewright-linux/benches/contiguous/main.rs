//! What a contiguous run costs if the contents of its frames must be copied: in an area that is
//! lent to movable memory, and in a guaranteed one with pages that are on no device yet.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench contiguous            # some seconds
//! cargo bench -p framewright-linux --bench contiguous -- --quick # a second
//! ```
//!
//! `--json FILE` appends the figures there, one a line; `--put-back` leaves out the areas that move, for profiles.
//!
//! 512 MiB of frames of 4 KiB, of which the upper half is the area. It is empty, or full of single pages of
//! user memory ([`Anon`]), which are made anew for each request; then one run is taken and given back.
//! Printed are microseconds for each request, and frames that had to move, as Linux's CMA does it and by the
//! default. Then the same of a reserve of that size full of guests' pages, of which all, or every eighth, must be
//! put back into ordinary frames. Only the request is timed; no figure fails the run.

mod put_back;
#[path = "../frames/rows.rs"]
mod rows;

use framewright::frame::{Seat, ZoneLayout};
use framewright::policy::{ContigConfig, ReclaimConfig};
use framewright::reclaim::{Clients, Migrate, Reclaim};
use framewright::reserve::{Contiguous, MigrateArea};
use framewright::{Frame, Order, Page, PageRange, Run};
use framewright_linux::{Anon, Host, HostError, Linux, Options};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const FRAMES: u64 = 131_072;
const AREA: u64 = FRAMES / 2;
/// Frames beside the area that are free when it is full: room for the longest run.
const ROOM: usize = 40_000;

type FencedLinux = Linux<()>;
type BenchSeat<'h> = Seat<'h, 'h, FencedLinux>;

fn main() -> Result<(), Box<dyn Error>> {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let is_quick = has("--quick");
    let contents: &[bool] = if has("--put-back") {
        &[]
    } else {
        &[false, true]
    };
    let (trials, sizes): (usize, &[u64]) = if is_quick {
        (2, &[1, 512, 4096])
    } else {
        (16, &[1, 512, 1024, 4096, 16_384, 32_000])
    };
    println!("config   area    frames       min us       p50 us       max us   moved   refused");
    for (name, config) in [
        ("linux", ContigConfig::LINUX),
        ("default", ContigConfig::default()),
    ] {
        for &is_full in contents {
            for &frames in sizes {
                let contents = if is_full { "full" } else { "empty" };
                let at = format!("{name} {contents}/{frames}");
                let line = measure(&at, &config, is_full, frames, trials)?;
                println!("{name:<8} {contents:<6} {frames:>7} {line}");
            }
        }
    }
    for (contents, period) in [("all", 1), ("eighth", 8)] {
        for &frames in sizes {
            let at = format!("put-back {contents}/{frames}");
            let line = put_back::measure(&at, period, frames, trials)?;
            println!("put-back {contents:<6} {frames:>7} {line}");
        }
    }
    Ok(())
}

fn measure(
    at: &str,
    config: &ContigConfig,
    is_full: bool,
    frames: u64,
    trials: usize,
) -> Result<String, Box<dyn Error>> {
    let host = host()?;
    let mut memory = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut memory)?;
    let run = Run::new(Frame(FRAMES - AREA), AREA).ok_or("a run ends inside the numbers")?;
    let mut memory = vec![0; MigrateArea::<FencedLinux>::words_needed(run)];
    let area = MigrateArea::new(&reclaim, run, config, &mut memory)?;
    let mut seat: BenchSeat<'_> = host.seat()?;
    let mut times = Vec::new();
    let mut refused = 0;
    for _ in 0..trials {
        let anon = Anon::new(Arc::clone(host.ram_shared()), FRAMES)?;
        if is_full {
            anon.populate(&mut seat, anon.range(), Order::ZERO)?;
            let pages = (anon.range().start().0..).take(FRAMES as usize).map(Page);
            let beside = |page: &Page| {
                anon.frame_of(*page)
                    .is_some_and(|frame| frame < run.start())
            };
            for page in pages.filter(beside).take(ROOM) {
                let one = PageRange::new(page, 1).ok_or("a page")?;
                anon.discard(&mut seat, one)?;
            }
        }
        let movers: [&dyn Migrate; 1] = [&anon];
        let clients = Clients {
            shrink: &[],
            migrate: &movers,
        };
        let mut owner = area.owner(&mut seat, clients);
        let begun = Instant::now();
        let got = owner.alloc_contig(frames, 1);
        times.push(begun.elapsed().as_nanos() as f64 / 1000.0);
        match got {
            Ok(run) => owner.release(run)?,
            Err(_) => refused += 1,
        }
        drop(owner);
        anon.discard(&mut seat, anon.range())?;
    }
    let moved = area.stats().pages_migrated / trials as u64;
    Ok(row(at, times, moved, refused))
}

/// The least time, the one in the middle and the longest, and what else a row says.
fn row(at: &str, mut times: Vec<f64>, moved: u64, refused: u64) -> String {
    rows::add(at, "framewright", "request_us", "us", &times);
    times.sort_by(f64::total_cmp);
    let [min, p50, max] = [times[0], times[times.len() / 2], times[times.len() - 1]];
    format!("{min:>12.1} {p50:>12.1} {max:>12.1} {moved:>7} {refused:>9}")
}

fn host() -> Result<Host<()>, HostError> {
    Host::fenced(&Options::new(ZoneLayout::new(Frame(0), FRAMES)))
}
