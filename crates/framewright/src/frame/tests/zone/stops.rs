//! Which requests stop all CPUs, how often, and with what result.

use super::*;
use crate::frame::AllocError;
use crate::platform::crowd::Crowd;
use crate::platform::{FramePlatform, Patience};
use crate::seats::{ClaimWords, Turn};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

fn drains<P>(zone: &Zone<'_, P>) -> u64 {
    zone.stats().drains
}

/// Takes single frames until there is none.
fn take_all<P: FramePlatform>(seat: &mut Seat<'_, '_, P>) -> Vec<Frame> {
    let mut taken = Vec::new();
    while let Ok(frame) = seat.alloc(Order::ZERO, Movable) {
        taken.push(frame);
    }
    taken
}

#[test]
fn a_request_that_failed_stops_no_cpu_again_until_something_becomes_free() {
    let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(3);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &Config::default(), &mut memory, ()).unwrap();
    zone.add(run(0, 1024)).unwrap();
    let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    let taken = take_all(&mut seats[0]);
    let before = drains(&zone);
    for _ in 0..1000 {
        for seat in &mut seats {
            for order in [order(0), order(1), order(3)] {
                let failed = seat.alloc(order, Movable);
                assert_eq!(failed, Err(AllocError::Exhausted), "{order}");
            }
            let failed = seat.alloc_hard(order(9), Movable);
            assert_eq!(failed, Err(AllocError::Exhausted));
        }
    }
    assert_eq!(
        drains(&zone),
        before,
        "what is true of one frame is true of more"
    );
    let kinds = [
        (order(0), Unmovable),
        (order(0), Reclaimable),
        (order(2), Unmovable),
    ];
    for (order, mobility) in kinds.into_iter().chain(kinds) {
        assert!(seats[1].alloc(order, mobility).is_err());
    }
    assert_eq!(
        drains(&zone),
        before + 2,
        "one for single frames, one for blocks"
    );

    // A free puts the frame into the cache of another CPU, where only a stop finds it.
    seats[1].free(taken[0], Order::ZERO).unwrap();
    let before = drains(&zone);
    assert_eq!(seats[0].alloc(Order::ZERO, Unmovable), Ok(taken[0]));
    assert!(drains(&zone) <= before + 1);
    // The zone gets more memory.
    assert!(seats[0].alloc(order(3), Movable).is_err());
    zone.add(run(1024, 512)).unwrap();
    assert!(seats[0].alloc(order(3), Movable).is_ok());
    zone.drain();
    zone.verify().unwrap();
}

#[test]
fn a_label_and_the_end_of_isolation_are_something_that_becomes_free() {
    let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &Config::default(), &mut memory, ()).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    zone.isolate(run(0, 512)).unwrap();
    zone.set_label(run(512, 512), Label::Contiguous).unwrap();
    for _ in 0..3 {
        assert_eq!(seat.alloc(order(2), Unmovable), Err(AllocError::Exhausted));
    }
    assert_eq!(drains(&zone), 1);
    zone.set_label(run(512, 512), Label::Of(Movable)).unwrap();
    let block = seat.alloc(order(2), Unmovable).unwrap();
    assert!(block.0 >= 512);
    seat.free(block, order(2)).unwrap();
    zone.set_label(run(512, 512), Label::Contiguous).unwrap();
    assert!(seat.alloc(order(2), Unmovable).is_err());
    zone.unisolate(run(0, 512)).unwrap();
    assert!(seat.alloc(order(2), Unmovable).unwrap().0 < 512);
}

#[test]
fn f8_a_costly_order_stops_no_cpu_unless_it_was_told_to_try_hard() {
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(2);
    let config = caching(100);
    for (stop_order_max, is_costly) in [(order(3), true), (order(4), true), (order(9), false)] {
        let config = Config {
            stop_order_max,
            ..config
        };
        let mut memory = memory(&layout);
        let zone = Zone::new(&layout, &config, &mut memory, ()).unwrap();
        zone.add(whole(&layout)).unwrap();
        let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
        // A frame of the only pageblock lies in another CPU's cache.
        let frame = seats[1].alloc(Order::ZERO, Movable).unwrap();
        seats[1].free(frame, Order::ZERO).unwrap();
        let got = seats[0].alloc(order(9), Movable);
        if is_costly {
            assert_eq!((got, drains(&zone)), (Err(AllocError::Fragmented), 0));
        } else {
            assert_eq!((got, drains(&zone)), (Ok(Frame(0)), 1));
            continue;
        }
        assert_eq!(seats[0].alloc_hard(order(9), Movable), Ok(Frame(0)));
        assert_eq!(drains(&zone), 1);
        assert_eq!(zone.stats().fragmented[9], 1);
        zone.verify().unwrap();
    }
}

#[test]
fn a_costly_order_is_made_of_what_its_own_cpu_has_cached() {
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(2);
    let config = caching(100);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &config, &mut memory, ()).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for order in [order(0), order(2)] {
        let block = seat.alloc(order, Unmovable).unwrap();
        seat.free(block, order).unwrap();
    }
    assert_eq!(seat.alloc(order(9), Movable), Ok(Frame(0)));
    assert_eq!(drains(&zone), 0);
    seat.free(Frame(0), order(9)).unwrap();
    zone.verify().unwrap();
}

#[test]
fn what_is_impossible_is_refused_without_a_stop() {
    // 700 frames from 300 on have no aligned place for 512, and are too few for 1024.
    let layout = ZoneLayout::new(Frame(300), 700).with_cpus(2);
    let config = Config {
        stop_order_max: Order::MAX,
        ..Config::default()
    };
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &config, &mut memory, ()).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    assert_eq!(seat.alloc(Order::ZERO, Movable), Err(AllocError::Exhausted));
    zone.add(run(300, 600)).unwrap();
    assert_eq!(seat.alloc(order(9), Movable), Err(AllocError::Fragmented));
    assert_eq!(seat.alloc(order(10), Movable), Err(AllocError::Exhausted));
    let too_large = seat.alloc_hard(order(11), Movable);
    let max = order(10);
    assert_eq!(
        too_large,
        Err(AllocError::TooLarge {
            order: order(11),
            max
        })
    );
    assert_eq!(drains(&zone), 0);
    zone.drain();
    zone.verify().unwrap();
}

#[test]
fn what_only_the_reserve_has_is_no_reason_to_call_single_frames_fragmented() {
    let layout = ZoneLayout::new(Frame(0), 512 * 200).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    assert_eq!(zone.reserve_high_order(2), 2);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let taken = (0..).map_while(|_| seat.alloc(Order::ZERO, Unmovable).ok());
    assert_eq!(taken.count(), 512 * 198);
    // The order of a whole pageblock is the largest that the reserve serves.
    let expected = [
        (0, Unmovable, AllocError::Exhausted),
        (1, Movable, AllocError::Exhausted),
        (10, Unmovable, AllocError::Exhausted),
    ];
    for (size, mobility, error) in expected {
        let failed = seat.alloc_hard(order(size), mobility);
        assert_eq!(failed, Err(error), "{mobility:?} {size}");
    }
    assert!(seat.alloc_hard(order(9), Unmovable).is_ok());
    assert!(seat.alloc(order(1), Reclaimable).is_ok());
    let failed = seat.alloc_hard(order(9), Unmovable);
    assert_eq!(failed, Err(AllocError::Exhausted), "510 are left");
    zone.drain();
    zone.verify().unwrap();
}

#[test]
fn a_seat_is_told_of_restricted_pageblocks_when_there_is_the_first_and_when_the_last_is_gone() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let seat = zone.seat(CpuId(0)).unwrap();
    let of = |label| zone.set_label(run(0, 512 * 2), label).unwrap();
    assert!(!seat.words.is_restricted());
    zone.isolate(run(512, 512)).unwrap();
    assert!(seat.words.is_restricted());
    of(Label::Contiguous);
    zone.unisolate(run(512, 512)).unwrap();
    assert!(seat.words.is_restricted(), "two pageblocks are contiguous");
    of(Label::Of(Movable));
    assert!(!seat.words.is_restricted());
}

#[test]
fn one_stop_serves_all_requests_that_wait_for_it() {
    const CPUS: u16 = 64;
    let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(CPUS);
    let mut memory = memory(&layout);
    let crowd = Crowd::default();
    let zone = Zone::new(&layout, &Config::default(), &mut memory, &crowd).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let taken = take_all(&mut seat);
    // A free and an allocation, so that the memo of stops rules no stop out.
    seat.free(taken[0], Order::ZERO).unwrap();
    assert_eq!(seat.alloc(Order::ZERO, Movable), Ok(taken[0]));
    drop(seat);
    crowd.expect(CPUS - 1);
    let before = drains(&zone);
    let errors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for cpu in 0..CPUS {
            let (zone, errors) = (&zone, &errors);
            scope.spawn(move || {
                let mut seat = zone.seat(CpuId(cpu)).unwrap();
                let got = seat.alloc(Order::ZERO, Unmovable);
                errors.lock().unwrap().push(got);
            });
        }
    });
    let errors = errors.into_inner().unwrap();
    assert_eq!(errors, vec![Err(AllocError::Exhausted); usize::from(CPUS)]);
    assert_eq!(drains(&zone), before + 1);
}

/// A platform on which a CPU that waits panics.
struct Impatient;

impl FramePlatform for Impatient {
    const ASYMMETRIC: bool = false;

    fn relax(&self, _attempt: u32) {
        panic!("injected");
    }

    fn barrier_all(&self) {}
}

#[test]
fn a_platform_that_panics_while_a_seat_waits_leaves_the_seat_idle() {
    let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &Config::default(), &mut memory, Impatient).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    let block = seat.alloc(order(3), Movable).unwrap();
    let id = block.0 as usize / 512;
    let held = zone.try_lock(other.words.counters(), id / 2 * 2).unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| seat.free_part(block, Order::ZERO)));
    assert!(unwound.is_err());
    held.unlock();
    // If the seat were busy, the drain would wait for it, and panic.
    zone.drain();
    zone.verify().unwrap();
    seat.free_part(block, Order::ZERO).unwrap();
}

/// A platform that counts its wakes. Its first wait ends the claim.
#[derive(Default)]
struct Told {
    /// The words of a seat.
    busy: AtomicU64,
    claims: ClaimWords,
    told: AtomicU64,
    /// The count when the wait began.
    told_before_waiting: AtomicU64,
}

impl FramePlatform for &Told {
    const ASYMMETRIC: bool = false;

    fn relax(&self, _attempt: u32) {
        let told = self.told.load(Relaxed);
        self.told_before_waiting.store(told, Relaxed);
        Turn::new(&self.busy, &self.claims).give_up();
    }

    fn wake(&self) {
        self.told.fetch_add(1, Relaxed);
    }

    fn barrier_all(&self) {}
}

#[test]
fn the_end_of_a_stop_is_told_once_and_the_frequent_side_wakes_no_cpu() {
    let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(2);
    let mut memory = memory(&layout);
    let platform = Told::default();
    let zone = Zone::new(&layout, &Config::default(), &mut memory, &platform).unwrap();
    zone.add(whole(&layout)).unwrap();
    let told = || platform.told.load(Relaxed);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let before = told();
    for order in [0, 4, 9].map(order) {
        let block = seat.alloc(order, Movable).unwrap();
        seat.free(block, order).unwrap();
    }
    assert_eq!(told(), before);
    zone.drain();
    assert_eq!(told(), before + 1);
    let taken = take_all(&mut seat);
    assert_eq!(
        told(),
        before + 2,
        "the last one failed, and had stopped all"
    );
    seat.alloc(Order::ZERO, Movable).unwrap_err();
    assert_eq!(told(), before + 2, "it did not stop again");
    assert_eq!(taken.len(), 1024);
}

#[test]
fn an_owner_that_leaves_its_seat_to_a_claimer_wakes_it_before_it_waits() {
    let platform = Told::default();
    let turn = Turn::new(&platform.busy, &platform.claims);
    assert!(turn.try_enter::<&Told>());
    turn.wait_if_claimed(&&platform);
    turn.exit();
    assert_eq!(platform.told.load(Relaxed), 0);
    turn.claim();
    assert!(!turn.try_enter::<&Told>());
    turn.wait_if_claimed(&&platform);
    assert_eq!(platform.told_before_waiting.load(Relaxed), 1);
    turn.exit();
}

/// A platform that counts how often a CPU waits a moment.
#[derive(Default)]
struct Moments(AtomicU64);

impl FramePlatform for &Moments {
    const ASYMMETRIC: bool = false;

    fn relax(&self, _attempt: u32) {
        self.0.fetch_add(1, Relaxed);
    }

    fn barrier_all(&self) {}
}

#[test]
fn a_stop_with_a_bound_ends_at_it_and_leaves_no_claim() {
    let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(2);
    let mut memory = memory(&layout);
    let moments = Moments::default();
    let zone = Zone::new(&layout, &Config::default(), &mut memory, &moments).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seat = zone.seat(CpuId(1)).unwrap();
    for rounds in [0, 1, 9] {
        let within = |work: fn(&Zone<'_, &Moments>, &mut Patience) -> bool| {
            let before = moments.0.load(Relaxed);
            let stopped = work(&zone, &mut Patience::Rounds(rounds));
            (stopped, moments.0.load(Relaxed) - before)
        };
        let stop = |zone: &Zone<'_, &Moments>, patience: &mut Patience| {
            zone.stop_within(patience).is_some()
        };
        let set_apart = |zone: &Zone<'_, &Moments>, patience: &mut Patience| {
            zone.set_apart_within(0..1, patience).is_some()
        };
        let given_up = (false, u64::from(rounds));
        seat.enter();
        assert_eq!(within(stop), given_up, "a CPU stays in its seat");
        assert_eq!(within(set_apart), given_up);
        seat.exit();
        assert!(seat.try_enter(), "the claim has ended");
        seat.exit();
        let stopped = zone.stop();
        assert_eq!(within(stop), given_up, "another CPU stops all");
        drop(stopped);
        assert_eq!(within(stop), (true, 0));
        assert_eq!(within(set_apart), (true, 0));
        let frame = seat.alloc(Order::ZERO, Movable).unwrap();
        seat.free(frame, Order::ZERO).unwrap();
        zone.verify().unwrap();
    }
}

#[test]
fn f8_a_request_with_a_bound_is_served_or_fails_exactly_or_says_that_it_would_wait() {
    for rounds in [0, 1, 9] {
        let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(2);
        let mut memory = memory(&layout);
        let moments = Moments::default();
        let zone = Zone::new(&layout, &Config::default(), &mut memory, &moments).unwrap();
        zone.add(whole(&layout)).unwrap();
        let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
        let [one, other] = &mut seats;
        let would_wait = Err(AllocError::WouldWait);
        // The last free frames lie in the other CPU's cache.
        other.alloc(Order::ZERO, Movable).unwrap();
        while one.try_alloc(Order::ZERO, Movable).is_some() {}
        let before = moments.0.load(Relaxed);
        // The other CPU stays in its seat, so this one cannot stop it.
        other.enter();
        assert_eq!(one.alloc_within(Order::ZERO, Movable, rounds), would_wait);
        other.exit();
        // Another CPU stops this one, which goes on without a block.
        let stopped = zone.stop();
        assert_eq!(one.alloc_within(Order::ZERO, Movable, rounds), would_wait);
        drop(stopped);
        let waited = moments.0.load(Relaxed) - before;
        assert_eq!(waited, 2 * u64::from(rounds));
        assert_eq!(
            zone.stats().exhausted[0],
            0,
            "it is not known to have failed"
        );
        // With no other CPU in the way, it gets a block.
        one.alloc_within(Order::ZERO, Movable, rounds).unwrap();
        take_all(one);
        let failures = zone.stats().exhausted[0];
        let exhausted = Err(AllocError::Exhausted);
        assert_eq!(one.alloc_within(Order::ZERO, Movable, rounds), exhausted);
        assert_eq!(zone.stats().exhausted[0], failures + 1);
        zone.verify().unwrap();
    }
}
