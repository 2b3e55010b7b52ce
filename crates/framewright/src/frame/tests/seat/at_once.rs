//! Requests that must not wait: they stop no CPU, and wait for no CPU to leave its seat.

use super::*;
use crate::frame::{AllocError, FrameSource, Seats};
use crate::platform::FramePlatform;
use crate::units::Context;

/// A platform on which no CPU waits, and which counts the barriers that act on all of them.
#[derive(Default)]
struct Restless(std::cell::Cell<u64>);

impl FramePlatform for &Restless {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        panic!("a request waits");
    }

    fn barrier_all(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// The ways in which a CPU asks one zone for a block of a small order that it must not wait for.
fn ways<P: FramePlatform>(
    seat: &mut Seat<'_, '_, P>,
    order: Order,
) -> [Result<Frame, AllocError>; 3] {
    [
        seat.alloc_at_once(order, Movable),
        seat.alloc_block(order, Unmovable, Context::NOWAIT),
        seat.alloc_run(order.frames(), Context::NOWAIT)
            .map(|run| run.start()),
    ]
}

#[test]
fn a_request_that_must_not_wait_leaves_all_cpus_alone_while_one_of_them_is_at_work() {
    let platform = Restless::default();
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(2);
    let config = Config {
        stop_order_max: Order::MAX,
        ..caching(100)
    };
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &config, &mut memory, &platform).unwrap();
    zone.add(whole(&layout)).unwrap();
    let [mut one, mut other] = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    // Some of the other CPU's frames come to lie in its cache, and it stays in its seat.
    let frame = other.alloc(Order::ZERO, Movable).unwrap();
    other.free(frame, Order::ZERO).unwrap();
    while one.try_alloc(Order::ZERO, Movable).is_some() {}
    let before = (platform.0.get(), zone.stats().drains);
    other.enter();
    for size in [0, 1, 3] {
        let would_wait = if order(size).frames() <= zone.stats().nr_free_pages {
            AllocError::WouldWait
        } else {
            AllocError::Exhausted
        };
        let failed = ways(&mut one, order(size));
        assert_eq!(failed, [Err(would_wait); 3], "{size}");
    }
    other.exit();
    assert_eq!((platform.0.get(), zone.stats().drains), before);
    // The longer runs had failed for their first frame.
    let stats = zone.stats();
    assert_eq!((stats.fragmented[0], stats.fragmented[1]), (5, 2));
    assert_eq!(stats.exhausted[0], 0);
    // A request that may wait gets one, by a stop.
    one.alloc(Order::ZERO, Unmovable).unwrap();
    assert_eq!(zone.stats().drains, before.1 + 1);
    while one.alloc(Order::ZERO, Unmovable).is_ok() {}
    let exhausted = ways(&mut one, Order::ZERO);
    assert_eq!(exhausted, [Err(AllocError::Exhausted); 3], "by the counts");
    zone.verify().unwrap();
}

#[test]
fn a_request_that_must_not_wait_has_what_its_own_cpu_has_cached_and_leaves_no_doubt_if_that_is_alone()
 {
    let platform = Restless::default();
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(1);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &caching(100), &mut memory, &platform).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let barriers = platform.0.get();
    let blocks: Vec<_> = [0, 2, 3]
        .map(|size| (seat.alloc(order(size), Movable).unwrap(), order(size)))
        .into();
    for (block, order) in blocks {
        seat.free(block, order).unwrap();
    }
    // The whole pageblock is free, in caches and out of them.
    assert_eq!(seat.alloc_at_once(order(9), Unmovable), Ok(Frame(0)));
    seat.free(Frame(0), order(9)).unwrap();
    let taken: Vec<_> = (0..)
        .map_while(|_| seat.alloc_at_once(order(0), Movable).ok())
        .collect();
    assert_eq!(taken.len(), 512);
    assert_eq!(ways(&mut seat, order(0)), [Err(AllocError::Exhausted); 3]);
    for frame in taken.into_iter().step_by(2) {
        seat.free(frame, Order::ZERO).unwrap();
    }
    let failed = seat.alloc_at_once(order(1), Movable);
    assert_eq!(
        failed,
        Err(AllocError::Fragmented),
        "no other owner has a part"
    );
    assert!(seat.alloc_run(8, Context::NOWAIT).is_ok());
    assert_eq!(platform.0.get(), barriers);
}

#[test]
fn with_several_zones_a_request_that_must_not_wait_stops_none_of_them() {
    let platform = Restless::default();
    let layouts = [1024, 0].map(|start| ZoneLayout::new(Frame(start), 512).with_cpus(2));
    let mut words = layouts.map(|layout| memory(&layout));
    let [near, far] = &mut words;
    let zone = |layout: &ZoneLayout, words| {
        let zone = Zone::new(layout, &caching(100), words, &platform).unwrap();
        zone.add(whole(layout)).unwrap();
        zone
    };
    let zones = [zone(&layouts[0], near), zone(&layouts[1], far)];
    let [mut one, mut other]: [Seats<'_, '_, _, 2>; 2] =
        [0, 1].map(|cpu| Seats::take(&zones, CpuId(cpu)).unwrap());
    // Frames of both zones lie in the other CPU's caches.
    for nth in 0..2 {
        let frame = other.alloc(nth, Order::ZERO, Movable).unwrap();
        other.free(frame, Order::ZERO).unwrap();
    }
    while one.try_block(Order::ZERO, Movable).is_some() {}
    let drains = || zones.each_ref().map(|zone| zone.stats().drains);
    let before = (platform.0.get(), drains());
    for nth in 0..2 {
        other.seat(nth).enter();
    }
    let failed = [
        one.alloc_at_once(0, Order::ZERO, Movable),
        one.alloc_at_once(1, Order::ZERO, Unmovable),
        one.alloc_block(Order::ZERO, Unmovable, Context::NOWAIT),
        one.alloc_run(8, Context::NOWAIT).map(|run| run.start()),
    ];
    assert_eq!(failed, [Err(AllocError::WouldWait); 4]);
    for nth in 0..2 {
        other.seat(nth).exit();
    }
    assert_eq!((platform.0.get(), drains()), before);
    while one.alloc(0, Order::ZERO, Movable).is_ok() {}
    let exhausted = one.alloc_at_once(0, Order::ZERO, Movable);
    assert_eq!(exhausted, Err(AllocError::Exhausted));
    // What became free since may have been taken elsewhere, so that there was a frame at each moment.
    let freed = one.freed_from(0);
    let doubt = |seats: &Seats<'_, '_, _, 2>| seats.unless_freed(0, freed, AllocError::Exhausted);
    assert_eq!(doubt(&one), AllocError::Exhausted);
    other.free(Frame(1024), Order::ZERO).unwrap();
    assert_eq!(doubt(&one), AllocError::WouldWait);
}
