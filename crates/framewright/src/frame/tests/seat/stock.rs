//! The stock of whole words behind the caches.

use super::*;
use crate::frame::pageblock::Tag;
use crate::frame::seat::cache_bit;
use crate::stats::Broken;

/// 20480 frames, of which one CPU may hold 2048: a stock of 8 words.
fn layout() -> ZoneLayout {
    ZoneLayout::new(Frame(0), 512 * 40).with_cpus(1)
}

#[test]
fn while_memory_abounds_a_refill_brings_a_pageblock_in_whole_words() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for nth in 0..512 {
        let frame = seat.alloc(order(0), Movable).unwrap();
        assert_eq!(frame, Frame(512 * 39 + nth));
        let cached = zone.recount().cached;
        assert_eq!(cached, 511 - nth);
        assert_eq!(zone.stats().nr_free_pages, 512 * 40 - nth - 1);
        if nth % 37 == 0 {
            zone.verify().unwrap();
        }
    }
    assert_eq!(seat.words.counters().looks.read(), 1);
    assert_eq!(seat.words.stock(Movable), None);
    for nth in 0..512 {
        seat.free(Frame(512 * 39 + nth), order(0)).unwrap();
    }
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 512 * 40);
}

#[test]
fn a_cache_that_gets_a_word_of_a_stock_is_in_use_before_it_has_a_limit() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    seat.alloc(order(2), Movable).unwrap();
    assert_eq!(seat.words.limit(Movable, 2), 0);
    assert_eq!(seat.words.cached(Movable, 2), 15);
    let used = cache_bit(Movable, 0) | cache_bit(Movable, 2);
    assert_eq!(seat.words.caches_in_use(), used);
    zone.verify().unwrap();
}

#[test]
fn a_stock_is_half_of_what_a_cpu_may_hold_and_none_where_a_word_does_not_fit() {
    for (permille, blocks, expected) in [
        (100, 64, 8),
        (45, 64, 7),
        (10, 64, 1),
        (6, 64, 0),
        (100, 63, 0),
    ] {
        let config = Config {
            cache_permille: permille,
            cache_blocks_max: blocks,
            ..Config::default()
        };
        let mut memory = memory(&layout());
        let zone = full_zone(&layout(), &config, &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        seat.alloc(order(0), Movable).unwrap();
        assert_eq!(seat.words.stock_limit(), expected, "{permille} permille");
        let stock = seat.words.stock(Movable).map_or(0, |(_, words)| words);
        assert_eq!(stock, expected.saturating_sub(1));
    }
}

#[test]
fn a_stock_goes_back_when_its_seat_may_hold_less_and_when_caches_are_drained() {
    let mut memory = memory(&layout());
    for drains in [false, true] {
        let zone = full_zone(&layout(), &caching(100), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        seat.alloc(order(0), Movable).unwrap();
        assert_eq!(seat.words.stock(Movable), Some((512 * 39 + 64, 7)));
        if drains {
            zone.drain();
        } else {
            // 10 % of the rest, shared by two caches, is less than a word.
            zone.alloc_run_at(run(0, 512 * 38), Unmovable).unwrap();
            seat.alloc(order(0), Movable).unwrap();
            seat.alloc(order(1), Unmovable).unwrap();
        }
        assert_eq!(seat.words.stock(Movable), None);
        zone.verify().unwrap();
        assert_eq!(zone.stats().remote_frees, 0);
    }
}

#[test]
fn a_stock_goes_back_into_a_pageblock_that_is_held() {
    let layout = layout().with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    let held = zone.try_lock(other.words.counters(), 39).unwrap();
    seat.words.give_stock(&zone, Movable);
    assert_eq!(zone.pageblock(39).free, 0);
    held.unlock();
    assert!(zone.pageblock(39).free >= 64);
    zone.verify().unwrap();
}

#[test]
fn f3_a_free_of_frames_in_a_stock_is_refused() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    for slot in [64, 65, 127, 511] {
        let frame = Frame(512 * 39 + slot);
        let refused = Err(FreeError::AlreadyFree(frame));
        assert_eq!(seat.free(frame, order(0)), refused);
        let refused = seat.free(frame, order(6));
        assert!(refused.is_err());
    }
    // A seat with an empty cache and a filled stock hands out nothing on the fast path.
    while seat.words.cached(Movable, 0) > 0 {
        seat.alloc(order(0), Movable).unwrap();
    }
    let frame = seat.alloc(order(0), Movable).unwrap();
    assert_eq!(frame, Frame(512 * 39 + 64));
    zone.verify().unwrap();
}

#[test]
fn f7_a_word_whose_first_frame_has_another_seats_tag_loses_that_frame_alone() {
    let layout = layout().with_cpus(2);
    let mut memory = memory(&layout);
    for gives_back in [false, true] {
        let zone = full_zone(&layout, &caching(100), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut frames = Vec::new();
        frames.push(seat.alloc(order(0), Movable).unwrap());
        let first = 512 * 39 + 64;
        zone.set_tag(first, Tag::cached(1, order(0), Movable));
        if gives_back {
            zone.drain();
        } else {
            for _ in 0..64 {
                frames.push(seat.alloc(order(0), Movable).unwrap());
            }
            assert!(!frames.contains(&Frame(first as u64)));
            assert_eq!(frames[64], Frame(first as u64 + 1));
            zone.drain();
        }
        assert_eq!(zone.stats().bad_frees, 1);
        // Its place stays taken, and every other one is free or handed out.
        let recount = zone.recount();
        assert_eq!(recount.free, 512 * 40 - frames.len() as u64 - 1);
        assert_eq!(recount.cached, 1);
        assert_eq!(zone.free_in_pageblocks(), recount.free);
        for frame in frames {
            seat.free(frame, order(0)).unwrap();
        }
        zone.drain();
        assert_eq!(zone.recount().free, 512 * 40 - 1);
    }
}

#[test]
fn a_batch_does_not_begin_a_word_that_a_stock_could_have() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    // One frame is left of the pageblock from which requests are served first.
    zone.alloc_run_at(run(512 * 39, 511), Movable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    assert_eq!(seat.alloc(order(0), Movable), Ok(Frame(512 * 40 - 1)));
    assert_eq!(zone.recount().cached, 0);
    assert_eq!(seat.alloc(order(0), Movable), Ok(Frame(512 * 38)));
    assert_eq!(zone.recount().cached, 511);
    zone.verify().unwrap();
}

#[test]
fn f3_each_word_of_a_stock_is_verified() {
    let layout = layout().with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    zone.verify().unwrap();
    let (start, words) = seat.words.stock(Movable).unwrap();
    let broken = Broken {
        invariant: "F3",
        at: 0,
    };
    for word in 0..words {
        let (ours, theirs) = (Tag::stocked(0, Movable), Tag::stocked(1, Movable));
        zone.set_tag(start + word * 64, theirs);
        assert_eq!(zone.verify(), Err(broken), "word {word}");
        zone.set_tag(start + word * 64, ours);
    }
    zone.verify().unwrap();
}

#[test]
fn a_stock_stays_as_long_as_it_is_not_more_than_its_seat_may_hold() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    assert_eq!(seat.words.stock_limit(), 8);
    // Another cache in use: the stocks may have 7 words now.
    seat.alloc(order(1), Unmovable).unwrap();
    assert_eq!(seat.words.stock_limit(), 7);
    let stock = seat.words.stock(Movable);
    assert_eq!(stock.map(|(_, words)| words), Some(7));
    zone.verify().unwrap();
}

#[test]
fn a_stock_becomes_smaller_with_memory_where_the_caches_do_not() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    assert_eq!(seat.words.stock_limit(), 8);
    zone.alloc_run_at(run(0, 14_000), Movable).unwrap();
    while seat.words.counters().looks.read() == 1 {
        seat.alloc(order(0), Movable).unwrap();
    }
    // 10 % of the 5968 frames that are left: half of that is 4 words and a part.
    assert_eq!(seat.words.stock_limit(), 4);
    assert_eq!(seat.words.limit(Movable, 0), 64);
}

#[test]
fn a_batch_goes_on_as_long_as_there_are_parts_of_words() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    for block in [38, 39] {
        zone.alloc_run_at(run(512 * block, 511), Movable).unwrap();
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    assert_eq!(zone.recount().cached, 1);
    zone.verify().unwrap();
}

/// Above order 4 a free goes to the pageblock. Half a word has no cache, so order 5 has no stock.
#[test]
fn a_stock_serves_every_order_but_5_with_one_look_for_a_pageblock() {
    for size in (0..9).filter(|size| *size != 5) {
        let mut memory = memory(&layout());
        let zone = full_zone(&layout(), &caching(100), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let blocks: Vec<_> = (0..512 >> size)
            .map(|nth| {
                let frame = seat.alloc(order(size), Movable).unwrap();
                assert_eq!(frame, Frame(512 * 39 + (nth << size)), "order {size}");
                assert_eq!(zone.recount().cached, 512 - ((nth + 1) << size));
                assert_eq!(zone.stats().nr_free_pages, 512 * 40 - ((nth + 1) << size));
                zone.verify().unwrap();
                frame
            })
            .collect();
        assert_eq!(seat.words.counters().looks.read(), 1);
        assert_eq!(zone.pageblock(39).free, 0);
        for frame in blocks {
            seat.free(frame, order(size)).unwrap();
        }
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, 512 * 40);
    }
}

#[test]
fn one_stock_serves_orders_in_turn_and_none_that_its_first_word_is_not_aligned_to() {
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let base = 512 * 39;
    let mut alloc = |size, expected| {
        assert_eq!(seat.alloc(order(size), Movable), Ok(Frame(expected)));
        zone.verify().unwrap();
        seat.words.stock(Movable).map_or(0, |(_, words)| words)
    };
    assert_eq!(alloc(3, base), 7);
    assert_eq!(alloc(0, base + 64), 6);
    assert_eq!(alloc(1, base + 128), 5);
    // Two words, from the fourth on, would not be aligned: order 7 has a pageblock of its own.
    assert_eq!(alloc(7, 512 * 38), 5);
    assert_eq!(alloc(5, 512 * 38 + 128), 5);
    assert_eq!(alloc(6, base + 192), 4);
    assert_eq!(alloc(7, base + 256), 2);
    // Four words are more than it has.
    assert_eq!(alloc(8, 512 * 38 + 256), 2);
    assert_eq!(alloc(4, base + 384), 1);
    // What the caches hold comes first.
    assert_eq!(alloc(3, base + 8), 1);
    assert_eq!(alloc(6, base + 448), 0);
    zone.drain();
    zone.verify().unwrap();
}

#[test]
fn a_stock_that_could_not_serve_the_request_does_not_begin() {
    // A stock of one word.
    let config = caching(10);
    let mut memory = memory(&layout());
    let zone = full_zone(&layout(), &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for size in [5, 7, 8] {
        seat.alloc(order(size), Movable).unwrap();
        assert_eq!(seat.words.stock(Movable), None, "order {size}");
        assert_eq!(zone.recount().cached, 0);
    }
    assert_eq!(seat.words.stock_limit(), 1);
    zone.verify().unwrap();
}

#[test]
fn f7_a_block_of_several_words_is_not_handed_out_if_another_seat_has_a_frame_of_it() {
    let layout = layout().with_cpus(2);
    let mut memory = memory(&layout);
    for (size, word) in [(3, 1), (6, 1), (7, 2), (7, 3), (8, 4), (8, 7)] {
        let zone = full_zone(&layout, &caching(100), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        // The block would begin behind these words.
        let before = word & !((order(size).frames() as usize / 64).max(1) - 1);
        let mut take_word = |_| seat.alloc(order(6), Movable).unwrap();
        let frames: Vec<_> = (0..before).map(&mut take_word).collect();
        let lost = 512 * 39 + word * 64;
        zone.set_tag(lost, Tag::cached(1, order(0), Movable));
        let block = seat.alloc(order(size), Movable).unwrap();
        let span = block.0 as usize..(block.0 + order(size).frames()) as usize;
        assert!(!span.contains(&lost), "order {size}");
        assert_eq!(zone.stats().bad_frees, 1);
        zone.drain();
        seat.free(block, order(size)).unwrap();
        for frame in frames {
            seat.free(frame, order(6)).unwrap();
        }
        zone.drain();
        assert_eq!(zone.recount().free, 512 * 40 - 1);
    }
}
