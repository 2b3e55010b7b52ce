//! Frees of blocks one by one, or a word at a time, and the frees that are refused.

use super::*;
use crate::frame::pageblock::Tag;
use crate::platform::FramePlatform;
use crate::stats::Broken;

/// Fills memory with small blocks and gives some back, one at a time.
fn one_by_one<P: FramePlatform>(pageblock: u8, nonmovable: usize, platform: P) {
    let layout = ZoneLayout::new(Frame(0), 2048).with_orders(order(pageblock), order(10));
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &caching(100), &mut memory, platform).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut random = Random::new(u64::from(pageblock));
    let mut live = Vec::new();
    for step in 0..4000 {
        let fills = step % 1000 < 500;
        if fills || live.is_empty() {
            let size = [0, 0, 0, 1, 2, 3, 4, 5][random.index(8)];
            let mobility = if random.index(100) < nonmovable {
                Unmovable
            } else {
                Movable
            };
            if let Some(frame) = seat.try_alloc(order(size), mobility) {
                live.push((frame, order(size)));
            }
        } else {
            let (frame, order) = live.swap_remove(random.index(live.len()));
            seat.free(frame, order).unwrap();
            seat.words.drain(&zone);
            if step % 2 == 0 {
                zone.verify().unwrap();
            }
        }
    }
    for (frame, order) in live {
        seat.free(frame, order).unwrap();
        seat.words.drain(&zone);
    }
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 2048);
}

#[test]
fn f5_blocks_that_are_given_back_one_by_one_keep_the_index_exact() {
    for pageblock in [6, 9, 10] {
        one_by_one(pageblock, 0, SingleThread::new());
        one_by_one(pageblock, 20, ());
    }
}

/// Puts `frames` into the seat's cache, as two frees of one block at the same moment could, and
/// drains it: each is counted, and changes nothing.
fn refused(taken: &[u64], frames: &[u64], mobility: Mobility) {
    let layout = ZoneLayout::new(Frame(0), 1024);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory);
    let seat = zone.seat(CpuId(0)).unwrap();
    for &frame in taken {
        zone.alloc_at(Frame(frame), order(0), Movable).unwrap();
    }
    let before = zone.recount();
    let tags: Vec<_> = frames.iter().map(|&at| zone.tag(at as usize)).collect();
    for &frame in frames {
        zone.set_tag(frame as usize, Tag::cached(0, order(0), mobility));
        seat.words.push(mobility, 0, frame as usize);
    }
    seat.words.drain(&zone);
    assert_eq!(zone.stats().bad_frees, frames.len() as u64);
    for (&frame, tag) in frames.iter().zip(tags) {
        zone.set_tag(frame as usize, tag);
    }
    // That it happened is all that is wrong.
    let broken = Broken {
        invariant: "F7",
        at: 0,
    };
    assert_eq!(zone.verify(), Err(broken));
    assert_eq!(zone.recount(), before);
}

#[test]
fn f7_what_is_free_already_is_not_given_back_again() {
    let others: Vec<u64> = (0..64).collect();
    // One in a word with others that are free, one that is the only free one, two, the only two,
    // and all of a word.
    refused(&[3, 4, 70], &[5], Movable);
    refused(&others[..63], &[63], Movable);
    refused(&[3, 4, 70], &[5, 9], Movable);
    refused(&others[2..], &[0, 1], Movable);
    refused(&[70], &others, Movable);
}

#[test]
fn f7_what_is_not_of_that_mobility_is_not_given_back() {
    refused(&[3, 4, 70], &[3], Unmovable);
    refused(&[3, 4, 70], &[3, 4], Unmovable);
    refused(&[3, 4, 70], &[4, 70], Reclaimable);
}

#[test]
fn of_two_blocks_of_a_word_the_one_that_is_not_free_is_given_back() {
    let layout = ZoneLayout::new(Frame(0), 1024);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory);
    let seat = zone.seat(CpuId(0)).unwrap();
    for frame in [67, 68] {
        zone.alloc_at(Frame(frame), order(0), Movable).unwrap();
    }
    for frame in [68, 73] {
        zone.set_tag(frame, Tag::cached(0, order(0), Movable));
        seat.words.push(Movable, 0, frame);
    }
    seat.words.drain(&zone);
    assert_eq!(zone.stats().bad_frees, 1);
    assert_eq!(zone.recount().free, 1023);
    assert_eq!(zone.free_in_pageblocks(), 1023);
    assert!(zone.is_free(Frame(68)) && zone.is_free(Frame(73)));
}

#[test]
fn a_pageblock_that_is_lent_or_isolated_stays_so_when_it_is_given_back_whole() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for mobility in [Movable, Reclaimable] {
        zone.alloc_at(Frame(512), order(9), mobility).unwrap();
        zone.alloc_at(Frame(1024), order(9), mobility).unwrap();
        zone.set_label(run(512, 512), Label::Contiguous).unwrap();
        zone.isolate(run(1024, 512)).unwrap();
        for start in [512, 1024] {
            seat.free(Frame(start), order(9)).unwrap();
        }
        assert_eq!(zone.meta(1).label(), Label::Contiguous);
        assert!(zone.meta(2).is_isolated());
        zone.verify().unwrap();
        zone.unisolate(run(1024, 512)).unwrap();
        zone.set_label(run(512, 512), Label::Of(Movable)).unwrap();
        zone.verify().unwrap();
    }
}

#[test]
fn a_full_pageblock_that_is_not_one_block_is_not_given_back_whole() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let seat = zone.seat(CpuId(0)).unwrap();
    for start in [512, 768] {
        zone.alloc_at(Frame(start), order(8), Movable).unwrap();
    }
    zone.alloc_at(Frame(1024), order(9), Movable).unwrap();
    // One CPU has freed it meanwhile, and another one has a part of it.
    assert_eq!(zone.meta(1), zone.meta(2));
    assert_eq!(zone.give_whole(seat.words.counters(), 512, Movable), None);
    assert_eq!(zone.pageblock(1).free, 0);
    zone.verify().unwrap();
    assert_eq!(
        zone.give_whole(seat.words.counters(), 1024, Movable),
        Some(())
    );
    assert_eq!(zone.pageblock(2).free, 512);
}

#[test]
fn f5_the_second_half_of_a_pageblocks_words_alone_can_change() {
    let layout = ZoneLayout::new(Frame(0), 1024).with_orders(order(10), order(10));
    let mut memory = memory(&layout);
    let config = Config {
        cache_permille: 0,
        ..Config::default()
    };
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // Every second frame is taken, but for the last: all orders are equal when it is, too.
    for frame in (1..1023).step_by(2) {
        zone.alloc_at(Frame(frame), order(0), Movable).unwrap();
    }
    for _ in 0..2 {
        zone.alloc_at(Frame(1023), order(0), Movable).unwrap();
        zone.verify().unwrap();
        seat.free(Frame(1023), order(0)).unwrap();
        zone.verify().unwrap();
    }
}

#[test]
fn of_a_block_that_reaches_out_only_the_frames_asked_for_are_freed() {
    for origin in [0, 4096] {
        let layout = ZoneLayout::new(Frame(origin), 1024);
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &Config::default(), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        for start in [origin, origin + 8] {
            zone.alloc_at(Frame(start), order(3), Movable).unwrap();
            seat.free_frames(run(start, 3)).unwrap();
            zone.drain();
            zone.verify().unwrap();
            assert_eq!(zone.recount().free, 1024 - 5);
            seat.free_frames(run(start + 3, 5)).unwrap();
            zone.drain();
            assert_eq!(zone.recount().free, 1024);
        }
    }
}

#[test]
fn f1_cached_blocks_of_pageblocks_64_apart_each_go_back_to_their_own() {
    let layout = ZoneLayout::new(Frame(0), 64 * 130).with_orders(order(6), order(8));
    let mut memory = memory(&layout);
    let (far, further) = (64 * 64, 64 * 128);
    let frames = [
        3,
        far + 7,
        11,
        further + 9,
        12,
        far + 8,
        13,
        further + 10,
        14,
    ];
    // A few are looked at where they lie, and more are in chains.
    for count in [3, 4, 5, 9] {
        let zone = full_zone(&layout, &caching(100), &mut memory);
        let seat = zone.seat(CpuId(0)).unwrap();
        for &frame in &frames[..count] {
            zone.alloc_at(Frame(frame), order(0), Movable).unwrap();
            zone.set_tag(frame as usize, Tag::cached(0, order(0), Movable));
            seat.words.push(Movable, 0, frame as usize);
            seat.words.counters().pgfree.add(1);
        }
        seat.words.drain(&zone);
        assert_eq!(zone.recount().free, 64 * 130, "{count}");
        zone.verify().unwrap();
    }
}

/// A cache drained of neighbours, upward and downward, over two pageblocks of which another CPU may hold one, with a
/// frame that another seat has.
#[test]
fn neighbours_go_back_word_by_word_and_what_is_not_the_seats_stays() {
    let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(2);
    let mut memory = memory(&layout);
    for size in [0, 1, 2] {
        for backwards in [false, true] {
            for is_held in [false, true] {
                let zone = full_zone(&layout, &caching(100), &mut memory);
                // 512 is where the second pageblock begins.
                let (start, frames) = (512 - (8 << size), 16 << size);
                zone.alloc_run_at(run(start, frames), Reclaimable).unwrap();
                let mut seat = zone.seat(CpuId(0)).unwrap();
                for limit in 0..5 {
                    seat.words.set_limit(Reclaimable, limit, 64 >> limit);
                }
                let mut blocks: Vec<_> = (start..start + frames).step_by(1 << size).collect();
                if backwards {
                    blocks.reverse();
                }
                seat.split_all(run(start, frames), order(size));
                for &block in &blocks {
                    seat.free(Frame(block), order(size)).unwrap();
                }
                assert_eq!(seat.words.cached(Reclaimable, size.into()), 16);
                let stolen = (start + (3 << size)) as usize;
                zone.set_tag(stolen, Tag::cached(1, order(size), Reclaimable));
                let drain = || seat.words.drain(&zone);
                if is_held {
                    zone.while_locked(Frame(512), drain);
                    zone.while_locked(Frame(0), || ());
                } else {
                    drain();
                }
                assert_eq!(zone.stats().bad_frees, 1, "{size} {backwards} {is_held}");
                assert_eq!(zone.stats().remote_frees, if is_held { 8 } else { 0 });
                assert_eq!(zone.recount().free, 2048 - (1 << size));
                assert_eq!(zone.free_in_pageblocks(), 2048 - (1 << size));
            }
        }
    }
}

impl<P: FramePlatform> Seat<'_, '_, P> {
    /// Makes the allocations in `run`, of at least `into`, into allocations of that order.
    fn split_all(&mut self, run: Run, into: Order) {
        let mut at = run.start();
        while at < run.end() {
            let (order, _) = self
                .zone
                .tag(self.zone.offset_unchecked(at))
                .as_live()
                .unwrap();
            self.split(at, order, into).unwrap();
            at = Frame(at.0 + order.frames());
        }
    }
}
