//! Two areas for owners of contiguous memory: one lends to what moves, the other to what can be dropped.
//!
//! `cargo run -p framewright-examples --bin contiguous`

use framewright::policy::ContigConfig;
use framewright::reclaim::{Clients, Migrate};
use framewright::reserve::{Contiguous, Key, MigrateArea, PoolConfig};
use framewright::{Frame, Order, Page, PageRange, Run};
use framewright_linux::{Anon, HostSpace, Options, Windowed};
use std::error::Error;
use std::sync::Arc;

/// What an owner does, whichever kind of area it is.
fn borrow(area: &mut dyn Contiguous) -> Result<(), Box<dyn Error>> {
    let kind = match area.is_guaranteed() {
        true => "guaranteed",
        false => "migrates",
    };
    match area.alloc_contig(1000, 1) {
        Ok(run) => {
            println!("{kind}: {} frames in one piece", run.frames());
            area.release(run)?;
        }
        Err(_) => println!("{kind}: none"),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // 8 MiB of frames, of which 4 MiB are lent to memory that moves, and 3 MiB of that in use.
    let host = HostSpace::fenced(&Options::of_frames(2048).with_reserve(1024))?;
    let reclaim = host.engine().reclaim(0);
    let lent = Run::new(Frame(1024), 1024).ok_or("a run ends inside the numbers")?;
    let mut memory = vec![0; MigrateArea::<Windowed>::words_needed(lent)];
    let area = MigrateArea::new(&reclaim, lent, &ContigConfig::default(), &mut memory)?;
    let anon = Anon::new(Arc::clone(host.ram_shared()), 2048)?;
    let mut cpu = host.cpu()?;
    anon.populate(cpu.frames().seat(0), anon.range(), Order::ZERO)?;
    for page in (anon.range().start().0..).step_by(2).take(1024) {
        let one = PageRange::new(Page(page), 1).ok_or("a page")?;
        anon.discard(cpu.frames().seat(0), one)?;
    }

    // 4 MiB beside it, full of pages that a guest can do without.
    let reserve = host.reserve().ok_or("no reserve")?;
    let pool = reserve.open_pool(&PoolConfig::CLEAN).ok_or("no pool")?;
    for index in 0..1024 {
        let key = Key {
            pool,
            object: 1,
            index,
        };
        let page = std::array::from_fn(|word| index << 32 | word as u64);
        cpu.put(key, &page).map_err(|why| format!("{why:?}"))?;
    }

    // The same owner in front of both, first while a client has pinned all movable pages, and then
    // after that.
    let movers: [&dyn Migrate; 1] = [&anon];
    let clients = Clients {
        shrink: &[],
        migrate: &movers,
    };
    let mut pins = Vec::new();
    for page in (anon.range().start().0..).skip(1).step_by(2).take(1024) {
        let one = PageRange::new(Page(page), 1).ok_or("a page")?;
        pins.push(anon.pin(one)?);
    }
    for is_pinned in [true, false] {
        println!("{} pins:", if is_pinned { "with" } else { "without" });
        if !is_pinned {
            pins.clear();
        }
        borrow(&mut area.owner(cpu.frames().seat(0), clients))?;
        borrow(&mut reserve.owner(None))?;
    }
    area.verify()?;
    reserve.verify()?;
    Ok(())
}
