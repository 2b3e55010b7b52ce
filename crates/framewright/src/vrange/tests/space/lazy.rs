//! What is lazy: the bound on it, and areas that cannot be unmapped.

use super::*;

#[test]
fn what_cannot_be_unmapped_stays_lazy_and_nothing_is_lost() {
    for failing_from in 0..40 {
        let mut random = Random::new(0xfeed_5eed ^ failing_from << 20);
        let layout = SpaceLayout::new(Page(0x4000), 700)
            .with_cpus(2)
            .with_span_pages(32);
        let mut twin = SpaceTwin::new(space(layout, config(60, failing_from % 4 != 0)));
        twin.space.platform().unmaps_until_failure.set(failing_from);
        for _ in 0..150 {
            twin.step(&mut random, 10);
            twin.check();
        }
        let failures = twin.space.stats().unmap_failures;
        assert!(failures != 0 || failing_from > 10);
        twin.space.platform().unmaps_until_failure.set(u64::MAX);
        while !twin.live.is_empty() {
            twin.free(0, 0);
        }
        twin.seats[1].drain();
        twin.check();
        assert_eq!(twin.space.stats().vmap_lazy_nr, 0);
        assert_eq!(twin.space.arena.lock(|_| ()).gap_count(), 1);
    }
}

#[test]
fn areas_that_cannot_be_unmapped_hide_no_others() {
    let layout = SpaceLayout::new(Page(0x400), 4096).with_span_pages(16);
    let space = space(layout, config(512, true));
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    // Beside each other they would be unmapped by one call.
    let mut areas: Vec<_> = (0..44)
        .map(|_| seat.alloc_area(&AreaRequest::new(9)).unwrap())
        .collect();
    areas.sort();
    let freed: Vec<_> = areas.iter().copied().step_by(2).collect();
    for &at in freed.iter().rev() {
        seat.free_area(at).unwrap();
    }
    // Twenty that fail are the first in the list.
    space.platform.stuck_below.set(freed[20].0);
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 20 * 10, "two were behind them");
    space.verify().unwrap();
    space.platform.stuck_below.set(0);
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    space.verify().unwrap();
}

#[test]
fn spans_that_cannot_be_unmapped_hide_no_others() {
    let layout = SpaceLayout::new(Page(0x400), 4096).with_span_pages(16);
    let space = space(layout, config(512, true));
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    // Two in each span, of which one stays: no run of lazy pages touches another.
    let areas: Vec<_> = (0..40)
        .map(|_| seat.alloc_area(&AreaRequest::new(7)).unwrap())
        .collect();
    let freed: Vec<_> = areas.iter().copied().step_by(2).collect();
    assert!(areas.is_sorted() && freed.iter().all(|at| at.0 % 16 == 0));
    for &at in &freed {
        seat.free_area(at).unwrap();
    }
    // Eighteen that fail are the first in the list, and more than a pass looks at.
    space.platform.stuck_below.set(freed[18].0);
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 18 * 8, "two were behind them");
    space.verify().unwrap();
    space.platform.stuck_below.set(0);
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    space.verify().unwrap();
}

/// Areas of seven pages and their guards, side by side.
fn side_by_side(seat: &mut TestSeat, count: u64) -> Vec<Page> {
    let areas: Vec<_> = (0..count)
        .map(|_| seat.alloc_area(&AreaRequest::new(7)).unwrap())
        .collect();
    assert!(areas.windows(2).all(|two| two[0].0 + 8 == two[1].0));
    areas
}

#[test]
fn a_span_that_cannot_be_unmapped_hides_none_however_long_it_is() {
    for span in [256, 1024] {
        let layout = SpaceLayout::new(Page(0x400), 8192).with_span_pages(span);
        let space = space(layout, config(8192, true));
        let mut seat = space.seat(CpuId(0), ()).unwrap();
        // Four times as many pages as a part has, and one area a little behind them.
        let stuck = side_by_side(&mut seat, 512);
        let alive = seat.alloc_area(&AreaRequest::new(7)).unwrap();
        let behind = seat.alloc_area(&AreaRequest::new(7)).unwrap();
        space.platform.stuck_below.set(stuck[511].0);
        for &at in stuck.iter().chain([&behind]) {
            seat.free_area(at).unwrap();
        }
        seat.purge();
        assert_eq!(space.stats().vmap_lazy_nr, 4096, "one was behind them");
        space.platform.stuck_below.set(0);
        seat.purge();
        assert_eq!(space.stats().vmap_lazy_nr, 0);
        seat.free_area(alive).unwrap();
        space.verify().unwrap();
    }
}

#[test]
fn a_run_that_cannot_be_unmapped_hides_none_in_the_span_in_which_it_ends() {
    let layout = SpaceLayout::new(Page(0x400), 4096).with_span_pages(1024);
    let space = space(layout, config(4096, true));
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    // The run is 1,024 pages, half in a span and half in the next one, where another run comes after it.
    let areas = side_by_side(&mut seat, 256);
    space.platform.stuck_below.set(areas[65].0);
    for &at in areas[64..192].iter().chain(&areas[200..204]) {
        seat.free_area(at).unwrap();
    }
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 1024, "the run");
    space.platform.stuck_below.set(0);
    seat.purge();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    space.verify().unwrap();
}

#[test]
fn v6_only_what_cannot_be_unmapped_is_above_the_bound() {
    // Small areas in spans, and with `spans` off the arena's.
    for spans in [true, false] {
        let layout = SpaceLayout::new(Page(0x400), 1 << 14)
            .with_cpus(2)
            .with_span_pages(64);
        let space = space(layout, config(400, spans));
        let mut seats = seats(space);
        let mut alloc = |cpu: usize| seats[cpu].alloc_area(&AreaRequest::new(3)).unwrap();
        let stuck: Vec<_> = (0..300).map(|_| alloc(0)).collect();
        let above = stuck.iter().max().unwrap().0 + 4;
        let others: Vec<_> = (0..2000).map(|_| alloc(1)).collect();
        space.platform.stuck_below.set(above);
        let most = 400 + 2 * space.lazy_batch_pages();
        for at in stuck {
            seats[0].free_area(at).unwrap();
            space.verify().unwrap();
        }
        let lazy = space.stats().vmap_lazy_nr;
        assert_eq!(lazy, 1200, "none of it can be unmapped");
        let held = seats[0].held();
        let known = held.words.stuck.get();
        held.words.stuck.set(known - (1200 - most) - 1);
        let broken = space.verify().unwrap_err();
        assert_eq!(broken.invariant, "V6: the bound");
        held.words.stuck.set(known);
        // Areas that can be unmapped are, as if there were no others, whichever CPU frees them.
        for (nth, at) in others.into_iter().filter(|at| at.0 >= above).enumerate() {
            seats[nth % 2].free_area(at).unwrap();
            if nth % 10 == 0 {
                space.verify().unwrap();
            }
            let lazy = space.stats().vmap_lazy_nr;
            assert!(lazy <= 1200 + most, "{lazy}");
        }
        // As soon as all can be unmapped, the bound is the old one again.
        space.platform.stuck_below.set(0);
        seats[0].purge();
        seats[1].purge();
        assert!(space.stats().vmap_lazy_nr <= most);
        space.verify().unwrap();
    }
}

#[test]
fn v6_an_area_longer_than_the_bound_is_gone_when_its_free_returns() {
    let layout = SpaceLayout::new(Page(0), 1 << 14)
        .with_cpus(3)
        .with_span_pages(64);
    let space = space(layout, config(200, true));
    let mut seats = seats(space);
    let most = 200 + 3 * space.lazy_batch_pages();
    for round in 0..60 {
        // The others sleep with as much as they may have.
        for nth in 0..30 {
            let cpu = (round + nth) % 3;
            let at = seats[cpu].alloc_area(&AreaRequest::new(2)).unwrap();
            seats[(cpu + nth % 2) % 3].free_area(at).unwrap();
        }
        let pages = [199, 200, 201, 600, 5000][round % 5];
        let at = seats[round % 3]
            .alloc_area(&AreaRequest::new(pages))
            .unwrap();
        seats[(round / 3) % 3].free_area(at).unwrap();
        let stats = space.stats();
        assert!(stats.vmap_lazy_nr <= most, "{pages}: {stats:?}");
        assert!(stats.lazy_pages_peak <= most, "{pages}: {stats:?}");
        space.verify().unwrap();
        if pages > most {
            assert!(space.find(at).is_none_or(|area| area.start != at), "gone");
        }
    }
}

#[test]
fn v6_the_bound_holds_whichever_cpu_frees_and_whichever_sleeps() {
    let layout = SpaceLayout::new(Page(0), 1 << 16)
        .with_cpus(3)
        .with_span_pages(64);
    let space = space(layout, config(1000, true));
    let mut seats = seats(space);
    let mut areas = Vec::new();
    for round in 0..3000 {
        let pages = 1 + round % 40;
        areas.push(seats[0].alloc_area(&AreaRequest::new(pages)).unwrap());
        // One frees its own areas, one only those of another CPU, one sleeps from then on.
        let cpu = match round {
            0..100 => 2,
            _ => (round % 2) as usize,
        };
        if round % 3 != 0 {
            let at = areas.swap_remove(areas.len() / 2);
            seats[cpu].free_area(at).unwrap();
        }
        let stats = space.stats();
        let most = 1000 + 3 * space.lazy_batch_pages();
        assert!(stats.vmap_lazy_nr <= most && stats.lazy_pages_peak <= most);
    }
    let stats = space.stats();
    assert!(stats.lazy_pages_peak > 900, "the bound is used");
    // A CPU without a span frees all that is left, while the owner sleeps.
    for at in areas {
        seats[2].free_area(at).unwrap();
        assert!(space.stats().vmap_lazy_nr <= 1000 + 3 * space.lazy_batch_pages());
    }
    let stats = space.stats();
    assert!(stats.claims > 0 && stats.remote_frees > 1000);
    // An area longer than the bound is never lazy when its free returns.
    let long = seats[1].alloc_area(&AreaRequest::new(5000)).unwrap();
    seats[2].free_area(long).unwrap();
    let stats = space.stats();
    assert!(stats.vmap_lazy_nr <= 1000 + 3 * space.lazy_batch_pages());
    assert!(stats.lazy_pages_peak <= 1000 + 3 * space.lazy_batch_pages());
    space.verify().unwrap();
}

#[test]
fn others_purge_of_a_cpu_that_sleeps_what_is_too_much_and_not_all() {
    let layout = SpaceLayout::new(Page(0), 1 << 16)
        .with_cpus(2)
        .with_span_pages(64);
    let space = space(layout, config(1024, true));
    let mut seats = seats(space);
    // Live areas between them make each lazy one a call of its own. Up to half of the bound no CPU
    // purges ahead of it.
    let areas: Vec<_> = (0..240)
        .map(|_| seats[0].alloc_area(&AreaRequest::new(3)).unwrap())
        .collect();
    for &at in areas.iter().step_by(2) {
        seats[0].free_area(at).unwrap();
    }
    let long = seats[1].alloc_area(&AreaRequest::new(700)).unwrap();
    seats[1].free_area(long).unwrap();
    let stats = space.stats();
    assert_eq!(stats.claims, 1);
    assert!(stats.lazy_pages_peak <= 1024 + 2 * space.lazy_batch_pages());
    // CPU 0 had 480 pages.
    let left = stats.vmap_lazy_nr - 701;
    assert!(0 < left && left < 400, "{stats:?}");
    space.verify().unwrap();
}
