//! Memory under pressure: a cache of a file that gives frames back, and the reserve with guests and an owner.

use super::{Dice, loops, on_all_cpus, vfree, vmalloc};
use crate::arch::cpu::cells::SetOnce;
use crate::arch::cpu::instructions::without_interrupts;
use crate::memory::{DIRECT, SEATS, ZoneSeat, engine, with};
use crate::say;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{
    AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use framewright::reclaim::{Ask, Clients, Shrink, Shrunk};
use framewright::reserve::{Key, PoolConfig, PoolId};
use framewright::vrange::AreaRequest;
use framewright::{Context, CpuId, Frame, Mobility, Order};

/// The pages of a file that are in memory, oldest first. What page `n` contains is known, as if it were read.
struct FilePages {
    pages: RefCell<Vec<(u64, Frame)>>,
    /// Requests, of those what was not there, and what was given back.
    asked: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
}

// SAFETY: the test has one CPU, and no handler comes to the file.
unsafe impl Sync for FilePages {}

static FILE: FilePages = FilePages {
    pages: RefCell::new(Vec::new()),
    asked: AtomicU64::new(0),
    read: AtomicU64::new(0),
    dropped: AtomicU64::new(0),
};

impl Shrink<ZoneSeat> for FilePages {
    fn holding(&self) -> u64 {
        self.pages
            .try_borrow()
            .map_or(0, |pages| pages.len() as u64)
    }

    fn shrink(&self, frames: &mut ZoneSeat, ask: &Ask) -> Shrunk {
        // A request that the list itself makes for its own memory finds it in use, and gets nothing here.
        let Ok(mut pages) = self.pages.try_borrow_mut() else {
            return Shrunk::default();
        };
        let count = ask.wanted.min(ask.scan).min(pages.len() as u64) as usize;
        for (number, frame) in pages.drain(..count) {
            check(frame, number);
            frames.free(frame, Order::ZERO).expect("the file had it");
        }
        self.dropped.fetch_add(count as u64, Relaxed);
        let (scanned, freed) = (count as u64, count as u64);
        Shrunk { scanned, freed }
    }
}

fn word(number: u64, nth: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ nth
}

fn fill(frame: Frame, number: u64) {
    for nth in 0..512 {
        // SAFETY: the frame is the file's.
        unsafe {
            (DIRECT.addr(frame).0 as *mut u64)
                .add(nth as usize)
                .write_volatile(word(number, nth))
        };
    }
}

fn check(frame: Frame, number: u64) {
    for nth in 0..512 {
        // SAFETY: the frame is the file's.
        let found = unsafe {
            (DIRECT.addr(frame).0 as *const u64)
                .add(nth as usize)
                .read_volatile()
        };
        assert_eq!(found, word(number, nth), "word {nth} of page {number}");
    }
}

/// Reads a page of the file, from memory if it is there.
fn read(number: u64) {
    FILE.asked.fetch_add(1, Relaxed);
    let found = FILE
        .pages
        .borrow()
        .iter()
        .find(|page| page.0 == number)
        .map(|page| page.1);
    if let Some(frame) = found {
        return check(frame, number);
    }
    FILE.read.fetch_add(1, Relaxed);
    let frame = with(|cpu| cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY));
    let frame = frame.expect("the file gives frames back");
    fill(frame, number);
    FILE.pages.borrow_mut().push((number, frame));
}

/// A file half as long again as memory is read through once; then areas need what it holds.
pub fn reclaim() {
    let shrink: &[&dyn Shrink<ZoneSeat>] = Box::leak(Box::new([&FILE as &dyn Shrink<ZoneSeat>]));
    SEATS.set_clients(Clients {
        shrink,
        migrate: &[],
    });
    let frames = engine().frame_stats().nr_free_pages;
    FILE.pages.borrow_mut().reserve(frames as usize);
    for number in 0..frames * 3 / 2 {
        // Few are read again: a search of the list is long.
        let found = number % 512 != 0 || FILE.pages.borrow().len() < 100;
        if found {
            FILE.read.fetch_add(1, Relaxed);
            let frame = with(|cpu| cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY));
            let frame = frame.expect("the file gives frames back");
            fill(frame, number);
            FILE.pages.borrow_mut().push((number, frame));
        } else {
            read(number - 50);
        }
    }
    let held = FILE.pages.borrow().len();
    assert!(
        held as u64 > frames / 2,
        "the file lost its memory: {held} of {frames} frames"
    );
    // Areas, a quarter of memory, without a failure.
    let areas: Vec<_> = (0..frames / 4 / 64)
        .map(|_| vmalloc(&AreaRequest::new(64)))
        .collect();
    let left = FILE.pages.borrow().len();
    assert!(left < held, "nothing was given back for the areas");
    areas.into_iter().for_each(vfree);
    let stats = engine().reclaim(0).stats();
    let [asked, read, dropped] = [&FILE.asked, &FILE.read, &FILE.dropped].map(|n| n.load(Relaxed));
    say!(
        "{frames} frames: {read} pages read, {asked} looked for, {dropped} dropped, {left} held; {stats:?}"
    );
    for (number, frame) in FILE.pages.borrow_mut().drain(..) {
        check(frame, number);
        with(|cpu| cpu.free(frame, Order::ZERO)).expect("the file had it");
    }
}

/// The guests' pool, the owners that are at work, and what the guests found.
static POOL: SetOnce<PoolId> = SetOnce::new();
static OWNERS: AtomicU16 = AtomicU16::new(0);
static FOUND: AtomicU64 = AtomicU64::new(0);
static MISSED: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn contents(index: u64) -> [u64; 512] {
    core::array::from_fn(|nth| word(index, nth as u64))
}

/// A guest: puts pages and gets pages; each that it gets is whole.
fn visit(dice: &mut Dice, pool: PoolId) {
    let index = dice.below(6000);
    let key = Key {
        pool,
        object: 1,
        index,
    };
    let page = contents(index);
    if dice.below(2) == 0 {
        // Refused when an owner is in the way.
        let _ = with(|cpu| cpu.put(key, &page));
        return;
    }
    let mut found = [0; 512];
    if with(|cpu| cpu.get(key, &mut found)) {
        assert!(found == page, "page {index} came back changed");
        FOUND.fetch_add(1, Relaxed);
    } else {
        MISSED.fetch_add(1, Relaxed);
    }
}

/// An owner: takes a run, writes all of it, gives it back. It never fails because of guests.
fn own(dice: &mut Dice) {
    let reserve = engine().reserve().expect("the layout has one");
    let frames = 1 + dice.below(300);
    let run = without_interrupts(|| reserve.alloc_contig(frames, 1)).expect("one owner at a time");
    for nth in 0..frames {
        fill(Frame(run.start().0 + nth), !nth);
    }
    for nth in 0..frames {
        check(Frame(run.start().0 + nth), !nth);
    }
    TAKEN.fetch_add(frames, Relaxed);
    without_interrupts(|| reserve.release(run)).expect("it was taken");
}

fn reserve_work(cpu: CpuId) {
    let pool = *POOL.get().expect("it is open");
    let mut dice = Dice::new(u64::from(cpu.0) + 77);
    for nth in 0..loops() {
        visit(&mut dice, pool);
        // The first CPU is the owner, too.
        if cpu.0 == 0 && nth % 16 == 0 {
            OWNERS.store(1, Release);
            own(&mut dice);
            OWNERS.store(0, Release);
        }
    }
}

pub fn reserve() {
    let reserve = engine().reserve().expect("the layout has one");
    POOL.set(without_interrupts(|| reserve.open_pool(&PoolConfig::CLEAN)).expect("the first pool"));
    on_all_cpus(reserve_work);
    assert_eq!(OWNERS.load(Acquire), 0);
    let [found, missed, taken] = [&FOUND, &MISSED, &TAKEN].map(|n| n.load(Relaxed));
    say!("guests found {found} pages and missed {missed}; owners took {taken} frames");
    assert!(found > 0 && missed > 0 && taken > 0);
}
