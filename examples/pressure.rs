//! A zone under pressure: a cache gives frames back, movable contents make room for a large block.
//!
//! `cargo run -p framewright-examples --bin pressure`

use framewright::frame::{Seat, Zone, ZoneLayout};
use framewright::platform::SingleThread;
use framewright::policy::{Config, ReclaimConfig};
use framewright::reclaim::{
    Ask, Clients, Holding, Migrate, Move, MoveState, Reclaim, Shrink, Shrunk,
};
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::error::Error;

/// A cache: frames that can be filled again, the oldest in front.
#[derive(Default)]
struct FileCacheClient(RefCell<VecDeque<Frame>>);

impl Shrink<Seat<'_, '_, SingleThread>> for FileCacheClient {
    fn holding(&self) -> Holding {
        Holding {
            frames: self.0.borrow().len() as u64,
            heat: 0,
        }
    }

    fn shrink(&self, frames: &mut Seat<'_, '_, SingleThread>, ask: &Ask) -> Shrunk {
        let mut shrunk = Shrunk::default();
        while shrunk.freed < ask.wanted && shrunk.scanned < ask.scan {
            let Some(oldest) = self.0.borrow_mut().pop_front() else {
                break;
            };
            shrunk.scanned += 1;
            shrunk.freed += u64::from(frames.free(oldest, Order::ZERO).is_ok());
        }
        shrunk
    }
}

/// A client that knows where its pages are, so that they can be moved. Here a page is only its
/// frame.
#[derive(Default)]
struct MovablePages(RefCell<BTreeSet<Frame>>);

impl Migrate for MovablePages {
    fn migrate(&self, moves: &mut [Move]) {
        let mut pages = self.0.borrow_mut();
        for one in moves {
            if pages.remove(&one.from) {
                pages.insert(one.to);
                one.state = MoveState::Moved;
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // 16 MiB: eight pageblocks.
    let layout = ZoneLayout::new(Frame(0), 4096);
    let mut metadata = vec![0; layout.words_needed()?];
    let zone = Zone::new(
        &layout,
        &Config::default(),
        &mut metadata,
        SingleThread::new(),
    )?;
    zone.add(Run::new(Frame(0), 4096).ok_or("a run ends inside the numbers")?)?;
    let mut metadata = vec![0; Reclaim::words_needed(&zone)];
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut metadata)?;
    let mut seat = reclaim.seat(zone.seat(CpuId(0))?);

    let (cache, pages) = (FileCacheClient::default(), MovablePages::default());
    let clients = Clients {
        shrink: &[&cache],
        migrate: &[&pages],
    };
    // All memory goes to the cache and to pages, by turns, until the cache must give frames back.
    for nth in 0..5000 {
        let frame = seat.alloc(Order::ZERO, Mobility::Movable, Context::ANY, &clients)?;
        if nth % 4 == 0 {
            pages.0.borrow_mut().insert(frame);
        } else {
            cache.0.borrow_mut().push_back(frame);
        }
    }
    let stats = reclaim.stats();
    println!("given back by the cache: {}", stats.pgsteal_direct > 0);

    // Two MiB in one piece: no such block is free, so the engine moves the pages that are in the
    // way.
    let huge = Order::new(9).ok_or("9 is an order")?;
    let block = seat.alloc(huge, Mobility::Movable, Context::ANY, &clients)?;
    println!("aligned: {}", block.is_aligned(huge));
    let stats = reclaim.stats();
    println!("pages moved: {}", stats.pgmigrate_success > 0);
    println!("stalls: {}", stats.compact_stall > 0);
    seat.free(block, huge)?;

    // A request that may not wait gets a free block, or an error.
    match seat.alloc(Order::MAX, Mobility::Unmovable, Context::NOWAIT, &clients) {
        Ok(_) => return Err("there is no such block".into()),
        Err(error) => println!("refused: {error}"),
    }
    zone.verify()?;
    Ok(())
}
