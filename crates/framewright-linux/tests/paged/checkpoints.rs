//! Any sequence of lives of a device that keeps checkpoints agrees with a slow model: it is begun anew, stored to, synced,
//! fails at any call, loses its power with what was written since its last sync in part, becomes shorter, is restored.

use crate::machine::MachineFolder;
use framewright_linux::swap::{
    DeviceUse, Faulty, Frontswap, LoadedPage, RestoreError, SwapDevice, SwapError, SwapFile,
    SwapOp, Zram,
};
use framewright_sim::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A page that says at every word what was stored. 0: zero.
fn page(value: u64) -> [u64; 512] {
    std::array::from_fn(|at| {
        if value == 0 {
            0
        } else {
            value << 16 | at as u64
        }
    })
}

/// A disk with a cache of its own: what was not synced is lost with the power, in part.
struct Disk {
    slots: AtomicU64,
    /// Calls that succeed from now on.
    budget: AtomicU64,
    in_use: DeviceUse,
    inner: Mutex<DeviceInner>,
}

struct DeviceInner {
    safe: BTreeMap<u64, [u64; 512]>,
    /// Writes since the last sync, in order.
    cached: Vec<(u64, [u64; 512])>,
    random: Random,
}

impl Disk {
    fn new(slots: u64, seed: u64) -> Self {
        Self {
            slots: AtomicU64::new(slots),
            budget: AtomicU64::new(u64::MAX),
            in_use: DeviceUse::new(),
            inner: Mutex::new(DeviceInner {
                safe: BTreeMap::new(),
                cached: Vec::new(),
                random: Random::new(seed),
            }),
        }
    }

    fn call(&self) -> io::Result<()> {
        let left = self.budget.load(Relaxed);
        match left.checked_sub(1) {
            Some(less) => {
                self.budget
                    .store(if left == u64::MAX { left } else { less }, Relaxed);
                Ok(())
            }
            None => Err(io::Error::other("the disk fails, as was asked")),
        }
    }

    /// From here on it works again. With a loss of power any of the writes since the last sync are lost, and some are torn;
    /// of two into one slot the second is not the one that stays of both.
    fn begin_again(&self, loses_power: bool) {
        self.budget.store(u64::MAX, Relaxed);
        if !loses_power {
            return;
        }
        let inner = &mut *self.inner.lock().unwrap();
        let mut lost = BTreeSet::new();
        for (slot, page) in std::mem::take(&mut inner.cached) {
            let fate = inner.random.below(6);
            if lost.contains(&slot) || fate < 2 {
                lost.insert(slot);
                continue;
            }
            let old = inner.safe.entry(slot).or_insert([0; 512]);
            let words = if fate == 2 { 256 } else { 512 };
            old[..words].copy_from_slice(&page[..words]);
            if fate == 2 {
                lost.insert(slot);
            }
        }
    }

    fn cut_to(&self, slots: u64) {
        self.slots.store(slots, Relaxed);
        self.inner
            .lock()
            .unwrap()
            .safe
            .retain(|slot, _| *slot < slots);
        self.inner
            .lock()
            .unwrap()
            .cached
            .retain(|(slot, _)| *slot < slots);
    }
}

impl SwapDevice for Disk {
    fn slots(&self) -> u64 {
        self.slots.load(Relaxed)
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        assert!(slot < self.slots(), "slot {slot} is written");
        let called = self.call();
        let inner = &mut *self.inner.lock().unwrap();
        // One that fails may have come half way.
        if called.is_ok() || inner.random.below(2) == 0 {
            let mut page = *page;
            if called.is_err() {
                page[256..].fill(0xdead);
            }
            inner.cached.push((slot, page));
        }
        called
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        assert!(slot < self.slots(), "slot {slot} is read");
        self.call()?;
        let inner = self.inner.lock().unwrap();
        let cached = inner.cached.iter().rev().find(|(of, _)| *of == slot);
        let found = cached.map(|(_, page)| page).or(inner.safe.get(&slot));
        *page = found.copied().unwrap_or([0; 512]);
        Ok(())
    }

    fn discard(&self, slot: u64) {
        // The contents of a slot that nothing names are undefined.
        let inner = &mut *self.inner.lock().unwrap();
        inner.cached.push((slot, [0xd15c; 512]));
    }

    fn sync(&self) -> io::Result<()> {
        self.call()?;
        let inner = &mut *self.inner.lock().unwrap();
        inner.safe.extend(std::mem::take(&mut inner.cached));
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        0
    }

    fn in_use(&self) -> &DeviceUse {
        &self.in_use
    }
}

/// What a page may be.
const LOST: u64 = u64::MAX;

/// A state that may be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Saved {
    number: u64,
    pages: Vec<u64>,
}

/// How often what was looked for came about.
#[derive(Default, Debug)]
struct SeenLives {
    begun_on_used: u64,
    restored: u64,
    restored_after_earlier: u64,
    restored_unconfirmed: u64,
    restored_nothing: u64,
    lost_pages: u64,
    too_small: u64,
    full: u64,
    failed_syncs: u64,
    failed_starts: u64,
}

struct CheckpointModel {
    disk: Disk,
    random: Random,
    values: u64,
    /// What a restore may find; `None` stands for no checkpoint.
    may_be: Vec<Option<Saved>>,
    incarnations: u64,
    is_cut: bool,
    /// Slots that the device has had, less what it has.
    cut_slots: u64,
    seen: SeenLives,
}

/// The pages that are used of this many: the first, and the last, which another slot of a map names.
fn used(pages: u64) -> Vec<u64> {
    (0..10.min(pages))
        .chain(pages.saturating_sub(6).max(10)..pages)
        .collect()
}

impl CheckpointModel {
    fn new(seed: u64) -> Self {
        Self {
            disk: Disk::new(20 + seed % 30, seed),
            random: Random::new(seed),
            values: 0,
            may_be: vec![None],
            incarnations: 0,
            is_cut: false,
            cut_slots: 0,
            seen: SeenLives::default(),
        }
    }

    /// The device is begun anew, or restored; then it is worked on until it fails or the process ends.
    fn live(&mut self) {
        let disk = std::mem::replace(&mut self.disk, Disk::new(0, 0));
        if self.random.below(3) == 0 {
            disk.budget.store(self.random.below(60), Relaxed);
        }
        // Not while there is something to restore: what it was cut off would be there again, as zero.
        if self.may_be == [None] && self.random.below(4) > 0 {
            let slots = disk.slots().max(14 + self.random.below(30));
            disk.slots.store(slots, Relaxed);
        }
        if self.random.below(3) == 0 {
            self.begin(&disk);
        } else {
            self.restore(&disk);
        }
        disk.begin_again(self.random.below(2) == 0);
        if self.random.below(12) == 0 && disk.slots() > 5 {
            let slots = disk.slots();
            let left = match self.random.below(3) {
                0 => 5,
                _ => (slots - 1 - self.random.below(slots / 3)).max(5),
            };
            disk.cut_to(left);
            self.is_cut = true;
            self.cut_slots += slots - left;
        }
        self.disk = disk;
    }

    fn begin(&mut self, disk: &Disk) {
        let pages = [10, 600][self.random.below(2) as usize];
        match Frontswap::durable(disk, pages) {
            Ok(swap) => {
                self.seen.begun_on_used += u64::from(self.may_be != [None]);
                self.may_be = vec![None];
                self.incarnations += 1;
                self.is_cut = false;
                self.cut_slots = 0;
                let zero = vec![0; used(pages).len()];
                self.work(disk, &swap, zero, 0);
            }
            Err(RestoreError::Device(_)) => {
                self.seen.failed_starts += 1;
                if !self.may_be.contains(&None) {
                    self.may_be.push(None);
                }
            }
            Err(RestoreError::TooSmall { needed, slots, .. }) => assert!(needed >= slots),
            Err(error) => panic!("{error}"),
        }
    }

    fn restore(&mut self, disk: &Disk) {
        let (swap, number) = match Frontswap::restore(disk) {
            Ok(found) => found,
            Err(RestoreError::None) => {
                self.seen.restored_nothing += 1;
                assert!(self.may_be.contains(&None), "nothing, of {:?}", self.may_be);
                return self.begin(disk);
            }
            Err(RestoreError::TooSmall { .. }) => {
                self.seen.too_small += 1;
                assert!(self.is_cut);
                return self.begin(disk);
            }
            // Nothing has changed.
            Err(RestoreError::Device(_)) => return,
            Err(error) => panic!("{error}"),
        };
        let mut now = Vec::new();
        for at in used(swap.pages()) {
            match self.load(&swap, at) {
                Ok(value) => now.push(value),
                Err(SwapError::Device { .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
        let fits = |saved: &Saved| {
            let mut lost = 0;
            let is_same = saved.number == number
                && saved.pages.len() == now.len()
                && saved.pages.iter().zip(&now).all(|(then, now)| {
                    lost += u64::from(then != now && *now == LOST);
                    then == now || *now == LOST
                });
            is_same && lost <= self.cut_slots
        };
        let all = self.may_be.iter().flatten();
        let found = all.filter(|saved| fits(saved)).count();
        assert!(
            found > 0,
            "checkpoint {number}: {now:?} of {:?}",
            self.may_be
        );
        self.seen.restored += 1;
        self.seen.restored_after_earlier += u64::from(self.incarnations > 1);
        self.seen.restored_unconfirmed += u64::from(self.may_be.len() > 1);
        self.seen.lost_pages += now.iter().filter(|value| **value == LOST).count() as u64;
        // It was synced when it was restored.
        let pages = now.clone();
        self.may_be = vec![Some(Saved { number, pages })];
        self.work(disk, &swap, now, number);
    }

    fn load(&self, swap: &Frontswap<'_>, at: u64) -> Result<u64, SwapError> {
        let mut got = [1; 512];
        match swap.load(at, &mut got) {
            Ok(loaded) => {
                let value = got[0] >> 16;
                assert_eq!(got, page(value), "page {at} is torn");
                assert_eq!(loaded == LoadedPage::Zero, value == 0);
                Ok(value)
            }
            Err(SwapError::Lost(of)) => {
                assert_eq!(of, at);
                Ok(LOST)
            }
            Err(error) => Err(error),
        }
    }

    fn work(&mut self, disk: &Disk, swap: &Frontswap<'_>, mut now: Vec<u64>, mut number: u64) {
        let pages = used(swap.pages());
        let steps = self.random.below(40);
        if self.random.below(2) == 0 {
            disk.budget.store(self.random.below(80), Relaxed);
        }
        for _ in 0..steps {
            let at = self.random.below(pages.len() as u64) as usize;
            match self.random.below(10) {
                0..5 => {
                    let end = pages.len().min(at + 1 + self.random.below(4) as usize);
                    let first = self.values + 1;
                    self.values += (end - at) as u64;
                    let contents: Vec<_> = (first..=self.values).map(page).collect();
                    let stored = swap.store(&pages[at..end], &contents);
                    let done = stored.as_ref().map_or_else(|(nth, _)| *nth, |()| end - at);
                    for (nth, value) in (first..).take(done).enumerate() {
                        now[at + nth] = value;
                    }
                    if let Err((nth, error)) = stored {
                        self.seen.full += u64::from(matches!(error, SwapError::Full(_)));
                        match self.load(swap, pages[at + nth]) {
                            Ok(LOST) => now[at + nth] = LOST,
                            Ok(value) => assert_eq!(value, now[at + nth]),
                            Err(SwapError::Device { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                5..7 => match self.load(swap, pages[at]) {
                    Ok(value) => assert_eq!(value, now[at]),
                    Err(SwapError::Device { .. }) => return,
                    Err(error) => panic!("{error}"),
                },
                7 => {
                    swap.invalidate(pages[at]).unwrap();
                    now[at] = 0;
                }
                _ => {
                    let saved = Saved {
                        number: number + 1,
                        pages: now.clone(),
                    };
                    match swap.sync() {
                        Ok(confirmed) => {
                            number += 1;
                            assert_eq!(confirmed, number);
                            self.may_be = vec![Some(saved)];
                        }
                        Err(_) => {
                            self.seen.failed_syncs += 1;
                            self.may_be.push(Some(saved));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn fs4_any_lives_of_a_used_device_agree_with_the_model() {
    let mut all: Vec<SeenLives> = Vec::new();
    for seed in 0..30 {
        let mut model = CheckpointModel::new(seed);
        for _ in 0..60 {
            model.live();
        }
        all.push(model.seen);
    }
    let of = |count: fn(&SeenLives) -> u64| all.iter().map(count).sum::<u64>();
    let counts = [
        ("begun on a used device", of(|seen| seen.begun_on_used)),
        ("restored", of(|seen| seen.restored)),
        (
            "restored after an earlier incarnation",
            of(|seen| seen.restored_after_earlier),
        ),
        (
            "restored where a sync had failed",
            of(|seen| seen.restored_unconfirmed),
        ),
        ("nothing to restore", of(|seen| seen.restored_nothing)),
        ("lost pages", of(|seen| seen.lost_pages)),
        ("too small", of(|seen| seen.too_small)),
        ("full", of(|seen| seen.full)),
        ("failed syncs", of(|seen| seen.failed_syncs)),
        ("failed starts", of(|seen| seen.failed_starts)),
    ];
    println!("{counts:?}");
    for (what, count) in counts {
        assert!(count >= 10, "{what}: {count} times");
    }
}

/// A device as another process finds it after a crash: it does not know the swap that has it now.
struct OpenedAgain<'d>(&'d Zram, DeviceUse);

impl<'d> OpenedAgain<'d> {
    fn new(device: &'d Zram) -> Self {
        Self(device, DeviceUse::new())
    }
}

impl SwapDevice for OpenedAgain<'_> {
    fn slots(&self) -> u64 {
        self.0.slots()
    }
    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        self.0.write(slot, page)
    }
    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.0.read(slot, page)
    }
    fn discard(&self, slot: u64) {
        self.0.discard(slot);
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn bytes_written(&self) -> u64 {
        self.0.bytes_written()
    }
    fn in_use(&self) -> &DeviceUse {
        &self.1
    }
}

#[test]
fn fs4_a_fresh_start_on_a_used_device_is_what_its_sync_makes_safe() {
    let device = Zram::new(200, 1 << 22);
    let first = Frontswap::durable(&device, 100).unwrap();
    for round in 0..4 {
        for nth in 0..20 {
            first
                .store(&[nth], &[page(1000 + 100 * round + nth)])
                .unwrap();
        }
        assert_eq!(first.sync(), Ok(round + 1));
    }
    drop(first);
    let second = Frontswap::durable(&device, 100).unwrap();
    assert_eq!(
        Frontswap::restore(&OpenedAgain::new(&device)).unwrap_err(),
        RestoreError::None
    );
    for nth in 0..40 {
        second.store(&[nth], &[page(7000 + nth)]).unwrap();
    }
    assert_eq!(
        Frontswap::restore(&OpenedAgain::new(&device)).unwrap_err(),
        RestoreError::None
    );
    assert_eq!(second.sync(), Ok(1));
    drop(second);
    let (swap, number) = Frontswap::restore(&device).unwrap();
    assert_eq!(number, 1);
    let mut got = [0; 512];
    for nth in 0..40 {
        assert_eq!(swap.load(nth, &mut got), Ok(LoadedPage::Clean));
        assert_eq!(got, page(7000 + nth));
    }
}

#[test]
fn fs4_pages_behind_the_end_of_a_device_that_became_shorter_are_lost_and_not_zero() {
    let folder = MachineFolder::new("shorter");
    let path = folder.path().join("swap");
    let device = SwapFile::create(&path, 100).unwrap();
    let swap = Frontswap::durable(&device, 60).unwrap();
    for nth in 0..60 {
        swap.store(&[nth], &[page(50 + nth)]).unwrap();
    }
    swap.sync().unwrap();
    drop(swap);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(40 * 4096).unwrap();
    drop(device);
    let device = SwapFile::open(&path).unwrap();
    let (swap, _) = Frontswap::restore(&device).unwrap();
    let mut got = [1; 512];
    // Four slots are the checkpoints' own.
    for nth in 0..36 {
        assert_eq!(swap.load(nth, &mut got), Ok(LoadedPage::Clean));
        assert_eq!(got, page(50 + nth));
    }
    for nth in 36..60 {
        let lost = swap.load(nth, &mut got).unwrap_err();
        let what = format!("page {nth} is lost: it is neither in the store nor on the device");
        assert_eq!((lost.to_string(), swap.keep(nth, &got)), (what, false));
    }
    // Until it is stored again; also after another checkpoint, and if the device is longer then.
    swap.invalidate(0).unwrap();
    assert_eq!(swap.sync(), Ok(2));
    swap.store(&[59], &[page(1)]).unwrap();
    assert_eq!(swap.sync(), Ok(3));
    drop(swap);
    file.set_len(100 * 4096).unwrap();
    drop(device);
    let device = SwapFile::open(&path).unwrap();
    let (swap, number) = Frontswap::restore(&device).unwrap();
    assert_eq!((number, swap.load(0, &mut got)), (3, Ok(LoadedPage::Zero)));
    assert_eq!(swap.load(58, &mut got), Err(SwapError::Lost(58)));
    assert_eq!(swap.load(59, &mut got), Ok(LoadedPage::Clean));
    assert_eq!(got, page(1));
}

/// The sum of a header and of a map.
fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 32
    })
}

/// A header with right sums.
fn forged(incarnation: u64, number: u64, pages: u64, map_sum: u64) -> [u64; 512] {
    let mut words = [0; 512];
    let magic = u64::from_le_bytes(*b"framewr\x02");
    words[..5].copy_from_slice(&[magic, number, pages, map_sum, incarnation]);
    words[5] = sum(&words[..5]);
    words.map(u64::to_le)
}

/// This many empty slots, except for the first two.
struct Sparse(u64, [[u64; 512]; 2], DeviceUse);

impl SwapDevice for Sparse {
    fn slots(&self) -> u64 {
        self.0
    }
    fn write(&self, _: u64, _: &[u64; 512]) -> io::Result<()> {
        Ok(())
    }
    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        *page = *self.1.get(slot as usize).unwrap_or(&[0; 512]);
        Ok(())
    }
    fn discard(&self, _: u64) {}
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn bytes_written(&self) -> u64 {
        0
    }
    fn in_use(&self) -> &DeviceUse {
        &self.2
    }
}

#[test]
fn fs4_what_a_forged_header_claims_is_compared_with_the_device_first() {
    let restore = |slots, header| {
        let device = Sparse(slots, [header, [0; 512]], DeviceUse::new());
        Frontswap::restore(&device).map(drop)
    };
    let none = Err(RestoreError::None);
    // Numbers that no device reaches, and one that stands in the wrong place.
    for (incarnation, number) in [(u64::MAX, 2), (1, u64::MAX - 1), (1 << 62, 2), (1, 1)] {
        let header = forged(incarnation, number, 0, sum(&[]));
        assert_eq!(restore(100, header), none);
    }
    // More pages than the device has maps for.
    for pages in [u64::MAX, 1 << 63, 1 << 50, 49 * 512] {
        let refused = restore(100, forged(1, 2, pages, 0)).unwrap_err();
        assert!(
            matches!(refused, RestoreError::TooSmall { slots: 100, .. }),
            "{refused}"
        );
    }
    // A wrong sum: no memory is allocated for its pages.
    assert_eq!(restore(1 << 51, forged(1, 2, 1 << 24, 1)), none);
    // An empty device of 8 EiB: a lack of memory for its slots is an error, and no abort.
    let all = restore(1 << 51, forged(1, 2, 0, sum(&[])));
    assert!(matches!(all, Ok(()) | Err(RestoreError::NoMemory { .. })));
    let many =
        Frontswap::durable(&Sparse(u64::MAX, [[0; 512]; 2], DeviceUse::new()), 1 << 60).map(drop);
    assert!(
        matches!(many, Err(RestoreError::NoMemory { .. })),
        "{many:?}"
    );
}

#[test]
fn fs4_a_slot_that_a_map_has_for_two_pages_is_neither_ones() {
    let device = Zram::new(20, 1 << 20);
    // The slots 0 to 3 are the checkpoints' own.
    let map: Vec<u64> = [5, 6, 7, 6, 4, 0, 8, 8, 21, u64::MAX]
        .map(|slot: u64| slot)
        .to_vec();
    let mut words = [0; 512];
    words[..10].copy_from_slice(&map);
    (4..20).for_each(|slot| device.write(slot, &page(slot)).unwrap());
    device.write(0, &forged(1, 2, 10, sum(&map))).unwrap();
    device.write(2, &words.map(u64::to_le)).unwrap();
    let (swap, number) = Frontswap::restore(&device).unwrap();
    assert_eq!((number, swap.used_slots()), (2, 4 + 2));
    let mut got = [0; 512];
    let value = |at, got: &mut [u64; 512]| swap.load(at, got).map(|_| got[0] >> 16);
    let all: Vec<_> = (0..10).map(|at| value(at, &mut got).ok()).collect();
    let lost = None;
    let expected = [
        Some(4),
        lost,
        Some(6),
        lost,
        lost,
        Some(0),
        lost,
        lost,
        lost,
        lost,
    ];
    assert_eq!(all, expected);
    // No page has those slots.
    for at in 0..10 {
        swap.store(&[at], &[page(100 + at)]).unwrap();
    }
    assert!((0..10).all(|at| value(at, &mut got) == Ok(100 + at)));
    assert_eq!(swap.sync(), Ok(3));
}

#[test]
fn fs4_a_header_of_an_earlier_incarnation_does_not_count_though_it_is_whole_and_its_number_higher()
{
    let device = Zram::new(40, 1 << 20);
    let first = Frontswap::durable(&device, 10).unwrap();
    for round in 1..=8 {
        first.store(&[1], &[page(round)]).unwrap();
        assert_eq!(first.sync(), Ok(round));
    }
    let mut eighth = [0; 512];
    device.read(0, &mut eighth).unwrap();
    drop(first);
    let second = Frontswap::durable(&device, 10).unwrap();
    second.store(&[1], &[page(100)]).unwrap();
    assert_eq!(second.sync(), Ok(1));
    drop(second);
    // As if the device had lost the write that said it had no checkpoint.
    device.write(0, &eighth).unwrap();
    let (swap, number) = Frontswap::restore(&device).unwrap();
    let mut got = [0; 512];
    assert_eq!((number, swap.load(1, &mut got)), (1, Ok(LoadedPage::Clean)));
    assert_eq!(got, page(100));
}

#[test]
fn fs3_each_header_of_a_fresh_start_says_that_there_is_no_checkpoint() {
    let device = Zram::new(40, 1 << 20);
    let first = Frontswap::durable(&device, 10).unwrap();
    for round in 1..=2 {
        first.store(&[1], &[page(round)]).unwrap();
        assert_eq!(first.sync(), Ok(round));
    }
    drop(first);
    _ = Frontswap::durable(&device, 10).unwrap();
    // As if the power had failed in the first write of a header.
    for which in 0..2 {
        let mut header = [0; 512];
        device.read(which, &mut header).unwrap();
        device.write(which, &[!0; 512]).unwrap();
        assert_eq!(Frontswap::restore(&device).unwrap_err(), RestoreError::None);
        device.write(which, &header).unwrap();
    }
}

#[test]
fn fs1_a_header_whose_sum_is_wrong_is_none() {
    let device = Zram::new(40, 1 << 20);
    let swap = Frontswap::durable(&device, 10).unwrap();
    swap.store(&[1], &[page(5)]).unwrap();
    assert_eq!(swap.sync(), Ok(1));
    drop(swap);
    let mut torn = forged(7, 0, 10, 0);
    torn[5] ^= 1;
    device.write(0, &torn).unwrap();
    let restored = Frontswap::restore(&device).map(|(_, number)| number);
    assert_eq!(restored, Ok(1));
}

#[test]
fn fs5_a_device_has_one_swap_and_a_second_one_changes_nothing() {
    let device = Zram::new(200, 1 << 22);
    let first = Frontswap::durable(&device, 100).unwrap();
    first.store(&[7], &[page(1)]).unwrap();
    first.sync().unwrap();
    let written = device.bytes_written();
    let in_front = Faulty::new(&device);
    let further = Faulty::new(&in_front);
    for same in [&device as &dyn SwapDevice, &in_front, &further, &&in_front] {
        let refused = Frontswap::durable(same, 100).map(drop);
        assert_eq!(refused, Err(RestoreError::InUse));
        let refused = Frontswap::restore(same).map(drop);
        assert_eq!(refused, Err(RestoreError::InUse));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(Frontswap::new(same, 100));
        }));
        assert!(refused.is_err());
    }
    assert_eq!(device.bytes_written(), written);
    for op in [SwapOp::Read, SwapOp::Write, SwapOp::Sync] {
        assert_eq!(in_front.calls(op), 0, "{op:?}");
    }
    let mut got = [0; 512];
    assert_eq!(first.load(7, &mut got), Ok(LoadedPage::Clean));
    assert_eq!(got, page(1));
    // One that was refused, or has gone, is not in the way.
    drop(first);
    let too_many = Frontswap::durable(&device, 1 << 20).map(drop);
    assert!(matches!(too_many, Err(RestoreError::TooSmall { .. })));
    let (second, number) = Frontswap::restore(&in_front).unwrap();
    assert_eq!(number, 1);
    assert_eq!(second.load(7, &mut got), Ok(LoadedPage::Clean));
}
