//! Small histories by hand, random ones against an ownership oracle, and threads.

extern crate std;

mod pageblock;
mod seat;
mod zone;

use super::*;
use crate::frame::AllocError;
use crate::platform::SingleThread;
use crate::policy::{Config, Fallback, Label};
use crate::random::Random;
use crate::units::{CpuId, Frame, Mobility, Order, Run, SetupError};
use Mobility::{Movable, Reclaimable, Unmovable};
use std::vec;
use std::vec::Vec;

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

fn config(fallback: Fallback) -> Config {
    Config {
        fallback,
        ..Config::default()
    }
}

/// The defaults, except for the share of memory that CPUs may cache, in thousandths.
fn caching(permille: u16) -> Config {
    Config {
        cache_permille: permille,
        ..Config::default()
    }
}

fn memory(layout: &ZoneLayout) -> Vec<u64> {
    vec![!0; layout.words_needed().unwrap()]
}

fn whole(layout: &ZoneLayout) -> Run {
    Run::new(layout.start, layout.frames).unwrap()
}

/// A zone of that layout in which no frame exists yet.
fn empty_zone<'m>(layout: &ZoneLayout, memory: &'m mut [u64]) -> Zone<'m, SingleThread> {
    Zone::new(layout, &Config::default(), memory, SingleThread::new()).unwrap()
}

/// A zone of that layout in which every frame exists.
fn full_zone<'m>(
    layout: &ZoneLayout,
    config: &Config,
    memory: &'m mut [u64],
) -> Zone<'m, SingleThread> {
    let zone = Zone::new(layout, config, memory, SingleThread::new()).unwrap();
    zone.add(whole(layout)).unwrap();
    zone
}

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

/// Frees what `ops` random operations left, and returns how many requests failed.
fn random_history(layout: &ZoneLayout, config: &Config, seed: u64, ops: usize) -> usize {
    let mut memory = memory(layout);
    let zone = Zone::new(layout, config, &mut memory, SingleThread::new()).unwrap();
    zone.add(whole(layout)).unwrap();
    let mut seats: Vec<_> = (0..layout.cpus)
        .map(|cpu| zone.seat(CpuId(cpu)).unwrap())
        .collect();
    let mut owned = vec![false; layout.frames as usize];
    let mut live: Vec<(Frame, Order)> = Vec::new();
    let mut random = Random::new(seed);
    let mut failed = 0;
    let index = |frame: Frame| (frame.0 - layout.start.0) as usize;
    for op in 0..ops {
        let cpu = random.index(seats.len());
        let fill = live.len() < 4 || random.index(100) < 52;
        if fill {
            let order = order(
                random.index(1 + random_order_bound(layout, &mut Random::new(op as u64))) as u8,
            );
            let mobility = Mobility::ALL[random.index(3)];
            match seats[cpu].alloc(order, mobility) {
                Ok(frame) => {
                    assert!(frame.is_aligned(order));
                    let frames = index(frame)..index(frame) + order.frames() as usize;
                    assert!(!owned[frames.clone()].contains(&true), "handed out twice");
                    owned[frames].fill(true);
                    live.push((frame, order));
                }
                Err(error) => {
                    failed += 1;
                    let frames = order.frames() as usize;
                    let free = owned.iter().filter(|&&owned| !owned).count();
                    let aligned = |at: &usize| {
                        (layout.start.0 + *at as u64).is_multiple_of(frames as u64)
                            && at + frames <= owned.len()
                    };
                    let exists = (0..owned.len())
                        .filter(aligned)
                        .any(|at| !owned[at..at + frames].contains(&true));
                    assert!(!exists, "F8: {order} failed while a free block existed");
                    let expected = if free < frames {
                        AllocError::Exhausted
                    } else {
                        AllocError::Fragmented
                    };
                    assert_eq!(error, expected);
                }
            }
        } else {
            let (frame, order) = live.swap_remove(random.index(live.len()));
            seats[cpu].free(frame, order).unwrap();
            owned[index(frame)..index(frame) + order.frames() as usize].fill(false);
        }
        if op % 64 == 0 {
            zone.verify().unwrap();
        }
    }
    for (frame, order) in live {
        seats[0].free(frame, order).unwrap();
    }
    zone.drain();
    zone.verify().unwrap();
    let recount = zone.recount();
    assert_eq!((recount.free, recount.cached), (layout.frames, 0));
    failed
}

fn random_order_bound(layout: &ZoneLayout, random: &mut Random) -> usize {
    // Mostly small orders.
    match random.index(8) {
        0 => layout.max_order.index(),
        1 | 2 => layout.pageblock_order.index().min(4),
        _ => 1,
    }
}

#[test]
fn f8_no_request_fails_while_a_free_block_of_its_order_exists() {
    let mut failed = 0;
    for fallback in Fallback::ALL {
        for (start, frames, pageblock, max, cpus) in [
            (0, 64, 3, 5, 1),
            (5, 300, 4, 6, 2),
            (3 * 512 + 1, 5000, 6, 8, 3),
            // Neither end of the zone is a multiple of the largest block.
            (3 * 64, 64 * 11, 6, 8, 1),
            (0, 16384, 9, 11, 2),
            (1024, 16384, 10, 10, 4),
        ] {
            let layout = ZoneLayout::new(Frame(start), frames)
                .with_orders(order(pageblock), order(max))
                .with_cpus(cpus);
            failed += random_history(&layout, &config(fallback), frames, 3000);
            let large_caches = Config {
                cache_permille: 100,
                ..config(fallback)
            };
            failed += random_history(&layout, &large_caches, frames + 1, 1500);
        }
    }
    assert!(
        failed > 100,
        "the histories must meet full and fragmented memory"
    );
}

#[test]
fn a_wrong_free_is_refused_and_changes_nothing() {
    let layout = ZoneLayout::new(Frame(1000), 4096);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    zone.add(Run::new(Frame(1024), 2048).unwrap()).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let frame = seat.alloc(order(2), Unmovable).unwrap();
    let inside = Frame(frame.0 + 1);
    assert_eq!(
        seat.free(frame, order(1)),
        Err(FreeError::WrongOrder {
            frame,
            allocated: order(2)
        })
    );
    assert_eq!(
        seat.free(inside, order(0)),
        Err(FreeError::NotTheFirst(inside))
    );
    assert_eq!(
        seat.free(Frame(999), order(0)),
        Err(FreeError::Absent(Frame(999)))
    );
    assert_eq!(
        seat.free(Frame(1001), order(0)),
        Err(FreeError::Absent(Frame(1001)))
    );
    assert_eq!(
        seat.free(Frame(u64::MAX), order(0)),
        Err(FreeError::Outside(Frame(u64::MAX)))
    );
    let never = Frame(2000);
    assert_eq!(
        seat.free(never, order(0)),
        Err(FreeError::AlreadyFree(never))
    );
    zone.verify().unwrap();
    assert_eq!(zone.stats().bad_frees, 6);
    seat.free(frame, order(2)).unwrap();
    assert_eq!(
        seat.free(frame, order(2)),
        Err(FreeError::AlreadyFree(frame))
    );
    zone.drain();
    assert_eq!(
        seat.free(frame, order(2)),
        Err(FreeError::AlreadyFree(frame))
    );
    assert_eq!(zone.stats().nr_free_pages, 2048);
    let large = seat.alloc(order(10), Movable).unwrap();
    assert_eq!(
        seat.free(large, order(9)),
        Err(FreeError::WrongOrder {
            frame: large,
            allocated: order(10)
        })
    );
    seat.free(large, order(10)).unwrap();
    assert_eq!(
        seat.free(large, order(10)),
        Err(FreeError::AlreadyFree(large))
    );
    zone.verify().unwrap();
    let max = order(10);
    let order = order(11);
    assert_eq!(
        seat.alloc(order, Movable),
        Err(AllocError::TooLarge { order, max })
    );
}

#[test]
fn parts_of_a_block_are_freed_alone_and_the_rest_stays_allocated() {
    let layout = ZoneLayout::new(Frame(0), 4096);
    for whole_order in [3, 9, 10] {
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &Config::default(), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let block = seat.alloc(order(whole_order), Movable).unwrap();
        let part = Frame(block.0 + 2);
        seat.free_part(part, order(1)).unwrap();
        assert_eq!(
            seat.free_part(part, order(1)),
            Err(FreeError::AlreadyFree(part))
        );
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(
            zone.stats().nr_free_pages,
            4096 - block_frames(whole_order) + 2
        );
        // The rest: 0..2, and one block of each order from 2 up.
        seat.free(block, order(1)).unwrap();
        for rest in 2..whole_order {
            seat.free(Frame(block.0 + block_frames(rest)), order(rest))
                .unwrap();
        }
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, 4096);
    }
}

fn block_frames(order: u8) -> u64 {
    1 << order
}

#[test]
fn a_seat_is_one_threads_at_a_time() {
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    let seat = zone.seat(CpuId(1)).unwrap();
    // A refused call gives nothing back: the next one is refused as well.
    for _ in 0..2 {
        assert_eq!(
            zone.seat(CpuId(1)).unwrap_err(),
            SetupError::Taken(CpuId(1))
        );
    }
    assert_eq!(
        zone.seat(CpuId(2)).unwrap_err(),
        SetupError::Unknown(CpuId(2))
    );
    drop(seat);
    assert_eq!(zone.seat(CpuId(1)).unwrap().cpu(), CpuId(1));
}

#[test]
fn non_movable_requests_share_pageblocks_before_they_contaminate_another() {
    let layout = ZoneLayout::new(Frame(0), 512 * 16);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for _ in 0..256 {
        assert!(seat.alloc(order(0), Unmovable).unwrap().0 < 512);
        assert!(seat.alloc(order(0), Reclaimable).unwrap().0 < 512);
    }
    assert_eq!(seat.alloc(order(0), Unmovable).unwrap(), Frame(512));
}

/// Threads allocate, pass blocks to each other and free them; each frame has an owner mark that
/// no two may set.
fn threads(config: &Config, frames: u64, rounds: usize) {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    let layout = ZoneLayout::new(Frame(0), frames).with_cpus(4);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, config, &mut memory, ()).unwrap();
    zone.add(whole(&layout)).unwrap();
    let owned: Vec<AtomicBool> = (0..frames).map(|_| AtomicBool::new(false)).collect();
    let passed: Mutex<Vec<(Frame, Order)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            let (zone, owned, passed) = (&zone, &owned, &passed);
            scope.spawn(move || {
                let mut seat = zone.seat(CpuId(cpu)).unwrap();
                let mut random = Random::new(u64::from(cpu));
                let mut live = Vec::new();
                let mark = |frame: Frame, order: Order, set: bool| {
                    for at in frame.0..frame.0 + order.frames() {
                        assert_eq!(
                            owned[at as usize].swap(set, SeqCst),
                            !set,
                            "{frame} {order}"
                        );
                    }
                };
                for _ in 0..rounds {
                    let order = order([0, 0, 0, 1, 3, 7, 8, 9, 10][random.index(9)]);
                    let mobility = Mobility::ALL[random.index(3)];
                    match random.index(5) {
                        0..3 => {
                            if let Ok(frame) = seat.alloc(order, mobility) {
                                mark(frame, order, true);
                                live.push((frame, order));
                            }
                        }
                        3 if !live.is_empty() => {
                            let block = live.swap_remove(random.index(live.len()));
                            passed.lock().unwrap().push(block);
                        }
                        _ => {
                            let block = passed.lock().unwrap().pop().or_else(|| live.pop());
                            if let Some((frame, order)) = block {
                                mark(frame, order, false);
                                seat.free(frame, order).unwrap();
                            }
                        }
                    }
                }
                for (frame, order) in live {
                    mark(frame, order, false);
                    seat.free(frame, order).unwrap();
                }
            });
        }
    });
    zone.verify().unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for (frame, order) in passed.into_inner().unwrap() {
        seat.free(frame, order).unwrap();
    }
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, frames);
}

#[test]
fn threads_never_hold_the_same_frame() {
    for fallback in Fallback::ALL {
        threads(&config(fallback), 512 * 40, 4000);
        threads(&config(fallback), 512 * 6, 4000);
    }
}
