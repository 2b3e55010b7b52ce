//! Whole pageblocks under pressure: which requests have them emptied, and what happens when none
//! can be.

use super::users::{Users, crowd, fill};
use super::*;
use crate::platform::Relief;
use crate::units::Context;

/// A zone that is full of users but for this many frames of each pageblock.
fn with_free(free: impl Fn(u64) -> u64) -> impl Fn(&Zone<'_, SingleThread>, &Users) {
    move |zone, users| fill(zone, users, &free)
}

/// Requests that cannot move have pageblocks emptied themselves.
fn empties() -> ReclaimConfig {
    ReclaimConfig {
        empties_for_nonmovable: true,
        ..ReclaimConfig::default()
    }
}

#[test]
fn a_request_that_would_contaminate_has_the_cheapest_pageblock_emptied() {
    // First an order with a free block, then one without.
    for size in [0, 2] {
        has_the_cheapest_emptied(size);
    }
}

fn has_the_cheapest_emptied(size: u8) {
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        with_free(|id| if id == 7 { 300 } else { 100 }),
        &empties()
    );
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    assert!(zone.would_contaminate(order(0), Unmovable));
    assert!(
        !zone.would_contaminate(order(2), Unmovable),
        "there is none"
    );
    for nth in 0..100 {
        let mobility = [Unmovable, Reclaimable][nth % 2];
        let frame = seat.alloc(order(size), mobility, Context::ANY, &clients);
        assert_eq!(frame.unwrap().0 / 512, 7, "the cheapest, and the same");
    }
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.compact_success), (1, 1));
    assert_eq!(stats.allocstalls(), 0);
    assert_eq!(users.moved.get(), 212);
    assert_eq!(zone.polluting_fallbacks(), 0);
    drop(seat);
    users.are_complete(&zone, 100 << size);
}

#[test]
fn a_request_that_may_not_wait_or_finds_no_client_that_moves_falls_back_as_before_and_boosts() {
    for (context, pinned) in [(Context::NOWAIT, false), (Context::ANY, true)] {
        crowd!(
            zone,
            users,
            reclaim,
            clients,
            with_free(|_| 100),
            &empties()
        );
        users.pinned.set(pinned);
        let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
        let before = reclaim.targets();
        for _ in 0..150 {
            seat.alloc(order(0), Unmovable, context, &clients).unwrap();
        }
        let polluted = zone.polluting_fallbacks();
        assert!((2..=150).contains(&polluted), "{polluted}");
        let after = reclaim.targets();
        assert!(after.pageblocks.high > before.pageblocks.high);
        assert!(after.frames.high > before.frames.high);
        assert_eq!(after.frames.min, before.frames.min);
        let stats = reclaim.stats();
        assert_eq!(stats.compact_success, 0);
        assert!(stats.compact_stall <= 8, "it is deferred: {stats:?}");
        assert_eq!(stats.compact_stall, stats.compact_fail);
        assert_eq!(stats.compact_stall > 0, pinned);
        assert!(reclaim.is_wanted(), "the background was woken for blocks");
        drop(seat);
        users.are_complete(&zone, 150);
    }
}

#[test]
fn by_itself_a_request_that_would_contaminate_asks_the_background_and_does_not_stall() {
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        with_free(|_| 100),
        &ReclaimConfig::default()
    );
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    assert!(zone.would_contaminate(order(0), Unmovable) && !reclaim.is_wanted());
    seat.alloc(order(0), Unmovable, Context::ANY, &clients)
        .unwrap();
    assert!(reclaim.is_wanted(), "woken for a pageblock");
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.allocstalls()), (0, 0));
    assert_eq!(users.moved.get(), 0);
}

#[test]
fn the_background_keeps_whole_pageblocks_free_so_that_no_request_has_to_wait_for_one() {
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        with_free(|id| 100 + 4 * id),
        &ReclaimConfig::default()
    );
    let targets = reclaim.targets().pageblocks;
    assert_eq!((targets.low, targets.high), (1, 2));
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    seat.alloc(order(0), Movable, Context::ANY, &clients)
        .unwrap();
    assert!(reclaim.is_wanted(), "no pageblock is whole");
    let mut steps = 0;
    while reclaim.background(seat.frames(), &clients, 100) == Background::Works {
        steps += 1;
    }
    assert_eq!(zone.free_pageblocks(), 2);
    assert!((1..=4).contains(&steps), "one pageblock a step: {steps}");
    let stats = reclaim.stats();
    assert_eq!(stats.compact_daemon_wake, 1);
    assert_eq!(stats.compact_stall, 0, "no request waited");
    assert!(stats.pgmigrate_success > 500);
    // Unmovable requests find room, and the one that takes the last pageblock wakes the background
    // again.
    for _ in 0..600 {
        seat.alloc(order(0), Unmovable, Context::ANY, &clients)
            .unwrap();
    }
    assert_eq!(zone.polluting_fallbacks(), 0);
    assert_eq!(reclaim.stats().compact_stall, 0);
    assert!(reclaim.is_wanted());
    drop(seat);
    users.are_complete(&zone, 601);
}

#[test]
fn a_boost_ends_when_its_targets_were_reached() {
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        with_free(|_| 150),
        &ReclaimConfig::default()
    );
    let plain = reclaim.targets();
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    seat.alloc(order(0), Unmovable, Context::NOWAIT, &clients)
        .unwrap();
    reclaim.watch();
    let boosted = reclaim.targets();
    assert_eq!(boosted.pageblocks.high, plain.pageblocks.high + 1);
    while reclaim.background(seat.frames(), &clients, 1000) == Background::Works {}
    assert_eq!(zone.free_pageblocks(), boosted.pageblocks.high);
    assert_eq!(reclaim.targets(), plain);
}

/// A client that would give frames up for no gain.
struct Never;

impl<F> Shrink<F> for Never {
    fn holding(&self) -> u64 {
        1000
    }

    fn shrink(&self, _: &mut F, _: &Ask) -> Shrunk {
        panic!("enough is free")
    }
}

#[test]
fn what_cannot_move_gets_room_from_what_can_while_lent_frames_are_free() {
    // Half of memory is lent and free; the other half is full. In the one case every pageblock of it
    // has something in it that cannot move.
    for contaminated in [false, true] {
        let lent = run(0, 8 * 512);
        let half = |zone: &Zone<'_, SingleThread>, users: &Users| {
            fill(zone, users, |id| if id < 8 { 512 } else { 0 });
            zone.set_label(lent, Label::Contiguous).unwrap();
            let mut frames = zone.seat(CpuId(0)).unwrap();
            for id in (8..16).filter(|_| contaminated) {
                let frame = Frame(id * 512 + 77);
                users.remove(frame);
                frames.free(frame, order(0)).unwrap();
                zone.alloc_at(frame, order(0), Unmovable).unwrap();
            }
        };
        let config = ReclaimConfig::default();
        crowd!(zone, users, reclaim, clients, half, &config, &[&Never]);
        let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
        for _ in 0..10 {
            seat.alloc(order(0), Unmovable, Context::ANY, &clients)
                .unwrap();
        }
        let stats = reclaim.stats();
        assert!((1..=10).contains(&stats.compact_success), "{stats:?}");
        assert_eq!(zone.polluting_fallbacks(), 0);
        // The background sees to it before another request has to wait.
        assert!(reclaim.is_wanted());
        while reclaim.background(seat.frames(), &clients, 500) == Background::Works {}
        let ordinary = zone.free_frames_for(Unmovable);
        assert!(ordinary >= zone.watermarks().high, "{ordinary}");
        for _ in 0..50 {
            seat.alloc(order(0), Reclaimable, Context::ANY, &clients)
                .unwrap();
        }
        assert_eq!(reclaim.stats().compact_stall, stats.compact_stall);
        // Movable contents go where no others can.
        let moves = seat.alloc(order(0), Movable, Context::ANY, &clients);
        assert!(moves.unwrap() < lent.end());
        drop(seat);
        users.are_complete(&zone, if contaminated { 69 } else { 61 });
    }
}

#[test]
fn a_block_that_only_lies_in_pieces_is_compacted_and_no_client_gives_anything_up() {
    let config = ReclaimConfig::default();
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        with_free(|_| 100),
        &config,
        &[&Never]
    );
    let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
    for size in [3, 4, 9] {
        let found = seat.alloc(order(size), Movable, Context::ANY, &clients);
        assert!(found.unwrap().is_aligned(order(size)));
    }
    let stats = reclaim.stats();
    assert!(stats.compact_success >= 2, "{stats:?}");
    assert_eq!(stats.allocstalls(), 0);
    drop(seat);
    users.are_complete(&zone, 8 + 16 + 512);
}

#[test]
fn relief_compacts_for_objects_and_leaves_a_free_block() {
    crowd!(
        zone,
        users,
        reclaim,
        clients,
        with_free(|_| 100),
        &ReclaimConfig::default()
    );
    let relief = reclaim.relief(clients);
    let mut frames = zone.seat(CpuId(0)).unwrap();
    assert!(!relief.compact(&mut frames, order(3), Context::NOWAIT));
    assert!(!relief.compact(&mut frames, order(20), Context::ANY));
    assert!(relief.compact(&mut frames, order(3), Context::ANY));
    assert!(frames.try_alloc(order(3), Unmovable).is_some());
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.compact_success), (1, 1));
    drop(frames);
    users.are_complete(&zone, 8);
}
