//! Frontswap's entries under random interleavings: stores and loads, a cleaner, an owner.
//!
//! The store is the engine's reserve; devices and frames keep the two ends of a page, a word at a time, so that
//! everything may come in between.
//!
//! `RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/models cargo test --release -p
//! framewright-linux --test shuttle_frontswap`
#![cfg(shuttle)]

use framewright::RunError;
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::reserve::{
    Cleaned, Guest, Key, PoolConfig, PoolId, Reserve, ReserveLayout, Store,
};
use framewright::{CpuId, Frame, Run};
use framewright_linux::swap::{
    DeviceUse, Frontswap, LoadedPage, SwapDevice, SwapError, SwapPolicy,
};
use framewright_linux::tenancy::Tenancy;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering::Relaxed};
use shuttle::thread;
use std::io;

/// Two ends of each page, in frames or in slots.
#[derive(Clone, Copy)]
struct SlotEnds(&'static [[AtomicU64; 2]], &'static DeviceUse);

impl SlotEnds {
    fn new(pages: u64) -> Self {
        let ends = (0..pages).map(|_| [0, 0].map(AtomicU64::new));
        Self(Vec::leak(ends.collect()), Box::leak(Box::default()))
    }

    fn set(&self, nth: u64, page: &[u64; 512]) {
        let [first, last] = &self.0[nth as usize];
        first.store(page[0], Relaxed);
        last.store(page[511], Relaxed);
    }

    fn copy(&self, nth: u64, page: &mut [u64; 512]) {
        let [first, last] = &self.0[nth as usize];
        *page = [1; 512];
        page[0] = first.load(Relaxed);
        page[511] = last.load(Relaxed);
    }
}

impl FramePlatform for SlotEnds {
    fn relax(&self, _attempt: u32) {
        thread::yield_now();
    }
}

impl ReservePlatform for SlotEnds {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.set(frame.0, page);
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        self.copy(frame.0, page);
    }
}

impl SwapDevice for SlotEnds {
    fn slots(&self) -> u64 {
        self.0.len() as u64
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        self.set(slot, page);
        Ok(())
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.copy(slot, page);
        Ok(())
    }

    /// Makes the old contents unreadable.
    fn discard(&self, slot: u64) {
        self.set(slot, &[u64::MAX; 512]);
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        0
    }

    fn in_use(&self) -> &DeviceUse {
        self.1
    }
}

type SwapReserve = Reserve<'static, SlotEnds>;

/// As many seats as threads.
struct ThreadSeats {
    reserve: &'static SwapReserve,
    seats: Vec<Mutex<Guest<'static, 'static, SlotEnds>>>,
}

impl ThreadSeats {
    fn lend<T>(&self, work: impl FnOnce(&mut Guest<'static, 'static, SlotEnds>) -> T) -> T {
        let mut free = self.seats.iter().filter_map(|seat| seat.try_lock().ok());
        work(&mut free.next().expect("as many seats as threads"))
    }
}

impl Tenancy for ThreadSeats {
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store)) {
        self.lend(|guest| work(guest));
    }

    fn clean(&self, pages: u64, write: &mut dyn FnMut(&Key, &[u64; 512]) -> bool) -> Cleaned {
        self.lend(|guest| {
            guest.clean(pages, |key, frame| {
                let mut page = [1; 512];
                self.reserve.platform().copy(frame.0, &mut page);
                write(key, &page)
            })
        })
    }
}

type Swap = Frontswap<'static>;

/// Frontswap of two pages over a reserve of `frames` frames and a device of this many slots.
fn swap(
    frames: u64,
    slots: u64,
    policy: SwapPolicy,
) -> (&'static Swap, &'static SwapReserve, PoolId) {
    let layout = ReserveLayout {
        pools: 1,
        values: 0,
        ..ReserveLayout::new(Run::new(Frame(0), frames).unwrap()).with_cpus(4)
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let reserve: &SwapReserve = Box::leak(Box::new(
        Reserve::new(&layout, memory, SlotEnds::new(frames)).unwrap(),
    ));
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let seats = (0..4).map(|cpu| Mutex::new(reserve.guest(CpuId(cpu)).unwrap()));
    let seats = Box::leak(Box::new(ThreadSeats {
        reserve,
        seats: seats.collect(),
    }));
    let device = Box::leak(Box::new(SlotEnds::new(slots)));
    let swap = Frontswap::new(device, 2).with_store(seats, pool, 0, policy);
    (Box::leak(Box::new(swap)), reserve, pool)
}

fn page(stamp: u64) -> [u64; 512] {
    let mut page = [1; 512];
    (page[0], page[511]) = (stamp << 8, stamp << 8 | 1);
    page
}

fn stamp(page: &[u64; 512]) -> u64 {
    assert_eq!(page[0] | 1, page[511], "FS1: a torn page, or an owner's");
    page[0] >> 8
}

/// What a page's user does: evicts it, faults it in, changes it or not, evicts it again.
fn user(swap: &Swap, at: u64) -> u64 {
    let mut out = [0; 512];
    let mut version = at << 8;
    for changes in [true, true, false, true] {
        if changes {
            version += 1;
        }
        // A full device: the page stays with the user, which tries again.
        while let Err((_, error)) = swap.store(&[at], &[page(version)]) {
            assert!(matches!(error, SwapError::Full(_)), "{error}");
            thread::yield_now();
        }
        for _ in 0..2 {
            let loaded = swap.load(at, &mut out).unwrap();
            assert_eq!(stamp(&out), version, "FS1: page {at}, {loaded:?}");
            if loaded == LoadedPage::Dirty || !swap.keep(at, &out) {
                break;
            }
        }
    }
    while swap.store(&[at], &[page(version)]).is_err() {
        thread::yield_now();
    }
    version
}

/// Users of both pages beside a cleaner and an owner; what was stored last is there at the end.
fn all_at_once(frames: u64, slots: u64, policy: SwapPolicy) {
    let (swap, reserve, _) = swap(frames, slots, policy);
    let users = [0, 1].map(|at| thread::spawn(move || user(swap, at)));
    let is_done: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let cleaner = thread::spawn(move || {
        while is_done.load(Relaxed) == 0 {
            swap.clean(1);
            thread::yield_now();
        }
    });
    for frames in [2, 1] {
        match reserve.alloc_contig(frames, 1) {
            Ok(run) => {
                let poison = [u64::MAX; 512];
                (run.start().0..run.end().0)
                    .for_each(|frame| reserve.platform().set(frame, &poison));
                reserve.release(run).unwrap();
            }
            Err(RunError::NoRoom) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let versions = users.map(|user| user.join().unwrap());
    is_done.store(1, Relaxed);
    cleaner.join().unwrap();
    let mut out = [0; 512];
    for (at, version) in (0..).zip(versions) {
        swap.load(at, &mut out).unwrap();
        assert_eq!(stamp(&out), version, "FS1: page {at} at the end");
        swap.invalidate(at).unwrap();
    }
    assert_eq!((swap.dirty_pages(), swap.used_slots()), (0, 0));
    reserve.verify().unwrap();
}

/// Loads a page; and where it is said to be in its slot still, that slot, too.
fn load_all(swap: &Swap, at: u64, version: u64) {
    let mut out = [0; 512];
    let loaded = swap.load(at, &mut out).unwrap();
    assert_eq!(stamp(&out), version, "FS1: page {at}, {loaded:?}");
    if loaded == LoadedPage::Clean {
        // The store has it no longer.
        assert_eq!(swap.load(at, &mut out), Ok(LoadedPage::Clean));
        assert_eq!(stamp(&out), version, "FS2: page {at}");
    }
}

/// One user of both pages, with which a cleaner does not keep up: short, so that each place for a
/// pause is tried.
fn a_cleaner_is_overtaken(slots: u64, policy: SwapPolicy) {
    let (swap, reserve, _) = swap(4, slots, policy);
    swap.store(&[0], &[page(1)]).unwrap();
    let cleaner = thread::spawn(move || swap.clean(1));
    load_all(swap, 0, 1);
    let one_is_full = |(_, error)| assert!(matches!(error, SwapError::Full(_)), "{error}");
    let is_other_stored = swap.store(&[1], &[page(10)]).map_err(one_is_full).is_ok();
    let is_stored = swap.store(&[0], &[page(2)]).map_err(one_is_full).is_ok();
    cleaner.join().unwrap();
    for (at, version, is_stored) in [(0, 2, is_stored), (1, 10, is_other_stored)] {
        if is_stored {
            load_all(swap, at, version);
        }
    }
    (0..2).for_each(|at| swap.invalidate(at).unwrap());
    assert_eq!((swap.dirty_pages(), swap.used_slots()), (0, 0));
    reserve.verify().unwrap();
}

/// At random, where each thread goes a step or two; and by priorities that change in a run (PCT, Burckhardt et
/// al., ASPLOS 2010), where a thread is overtaken by others for long.
fn explore(schedules: usize, test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, schedules);
    shuttle::check_pct(test, schedules * 4, 3);
}

#[test]
fn fs1_fs2_the_last_version_is_loaded_beside_a_cleaner_and_an_owner() {
    let back = SwapPolicy::WriteBack { dirty_max: 2 };
    explore(100, move || all_at_once(4, 8, back));
}

#[test]
fn fs1_fs2_the_same_on_a_device_that_is_full() {
    // A slot for each page, and none for the version that a cleaner is still writing.
    let back = SwapPolicy::WriteBack { dirty_max: 1 };
    explore(100, move || all_at_once(4, 2, back));
}

#[test]
fn fs1_the_same_where_every_page_is_on_the_device_first() {
    explore(50, || all_at_once(4, 8, SwapPolicy::WriteThrough));
}

#[test]
fn fs2_what_a_cleaner_still_holds_is_not_written_for_what_was_stored_since() {
    let back = SwapPolicy::WriteBack { dirty_max: 2 };
    explore(1000, move || a_cleaner_is_overtaken(4, back));
}

#[test]
fn fs2_a_cleaner_for_whom_there_is_no_slot_leaves_the_pages_own() {
    let back = SwapPolicy::WriteBack { dirty_max: 1 };
    explore(1000, move || a_cleaner_is_overtaken(1, back));
}
