//! A file, read through frames of the engine; what gives way lies in a reserve until its owner takes it.
//!
//! `cargo run -p framewright-examples --bin files`

use framewright::reclaim::{Ask, Shrink};
use framewright::reserve::PoolConfig;
use framewright::{Context, Order};
use framewright_linux::file_cache::{FileCache, FileOptions};
use framewright_linux::{Guests, HostSpace, Options};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    // 16 MiB, and 4 MiB beside them that a device will need in one piece.
    let host = HostSpace::fenced(&Options::of_frames(4096).with_reserve(1024))?;
    let reserve = host.reserve().ok_or("no reserve")?;
    let device = reserve.reserve("device", 1024, 1024)?;
    let pool = reserve.open_pool(&PoolConfig::CLEAN).ok_or("no pool")?;
    let guests = Guests::new(reserve, host.slots().clone())?;

    let frames = Arc::clone(host.ram_shared());
    let cache = FileCache::new(frames, Some((&guests, pool)), FileOptions::default());
    let mut seat = host.seat()?;
    let path = std::env::temp_dir().join(format!("framewright-example-{}", std::process::id()));
    let file = cache.create(&path)?;
    let lines: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
    cache.write(&mut seat, &file, 0, lines.as_bytes())?;
    cache.sync(&file)?;
    println!("in the file: {}", std::fs::read_to_string(&path)? == lines);

    // Under pressure the cache gives its frames back, and the pages go to the reserve.
    let ask = Ask {
        wanted: u64::MAX,
        scan: u64::MAX,
        order: Order::ZERO,
        context: Context::ANY,
    };
    let freed = cache.shrink(&mut seat, &ask).freed;
    println!("freed: {freed} frames");
    let mut bytes = vec![0; lines.len()];
    for taken in [false, true] {
        if taken {
            cache.clear(&mut seat);
            let frames = reserve.take(device)?;
            println!("the device has {} frames", frames.frames());
        }
        let before = cache.stats();
        let read = cache.read(&mut seat, &file, 0, &mut bytes)?;
        let after = cache.stats();
        println!(
            "the same: {}, {} pages from the reserve, {} from the file",
            bytes[..read] == *lines.as_bytes(),
            after.from_cleancache - before.from_cleancache,
            after.from_disk - before.from_disk
        );
    }
    drop(file);
    cache.clear(&mut seat);
    std::fs::remove_file(&path)?;
    Ok(())
}
