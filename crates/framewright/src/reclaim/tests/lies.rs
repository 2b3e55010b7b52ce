//! Clients that give wrong answers, or answer in another sequence: no other client may lose
//! anything by it.

use super::*;
use crate::reclaim::Obstacle;
use crate::reclaim::moving::CompactEffort::Direct;
use crate::stats::ContigStats;

/// A client that answers right, and hands the answers back the other way round.
struct Turned<'h>(&'h Holder);

impl Migrate for Turned<'_> {
    fn migrate(&self, moves: &mut [Move]) {
        self.0.migrate(moves);
        moves.reverse();
    }

    fn discard(&self, blocks: &mut [Discard]) {
        let mut held = self.0.blocks.borrow_mut();
        for of in &mut *blocks {
            if held
                .get(&of.frame)
                .is_some_and(|(_, _, mood)| *mood == Mood::Moves)
            {
                held.remove(&of.frame);
                of.is_dropped = true;
            }
        }
        blocks.reverse();
    }
}

#[test]
fn r8_the_answer_counts_for_the_source_beside_which_it_stands_in_whatever_sequence() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    for nth in 0..20u64 {
        let mood = if nth == 0 {
            Mood::BusyOnce
        } else {
            Mood::Moves
        };
        let size = u8::from(nth % 4 == 3);
        holder.hold(&zone, ((64 * 7 + 3 * nth) & !u64::from(size), size), mood);
    }
    for id in 0..7 {
        for frame in 0..30 {
            zone.alloc_at(Frame(64 * id + 2 * frame), order(0), Movable)
                .unwrap();
        }
        zone.alloc_at(Frame(64 * id + 61), order(0), Movable)
            .unwrap();
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&Turned(&holder)]);
    assert_eq!(got, Compaction::Captured(Frame(64 * 7)));
    assert!(holder.calls.get() > 1, "something was busy");
    for (frame, (size, ..)) in holder.blocks.take() {
        assert_eq!(
            seat.free(frame, size),
            Ok(()),
            "R2: the block at {frame} is its holder's"
        );
    }
    if let Compaction::Captured(frame) = got {
        seat.free(frame, order(6)).unwrap();
    }
    assert_all_is_there(&zone, 7 * 31);
}

/// A cache that says it holds more than there is.
struct Boaster(u64);

impl<'z, 'm> Shrink<Seat<'z, 'm, SingleThread>> for Boaster {
    fn holding(&self) -> u64 {
        self.0
    }

    fn shrink(&self, _: &mut Seat<'z, 'm, SingleThread>, ask: &Ask) -> Shrunk {
        Shrunk {
            scanned: ask.scan,
            freed: 0,
        }
    }
}

#[test]
fn r8_caches_that_boast_of_more_than_there_is_stop_no_cpu() {
    machine!(zone, reclaim, &uncached(), 2);
    let boasters = [Boaster(u64::MAX), Boaster(u64::MAX), Boaster(1)];
    let clients = Clients {
        shrink: &[&boasters[0], &boasters[1], &boasters[2]],
        migrate: &[],
    };
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    let mut live = vec![];
    for size in [5, 0] {
        while let Ok(frame) = seat.alloc(order(size), Unmovable, Context::ANY, &clients) {
            live.push((frame, order(size)));
        }
    }
    for _ in 0..100 {
        reclaim.background(seat.frames(), &clients, u64::MAX);
    }
    for (frame, order) in live {
        seat.free(frame, order).unwrap();
    }
    assert_all_is_there(&zone, 0);
}

#[test]
fn r8_what_a_client_dropped_is_freed_and_nothing_else_in_whatever_sequence() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    for nth in 0..20u64 {
        let mood = if nth < 3 { Mood::BusyOnce } else { Mood::Moves };
        holder.hold(&zone, (64 * 3 + 3 * nth, 0), mood);
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let clients = Clients {
        shrink: &[],
        migrate: &[&Turned(&holder)],
    };
    let mut effort = ContigStats::default();
    let config = crate::policy::ContigConfig::default();
    let got = reclaim.take_run(&mut seat, run(64 * 3, 64), &clients, &config, &mut effort);
    for (frame, (size, ..)) in holder.blocks.take() {
        assert_eq!(
            seat.free(frame, size),
            Ok(()),
            "R2: the block at {frame} is its holder's"
        );
    }
    assert_eq!(got, Ok(()));
    // Those that were busy once are dropped at the next try.
    assert_eq!((effort.pages_discarded, effort.pages_migrated), (20, 0));
    seat.free_frames(run(64 * 3, 64)).unwrap();
    assert_all_is_there(&zone, 0);
}

/// A client that takes the first source out of what it was offered, and has the others exchange orders.
struct Forger<'h>(&'h Holder);

impl Migrate for Forger<'_> {
    fn migrate(&self, moves: &mut [Move]) {
        self.0.migrate(&mut moves[1..]);
        moves[0] = moves[moves.len() - 1];
        for of in moves {
            of.order = order(of.order.get() ^ 1);
        }
    }
}

#[test]
fn r8_a_source_that_a_client_takes_out_stays_and_orders_are_not_its_to_change() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    for nth in 0..16u64 {
        holder.hold(
            &zone,
            (64 * 7 + 4 * nth, u8::from(nth % 2 == 1)),
            Mood::Moves,
        );
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let movers: [&dyn Migrate; 1] = [&Forger(&holder)];
    let got = reclaim.evacuate(&mut seat, run(64 * 7, 64), &movers);
    let first = Obstacle::Unmovable.at(Frame(64 * 7));
    assert_eq!(got, Err(first));
    assert_eq!(holder.moved.get(), 15);
    assert_nothing_is_left(&zone, holder.frames());
    holder.free_all(&mut seat);
    assert_all_is_there(&zone, 0);
}

/// A client that moves nothing, and gives out targets anew.
struct Exchanger(fn(&mut [Move]));

impl Migrate for Exchanger {
    fn migrate(&self, moves: &mut [Move]) {
        (self.0)(moves);
    }
}

#[test]
fn r8_a_target_that_a_client_gives_twice_or_makes_up_is_not_freed_for_it() {
    const FORGERIES: [fn(&mut [Move]); 4] = [
        // One target for two sources.
        |moves| moves[0].to = moves[2].to,
        // The same, and the others' numbers changed so that a sum over targets and orders stays.
        |moves| {
            let [first, second] = [moves[0].to, moves[1].to];
            moves[0].to = moves[2].to;
            moves[1].to = Frame(first.0 ^ 1 << 56);
            moves[2].to = Frame(second.0 ^ 1 << 56);
        },
        // A target of another order.
        |moves| {
            let [first, second] = [moves[0].to, moves[1].to];
            (moves[0].to, moves[1].to) = (second, first);
        },
        // A block that no client was asked about.
        |moves| moves[0].to = Frame(0),
    ];
    for forge in FORGERIES {
        machine!(zone, reclaim, &uncached(), 8);
        for id in 0..7 {
            zone.alloc_at(Frame(64 * id), order(0), Movable).unwrap();
        }
        let at = 64 * 7;
        for (frame, size) in [(at, 0), (at + 2, 1), (at + 5, 0)] {
            zone.alloc_at(Frame(frame), order(size), Movable).unwrap();
        }
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let movers: [&dyn Migrate; 1] = [&Exchanger(forge)];
        let got = reclaim.evacuate(&mut seat, run(at, 64), &movers);
        assert_eq!(got, Err(Obstacle::Unmovable.at(Frame(at))));
        assert_eq!(zone.stats().bad_frees, 0);
        for id in 0..7 {
            let kept = seat.free(Frame(64 * id), order(0));
            assert_eq!(kept, Ok(()), "a block that no client was asked about");
        }
        for (frame, size) in [(at, 0), (at + 2, 1), (at + 5, 0)] {
            assert_eq!(seat.free(Frame(frame), order(size)), Ok(()));
        }
        assert_all_is_there(&zone, 0);
    }
}
