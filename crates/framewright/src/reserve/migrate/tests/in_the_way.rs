//! Requests that fail, or go elsewhere: pins, tries, no room, another CPU at work.

use super::*;
use crate::reclaim::Obstacle;
use crate::units::RunError;

#[test]
fn m3_with_pins_everywhere_it_fails_and_all_is_as_before() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, (FIRST..FRAMES).step_by(4), AreaMood::Pinned);
        let before = state(&area, &holder);
        for frames in [4, 64, 65, AREA] {
            let failed = area.alloc_contig(&mut seat, frames, 1, &movers(&[&holder]));
            assert!(matches!(failed, Err(RunError::Pinned(_))), "{failed:?}");
            assert_eq!(state(&area, &holder), before);
            assert_sound(&area, &holder);
        }
        let stats = area.stats();
        assert_eq!((stats.cma_alloc_fail, stats.cma_alloc_success), (4, 0));
        assert_eq!(stats.alloc_pages_fail, 4 + 64 + 65 + AREA);
        // A request gets a run that fits between two pins.
        assert!(
            area.alloc_contig(&mut seat, 3, 1, &movers(&[&holder]))
                .is_ok()
        );
        assert_sound(&area, &holder);
    }
}

#[test]
fn a_place_that_is_busy_is_followed_by_the_next_one_behind_it() {
    for (align, retries) in [(1, 4), (2, 2), (8, 1)] {
        machine!(zone, area, seat, ContigConfig::LINUX);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FIRST + 40, AreaMood::Moves);
        holder.set_mood(FIRST + 3, AreaMood::Pinned);
        let contents = holder.contents();
        let taken = area
            .alloc_contig(&mut seat, 4, align, &movers(&[&holder]))
            .unwrap();
        assert_eq!(taken.start().0, FIRST + 4u64.next_multiple_of(align));
        let stats = area.stats();
        assert_eq!(stats.busy_retries, retries, "align {align}");
        assert_eq!(stats.isolated_ranges, retries + 1);
        assert_eq!(holder.contents(), contents);
        assert_sound(&area, &holder);
    }
}

#[test]
fn m4_the_cheapest_place_is_chosen_again_without_what_was_in_the_way() {
    machine!(zone, area, seat, ContigConfig::default());
    let holder = AreaHolder::default();
    holder.hold(&zone, FIRST..FRAMES, AreaMood::Moves);
    for frame in [FIRST + 3, FIRST + 4, FIRST + 20] {
        holder.set_mood(frame, AreaMood::Pinned);
    }
    let taken = area
        .alloc_contig(&mut seat, 8, 1, &movers(&[&holder]))
        .unwrap();
    assert_eq!(
        taken.start(),
        Frame(FIRST + 5),
        "not three tries for one pin"
    );
    assert_eq!(area.stats().busy_retries, 2);
    assert_sound(&area, &holder);
}

#[test]
fn a_batch_is_tried_five_times_and_offered_ten_times_in_each() {
    let one_place = |busy| {
        machine!(zone, area, seat, ContigConfig::LINUX);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FIRST + 2, AreaMood::Moves);
        holder.set_mood(FIRST + 1, AreaMood::BusyFor(busy));
        let got = area.alloc_contig(&mut seat, AREA, 64, &movers(&[&holder]));
        assert_sound(&area, &holder);
        (got, area.stats().tries, holder.offered.get())
    };
    for (busy, tries) in [(0, 1), (9, 1), (10, 2), (49, 5)] {
        let (got, tried, offered) = one_place(busy);
        assert_eq!(got, Ok(run(FIRST, AREA)));
        assert_eq!((tried, offered), (tries, u64::from(busy) + 2));
    }
    let (got, tried, offered) = one_place(50);
    let (frame, why) = (Frame(FIRST + 1), Obstacle::Busy);
    assert_eq!(got, Err(why.at(frame)));
    assert_eq!((tried, offered), (5, 51), "once for the other one");
}

#[test]
fn what_is_pinned_is_offered_once_unless_as_in_linux() {
    for (config, offers) in [(ContigConfig::LINUX, 50), (ContigConfig::default(), 1)] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST + 9..FIRST + 10, AreaMood::Pinned);
        let got = area.alloc_contig(&mut seat, AREA, 1, &movers(&[&holder]));
        let (frame, why) = (Frame(FIRST + 9), Obstacle::Pinned);
        assert_eq!(got, Err(why.at(frame)));
        assert_eq!(holder.offered.get(), offers);
    }
}

#[test]
fn a_pinned_pageblock_is_passed_by_and_nothing_moves_before_that_is_seen() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FRAMES, AreaMood::Moves);
        for block in 0..8 {
            zone.pin(Frame(FIRST + 64 * block + 5)).unwrap();
        }
        let before = state(&area, &holder);
        let got = area.alloc_contig(&mut seat, 100, 64, &movers(&[&holder]));
        assert!(matches!(got, Err(RunError::Pinned(_))), "{got:?}");
        assert_eq!(state(&area, &holder), before);
        assert_eq!(holder.calls.get(), 0);
        for block in 3..5 {
            zone.unpin(Frame(FIRST + 64 * block)).unwrap();
        }
        let got = area.alloc_contig(&mut seat, 100, 64, &movers(&[&holder]));
        assert_eq!(got, Ok(run(FIRST + 64 * 3, 100)));
        assert_sound(&area, &holder);
    }
}

#[test]
fn m3_however_the_nth_call_of_a_client_fails_nothing_is_lost() {
    for config in [
        once(ContigConfig::LINUX),
        ContigConfig::default(),
        ContigConfig::LINUX,
    ] {
        let mut failed = 0;
        for nth in 1..20 {
            machine!(zone, area, seat, config);
            let holder = AreaHolder::default();
            holder.hold(&zone, FIRST..FIRST + 300, AreaMood::Moves);
            holder.fails_at.set(nth);
            let before = state(&area, &holder);
            let got = area.alloc_contig(&mut seat, 400, 64, &movers(&[&holder]));
            assert_sound(&area, &holder);
            if let Err(error) = got {
                failed += 1;
                assert!(
                    matches!(
                        error,
                        RunError::Pinned(_) | RunError::Busy(_) | RunError::Unmovable(_)
                    ),
                    "{error:?}"
                );
                assert_eq!(state(&area, &holder), before);
            }
            assert_eq!(holder.contents(), before.contents);
        }
        // With one try a place fails, of which there are two; with more tries none does.
        assert_eq!(failed, 0, "another place, or another try, was there");
    }
    let mut failed = 0;
    for nth in 1..20 {
        machine!(zone, area, seat, once(ContigConfig::LINUX));
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FIRST + 300, AreaMood::Moves);
        holder.fails_at.set(nth);
        let before = state(&area, &holder);
        if area
            .alloc_contig(&mut seat, AREA, 64, &movers(&[&holder]))
            .is_err()
        {
            failed += 1;
            assert_eq!(state(&area, &holder), before);
        }
        assert_sound(&area, &holder);
        assert_eq!(holder.contents(), before.contents);
    }
    assert_eq!(failed, 300_u64.div_ceil(32), "one for each batch");
}

#[test]
fn without_room_elsewhere_it_fails_at_once_unless_a_client_gives_frames_back() {
    /// Gives its spare frames back.
    struct Spare(RefCell<Vec<Frame>>);
    impl Shrink<Seat<'_, '_, SingleThread>> for Spare {
        fn holding(&self) -> u64 {
            self.0.borrow().len() as u64
        }
        fn shrink(&self, seat: &mut Seat<'_, '_, SingleThread>, ask: &Ask) -> Shrunk {
            let mut spare = self.0.borrow_mut();
            let len = spare.len();
            let go = spare.split_off(len.saturating_sub(ask.wanted.min(ask.scan) as usize));
            for frame in &go {
                seat.free(*frame, Order::ZERO).unwrap();
            }
            let freed = go.len() as u64;
            Shrunk {
                scanned: freed,
                freed,
            }
        }
    }
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FRAMES, AreaMood::Moves);
        let spare = (0..FIRST).map(|_| seat.alloc(Order::ZERO, Unmovable).unwrap());
        let spare = Spare(RefCell::new(spare.collect()));
        let before = state(&area, &holder);
        let got = area.alloc_contig(&mut seat, 70, 1, &movers(&[&holder]));
        assert_eq!(got, Err(RunError::NoMemory(Frame(FIRST))));
        assert_eq!(area.stats().busy_retries, 0, "no other place is any better");
        assert_eq!(state(&area, &holder), before);
        let clients = Clients {
            shrink: &[&spare],
            migrate: &[&holder],
        };
        let got = area.alloc_contig(&mut seat, 70, 1, &clients);
        assert!(got.is_ok(), "{got:?}");
        let stats = area.stats();
        assert!(stats.pages_reclaimed >= 70, "{stats:?}");
        assert_eq!(holder.contents(), before.contents);
        area.verify().unwrap();
        zone.verify().unwrap();
    }
}

#[test]
fn targets_that_were_not_enough_are_given_back_once_and_not_again_when_it_is_tried_again() {
    /// Takes whatever is free as soon as it is asked for frames, as another CPU may, but for one.
    struct RivalOwner(RefCell<Vec<Frame>>);
    impl Shrink<Seat<'_, '_, SingleThread>> for RivalOwner {
        fn holding(&self) -> u64 {
            FRAMES
        }
        fn shrink(&self, seat: &mut Seat<'_, '_, SingleThread>, _: &Ask) -> Shrunk {
            let mut mine = self.0.borrow_mut();
            while let Some(frame) = seat.try_alloc(Order::ZERO, Movable) {
                mine.push(frame);
            }
            let freed = mine.pop().map_or(0, |frame| {
                seat.free(frame, Order::ZERO).unwrap();
                1
            });
            let scanned = 1;
            Shrunk { scanned, freed }
        }
    }
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        // Single frames find room elsewhere, and a block of eight does not.
        for first in (FIRST..FRAMES).step_by(64) {
            let block = first + 8;
            holder.hold(
                &zone,
                (first..block).chain(block + 8..first + 64),
                AreaMood::Moves,
            );
            zone.alloc_at(Frame(block), order(3), Movable).unwrap();
            holder.put(Frame(block), order(3), block, AreaMood::Moves);
        }
        for frame in (0..FIRST).step_by(2) {
            zone.alloc_at(Frame(frame), Order::ZERO, Unmovable).unwrap();
        }
        let contents = holder.contents();
        let rival = RivalOwner(RefCell::default());
        let clients = Clients {
            shrink: &[&rival],
            migrate: &[&holder],
        };
        let got = area.alloc_contig(&mut seat, 70, 1, &clients);
        assert!(matches!(got, Err(RunError::NoMemory(_))), "{got:?}");
        assert_eq!(holder.contents(), contents);
        let rivals = rival.0.take();
        assert!(rivals.len() > 200, "{}", rivals.len());
        let allocated = zone.recount().allocated[Movable.index()];
        assert_eq!(allocated, holder.frames() + rivals.len() as u64);
        for frame in rivals {
            seat.free(frame, Order::ZERO).unwrap();
        }
        assert_sound(&area, &holder);
    }
}

#[test]
fn what_no_client_knows_or_can_move_is_in_the_way() {
    machine!(zone, area, seat, ContigConfig::default());
    let holder = AreaHolder::default();
    zone.alloc_at(Frame(FIRST + 5), Order::ZERO, Movable)
        .unwrap();
    let got = area.alloc_contig(&mut seat, AREA, 1, &movers(&[&holder]));
    let (frame, why) = (Frame(FIRST + 5), Obstacle::Unmovable);
    assert_eq!(got, Err(why.at(frame)));
    zone.alloc_at(Frame(FIRST + 9), Order::ZERO, Unmovable)
        .unwrap();
    seat.free(Frame(FIRST + 5), Order::ZERO).unwrap();
    holder.hold(&zone, FIRST..FIRST + 4, AreaMood::Moves);
    let before = holder.calls.get();
    let got = area.alloc_contig(&mut seat, AREA, 1, &movers(&[&holder]));
    let frame = Frame(FIRST + 9);
    assert_eq!(got, Err(why.at(frame)));
    assert_eq!(
        holder.calls.get(),
        before,
        "it was seen before anything moved"
    );
    zone.verify().unwrap();
    area.verify().unwrap();
}

#[test]
fn a_pageblock_that_another_owner_isolates_is_passed_by_or_waited_for() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        zone.isolate(run(FIRST, 64)).unwrap();
        let got = area.alloc_contig(&mut seat, 64, 64, &movers(&[&holder]));
        assert_eq!(got, Ok(run(FIRST + 64, 64)));
        area.release(&mut seat, run(FIRST + 64, 64)).unwrap();
        let got = area.alloc_contig(&mut seat, AREA, 64, &movers(&[&holder]));
        let (frame, why) = (Frame(FIRST), Obstacle::Busy);
        assert_eq!(got, Err(why.at(frame)));
        zone.unisolate(run(FIRST, 64)).unwrap();
        let got = area.alloc_contig(&mut seat, AREA, 64, &movers(&[&holder]));
        assert_eq!(got, Ok(run(FIRST, AREA)));
        assert_sound(&area, &holder);
    }
}

/// A client that panics when called.
struct PanickingClient;

impl Migrate for PanickingClient {
    fn migrate(&self, _moves: &mut [Move]) {
        panic!("a client's bug");
    }
}

#[test]
fn m3_a_client_that_panics_leaves_nothing_claimed_or_isolated() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FRAMES, AreaMood::Moves);
        let got = catch_unwind(AssertUnwindSafe(|| {
            area.alloc_contig(&mut seat, 8, 1, &movers(&[&PanickingClient]))
        }));
        assert!(got.is_err());
        assert_eq!(area.claimed_frames(), 0);
        area.verify().unwrap();
        // The targets are lost: whether contents lie there is unknown.
        zone.verify().unwrap();
        let got = area.alloc_contig(&mut seat, 8, 1, &movers(&[&holder]));
        assert!(got.is_ok(), "{got:?}");
        area.verify().unwrap();
    }
}

/// A client that is interrupted when contents from a frame on are to move: another owner asks then.
struct MeetingClient<'a, F> {
    holder: &'a AreaHolder,
    from: Frame,
    meets: RefCell<Option<F>>,
}

impl<F: FnOnce()> Migrate for MeetingClient<'_, F> {
    fn migrate(&self, moves: &mut [Move]) {
        if moves.iter().any(|of| of.from >= self.from)
            && let Some(meets) = self.meets.take()
        {
            meets();
        }
        self.holder.migrate(moves);
    }
}

#[test]
fn m5_what_was_in_the_way_before_a_request_began_does_not_make_it_fail() {
    machine!(zone, area, seat, ContigConfig::default());
    let mut other = zone.seat(CpuId(1)).unwrap();
    // Two places are left: one with a block that is pinned, and one that costs more.
    zone.alloc_run_at(run(FIRST + 192, AREA - 384), Unmovable)
        .unwrap();
    let holder = AreaHolder::default();
    holder.hold(&zone, FIRST + 5..FIRST + 6, AreaMood::Pinned);
    holder.hold(&zone, FRAMES - 192..FRAMES - 180, AreaMood::Moves);
    let got = Cell::new(None);
    let meeting = MeetingClient {
        holder: &holder,
        from: Frame(FRAMES - 192),
        meets: RefCell::new(Some(|| {
            // The first request has given the first place up, and is at the second.
            holder.set_mood(FIRST + 5, AreaMood::Moves);
            got.set(Some(area.alloc_contig(
                &mut other,
                192,
                1,
                &movers(&[&holder]),
            )));
        })),
    };
    let first = area.alloc_contig(&mut seat, 192, 1, &movers(&[&meeting]));
    assert_eq!(first, Ok(run(FRAMES - 192, 192)));
    assert_eq!(got.take(), Some(Ok(run(FIRST, 192))));
    assert_sound(&area, &holder);
}
