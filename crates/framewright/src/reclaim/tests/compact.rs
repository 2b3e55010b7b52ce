//! Compaction of scattered frames, with clients that move honestly.

use super::*;
use crate::reclaim::moving::CompactEffort::{Background, Direct};

/// Each pageblock but the last `free` has a movable frame at each `step`th place.
pub(super) fn sprinkle(zone: &Zone<'_, SingleThread>, holder: &Holder, blocks: u64, step: usize) {
    for frame in (0..64 * blocks).step_by(step) {
        holder.hold(zone, (frame, 0), Mood::Moves);
    }
}

#[test]
fn r2_a_pageblock_is_made_of_scattered_movable_frames_and_no_contents_are_lost() {
    for fallback in Fallback::ALL {
        let config = Config {
            fallback,
            ..uncached()
        };
        machine!(zone, reclaim, &config, 16);
        let holder = Holder::default();
        sprinkle(&zone, &holder, 16, 3);
        let contents = holder.contents();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut blocks = vec![];
        for mobility in [Movable, Unmovable] {
            assert!(seat.alloc(order(6), mobility).is_err());
            let got = reclaim.compact_with(&mut seat, order(6), mobility, Direct, &[&holder]);
            let Compaction::Captured(frame) = got else {
                panic!("{got:?}");
            };
            assert!(frame.is_aligned(order(6)));
            blocks.push(frame);
            assert_nothing_is_left(&zone, holder.frames() + 64 * blocks.len() as u64);
        }
        assert_eq!(holder.contents(), contents);
        assert_eq!(zone.recount().allocated[Unmovable.index()], 64);
        let stats = reclaim.stats();
        assert_eq!((stats.compact_stall, stats.compact_success), (2, 2));
        assert_eq!(stats.pgmigrate_success, holder.moved.get());
        assert_eq!(stats.pgmigrate_fail, 0);
        assert_eq!(stats.compact_isolated, 2 * holder.moved.get());
        for frame in blocks {
            seat.free(frame, order(6)).unwrap();
        }
        holder.free_all(&mut seat);
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, 64 * 16);
    }
}

#[test]
fn the_cheapest_pageblock_is_emptied_and_equals_in_turn() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    for id in 0..8 {
        let frames = if id == 5 { 10 } else { 20 };
        for nth in 0..frames {
            holder.hold(&zone, (64 * id + 3 * nth, 0), Mood::Moves);
        }
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Background, &[&holder]);
    assert_eq!(got, Compaction::Captured(Frame(64 * 5)));
    assert_eq!(holder.moved.get(), 10);
    let stats = reclaim.stats();
    assert_eq!(stats.compact_stall, 0, "no request waited");
    // A descriptor each, then the frames of one pageblock.
    assert_eq!(stats.compact_migrate_scanned, 8 + 64);
    // Contents went to few pageblocks; of the others, the next is chosen.
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Background, &[&holder]);
    let Compaction::Captured(second) = got else {
        panic!("{got:?}");
    };
    assert_ne!(second, Frame(64 * 5));
    assert_nothing_is_left(&zone, holder.frames() + 128);
}

#[test]
fn targets_are_small_blocks_beside_movable_contents_and_nothing_large_is_broken() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    // Pageblock 0 is to be emptied; 1 has single free frames; 2 has eight in one piece; 3 is not
    // movable; 4 and 5 are entirely free, the others are full.
    holder.hold(&zone, (10, 0), Mood::Moves);
    holder.hold(&zone, (20, 1), Mood::Moves);
    for frame in 64..128 {
        if !(100..104).contains(&frame) {
            holder.hold(&zone, (frame, 0), Mood::Moves);
        }
    }
    zone.alloc_run_at(run(128, 56), Movable).unwrap();
    zone.alloc_run_at(run(192, 30), Unmovable).unwrap();
    zone.alloc_run_at(run(384, 128), Movable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // Nothing in 0 is in the way of a block of order 4; for order 6 something is.
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Background, &[&holder]);
    assert_eq!(got, Compaction::Captured(Frame(0)));
    assert!((100..104).any(|frame| holder.is_at(frame)));
    assert!(
        (4..6).all(|id| zone.pageblock(id).free == 64),
        "they are whole"
    );
    assert_eq!(zone.pageblock(3).free, 34);
    let moved_to: Vec<u64> = (100..104).filter(|&frame| holder.is_at(frame)).collect();
    assert_eq!(moved_to.len(), 2, "one frame, and the first of two");
    assert_eq!(zone.pageblock(2).free, 8);
}

#[test]
fn a_block_without_a_target_of_its_order_is_not_moved_in_pieces() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    // Single free frames only, besides pageblock 0.
    holder.hold(&zone, (8, 3), Mood::Moves);
    holder.hold(&zone, (1, 0), Mood::Moves);
    for frame in (64..512).step_by(2) {
        holder.hold(&zone, (frame, 0), Mood::Moves);
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let contents = holder.contents();
    let places: Vec<_> = holder.blocks.borrow().keys().copied().collect();
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&holder]);
    // The others can be emptied, into each other and into pageblock 0.
    assert!(
        matches!(got, Compaction::Captured(frame) if frame != Frame(0)),
        "{got:?}"
    );
    assert!(holder.is_at(8));
    assert_eq!(holder.contents(), contents);
    assert_ne!(
        places,
        holder.blocks.borrow().keys().copied().collect::<Vec<_>>()
    );
}

#[test]
fn a_request_that_cannot_move_gets_a_small_block_where_such_contents_are() {
    machine!(zone, reclaim, &uncached(), 8);
    let holder = Holder::default();
    // All but 0 are clean; in 0 every fourth frame from 8 on is in the way of order 2.
    zone.alloc_run_at(run(0, 8), Unmovable).unwrap();
    for frame in (8..64).step_by(4) {
        holder.hold(&zone, (frame + 1, 0), Mood::Moves);
    }
    for frame in (64..512).step_by(4) {
        holder.hold(&zone, (frame + 1, 0), Mood::Moves);
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for nth in 1..4 {
        let got = reclaim.compact_with(&mut seat, order(2), Unmovable, Direct, &[&holder]);
        assert!(
            matches!(got, Compaction::Captured(frame) if frame < Frame(64)),
            "{got:?}"
        );
        assert_eq!(holder.moved.get(), nth, "one frame each");
    }
    let contaminated = (0..8).filter(|&id| zone.pageblock(id).nonmovable() > 0);
    assert_eq!(contaminated.count(), 1);
    assert_nothing_is_left(&zone, 8 + 12 + holder.frames());
}

#[test]
fn an_order_above_the_pageblocks_takes_several_of_them() {
    machine!(zone, reclaim, &uncached(), 16);
    let holder = Holder::default();
    for id in 0..16 {
        for nth in 0..8 {
            holder.hold(&zone, (64 * id + 7 * nth, 0), Mood::Moves);
        }
    }
    // One of a group cannot be emptied: pageblocks 4 to 7 are not taken.
    zone.alloc_at(Frame(5 * 64 + 1), order(0), Unmovable)
        .unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let contents = holder.contents();
    for taken in 1..=2 {
        let got = reclaim.compact_with(&mut seat, order(8), Movable, Background, &[&holder]);
        let Compaction::Captured(frame) = got else {
            panic!("{got:?}");
        };
        assert!(frame.is_aligned(order(8)) && frame != Frame(256));
        assert_nothing_is_left(&zone, 1 + holder.frames() + 256 * taken);
    }
    assert_eq!(holder.contents(), contents);
}

#[test]
fn what_is_cached_of_a_pageblock_does_not_stand_in_the_way() {
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    machine!(zone, reclaim, &config, 16);
    let holder = Holder::default();
    let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    // Everything, and then most of it freed: caches of both CPUs hold frames from everywhere.
    let mut frames = vec![];
    while let Ok(frame) = seats[frames.len() % 2].alloc(order(0), Movable) {
        frames.push(frame);
    }
    let mut random = Random::new(7);
    for nth in (1..frames.len()).rev() {
        frames.swap(nth, random.index(nth + 1));
    }
    for (nth, frame) in frames.into_iter().enumerate() {
        if nth % 4 == 0 {
            holder.put(frame, order(0), Mood::Moves);
        } else {
            seats[nth % 2].free(frame, order(0)).unwrap();
        }
    }
    assert!(zone.recount().cached > 0);
    for taken in 1..6 {
        let got = reclaim.compact_with(&mut seats[0], order(6), Movable, Background, &[&holder]);
        assert!(matches!(got, Compaction::Captured(_)), "{got:?}");
        assert_nothing_is_left(&zone, 64 * taken + holder.frames());
    }
}

#[test]
fn movable_contents_may_lie_in_contiguous_areas_and_leave_them() {
    machine!(zone, reclaim, &uncached(), 4);
    let holder = Holder::default();
    zone.set_label(run(0, 128), Label::Contiguous).unwrap();
    for nth in 0..10 {
        holder.hold(&zone, (3 * nth, 0), Mood::Moves);
        holder.hold(&zone, (64 + 3 * nth, 0), Mood::Moves);
    }
    zone.alloc_run_at(run(128, 128), Unmovable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let got = reclaim.compact_with(&mut seat, order(6), Unmovable, Background, &[&holder]);
    assert_eq!(got, Compaction::Skipped);
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Background, &[&holder]);
    assert_eq!(got, Compaction::Skipped, "too little is free");
    seat.free_frames(run(128, 128)).unwrap();
    zone.alloc_run_at(run(128, 1), Unmovable).unwrap();
    zone.alloc_run_at(run(192, 1), Unmovable).unwrap();
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Background, &[&holder]);
    assert_eq!(
        got,
        Compaction::Skipped,
        "lent frames do not serve every request"
    );
    let got = reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&holder]);
    assert_eq!(got, Compaction::Captured(Frame(0)));
    assert_nothing_is_left(&zone, 64 + 2 + holder.frames());
}

#[test]
fn attempts_in_vain_are_deferred_and_what_gave_nothing_is_passed_over_until_all_was_tried() {
    machine!(zone, reclaim, &uncached(), 32);
    let holder = Holder::default();
    for id in 0..32 {
        for nth in 0..10 {
            holder.hold(&zone, (64 * id + 3 * nth, 0), Mood::Pinned);
        }
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut compact =
        |effort| reclaim.compact_with(&mut seat, order(6), Movable, effort, &[&holder]);
    assert_eq!(compact(Direct), Compaction::Partial);
    assert_eq!(
        holder.calls.get(),
        8,
        "the bound of one that a request waits for"
    );
    assert_eq!(compact(Direct), Compaction::Deferred);
    assert_eq!(compact(Background), Compaction::Partial);
    assert_eq!(holder.calls.get(), 8 + 16, "the bound of another");
    assert_eq!(compact(Background), Compaction::Complete);
    assert_eq!(holder.calls.get(), 32, "each of them once");
    assert_eq!(
        compact(Background),
        Compaction::Partial,
        "and from the beginning"
    );
    let deferred = (0..200)
        .filter(|_| compact(Direct) == Compaction::Deferred)
        .count();
    assert!(deferred > 180, "{deferred}");
    let stats = reclaim.stats();
    assert_eq!(stats.compact_stall, 201 - deferred as u64);
    assert_eq!(stats.compact_fail, stats.compact_stall);
    holder
        .blocks
        .borrow_mut()
        .values_mut()
        .for_each(|block| block.2 = Mood::Moves);
    let attempts = (1..=64).find(|_| matches!(compact(Direct), Compaction::Captured(_)));
    assert!(attempts.is_some());
    assert!(
        matches!(compact(Direct), Compaction::Captured(_)),
        "no more back-off"
    );
    assert_nothing_is_left(&zone, 128 + holder.frames());
}

#[test]
fn with_too_little_free_nothing_is_tried() {
    machine!(zone, reclaim, &uncached(), 4);
    let holder = Holder::default();
    // 256 frames: `min` is 32, and a block of order 6 wants 128 more.
    for nth in 0..97 {
        holder.hold(&zone, (64 * (nth % 3) + nth / 3, 0), Mood::Moves);
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut compact =
        |size| reclaim.compact_with(&mut seat, order(size), Movable, Direct, &[&holder]);
    assert_eq!(compact(6), Compaction::Skipped);
    assert_eq!(compact(0), Compaction::Skipped);
    assert_eq!(compact(9), Compaction::Skipped);
    assert_eq!(reclaim.stats().compact_stall, 0);
    assert_eq!(holder.calls.get(), 0);
    holder.blocks.borrow_mut().remove(&Frame(64)).unwrap();
    seat.free(Frame(64), order(0)).unwrap();
    assert!(matches!(
        reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&holder]),
        Compaction::Captured(_)
    ));
}

#[test]
fn a_pageblock_whose_contents_find_no_room_elsewhere_is_not_begun() {
    machine!(zone, reclaim, &uncached(), 16);
    let holder = Holder::default();
    // Much is free, but in whole pageblocks; beside the contents there are 63 frames.
    for id in 0..7 {
        for frame in 0..55 {
            holder.hold(&zone, (64 * id + frame, 0), Mood::Moves);
        }
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut compact = || reclaim.compact_with(&mut seat, order(6), Movable, Direct, &[&holder]);
    assert_eq!(compact(), Compaction::Skipped);
    assert_eq!(
        (holder.moved.get(), reclaim.stats().compact_isolated),
        (0, 0)
    );
    assert_eq!(reclaim.stats().compact_stall, 0);
    // With one more it is just enough.
    seat.free(Frame(64), order(0)).unwrap();
    holder.blocks.borrow_mut().remove(&Frame(64)).unwrap();
    let mut compact = || reclaim.compact_with(&mut seat, order(6), Movable, Background, &[&holder]);
    assert_eq!(compact(), Compaction::Captured(Frame(64)));
    assert_eq!(holder.moved.get(), 54);
    assert_eq!(compact(), Compaction::Skipped);
    assert_nothing_is_left(&zone, 64 + holder.frames());
}

#[test]
fn a_small_block_is_found_however_far_away_it_is() {
    machine!(zone, reclaim, &uncached(), 300);
    let holder = Holder::default();
    // Only the last pageblocks have movable contents, far beyond the first look.
    zone.alloc_run_at(run(0, 64 * 290), Unmovable).unwrap();
    for nth in 0..16 {
        holder.hold(&zone, (64 * 290 + 4 * nth, 0), Mood::Moves);
        holder.hold(&zone, (64 * 291 + 4 * nth, 0), Mood::Moves);
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let got = reclaim.compact_with(&mut seat, order(2), Movable, Direct, &[&holder]);
    assert_eq!(got, Compaction::Captured(Frame(64 * 290)));
    assert_eq!(holder.moved.get(), 1);
    // The next one is at hand: an attempt begins where the last one ended.
    let looks = reclaim.stats().compact_migrate_scanned;
    assert!((290..400).contains(&looks), "{looks}");
    let got = reclaim.compact_with(&mut seat, order(2), Movable, Direct, &[&holder]);
    assert!(
        matches!(got, Compaction::Captured(frame) if frame.0 / 64 == 291),
        "{got:?}"
    );
    assert!(reclaim.stats().compact_migrate_scanned - looks < 80);
}

#[test]
fn random_histories_with_compaction_lose_nothing() {
    let mut captured = 0;
    for seed in 0..30 {
        let config = Config {
            fallback: Fallback::ALL[seed as usize % Fallback::ALL.len()],
            cache_permille: [0, 5, 100][seed as usize / Fallback::ALL.len() % 3],
            ..Config::default()
        };
        machine!(zone, reclaim, &config, 24);
        let mut random = Random::new(seed);
        let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
        let holder = Holder::default();
        let mut others: Vec<(Frame, Order)> = vec![];
        for step in 0..1500 {
            let seat = &mut seats[random.index(2)];
            let size = order([0, 0, 0, 0, 1, 2, 3][random.index(7)]);
            match random.index(20) {
                0..9 => {
                    if let Ok(frame) = seat.alloc(size, Movable) {
                        let mood = [Mood::Moves, Mood::BusyOnce, Mood::Moves, Mood::Pinned]
                            [random.index(if step % 5 == 0 { 4 } else { 3 })];
                        holder.put(frame, size, mood);
                    }
                }
                9 => {
                    let mobility = [Unmovable, Reclaimable][random.index(2)];
                    if let Ok(frame) = seat.alloc(size, mobility) {
                        others.push((frame, size));
                    }
                }
                10..15 => {
                    let len = holder.blocks.borrow().len();
                    if len > 0 {
                        let nth = random.index(len);
                        let frame = *holder.blocks.borrow().keys().nth(nth).unwrap();
                        let (size, ..) = holder.blocks.borrow_mut().remove(&frame).unwrap();
                        seat.free(frame, size).unwrap();
                    }
                }
                15 | 16 if !others.is_empty() => {
                    let (frame, size) = others.swap_remove(random.index(others.len()));
                    seat.free(frame, size).unwrap();
                }
                17 => {
                    let frame = Frame(random.index(64 * 24) as u64);
                    if zone.unpin(frame).is_err() && step % 3 == 0 {
                        zone.pin(frame).unwrap();
                    }
                }
                _ => {
                    let size = order(1 + random.index(8) as u8);
                    let mobility = Mobility::ALL[random.index(3)];
                    let effort = [Direct, Background][random.index(2)];
                    let before = holder.contents();
                    let places: Vec<_> = holder
                        .blocks
                        .borrow()
                        .iter()
                        .map(|(f, b)| (*f, *b))
                        .collect();
                    let got = reclaim.compact_with(seat, size, mobility, effort, &[&holder]);
                    assert_eq!(holder.contents(), before);
                    for (frame, block) in places {
                        if block.2 == Mood::Pinned {
                            assert_eq!(holder.blocks.borrow().get(&frame), Some(&block), "R6");
                        }
                    }
                    let held = others.iter().map(|(_, size)| size.frames()).sum::<u64>();
                    let mut held = held + holder.frames();
                    if let Compaction::Captured(frame) = got {
                        assert!(frame.is_aligned(size));
                        captured += 1;
                        held += size.frames();
                        others.push((frame, size));
                    }
                    assert_nothing_is_left(&zone, held);
                }
            }
        }
        for (frame, size) in others {
            seats[0].free(frame, size).unwrap();
        }
        holder.free_all(&mut seats[1]);
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, 64 * 24);
    }
    assert!(captured > 500, "{captured}");
}
