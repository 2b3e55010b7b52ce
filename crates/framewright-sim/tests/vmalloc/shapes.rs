//! Areas of a shape that was asked for: with a guard page before them, or for large entries of page tables.

use super::*;
use framewright::PageAccess;
use framewright::frame::FrameSource;
use framewright::platform::TableSource;

/// A platform of one thread that remembers what it mapped.
#[derive(Default)]
struct MapsSeen(RefCell<Vec<(Page, Run)>>);

impl FramePlatform for MapsSeen {
    const ASYMMETRIC: bool = false;
    const ALONE: bool = true;

    fn relax(&self, attempt: u32) {
        assert!(attempt < 1000, "one thread waits for itself");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for MapsSeen {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.0.borrow_mut().push((at, frames));
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl MapsSeen {
    /// How many entries of 2 MiB the calls since the last look can use.
    fn huge_entries(&self) -> u64 {
        let entries = |(at, run): (Page, Run)| {
            let is_aligned = |nth: &u64| {
                (at.0 + nth).is_multiple_of(512) && (run.start().0 + nth).is_multiple_of(512)
            };
            let ends = (0..=run.frames().saturating_sub(512)).filter(is_aligned);
            if run.frames() < 512 {
                0
            } else {
                ends.count() as u64
            }
        };
        self.0.take().into_iter().map(entries).sum()
    }
}

#[test]
fn an_area_for_huge_pages_can_use_large_entries_of_page_tables() {
    for spans in [true, false] {
        let maps = MapsSeen::default();
        let frames_layout = ZoneLayout::new(Frame(0), 1 << 14);
        let mut metadata = vec![0; frames_layout.words_needed().unwrap()];
        let single = SingleThread::new();
        let zone = Zone::new(&frames_layout, &Config::default(), &mut metadata, single).unwrap();
        zone.add(Run::new(Frame(0), 1 << 14).unwrap()).unwrap();
        let layout = SpaceLayout::new(START, 1 << 14);
        let config = RangeConfig {
            spans,
            kept_pages_max: 0,
            ..RangeConfig::default()
        };
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let space = Space::new(&layout, &config, &mut memory, &maps).unwrap();
        let mut seat = space.seat(CpuId(0), zone.seat(CpuId(0)).unwrap()).unwrap();
        let small = seat.vmalloc(&AreaRequest::new(3)).unwrap();
        maps.huge_entries();
        let four = AreaRequest::new(1024).for_huge_pages();
        let at = seat.vmalloc(&four).unwrap();
        assert_eq!((at.0 % 512, maps.huge_entries()), (0, 2), "4 MiB");
        // Not a whole number of entries: the rest does not spoil those.
        let more = seat
            .vmalloc(&AreaRequest::new(1300).for_huge_pages())
            .unwrap();
        assert_eq!((more.0 % 512, maps.huge_entries()), (0, 2), "5.2 MiB");
        let guarded = seat.vmalloc(&four.guarded()).unwrap();
        assert_eq!(
            (guarded.0 % 512, maps.huge_entries()),
            (0, 2),
            "with a guard before"
        );
        assert_eq!(space.find(Page(guarded.0 - 1)).unwrap().start, guarded);
        // One that does not ask for it, or is too short, begins where first fit says, behind the last one that did not.
        let plain = seat.vmalloc(&AreaRequest::new(1024)).unwrap();
        assert_ne!(plain.0 % 512, 0);
        let short = seat
            .vmalloc(&AreaRequest::new(511).for_huge_pages())
            .unwrap();
        assert_ne!(short.0 % 512, 0);
        for at in [small, at, more, guarded, plain, short] {
            seat.vfree(at).unwrap();
        }
        // Where no gap is aligned so, the request is served nevertheless.
        let areas: Vec<_> =
            core::iter::from_fn(|| seat.alloc_area(&AreaRequest::new(520)).ok()).collect();
        for &at in areas.iter().step_by(2) {
            seat.free_area(at).unwrap();
        }
        seat.drain();
        let two = AreaRequest::new(512).for_huge_pages();
        let served: Vec<_> = core::iter::from_fn(|| seat.alloc_area(&two).ok()).collect();
        assert!(
            served.len() >= areas.len() / 2,
            "{} of {}",
            served.len(),
            areas.len()
        );
        let aligned = served.iter().filter(|at| at.0 % 512 == 0).count();
        assert!(0 < aligned && aligned < served.len(), "{aligned}");
        space.verify().unwrap();
    }
}

#[test]
fn v1_a_guard_page_before_an_area_is_there_as_long_as_the_area() {
    for strict in [true, false] {
        let mut bench = SpaceBench::new(2, 512, 512);
        bench.config.strict = strict;
        bench.config.kept_pages_max = if strict { 0 } else { 32 };
        bench.run(|space, seats| {
            let stack = AreaRequest::new(4).guarded().tagged(3);
            let at = seats[0]
                .vmalloc(&stack.aligned_to(4 * Page::BYTES))
                .unwrap();
            assert_eq!(at.0 % 4, 0, "the area itself is aligned");
            let below = Page(at.0 - 1);
            for page in [below, at, Page(at.0 + 4)] {
                let found = space.find(page).unwrap();
                assert_eq!((found.start, found.pages, found.tag), (at, 4, 3));
                assert_eq!((found.guard_before, found.guard), (1, 1));
                let is_inside = found.range().contains(page);
                assert_eq!(space.frame_behind(page).is_some(), is_inside);
            }
            let inside = RangeFreeError::NotTheFirst {
                page: below,
                start: at,
            };
            assert_eq!(seats[0].vfree(below), Err(inside));
            assert_eq!(space.vfree_atomic(below), Err(inside));
            // Another CPU frees it, as a stack is freed by the thread that ends another one's.
            assert_eq!(seats[1].vfree(at), Ok(4));
            assert_eq!(seats[0].vfree(at), Err(RangeFreeError::AlreadyFree(at)));
            space.verify().unwrap();
            // A kept one serves the next stack of its length, and no kept one without its guard does.
            let again = seats[1].vmalloc(&stack).unwrap();
            assert_eq!(again == at, !strict);
            let plain = seats[0].vmalloc(&AreaRequest::new(4)).unwrap();
            assert_eq!(space.find(plain).unwrap().guard_before, 0);
            seats[0].vfree(plain).unwrap();
            let third = seats[0].vmalloc(&stack).unwrap();
            assert_eq!(space.find(third).unwrap().guard_before, 1);
            // Deferred, and without frames.
            assert_eq!(space.vfree_atomic(third), Ok(4));
            assert_eq!(seats[0].free_deferred(), 1);
            let reserved = seats[0].alloc_area(&AreaRequest::new(9).guarded()).unwrap();
            space.verify().unwrap();
            assert_eq!(seats[1].free_area(reserved), Ok(9));
            seats[0].vfree(again).unwrap();
            bench.all_is_back(space, seats);
            // All of the window is one gap again.
            let all = seats[0]
                .alloc_area(&AreaRequest::new(510).guarded())
                .unwrap();
            assert_eq!(all, Page(START.0 + 1));
            seats[0].free_area(all).unwrap();
        });
    }
}

#[test]
fn v7_a_short_area_for_huge_pages_is_kept_with_its_runs_whole() {
    let mut bench = SpaceBench::new(1, 1024, 64);
    bench.config.spans = false;
    bench.run(|space, seats| {
        let seat = &mut seats[0];
        let below = seat.alloc_area(&AreaRequest::new(507)).unwrap();
        let short = AreaRequest::new(8).for_huge_pages();
        let at = seat.vmalloc(&short).unwrap();
        assert_eq!(at.0 % 512, 508, "it lies across the end of a large entry");
        seat.vfree(at).unwrap();
        assert!(space.stats().kept_pages > 0);
        space.verify().unwrap();
        assert_eq!(seat.vmalloc(&short), Ok(at));
        seat.vfree(at).unwrap();
        seat.free_area(below).unwrap();
        bench.all_is_back(space, seats);
    });
}

#[test]
fn an_area_for_huge_pages_that_meets_a_short_source_gives_back_what_it_has() {
    let bench = SpaceBench::new(1, 4096, 1100);
    bench.run(|space, seats| {
        let live = seats[0].vmalloc(&AreaRequest::new(300)).unwrap();
        let request = AreaRequest {
            context: Context::NOWAIT,
            ..AreaRequest::new(1024).for_huge_pages()
        };
        let failed = seats[0].vmalloc(&request).unwrap_err();
        assert!(matches!(failed, RangeError::Frames(_)), "{failed}");
        seats[0].vfree(live).unwrap();
        bench.all_is_back(space, seats);
    });
}

/// A source whose first run is half as long as a large entry, and whose others are as long as asked. No run follows another one.
struct ShortAtFirst {
    next: u64,
    is_first: bool,
}

impl FrameSource for ShortAtFirst {
    fn origin(&self) -> u64 {
        0
    }

    fn frames_in_all(&self) -> u64 {
        1 << 20
    }

    fn alloc_run(&mut self, frames: u64, _context: Context) -> Result<Run, AllocError> {
        let frames = match std::mem::take(&mut self.is_first) {
            true => frames.min(256),
            false => frames,
        };
        let start = Frame(self.next);
        self.next += 1024;
        Run::new(start, frames).ok_or(AllocError::Exhausted)
    }

    fn free_run(&mut self, _frames: Run) {}
}

#[test]
fn a_run_that_is_too_short_for_a_large_entry_does_not_cost_the_next_one() {
    let maps = MapsSeen::default();
    let layout = SpaceLayout::new(START, 1 << 14);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &RangeConfig::default(), &mut memory, &maps).unwrap();
    let frames = ShortAtFirst {
        next: 0,
        is_first: true,
    };
    let mut seat = space.seat(CpuId(0), frames).unwrap();
    let four = AreaRequest::new(1024).for_huge_pages();
    let at = seat.vmalloc(&four).unwrap();
    assert_eq!(maps.huge_entries(), 1, "the second of two");
    seat.vfree(at).unwrap();
    space.verify().unwrap();
}
