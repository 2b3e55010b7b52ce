//! The poison test on real memory: guests look at every page that they get, while owners fill what they took.
//!
//! `FRAMEWRIGHT_POISON_OPS=4000000 cargo test --release -p framewright-linux --test poison -- --nocapture`

use framewright::RunError;
use framewright::frame::{Seat, ZoneLayout};
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::reserve::{
    Guest, Key, PoolConfig, PoolId, Reservation, Reserve, ReserveLayout, Store,
};
use framewright::{CpuId, Frame, Run};
use framewright_linux::platform::Slots;
use framewright_linux::{Host, Linux, Options, Ram, RamPages, Stored};
use framewright_sim::contract::poison::{self, PoisonOwner, PoisonPlan, PoisonSite, PoolPlan};
use framewright_sim::contract::{page, stamp};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// 8 MiB, with more pages of the guests' than frames.
const FRAMES: u64 = 2048;
const GUESTS: u16 = 2;
const OWNERS: u16 = 2;
/// Frames of the reservations that each owner has.
const RESERVED: [u64; 2] = [257, 70];

/// Clean pages that are got away, or stay; dirty ones that an owner must leave, under a budget that a cleaner
/// keeps; dirty ones that are put back into ordinary frames, and such that are got away.
const POOLS: [PoolConfig; 5] = [
    PoolConfig::CLEAN,
    PoolConfig {
        exclusive: false,
        ..PoolConfig::CLEAN
    },
    PoolConfig {
        dirty_pages_max: 48,
        ..PoolConfig::SWAP
    },
    PoolConfig {
        put_back: true,
        ..PoolConfig::SWAP
    },
    PoolConfig {
        put_back: true,
        exclusive: true,
        ..PoolConfig::SWAP
    },
];

/// Real memory, some copies of which are interrupted in the middle, so that others come in between more often than
/// the machine lets them.
#[derive(Clone)]
struct Interrupted(Stored<()>);

/// One copy in this many is interrupted.
const INTERRUPTED_ONE_IN: u32 = 16;

impl Interrupted {
    /// The words of a frame of the reserve, if this copy is to be interrupted.
    fn words_of_slow(&self, frame: Frame) -> Option<&[AtomicU64; 512]> {
        thread_local!(static COPIES: Cell<u32> = const { Cell::new(0) });
        let nth = COPIES.replace(COPIES.get().wrapping_add(1));
        let is_slow = nth.is_multiple_of(INTERRUPTED_ONE_IN);
        is_slow.then(|| self.0.ram().words(frame).ok())?
    }
}

/// In the middle of a copy, and at its end.
fn interrupt(nth: usize) {
    if nth == 256 || nth == 511 {
        std::thread::yield_now();
    }
}

impl FramePlatform for Interrupted {
    fn relax(&self, attempt: u32) {
        self.0.relax(attempt);
    }

    fn wake(&self) {
        self.0.wake();
    }
}

impl ReservePlatform for Interrupted {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        let Some(words) = self.words_of_slow(frame) else {
            return self.0.store(frame, page);
        };
        for (nth, (to, from)) in words.iter().zip(page).enumerate() {
            to.store(*from, Relaxed);
            interrupt(nth);
        }
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        let Some(words) = self.words_of_slow(frame) else {
            return self.0.load(frame, page);
        };
        for (nth, (to, from)) in page.iter_mut().zip(words).enumerate() {
            interrupt(nth);
            *to = from.load(Relaxed);
        }
    }
}

type PoisonPlatform = Interrupted;

struct PoisonMachine<'r, 'm> {
    reserve: &'r Reserve<'m, PoisonPlatform>,
    host: &'r Host<()>,
    reservations: Vec<[Reservation; 2]>,
    cleaner: Mutex<Guest<'r, 'm, PoisonPlatform>>,
}

impl PoisonMachine<'_, '_> {
    fn ram(&self) -> &Ram {
        self.reserve.platform().0.ram()
    }
}

impl PoisonSite for PoisonMachine<'_, '_> {
    fn frames(&self) -> Run {
        self.reserve.run()
    }

    fn pools(&self) -> Vec<PoolPlan> {
        let plan = |config: &PoolConfig| PoolPlan {
            exclusive: config.exclusive,
            may_be_dirty: config.may_be_dirty,
            has_objects: true,
        };
        POOLS.iter().map(plan).collect()
    }

    fn open_pool(&self, nth: usize) -> Option<PoolId> {
        self.reserve.open_pool(&POOLS[nth])
    }

    fn guest(&self, nth: u16) -> Box<dyn Store + '_> {
        Box::new(self.reserve.guest(CpuId(nth)).expect("a guest's own seat"))
    }

    fn owner(&self, nth: u16) -> Box<dyn PoisonOwner + '_> {
        Box::new(PutBackOwner {
            machine: self,
            ordinary: self.host.seat().expect("an owner's own seat"),
            reservations: self.reservations[usize::from(nth)],
        })
    }

    fn clean(&self, pages: u64, write: &mut dyn FnMut(&Key, &[u64; 512]) -> bool) {
        let mut page = [0; 512];
        let mut guest = self.cleaner.lock().unwrap_or_else(PoisonError::into_inner);
        guest.clean(pages, |key, frame| {
            self.reserve.platform().load(frame, &mut page);
            write(key, &page)
        });
    }

    fn fill(&self, frame: Frame, word: u64) {
        let words = self.ram().words(frame).expect("a frame of the reserve");
        words.iter().for_each(|to| to.store(word, Relaxed));
    }

    fn is_filled(&self, frame: Frame, word: u64) -> bool {
        let words = self.ram().words(frame).expect("a frame of the reserve");
        words.iter().all(|is| is.load(Relaxed) == word)
    }
}

/// An owner with frames that pages may be put back into.
struct PutBackOwner<'t, 'r, 'm> {
    machine: &'t PoisonMachine<'r, 'm>,
    ordinary: Seat<'t, 't, Linux<()>>,
    reservations: [Reservation; 2],
}

impl PoisonOwner for PutBackOwner<'_, '_, '_> {
    fn take(&mut self, frames: u64, align: u64) -> Option<Run> {
        let reserve = self.machine.reserve;
        // With ordinary frames, and without.
        let run = match frames % 2 {
            0 => reserve.alloc_contig(frames, align),
            _ => reserve.alloc_contig_with(frames, align, &mut self.ordinary),
        };
        match run {
            Ok(run) => Some(run),
            Err(RunError::NoRoom | RunError::NoMemory(_)) => None,
            Err(other) => panic!("{other}"),
        }
    }

    fn reservations(&self) -> usize {
        self.reservations.len()
    }

    fn take_reserved(&mut self, nth: usize) -> Option<Run> {
        self.machine.reserve.take(self.reservations[nth]).ok()
    }

    fn release(&mut self, run: Run) -> bool {
        self.machine.reserve.release(run).is_ok()
    }
}

/// The number in an environment variable, or `default` if it is not set.
fn number(name: &str, default: u64) -> u64 {
    let is_number = |text: String| text.parse().expect("a number of operations, or a seed");
    std::env::var(name).map_or(default, is_number)
}

/// Puts that are refused, and pages that are put back. A cleaner that the scheduler prefers writes dirty pages so soon
/// that neither comes up; so this has no cleaner.
fn what_a_quick_cleaner_keeps_away(
    machine: &PoisonMachine<'_, '_>,
    ordinary: &mut Seat<'_, '_, Linux<()>>,
) {
    let reserve = machine.reserve;
    let mut guest = machine.cleaner.lock().unwrap();
    let mut out = [0; 512];
    let budget = POOLS[2].dirty_pages_max;
    let short = reserve.open_pool(&POOLS[2]).unwrap();
    let key = |pool, index| Key {
        pool,
        object: 0,
        index,
    };
    for index in 0..budget {
        guest.put_dirty(key(short, index), &page(index)).unwrap();
    }
    let past = key(short, budget);
    guest.put(past, &page(budget)).unwrap();
    assert!(guest.put_dirty(past, &page(budget)).is_err());
    // No older version is left (S2).
    assert!(!guest.get(past, &mut out));
    for index in 0..budget {
        assert!(guest.get(key(short, index), &mut out), "page {index}");
        assert_eq!(stamp(&out), Some(index));
    }
    assert!(guest.invalidate_pool(short));

    let pool = reserve.open_pool(&POOLS[3]).unwrap();
    let stored =
        (0..FRAMES).take_while(|nth| guest.put_dirty(key(pool, *nth), &page(*nth)).is_ok());
    let stored = stored.count() as u64;
    let before = reserve.stats().put_back_pages;
    let most = FRAMES - u64::from(OWNERS) * RESERVED.iter().sum::<u64>();
    let run = (0..).map(|halved| most >> halved).find_map(|frames| {
        assert!(frames > 0, "{:?}", reserve.stats());
        reserve.alloc_contig_with(frames, 1, ordinary).ok()
    });
    let run = run.unwrap();
    for frame in run.start().0..run.end().0 {
        machine.fill(Frame(frame), u64::MAX);
    }
    assert!(reserve.stats().put_back_pages > before, "{run:?}");
    for index in 0..stored {
        assert!(guest.get(key(pool, index), &mut out), "page {index}");
        assert_eq!(stamp(&out), Some(index));
    }
    reserve.release(run).unwrap();
    assert!(guest.invalidate_pool(pool));
}

#[test]
fn c2_to_c7_no_page_is_wrong_beside_owners_who_poison_what_they_take() {
    let plan = PoisonPlan {
        seed: number("FRAMEWRIGHT_POISON_SEED", 1),
        ops: number("FRAMEWRIGHT_POISON_OPS", 40_000),
        guests: GUESTS,
        owners: OWNERS,
        pages: 400,
    };
    // Ordinary memory for less than half of what may be dirty.
    let ordinary = ZoneLayout::new(Frame(FRAMES), 512).with_cpus(OWNERS + 1);
    let host = Host::fenced(&Options::new(ordinary)).unwrap();
    let free_before = host.zone().stats().nr_free_pages;
    let run = Run::new(Frame(0), FRAMES).unwrap();
    let slots = Slots::new(GUESTS + 1);
    let layout = ReserveLayout::new(run)
        .with_cpus(slots.count())
        .with_ordinary(400);
    let mut words = vec![0; layout.words_needed().unwrap()];
    let ram = Arc::new(Ram::new(run, RamPages::Base).unwrap());
    let platform =
        Stored::new(Linux::fenced(slots), ram).with_ordinary(Arc::clone(host.ram_shared()));
    let reserve = Reserve::new(&layout, &mut words, Interrupted(platform)).unwrap();
    let reservations = (0..OWNERS).map(|_| RESERVED.map(|n| reserve.reserve("owner", n, 1)));
    let machine = PoisonMachine {
        reserve: &reserve,
        host: &host,
        reservations: reservations.map(|pair| pair.map(Result::unwrap)).collect(),
        cleaner: Mutex::new(reserve.guest(CpuId(GUESTS)).unwrap()),
    };
    let report = poison::run(&machine, &plan).unwrap_or_else(|wrong| {
        panic!(
            "{wrong}\nFRAMEWRIGHT_POISON_SEED={} FRAMEWRIGHT_POISON_OPS={} asks for the same",
            plan.seed, plan.ops
        )
    });
    let stats = reserve.stats();
    println!(
        "{} operations, {} hits, none wrong: {report:?}; {} pages put back",
        report.ops(),
        report.hits,
        stats.put_back_pages
    );
    // All that the scheduler cannot keep apart was met.
    assert!(report.ops() >= plan.ops);
    assert!(report.hits > plan.ops / 50, "{report:?}");
    assert!(
        report.reserved_takes > 0 && report.takes > report.reserved_takes,
        "{report:?}"
    );
    assert!(report.written > 0, "{report:?}");
    reserve.verify().unwrap();
    // The pools end, and every ordinary frame comes back.
    let mut guest = machine.cleaner.lock().unwrap();
    let pools = POOLS.len() as u16 * GUESTS;
    let closed = (0..2 * pools).filter(|nth| guest.invalidate_pool(PoolId(*nth)));
    assert_eq!(closed.count(), usize::from(pools));
    drop(guest);
    let mut seat = host.seat().unwrap();
    what_a_quick_cleaner_keeps_away(&machine, &mut seat);
    reserve.collect(&mut seat);
    drop(seat);
    host.zone().drain();
    assert_eq!(host.zone().stats().nr_free_pages, free_before);
    reserve.verify().unwrap();
}
