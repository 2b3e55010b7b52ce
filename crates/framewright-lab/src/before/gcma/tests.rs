//! The port does what was published, its faults included: each `as_published_...` test shows one that the engine's
//! reservations do not have.

mod poison;

use super::*;
use framewright::Frame;
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::reserve::{Contiguous, Reserve, ReserveLayout, Store};
use framewright_sim::contract::{House, PoolPages, Verdict, verdicts};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;

/// Frames of memory, copied word by word.
#[derive(Debug)]
struct GcmaMemory(Vec<[AtomicU64; 512]>);

impl GcmaMemory {
    fn new(frames: u64) -> Self {
        Self(
            (0..frames)
                .map(|_| std::array::from_fn(|_| AtomicU64::new(0)))
                .collect(),
        )
    }
}

impl FramePlatform for GcmaMemory {
    fn relax(&self, _attempt: u32) {
        std::thread::yield_now();
    }
}

impl ReservePlatform for GcmaMemory {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        for (to, from) in self.0[frame.0 as usize].iter().zip(page) {
            to.store(*from, Relaxed);
        }
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        for (to, from) in page.iter_mut().zip(&self.0[frame.0 as usize]) {
            *to = from.load(Relaxed);
        }
    }
}

fn area(frames: u64, conduct: Conduct) -> Gcma<GcmaMemory> {
    let run = Run::new(Frame(0), frames).unwrap();
    Gcma::new(run, conduct, GcmaMemory::new(frames))
}

fn key(pool: PoolId, object: u64, index: u64) -> Key {
    Key {
        pool,
        object,
        index,
    }
}

/// What a get finds: the page's only word.
fn word(gcma: &Gcma<GcmaMemory>, key: Key) -> Option<u64> {
    let mut page = [0; 512];
    let hit = gcma.get(key, &mut page);
    assert!(page.iter().all(|w| *w == page[0]), "torn");
    hit.then_some(page[0])
}

#[test]
fn a_page_stays_until_the_last_used_of_its_own_client_goes() {
    let gcma = area(64, Conduct::Mended);
    let pool = gcma.open_pool(GcmaKind::Cleancache).unwrap();
    for index in 0..64 {
        gcma.put(key(pool, 7, index), &[index; 512]).unwrap();
    }
    assert_eq!(gcma.free_frames(), 0);
    assert_eq!(word(&gcma, key(pool, 7, 0)), Some(0), "and is first again");
    gcma.put(key(pool, 8, 0), &[100; 512]).unwrap();
    let left: Vec<u64> = (0..64)
        .filter(|i| word(&gcma, key(pool, 7, *i)).is_some())
        .collect();
    assert_eq!(
        left,
        [&[0], &(33..64).collect::<Vec<_>>()[..]].concat(),
        "32 at a time"
    );
    assert_eq!(word(&gcma, key(pool, 8, 0)), Some(100));
    let counters = gcma.counters(GcmaKind::Cleancache);
    assert_eq!((counters.stored_pages, counters.evicted_pages), (65, 32));
    // The other client finds what is free, and nothing of this one's.
    let swap = gcma.open_pool(GcmaKind::Frontswap).unwrap();
    let stored = (0..64)
        .filter(|i| gcma.put(key(swap, 0, *i), &[*i; 512]).is_ok())
        .count();
    assert_eq!(stored, 64, "its own are evicted for it");
    let held = [pool, swap].map(|pool| gcma.pools[usize::from(pool.0)].len());
    assert_eq!(held, [33, 2], "31 frames were free, and are its own");
}

#[test]
fn a_chosen_run_is_taken_as_it_is_or_not_at_all() {
    let run = |start, frames| Run::new(Frame(start), frames).unwrap();
    let gcma = Gcma::new(run(64, 64), Conduct::Mended, GcmaMemory::new(128));
    let pool = gcma.open_pool(GcmaKind::Cleancache).unwrap();
    (0..64).for_each(|i| gcma.put(key(pool, 1, i), &[i; 512]).unwrap());
    let dropped = || gcma.counters(GcmaKind::Cleancache).reclaimed_pages;
    assert!(gcma.take_at(run(80, 8)));
    assert_eq!(dropped(), 8);
    // Taken, in part taken, and outside.
    for (start, frames) in [
        (80, 8),
        (84, 1),
        (87, 4),
        (72, 9),
        (60, 8),
        (120, 9),
        (128, 1),
    ] {
        assert!(!gcma.take_at(run(start, frames)), "{start}, {frames}");
    }
    assert_eq!(dropped(), 8);
    // Those that were refused have left nothing taken.
    assert!(gcma.take_at(run(72, 8)) && gcma.take_at(run(88, 4)));
    assert!(gcma.give_back(run(80, 8)));
    assert!(gcma.take_at(run(80, 8)));
    // No other request is given them.
    assert_eq!((&gcma).alloc_contig(8, 8), Ok(run(64, 8)));
    assert_eq!((&gcma).alloc_contig(8, 8), Ok(run(96, 8)));
}

#[test]
fn one_client_starves_the_other() {
    let gcma = area(64, Conduct::Mended);
    let clean = gcma.open_pool(GcmaKind::Cleancache).unwrap();
    let swap = gcma.open_pool(GcmaKind::Frontswap).unwrap();
    (0..64).for_each(|i| gcma.put(key(clean, 1, i), &[i; 512]).unwrap());
    assert_eq!(
        gcma.put(key(swap, 0, 0), &[1; 512]),
        Err(PutRefused::Full),
        "fault 8"
    );
    assert_eq!(gcma.pools[usize::from(clean.0)].len(), 64);
}

#[test]
fn an_owner_takes_what_guests_have_and_gives_it_back() {
    let gcma = area(256, Conduct::Mended);
    let pool = gcma.open_pool(GcmaKind::Frontswap).unwrap();
    (0..200).for_each(|i| gcma.put(key(pool, 0, i), &[i; 512]).unwrap());
    let run = gcma.take(128, 32).unwrap();
    assert_eq!((run.start().0 % 32, run.frames()), (0, 128));
    let lost = (0..200)
        .filter(|i| word(&gcma, key(pool, 0, *i)).is_none())
        .count();
    assert_eq!(lost, 128);
    assert_eq!(gcma.counters(GcmaKind::Frontswap).reclaimed_pages, 128);
    let more = gcma.take(100, 1).unwrap();
    assert!(more.start() >= run.end());
    assert_eq!(gcma.take(29, 1), None);
    assert_eq!(gcma.take(28, 1).map(|run| run.start().0), Some(228));
    assert_eq!(gcma.put(key(pool, 0, 1), &[1; 512]), Err(PutRefused::Full));
    assert!(gcma.give_back(run) && !gcma.give_back(run));
    assert_eq!(gcma.free_frames(), 128);
    gcma.put(key(pool, 0, 1), &[1; 512]).unwrap();
    let counters = gcma.take_counters();
    assert_eq!((counters.takes, counters.taken_free), (3, 56));
}

#[test]
fn a_pool_that_is_invalidated_has_no_pages_and_takes_none() {
    let gcma = area(64, Conduct::Mended);
    let (one, other) = (
        gcma.open_pool(GcmaKind::Cleancache).unwrap(),
        gcma.open_pool(GcmaKind::Cleancache).unwrap(),
    );
    gcma.put(key(one, 1, 1), &[1; 512]).unwrap();
    gcma.put(key(other, 1, 1), &[2; 512]).unwrap();
    assert!(gcma.invalidate_pool(one) && !gcma.invalidate_pool(one));
    assert_eq!(gcma.put(key(one, 1, 1), &[3; 512]), Err(PutRefused::NoPool));
    assert_eq!(word(&gcma, key(other, 1, 1)), Some(2));
    assert_eq!(gcma.free_frames(), 63);
    assert_eq!(gcma.open_pool(GcmaKind::Cleancache), Some(one));
    assert_eq!(word(&gcma, key(one, 1, 1)), None);
    let rest = (0..16)
        .filter(|_| gcma.open_pool(GcmaKind::Cleancache).is_some())
        .count();
    assert_eq!(rest, 14);
}

#[test]
fn as_published_an_object_outlives_its_invalidation() {
    for (conduct, left) in [(Conduct::AsPublished, Some(5)), (Conduct::Mended, None)] {
        let gcma = area(64, conduct);
        let pool = gcma.open_pool(GcmaKind::Cleancache).unwrap();
        gcma.put(key(pool, 1, 1), &[5; 512]).unwrap();
        gcma.put(key(pool, 2, 1), &[6; 512]).unwrap();
        gcma.invalidate_object(pool, 1);
        assert_eq!(word(&gcma, key(pool, 1, 1)), left, "fault 1, {conduct:?}");
        assert_eq!(word(&gcma, key(pool, 2, 1)), Some(6));
    }
}

#[test]
fn as_published_a_refused_store_leaves_the_older_copy() {
    for (conduct, left) in [(Conduct::AsPublished, Some(1)), (Conduct::Mended, None)] {
        let gcma = area(64, conduct);
        let clean = gcma.open_pool(GcmaKind::Cleancache).unwrap();
        gcma.put(key(clean, 1, 1), &[1; 512]).unwrap();
        // Owners have all other frames. A reader has the page: `held` is its reference, and the page
        // is off its list, so that no store can evict it.
        let rest = gcma.take_range(1..64);
        assert!(rest);
        let held = lock(&gcma.lrus[0]).entry(0).unwrap();
        gcma.leave_lru(&held, DmemClient::Clean);
        assert_eq!(gcma.put(key(clean, 1, 1), &[2; 512]), Err(PutRefused::Full));
        gcma.release(held);
        assert_eq!(word(&gcma, key(clean, 1, 1)), left, "fault 2, {conduct:?}");
    }
}

#[test]
fn as_published_a_retry_isolates_frames_behind_the_request() {
    for (conduct, owned) in [(Conduct::AsPublished, 20), (Conduct::Mended, 16)] {
        let gcma = area(64, conduct);
        let pool = gcma.open_pool(GcmaKind::Frontswap).unwrap();
        (0..5).for_each(|i| gcma.put(key(pool, 0, i), &[i; 512]).unwrap());
        // A reader has the page in frame 4 while the owner walks the range for the first time.
        let reader = lock(&gcma.lrus[1]).entry(4).unwrap();
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| gcma.take_range(0..16));
            // As published, until it walks again, behind the request: the page goes no earlier.
            let walked = if conduct == Conduct::AsPublished {
                19
            } else {
                15
            };
            while !gcma.flags[walked].has(area::ISOLATED) && !owner.is_finished() {
                std::thread::yield_now();
            }
            gcma.release(reader);
            assert!(owner.join().unwrap());
        });
        let isolated = (0..64)
            .filter(|f| gcma.flags[*f].has(area::ISOLATED))
            .count();
        assert_eq!(isolated, owned, "fault 3, {conduct:?}");
    }
}

#[test]
fn as_published_a_key_that_is_stored_again_during_an_eviction_is_released_twice() {
    let gcma = area(64, Conduct::AsPublished);
    let pool = gcma.open_pool(GcmaKind::Frontswap).unwrap();
    gcma.put(key(pool, 0, 9), &[1; 512]).unwrap();
    // The evictor has its reference, and has not looked the key up yet.
    let old = {
        let mut lru = lock(&gcma.lrus[1]);
        let old = lru.entry(0).unwrap();
        lru.unlink(0);
        gcma.flags[0].clear(area::LRU);
        old
    };
    gcma.put(key(pool, 0, 9), &[2; 512]).unwrap();
    gcma.drop_from_tree(old);
    assert_eq!(gcma.take_counters().double_releases, 1, "fault 4");
    assert_eq!(
        word(&gcma, key(pool, 0, 9)),
        Some(2),
        "which is not made here"
    );
    assert_eq!(gcma.free_frames(), 63);
}

#[test]
fn as_published_an_owner_is_given_a_frame_that_is_being_stored_to() {
    let gcma = area(64, Conduct::AsPublished);
    assert!(gcma.take_range(0..1));
    gcma.free_range(0..1);
    // A store has the frame, and has not cleared its flags yet.
    let frame = lock(&gcma.area).take_first();
    assert_eq!(frame, Some(0));
    assert!(gcma.take_range(0..1), "fault 5: it reads as isolated");
    let mended = area(64, Conduct::Mended);
    assert!(mended.take_range(0..1));
    mended.free_range(0..1);
    assert_eq!(mended.alloc_page(), Some(0));
    assert!(
        !mended.flags[0].has(area::ISOLATED),
        "an owner waits for the store"
    );
}

#[test]
fn as_published_a_range_has_two_owners() {
    let published = area(64, Conduct::AsPublished);
    assert!(
        published.take_range(0..8) && published.take_range(4..12),
        "fault 6"
    );
    let mended = area(64, Conduct::Mended);
    assert!(mended.take_range(0..8) && !mended.take_range(4..12));
    assert_eq!(mended.free_frames(), 56);
}

/// What the reservations of the engine are for.
#[test]
fn plain_requests_fragment_each_other_and_the_guarantee_of_the_proposal_fails() {
    let gcma = area(1024, Conduct::Mended);
    let singles: Vec<Run> = (0..1024).map(|_| gcma.take(1, 1).unwrap()).collect();
    assert_eq!(gcma.take(1, 1), None);
    for single in singles.iter().filter(|run| run.start().0 % 2 == 0) {
        assert!(gcma.give_back(*single));
    }
    // Half of the frames are free and no guest has a page, yet no owner gets two side by side.
    assert_eq!(gcma.free_frames(), 512);
    assert_eq!(gcma.take(2, 1), None);
    assert!((&gcma).reserve("display", 512, 512).is_err());

    // The same owners beside a reservation.
    let memory = GcmaMemory::new(1024);
    let layout = ReserveLayout::new(Run::new(Frame(0), 1024).unwrap());
    let mut words = vec![0; layout.words_needed().unwrap()];
    let reserve = Reserve::new(&layout, &mut words, &memory).unwrap();
    let reservation = reserve.reserve("display", 512, 512).unwrap();
    let singles: Vec<Run> = std::iter::from_fn(|| reserve.alloc_contig(1, 1).ok()).collect();
    assert_eq!(singles.len(), 512);
    for single in singles.iter().filter(|run| run.start().0 % 2 == 0) {
        reserve.release(*single).unwrap();
    }
    assert!(reserve.alloc_contig(2, 1).is_err(), "nor here, of the rest");
    assert_eq!(reserve.take(reservation).map(|run| run.frames()), Ok(512));
}

/// The port with an owner, for the checks of the contract. Its only pools for objects of pages are those of
/// cleancache, whose gets leave a page where it is. No second thread can act in the middle of a copy.
struct GcmaHouse<'g> {
    gcma: &'g Gcma<GcmaMemory>,
    store: &'g Gcma<GcmaMemory>,
}

impl House for GcmaHouse<'_> {
    fn frames(&self) -> u64 {
        self.gcma.run().frames()
    }

    fn open_pool(&mut self, pages: PoolPages) -> Option<PoolId> {
        let is_staying = pages == PoolPages::Staying;
        is_staying.then(|| self.gcma.open_pool(GcmaKind::Cleancache))?
    }

    fn store(&mut self) -> &mut dyn Store {
        &mut self.store
    }

    fn take(&mut self, frames: u64) -> Option<Run> {
        self.gcma.take(frames, 1)
    }

    fn release(&mut self, run: Run) {
        assert!(self.gcma.give_back(run), "the owner's run");
    }

    fn is_filled(&self, run: Run, word: u64) -> bool {
        let mut frames = (run.start().0..run.end().0).map(|f| &self.gcma.platform.0[f as usize]);
        frames.all(|frame| frame.iter().all(|is| is.load(Relaxed) == word))
    }
}

#[test]
fn as_published_the_guests_contract_is_broken_and_mended_it_is_kept() {
    let broken = |conduct| {
        let verdicts = verdicts(|work| {
            let gcma = area(32, conduct);
            work(&mut GcmaHouse {
                gcma: &gcma,
                store: &gcma,
            });
        });
        let kept = verdicts.iter().filter(|(_, v)| *v == Verdict::Kept).count();
        assert!(kept >= 8, "most clauses are checked: {verdicts:?}");
        let broken = verdicts
            .iter()
            .filter(|(_, v)| matches!(v, Verdict::Broken(_)));
        broken.map(|(clause, _)| clause.says).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(broken(Conduct::Mended), none);
    let object = "an object that was invalidated is not served";
    assert_eq!(broken(Conduct::AsPublished), [object], "fault 1");
}

#[test]
fn a_pools_number_is_another_ones_only_after_its_pages_are_gone() {
    let gcma = area(16, Conduct::Mended);
    let pool = gcma.open_pool(GcmaKind::Frontswap).unwrap();
    let of_pool = &gcma.pools[usize::from(pool.0)];
    let last = lock(of_pool.bucket(BUCKETS - 1));
    std::thread::scope(|scope| {
        let emptying = scope.spawn(|| gcma.invalidate_pool(pool));
        while of_pool.is_open() {
            std::thread::yield_now();
        }
        let other = gcma.open_pool(GcmaKind::Frontswap);
        assert!(other.is_some() && other != Some(pool));
        assert!(!gcma.invalidate_pool(pool), "it is no more");
        drop(last);
        assert!(emptying.join().unwrap());
    });
    assert_eq!(gcma.open_pool(GcmaKind::Frontswap), Some(pool));
}

/// Memory that ends a pool at its next store, and opens another under the same number.
struct ReopensPool {
    memory: GcmaMemory,
    of: Cell<Option<(&'static Gcma<ReopensPool>, PoolId)>>,
}

impl FramePlatform for ReopensPool {
    fn relax(&self, attempt: u32) {
        self.memory.relax(attempt);
    }
}

impl ReservePlatform for ReopensPool {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.memory.store(frame, page);
        if let Some((gcma, pool)) = self.of.take() {
            assert!(gcma.invalidate_pool(pool));
            assert_eq!(gcma.open_pool(GcmaKind::Frontswap), Some(pool));
        }
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        self.memory.load(frame, page);
    }
}

#[test]
fn a_page_whose_pool_ends_while_it_is_stored_is_in_no_later_pool() {
    let memory = ReopensPool {
        memory: GcmaMemory::new(16),
        of: Cell::new(None),
    };
    let run = Run::new(Frame(0), 16).unwrap();
    let gcma = &*Box::leak(Box::new(Gcma::new(run, Conduct::Mended, memory)));
    let pool = gcma.open_pool(GcmaKind::Frontswap).unwrap();
    gcma.platform.of.set(Some((gcma, pool)));
    let put = gcma.put(key(pool, 0, 1), &[1; 512]);
    assert_eq!(put, Err(PutRefused::NoPool));
    assert!(!gcma.get(key(pool, 0, 1), &mut [0; 512]));
    assert_eq!(gcma.free_frames(), 16);
}
