//! Interrupts between the parts of long calls: what comes there finds a whole space, and leaves one.

extern crate std;

mod deferred;
mod interrupts;
mod parts;
mod unmapped;

use super::*;
use crate::policy::RangeConfig;
use crate::random::Random;
use crate::seats::SeatSet;
use crate::units::{Context, CpuId, Page};
use core::mem;
use interrupts::{WindowFrames, WindowPages, WindowState};
use std::boxed::Box;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

type WindowSpace = Space<'static, WindowPages>;
type WindowSeat = RangeSeat<'static, 'static, WindowPages, WindowFrames>;

/// A space, the seats of its two CPUs, and what its platform and its source have seen.
type SpaceWithWindows = (
    &'static WindowSpace,
    WindowSeat,
    WindowSeat,
    Rc<WindowState>,
);

fn with_windows(config: &RangeConfig, run_max: u64) -> SpaceWithWindows {
    in_spans(256, config, run_max)
}

fn in_spans(span: u32, config: &RangeConfig, run_max: u64) -> SpaceWithWindows {
    let layout = SpaceLayout::new(Page(0), 1 << 14)
        .with_cpus(2)
        .with_span_pages(span);
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let pages = WindowPages::default();
    pages.0.frames_max.set(u64::MAX);
    pages.0.run_max.set(run_max);
    pages.0.next.set(1);
    let space = Space::new(&layout, config, memory, pages.clone()).unwrap();
    let space: &'static WindowSpace = Box::leak(Box::new(space));
    let seat = |cpu| {
        space
            .seat(CpuId(cpu), WindowFrames(pages.0.clone()))
            .unwrap()
    };
    (space, seat(0), seat(1), pages.0)
}

fn configs() -> [RangeConfig; 3] {
    let strict = RangeConfig::for_cpus(2);
    let few = RangeConfig {
        lazy_pages_max: 400,
        kept_pages_max: 300,
        ..strict.kept()
    };
    [strict, strict.kept(), few]
}

const LONG: u64 = 700;

/// Long calls, one after another, some of which may fail. What is live and another CPU's to free stands in `shared`.
fn long_calls(seat: &mut WindowSeat, shared: &RefCell<Vec<Page>>) {
    let request = |pages| AreaRequest::new(pages).zeroed();
    for round in 0..3 {
        let lengths = [60, 100, LONG, 60, 100, 20, LONG, 100];
        let areas: Vec<_> = lengths
            .iter()
            .filter_map(|&pages| seat.vmalloc(&request(pages + round)).ok())
            .collect();
        for (nth, area) in areas.into_iter().enumerate() {
            if nth % 3 == 1 {
                shared.borrow_mut().push(area);
            } else {
                seat.vfree(area).unwrap();
            }
        }
        match round {
            0 => seat.purge(),
            1 => seat.drain(),
            _ => {}
        }
        // More becomes lazy in the spans of which some waits.
        let more: Vec<_> = (0..6)
            .filter_map(|_| seat.vmalloc(&request(9)).ok())
            .collect();
        for area in more {
            seat.vfree(area).unwrap();
        }
    }
    let context = Context::NOWAIT;
    for pages in [90, LONG] {
        if let Ok(area) = seat.vmalloc(&request(pages).within(context)) {
            seat.vfree(area).unwrap();
        }
    }
}

/// What comes in a window: another CPU's calls, of the `kind`th kind.
fn interrupts(
    kind: u64,
    space: &'static WindowSpace,
    other: &mut WindowSeat,
    state: &WindowState,
    shared: &RefCell<Vec<Page>>,
) {
    space.verify().unwrap();
    let frees = |other: &mut WindowSeat| {
        for area in mem::take(&mut *shared.borrow_mut()) {
            other.vfree(area).unwrap();
        }
    };
    match kind {
        0 => other.drain(),
        1 => {
            frees(other);
            other.purge();
        }
        2 => state.maps.set(1 + state.maps.get() % 3),
        3 => state.frames_max.set(state.out.borrow().len() as u64),
        4 => {
            frees(other);
            assert!(other.drain_within(0));
            let areas: Vec<_> = [100, LONG, 30]
                .iter()
                .filter_map(|&pages| other.vmalloc(&AreaRequest::new(pages)).ok())
                .collect();
            for area in areas {
                other.vfree(area).unwrap();
            }
        }
        5 => {
            for area in mem::take(&mut *shared.borrow_mut()) {
                space.vfree_atomic(area).unwrap();
            }
        }
        6 => drop(other.free_deferred()),
        7 => state.fails_to_unmap.set(!state.fails_to_unmap.get()),
        _ => {
            // All address space.
            let mut areas = vec![];
            while let Ok(area) = other.alloc_area(&AreaRequest::new(500)) {
                areas.push(area);
            }
            for area in areas {
                other.free_area(area).unwrap();
            }
        }
    }
    space.verify().unwrap();
}

fn calls_with_interrupts(
    config: &RangeConfig,
    run_max: u64,
    at: impl Fn(u64) -> Option<u64> + 'static,
) -> u64 {
    let (space, mut seat, mut other, state) = with_windows(config, run_max);
    let shared = Rc::new(RefCell::new(vec![]));
    let handler = {
        let (state, shared) = (Rc::downgrade(&state), shared.clone());
        move |window| {
            if let Some(kind) = at(window) {
                interrupts(kind, space, &mut other, &state.upgrade().unwrap(), &shared);
            }
        }
    };
    *state.handler.borrow_mut() = Some(Box::new(handler));
    long_calls(&mut seat, &shared);
    *state.handler.borrow_mut() = None;
    state.maps.set(0);
    state.fails_to_unmap.set(false);
    space.verify().unwrap();
    for area in shared.take() {
        seat.vfree(area).unwrap();
    }
    seat.drain();
    space.verify().unwrap();
    let stats = space.stats();
    assert_eq!(
        (stats.live_pages, stats.kept_pages, stats.vmap_lazy_nr),
        (0, 0, 0)
    );
    assert_eq!(state.out.borrow().len(), 0, "V7: frames are lost");
    assert_eq!(state.reached.borrow().len(), 0, "mapped for ever");
    let all = seat
        .alloc_area(&AreaRequest::new(space.pages() - 1))
        .unwrap();
    seat.free_area(all).unwrap();
    state.windows.get()
}

/// Two tests, so that two CPUs share the work.
fn another_cpu_does_anything_at_each_window(run_max: u64) {
    for config in configs() {
        let windows = calls_with_interrupts(&config, run_max, |_| None);
        assert!(windows > 100);
        for kind in 0..9 {
            for nth in (1..=windows).step_by(53 + kind as usize) {
                calls_with_interrupts(&config, run_max, move |window| {
                    (window == nth).then_some(kind)
                });
            }
        }
        for every in [2, 3, 5] {
            calls_with_interrupts(&config, run_max, move |window| {
                (window % every == 0).then_some(window / every % 9)
            });
        }
    }
}

#[test]
fn another_cpu_may_do_anything_at_each_window_where_frames_come_singly() {
    another_cpu_does_anything_at_each_window(1);
}

#[test]
fn another_cpu_may_do_anything_at_each_window_where_frames_come_in_runs() {
    another_cpu_does_anything_at_each_window(7);
}

#[test]
fn frames_go_back_in_parts() {
    for config in configs() {
        let (space, mut seat, mut other, state) = with_windows(&config, 1);
        let request = AreaRequest::new(LONG);
        let areas: Vec<_> = (0..5).map(|_| seat.vmalloc(&request).unwrap()).collect();
        let small: Vec<_> = (0..20)
            .map(|_| seat.vmalloc(&AreaRequest::new(90)).unwrap())
            .collect();
        state.given_max.set(0);
        let none = |what: &str| {
            state.given.set(0);
            let most = state.given_max.replace(0);
            assert!(most <= 300, "{what}: {most} frames");
        };
        for area in areas {
            seat.vfree(area).unwrap();
        }
        none("frees of long ones");
        seat.purge();
        none("a purge of long ones");
        for area in small {
            seat.vfree(area).unwrap();
        }
        none("frees");
        seat.purge();
        none("a purge");
        if config.strict {
            // Areas that have waited, of the very length that is asked for.
            let areas: Vec<_> = (0..9).map(|_| seat.vmalloc(&request).unwrap()).collect();
            for area in areas {
                seat.vfree(area).unwrap();
            }
            other.purge();
            none("frees");
            let area = seat.vmalloc(&request).unwrap();
            none("a request that takes what has waited");
            seat.vfree(area).unwrap();
            seat.purge();
        }
        let areas: Vec<_> = (0..5).map(|_| seat.vmalloc(&request).unwrap()).collect();
        none("requests");
        for area in areas {
            seat.vfree(area).unwrap();
        }
        seat.drain();
        none("a drain");
        assert_eq!(state.out.borrow().len(), 0);
        space.verify().unwrap();
    }
}

#[test]
fn no_wait_unwinds_out_of_a_free_that_has_happened() {
    let (space, mut seat, _other, state) = with_windows(&RangeConfig::for_cpus(2), 1);
    let areas: Vec<_> = (0..4)
        .map(|_| seat.vmalloc(&AreaRequest::new(LONG)).unwrap())
        .collect();
    seat.vfree(areas[0]).unwrap();
    seat.vfree(areas[1]).unwrap();
    let mut flushed = false;
    *state.handler.borrow_mut() = Some(Box::new(move |_| {
        // Another CPU claims the seat, and keeps it.
        if !mem::replace(&mut flushed, true) {
            mem::forget(space.lock_stops().stop());
        }
    }));
    space.flush(space.seat_words(1));
    let freed = catch_unwind(AssertUnwindSafe(|| seat.vfree(areas[2])));
    assert_eq!(
        state.windows.get(),
        2,
        "after the first part, and before a second"
    );
    assert_eq!(freed.ok(), Some(Ok(LONG)));
}

#[test]
fn v6_a_run_that_is_mapped_by_half_has_room_below_the_bound() {
    let config = RangeConfig {
        lazy_pages_max: 200,
        kept_pages_max: 0,
        ..RangeConfig::default().kept()
    };
    for fails in 1..4 {
        let (space, mut seat, _other, state) = with_windows(&config, u64::MAX);
        let before = seat.vmalloc(&AreaRequest::new(500)).unwrap();
        state.maps.set(fails);
        let request = AreaRequest::new(2000).within(Context::NOWAIT);
        let area = seat.vmalloc(&request);
        assert_eq!(area.is_err(), state.maps.get() == 0, "{area:?}");
        let bound = space.config().lazy_pages_max;
        let lazy = space.stats().vmap_lazy_nr;
        assert!(lazy <= bound, "V6: {lazy} of {bound}");
        state.maps.set(0);
        seat.vfree(before).unwrap();
        if let Ok(area) = area {
            seat.vfree(area).unwrap();
        }
        seat.drain();
        space.verify().unwrap();
    }
}

#[test]
fn a_drain_ends_however_much_others_keep_meanwhile() {
    let (space, mut seat, mut other, state) = with_windows(&RangeConfig::for_cpus(2).kept(), 7);
    let fill = |other: &mut WindowSeat| {
        let areas: Vec<_> = (0..90)
            .map(|_| other.vmalloc(&AreaRequest::new(4)).unwrap())
            .collect();
        for area in areas {
            other.vfree(area).unwrap();
        }
    };
    fill(&mut seat);
    fill(&mut other);
    *state.handler.borrow_mut() = Some(Box::new(move |window| {
        assert!(window < 20_000, "a drain without end");
        fill(&mut other);
    }));
    seat.drain();
    *state.handler.borrow_mut() = None;
    assert_eq!(space.stats().kept_pages, 0);
    assert_eq!(state.out.borrow().len(), 0);
    space.verify().unwrap();
}

#[test]
fn a_drain_keeps_what_it_cannot_unmap_and_the_bound_excludes() {
    let config = RangeConfig {
        lazy_pages_max: 100,
        kept_pages_max: 1000,
        ..RangeConfig::default().kept()
    };
    let (space, mut seat, _other, state) = with_windows(&config, 7);
    let areas: Vec<_> = (0..20)
        .map(|nth| seat.vmalloc(&AreaRequest::new(20 + nth)).unwrap())
        .collect();
    for area in areas {
        seat.vfree(area).unwrap();
    }
    state.fails_to_unmap.set(true);
    seat.drain();
    space.verify().unwrap();
    let stats = space.stats();
    assert!(stats.kept_pages > 0, "{stats:?}");
    assert!(stats.vmap_lazy_nr <= 100, "V6: {stats:?}");
    state.fails_to_unmap.set(false);
    seat.drain();
    assert_eq!(state.out.borrow().len(), 0);
    space.verify().unwrap();
}

/// One call, drawn, of a CPU that frees what either has allocated. It may fail.
fn any_call(random: &mut Random, seat: &mut WindowSeat, live: &RefCell<Vec<Page>>) {
    match random.below(16) {
        0 => seat.purge(),
        1 => seat.drain(),
        2 => assert!(seat.drain_within(0)),
        3..=9 => {
            let pages = match random.below(6) {
                0 => 129 + random.below(LONG),
                1 => 65 + random.below(60),
                _ => 1 + random.below(64),
            };
            let mut request = AreaRequest::new(pages);
            request.zero = random.below(2) == 0;
            if random.below(3) == 0 {
                request = request.within(Context::NOWAIT);
            }
            if let Ok(area) = seat.vmalloc(&request) {
                live.borrow_mut().push(area);
            }
        }
        _ => {
            let count = live.borrow().len() as u64;
            if count != 0 {
                let area = live.borrow_mut().swap_remove(random.below(count) as usize);
                seat.vfree(area).unwrap();
            }
        }
    }
}

#[test]
fn random_calls_of_two_cpus_meet_in_windows() {
    for (seed, config) in (1..).zip(configs().into_iter().cycle().take(9)) {
        let (space, mut seat, mut other, state) = with_windows(&config, 1 + seed % 3 * 4);
        state.frames_max.set(6000);
        let live = Rc::new(RefCell::new(vec![]));
        let (theirs, board) = (live.clone(), Rc::downgrade(&state));
        let mut random = Random::new(seed);
        let mut others = Random::new(seed + 1000);
        *state.handler.borrow_mut() = Some(Box::new(move |_| {
            let draw = others.below(24);
            if draw < 4 {
                (0..=draw).for_each(|_| any_call(&mut others, &mut other, &theirs));
                if draw == 0 {
                    space.verify().unwrap();
                }
            } else if draw == 4 {
                let board = board.upgrade().unwrap();
                board.maps.set(others.below(4) as u32);
                board.fails_to_unmap.set(others.below(4) == 0);
            }
        }));
        for _ in 0..400 {
            any_call(&mut random, &mut seat, &live);
            space.verify().unwrap();
        }
        *state.handler.borrow_mut() = None;
        state.maps.set(0);
        state.fails_to_unmap.set(false);
        for area in live.take() {
            seat.vfree(area).unwrap();
        }
        seat.drain();
        space.verify().unwrap();
        let stats = space.stats();
        let left = (stats.live_pages, stats.kept_pages, stats.vmap_lazy_nr);
        assert_eq!(left, (0, 0, 0));
        assert_eq!(state.out.borrow().len(), 0, "V7: frames are lost");
        assert_eq!(state.reached.borrow().len(), 0, "mapped for ever");
    }
}

#[test]
fn v6_frames_behind_freed_areas_go_back_though_no_request_needs_their_pages() {
    for (is_kept, spans) in [(true, true), (true, false), (false, true), (false, false)] {
        let strict = RangeConfig::for_cpus(2);
        let config = RangeConfig {
            lazy_pages_max: 40,
            kept_pages_max: 0,
            spans,
            ..if is_kept { strict.kept() } else { strict }
        };
        let (space, seat, other, state) = with_windows(&config, 8);
        state.frames_max.set(6000);
        let mut seats = [seat, other];
        let most = 40 + 2 * space.lazy_batch_pages() + 40;
        assert!(most < 4 * 40, "or one span has too few pages to tell");
        // Freed by the CPU that has the span, and by another one.
        for freed_by in [0, 1] {
            for _ in 0..40 {
                let at = seats[0].vmalloc(&AreaRequest::new(4)).unwrap();
                seats[freed_by].vfree(at).unwrap();
                let out = state.out.borrow().len() as u64;
                assert!(out <= most, "{out} frames are out, {most} may be");
            }
        }
        space.verify().unwrap();
        seats.iter_mut().for_each(RangeSeat::purge);
        assert_eq!(state.out.borrow().len(), 0);
    }
}
