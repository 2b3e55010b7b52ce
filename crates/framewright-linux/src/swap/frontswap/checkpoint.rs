//! What is on the device so that another process finds the pages again.
//!
//! ```text
//!   slot   0          1          2 ..        2 + n ..      2 + 2n ..
//!        ┌──────────┬──────────┬───────────┬─────────────┬──────────────
//!        │ header A │ header B │ map A     │ map B       │ pages
//!        └──────────┴──────────┴───────────┴─────────────┴──────────────
//! ```
//!
//! A map has a word for each page: its slot and one more, or 0. A header has the checkpoint's number and
//! checksums of the map and of itself. Checkpoints take turns: whatever is torn when the process
//! ends, the other one is whole, and what it names has not been overwritten (F3). Words are little-endian.

use super::{Entry, Frontswap, Kind, SwapDevice, SwapError};
use framewright::platform::PageWords;
use framewright::sync::Ordering::{Acquire, Relaxed};
use std::fmt;
use std::sync::PoisonError;

/// Words in a slot.
const WORDS: u64 = 512;

/// "framewr" and the format's number.
const MAGIC: u64 = u64::from_le_bytes(*b"framewr\x01");

/// Sweeps over the dirty pages before a sync gives up: an owner who takes a block keeps its pages from
/// being written for a moment, and so does another cleaner.
const SWEEPS: u32 = 10_000;

// Words of a header.
const NUMBER: usize = 1;
const PAGES: usize = 2;
const MAP_SUM: usize = 3;
const OWN_SUM: usize = 4;

/// Why nothing was restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestoreError {
    /// There is no whole checkpoint on the device.
    None,
    /// The device has not enough slots for the checkpoints of so many pages.
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
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
        }
    }
}

impl std::error::Error for RestoreError {}

/// A word for a sequence of words: any single one that differs makes it differ.
fn sum(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        // The multiplier of SplitMix64's finaliser: odd, so that nothing is lost.
        let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 32
    })
}

/// Slots of one map.
fn map_slots(pages: u64) -> u64 {
    pages.div_ceil(WORDS)
}

/// Slots that checkpoints take.
fn slots_needed(pages: u64) -> u64 {
    2 + 2 * map_slots(pages)
}

/// Where map A or B begins.
fn map_start(which: u64, pages: u64) -> u64 {
    2 + which * map_slots(pages)
}

/// Lets stores make pages dirty again when it is dropped.
struct Syncing<'f, 's>(&'f Frontswap<'s>);

impl Drop for Syncing<'_, '_> {
    fn drop(&mut self) {
        self.0.set_syncing(false);
    }
}

impl<'s> Frontswap<'s> {
    /// The pages 0 to `pages - 1`, all of them zero, on a device that keeps checkpoints of them.
    ///
    /// The first [`sync`](Self::sync) makes one; what the device had before may be restored until then.
    ///
    /// # Errors
    /// [`RestoreError::TooSmall`].
    pub fn durable(device: &'s dyn SwapDevice, pages: u64) -> Result<Self, RestoreError> {
        let mut swap = Self::new(device, pages);
        let (needed, slots) = (slots_needed(pages), device.slots());
        if needed >= slots {
            return Err(RestoreError::TooSmall {
                pages,
                needed,
                slots,
            });
        }
        (0..needed).for_each(|slot| {
            swap.slots.take(slot);
        });
        swap.is_durable = true;
        Ok(swap)
    }

    /// The pages of the last checkpoint on the device. Returns its number, too.
    ///
    /// # Errors
    /// There is none, or the device failed.
    pub fn restore(device: &'s dyn SwapDevice) -> Result<(Self, u64), RestoreError> {
        let mut best = None;
        for which in 0..2 {
            if let Some((number, map)) = read_checkpoint(device, which)?
                && best.as_ref().is_none_or(|(other, _)| number > *other)
            {
                best = Some((number, map));
            }
        }
        let (number, map) = best.ok_or(RestoreError::None)?;
        let swap = Self::durable(device, map.len() as u64)?;
        for (word, slot) in swap.entries.iter().zip(&map) {
            if let Some(slot) = slot.checked_sub(1)
                && swap.slots.take(slot)
            {
                let entry = Entry(0).next(Kind::Device).with_slot(slot);
                word.store(entry.0, Relaxed);
            }
        }
        swap.slots
            .hold(map.iter().filter_map(|slot| slot.checked_sub(1)));
        *swap.lock_syncs() = number;
        Ok((swap, number))
    }

    /// Writes all dirty pages, and, on a durable device, a checkpoint. When it returns, whatever was
    /// stored before it began is safe. Returns the checkpoint's number, 0 where there are none.
    ///
    /// # Errors
    /// Something was not written: the last checkpoint is the one before.
    pub fn sync(&self) -> Result<u64, SwapError> {
        self.sync_with(|| Ok(()))
    }

    /// The same; what `more` stores is in the checkpoint, too, and nothing becomes dirty meanwhile.
    pub(crate) fn sync_with(
        &self,
        more: impl FnOnce() -> Result<(), SwapError>,
    ) -> Result<u64, SwapError> {
        let mut number = self.lock_syncs();
        self.set_syncing(true);
        let syncing = Syncing(self);
        self.clean_all()?;
        more()?;
        if !self.is_durable {
            return self.sync_device().map(|()| 0);
        }
        let map = self.slots.hold_too(|| {
            let entries = self.entries.iter().map(|word| Entry(word.load(Acquire)));
            let slot = |entry: Entry| match entry.kind() {
                Kind::Device => entry.slot() + 1,
                Kind::None | Kind::Dirty | Kind::Writing => 0,
            };
            entries.map(slot).collect::<Vec<_>>()
        });
        // From here on stores may do as they like: what the map names is held.
        drop(syncing);
        self.sync_device()?;
        self.write_checkpoint(*number + 1, &map)?;
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

    fn clean_all(&self) -> Result<(), SwapError> {
        for _ in 0..SWEEPS {
            if self.dirty_pages() == 0 {
                return Ok(());
            }
            match self.sweep(u64::MAX) {
                (_, Some(error)) => return Err(error),
                // Another cleaner is at it, or an owner.
                (0, None) => std::thread::yield_now(),
                (_, None) => {}
            }
        }
        match self.dirty_pages() {
            0 => Ok(()),
            dirty => Err(SwapError::Dirty(dirty)),
        }
    }

    fn write_checkpoint(&self, number: u64, map: &[u64]) -> Result<(), SwapError> {
        let pages = map.len() as u64;
        let which = number % 2;
        let write = |slot: u64, page: &PageWords| {
            let written = self.device.write(slot, &page.map(u64::to_le));
            written.map_err(|error| self.failed(None, &error))
        };
        for (slot, words) in (map_start(which, pages)..).zip(map.chunks(WORDS as usize)) {
            let mut page = [0; WORDS as usize];
            page[..words.len()].copy_from_slice(words);
            write(slot, &page)?;
        }
        let mut header = [0; WORDS as usize];
        header[0] = MAGIC;
        header[NUMBER] = number;
        header[PAGES] = pages;
        header[MAP_SUM] = sum(map.iter().copied());
        header[OWN_SUM] = sum(header[..OWN_SUM].iter().copied());
        write(which, &header)
    }
}

/// A whole checkpoint, its number and its map, if there is one in that place.
fn read_checkpoint(
    device: &dyn SwapDevice,
    which: u64,
) -> Result<Option<(u64, Vec<u64>)>, RestoreError> {
    let mut page = [0; WORDS as usize];
    let mut read = |slot: u64| match device.read(slot, &mut page) {
        Ok(()) => Ok(page.map(u64::from_le)),
        Err(error) => Err(RestoreError::Device(error.to_string())),
    };
    if device.slots() <= which {
        return Ok(None);
    }
    let header = read(which)?;
    let pages = header[PAGES];
    let is_whole = header[0] == MAGIC
        && header[OWN_SUM] == sum(header[..OWN_SUM].iter().copied())
        && pages <= device.slots() * WORDS
        && slots_needed(pages) < device.slots();
    if !is_whole {
        return Ok(None);
    }
    let mut map = Vec::with_capacity(pages as usize);
    let start = map_start(which, pages);
    for slot in start..start + map_slots(pages) {
        let rest = pages as usize - map.len();
        map.extend_from_slice(&read(slot)?[..rest.min(WORDS as usize)]);
    }
    let is_whole = header[MAP_SUM] == sum(map.iter().copied());
    Ok(is_whole.then_some((header[NUMBER], map)))
}
