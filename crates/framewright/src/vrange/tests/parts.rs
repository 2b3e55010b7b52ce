//! Where one part of a long release ends, and the next goes on.

extern crate std;

use super::*;

#[test]
fn a_part_goes_on_where_the_one_before_stopped() {
    let (space, mut seat, mut other, state) = with_windows(&RangeConfig::for_cpus(2), 1);
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
        for (is_slow, is_fickle, most) in [(false, false, 64), (true, false, 1), (false, true, 1)] {
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
