//! A zone under pressure: a cache gives frames back, movable contents make room for a large block.
//!
//! `cargo run -p framewright-examples --bin pressure`

use framewright::engine::{Engine, EngineLayout};
use framewright::frame::FrameSource;
use framewright::platform::SingleThread;
use framewright::reclaim::{Ask, Clients, Migrate, Move, MoveState, Shrink, Shrunk};
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::error::Error;

/// A cache: frames that can be filled again, the oldest in front.
#[derive(Default)]
struct FileCacheClient(RefCell<VecDeque<Frame>>);

impl<F: FrameSource> Shrink<F> for FileCacheClient {
    fn holding(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        let mut shrunk = Shrunk::default();
        while shrunk.freed < ask.wanted && shrunk.scanned < ask.scan {
            let Some(oldest) = self.0.borrow_mut().pop_front() else {
                break;
            };
            shrunk.scanned += 1;
            shrunk.freed += u64::from(frames.free_block(oldest, Order::ZERO).is_ok());
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
    let (cache, pages) = (FileCacheClient::default(), MovablePages::default());
    let shrink: [&dyn Shrink<_>; 1] = [&cache];
    let migrate: [&dyn Migrate; 1] = [&pages];
    let (shrink, migrate) = (&shrink[..], &migrate[..]);

    // 16 MiB: eight pageblocks.
    let layout = EngineLayout::new(Frame(0), 4096);
    let mut metadata = vec![0; layout.words_needed()?];
    let engine = Engine::new(&layout, &mut metadata, SingleThread::new())?;
    engine.add(Run::new(Frame(0), 4096).ok_or("a run ends inside the numbers")?)?;
    let cpu = engine.cpu(CpuId(0))?;
    let mut cpu = cpu.with_clients([Clients { shrink, migrate }]);

    // All memory goes to the cache and to pages, by turns, until the cache must give frames back.
    for nth in 0..5000 {
        let frame = cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY)?;
        if nth % 4 == 0 {
            pages.0.borrow_mut().insert(frame);
        } else {
            cache.0.borrow_mut().push_back(frame);
        }
    }
    let stats = engine.reclaim(0).stats();
    println!("given back by the cache: {}", stats.pgsteal_direct > 0);

    // Two MiB in one piece: no such block is free, so the engine moves the pages that are in the
    // way.
    let huge = Order::new(9).ok_or("9 is an order")?;
    let block = cpu.alloc(huge, Mobility::Movable, Context::ANY)?;
    println!("aligned: {}", block.is_aligned(huge));
    let stats = engine.reclaim(0).stats();
    println!("pages moved: {}", stats.pgmigrate_success > 0);
    println!("stalls: {}", stats.compact_stall > 0);
    cpu.free(block, huge)?;

    // A request that may not wait gets a free block, or an error.
    match cpu.alloc(Order::MAX, Mobility::Unmovable, Context::NOWAIT) {
        Ok(_) => return Err("there is no such block".into()),
        Err(error) => println!("refused: {error}"),
    }
    engine.verify()?;
    Ok(())
}
