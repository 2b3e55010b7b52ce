//! Frees that are deferred (V13).

use super::*;
use crate::vrange::{AreaState, RangeFreeError};

fn state_of(space: &WindowSpace, area: Page) -> Option<AreaState> {
    space.find(area).map(|area| area.state)
}

#[test]
fn a_deferred_area_is_freed_once_and_by_any_cpu() {
    for config in configs() {
        let (space, mut seat, mut other, state) = with_windows(&config, 3);
        let request = AreaRequest::new(5);
        let areas: Vec<_> = (0..3).map(|_| seat.vmalloc(&request).unwrap()).collect();
        let [live, out] = [space.stats().live_pages, state.out.borrow().len() as u64];
        for &area in &areas {
            assert_eq!(space.vfree_atomic(area), Ok(5));
            assert_eq!(state_of(space, area), Some(AreaState::Deferred));
            assert!(space.frame_behind(area).is_some(), "it is mapped");
            let free = RangeFreeError::AlreadyFree(area);
            assert_eq!(space.vfree_atomic(area), Err(free));
            assert_eq!(seat.vfree(area), Err(free));
            assert_eq!(other.vfree(area), Err(free));
        }
        let stats = space.stats();
        assert_eq!((stats.live_pages, stats.area_frees), (live, 0));
        assert_eq!(state.out.borrow().len() as u64, out);
        space.verify().unwrap();
        assert_eq!((other.free_deferred(), seat.free_deferred()), (3, 0));
        let stats = space.stats();
        assert_eq!((stats.live_pages, stats.area_frees), (0, 3));
        for &area in &areas {
            assert_ne!(state_of(space, area), Some(AreaState::Deferred));
        }
        space.verify().unwrap();
        seat.drain();
        assert_eq!(state.out.borrow().len(), 0, "V7");
    }
}

#[test]
fn what_cannot_be_deferred_is_an_error_that_changes_nothing() {
    let (space, mut seat, _, _) = with_windows(&RangeConfig::for_cpus(2), 3);
    let plain = seat.alloc_area(&AreaRequest::new(2)).unwrap();
    let area = seat.vmalloc(&AreaRequest::new(2)).unwrap();
    let outside = Page(space.start().0 + space.pages());
    for (page, error) in [
        (outside, RangeFreeError::Outside(outside)),
        (plain, RangeFreeError::WrongKind(plain)),
        (
            Page(area.0 + 1),
            RangeFreeError::NotTheFirst {
                page: Page(area.0 + 1),
                start: area,
            },
        ),
    ] {
        assert_eq!(space.vfree_atomic(page), Err(error));
    }
    seat.vfree(area).unwrap();
    let free = RangeFreeError::AlreadyFree(area);
    assert_eq!(space.vfree_atomic(area), Err(free));
    assert_eq!(seat.free_deferred(), 0);
    seat.free_area(plain).unwrap();
    space.verify().unwrap();
}

/// Defers areas that have all frames there are.
fn all_frames_are_deferred(space: &WindowSpace, seat: &mut WindowSeat, state: &WindowState) {
    let areas: Vec<_> = (0..9)
        .map(|_| seat.vmalloc(&AreaRequest::new(50)).unwrap())
        .collect();
    state.frames_max.set(state.out.borrow().len() as u64);
    for area in areas {
        space.vfree_atomic(area).unwrap();
    }
}

/// V8: a request has what deferred areas have, address space and frames, before it fails.
#[test]
fn a_request_that_may_wait_has_what_is_deferred() {
    for config in configs() {
        let (space, mut seat, mut other, state) = with_windows(&config, 7);
        let all = || {
            let mut areas = vec![];
            while let Ok(area) = seat.vmalloc(&AreaRequest::new(300)) {
                areas.push(area);
            }
            areas
        };
        let areas = { all }();
        for area in areas {
            space.vfree_atomic(area).unwrap();
        }
        let whole = AreaRequest::new(space.pages() - 1);
        let now = other.alloc_area(&whole.within(Context::NOWAIT));
        assert!(now.is_err(), "a caller that may not wait frees nothing");
        let area = other.alloc_area(&whole).unwrap();
        other.free_area(area).unwrap();

        // A caller with a bound on its waiting has them freed by the stop.
        let area = seat.vmalloc(&AreaRequest::new(300)).unwrap();
        space.vfree_atomic(area).unwrap();
        assert!(other.drain_within(0));
        let area = other
            .alloc_area(&whole.within(Context::NOWAIT))
            .expect("the stop freed what was deferred");
        other.free_area(area).unwrap();
        other.drain();

        all_frames_are_deferred(space, &mut seat, &state);
        let area = seat.vmalloc(&AreaRequest::new(400)).unwrap();
        seat.vfree(area).unwrap();
        seat.drain();
        space.verify().unwrap();
        assert_eq!(state.out.borrow().len(), 0, "V7");
    }
}

/// Wherever a handler unwinds, what is not free yet stays deferred, and is freed once.
#[test]
fn what_a_free_that_unwinds_leaves_stays_deferred() {
    for config in configs() {
        for nth in 1.. {
            let (space, mut seat, _, state) = with_windows(&config, 1);
            let areas: Vec<_> = (0..6)
                .map(|nth| seat.vmalloc(&AreaRequest::new(20 + 60 * nth)).unwrap())
                .collect();
            for &area in &areas {
                space.vfree_atomic(area).unwrap();
            }
            let count = Rc::new(std::cell::Cell::new(0));
            let windows = count.clone();
            *state.handler.borrow_mut() = Some(Box::new(move |_| {
                windows.set(windows.get() + 1);
                assert_ne!(windows.get(), nth, "the window unwinds");
            }));
            let freed = catch_unwind(AssertUnwindSafe(|| seat.free_deferred()));
            *state.handler.borrow_mut() = None;
            let is_deferred = |area: &&Page| state_of(space, **area) == Some(AreaState::Deferred);
            let left = areas.iter().filter(is_deferred).count() as u64;
            space.verify().unwrap();
            assert_eq!(space.stats().area_frees, 6 - left);
            assert_eq!(seat.free_deferred(), left, "window {nth}");
            seat.drain();
            space.verify().unwrap();
            assert_eq!(space.stats().area_frees, 6);
            assert_eq!(state.out.borrow().len(), 0, "V7");
            if freed.is_ok() {
                assert!(nth > 6, "a window behind each area");
                break;
            }
        }
    }
}

/// Takes what is deferred into a seat, as `free_deferred` begins.
fn gather(seat: &WindowSeat) {
    seat.enter().unwrap();
    seat.held().begin_to_gather();
    seat.exit();
}

/// What lies with another CPU that is about to free it serves a request all the same, also where a stop of all CPUs brought
/// nothing just before.
#[test]
fn v8_what_another_cpu_has_taken_off_the_list_serves_a_request() {
    for config in configs() {
        let (space, mut seat, mut other, state) = with_windows(&config, 7);
        let whole = AreaRequest::new(space.pages() - 1);
        let mut areas = vec![];
        for pages in [1000, 100, 9, 1] {
            while let Ok(area) = seat.vmalloc(&AreaRequest::new(pages)) {
                areas.push(area);
            }
        }
        assert!(other.alloc_area(&whole).is_err(), "there are live areas");
        for area in areas {
            space.vfree_atomic(area).unwrap();
        }
        gather(&seat);
        let area = other.alloc_area(&whole).expect("V8: all is deferred");
        other.free_area(area).unwrap();

        // A bounded caller's stop finds them, too.
        let areas: Vec<_> = (0..3)
            .map(|_| seat.vmalloc(&AreaRequest::new(300)).unwrap())
            .collect();
        for area in areas {
            space.vfree_atomic(area).unwrap();
        }
        gather(&seat);
        assert!(other.drain_within(0));
        let area = other.alloc_area(&whole.within(Context::NOWAIT)).unwrap();
        other.free_area(area).unwrap();
        other.drain();

        // And their frames are another request's.
        all_frames_are_deferred(space, &mut seat, &state);
        gather(&seat);
        let area = other.vmalloc(&AreaRequest::new(400)).unwrap();
        other.vfree(area).unwrap();
        assert_eq!(seat.free_deferred(), 0, "a stop freed them");
        other.drain();
        space.verify().unwrap();
        assert_eq!(state.out.borrow().len(), 0, "V7");
    }
}

/// A request that fails watches whether anything moves meanwhile, and stops all CPUs if something did.
#[test]
fn a_drain_of_nothing_is_no_move() {
    for config in configs() {
        let (space, mut seat, _, _) = with_windows(&config, 7);
        let area = seat.vmalloc(&AreaRequest::new(9)).unwrap();
        seat.vfree(area).unwrap();
        seat.drain();
        let moves = space.moves();
        seat.drain();
        assert!(space.moves() == moves);
    }
}

/// Where nothing can be unmapped, a stop leaves what exceeds the bound deferred, and in the list of all CPUs.
#[test]
fn what_a_stop_cannot_free_is_there_for_every_cpu() {
    for config in configs() {
        let (space, mut seat, mut other, state) = with_windows(&config, 7);
        let pages = space.pages() / 10;
        let areas: Vec<_> = (0..9)
            .map(|_| seat.vmalloc(&AreaRequest::new(pages)).unwrap())
            .collect();
        for &area in &areas {
            space.vfree_atomic(area).unwrap();
        }
        gather(&seat);
        state.fails_to_unmap.set(true);
        assert!(other.drain_within(0));
        let is_deferred = |area: &&Page| state_of(space, **area) == Some(AreaState::Deferred);
        let left = areas.iter().filter(is_deferred).count() as u64;
        assert!(left > 0, "there is room for all");
        state.fails_to_unmap.set(false);
        assert_eq!(other.free_deferred(), left);
        seat.drain();
        space.verify().unwrap();
        assert_eq!(state.out.borrow().len(), 0, "V7");
    }
}
