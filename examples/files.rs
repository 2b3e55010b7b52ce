//! A file, read through frames of the engine; what gives way lies in a reserve until its owner takes it.
//!
//! `cargo run -p framewright-examples --bin files`

use framewright::frame::ZoneLayout;
use framewright::reclaim::{Ask, Shrink};
use framewright::reserve::{PoolConfig, Reserve, ReserveLayout};
use framewright::{Context, Frame, Order, Run};
use framewright_linux::file_cache::{FileCache, FileOptions};
use framewright_linux::{Guests, Host, Linux, Options, Ram, RamPages, Stored};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 4096)))?;
    let slots = host.platform().slots().clone();

    // Beside the zone 4 MiB that a device will need in one piece.
    let run = Run::new(Frame(1 << 20), 1024).ok_or("a run ends inside the numbers")?;
    let ram = Arc::new(Ram::new(run, RamPages::Base)?);
    let layout = ReserveLayout::new(run);
    let mut metadata = vec![0; layout.words_needed()?];
    let platform = Stored::new(Linux::fenced(slots.clone()), ram);
    let reserve = Reserve::new(&layout, &mut metadata, platform)?;
    let device = reserve.reserve("device", 1024, 1024)?;
    let pool = reserve.open_pool(&PoolConfig::CLEAN).ok_or("no pool")?;
    let guests = Guests::new(&reserve, slots)?;

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
