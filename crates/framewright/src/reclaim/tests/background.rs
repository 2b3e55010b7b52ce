//! The background: when it is woken, how far it works, and when it sleeps.

use super::pressure::{FRAMES, MIN, TestCache, UNCACHED, layout, plain, take};
use super::*;
use crate::reclaim::state::Lack;
use crate::reclaim::watch::{NAPS, WORKS};
use crate::sync::Ordering::Relaxed;

#[test]
fn the_background_is_woken_below_low_and_works_to_high_within_its_budget() {
    machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
    let marks = zone.watermarks();
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let cache = TestCache::default();
    cache.fill(&mut frames, FRAMES - marks.low - 33);
    let clients = Clients {
        shrink: &[&cache],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    assert_eq!(
        reclaim.background(seat.frames(), &clients, 20),
        Background::Sleeps
    );
    take(&mut seat, &clients, 33);
    assert!(!reclaim.is_wanted());
    take(&mut seat, &clients, 34);
    assert!(reclaim.is_wanted(), "at the first look after a quota");
    let mut steps = 0;
    while reclaim.background(seat.frames(), &clients, 20) == Background::Works {
        steps += 1;
        assert!(reclaim.is_wanted());
    }
    assert!(zone.free_in_pageblocks() >= marks.high);
    assert!(steps >= 3, "a step is bounded by its budget: {steps}");
    let stats = reclaim.stats();
    assert_eq!((stats.kswapd_wake, stats.allocstalls()), (1, 0));
    assert!(stats.pgsteal_kswapd >= marks.high - marks.low);
    // The nap is over, and nothing has happened.
    assert!(!reclaim.is_wanted());
    assert_eq!(
        reclaim.background(seat.frames(), &clients, 20),
        Background::Sleeps
    );
    // Below high when the nap is over.
    take(&mut seat, &clients, 80);
    while reclaim.background(seat.frames(), &clients, 20) != Background::Naps {}
    take(&mut seat, &clients, 2);
    while reclaim.background(seat.frames(), &clients, 20) != Background::Naps {}
    assert_eq!(reclaim.stats().kswapd_high_wmark_hit_quickly, 1);
    // Below low before it is.
    while !reclaim.is_wanted() {
        take(&mut seat, &clients, 1);
    }
    while reclaim.background(seat.frames(), &clients, 20) != Background::Naps {}
    let stats = reclaim.stats();
    assert_eq!(stats.kswapd_low_wmark_hit_quickly, 1);
    assert_eq!(stats.kswapd_high_wmark_hit_quickly, 1);
    assert_eq!(stats.kswapd_wake, 3);
    assert_eq!(stats.allocstalls(), 0, "it was there in time");
}

#[test]
fn a_background_that_can_do_nothing_sleeps_and_is_left_off_until_something_helps() {
    machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let held = TestCache::default();
    held.fill(&mut frames, FRAMES - MIN - 100);
    let mut wakes = Vec::new();
    for look in 0..40 {
        reclaim.watch();
        if look % 2 == 0 {
            reclaim.watch();
        }
        if reclaim.is_wanted() {
            let rests = loop {
                match reclaim.background(&mut frames, &Clients::NONE, 10) {
                    Background::Works => {}
                    rests => break rests,
                }
            };
            assert_eq!(rests, Background::Sleeps);
            wakes.push(look);
        }
    }
    assert!(wakes.is_empty(), "above low nothing is woken: {wakes:?}");
    held.fill(&mut frames, 90);
    for look in 0..40 {
        reclaim.watch();
        if reclaim.is_wanted() {
            while reclaim.background(&mut frames, &Clients::NONE, 10) == Background::Works {}
            wakes.push(look);
        }
    }
    assert_eq!(wakes, [0, 2, 5, 10, 19, 28, 37]);
    // A client comes to hold something, and a request gets it: the background is woken at the next
    // look.
    let clients = Clients {
        shrink: &[&held],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    take(&mut seat, &clients, 30);
    assert!(reclaim.stats().allocstalls() > 0);
    reclaim.watch();
    assert!(reclaim.is_wanted());
}

/// Holds much, and gives nothing however often it is looked at.
struct Stubborn(Cell<u64>);

impl<F> Shrink<F> for Stubborn {
    fn holding(&self) -> u64 {
        400
    }

    fn shrink(&self, _frames: &mut F, ask: &Ask) -> Shrunk {
        self.0.set(self.0.get() + ask.scan);
        Shrunk {
            scanned: ask.scan,
            freed: 0,
        }
    }
}

#[test]
fn r3_the_background_ends_beside_a_client_that_gives_nothing_however_small_its_steps_are() {
    for budget in [1, 7, 100, 10_000] {
        machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
        let mut frames = zone.seat(CpuId(0)).unwrap();
        TestCache::default().fill(&mut frames, FRAMES - MIN - 10);
        reclaim.watch();
        assert!(reclaim.is_wanted());
        let stubborn = Stubborn(Cell::new(0));
        let clients = Clients {
            shrink: &[&stubborn],
            migrate: &[],
        };
        let mut steps = 0;
        while reclaim.background(&mut frames, &clients, budget) == Background::Works {
            steps += 1;
            assert!(steps < 2000, "it works for ever at {budget} looks a step");
        }
        let looks = stubborn.0.get();
        assert!((400..=1600).contains(&looks), "{looks} looks at 400 frames");
    }
}

#[test]
fn a_wake_that_comes_while_the_background_works_outlasts_its_going_to_rest() {
    machine!(
        zone,
        reclaim,
        &UNCACHED,
        layout(1),
        &ReclaimConfig::default(),
        |_| ()
    );
    let phase = &reclaim.record().phase;
    // It has found that there is enough; then others take frames and see that it works; then it rests.
    phase.store(WORKS, Relaxed);
    reclaim.wake(Lack::Frames);
    phase.store(NAPS, Relaxed);
    assert!(reclaim.is_wanted());
    let stats = reclaim.stats();
    assert_eq!(stats.kswapd_wake, 0, "it was awake");
    // In order, it has seen to that itself.
    let mut frames = zone.seat(CpuId(0)).unwrap();
    phase.store(WORKS, Relaxed);
    reclaim.wake(Lack::Frames);
    let clients = Clients {
        shrink: &[],
        migrate: &[],
    };
    assert_eq!(
        reclaim.background(&mut frames, &clients, 100),
        Background::Naps
    );
    assert!(!reclaim.is_wanted());
}
