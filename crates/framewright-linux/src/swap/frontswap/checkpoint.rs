//! The layout on the device by which another process finds the pages again.
//!
//! ```text
//!   slot   0          1          2 ..        2 + n ..      2 + 2n ..
//!        ┌──────────┬──────────┬───────────┬─────────────┬──────────────
//!        │ header A │ header B │ map A     │ map B       │ pages
//!        └──────────┴──────────┴───────────┴─────────────┴──────────────
//! ```
//!
//! A map has a word for each page: its slot and one more, or 0. A header has the incarnation and the checkpoint's
//! number, and checksums of the map and of itself. Words are little-endian.
//!
//! ```text
//!            durable                    sync                    sync
//!   anything ───────▶ void i, void i  ───────▶ 1 of i, void i  ───────▶ 1 of i, 2 of i ──▶ 3 of i, 2 of i ..
//!                     (no checkpoint)          restore: 1               restore: 2          restore: 3
//! ```
//!
//! [`durable`](Frontswap::durable) begins an *incarnation*: its number is above those in the two
//! headers, and before anything else is written, both headers say that it has no checkpoint. Only
//! the highest incarnation that a header names counts. So the data of an earlier run is never taken
//! for this one's, nor restored once its slots may have been written over (FS4). Within an
//! incarnation checkpoints take turns: if the process ends in the middle of one, the other one is
//! whole, and the slots that it names have not been overwritten (FS3).
//!
//! A device that was read may be one that another process wrote to and did not sync. So
//! [`restore`](Frontswap::restore) syncs it before it hands out a slot that an older checkpoint
//! names.
//!
//! A header is compared with the device before anything is allocated, and a map with its sum. Pages
//! have no sums: if a device gives back other data than was written, without an error, that goes
//! unnoticed. A file that became shorter and then longer again is such a device.

use super::{DeviceClaim, Frontswap, SwapDevice, SwapEntry, SwapEntryKind, SwapError};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Words in a slot.
const WORDS: u64 = 512;

/// "framewr" and the format's number: the first format had no incarnations.
const MAGIC: u64 = u64::from_le_bytes(*b"framewr\x02");

/// Incarnations and checkpoints are below. One a nanosecond would take 146 years; a larger number
/// in a header is forged.
const NUMBERS: u64 = 1 << 62;

/// Sweeps in a row in which no page is written, before a sync gives up: an owner that takes a block keeps its pages
/// from being written for a moment, and so does the cleaner of another swap over the same reserve.
const SWEEPS: u32 = 10_000;

// Words of a header.
const NUMBER: usize = 1;
const PAGES: usize = 2;
const MAP_SUM: usize = 3;
const INCARNATION: usize = 4;
const OWN_SUM: usize = 5;

/// Why nothing was restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestoreError {
    /// Another [`Frontswap`] has the device.
    InUse,
    /// There is no whole checkpoint on the device.
    None,
    /// The device has not enough slots for the checkpoints of this many pages.
    TooSmall {
        /// The pages.
        pages: u64,
        /// The slots that checkpoints take, without one page's contents.
        needed: u64,
        /// The slots that there are.
        slots: u64,
    },
    /// The device failed.
    Device(String),
    /// There is no memory for the records of this many pages and slots.
    NoMemory {
        /// The pages.
        pages: u64,
        /// The slots.
        slots: u64,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("another swap has the device"),
            Self::None => f.write_str("the device has no whole checkpoint"),
            Self::TooSmall {
                pages,
                needed,
                slots,
            } => write!(
                f,
                "checkpoints of {pages} pages take {needed} slots, and the device has {slots}"
            ),
            Self::Device(what) => f.write_str(what),
            Self::NoMemory { pages, slots } => {
                write!(
                    f,
                    "no memory to keep {pages} pages and {slots} slots in order"
                )
            }
        }
    }
}

impl std::error::Error for RestoreError {}

/// The sum of no words.
const SUM_START: u64 = 0x9e37_79b9_7f4a_7c15;

/// A checksum of a sequence of words: if any single one changes, it changes.
fn sum(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(SUM_START, sum_with)
}

/// Extends the sum `sum` of some words by one more.
fn sum_with(sum: u64, word: u64) -> u64 {
    // The multiplier of SplitMix64's finaliser: odd, so that no bit is lost.
    let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

/// Slots of one map.
fn map_slots(pages: u64) -> u64 {
    pages.div_ceil(WORDS)
}

/// Slots that checkpoints take.
fn slots_needed(pages: u64) -> u64 {
    2 + 2 * map_slots(pages) // at most 2^56: no sum of these is too long
}

/// Where map A or B begins.
fn map_start(which: u64, pages: u64) -> u64 {
    2 + which * map_slots(pages)
}

/// Allows stores to make pages dirty again when it is dropped.
struct Syncing<'f, 's>(&'f Frontswap<'s>);

impl Drop for Syncing<'_, '_> {
    fn drop(&mut self) {
        self.0.set_syncing(false);
    }
}

/// The contents of a header.
#[derive(Clone, Copy, Debug)]
struct CheckpointHeader {
    incarnation: u64,
    /// 0: the incarnation had no checkpoint when this was written.
    number: u64,
    pages: u64,
    map_sum: u64,
}

impl CheckpointHeader {
    fn words(self) -> [u64; 512] {
        let mut words = [0; WORDS as usize];
        words[0] = MAGIC;
        words[NUMBER] = self.number;
        words[PAGES] = self.pages;
        words[MAP_SUM] = self.map_sum;
        words[INCARNATION] = self.incarnation;
        words[OWN_SUM] = sum(words[..OWN_SUM].iter().copied());
        words
    }

    /// Decodes a page, if it is a header of that place.
    fn of(words: &[u64; 512], which: u64) -> Option<Self> {
        let header = Self {
            incarnation: words[INCARNATION],
            number: words[NUMBER],
            pages: words[PAGES],
            map_sum: words[MAP_SUM],
        };
        let is_whole = words[0] == MAGIC
            && words[OWN_SUM] == sum(words[..OWN_SUM].iter().copied())
            && header.incarnation < NUMBERS
            && header.number < NUMBERS
            && (header.number == 0 || header.number % 2 == which);
        is_whole.then_some(header)
    }
}

/// Reads one slot, its words in the machine's order.
fn read_slot(device: &dyn SwapDevice, slot: u64) -> Result<[u64; 512], RestoreError> {
    let mut page = [0; WORDS as usize];
    match device.read(slot, &mut page) {
        Ok(()) => Ok(page.map(u64::from_le)),
        Err(error) => Err(RestoreError::Device(error.to_string())),
    }
}

/// The contents of a header, if it is whole. A place that was never written has none.
fn read_header(
    device: &dyn SwapDevice,
    which: u64,
) -> Result<Option<CheckpointHeader>, RestoreError> {
    let mut page = [0; WORDS as usize];
    match device.read(which, &mut page) {
        Ok(()) => Ok(CheckpointHeader::of(&page.map(u64::from_le), which)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RestoreError::Device(error.to_string())),
    }
}

/// Hands out the words of a map, one after the other. Returns their sum.
fn read_map(
    device: &dyn SwapDevice,
    header: CheckpointHeader,
    mut each: impl FnMut(u64, u64),
) -> Result<u64, RestoreError> {
    let start = map_start(header.number % 2, header.pages);
    let mut so_far = SUM_START;
    for nth in 0..map_slots(header.pages) {
        let words = read_slot(device, start + nth)?;
        let first = nth * WORDS;
        let pages = (header.pages - first).min(WORDS);
        for (page, word) in (first..first + pages).zip(words) {
            so_far = sum_with(so_far, word);
            each(page, word);
        }
    }
    Ok(so_far)
}

/// Checks that the device has the slots of checkpoints of this many pages, and one more.
fn check_room(device: &dyn SwapDevice, pages: u64) -> Result<(), RestoreError> {
    let (needed, slots) = (slots_needed(pages), device.slots());
    if needed < slots {
        return Ok(());
    }
    Err(RestoreError::TooSmall {
        pages,
        needed,
        slots,
    })
}

fn sync_now(device: &dyn SwapDevice) -> Result<(), RestoreError> {
    let synced = device.sync();
    synced.map_err(|error| RestoreError::Device(error.to_string()))
}

impl<'s> Frontswap<'s> {
    /// The pages 0 to `pages - 1`, all of them zero, on a device that keeps checkpoints of them.
    ///
    /// The device's old contents are gone when this returns: until the first [`sync`](Self::sync)
    /// has returned there is no checkpoint to restore.
    ///
    /// # Errors
    /// [`RestoreError::InUse`], [`RestoreError::TooSmall`] and [`RestoreError::NoMemory`], and the device is unchanged;
    /// [`RestoreError::Device`]: its old contents may be gone.
    pub fn durable(device: &'s dyn SwapDevice, pages: u64) -> Result<Self, RestoreError> {
        let claim = DeviceClaim::take(device).ok_or(RestoreError::InUse)?;
        check_room(device, pages)?;
        let mut headers = [(0, read_header(device, 0)?), (1, read_header(device, 1)?)];
        let last = headers.iter().filter_map(|(_, header)| *header);
        let last = last.map(|header| header.incarnation).max().unwrap_or(0);
        // The last possible number is followed by the first: both headers say it before anything
        // else is written.
        let incarnation = if last + 1 < NUMBERS { last + 1 } else { 1 };
        let swap = Self::on_device(claim, pages, incarnation)?;
        let void = CheckpointHeader {
            incarnation,
            number: 0,
            pages,
            map_sum: 0,
        };
        // Writes the older header first, and makes it safe: else a torn newer one would leave the
        // older to be restored, of which slots have been written over.
        headers.sort_by_key(|(_, header)| header.map(|header| (header.incarnation, header.number)));
        for (which, _) in headers {
            let written = device.write(which, &void.words().map(u64::to_le));
            written.map_err(|error| RestoreError::Device(error.to_string()))?;
            sync_now(device)?;
        }
        Ok(swap)
    }

    /// The pages 0 to `pages - 1`, all of them zero; reads and writes nothing.
    fn on_device(
        claim: DeviceClaim<'s>,
        pages: u64,
        incarnation: u64,
    ) -> Result<Self, RestoreError> {
        let device = claim.device;
        check_room(device, pages)?;
        let mut swap = Self::try_new(claim, pages).ok_or_else(|| RestoreError::NoMemory {
            pages,
            slots: device.slots(),
        })?;
        (0..slots_needed(pages)).for_each(|slot| {
            swap.slots.take(slot);
        });
        swap.incarnation = Some(incarnation);
        Ok(swap)
    }

    /// The pages of the last checkpoint on the device. Also returns its number.
    ///
    /// A page with a slot that the device no longer has, because it became shorter, loads as
    /// [`SwapError::Lost`] until it is stored again; so does one in a slot that the map has for two
    /// pages.
    ///
    /// # Errors
    /// There is none, or no room for it, or the device failed, or another swap has it.
    pub fn restore(device: &'s dyn SwapDevice) -> Result<(Self, u64), RestoreError> {
        let claim = DeviceClaim::take(device).ok_or(RestoreError::InUse)?;
        let mut headers = Vec::new();
        for which in 0..device.slots().min(2) {
            headers.extend(read_header(device, which)?);
        }
        let incarnation = headers.iter().map(|header| header.incarnation).max();
        headers.retain(|header| header.number > 0 && Some(header.incarnation) == incarnation);
        headers.sort_by_key(|header| std::cmp::Reverse(header.number));
        for header in headers {
            check_room(device, header.pages)?;
            if read_map(device, header, |_, _| {})? == header.map_sum {
                let swap = Self::of_checkpoint(claim, header)?;
                // The header may have come from a cache: from here on, an older one is no longer
                // valid.
                sync_now(device)?;
                return Ok((swap, header.number));
            }
        }
        Err(RestoreError::None)
    }

    fn of_checkpoint(
        claim: DeviceClaim<'s>,
        header: CheckpointHeader,
    ) -> Result<Self, RestoreError> {
        let device = claim.device;
        let swap = Self::on_device(claim, header.pages, header.incarnation)?;
        let own = slots_needed(header.pages);
        let mut twice = BTreeSet::new();
        let named = SwapEntry(0).next(SwapEntryKind::Device);
        let map_sum = read_map(device, header, |page, word| {
            let Some(slot) = word.checked_sub(1) else {
                return;
            };
            let is_possible = (own..swap.slots.slots()).contains(&slot);
            if is_possible && !swap.slots.take(slot) {
                twice.insert(slot);
            }
            let entry = if is_possible {
                named.with_slot(slot)
            } else {
                named.lost()
            };
            swap.entries[page as usize].store(entry.0, Relaxed);
        })?;
        if map_sum != header.map_sum {
            let what = format!(
                "the map of checkpoint {} changed while it was read",
                header.number
            );
            return Err(RestoreError::Device(what));
        }
        if !twice.is_empty() {
            // Nothing tells which of the two pages the slot belongs to.
            let of_two = |word: &&_| slot_of(word).is_some_and(|slot| twice.contains(&slot));
            for word in swap.entries.iter().filter(of_two) {
                word.store(named.lost().0, Relaxed);
            }
            twice.iter().for_each(|slot| {
                swap.slots.free(*slot);
            });
        }
        swap.slots.hold(swap.entries.iter().filter_map(slot_of));
        *swap.lock_syncs() = header.number;
        Ok(swap)
    }

    /// Writes all dirty pages, and, on a durable device, a checkpoint. When it returns, all that
    /// was stored before it began is safe. Returns the checkpoint's number, 0 if there is none.
    ///
    /// # Errors
    /// Some page was not written: the last checkpoint is the one before, or this one, if only the
    /// device's own last sync failed. Both are whole.
    pub fn sync(&self) -> Result<u64, SwapError> {
        self.sync_with(|| Ok(()))
    }

    /// The same; the checkpoint also contains what `more` stores, and no page becomes dirty
    /// meanwhile.
    pub(crate) fn sync_with(
        &self,
        more: impl FnOnce() -> Result<(), SwapError>,
    ) -> Result<u64, SwapError> {
        let mut number = self.lock_syncs();
        self.set_syncing(true);
        let syncing = Syncing(self);
        self.clean_all()?;
        more()?;
        let Some(incarnation) = self.incarnation else {
            return self.sync_device().map(|()| 0);
        };
        let map = self.slots.hold_too(|| {
            let entries = self
                .entries
                .iter()
                .map(|word| SwapEntry(word.load(Acquire)));
            let slot = |entry: SwapEntry| match entry.kind() {
                // Also for a page that is lost: then it is lost in the checkpoint, too.
                SwapEntryKind::Device => entry.slot() + 1,
                SwapEntryKind::None | SwapEntryKind::Dirty | SwapEntryKind::Writing => 0,
            };
            entries.map(slot).collect::<Vec<_>>()
        });
        // From here on stores need not hold back: the slots that the map names are held.
        drop(syncing);
        self.sync_device()?;
        self.write_checkpoint(incarnation, *number + 1, &map)?;
        self.sync_device()?;
        self.slots
            .hold(map.iter().filter_map(|slot| slot.checked_sub(1)));
        *number += 1;
        Ok(*number)
    }

    fn lock_syncs(&self) -> std::sync::MutexGuard<'_, u64> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_syncing(&self, is: bool) {
        // Taken when all stores under way have ended.
        *self
            .is_syncing
            .write()
            .unwrap_or_else(PoisonError::into_inner) = is;
    }

    fn sync_device(&self) -> Result<(), SwapError> {
        self.device
            .sync()
            .map_err(|error| self.failed(None, &error))
    }

    /// Has all dirty pages written, by this thread or by another one that cleans. No page becomes dirty meanwhile.
    fn clean_all(&self) -> Result<(), SwapError> {
        let mut in_vain = 0;
        loop {
            let dirty = self.dirty_pages();
            if dirty == 0 {
                return Ok(());
            }
            if in_vain == SWEEPS {
                return Err(SwapError::Dirty(dirty));
            }
            match self.sweep(u64::MAX) {
                (_, Some(error)) => return Err(error),
                (0, None) => {
                    // Another cleaner is at work, for as long as its device takes; or an owner.
                    self.await_cleaners();
                    std::thread::yield_now();
                }
                (_, None) => {}
            }
            let is_in_vain = self.dirty_pages() >= dirty;
            in_vain = if is_in_vain { in_vain + 1 } else { 0 };
        }
    }

    fn write_checkpoint(
        &self,
        incarnation: u64,
        number: u64,
        map: &[u64],
    ) -> Result<(), SwapError> {
        let pages = map.len() as u64;
        let which = number % 2;
        let write = |slot: u64, page: &[u64; 512]| {
            let written = self.device.write(slot, &page.map(u64::to_le));
            written.map_err(|error| self.failed(None, &error))
        };
        for (slot, words) in (map_start(which, pages)..).zip(map.chunks(WORDS as usize)) {
            let mut page = [0; WORDS as usize];
            page[..words.len()].copy_from_slice(words);
            write(slot, &page)?;
        }
        let header = CheckpointHeader {
            incarnation,
            number,
            pages,
            map_sum: sum(map.iter().copied()),
        };
        write(which, &header.words())
    }
}

/// The slot that an entry names, if it names one.
fn slot_of(word: &super::AtomicU64) -> Option<u64> {
    let entry = SwapEntry(word.load(Relaxed));
    (entry.kind() == SwapEntryKind::Device && !entry.is_lost()).then(|| entry.slot())
}
