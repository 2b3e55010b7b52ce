//! Reservations where contents have to move: no other request breaks them up, and taking may fail.

use super::*;
use crate::reclaim::Obstacle;
use crate::units::RunError;

#[test]
fn m2_a_reservation_keeps_other_owners_away_and_is_lent_meanwhile() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FRAMES, AreaMood::Moves);
        let migrate: [&dyn Migrate; 1] = [&holder];
        let clients = movers(&migrate);
        let camera = area.reserve("camera", 200, 8).unwrap();
        let kept = area.run_of(camera).unwrap();
        assert_eq!(kept, run(FRAMES - 200, 200), "the highest");
        let second = area.reserve("second", 100, 64).unwrap();
        assert_eq!(area.run_of(second), Some(run(FRAMES - 320, 100)));
        let mut singles = vec![];
        loop {
            match area.alloc_contig(&mut seat, 1, 1, &clients) {
                Ok(single) => singles.push(single),
                Err(error) => {
                    assert_eq!(error, RunError::NoRoom);
                    break;
                }
            }
        }
        assert_eq!(singles.len() as u64, AREA - 300);
        let contents = holder.contents();
        let taken = area.take(&mut seat, camera, &clients).unwrap();
        assert_eq!(taken, kept);
        let again = area.take(&mut seat, camera, &clients);
        assert_eq!(again, Err(RunError::Taken(kept)));
        assert_eq!(area.unreserve(camera), Err(RunError::Taken(kept)));
        assert_eq!(holder.contents(), contents);
        assert_sound(&area, &holder);
        let part = run(kept.start().0, 10);
        let refused = area.release(&mut seat, part);
        assert_eq!(refused, Err(RunError::NotOwned(part)));
        area.release(&mut seat, kept).unwrap();
        assert_eq!(area.take(&mut seat, camera, &clients), Ok(kept));
        area.release(&mut seat, kept).unwrap();
        area.unreserve(camera).unwrap();
        assert_eq!(area.unreserve(camera), Err(RunError::Unknown));
        let gone = area.take(&mut seat, camera, &clients);
        assert_eq!(gone, Err(RunError::Unknown));
        let more = area.alloc_contig(&mut seat, 200, 8, &clients);
        assert_eq!(more, Ok(kept), "for every owner again");
        assert_sound(&area, &holder);
    }
}

#[test]
fn m2_another_areas_reservation_is_unknown() {
    machine!(zone, area, seat, ContigConfig::default());
    machine!(other_zone, other, other_seat, ContigConfig::default());
    let of_area = area.reserve("camera", 64, 64).unwrap();
    let of_other = other.reserve("screen", 64, 64).unwrap();
    let clients = movers(&[]);
    assert_eq!(area.run_of(of_other), None);
    assert_eq!(area.unreserve(of_other), Err(RunError::Unknown));
    let taken = area.take(&mut seat, of_other, &clients);
    assert_eq!(taken, Err(RunError::Unknown));
    let own = area.run_of(of_area).unwrap();
    assert_eq!(area.take(&mut seat, of_area, &clients), Ok(own));
    let own = other.run_of(of_other).unwrap();
    assert_eq!(other.take(&mut other_seat, of_other, &movers(&[])), Ok(own));
    zone.verify().unwrap();
    other_zone.verify().unwrap();
}

#[test]
fn taking_a_reservation_fails_where_something_is_pinned_and_leaves_it_as_it_was() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        let camera = area.reserve("camera", 100, 1).unwrap();
        holder.hold(&zone, FRAMES - 90..FRAMES - 80, AreaMood::Pinned);
        let before = state(&area, &holder);
        let got = area.take(&mut seat, camera, &movers(&[&holder]));
        let (frame, why) = (Frame(FRAMES - 90), Obstacle::Pinned);
        assert_eq!(got, Err(why.at(frame)));
        assert_eq!(state(&area, &holder), before);
        assert_sound(&area, &holder);
        for frame in FRAMES - 90..FRAMES - 80 {
            holder.set_mood(frame, AreaMood::Moves);
        }
        let got = area.take(&mut seat, camera, &movers(&[&holder]));
        assert_eq!(got, Ok(run(FRAMES - 100, 100)));
        assert_eq!(area.stats().cma_alloc_fail, 1);
        assert_sound(&area, &holder);
    }
}

#[test]
fn an_owner_that_waits_with_a_bound_goes_on_without_the_run_and_nothing_has_changed() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        let camera = area.reserve("camera", 100, 1).unwrap();
        let kept = area.run_of(camera).unwrap();
        holder.hold(&zone, FRAMES - 90..FRAMES - 80, AreaMood::Moves);
        let before = state(&area, &holder);
        let migrate: [&dyn Migrate; 1] = [&holder];
        let would_wait = Err(RunError::WouldWait);
        for rounds in [0, 7] {
            let mut try_take = || area.try_take(&mut seat, camera, &movers(&migrate), rounds);
            // Another owner empties one of its pageblocks.
            zone.isolate(run(FRAMES - 64, 64)).unwrap();
            assert_eq!(try_take(), would_wait);
            zone.unisolate(run(FRAMES - 64, 64)).unwrap();
            // It is another owner's turn, where they take turns.
            if config.one_at_a_time {
                let turn = area.try_lock_turn(&mut Patience::Endless);
                assert_eq!(try_take(), would_wait);
                drop(turn);
            }
            let claims = area.lock_claims();
            assert_eq!(try_take(), would_wait);
            drop(claims);
            assert_eq!(state(&area, &holder), before);
            assert_eq!(holder.calls.get(), 0);
            assert_sound(&area, &holder);
        }
        assert_eq!(area.unreserve(camera), Ok(()), "it is as it was");
        let camera = area.reserve("camera", 100, 1).unwrap();
        // No other owner is in the way: the take does not wait, and the contents move.
        let mut owner = area.owner(&mut seat, movers(&migrate));
        assert_eq!(owner.try_take(camera, 0), Ok(kept));
        assert_sound(&area, &holder);
    }
}

#[test]
fn reservations_that_cannot_be_placed_say_why() {
    machine!(zone, area, seat, ContigConfig::default());
    let holder = AreaHolder::default();
    for (frames, align) in [(0, 1), (4, 3)] {
        let refused = area.reserve("none", frames, align);
        assert_eq!(refused, Err(RunError::Malformed));
    }
    for frames in [AREA + 1, u64::MAX] {
        let refused = area.reserve("large", frames, 1);
        assert_eq!(refused, Err(RunError::NoRoom));
    }
    let owned = area
        .alloc_contig(&mut seat, 1, 1, &movers(&[&holder]))
        .unwrap();
    assert_eq!(area.reserve("all", AREA, 1), Err(RunError::Held));
    area.release(&mut seat, owned).unwrap();
    let made: Vec<_> = (0..16)
        .map(|nth| area.reserve("a name longer than it is kept", 2 + nth, 2))
        .collect();
    assert!(made.iter().all(Result::is_ok));
    let refused = area.reserve("more", 1, 1);
    assert_eq!(refused, Err(RunError::TooMany(16)));
    let mut listed = vec![];
    area.for_each_reservation(|name, run, taken| {
        assert_eq!((name, taken), ("a name longer th", false));
        // Under no lock: it may ask the area (A7).
        let is_its = |made: &&Result<_, _>| area.run_of(*made.as_ref().unwrap()) == Some(run);
        assert_eq!(made.iter().filter(is_its).count(), 1);
        listed.push(run.frames());
    });
    assert_eq!(listed, (2..18).collect::<Vec<_>>());
    assert_sound(&area, &holder);
}
