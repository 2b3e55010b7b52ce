//! A run of a guaranteed area with pages that are on no device yet: they are copied into ordinary
//! frames.

use crate::{AREA, BenchSeat, FRAMES, host, row};
use framewright::reserve::{Contiguous, Guest, Key, PoolConfig, PoolId, Reserve, ReserveLayout};
use framewright::{CpuId, Frame, Run};
use framewright_linux::platform::Slots;
use framewright_linux::{Linux, Ram, RamPages, Stored};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// Puts a page into every frame, of each `period` of them one that is on no device, and the others clean.
fn fill(guest: &mut Guest<'_, '_, Stored>, pool: PoolId, period: u64) {
    let mut page = [1; 512];
    for index in 0..AREA {
        // No two words alike: a page of one repeated word has no frame.
        page[0] = index << 16;
        let key = Key {
            pool,
            object: index >> 10,
            index,
        };
        let put = if index % period == 0 {
            guest.put_dirty(key, &page)
        } else {
            guest.put(key, &page)
        };
        put.expect("a frame is free for each");
    }
}

/// One row: a run of `frames` frames, of each `period` of which one has a page that is to be put back.
pub(crate) fn measure(
    at: &str,
    period: u64,
    frames: u64,
    trials: usize,
) -> Result<String, Box<dyn Error>> {
    let host = host()?;
    let run = Run::new(Frame(FRAMES), AREA).ok_or("a run ends inside the numbers")?;
    let ram = Arc::new(Ram::new(run, RamPages::Base)?);
    let platform =
        Stored::new(Linux::new(Slots::new(1))?, ram).with_ordinary(Arc::clone(host.ram_shared()));
    let layout = ReserveLayout::new(run).with_ordinary(AREA as u32);
    let mut memory = vec![0; layout.words_needed()?];
    let reserve = Reserve::new(&layout, &mut memory, platform)?;
    let config = PoolConfig {
        put_back: true,
        ..PoolConfig::SWAP
    };
    let pool = reserve.open_pool(&config).ok_or("there are pools")?;
    let mut guest = reserve.guest(CpuId(0)).ok_or("a seat")?;
    let mut supply: BenchSeat<'_> = host.seat()?;
    let mut times = Vec::new();
    let mut refused = 0;
    for _ in 0..trials {
        fill(&mut guest, pool, period);
        let mut owner = reserve.owner(Some(&mut supply));
        let begun = Instant::now();
        let got = owner.alloc_contig(frames, 1);
        times.push(begun.elapsed().as_nanos() as f64 / 1000.0);
        match got {
            Ok(run) => owner.release(run)?,
            Err(_) => refused += 1,
        }
        drop(owner);
        // For the next one all frames are free again.
        for object in 0..=AREA >> 10 {
            guest.invalidate_object(pool, object);
        }
        let all = reserve.alloc_contig(AREA, 1)?;
        reserve.release(all)?;
        reserve.collect(&mut supply);
    }
    let moved = reserve.stats().put_back_pages / trials as u64;
    Ok(row(at, times, moved, refused))
}
