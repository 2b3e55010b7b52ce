//! The memory that the benchmark of compaction empties: regions over frames, half of them freed in one of several
//! layouts. What a move costs depends on how many mappings the targets make, so the layouts differ in that alone.

use framewright::frame::ZoneLayout;
use framewright::{Frame, Order, Page, PageRange};
use framewright_linux::anon::{Anon, AnonStats};
use framewright_linux::{Host, Options, RamPages};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const PAGES: u64 = 64 * 512;
/// One pageblock more.
pub(crate) const FRAMES: u64 = PAGES + 512;
const WORDS: usize = 512;
/// The first words of a page are the writers': one each.
const WRITERS: usize = 2;

/// How memory comes to be half full.
pub(crate) struct HalfFull {
    pub(crate) name: &'static str,
    /// Regions that take frames in turn.
    regions: usize,
    /// The order of the blocks that are populated at once.
    order: u8,
    /// Whether pages are populated in any sequence instead of one after another.
    in_any_order: bool,
    freed: FreedFirst,
}

enum FreedFirst {
    EverySecond,
    /// Blocks of the order, each with even chances.
    AnyBlocks,
    /// Pages, each with even chances.
    AnyPages,
}

const fn layout(name: &'static str, regions: usize, order: u8, freed: FreedFirst) -> HalfFull {
    HalfFull {
        name,
        regions,
        order,
        in_any_order: false,
        freed,
    }
}

pub(crate) const LAYOUTS: [HalfFull; 7] = [
    layout("every second page freed", 1, 0, FreedFirst::EverySecond),
    layout("any pages freed", 1, 0, FreedFirst::AnyPages),
    layout(
        "64 KiB blocks, every second freed",
        1,
        4,
        FreedFirst::EverySecond,
    ),
    layout("64 KiB blocks, any freed", 1, 4, FreedFirst::AnyBlocks),
    layout("64 KiB blocks, any pages freed", 1, 4, FreedFirst::AnyPages),
    layout(
        "two owners in turn, every second",
        2,
        0,
        FreedFirst::EverySecond,
    ),
    HalfFull {
        name: "populated at random, any freed",
        regions: 1,
        order: 0,
        in_any_order: true,
        freed: FreedFirst::AnyPages,
    },
];

pub(crate) struct BenchMemory {
    pub(crate) host: Host<()>,
    pub(crate) regions: Vec<Anon>,
    live: Vec<(usize, Page)>,
}

struct FillNumbers(u64);

impl FillNumbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

impl BenchMemory {
    pub(crate) fn new(layout: &HalfFull, pages: RamPages, seed: u64) -> Self {
        let zone = ZoneLayout::new(Frame(0), FRAMES).with_cpus(2);
        let mut options = Options::new(zone);
        options.pages = pages;
        let host = Host::fenced(&options).expect("memory for the frames");
        let each = PAGES / layout.regions as u64;
        let regions: Vec<Anon> = (0..layout.regions)
            .map(|_| Anon::new(Arc::clone(host.ram_shared()), each).expect("address space"))
            .collect();
        let mut seat = host.seat().expect("the first seat");
        let mut random = FillNumbers(seed * 7 + 3);
        let order = Order::new(layout.order).expect("a small order");
        let step = order.frames();
        let range = |anon: &Anon, page: u64, pages| {
            let start = Page(anon.range().start().0 + page);
            PageRange::new(start, pages).expect("in the region")
        };
        let mut starts: Vec<u64> = (0..each).step_by(step as usize).collect();
        if layout.in_any_order {
            for at in (1..starts.len()).rev() {
                starts.swap(at, random.below(at + 1));
            }
        }
        for &page in &starts {
            for anon in &regions {
                let put = anon.populate(&mut seat, range(anon, page, step), order);
                assert_eq!(put, Ok(step), "{}", layout.name);
            }
        }
        let mut live = Vec::new();
        for (nth, anon) in regions.iter().enumerate() {
            let unit = if matches!(layout.freed, FreedFirst::AnyPages) {
                1
            } else {
                step
            };
            for page in (0..each).step_by(unit as usize) {
                let stays = match layout.freed {
                    FreedFirst::EverySecond => (page / unit).is_multiple_of(2),
                    FreedFirst::AnyBlocks | FreedFirst::AnyPages => random.below(2) == 0,
                };
                let some = range(anon, page, unit);
                if stays {
                    live.extend((some.start().0..some.end().0).map(|page| (nth, Page(page))));
                } else {
                    anon.discard(&mut seat, some).expect("nothing is pinned");
                }
            }
        }
        drop(seat);
        host.zone().drain();
        let memory = Self {
            host,
            regions,
            live,
        };
        for at in 0..memory.live.len() {
            for word in WRITERS..WORDS {
                memory.set(at, word, stamp(at, word));
            }
        }
        memory
    }

    pub(crate) fn stats(&self) -> AnonStats {
        let mut sum = AnonStats::default();
        for anon in &self.regions {
            let one = anon.stats();
            sum.moved_pages += one.moved_pages;
            sum.shown += one.shown;
            sum.closed += one.closed;
            sum.waits += one.waits;
        }
        sum
    }

    /// The frames behind `count` live pages from the `nth` on.
    pub(crate) fn live_frames(&self, nth: usize, count: usize) -> Vec<Frame> {
        let pages = self
            .live
            .iter()
            .cycle()
            .skip(nth % self.live.len())
            .take(count);
        let frame = |&(region, page): &(usize, Page)| self.regions[region].frame_of(page);
        pages.filter_map(frame).collect()
    }

    /// Counts in the `nth` word of random pages, and looks whether it finds what it left.
    pub(crate) fn write_until(&self, end: &AtomicBool, writes: &AtomicU64, nth: usize) {
        let mut mine = vec![0u64; self.live.len()];
        let mut random = FillNumbers(nth as u64 + 99);
        while !end.load(Relaxed) {
            let at = random.below(mine.len());
            assert_eq!(self.get(at, nth), mine[at], "page {at} was lost");
            mine[at] += 1;
            self.set(at, nth, mine[at]);
            writes.fetch_add(1, Relaxed);
        }
        for (at, mine) in mine.iter().enumerate() {
            assert_eq!(self.get(at, nth), *mine, "page {at} was lost");
        }
    }

    /// Checks every word that was not written since.
    pub(crate) fn check(&self) {
        for at in 0..self.live.len() {
            for word in WRITERS..WORDS {
                assert_eq!(
                    self.get(at, word),
                    stamp(at, word),
                    "page {at}, word {word}"
                );
            }
        }
    }

    fn word(&self, at: usize, word: usize) -> *mut u64 {
        let (region, page) = self.live[at];
        let address = self.regions[region].address(page).expect("in the region");
        assert!(word < WORDS);
        address.cast::<u64>().wrapping_add(word)
    }

    fn get(&self, at: usize, word: usize) -> u64 {
        // SAFETY: in a populated page; each word is read and written by one thread at a time: its
        // writer's, or the one that fills and checks while no writer runs.
        unsafe { self.word(at, word).read_volatile() }
    }

    fn set(&self, at: usize, word: usize, value: u64) {
        // SAFETY: as above.
        unsafe { self.word(at, word).write_volatile(value) }
    }
}

fn stamp(at: usize, word: usize) -> u64 {
    (at as u64) << 32 | word as u64
}
