//! Requests that are served: of any length, out of lent frames.

use super::*;
use crate::units::RunError;

#[test]
fn m1_runs_of_any_length_are_had_out_of_what_is_lent_and_nothing_is_lost() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        // All of the area is lent, and two pageblocks beside it.
        holder.hold(&zone, FIRST - 128..FRAMES, AreaMood::Moves);
        // Not enough room for all of it: 384 frames.
        let contents = holder.contents();
        let mut owned = vec![];
        for (frames, align) in [(1, 1), (3, 2), (64, 64), (100, 4), (129, 1)] {
            let run = area
                .alloc_contig(&mut seat, frames, align, &movers(&[&holder]))
                .unwrap();
            assert_eq!(run.frames(), frames);
            assert_eq!(run.start().0 % align, 0);
            assert!(run.start().0 >= FIRST && run.end().0 <= FRAMES);
            for frame in run.start().0..run.end().0 {
                assert!(!zone.is_free(Frame(frame)));
                assert!(!holder.blocks.borrow().contains_key(&Frame(frame)));
            }
            owned.push(run);
            assert_eq!(holder.contents(), contents);
            assert_sound(&area, &holder);
        }
        owned.sort_by_key(|run| run.start());
        assert!(owned.windows(2).all(|two| two[0].end() <= two[1].start()));
        let all: u64 = owned.iter().map(|run| run.frames()).sum();
        assert_eq!(area.claimed_frames(), all);
        let stats = area.stats();
        assert_eq!((stats.cma_alloc_success, stats.cma_alloc_fail), (5, 0));
        assert_eq!(stats.alloc_pages_success, all);
        assert!(stats.pages_migrated >= all, "{stats:?}");
        for run in owned {
            area.release(&mut seat, run).unwrap();
        }
        assert_eq!(area.claimed_frames(), 0);
        assert_eq!(area.stats().release_pages_success, all);
        assert_sound(&area, &holder);
        assert_eq!(zone.recount().free, FRAMES - holder.frames());
    }
}

#[test]
fn first_fit_takes_the_lowest_place_and_the_cheapest_is_where_nothing_lies() {
    for (config, first) in [
        (ContigConfig::LINUX, FIRST),
        (ContigConfig::default(), FIRST + 64 * 5),
    ] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, FIRST..FIRST + 64 * 5, AreaMood::Moves);
        let run = area
            .alloc_contig(&mut seat, 64, 1, &movers(&[&holder]))
            .unwrap();
        assert_eq!(run.start(), Frame(first));
        let moved = area.stats().pages_migrated;
        assert_eq!(moved, if first == FIRST { 64 } else { 0 });
        assert_sound(&area, &holder);
    }
}

#[test]
fn a_long_run_is_taken_where_fewest_frames_are_in_use() {
    machine!(zone, area, seat, ContigConfig::default());
    let holder = AreaHolder::default();
    holder.hold(&zone, FIRST..FIRST + 128, AreaMood::Moves);
    holder.hold(&zone, (FIRST + 128..FRAMES).step_by(8), AreaMood::Moves);
    zone.alloc_run_at(run(FIRST + 64 * 6 + 1, 7), Movable)
        .unwrap();
    // Of the frames from 128 on, the last windows hold seven more.
    let taken = area
        .alloc_contig(&mut seat, 192, 64, &movers(&[&holder]))
        .unwrap();
    assert_eq!(taken.start(), Frame(FIRST + 128));
    assert_eq!(area.stats().pages_migrated, 24);
}

#[test]
fn a_short_run_is_taken_where_it_is_free() {
    machine!(zone, area, seat, ContigConfig::default());
    let holder = AreaHolder::default();
    let hole = FIRST + 64 * 3 + 37;
    let but = |hole: u64| move |frame: &u64| *frame != hole && *frame != hole + 1;
    holder.hold(&zone, (FIRST..FRAMES).filter(but(hole)), AreaMood::Moves);
    for expected in [hole, hole + 1] {
        let run = area
            .alloc_contig(&mut seat, 1, 1, &movers(&[&holder]))
            .unwrap();
        assert_eq!(run.start(), Frame(expected));
    }
    assert_eq!(area.stats().pages_migrated, 0);
    let moved = area
        .alloc_contig(&mut seat, 1, 1, &movers(&[&holder]))
        .unwrap();
    // Where owners are already: other pageblocks stay whole for longer runs.
    assert_eq!(moved.start(), Frame(FIRST + 64 * 3));
    assert_eq!(area.stats().pages_migrated, 1);
    assert_sound(&area, &holder);
}

#[test]
fn what_is_clean_is_dropped_and_the_rest_moves() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        holder.hold(&zone, (FIRST..FRAMES).step_by(2), AreaMood::Clean);
        holder.hold(&zone, (FIRST + 1..FRAMES).step_by(2), AreaMood::Moves);
        let other = AreaHolder::default();
        area.alloc_contig(&mut seat, 100, 1, &movers(&[&other, &holder]))
            .unwrap();
        let stats = area.stats();
        assert_eq!((stats.pages_discarded, stats.pages_migrated), (50, 50));
        assert_eq!(holder.dropped.borrow().len(), 50);
        assert_eq!(holder.offered.get(), 50, "dropped contents are not offered");
        assert_sound(&area, &holder);
    }
    let keeps = ContigConfig {
        discards: false,
        ..ContigConfig::LINUX
    };
    machine!(zone, area, seat, keeps);
    let holder = AreaHolder::default();
    holder.hold(&zone, FIRST..FIRST + 8, AreaMood::Clean);
    area.alloc_contig(&mut seat, 8, 1, &movers(&[&holder]))
        .unwrap();
    assert_eq!(area.stats().pages_migrated, 8);
}

#[test]
fn contents_go_where_no_owner_comes_unless_there_is_nothing_else() {
    machine!(zone, area, seat, ContigConfig::default());
    let holder = AreaHolder::default();
    holder.hold(&zone, FIRST..FRAMES - 64, AreaMood::Moves);
    // So that something has to move.
    zone.alloc_run_at(run(FRAMES - 64, 1), Unmovable).unwrap();
    area.alloc_contig(&mut seat, 64, 64, &movers(&[&holder]))
        .unwrap();
    let blocks = holder.blocks.borrow();
    let outside = blocks.keys().filter(|frame| frame.0 < FIRST).count();
    assert_eq!(outside, 64);
    assert_sound_but(&area, 1);
}

/// As `assert_sound`, with `others` unmovable frames of other users.
fn assert_sound_but(area: &TheArea<'_>, others: u64) {
    area.verify().unwrap();
    let zone = area.reclaim().zone();
    zone.verify().unwrap();
    let unmovable = zone.recount().allocated[Unmovable.index()];
    assert_eq!(unmovable, area.claimed_frames() + others);
}

#[test]
fn blocks_of_any_order_that_reach_into_a_run_move_as_a_whole() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        machine!(zone, area, seat, config);
        let holder = AreaHolder::default();
        for (frame, size) in [(FIRST, 8), (FIRST + 256, 4), (FIRST + 272, 5)] {
            let size = if size == 5 { 4 } else { size };
            zone.alloc_at(Frame(frame), order(size), Movable).unwrap();
            holder.put(Frame(frame), order(size), frame, AreaMood::Moves);
        }
        let contents = holder.contents();
        // A reservation has a place that is known: the highest frames.
        let high = area.reserve("high", 512 - 280, 1).unwrap();
        let taken = area.take(&mut seat, high, &movers(&[&holder])).unwrap();
        assert_eq!(taken, run(FIRST + 280, 512 - 280));
        assert_eq!(holder.contents(), contents);
        assert!(!holder.blocks.borrow().contains_key(&Frame(FIRST + 272)));
        assert!(holder.blocks.borrow().contains_key(&Frame(FIRST + 256)));
        let low = area
            .alloc_contig(&mut seat, 8, 1, &movers(&[&holder]))
            .unwrap();
        assert!(low.end().0 <= FIRST + 280);
        assert_eq!(holder.contents(), contents);
        assert_sound(&area, &holder);
    }
}

#[test]
fn what_was_released_is_lent_again_to_what_moves_and_to_nothing_else() {
    machine!(zone, area, seat, ContigConfig::LINUX);
    let holder = AreaHolder::default();
    let all = area
        .alloc_contig(&mut seat, AREA, 64, &movers(&[&holder]))
        .unwrap();
    // Everything else is taken, so only the released frames are free.
    let rest: Vec<_> = (0..FIRST)
        .map(|_| seat.alloc(Order::ZERO, Movable).unwrap())
        .collect();
    assert!(seat.try_alloc(Order::ZERO, Movable).is_none());
    area.release(&mut seat, run(FIRST + 7, 9)).unwrap();
    assert!(seat.try_alloc(Order::ZERO, Unmovable).is_none());
    let lent = seat.try_alloc(Order::ZERO, Movable).unwrap();
    assert!(run(FIRST + 7, 9).contains(lent));
    holder.put(lent, Order::ZERO, 1, AreaMood::Pinned);
    let stays = area.alloc_contig(&mut seat, 9, 1, &movers(&[&holder]));
    assert_eq!(stays, Err(RunError::NoMemory(lent)));
    for frame in rest {
        seat.free(frame, Order::ZERO).unwrap();
    }
    let stays = area.alloc_contig(&mut seat, 9, 1, &movers(&[&holder]));
    assert_eq!(stays, Err(RunError::Pinned(lent)));
    area.release(&mut seat, run(FIRST, 7)).unwrap();
    area.release(&mut seat, run(FIRST + 16, AREA - 16)).unwrap();
    assert_eq!(area.release(&mut seat, all), Err(RunError::NotOwned(all)));
    assert_sound(&area, &holder);
    assert_eq!(zone.recount().free, FRAMES - 1);
}

#[test]
fn what_is_not_owned_is_not_released() {
    machine!(zone, area, seat, ContigConfig::default());
    let holder = AreaHolder::default();
    holder.hold(&zone, FIRST..FIRST + 4, AreaMood::Moves);
    let owned = area
        .alloc_contig(&mut seat, 10, 1, &movers(&[&holder]))
        .unwrap();
    let (start, end) = (owned.start().0, owned.end().0);
    for wrong in [
        run(start, 11),
        run(start - 1, 11),
        run(FIRST, 0),
        run(FIRST - 1, 4),
        run(FRAMES - 1, 4),
        run(end, 1),
    ] {
        let refused = Err(RunError::NotOwned(wrong));
        assert_eq!(area.release(&mut seat, wrong), refused);
    }
    assert_sound(&area, &holder);
    area.release(&mut seat, owned).unwrap();
    let again = area.release(&mut seat, owned);
    assert_eq!(again, Err(RunError::NotOwned(owned)));
    assert_eq!(zone.stats().bad_frees, 0);
}

#[test]
fn an_area_that_cannot_be_is_refused_with_its_reason() {
    use std::string::ToString;
    machine!(zone, area, seat, ContigConfig::LINUX);
    let reclaim = area.reclaim();
    let said = |of: Run, config: &ContigConfig, words: usize| {
        let mut words = vec![0; words];
        let refused = MigrateArea::new(reclaim, of, config, &mut words);
        refused.map(|_| ()).unwrap_err().to_string()
    };
    let needed = MigrateArea::<SingleThread>::words_needed(run(0, 64));
    let config = ContigConfig::LINUX;
    assert_eq!(
        said(run(0, 64), &config, needed - 1),
        std::format!("{} words of metadata, {needed} are needed", needed - 1)
    );
    assert_eq!(
        said(run(0, 63), &config, needed),
        RunError::NotWholePageblocks.to_string()
    );
    let none = ContigConfig { tries: 0, ..config };
    assert_eq!(
        said(run(0, 64), &none, needed),
        "tries 0 is below the minimum 1"
    );
    let contiguous = Label::Contiguous.index();
    assert_eq!(zone.pageblocks_by_label()[contiguous], 8, "nothing changed");
    for (frames, align) in [(0, 1), (1, 0), (1, 3)] {
        let refused = area.alloc_contig(&mut seat, frames, align, &Clients::NONE);
        assert_eq!(refused, Err(RunError::Malformed));
    }
    assert_eq!(area.stats().cma_alloc_fail, 0);
    for frames in [AREA + 1, u64::MAX] {
        let refused = area.alloc_contig(&mut seat, frames, 1, &Clients::NONE);
        assert_eq!(refused, Err(RunError::NoRoom));
    }
    let refused = area.alloc_contig(&mut seat, 1, 1 << 63, &Clients::NONE);
    assert_eq!(refused, Err(RunError::NoRoom));
    assert_eq!(area.stats().cma_alloc_fail, 3);
}
