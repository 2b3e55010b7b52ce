//! Ranges: allocation at a place, memory that comes and goes, labels, isolation, many at once.

use super::*;
use crate::frame::AllocError;
use crate::units::RunError;

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
        zone.alloc_run_at(Run::new(Frame(64), 8).unwrap(), Movable),
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
    for fallback in Fallback::ALL {
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
fn a_zone_can_have_frames_enough_and_no_whole_pageblock_left() {
    let layout = ZoneLayout::new(Frame(0), 512 * 100);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let free = || (zone.free_in_pageblocks(), zone.free_pageblocks());
    assert_eq!(free(), (51_200, 100));
    for pageblock in 0..100 {
        zone.alloc_at(Frame(pageblock * 512 + 7), order(0), Movable)
            .unwrap();
    }
    assert_eq!(free(), (51_100, 0));
}

#[test]
fn isolation_counts_what_is_left_in_all_pageblocks_and_names_the_one_in_the_way() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.alloc_run_at(run(0, 10), Movable).unwrap();
    zone.alloc_run_at(run(20, 5), Unmovable).unwrap();
    zone.alloc_run_at(run(512, 7), Reclaimable).unwrap();
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
    for fallback in Fallback::ALL {
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
fn what_is_isolated_is_free_for_no_request() {
    let layout = ZoneLayout::new(Frame(0), 1024);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.isolate(run(0, 512)).unwrap();
    zone.alloc_run_at(run(512, 512), Movable).unwrap();
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
