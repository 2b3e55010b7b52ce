//! The interleavings of a free from another CPU, its way to the owner, the hand-over of a span and
//! the purge's generation:
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --test loom_ranges`.
//! In a normal build this file is empty.
#![cfg(loom)]

#[path = "../src/sync/tests/explore.rs"]
mod explored;

use explored::explore;
use framewright::frame::{AllocError, FrameSource};
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::policy::RangeConfig;
use framewright::vrange::{AreaRequest, RangeFreeError, RangeSeat, Space, SpaceLayout};
use framewright::{Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A page table of eight pages: which are mapped, and which the TLBs may still know.
struct LoomPages {
    mapped: AtomicU64,
    cached: AtomicU64,
}

impl FramePlatform for LoomPages {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

fn mask(range: PageRange) -> u64 {
    (!0 >> (64 - range.pages())) << (range.start().0 - START.0)
}

impl RangePlatform for LoomPages {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Err(MapError::NoMemory)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.mapped.fetch_and(!mask(range), Ordering::AcqRel);
        Ok(())
    }

    fn flush_all(&self) {
        // What is not mapped when it begins is forgotten; what is, may be cached again at once.
        let mapped = self.mapped.load(Ordering::Acquire);
        self.cached.fetch_and(mapped, Ordering::AcqRel);
    }

    fn zero(&self, _frames: Run) {}
}

const START: Page = Page(0x400);

type LoomSpace = &'static Space<'static, LoomPages>;
type LoomSeat = RangeSeat<'static, 'static, LoomPages, ()>;

/// Spans of four pages; an eighth of the window, and a batch of one for each CPU, may be lazy.
fn space(pages: u64, lazy: u64) -> LoomSpace {
    space_for(2, pages, lazy)
}

fn space_for(cpus: u16, pages: u64, lazy: u64) -> LoomSpace {
    let layout = SpaceLayout::new(START, pages)
        .with_span_pages(4)
        .with_cpus(cpus);
    let config = RangeConfig {
        lazy_pages_max: lazy,
        ..RangeConfig::for_cpus(cpus).kept()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let pages = LoomPages {
        mapped: AtomicU64::new(0),
        cached: AtomicU64::new(0),
    };
    Box::leak(Box::new(
        Space::new(&layout, &config, memory, pages).unwrap(),
    ))
}

fn seat(space: LoomSpace, cpu: u16) -> LoomSeat {
    space.seat(CpuId(cpu), ()).unwrap()
}

/// An area of one page and its guard page: no other owner has them, and they are nowhere cached.
fn alloc(seat: &mut LoomSeat) -> Option<Page> {
    let at = seat.alloc_area(&AreaRequest::new(1)).ok()?;
    let both = mask(PageRange::new(at, 2).unwrap());
    let one = mask(PageRange::new(at, 1).unwrap());
    let pages = seat.space().platform();
    assert_eq!(pages.mapped.fetch_or(one, Ordering::AcqRel) & both, 0);
    let cached = pages.cached.fetch_or(one, Ordering::AcqRel);
    assert_eq!(cached & both, 0, "V5: handed out before a flush");
    Some(at)
}

/// Runs two threads beside each other. The CPU that frees is the first one, with which loom begins: if it were the second
/// one, loom would not see that it races for a word that it has loaded itself just before.
fn beside(first: impl FnOnce() + Send + 'static, second: impl FnOnce() + Send + 'static) {
    let threads = [thread::spawn(first), thread::spawn(second)];
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn what_another_cpu_frees_beside_a_purge_comes_back_to_the_owner_once() {
    explore(Some(2), || {
        let space = space(4, 64);
        let mut owner = seat(space, 0);
        let areas = [(); 2].map(|()| alloc(&mut owner).unwrap());
        drop(owner);
        let frees = move || {
            let mut other = seat(space, 1);
            for at in areas {
                assert_eq!(other.free_area(at), Ok(1));
            }
        };
        beside(frees, move || seat(space, 0).purge());
        // Whatever the purge saw, now all of it is free.
        let mut owner = seat(space, 0);
        let one = alloc(&mut owner).expect("V8");
        assert_ne!(one, alloc(&mut owner).expect("V8"));
        assert_eq!(alloc(&mut owner), None);
        space.verify().unwrap();
    });
}

#[test]
fn what_another_cpu_frees_beside_a_purge_and_a_request_is_handed_out_once() {
    explore(Some(2), || {
        let space = space(4, 64);
        let mut owner = seat(space, 0);
        let [one, two] = [(); 2].map(|()| alloc(&mut owner).unwrap());
        owner.free_area(two).unwrap();
        let early: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let frees = move || assert_eq!(seat(space, 1).free_area(one), Ok(1));
        drop(owner);
        beside(frees, move || {
            let mut owner = seat(space, 0);
            owner.purge();
            let at = alloc(&mut owner).expect("V8");
            early.store(at.0, Ordering::Relaxed);
        });
        let mut owner = seat(space, 0);
        let late = alloc(&mut owner).expect("V8");
        assert_ne!(early.load(Ordering::Relaxed), late.0);
        assert_eq!(alloc(&mut owner), None);
        space.verify().unwrap();
    });
}

/// Both at a time; with one more preemption it takes half an hour.
#[test]
fn what_another_cpu_frees_comes_back_to_the_owner_once() {
    explore(Some(1), || {
        let space = space(4, 64);
        let mut owner = seat(space, 0);
        let areas = [(); 2].map(|()| alloc(&mut owner).unwrap());
        drop(owner);
        let early: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let frees = move || {
            let mut other = seat(space, 1);
            for at in areas {
                assert_eq!(other.free_area(at), Ok(1));
            }
        };
        beside(frees, move || {
            let mut owner = seat(space, 0);
            owner.purge();
            let at = alloc(&mut owner).map_or(0, |at| at.0);
            early.store(at, Ordering::Relaxed);
        });
        // Whatever was seen before, now all of it is free or early's.
        let mut owner = seat(space, 0);
        let early = early.load(Ordering::Relaxed);
        let late = alloc(&mut owner).expect("V8");
        assert_ne!(early, late.0);
        assert_eq!(early == 0, alloc(&mut owner).is_some());
        space.verify().unwrap();
    });
}

#[test]
fn of_two_remote_frees_of_one_area_one_wins() {
    explore(Some(2), || {
        let space = space_for(3, 4, 64);
        let at = alloc(&mut seat(space, 0)).unwrap();
        let other = thread::spawn(move || seat(space, 1).free_area(at));
        let mine = seat(space, 2).free_area(at);
        let theirs = other.join().unwrap();
        let (won, lost) = if mine.is_ok() {
            (mine, theirs)
        } else {
            (theirs, mine)
        };
        assert_eq!(won, Ok(1));
        // Free already, or even purged.
        assert!(matches!(
            lost,
            Err(RangeFreeError::AlreadyFree(_) | RangeFreeError::NotAllocated(_))
        ));
        space.verify().unwrap();
    });
}

#[test]
fn a_cpu_that_would_fail_takes_what_the_other_holds() {
    explore(Some(2), || {
        let space = space(4, 64);
        let mut owner = seat(space, 0);
        let at = alloc(&mut owner).unwrap();
        let other = thread::spawn(move || {
            let mut other = seat(space, 1);
            // The only span is the owner's: it is dissolved, and the other half is had.
            alloc(&mut other).expect("V8")
        });
        owner.free_area(at).unwrap();
        let theirs = other.join().unwrap();
        let mine = alloc(&mut owner).expect("V8");
        assert_ne!(mine, theirs);
        space.verify().unwrap();
    });
}

#[test]
fn nothing_is_handed_out_between_its_unmap_and_a_flush() {
    explore(Some(2), || {
        let space = space(8, 64);
        let mut one = seat(space, 0);
        let first = alloc(&mut one).unwrap();
        one.free_area(first).unwrap();
        let other = thread::spawn(move || {
            let mut two = seat(space, 1);
            let at = alloc(&mut two).unwrap();
            two.free_area(at).unwrap();
            two.purge();
            alloc(&mut two).unwrap()
        });
        one.purge();
        let mine = alloc(&mut one).unwrap();
        assert_ne!(other.join().unwrap(), mine);
        space.verify().unwrap();
    });
}

/// A page table of two words of pages and the frames behind them, the n-th frame behind one page
/// only. TLBs load what is mapped at once.
struct LoomWords {
    mapped: [AtomicU64; 2],
    cached: [AtomicU64; 2],
    /// Where each frame was mapped last, plus one.
    places: [AtomicU64; 8],
    taken: AtomicU64,
}

impl FramePlatform for LoomWords {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for LoomWords {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        for (nth, frame) in (frames.start().0..frames.end().0).enumerate() {
            let place = at.0 - START.0 + nth as u64;
            let bit = 1 << (place % 64);
            self.places[frame as usize].store(place + 1, Ordering::Release);
            self.mapped[place as usize / 64].fetch_or(bit, Ordering::AcqRel);
            self.cached[place as usize / 64].fetch_or(bit, Ordering::AcqRel);
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let start = range.start().0 - START.0;
        let mask = (!0_u128 >> (128 - range.pages())) << start;
        for word in 0..2 {
            let mask = (mask >> (64 * word)) as u64;
            if mask != 0 {
                self.mapped[word].fetch_and(!mask, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    fn flush_all(&self) {
        for (mapped, cached) in self.mapped.iter().zip(&self.cached) {
            cached.fetch_and(mapped.load(Ordering::Acquire), Ordering::AcqRel);
        }
    }

    fn zero(&self, _frames: Run) {}
}

/// Frames of a [`LoomWords`], one after another: none is taken twice.
struct Behind(&'static Space<'static, LoomWords>);

impl FrameSource for Behind {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(self.0).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        8
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        let frame = self.0.platform().taken.fetch_add(1, Ordering::AcqRel);
        Ok(Run::new(Frame(frame), 1).unwrap())
    }

    fn free_run(&mut self, frames: Run) {
        let words = self.0.platform();
        for frame in frames.start().0..frames.end().0 {
            let place = words.places[frame as usize].load(Ordering::Acquire) - 1;
            for reached in [&words.mapped, &words.cached] {
                let word = reached[place as usize / 64].load(Ordering::Acquire);
                assert_eq!(word >> (place % 64) & 1, 0, "V5: given back and reached");
            }
        }
    }
}

#[test]
fn v9_an_area_across_words_that_another_cpu_frees_comes_back_as_a_whole() {
    explore(Some(2), || {
        let layout = SpaceLayout::new(START, 128)
            .with_span_pages(128)
            .with_cpus(2);
        let config = RangeConfig {
            lazy_pages_max: 64,
            kept_pages_max: 0,
            ..RangeConfig::for_cpus(2).kept()
        };
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let zero = || AtomicU64::new(0);
        let words = LoomWords {
            mapped: [zero(), zero()],
            cached: [zero(), zero()],
            places: core::array::from_fn(|_| zero()),
            taken: zero(),
        };
        let space: &'static _ = Box::leak(Box::new(
            Space::new(&layout, &config, memory, words).unwrap(),
        ));
        let seat = move |cpu| space.seat(CpuId(cpu), Behind(space)).unwrap();
        // Up to page 60; then an area at 60 and 61, and one from 62 over the word's end to 65.
        let mut owner = seat(0);
        owner.alloc_area(&AreaRequest::new(59)).unwrap();
        let short = owner.vmalloc(&AreaRequest::new(1)).unwrap();
        let long = owner.vmalloc(&AreaRequest::new(3)).unwrap();
        assert_eq!(long, Page(START.0 + 62));
        drop(owner);
        let frees = move || {
            let mut other = seat(1);
            assert_eq!(other.vfree(short), Ok(1));
            assert_eq!(other.vfree(long), Ok(3));
        };
        beside(frees, move || seat(0).purge());
        seat(0).purge();
        space.verify().unwrap();
    });
}
