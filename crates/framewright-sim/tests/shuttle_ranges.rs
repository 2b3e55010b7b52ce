//! Several CPUs in one window under random interleavings: remote frees, spans that change hands,
//! the purge's generation, drains under work.
//!
//! `RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/models cargo test --release -p
//! framewright-sim --test shuttle_ranges`
#![cfg(shuttle)]

use framewright::policy::RangeConfig;
use framewright::vrange::AreaKind::{self, Plain, Ram, Vmalloc};
use framewright::vrange::{AreaRequest, RangeError, RangeFreeError, Space, SpaceLayout};
use framewright::{CpuId, Page};
use framewright_sim::range::{Hammer, HammerWork};
use framewright_sim::{Paging, SharedFrames, SharedPaging};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;

/// Half of the schedules at random, and half with three changes of priority: only those hold a
/// thread up for long between two of its steps.
fn explore(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 19;
    let test = Arc::new(test);
    let same = test.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || test());
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(move || same());
}

/// With one change of priority: one thread is held up between two of its steps, until the others wait for it or end.
fn hold_up(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 19;
    Runner::new(PctScheduler::new(2, schedules), config).run(test);
}

type ShuttleSpace = Space<'static, &'static SharedPaging>;

fn space(
    pages: u64,
    span_pages: u32,
    cpus: u16,
    config: &RangeConfig,
    pause: fn(),
) -> (&'static ShuttleSpace, &'static SharedPaging) {
    let layout = SpaceLayout::new(Page(1024), pages)
        .with_span_pages(span_pages)
        .with_cpus(cpus);
    let paging = Paging::new(cpus, layout.start, pages, pages as u32, 256).eager(true);
    let paging: &SharedPaging = Box::leak(Box::new(SharedPaging::new(paging, pause)));
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let space = Space::new(&layout, config, memory, paging).unwrap();
    (Box::leak(Box::new(space)), paging)
}

fn hammer(
    pages: u64,
    span_pages: u32,
    cpus: u16,
    config: RangeConfig,
    ops: u32,
    work: &'static HammerWork,
) {
    let layout = SpaceLayout::new(Page(1024), pages);
    let (space, paging) = space(pages, span_pages, cpus, &config, thread::yield_now);
    let hammer: &Hammer = Box::leak(Box::new(Hammer::new(space, paging, &layout)));
    let threads: Vec<_> = (0..cpus)
        .map(|cpu| thread::spawn(move || hammer.work(cpu, u64::from(cpu) + 11, ops, work)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    hammer.end();
}

const fn config(lazy_pages_max: u64, kept_pages_max: u64) -> RangeConfig {
    let mut config = RangeConfig::for_cpus(2).kept();
    config.lazy_pages_max = lazy_pages_max;
    config.kept_pages_max = kept_pages_max;
    config
}

const EVERYTHING: &[AreaKind] = &[Plain, Vmalloc, Ram];

#[test]
fn v3_what_one_cpu_allocates_another_frees() {
    static WORK: HammerWork = HammerWork {
        kinds: EVERYTHING,
        pages_max: 2,
        held_max: 2,
        shared_percent: 80,
        purge_percent: 0,
        defer_percent: 0,
        must_serve: false,
    };
    explore(300, || hammer(48, 8, 2, config(8, 0), 12, &WORK));
}

/// A CPU that adds up the counts of another one may be held up at each step, while that one reports pages and flushes.
#[test]
fn v6_a_count_of_lazy_pages_is_of_one_moment() {
    explore(6000, || {
        let (space, _) = space(256, 16, 1, &config(16, 0), thread::yield_now);
        let other = thread::spawn(move || {
            let mut seat = space.seat(CpuId(0), ()).unwrap();
            let areas = [1; 40].map(|pages| seat.alloc_area(&AreaRequest::new(pages)));
            for area in areas {
                seat.free_area(area.unwrap()).unwrap();
            }
        });
        for _ in 0..6 {
            let _ = space.stats();
        }
        other.join().unwrap();
        let (stats, batch) = (space.stats(), space.lazy_batch_pages());
        assert!(
            batch > 2 && stats.lazy_pages_peak <= 16 + batch,
            "{batch}: {stats:?}"
        );
    });
}

#[test]
fn v12_a_strict_space_unmaps_what_another_cpu_collects() {
    static WORK: HammerWork = HammerWork {
        kinds: EVERYTHING,
        pages_max: 3,
        held_max: 3,
        shared_percent: 60,
        purge_percent: 10,
        defer_percent: 0,
        must_serve: false,
    };
    let mut config = config(6, 0);
    config.strict = true;
    explore(300, move || hammer(48, 8, 2, config, 12, &WORK));
}

#[test]
fn v5_nothing_is_used_again_before_a_flush_that_began_after_its_unmap_has_ended() {
    static WORK: HammerWork = HammerWork {
        kinds: &[Vmalloc, Ram],
        pages_max: 2,
        held_max: 3,
        shared_percent: 20,
        purge_percent: 25,
        defer_percent: 0,
        must_serve: false,
    };
    explore(300, || hammer(32, 8, 3, config(2, 0), 10, &WORK));
}

/// The peak never counts pages that a CPU has reported but not freed yet, nor the same pages before and after a CPU
/// reported them, whenever another CPU adds them up.
#[test]
fn v6_the_peak_is_within_the_bound_and_a_batch_of_each_cpu() {
    explore(4000, || {
        let (space, _) = space(128, 8, 2, &config(8, 0), thread::yield_now);
        let threads: Vec<_> = (0..2)
            .map(|cpu| {
                thread::spawn(move || {
                    let mut seat = space.seat(CpuId(cpu), ()).unwrap();
                    let areas = [1, 2, 1, 3, 1, 1, 2, 1];
                    let areas = areas.map(|pages| seat.alloc_area(&AreaRequest::new(pages)));
                    for area in areas {
                        seat.free_area(area.unwrap()).unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..4 {
            let _ = space.stats();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        let (stats, batches) = (space.stats(), 2 * space.lazy_batch_pages());
        assert!(stats.lazy_pages_peak <= 8 + batches, "{stats:?}");
        space.verify().unwrap();
    });
}

/// Two CPUs meet the bound at once, each unmaps its own pages in several parts first, and each frees areas of the other
/// one meanwhile; a third stops them all.
#[test]
fn v6_frees_that_unmap_ahead_meet_frees_to_their_spans_and_a_drain() {
    explore(400, || {
        let (space, paging) = space(2048, 64, 3, &config(128, 0), || ());
        let areas = [0, 1].map(|cpu| {
            let mut seat = space.seat(CpuId(cpu), SharedFrames(paging)).unwrap();
            let long = seat.vmalloc(&AreaRequest::new(100)).unwrap();
            let short = [1; 24].map(|pages| seat.vmalloc(&AreaRequest::new(pages)).unwrap());
            // Each second one, so that each is a call of its own to unmap.
            for area in short.iter().step_by(2) {
                assert_eq!(seat.vfree(*area), Ok(1));
            }
            (long, short)
        });
        let threads = [0, 1].map(|cpu| {
            let (long, (_, theirs)) = (areas[cpu].0, areas[1 - cpu]);
            thread::spawn(move || {
                let seat = space.seat(CpuId(cpu as u16), SharedFrames(paging));
                let mut seat = seat.unwrap();
                for area in &theirs[1..12] {
                    // Those that are free already are refused.
                    let _ = seat.vfree(*area);
                }
                assert_eq!(seat.vfree(long), Ok(100));
            })
        });
        let mut drainer = space.seat(CpuId(2), SharedFrames(paging)).unwrap();
        drainer.drain();
        for thread in threads {
            thread.join().unwrap();
        }
        let (stats, batch) = (space.stats(), space.lazy_batch_pages());
        assert!(
            stats.lazy_pages_peak <= 128 + 3 * batch,
            "{batch}: {stats:?}"
        );
        space.verify().unwrap();
        drainer.drain();
        space.verify().unwrap();
        assert_eq!(stats.area_frees, 24 + 12 + 2);
        assert_eq!(paging.lock().broken(), None);
    });
}

#[test]
fn v13_frees_are_deferred_beside_frees_purges_and_drains() {
    static WORK: HammerWork = HammerWork {
        kinds: EVERYTHING,
        pages_max: 3,
        held_max: 3,
        shared_percent: 40,
        purge_percent: 20,
        defer_percent: 60,
        must_serve: false,
    };
    explore(600, || hammer(64, 8, 3, config(12, 0), 10, &WORK));
    explore(300, || hammer(64, 8, 2, config(12, 16), 12, &WORK));
}

#[test]
fn v8_no_request_fails_for_what_is_deferred() {
    static WORK: HammerWork = HammerWork {
        kinds: &[Vmalloc],
        pages_max: 1,
        held_max: 4,
        shared_percent: 0,
        purge_percent: 0,
        defer_percent: 100,
        must_serve: true,
    };
    // Two threads with four areas of two pages each at most.
    explore(600, || hammer(32, 8, 2, config(16, 0), 16, &WORK));
}

#[test]
fn v8_spans_change_hands_before_a_request_fails() {
    // Two users that hold at most three areas of one page and a guard page.
    static WORK: HammerWork = HammerWork {
        kinds: &[Plain],
        pages_max: 1,
        held_max: 3,
        shared_percent: 0,
        purge_percent: 0,
        defer_percent: 0,
        must_serve: true,
    };
    explore(300, || hammer(32, 8, 2, config(8, 0), 16, &WORK));
}

/// One CPU's failure drains all CPUs. A request of another CPU that has searched before that must see the
/// pages that the drain gave to the arena.
fn v8_beside_a_failure(ask: fn(u16, &'static ShuttleSpace)) {
    explore(2000, move || {
        let (space, _) = space(32, 8, 2, &config(4, 0), thread::yield_now);
        let mut first = space.seat(CpuId(0), ()).unwrap();
        // A span with six free pages, and nothing in the arena.
        first.alloc_area(&AreaRequest::new(1)).unwrap();
        first.alloc_area(&AreaRequest::new(23)).unwrap();
        let other = thread::spawn(move || ask(1, space));
        let failed = first.alloc_area(&AreaRequest::new(20));
        assert!(matches!(failed, Err(RangeError::NoSpace { .. })));
        other.join().unwrap();
    });
}

#[test]
fn v8_a_request_that_searched_before_another_failed_sees_what_that_drained() {
    v8_beside_a_failure(|cpu, space| {
        let mut seat = space.seat(CpuId(cpu), ()).unwrap();
        let found = seat.alloc_area(&AreaRequest::new(1));
        assert!(found.is_ok(), "V8: six pages are free: {found:?}");
    });
}

#[test]
fn areas_are_kept_and_drained_under_work() {
    static WORK: HammerWork = HammerWork {
        kinds: &[Vmalloc],
        pages_max: 3,
        held_max: 2,
        shared_percent: 30,
        purge_percent: 10,
        defer_percent: 0,
        must_serve: false,
    };
    explore(300, || hammer(32, 16, 2, config(4, 8), 12, &WORK));
}

#[test]
fn v12_areas_are_kept_unmapped_and_drained_under_work() {
    static WORK: HammerWork = HammerWork {
        kinds: &[Vmalloc],
        pages_max: 3,
        held_max: 2,
        shared_percent: 30,
        purge_percent: 5,
        defer_percent: 0,
        must_serve: false,
    };
    let mut config = config(2, 6);
    config.strict = true;
    explore(300, move || hammer(32, 16, 2, config, 16, &WORK));
}

#[test]
fn kept_areas_go_through_the_depot_from_cpus_that_free_to_cpus_that_allocate() {
    // Two areas of a length fill a CPU's lists: so each third one moves.
    static WORK: HammerWork = HammerWork {
        kinds: &[Vmalloc],
        pages_max: 2,
        held_max: 3,
        shared_percent: 90,
        purge_percent: 5,
        defer_percent: 0,
        must_serve: false,
    };
    explore(300, || hammer(64, 16, 3, config(8, 8), 14, &WORK));
}

#[test]
fn v9_a_purge_beside_frees_of_areas_across_words_takes_them_as_a_whole() {
    // No pauses of the platform's: a thread is held up where the scheduler wants, so also between
    // two steps of a free.
    explore(800, || {
        let (space, paging) = space(4096, 128, 2, &config(400, 0), || ());
        let mut owner = space.seat(CpuId(0), SharedFrames(paging)).unwrap();
        let mut other = space.seat(CpuId(1), SharedFrames(paging)).unwrap();
        // Of 41 pages with the guard page: the second, fourth and fifth cross a word's end.
        let areas: Vec<_> = (0..6)
            .map(|_| owner.vmalloc(&AreaRequest::new(40)).unwrap())
            .collect();
        let freed = areas.clone();
        let freer = thread::spawn(move || {
            for &area in &freed[..4] {
                assert_eq!(other.vfree(area), Ok(40));
            }
        });
        owner.purge();
        assert_eq!(owner.vfree(areas[4]), Ok(40));
        owner.purge();
        space.verify().unwrap();
        freer.join().unwrap();
        owner.drain();
        space.verify().unwrap();
        assert_eq!(paging.lock().broken(), None);
    });
}

#[test]
fn v9_long_areas_in_long_spans_are_freed_anywhere_and_purged() {
    static WORK: HammerWork = HammerWork {
        kinds: EVERYTHING,
        pages_max: 60,
        held_max: 3,
        shared_percent: 60,
        purge_percent: 15,
        defer_percent: 0,
        must_serve: false,
    };
    explore(400, || hammer(2048, 128, 2, config(200, 0), 14, &WORK));
}

#[test]
fn v9_many_areas_are_freed_and_then_it_is_quiet() {
    static WORK: HammerWork = HammerWork {
        kinds: &[Vmalloc],
        pages_max: 30,
        held_max: 16,
        shared_percent: 0,
        purge_percent: 5,
        defer_percent: 0,
        must_serve: false,
    };
    // What a thread holds it frees at its end; then only the others go on.
    for kept in [0, 64] {
        explore(100, move || {
            hammer(2048, 256, 3, config(120, kept), 20, &WORK)
        });
    }
}

#[test]
fn v10_a_second_free_beside_an_eviction_is_refused() {
    // Two areas of four pages fill the lists, and two the depot: the others are evicted.
    explore(1000, || {
        let (space, paging) = space(512, 64, 2, &config(64, 8), || ());
        let mut first = space.seat(CpuId(0), SharedFrames(paging)).unwrap();
        let mut second = space.seat(CpuId(1), SharedFrames(paging)).unwrap();
        let areas: Vec<_> = (0..6)
            .map(|_| first.vmalloc(&AreaRequest::new(4)).unwrap())
            .collect();
        for &area in &areas[..4] {
            assert_eq!(first.vfree(area), Ok(4));
        }
        let freed = areas.clone();
        let again = thread::spawn(move || {
            for &area in freed[..4].iter().rev() {
                let error = second.vfree(area).unwrap_err();
                assert!(
                    matches!(
                        error,
                        RangeFreeError::AlreadyFree(_) | RangeFreeError::NotAllocated(_)
                    ),
                    "{error}"
                );
            }
        });
        for &area in &areas[4..] {
            assert_eq!(first.vfree(area), Ok(4));
        }
        again.join().unwrap();
        first.drain();
        space.verify().unwrap();
        assert_eq!(space.stats().area_frees, 6);
        assert_eq!(paging.lock().broken(), None);
    });
}

#[test]
fn v10_of_two_frees_at_the_same_moment_one_is_taken() {
    for kept in [0, 64] {
        explore(1000, move || {
            let (space, paging) = space(512, 64, 2, &config(64, kept), || ());
            let mut first = space.seat(CpuId(0), SharedFrames(paging)).unwrap();
            let mut second = space.seat(CpuId(1), SharedFrames(paging)).unwrap();
            let area = first.vmalloc(&AreaRequest::new(4)).unwrap();
            let other = thread::spawn(move || second.vfree(area).is_ok());
            let mine = first.vfree(area).is_ok();
            assert_ne!(mine, other.join().unwrap());
            space.verify().unwrap();
            first.drain();
            assert_eq!(space.stats().area_frees, 1);
            assert_eq!(paging.lock().broken(), None);
        });
    }
}

/// A free by a stale address is held up between its looks, while the area ends, its span goes back, and a new area
/// begins there. The free is then the new area's, or an error, and no area is lost.
#[test]
fn v10_a_slow_free_by_a_stale_address_loses_no_area() {
    // Only the first page of the window is aligned enough for the new area.
    const PAGES: u64 = 64;
    hold_up(10_000, || {
        let (space, paging) = space(PAGES, 8, 2, &config(16, 0), || ());
        let mut first = space.seat(CpuId(0), SharedFrames(paging)).unwrap();
        let mut second = space.seat(CpuId(1), SharedFrames(paging)).unwrap();
        // Two areas fill a span. The seventh one's span is the current one, and the seat keeps two empty ones.
        let areas: Vec<_> = (0..7)
            .map(|_| first.alloc_area(&AreaRequest::new(3)).unwrap())
            .collect();
        let old = areas[0];
        let stale = thread::spawn(move || second.free_area(old).is_ok());
        let mut frees = 0;
        for nth in [2, 3, 4, 5, 1, 0] {
            frees += u64::from(first.free_area(areas[nth]).is_ok());
        }
        first.purge();
        let request = AreaRequest::new(3).aligned_to(128 * Page::BYTES);
        let new = first.alloc_area(&request);
        assert_eq!(new, Ok(old));
        frees += u64::from(stale.join().unwrap());
        space.verify().unwrap();
        frees += u64::from(first.free_area(old).is_ok());
        frees += u64::from(first.free_area(areas[6]).is_ok());
        assert_eq!(frees, 8, "each area is freed once");
        first.drain();
        space.verify().unwrap();
        assert_eq!(space.stats().vmap_lazy_nr, 0);
        assert!(first.alloc_area(&AreaRequest::new(PAGES - 1)).is_ok());
    });
}
