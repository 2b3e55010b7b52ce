//! What a strict space keeps: areas with their frames, unmapped and flushed.

extern crate std;

use super::*;
use crate::units::Frame;

fn strict(kept_pages_max: u64) -> RangeConfig {
    RangeConfig {
        lazy_frames_max: 64,
        kept_pages_max,
        ..RangeConfig::for_cpus(2)
    }
}

fn make(seat: &mut WindowSeat, pages: u64, count: usize) -> Vec<Page> {
    (0..count)
        .map(|_| seat.vmalloc(&AreaRequest::new(pages)).unwrap())
        .collect()
}

fn free_all(seat: &mut WindowSeat, areas: Vec<Page>) {
    for area in areas {
        seat.vfree(area).unwrap();
    }
}

/// Frees areas until what was freed before has been flushed, and keeps what it can of that.
fn let_wait(seat: &mut WindowSeat) {
    for _ in 0..12 {
        let areas = make(seat, 9, 1);
        free_all(seat, areas);
    }
}

#[test]
fn v12_a_request_of_its_length_gets_a_kept_area_with_its_frames_and_maps_them() {
    let (space, mut seat, _other, state) = with_windows(&strict(400), 1);
    let areas = make(&mut seat, 5, 20);
    let mut frames: Vec<_> = areas
        .iter()
        .map(|&area| space.frame_behind(area).unwrap())
        .collect();
    free_all(&mut seat, areas.clone());
    assert_eq!(state.reached.borrow().len(), 0, "V12: unmapped at once");
    let_wait(&mut seat);
    let one = seat.vmalloc(&AreaRequest::new(5)).unwrap();
    assert!(areas.contains(&one), "{one} is none of those freed");
    let kept = space.stats().kept_pages;
    assert!(kept > 50, "{kept} pages are kept");
    let of_kept = state.reached.borrow().len();
    assert_eq!(of_kept, 5, "V12: no kept area is mapped");
    for &area in &areas {
        let found = space.find(area).unwrap();
        if found.state == AreaState::Kept {
            assert_eq!(space.frame_behind(area), None, "it has no mapping");
            assert!(matches!(
                seat.vfree(area),
                Err(RangeFreeError::AlreadyFree(_))
            ));
        }
    }
    space.verify().unwrap();
    let is_kept = |area: &&Page| space.find(**area).unwrap().state == AreaState::Kept;
    let kept = areas.iter().filter(is_kept).count();
    let (out, takes) = (state.out.borrow().len(), space.stats().kept_takes);
    let again = make(&mut seat, 5, kept);
    assert_eq!(state.out.borrow().len(), out, "no frame was taken");
    assert!(space.stats().kept_takes >= takes + again.len() as u64);
    for &area in &again {
        let frame = space.frame_behind(area).unwrap();
        assert_eq!(state.reached.borrow().get(area.0), Some(frame));
        frames.retain(|&behind| behind != frame);
    }
    assert!(frames.len() < 10, "the frames are those of before");
    space.verify().unwrap();
}

#[test]
fn v12_what_is_kept_goes_before_a_request_fails_and_in_a_drain() {
    for by_drain in [false, true] {
        let (space, mut seat, mut other, state) = with_windows(&strict(400), 1);
        let areas = make(&mut seat, 5, 40);
        free_all(&mut seat, areas);
        let_wait(&mut seat);
        let one = make(&mut seat, 5, 1);
        assert!(space.stats().kept_pages > 50);
        if by_drain {
            other.drain();
            assert_eq!(state.out.borrow().len(), 5, "only the live area has frames");
        } else {
            state.frames_max.set(200);
            let long = make(&mut seat, 190, 1);
            free_all(&mut seat, long);
        }
        assert_eq!(space.stats().kept_pages, 0);
        space.verify().unwrap();
        free_all(&mut seat, one);
        seat.drain();
        assert_eq!(state.out.borrow().len(), 0, "V7");
        space.verify().unwrap();
    }
}

#[test]
fn a_kept_area_that_cannot_be_mapped_gives_its_frames_back() {
    for (context, failing) in [(Context::ANY, 1), (Context::ANY, 3), (Context::NOWAIT, 3)] {
        let (space, mut seat, _other, state) = with_windows(&strict(400), 1);
        let areas = make(&mut seat, 5, 20);
        free_all(&mut seat, areas);
        let_wait(&mut seat);
        let one = make(&mut seat, 5, 1);
        let before = space.stats();
        assert!(before.kept_pages > 20);
        state.maps.set(failing);
        let area = seat.vmalloc(&AreaRequest::new(5).within(context)).unwrap();
        let after = space.stats();
        assert_eq!(
            after.kept_takes - before.kept_takes,
            1,
            "the next one served"
        );
        assert_eq!(after.failures, before.failures);
        assert_eq!(
            after.area_allocs - before.area_allocs,
            1 + u64::from(failing > 1)
        );
        space.verify().unwrap();
        free_all(&mut seat, one);
        seat.vfree(area).unwrap();
        seat.drain();
        assert_eq!(
            (state.out.borrow().len(), state.reached.borrow().len()),
            (0, 0)
        );
        space.verify().unwrap();
    }
}

#[test]
fn v7_an_area_of_which_a_part_has_gone_is_not_kept() {
    let (space, mut seat, mut other, state) = with_windows(&strict(128), 1);
    // Its lists have room for one of them, so the other one begins to go.
    state.is_slow.set(true);
    let areas = make(&mut seat, 90, 2);
    free_all(&mut seat, areas);
    let seen = Rc::new(RefCell::new(0));
    let counts = seen.clone();
    *state.handler.borrow_mut() = Some(Box::new(move |_| {
        // Another CPU makes room in the lists.
        other.drain();
        *counts.borrow_mut() += 1;
        space.verify().unwrap();
    }));
    let more = make(&mut seat, 90, 2);
    *state.handler.borrow_mut() = None;
    assert!(*seen.borrow() > 0);
    for &area in &more {
        for nth in 0..90 {
            let page = Page(area.0 + nth);
            assert!(
                space.frame_behind(page).is_some(),
                "V7: {page} has no frame"
            );
        }
    }
    space.verify().unwrap();
}

#[test]
fn full_lists_make_room_for_another_length() {
    let (space, mut seat, _other, state) = with_windows(&strict(60), 1);
    for pages in [3, 7] {
        let areas = make(&mut seat, pages, 40);
        free_all(&mut seat, areas);
        let_wait(&mut seat);
        let before = space.stats().kept_takes;
        for _ in 0..60 {
            let areas = make(&mut seat, pages, 1);
            free_all(&mut seat, areas);
        }
        let takes = space.stats().kept_takes - before;
        assert!(takes > 40, "{takes} of 60 requests of {pages} pages");
        assert!(space.stats().kept_pages <= 60);
        space.verify().unwrap();
    }
    seat.drain();
    assert_eq!(state.out.borrow().len(), 0);
}

#[test]
fn v6_areas_with_frames_are_flushed_from_a_bound_of_their_own_on() {
    let config = RangeConfig {
        lazy_pages_max: 1600,
        ..strict(0)
    };
    let (space, mut seat, mut other, _state) = with_windows(&config, 7);
    // Those without frames only count for the other bound.
    let plain: Vec<_> = (0..60)
        .map(|_| other.alloc_area(&AreaRequest::new(9)).unwrap())
        .collect();
    for area in plain {
        other.free_area(area).unwrap();
    }
    let before = space.stats();
    assert_eq!((before.tlb_flushes, before.vmap_lazy_nr), (0, 600));
    for _ in 0..100 {
        let areas = make(&mut seat, 5, 1);
        free_all(&mut seat, areas);
        // 64 pages and a batch of each CPU.
        let lazy = space.stats().vmap_lazy_nr - 600;
        assert!(lazy <= 64 + 2 * 8 + 6, "{lazy} pages with frames are lazy");
    }
    let after = space.stats();
    assert!(after.tlb_flushes > 5, "{} flushes", after.tlb_flushes);
    assert_eq!(after.claims, 0, "no CPU purges another one's pages for it");
    space.verify().unwrap();
}

#[test]
fn a_kept_area_of_single_frames_is_zeroed_in_parts() {
    let (space, mut seat, _other, state) = with_windows(&strict(400).kept(), 1);
    let areas = make(&mut seat, 100, 1);
    free_all(&mut seat, areas);
    *state.handler.borrow_mut() = Some(Box::new(|_| {}));
    let before = state.windows.get();
    seat.vmalloc(&AreaRequest::new(100).zeroed()).unwrap();
    let windows = state.windows.get() - before;
    *state.handler.borrow_mut() = None;
    assert_eq!(space.stats().kept_takes, 1);
    assert!(windows >= 5, "{windows} windows in 100 pages");
}

#[test]
fn before_a_request_fails_what_is_kept_and_lazy_goes_in_parts() {
    for config in [strict(2000), strict(2000).kept()] {
        for by_ram in [false, true] {
            let (space, mut seat, _other, state) = with_windows(&config, 1);
            let areas = make(&mut seat, 5, 390);
            free_all(&mut seat, areas);
            for _ in 0..200 {
                let areas = make(&mut seat, 7, 3);
                free_all(&mut seat, areas);
            }
            // A request that must not wait would give up what is kept, too, before it failed.
            while space.lock_arena().guard.longest() > 500 {
                let long = AreaRequest::new(500);
                seat.alloc_area(&long.within(Context::NOWAIT)).unwrap();
            }
            let kept = space.stats().kept_pages;
            assert!(kept > 1000, "{kept} pages are kept");
            state.begin_part();
            state.given_max.set(0);
            if by_ram {
                state.out.borrow_mut().extend(1 << 20..(1 << 20) + 800);
                let frames: Vec<_> = (0..800).map(|nth| Frame((1 << 20) + nth)).collect();
                seat.map_ram(&frames, Context::ANY).unwrap();
            } else {
                seat.alloc_area(&AreaRequest::new(800)).unwrap();
            }
            assert_eq!(space.stats().kept_pages, 0);
            let most = state.given_max.get();
            assert!(most <= 300, "{most} frames in one part");
            space.verify().unwrap();
        }
    }
}

#[test]
fn areas_are_kept_in_parts() {
    let config = RangeConfig {
        lazy_frames_max: 1000,
        ..strict(2000)
    };
    let (space, mut one, _other, state) = with_windows(&config, 1);
    let areas = make(&mut one, 1, 120);
    free_all(&mut one, areas);
    one.held().purge_lazy();
    let most = Rc::new(RefCell::new((0, 0)));
    let seen = most.clone();
    *state.handler.borrow_mut() = Some(Box::new(move |_| {
        let (before, most) = *seen.borrow();
        let kept = space.stats().kept_pages;
        *seen.borrow_mut() = (kept, most.max(kept.saturating_sub(before)));
    }));
    let areas = make(&mut one, 2, 40);
    *state.handler.borrow_mut() = None;
    let (kept, most) = *most.borrow();
    assert!(
        kept > 100 && most <= 32,
        "{kept} are kept, {most} in one part"
    );
    free_all(&mut one, areas);
    space.verify().unwrap();
}

#[test]
fn an_area_that_is_longer_than_all_that_may_be_kept_takes_none_out_of_the_lists() {
    let (space, mut seat, _other, state) = with_windows(&strict(60), 1);
    let areas = make(&mut seat, 3, 20);
    free_all(&mut seat, areas);
    let_wait(&mut seat);
    let before = space.stats();
    assert!(before.kept_pages > 30, "{} kept", before.kept_pages);
    for _ in 0..20 {
        let areas = make(&mut seat, 90, 1);
        free_all(&mut seat, areas);
    }
    let after = space.stats();
    assert!(after.kept_pages > 30, "{} are left", after.kept_pages);
    space.verify().unwrap();
    seat.drain();
    assert_eq!(state.out.borrow().len(), 0);
}

#[test]
fn the_longest_areas_that_are_kept_have_128_pages() {
    let (space, mut seat, _other, state) = with_windows(&strict(1000), 7);
    for (pages, keeps) in [(128, true), (129, false)] {
        // Half a span has 128 pages, one of them the guard page of the longest: so these lie in spans of their own.
        let layout = SpaceLayout::new(Page(0), 1 << 14).with_cpus(2);
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let long = Space::new(&layout, space.config(), memory, space.platform().clone()).unwrap();
        let mut seat = long.seat(CpuId(0), WindowFrames(state.clone())).unwrap();
        for _ in 0..8 {
            let area = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
            seat.vfree(area).unwrap();
        }
        assert_eq!(long.stats().kept_takes > 0, keeps, "{pages} pages");
        long.verify().unwrap();
        seat.drain();
    }
    seat.purge();
    assert_eq!(state.out.borrow().len(), 0);
}

#[test]
fn a_purge_keeps_nothing_and_under_pressure_all_that_is_kept_goes() {
    let (space, mut seat, _other, state) = with_windows(&strict(400), 1);
    let areas = make(&mut seat, 5, 40);
    free_all(&mut seat, areas);
    seat.purge();
    // It leaves what was kept before.
    let kept = space.stats().kept_pages;
    assert_eq!(state.out.borrow().len() as u64, kept);
    let areas = make(&mut seat, 3, 60);
    free_all(&mut seat, areas);
    let_wait(&mut seat);
    assert!(space.stats().kept_pages > 100);
    seat.purge_kept().unwrap();
    assert_eq!((space.stats().kept_pages, state.out.borrow().len()), (0, 0));
    space.verify().unwrap();
}
