//! What a page of a file costs by way of the cache, beside a `pread` of one that the kernel has.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench files # with `-- --json FILE` appends the figures there, one a line
//! ```
//!
//! A file of 128 MiB, all of it in the kernel's page cache. *Hits*: pages at random, all of them there, each copied out
//! as a whole; by one thread and by two. *Misses*: pages that are in the cleancache, or in the file only, one at a
//! time and in sequence. *Gone*: pages given up under pressure, with a cleancache that takes them and without one.
//! *Moved*: to another frame. Nanoseconds of the thread's CPU time a page, the best of the rounds, and how often as much as a `pread`
//! at random in the same round. No figure fails the run.

#[path = "../frames/machine.rs"]
#[allow(dead_code, reason = "its threads go where they want")]
mod machine;
#[path = "../frames/rows.rs"]
mod rows;

use framewright::frame::{FrameSource, ZoneLayout};
use framewright::reclaim::{Ask, Migrate, Move, MoveState, Shrink};
use framewright::reserve::{PoolConfig, Reserve, ReserveLayout};
use framewright::{Context, Frame, Order, Run};
use framewright_linux::file_cache::{FileCache, FileOptions, OpenFile};
use framewright_linux::tenancy::Guests;
use framewright_linux::{Host, Linux, Options, Ram, RamPages, Stored};
use framewright_sim::Random;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const PAGES: u64 = 32_768;
const PAGE: u64 = 4096;
const CALLS: u64 = 200_000;
const ROUNDS: usize = 5;

/// Nanoseconds of this thread's CPU time for each of this many calls.
fn each(calls: u64, work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let start = now();
    work();
    (now() - start) / calls as f64
}

/// The best of the rounds of each line, and the best ratio to the first line of the same round.
#[derive(Default)]
struct BestLines(Vec<(&'static str, Vec<f64>)>);

impl BestLines {
    fn add(&mut self, name: &'static str, ns: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.push(ns),
            None => self.0.push((name, vec![ns])),
        }
    }

    fn print(&self) {
        let Some((_, base)) = self.0.first() else {
            return;
        };
        for (name, all) in &self.0 {
            rows::add(&name.replace(',', ""), "framewright", "page_ns", "ns", all);
            let best = all.iter().copied().fold(f64::INFINITY, f64::min);
            let mut ratios: Vec<f64> = all.iter().zip(base).map(|(ns, base)| ns / base).collect();
            ratios.sort_by(f64::total_cmp);
            println!(
                "{name:<52} {best:>9.0} ns   {:>6.2}",
                ratios[ratios.len() / 2]
            );
        }
    }
}

fn read_at_random(cache: &FileCache<'_>, supply: &mut dyn FrameSource, file: &OpenFile, seed: u64) {
    let (mut random, mut page) = (Random::new(seed), [0; PAGE as usize]);
    for _ in 0..CALLS {
        let at = random.below(PAGES) * PAGE;
        let read = cache.read(supply, file, at, &mut page);
        assert_eq!(black_box(read), Ok(PAGE as usize));
    }
}

/// Reads every page once: `step` apart, so that no page is read ahead, or in sequence.
fn read_once(cache: &FileCache<'_>, supply: &mut dyn FrameSource, file: &OpenFile, step: u64) {
    let mut page = [0; PAGE as usize];
    for nth in 0..PAGES {
        let at = nth * step % PAGES * PAGE;
        assert_eq!(cache.read(supply, file, at, &mut page), Ok(PAGE as usize));
    }
}

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!("{}", machine::description());
    let path = std::env::temp_dir().join(format!("framewright-bench-{}", std::process::id()));
    let mut out = File::create(&path).expect("a temporary file");
    for nth in 0..PAGES {
        let page: Vec<u8> = (0..PAGE).map(|at| (nth * 7 + at / 9) as u8).collect();
        out.write_all(&page).expect("room for 128 MiB");
    }
    let mut lines = BestLines::default();
    let layout = ZoneLayout::new(Frame(0), PAGES + 8192).with_cpus(3);
    let host = Host::new(&Options::new(layout)).expect("membarrier");
    let slots = host.platform().slots().clone();
    let run = Run::new(Frame(1 << 30), PAGES).expect("a run");
    let ram = Arc::new(Ram::new(run, RamPages::Base).expect("128 MiB"));
    let layout = ReserveLayout::new(run).with_cpus(3);
    let mut words = vec![0; layout.words_needed().expect("a layout")];
    let platform = Stored::new(Linux::new(slots.clone()).expect("membarrier"), ram);
    let reserve = Reserve::new(&layout, &mut words, platform).expect("a reserve");
    let pool = reserve.open_pool(&PoolConfig::CLEAN).expect("a pool");
    let guests = Guests::new(&reserve, slots).expect("all seats");
    let plain = File::open(&path).expect("it was made");
    for _ in 0..ROUNDS {
        round(&mut lines, &host, &plain, &path, Some((&guests, pool)));
    }
    std::fs::remove_file(&path).expect("it is there");
    println!("\n{:<52} {:>12}   of a pread", "", "a page");
    lines.print();
}

fn round(
    lines: &mut BestLines,
    host: &Host,
    plain: &File,
    path: &std::path::Path,
    cleancache: Option<(
        &dyn framewright_linux::Tenancy,
        framewright::reserve::PoolId,
    )>,
) {
    let mut seat = host.seat().expect("a seat");
    let ram = || Arc::clone(host.ram_shared());
    let everything = Ask {
        wanted: u64::MAX,
        scan: u64::MAX,
        order: Order::ZERO,
        context: Context::ANY,
    };
    let ns = each(CALLS, || {
        let (mut random, mut page) = (Random::new(1), [0; PAGE as usize]);
        for _ in 0..CALLS {
            let at = random.below(PAGES) * PAGE;
            black_box(plain.read_at(&mut page, at)).expect("it is there");
        }
    });
    lines.add("pread, at random, from the kernel's cache", ns);
    for (with, cleancache) in [(true, cleancache), (false, None)] {
        let cache = FileCache::new(ram(), cleancache, FileOptions::default());
        let file = cache.open(path).expect("it was made");
        let ns = each(PAGES, || read_once(&cache, &mut seat, &file, 1));
        if !with {
            lines.add("miss, from the file in sequence", ns);
            let ns = each(CALLS, || read_at_random(&cache, &mut seat, &file, 1));
            lines.add("hit, at random", ns);
            let ns = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut seat = host.seat().expect("a seat");
                    read_at_random(&cache, &mut seat, &file, 2);
                });
                each(CALLS, || read_at_random(&cache, &mut seat, &file, 3))
            });
            lines.add("hit, at random, each of two threads", ns);
            let ns = moved(&cache, &mut seat, &file);
            lines.add("moved", ns);
        }
        // The first look takes the marks away.
        let pages = cache.stats().pages;
        let ns = each(pages, || {
            while cache.shrink(&mut seat, &everything).freed > 0 {}
        });
        if with {
            lines.add("gone, to the cleancache", ns);
            let ns = each(PAGES, || read_once(&cache, &mut seat, &file, 12_345));
            lines.add("miss, from the cleancache, one at a time", ns);
        } else {
            lines.add("gone", ns);
            let ns = each(PAGES, || read_once(&cache, &mut seat, &file, 12_345));
            lines.add("miss, from the file, one at a time", ns);
        }
        cache.forget(file).expect("nothing is dirty");
        cache.clear(&mut seat);
    }
}

/// All pages, one after the other, each to a free frame.
fn moved(cache: &FileCache<'_>, seat: &mut impl FrameSource, file: &OpenFile) -> f64 {
    let mut moves = Vec::new();
    for page in 0..PAGES / 8 {
        let pin = cache.pin(seat, file, page).expect("it is there");
        moves.push(Move {
            from: pin.frame(),
            to: seat.alloc_frame().expect("there are some more"),
            order: Order::ZERO,
            state: MoveState::Unknown,
        });
    }
    let ns = each(PAGES / 8, || cache.migrate(&mut moves));
    for one in moves {
        assert_eq!(one.state, MoveState::Moved);
        seat.free_frame(one.from);
    }
    ns
}
