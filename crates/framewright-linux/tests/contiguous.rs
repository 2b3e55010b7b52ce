//! Contiguous runs out of memory that threads write to.

use framewright::RunError;
use framewright::frame::{Seat, ZoneLayout};
use framewright::policy::{ContigConfig, ReclaimConfig};
use framewright::reclaim::{Clients, Migrate, Reclaim};
use framewright::reserve::{Contiguous, MigrateArea};
use framewright::{Frame, Order, Page, PageRange, Run};
use framewright_linux::anon::Anon;
use framewright_linux::{Host, Linux, Options};
use framewright_sim::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

type ContiguousSeat<'h> = Seat<'h, 'h, Linux<()>>;
type ContiguousArea<'h> = MigrateArea<'h, 'h, 'h, Linux<()>>;

/// 96 MiB, of which the upper 64 are the area.
const FRAMES: u64 = 24_576;
const AREA: u64 = 16_384;
/// Frames do not begin at 0: what mistakes a frame's number for its place is found.
const FIRST: u64 = 5 << 9;
/// This many pages are populated: more than lie beside the area, and room for the largest run remains.
const PAGES: u64 = 14_000;

fn host() -> Host<()> {
    Host::fenced(&Options::new(
        ZoneLayout::new(Frame(FIRST), FRAMES).with_cpus(4),
    ))
    .unwrap()
}

fn area_run() -> Run {
    Run::new(Frame(FIRST + FRAMES - AREA), AREA).unwrap()
}

/// The first and the last word of a page, and which page it is.
#[derive(Clone, Copy)]
struct StampedPage(*mut u64, u64);

// SAFETY: an address; below it is said which thread writes which page.
unsafe impl Send for StampedPage {}

impl StampedPage {
    fn of(anon: &Anon, nth: u64) -> Self {
        let page = Page(anon.range().start().0 + nth);
        Self(anon.address(page).unwrap().cast(), nth)
    }

    fn set(self, count: u64) {
        for word in [0, 511] {
            // SAFETY: inside a populated page that no other thread writes at the moment.
            unsafe { self.0.add(word).write_volatile(self.1 << 32 | count) }
        }
    }

    /// How often it was written, if it is this page.
    fn count(self) -> u64 {
        // SAFETY: as above.
        let [first, last] = [0, 511].map(|word| unsafe { self.0.add(word).read_volatile() });
        assert_eq!((first, first >> 32), (last, self.1), "page {}", self.1);
        first & 0xffff_ffff
    }
}

/// Two threads count in the pages, each in every other one, while `work` runs.
fn beside_two_writers(anon: &Anon, work: impl FnOnce()) -> u64 {
    let (end, wrote) = (AtomicBool::new(false), AtomicU64::new(0));
    /// What panics must not leave the writers running.
    struct WritersEnd<'e>(&'e AtomicBool);
    impl Drop for WritersEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let mine: Vec<StampedPage> = (thread..PAGES)
                .step_by(2)
                .map(|page| StampedPage::of(anon, page))
                .collect();
            let (end, wrote) = (&end, &wrote);
            scope.spawn(move || {
                let mine = mine;
                let mut random = Random::new(thread);
                while !end.load(Relaxed) {
                    let page = mine[random.index(mine.len())];
                    page.set(page.count() + 1);
                    wrote.fetch_add(1, Relaxed);
                }
            });
        }
        let _ends = WritersEnd(&end);
        while wrote.load(Relaxed) < 100 {
            std::thread::yield_now();
        }
        work();
    });
    wrote.into_inner()
}

fn lent(anon: &Anon) -> Vec<Page> {
    let pages = anon.range().start().0..anon.range().start().0 + PAGES;
    pages
        .map(Page)
        .filter(|&page| {
            anon.frame_of(page)
                .is_some_and(|frame| area_run().contains(frame))
        })
        .collect()
}

/// The owner writes the frames that it got: no guest may see these words.
fn fill(host: &Host<()>, run: Run) {
    for frame in run.start().0..run.end().0 {
        host.ram().write(Frame(frame), &[0xaa; 4096]).unwrap();
    }
}

fn with_area(config: &ContigConfig, work: impl FnOnce(&Host<()>, &ContiguousArea<'_>, &Anon)) {
    let host = host();
    let mut memory = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut memory).unwrap();
    let mut memory = vec![0; MigrateArea::<Linux<()>>::words_needed(area_run())];
    let area = MigrateArea::new(&reclaim, area_run(), config, &mut memory).unwrap();
    let anon = Anon::new(Arc::clone(host.ram_shared()), PAGES).unwrap();
    let mut seat: ContiguousSeat<'_> = host.seat().unwrap();
    assert_eq!(
        anon.populate(&mut seat, anon.range(), Order::ZERO),
        Ok(PAGES)
    );
    drop(seat);
    for page in 0..PAGES {
        StampedPage::of(&anon, page).set(0);
    }
    work(&host, &area, &anon);
    let mut seat = host.seat().unwrap();
    assert_eq!(anon.discard(&mut seat, anon.range()), Ok(PAGES));
    drop(seat);
    area.verify().unwrap();
    host.zone().drain();
    host.zone().verify().unwrap();
    let free = host.zone().stats().nr_free_pages;
    assert_eq!(free + area.claimed_frames(), FRAMES);
}

#[test]
fn runs_of_all_lengths_are_had_beside_two_threads_that_write_and_nothing_is_lost() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        with_area(&config, |host, area, anon| {
            assert!(!lent(anon).is_empty(), "the area is in use");
            let mut wrote = [0; 3];
            for (wrote, frames) in wrote.iter_mut().zip([1, 512, 8192]) {
                *wrote = beside_two_writers(anon, || {
                    let mut seat = host.seat().unwrap();
                    let movers: [&dyn Migrate; 1] = [anon];
                    let clients = Clients {
                        shrink: &[],
                        migrate: &movers,
                    };
                    let owner: &mut dyn Contiguous = &mut area.owner(&mut seat, clients);
                    let run = owner.alloc_contig(frames, 1).unwrap();
                    fill(host, run);
                    assert!(lent(anon).iter().all(|&page| {
                        anon.frame_of(page).is_none_or(|frame| !run.contains(frame))
                    }));
                    if frames < 8192 {
                        owner.release(run).unwrap();
                    }
                });
            }
            let counted: u64 = (0..PAGES)
                .map(|page| StampedPage::of(anon, page).count())
                .sum();
            assert_eq!(counted, wrote.iter().sum::<u64>(), "no write is lost");
            let stats = area.stats();
            println!("{stats}{:?}", anon.stats());
            assert_eq!((stats.cma_alloc_success, stats.cma_alloc_fail), (3, 0));
            assert_eq!(area.claimed_frames(), 8192);
            assert!(stats.pages_migrated > 0, "{stats:?}");
        });
    }
}

#[test]
fn with_pages_pinned_it_fails_and_says_so_and_beside_a_reservation_too() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        with_area(&config, |host, area, anon| {
            let mut seat = host.seat().unwrap();
            let movers: [&dyn Migrate; 1] = [anon];
            let clients = Clients {
                shrink: &[],
                migrate: &movers,
            };
            let camera = area.reserve("camera", AREA / 2, 512).unwrap();
            let of_camera = area.run_of(camera).unwrap();
            let is_lent = |page: &Page| anon.frame_of(*page).is_some_and(|f| of_camera.contains(f));
            let lent: Vec<Page> = lent(anon).into_iter().filter(is_lent).collect();
            let pinned: Vec<PageRange> = [lent[0], lent[lent.len() / 2]]
                .iter()
                .map(|&page| PageRange::new(page, 1).unwrap())
                .collect();
            let frames: Vec<_> = pinned.iter().map(|p| anon.frame_of(p.start())).collect();
            let pins: Vec<_> = pinned.iter().map(|&p| anon.pin(p).unwrap()).collect();
            let before = host.zone().stats().nr_free_pages;
            let failed = area.take(&mut seat, camera, &clients);
            let Err(RunError::Pinned(frame)) = failed else {
                panic!("{failed:?}");
            };
            assert!(frames.contains(&Some(frame)));
            assert_eq!(area.claimed_frames(), 0);
            assert_eq!(host.zone().stats().nr_free_pages, before);
            area.verify().unwrap();
            for (page, frame) in pinned.iter().zip(&frames) {
                assert_eq!(anon.frame_of(page.start()), *frame, "it stays");
            }
            drop(pins);
            area.unreserve(camera).unwrap();
            let taken = area.alloc_contig(&mut seat, 8192, 512, &clients).unwrap();
            fill(host, taken);
            (0..PAGES).for_each(|page| assert_eq!(StampedPage::of(anon, page).count(), 0));
            area.release(&mut seat, taken).unwrap();
        });
    }
}
