//! Ranges: allocation at a place, memory that comes and goes, labels, isolation, many at once.

use super::*;

#[test]
fn a_range_is_allocated_from_free_frames_only_and_freed_whole() {
    let layout = ZoneLayout::new(Frame(100), 3000);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    zone.add(Run::new(Frame(100), 1000).unwrap()).unwrap();
    zone.add(Run::new(Frame(1500), 1600).unwrap()).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let run = Run::new(Frame(117), 700).unwrap();
    zone.alloc_run(run, Unmovable).unwrap();
    zone.verify().unwrap();
    assert_eq!(
        zone.alloc_run(run, Unmovable),
        Err(RunError::NotFree(Frame(117)))
    );
    let hole = Run::new(Frame(1000), 600).unwrap();
    assert_eq!(
        zone.alloc_run(hole, Unmovable),
        Err(RunError::Absent(Frame(1100)))
    );
    assert_eq!(
        zone.alloc_at(Frame(817), order(1), Movable),
        Err(RunError::Outside)
    );
    zone.alloc_at(Frame(818), order(1), Movable).unwrap();
    let found = zone.alloc_contiguous(1100, 4, Movable).unwrap();
    assert_eq!(found, Run::new(Frame(1500), 1100).unwrap());
    assert_eq!(
        zone.alloc_contiguous(600, 1, Movable),
        Err(AllocError::Fragmented)
    );
    assert_eq!(
        zone.alloc_contiguous(1600, 1, Movable),
        Err(AllocError::Exhausted)
    );
    zone.verify().unwrap();
    assert_eq!(
        seat.free_range(Run::new(Frame(117), 701).unwrap()),
        Err(RunError::NotFree(Frame(817)))
    );
    seat.free_range(run).unwrap();
    seat.free_range(found).unwrap();
    seat.free(Frame(818), order(1)).unwrap();
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 2600);
}

#[test]
fn memory_comes_and_goes_while_the_rest_is_in_use() {
    let layout = ZoneLayout::new(Frame(0), 4096);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    assert_eq!(seat.alloc(order(0), Movable), Err(AllocError::Exhausted));
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    zone.add(run(10, 1000)).unwrap();
    assert_eq!(zone.add(run(1009, 10)), Err(RunError::Present(Frame(1009))));
    assert_eq!(zone.add(run(4000, 100)), Err(RunError::Outside));
    zone.verify().unwrap();
    let frame = seat.alloc(order(0), Movable).unwrap();
    assert_eq!(zone.remove(run(frame.0, 1)), Err(RunError::NotFree(frame)));
    assert_eq!(
        zone.remove(run(1010, 20)),
        Err(RunError::Absent(Frame(1010)))
    );
    zone.add(run(1010, 1000)).unwrap();
    seat.free(frame, order(0)).unwrap();
    zone.remove(run(10, 1500)).unwrap();
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, 500);
    assert_eq!(zone.recount().present, 500);
}

#[test]
fn isolated_pageblocks_take_back_and_give_nothing() {
    let layout = ZoneLayout::new(Frame(0), 1024);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    zone.alloc_at(Frame(7), order(0), Movable).unwrap();
    let first = Run::new(Frame(0), 512).unwrap();
    assert_eq!(zone.isolate(first), Ok(1));
    assert_eq!(zone.isolate(first), Err(RunError::Isolation(Frame(0))));
    assert_eq!(
        zone.alloc_run(Run::new(Frame(64), 8).unwrap(), Movable),
        Err(RunError::Isolation(Frame(0)))
    );
    seat.free(Frame(7), order(0)).unwrap();
    zone.verify().unwrap();
    let mut taken = 0;
    while let Ok(frame) = seat.alloc(order(0), Unmovable) {
        assert!(frame.0 >= 512);
        taken += 1;
    }
    assert_eq!(taken, 512);
    assert_eq!(zone.unisolate(first), Ok(0));
    zone.verify().unwrap();
    assert!(seat.alloc(order(9), Unmovable).unwrap() == Frame(0));
}

#[test]
fn contiguous_areas_serve_movable_requests_only() {
    for fallback in ALL {
        let layout = ZoneLayout::new(Frame(0), 2048);
        let mut memory = memory(&layout);
        let zone = Zone::new(&layout, &config(fallback), &mut memory, SingleThread::new()).unwrap();
        zone.add(whole(&layout)).unwrap();
        let area = Run::new(Frame(512), 1024).unwrap();
        zone.set_label(area, Label::Contiguous).unwrap();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut taken = 0;
        while let Ok(frame) = seat.alloc(order(3), Unmovable) {
            assert!(!area.contains(frame));
            taken += 8;
        }
        assert_eq!(taken, 1024);
        for _ in 0..1024 / 8 {
            assert!(area.contains(seat.alloc(order(3), Movable).unwrap()));
        }
        assert_eq!(seat.alloc(order(0), Movable), Err(AllocError::Exhausted));
        zone.verify().unwrap();
    }
}

#[test]
fn the_high_order_reserve_is_for_what_cannot_move_when_all_else_has_failed() {
    let layout = ZoneLayout::new(Frame(0), 512 * 200);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    assert_eq!(
        zone.reserve_high_order(100),
        2,
        "a hundredth of 200 pageblocks"
    );
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut taken = 0;
    while seat.alloc(order(9), Movable).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 198);
    assert_eq!(seat.alloc(order(0), Unmovable), Err(AllocError::Exhausted));
    assert!(seat.alloc(order(2), Unmovable).is_ok());
    assert!(seat.alloc(order(9), Reclaimable).is_ok());
    assert_eq!(
        seat.alloc(order(9), Reclaimable),
        Err(AllocError::Exhausted)
    );
    zone.verify().unwrap();
    assert_eq!(zone.pageblocks_by_label()[Label::HighOrder.index()], 2);
}

#[test]
fn frames_and_whole_pageblocks_stand_against_watermarks_of_their_own() {
    use crate::policy::Level;
    let layout = ZoneLayout::new(Frame(0), 512 * 100);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let standing = zone.standing();
    assert_eq!(
        (standing.free_frames, standing.free_pageblocks),
        (51_200, 100)
    );
    assert_eq!(
        (standing.frames, standing.pageblocks),
        (Level::AboveHigh, Level::AboveHigh)
    );
    for pageblock in 0..100 {
        zone.alloc_at(Frame(pageblock * 512 + 7), order(0), Movable)
            .unwrap();
    }
    let standing = zone.standing();
    assert_eq!(
        (standing.free_frames, standing.free_pageblocks),
        (51_100, 0)
    );
    assert_eq!(
        (standing.frames, standing.pageblocks),
        (Level::AboveHigh, Level::BelowMin)
    );
}

#[test]
fn a_run_touches_no_isolated_pageblock_and_no_order_above_the_largest_is_taken() {
    let layout = ZoneLayout::new(Frame(512), 512 * 8);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.isolate(run(512 * 3, 512)).unwrap();
    let refused = Err(RunError::Isolation(Frame(512 * 3)));
    assert_eq!(zone.alloc_run(run(512 * 2 + 100, 500), Movable), refused);
    assert_eq!(zone.alloc_run(run(512 * 2 + 511, 2), Movable), refused);
    assert_eq!(zone.alloc_run(run(512 * 3 + 511, 2), Movable), refused);
    // Up to the isolated pageblock, and from its end on.
    zone.alloc_run(run(512 * 2, 512), Movable).unwrap();
    zone.alloc_run(run(512 * 4, 512), Movable).unwrap();
    assert_eq!(
        zone.alloc_at(Frame(0), order(11), Movable),
        Err(RunError::Outside)
    );
    let larger = ZoneLayout::new(Frame(0), 512 * 8);
    let mut memory = vec![0; larger.words_needed().unwrap()];
    let zone = full_zone(&larger, &Config::default(), &mut memory);
    assert_eq!(
        zone.alloc_at(Frame(0), order(11), Movable),
        Err(RunError::Outside)
    );
    zone.alloc_at(Frame(1024), order(10), Movable).unwrap();
    assert_eq!(zone.stats().pgalloc[Movable.index()], 1024);
}

#[test]
fn isolation_counts_what_is_left_in_all_pageblocks_and_names_the_one_in_the_way() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.alloc_run(run(0, 10), Movable).unwrap();
    zone.alloc_run(run(20, 5), Unmovable).unwrap();
    zone.alloc_run(run(512, 7), Reclaimable).unwrap();
    assert_eq!(zone.isolate(run(0, 1024)), Ok(22));
    assert_eq!(
        zone.unisolate(run(512, 1024)),
        Err(RunError::Isolation(Frame(1024)))
    );
    assert_eq!(zone.unisolate(run(0, 1024)), Ok(22));
    for part in [run(1, 512), run(0, 513), run(1, 511)] {
        assert_eq!(zone.isolate(part), Err(RunError::NotWholePageblocks));
    }
    zone.verify().unwrap();
}

#[test]
fn a_range_that_leaves_the_zone_at_either_end_is_outside() {
    let layout = ZoneLayout::new(Frame(100), 300);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    for (start, frames) in [(99, 10), (390, 11), (100, 0), (400, 1), (600, 1)] {
        assert_eq!(zone.add(run(start, frames)), Err(RunError::Outside));
    }
    zone.add(run(100, 300)).unwrap();
    assert!(zone.contains(Frame(100)) && zone.contains(Frame(399)));
    assert!(!zone.contains(Frame(99)) && !zone.contains(Frame(400)));
}

#[test]
fn contiguous_frames_are_aligned_to_frame_numbers_and_the_lowest_there_are() {
    let layout = ZoneLayout::new(Frame(512 * 3 + 7), 512 * 5);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let first = 512 * 3 + 7;
    assert_eq!(
        zone.alloc_contiguous(3, 1, Movable),
        Ok(run(first, 3)),
        "from the first frame on"
    );
    assert_eq!(
        zone.alloc_contiguous(700, 1024, Movable),
        Ok(run(2048, 700))
    );
    assert_eq!(zone.alloc_contiguous(6, 4, Movable), Ok(run(1548, 6)));
    // As much as is free, but not in one piece; and one more.
    let free = zone.stats().nr_free_pages;
    assert_eq!(
        zone.alloc_contiguous(free, 1, Movable),
        Err(AllocError::Fragmented)
    );
    assert_eq!(
        zone.alloc_contiguous(free + 1, 1, Movable),
        Err(AllocError::Exhausted)
    );
    // The last frames of the zone.
    let end = first + 512 * 5;
    assert_eq!(
        zone.alloc_contiguous(end - 2748, 1, Movable),
        Ok(run(2748, end - 2748))
    );
    zone.verify().unwrap();
}

#[test]
fn a_run_that_can_never_be_is_refused_before_any_cpu_stops() {
    let layout = ZoneLayout::new(Frame(512), 1 << 16);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    // Ranges of 700 and of 2000 frames, and a last one of 10.
    for range in [run(600, 700), run(5000, 2000), run(1 << 16, 10)] {
        zone.add(range).unwrap();
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    zone.alloc_at(Frame(600), order(0), Unmovable).unwrap();
    let drains = |zone: &Zone<'_, _>| zone.stats().drains;
    let before = drains(&zone);
    let refused = [
        (0, 1),
        (1, 0),
        (1, 3),
        (2001, 1),
        (u64::MAX, 1),
        (u64::MAX - 3, 1),
        (1 << 63, 1 << 63),
        (1, 1 << 63),
        (1, 1 << 20),
        // 5120 is the multiple of 1024 with the most frames behind it: 1880.
        (1881, 1024),
        (11, 1 << 16),
        (2711, 1),
    ];
    for (frames, align) in refused {
        let found = zone.alloc_contiguous(frames, align, Movable);
        assert_eq!(found, Err(AllocError::Impossible), "{frames} at {align}");
    }
    assert_eq!(drains(&zone), before, "no CPU was stopped");
    zone.verify().unwrap();
    // A run that sometimes exists is found now, or refused.
    assert_eq!(
        zone.alloc_contiguous(1880, 1024, Movable),
        Ok(run(5120, 1880))
    );
    assert_eq!(
        zone.alloc_contiguous(2000, 1, Movable),
        Err(AllocError::Exhausted)
    );
    let last = run(1 << 16, 8);
    assert_eq!(zone.alloc_contiguous(8, 1 << 16, Movable), Ok(last));
    seat.free_range(last).unwrap();
    seat.free(Frame(600), order(0)).unwrap();
    zone.verify().unwrap();
}

#[test]
fn a_search_for_a_run_costs_nothing_for_holes_and_little_for_what_is_taken() {
    use crate::frame::runs::Sought;
    // 2^20 frames, 2048 pageblocks of 512, of which the first and the last eight exist.
    let layout = ZoneLayout::new(Frame(0), 1 << 20);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    zone.add(run(0, 4096)).unwrap();
    zone.add(run((1 << 20) - 4096, 4096)).unwrap();
    let looks = |frames, align| {
        let wanted = Sought::new(frames, align).unwrap();
        let (free, there) = (zone.find_free(wanted, Movable), zone.find_present(wanted));
        (free.found, free.looks.max(there.looks))
    };
    // Not longer than the first range: found there.
    assert_eq!(looks(4096, 1), (Some(0..4096), 15));
    let taken = zone.alloc_contiguous(1, 1, Unmovable).unwrap();
    assert_eq!(taken, run(0, 1));
    // One frame is missing: on to the last range, a look for each length of the run.
    let (found, seen) = looks(4096, 1);
    assert_eq!(found, Some((1 << 20) - 4096..1 << 20));
    assert!(seen < 2048 / 7 + 64, "{seen} pageblocks for a run of eight");
    // Longer than each: a look for each ten pageblocks, where every frame was looked at.
    let (found, seen) = looks(5120, 1);
    assert_eq!(found, None);
    assert!(seen < 2048 / 9 + 32, "{seen} pageblocks for a run of ten");
    // Shorter than a pageblock: each is looked at once, and its frames only where some are free.
    let (found, seen) = looks(512, 1 << 19);
    assert_eq!((found, seen), (None, 2048));
}

#[test]
fn the_lowest_run_is_found_wherever_it_begins_and_ends() {
    use crate::frame::runs::Sought;
    // Small pageblocks: of 8 frames, so that each run has many.
    let layout = ZoneLayout::new(Frame(4), 200).with_orders(order(3), order(6));
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut random = 1u64;
    let mut free = [true; 204];
    free[..4].fill(false);
    for _ in 0..60 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = 4 + (random >> 33) % 200;
        if free[at as usize] && random >> 60 != 0 {
            zone.alloc_at(Frame(at), order(0), Movable).unwrap();
            free[at as usize] = false;
        }
        for frames in [1, 2, 7, 8, 9, 15, 16, 17, 24, 33, 64, 100] {
            for align in [1, 2, 8, 32] {
                let fits = |at: &u64| {
                    let (at, end) = (*at as usize, *at as usize + frames);
                    free.get(at..end)
                        .is_some_and(|run| run.iter().all(|free| *free))
                };
                let must = (0..204).step_by(align).find(fits);
                let wanted = Sought::new(frames as u64, align as u64).unwrap();
                let found = zone.find_free(wanted, Movable).found;
                let found = found.map(|offsets| zone.frame(offsets.start).0);
                assert_eq!(found, must, "{frames} at {align}");
            }
        }
    }
}

#[test]
fn pins_belong_to_pageblocks_and_are_taken_back_one_by_one() {
    let layout = ZoneLayout::new(Frame(0), 512 * 3);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    zone.add(run(0, 1000)).unwrap();
    assert_eq!(zone.pin(Frame(5)), Ok(1));
    assert_eq!(zone.pin(Frame(511)), Ok(2));
    assert_eq!(zone.pin(Frame(600)), Ok(1));
    assert_eq!(zone.unpin(Frame(512)), Ok(0));
    assert_eq!(zone.unpin(Frame(512)), Err(RunError::Pins(Frame(512))));
    assert_eq!(zone.pin(Frame(1600)), Err(RunError::Outside));
    // Absent frames stand beside the pins and stay.
    zone.verify().unwrap();
    zone.add(run(1000, 100)).unwrap();
    assert_eq!(zone.unpin(Frame(0)), Ok(1));
    assert_eq!(zone.unpin(Frame(0)), Ok(0));
    assert_eq!(zone.pin(Frame(1100)), Ok(1));
    zone.verify().unwrap();
    assert_eq!(zone.pageblock(2).absent, 3 * 512 - 1100);
}

#[test]
fn the_high_order_reserve_leaves_isolated_and_labelled_pageblocks_alone() {
    let layout = ZoneLayout::new(Frame(0), 512 * 300);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.isolate(run(0, 512)).unwrap();
    zone.set_label(run(512, 512), Label::Contiguous).unwrap();
    zone.alloc_at(Frame(1024 + 9), order(0), Movable).unwrap();
    assert_eq!(zone.reserve_high_order(2), 2);
    assert_eq!(zone.reserve_high_order(1), 2, "those that there are stay");
    assert_eq!(zone.reserve_high_order(100), 3, "a hundredth");
    for id in 0..3 {
        assert_ne!(zone.pageblock(id).label, Label::HighOrder);
    }
    for id in 3..6 {
        assert_eq!(zone.pageblock(id).label, Label::HighOrder);
    }
    zone.unisolate(run(0, 512)).unwrap();
    zone.verify().unwrap();
}

#[test]
fn a_block_above_the_pageblocks_takes_only_pageblocks_that_it_may() {
    for fallback in ALL {
        let layout = ZoneLayout::new(Frame(512), 512 * 8);
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &config(fallback), &mut memory);
        // Aligned runs of two: frames 1024, 2048 and 3072.
        zone.isolate(run(1024, 512)).unwrap();
        zone.set_label(run(2048 + 512, 512), Label::Contiguous)
            .unwrap();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        assert_eq!(seat.alloc(order(10), Unmovable), Ok(Frame(3072)));
        let failed = seat.alloc(order(10), Unmovable);
        assert_eq!(failed, Err(AllocError::Fragmented));
        assert_eq!(seat.alloc(order(10), Movable), Ok(Frame(2048)));
        seat.free(Frame(3072), order(10)).unwrap();
        zone.set_label(run(3072, 512), Label::HighOrder).unwrap();
        assert_eq!(
            seat.alloc(order(10), Movable),
            Err(AllocError::Fragmented),
            "{fallback:?}"
        );
        zone.unisolate(run(1024, 512)).unwrap();
        assert_eq!(seat.alloc(order(10), Movable), Ok(Frame(1024)));
        zone.verify().unwrap();
    }
}

#[test]
fn what_is_isolated_is_not_free_for_anybody() {
    let layout = ZoneLayout::new(Frame(0), 1024);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.isolate(run(0, 512)).unwrap();
    zone.alloc_run(run(512, 512), Movable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for order in [order(0), order(9), order(10)] {
        assert_eq!(seat.alloc(order, Movable), Err(AllocError::Exhausted));
    }
    let found = zone.alloc_contiguous(1, 1, Movable);
    assert_eq!(found, Err(AllocError::Exhausted));
}

#[test]
fn whole_pageblocks_go_by_the_policys_ranking_and_not_by_address() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.set_label(run(512 * 3, 512), Label::Contiguous)
        .unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for expected in [2, 1, 0, 3] {
        let found = seat.alloc(order(9), Movable).unwrap();
        assert_eq!(found, Frame(512 * expected), "lent pageblocks last");
    }
}

#[test]
fn many_blocks_are_taken_and_freed_at_once_as_far_as_it_goes() {
    let layout = ZoneLayout::new(Frame(0), 64);
    let layout = layout.with_orders(order(4), order(5));
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut frames = [Frame(!0); 10];
    assert_eq!(seat.alloc_bulk(order(3), Movable, &mut frames[..6]), Ok(6));
    assert!(frames[..6].iter().all(|frame| frame.0 < 64));
    assert_eq!(frames[6], Frame(!0));
    assert_eq!(seat.alloc_bulk(order(3), Movable, &mut frames[6..]), Ok(2));
    assert_eq!(
        seat.alloc_bulk(order(3), Movable, &mut [Frame(0); 2]),
        Err(AllocError::Exhausted)
    );
    assert_eq!(seat.alloc_bulk(order(3), Movable, &mut []), Ok(0));
    let twice = [frames[0], frames[1], frames[0], frames[2]];
    assert_eq!(
        seat.free_bulk(order(3), &twice),
        Err((2, FreeError::AlreadyFree(frames[0])))
    );
    assert_eq!(seat.free_bulk(order(3), &frames[2..8]), Ok(()));
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 64);
}

#[test]
fn frames_are_freed_by_any_run_over_allocations_and_a_wrong_one_changes_nothing() {
    let layout = ZoneLayout::new(Frame(0), 2048);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    for (start, orders) in [(64, 3), (72, 1), (74, 0), (76, 2), (512, 9)] {
        zone.alloc_at(Frame(start), order(orders), Unmovable)
            .unwrap();
    }
    let free = |zone: &Zone<_>| {
        zone.drain();
        zone.verify().unwrap();
        zone.stats().nr_free_pages
    };
    let before = free(&zone);
    // Frame 75 is not allocated, and nothing before it is freed either.
    assert_eq!(
        seat.free_frames(run(70, 8)),
        Err(FreeError::AlreadyFree(Frame(75)))
    );
    assert_eq!(
        seat.free_frames(run(1024, 1)),
        Err(FreeError::AlreadyFree(Frame(1024)))
    );
    assert_eq!(
        seat.free_frames(run(1020, 1100)),
        Err(FreeError::AlreadyFree(Frame(1024)))
    );
    assert_eq!(
        seat.free_frames(run(5000, 2)),
        Err(FreeError::Outside(Frame(5000)))
    );
    assert_eq!(free(&zone), before);
    seat.free_frames(run(9, 0)).unwrap();
    // The end of one, two whole ones.
    seat.free_frames(run(67, 8)).unwrap();
    assert_eq!(free(&zone), before + 8);
    // The middle of one: the test frees the rest by another run over it.
    seat.free_frames(run(513, 100)).unwrap();
    assert_eq!(free(&zone), before + 108);
    assert_eq!(
        seat.free_frames(run(512, 2)),
        Err(FreeError::AlreadyFree(Frame(513)))
    );
    for rest in [run(64, 3), run(76, 4), run(512, 1), run(613, 411)] {
        seat.free_frames(rest).unwrap();
    }
    assert_eq!(free(&zone), 2048);
}
