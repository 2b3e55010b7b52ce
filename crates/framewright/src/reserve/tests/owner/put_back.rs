//! Pages that are on no device, and owners that want their frames.

use super::*;
use crate::frame::{AllocError, FrameSource};
use crate::units::{Context, Run, RunError};

/// Frames behind those of the reserve, counted. All such sources stand for one memory.
pub(in super::super) struct OrdinaryFrames {
    pub(in super::super) free: Vec<Frame>,
    calls: u64,
}

impl OrdinaryFrames {
    pub(in super::super) fn new(from: u64, frames: u64) -> Self {
        let free = (from..from + frames).rev().map(Frame).collect();
        Self { free, calls: 0 }
    }
}

impl FrameSource for OrdinaryFrames {
    fn origin(&self) -> u64 {
        7
    }

    fn frames_in_all(&self) -> u64 {
        self.free.len() as u64
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        self.calls += 1;
        let frame = self.free.pop().ok_or(AllocError::Exhausted)?;
        Ok(Run::new(frame, 1).unwrap())
    }

    fn free_run(&mut self, run: Run) {
        let frame = run.start();
        assert!(!self.free.contains(&frame), "given back twice");
        self.free.push(frame);
    }
}

pub(in super::super) const PUT_BACK: PoolConfig = PoolConfig {
    put_back: true,
    ..PoolConfig::SWAP
};

/// A reserve of this many frames with room for this many pages in ordinary ones, which lie behind it.
pub(in super::super) fn beside(
    frames: u64,
    ordinary: u64,
) -> (
    Box<Reserve<'static, ReserveToy>>,
    ReserveToy,
    OrdinaryFrames,
) {
    let pages = (0..frames + ordinary).map(|_| core::array::from_fn(|_| AtomicU64::new(0)));
    let toy = ReserveToy(Arc::new(pages.collect()));
    let layout = ReserveLayout::new(Run::new(Frame(FIRST), frames).unwrap())
        .with_cpus(2)
        .with_ordinary(ordinary as u32);
    let memory = std::vec![u64::MAX; layout.words_needed().unwrap()].leak();
    let reserve = Reserve::new(&layout, memory, toy.clone()).unwrap();
    let supply = OrdinaryFrames::new(FIRST + frames, ordinary);
    (Box::new(reserve), toy, supply)
}

pub(in super::super) fn key(pool: PoolId, index: u64) -> Key {
    Key {
        pool,
        object: index % 3,
        index,
    }
}

#[test]
fn c7_every_dirty_page_is_found_when_an_owner_has_its_frame() {
    let (reserve, toy, mut supply) = beside(64, 40);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..30 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    for index in 30..64 {
        guest.put(key(pool, index), &page(index)).unwrap();
    }
    assert_eq!(reserve.alloc_contig(64, 1), Err(RunError::NoRoom));
    let run = reserve.alloc_contig_with(64, 1, &mut supply).unwrap();
    assert_eq!(run.frames(), 64);
    toy.fill(run, 0xdead);
    assert_eq!(supply.free.len(), 10);
    for _ in 0..2 {
        for index in 0..30 {
            assert!(guest.get(key(pool, index), &mut out), "page {index}");
            assert_eq!(stamp(&out), index);
        }
    }
    assert!((30..64).all(|index| !guest.get(key(pool, index), &mut out)));
    assert_eq!(reserve.stats().put_back_pages, 30);
    assert_eq!(reserve.stats().frontswap.held_pages, 30);
    reserve.verify().unwrap();
    // Each way in which one ends gives its frame back.
    guest.invalidate_page(key(pool, 0));
    guest.put_dirty(key(pool, 1), &page(101)).unwrap_err();
    assert_eq!(reserve.collect(&mut supply), 2);
    guest.invalidate_object(pool, 2);
    assert_eq!(reserve.collect(&mut supply), 10);
    let mut frames = Vec::new();
    let cleaned = guest.clean(4, |key, frame| {
        toy.load(frame, &mut out);
        assert_eq!(stamp(&out), key.index);
        frames.push(frame);
        frames.len() != 2
    });
    assert_eq!((cleaned.written, cleaned.failed), (3, 1));
    assert!(frames.iter().all(|frame| !run.contains(*frame)));
    assert_eq!(reserve.collect(&mut supply), 3);
    reserve.verify().unwrap();
    assert_eq!(reserve.stats().frontswap.held_pages, 15);
    assert!(guest.invalidate_pool(pool));
    assert_eq!(reserve.collect(&mut supply), 15);
    assert_eq!((supply.free.len(), reserve.collect(&mut supply)), (40, 0));
    assert_eq!(reserve.stats().frontswap.held_pages, 0);
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}

#[test]
fn an_exclusive_get_takes_a_dirty_page_away_wherever_it_lies() {
    let (reserve, toy, mut supply) = beside(16, 16);
    let config = PoolConfig {
        exclusive: true,
        dirty_pages_max: 8,
        ..PUT_BACK
    };
    let pool = reserve.open_pool(&config).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..8 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    assert!(guest.get(key(pool, 0), &mut out) && stamp(&out) == 0);
    assert!(!guest.get(key(pool, 0), &mut out));
    let run = reserve.alloc_contig_with(16, 1, &mut supply).unwrap();
    toy.fill(run, 7);
    assert_eq!(supply.free.len(), 9);
    for index in 1..8 {
        assert!(guest.get(key(pool, index), &mut out), "{index}");
        assert_eq!(stamp(&out), index);
        assert!(!guest.get(key(pool, index), &mut out));
    }
    assert_eq!(reserve.collect(&mut supply), 7);
    reserve.release(run).unwrap();
    // None of them counts now.
    for index in 0..8 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    // A page that is got while it is written belongs to the getter; the writer finds that it is
    // gone.
    drop(guest);
    let mut cleaner = super::guest(&reserve, 0);
    let mut other = super::guest(&reserve, 1);
    let cleaned = cleaner.clean(1, |key, _| {
        assert!(other.get(*key, &mut out) && stamp(&out) == key.index);
        true
    });
    assert_eq!(cleaned.overtaken, 1);
    assert_eq!(reserve.stats().frontswap.held_pages, 7);
    reserve.verify().unwrap();
}

#[test]
fn without_ordinary_memory_nothing_is_lost_and_a_clean_run_is_taken_if_there_is_one() {
    let (reserve, _, _) = beside(32, 8);
    let mut supply = OrdinaryFrames::new(FIRST + 32, 3);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..8 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    let whole = reserve.alloc_contig_with(32, 1, &mut supply);
    assert!(matches!(whole, Err(RunError::NoMemory(_))), "{whole:?}");
    assert!((0..8).all(|index| guest.get(key(pool, index), &mut out) && stamp(&out) == index));
    reserve.verify().unwrap();
    let clean = reserve.alloc_contig_with(20, 1, &mut supply).unwrap();
    reserve.release(clean).unwrap();
    // As many pages in ordinary frames as may be: the same.
    let mut plenty = OrdinaryFrames::new(FIRST + 32, 0);
    plenty.free = (3..103).rev().map(|n| Frame(FIRST + 32 + n)).collect();
    for index in 8..14 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    drop(supply);
    let whole = reserve.alloc_contig_with(32, 1, &mut plenty);
    assert!(matches!(whole, Err(RunError::NoMemory(_))), "{whole:?}");
    assert_eq!(plenty.free.len(), 100 - 5);
    assert!((0..14).all(|index| guest.get(key(pool, index), &mut out) && stamp(&out) == index));
    reserve.verify().unwrap();
    // Where no page may go, no page goes, and a reserve without room asks no supply.
    let (reserve, _, mut supply) = beside(8, 0);
    let stays = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = super::guest(&reserve, 0);
    guest.put_dirty(key(stays, 0), &page(0)).unwrap();
    let whole = reserve.alloc_contig_with(8, 1, &mut supply);
    assert_eq!((whole, supply.calls), (Err(RunError::NoRoom), 0));
    guest.invalidate_page(key(stays, 0));
    let moves = reserve.open_pool(&PUT_BACK).unwrap();
    guest.put_dirty(key(moves, 0), &page(0)).unwrap();
    let whole = reserve.alloc_contig_with(8, 1, &mut supply);
    assert!(matches!(whole, Err(RunError::NoMemory(_))), "{whole:?}");
    assert_eq!(supply.calls, 0);
    reserve.verify().unwrap();
}

#[test]
fn pages_to_be_put_back_cost_more_than_clean_ones_and_less_than_none() {
    let (reserve, _, mut supply) = beside(512, 64);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    // The first 64 frames are dirty, the next 64 clean, the others an owner's.
    for index in 0..64 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    for index in 64..128 {
        guest.put(key(pool, index), &page(index)).unwrap();
    }
    let others = reserve.alloc_contig(384, 1).unwrap();
    assert_eq!(others.start(), Frame(FIRST + 128));
    let clean = reserve.alloc_contig_with(64, 1, &mut supply).unwrap();
    assert_eq!((clean.start(), supply.calls), (Frame(FIRST + 64), 0));
    let single = reserve.alloc_contig_with(1, 1, &mut supply).unwrap();
    assert_eq!(reserve.stats().put_back_pages, 1);
    assert!(single.start() < clean.start());
    let rest = reserve.alloc_contig_with(63, 1, &mut supply).unwrap();
    assert_eq!(reserve.stats().put_back_pages, 64);
    assert_eq!(
        reserve.alloc_contig_with(1, 1, &mut supply),
        Err(RunError::NoRoom)
    );
    for run in [others, clean, single, rest] {
        reserve.release(run).unwrap();
    }
    reserve.verify().unwrap();
}

#[test]
fn a_page_to_be_put_back_counts_as_much_as_64_clean_ones() {
    for (dirty, is_first_taken) in [(1, true), (2, false)] {
        let (reserve, _, mut supply) = beside(192, 64);
        let pool = reserve.open_pool(&PUT_BACK).unwrap();
        let mut guest = guest(&reserve, 0);
        // Frames in the order of the numbers: some dirty ones alone, an owner's, 64 clean ones, of which 40
        // count twice.
        for index in 0..dirty {
            guest.put_dirty(key(pool, index), &page(index)).unwrap();
        }
        for index in dirty..192 {
            guest.put(key(pool, index), &page(index)).unwrap();
        }
        for index in 64..128 {
            guest.invalidate_page(key(pool, index));
        }
        let owned = reserve.alloc_contig(64, 1).unwrap();
        assert_eq!(owned.start(), Frame(FIRST + 64));
        for index in dirty..64 {
            guest.invalidate_page(key(pool, index));
        }
        assert!((128..168).all(|index| guest.get(key(pool, index), &mut [0; 512])));
        let run = reserve.alloc_contig_with(64, 1, &mut supply).unwrap();
        let start = if is_first_taken { 0 } else { 128 };
        assert_eq!(run.start(), Frame(FIRST + start), "{dirty} dirty ones");
        assert_eq!(supply.calls, u64::from(is_first_taken));
    }
}

#[test]
fn c3_a_reservation_is_placed_and_taken_beside_pages_that_were_put_back() {
    let (reserve, _, mut supply) = beside(64, 64);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..64 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    assert_eq!(reserve.reserve("late", 16, 1), Err(RunError::Held));
    let run = reserve.alloc_contig_with(32, 1, &mut supply).unwrap();
    reserve.release(run).unwrap();
    let reservation = reserve.reserve("late", 32, 1).unwrap();
    for index in 64..200 {
        let put = guest.put_dirty(key(pool, index), &page(index));
        assert_eq!(put, Err(PutRefused::Full), "C3");
    }
    reserve.take(reservation).unwrap();
    assert!((0..64).all(|index| guest.get(key(pool, index), &mut out) && stamp(&out) == index));
    reserve.verify().unwrap();
}

#[test]
fn a_supply_that_panics_leaves_pages_and_frames_as_they_were() {
    struct PanickingSupply(OrdinaryFrames, u64);
    impl FrameSource for PanickingSupply {
        fn origin(&self) -> u64 {
            self.0.origin()
        }
        fn frames_in_all(&self) -> u64 {
            self.0.frames_in_all()
        }
        fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
            self.1 -= 1;
            assert!(self.1 > 0, "as told");
            self.0.alloc_run(frames, context)
        }
        fn free_run(&mut self, run: Run) {
            self.0.free_run(run);
        }
    }
    let (reserve, _, supply) = beside(16, 16);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..8 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    let mut supply = PanickingSupply(supply, 4);
    let takes = std::panic::AssertUnwindSafe(|| reserve.alloc_contig_with(16, 1, &mut supply));
    assert!(std::panic::catch_unwind(takes).is_err());
    assert!((0..8).all(|index| guest.get(key(pool, index), &mut out) && stamp(&out) == index));
    reserve.verify().unwrap();
    supply.1 = 100;
    let run = reserve.alloc_contig_with(16, 1, &mut supply).unwrap();
    assert!((0..8).all(|index| guest.get(key(pool, index), &mut out) && stamp(&out) == index));
    guest.invalidate_pool(pool);
    reserve.collect(&mut supply);
    assert_eq!(supply.0.free.len(), 16);
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}

#[test]
fn a_frame_that_becomes_free_while_a_run_is_cleared_is_used_for_the_pages_after_it() {
    /// Forgets some pages that have been put back, when it has been asked so often.
    struct Forgets<'r> {
        ordinary: OrdinaryFrames,
        calls: u64,
        guest: Guest<'r, 'static, ReserveToy>,
        pool: PoolId,
    }
    impl FrameSource for Forgets<'_> {
        fn origin(&self) -> u64 {
            self.ordinary.origin()
        }
        fn frames_in_all(&self) -> u64 {
            self.ordinary.frames_in_all()
        }
        fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
            if self.ordinary.calls == self.calls {
                (0..10).for_each(|index| self.guest.invalidate_page(key(self.pool, index)));
            }
            self.ordinary.alloc_run(frames, context)
        }
        fn free_run(&mut self, run: Run) {
            self.ordinary.free_run(run);
        }
    }
    // At the last frame there is a descriptor for, and where there is a descriptor and no frame.
    for (descriptors, frames, calls) in [(40, 100, 39), (100, 40, 40)] {
        let (reserve, _, _) = beside(64, descriptors);
        let pool = reserve.open_pool(&PUT_BACK).unwrap();
        let mut guest = super::guest(&reserve, 0);
        for index in 0..50 {
            guest.put_dirty(key(pool, index), &page(index)).unwrap();
        }
        let ordinary = OrdinaryFrames::new(FIRST + 64, frames);
        let mut supply = Forgets {
            ordinary,
            calls,
            guest,
            pool,
        };
        let run = reserve.alloc_contig_with(64, 1, &mut supply).unwrap();
        assert_eq!(reserve.stats().put_back_pages, 50);
        let mut out = [0; 512];
        for index in 0..50 {
            let found = supply.guest.get(key(pool, index), &mut out);
            assert_eq!(found, index >= 10);
            assert!(!found || stamp(&out) == index);
        }
        reserve.release(run).unwrap();
        supply.guest.invalidate_pool(pool);
        reserve.collect(&mut supply);
        assert_eq!(supply.ordinary.free.len() as u64, frames);
        reserve.verify().unwrap();
    }
}

/// A supply that has nothing, and says so only when another owner has looked for frames.
struct EmptySupply<'t>(&'t dyn Fn());

impl FrameSource for EmptySupply<'_> {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        0
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        self.0();
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, _frames: Run) {
        panic!("it gave none");
    }
}

/// One owner keeps all frames while it clears them, and fails. All of them but one were free at each moment.
#[test]
fn c10_an_owner_that_clears_a_run_and_fails_makes_no_other_one_fail() {
    type Request = fn(&Reserve<'static, ReserveToy>, &mut OrdinaryFrames) -> bool;
    let requests: [Request; 3] = [
        |reserve, _| reserve.alloc_contig(8, 1).is_ok(),
        |reserve, supply| reserve.alloc_contig_with(64, 1, supply).is_ok(),
        |reserve, _| reserve.reserve("other", 8, 8).is_ok(),
    ];
    for request in requests {
        let (reserve, _, mut supply) = beside(64, 8);
        let pool = reserve.open_pool(&PUT_BACK).unwrap();
        guest(&reserve, 0)
            .put_dirty(key(pool, 1), &page(1))
            .unwrap();
        let failed = reserve.stats().takes_failed;
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let has_asked = || {
                    begin.wait();
                    // Time in which the other one finds nothing. It waits until this one has failed.
                    std::thread::sleep(std::time::Duration::from_millis(2));
                };
                reserve.alloc_contig_with(64, 1, &mut EmptySupply(&has_asked))
            });
            begin.wait();
            assert!(request(&reserve, &mut supply));
            let error = first.join().unwrap().unwrap_err();
            assert!(matches!(error, RunError::NoMemory(_)), "{error}");
        });
        assert!(reserve.stats().takes_failed <= failed + 1);
        reserve.verify().unwrap();
    }
}

#[test]
fn a_request_that_no_cleared_frame_would_serve_does_not_wait_for_it() {
    let (reserve, _, mut supply) = beside(64, 8);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    guest(&reserve, 0)
        .put_dirty(key(pool, 1), &page(1))
        .unwrap();
    let kept = reserve.reserve("kept", 8, 8).unwrap();
    let asks = || {
        // The first owner waits for this one here, so a wait would end without a result.
        assert_eq!(reserve.alloc_contig(64, 1), Err(RunError::NoRoom));
        let refused = reserve.reserve("other", 64, 1);
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(reserve.alloc_contig(8, 1), Err(RunError::WouldWait));
        let run = reserve.take(kept).unwrap();
        reserve.release(run).unwrap();
    };
    let first = reserve.alloc_contig_with(56, 8, &mut EmptySupply(&asks));
    assert!(matches!(first, Err(RunError::NoMemory(_))), "{first:?}");
    let run = reserve.alloc_contig_with(56, 8, &mut supply).unwrap();
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}
