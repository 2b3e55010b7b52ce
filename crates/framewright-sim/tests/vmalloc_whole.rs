//! An area is lazy, waiting and given back as a whole, and is freed once (V5, V9, V10): with areas
//! across the words of a span's bitmaps, more unmaps than one pass makes, and second frees at every
//! moment.

use framewright::policy::RangeConfig;
use framewright::vrange::{AreaRequest, RangeFreeError, RangeSeat, Space, SpaceLayout};
use framewright::{CpuId, Page};
use framewright_sim::{MachineCall, Paging, PoolFrames, Random, SharedFrames, SharedPaging};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

const START: Page = Page(1 << 20);

type WholeSeat<'s, 'm, 'p> = RangeSeat<'s, 'm, &'p Paging, PoolFrames<'p>>;

/// A space with spans of 1024 pages, and TLBs that load new mappings at once.
fn run(
    cpus: u16,
    pages: u64,
    config: &RangeConfig,
    test: impl FnOnce(&Space<'_, &Paging>, &Paging, &mut [WholeSeat<'_, '_, '_>]),
) {
    let paging = Paging::new(cpus, START, pages, pages as u32, 0).eager(true);
    let layout = SpaceLayout::new(START, pages).with_cpus(cpus);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, config, &mut memory, &paging).unwrap();
    let seat = |cpu| space.seat(CpuId(cpu), PoolFrames(&paging)).unwrap();
    let mut seats: Vec<_> = (0..cpus).map(seat).collect();
    test(&space, &paging, &mut seats);
    seats[0].drain();
    space.verify().unwrap();
    assert_eq!(paging.broken(), None);
}

const fn nothing_kept(cpus: u16, lazy_pages_max: u64) -> RangeConfig {
    let mut config = RangeConfig::for_cpus(cpus).kept();
    config.lazy_pages_max = lazy_pages_max;
    config.kept_pages_max = 0;
    config
}

#[test]
fn v9_a_pass_that_has_had_enough_ends_where_an_area_ends() {
    // Every second area is freed, so that each is unmapped by a call of its own, and for most
    // lengths one of them goes on where a word of the bitmap ends after 8 calls.
    for (cpus, pages) in (1..40).map(|pages| (1 + pages as u16 % 2, pages)) {
        run(
            cpus,
            8192,
            &nothing_kept(cpus, 2000),
            |space, paging, seats| {
                let areas: Vec<_> = (0..6000 / (pages + 1))
                    .map(|_| seats[0].vmalloc(&AreaRequest::new(pages)).unwrap())
                    .collect();
                for (nth, pair) in areas.chunks(2).enumerate() {
                    seats[0].vfree(pair[0]).unwrap();
                    // Another CPU's flush; then a request, which looks at what waits.
                    seats[seats.len() - 1].purge();
                    let _ = seats[0].vmalloc(&AreaRequest::new(1)).unwrap();
                    assert_eq!(paging.broken(), None, "{pages} pages, free {nth}");
                    if nth % 16 == 0 {
                        space.verify().unwrap();
                    }
                }
            },
        );
    }
}

#[test]
fn v9_areas_go_back_as_a_whole_under_loads_that_grow_and_shrink() {
    for (cpus, seed) in [(1, 0), (2, 1), (2, 2), (4, 3)] {
        let config = RangeConfig::for_cpus(cpus).kept();
        run(cpus, 1 << 16, &config, |space, paging, seats| {
            let mut random = Random::new(seed);
            let (mut areas, mut live, mut grows) = (Vec::new(), 0, true);
            for op in 0..60_000 {
                let seat = &mut seats[random.below(u64::from(cpus)) as usize];
                grows = live < 5_000 || grows && live < 40_000;
                if areas.is_empty() || random.below(10) < if grows { 8 } else { 2 } {
                    let pages = 1 + random.below(16);
                    let area = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
                    areas.push((area, pages));
                    live += pages;
                } else {
                    let nth = random.below(areas.len() as u64) as usize;
                    let (area, pages) = areas.swap_remove(nth);
                    seat.vfree(area).unwrap();
                    live -= pages;
                }
                assert_eq!(
                    paging.broken(),
                    None,
                    "{cpus} CPUs, seed {seed}, operation {op}"
                );
                if op % 10_000 == 0 {
                    space.verify().unwrap();
                }
            }
        });
    }
}

#[test]
fn v9_an_area_whose_unmap_fails_keeps_all_its_frames_until_all_of_it_is_unmapped() {
    for after in 0..130 {
        run(1, 8192, &nothing_kept(1, 1024), |space, paging, seats| {
            let seat = &mut seats[0];
            let areas: Vec<_> = (0..120)
                .map(|_| seat.vmalloc(&AreaRequest::new(40)).unwrap())
                .collect();
            paging.machine().fail(MachineCall::Unmap, after, 1);
            for (nth, pair) in areas.chunks(2).enumerate() {
                seat.vfree(pair[0]).unwrap();
                if nth % 8 == 7 {
                    seat.purge();
                }
                let _ = seat.vmalloc(&AreaRequest::new(1)).unwrap();
                assert_eq!(paging.broken(), None, "call {after}, free {nth}");
                space.verify().unwrap();
            }
        });
    }
}

#[test]
fn v10_a_second_free_is_refused_while_the_first_ones_area_is_evicted() {
    // Lists of two areas of eight pages and a depot of two: each free evicts one. No area is
    // allocated while areas are freed, so no second free can be of a new area.
    const AREAS: usize = 400;
    const ROUNDS: usize = 12;
    let layout = SpaceLayout::new(START, 1 << 14).with_cpus(3);
    let paging = Paging::new(3, START, 1 << 14, 1 << 14, 0);
    let paging = SharedPaging::new(paging, || ());
    let config = RangeConfig {
        kept_pages_max: 16,
        ..RangeConfig::for_cpus(3).kept()
    };
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    let areas = Mutex::new(Vec::new());
    let progress = AtomicUsize::new(0);
    let tries = AtomicU64::new(0);
    let meet = Barrier::new(3);
    thread::scope(|scope| {
        for cpu in 1..3 {
            let (space, areas, progress, tries) = (&space, &areas, &progress, &tries);
            let (meet, paging) = (&meet, &paging);
            scope.spawn(move || {
                let mut seat = space.seat(CpuId(cpu), SharedFrames(paging)).unwrap();
                let mut random = Random::new(u64::from(cpu));
                for _ in 0..ROUNDS {
                    meet.wait();
                    let areas: Vec<Page> = areas.lock().unwrap().clone();
                    loop {
                        let done = progress.load(Ordering::Acquire);
                        let back = 1 + random.below(8) as usize;
                        if back <= done {
                            // Of what was freed last: it is evicted soon.
                            let page = areas[done - back];
                            let error = seat.vfree(page).unwrap_err();
                            let is_free = matches!(
                                error,
                                RangeFreeError::AlreadyFree(_)
                                    | RangeFreeError::NotAllocated(_)
                                    | RangeFreeError::NotTheFirst { .. }
                            );
                            assert!(is_free, "{error}");
                            tries.fetch_add(1, Ordering::Relaxed);
                        }
                        if done == AREAS {
                            break;
                        }
                    }
                    meet.wait();
                }
            });
        }
        let mut seat = space.seat(CpuId(0), SharedFrames(&paging)).unwrap();
        for _ in 0..ROUNDS {
            progress.store(0, Ordering::Release);
            *areas.lock().unwrap() = (0..AREAS)
                .map(|_| seat.vmalloc(&AreaRequest::new(8)).unwrap())
                .collect();
            let own = areas.lock().unwrap().clone();
            meet.wait();
            for (nth, &page) in own.iter().enumerate() {
                assert_eq!(seat.vfree(page), Ok(8), "the first free");
                progress.store(nth + 1, Ordering::Release);
            }
            meet.wait();
        }
        seat.drain();
    });
    assert!(tries.load(Ordering::Relaxed) > 0);
    space.verify().unwrap();
    let stats = space.stats();
    assert_eq!((stats.live_pages, stats.kept_pages), (0, 0));
    assert_eq!(stats.area_frees, stats.area_allocs);
    let paging = paging.lock();
    assert_eq!(paging.broken(), None);
    assert_eq!(paging.free_frames(), 1 << 14);
}

#[test]
fn v10_of_frees_of_one_area_on_all_cpus_at_once_one_is_taken() {
    const ROUNDS: usize = 2000;
    let layout = SpaceLayout::new(START, 1 << 14).with_cpus(3);
    let paging = SharedPaging::new(Paging::new(3, START, 1 << 14, 1 << 14, 0), || ());
    for kept_pages_max in [0, 256] {
        let config = RangeConfig {
            kept_pages_max,
            ..RangeConfig::for_cpus(3).kept()
        };
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
        let area = AtomicU64::new(0);
        let taken = AtomicUsize::new(0);
        let meet = Barrier::new(3);
        thread::scope(|scope| {
            for cpu in 0..3 {
                let (space, area, taken, meet) = (&space, &area, &taken, &meet);
                let paging = &paging;
                scope.spawn(move || {
                    let mut seat = space.seat(CpuId(cpu), SharedFrames(paging)).unwrap();
                    for round in 0..ROUNDS {
                        if usize::from(cpu) == round % 3 {
                            let pages = 1 + round as u64 % 100;
                            let page = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
                            area.store(page.0, Ordering::Relaxed);
                        }
                        meet.wait();
                        if seat.vfree(Page(area.load(Ordering::Relaxed))).is_ok() {
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                        meet.wait();
                    }
                });
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), ROUNDS);
        space.verify().unwrap();
        let mut seat = space.seat(CpuId(0), SharedFrames(&paging)).unwrap();
        seat.drain();
        assert_eq!(paging.lock().broken(), None);
        assert_eq!(paging.lock().free_frames(), 1 << 14);
    }
}
