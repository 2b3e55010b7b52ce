//! A whole space of virtual ranges on threads, with interleavings that shuttle chooses:
//! `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_areas`.
//! In a normal build this file is empty.
//!
//! What must never be seen: a page that two have at a time, a page that is handed out before it is
//! unmapped and flushed, a request that fails although there is room, a page that is lost, more
//! lazy pages than the bound allows.
#![cfg(shuttle)]

use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::policy::RangeConfig;
use framewright::vrange::{AreaRequest, RangeSeat, Space, SpaceLayout};
use framewright::{CpuId, Page, PageAccess, PageRange, Run};
use framewright_sim::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex as Plain};

const START: Page = Page(0x4000);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageState {
    Free,
    /// A user has it.
    Owned,
    /// Freed by its user, mapped still.
    Lazy,
    /// Unmapped by the n-th call; the translation may still be cached.
    Stale(u64),
}

/// The pages, as the page table and their users see them. Not known to shuttle: it must not change
/// the interleavings, except by the yields in it.
struct ShuttlePages(Plain<Vec<PageState>>, AtomicU64);

impl FramePlatform for ShuttlePages {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

fn part(range: PageRange) -> std::ops::Range<usize> {
    let start = (range.start().0 - START.0) as usize;
    start..start + range.pages() as usize
}

impl RangePlatform for ShuttlePages {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Err(MapError::NoMemory)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        thread::yield_now();
        let call = self.1.fetch_add(1, Relaxed);
        for page in &mut self.0.lock().unwrap()[part(range)] {
            assert_ne!(*page, PageState::Owned, "V5: unmapped under its user");
            if *page == PageState::Lazy {
                *page = PageState::Stale(call);
            }
        }
        Ok(())
    }

    fn flush_all(&self) {
        // What is stale when it begins is forgotten when it ends.
        let before = self.0.lock().unwrap().clone();
        thread::yield_now();
        for (page, before) in self.0.lock().unwrap().iter_mut().zip(before) {
            if matches!(before, PageState::Stale(_)) && *page == before {
                *page = PageState::Free;
            }
        }
    }

    fn zero(&self, _frames: Run) {}
}

type SharedAreas = &'static Space<'static, ShuttlePages>;
type AreaSeat = RangeSeat<'static, 'static, ShuttlePages, ()>;

fn explore(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 18;
    let body = Arc::new(body);
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(move || same());
}

fn space(cpus: u16, pages: u64, span_pages: u32, lazy: u64) -> SharedAreas {
    let layout = SpaceLayout::new(START, pages)
        .with_span_pages(span_pages)
        .with_cpus(cpus);
    let config = RangeConfig {
        lazy_pages_max: lazy,
        ..RangeConfig::for_cpus(cpus).kept()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let all = ShuttlePages(
        Plain::new(vec![PageState::Free; pages as usize]),
        AtomicU64::new(0),
    );
    Box::leak(Box::new(Space::new(&layout, &config, memory, all).unwrap()))
}

fn alloc(seat: &mut AreaSeat, pages: u64, align: u64) -> Option<(Page, u64)> {
    let request = AreaRequest::new(pages).aligned_to(align * Page::BYTES);
    let at = seat.alloc_area(&request).ok()?;
    assert!(at.0.is_multiple_of(align));
    let range = PageRange::new(at, pages + 1).unwrap();
    for page in &mut seat.space().platform().0.lock().unwrap()[part(range)] {
        assert_eq!(*page, PageState::Free, "V1, V5: {at}");
        *page = PageState::Owned;
    }
    Some((at, pages))
}

fn free(seat: &mut AreaSeat, (at, pages): (Page, u64)) {
    let range = PageRange::new(at, pages + 1).unwrap();
    for page in &mut seat.space().platform().0.lock().unwrap()[part(range)] {
        assert_eq!(*page, PageState::Owned, "{at}");
        *page = PageState::Lazy;
    }
    assert_eq!(seat.free_area(at), Ok(pages));
}

fn on_cpus(space: SharedAreas, work: impl Fn(&mut AreaSeat, u16) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..space.cpus())
        .map(|cpu| {
            let work = work.clone();
            thread::spawn(move || {
                let mut seat = space.seat(CpuId(cpu), ()).unwrap();
                work(&mut seat, cpu);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    space.verify().unwrap();
    assert_eq!(space.stats().live_pages, 0);
    space.seat(CpuId(0), ()).unwrap().drain();
    space.verify().unwrap();
    let pages = space.platform().0.lock().unwrap();
    assert!(
        pages.iter().all(|&page| page == PageState::Free),
        "all is back"
    );
    // One request can have all of it.
    drop(pages);
    let whole = space.pages() - 1;
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    assert!(alloc(&mut seat, whole, 1).is_some());
}

#[test]
fn areas_are_passed_on_and_freed_anywhere() {
    explore(1500, || {
        let space = space(3, 256, 8, 24);
        let passed: Arc<Mutex<Vec<(Page, u64)>>> = Arc::new(Mutex::new(Vec::new()));
        let rest = passed.clone();
        on_cpus(space, move |seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 1);
            let mut own = Vec::new();
            for _ in 0..12 {
                match random.below(8) {
                    0..=3 => own.extend(alloc(seat, 1 + random.below(3), 1 << random.below(3))),
                    4 => own.extend(alloc(seat, 1 + random.below(20), 1)),
                    5 => {
                        let taken = passed.lock().unwrap().pop();
                        if let Some(area) = taken {
                            free(seat, area);
                        }
                    }
                    6 => {
                        if let Some(area) = own.pop() {
                            passed.lock().unwrap().push(area);
                        }
                    }
                    _ => {
                        if let Some(area) = own.pop() {
                            free(seat, area);
                        }
                    }
                }
            }
            for area in own {
                free(seat, area);
            }
            if random.below(2) == 0 {
                seat.purge();
            }
            let left: Vec<_> = std::mem::take(&mut *passed.lock().unwrap());
            for area in left {
                free(seat, area);
            }
        });
        assert!(rest.lock().unwrap().is_empty());
    });
}

#[test]
fn v8_no_request_fails_while_others_hold_less_than_there_is() {
    // 32 pages, two users that hold at most 8 areas of 2 pages each: never a failure, wherever the
    // rest is: lazy, waiting, on its way, in a span.
    explore(1200, || {
        let space = space(2, 32, 8, 16);
        on_cpus(space, |seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 7);
            let mut own = Vec::new();
            for _ in 0..16 {
                if own.len() < 8 && random.below(3) != 0 {
                    own.push(alloc(seat, 1, 1).expect("V8"));
                } else if !own.is_empty() {
                    let nth = random.below(own.len() as u64) as usize;
                    free(seat, own.swap_remove(nth));
                }
            }
            for area in own {
                free(seat, area);
            }
        });
    });
}

#[test]
fn v6_the_bound_holds_while_some_sleep_with_what_they_freed() {
    explore(600, || {
        let space = space(3, 512, 16, 32);
        on_cpus(space, |seat, cpu| {
            let rounds = if cpu == 0 { 40 } else { 8 };
            for _ in 0..rounds {
                let area = alloc(seat, 3, 1).expect("V8");
                free(seat, area);
            }
        });
        let most = 32 + 3 * space.lazy_batch_pages();
        // Told of at the same time, by each of the others, and not yet lazy.
        let reserved = 2 * 4;
        assert!(space.stats().lazy_pages_peak <= most + reserved);
    });
}
