//! Frees into pageblocks that another CPU holds, one after the other: what threads do by chance.

use super::*;
use crate::frame::pageblock::Tag;
use crate::platform::FramePlatform;

fn holders_collect<P: FramePlatform>(platform: P) {
    let layout = ZoneLayout::new(Frame(512), 512 * 6).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &caching(0), &mut memory, platform).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    let [seat, other] = &mut seats;
    // By pageblock: single frames in several words, parts of words, whole words, the whole.
    let blocks = [
        (1, 0, 0),
        (1, 65, 0),
        (1, 130, 1),
        (1, 264, 3),
        (1, 320, 6),
        (1, 384, 7),
        (2, 0, 9),
        (4, 63, 0),
        (4, 448, 5),
    ];
    let frame = |(id, slot, _): (u64, u64, u8)| Frame(512 + id * 512 + slot);
    for block in blocks {
        zone.alloc_at(frame(block), order(block.2), Reclaimable)
            .unwrap();
    }
    let before = zone.recount();
    let held: Vec<_> = [1, 2, 4]
        .map(|id| zone.try_lock(other.words.counters(), id).unwrap())
        .into_iter()
        .collect();
    for id in [1, 2, 4] {
        assert!(
            zone.try_lock(seat.words.counters(), id).is_none(),
            "another seat has it"
        );
    }
    for block in blocks {
        let order = order(block.2);
        seat.free(frame(block), order).unwrap();
        let twice = Err(FreeError::AlreadyFree(frame(block)));
        assert_eq!(seat.free(frame(block), order), twice);
        let offset = zone.offset(frame(block)).unwrap();
        assert_eq!(zone.tag(offset), Tag::remote(order, Reclaimable));
    }
    assert_eq!(zone.pageblock(2).free, 0, "not yet");
    for held in held {
        held.unlock();
    }
    zone.verify().unwrap();
    let stats = zone.stats();
    assert_eq!(stats.remote_frees, blocks.len() as u64);
    assert_eq!(stats.bad_frees, blocks.len() as u64, "each was freed twice");
    assert_eq!(stats.nr_free_pages, 512 * 6);
    let after = zone.recount();
    assert_eq!(after.free, before.free + before.allocated[2]);
    assert_eq!(after.allocated, [0; 3]);
}

#[test]
fn f4_the_holder_of_a_pageblock_collects_what_other_cpus_free_there() {
    holders_collect(SingleThread::new());
    holders_collect(());
}

fn no_cpu_holds<P: FramePlatform>(platform: P) {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &caching(0), &mut memory, platform).unwrap();
    zone.add(whole(&layout)).unwrap();
    let seat = zone.seat(CpuId(0)).unwrap();
    for offset in [3, 3 * 512 + 200] {
        zone.alloc_at(Frame(offset), order(0), Movable).unwrap();
        // The holder was gone before the mark was made.
        zone.set_tag(offset as usize, Tag::remote(order(0), Movable));
        zone.leave(seat.words.counters(), offset as usize);
        assert_eq!(zone.pageblock(offset as usize / 512).free, 512);
        assert_eq!(zone.tag(offset as usize), Tag::NONE);
        let held = zone
            .try_lock(seat.words.counters(), offset as usize / 512)
            .unwrap();
        held.unlock();
    }
}

#[test]
fn f4_what_is_left_behind_a_holder_that_is_gone_is_collected_at_once() {
    no_cpu_holds(SingleThread::new());
    no_cpu_holds(());
}

#[test]
fn f6_a_cache_gives_back_into_held_pageblocks_too() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(2);
    let mut memory = memory(&layout);
    let config = caching(100);
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // Sets the limits.
    let frame = seat.alloc(order(2), Unmovable).unwrap();
    zone.drain();
    seat.words.set_limit(Unmovable, 2, 16);
    let places = [512, 2 * 512 + 4, 540, 2 * 512 + 8, 600];
    for place in places {
        zone.alloc_at(Frame(place), order(2), Unmovable).unwrap();
    }
    for place in places {
        seat.free(Frame(place), order(2)).unwrap();
    }
    assert_eq!(zone.recount().cached, 20);
    let other = zone.seat(CpuId(1)).unwrap();
    let held = zone.try_lock(other.words.counters(), 1).unwrap();
    seat.words.spill(&zone, Unmovable, order(2), 0);
    assert_eq!(zone.pageblock(2).free, 512, "no seat held that one");
    assert_eq!(zone.pageblock(1).free, 500);
    held.unlock();
    assert_eq!(zone.stats().remote_frees, 3);
    seat.free(frame, order(2)).unwrap();
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 512 * 4);
}

#[test]
fn a_block_of_several_pageblocks_comes_back_although_one_is_held() {
    let layout = ZoneLayout::new(Frame(512), 512 * 9).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    for id in [5, 6] {
        let block = Frame(512 * 6);
        zone.alloc_at(block, order(10), Movable).unwrap();
        let held = zone.try_lock(other.words.counters(), id).unwrap();
        seat.free(block, order(10)).unwrap();
        let twice = Err(FreeError::AlreadyFree(block));
        assert_eq!(seat.free(block, order(10)), twice);
        held.unlock();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, 512 * 9);
    }
    // A request passes a run by of which one pageblock is held.
    let held = zone.try_lock(other.words.counters(), 8).unwrap();
    assert_eq!(seat.try_alloc(order(10), Movable), Some(Frame(512 * 6)));
    held.unlock();
    assert_eq!(zone.recount().free, 512 * 7);
    zone.verify().unwrap();
}

#[test]
fn f7_what_only_a_racing_double_free_explains_is_counted_and_not_handed_out() {
    let layout = ZoneLayout::new(Frame(0), 512 * 2).with_cpus(2);
    let mut memory = memory(&layout);
    let config = caching(100);
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    let free_cached = |seat: &mut Seat<'_, '_, _>, frame: Frame| {
        zone.alloc_at(frame, order(0), Movable).unwrap();
        seat.words.set_limit(Movable, 0, 4);
        seat.free(frame, order(0)).unwrap();
    };
    // Another CPU's tag has replaced ours, so that CPU hands the block out.
    let theirs = Tag::cached(other.words.number, order(0), Movable);
    free_cached(&mut seat, Frame(7));
    zone.set_tag(7, theirs);
    assert_ne!(seat.alloc(order(0), Movable), Ok(Frame(7)));
    assert_eq!(zone.stats().bad_frees, 1);
    zone.drain();
    free_cached(&mut seat, Frame(8));
    zone.set_tag(8, theirs);
    zone.drain();
    assert_eq!(zone.stats().bad_frees, 2);
    // The same, into a pageblock that is held.
    free_cached(&mut seat, Frame(9));
    zone.set_tag(9, theirs);
    let held = zone.try_lock(other.words.counters(), 0).unwrap();
    seat.words.spill(&zone, Movable, order(0), 0);
    held.unlock();
    assert_eq!(zone.stats().bad_frees, 3);
    assert_eq!(zone.stats().remote_frees, 0);
    // A mark without a remote block.
    zone.leave(other.words.counters(), 600);
    assert_eq!(zone.stats().bad_frees, 4);
    assert!(!zone.is_free(Frame(8)) && zone.is_free(Frame(600)));
}

#[test]
fn f7_of_several_cached_blocks_of_a_pageblock_its_own_go_back() {
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(2);
    let mut memory = memory(&layout);
    let config = caching(100);
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    for frame in 7..10 {
        zone.alloc_at(Frame(frame), order(0), Movable).unwrap();
        seat.words.set_limit(Movable, 0, 4);
        seat.free(Frame(frame), order(0)).unwrap();
    }
    // Another CPU's tag has replaced ours, so that CPU hands the block out.
    zone.set_tag(8, Tag::cached(other.words.number, order(0), Movable));
    seat.words.spill(&zone, Movable, order(0), 0);
    let free = [7, 8, 9].map(|frame| zone.is_free(Frame(frame)));
    assert_eq!(free, [true, false, true], "F7");
    assert_eq!(zone.stats().bad_frees, 1);
}

#[test]
fn f3_a_free_that_comes_too_late_leaves_what_is_there_now() {
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    // A larger block begins where this CPU saw a single frame.
    zone.alloc_at(Frame(8), order(3), Movable).unwrap();
    let live = Tag::live(order(3), Movable);
    let free_late = || zone.give_back(seat.words.counters(), 8, order(0), Movable);
    assert_eq!(free_late(), Err(()));
    assert_eq!(zone.tag(8), live, "F3");
    // The same where another CPU holds the pageblock.
    let held = zone.try_lock(other.words.counters(), 0).unwrap();
    assert_eq!(free_late(), Err(()));
    held.unlock();
    assert_eq!(zone.tag(8), live, "F3");
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 504);
}

#[test]
fn a_wrong_free_says_what_is_there() {
    let layout = ZoneLayout::new(Frame(512), 512 * 4);
    let mut memory = memory(&layout);
    let config = caching(100);
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    zone.alloc_at(Frame(1024 + 68), order(2), Movable).unwrap();
    let inside = Frame(1024 + 70);
    let refused = Err(FreeError::NotTheFirst(inside));
    assert_eq!(seat.free(inside, order(0)), refused);
    seat.words.set_limit(Movable, 2, 4);
    seat.free(Frame(1024 + 68), order(2)).unwrap();
    assert_eq!(zone.recount().cached, 4);
    let behind = Frame(512 * 5);
    let refused = Err(FreeError::Outside(behind));
    assert_eq!(seat.free(behind, order(0)), refused);
    // Inside a cached block, and at its first frame.
    for frame in [inside, Frame(1024 + 68)] {
        let refused = Err(FreeError::AlreadyFree(frame));
        assert_eq!(seat.free(frame, order(0)), refused);
    }
}

#[test]
fn no_cpu_goes_on_while_all_cpus_are_stopped() {
    use std::sync::mpsc::channel;
    use std::time::Duration;
    let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &Config::default(), &mut memory, ()).unwrap();
    zone.add(whole(&layout)).unwrap();
    let moment = Duration::from_millis(50);
    type Work = fn(&mut Seat<'_, '_, ()>, Frame);
    let works: [Work; 4] = [
        |seat, _| _ = seat.alloc(order(0), Movable).unwrap(),
        |seat, _| _ = seat.alloc(order(5), Movable).unwrap(),
        |seat, _| _ = seat.try_alloc(order(0), Movable).unwrap(),
        |seat, frame| seat.free(frame, order(0)).unwrap(),
    ];
    for work in works {
        std::thread::scope(|scope| {
            let mut seat = zone.seat(CpuId(1)).unwrap();
            // Some blocks in the cache, and room for more.
            seat.words.set_limit(Movable, 0, 8);
            let frame = seat.alloc(order(0), Movable).unwrap();
            let other = seat.alloc(order(0), Movable).unwrap();
            seat.words.set_limit(Movable, 0, 8);
            seat.free(other, order(0)).unwrap();
            drop(seat);
            let stopped = zone.stop();
            let (done, wait) = channel();
            let zone = &zone;
            scope.spawn(move || {
                work(&mut zone.seat(CpuId(1)).unwrap(), frame);
                done.send(()).unwrap();
            });
            assert!(wait.recv_timeout(moment).is_err(), "it waits");
            drop(stopped);
            wait.recv().unwrap();
        });
    }
    std::thread::scope(|scope| {
        let seat = zone.seat(CpuId(0)).unwrap();
        seat.enter();
        let (done, wait) = channel();
        scope.spawn(|| {
            let done = done;
            drop(zone.stop());
            done.send(()).unwrap();
        });
        assert!(wait.recv_timeout(moment).is_err(), "a seat is busy");
        seat.exit();
        wait.recv().unwrap();
    });
    zone.verify().unwrap();
}

#[test]
fn a_request_goes_on_where_all_pageblocks_of_a_kind_are_held() {
    let layout = ZoneLayout::new(Frame(0), 512 * 3).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    zone.set_label(run(0, 512), Label::Contiguous).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    for size in [9, 8] {
        // The two empty ones are held, the lent one is the dearer candidate.
        let held = [1, 2].map(|id| zone.try_lock(other.words.counters(), id).unwrap());
        assert_eq!(seat.try_alloc(order(size), Movable), Some(Frame(0)));
        assert_eq!(seat.try_alloc(order(9), Movable), None);
        held.into_iter().for_each(|held| held.unlock());
        seat.free(Frame(0), order(size)).unwrap();
    }
    zone.verify().unwrap();
}

#[test]
fn what_the_index_said_is_looked_at_again_under_the_lock() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    zone.alloc_run_at(run(0, 384), Unmovable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // As if its last block of that order had gone between the look and the lock.
    let row = zone.row(3, zone.meta(0).class());
    zone.index.insert(row, 0);
    assert_eq!(seat.try_alloc(order(3), Unmovable), Some(Frame(384)));
    zone.index.remove(row, 0);
    // As if a whole pageblock had been lent, or isolated.
    let empty = zone.row(9, zone.meta(1).class());
    zone.set_label(run(512, 512), Label::Contiguous).unwrap();
    zone.isolate(run(1024, 512)).unwrap();
    zone.index.insert(empty, 1);
    zone.index.insert(empty, 2);
    assert_eq!(seat.try_alloc(order(9), Unmovable), Some(Frame(512 * 3)));
    zone.index.remove(empty, 1);
    zone.index.remove(empty, 2);
    zone.unisolate(run(1024, 512)).unwrap();
    zone.verify().unwrap();
}

#[test]
fn a_sum_that_is_below_zero_for_a_moment_counts_as_nothing() {
    let layout = ZoneLayout::new(Frame(0), 512);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &caching(0), &mut memory, SingleThread::new()).unwrap();
    let unseated = zone.unseated_counters();
    unseated.large.add(8u64.wrapping_neg());
    assert_eq!(zone.zone_facts().free_large, 0);
    unseated.net.add(5);
    assert_eq!(zone.zone_facts().free, 0);
}
