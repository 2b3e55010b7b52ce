//! The check of the counts of lazy pages while calls are out of their seats (V6).

extern crate std;

use super::*;
use crate::frame::{AllocError, FrameSource};
use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::policy::RangeConfig;
use crate::seats::SeatSet;
use crate::stats::Broken;
use crate::sync::{Lock, Ordering::Relaxed};
use crate::units::{Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
use core::mem;
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

type PassingSpace = Space<'static, ChecksSpace>;

/// A platform that has the space checked where it is called outside of a seat.
#[derive(Clone, Debug, Default)]
struct ChecksSpace(Rc<SpaceChecks>);

#[derive(Debug, Default)]
struct SpaceChecks {
    space: Cell<Option<&'static PassingSpace>>,
    is_checking: Cell<bool>,
    /// How often the space was checked, and what did not hold.
    checks: Cell<u32>,
    broken: RefCell<Vec<Broken>>,
    /// The nth call of `map` from now on fails.
    maps: Cell<u32>,
    /// At the next wake another CPU takes the stop lock, and keeps it.
    is_rushed: Cell<bool>,
    /// At the nth reading of the clock from now on another CPU claims the first seat, until a wait for it unwinds.
    readings: Cell<u32>,
    is_claimed: Cell<bool>,
    /// At each reading of the clock: the pages of the arena, and how many spans and blocks have been counted as taken.
    taken: RefCell<Vec<(u32, u64)>>,
}

impl ChecksSpace {
    fn ask(&self) {
        let Some(space) = self.0.space.get() else {
            return;
        };
        // Claims end one by one under the stop lock. And the check wakes, too.
        let is_stopping = Lock::new(space.stop_words().lock).is_locked();
        if !is_stopping && !self.0.is_checking.replace(true) {
            self.0.checks.set(self.0.checks.get() + 1);
            self.0.broken.borrow_mut().extend(space.verify().err());
            if self.0.is_rushed.take() {
                mem::forget(space.lock_stops());
            }
            self.0.is_checking.set(false);
        }
    }

    fn is_checked_and_right(&self) {
        assert!(self.0.checks.take() > 0, "it was not asked");
        assert_eq!(self.0.broken.take(), []);
    }
}

impl FramePlatform for ChecksSpace {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        if self.0.is_claimed.take()
            && let Some(space) = self.0.space.get()
        {
            space.seat_words(0).turn().give_up();
            space.stop_words().lock.store(0, Relaxed);
        }
        panic!("the wait unwinds");
    }

    fn wake(&self) {
        self.ask();
    }

    fn now_ns(&self) -> u64 {
        let Some(space) = self.0.space.get() else {
            return 0;
        };
        let counters = space.all_seats().map(|seat| &seat.counters);
        let taken = counters.map(|of| of.span_takes.read() + of.block_takes.read());
        let taken = (space.arena.free_pages(), taken.sum());
        self.0.taken.borrow_mut().push(taken);
        let left = self.0.readings.get();
        self.0.readings.set(left.saturating_sub(1));
        if left == 1 {
            mem::forget(space.lock_stops());
            space.seat_words(0).turn().claim();
            self.0.is_claimed.set(true);
        }
        0
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for ChecksSpace {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.ask();
        let left = self.0.maps.get();
        self.0.maps.set(left.saturating_sub(1));
        match left {
            1 => Err(MapError::Refused(7)),
            _ => Ok(()),
        }
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

/// Frames none of which are neighbours.
struct ScatteredFrames(u64);

impl FrameSource for ScatteredFrames {
    fn origin(&self) -> u64 {
        1
    }

    fn frames_in_all(&self) -> u64 {
        1 << 20
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        self.0 += 2;
        Ok(Run::new(Frame(self.0), 1).unwrap())
    }

    fn free_run(&mut self, _frames: Run) {}
}

type PassingSeat = RangeSeat<'static, 'static, ChecksSpace, ScatteredFrames>;

const BOUND: u64 = 200;

fn passing() -> (&'static PassingSpace, Vec<PassingSeat>, ChecksSpace) {
    passing_with_kept(0)
}

fn passing_with_kept(
    kept_pages_max: u64,
) -> (&'static PassingSpace, Vec<PassingSeat>, ChecksSpace) {
    let layout = SpaceLayout::new(Page(0), 1 << 14)
        .with_cpus(2)
        .with_span_pages(64);
    let config = RangeConfig {
        lazy_pages_max: BOUND,
        kept_pages_max,
        ..RangeConfig::default().kept()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let board = ChecksSpace::default();
    let space = Space::new(&layout, &config, memory, board.clone()).unwrap();
    let space: &'static PassingSpace = Box::leak(Box::new(space.with_lock_accounts()));
    let seat = |cpu| space.seat(CpuId(cpu), ScatteredFrames(0)).unwrap();
    let seats = vec![seat(0), seat(1)];
    board.0.space.set(Some(space));
    (space, seats, board)
}

#[test]
fn v6_the_counts_are_right_while_a_caller_that_may_not_wait_maps_run_by_run() {
    let (space, mut seats, board) = passing();
    let frames = [Frame(1), Frame(7), Frame(9)];
    for failing in [0, 1, 2, 3] {
        for context in [Context::NOWAIT, Context::ANY] {
            board.0.maps.set(failing);
            let mapped = seats[0].map_ram(&frames, context);
            board.is_checked_and_right();
            assert_eq!(mapped.is_err(), failing != 0);
            board.0.maps.set(failing);
            let area = seats[0].vmalloc(&AreaRequest::new(3).within(context));
            board.is_checked_and_right();
            assert_eq!(area.is_err(), failing != 0);
            space.verify().unwrap();
            if let (Ok(mapped), Ok(area)) = (mapped, area) {
                seats[1].unmap_ram(mapped, 3).unwrap();
                seats[1].vfree(area).unwrap();
            }
        }
    }
}

#[test]
fn v6_the_counts_are_right_while_a_free_makes_room_elsewhere() {
    let (space, mut seats, board) = passing();
    for pages in [BOUND - 1, BOUND, 3 * BOUND, 5000] {
        for nth in 0..BOUND {
            let at = seats[1].alloc_area(&AreaRequest::new(2)).unwrap();
            seats[nth as usize % 2].free_area(at).unwrap();
        }
        let at = seats[0].alloc_area(&AreaRequest::new(pages)).unwrap();
        board.0.checks.set(0);
        seats[0].free_area(at).unwrap();
        if pages > BOUND {
            board.is_checked_and_right();
        }
        space.verify().unwrap();
        let most = BOUND + 2 * space.lazy_batch_pages();
        assert!(space.stats().lazy_pages_peak <= most, "{pages}");
    }
    assert_eq!(board.0.broken.take(), []);
}

#[test]
fn v6_a_free_whose_wait_unwinds_leaves_no_pages_counted_that_are_not_lazy() {
    let (space, mut seats, board) = passing();
    let at = seats[0].alloc_area(&AreaRequest::new(5000)).unwrap();
    let lock = space.lock_stops();
    let freed = catch_unwind(AssertUnwindSafe(|| seats[0].free_area(at)));
    assert!(freed.is_err(), "the lock is held");
    assert!(
        space
            .find(at)
            .is_some_and(|area| area.state == AreaState::Live)
    );
    assert_eq!(space.told_lazy(), 0, "nothing is lazy");
    drop(lock);
    board.is_checked_and_right();
    seats[0].free_area(at).unwrap();
    space.verify().unwrap();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
}

#[test]
fn v6_pages_above_the_bound_that_another_cpu_has_go_later() {
    let (space, mut seats, board) = passing();
    let at = seats[0].alloc_area(&AreaRequest::new(30)).unwrap();
    // The CPU that has the span is out of its seat, and has promised as many pages as may be lazy.
    space.add_lazy(BOUND);
    space.seat_words(0).promised.set(BOUND);
    // Between the purge for room and the one of the area itself another CPU takes the lock.
    board.0.is_rushed.set(true);
    assert_eq!(seats[1].free_area(at), Ok(30), "it waits for no lock");
    space.stop_words().lock.store(0, Relaxed);
    assert_eq!(space.stats().vmap_lazy_nr, BOUND + 31);
    assert_eq!(space.verify(), Ok(()));
    assert!(seats[1].free_area(at).is_err(), "it is free");
    seats[0].purge();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    seats[1].purge();
    space.verify().unwrap();
    board.is_checked_and_right();
}

/// A free of this CPU's own area purges it without the lock that another CPU holds.
#[test]
fn v6_an_area_above_the_bound_that_is_the_cpus_own_waits_for_no_other() {
    let (space, mut seats, board) = passing();
    let at = seats[0].alloc_area(&AreaRequest::new(5000)).unwrap();
    board.0.is_rushed.set(true);
    seats[0].free_area(at).unwrap();
    space.stop_words().lock.store(0, Relaxed);
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    assert!(space.stats().lazy_pages_peak <= BOUND);
    space.verify().unwrap();
    board.is_checked_and_right();
}

#[test]
fn an_area_that_would_only_take_the_place_of_one_like_it_goes_itself() {
    let (space, mut seats, board) = passing_with_kept(60);
    let mut area = |pages| seats[0].vmalloc(&AreaRequest::new(pages)).unwrap();
    let [long, other] = [[30; 4], [29; 4]].map(|all| all.map(&mut area));
    for at in long {
        assert_eq!(seats[0].vfree(at), Ok(30));
    }
    let state = |at| space.find(at).map(|area| area.state);
    let [kept @ .., last] = long.map(state);
    assert_eq!(kept, [Some(AreaState::Kept); 3]);
    assert_eq!(last, Some(AreaState::Lazy), "it is one of many");
    for at in other {
        assert_eq!(seats[0].vfree(at), Ok(29));
    }
    let lazy = |all: [Page; 4]| all.map(|at| state(at) == Some(AreaState::Lazy));
    assert!(
        lazy(long)[..3].contains(&true),
        "another length has its turn"
    );
    assert!(lazy(other).contains(&false));
    seats[0].purge_kept().unwrap();
    space.verify().unwrap();
    board.is_checked_and_right();
}

/// What takes up an eviction whose wait unwound: the next free that needs room in the lists, or a request under pressure.
#[test]
fn v7_a_kept_area_whose_eviction_unwinds_goes_later() {
    let by_a_free = |seat: &mut PassingSeat, at| _ = seat.vfree(at).unwrap();
    let by_pressure = |seat: &mut PassingSeat, _| seat.purge_kept().unwrap();
    for take_up in [by_a_free as fn(&mut PassingSeat, Page), by_pressure] {
        let (space, mut seats, board) = passing_with_kept(60);
        // The first three fill the lists. The free of another length evicts one of them.
        let pages = |nth| if nth < 3 { 30 } else { 29 };
        let mut area = |nth| seats[0].vmalloc(&AreaRequest::new(pages(nth))).unwrap();
        let areas: [Page; 8] = core::array::from_fn(&mut area);
        // Another CPU has promised as many pages as may be lazy, and a third one has the lock.
        space.add_lazy(BOUND);
        space.seat_words(1).promised.set(BOUND);
        let lock = space.lock_stops();
        let mut freed = 0;
        while catch_unwind(AssertUnwindSafe(|| seats[0].vfree(areas[freed]))).is_ok() {
            freed += 1;
        }
        drop(lock);
        space.seat_words(1).promised.set(0);
        space.sub_lazy(BOUND);
        space.verify().unwrap();
        let state = |at| space.find(at).map(|area| area.state);
        assert_eq!(state(areas[freed]), Some(AreaState::Live), "not freed");
        assert_eq!(state(areas[0]), Some(AreaState::Kept));
        assert!(space.seat_words(0).evicting.link().is_some());
        take_up(&mut seats[0], areas[freed]);
        assert!(space.seat_words(0).evicting.link().is_none());
        for &at in &areas[freed..] {
            // One of them is free by now, or none.
            let _ = seats[0].vfree(at);
        }
        seats[0].purge_kept().unwrap();
        space.verify().unwrap();
        assert_eq!(areas.map(state), [None; 8], "all are gone");
        board.is_checked_and_right();
    }
}

/// Wherever in the call another CPU claims the seat: while the request has the area, and after it has given it back.
#[test]
fn v7_an_area_that_a_request_has_given_back_is_not_freed_once_more_if_a_wait_unwinds() {
    let (space, mut seats, board) = passing();
    // There is no room for the pages that a mapping in parts may leave.
    space.add_lazy(BOUND);
    space.seat_words(1).promised.set(BOUND);
    let request = AreaRequest::new(40).within(Context::NOWAIT);
    let (mut lost, mut given_back) = (0, 0);
    for nth in 1.. {
        board.0.readings.set(nth);
        let made = catch_unwind(AssertUnwindSafe(|| seats[0].vmalloc(&request)));
        board.0.readings.set(0);
        assert!(!board.0.is_claimed.get(), "the request waits for the seat");
        if let Ok(made) = made {
            assert_eq!(made, Err(RangeError::WouldWait));
            break;
        }
        match space.told_lazy() > BOUND {
            true => lost += 1,
            false => given_back += 1,
        }
        space.verify().unwrap();
        seats[0].purge();
        assert_eq!(space.told_lazy(), BOUND);
    }
    assert!(lost > 0 && given_back > 0, "{lost}, {given_back}");
    space.seat_words(1).promised.set(0);
    space.sub_lazy(BOUND);
    space.verify().unwrap();
    assert_eq!(space.stats().failures, 1);
}

/// The clock is read under the lock of the arena, before its holder gives it up.
#[test]
fn v8_a_span_or_block_is_counted_before_another_cpu_can_miss_it_in_the_arena() {
    let (space, mut seats, board) = passing();
    let all = space.arena.free_pages();
    seats[0].alloc_area(&AreaRequest::new(3)).unwrap();
    seats[1].map_ram(&[Frame(1)], Context::ANY).unwrap();
    let taken = board.0.taken.take();
    assert!(matches!(taken[..], [.., (_, 2)]));
    for (pages, taken) in taken {
        assert_eq!(u64::from(all - pages), 64 * taken);
    }
    space.verify().unwrap();
}
