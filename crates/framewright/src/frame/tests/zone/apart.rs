//! Pageblocks set apart, and what is taken and freed around them.

use super::*;
use crate::frame::{AllocError, TargetRoom};
use crate::platform::FramePlatform;
use crate::platform::scene::Scene;
use crate::units::RunError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

fn is_open<P: FramePlatform>(zone: &Zone<'_, P>, id: usize) -> bool {
    zone.pins_if_open(id).is_some()
}

#[test]
fn ap1_a_pageblock_apart_is_one_owners_and_ap2_not_what_is_pinned_or_kept() {
    let layout = ZoneLayout::new(Frame(0), 512 * 200);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    assert_eq!(zone.reserve_high_order(1), 1);
    let refused = |ids| zone.set_apart(ids).map(|_| ()).unwrap_err();
    assert_eq!(refused(0..2), NotApart::Reserved(0));
    zone.pin(Frame(512 * 3 + 7)).unwrap();
    assert_eq!(refused(2..5), NotApart::Pinned(3));
    assert!(is_open(&zone, 2), "all or none");
    let apart = zone.set_apart(4..6).unwrap();
    assert_eq!(refused(5..7), NotApart::Isolated(5));
    drop(apart);
    assert!((0..7).all(|id| is_open(&zone, id)));
    zone.verify().unwrap();
}

#[test]
fn ap4_what_is_apart_stays_what_it_is_until_that_ends() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let all_refused = |at: u64, isolated: bool| {
        let it = run(512 * at, 512);
        let refused = RunError::Apart(Frame(512 * at));
        assert_eq!(zone.isolate(it), Err(refused));
        assert_eq!(zone.unisolate(it), Err(refused));
        assert_eq!(zone.set_label(it, Label::Contiguous), Err(refused));
        let frame = Frame(512 * at + 9);
        assert_eq!(zone.pin(frame), Err(RunError::Apart(frame)));
        let some = zone.remove(Run::new(frame, 3).unwrap());
        assert_eq!(some, Err(RunError::Apart(frame)));
        assert_eq!(zone.unpin(frame), Err(RunError::Pins(frame)));
        assert_eq!(zone.meta(at as usize).is_isolated(), isolated);
        assert_eq!(zone.pageblock(at as usize).label, Label::Of(Movable));
    };
    let all_allowed = |at: u64| {
        let it = run(512 * at, 512);
        assert_eq!(zone.isolate(it), Ok(0));
        assert_eq!(zone.unisolate(it), Ok(0));
        assert_eq!(zone.set_label(it, Label::Of(Movable)), Ok(()));
        assert_eq!(zone.pin(it.start()), Ok(1));
        assert_eq!(zone.unpin(it.start()), Ok(0));
    };
    let apart = zone.set_apart(2..4).unwrap();
    all_refused(3, true);
    // A block that is to move may reach into pageblocks that no call empties.
    zone.pin(Frame(512)).unwrap();
    let reach = |from: usize, to: usize| apart.keep_unpinned_beyond(&(512 * from..512 * to));
    let refused = |from, to| reach(from, to).map(|_| ()).unwrap_err();
    assert!(reach(2, 4).unwrap().is_none());
    assert_eq!(refused(1, 4), NotApart::Pinned(1));
    zone.unpin(Frame(512)).unwrap();
    let other = zone.set_apart(5..6).unwrap();
    assert_eq!(refused(1, 6), NotApart::Isolated(5));
    drop(other);
    (0..8)
        .filter(|id| !(2..4).contains(id))
        .for_each(all_allowed);
    let beyond = reach(1, 5).unwrap().unwrap();
    for at in [1, 4] {
        all_refused(at, false);
        let id = at as usize;
        let refused = zone.set_apart(id..id + 1).map(|_| ()).unwrap_err();
        assert_eq!(refused, NotApart::Isolated(id));
    }
    drop(beyond);
    all_refused(2, true);
    apart.keep_isolated();
    assert_eq!(zone.pin(Frame(512 * 2)), Ok(1));
    assert_eq!(zone.unpin(Frame(512 * 2)), Ok(0));
    assert_eq!(zone.unisolate(run(512 * 2, 1024)), Ok(0));
    (0..8).for_each(all_allowed);
    zone.verify().unwrap();
}

#[test]
fn ap3_however_it_ends_pageblocks_are_open_except_where_they_are_kept() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    zone.alloc_at(Frame(1030), order(0), Movable).unwrap();
    for (offset, size, there) in [
        (1024, 3, false),
        (1024, 2, true),
        (512, 9, true),
        (512, 10, false),
        // Not in a pageblock that is apart.
        (2048, 3, false),
    ] {
        let apart = zone.set_apart(1..3).unwrap();
        let free = zone.stats().nr_free_pages;
        let size = order(size);
        let got = apart.open_with_block(&mut seat, offset, size, Movable);
        assert_eq!(
            got,
            there.then_some(Frame(offset as u64)),
            "{offset} {size}"
        );
        let taken = if there { size.frames() } else { 0 };
        assert_eq!(zone.stats().nr_free_pages, free - taken);
        assert!((0..8).all(|id| is_open(&zone, id)));
        zone.verify().unwrap();
        if there {
            seat.free(Frame(offset as u64), size).unwrap();
        }
    }
    zone.set_apart(6..8).unwrap().keep_isolated();
    assert!(!is_open(&zone, 6) && !is_open(&zone, 7));
    let large = zone.set_apart(4..6).unwrap();
    assert_eq!(zone.unisolate(run(512 * 6, 1024)), Ok(0));
    let got = large.open_with_block(&mut seat, 2048, order(10), Unmovable);
    assert_eq!(got, Some(Frame(2048)));
    assert_eq!(zone.pageblock(5).label, Label::Of(Unmovable));
    seat.free(Frame(2048), order(10)).unwrap();
    zone.verify().unwrap();
}

#[test]
fn what_is_cached_goes_back_when_a_pageblock_is_set_apart_and_nothing_else_does() {
    let layout = ZoneLayout::new(Frame(0), 512 * 32).with_cpus(2);
    let mut memory = memory(&layout);
    let config = caching(100);
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    for (cpu, seat) in seats.iter_mut().enumerate() {
        // Sets limits; a stock of words comes with it.
        let frame = seat.alloc(order(0), Movable).unwrap();
        for (nth, size) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            for id in [1, 2] {
                let frame = Frame(512 * id + 16 * (2 * nth + cpu as u64));
                zone.alloc_at(frame, order(size), Unmovable).unwrap();
                seat.words.set_limit(Unmovable, size.into(), 8);
                seat.free(frame, order(size)).unwrap();
            }
        }
        seat.free(frame, order(0)).unwrap();
    }
    let cached = zone.recount().cached;
    let in_pageblock = 2 * (1 + 1 + 2 + 4);
    let apart = zone.set_apart(1..2).unwrap();
    assert_eq!(zone.pageblock(1).free, 512);
    assert_eq!(zone.recount().cached, cached - in_pageblock);
    // Frees are welcome, and are not cached.
    assert_eq!(zone.next_taken(512..1024), None);
    drop(apart);
    zone.verify().unwrap();
    // A stock lies in one pageblock: that one goes back with it.
    let stock = seats[0].words.stock(Movable).expect("memory abounds");
    let id = stock.0 / 512;
    let apart = zone.set_apart(id..id + 1).unwrap();
    assert_eq!(seats[0].words.stock(Movable), None);
    drop(apart);
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, 512 * 32);
}

#[test]
fn nothing_is_allocated_apart_and_what_is_freed_there_stays_free() {
    for permille in [0, 100] {
        let config = Config {
            cache_permille: permille,
            ..Config::default()
        };
        let layout = ZoneLayout::new(Frame(0), 512 * 4);
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &config, &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let frames: Vec<_> = core::iter::from_fn(|| seat.alloc(order(0), Movable).ok()).collect();
        let apart = zone.set_apart(1..2).unwrap();
        for &frame in frames.iter().filter(|frame| frame.0 / 512 <= 1) {
            seat.free(frame, order(0)).unwrap();
        }
        assert_eq!(zone.next_taken(512..1024), None);
        for _ in 0..512 {
            assert!(seat.alloc(order(0), Movable).unwrap() < Frame(512));
        }
        assert_eq!(seat.alloc(order(0), Movable), Err(AllocError::Exhausted));
        drop(apart);
        assert!(seat.alloc(order(9), Movable).is_ok());
        zone.verify().unwrap();
    }
}

#[test]
fn the_next_taken_frame_and_what_it_belongs_to_are_found() {
    for pageblock in [1, 3, 6, 9] {
        let layout = ZoneLayout::new(Frame(0), 2048).with_orders(order(pageblock), order(11));
        let mut memory = memory(&layout);
        let zone = empty_zone(&layout, &mut memory);
        zone.add(run(0, 2000)).unwrap();
        assert_eq!(zone.next_taken(0..2000), None);
        assert_eq!(zone.next_taken(0..2048), Some(2000));
        assert_eq!(zone.content(2000), ApartContent::Absent);
        let taken = [3, 62, 64, 65, 127, 130, 511, 512, 1999];
        for frame in taken {
            zone.alloc_at(Frame(frame), order(0), Reclaimable).unwrap();
            let content = ApartContent::Block(order(0), Reclaimable);
            assert_eq!(zone.content(frame as usize), content);
        }
        let mut found = vec![];
        let mut at = 0;
        while let Some(offset) = zone.next_taken(at..2000) {
            found.push(offset as u64);
            at = offset + 1;
        }
        assert_eq!(found, taken);
        assert_eq!(zone.next_taken(4..62), None);
        zone.alloc_at(Frame(1024), order(9), Movable).unwrap();
        assert_eq!(zone.content(1025), ApartContent::Unknown);
        assert_eq!(zone.block_around(1300), Some((1024, order(9), Movable)));
        assert_eq!(zone.block_around(1024), None);
    }
}

#[test]
fn targets_come_from_small_blocks_beside_contents_or_from_anywhere() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    // 0 not movable; 1 with 16 free frames in one block; 2 with four single ones; 3 to 7 free.
    zone.alloc_run_at(run(0, 500), Unmovable).unwrap();
    zone.alloc_run_at(run(512, 496), Movable).unwrap();
    zone.alloc_run_at(run(1024, 504), Movable).unwrap();
    for frame in [1529, 1531, 1533, 1535] {
        zone.alloc_at(Frame(frame), order(0), Movable).unwrap();
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut targets = [0; 64];
    let found = seat.take_targets(order(0), TargetRoom::Below(order(4)), &mut targets);
    assert_eq!(found.taken, 4, "16 frames are one block of order 4");
    assert!(
        targets[..4]
            .iter()
            .all(|offset| (1528..1536).contains(offset))
    );
    zone.verify().unwrap();
    let found = seat.take_targets(order(1), TargetRoom::Below(order(8)), &mut targets[4..]);
    assert_eq!(found.taken, 8);
    assert!(targets[4..12].iter().all(|offset| offset / 512 == 1));
    // To make a whole pageblock the stock may go, too: nothing in pageblock 0 moves.
    let mut stock = [0; 8];
    let found = seat.take_targets(order(1), TargetRoom::Below(order(9)), &mut stock);
    assert_eq!(found.taken, 6);
    assert!(stock[..6].iter().all(|offset| offset / 512 == 0));
    seat.free_at_once(
        stock[..6]
            .iter()
            .map(|&offset| (zone.frame_at(offset as usize), order(1))),
    );
    let none = [(9, 9), (8, 9), (9, 3), (10, 10), (1, 8)];
    for (size, below) in none {
        let found = seat.take_targets(order(size), TargetRoom::Below(order(below)), &mut [0]);
        assert_eq!(found.taken, 0, "{size} below {below}");
    }
    let whole = seat.take_targets(order(9), TargetRoom::Below(order(10)), &mut targets[12..13]);
    assert_eq!(whole.taken, 1, "as large as a pageblock");
    let large = seat.take_targets(order(10), TargetRoom::Anywhere, &mut targets[13..15]);
    let small = seat.take_targets(order(0), TargetRoom::Anywhere, &mut targets[15..17]);
    assert_eq!((large.taken, small.taken), (1, 2));
    zone.verify().unwrap();
    let held: Vec<_> = [
        (0..4, 0),
        (4..12, 1),
        (12..13, 9),
        (13..14, 10),
        (15..17, 0),
    ]
    .into_iter()
    .flat_map(|(nths, size)| nths.map(move |nth| (nth, order(size))))
    .map(|(nth, size)| (zone.frame_at(targets[nth] as usize), size))
    .collect();
    let frames: u64 = held.iter().map(|(_, size)| size.frames()).sum();
    let free = zone.stats().nr_free_pages;
    assert_eq!(seat.free_at_once(held.iter().copied()), frames);
    assert_eq!(zone.stats().nr_free_pages, free + frames);
    zone.verify().unwrap();
    // The second time none of them is live.
    assert_eq!(seat.free_at_once(held.iter().copied()), 0);
    assert_eq!(zone.stats().bad_frees, held.len() as u64);
    assert_eq!(zone.stats().nr_free_pages, free + frames);
}

#[test]
fn blocks_freed_at_once_into_a_held_pageblock_are_collected_by_its_holder() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    let blocks = [(512, 3), (520, 0), (1024, 0), (530, 1)].map(|(frame, size)| {
        zone.alloc_at(Frame(frame), order(size), Movable).unwrap();
        (Frame(frame), order(size))
    });
    let held = zone.try_lock(other.words.counters(), 1).unwrap();
    assert_eq!(seat.free_at_once(blocks.into_iter()), 12);
    assert_eq!(zone.stats().remote_frees, 3);
    held.unlock();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 512 * 4);
}

#[test]
fn what_leaves_a_settled_pageblock_finds_room_in_none_that_is_settled_or_free() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    // Each has four free frames. Of 0 and 1 an eighth or less cannot move, of 2 nothing, of 3
    // everything. 4 to 7 are free.
    zone.alloc_run_at(run(0, 64), Unmovable).unwrap();
    zone.alloc_run_at(run(64, 444), Movable).unwrap();
    zone.alloc_run_at(run(512, 63), Unmovable).unwrap();
    zone.alloc_run_at(run(575, 445), Movable).unwrap();
    zone.alloc_run_at(run(1024, 508), Movable).unwrap();
    zone.alloc_run_at(run(1536, 508), Unmovable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut targets = [0; 64];
    let found = seat.take_targets(order(0), TargetRoom::Unsettled, &mut targets);
    let mut from: Vec<_> = targets[..found.taken]
        .iter()
        .map(|offset| offset / 512)
        .collect();
    from.sort_unstable();
    assert_eq!(from, [1, 1, 1, 1, 2, 2, 2, 2]);
    seat.free_at_once(
        targets[..found.taken]
            .iter()
            .map(|&offset| (zone.frame_at(offset as usize), order(0))),
    );
    zone.verify().unwrap();
}

/// Ends `what` while another CPU stops all: the wait for that unwinds.
fn ends_while_stopped<T>(zone: &Zone<'_, Scene>, scene: &Scene, what: T) {
    thread::scope(|threads| {
        scene.arm();
        threads.spawn(|| zone.drain());
        scene.wait_until_stopped();
        let unwound = catch_unwind(AssertUnwindSafe(|| drop(what)));
        assert!(unwound.is_err() && scene.has_unwound());
    });
}

/// No later call would open what is apart.
#[test]
fn ap3_pageblocks_open_although_the_wait_for_that_unwinds() {
    let layout = ZoneLayout::new(Frame(0), 512 * 8).with_cpus(2);
    let mut memory = memory(&layout);
    let scene = Scene::default();
    let zone = Zone::new(&layout, &caching(0), &mut memory, scene.clone()).unwrap();
    zone.add(whole(&layout)).unwrap();
    let apart = zone.set_apart(2..4).unwrap();
    // A block that reaches out of them.
    let beyond = apart.keep_unpinned_beyond(&(512 * 3..512 * 5));
    assert!(!zone.is_apart(5) && zone.is_apart(4));
    ends_while_stopped(&zone, &scene, beyond.unwrap());
    assert!(!zone.is_apart(4) && zone.is_apart(3));
    ends_while_stopped(&zone, &scene, apart);
    assert!((0..8).all(|id| is_open(&zone, id) && !zone.is_apart(id)));
    zone.verify().unwrap();
}
