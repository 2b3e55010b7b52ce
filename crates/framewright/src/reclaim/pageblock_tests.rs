//! Whole pageblocks under pressure: who has them emptied, and what happens when nobody can.

extern crate std;

use super::*;
use crate::frame::{RangeError, Seat as FrameSeat, Zone, ZoneLayout};
use crate::platform::{Relief, SingleThread};
use crate::policy::{Config, Fallback, ReclaimConfig};
use crate::units::{Context, CpuId, Frame, Mobility, Order, Run};
use Mobility::{Movable, Reclaimable, Unmovable};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

type Frames<'z, 'm> = FrameSeat<'z, 'm, SingleThread>;

/// Requests that cannot move have pageblocks emptied themselves.
fn empties() -> ReclaimConfig {
    ReclaimConfig {
        empties_for_nonmovable: true,
        ..ReclaimConfig::default()
    }
}

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// Users of single movable frames, each with something of its own in it.
#[derive(Default)]
struct Users {
    held: RefCell<BTreeMap<u64, u64>>,
    next: Cell<u64>,
    pinned: Cell<bool>,
    moved: Cell<u64>,
}

impl Users {
    fn add(&self, frame: Frame) {
        self.next.set(self.next.get() + 1);
        let before = self.held.borrow_mut().insert(frame.0, self.next.get());
        assert_eq!(before, None, "handed out twice");
    }

    /// Everything that was put somewhere is somewhere, once (R2).
    fn is_complete(&self, count: u64) {
        let held = self.held.borrow();
        let contents: std::collections::BTreeSet<_> = held.values().collect();
        assert_eq!((held.len() as u64, contents.len() as u64), (count, count));
    }
}

impl Migrate for Users {
    fn migrate(&self, moves: &mut [Move]) {
        for a_move in moves {
            let mut held = self.held.borrow_mut();
            let Some(content) = held.remove(&a_move.from.0) else {
                continue;
            };
            let (at, state) = if self.pinned.get() {
                (a_move.from, MoveState::Pinned)
            } else {
                self.moved.set(self.moved.get() + 1);
                (a_move.to, MoveState::Moved)
            };
            held.insert(at.0, content);
            a_move.state = state;
        }
    }
}

/// 16 pageblocks of 512 frames: min 180, low 225, high 270.
const FRAMES: u64 = 8192;

/// A zone in which of the `id`th pageblock so many frames as `free(id)` are free, one in each so many,
/// and all others are the users'.
struct Machine {
    layout: ZoneLayout,
    memory: Vec<u64>,
    users: Users,
}

impl Machine {
    fn new() -> Self {
        let layout = ZoneLayout::new(Frame(0), FRAMES);
        Self {
            layout,
            memory: vec![0; layout.words_needed().unwrap()],
            users: Users::default(),
        }
    }

    fn zone(&mut self, free: impl Fn(u64) -> u64) -> (Zone<'_, SingleThread>, &Users) {
        let config = Config {
            cache_permille: 0,
            fallback: Fallback::Concentrated,
            cache_blocks_max: 0,
        };
        let zone = Zone::new(&self.layout, &config, &mut self.memory, SingleThread::new());
        let zone = zone.unwrap();
        zone.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
        for frame in 0..FRAMES {
            let (id, slot) = (frame / 512, frame % 512);
            let free = free(id);
            let is_free = (slot + 1) * free / 512 > slot * free / 512;
            if !is_free {
                zone.alloc_at(Frame(frame), Order::ZERO, Movable).unwrap();
                self.users.add(Frame(frame));
            }
        }
        (zone, &self.users)
    }
}

fn memory(zone: &Zone<'_, SingleThread>) -> Vec<u64> {
    vec![!0; Reclaim::words_needed(zone)]
}

fn is_sound(zone: &Zone<'_, SingleThread>, live: u64) {
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, FRAMES - live);
    for id in 0..zone.pageblocks() {
        let run = Run::new(Frame((id << 9) as u64), 512).unwrap();
        let is_open = Err(RangeError::Isolation(run.start()));
        assert_eq!(zone.unisolate(run), is_open, "R1: pageblock {id} is apart");
    }
}

fn live_of(zone: &Zone<'_, SingleThread>) -> u64 {
    zone.drain();
    FRAMES - zone.recount().free
}

#[test]
fn a_request_that_would_contaminate_has_the_cheapest_pageblock_emptied() {
    // One that there is a block for, and one for which there is none.
    for size in [0, 2] {
        has_the_cheapest_emptied(size);
    }
}

fn has_the_cheapest_emptied(size: u8) {
    let mut machine = Machine::new();
    let (zone, users) = machine.zone(|id| if id == 7 { 300 } else { 100 });
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &empties(), &mut memory).unwrap();
    let held = users.held.borrow().len() as u64;
    let clients = Clients {
        shrink: &[],
        migrate: &[users],
    };
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    assert!(zone.would_contaminate(order(0), Unmovable));
    assert!(
        !zone.would_contaminate(order(2), Unmovable),
        "there is none"
    );
    for nth in 0..100 {
        let mobility = [Unmovable, Reclaimable][nth % 2];
        let frame = seat.alloc(order(size), mobility, Context::ANY, &clients);
        assert_eq!(frame.unwrap().0 / 512, 7, "the cheapest, and the same");
    }
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.compact_success), (1, 1));
    assert_eq!(stats.allocstalls(), 0);
    assert_eq!(users.moved.get(), 212);
    assert_eq!(zone.polluting_fallbacks(), 0);
    drop(seat);
    users.is_complete(held);
    is_sound(&zone, held + (100 << size));
}

#[test]
fn what_may_not_wait_or_finds_nobody_who_moves_falls_back_as_before_and_boosts() {
    for (context, pinned) in [(Context::NOWAIT, false), (Context::ANY, true)] {
        let mut machine = Machine::new();
        let (zone, users) = machine.zone(|_| 100);
        let mut memory = memory(&zone);
        let reclaim = Reclaim::new(&zone, &empties(), &mut memory).unwrap();
        users.pinned.set(pinned);
        let held = users.held.borrow().len() as u64;
        let clients = Clients {
            shrink: &[],
            migrate: &[users],
        };
        let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
        let before = reclaim.targets();
        for _ in 0..150 {
            seat.alloc(order(0), Unmovable, context, &clients).unwrap();
        }
        let polluted = zone.polluting_fallbacks();
        assert!((2..=150).contains(&polluted), "{polluted}");
        let after = reclaim.targets();
        assert!(after.pageblocks.high > before.pageblocks.high);
        assert!(after.frames.high > before.frames.high);
        assert_eq!(after.frames.min, before.frames.min);
        let stats = reclaim.stats();
        assert_eq!(stats.compact_success, 0);
        assert!(stats.compact_stall <= 8, "it is deferred: {stats:?}");
        assert_eq!(stats.compact_stall, stats.compact_fail);
        assert_eq!(stats.compact_stall > 0, pinned);
        assert!(reclaim.is_wanted(), "the background was woken for blocks");
        drop(seat);
        users.is_complete(held);
        is_sound(&zone, held + 150);
    }
}

#[test]
fn by_itself_a_request_that_would_contaminate_asks_the_background_and_does_not_stall() {
    let mut machine = Machine::new();
    let (zone, users) = machine.zone(|_| 100);
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
    let clients = Clients {
        shrink: &[],
        migrate: &[users],
    };
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    assert!(zone.would_contaminate(order(0), Unmovable) && !reclaim.is_wanted());
    seat.alloc(order(0), Unmovable, Context::ANY, &clients)
        .unwrap();
    assert!(reclaim.is_wanted(), "woken for a pageblock");
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.allocstalls()), (0, 0));
    assert_eq!(users.moved.get(), 0);
}

#[test]
fn the_background_keeps_whole_pageblocks_free_so_that_nobody_has_to_wait_for_one() {
    let mut machine = Machine::new();
    let (zone, users) = machine.zone(|id| 100 + 4 * id);
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
    let held = users.held.borrow().len() as u64;
    let clients = Clients {
        shrink: &[],
        migrate: &[users],
    };
    let targets = reclaim.targets().pageblocks;
    assert_eq!((targets.low, targets.high), (1, 2));
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    seat.alloc(order(0), Movable, Context::ANY, &clients)
        .unwrap();
    assert!(reclaim.is_wanted(), "no pageblock is whole");
    let mut steps = 0;
    while reclaim.background(seat.frames(), &clients, 100) == Background::Works {
        steps += 1;
    }
    assert_eq!(zone.standing().free_pageblocks, 2);
    assert!((1..=4).contains(&steps), "one pageblock a step: {steps}");
    let stats = reclaim.stats();
    assert_eq!(stats.compact_daemon_wake, 1);
    assert_eq!(stats.compact_stall, 0, "nobody waited");
    assert!(stats.pgmigrate_success > 500);
    // What cannot move finds room, and when it takes the last one the background is woken again.
    for _ in 0..600 {
        seat.alloc(order(0), Unmovable, Context::ANY, &clients)
            .unwrap();
    }
    assert_eq!(zone.polluting_fallbacks(), 0);
    assert_eq!(reclaim.stats().compact_stall, 0);
    assert!(reclaim.is_wanted());
    drop(seat);
    users.is_complete(held);
    is_sound(&zone, held + 601);
}

#[test]
fn a_boost_ends_when_its_targets_were_reached() {
    let mut machine = Machine::new();
    let (zone, users) = machine.zone(|_| 150);
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
    let clients = Clients {
        shrink: &[],
        migrate: &[users],
    };
    let plain = reclaim.targets();
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    seat.alloc(order(0), Unmovable, Context::NOWAIT, &clients)
        .unwrap();
    reclaim.watch();
    let boosted = reclaim.targets();
    assert_eq!(boosted.pageblocks.high, plain.pageblocks.high + 1);
    while reclaim.background(seat.frames(), &clients, 1000) == Background::Works {}
    assert_eq!(zone.standing().free_pageblocks, boosted.pageblocks.high);
    assert_eq!(reclaim.targets(), plain);
}

/// Somebody who would have to give frames up in vain.
struct Never;

impl<F> Shrink<F> for Never {
    fn holding(&self) -> Holding {
        Holding {
            frames: 1000,
            heat: 0,
        }
    }

    fn shrink(&self, _: &mut F, _: &Ask) -> Shrunk {
        panic!("enough is free")
    }
}

#[test]
fn what_cannot_move_gets_room_from_what_can_while_lent_frames_are_free() {
    // Half of memory is lent and free; the other half is full. In the one case every pageblock of it
    // has something in it that cannot move.
    for contaminated in [false, true] {
        let mut machine = Machine::new();
        let (zone, users) = machine.zone(|id| if id < 8 { 512 } else { 0 });
        let lent = Run::new(Frame(0), 8 * 512).unwrap();
        zone.set_label(lent, crate::policy::Label::Contiguous)
            .unwrap();
        let mut frames = zone.seat(CpuId(0)).unwrap();
        if contaminated {
            for id in 8..16 {
                let frame = Frame(id * 512 + 77);
                users.held.borrow_mut().remove(&frame.0).unwrap();
                frames.free(frame, order(0)).unwrap();
                zone.alloc_at(frame, order(0), Unmovable).unwrap();
            }
        }
        let mut memory = memory(&zone);
        let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
        let held = users.held.borrow().len() as u64;
        let clients = Clients {
            shrink: &[&Never],
            migrate: &[users],
        };
        let mut seat = reclaim.seat(frames);
        for _ in 0..10 {
            seat.alloc(order(0), Unmovable, Context::ANY, &clients)
                .unwrap();
        }
        let stats = reclaim.stats();
        assert!((1..=10).contains(&stats.compact_success), "{stats:?}");
        assert_eq!(zone.polluting_fallbacks(), 0);
        // Before anybody has to wait again, the background sees to it.
        assert!(reclaim.is_wanted());
        while reclaim.background(seat.frames(), &clients, 500) == Background::Works {}
        let ordinary = zone.free_frames_for(Unmovable);
        assert!(ordinary >= zone.watermarks().high, "{ordinary}");
        for _ in 0..50 {
            seat.alloc(order(0), Reclaimable, Context::ANY, &clients)
                .unwrap();
        }
        assert_eq!(reclaim.stats().compact_stall, stats.compact_stall);
        // What moves goes where nothing else can go.
        let moves = seat.alloc(order(0), Movable, Context::ANY, &clients);
        assert!(moves.unwrap() < lent.end());
        drop(seat);
        users.is_complete(held);
        is_sound(&zone, held + if contaminated { 69 } else { 61 });
    }
}

#[test]
fn a_block_that_only_lies_in_pieces_is_compacted_and_nobody_gives_anything_up() {
    let mut machine = Machine::new();
    let (zone, users) = machine.zone(|_| 100);
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
    let held = users.held.borrow().len() as u64;
    let clients = Clients {
        shrink: &[&Never],
        migrate: &[users],
    };
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    for size in [3, 4, 9] {
        let found = seat.alloc(order(size), Movable, Context::ANY, &clients);
        assert!(found.unwrap().is_aligned(order(size)));
    }
    let stats = reclaim.stats();
    assert!(stats.compact_success >= 2, "{stats:?}");
    assert_eq!(stats.allocstalls(), 0);
    drop(seat);
    users.is_complete(held);
    is_sound(&zone, held + 8 + 16 + 512);
}

#[test]
fn relief_compacts_for_objects_and_leaves_a_free_block() {
    let mut machine = Machine::new();
    let (zone, users) = machine.zone(|_| 100);
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
    let movers: [&dyn Migrate; 1] = [users];
    let clients: Clients<'_, Frames<'_, '_>> = Clients {
        shrink: &[],
        migrate: &movers,
    };
    let relief = reclaim.relief(clients);
    let mut frames = zone.seat(CpuId(0)).unwrap();
    assert!(!relief.compact(&mut frames, order(3), Context::NOWAIT));
    assert!(!relief.compact(&mut frames, order(20), Context::ANY));
    assert!(relief.compact(&mut frames, order(3), Context::ANY));
    assert!(frames.try_alloc(order(3), Unmovable).is_some());
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.compact_success), (1, 1));
    drop(frames);
    let live = live_of(&zone);
    is_sound(&zone, live);
}

/// A zone whose first pageblock is full, and settled: 100 of its frames cannot move; the others have 40
/// free ones each.
fn settled<'a>(machine: &'a mut Machine) -> (Zone<'a, SingleThread>, &'a Users) {
    let (zone, users) = machine.zone(|id| if id == 0 { 100 } else { 40 });
    let mut frames = zone.seat(CpuId(0)).unwrap();
    for _ in 0..100 {
        let frame = frames.alloc(order(0), Unmovable).unwrap();
        assert_eq!(frame.0 / 512, 0, "the emptiest pageblock");
    }
    drop(frames);
    assert!(zone.would_contaminate(order(0), Unmovable));
    (zone, users)
}

fn contaminated(zone: &Zone<'_, SingleThread>) -> usize {
    let has_some = |&id: &usize| zone.pageblock(id).nonmovable() > 0;
    (0..zone.pageblocks()).filter(has_some).count()
}

#[test]
fn what_moves_leaves_a_settled_pageblock_before_another_one_is_contaminated() {
    let mut machine = Machine::new();
    let (zone, users) = settled(&mut machine);
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
    let held = users.held.borrow().len() as u64;
    let clients = Clients {
        shrink: &[],
        migrate: &[users],
    };
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    for _ in 0..300 {
        seat.alloc(order(0), Unmovable, Context::ANY, &clients)
            .unwrap();
    }
    assert_eq!(contaminated(&zone), 1);
    assert_eq!(zone.pageblock(0).nonmovable(), 400);
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.compact_success), (1, 1));
    assert_eq!((users.moved.get(), stats.pgmigrate_success), (412, 412));
    drop(seat);
    users.is_complete(held);
    is_sound(&zone, held + 400);
}

#[test]
fn the_background_keeps_room_where_what_cannot_move_has_settled() {
    let mut machine = Machine::new();
    let (zone, users) = settled(&mut machine);
    let mut memory = memory(&zone);
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut memory).unwrap();
    let held = users.held.borrow().len() as u64;
    let clients = Clients {
        shrink: &[],
        migrate: &[users],
    };
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    // Who must not wait contaminates a pageblock, and the background is woken.
    seat.alloc(order(0), Unmovable, Context::NOWAIT, &clients)
        .unwrap();
    assert_eq!((contaminated(&zone), users.moved.get()), (2, 0));
    assert!(reclaim.is_wanted());
    let mut steps = 0;
    while reclaim.background(seat.frames(), &clients, 100) == Background::Works {
        steps += 1;
        assert!(steps < 100, "R3");
    }
    assert_eq!(zone.pageblock(0).movable(), 0);
    assert_eq!(zone.pageblock(0).free, 412);
    assert_eq!(reclaim.stats().compact_stall, 0, "nobody waited");
    drop(seat);
    users.is_complete(held);
    is_sound(&zone, held + 101);
}

#[test]
fn where_nothing_leaves_a_settled_pageblock_requests_go_on_and_the_background_ends() {
    for percent in [0, 100] {
        let mut machine = Machine::new();
        let (zone, users) = settled(&mut machine);
        users.pinned.set(true);
        let mut memory = memory(&zone);
        let config = ReclaimConfig {
            stock_percent: percent,
            ..ReclaimConfig::default()
        };
        let reclaim = Reclaim::new(&zone, &config, &mut memory).unwrap();
        let held = users.held.borrow().len() as u64;
        let clients = Clients {
            shrink: &[],
            migrate: &[users],
        };
        let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
        for nth in 0..50 {
            seat.alloc(order(0), Unmovable, Context::ANY, &clients)
                .unwrap();
            let mut steps = 0;
            while reclaim.background(seat.frames(), &clients, 100) == Background::Works {
                steps += 1;
                assert!(steps < 100, "R3, request {nth}");
            }
        }
        let stats = reclaim.stats();
        assert_eq!(stats.pgmigrate_success, 0);
        assert_eq!(stats.compact_stall, stats.compact_fail);
        assert_eq!(stats.pgmigrate_fail > 0, percent > 0);
        assert_eq!(contaminated(&zone), 3, "two more, of 40 free frames each");
        drop(seat);
        users.is_complete(held);
        is_sound(&zone, held + 150);
    }
}
