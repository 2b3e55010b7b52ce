//! Clients of reclaim whose calls unwind: each block is in one place afterwards, and none is lost (R2).

use framewright::engine::{Engine, EngineLayout};
use framewright::platform::SingleThread;
use framewright::policy::ContigConfig;
use framewright::reclaim::{Clients, Discard, Migrate, Move, MoveState};
use framewright::stats::ContigStats;
use framewright::{CpuId, Frame, Mobility, Order, Run};
use std::panic::{AssertUnwindSafe, catch_unwind};

const FRAMES: u64 = 4096;

/// A client that moves, or drops, this many blocks and then unwinds.
struct GivesUp {
    after: usize,
    drops: bool,
}

impl Migrate for GivesUp {
    fn migrate(&self, moves: &mut [Move]) {
        for of in &mut moves[..self.after] {
            of.state = MoveState::Moved;
        }
        panic!("a client unwinds");
    }

    fn discard(&self, blocks: &mut [Discard]) {
        if self.drops {
            for of in &mut blocks[..self.after] {
                of.is_dropped = true;
            }
            panic!("a client unwinds");
        }
    }
}

#[test]
fn r2_each_move_leaves_one_block_if_a_client_unwinds() {
    const HELD: u64 = 40;
    for (evacuates, drops) in [(true, false), (false, false), (false, true)] {
        for after in [0, 7, HELD as usize] {
            let layout = EngineLayout::new(Frame(0), FRAMES);
            let mut memory = vec![0; layout.words_needed().unwrap()];
            let engine: Engine<SingleThread, ()> =
                Engine::new(&layout, &mut memory, SingleThread::new()).unwrap();
            engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
            let held = Run::new(Frame(1024), HELD).unwrap();
            let zone = &engine.zones()[0];
            for frame in 1024..1024 + HELD {
                zone.alloc_at(Frame(frame), Order::ZERO, Mobility::Movable)
                    .unwrap();
            }
            let mut cpu = engine.cpu(CpuId(0)).unwrap();
            let client = GivesUp { after, drops };
            let movers: [&dyn Migrate; 1] = [&client];
            let reclaim = engine.reclaim(0);
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let seat = cpu.frames().seat(0);
                if evacuates {
                    let run = Run::new(Frame(1024), 512).unwrap();
                    return reclaim.evacuate(seat, run, &movers).is_ok();
                }
                let clients = Clients {
                    shrink: &[],
                    migrate: &movers,
                };
                let (config, effort) = (ContigConfig::default(), &mut ContigStats::default());
                reclaim
                    .take_run(seat, held, &clients, &config, effort)
                    .is_ok()
            }));
            assert!(unwound.is_err());
            zone.drain();
            // What was dropped is gone; what was moved is elsewhere, and the rest where it was.
            let gone = if drops { after as u64 } else { 0 };
            assert_eq!(
                zone.stats().nr_free_pages,
                FRAMES - HELD + gone,
                "{evacuates} {drops} {after}"
            );
            assert!((0..zone.pageblocks()).all(|nth| !zone.is_isolated(nth)));
            for frame in 1024 + after as u64..1024 + HELD {
                cpu.free(Frame(frame), Order::ZERO).unwrap();
            }
            engine.verify().unwrap();
        }
    }
}
