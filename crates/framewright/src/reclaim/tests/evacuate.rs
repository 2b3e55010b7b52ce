//! Pageblocks that are emptied for good, and clients that pin, exchange or take frames meanwhile.

use super::*;
use crate::reclaim::Obstacle;
use crate::stats::ContigStats;
use crate::units::RunError;

#[test]
fn r1_evacuated_pageblocks_are_free_and_isolated_and_nothing_else_is() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    for frame in (0..64 * 8).step_by(4) {
        holder.hold(&zone, (frame, 0), Mood::Moves);
    }
    holder.hold(&zone, (64 + 18, 1), Mood::Moves);
    let contents = holder.contents();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let run = run(64, 192);
    let done = reclaim.evacuate(&mut seat, run, &[&holder]).unwrap();
    assert_eq!(done, 48 + 2);
    assert_eq!(holder.contents(), contents);
    for id in 0..8 {
        assert_eq!(zone.pins_if_open(id).is_none(), (1..4).contains(&id));
    }
    assert!((1..4).all(|id| zone.pageblock(id).free == 64));
    zone.verify().unwrap();
    assert_eq!(zone.unisolate(run), Ok(0));
    assert_nothing_is_left(&zone, holder.frames());
    zone.alloc_run_at(run, Unmovable).unwrap();
}

#[test]
fn evacuation_says_what_is_in_the_way_and_isolates_nothing_then() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    for frame in (0..64 * 8).step_by(4) {
        holder.hold(&zone, (frame, 0), Mood::Moves);
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut evacuate = || reclaim.evacuate(&mut seat, run(64, 128), &[&holder]);
    let in_the_way = |frame, why: Obstacle| {
        let frame = Frame(frame);
        Err(why.at(frame))
    };
    let set = |mood| holder.blocks.borrow_mut().get_mut(&Frame(132)).unwrap().2 = mood;
    zone.pin(Frame(130)).unwrap();
    assert_eq!(evacuate(), in_the_way(128, Obstacle::Pinned));
    zone.unpin(Frame(130)).unwrap();
    for (mood, why) in [
        (Mood::Pinned, Obstacle::Pinned),
        (Mood::Busy, Obstacle::Busy),
    ] {
        set(mood);
        assert_eq!(evacuate(), in_the_way(132, why));
        assert_nothing_is_left(&zone, holder.frames());
    }
    set(Mood::Moves);
    zone.alloc_at(Frame(133), order(0), Reclaimable).unwrap();
    let moved = holder.moved.get();
    assert_eq!(evacuate(), in_the_way(133, Obstacle::Unmovable));
    assert_eq!(holder.moved.get(), moved, "it was seen before");
    assert_nothing_is_left(&zone, holder.frames() + 1);
}

#[test]
fn evacuation_without_room_or_of_a_wrong_run_is_refused() {
    machine!(zone, reclaim, &uncached(), 4);
    let holder = Holder::default();
    for frame in 0..64 * 2 {
        holder.hold(&zone, (frame, 0), Mood::Moves);
    }
    zone.alloc_run_at(run(128, 120), Unmovable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut evacuate = |run| reclaim.evacuate(&mut seat, run, &[&holder]);
    let whole = evacuate(run(0, 64)).unwrap_err();
    assert!(matches!(whole, RunError::NoMemory(_)), "{whole:?}");
    assert_nothing_is_left(&zone, 120 + holder.frames());
    let wrong = [
        (run(0, 63), RunError::NotWholePageblocks),
        (run(64, 4096), RunError::Outside),
    ];
    for (run, why) in wrong {
        assert_eq!(evacuate(run), Err(why));
    }
    zone.isolate(run(64, 64)).unwrap();
    let isolated = Err(RunError::Isolation(Frame(64)));
    assert_eq!(evacuate(run(0, 128)), isolated);
    assert!(zone.pins_if_open(0).is_some());
    zone.unisolate(run(64, 64)).unwrap();
    assert_nothing_is_left(&zone, 120 + holder.frames());
}

#[test]
fn holes_and_blocks_that_reach_into_a_run_are_no_obstacle() {
    let layout = ZoneLayout::new(Frame(0), 64 * 16)
        .with_orders(order(6), order(8))
        .with_cpus(1);
    let mut memory = vec![!0; layout.words_needed().unwrap()];
    let zone = Zone::new(&layout, &uncached(), &mut memory, SingleThread::new()).unwrap();
    zone.add(run(0, 64 * 9 + 7)).unwrap();
    zone.add(run(64 * 12, 256)).unwrap();
    let mut words = vec![!0; Reclaim::words_needed(&zone)];
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
    let holder = Holder::default();
    holder.hold(&zone, (256, 8), Mood::Moves);
    holder.hold(&zone, (64 * 9 + 1, 0), Mood::Moves);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // From the middle of a block of four pageblocks to behind a hole.
    let run = run(64 * 6, 64 * 4);
    let done = reclaim.evacuate(&mut seat, run, &[&holder]).unwrap();
    assert_eq!(done, 256 + 1);
    zone.unisolate(run).unwrap();
    assert_nothing_is_left(&zone, holder.frames());
}

/// Tries to pin the first pageblock that is to be emptied.
struct PinningClient<'a, 'm>(&'a Zone<'m, SingleThread>, &'a Holder);

impl Migrate for PinningClient<'_, '_> {
    fn migrate(&self, moves: &mut [Move]) {
        let refused = RunError::Apart(moves[0].from);
        assert_eq!(self.0.pin(moves[0].from), Err(refused));
        self.1.migrate(moves);
    }
}

#[test]
fn r6_a_block_does_not_move_out_of_a_pageblock_beside_the_run_that_is_pinned() {
    machine!(zone, reclaim, &uncached(), 16);
    let holder = Holder::default();
    holder.hold(&zone, (256, 8), Mood::Moves);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let pinner = PinningClient(&zone, &holder);
    let mut evacuate = || reclaim.evacuate(&mut seat, run(64 * 6, 64), &[&pinner]);
    zone.pin(Frame(64 * 7)).unwrap();
    let stays = evacuate().unwrap_err();
    assert!(matches!(stays, RunError::Pinned(_)), "{stays:?}");
    assert_nothing_is_left(&zone, 256);
    zone.unpin(Frame(64 * 7)).unwrap();
    assert_eq!(evacuate(), Ok(256));
    zone.unisolate(run(64 * 6, 64)).unwrap();
    assert_nothing_is_left(&zone, 256);
}

#[test]
fn errors_say_what_is_wrong_with_the_number() {
    use std::string::ToString;
    let messages = [
        Obstacle::Pinned,
        Obstacle::Busy,
        Obstacle::Unmovable,
        Obstacle::NoRoom,
    ]
    .map(|why| {
        let frame = Frame(0x12);
        why.at(frame).to_string()
    });
    assert_eq!(
        messages,
        [
            "the block at frame 0x12 is pinned",
            "the block at frame 0x12 is in use",
            "the block at frame 0x12 cannot be moved",
            "the block at frame 0x12 finds no free block of its order elsewhere",
        ]
    );
    let range = RunError::NotWholePageblocks.to_string();
    assert_eq!(range, RunError::NotWholePageblocks.to_string());
}

/// Gives one block of order 1 back when asked, and takes two that are free.
struct Swaps {
    gives: Cell<Option<Frame>>,
    took: Cell<[Frame; 2]>,
}

impl<'z, 'm> Shrink<Seat<'z, 'm, SingleThread>> for Swaps {
    fn holding(&self) -> u64 {
        self.gives.get().map_or(0, |_| u64::MAX)
    }

    fn shrink(&self, frames: &mut Seat<'z, 'm, SingleThread>, _: &Ask) -> Shrunk {
        let took = [(); 2].map(|()| frames.alloc(order(1), Movable).unwrap());
        self.took.set(took);
        frames.free(self.gives.take().unwrap(), order(1)).unwrap();
        Shrunk {
            scanned: 2,
            freed: 2,
        }
    }
}

#[test]
fn r2_targets_that_were_given_back_are_another_owners_at_the_next_try() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    // Three blocks that are to move.
    for frame in [0, 4, 8] {
        holder.hold(&zone, (frame, 1), Mood::Moves);
    }
    // Elsewhere every other frame is free, and two blocks of their order are.
    let (targets, given) = ([448, 452], 456);
    for frame in (64..64 * 8).step_by(2) {
        if !targets.contains(&frame) && frame != given {
            zone.alloc_at(Frame(frame), order(0), Unmovable).unwrap();
        }
    }
    zone.alloc_at(Frame(given), order(1), Movable).unwrap();
    let held = 7 * 32 - 3 + 2 + 6;
    let client = Swaps {
        gives: Cell::new(Some(Frame(given))),
        took: Cell::new([Frame(0); 2]),
    };
    let clients = Clients {
        shrink: &[&client],
        migrate: &[&holder],
    };
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut effort = ContigStats::default();
    let config = crate::policy::ContigConfig::default();
    let got = reclaim.take_run(&mut seat, run(0, 64), &clients, &config, &mut effort);
    let no_room = Obstacle::NoRoom.at(Frame(4));
    assert_eq!(got, Err(no_room));
    assert_eq!(client.took.get().map(|frame| frame.0), targets);
    assert_nothing_is_left(&zone, held + 2);
    for frame in client.took.get() {
        assert_eq!(seat.free(frame, order(1)), Ok(()), "R2: it is the client's");
    }
    holder.free_all(&mut seat);
    assert_all_is_there(&zone, 7 * 32 - 3);
}
