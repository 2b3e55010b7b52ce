//! A zone with an area in it, clients that know what lies where, and the invariants by name.

extern crate std;

mod both_kinds;
mod in_the_way;
mod random;
mod requests;
mod reserved;
mod threads;
mod unwound;

use super::*;
use crate::frame::{Seat, Zone, ZoneLayout};
use crate::platform::{FramePlatform, SingleThread};
use crate::policy::{Config, ReclaimConfig};
use crate::random::Random;
use crate::reclaim::{Ask, Clients, Discard, Migrate, Move, MoveState, Shrink, Shrunk};
use crate::reserve::Contiguous;
use crate::units::{CpuId, Mobility, Order};
use Mobility::{Movable, Unmovable};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

/// Pageblocks of 64 frames: 16 of them, of which the area has the upper 8.
const FRAMES: u64 = 64 * 16;
/// The area's first frame.
const FIRST: u64 = 64 * 8;
const AREA: u64 = FRAMES - FIRST;

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

/// One try, one pass: a block that is busy once makes a place fail.
fn once(config: ContigConfig) -> ContigConfig {
    ContigConfig {
        tries: 1,
        passes: 1,
        ..config
    }
}

/// Makes a zone with an area of that configuration, where `$zone`, `$area` and `$seat` exist.
macro_rules! machine {
    ($zone:ident, $area:ident, $seat:ident, $config:expr) => {
        let layout = ZoneLayout::new(Frame(0), FRAMES)
            .with_orders(order(6), order(8))
            .with_cpus(2);
        let mut memory = vec![!0; layout.words_needed().unwrap()];
        let $zone = Zone::new(&layout, &uncached(), &mut memory, SingleThread::new()).unwrap();
        $zone.add(run(0, FRAMES)).unwrap();
        let mut words = vec![!0; Reclaim::words_needed(&$zone)];
        let reclaim = Reclaim::new(&$zone, &ReclaimConfig::default(), &mut words).unwrap();
        let run = run(FIRST, AREA);
        let mut words = vec![!0; MigrateArea::<SingleThread>::words_needed(run)];
        let $area = MigrateArea::new(&reclaim, run, &$config, &mut words).unwrap();
        #[allow(unused_mut)]
        let mut $seat = $zone.seat(CpuId(0)).unwrap();
    };
}
use machine;

type TheArea<'a> = MigrateArea<'a, 'a, 'a, SingleThread>;

/// What a client says of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AreaMood {
    Moves,
    Pinned,
    /// Moves when asked for that many times more.
    BusyFor(u32),
    /// Can be dropped.
    Clean,
}

/// A client that holds movable blocks and knows what lies in which.
#[derive(Default)]
struct AreaHolder {
    blocks: RefCell<BTreeMap<Frame, (Order, u64, AreaMood)>>,
    /// Contents that were dropped.
    dropped: RefCell<Vec<u64>>,
    calls: Cell<u64>,
    offered: Cell<u64>,
    /// The call, from 1 on, at which everything is busy.
    fails_at: Cell<u64>,
}

impl AreaHolder {
    fn put(&self, frame: Frame, order: Order, contents: u64, mood: AreaMood) {
        let mut blocks = self.blocks.borrow_mut();
        let before = blocks.insert(frame, (order, contents, mood));
        assert_eq!(before, None, "two blocks at {frame}");
    }

    /// Takes single frames of a zone, with their own number as contents.
    fn hold<P: FramePlatform>(
        &self,
        zone: &Zone<'_, P>,
        frames: impl Iterator<Item = u64>,
        mood: AreaMood,
    ) {
        for frame in frames {
            zone.alloc_at(Frame(frame), Order::ZERO, Movable).unwrap();
            self.put(Frame(frame), Order::ZERO, frame, mood);
        }
    }

    fn contents(&self) -> Vec<u64> {
        let mut contents: Vec<_> = self.blocks.borrow().values().map(|&(_, c, _)| c).collect();
        contents.sort_unstable();
        contents
    }

    fn frames(&self) -> u64 {
        let blocks = self.blocks.borrow();
        blocks.values().map(|(order, ..)| order.frames()).sum()
    }

    fn set_mood(&self, frame: u64, mood: AreaMood) {
        self.blocks.borrow_mut().get_mut(&Frame(frame)).unwrap().2 = mood;
    }
}

impl Migrate for AreaHolder {
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
                AreaMood::Pinned => MoveState::Pinned,
                AreaMood::BusyFor(more) if *more > 0 => {
                    *more -= 1;
                    MoveState::Busy
                }
                _ => MoveState::Moved,
            };
            if of.state == MoveState::Moved {
                let block = blocks.remove(&of.from).unwrap();
                let before = blocks.insert(of.to, block);
                assert_eq!(before, None, "{} was in use", of.to);
            }
        }
    }

    fn discard(&self, asked: &mut [Discard]) {
        let mut blocks = self.blocks.borrow_mut();
        for ask in asked {
            assert!(!ask.is_dropped);
            if blocks
                .get(&ask.frame)
                .is_some_and(|of| of.2 == AreaMood::Clean && of.0 == ask.order)
            {
                let (_, contents, _) = blocks.remove(&ask.frame).unwrap();
                self.dropped.borrow_mut().push(contents);
                ask.is_dropped = true;
            }
        }
    }
}

/// Clients that give no frames back; `migrate` can move.
fn movers<'c, F: ?Sized>(migrate: &'c [&'c dyn Migrate]) -> Clients<'c, F> {
    Clients {
        shrink: &[],
        migrate,
    }
}

/// What a request must leave as it was when it fails.
#[derive(PartialEq, Eq, Debug)]
struct LeftAsItWas {
    free_frames: u64,
    allocated: Vec<u64>,
    labels: [u64; Label::COUNT],
    claimed: u64,
    contents: Vec<u64>,
    dropped: usize,
}

fn state(area: &TheArea<'_>, holder: &AreaHolder) -> LeftAsItWas {
    let zone = area.reclaim().zone();
    LeftAsItWas {
        free_frames: zone.stats().nr_free_pages,
        allocated: zone.recount().allocated.to_vec(),
        labels: zone.pageblocks_by_label(),
        claimed: area.claimed_frames(),
        contents: holder.contents(),
        dropped: holder.dropped.borrow().len(),
    }
}

/// Asserts all invariants, and that `holder` knows all that is not free.
fn assert_sound(area: &TheArea<'_>, holder: &AreaHolder) {
    let zone = area.reclaim().zone();
    area.verify().unwrap();
    zone.verify().unwrap();
    for id in 0..zone.pageblocks() {
        assert!(zone.pins_if_open(id).is_some(), "M3: {id} is apart");
    }
    let allocated = zone.recount().allocated;
    assert_eq!(allocated[Movable.index()], holder.frames());
    assert_eq!(zone.stats().bad_frees, 0);
}
