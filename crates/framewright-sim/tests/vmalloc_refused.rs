//! A request that can never be served is refused at once: nothing is taken, moved, purged or
//! drained for it.
//! And a space has one source of frames.

use framewright::frame::{AllocError, FrameSource, Seats, Zone, ZoneLayout};
use framewright::platform::{FramePlatform, MapError, RangePlatform, SingleThread, TableSource};
use framewright::policy::{Config, RangeConfig};
use framewright::vrange::{AreaRequest, RangeError, RangeSeat, Space, SpaceLayout};
use framewright::{
    Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run, SetupError,
};
use framewright_sim::{MachineCall, Paging, PoolFrames, Random};

const START: Page = Page(1 << 20);
const PAGES: u64 = 1024;
const FRAMES: u32 = 300;

type HandlerSeat<'s, 'm, 'p> = RangeSeat<'s, 'm, &'p Paging, PoolFrames<'p>>;

/// Something kept on one CPU, lazy and kept on another, and most frames taken.
fn with_something_of_each(test: impl FnOnce(&Space<'_, &Paging>, &Paging, &AreaRequest)) {
    let paging = Paging::new(2, START, PAGES, FRAMES, 0);
    let layout = SpaceLayout::new(START, PAGES)
        .with_cpus(2)
        .with_span_pages(64);
    let config = RangeConfig {
        kept_pages_max: 60,
        ..RangeConfig::for_cpus(2).kept()
    };
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    for cpu in 0..2 {
        let mut seat = space.seat(CpuId(cpu), PoolFrames(&paging)).unwrap();
        for pages in [3, 5, 70] {
            let area = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
            seat.vfree(area).unwrap();
        }
    }
    test(&space, &paging, &AreaRequest::new(1));
    assert_eq!(paging.broken(), None);
    space.verify().unwrap();
}

fn refuses_at_once(request: impl Fn(&AreaRequest) -> AreaRequest, expected: RangeError) {
    with_something_of_each(|space, paging, any| {
        let mut seat = space.seat(CpuId(0), PoolFrames(paging)).unwrap();
        let calls = || {
            [
                MachineCall::Frames,
                MachineCall::Map,
                MachineCall::Unmap,
                MachineCall::Flush,
            ]
            .map(|call| paging.machine().calls(call))
        };
        let mut before = space.stats();
        let (made, free) = (calls(), paging.free_frames());
        for _ in 0..10 {
            assert_eq!(seat.vmalloc(&request(any)), Err(expected));
        }
        assert_eq!((calls(), paging.free_frames()), (made, free), "{expected}");
        let after = space.stats();
        before.failures = after.failures;
        assert_eq!(after, before, "{expected}");
        assert!(after.kept_pages > 0 && after.vmap_lazy_nr > 0, "{expected}");
    });
}

#[test]
fn an_alignment_that_no_page_of_the_window_has_is_refused_at_once() {
    for bytes in [1 << 33, 1 << 40, 1 << 63] {
        let expected = RangeError::NoSpace {
            pages: 1,
            align_bytes: bytes,
        };
        refuses_at_once(|request| request.aligned_to(bytes), expected);
    }
}

#[test]
fn more_pages_than_the_window_has_are_refused_at_once() {
    for pages in [PAGES + 1, 1 << 40, u64::MAX] {
        refuses_at_once(|_| AreaRequest::new(pages), RangeError::TooLong { pages });
    }
    let (pages, align_bytes) = (PAGES, Page::BYTES);
    let expected = RangeError::NoSpace { pages, align_bytes };
    refuses_at_once(|_| AreaRequest::new(pages), expected);
}

#[test]
fn more_pages_than_there_are_frames_are_refused_before_a_frame_is_taken() {
    for pages in [u64::from(FRAMES) + 1, PAGES - 1] {
        let frames = FRAMES.into();
        let expected = RangeError::TooManyFrames { pages, frames };
        refuses_at_once(|_| AreaRequest::new(pages), expected);
    }
    // A request gets as many as there are, with all that is kept and lazy.
    with_something_of_each(|space, paging, _| {
        let mut seat = space.seat(CpuId(0), PoolFrames(paging)).unwrap();
        let area = seat.vmalloc(&AreaRequest::new(FRAMES.into())).unwrap();
        seat.vfree(area).unwrap();
    });
}

#[test]
fn a_zone_has_at_most_the_frames_that_exist_in_it() {
    let layouts = [0, 4096].map(|start| ZoneLayout::new(Frame(start), 2048));
    let mut memory = layouts.map(|layout| vec![0; layout.words_needed().unwrap()]);
    let [low, high] = &mut memory;
    let zone = |layout: &ZoneLayout, memory| {
        Zone::new(layout, &Config::default(), memory, SingleThread::new()).unwrap()
    };
    let zones = [zone(&layouts[0], low), zone(&layouts[1], high)];
    {
        let seat = zones[0].seat(CpuId(0)).unwrap();
        assert_eq!(seat.frames_in_all(), 0);
    }
    zones[0].add(Run::new(Frame(0), 1024).unwrap()).unwrap();
    zones[1].add(Run::new(Frame(4096), 512).unwrap()).unwrap();
    let origins = {
        let (one, other) = (zones[0].seat(CpuId(0)), zones[1].seat(CpuId(0)));
        let (mut one, other) = (one.unwrap(), other.unwrap());
        // Frames that others have are theirs only for a while.
        one.alloc_run(64, Context::ANY).unwrap();
        assert_eq!((one.frames_in_all(), other.frames_in_all()), (1024, 512));
        assert_ne!(one.origin(), other.origin());
        [one.origin(), other.origin()]
    };
    let both = Seats::<_, 2>::take(&zones, CpuId(0)).unwrap();
    assert_eq!(both.frames_in_all(), 1024 + 512);
    assert!(!origins.contains(&both.origin()));
    assert_ne!(both.origin(), ().origin());
}

#[test]
fn all_seats_of_a_space_have_frames_of_one_origin() {
    let paging = Paging::new(2, START, PAGES, FRAMES, 0);
    let others = Paging::new(2, START, PAGES, FRAMES, 0);
    let layout = SpaceLayout::new(START, PAGES).with_cpus(2);
    let config = RangeConfig::for_cpus(2).kept();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    let first = space.seat(CpuId(0), PoolFrames(&paging)).unwrap();
    let refused = space.seat(CpuId(1), PoolFrames(&others)).unwrap_err();
    assert_eq!(refused, SetupError::OtherFrames(CpuId(1)));
    assert!(refused.to_string().contains("another origin"), "{refused}");
    assert_eq!(
        space.seat(CpuId(1), ()).unwrap_err(),
        SetupError::OtherFrames(CpuId(1))
    );
    // The seat is not taken by that; and what a space once had, it has for good.
    drop(space.seat(CpuId(1), PoolFrames(&paging)).unwrap());
    drop(first);
    let refused = space.seat(CpuId(0), PoolFrames(&others)).unwrap_err();
    assert_eq!(refused, SetupError::OtherFrames(CpuId(0)));
    assert!(space.seat(CpuId(0), &mut PoolFrames(&paging)).is_ok());
}

/// A platform of several CPUs that never maps a page.
struct Unmapped;

impl FramePlatform for Unmapped {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        assert!(attempt < 1000, "one thread waits for itself");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for Unmapped {
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
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

#[test]
fn f9_what_has_more_pages_than_frames_are_free_does_not_stop_all_cpus_again_and_again() {
    for (free, pages) in [(20, 21), (20, 30), (300, 400)] {
        let frames_layout = ZoneLayout::new(Frame(0), 1024).with_cpus(2);
        let mut metadata = vec![0; frames_layout.words_needed().unwrap()];
        let config = Config {
            cache_permille: 100,
            ..Config::default()
        };
        let zone = Zone::new(&frames_layout, &config, &mut metadata, Unmapped).unwrap();
        zone.add(Run::new(Frame(0), 1024).unwrap()).unwrap();
        let layout = SpaceLayout::new(START, PAGES).with_cpus(2);
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let space = Space::new(
            &layout,
            &RangeConfig::for_cpus(2).kept(),
            &mut memory,
            Unmapped,
        )
        .unwrap();
        // Some of what is free lies in the other CPU's caches.
        let mut other = zone.seat(CpuId(1)).unwrap();
        let mut taken = Vec::new();
        while let Ok(frame) = other.alloc(Order::ZERO, Mobility::Unmovable) {
            taken.push(frame);
        }
        for frame in taken.drain(..free) {
            other.free(frame, Order::ZERO).unwrap();
        }
        let own = zone.seat(CpuId(0)).unwrap();
        assert_eq!(own.frames_free(), free as u64);
        let mut seat = space.seat(CpuId(0), own).unwrap();
        let before = zone.stats().drains;
        for _ in 0..1000 {
            let failed = seat.vmalloc(&AreaRequest::new(pages));
            assert_eq!(failed, Err(RangeError::Frames(AllocError::Exhausted)));
        }
        let stops = zone.stats().drains - before;
        assert!(stops <= 2, "{stops} stops for {pages} pages of {free}");
        // A request still gets as many as are free, wherever they lie.
        let area = seat.vmalloc(&AreaRequest::new(free as u64)).unwrap();
        seat.vfree(area).unwrap();
        seat.drain();
        space.verify().unwrap();
        assert_eq!(zone.stats().nr_free_pages, free as u64);
        drop(seat);
        zone.drain();
        zone.verify().unwrap();
    }
}

/// What came of requests that must not wait.
#[derive(Clone, Copy, Default, Debug)]
struct HandlerTally {
    served: u32,
    /// `NoSpace`: no request would have been served.
    no_space: u32,
    /// `WouldWait`, of the area or of its frames.
    would_wait: u32,
    /// How many of these a request that may wait repeated at once, and of those, how many were served then.
    judged: u32,
    waited: u32,
}

/// A window fills up and half of it is freed, again and again, by two CPUs; then a handler of the first one makes requests.
fn in_a_handler(config: RangeConfig, frames: u32) -> HandlerTally {
    let paging = Paging::new(2, START, PAGES, frames, 64);
    let layout = SpaceLayout::new(START, PAGES)
        .with_cpus(2)
        .with_span_pages(64);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    let mut seats = [0, 1].map(|cpu| space.seat(CpuId(cpu), PoolFrames(&paging)).unwrap());
    let mut random = Random::new(7);
    let mut areas = Vec::new();
    let mut mapped = Vec::new();
    let own: Vec<Frame> = (0..8).map(|nth| Frame(u64::from(frames) + nth)).collect();
    let mut tally = HandlerTally::default();
    for round in 0..200 {
        // In every other round a request that failed is made once more by a caller that may wait, which drains everything.
        let is_judged = round % 2 == 0;
        let mut cpu = 0;
        while let Ok(area) = seats[cpu].vmalloc(&AreaRequest::new(1 + random.below(24))) {
            areas.push(area);
            cpu = 1 - cpu;
        }
        for _ in 0..areas.len() * 2 / 3 {
            let area = areas.swap_remove(random.below(areas.len() as u64) as usize);
            seats[random.below(2) as usize].vfree(area).unwrap();
        }
        for (page, pages) in mapped.drain(..) {
            seats[0].unmap_ram(page, pages).unwrap();
        }
        if random.chance(50) {
            // What the first CPU has unmapped is flushed, too.
            seats[1].purge();
        }
        for _ in 0..100 {
            let pages = 1 + random.below(8);
            let request = AreaRequest::new(pages).within(Context::NOWAIT);
            let is_ram = random.chance(40);
            let got = match is_ram {
                true => seats[0].map_ram(&own[..pages as usize], Context::NOWAIT),
                false => seats[0].vmalloc(&request),
            };
            match got {
                Ok(page) if is_ram => mapped.push((page, pages)),
                Ok(page) => areas.push(page),
                Err(error) => {
                    let is_vain = matches!(error, RangeError::NoSpace { .. })
                        || error == RangeError::Frames(AllocError::Exhausted);
                    tally.no_space += u32::from(is_vain);
                    tally.would_wait += u32::from(!is_vain);
                    if !is_judged {
                        continue;
                    }
                    let again = match is_ram {
                        true => seats[0].map_ram(&own[..pages as usize], Context::ANY),
                        false => seats[0].vmalloc(&AreaRequest::new(pages)),
                    };
                    assert!(
                        !is_vain || again.is_err(),
                        "V8: {error}, and then {again:?}"
                    );
                    tally.judged += u32::from(!is_vain);
                    tally.waited += u32::from(!is_vain && again.is_ok());
                    match again {
                        Ok(page) if is_ram => mapped.push((page, pages)),
                        Ok(page) => areas.push(page),
                        Err(_) => {}
                    }
                    continue;
                }
            }
            tally.served += 1;
        }
        assert_eq!(paging.broken(), None);
        space.verify().unwrap();
    }
    tally
}

#[test]
fn v8_a_handler_is_told_whether_it_might_have_been_served_if_it_had_waited() {
    for frames in [4 * PAGES as u32, PAGES as u32 / 2] {
        for config in [
            RangeConfig::for_cpus(2),
            RangeConfig::for_cpus(2).kept(),
            RangeConfig {
                spans: false,
                ..RangeConfig::for_cpus(2)
            },
        ] {
            let tally = in_a_handler(config, frames);
            println!(
                "{frames} frames, strict {}, spans {}: {tally:?}",
                config.strict, config.spans
            );
            assert!(tally.judged > 20 && tally.served > 10_000, "{tally:?}");
            assert!(tally.waited * 10 >= tally.judged * 9, "{tally:?}");
        }
    }
}

/// Makes a space of two CPUs for a handler of the first one.
fn with_handler(
    config: RangeConfig,
    test: impl FnOnce(&Space<'_, &Paging>, &mut [HandlerSeat<'_, '_, '_>; 2]),
) {
    let paging = Paging::new(2, START, PAGES, 4 * PAGES as u32, 0);
    let layout = SpaceLayout::new(START, PAGES)
        .with_cpus(2)
        .with_span_pages(64);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    let seat = |cpu| space.seat(CpuId(cpu), PoolFrames(&paging)).unwrap();
    test(&space, &mut [0, 1].map(seat));
    assert_eq!(paging.broken(), None);
    space.verify().unwrap();
}

#[test]
fn v8_what_no_wait_could_serve_is_refused_without_space_and_takes_nothing_that_is_kept() {
    for config in [RangeConfig::for_cpus(2), RangeConfig::for_cpus(2).kept()] {
        with_handler(config, |space, seats| {
            seats[0].alloc_area(&AreaRequest::new(750)).unwrap();
            // A strict space keeps an area once it has been flushed, when a request comes.
            for pages in [3, 5, 7].into_iter().cycle().take(100) {
                let areas = [0; 4].map(|_| seats[0].vmalloc(&AreaRequest::new(pages)).unwrap());
                for area in areas {
                    seats[0].vfree(area).unwrap();
                }
            }
            let mut before = space.stats();
            assert!(before.kept_pages > 0, "{before:?}");
            let refused = seats[0].alloc_area(&AreaRequest::new(300).within(Context::NOWAIT));
            let (pages, align_bytes) = (300, Page::BYTES);
            assert_eq!(refused, Err(RangeError::NoSpace { pages, align_bytes }));
            before.failures += 1;
            assert_eq!(space.stats(), before);
        });
    }
}

#[test]
fn v8_what_finds_all_free_pages_in_the_arena_and_no_gap_is_refused_without_space() {
    let config = RangeConfig {
        spans: false,
        ..RangeConfig::for_cpus(2)
    };
    with_handler(config, |space, seats| {
        let mut areas = Vec::new();
        while let Ok(area) = seats[0].vmalloc(&AreaRequest::new(19)) {
            areas.push(area);
        }
        for &area in areas.iter().step_by(2) {
            seats[0].vfree(area).unwrap();
        }
        let handler = AreaRequest::new(100).within(Context::NOWAIT);
        assert_eq!(
            seats[1].alloc_area(&handler),
            Err(RangeError::WouldWait),
            "another CPU's freed areas may make a gap"
        );
        seats[0].purge();
        assert_eq!(space.stats().vmap_lazy_nr, 0);
        let refused = seats[1].alloc_area(&handler);
        assert!(
            matches!(refused, Err(RangeError::NoSpace { .. })),
            "{refused:?}"
        );
        let refused = seats[1].alloc_area(&AreaRequest::new(100));
        assert!(
            matches!(refused, Err(RangeError::NoSpace { .. })),
            "{refused:?}"
        );
    });
}
