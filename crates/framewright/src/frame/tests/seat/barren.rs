//! Requests that ask the index first, because a search has found nothing.

use super::*;

#[test]
fn a_request_where_a_search_found_nothing_asks_the_index_and_sees_every_free() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut other = zone.seat(CpuId(1)).unwrap();
    // All of memory, so that every second block of 64 frames can go.
    let mut blocks = Vec::new();
    while let Some(frame) = seat.try_alloc(order(6), Movable) {
        blocks.push(frame);
    }
    assert_eq!(blocks.len(), 64);
    let looks = |seat: &Seat<'_, '_, SingleThread>| seat.words.counters().looks.read();
    for size in [6, 7, 8] {
        assert!(seat.words.was_barren(order(size)), "order {size}");
        assert!(!seat.words.was_barren(order(5)));
        let before = looks(&seat);
        assert_eq!(seat.try_alloc(order(size), Movable), None);
        assert_eq!(looks(&seat), before, "order {size}");
    }
    for (nth, &frame) in blocks.iter().enumerate().step_by(9) {
        // Whichever CPU frees it.
        let freer = if nth % 2 == 0 { &mut seat } else { &mut other };
        freer.free(frame, order(6)).unwrap();
        assert_eq!(seat.try_alloc(order(7), Movable), None);
        assert_eq!(seat.try_alloc(order(6), Movable), Some(frame));
        assert!(!seat.words.was_barren(order(6)));
        assert_eq!(seat.try_alloc(order(6), Movable), None);
        assert!(seat.words.was_barren(order(6)));
    }
    // Smaller requests never asked: they are searched for.
    seat.free(blocks[5], order(6)).unwrap();
    assert!(seat.alloc(order(0), Movable).is_ok());
    assert_eq!(seat.try_alloc(order(6), Movable), None);
    zone.verify().unwrap();
}

#[test]
fn a_request_where_a_search_found_nothing_sees_memory_that_is_added() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8).with_cpus(1);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    zone.add(run(0, 512)).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    while seat.try_alloc(order(3), Unmovable).is_some() {}
    assert!(seat.words.was_barren(order(3)));
    assert_eq!(seat.try_alloc(order(4), Movable), None);
    zone.add(run(1024, 512)).unwrap();
    assert!(seat.try_alloc(order(4), Movable).is_some());
    zone.verify().unwrap();
}

#[test]
fn rows_for_other_requests_make_a_search_and_no_block() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(1);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    zone.set_label(run(512, 512), Label::Contiguous).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    while seat.try_alloc(order(6), Unmovable).is_some() {}
    assert!(seat.words.was_barren(order(6)));
    assert!(zone.index.may_have(6));
    assert_eq!(seat.try_alloc(order(6), Unmovable), None);
    assert!(seat.try_alloc(order(6), Movable).is_some());
    zone.verify().unwrap();
}

#[test]
fn a_block_larger_than_a_pageblock_is_there_as_soon_as_caches_went_back() {
    let layout = ZoneLayout::new(Frame(0), 512 * 2).with_cpus(1);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = seat.try_alloc(Order::ZERO, Movable) {
        frames.push(frame);
    }
    assert_eq!(frames.len(), 1024);
    assert!(seat.words.was_barren(Order::ZERO));
    for frame in frames {
        seat.free(frame, Order::ZERO).unwrap();
    }
    assert!(seat.words.caches_in_use() != 0, "the last ones are cached");
    assert_eq!(seat.try_alloc(order(10), Movable), None);
    let block = seat.alloc_at_once(order(10), Movable);
    assert_eq!(block, Ok(Frame(0)));
    zone.verify().unwrap();
}
