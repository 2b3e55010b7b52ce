//! What it costs to take a run of frames from guests, and what it costs guests to put and get.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench reserve            # about 20 seconds
//! cargo bench -p framewright-linux --bench reserve -- --quick # a few, with fewer rounds and sizes
//! ```
//!
//! `--json FILE` appends the figures there, one a line; `--guests` leaves out what owners do, for profiles.
//!
//! A reserve of 256 MiB in a memfd. *Taken*: a run of this many frames where every frame has a clean
//! page; where every frame is free; and the first again beside a guest on another CPU that puts and
//! gets without a pause. *Guests*: a put into a full reserve, so that something is evicted, and a get of
//! a page that is there, both at random, so that neither page nor frame is in a cache of the processor;
//! with the guest's own pages where they begin at a page boundary, and where they do not; from a pool
//! where the page stays, and from one where the get takes it away. Beside them, in turns with
//! them, the same copies from and to the frames of other RAM without a reserve: what is beyond these
//! is the reserve's.
//!
//! Latencies are taken with a clock reading before and after each call; what two readings cost by
//! themselves is printed, and is in them. Every call counts, also one during which the thread was
//! preempted: these are fewer than one in a hundred, and stand in the maximum.

mod guests;
#[path = "../frames/machine.rs"]
mod machine;
#[path = "../frames/rows.rs"]
mod rows;

use framewright::reserve::{Guest, Key, PoolConfig, PoolId, Reserve, ReserveLayout};
use framewright::{CpuId, Frame, Run};
use framewright_linux::platform::Slots;
use framewright_linux::{Linux, Ram, RamPages, Stored};
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

const FRAMES: u64 = 65_536;
const SIZES: [u64; 8] = [1, 512, 1024, 2048, 4096, 8192, 16_384, 32_000];
const QUICK_SIZES: [u64; 3] = [1, 4096, 32_000];

type BenchReserve<'m> = Reserve<'m, Stored>;

fn page(index: u64) -> [u64; 512] {
    std::array::from_fn(|n| index << 16 | n as u64)
}

fn key(pool: PoolId, index: u64) -> Key {
    Key {
        pool,
        object: index >> 10,
        index,
    }
}

/// Puts pages until no frame is free.
fn fill(guest: &mut Guest<'_, '_, Stored>, pool: PoolId) {
    let mut page = page(0);
    for index in 0..FRAMES {
        page[0] = index << 16;
        // Beside another guest a put may be overtaken: then that one's page is there.
        let _ = guest.put(key(pool, index), &page);
    }
}

fn ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

fn line(section: &str, name: &str, histogram: &Histogram<u64>, target: &str) {
    let us = |ns: u64| [ns as f64 / 1e3];
    let at = format!("{section}/{}", name.trim().replace(',', ""));
    for (metric, ns) in [
        ("p50_us", histogram.value_at_quantile(0.5)),
        ("p99_us", histogram.value_at_quantile(0.99)),
        ("max_us", histogram.max()),
    ] {
        rows::add(&at, "framewright", metric, "us", &us(ns));
    }
    println!(
        "{name:<44} p50 {:>9.2} us   p99 {:>9.2}   max {:>9.2}   {target}",
        histogram.value_at_quantile(0.5) as f64 / 1e3,
        histogram.value_at_quantile(0.99) as f64 / 1e3,
        histogram.max() as f64 / 1e3,
    );
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}

/// Takes and releases `frames` frames this many times; before each, all frames hold a page, or none.
fn takes(
    reserve: &BenchReserve<'_>,
    frames: u64,
    rounds: usize,
    full: Option<(&mut Guest<'_, '_, Stored>, PoolId)>,
) -> Histogram<u64> {
    let mut times = histogram();
    let mut full = full;
    if full.is_none() {
        let all = reserve.alloc_contig(FRAMES, 1).expect("no frame is owned");
        reserve.release(all).expect("owned");
    }
    for _ in 0..rounds {
        if let Some((guest, pool)) = &mut full {
            fill(guest, *pool);
        }
        let start = Instant::now();
        let run = reserve.alloc_contig(frames, 1);
        times.record(ns(start)).expect("in range");
        reserve
            .release(run.expect("no dirty page is there"))
            .expect("owned");
    }
    times
}

fn main() {
    // `cargo test --benches` runs this too, to see that it works.
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let quick = has("--quick") || !has("--bench");
    println!("{}", machine::description());
    let run = Run::new(Frame(0), FRAMES).expect("a run");
    let ram = Arc::new(Ram::new(run, RamPages::Huge).expect("256 MiB"));
    let linux = Linux::new(Slots::new(2)).expect("membarrier");
    let layout = ReserveLayout::new(run).with_cpus(2);
    let mut words = vec![0; layout.words_needed().expect("a layout")];
    println!(
        "metadata: {:.2} % of the frames",
        words.len() as f64 * 8.0 / (FRAMES as f64 * 4096.0) * 100.0
    );
    let reserve = Reserve::new(&layout, &mut words, Stored::new(linux, ram)).expect("a reserve");
    let pool = reserve.open_pool(&PoolConfig::SWAP).expect("a pool");
    let other = reserve.open_pool(&PoolConfig::CLEAN).expect("a pool");
    let mut guest = reserve.guest(CpuId(0)).expect("a seat");
    machine::pin(0);

    let calls = if quick { 40_000 } else { 400_000 };
    if has("--guests") {
        guests::measure(&mut guest, [pool, other], calls);
        return;
    }
    let (sizes, rounds) = if quick {
        (&QUICK_SIZES[..], 3)
    } else {
        (&SIZES[..], 8)
    };
    println!("\ntaken, every frame holds a clean page");
    for &frames in sizes {
        let target = match frames {
            1 => "target 1",
            32_000 => "target 100",
            _ => "",
        };
        let times = takes(&reserve, frames, rounds, Some((&mut guest, pool)));
        line("full", &format!("{frames} frames"), &times, target);
    }
    println!("\ntaken, every frame is free");
    for &frames in sizes {
        let target = if frames == 32_000 { "target 10" } else { "" };
        line(
            "free",
            &format!("{frames} frames"),
            &takes(&reserve, frames, rounds, None),
            target,
        );
    }
    println!("\ntaken beside a busy guest, every frame holds a clean page");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            machine::pin(1);
            let mut guest = reserve.guest(CpuId(1)).expect("a seat");
            let (mut out, page) = ([0; 512], page(7));
            let mut n = 1u64;
            while !done.load(Relaxed) {
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = key(pool, n >> 33 & 0xffff);
                if !guest.get(key, &mut out) {
                    let _ = guest.put(key, &page);
                }
                black_box(&out);
            }
        });
        for &frames in sizes {
            let target = if frames == 32_000 { "target 200" } else { "" };
            let times = takes(&reserve, frames, rounds, Some((&mut guest, pool)));
            line("busy", &format!("{frames} frames"), &times, target);
        }
        done.store(true, Relaxed);
    });

    guests::measure(&mut guest, [pool, other], calls);
    print!("\n{}{}", reserve.stats(), reserve.occupancy());
}
