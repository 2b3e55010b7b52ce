//! Calls out of a space that do not return (V11).

extern crate std;

use super::*;
use crate::frame::{AllocError, FrameSource};
use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::policy::RangeConfig;
use crate::sync::{AtomicU64, Lock, Ordering::SeqCst, fence};
use crate::units::{Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::vec;

/// What unwinds.
const UNMAP: u64 = 1;
const FLUSH: u64 = 2;
const FREE: u64 = 3;
const ALL: [u64; 3] = [UNMAP, FLUSH, FREE];

/// A platform, and the source of as many frames as are asked for; one call of one kind unwinds.
#[derive(Default)]
struct Breaks {
    which: AtomicU64,
    next: AtomicU64,
}

impl Breaks {
    fn at(&self, call: u64) {
        if self.which.load(SeqCst) == call {
            self.which.store(0, SeqCst);
            panic!("call {call} unwinds");
        }
    }
}

impl FramePlatform for Breaks {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        assert!(attempt < 1 << 22, "V11: a CPU waits for ever");
        thread::yield_now();
    }

    fn barrier_all(&self) {
        fence(SeqCst);
    }
}

impl RangePlatform for Breaks {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        self.at(UNMAP);
        Ok(())
    }

    fn flush_all(&self) {
        self.at(FLUSH);
    }

    fn zero(&self, _frames: Run) {}
}

struct BreakingFrames<'p>(&'p Breaks);

impl FrameSource for BreakingFrames<'_> {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(self.0).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        1 << 20
    }

    fn alloc_run(&mut self, frames: u64, _context: Context) -> Result<Run, AllocError> {
        let start = self.0.next.fetch_add(frames, SeqCst);
        Ok(Run::new(Frame(start), frames).unwrap())
    }

    fn free_run(&mut self, _frames: Run) {
        self.0.at(FREE);
    }
}

const PAGES: u64 = 1024;
const START: Page = Page(1 << 20);

fn with_space(cpus: u16, test: impl for<'p> FnOnce(&Space<'_, &'p Breaks>, &'p Breaks)) {
    let config = RangeConfig {
        kept_pages_max: 0,
        ..RangeConfig::for_cpus(cpus).kept()
    };
    with_space_of(cpus, config, test);
}

fn with_space_of(
    cpus: u16,
    config: RangeConfig,
    test: impl for<'p> FnOnce(&Space<'_, &'p Breaks>, &'p Breaks),
) {
    let breaks = Breaks::default();
    let layout = SpaceLayout::new(START, PAGES)
        .with_cpus(cpus)
        .with_span_pages(64);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &breaks).unwrap();
    test(&space, &breaks);
}

type PoisonSeat<'s, 'm, 'p> = RangeSeat<'s, 'm, &'p Breaks, BreakingFrames<'p>>;

/// Every call of a seat says that the space is poisoned.
fn is_refused(seat: &mut PoisonSeat<'_, '_, '_>, live: [Page; 3]) {
    let poisoned = Err(RangeError::Poisoned);
    for pages in [1, 5, 40, 200] {
        let request = AreaRequest::new(pages);
        assert_eq!(seat.vmalloc(&request), poisoned);
        assert_eq!(seat.alloc_area(&request), poisoned);
    }
    for context in [Context::ANY, Context::NOWAIT] {
        assert_eq!(seat.map_ram(&[Frame(7)], context), poisoned);
        assert_eq!(seat.map_ram(&[Frame(7), Frame(3)], context), poisoned);
    }
    let poisoned = Err(RangeFreeError::Poisoned);
    let [area, plain, ram] = live;
    assert_eq!(seat.vfree(area), poisoned);
    assert_eq!(seat.free_area(plain), poisoned);
    assert_eq!(seat.unmap_ram(ram, 1), poisoned);
    // These two return no result, and do not wait.
    seat.purge();
    seat.drain();
}

#[test]
fn v11_a_purge_that_unwinds_poisons_the_space_and_no_cpu_waits_for_its_seat() {
    for call in ALL {
        for stops_all in [false, true] {
            with_space(2, |space, breaks| {
                let [mut one, mut other] =
                    [0, 1].map(|cpu| space.seat(CpuId(cpu), BreakingFrames(breaks)).unwrap());
                let live = [&mut one, &mut other].map(|seat| {
                    let [first, area] = [3, 5].map(|pages| {
                        let area = seat.vmalloc(&AreaRequest::new(pages));
                        area.unwrap()
                    });
                    let plain = seat.alloc_area(&AreaRequest::new(2)).unwrap();
                    let ram = seat.map_ram(&[Frame(1)], Context::ANY).unwrap();
                    seat.vfree(first).unwrap();
                    [area, plain, ram]
                });
                space.verify().unwrap();
                assert!(!space.is_poisoned());
                breaks.which.store(call, SeqCst);
                let unwound = catch_unwind(AssertUnwindSafe(|| match stops_all {
                    false => one.purge(),
                    true => one.drain(),
                }));
                assert!(unwound.is_err(), "{call}");
                assert!(space.is_poisoned());
                for seat in [&mut other, &mut one] {
                    for live in live {
                        is_refused(seat, live);
                    }
                }
                let broken = space.verify().unwrap_err();
                assert_eq!(broken.invariant, "V11: not poisoned");
                _ = space.stats();
                // A CPU that takes the seat anew gets the same error.
                drop(one);
                is_refused(
                    &mut space.seat(CpuId(0), BreakingFrames(breaks)).unwrap(),
                    live[0],
                );
            });
        }
    }
}

#[test]
fn v11_a_strict_free_that_unwinds_poisons_the_space() {
    // On the CPU that has the span, and on another one.
    for frees in [0, 1] {
        for nth in 0..3 {
            with_space_of(2, RangeConfig::for_cpus(2), |space, breaks| {
                let mut seats =
                    [0, 1].map(|cpu| space.seat(CpuId(cpu), BreakingFrames(breaks)).unwrap());
                let of = |seat: &mut PoisonSeat<'_, '_, '_>| {
                    let area = seat.vmalloc(&AreaRequest::new(3)).unwrap();
                    let plain = seat.alloc_area(&AreaRequest::new(2)).unwrap();
                    [
                        area,
                        plain,
                        seat.map_ram(&[Frame(1)], Context::ANY).unwrap(),
                    ]
                };
                let broken = of(&mut seats[0]);
                let live = of(&mut seats[0]);
                breaks.which.store(UNMAP, SeqCst);
                let freer = &mut seats[frees];
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    let freed = match nth {
                        0 => freer.vfree(broken[0]),
                        1 => freer.free_area(broken[1]),
                        _ => freer.unmap_ram(broken[2], 1),
                    };
                    panic!("it has not unwound: {freed:?}");
                }));
                assert_eq!(breaks.which.load(SeqCst), 0, "{:?}", unwound.err());
                assert!(space.is_poisoned());
                for seat in &mut seats {
                    is_refused(seat, live);
                }
            });
        }
    }
}

#[test]
fn v11_a_cpu_that_stops_all_others_or_works_meanwhile_ends_with_an_error() {
    for call in ALL {
        with_space(3, |space, breaks| {
            thread::scope(|scope| {
                for cpu in 1..3 {
                    let mut seat = space.seat(CpuId(cpu), BreakingFrames(breaks)).unwrap();
                    scope.spawn(move || {
                        loop {
                            let area = match seat.vmalloc(&AreaRequest::new(u64::from(cpu))) {
                                Ok(area) => area,
                                Err(error) => break assert_eq!(error, RangeError::Poisoned),
                            };
                            match seat.vfree(area) {
                                Ok(_) => {}
                                Err(error) => break assert_eq!(error, RangeFreeError::Poisoned),
                            }
                            // The other one unwinds; but it may be this one that makes the call.
                            let drained = catch_unwind(AssertUnwindSafe(|| seat.drain()));
                            if drained.is_err() {
                                assert!(space.is_poisoned());
                            }
                        }
                    });
                }
                let mut seat = space.seat(CpuId(0), BreakingFrames(breaks)).unwrap();
                for round in 0..1000 {
                    if round == 100 {
                        breaks.which.store(call, SeqCst);
                    }
                    let worked = catch_unwind(AssertUnwindSafe(|| {
                        if let Ok(area) = seat.vmalloc(&AreaRequest::new(4)) {
                            _ = seat.vfree(area);
                        }
                        seat.purge();
                    }));
                    if worked.is_err() || space.is_poisoned() {
                        break;
                    }
                }
            });
            assert!(space.is_poisoned(), "{call}");
            assert!(space.verify().is_err());
        });
    }
}

#[test]
fn a_cpu_does_without_the_depot_where_another_one_holds_its_lock() {
    // A quarter of 32 pages are two areas of one length.
    let config = RangeConfig {
        kept_pages_max: 32,
        ..RangeConfig::for_cpus(2).kept()
    };
    with_space_of(2, config, |space, breaks| {
        let [mut frees, mut allocates] =
            [0, 1].map(|cpu| space.seat(CpuId(cpu), BreakingFrames(breaks)).unwrap());
        let request = AreaRequest::new(4);
        let areas = [0; 8].map(|_| frees.vmalloc(&request).unwrap());
        let (spilled, later) = areas.split_at(3);
        for &area in spilled {
            frees.vfree(area).unwrap();
        }
        let in_depot = space.depot().pages();
        assert_ne!(in_depot, 0, "the third has moved others there");
        let lock = Lock::new(&space.words.depot.lock).try_lock().unwrap();
        for &area in later {
            frees.vfree(area).unwrap();
        }
        let before = breaks.next.load(SeqCst);
        let built = allocates.vmalloc(&request).unwrap();
        assert_eq!(breaks.next.load(SeqCst), before + 4, "it took frames");
        assert_eq!(space.depot().pages(), in_depot);
        drop(lock);
        let fetched = allocates.vmalloc(&request).unwrap();
        assert_eq!(breaks.next.load(SeqCst), before + 4, "it took none");
        assert!(space.depot().pages() < in_depot && spilled.contains(&fetched));
        for area in [built, fetched] {
            allocates.vfree(area).unwrap();
        }
        space.verify().unwrap();
    });
}
