//! Clients beside a compaction: what they may do, fail to do, and keep from it.

use super::compact::sprinkle;
use super::*;
use crate::reclaim::moving::CompactEffort::{Background, Direct};
use crate::units::RunError;

#[test]
fn r6_what_is_pinned_is_not_touched() {
    machine!(zone, reclaim, &uncached(), 4);
    let holder = Holder::default();
    for id in 0..4 {
        for nth in 0..10 + id {
            let mood = if id == 0 && nth == 7 {
                Mood::Pinned
            } else {
                Mood::Moves
            };
            holder.hold(&zone, (64 * id + 5 * nth, 0), mood);
        }
    }
    zone.pin(Frame(70)).unwrap();
    let in_pinned: Vec<_> = holder
        .blocks
        .borrow()
        .range(Frame(64)..Frame(128))
        .map(|(f, b)| (*f, *b))
        .collect();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // 0 has a pinned frame, 1 is pinned, and the contents of 2 find room.
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&holder]);
    assert_eq!(got, Compaction::Captured(Frame(128)));
    assert!(holder.is_at(35));
    for (frame, block) in in_pinned {
        assert_eq!(holder.blocks.borrow().get(&frame), Some(&block));
    }
    assert_nothing_is_left(&zone, 64 + holder.frames());
    assert!(reclaim.stats().pgmigrate_fail >= 1);
}

/// Tries to pin, and to open, the places that contents are leaving, and empty places.
struct Pinner<'a, 'm> {
    zone: &'a Zone<'m, SingleThread>,
    holder: Holder,
}

impl Migrate for Pinner<'_, '_> {
    fn migrate(&self, moves: &mut [Move]) {
        for of in &*moves {
            let refused = RunError::Apart(of.from);
            assert_eq!(self.zone.pin(of.from), Err(refused));
            assert_eq!(self.zone.pin(of.to), Ok(1));
            assert_eq!(self.zone.unpin(of.to), Ok(0));
        }
        let pageblock = self.zone.pageblock_order().frames();
        let first = moves[0].from.0 / pageblock * pageblock;
        let opened = self.zone.unisolate(run(first, pageblock));
        assert_eq!(opened, Err(RunError::Apart(Frame(first))));
        self.holder.migrate(moves);
    }
}

#[test]
fn r6_no_client_can_pin_a_pageblock_out_of_which_contents_move() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(2);
    let mut memory = vec![!0; layout.words_needed().unwrap()];
    let zone = Zone::new(&layout, &uncached(), &mut memory, SingleThread::new()).unwrap();
    zone.add(run(0, 512 * 4)).unwrap();
    let mut words = vec![!0; Reclaim::words_needed(&zone)];
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
    let pinner = Pinner {
        zone: &zone,
        holder: Holder::default(),
    };
    // Two batches in 0; in the others there is room, and something that cannot move.
    for nth in 0..100 {
        pinner.holder.hold(&zone, (5 * nth, 0), Mood::Moves);
    }
    for id in 1..4 {
        zone.alloc_run_at(run(512 * id, 1), Unmovable).unwrap();
        pinner.holder.hold(&zone, (512 * id + 1, 0), Mood::Moves);
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut compact = || reclaim.compact_with(&mut seat, order(9), Movable, Background, &[&pinner]);
    assert_eq!(zone.pin(Frame(0)), Ok(1));
    assert_eq!(compact(), Compaction::Skipped);
    assert_eq!(zone.unpin(Frame(0)), Ok(0));
    assert_eq!(compact(), Compaction::Captured(Frame(0)));
    assert_eq!(pinner.holder.calls.get(), 2);
    assert_eq!(zone.pin(Frame(0)), Ok(1), "it is open again");
    assert_nothing_is_left(&zone, 512 + 3 + 103);
}

#[test]
fn r2_a_client_whose_nth_call_fails_has_lost_nothing_and_nothing_is_left_apart() {
    for fails_at in 1..6 {
        for mood in [Mood::Moves, Mood::Busy, Mood::BusyOnce, Mood::Pinned] {
            machine!(zone, reclaim, &uncached(), 6);
            let holder = Holder::default();
            for frame in (0..64 * 6).step_by(3) {
                let mood = if frame % 9 == 0 { mood } else { Mood::Moves };
                holder.hold(&zone, (frame, 0), mood);
            }
            holder.fails_at.set(fails_at);
            let contents = holder.contents();
            let mut seat = zone.seat(CpuId(0)).unwrap();
            let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&holder]);
            let captured = match got {
                Compaction::Captured(_) => 64,
                Compaction::Complete => 0,
                _ => panic!("{got:?}"),
            };
            let moves = matches!(mood, Mood::Moves | Mood::BusyOnce);
            assert_eq!(captured > 0, moves, "{fails_at} {mood:?}");
            assert_eq!(holder.contents(), contents);
            assert_nothing_is_left(&zone, holder.frames() + captured);
            let stats = reclaim.stats();
            assert_eq!(
                stats.pgmigrate_success + stats.pgmigrate_fail,
                holder.offered.get()
            );
        }
    }
}

#[test]
fn what_no_client_knows_stays_and_the_second_client_is_asked_for_what_the_first_does_not_know() {
    machine!(zone, reclaim, &uncached(), 5);
    let (first, second) = (Holder::default(), Holder::default());
    for nth in 0..20 {
        let holder = if nth % 2 == 0 { &first } else { &second };
        holder.hold(&zone, (3 * nth, 0), Mood::Moves);
        holder.hold(&zone, (64 + 3 * nth, 0), Mood::Moves);
        // A frame without a client.
        zone.alloc_at(Frame(128 + 3 * nth), order(0), Movable)
            .unwrap();
    }
    zone.alloc_run_at(run(192, 64), Movable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&first, &second]);
    assert!(
        matches!(got, Compaction::Captured(Frame(0 | 64))),
        "{got:?}"
    );
    assert!(first.moved.get() == 10 && second.moved.get() == 10);
    assert_eq!(second.offered.get(), 10, "only what the first did not know");
    let Compaction::Captured(frame) = got else {
        panic!("{got:?}");
    };
    seat.free(frame, order(6)).unwrap();
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[]);
    assert_eq!(got, Compaction::Skipped);
    let empty = Holder::default();
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Background, &[&empty]);
    assert_eq!(got, Compaction::Complete);
    assert_nothing_is_left(&zone, 64 + 20 + 40);
}

/// Frees and allocates while it is asked to move.
struct MeddlingClient<'a, 'm> {
    zone: &'a Zone<'m, SingleThread>,
    seat: RefCell<Seat<'a, 'm, SingleThread>>,
    holder: Holder,
    taken: RefCell<Vec<Frame>>,
}

impl Migrate for MeddlingClient<'_, '_> {
    fn migrate(&self, moves: &mut [Move]) {
        // R5: this stops all CPUs, and waits for ever if a seat is busy.
        self.zone.verify().unwrap();
        let mut seat = self.seat.borrow_mut();
        // Frees the first source, and allocates other frames.
        let (order, ..) = self
            .holder
            .blocks
            .borrow_mut()
            .remove(&moves[0].from)
            .unwrap();
        seat.free(moves[0].from, order).unwrap();
        for (nth, mobility) in Mobility::ALL.iter().enumerate() {
            if let Ok(frame) = seat.alloc(super::order(nth as u8 % 2), *mobility) {
                seat.free(frame, super::order(nth as u8 % 2)).unwrap();
            }
            if let Ok(frame) = seat.alloc(super::order(0), *mobility) {
                self.taken.borrow_mut().push(frame);
            }
        }
        drop(seat);
        self.holder.migrate(moves);
    }
}

#[test]
fn r5_a_client_frees_and_allocates_from_within() {
    for config in [
        uncached(),
        Config {
            cache_permille: 100,
            ..Config::default()
        },
    ] {
        machine!(zone, reclaim, &config, 8);
        let meddler = MeddlingClient {
            zone: &zone,
            seat: RefCell::new(zone.seat(CpuId(1)).unwrap()),
            holder: Holder::default(),
            taken: RefCell::default(),
        };
        sprinkle(&zone, &meddler.holder, 8, 3);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let before = meddler.holder.contents().len();
        let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&meddler]);
        let Compaction::Captured(frame) = got else {
            panic!("{got:?}");
        };
        let calls = meddler.holder.calls.get();
        assert_eq!(
            meddler.holder.contents().len() as u64,
            before as u64 - calls
        );
        let block = frame..Frame(frame.0 + 64);
        assert!(
            meddler
                .taken
                .borrow()
                .iter()
                .all(|taken| !block.contains(taken))
        );
        let taken = meddler.taken.borrow().len() as u64;
        assert_nothing_is_left(&zone, 64 + taken + meddler.holder.frames());
    }
}

/// Moves, and hands back other targets than it was given.
struct Liar(Holder);

impl Migrate for Liar {
    fn migrate(&self, moves: &mut [Move]) {
        self.0.migrate(moves);
        for of in moves {
            of.to = Frame(of.to.0 + 1);
            of.state = MoveState::Busy;
        }
    }
}

/// Moves nothing, and exchanges targets.
struct Turner;

impl Migrate for Turner {
    fn migrate(&self, moves: &mut [Move]) {
        let targets: Vec<_> = moves.iter().map(|of| of.to).collect();
        for (of, &to) in moves.iter_mut().zip(targets.iter().rev()) {
            of.to = to;
            of.state = MoveState::Busy;
        }
    }
}

#[test]
fn r2_targets_may_be_exchanged_and_no_others_are_freed() {
    machine!(zone, reclaim, &uncached(), 8);
    let liar = Liar(Holder::default());
    sprinkle(&zone, &liar.0, 8, 3);
    let held = liar.0.frames();
    liar.0
        .blocks
        .borrow_mut()
        .values_mut()
        .for_each(|block| block.2 = Mood::Busy);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for mover in [&liar as &dyn Migrate, &Turner] {
        let got = reclaim.compact_with(&mut seat, order(6), Movable, Background, &[mover]);
        assert_eq!(got, Compaction::Complete);
        assert_nothing_is_left(&zone, held);
    }
}
