//! What paging costs: a touch of a page that is not there, by where it is; a page that goes, by where to.
//!
//! `cargo bench -p framewright-linux --bench paged [PAGES] [--json FILE]`: medians in µs, with what the same memory costs
//! without paging in the same run. Ratios are worth more than values.

#![allow(missing_docs, reason = "a program, not a library")]

#[path = "../frames/rows.rs"]
mod rows;

use framewright::frame::ZoneLayout;
use framewright::reclaim::{Ask, Shrink};
use framewright::reserve::{PoolConfig, Reserve, ReserveLayout};
use framewright::{Context, Frame, Order, Run};
use framewright_linux::paged::Paged;
use framewright_linux::platform::Slots;
use framewright_linux::swap::{DirectIo, SwapDevice, SwapPolicy};
use framewright_linux::tenancy::Guests;
use framewright_linux::{Frontswap, Host, Linux, Options, Ram, RamPages, Stored, SwapFile, Zram};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// The `part`-th of a hundred parts of sorted values; not a number if there are no values.
fn part(sorted: &[f64], part: usize) -> f64 {
    let at = sorted.len().saturating_sub(1) * part / 100;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn us(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// A page as a heap has it: half of its words are small numbers, half pointers into one region.
fn fill(words: &mut [u64], page: u64) {
    let mut state = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for (nth, word) in words.iter_mut().enumerate() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *word = match nth % 4 {
            0 | 1 => state >> 58,
            2 => 0x7f12_3400_0000 | (state >> 44) << 4,
            _ => page,
        };
    }
}

struct PagedRow {
    name: &'static str,
    touch: Vec<f64>,
    evict: Vec<f64>,
    shown: Vec<f64>,
    /// Pages that went, and those of them that were written to the device.
    stored: u64,
    written: u64,
}

/// Fills a region of four times its budget, then touches pages at random, then has its frames taken.
fn measure(
    name: &'static str,
    host: &Host<()>,
    swap: Frontswap<'_>,
) -> Result<PagedRow, Box<dyn Error>> {
    let pages = swap.pages();
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, pages / 4)?;
    let mut touch = Vec::new();
    let (mut evict, mut shown) = (Vec::new(), Vec::new());
    let (mut stored, mut written) = (0, 0);
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        scope.spawn(|| paged.serve(&mut host.seat().expect("there are seats")));
        paged.await_pager()?;
        let words = |page: u64| -> &mut [u64] {
            let start = paged.address(page).expect("in the region").cast();
            // SAFETY: in the region, of which this thread is the only user.
            unsafe { std::slice::from_raw_parts_mut(start, 512) }
        };
        (0..pages).for_each(|page| fill(words(page), page));
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % pages
        };
        for _ in 0..pages {
            let page = random();
            if paged.frame_of(page).is_some() {
                continue;
            }
            let begun = Instant::now();
            let last = std::hint::black_box(words(page)[511]);
            touch.push(us(begun));
            assert_eq!(last, page);
        }
        // All that is there dirty, then taken away: what a page that goes costs.
        let there: Vec<_> = (0..pages)
            .filter(|page| paged.frame_of(*page).is_some())
            .collect();
        there.iter().for_each(|page| words(*page)[0] += 1);
        let mut seat = host.seat()?;
        let ask = Ask {
            wanted: 32,
            scan: u64::MAX,
            order: Order::ZERO,
            context: Context::ANY,
        };
        for _ in 0..there.len() / 64 {
            let begun = Instant::now();
            let freed = paged.shrink(&mut seat, &ask).freed;
            evict.push(us(begun) / freed.max(1) as f64);
        }
        // What is left was hidden, most of it: a touch gives it back.
        for page in there {
            if paged.frame_of(page).is_some() {
                let before = paged.stats().used_again;
                let begun = Instant::now();
                std::hint::black_box(words(page)[0]);
                let took = us(begun);
                if paged.stats().used_again > before {
                    shown.push(took);
                }
            }
        }
        let stats = paged.swap().stats();
        (stored, written) = (stats.stores + stats.kept, stats.device_writes);
        paged.stop();
        Ok(())
    })?;
    paged.discard(0..pages, &mut host.seat()?)?;
    for values in [&mut touch, &mut evict, &mut shown] {
        values.sort_by(f64::total_cmp);
    }
    Ok(PagedRow {
        name,
        touch,
        evict,
        shown,
        stored,
        written,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let pages = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let pages: u64 = pages.unwrap_or(8192);
    let host = Host::fenced(&Options::new(
        ZoneLayout::new(Frame(0), (pages / 2).next_multiple_of(1024)).with_cpus(4),
    ))?;
    let run = Run::new(Frame(0), pages.next_multiple_of(512)).ok_or("too many pages")?;
    let slots = Slots::new(4);
    let layout = ReserveLayout::new(run).with_cpus(4);
    let mut metadata = vec![0; layout.words_needed()?];
    let ram = Arc::new(Ram::new(run, RamPages::Base)?);
    let platform = Stored::new(Linux::fenced(slots.clone()), ram);
    let reserve = Reserve::new(&layout, &mut metadata, platform)?;
    let guests = Guests::new(&reserve, slots)?;
    let folder = std::env::temp_dir().join(format!("framewright-paged-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = SwapFile::create(&folder.join("swap"), 2 * pages)?;
    if let DirectIo::Refused(errno) = file.direct_io() {
        println!("no direct I/O in {}: errno {errno}", folder.display());
    }
    let zram = Zram::new(2 * pages, pages * 4096);
    let mut rows = Vec::new();
    for (name, device, policy) in [
        ("zram", &zram as &dyn SwapDevice, None),
        ("file", &file, None),
        ("file, write-through", &file, Some(SwapPolicy::WriteThrough)),
        (
            "file, write-back",
            &file,
            Some(SwapPolicy::WriteBack {
                dirty_max: pages / 2,
            }),
        ),
        (
            "store alone",
            &file,
            Some(SwapPolicy::PutBack { dirty_max: pages }),
        ),
    ] {
        let mut swap = Frontswap::new(device, pages);
        let pool = policy.map(|policy| {
            let pool = reserve
                .open_pool(&PoolConfig::SWAP)
                .expect("there are pools");
            (pool, policy)
        });
        if let Some((pool, policy)) = pool {
            swap = swap.with_store(&guests, pool, 0, policy);
        }
        rows.push(measure(name, &host, swap)?);
        if let Some((pool, _)) = pool {
            let mut guest = None;
            framewright_linux::tenancy::Tenancy::with(&guests, &mut |store| {
                guest = Some(store.invalidate_pool(pool));
            });
        }
    }
    std::fs::remove_dir_all(&folder)?;
    println!("{pages} pages, frames for a quarter; us");
    println!(
        "{:<22}{:>10}{:>10}{:>12}{:>13}{:>12}{:>10}",
        "", "touch p50", "p99", "evict/page", "shown again", "pages gone", "written"
    );
    for row in &rows {
        let at = row.name.replace(',', "");
        for (metric, values) in [
            ("touch_us", &row.touch),
            ("evict_us", &row.evict),
            ("shown_us", &row.shown),
        ] {
            rows::add(&at, "framewright", metric, "us", values);
        }
        println!(
            "{:<22}{:>10.2}{:>10.2}{:>12.2}{:>13.2}{:>12}{:>10}",
            row.name,
            part(&row.touch, 50),
            part(&row.touch, 99),
            part(&row.evict, 50),
            part(&row.shown, 50),
            row.stored,
            row.written
        );
    }
    Ok(())
}
