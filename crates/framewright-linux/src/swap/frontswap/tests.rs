//! Tests of what counts as the last version, over devices that fail and stores whose cleaner is slow. The
//! interleavings are in `tests/shuttle_frontswap.rs`.

use super::*;
use crate::platform::{Linux, Slots, Stored};
use crate::ram::{Ram, RamPages};
use crate::swap::tests::{SwapFolder, page};
use crate::swap::{DeviceUse, Faulty, SwapFile, SwapOp, Zram};
use crate::tenancy::{Guests, Tenancy};
use framewright::reserve::{Cleaned, Key, PoolConfig, Reserve, ReserveLayout, Store};
use framewright::{Frame, Run};
use framewright_sim::Random;
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

type SwapPlatform = Stored<()>;

fn reserve<'m>(words: &'m mut Vec<u64>, slots: &Slots, frames: u64) -> Reserve<'m, SwapPlatform> {
    let run = Run::new(Frame(0), frames).unwrap();
    let layout = ReserveLayout::new(run).with_cpus(slots.count());
    words.resize(layout.words_needed().unwrap(), 0);
    let ram = Arc::new(Ram::new(run, RamPages::Base).unwrap());
    let platform = Stored::new(Linux::fenced(slots.clone()), ram);
    Reserve::new(&layout, words, platform).unwrap()
}

const BACK: SwapPolicy = SwapPolicy::WriteBack { dirty_max: 100 };

#[test]
fn a_random_history_loads_what_was_stored_last_under_each_policy() {
    for policy in [
        None,
        Some(SwapPolicy::WriteThrough),
        Some(BACK),
        Some(SwapPolicy::WriteBack { dirty_max: 5 }),
    ] {
        let (slots, mut words) = (Slots::new(2), Vec::new());
        let reserve = reserve(&mut words, &slots, 64);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let guests = Guests::new(&reserve, slots).unwrap();
        let device = Zram::new(200, 1 << 20);
        let mut swap = Frontswap::new(&device, 150);
        if let Some(policy) = policy {
            swap = swap.with_store(&guests, pool, 3, policy);
        }
        let mut twin: BTreeMap<u64, u64> = BTreeMap::new();
        let mut numbers = Random::new(11);
        let mut random = |below| numbers.below(below);
        let mut got = [0; 512];
        for step in 0..1500 {
            let at = random(150);
            match random(8) {
                0..3 => {
                    let first = at.min(142);
                    let count = 1 + random(8);
                    let pages: Vec<_> = (first..first + count).collect();
                    let contents: Vec<_> = pages.iter().map(|at| page(at + step)).collect();
                    swap.store(&pages, &contents).unwrap();
                    twin.extend(pages.iter().map(|at| (*at, at + step)));
                }
                3..6 => {
                    let loaded = swap.load(at, &mut got).unwrap();
                    match twin.get(&at) {
                        Some(nth) => assert_eq!(got, page(*nth), "step {step}, {policy:?}"),
                        None => assert_eq!((loaded, got), (LoadedPage::Zero, [0; 512])),
                    }
                    match loaded {
                        LoadedPage::Clean if random(2) == 0 => assert!(swap.keep(at, &got)),
                        LoadedPage::Dirty => {
                            assert!(!swap.keep(at, &got));
                            swap.store(&[at], &[got]).unwrap();
                        }
                        _ => {}
                    }
                }
                6 => {
                    swap.invalidate(at).unwrap();
                    twin.remove(&at);
                }
                _ => {
                    swap.clean(random(20));
                    // An owner uses the frames that it gets: the guests' pages in them are gone.
                    if let Ok(run) = reserve.alloc_contig(16, 16) {
                        reserve.release(run).unwrap();
                    }
                }
            }
            let SwapPolicy::WriteBack { dirty_max } = policy.unwrap_or(BACK) else {
                assert_eq!(swap.dirty_pages(), 0);
                continue;
            };
            assert!(swap.dirty_pages() <= dirty_max);
        }
        swap.sync().unwrap();
        assert_eq!(swap.dirty_pages(), 0);
        assert_eq!(swap.used_slots(), twin.len() as u64);
        for (at, nth) in &twin {
            swap.load(*at, &mut got).unwrap();
            assert_eq!(got, page(*nth));
        }
        let stats = swap.stats();
        if policy.is_some_and(|policy| policy != SwapPolicy::WriteThrough) {
            assert!(stats.got_back > 0 && stats.cleaned > 0);
            assert!(stats.device_writes + stats.got_back <= stats.stores + stats.cleaned);
        }
    }
}

#[test]
fn a_dirty_page_that_is_got_back_is_never_written_and_a_cleaned_one_once() {
    let (slots, mut words) = (Slots::new(1), Vec::new());
    let reserve = reserve(&mut words, &slots, 512);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let folder = SwapFolder::new("frontswap");
    let device = SwapFile::create(&folder.path().join("swap"), 100).unwrap();
    let swap = Frontswap::new(&device, 100).with_store(&guests, pool, 0, BACK);
    let pages: Vec<_> = (0..40).collect();
    let contents: Vec<_> = (0..40).map(page).collect();
    swap.store(&pages, &contents).unwrap();
    assert_eq!((swap.dirty_pages(), device.bytes_written()), (40, 0));
    let mut got = [0; 512];
    for at in 0..20 {
        assert_eq!(swap.load(at, &mut got), Ok(LoadedPage::Dirty));
        assert_eq!(got, page(at));
    }
    assert_eq!(swap.clean(100), 20);
    assert_eq!((swap.dirty_pages(), swap.used_slots()), (0, 20));
    for _ in 0..3 {
        for at in 20..40 {
            assert_eq!(swap.load(at, &mut got), Ok(LoadedPage::Clean));
            assert_eq!(got, page(at));
            assert!(swap.keep(at, &got));
        }
    }
    assert_eq!(device.bytes_written(), 20 * 4096);
    assert_eq!(swap.stats().device_loads, 0);
}

/// A device that tells the test of its calls before it does them.
struct ToldZram<'t> {
    zram: Zram,
    writes: &'t (dyn Fn() + Sync),
    /// Of this many pages from a slot on.
    reads: &'t (dyn Fn(u64, usize) + Sync),
}

impl SwapDevice for ToldZram<'_> {
    fn slots(&self) -> u64 {
        self.zram.slots()
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        (self.writes)();
        self.zram.write(slot, page)
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.read_run(slot, std::slice::from_mut(page))
    }

    fn read_run(&self, first: u64, pages: &mut [[u64; 512]]) -> io::Result<()> {
        (self.reads)(first, pages.len());
        self.zram.read_run(first, pages)
    }

    fn discard(&self, slot: u64) {
        self.zram.discard(slot);
    }

    fn sync(&self) -> io::Result<()> {
        self.zram.sync()
    }

    fn bytes_written(&self) -> u64 {
        self.zram.bytes_written()
    }

    fn in_use(&self) -> &DeviceUse {
        self.zram.in_use()
    }
}

#[test]
fn a_page_that_is_got_back_while_it_is_written_does_not_count_as_one_without_a_write() {
    let (slots, mut words) = (Slots::new(2), Vec::new());
    let reserve = reserve(&mut words, &slots, 512);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    // The writer meets the test twice: before it writes, and when it may.
    let meeting = Barrier::new(2);
    let meet_twice = || {
        meeting.wait();
        meeting.wait();
    };
    let device = ToldZram {
        zram: Zram::new(10, 1 << 20),
        writes: &meet_twice,
        reads: &|_, _| (),
    };
    let swap = Frontswap::new(&device, 10).with_store(&guests, pool, 0, BACK);
    swap.store(&[3], &[page(1)]).unwrap();
    let mut got = [0; 512];
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| swap.clean(1));
        meeting.wait();
        assert_eq!(swap.load(3, &mut got), Ok(LoadedPage::Dirty));
        meeting.wait();
        assert_eq!(cleaner.join().unwrap(), 0);
    });
    let stats = swap.stats();
    assert_eq!((stats.device_writes, stats.got_back), (1, 0));
    assert_eq!((swap.dirty_pages(), swap.used_slots()), (0, 0));
}

#[test]
fn what_a_device_does_not_take_stays_dirty_and_is_tried_again() {
    let (slots, mut words) = (Slots::new(1), Vec::new());
    let reserve = reserve(&mut words, &slots, 512);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let device = Faulty::new(Zram::new(100, 1 << 20));
    let swap = Frontswap::new(&device, 100).with_store(&guests, pool, 0, BACK);
    let contents: Vec<_> = (0..10).map(page).collect();
    let pages: Vec<_> = (0..10).collect();
    swap.store(&pages, &contents).unwrap();
    device.fail(SwapOp::Write, 4, 1);
    assert_eq!(swap.clean(10), 9);
    assert_eq!((swap.dirty_pages(), swap.used_slots()), (1, 9));
    device.fail(SwapOp::Write, 0, u64::MAX);
    let error = swap.sync().unwrap_err().to_string();
    assert!(error.contains("fails, as was asked"), "{error}");
    assert_eq!(swap.dirty_pages(), 1);
    device.fail(SwapOp::Write, 0, 0);
    assert_eq!(swap.sync(), Ok(0));
    device.fail(SwapOp::Sync, 0, u64::MAX);
    let error = swap.sync().unwrap_err().to_string();
    assert_eq!(error, "sync 1 fails, as was asked");
    let mut got = [0; 512];
    for at in 0..10 {
        swap.load(at, &mut got).unwrap();
        assert_eq!(got, page(at));
    }
}

#[test]
fn a_failed_write_says_which_page_and_those_before_it_are_stored() {
    let device = Faulty::new(Zram::new(100, 1 << 20));
    let swap = Frontswap::new(&device, 100);
    let pages: Vec<_> = (0..8).collect();
    let old: Vec<_> = (0..8).map(page).collect();
    swap.store(&pages, &old).unwrap();
    let new: Vec<_> = (0..8).map(|at| page(at + 50)).collect();
    // Once of the run, and once alone.
    device.fail(SwapOp::Write, 8 + 3, 5);
    let (nth, error) = swap.store(&pages, &new).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("page {nth}: write 12 of slot")),
        "{text}"
    );
    assert_eq!(nth, 0);
    let mut got = [0; 512];
    for at in 0..8 {
        assert_eq!(swap.load(at, &mut got), Ok(LoadedPage::Clean));
        assert_eq!(got, page(at), "as before");
    }
    device.fail(SwapOp::Write, 0, 0);
    device.fail(SwapOp::Read, 8, 1);
    let error = swap.load(5, &mut got).unwrap_err().to_string();
    assert!(error.starts_with("page 5: read 8 of slot"), "{error}");
    assert_eq!(swap.load(5, &mut got), Ok(LoadedPage::Clean));
    assert_eq!(got, page(5));
    assert_eq!(swap.used_slots(), 8);
}

#[test]
fn what_neither_store_nor_device_takes_leaves_the_older_version_where_it_was() {
    let (slots, mut words) = (Slots::new(2), Vec::new());
    let reserve = reserve(&mut words, &slots, 64);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let device = Faulty::new(Zram::new(200, 1 << 20));
    let swap = Frontswap::new(&device, 150).with_store(&guests, pool, 3, BACK);
    // An owner has all frames, so the store refuses.
    let all = reserve.alloc_contig(64, 1).unwrap();
    swap.store(&[5], &[page(1)]).unwrap();
    let mut got = [0; 512];
    for _ in 0..2 {
        // The page is tried twice: in a run, and by itself.
        device.fail(SwapOp::Write, device.calls(SwapOp::Write), 2);
        let (nth, error) = swap.store(&[5], &[page(2)]).unwrap_err();
        assert_eq!(nth, 0, "{error}");
        assert_eq!(swap.load(5, &mut got).unwrap(), LoadedPage::Clean);
        assert_eq!(
            (got, swap.used_slots(), swap.dirty_pages()),
            (page(1), 1, 0)
        );
    }
    reserve.release(all).unwrap();
    swap.store(&[5], &[page(3)]).unwrap();
    swap.load(5, &mut got).unwrap();
    assert_eq!((got, swap.used_slots()), (page(3), 0));
}

#[test]
fn a_full_device_is_an_error_and_what_is_there_stays() {
    let device = Zram::new(4, 1 << 20);
    let swap = Frontswap::new(&device, 100);
    let contents: Vec<_> = (0..6).map(page).collect();
    let (nth, error) = swap.store(&[0, 1, 2, 3, 4, 5], &contents).unwrap_err();
    assert_eq!((nth, error), (4, SwapError::Full(4)));
    assert_eq!(
        SwapError::Full(4).to_string(),
        "all 4 slots of the swap device are in use"
    );
    let mut got = [0; 512];
    for at in 0..4 {
        swap.load(at, &mut got).unwrap();
        assert_eq!(got, page(at));
    }
    // A page's own slot is there for it.
    swap.store(&[1], &[page(77)]).unwrap();
    swap.load(1, &mut got).unwrap();
    assert_eq!(got, page(77));
    swap.invalidate(2).unwrap();
    swap.store(&[5], &contents[5..]).unwrap();
    let error = swap.load(100, &mut got).unwrap_err().to_string();
    assert_eq!(error, "page 100 is not below 100");
}

#[test]
fn a_checkpoint_is_found_again_and_what_came_after_it_is_not() {
    let folder = SwapFolder::new("checkpoint");
    let path = folder.path().join("swap");
    let pages: Vec<_> = (0..600).collect();
    {
        let device = SwapFile::create(&path, 2000).unwrap();
        let swap = Frontswap::durable(&device, 600).unwrap();
        for round in 0..3 {
            let contents: Vec<_> = pages.iter().map(|at| page(at + round)).collect();
            swap.store(&pages[..500], &contents[..500]).unwrap();
            assert_eq!(swap.sync(), Ok(round + 1));
        }
        // Twice: the slots of the second round are free, those of the checkpoint are not.
        for _ in 0..2 {
            let contents: Vec<_> = pages.iter().map(|at| page(at + 100)).collect();
            swap.store(&pages[..300], &contents[..300]).unwrap();
        }
    }
    let device = SwapFile::open(&path).unwrap();
    let (swap, number) = Frontswap::restore(&device).unwrap();
    assert_eq!(
        (number, swap.pages(), swap.used_slots()),
        (3, 600, 500 + 2 + 4)
    );
    let mut got = [0; 512];
    for at in 0..500 {
        assert_eq!(swap.load(at, &mut got), Ok(LoadedPage::Clean));
        assert_eq!(got, page(at + 2));
    }
    assert_eq!(swap.load(500, &mut got), Ok(LoadedPage::Zero));
    assert_eq!(swap.sync(), Ok(4));
    drop(swap);
    // The newer header is torn: the older checkpoint is whole.
    let mut header = [0; 512];
    device.read(0, &mut header).unwrap();
    header[3] ^= 1;
    device.write(0, &header).unwrap();
    assert_eq!(Frontswap::restore(&device).unwrap().1, 3);
    device.write(1, &header).unwrap();
    let none = Frontswap::restore(&device).unwrap_err();
    assert_eq!(none.to_string(), "the device has no whole checkpoint");
    let small = Frontswap::durable(&device, 600_000)
        .unwrap_err()
        .to_string();
    assert_eq!(
        small,
        "checkpoints of 600000 pages take 2346 slots, and the device has 2000"
    );
}

/// A store with a cleaner that waits between its copy of a page and the result.
struct SlowCleaner<'g, 'r, 'm> {
    guests: &'g Guests<'r, 'm, SwapPlatform>,
    copied: Barrier,
    go_on: Barrier,
}

impl<'g, 'r, 'm> SlowCleaner<'g, 'r, 'm> {
    fn new(guests: &'g Guests<'r, 'm, SwapPlatform>) -> Self {
        Self {
            guests,
            copied: Barrier::new(2),
            go_on: Barrier::new(2),
        }
    }
}

impl Tenancy for SlowCleaner<'_, '_, '_> {
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store)) {
        self.guests.with(work);
    }

    fn clean(&self, pages: u64, write: &mut dyn FnMut(&Key, &[u64; 512]) -> bool) -> Cleaned {
        self.guests.clean(pages, &mut |key, page| {
            self.copied.wait();
            self.go_on.wait();
            write(key, page)
        })
    }
}

#[test]
fn fs2_what_a_cleaner_copied_before_the_page_was_stored_anew_is_not_taken_for_the_new_version() {
    let (slots, mut words) = (Slots::new(2), Vec::new());
    let reserve = reserve(&mut words, &slots, 512);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let slow = SlowCleaner::new(&guests);
    let device = Zram::new(100, 1 << 20);
    // Got back before it is stored again, or stored over.
    for is_got_back in [true, false] {
        let swap = Frontswap::new(&device, 10).with_store(&slow, pool, 7, BACK);
        swap.store(&[3], &[page(1)]).unwrap();
        let mut got = [0; 512];
        std::thread::scope(|scope| {
            let cleaner = scope.spawn(|| swap.clean(1));
            slow.copied.wait();
            if is_got_back {
                assert_eq!(swap.load(3, &mut got), Ok(LoadedPage::Dirty));
            }
            swap.store(&[3], &[page(2)]).unwrap();
            slow.go_on.wait();
            assert_eq!(cleaner.join().unwrap(), 0, "the older version");
        });
        assert_eq!((swap.dirty_pages(), swap.used_slots()), (1, 0));
        // Whatever may be dropped is.
        let others = std::iter::from_fn(|| reserve.alloc_contig(1, 1).ok());
        let others: Vec<_> = others.collect();
        let loaded = swap.load(3, &mut got);
        assert_eq!((loaded, got), (Ok(LoadedPage::Dirty), page(2)));
        let left = others.iter().map(|run| reserve.release(*run));
        assert!(left.collect::<Result<Vec<_>, _>>().is_ok());
        assert_eq!(swap.dirty_pages(), 0);
        swap.invalidate(3).unwrap();
        assert_eq!(reserve.stats().frontswap.held_pages, 0);
    }
}

#[test]
fn fs2_a_version_that_a_page_had_before_does_not_come_again_while_a_cleaner_is_at_work() {
    let (slots, mut words) = (Slots::new(2), Vec::new());
    let reserve = reserve(&mut words, &slots, 512);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let slow = SlowCleaner::new(&guests);
    let device = Zram::new(100, 1 << 20);
    let swap = Frontswap::new(&device, 10).with_store(&slow, pool, 7, BACK);
    // As if it had been stored so often: this is the last version but one.
    let before = (0..(1 << 21) - 2).fold(SwapEntry(0), |entry, _| entry.next(SwapEntryKind::None));
    swap.entries[3].store(before.0, Relaxed);
    swap.store(&[3], &[page(1)]).unwrap();
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| swap.clean(1));
        slow.copied.wait();
        let (done, is_done) = std::sync::mpsc::channel();
        let swap = &swap;
        scope.spawn(move || {
            swap.store(&[3], &[page(2)]).unwrap();
            done.send(()).unwrap();
        });
        let waited = is_done.recv_timeout(std::time::Duration::from_millis(100));
        assert!(waited.is_err(), "the page has its first version again");
        slow.go_on.wait();
        assert_eq!(cleaner.join().unwrap(), 1, "the last version is the page's");
        is_done.recv().unwrap();
    });
    assert!(SwapEntry(swap.entries[3].load(Relaxed)).has_gone_round());
    let mut got = [0; 512];
    assert_eq!(swap.load(3, &mut got), Ok(LoadedPage::Dirty));
    assert_eq!(got, page(2));
}

#[test]
fn neighbours_in_neighbouring_slots_come_by_one_request_and_copies_from_the_store() {
    let (slots, mut words) = (Slots::new(2), Vec::new());
    let reserve = reserve(&mut words, &slots, 64);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let reads = std::sync::Mutex::new(Vec::new());
    let device = ToldZram {
        zram: Zram::new(64, 1 << 20),
        writes: &|| (),
        reads: &|first, pages| reads.lock().unwrap().push((first, pages)),
    };
    let swap = Frontswap::new(&device, 16);
    let swap = swap.with_store(&guests, pool, 0, SwapPolicy::WriteThrough);
    let contents: Vec<_> = (0..8).map(page).collect();
    // All but the last, which stays zero; slots 0 to 6.
    swap.store(&[0, 1, 2, 3, 4, 5, 6], &contents[..7]).unwrap();
    let mut got = vec![[1; 512]; 8];
    let mut loaded = Vec::new();
    // Owners drop all copies but that of page 2.
    for at in [0, 1, 3, 4, 5, 6] {
        let key = Key {
            pool,
            object: 0,
            index: SwapEntry(swap.entries[at as usize].load(Acquire)).index(at),
        };
        guests.with(&mut |store| store.invalidate_page(key));
    }
    swap.load_run(0, &mut got, &mut loaded).unwrap();
    assert_eq!(got[..7], contents[..7]);
    assert_eq!(got[7], [0; 512]);
    assert_eq!(loaded[..7], [LoadedPage::Clean; 7]);
    assert_eq!(loaded[7], LoadedPage::Zero);
    assert_eq!(*reads.lock().unwrap(), [(0, 2), (3, 4)]);
    let stats = swap.stats();
    assert_eq!((stats.device_loads, stats.store_loads), (6, 1));
    // They are on the device as before.
    swap.load_run(0, &mut got[..7], &mut loaded).unwrap();
    assert_eq!(got[..7], contents[..7]);
}

#[test]
fn a_page_that_cannot_be_read_is_named_and_those_before_it_are_there() {
    let device = Faulty::new(Zram::new(64, 1 << 20));
    let swap = Frontswap::new(&device, 8);
    let contents: Vec<_> = (0..8).map(page).collect();
    swap.store(&[0, 1, 2, 3, 4, 5, 6, 7], &contents).unwrap();
    // The request fails at its fourth page, and then the first page by itself.
    device.fail(SwapOp::Read, 3, 2);
    let (mut got, mut loaded) = (vec![[0; 512]; 8], Vec::new());
    let error = swap.load_run(0, &mut got, &mut loaded).unwrap_err();
    assert!(error.to_string().contains("page 0"), "{error}");
    assert_eq!(loaded, []);
    swap.load_run(0, &mut got, &mut loaded).unwrap();
    assert_eq!((got, loaded.len()), (contents, 8));
}
