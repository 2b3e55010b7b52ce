//! Runs of frames: where they are found, what they cost, and how they are freed.

use super::*;
use crate::frame::AllocError;
use crate::units::RunError;
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[test]
fn a_range_is_allocated_from_free_frames_only_and_freed_whole() {
    let layout = ZoneLayout::new(Frame(100), 3000);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    zone.add(Run::new(Frame(100), 1000).unwrap()).unwrap();
    zone.add(Run::new(Frame(1500), 1600).unwrap()).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let run = Run::new(Frame(117), 700).unwrap();
    zone.alloc_run_at(run, Unmovable).unwrap();
    zone.verify().unwrap();
    assert_eq!(
        zone.alloc_run_at(run, Unmovable),
        Err(RunError::NotFree(Frame(117)))
    );
    let hole = Run::new(Frame(1000), 600).unwrap();
    assert_eq!(
        zone.alloc_run_at(hole, Unmovable),
        Err(RunError::Absent(Frame(1100)))
    );
    assert_eq!(
        zone.alloc_at(Frame(817), order(1), Movable),
        Err(RunError::Outside)
    );
    zone.alloc_at(Frame(818), order(1), Movable).unwrap();
    let found = zone.alloc_contiguous(1100, 4, Movable).unwrap();
    assert_eq!(found, Run::new(Frame(1500), 1100).unwrap());
    assert_eq!(
        zone.alloc_contiguous(600, 1, Movable),
        Err(AllocError::Fragmented)
    );
    assert_eq!(
        zone.alloc_contiguous(1600, 1, Movable),
        Err(AllocError::Exhausted)
    );
    zone.verify().unwrap();
    assert_eq!(
        seat.free_range(Run::new(Frame(117), 701).unwrap()),
        Err(RunError::NotFree(Frame(817)))
    );
    seat.free_range(run).unwrap();
    seat.free_range(found).unwrap();
    seat.free(Frame(818), order(1)).unwrap();
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 2600);
}

#[test]
fn a_run_touches_no_isolated_pageblock_and_no_order_above_the_largest_is_taken() {
    let layout = ZoneLayout::new(Frame(512), 512 * 8);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    zone.isolate(run(512 * 3, 512)).unwrap();
    let refused = Err(RunError::Isolation(Frame(512 * 3)));
    assert_eq!(zone.alloc_run_at(run(512 * 2 + 100, 500), Movable), refused);
    assert_eq!(zone.alloc_run_at(run(512 * 2 + 511, 2), Movable), refused);
    assert_eq!(zone.alloc_run_at(run(512 * 3 + 511, 2), Movable), refused);
    // Up to the isolated pageblock, and from its end on.
    zone.alloc_run_at(run(512 * 2, 512), Movable).unwrap();
    zone.alloc_run_at(run(512 * 4, 512), Movable).unwrap();
    assert_eq!(
        zone.alloc_at(Frame(0), order(11), Movable),
        Err(RunError::Outside)
    );
    let larger = ZoneLayout::new(Frame(0), 512 * 8);
    let mut memory = vec![0; larger.words_needed().unwrap()];
    let zone = full_zone(&larger, &Config::default(), &mut memory);
    assert_eq!(
        zone.alloc_at(Frame(0), order(11), Movable),
        Err(RunError::Outside)
    );
    zone.alloc_at(Frame(1024), order(10), Movable).unwrap();
    assert_eq!(zone.stats().pgalloc[Movable.index()], 1024);
}

#[test]
fn a_range_that_leaves_the_zone_at_either_end_is_outside() {
    let layout = ZoneLayout::new(Frame(100), 300);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    for (start, frames) in [(99, 10), (390, 11), (100, 0), (400, 1), (600, 1)] {
        assert_eq!(zone.add(run(start, frames)), Err(RunError::Outside));
    }
    zone.add(run(100, 300)).unwrap();
    assert!(zone.contains(Frame(100)) && zone.contains(Frame(399)));
    assert!(!zone.contains(Frame(99)) && !zone.contains(Frame(400)));
}

#[test]
fn contiguous_frames_are_aligned_to_frame_numbers_and_the_lowest_there_are() {
    let layout = ZoneLayout::new(Frame(512 * 3 + 7), 512 * 5);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let first = 512 * 3 + 7;
    assert_eq!(
        zone.alloc_contiguous(3, 1, Movable),
        Ok(run(first, 3)),
        "from the first frame on"
    );
    assert_eq!(
        zone.alloc_contiguous(700, 1024, Movable),
        Ok(run(2048, 700))
    );
    assert_eq!(zone.alloc_contiguous(6, 4, Movable), Ok(run(1548, 6)));
    // As much as is free, but not in one piece; and one more.
    let free = zone.stats().nr_free_pages;
    assert_eq!(
        zone.alloc_contiguous(free, 1, Movable),
        Err(AllocError::Fragmented)
    );
    assert_eq!(
        zone.alloc_contiguous(free + 1, 1, Movable),
        Err(AllocError::Exhausted)
    );
    // The last frames of the zone.
    let end = first + 512 * 5;
    assert_eq!(
        zone.alloc_contiguous(end - 2748, 1, Movable),
        Ok(run(2748, end - 2748))
    );
    zone.verify().unwrap();
}

#[test]
fn a_run_that_can_never_be_is_refused_before_any_cpu_stops() {
    let layout = ZoneLayout::new(Frame(512), 1 << 16);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    // Ranges of 700 and of 2000 frames, and a last one of 10.
    for range in [run(600, 700), run(5000, 2000), run(1 << 16, 10)] {
        zone.add(range).unwrap();
    }
    let mut seat = zone.seat(CpuId(0)).unwrap();
    zone.alloc_at(Frame(600), order(0), Unmovable).unwrap();
    let drains = |zone: &Zone<'_, _>| zone.stats().drains;
    let before = drains(&zone);
    let refused = [
        (0, 1),
        (1, 0),
        (1, 3),
        (2001, 1),
        (u64::MAX, 1),
        (u64::MAX - 3, 1),
        (1 << 63, 1 << 63),
        (1, 1 << 63),
        (1, 1 << 20),
        // 5120 is the multiple of 1024 with the most frames behind it: 1880.
        (1881, 1024),
        (11, 1 << 16),
        (2711, 1),
    ];
    for (frames, align) in refused {
        let found = zone.alloc_contiguous(frames, align, Movable);
        assert_eq!(found, Err(AllocError::Impossible), "{frames} at {align}");
    }
    assert_eq!(drains(&zone), before, "no CPU was stopped");
    zone.verify().unwrap();
    // A run that sometimes exists is found now, or refused.
    assert_eq!(
        zone.alloc_contiguous(1880, 1024, Movable),
        Ok(run(5120, 1880))
    );
    assert_eq!(
        zone.alloc_contiguous(2000, 1, Movable),
        Err(AllocError::Exhausted)
    );
    let last = run(1 << 16, 8);
    assert_eq!(zone.alloc_contiguous(8, 1 << 16, Movable), Ok(last));
    seat.free_range(last).unwrap();
    seat.free(Frame(600), order(0)).unwrap();
    zone.verify().unwrap();
}

#[test]
fn a_search_for_a_run_costs_nothing_for_holes_and_little_for_what_is_taken() {
    use crate::frame::zone::Sought;
    // 2^20 frames, 2048 pageblocks of 512, of which the first and the last eight exist.
    let layout = ZoneLayout::new(Frame(0), 1 << 20);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    zone.add(run(0, 4096)).unwrap();
    zone.add(run((1 << 20) - 4096, 4096)).unwrap();
    let looks = |frames, align| {
        let wanted = Sought::new(frames, align).unwrap();
        let (free, there) = (zone.find_free(wanted, Movable), zone.find_present(wanted));
        (free.found, free.looks.max(there.looks))
    };
    // Not longer than the first range: found there.
    assert_eq!(looks(4096, 1), (Some(0..4096), 15));
    let taken = zone.alloc_contiguous(1, 1, Unmovable).unwrap();
    assert_eq!(taken, run(0, 1));
    // One frame is missing: on to the last range, a look for each length of the run.
    let (found, seen) = looks(4096, 1);
    assert_eq!(found, Some((1 << 20) - 4096..1 << 20));
    assert!(seen < 2048 / 7 + 64, "{seen} pageblocks for a run of eight");
    // Longer than each: a look for each ten pageblocks, where every frame was looked at.
    let (found, seen) = looks(5120, 1);
    assert_eq!(found, None);
    assert!(seen < 2048 / 9 + 32, "{seen} pageblocks for a run of ten");
    // Shorter than a pageblock: each is looked at once, and its frames only where some are free.
    let (found, seen) = looks(512, 1 << 19);
    assert_eq!((found, seen), (None, 2048));
}

#[test]
fn the_lowest_run_is_found_wherever_it_begins_and_ends() {
    use crate::frame::zone::Sought;
    // Small pageblocks: of 8 frames, so that each run has many.
    let layout = ZoneLayout::new(Frame(4), 200).with_orders(order(3), order(6));
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut random = Random::new(1);
    let mut free = [true; 204];
    free[..4].fill(false);
    for _ in 0..60 {
        let at = 4 + random.below(200);
        if free[at as usize] && random.below(16) != 0 {
            zone.alloc_at(Frame(at), order(0), Movable).unwrap();
            free[at as usize] = false;
        }
        for frames in [1, 2, 7, 8, 9, 15, 16, 17, 24, 33, 64, 100] {
            for align in [1, 2, 8, 32] {
                let fits = |at: &u64| {
                    let (at, end) = (*at as usize, *at as usize + frames);
                    free.get(at..end)
                        .is_some_and(|run| run.iter().all(|free| *free))
                };
                let must = (0..204).step_by(align).find(fits);
                let wanted = Sought::new(frames as u64, align as u64).unwrap();
                let found = zone.find_free(wanted, Movable).found;
                let found = found.map(|offsets| zone.frame(offsets.start).0);
                assert_eq!(found, must, "{frames} at {align}");
            }
        }
    }
}

#[test]
fn frames_are_freed_by_any_run_over_allocations_and_a_wrong_one_changes_nothing() {
    let layout = ZoneLayout::new(Frame(0), 2048);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    for (start, orders) in [(64, 3), (72, 1), (74, 0), (76, 2), (512, 9)] {
        zone.alloc_at(Frame(start), order(orders), Unmovable)
            .unwrap();
    }
    let free = |zone: &Zone<_>| {
        zone.drain();
        zone.verify().unwrap();
        zone.stats().nr_free_pages
    };
    let before = free(&zone);
    // Frame 75 is not allocated, and nothing before it is freed either.
    assert_eq!(
        seat.free_frames(run(70, 8)),
        Err(FreeError::AlreadyFree(Frame(75)))
    );
    assert_eq!(
        seat.free_frames(run(1024, 1)),
        Err(FreeError::AlreadyFree(Frame(1024)))
    );
    assert_eq!(
        seat.free_frames(run(1020, 1100)),
        Err(FreeError::AlreadyFree(Frame(1024)))
    );
    assert_eq!(
        seat.free_frames(run(5000, 2)),
        Err(FreeError::Outside(Frame(5000)))
    );
    assert_eq!(free(&zone), before);
    seat.free_frames(run(9, 0)).unwrap();
    // The end of one, two whole ones.
    seat.free_frames(run(67, 8)).unwrap();
    assert_eq!(free(&zone), before + 8);
    // The middle of one: the test frees the rest by another run over it.
    seat.free_frames(run(513, 100)).unwrap();
    assert_eq!(free(&zone), before + 108);
    assert_eq!(
        seat.free_frames(run(512, 2)),
        Err(FreeError::AlreadyFree(Frame(513)))
    );
    for rest in [run(64, 3), run(76, 4), run(512, 1), run(613, 411)] {
        seat.free_frames(rest).unwrap();
    }
    assert_eq!(free(&zone), 2048);
}

/// F7: between the look at a run and its free another CPU frees some of it. Each block goes back once, and the free
/// says that some were not its own.
#[test]
fn f7_a_run_of_which_another_cpu_frees_a_part_meanwhile_goes_back_once_and_says_so() {
    let layout = ZoneLayout::new(Frame(0), 4096).with_cpus(2);
    for (at, others) in [(2, 0), (9, 0), (64, 3), (512, 9), (1024, 10), (70, 1)] {
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &caching(100), &mut memory);
        let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
        let all = run(0, 2048);
        // By single frames up to 64, and then by larger and larger blocks.
        for frame in 0..64 {
            zone.alloc_at(Frame(frame), Order::ZERO, Unmovable).unwrap();
        }
        zone.alloc_run_at(run(64, 1984), Unmovable).unwrap();
        let part = Run::new(Frame(at), order(others).frames()).unwrap();
        for frame in part.start().0..part.end().0 {
            seats[1].free_part(Frame(frame), Order::ZERO).unwrap();
        }
        let (mut next, mut freed) = (all.start(), Ok(()));
        seats[0].free_each(&mut next, all.end(), &mut freed);
        assert_eq!(freed, Err(FreeError::AlreadyFree(Frame(at))), "{at}");
        assert_eq!(zone.stats().nr_free_pages, 4096);
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, 4096);
    }
}

/// F9: a run that was not found stops no CPU again until something becomes free, nor does a longer one, or one
/// of a larger alignment; and a run of more frames than are free stops none at all.
#[test]
fn f9_a_run_that_is_not_there_stops_the_cpus_once() {
    let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(2);
    let mut memory = memory(&layout);
    let barriers = Barriers::default();
    let zone = Zone::new(&layout, &caching(100), &mut memory, &barriers).unwrap();
    zone.add(whole(&layout)).unwrap();
    let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    // Every other frame is free.
    for frame in (0..2048).step_by(2) {
        zone.alloc_at(Frame(frame), Order::ZERO, Unmovable).unwrap();
    }
    let before = barriers.count();
    let fails = |frames, align, mobility| {
        let failed = zone.alloc_contiguous(frames, align, mobility);
        assert_eq!(failed, Err(AllocError::Fragmented), "{frames} {align}");
    };
    fails(3, 1, Movable);
    let stops = barriers.count() - before;
    assert!(stops <= 2, "{stops} stops for one failure");
    for align in [1, 2, 64] {
        for frames in 3..30 {
            fails(frames, align, Movable);
        }
    }
    assert_eq!(barriers.count(), before + stops, "nothing became free");
    // Others that fail, by turns: each alignment has its own length.
    for _ in 0..10 {
        fails(2, 2, Movable);
        fails(2, 4, Unmovable);
        fails(3, 1, Unmovable);
    }
    assert!(barriers.count() <= before + 4 * stops);
    let run = zone.alloc_contiguous(1, 1, Movable);
    assert_eq!(
        run,
        Ok(Run::new(Frame(1), 1).unwrap()),
        "shorter ones are there"
    );
    seats[0].free(Frame(1), Order::ZERO).unwrap();

    // Another CPU's cache holds what is freed; only a stop finds it.
    seats[1].free(Frame(2), Order::ZERO).unwrap();
    let run = zone.alloc_contiguous(3, 1, Movable);
    assert_eq!(run, Ok(Run::new(Frame(1), 3).unwrap()));
    fails(3, 1, Movable);
    // What is taken makes none; a CPU that has taken frames into its cache does not hide what a memo says.
    let taken = seats[0].alloc(Order::ZERO, Movable).unwrap();
    let before = barriers.count();
    fails(3, 1, Movable);
    assert_eq!(barriers.count(), before);
    seats[0].free(taken, Order::ZERO).unwrap();
    while seats[0].alloc(Order::ZERO, Movable).is_ok() {}
    let before = barriers.count();
    for frames in 1..30 {
        let failed = zone.alloc_contiguous(frames, 1, Movable);
        assert_eq!(failed, Err(AllocError::Exhausted));
    }
    assert_eq!(barriers.count(), before, "there is not one frame");
}

/// A platform that counts its barriers: each stop has one.
#[derive(Default)]
struct Barriers(std::sync::atomic::AtomicU64);

impl Barriers {
    fn count(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl crate::platform::FramePlatform for &Barriers {
    fn barrier_all(&self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        ().barrier_all();
    }
}

/// What another CPU does.
type OthersWork = Option<Box<dyn FnOnce()>>;

/// A platform on which another CPU does something when the next stop is over.
#[derive(Clone, Default)]
struct StopEndBoard(Rc<RefCell<OthersWork>>);

impl crate::platform::FramePlatform for StopEndBoard {
    const ASYMMETRIC: bool = true;

    fn wake(&self) {
        let work = self.0.borrow_mut().take();
        if let Some(work) = work {
            work();
        }
    }

    fn barrier_all(&self) {}
}

/// F8, F9: frames that a CPU takes into its cache after the drain count as taken in that search, but the next
/// request drains them. So a failure that did not find a run for their sake is not remembered.
#[test]
fn f8_what_was_cached_during_a_search_for_a_run_is_no_reason_to_refuse_the_next_one() {
    const FRAMES: u64 = 256;
    let layout = ZoneLayout::new(Frame(0), FRAMES)
        .with_orders(order(3), order(3))
        .with_cpus(2);
    let platform = StopEndBoard::default();
    let memory = memory(&layout).leak();
    let zone = Zone::new(&layout, &caching(100), memory, platform.clone()).unwrap();
    let zone: &'static Zone<'static, _> = Box::leak(Box::new(zone));
    zone.add(whole(&layout)).unwrap();
    let taken = Rc::new(Cell::new(None));
    let takes = {
        let taken = taken.clone();
        move || {
            let mut seat = zone.seat(CpuId(0)).unwrap();
            taken.set(seat.alloc(Order::ZERO, Unmovable).ok());
        }
    };
    *platform.0.borrow_mut() = Some(Box::new(takes));
    // The zone's first frame is taken, and some behind it lie in the cache: what remains is too short.
    let first = zone.alloc_contiguous(FRAMES - 2, 1, Unmovable);
    assert_eq!(first, Err(AllocError::Fragmented));
    assert_eq!(taken.get(), Some(Frame(0)), "the drain's stop was over");
    let next = zone.alloc_contiguous(FRAMES - 1, 1, Unmovable);
    assert_eq!(next, Ok(run(1, FRAMES - 1)), "F8");
    zone.verify().unwrap();
}
