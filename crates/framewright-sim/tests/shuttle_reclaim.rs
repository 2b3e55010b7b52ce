//! Reclaim and compaction on threads, with interleavings that shuttle chooses:
//! `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_reclaim`.
//! In a normal build this file is empty.
//!
//! What must never be seen: a frame that two have at a time, contents that are not where their owner
//! has them, a pageblock that stays apart, a call that does not end.
#![cfg(shuttle)]

use framewright::RunError;
use framewright::frame::{Seat, Zone, ZoneLayout};
use framewright::policy::{Config, ContigConfig, ReclaimConfig};
use framewright::reclaim::{
    Ask, Clients, Compaction, Migrate, Move, MoveState, Reclaim, Shrink, Shrunk,
};
use framewright::reserve::MigrateArea;
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use framewright_sim::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

type ReclaimZone = &'static Zone<'static, ()>;
type ReclaimFrames = Seat<'static, 'static, ()>;
type SharedReclaim = &'static Reclaim<'static, 'static, ()>;

const MOVABLE: Mobility = Mobility::Movable;
/// Eight pageblocks of eight frames: with min 16, a whole one may be made while 32 are free.
const FRAMES: u64 = 64;
const WHOLE: u8 = 3;

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// Half of the schedules at random, half with few, well-placed preemptions.
fn explore(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 19;
    let body = Arc::new(body);
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(move || same());
}

fn machine(cache_permille: u16) -> (ReclaimZone, SharedReclaim) {
    let layout = ZoneLayout::new(Frame(0), FRAMES)
        .with_orders(order(WHOLE), order(WHOLE + 1))
        .with_cpus(3);
    let config = Config {
        cache_permille,
        ..Config::default()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let zone = Zone::new(&layout, &config, memory, ()).unwrap();
    zone.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    let zone: ReclaimZone = Box::leak(Box::new(zone));
    let memory = vec![0; Reclaim::words_needed(zone)].leak();
    let reclaim = Reclaim::new(zone, &ReclaimConfig::default(), memory).unwrap();
    (zone, Box::leak(Box::new(reclaim)))
}

/// The owner of each frame. Not known to shuttle: it must not change the interleavings.
#[derive(Default)]
struct BlockOwners {
    /// Movable single frames and what they hold.
    contents: BTreeMap<Frame, u64>,
    /// Blocks that do not move.
    fixed: BTreeMap<Frame, Order>,
    stamps: u64,
}

#[derive(Clone, Default)]
struct ShuttleOwner(Arc<Mutex<BlockOwners>>);

impl BlockOwners {
    fn is_free(&self, at: Frame, order: Order) -> bool {
        let end = at.0 + order.frames();
        let moving = self.contents.range(at..Frame(end)).next().is_none();
        let fixed = |(first, of): (&Frame, &Order)| first.0 + of.frames() <= at.0 || first.0 >= end;
        moving && self.fixed.iter().all(fixed)
    }
}

impl ShuttleOwner {
    /// A movable frame; taken and known in one step, as far as shuttle is concerned, or it could be
    /// offered to a client that does not know it yet.
    fn put(&self, seat: &mut ReclaimFrames) {
        if let Ok(frame) = seat.alloc(Order::ZERO, MOVABLE) {
            self.keep(frame);
        }
    }

    fn keep(&self, frame: Frame) {
        let mut state = self.0.lock().unwrap();
        assert!(state.is_free(frame, Order::ZERO), "{frame} is in use");
        state.stamps += 1;
        let stamp = state.stamps;
        state.contents.insert(frame, stamp);
    }

    fn fix(&self, frame: Frame, order: Order) {
        let mut state = self.0.lock().unwrap();
        assert!(frame.is_aligned(order));
        assert!(state.is_free(frame, order), "{frame} {order} is in use");
        state.fixed.insert(frame, order);
    }

    fn unfix(&self, seat: &mut ReclaimFrames, frame: Frame) {
        let order = self.0.lock().unwrap().fixed.remove(&frame).unwrap();
        seat.free(frame, order).unwrap();
    }

    /// Gives one movable frame back, if there is one.
    fn drop_one(&self, seat: &mut ReclaimFrames, random: &mut Random) -> bool {
        let taken = {
            let mut state = self.0.lock().unwrap();
            let nth = random.below(state.contents.len().max(1) as u64) as usize;
            let found = state.contents.keys().nth(nth).copied();
            found.inspect(|frame| {
                state.contents.remove(frame);
            })
        };
        taken.is_some_and(|frame| seat.free(frame, Order::ZERO).is_ok())
    }

    /// Everything is known, nothing is apart, and all is given back.
    fn end(&self, zone: ReclaimZone) {
        for id in 0..zone.pageblocks() {
            assert!(!zone.is_isolated(id), "R1: {id}");
        }
        zone.verify().unwrap();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut random = Random::new(1);
        let mut stamps: Vec<u64> = self.0.lock().unwrap().contents.values().copied().collect();
        let all = stamps.len();
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), all, "R2: contents are there twice");
        while self.drop_one(&mut seat, &mut random) {}
        let fixed: Vec<Frame> = self.0.lock().unwrap().fixed.keys().copied().collect();
        for frame in fixed {
            self.unfix(&mut seat, frame);
        }
        drop(seat);
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, FRAMES, "a frame is lost");
        assert_eq!(zone.stats().bad_frees, 0);
    }
}

impl Migrate for ShuttleOwner {
    fn migrate(&self, moves: &mut [Move]) {
        thread::yield_now();
        let mut state = self.0.lock().unwrap();
        for of in moves {
            if let Some(stamp) = state.contents.remove(&of.from) {
                assert!(
                    state.is_free(of.to, of.order),
                    "R2: {of:?} is to move to frames in use"
                );
                state.contents.insert(of.to, stamp);
                of.state = MoveState::Moved;
            }
        }
    }
}

impl Shrink<ReclaimFrames> for ShuttleOwner {
    fn holding(&self) -> u64 {
        self.0.lock().unwrap().contents.len() as u64
    }

    fn shrink(&self, frames: &mut ReclaimFrames, ask: &Ask) -> Shrunk {
        let mut random = Random::new(ask.scan);
        let mut freed = 0;
        while freed < ask.wanted.min(ask.scan) && self.drop_one(frames, &mut random) {
            freed += 1;
        }
        Shrunk {
            scanned: ask.scan.max(freed),
            freed,
        }
    }
}

/// Fills memory a little, so that each pageblock has some contents.
fn fill(zone: ReclaimZone, owner: &ShuttleOwner, frames: &[u64]) {
    for &frame in frames {
        zone.alloc_at(Frame(frame), Order::ZERO, MOVABLE).unwrap();
        owner.keep(Frame(frame));
    }
}

/// Allocates and frees for a while.
fn churn(seat: &mut ReclaimFrames, owner: &ShuttleOwner, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..5 {
        if random.chance(50) {
            owner.put(seat);
        } else {
            owner.drop_one(seat, &mut random);
        }
    }
}

fn on_cpu<T: Send + 'static>(
    zone: ReclaimZone,
    cpu: u16,
    work: impl FnOnce(&mut ReclaimFrames) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(move || work(&mut zone.seat(CpuId(cpu)).unwrap()))
}

const SPREAD: [u64; 12] = [0, 5, 8, 9, 16, 20, 24, 31, 33, 41, 52, 63];

#[test]
fn a_captured_block_has_one_owner() {
    for cache_permille in [0, 100] {
        let captured = Arc::new(AtomicU64::new(0));
        let count = captured.clone();
        explore(150, move || {
            let (zone, reclaim) = machine(cache_permille);
            let owner = ShuttleOwner::default();
            fill(zone, &owner, &SPREAD);
            let compacting = |cpu: u16, size: u8| {
                let (owner, count) = (owner.clone(), count.clone());
                on_cpu(zone, cpu, move |seat| {
                    for _ in 0..2 {
                        let size = order(size);
                        let made = reclaim.compact_ahead(seat, size, MOVABLE, &[&owner]);
                        if let Compaction::Captured(frame) = made {
                            count.fetch_add(1, Relaxed);
                            owner.fix(frame, size);
                            thread::yield_now();
                            owner.unfix(seat, frame);
                        }
                    }
                })
            };
            let threads = [compacting(0, WHOLE), compacting(1, WHOLE - 1)];
            let churning = owner.clone();
            let third = on_cpu(zone, 2, move |seat| churn(seat, &churning, 7));
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            third.join().unwrap();
            owner.end(zone);
        });
        let captured = captured.load(Relaxed);
        assert!(captured > 150, "only {captured} were made in 150 schedules");
    }
}

#[test]
fn ap1_of_two_owners_that_evacuate_one_run_at_most_one_has_it() {
    let winners = Arc::new(AtomicU64::new(0));
    let count = winners.clone();
    explore(150, move || {
        let (zone, reclaim) = machine(100);
        let owner = ShuttleOwner::default();
        fill(zone, &owner, &SPREAD);
        let run = Run::new(Frame(8), 8).unwrap();
        let won = Arc::new(Mutex::new(0));
        let evacuating = |cpu: u16| {
            let (owner, won) = (owner.clone(), won.clone());
            on_cpu(zone, cpu, move |seat| {
                if reclaim.evacuate(seat, run, &[&owner]).is_ok() {
                    *won.lock().unwrap() += 1;
                    let state = owner.0.lock().unwrap();
                    assert!(state.is_free(Frame(8), order(WHOLE)));
                }
            })
        };
        let threads = [evacuating(0), evacuating(1)];
        let churning = owner.clone();
        let third = on_cpu(zone, 2, move |seat| churn(seat, &churning, 3));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        third.join().unwrap();
        let won = *won.lock().unwrap();
        assert!(won <= 1, "AP1: {won} have emptied the run");
        assert_eq!(zone.is_isolated(1), won == 1, "R1");
        count.fetch_add(won, Relaxed);
        if won == 1 {
            assert_eq!(zone.unisolate(run), Ok(0), "nothing has come in meanwhile");
        }
        owner.end(zone);
    });
    let winners = winners.load(Relaxed);
    assert!(winners > 50, "only {winners} were emptied in 150 schedules");
}

#[test]
fn m1_of_two_owners_of_one_area_each_has_its_own_frames() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        let served = Arc::new(AtomicU64::new(0));
        let count = served.clone();
        explore(150, move || {
            let (zone, reclaim) = machine(100);
            let run = Run::new(Frame(32), 32).unwrap();
            let memory = vec![0; MigrateArea::<()>::words_needed(run)].leak();
            let area = MigrateArea::new(reclaim, run, &config, memory).unwrap();
            let area: &'static MigrateArea<'_, '_, '_, ()> = Box::leak(Box::new(area));
            let owner = ShuttleOwner::default();
            fill(zone, &owner, &SPREAD);
            let owning = |cpu: u16, frames: u64| {
                let (owner, count) = (owner.clone(), count.clone());
                on_cpu(zone, cpu, move |seat| {
                    let clients = Clients {
                        shrink: &[],
                        migrate: &[&owner],
                    };
                    for _ in 0..2 {
                        let Ok(run) = area.alloc_contig(seat, frames, 1, &clients) else {
                            continue;
                        };
                        count.fetch_add(1, Relaxed);
                        let all = run.start().0..run.end().0;
                        // Single frames, as far as the account is concerned.
                        all.clone()
                            .for_each(|frame| owner.fix(Frame(frame), Order::ZERO));
                        thread::yield_now();
                        all.for_each(|frame| {
                            owner.0.lock().unwrap().fixed.remove(&Frame(frame));
                        });
                        area.release(seat, run).unwrap();
                    }
                })
            };
            let threads = [owning(0, 5), owning(1, 11)];
            let churning = owner.clone();
            let third = on_cpu(zone, 2, move |seat| churn(seat, &churning, 5));
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            third.join().unwrap();
            assert_eq!(area.claimed_frames(), 0, "M3");
            area.verify().unwrap();
            owner.end(zone);
        });
        let served = served.load(Relaxed);
        assert!(served > 300, "only {served} were served in 150 schedules");
    }
}

#[test]
fn the_background_works_beside_requests() {
    let worked = Arc::new(AtomicU64::new(0));
    let count = worked.clone();
    explore(150, move || {
        let (zone, reclaim) = machine(0);
        let owner = ShuttleOwner::default();
        // Of 64 frames 44 are taken: below low.
        let most: Vec<u64> = (0..FRAMES).filter(|frame| frame % 13 < 9).collect();
        fill(zone, &owner, &most);
        let requesting = |cpu: u16| {
            let owner = owner.clone();
            thread::spawn(move || {
                let mut seat = reclaim.seat(zone.seat(CpuId(cpu)).unwrap());
                let clients = Clients {
                    shrink: &[&owner],
                    migrate: &[&owner],
                };
                let mut random = Random::new(u64::from(cpu));
                for _ in 0..4 {
                    let size = order(random.below(u64::from(WHOLE) + 1) as u8);
                    let mobility = Mobility::ALL[random.below(3) as usize];
                    if let Ok(frame) = seat.alloc(size, mobility, Context::ANY, &clients) {
                        owner.fix(frame, size);
                        if random.chance(60) {
                            owner.unfix(seat.frames(), frame);
                        }
                    }
                }
            })
        };
        let threads = [requesting(0), requesting(1)];
        let same = owner.clone();
        let background = on_cpu(zone, 2, move |seat| {
            let clients = Clients {
                shrink: &[&same],
                migrate: &[&same],
            };
            for _ in 0..4 {
                let _rests = reclaim.background(seat, &clients, 8);
                thread::yield_now();
            }
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        background.join().unwrap();
        let stats = reclaim.stats();
        count.fetch_add(stats.pgsteal_kswapd + stats.pgsteal_direct, Relaxed);
        owner.end(zone);
    });
    assert!(worked.load(Relaxed) > 150, "no CPU reclaimed");
}

type Area = &'static MigrateArea<'static, 'static, 'static, ()>;

fn area_of(reclaim: SharedReclaim, run: Run, config: &ContigConfig) -> Area {
    let memory = vec![0; MigrateArea::<()>::words_needed(run)].leak();
    let area = MigrateArea::new(reclaim, run, config, memory).unwrap();
    Box::leak(Box::new(area))
}

#[test]
fn m5_of_owners_that_meet_at_a_reservation_one_has_it_or_none_is_told_so() {
    // One owner gives up when it would have to wait for a CPU in its seat, another one does not, and
    // nothing else is in the way: so the second fails only if the first one has the reservation.
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        explore(300, move || {
            let (zone, reclaim) = machine(100);
            let area = area_of(reclaim, Run::new(Frame(32), 32).unwrap(), &config);
            let owner = ShuttleOwner::default();
            fill(zone, &owner, &SPREAD);
            let reservation = area.reserve("camera", 8, 8).unwrap();
            let same = owner.clone();
            let hasty = on_cpu(zone, 0, move |seat| {
                let clients = Clients {
                    shrink: &[],
                    migrate: &[&same],
                };
                area.try_take(seat, reservation, &clients, 0)
            });
            let same = owner.clone();
            let patient = on_cpu(zone, 1, move |seat| {
                let clients = Clients {
                    shrink: &[],
                    migrate: &[&same],
                };
                area.take(seat, reservation, &clients)
            });
            let beside = on_cpu(zone, 2, |seat| {
                for _ in 0..6 {
                    let frame = seat.alloc(Order::ZERO, Mobility::Unmovable).unwrap();
                    seat.free(frame, Order::ZERO).unwrap();
                }
            });
            let (hasty, patient) = (hasty.join().unwrap(), patient.join().unwrap());
            beside.join().unwrap();
            let run = match (hasty, patient) {
                (Ok(run), Err(RunError::Taken(_))) | (Err(_), Ok(run)) => run,
                other => panic!("who has the reservation? {other:?}"),
            };
            assert_eq!(area.claimed_frames(), 8, "M3");
            area.release(&mut zone.seat(CpuId(0)).unwrap(), run)
                .unwrap();
            area.verify().unwrap();
            owner.end(zone);
        });
    }
}
