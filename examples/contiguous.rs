//! Two areas for owners of contiguous memory: one lends to what moves, the other to what can be dropped.
//!
//! `cargo run -p framewright-examples --bin contiguous`

use framewright::frame::ZoneLayout;
use framewright::policy::{ContigConfig, ReclaimConfig};
use framewright::reclaim::{Clients, Migrate, Reclaim};
use framewright::reserve::{
    Contiguous, Guaranteed, Key, MigrateArea, Migrating, PoolConfig, Reserve, ReserveLayout,
};
use framewright::{CpuId, Frame, Order, PageRange, Run};
use framewright_linux::platform::{Linux, Slots};
use framewright_linux::{Anon, Host, Options, Ram, RamPages, Stored};
use std::error::Error;
use std::sync::Arc;

/// What an owner does, whichever kind of area it is.
fn borrow(area: &mut dyn Contiguous) -> Result<(), Box<dyn Error>> {
    let kind = area.kind();
    match area.alloc_contig(1000, 1) {
        Ok(run) => {
            println!("{kind:?}: {} frames in one piece", run.frames());
            area.release(run)?;
        }
        Err(_) => println!("{kind:?}: none"),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // 8 MiB of frames, of which 4 MiB are lent to memory that moves, and 3 MiB of that in use.
    let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 2048)))?;
    let mut memory = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut memory)?;
    let lent = Run::new(Frame(1024), 1024).ok_or("a run ends inside the numbers")?;
    let mut memory = vec![0; MigrateArea::<Linux>::words_needed(lent)];
    let area = MigrateArea::new(&reclaim, lent, &ContigConfig::default(), &mut memory)?;
    let anon = Anon::new(Arc::clone(host.ram_shared()), 2048)?;
    let mut seat = host.seat()?;
    anon.populate(&mut seat, anon.range(), Order::ZERO)?;
    for page in (anon.range().start().0..).step_by(2).take(1024) {
        let one = PageRange::new(framewright::Page(page), 1).ok_or("a page")?;
        anon.discard(&mut seat, one)?;
    }

    // 4 MiB beside it, full of pages that a guest can do without.
    let run = Run::new(Frame(0), 1024).ok_or("a run ends inside the numbers")?;
    let ram = Arc::new(Ram::new(run, RamPages::Base)?);
    let platform = Stored::new(Linux::fenced(Slots::new(1)), ram);
    let layout = ReserveLayout::new(run);
    let mut memory = vec![0; layout.words_needed()?];
    let reserve = Reserve::new(&layout, &mut memory, platform)?;
    let pool = reserve.open_pool(&PoolConfig::CLEAN).ok_or("no pool")?;
    let mut guest = reserve.guest(CpuId(0)).ok_or("no seat")?;
    for index in 0..1024 {
        let key = Key {
            pool,
            object: 1,
            index,
        };
        let page = std::array::from_fn(|word| index << 32 | word as u64);
        guest.put(key, &page).map_err(|why| format!("{why:?}"))?;
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
        let one = PageRange::new(framewright::Page(page), 1).ok_or("a page")?;
        pins.push(anon.pin(one)?);
    }
    for is_pinned in [true, false] {
        println!("{} pins:", if is_pinned { "with" } else { "without" });
        if !is_pinned {
            pins.clear();
        }
        borrow(&mut Migrating::new(&area, &mut seat, clients))?;
        borrow(&mut Guaranteed::new(&reserve))?;
    }
    area.verify()?;
    reserve.verify()?;
    Ok(())
}
