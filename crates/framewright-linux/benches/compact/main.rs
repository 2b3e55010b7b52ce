//! What compaction costs a migrated page on real memory, while threads write to the pages.
//!
//! `cargo bench -p framewright-linux --bench compact` prints a table for memory in huge pages, as
//! far as the host gives them, and one for base pages; with `-- --json FILE` it appends the figures there, one a
//! line, with `-- --quick` for one repetition, with
//! `-- --only NAME` for the layouts with names that start so.
//!
//! 130 MiB in pageblocks of 2 MiB are filled with a region's pages, half of which are freed again
//! in several layouts. Then whole blocks are asked of `Reclaim::compact` until 20 are there. All of
//! the call is measured: choosing, targets, taking access away, copying, showing, filling page
//! tables, freeing. After each, as many pages as were moved are copied into the block that was
//! made, through the same direct map, without any other work: the copy alone. "Beyond" is the
//! difference.
//!
//! Time is the calling thread's CPU time, because writers and other programs share its CPUs; the
//! median over blocks by the clock stands beside it. Writers count in words of their own in random
//! pages, and end the program if they do not find what they left. In the end all other words of all
//! pages are compared with what was written before.

#[path = "../frames/machine.rs"]
#[expect(dead_code, reason = "no thread is bound to a CPU here")]
mod machine;
mod memory;
#[path = "../frames/rows.rs"]
mod rows;

use framewright::policy::ReclaimConfig;
use framewright::reclaim::{Compaction, Migrate, Reclaim};
use framewright::{Frame, Mobility, Order, Run};
use framewright_linux::{Linux, Ram, RamPages};
use memory::{BenchMemory, HalfFull, LAYOUTS};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The order of the blocks that are made: 2 MiB.
const HUGE: u8 = 9;
const BLOCKS: usize = 20;
/// What is wanted: nanoseconds a page beyond the copy.
const TARGET: f64 = 1000.0;

fn main() {
    // `cargo test --benches` runs this too, to see that it works.
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let quick = has("--quick") || !has("--bench");
    let mut arguments = std::env::args().skip_while(|argument| argument != "--only");
    let only = arguments.nth(1).unwrap_or_default();
    println!("{}", machine::description());
    for pages in [RamPages::Huge, RamPages::Base] {
        table(pages, quick, &only);
    }
}

/// All layouts in memory of such pages, with 0, 1 and 2 writers.
fn table(pages: RamPages, quick: bool, only: &str) {
    println!();
    let one = Run::new(Frame(0), memory::FRAMES).expect("frames have numbers");
    match Ram::new(one, pages) {
        Ok(ram) => println!("{}", ram.report()),
        Err(error) => return println!("no memory for the frames: {error}"),
    }
    println!(
        "blocks of 2 MiB made by compaction; ns for a migrated page, and pages of one mapping"
    );
    println!(
        "{:<34} {:>7} {:>6} {:>6} {:>6}  {:>8} {:>8} {:>7} {:>6}",
        "layout", "writers", "all", "copy", "beyond", "by clock", "mapping", "waits", "target"
    );
    for layout in LAYOUTS
        .iter()
        .filter(|layout| layout.name.starts_with(only))
    {
        for writers in 0..=2 {
            let repeats = if quick { 1 } else { 5 };
            let mut sum = Figures::default();
            let mut beyond = Vec::new();
            for repeat in 0..repeats {
                let one = run(layout, pages, writers, repeat);
                beyond.push(one.beyond());
                sum.add(one);
            }
            let at = format!("{} {pages:?}/{writers}", layout.name.replace(',', ""));
            rows::add(&at, "framewright", "beyond_ns", "ns", &beyond);
            sum.print(layout, writers);
        }
    }
}

#[derive(Default)]
struct Figures {
    moved: u64,
    all_ns: u64,
    copy_ns: u64,
    /// Of each block, nanoseconds a page by the clock.
    clock: Vec<f64>,
    shown: u64,
    waits: u64,
    missing: usize,
}

impl Figures {
    fn add(&mut self, mut other: Self) {
        self.moved += other.moved;
        self.all_ns += other.all_ns;
        self.copy_ns += other.copy_ns;
        self.clock.append(&mut other.clock);
        self.shown += other.shown;
        self.waits += other.waits;
        self.missing += other.missing;
    }

    /// What a moved page costs beyond its copy.
    fn beyond(&self) -> f64 {
        (self.all_ns as f64 - self.copy_ns as f64) / self.moved.max(1) as f64
    }

    fn print(mut self, layout: &HalfFull, writers: usize) {
        let each = |ns: u64| ns as f64 / self.moved.max(1) as f64;
        let beyond = self.beyond();
        self.clock.sort_by(f64::total_cmp);
        let median = self.clock.get(self.clock.len() / 2).copied();
        println!(
            "{:<34} {writers:>7} {:>6.0} {:>6.0} {:>6.0}  {:>8.0} {:>8.1} {:>7} {:>6}{}",
            layout.name,
            each(self.all_ns),
            each(self.copy_ns),
            beyond,
            median.unwrap_or_default(),
            self.moved as f64 / self.shown.max(1) as f64,
            self.waits,
            if beyond <= TARGET { "met" } else { "missed" },
            match self.missing {
                0 => String::new(),
                some => format!(", {some} blocks could not be made"),
            }
        );
    }
}

/// One repetition: memory in that layout, as many writers, and blocks made.
fn run(layout: &HalfFull, pages: RamPages, writers: usize, seed: u64) -> Figures {
    let memory = BenchMemory::new(layout, pages, seed);
    let zone = memory.host.zone();
    let mut words = vec![0; Reclaim::words_needed(zone)];
    let reclaim = Reclaim::new(zone, &ReclaimConfig::default(), &mut words);
    let reclaim = reclaim.expect("as many words as it needs");
    let end = AtomicBool::new(false);
    let writes = AtomicU64::new(0);
    let figures = std::thread::scope(|scope| {
        for nth in 0..writers {
            let (memory, end, writes) = (&memory, &end, &writes);
            scope.spawn(move || memory.write_until(end, writes, nth));
        }
        while writes.load(Relaxed) < 1000 * writers as u64 {
            std::thread::yield_now();
        }
        let figures = make_blocks(&memory, &reclaim);
        end.store(true, Relaxed);
        figures
    });
    memory.check();
    figures
}

/// Makes blocks, and copies as many pages into each as were moved for it.
fn make_blocks<'m>(memory: &'m BenchMemory, reclaim: &Reclaim<'_, 'm, Linux<()>>) -> Figures {
    let mut figures = Figures::default();
    let mut seat = memory.host.seat().expect("there are seats for all");
    let movers: Vec<&dyn Migrate> = memory.regions.iter().map(|anon| anon as _).collect();
    let order = Order::new(HUGE).expect("not above the maximum");
    let before = memory.stats();
    let mut blocks = Vec::new();
    for nth in 0..BLOCKS {
        let moved = memory.stats().moved_pages;
        let (start, clock) = (cpu_ns(), Instant::now());
        let made = reclaim.compact_ahead(&mut seat, order, Mobility::Unmovable, &movers);
        let (clock, end) = (clock.elapsed(), cpu_ns());
        let moved = memory.stats().moved_pages - moved;
        figures.all_ns += end - start;
        if moved > 0 {
            figures.clock.push(clock.as_nanos() as f64 / moved as f64);
        }
        let Compaction::Captured(block) = made else {
            figures.missing = BLOCKS - nth;
            break;
        };
        blocks.push(block);
        // Of elsewhere: what was moved just now is warm.
        let sources = memory.live_frames(nth * 1700, moved as usize);
        let one = |frame: u64| Run::new(Frame(frame), 1).expect("frames have numbers");
        let start = cpu_ns();
        for (to, from) in sources.iter().enumerate() {
            let to = block.0 + (to as u64 * 2) % order.frames();
            let copied = memory.host.ram().copy(one(from.0), one(to));
            copied.expect("both are in RAM");
        }
        figures.copy_ns += cpu_ns() - start;
    }
    let after = memory.stats();
    figures.moved = after.moved_pages - before.moved_pages;
    figures.shown = after.shown - before.shown;
    figures.waits = after.waits - before.waits;
    for block in blocks {
        seat.free(block, order).expect("it was captured");
    }
    figures
}

/// The calling thread's CPU time.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
