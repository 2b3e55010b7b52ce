//! The caches of a seat: how much they hold, what they hold, and what they must not.

use super::*;

fn with_caches(permille: u16, blocks: u16) -> Config {
    Config {
        cache_permille: permille,
        cache_blocks_max: blocks,
        ..Config::default()
    }
}

fn limits<P: crate::platform::FramePlatform>(seat: &Seat<'_, '_, P>) -> [usize; 5] {
    [0, 1, 2, 3, 4].map(|order| seat.words.limit(Movable, order))
}

#[test]
fn the_only_cache_in_use_may_hold_its_cpus_share_of_the_free_frames() {
    // 20480 frames.
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    for (permille, blocks, expected) in [
        (0, 64, 0),
        (1, 64, 20),
        (2, 64, 40),
        (5, 64, 64),
        (100, 64, 64),
        (100, 10, 10),
        (100, 0, 0),
    ] {
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &with_caches(permille, blocks), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let frame = seat.alloc(order(0), Movable).unwrap();
        assert_eq!(limits(&seat), [expected, 0, 0, 0, 0], "{permille} permille");
        assert_eq!(seat.words.limit(Unmovable, 0), 0);
        seat.free(frame, order(0)).unwrap();
        let cached = seat.words.cached(Movable, 0);
        assert_eq!(cached > 0, expected > 0);
        assert!(cached <= expected);
    }
}

#[test]
fn caches_in_use_share_and_one_above_its_part_gives_back() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(1, 64), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut live = Vec::new();
    for _ in 0..20 {
        live.push(seat.alloc(order(0), Movable).unwrap());
    }
    assert_eq!(limits(&seat), [20, 0, 0, 0, 0]);
    for frame in live.drain(..) {
        seat.free(frame, order(0)).unwrap();
    }
    let cached = |mobility, order| seat.words.cached(mobility, order);
    assert_eq!(cached(Movable, 0), 20);
    // A second one: 10 frames each; a cache that holds more keeps half of that.
    seat.alloc(order(1), Unmovable).unwrap();
    assert_eq!(limits(&seat), [10, 0, 0, 0, 0]);
    assert_eq!(seat.words.limit(Unmovable, 1), 5);
    let cached = |mobility, order| seat.words.cached(mobility, order);
    assert_eq!((cached(Movable, 0), cached(Unmovable, 1)), (5, 2));
    // A third: the two others are empty by now, and count no longer.
    for _ in 0..5 {
        seat.alloc(order(0), Movable).unwrap();
    }
    for _ in 0..2 {
        seat.alloc(order(1), Unmovable).unwrap();
    }
    seat.alloc(order(3), Reclaimable).unwrap();
    assert_eq!(limits(&seat), [0; 5]);
    assert_eq!(seat.words.limit(Unmovable, 1), 0);
    assert_eq!(seat.words.limit(Reclaimable, 3), 2);
    zone.verify().unwrap();
}

#[test]
fn no_block_of_several_pageblocks_is_cached() {
    let layout = ZoneLayout::new(Frame(0), 4096).with_orders(order(1), order(4));
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(100, 64), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for size in 0..5 {
        let frame = seat.alloc(order(size), Movable).unwrap();
        seat.free(frame, order(size)).unwrap();
        let expected = [64, 32, 0, 0, 0][usize::from(size)];
        assert_eq!(limits(&seat)[usize::from(size)], expected);
        zone.drain();
    }
}

#[test]
fn below_the_low_watermark_the_caches_hold_a_quarter() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(100, 64), &mut memory);
    let low = zone.watermarks().low;
    assert_eq!(low, 357);
    zone.alloc_run_at(run(0, 20_480 - low), Movable).unwrap();
    assert!(!zone.is_low(), "at the watermark");
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(1), Movable).unwrap();
    assert_eq!(limits(&seat), [0, 17, 0, 0, 0], "at the watermark");
    zone.drain();
    seat.alloc(order(0), Movable).unwrap();
    assert_eq!(limits(&seat), [8, 0, 0, 0, 0], "below it");
    assert!(zone.is_low());
}

#[test]
fn many_cpus_share_the_limit_and_look_at_it_every_few_times() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40).with_cpus(8);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(20, 64), &mut memory);
    let mut seat = zone.seat(CpuId(3)).unwrap();
    seat.alloc(order(0), Movable).unwrap();
    assert_eq!(limits(&seat), [51, 0, 0, 0, 0]);
    zone.alloc_run_at(run(0, 19_000), Unmovable).unwrap();
    let fetch = |seat: &mut Seat<'_, '_, _>| {
        zone.drain();
        seat.alloc(order(0), Movable).unwrap();
        limits(seat)
    };
    assert_eq!(fetch(&mut seat), [51, 0, 0, 0, 0], "not every time");
    assert_eq!(fetch(&mut seat), [3, 0, 0, 0, 0], "every second time");
    // A cache with limit zero looks every time.
    zone.drain();
    seat.alloc(order(1), Movable).unwrap();
    assert_eq!(limits(&seat)[1], 1);
}

#[test]
fn the_youngest_is_handed_out_first_and_the_older_half_of_a_full_cache_goes_back() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(5, 8), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut frames = Vec::new();
    for _ in 0..12 {
        frames.push(seat.alloc(order(0), Movable).unwrap());
    }
    assert_eq!(limits(&seat)[0], 8);
    let cached = || zone.recount().cached;
    assert_eq!(cached(), 0, "three batches of four");
    for (nth, &frame) in frames[..8].iter().enumerate() {
        seat.free(frame, order(0)).unwrap();
        assert_eq!(cached(), nth as u64 + 1);
    }
    seat.free(frames[8], order(0)).unwrap();
    assert_eq!(cached(), 5, "four of eight, and the one that found it full");
    for &expected in frames[4..9].iter().rev() {
        assert_eq!(seat.alloc(order(0), Movable).unwrap(), expected);
    }
    assert_eq!(cached(), 0);
    zone.verify().unwrap();
}

#[test]
fn f3_all_caches_can_be_full_at_once_and_keep_apart() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(60, 64), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut live = Vec::new();
    for size in 0..5 {
        for mobility in Mobility::ALL {
            for _ in 0..128 >> size {
                let frame = seat.alloc(order(size), mobility).unwrap();
                live.push((frame, order(size), mobility));
            }
        }
    }
    live.retain(|&(frame, order, mobility)| {
        let is_full = seat.words.cached(mobility, order.index()) == 64 >> order.index();
        if !is_full {
            seat.free(frame, order).unwrap();
        }
        is_full
    });
    assert_eq!(zone.recount().cached, 15 * 64);
    // Order 5 has no cache.
    let large = seat.alloc(order(5), Movable).unwrap();
    seat.free(large, order(5)).unwrap();
    zone.verify().unwrap();
    let before = zone.stats().pgalloc;
    let mut again = Vec::new();
    for size in 0..5 {
        for mobility in Mobility::ALL {
            for _ in 0..64 >> size {
                again.push((seat.alloc(order(size), mobility).unwrap(), order(size)));
            }
        }
    }
    assert_eq!(zone.recount().cached, 0);
    let after = zone.stats().pgalloc;
    assert_eq!(core::array::from_fn(|m| after[m] - before[m]), [5 * 64; 3]);
    for (frame, order) in live.iter().map(|&(f, o, _)| (f, o)).chain(again) {
        seat.free(frame, order).unwrap();
    }
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 512 * 40);
}

#[test]
fn a_block_that_serves_only_some_requests_is_not_cached() {
    let layout = ZoneLayout::new(Frame(0), 512 * 200);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(100, 64), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // Sets the limits.
    let frame = seat.alloc(order(0), Movable).unwrap();
    seat.free(frame, order(0)).unwrap();
    let is_cached = |seat: &mut Seat<'_, '_, _>, frame: Frame, mobility| {
        zone.drain();
        zone.alloc_at(frame, order(0), mobility).unwrap();
        seat.free(frame, order(0)).unwrap();
        let cached = zone.recount().cached;
        assert!(cached <= 1);
        cached == 1
    };
    assert!(!seat.words.is_restricted());
    assert!(is_cached(&mut seat, Frame(5), Movable));
    zone.set_label(run(0, 512), Label::Contiguous).unwrap();
    assert!(seat.words.is_restricted());
    assert!(is_cached(&mut seat, Frame(5), Movable));
    assert!(!is_cached(&mut seat, Frame(5), Unmovable));
    assert!(is_cached(&mut seat, Frame(513), Unmovable));
    zone.set_label(run(0, 512), Label::HighOrder).unwrap();
    assert!(!is_cached(&mut seat, Frame(5), Movable));
    assert!(!is_cached(&mut seat, Frame(5), Unmovable));
    zone.set_label(run(0, 512), Label::Of(Movable)).unwrap();
    assert!(!seat.words.is_restricted());
    zone.drain();
    zone.alloc_at(Frame(5), order(0), Movable).unwrap();
    zone.isolate(run(0, 512)).unwrap();
    assert!(seat.words.is_restricted());
    seat.free(Frame(5), order(0)).unwrap();
    assert_eq!(zone.recount().cached, 0);
    zone.unisolate(run(0, 512)).unwrap();
    assert!(!seat.words.is_restricted());
    zone.verify().unwrap();
}

#[test]
fn a_block_that_is_there_at_once_is_had_without_stopping_a_cpu() {
    for permille in [0, 100] {
        let layout = ZoneLayout::new(Frame(0), 512 * 8).with_cpus(2);
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &with_caches(permille, 64), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut taken = 0;
        for size in [10, 9, 3, 4, 0] {
            taken += seat
                .try_alloc(order(size), Movable)
                .map_or(0, |_| 1 << size);
        }
        assert_eq!(taken, 1024 + 512 + 16 + 8 + 1);
        while seat.try_alloc(order(3), Movable).is_some() {
            taken += 8;
        }
        while seat.try_alloc(order(0), Movable).is_some() {
            taken += 1;
        }
        assert_eq!(taken, 512 * 8);
        assert_eq!(zone.stats().drains, 0);
        zone.verify().unwrap();
    }
}

#[test]
fn each_cpu_stays_in_the_pageblock_that_it_works_in_while_large_blocks_abound() {
    let layout = ZoneLayout::new(Frame(0), 512 * 16).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(0, 0), &mut memory);
    let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    let mut of = [Vec::new(), Vec::new()];
    for _ in 0..600 {
        for (seat, of) in seats.iter_mut().zip(&mut of) {
            let id = seat.alloc(order(0), Movable).unwrap().0 as usize / 512;
            if of.last() != Some(&id) {
                of.push(id);
            }
            assert_eq!(zone.worker_of(id), Some(seat.words.number));
            assert_eq!(seat.words.current(), Some(id));
        }
    }
    assert_eq!(
        of,
        [[15, 13], [14, 12]],
        "a new one when the old one is full"
    );
    assert_eq!(zone.worker_of(15), None);
    assert_eq!(zone.worker_of(14), None);
    // Unmovable blocks stay with their kind instead, and large blocks reserve nothing.
    for seat in &mut seats {
        let frame = seat.alloc(order(0), Unmovable).unwrap();
        assert_eq!(frame.0 / 512, 0);
        seat.alloc(order(4), Movable).unwrap();
    }
    assert_eq!(zone.worker_of(0), None);
    assert_eq!(seats[0].words.current(), Some(13));
}

#[test]
fn a_batch_ends_where_the_next_block_would_be_a_fallback() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    for fallback in Fallback::labelled() {
        let config = Config {
            fallback,
            ..with_caches(100, 64)
        };
        let zone = full_zone(&layout, &config, &mut memory);
        zone.set_label(run(0, 512), Label::Of(Unmovable)).unwrap();
        zone.alloc_run_at(run(0, 510), Unmovable).unwrap();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        for _ in 0..2 {
            assert!(seat.alloc(order(0), Unmovable).unwrap().0 < 512);
        }
        assert_eq!(zone.recount().cached, 0, "a batch of 32 found two");
        assert_eq!(zone.stats().relabels, [[0; 3]; 3]);
        assert!(seat.alloc(order(0), Unmovable).unwrap().0 >= 512);
        let stats = zone.stats();
        assert_eq!((stats.relabels[0][1], stats.steals), (1, [[0; 3]; 3]));
    }
}

#[test]
fn a_cache_that_holds_more_than_it_may_by_now_gives_back_before_it_takes() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    for by_parts in [false, true] {
        let zone = full_zone(&layout, &with_caches(100, 63), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut frames = Vec::new();
        for _ in 0..96 {
            frames.push(seat.alloc(order(0), Movable).unwrap());
        }
        for frame in frames.drain(..63) {
            seat.free(frame, order(0)).unwrap();
        }
        assert_eq!(seat.words.cached(Movable, 0), 63);
        zone.alloc_run_at(run(0, 20_480 - 512), Unmovable).unwrap();
        seat.words.set_limit(Movable, 0, 2);
        let frame = frames[0];
        if by_parts {
            seat.free_part(frame, order(0)).unwrap();
        } else {
            seat.free(frame, order(0)).unwrap();
        }
        let limit = seat.words.limit(Movable, 0);
        assert!((16..63).contains(&limit));
        assert_eq!(seat.words.cached(Movable, 0), limit / 2 + 1);
        zone.verify().unwrap();
    }
}

#[test]
fn above_order_4_no_cache_is_asked() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(100, 64), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    seat.alloc(order(1), Movable).unwrap();
    zone.drain();
    zone.alloc_at(Frame(0), order(0), Movable).unwrap();
    seat.free(Frame(0), order(0)).unwrap();
    assert_eq!(limits(&seat)[0], 64);
    assert_eq!(zone.recount().cached, 1);
    // If the entries behind the caches' counts are taken for blocks, they lead to the cached frame.
    for (size, mobility) in (5..=8).flat_map(|size| Mobility::ALL.map(|m| (size, m))) {
        assert_ne!(seat.alloc(order(size), mobility), Ok(Frame(0)));
        assert_ne!(seat.try_alloc(order(size), mobility), Some(Frame(0)));
    }
    for size in 5..9 {
        for mobility in Mobility::ALL {
            let frame = seat.try_alloc(order(size), mobility).unwrap();
            seat.free(frame, order(size)).unwrap();
            assert_eq!(seat.words.cached(Movable, 0), 1);
            let stocks = Mobility::ALL.map(|of| seat.words.stock(of).map_or(0, |(_, words)| words));
            let stocked = 64 * stocks.iter().sum::<usize>() as u64;
            assert_eq!(zone.recount().cached, 1 + stocked, "order {size}");
        }
    }
    zone.verify().unwrap();
}

#[test]
fn what_a_cache_holds_or_has_room_for_goes_the_short_way() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(100, 64), &mut memory);
    for mobility in Mobility::ALL {
        for size in 0..5 {
            let mut seat = zone.seat(CpuId(0)).unwrap();
            let first = seat.alloc(order(size), mobility).unwrap();
            let of = seat.words.counters();
            let served = [&of.pgalloc[mobility.index()], &of.pgfree];
            let before = served.map(|counter| counter.read());
            let (allocated, freed) = (seat.words.allocated(mobility), seat.words.freed());
            let second = seat.alloc(order(size), mobility).unwrap();
            for frame in [first, second] {
                seat.free(frame, order(size)).unwrap();
            }
            // Counted, and not by the long way.
            let frames = order(size).frames();
            assert_eq!(seat.words.allocated(mobility), allocated + frames);
            assert_eq!(seat.words.freed(), freed + 2 * frames);
            assert_eq!(served.map(|counter| counter.read()), before);
            zone.drain();
        }
    }
    zone.verify().unwrap();
}

#[test]
fn a_pair_of_a_cached_order_takes_no_lock() {
    let layout = ZoneLayout::new(Frame(0), 512 * 40).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(100, 64), &mut memory);
    for size in 0..5 {
        for mobility in Mobility::ALL {
            zone.drain();
            let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
            for seat in &mut seats {
                let frame = seat.alloc(order(size), mobility).unwrap();
                seat.free(frame, order(size)).unwrap();
            }
            let drains = zone.stats().drains;
            // Another CPU holds every pageblock. Requests that need one fail, or leave a mark.
            let locked = |id| zone.try_lock(zone.unseated_counters(), id).unwrap();
            let held: Vec<_> = (0..40).map(locked).collect();
            assert_eq!(seats[0].try_alloc(order(5), mobility), None);
            for round in 0..100 {
                for seat in &mut seats {
                    let frame = if round % 2 == 0 {
                        seat.alloc(order(size), mobility).unwrap()
                    } else {
                        seat.try_alloc(order(size), mobility).unwrap()
                    };
                    seat.free(frame, order(size)).unwrap();
                }
            }
            // Nor does a free of a block that another CPU allocated, as long as there is room.
            let [frame, other] = [0, 1].map(|cpu: usize| seats[cpu].alloc(order(size), mobility));
            seats[1].free(frame.unwrap(), order(size)).unwrap();
            seats[0].free(other.unwrap(), order(size)).unwrap();
            held.into_iter()
                .for_each(crate::frame::pageblock::HeldBlock::unlock);
            let remote = |seat: &Seat<'_, '_, _>| seat.words.counters().remote.read();
            assert_eq!((remote(&seats[0]), remote(&seats[1])), (0, 0));
            // No CPU was stopped, so none took the zone's own lock.
            assert_eq!(zone.stats().drains, drains);
        }
    }
    zone.verify().unwrap();
}

#[test]
fn a_whole_pageblock_is_not_freed_by_another_order() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(100, 64), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let frame = seat.alloc(order(9), Movable).unwrap();
    for size in [0, 3, 8, 10] {
        let allocated = order(9);
        let refused = Err(FreeError::WrongOrder { frame, allocated });
        assert_eq!(seat.free(frame, order(size)), refused);
    }
    assert_eq!(zone.recount().free, 512 * 3);
    zone.verify().unwrap();
}

#[test]
fn what_other_cpus_work_in_serves_where_there_is_nothing_else() {
    let layout = ZoneLayout::new(Frame(0), 512 * 2).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &with_caches(0, 64), &mut memory);
    for id in [0, 1] {
        zone.set_worker(id, Some(1));
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for size in [0, 5] {
        assert!(seat.try_alloc(order(size), Movable).is_some());
        for id in [0, 1] {
            zone.set_worker(id, Some(1));
        }
    }
}
