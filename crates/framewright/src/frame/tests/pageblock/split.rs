//! Allocations made into smaller ones, and parts of allocations freed without their order.

use super::*;

fn layout() -> ZoneLayout {
    ZoneLayout::new(Frame(512 * 3), 512 * 16).with_cpus(2)
}

#[test]
fn an_allocation_is_split_into_allocations_that_are_freed_by_themselves_in_any_order() {
    let all = 512 * 16;
    for (whole, into) in [
        (1, 0),
        (4, 0),
        (4, 3),
        (6, 2),
        (9, 0),
        (9, 8),
        (10, 0),
        (10, 9),
    ] {
        let mut memory = memory(&layout());
        let zone = full_zone(&layout(), &Config::default(), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let frame = seat.alloc(order(whole), Reclaimable).unwrap();
        seat.split(frame, order(whole), order(into)).unwrap();
        zone.verify().unwrap();
        assert_eq!(zone.stats().nr_free_pages, all - (1 << whole));
        // As a whole it is no longer there.
        assert!(seat.free(frame, order(whole)).is_err());
        let mut other = zone.seat(CpuId(1)).unwrap();
        let pieces: Vec<_> = (frame.0..frame.0 + (1 << whole))
            .step_by(1 << into)
            .collect();
        for (nth, &piece) in pieces.iter().rev().enumerate() {
            let seat = if nth % 2 == 0 { &mut seat } else { &mut other };
            seat.free(Frame(piece), order(into)).unwrap();
            assert!(seat.free(Frame(piece), order(into)).is_err());
        }
        drop((seat, other));
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, all);
        assert_eq!(zone.stats().pgfree, 1 << whole);
    }
}

#[test]
fn singles_lie_side_by_side_and_each_is_freed_by_itself() {
    let all = 512 * 16;
    for frames in [
        1, 2, 3, 8, 16, 17, 32, 64, 65, 100, 511, 512, 513, 1000, 1024,
    ] {
        let mut memory = memory(&layout());
        let zone = full_zone(&layout(), &Config::default(), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let run = seat.try_alloc_singles(frames, 4, Movable).unwrap();
        assert_eq!((run.frames(), run.start().0 % 4), (frames, 0));
        zone.verify().unwrap();
        let stats = zone.stats();
        assert_eq!(stats.nr_free_pages, all - frames);
        assert_eq!(stats.drains, 0);
        for at in (run.start().0..run.end().0).rev() {
            seat.free(Frame(at), Order::ZERO).unwrap();
            assert!(seat.free(Frame(at), Order::ZERO).is_err());
        }
        drop(seat);
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, all);
    }
}

#[test]
fn singles_that_are_not_there_at_once_are_not_counted() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    assert_eq!(seat.try_alloc_singles(0, 1, Movable), None);
    assert_eq!(seat.try_alloc_singles(3, 3, Movable), None);
    assert_eq!(seat.try_alloc_singles(1 << 40, 1, Movable), None);
    assert_eq!(seat.try_alloc_singles(1, 1 << 40, Movable), None);
    let mut taken = Vec::new();
    // The first pageblock and the last have no neighbour with which they were a block.
    for (frames, count) in [(1024, 7), (512, 2)] {
        for _ in 0..count {
            taken.push(seat.try_alloc_singles(frames, 1, Unmovable).unwrap());
        }
        assert_eq!(seat.try_alloc_singles(frames, 1, Unmovable), None);
    }
    assert_eq!(seat.try_alloc_singles(2, 1, Movable), None);
    let stats = zone.stats();
    assert_eq!((stats.drains, stats.fragmented.iter().sum::<u64>()), (0, 0));
    assert_eq!(stats.exhausted.iter().sum::<u64>(), 0);
    for run in taken {
        seat.free_frames(run).unwrap();
    }
    zone.verify().unwrap();
}

#[test]
fn the_short_ways_take_and_fill_the_cache_alone() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    assert_eq!(seat.alloc_cached(Order::ZERO, Movable), None);
    let frame = seat.alloc(Order::ZERO, Movable).unwrap();
    // The cache was filled behind the first one, and has room for one more.
    let second = seat.alloc_cached(Order::ZERO, Movable).unwrap();
    assert!(seat.free_cached(second, Order::ZERO));
    assert!(!seat.free_cached(second, Order::ZERO));
    assert!(!seat.free_cached(frame, order(1)));
    assert!(!seat.free_cached(Frame(1), Order::ZERO));
    let large = seat.alloc(order(9), Movable).unwrap();
    assert!(!seat.free_cached(large, order(9)));
    // What the fast path refused is as before, and was not counted.
    assert_eq!(zone.stats().bad_frees, 0);
    seat.free(large, order(9)).unwrap();
    seat.free(frame, Order::ZERO).unwrap();
    drop(seat);
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, 512 * 16);
}

#[test]
fn a_split_of_what_is_not_there_or_is_smaller_changes_nothing() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let frame = seat.alloc(order(3), Movable).unwrap();
    let wrong = Err(FreeError::WrongOrder {
        frame,
        allocated: order(3),
    });
    assert_eq!(seat.split(frame, order(2), order(0)), wrong);
    assert_eq!(seat.split(frame, order(3), order(4)), wrong);
    assert_eq!(seat.split(frame, order(4), order(3)), wrong);
    let inside = Frame(frame.0 + 2);
    let refused = Err(FreeError::NotTheFirst(inside));
    assert_eq!(seat.split(inside, order(1), order(0)), refused);
    let outside = Frame(512);
    let refused = Err(FreeError::Outside(outside));
    assert_eq!(seat.split(outside, order(1), order(0)), refused);
    assert_eq!(seat.split(frame, order(3), order(3)), Ok(()));
    seat.free(frame, order(3)).unwrap();
    assert!(seat.split(frame, order(3), order(0)).is_err());
    zone.verify().unwrap();
    assert_eq!(zone.stats().bad_frees, 6);
}

#[test]
fn frames_that_do_not_exist_are_told_from_those_outside_of_the_zone() {
    let mut memory = memory(&layout());
    let zone = Zone::new(
        &layout(),
        &Config::default(),
        &mut memory,
        SingleThread::new(),
    )
    .unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let (absent, outside) = (Frame(512 * 3), Frame(512 * 3 - 1));
    assert_eq!(seat.free(absent, order(0)), Err(FreeError::Absent(absent)));
    assert_eq!(
        seat.free_part(absent, order(0)),
        Err(FreeError::Absent(absent))
    );
    assert_eq!(
        seat.free(outside, order(0)),
        Err(FreeError::Outside(outside))
    );
    zone.add(run(absent.0, 1)).unwrap();
    assert_eq!(
        seat.free(absent, order(0)),
        Err(FreeError::AlreadyFree(absent))
    );
}

#[test]
fn a_frame_is_freed_whatever_allocation_it_belongs_to_and_none_of_these_frees_counts_as_bad() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for size in [0, 1, 4, 5, 9, 10] {
        let frame = seat.alloc(order(size), Unmovable).unwrap();
        for frame in (frame.0..frame.0 + (1 << size)).map(Frame) {
            seat.free_part(frame, Order::ZERO).unwrap();
            assert!(seat.free_part(frame, Order::ZERO).is_err());
        }
        zone.verify().unwrap();
        assert_eq!(zone.stats().nr_free_pages, 512 * 16);
    }
    // The second frees alone.
    assert_eq!(
        zone.stats().bad_frees,
        [0, 1, 4, 5, 9, 10].map(|size| 1 << size).iter().sum()
    );
}

#[test]
fn a_whole_allocation_freed_as_a_part_goes_into_the_cache_without_a_lock() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let frame = seat.alloc(order(2), Unmovable).unwrap();
    zone.while_locked(frame, || seat.free_part(frame, order(2)).unwrap());
    assert_eq!(zone.stats().remote_frees, 0);
    assert_eq!(seat.alloc(order(2), Unmovable), Ok(frame));
}
