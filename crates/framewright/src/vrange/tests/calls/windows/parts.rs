//! Where one part of a long release ends, and the next goes on.

extern crate std;

use super::*;
use core::cell::Cell;

#[test]
fn a_part_goes_on_where_the_one_before_stopped() {
    let config = RangeConfig {
        lazy_frames_max: 4096,
        ..RangeConfig::for_cpus(2)
    };
    let (space, mut seat, mut other, state) = with_windows(&config, 1);
    let area = seat.vmalloc(&AreaRequest::new(2000)).unwrap();
    seat.vfree(area).unwrap();
    let pages = Rc::new(RefCell::new(vec![]));
    let seen = pages.clone();
    *state.handler.borrow_mut() = Some(Box::new(move |_| {
        let given = &space.seat_words(0).given;
        if given.link() == Some(area.0 as u32) {
            seen.borrow_mut().push(given.get() >> 32);
        }
    }));
    seat.purge();
    let pages = pages.take();
    assert!(
        pages.len() > 10 && pages.is_sorted_by(|a, b| a < b),
        "{pages:?}"
    );
    assert_eq!(space.seat_words(0).given.get(), 0);
    // The next area at the same place gives back all of its own.
    *state.handler.borrow_mut() = None;
    let again = other.vmalloc(&AreaRequest::new(2000)).unwrap();
    other.vfree(again).unwrap();
    other.purge();
    assert_eq!((again, state.out.borrow().len()), (area, 0));
}

#[test]
fn a_part_ends_where_the_source_takes_a_while() {
    for config in [RangeConfig::for_cpus(2), RangeConfig::for_cpus(2).kept()] {
        for (is_slow, is_fickle, most) in [(false, false, 32), (true, false, 1), (false, true, 1)] {
            let (_space, mut seat, _other, state) = with_windows(&config, 1);
            state.is_slow.set(is_slow);
            state.is_fickle.set(is_fickle);
            // The next one is 0.
            state.slow_calls.set(u64::MAX);
            for pages in [3, 60, 3, LONG] {
                let area = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
                seat.vfree(area).unwrap();
            }
            seat.purge();
            seat.drain();
            assert_eq!(state.given_max.get(), most);
            assert_eq!(state.out.borrow().len(), 0);
        }
    }
}

#[test]
fn a_free_that_meets_the_bound_unmaps_in_parts() {
    let config = RangeConfig {
        lazy_pages_max: 2000,
        kept_pages_max: 0,
        ..RangeConfig::for_cpus(2).kept()
    };
    // Areas that its CPU freed, and areas that the other CPU freed for it.
    for by_other in [false, true] {
        let (space, mut seat, mut other, state) = with_windows(&config, u64::MAX);
        let long = seat.vmalloc(&AreaRequest::new(1500)).unwrap();
        let areas: Vec<_> = (0..600)
            .map(|_| seat.vmalloc(&AreaRequest::new(2)).unwrap())
            .collect();
        // Each second one, so that each is a call of its own to unmap.
        for area in areas.iter().step_by(2) {
            let freeing = if by_other { &mut other } else { &mut seat };
            freeing.vfree(*area).unwrap();
        }
        let before = space.stats().vmap_lazy_nr;
        state.unmaps.set(0);
        state.unmaps_max.set(0);
        seat.vfree(long).unwrap();
        let most = state.unmaps_max.get();
        assert!(
            before > 500 && most > 0,
            "{before} were lazy, {most} unmapped"
        );
        assert!(most <= 100, "{most} in one part, of {before} lazy pages");
        space.verify().unwrap();
    }
}

#[test]
fn a_request_lets_interrupts_in_where_its_source_takes_a_while() {
    let config = RangeConfig::for_cpus(2);
    for (is_slow, most) in [(false, 16), (true, 1)] {
        let (_space, mut seat, _other, state) = with_windows(&config, 1);
        state.is_slow.set(is_slow);
        for pages in [3, 60, LONG] {
            state.begin_part();
            seat.vmalloc(&AreaRequest::new(pages)).unwrap();
        }
        assert_eq!(state.taken_max.get(), most);
    }
}

#[test]
fn a_request_takes_frames_in_another_part_than_it_gives_some_back() {
    let config = RangeConfig {
        lazy_pages_max: 2000,
        ..RangeConfig::for_cpus(2)
    };
    // Those of spans; then of the arena: of a length that waits, and of others, so many that one request does not give all
    // back.
    let many: Vec<u64> = (130..142).collect();
    for (lengths, grow) in [(&[3, 5, 9][..], 0), (&[LONG], 0), (&many, 1)] {
        let (_space, mut seat, _other, state) = with_windows(&config, 1);
        state.is_slow.set(true);
        let mut given = 0;
        for round in 0..60 {
            let areas: Vec<_> = lengths
                .iter()
                .map(|&pages| {
                    state.begin_part();
                    let before = state.out.borrow().len() as u64;
                    let pages = pages + grow * (round % 2) * 20;
                    let area = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
                    given += before + pages - state.out.borrow().len() as u64;
                    area
                })
                .collect();
            for area in areas {
                seat.vfree(area).unwrap();
            }
            // Their flush has passed before the next request.
            seat.held().purge_lazy();
        }
        assert!(
            given > 100,
            "{given} frames given back by requests of {lengths:?}"
        );
        assert!(!state.is_mixed.get(), "of {lengths:?}");
    }
}

/// The most pages that a part of a drain unmaps, where areas of so many pages lie side by side.
fn most_unmapped(span: u32, areas: u64, pages: impl Fn(u64) -> u64) -> u64 {
    let config = RangeConfig {
        kept_pages_max: 1 << 20,
        ..RangeConfig::for_cpus(2).kept()
    };
    let (space, mut seat, _other, state) = in_spans(span, &config, u64::MAX);
    let areas: Vec<_> = (0..areas)
        .map(|nth| seat.vmalloc(&AreaRequest::new(pages(nth))).unwrap())
        .collect();
    let count = areas.len() as u64;
    for area in areas {
        seat.vfree(area).unwrap();
    }
    let mapped = state.reached.borrow().len();
    assert!(mapped > 4000, "{mapped} pages are kept");
    state.begin_part();
    state.unmapped_max.set(0);
    let before = space.stats().unmap_calls;
    seat.drain();
    assert_eq!(state.reached.borrow().len(), 0);
    let calls = space.stats().unmap_calls - before;
    assert!(calls < count / 2, "{calls} calls for areas side by side");
    space.verify().unwrap();
    state.unmapped_max.get()
}

#[test]
fn what_lies_side_by_side_is_unmapped_in_parts_of_some_thousand_pages() {
    // A part ends with the 64 pages in which it has enough, and the area that goes on there; pages of that span that are
    // free or wait come before them.
    for span in [256, 1024] {
        let most = most_unmapped(span, 1500, |nth| 1 + nth % 7);
        let bound = 1024 + u64::from(span) + 64 + 8;
        assert!((900..bound).contains(&most), "{most} pages, {span}");
    }
    // Longer areas are the arena's.
    let config = RangeConfig {
        lazy_pages_max: 1 << 20,
        ..RangeConfig::for_cpus(2).kept()
    };
    let (space, mut seat, _other, state) = in_spans(64, &config, u64::MAX);
    let areas: Vec<_> = (0..16)
        .map(|_| seat.alloc_area(&AreaRequest::new(399)).unwrap())
        .collect();
    state.fails_to_unmap.set(true);
    for area in areas {
        seat.free_area(area).unwrap();
    }
    state.fails_to_unmap.set(false);
    assert_eq!(space.stats().vmap_lazy_nr, 16 * 400);
    state.begin_part();
    state.unmapped_max.set(0);
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    assert_eq!(state.unmapped_max.get(), 3 * 400, "three reach 1,024");
}

#[test]
fn a_part_that_has_enough_ends_in_the_midst_of_a_span() {
    let config = RangeConfig {
        lazy_pages_max: 1 << 20,
        ..RangeConfig::for_cpus(2).kept()
    };
    let (space, mut seat, _other, state) = in_spans(1024, &config, u64::MAX);
    // Two spans of areas with their guards. Lazy are the second half of one, and the other.
    let areas: Vec<_> = (0..256)
        .map(|_| seat.alloc_area(&AreaRequest::new(7)).unwrap())
        .collect();
    assert!(areas.windows(2).all(|two| two[0].0 + 8 == two[1].0));
    state.fails_to_unmap.set(true);
    for area in &areas[64..] {
        seat.free_area(*area).unwrap();
    }
    state.fails_to_unmap.set(false);
    assert_eq!(space.stats().vmap_lazy_nr, 1536);
    state.begin_part();
    state.unmapped_max.set(0);
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    assert_eq!(
        state.unmapped_max.get(),
        1024,
        "half a span, and half of the next"
    );
    space.verify().unwrap();
}

#[test]
fn a_free_that_meets_the_bound_sees_what_is_freed_in_its_windows() {
    let config = RangeConfig {
        lazy_pages_max: 2000,
        kept_pages_max: 0,
        ..RangeConfig::for_cpus(2).kept()
    };
    let (space, mut seat, mut other, state) = with_windows(&config, u64::MAX);
    let long = seat.vmalloc(&AreaRequest::new(1900)).unwrap();
    let areas: Vec<_> = (0..600)
        .map(|_| seat.vmalloc(&AreaRequest::new(2)).unwrap())
        .collect();
    // Each second one, so that each is a call of its own to unmap. A few are lazy before, the others are freed by another
    // CPU while the first ones are unmapped.
    let mut second = areas.into_iter().step_by(2);
    for area in second.by_ref().take(60) {
        seat.vfree(area).unwrap();
    }
    let mut rest: Vec<_> = second.collect();
    let shared = Rc::new(Cell::new(0));
    let freed = shared.clone();
    *state.handler.borrow_mut() = Some(Box::new(move |_| {
        for area in rest.drain(..) {
            other.vfree(area).unwrap();
            freed.set(freed.get() + 1);
        }
    }));
    state.begin_part();
    state.unmaps_max.set(0);
    seat.vfree(long).unwrap();
    let most = state.unmaps_max.get();
    assert!(shared.get() > 200, "{} freed in windows", shared.get());
    assert!(most <= 50, "{most} in one part");
    space.verify().unwrap();
}
