//! Room in settled pageblocks, for unmovable requests.

use super::pressure::TestCache;
use super::users::{Users, crowd, fill};
use super::*;
use crate::reclaim::state::Lack;
use crate::units::Context;

/// A zone whose first pageblock is full, and settled: 100 of its frames cannot move. Each of the
/// others has 40 free frames.
fn settled(zone: &Zone<'_, SingleThread>, users: &Users) {
    fill(zone, users, |id| if id == 0 { 100 } else { 40 });
    let mut frames = zone.seat(CpuId(0)).unwrap();
    for _ in 0..100 {
        let frame = frames.alloc(order(0), Unmovable).unwrap();
        assert_eq!(frame.0 / 512, 0, "the emptiest pageblock");
    }
    assert!(zone.would_contaminate(order(0), Unmovable));
}

fn contaminated(zone: &Zone<'_, SingleThread>) -> usize {
    let has_some = |&id: &usize| zone.pageblock(id).nonmovable() > 0;
    (0..zone.pageblocks()).filter(has_some).count()
}

#[test]
fn what_moves_leaves_a_settled_pageblock_before_another_one_is_contaminated() {
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        settled,
        &ReclaimConfig::default()
    );
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    for _ in 0..300 {
        seat.alloc(order(0), Unmovable, Context::ANY, &clients)
            .unwrap();
    }
    assert_eq!(contaminated(&zone), 1);
    assert_eq!(zone.pageblock(0).nonmovable(), 400);
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.compact_success), (1, 1));
    assert_eq!((users.moved.get(), stats.pgmigrate_success), (412, 412));
    drop(seat);
    users.are_complete(&zone, 400);
}

#[test]
fn the_background_keeps_room_where_what_cannot_move_has_settled() {
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        settled,
        &ReclaimConfig::default()
    );
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    // A request that must not wait contaminates a pageblock, and the background is woken.
    seat.alloc(order(0), Unmovable, Context::NOWAIT, &clients)
        .unwrap();
    assert_eq!((contaminated(&zone), users.moved.get()), (2, 0));
    assert!(reclaim.is_wanted());
    let mut steps = 0;
    while reclaim.background(seat.frames(), &clients, 100) == Background::Works {
        steps += 1;
        assert!(steps < 100, "R3");
    }
    assert_eq!(zone.pageblock(0).movable(), 0);
    assert_eq!(zone.pageblock(0).free, 412);
    assert_eq!(reclaim.stats().compact_stall, 0, "no request waited");
    drop(seat);
    users.are_complete(&zone, 101);
}

#[test]
fn where_nothing_leaves_a_settled_pageblock_requests_go_on_and_the_background_ends() {
    for percent in [0, 100] {
        let config = ReclaimConfig {
            stock_percent: percent,
            ..ReclaimConfig::default()
        };
        crowd!(zone, users, reclaim, clients, settled, &config);
        users.pinned.set(true);
        let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
        for nth in 0..50 {
            seat.alloc(order(0), Unmovable, Context::ANY, &clients)
                .unwrap();
            let mut steps = 0;
            while reclaim.background(seat.frames(), &clients, 100) == Background::Works {
                steps += 1;
                assert!(steps < 100, "R3, request {nth}");
            }
        }
        let stats = reclaim.stats();
        assert_eq!(stats.pgmigrate_success, 0);
        assert_eq!(stats.compact_stall, stats.compact_fail);
        assert_eq!(stats.pgmigrate_fail > 0, percent > 0);
        assert_eq!(contaminated(&zone), 3, "two more, of 40 free frames each");
        drop(seat);
        users.are_complete(&zone, 150);
    }
}

#[test]
fn what_is_held_back_where_what_cannot_move_has_settled_does_not_count_as_free() {
    // 412 frames are free, more than the high watermark, and all of them in a settled pageblock. The target
    // of the stock is a part of 512 frames, and eight times it is held back.
    for (percent, counted) in [(0, 412), (5, 412 - 8 * 25), (50, 0)] {
        let cache = TestCache::default();
        let one_settled = |zone: &Zone<'_, SingleThread>, users: &Users| {
            fill(zone, users, |id| if id < 3 { 512 } else { 0 });
            let mut frames = zone.seat(CpuId(0)).unwrap();
            let live: Vec<_> = (0..100)
                .map(|_| frames.alloc(order(0), Unmovable).unwrap().0 / 512)
                .collect();
            cache.fill(&mut frames, 1024);
            assert!(live.iter().all(|id| *id == live[0]));
            assert_eq!(zone.pageblock(live[0] as usize).movable(), 0);
        };
        let config = ReclaimConfig {
            pageblocks_percent: 0,
            stock_percent: percent,
            batch_frames: 32,
            ..ReclaimConfig::default()
        };
        crowd!(
            zone,
            users,
            reclaim,
            clients,
            one_settled,
            &config,
            &[&cache]
        );
        let high = zone.watermarks().high;
        assert!(zone.free_in_pageblocks() == 412 && 412 > high);
        let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
        reclaim.wake(Lack::Frames);
        while reclaim.background(seat.frames(), &clients, 100) == Background::Works {}
        let given = 1024 - cache.held();
        let missing = high.saturating_sub(counted);
        assert!(
            (missing..=missing.next_multiple_of(32)).contains(&given),
            "{given} of {missing} missing at {percent} %"
        );
        drop(seat);
        users.are_complete(&zone, 100 + cache.held());
    }
}
