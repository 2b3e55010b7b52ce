//! What it costs to take a run of frames from guests, and what it costs guests to put and get.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench reserve
//! ```
//!
//! A reserve of 256 MiB in a memfd. *Taken*: a run of so many frames where every frame has a clean
//! page; where every frame is free; and the first again beside a guest on another CPU that puts and
//! gets without a pause. *Guests*: a put into a full pool, so that something is evicted, and a get of a
//! page that is there, both at random, so that neither page nor frame is in a cache of the processor.
//! Latencies are taken with a clock reading before and after each call; what two readings cost by
//! themselves is printed, and is in them.

#[path = "../frames/machine.rs"]
mod machine;

use framewright::reserve::{Guest, Key, PoolConfig, PoolId, Reserve, ReserveLayout};
use framewright::{CpuId, Frame, Run};
use framewright_linux::platform::Slots;
use framewright_linux::{Linux, Pages, Ram, Stored};
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

const FRAMES: u64 = 65_536;
const SIZES: [u64; 8] = [1, 512, 1024, 2048, 4096, 8192, 16_384, 32_000];
const ROUNDS: usize = 8;
const CALLS: u64 = 400_000;

type Whole<'m> = Reserve<'m, Stored>;

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

fn line(name: &str, histogram: &Histogram<u64>, target: &str) {
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

/// Takes and releases `frames` frames so many times; before each, all frames hold a page, or none.
fn takes(
    reserve: &Whole<'_>,
    frames: u64,
    full: Option<(&mut Guest<'_, '_, Stored>, PoolId)>,
) -> Histogram<u64> {
    let mut times = histogram();
    let mut full = full;
    if full.is_none() {
        let all = reserve
            .alloc_contig(FRAMES, 1)
            .expect("nobody owns a frame");
        reserve.release(all).expect("owned");
    }
    for _ in 0..ROUNDS {
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
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!("{}", machine::description());
    let run = Run::new(Frame(0), FRAMES).expect("a run");
    let ram = Arc::new(Ram::new(run, Pages::Huge).expect("256 MiB"));
    let linux = Linux::new(Slots::new(2)).expect("membarrier");
    let layout = ReserveLayout::new(run).with_cpus(2);
    let mut words = vec![0; layout.words_needed().expect("a layout")];
    println!(
        "metadata: {:.2} % of the frames",
        words.len() as f64 * 8.0 / (FRAMES as f64 * 4096.0) * 100.0
    );
    let reserve = Reserve::new(&layout, &mut words, Stored::new(linux, ram)).expect("a reserve");
    let pool = reserve.open_pool(&PoolConfig::SWAP).expect("a pool");
    let mut guest = reserve.guest(CpuId(0)).expect("a seat");
    machine::pin(0);

    println!("\ntaken, every frame holds a clean page");
    for frames in SIZES {
        let target = match frames {
            1 => "target 1",
            32_000 => "target 100",
            _ => "",
        };
        let times = takes(&reserve, frames, Some((&mut guest, pool)));
        line(&format!("{frames} frames"), &times, target);
    }
    println!("\ntaken, every frame is free");
    for frames in SIZES {
        let target = if frames == 32_000 { "target 10" } else { "" };
        line(
            &format!("{frames} frames"),
            &takes(&reserve, frames, None),
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
        for frames in SIZES {
            let target = if frames == 32_000 { "target 200" } else { "" };
            let times = takes(&reserve, frames, Some((&mut guest, pool)));
            line(&format!("{frames} frames"), &times, target);
        }
        done.store(true, Relaxed);
    });

    println!(
        "\nguests, cold pages at random (reading the clock twice: {} ns)",
        machine::clock_ns()
    );
    fill(&mut guest, pool);
    let (mut puts, mut gets) = (histogram(), histogram());
    let mut pages: Vec<[u64; 512]> = (0..16_384).map(page).collect();
    let mut n = 1u64;
    let (mut hits, mut stored) = (0, 0);
    for _ in 0..CALLS {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let index = n >> 33 & 0xffff;
        let at = (n >> 13) as usize % pages.len();
        let start = Instant::now();
        let hit = guest.get(key(pool, index), &mut pages[at]);
        if hit {
            gets.record(ns(start)).expect("in range");
            hits += 1;
        }
        pages[at][0] = index;
        let start = Instant::now();
        let put = guest.put(key(pool, FRAMES + (n >> 20 & 0xff_ffff)), &pages[at]);
        puts.record(ns(start)).expect("in range");
        stored += u64::from(put.is_ok());
        if !hit {
            let _ = guest.put(key(pool, index), &pages[at]);
        }
    }
    line(&format!("get ({hits} hits)"), &gets, "target 1.0, p99 1.5");
    line(
        &format!("put ({stored} stored)"),
        &puts,
        "target 0.8, p99 1.5",
    );
    println!("\n{:?}", reserve.stats());
}
