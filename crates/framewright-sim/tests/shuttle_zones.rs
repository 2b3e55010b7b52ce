//! Requests to several zones, with interleavings that shuttle chooses:
//! `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_zones`.
//! In a normal build this file is empty.
//!
//! What must never be seen: a request that fails although at each moment one of its zones has a frame, and one
//! that must not wait and is certain of that.
#![cfg(shuttle)]

use framewright::frame::{AllocError, FrameSource, Seats, Zone, ZoneLayout};
use framewright::platform::FramePlatform;
use framewright::policy::Config;
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::sync::Arc;

const MOVABLE: Mobility = Mobility::Movable;
/// Frames of a zone. Of so few no CPU caches any, so each request finds what the other CPU frees.
const FEW: u64 = 8;
/// Of this many a CPU caches three, so a request that must not wait finds none of what the other CPU frees: all
/// that it knows of that are the counts.
const SOME: u64 = 64;
/// How often the one CPU moves, how often the other one asks, and in how many schedules.
const MOVES: usize = 40;
const REQUESTS: usize = 12;
const SCHEDULES: usize = 160;

type TwoZones = &'static [Zone<'static, YieldsBetween>; 2];
type TwoSeats = Seats<'static, 'static, YieldsBetween, 2>;

/// The other CPU may go on at the end of each stop, also in a schedule that seldom changes threads.
#[derive(Clone, Copy, Debug)]
struct YieldsBetween;

impl FramePlatform for YieldsBetween {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn wake(&self) {
        thread::yield_now();
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

/// Half of the schedules at random, half with few, well-placed preemptions.
fn explore(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 18;
    let body = Arc::new(body);
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(5, schedules / 2), config).run(move || same());
}

fn zone(start: u64, frames: u64) -> Zone<'static, YieldsBetween> {
    let order = |order| Order::new(order).unwrap();
    let layout = ZoneLayout::new(Frame(start), frames)
        .with_orders(order(3), order(3))
        .with_cpus(2);
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let zone = Zone::new(&layout, &config, memory, YieldsBetween).unwrap();
    zone.add(Run::new(layout.start, frames).unwrap()).unwrap();
    zone
}

/// Two zones that are full but for two frames. The other CPU has one of them at most, and moves: it frees it before
/// it takes one in the other zone. So a frame is free at each moment of a request of this CPU, which then gives
/// back what it got. Returns how often CPUs were stopped.
fn beside_a_cpu_that_moves(frames: u64, request: impl Fn(&mut TwoSeats) -> Option<Frame>) -> u64 {
    let zones: TwoZones = Box::leak(Box::new([zone(0, frames), zone(64, frames)]));
    let mut seats = Seats::<_, 2>::take(zones, CpuId(0)).unwrap();
    let mut other = Seats::<_, 2>::take(zones, CpuId(1)).unwrap();
    let near = other.seat(0).alloc(Order::ZERO, MOVABLE).unwrap();
    let far = other.seat(1).alloc(Order::ZERO, MOVABLE).unwrap();
    while seats.alloc(0, Order::ZERO, MOVABLE).is_ok() {}
    other.free(far, Order::ZERO).unwrap();
    let mover = thread::spawn(move || {
        let mut has = Some(near);
        for nth in [1, 0].into_iter().cycle().take(MOVES) {
            if let Some(frame) = has.take() {
                other.free(frame, Order::ZERO).unwrap();
            }
            has = other.seat(nth).try_alloc(Order::ZERO, MOVABLE);
            thread::yield_now();
        }
    });
    let drains = || zones.iter().map(|zone| zone.stats().drains).sum::<u64>();
    let stops = drains();
    for _ in 0..REQUESTS {
        if let Some(frame) = request(&mut seats) {
            seats.free(frame, Order::ZERO).unwrap();
        }
    }
    mover.join().unwrap();
    drains() - stops
}

#[test]
fn f8_a_request_to_two_zones_is_served_if_one_of_them_had_a_frame_at_each_moment() {
    let requests: [fn(&mut TwoSeats) -> Result<Frame, AllocError>; 3] = [
        |seats| seats.alloc(0, Order::ZERO, MOVABLE),
        |seats| seats.alloc_hard(0, Order::ZERO, Mobility::Unmovable),
        |seats| seats.alloc_run(3, Context::ANY).map(Run::start),
    ];
    for request in requests {
        explore(SCHEDULES, move || {
            beside_a_cpu_that_moves(FEW, |seats| {
                let got = request(seats);
                Some(got.expect("F8: at each moment a frame was free"))
            });
        });
    }
}

#[test]
fn f8_a_request_that_must_not_wait_stops_no_cpu_of_two_zones_and_does_not_call_them_empty() {
    let requests: [fn(&mut TwoSeats) -> Result<Frame, AllocError>; 2] = [
        |seats| seats.alloc_at_once(0, Order::ZERO, MOVABLE),
        |seats| seats.alloc_run(1, Context::NOWAIT).map(Run::start),
    ];
    for (request, frames) in requests
        .map(|of| [(of, FEW), (of, SOME)])
        .into_iter()
        .flatten()
    {
        explore(SCHEDULES, move || {
            let stops = beside_a_cpu_that_moves(frames, |seats| {
                let got = request(seats);
                let is_right = matches!(got, Ok(_) | Err(AllocError::WouldWait));
                assert!(is_right, "F8: {got:?}, and at each moment a frame was free");
                got.ok()
            });
            assert_eq!(stops, 0);
        });
    }
}
