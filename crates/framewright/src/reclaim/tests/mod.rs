//! Memory with clients that know what lies where, and the invariants by name.

extern crate std;

mod background;
mod compact;
mod compact_clients;
mod evacuate;
mod lies;
mod pageblocks;
mod pressure;
mod settled;
mod threads;
mod unwound;
mod users;

use super::*;
use crate::frame::{Seat, Zone, ZoneLayout};
use crate::platform::SingleThread;
use crate::policy::{Config, Fallback, Label, ReclaimConfig};
use crate::random::Random;
use crate::units::{Context, CpuId, Frame, Mobility, Order, Run};
use Mobility::{Movable, Reclaimable, Unmovable};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

/// Caches off: all free frames are in the pageblocks, and the tests can say where.
fn uncached() -> Config {
    Config {
        cache_permille: 0,
        ..Config::default()
    }
}

/// Makes a zone `$zone` whose frames all exist, and its `$reclaim`: of that many pageblocks of 64
/// frames, or of another layout. `$prepare` runs on the zone before the reclaim is made.
macro_rules! machine {
    ($zone:ident, $reclaim:ident, $config:expr, $blocks:expr) => {
        let layout = ZoneLayout::new(Frame(0), 64 * $blocks)
            .with_orders(order(6), order(8))
            .with_cpus(2);
        let config = ReclaimConfig::default();
        machine!($zone, $reclaim, $config, layout, &config, |_| ());
    };
    ($zone:ident, $reclaim:ident, $config:expr, $layout:expr, $reclaims:expr, $prepare:expr) => {
        let layout: ZoneLayout = $layout;
        let mut memory = vec![!0; layout.words_needed().unwrap()];
        let $zone = Zone::new(&layout, $config, &mut memory, SingleThread::new()).unwrap();
        $zone.add(run(layout.start.0, layout.frames)).unwrap();
        prepared(&$zone, $prepare);
        let mut words = vec![!0; Reclaim::words_needed(&$zone)];
        let $reclaim = Reclaim::new(&$zone, $reclaims, &mut words).unwrap();
    };
}
use machine;

fn prepared(zone: &Zone<'_, SingleThread>, prepare: impl FnOnce(&Zone<'_, SingleThread>)) {
    prepare(zone);
}

/// What a client says of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Moves,
    Pinned,
    /// Moves when asked for the second time.
    BusyOnce,
    Busy,
}

/// A client that holds movable blocks and knows what lies in which.
#[derive(Default)]
struct Holder {
    /// By first frame: its order, its contents, and what is said of it.
    blocks: RefCell<BTreeMap<Frame, (Order, u64, Mood)>>,
    calls: Cell<u64>,
    offered: Cell<u64>,
    moved: Cell<u64>,
    /// The call, from 1 on, at which everything is busy.
    fails_at: Cell<u64>,
}

impl Holder {
    fn put(&self, frame: Frame, order: Order, mood: Mood) {
        let contents = frame.0 ^ 0x5ca1_ab1e;
        let before = self
            .blocks
            .borrow_mut()
            .insert(frame, (order, contents, mood));
        assert_eq!(before, None, "two blocks at {frame}");
    }

    /// Takes the block at `frame` of a zone.
    fn hold<P: crate::platform::FramePlatform>(
        &self,
        zone: &Zone<'_, P>,
        (frame, size): (u64, u8),
        mood: Mood,
    ) {
        zone.alloc_at(Frame(frame), order(size), Movable).unwrap();
        self.put(Frame(frame), order(size), mood);
    }

    fn contents(&self) -> Vec<u64> {
        let mut contents: Vec<_> = self.blocks.borrow().values().map(|&(_, c, _)| c).collect();
        contents.sort_unstable();
        contents
    }

    fn frames(&self) -> u64 {
        self.blocks
            .borrow()
            .values()
            .map(|(o, ..)| o.frames())
            .sum()
    }

    fn is_at(&self, frame: u64) -> bool {
        self.blocks.borrow().contains_key(&Frame(frame))
    }

    /// Gives everything back.
    fn free_all<P: crate::platform::FramePlatform>(&self, seat: &mut Seat<'_, '_, P>) {
        for (frame, (order, ..)) in self.blocks.take() {
            seat.free(frame, order).unwrap();
        }
    }
}

impl Migrate for Holder {
    fn migrate(&self, moves: &mut [Move]) {
        self.calls.set(self.calls.get() + 1);
        self.offered.set(self.offered.get() + moves.len() as u64);
        let fails = self.calls.get() == self.fails_at.get();
        let mut blocks = self.blocks.borrow_mut();
        for of in moves {
            assert_eq!(of.state, MoveState::Unknown);
            assert_ne!(of.from, of.to);
            let Some((order, _, mood)) = blocks.get_mut(&of.from) else {
                continue;
            };
            assert_eq!(*order, of.order);
            of.state = match mood {
                _ if fails => MoveState::Busy,
                Mood::Pinned => MoveState::Pinned,
                Mood::Busy => MoveState::Busy,
                Mood::BusyOnce => {
                    *mood = Mood::Moves;
                    MoveState::Busy
                }
                Mood::Moves => MoveState::Moved,
            };
            if of.state == MoveState::Moved {
                let block = blocks.remove(&of.from).unwrap();
                let before = blocks.insert(of.to, block);
                assert_eq!(before, None, "R2: {} was in use", of.to);
                self.moved.set(self.moved.get() + 1);
            }
        }
    }
}

/// R1: nothing is apart, and all frames in use are known.
fn assert_nothing_is_left<P: crate::platform::FramePlatform>(zone: &Zone<'_, P>, held: u64) {
    for id in 0..zone.pageblocks() {
        assert!(zone.pins_if_open(id).is_some(), "R1: {id} is apart");
    }
    zone.verify().unwrap();
    let recount = zone.recount();
    assert_eq!(recount.allocated.iter().sum::<u64>(), held, "R1");
    assert_eq!(zone.stats().bad_frees, 0);
}

/// The same, whatever is in CPUs' caches.
fn assert_all_is_there(zone: &Zone<'_, SingleThread>, held: u64) {
    zone.drain();
    assert_nothing_is_left(zone, held);
}

#[test]
fn memory_that_is_too_short_and_broken_limits_are_refused() {
    machine!(zone, reclaim, &uncached(), 4);
    assert_eq!(reclaim.stats(), crate::stats::ReclaimStats::default());
    let needed = Reclaim::words_needed(&zone);
    let mut short = vec![0; needed - 1];
    let words = needed - 1;
    assert_eq!(
        Reclaim::new(&zone, &ReclaimConfig::default(), &mut short).unwrap_err(),
        crate::units::SetupError::Metadata { words, needed }
    );
    let config = ReclaimConfig {
        defer_shift_max: 17,
        ..ReclaimConfig::default()
    };
    let mut words = vec![0; needed];
    assert!(matches!(
        Reclaim::new(&zone, &config, &mut words),
        Err(crate::units::SetupError::Limit {
            what: "defer_shift_max",
            ..
        })
    ));
}
