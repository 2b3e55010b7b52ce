//! The whole page-frame allocator on threads, with interleavings that shuttle chooses:
//! `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_frames`.
//! In a normal build this file is empty.
//!
//! What must never be seen: a frame that two have at a time, a request that fails although the
//! block it needs is free, a frame that is lost.
#![cfg(shuttle)]

use framewright::frame::{AllocError, FreeError, Seat, Zone, ZoneLayout};
use framewright::policy::{Config, Fallback};
use framewright::{CpuId, Frame, Mobility, Order, Run};
use framewright_sim::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::sync::{Arc, Mutex as Plain};

type FencedZone = &'static Zone<'static, ()>;
type FencedSeat = Seat<'static, 'static, ()>;

const MOVABLE: Mobility = Mobility::Movable;
const UNMOVABLE: Mobility = Mobility::Unmovable;

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// Half of the schedules at random, half with few, well-placed preemptions.
fn explore(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 18;
    let body = Arc::new(body);
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(move || same());
}

/// A zone of `frames` frames with three seats, and caches that hold up to a tenth.
fn zone(frames: u64, pageblock: u8, max: u8, fallback: Fallback) -> FencedZone {
    zone_for(3, frames, pageblock, max, fallback)
}

fn zone_for(cpus: u16, frames: u64, pageblock: u8, max: u8, fallback: Fallback) -> FencedZone {
    let layout = ZoneLayout::new(Frame(0), frames)
        .with_orders(order(pageblock), order(max))
        .with_cpus(cpus);
    let config = Config {
        fallback,
        cache_permille: 100,
        ..Config::default()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let zone = Zone::new(&layout, &config, memory, ()).unwrap();
    zone.add(Run::new(Frame(0), frames).unwrap()).unwrap();
    Box::leak(Box::new(zone))
}

/// The owner of each frame. Not known to shuttle: it must not change the interleavings.
#[derive(Clone)]
struct FrameOwners(Arc<Plain<Vec<bool>>>);

impl FrameOwners {
    fn new(frames: u64) -> Self {
        Self(Arc::new(Plain::new(vec![false; frames as usize])))
    }

    fn mark(&self, frame: Frame, order: Order, owned: bool) {
        let mut frames = self.0.lock().unwrap();
        let start = frame.0 as usize;
        for (nth, has) in frames[start..start + order.frames() as usize]
            .iter_mut()
            .enumerate()
        {
            assert_eq!(*has, !owned, "{frame} + {nth}: handed out or freed twice");
            *has = owned;
        }
    }

    fn alloc(
        &self,
        seat: &mut FencedSeat,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.got(order, seat.alloc(order, mobility))
    }

    fn alloc_hard(
        &self,
        seat: &mut FencedSeat,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.got(order, seat.alloc_hard(order, mobility))
    }

    fn got(&self, order: Order, got: Result<Frame, AllocError>) -> Result<Frame, AllocError> {
        let frame = got?;
        assert!(frame.is_aligned(order));
        self.mark(frame, order, true);
        Ok(frame)
    }

    fn free(&self, seat: &mut FencedSeat, frame: Frame, order: Order) {
        self.mark(frame, order, false);
        seat.free(frame, order).unwrap();
    }

    /// Everything is back: no frame is lost or there twice.
    fn end(&self, zone: FencedZone) {
        let owned = self.0.lock().unwrap();
        let owned = owned.iter().filter(|&&owned| owned).count() as u64;
        zone.verify().unwrap();
        zone.drain();
        zone.verify().unwrap();
        let recount = zone.recount();
        assert_eq!((recount.free + owned, recount.cached), (recount.present, 0));
    }
}

fn on_cpus(
    zone: FencedZone,
    cpus: u16,
    work: impl Fn(&mut FencedSeat, u16) + Send + Sync + 'static,
) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..cpus)
        .map(|cpu| {
            let work = work.clone();
            thread::spawn(move || {
                let mut seat = zone.seat(CpuId(cpu)).unwrap();
                work(&mut seat, cpu);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn runs_over_several_words_are_handed_out_once() {
    // Orders 7 and 8 in pageblocks of 256 frames: two and four words each; and what is in between.
    explore(300, || {
        let zone = zone(512, 8, 8, Fallback::Concentrated);
        let oracle = FrameOwners::new(512);
        let end = oracle.clone();
        on_cpus(zone, 3, move |seat, cpu| {
            let mut random = Random::new(u64::from(cpu));
            for round in 0..4 {
                let order = order([7, 8, 7, 6][(round + usize::from(cpu)) % 4]);
                let mobility = Mobility::ALL[random.below(3) as usize];
                if let Ok(frame) = oracle.alloc(seat, order, mobility) {
                    thread::yield_now();
                    oracle.free(seat, frame, order);
                }
            }
        });
        end.end(zone);
    });
}

#[test]
fn blocks_above_the_pageblocks_are_handed_out_once() {
    explore(200, || {
        let zone = zone(64, 4, 6, Fallback::LargestFirst);
        let oracle = FrameOwners::new(64);
        let end = oracle.clone();
        on_cpus(zone, 3, move |seat, cpu| {
            for round in 0..3 {
                let order = order([5, 6, 4, 2][(round + usize::from(cpu)) % 4]);
                if let Ok(frame) = oracle.alloc(seat, order, Mobility::ALL[usize::from(cpu)]) {
                    oracle.free(seat, frame, order);
                }
            }
        });
        end.end(zone);
    });
}

#[test]
fn f8_no_request_fails_while_others_hold_fewer_frames_than_there_are() {
    // 32 frames, two users that hold at most 16 frames each: order 0 can never fail, wherever the
    // rest is cached, remote, or in a pageblock that another CPU works in.
    explore(300, || {
        let zone = zone(32, 3, 3, Fallback::Concentrated);
        let oracle = FrameOwners::new(32);
        let end = oracle.clone();
        on_cpus(zone, 2, move |seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 7);
            let mut held = Vec::new();
            for _ in 0..24 {
                if held.len() < 16 && (held.is_empty() || random.chance(70)) {
                    let frame = oracle.alloc(seat, Order::ZERO, Mobility::ALL[held.len() % 3]);
                    held.push(frame.expect("F8: sixteen frames are free"));
                } else {
                    let frame = held.swap_remove(random.below(held.len() as u64) as usize);
                    oracle.free(seat, frame, Order::ZERO);
                }
            }
            for frame in held {
                oracle.free(seat, frame, Order::ZERO);
            }
        });
        end.end(zone);
    });
}

#[test]
fn f8_large_requests_find_what_other_caches_hold() {
    // Each holds at most one block of a quarter of the zone, and order-1 blocks that fit into
    // another quarter only if those are not spread: so only the order-0 request is certain.
    explore(300, || {
        let zone = zone(64, 4, 4, Fallback::SmallestWhenCostly);
        let oracle = FrameOwners::new(64);
        let end = oracle.clone();
        on_cpus(zone, 2, move |seat, _| {
            for _ in 0..3 {
                let frame = oracle.alloc_hard(seat, order(4), MOVABLE);
                let frame = frame.expect("F8: a whole pageblock is free");
                oracle.free(seat, frame, order(4));
                let small = oracle.alloc(seat, order(0), MOVABLE);
                oracle.free(seat, small.expect("F8: most frames are free"), order(0));
            }
        });
        end.end(zone);
    });
}

#[test]
fn f9_a_request_that_waits_for_a_stop_is_answered_by_it_and_never_wrongly() {
    // A full zone of four pageblocks, of which one comes and goes. Two CPUs ask for it again and
    // again: a CPU that is refused was so at a moment at which the other one had it, whatever a
    // memo or another's stop said.
    explore(400, || {
        let zone = zone(32, 3, 3, Fallback::Concentrated);
        let oracle = FrameOwners::new(32);
        let end = oracle.clone();
        let mut keeper = zone.seat(CpuId(2)).unwrap();
        let kept: Vec<_> = (0..3)
            .map(|_| oracle.alloc(&mut keeper, order(3), UNMOVABLE).unwrap())
            .collect();
        // How many ask for the fourth or have it, and how many ever did.
        let asking = Arc::new(Plain::new((0u32, 0u32)));
        on_cpus(zone, 2, move |seat, cpu| {
            for _ in 0..6 {
                let (others, ever) = {
                    let mut asking = asking.lock().unwrap();
                    *asking = (asking.0 + 1, asking.1 + 1);
                    (asking.0 - 1, asking.1)
                };
                match oracle.alloc(seat, order(3), MOVABLE) {
                    Ok(frame) => {
                        // In pieces, into this CPU's cache: only a stop finds them.
                        for part in 0..8 {
                            let frame = Frame(frame.0 + part);
                            oracle.mark(frame, Order::ZERO, false);
                            seat.free_part(frame, Order::ZERO).unwrap();
                        }
                    }
                    Err(_) => assert!(
                        others > 0 || asking.lock().unwrap().1 > ever,
                        "F9: cpu {cpu} was refused a block that no other CPU asked for"
                    ),
                }
                asking.lock().unwrap().0 -= 1;
            }
        });
        for frame in kept {
            end.free(&mut keeper, frame, order(3));
        }
        drop(keeper);
        end.end(zone);
    });
}

#[test]
fn what_one_cpu_allocates_another_frees() {
    explore(300, || {
        let zone = zone(256, 6, 7, Fallback::Concentrated);
        let oracle = FrameOwners::new(256);
        let end = oracle.clone();
        let shared: Arc<Mutex<Vec<(Frame, Order)>>> = Arc::default();
        let rest = shared.clone();
        on_cpus(zone, 3, move |seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 40);
            for _ in 0..8 {
                let order = order([0, 0, 1, 3, 4, 6, 7][random.below(7) as usize]);
                if random.chance(60) {
                    if let Ok(frame) = oracle.alloc(seat, order, Mobility::ALL[usize::from(cpu)]) {
                        shared.lock().unwrap().push((frame, order));
                    }
                } else {
                    let taken = shared.lock().unwrap().pop();
                    if let Some((frame, order)) = taken {
                        oracle.free(seat, frame, order);
                    }
                }
            }
        });
        let mut seat = zone.seat(CpuId(0)).unwrap();
        for (frame, order) in rest.lock().unwrap().drain(..) {
            end.free(&mut seat, frame, order);
        }
        drop(seat);
        end.end(zone);
    });
}

#[test]
fn a_block_freed_by_two_cpus_at_once_is_handed_out_once() {
    explore(300, || {
        for order in [order(0), order(5), order(7)] {
            let zone = zone(128, 7, 7, Fallback::Concentrated);
            let oracle = FrameOwners::new(128);
            let mut first = zone.seat(CpuId(2)).unwrap();
            let frame = first.alloc(order, UNMOVABLE).unwrap();
            drop(first);
            let successes = Arc::new(Plain::new(0));
            let count = successes.clone();
            on_cpus(zone, 2, move |seat, _| match seat.free(frame, order) {
                Ok(()) => *count.lock().unwrap() += 1,
                Err(error) => assert_eq!(error, FreeError::AlreadyFree(frame)),
            });
            // Only then, because a late second free of what is allocated again is no different
            // from a first one.
            on_cpus(zone, 2, move |seat, _| {
                let blocks: Vec<_> = (0..3)
                    .filter_map(|_| oracle.alloc(seat, order, UNMOVABLE).ok())
                    .collect();
                for frame in blocks {
                    oracle.free(seat, frame, order);
                }
            });
            // At the very same moment both frees can succeed. No CPU may get any of it twice, and
            // it is found out.
            match *successes.lock().unwrap() {
                1 => zone.verify().unwrap(),
                2 => assert!(zone.verify().is_err(), "a racing double free went unseen"),
                other => panic!("{other} frees of one block succeeded"),
            }
        }
    });
}

#[test]
fn parts_of_one_allocation_are_freed_by_several_cpus() {
    explore(200, || {
        let zone = zone(64, 4, 6, Fallback::Concentrated);
        let oracle = FrameOwners::new(64);
        let end = oracle.clone();
        let mut first = zone.seat(CpuId(2)).unwrap();
        let whole = oracle.alloc(&mut first, order(5), MOVABLE).unwrap();
        drop(first);
        on_cpus(zone, 2, move |seat, cpu| {
            for part in (u64::from(cpu)..8).step_by(2) {
                let frame = Frame(whole.0 + part * 4);
                oracle.mark(frame, order(2), false);
                seat.free_part(frame, order(2)).unwrap();
            }
        });
        end.end(zone);
    });
}

#[test]
fn a_zone_is_stopped_and_isolated_under_work() {
    explore(200, || {
        let zone = zone(64, 4, 5, Fallback::Concentrated);
        let oracle = FrameOwners::new(64);
        let end = oracle.clone();
        let keeper = thread::spawn(move || {
            let pageblock = Run::new(Frame(16), 16).unwrap();
            zone.isolate(pageblock).unwrap();
            zone.verify().unwrap();
            zone.drain();
            zone.unisolate(pageblock).unwrap();
            zone.recount()
        });
        on_cpus(zone, 2, move |seat, cpu| {
            let mut held = Vec::new();
            for _ in 0..5 {
                // At most ten frames are held, and at most sixteen isolated.
                let frame = oracle.alloc(seat, Order::ZERO, Mobility::ALL[usize::from(cpu)]);
                held.push(frame.expect("F8: other pageblocks have free frames"));
            }
            for frame in held {
                oracle.free(seat, frame, Order::ZERO);
            }
        });
        let recount = keeper.join().unwrap();
        assert_eq!(recount.present, 64);
        end.end(zone);
    });
}

#[test]
fn a_zone_of_one_cpu_is_stopped_under_its_work() {
    // Such a zone takes locks without atomic operations; what is done to it as a whole may come
    // from another thread all the same.
    explore(300, || {
        let zone = zone_for(1, 64, 4, 5, Fallback::Concentrated);
        let oracle = FrameOwners::new(64);
        let (end, others) = (oracle.clone(), oracle.clone());
        let keeper = thread::spawn(move || {
            let run = Run::new(Frame(3), 9).unwrap();
            if zone.alloc_run_at(run, UNMOVABLE).is_ok() {
                (3..12).for_each(|frame| others.mark(Frame(frame), Order::ZERO, true));
            }
            zone.verify().unwrap();
            zone.drain();
        });
        on_cpus(zone, 1, move |seat, _| {
            for order in [order(0), order(2), order(4), order(0)] {
                let frame = oracle.alloc(seat, order, MOVABLE);
                let frame = frame.expect("F8: three pageblocks are whole");
                oracle.free(seat, frame, order);
            }
        });
        keeper.join().unwrap();
        end.end(zone);
    });
}

#[test]
fn what_is_said_to_be_free_is_never_more_than_there_is() {
    // No frame is cached, and nearly all are taken: a frame that one CPU frees another one has at
    // once, and a CPU that counts meanwhile may have seen the one and not yet the other.
    explore(400, || {
        let zone = zone_for(2, 16, 3, 3, Fallback::Concentrated);
        let mut first = zone.seat(CpuId(0)).unwrap();
        let taken: Vec<_> = (0..16)
            .map(|_| first.alloc(Order::ZERO, MOVABLE).unwrap())
            .collect();
        drop(first);
        let reader = thread::spawn(move || {
            for _ in 0..3 {
                let free = zone.stats().nr_free_pages;
                assert!(free <= 16, "{free} of 16 frames are free");
            }
        });
        on_cpus(zone, 2, move |seat, cpu| {
            for &frame in &taken[..4] {
                if cpu == 0 {
                    seat.free(frame, Order::ZERO).unwrap();
                } else {
                    _ = seat.alloc(Order::ZERO, MOVABLE);
                }
                thread::yield_now();
            }
        });
        reader.join().unwrap();
        assert_eq!(zone.stats().nr_free_pages, zone.recount().free);
    });
}

#[test]
fn f8_a_contiguous_request_fails_only_if_at_one_moment_there_was_no_run() {
    // A CPU holds the first or the last pageblock, and takes the one only after it has given up
    // the other: at each moment one of them is free. All between them are taken.
    explore(400, || {
        const BLOCKS: u64 = 24;
        let zone = zone(8 * BLOCKS, 3, 3, Fallback::Concentrated);
        let run_at = |id: u64, len: u64| Run::new(Frame(8 * id), 8 * len).unwrap();
        zone.alloc_run_at(run_at(0, BLOCKS - 1), MOVABLE).unwrap();
        let mover = thread::spawn(move || {
            let mut seat = zone.seat(CpuId(0)).unwrap();
            for (from, to) in [(0, BLOCKS - 1), (BLOCKS - 1, 0), (0, BLOCKS - 1)] {
                seat.free(Frame(8 * from), order(3)).unwrap();
                if zone.alloc_run_at(run_at(to, 1), MOVABLE).is_err() {
                    // The other CPU has it, so it was served.
                    return;
                }
            }
        });
        let run = zone.alloc_contiguous(8, 8, UNMOVABLE);
        mover.join().unwrap();
        run.expect("F8: at each moment a whole pageblock was free");
        zone.verify().unwrap();
    });
}

/// F9: another CPU takes frames into its cache while the run is searched for. They count as taken then, but the
/// next request drains them: it is not refused for what the first one did not find.
#[test]
fn f8_a_contiguous_request_is_not_refused_for_what_was_cached_during_another() {
    explore(400, || {
        const FRAMES: u64 = 256;
        let zone = zone(FRAMES, 3, 3, Fallback::Concentrated);
        let taker = thread::spawn(move || {
            let mut seat = zone.seat(CpuId(0)).unwrap();
            // At the zone's end: what is cached beside it makes the run that remains shorter.
            seat.alloc(Order::ZERO, UNMOVABLE).ok()
        });
        let first = zone.alloc_contiguous(FRAMES - 2, 1, UNMOVABLE);
        let took = taker.join().unwrap();
        if first.is_err() {
            let took = took.expect("all frames were free").0;
            let longest = took.max(FRAMES - 1 - took);
            let next = zone.alloc_contiguous(longest, 1, UNMOVABLE);
            next.expect("one frame is in use, and no other one");
        }
        zone.verify().unwrap();
    });
}

/// A run that finds its caches full goes back under the lock of its pageblock, which another CPU's frees and
/// allocations want too, while a third CPU drains.
#[test]
fn f1_a_run_goes_back_in_turns_beside_others_of_its_pageblock() {
    explore(400, || {
        let zone = zone(256, 6, 7, Fallback::default());
        let owners = FrameOwners::new(256);
        let seats = [0, 1, 2].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
        let [mut first, mut second, mut third] = seats;
        let run = first.try_alloc_singles(40, 1, MOVABLE).unwrap();
        let at = move |nth: u64| Frame(run.start().0 + nth);
        (0..40).for_each(|nth| owners.mark(at(nth), order(0), true));
        // They fill its cache.
        (28..36).for_each(|nth| owners.free(&mut first, at(nth), order(0)));
        let theirs = owners.clone();
        let other = thread::spawn(move || {
            (24..28).for_each(|nth| theirs.free(&mut second, at(nth), order(0)));
            if let Ok(frame) = theirs.alloc(&mut second, order(1), MOVABLE) {
                theirs.free(&mut second, frame, order(1));
            }
        });
        let beside = owners.clone();
        let drainer = thread::spawn(move || {
            beside.free(&mut third, at(36), order(0));
            zone.drain();
        });
        (0..24).for_each(|nth| owners.mark(at(nth), order(0), false));
        first.free_frames(Run::new(at(0), 24).unwrap()).unwrap();
        other.join().unwrap();
        drainer.join().unwrap();
        owners.end(zone);
    });
}
