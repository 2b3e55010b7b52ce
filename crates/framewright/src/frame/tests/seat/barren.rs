//! Requests that ask the index first, because a search has found nothing.

use super::*;
use crate::frame::wanted::WantedBlock;

fn is_barren(seat: &Seat<'_, '_, SingleThread>, size: u8, mobility: Mobility) -> bool {
    seat.is_barren(WantedBlock {
        order: order(size),
        mobility,
    })
}

#[test]
fn a_request_where_a_search_found_nothing_asks_the_index_and_sees_every_free() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut other = zone.seat(CpuId(1)).unwrap();
    // All of memory, so that every ninth block of 64 frames can go.
    let mut blocks = Vec::new();
    while let Some(frame) = seat.try_alloc(order(6), Movable) {
        blocks.push(frame);
    }
    assert_eq!(blocks.len(), 64);
    for (size, is_known) in [(0, false), (5, false), (6, true), (7, true), (8, true)] {
        assert_eq!(is_barren(&seat, size, Movable), is_known, "order {size}");
        assert!(!is_barren(&other, size, Movable), "its own searches");
    }
    for (nth, &frame) in blocks.iter().enumerate().step_by(9) {
        // Whichever CPU frees it.
        let freer = if nth % 2 == 0 { &mut seat } else { &mut other };
        freer.free(frame, order(6)).unwrap();
        assert!(is_barren(&seat, 7, Movable), "a block of half its size");
        assert!(!is_barren(&seat, 6, Movable));
        assert_eq!(seat.try_alloc(order(6), Movable), Some(frame));
        assert!(!seat.words.was_barren(order(6)), "it was found");
        assert_eq!(seat.try_alloc(order(6), Movable), None);
        assert!(is_barren(&seat, 6, Movable));
    }
    // Smaller requests never asked: they are searched for.
    seat.free(blocks[5], order(6)).unwrap();
    assert!(seat.try_alloc(order(0), Movable).is_some());
    assert!(is_barren(&seat, 6, Movable));
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
    for size in 3..9 {
        assert!(is_barren(&seat, size, Unmovable), "order {size}");
    }
    zone.add(run(1024, 512)).unwrap();
    for size in 3..9 {
        assert!(!is_barren(&seat, size, Unmovable), "order {size}");
    }
    assert!(seat.try_alloc(order(4), Unmovable).is_some());
    zone.verify().unwrap();
}

#[test]
fn a_request_where_a_look_found_nothing_sees_a_pageblock_that_comes_back_whole() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let [mut seat, mut other] = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    let whole = seat.try_alloc(order(9), Movable).unwrap();
    while seat.try_alloc(order(6), Movable).is_some() {}
    for _ in 0..2 {
        assert!(is_barren(&seat, 6, Movable), "looked at, and noted");
    }
    other.free(whole, order(9)).unwrap();
    assert!(!is_barren(&seat, 6, Movable));
    assert!(seat.try_alloc(order(6), Movable).is_some());
    zone.verify().unwrap();
}

#[test]
fn pageblocks_that_serve_other_requests_only_make_no_search() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(1);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    zone.set_label(run(512, 512), Label::Contiguous).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    while seat.try_alloc(order(6), Unmovable).is_some() {}
    assert!(is_barren(&seat, 6, Unmovable));
    assert!(!is_barren(&seat, 6, Movable));
    assert!(seat.try_alloc(order(6), Movable).is_some());
    zone.verify().unwrap();
}

#[test]
fn where_a_search_found_nothing_the_high_order_reserve_still_serves() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(1);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    zone.set_label(run(512, 512), Label::HighOrder).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    while seat.try_alloc(order(3), Unmovable).is_some() {}
    assert!(is_barren(&seat, 3, Unmovable));
    let block = seat.alloc_at_once(order(3), Unmovable).unwrap();
    assert!((512..1024).contains(&block.0), "{block:?}");
    assert!(seat.alloc_at_once(order(3), Movable).is_err());
    zone.verify().unwrap();
}

#[test]
fn what_a_cpu_has_cached_beyond_a_limit_that_fell_is_there_where_a_search_found_nothing() {
    let layout = ZoneLayout::new(Frame(0), 512 * 2).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory);
    let [mut seat, mut other] = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    let mut frames = Vec::new();
    while let Some(frame) = seat.try_alloc(Order::ZERO, Movable) {
        frames.push(frame);
    }
    assert!(seat.words.was_barren(Order::ZERO));
    let mine = frames.split_off(frames.len() - 400);
    for frame in frames {
        other.free(frame, Order::ZERO).unwrap();
    }
    let unmovable: Vec<Frame> = (0..20)
        .map(|_| seat.try_alloc(Order::ZERO, Unmovable).unwrap())
        .collect();
    while seat.try_alloc(Order::ZERO, Unmovable).is_some() {}
    assert!(seat.words.was_barren(Order::ZERO));
    for frame in mine {
        other.free(frame, Order::ZERO).unwrap();
    }
    for frame in unmovable {
        seat.free(frame, Order::ZERO).unwrap();
    }
    let cached = seat.words.cached(Unmovable, 0);
    assert!(cached > 0, "they wait in this CPU's cache");
    while other.try_alloc(Order::ZERO, Movable).is_some() {}
    assert!(is_barren(&seat, 0, Movable), "nothing is in a pageblock");
    assert!(seat.try_alloc(Order::ZERO, Movable).is_some());
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
    assert!(
        seat.words.cached(Movable, 0) > 0,
        "the last ones are cached"
    );
    let block = seat.alloc_at_once(order(10), Movable);
    assert_eq!(block, Ok(Frame(0)));
    zone.verify().unwrap();
}
