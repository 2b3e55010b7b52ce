//! Frontswap: pages without a frame lie on a device, and in a store of memory in front of it.
//!
//! ```text
//!                 store                                          clean
//!    write-through ──────▶ device, then a copy in the store        ·
//!    write-back    ──────▶ the store alone: dirty ──────────▶ device
//!                              │ refused, or above the budget
//!                              └─────────────────────────────▶ device
//!    put-back      ──────▶ the store alone: dirty; moved to ordinary memory when an owner wants its frame
//!
//!    load: the store, and it forgets the page;   else the device: its slot stays the page's
//! ```
//!
//! For each page an *entry* says where its contents are: nowhere (it was never stored, or has been
//! got back), in the store alone (dirty), on its way to the device, or in a slot. The store may
//! drop a page in a slot at any time, so an owner's take costs nothing. The store keeps a dirty page.
//!
//! A page that is loaded and does not change needs no second write: its slot stays valid, and the
//! next [`keep`](Frontswap::keep) only offers the store a copy again. A dirty page that is got back
//! before it was cleaned is never written at all. A slot is taken only when something is written.
//!
//! # Invariants
//! - **FS1** A load returns the contents stored last, or an error that says why not. The contents
//!   are in at least one place: a dirty page leaves the store only by being written or loaded.
//! - **FS2** Two versions of a page never share a slot at a time. A write takes a new slot. Only after the write
//!   does the page's entry name the slot, and only if the entry still has the version that was written. Nor do they
//!   share a key in the store: the key that a cleaner is handed says which version it is.
//! - **FS3** No slot that the last [checkpoint](Frontswap::sync) names is overwritten before the
//!   next one is on the device.
//! - **FS4** A restore takes only checkpoints of the device's last [incarnation](Frontswap::durable). Once a write
//!   may have gone over a slot of an earlier incarnation, no restore takes a checkpoint of that one. A page of a
//!   checkpoint that the device no longer has is an error, and not zero.
//! - **FS5** A device that is open has one Frontswap at a time, whose slots its pages have alone. The device
//!   refuses a second Frontswap before that one reads or writes anything. (Two openings of one file: SW3.)
//! - **FS6** If a call of the device or of the store unwinds, each page is where it was, or lost; and each slot in
//!   use belongs to a page.
//! - **FS7** A version that no page has leaves the store. If the call unwinds that was to make the store forget
//!   it, or that offered it, the next call that stores, forgets or cleans a page does that first.
//!
//! # Locks
//! The caller serialises calls for one page. Only the cleaner's calls may run at any time. A
//! [`sync`](Frontswap::sync) makes all later stores go to the device, and waits for those under
//! way. A page's versions have 2^21 numbers. A call that begins them anew first waits until all cleaners at work
//! have ended.
//!
//! # What is not here
//! The choice of the page to evict; the contents of frames: [`Paged`](crate::paged::Paged).
//!
//! # Sources
//! Linux's frontswap (5.16), and its write-through; the swap cache, with slots that stay valid. Two
//! copies of a map, the newer of which is whole: shadow paging (R. A. Lorie, 1977).

mod around;
mod checkpoint;
mod clean;
mod entry;
mod error;
mod left;
mod stats;

#[cfg(test)]
mod tests;

pub use checkpoint::RestoreError;
pub use error::SwapError;
pub use stats::FrontswapStats;

use super::{SlotMap, SwapDevice};
use crate::tenancy::Tenancy;
use entry::{SLOTS_MAX, SwapEntry, SwapEntryKind};
use framewright::reserve::{Key, PoolId};
use left::LeftVersions;
// In a model, those that the model sees.
#[cfg(shuttle)]
use shuttle::sync::atomic::AtomicU64;
use stats::{SwapCounts, count};
use std::fmt;
use std::io;
use std::ops::Range;
#[cfg(not(shuttle))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError, RwLock};

/// How a stored page stays safe when its frame is discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapPolicy {
    /// It is on the device before it counts as stored.
    WriteThrough,
    /// It is on the device later, when it is cleaned; until then no owner takes its frame.
    WriteBack {
        /// Pages that may be dirty at a time: further ones go to the device at once.
        dirty_max: u64,
    },
    /// It is on no device as long as the store keeps it. An owner that takes its frame has it
    /// copied to an ordinary one first: the pool must allow that
    /// ([`PoolConfig::put_back`](framewright::reserve::PoolConfig::put_back)), and the owner must
    /// bring frames. It is written only if the store refuses it, above this bound, and by a
    /// [`sync`](Frontswap::sync).
    PutBack {
        /// Pages that may be dirty at a time: further ones go to the device at once.
        dirty_max: u64,
    },
}

impl SwapPolicy {
    /// How many pages may be dirty.
    const fn dirty_max(self) -> u64 {
        match self {
            Self::WriteThrough => 0,
            Self::WriteBack { dirty_max } | Self::PutBack { dirty_max } => dirty_max,
        }
    }
}

/// The state of a page that was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadedPage {
    /// It was never stored: all zero.
    Zero,
    /// It is still in its slot: unless it changes, it need not be stored again.
    Clean,
    /// It is nowhere else now.
    Dirty,
}

/// The store in front of a device.
#[derive(Clone, Copy)]
struct FrontStore<'s> {
    tenancy: &'s dyn Tenancy,
    pool: PoolId,
    object: u64,
    policy: SwapPolicy,
}

/// A device that one swap has, until this is dropped (FS5).
struct DeviceClaim<'s> {
    device: &'s dyn SwapDevice,
}

impl<'s> DeviceClaim<'s> {
    /// `None` if another swap has the device.
    fn take(device: &'s dyn SwapDevice) -> Option<Self> {
        device.in_use().claim().then(|| Self { device })
    }
}

impl Drop for DeviceClaim<'_> {
    fn drop(&mut self) {
        self.device.in_use().release();
    }
}

/// Slots that no page has yet: free again if a call of the device's, or of the store's, unwinds.
struct TakenSlots<'f> {
    slots: &'f SlotMap,
    run: Range<u64>,
}

impl Drop for TakenSlots<'_> {
    fn drop(&mut self) {
        // The device is not told: another call that unwound would end the program.
        self.run.clone().for_each(|slot| {
            self.slots.free(slot);
        });
    }
}

/// A page that is being offered to the store: as before the offer, if that unwinds. The store may have taken it.
struct OfferedPage<'f, 's> {
    swap: &'f Frontswap<'s>,
    word: &'f AtomicU64,
    key: Key,
    dirty: SwapEntry,
    old: SwapEntry,
}

impl Drop for OfferedPage<'_, '_> {
    fn drop(&mut self) {
        self.swap.take_offer_back(self.word, self.dirty, self.old);
        self.swap.left.note(self.key);
    }
}

/// Pages by number, on a device and in front of it. See the [module's description](self).
///
/// ```
/// use framewright_linux::swap::{Frontswap, LoadedPage, Zram};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Zram::new(64, 1 << 20);
/// let swap = Frontswap::new(&device, 100);
/// swap.store(&[12], &[[7; 512]]).map_err(|(_, error)| error)?;
/// let mut page = [0; 512];
/// assert_eq!(swap.load(12, &mut page)?, LoadedPage::Clean);
/// assert_eq!(page, [7; 512]);
/// assert_eq!(swap.load(13, &mut page)?, LoadedPage::Zero);
/// # Ok(())
/// # }
/// ```
pub struct Frontswap<'s> {
    device: &'s dyn SwapDevice,
    _claim: DeviceClaim<'s>,
    front: Option<FrontStore<'s>>,
    entries: Box<[AtomicU64]>,
    slots: SlotMap,
    dirty: AtomicU64,
    /// Stores hold it to read; true while a sync allows no page to become dirty.
    is_syncing: RwLock<bool>,
    /// The last checkpoint's number; held by a sync.
    syncs: Mutex<u64>,
    /// The incarnation of the device's checkpoints, if it has any.
    incarnation: Option<u64>,
    /// Held by cleaners to read.
    cleaning: RwLock<()>,
    left: LeftVersions,
    counts: SwapCounts,
}

impl fmt::Debug for Frontswap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frontswap")
            .field("pages", &self.pages())
            .field("slots", &self.slots.slots())
            .field("policy", &self.front.map(|front| front.policy))
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl<'s> Frontswap<'s> {
    /// The pages 0 to `pages - 1`, all of them zero, on `device`, all of whose slots it uses.
    ///
    /// It uses at most 4 PiB of a device.
    ///
    /// # Panics
    /// If another one has the device (FS5), or there is no memory for a word a page and two bits a slot.
    #[must_use]
    pub fn new(device: &'s dyn SwapDevice, pages: u64) -> Self {
        let claim = DeviceClaim::take(device).expect("another swap has the device");
        Self::try_new(claim, pages).unwrap_or_else(|| {
            let slots = device.slots();
            panic!("no memory to keep {pages} pages and {slots} slots in order")
        })
    }

    /// The same, or `None` if there is no memory for it.
    fn try_new(claim: DeviceClaim<'s>, pages: u64) -> Option<Self> {
        let device = claim.device;
        let slots = SlotMap::try_new(device.slots().min(SLOTS_MAX))?;
        let mut entries = Vec::new();
        entries
            .try_reserve_exact(usize::try_from(pages).ok()?)
            .ok()?;
        entries.extend((0..pages).map(|_| AtomicU64::new(0)));
        Some(Self {
            slots,
            device,
            _claim: claim,
            front: None,
            entries: entries.into_boxed_slice(),
            dirty: AtomicU64::new(0),
            is_syncing: RwLock::new(false),
            syncs: Mutex::new(0),
            incarnation: None,
            cleaning: RwLock::new(()),
            left: LeftVersions::default(),
            counts: SwapCounts::default(),
        })
    }

    /// With a store in front. Its pool must be like
    /// [`PoolConfig::SWAP`](framewright::reserve::PoolConfig::SWAP), not exclusive. Several may
    /// share a pool if each has an `object` of its own.
    #[must_use]
    pub fn with_store(
        mut self,
        tenancy: &'s dyn Tenancy,
        pool: PoolId,
        object: u64,
        policy: SwapPolicy,
    ) -> Self {
        self.front = Some(FrontStore {
            tenancy,
            pool,
            object,
            policy,
        });
        self
    }

    /// How many pages there are.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Pages that are in the store alone.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.dirty.load(Relaxed)
    }

    /// Slots in use.
    #[must_use]
    pub fn used_slots(&self) -> u64 {
        self.slots.used()
    }

    fn entry(&self, page: u64) -> Result<&AtomicU64, SwapError> {
        let outside = SwapError::Outside {
            page,
            pages: self.pages(),
        };
        self.entries.get(page as usize).ok_or(outside)
    }

    /// The store's key of a page's contents as `entry` has them.
    fn key(front: &FrontStore<'_>, page: u64, entry: SwapEntry) -> Key {
        Key {
            pool: front.pool,
            object: front.object,
            index: entry.index(page),
        }
    }

    /// Makes the store forget a page's contents that belong to the entry `old`.
    fn forget(&self, page: u64, old: SwapEntry) {
        if let Some(front) = self.front
            && old.is_in_store()
        {
            self.forget_version(Self::key(&front, page, old));
        }
    }

    /// The version after that of `old`.
    fn next(&self, old: SwapEntry, kind: SwapEntryKind) -> SwapEntry {
        let next = old.next(kind);
        if next.has_gone_round() {
            self.await_cleaners();
        }
        next
    }

    /// Returns when every cleaner that is at work now has ended: then none has a version that a
    /// page had before (FS2).
    #[cold]
    fn await_cleaners(&self) {
        drop(
            self.cleaning
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Stores the contents of pages, in place of their old ones; in one request if they go to the
    /// device.
    ///
    /// # Errors
    /// The first page that was not stored, and why; those of `pages` before it are stored. That page and those
    /// behind it keep their older version, except in two cases: the older version lay in the store alone, or in a
    /// slot of a device that has no other free slot. Then the older version may be gone, and the page is
    /// [lost](SwapError::Lost). The caller still has the contents.
    ///
    /// # Panics
    /// If there are not as many contents as pages.
    pub fn store(&self, pages: &[u64], contents: &[[u64; 512]]) -> Result<(), (usize, SwapError)> {
        assert_eq!(pages.len(), contents.len(), "each page has contents");
        for (nth, page) in pages.iter().enumerate() {
            self.entry(*page).map_err(|error| (nth, error))?;
        }
        self.forget_left();
        let is_syncing = self
            .is_syncing
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut start = 0;
        if let Some(front) = self.front
            && !*is_syncing
        {
            let dirty_max = front.policy.dirty_max();
            // Pages that are refused are written one by one: they are few, or all that follow are
            // refused, too.
            while start < pages.len() && self.dirty_pages() < dirty_max {
                if !self.put_dirty(&front, pages[start], &contents[start]) {
                    self.write(&pages[start..=start], &contents[start..=start])
                        .map_err(|(_, error)| (start, error))?;
                }
                start += 1;
            }
        }
        self.write(&pages[start..], &contents[start..])
            .map_err(|(nth, error)| (start + nth, error))
    }

    /// Offers the store a page that is on no device. Returns whether it took the page.
    fn put_dirty(&self, front: &FrontStore<'_>, page: u64, contents: &[u64; 512]) -> bool {
        let Ok(word) = self.entry(page) else {
            return false;
        };
        // Dirty before it is in the store: the cleaner may find it there before `put` returns.
        let old = SwapEntry(word.load(Acquire));
        let dirty = self.next(old, SwapEntryKind::Dirty);
        self.dirty.fetch_add(1, Relaxed);
        let old = SwapEntry(word.swap(dirty.0, AcqRel));
        let key = Self::key(front, page, dirty);
        let offered = OfferedPage {
            swap: self,
            word,
            key,
            dirty,
            old,
        };
        self.forget(page, old);
        let mut stored = false;
        front
            .tenancy
            .with(&mut |store| stored = store.put_dirty(key, contents).is_ok());
        std::mem::forget(offered);
        if stored {
            self.gone(old);
            count(&self.counts.stores);
            count(&self.counts.store_puts);
            return true;
        }
        count(&self.counts.store_refused);
        self.take_offer_back(word, dirty, old);
        false
    }

    /// Notes that the store has not taken a page, which was in `old` before it was offered.
    fn take_offer_back(&self, word: &AtomicU64, dirty: SwapEntry, old: SwapEntry) {
        // Contents in a slot stay the page's until these are written, which may fail.
        let before = match old.kind() {
            SwapEntryKind::Device => self
                .next(dirty, SwapEntryKind::Device)
                .with_slot(old.slot()),
            SwapEntryKind::None => self.next(dirty, SwapEntryKind::None),
            // The store alone had it, and was told to forget it.
            SwapEntryKind::Dirty | SwapEntryKind::Writing => {
                self.gone(old);
                self.next(dirty, SwapEntryKind::Device).lost()
            }
        };
        // It was not stored, so no version is gone.
        self.free_place(SwapEntry(word.swap(before.0, AcqRel)));
    }

    /// Writes pages to the device, and then offers them to the store.
    fn write(&self, pages: &[u64], contents: &[[u64; 512]]) -> Result<(), (usize, SwapError)> {
        let run = self.slots.alloc_run(pages.len() as u64);
        let run = run.filter(|run| {
            let written = self.taken(run.clone(), || self.device.write_run(run.start, contents));
            if written.is_err() {
                count(&self.counts.device_errors);
                run.clone().for_each(|slot| self.free_slot(slot));
            }
            written.is_ok()
        });
        // A store that panics leaves the slots that no page has yet free.
        let slots = &self.slots;
        let mut left = run.map(|run| TakenSlots { slots, run });
        for (nth, (&page, contents)) in pages.iter().zip(contents).enumerate() {
            let slot = match left.as_mut().and_then(|left| left.run.next()) {
                Some(slot) => slot,
                // There is no run, or a write of it failed: writes one by one to find out which.
                None => self
                    .write_one(page, contents)
                    .map_err(|error| (nth, error))?,
            };
            self.stored_at(page, slot);
            count(&self.counts.stores);
            self.offer(page, contents);
        }
        Ok(())
    }

    /// Writes one page that is being stored.
    fn write_one(&self, page: u64, contents: &[u64; 512]) -> Result<u64, SwapError> {
        let slot = self.slots.alloc().or_else(|| {
            // Its own slot, if no checkpoint names that: the caller that stores the page still has
            // the contents.
            let word = &self.entries[page as usize];
            let old = SwapEntry(word.load(Acquire));
            if old.kind() != SwapEntryKind::Device {
                return None;
            }
            let lost = self.next(old, SwapEntryKind::Device).lost();
            let free = || word.swap(lost.0, AcqRel);
            let old = self.slots.free_unless_held(old.slot(), free)?;
            self.forget(page, SwapEntry(old));
            self.slots.alloc()
        });
        self.write_to(slot, page, contents)
    }

    /// Writes a page's contents into a slot that nothing names; frees the slot if that fails.
    fn write_to(
        &self,
        slot: Option<u64>,
        page: u64,
        contents: &[u64; 512],
    ) -> Result<u64, SwapError> {
        let slot = slot.ok_or(SwapError::Full(self.slots.slots()))?;
        let written = self.taken(slot..slot + 1, || self.device.write(slot, contents));
        written.map_err(|error| {
            self.free_slot(slot);
            self.failed(Some(page), &error)
        })?;
        Ok(slot)
    }

    /// Writes to slots that were taken for it: they are free again if that unwinds.
    fn taken(&self, run: Range<u64>, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let slots = &self.slots;
        let taken = TakenSlots { slots, run };
        let written = write();
        std::mem::forget(taken);
        written
    }

    /// Records that the page's contents are in `slot`, and gives up its old ones.
    fn stored_at(&self, page: u64, slot: u64) {
        count(&self.counts.device_writes);
        let word = &self.entries[page as usize];
        let old = SwapEntry(word.load(Acquire));
        let new = self.next(old, SwapEntryKind::Device).with_slot(slot);
        let old = SwapEntry(word.swap(new.0, AcqRel));
        self.gone(old);
        self.forget(page, old);
    }

    /// Whether a page lies in a slot.
    pub(crate) fn has_slot(&self, page: u64) -> bool {
        let word = self.entries.get(page as usize);
        word.is_some_and(|word| {
            let entry = SwapEntry(word.load(Relaxed));
            entry.kind() == SwapEntryKind::Device && !entry.is_lost()
        })
    }

    /// Gives up a page's older version.
    fn gone(&self, old: SwapEntry) {
        // The cleaner that has the page as Writing writes it all the same.
        if old.kind() == SwapEntryKind::Dirty {
            count(&self.counts.gone_unwritten);
        }
        self.free_place(old);
    }

    /// Gives back the slot of an old entry, or its place among the dirty ones.
    fn free_place(&self, old: SwapEntry) {
        match old.kind() {
            SwapEntryKind::None => {}
            SwapEntryKind::Device if old.is_lost() => {}
            SwapEntryKind::Device => self.free_slot(old.slot()),
            SwapEntryKind::Dirty | SwapEntryKind::Writing => {
                self.dirty.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Makes and counts the error of a device.
    fn failed(&self, page: Option<u64>, error: &io::Error) -> SwapError {
        count(&self.counts.device_errors);
        SwapError::Device {
            page,
            kind: error.kind(),
            what: error.to_string(),
        }
    }

    fn free_slot(&self, slot: u64) {
        if self.slots.free(slot) {
            self.device.discard(slot);
        }
    }

    /// Offers the store a copy of a page that is on the device.
    fn offer(&self, page: u64, contents: &[u64; 512]) {
        let Some(front) = self.front else { return };
        let word = &self.entries[page as usize];
        let entry = SwapEntry(word.load(Acquire));
        if entry.kind() != SwapEntryKind::Device || entry.is_lost() {
            return;
        }
        let mut stored = false;
        let key = Self::key(&front, page, entry);
        // If the call unwinds, the store may have it (FS7).
        word.store(entry.in_store(true).0, Release);
        front
            .tenancy
            .with(&mut |store| stored = store.put(key, contents).is_ok());
        count(if stored {
            &self.counts.store_puts
        } else {
            &self.counts.store_refused
        });
        // If it was refused, the store has no version.
        word.store(entry.in_store(stored).0, Release);
    }

    /// Takes back a page that was [loaded](Self::load) and has not changed. Writes nothing: it only
    /// offers the store a copy. Returns whether the page is safe: if not, it must be stored.
    pub fn keep(&self, page: u64, contents: &[u64; 512]) -> bool {
        let Ok(word) = self.entry(page) else {
            return false;
        };
        let entry = SwapEntry(word.load(Acquire));
        if entry.kind() != SwapEntryKind::Device || entry.is_lost() {
            return false;
        }
        count(&self.counts.kept);
        self.offer(page, contents);
        true
    }

    /// Loads the contents that were stored for a page. If they came from the store, the store has
    /// them no longer; a slot stays the page's until it is stored again or
    /// [invalidated](Self::invalidate).
    ///
    /// # Errors
    /// The device failed: trying again may help. Or the contents [are lost](SwapError::Lost).
    pub fn load(&self, page: u64, contents: &mut [u64; 512]) -> Result<LoadedPage, SwapError> {
        let word = self.entry(page)?;
        loop {
            let entry = SwapEntry(word.load(Acquire));
            if entry.kind() == SwapEntryKind::None {
                contents.fill(0);
                return Ok(LoadedPage::Zero);
            }
            if entry.is_lost() {
                return Err(SwapError::Lost(page));
            }
            let is_hit = match self.front {
                Some(front) if entry.is_in_store() => {
                    let mut is_hit = false;
                    let key = Self::key(&front, page, entry);
                    front.tenancy.with(&mut |store| {
                        is_hit = store.get(key, contents);
                        store.invalidate_page(key);
                    });
                    is_hit
                }
                _ => false,
            };
            if is_hit {
                count(&self.counts.store_loads);
                return Ok(self.got(word));
            }
            if entry.kind() == SwapEntryKind::Device {
                let read = self.device.read(entry.slot(), contents);
                read.map_err(|error| self.failed(Some(page), &error))?;
                count(&self.counts.device_loads);
                self.got(word);
                return Ok(LoadedPage::Clean);
            }
            // Written by the cleaner and dropped since, or lost.
            if SwapEntry(word.load(Acquire)) == entry {
                return Err(SwapError::Lost(page));
            }
        }
    }

    /// Records that the caller has a page's contents, and the store no longer.
    fn got(&self, word: &AtomicU64) -> LoadedPage {
        let mut old = SwapEntry(word.load(Acquire));
        loop {
            let (new, loaded) = match old.kind() {
                // Cleaned just now, perhaps.
                SwapEntryKind::Device => (old.in_store(false), LoadedPage::Clean),
                _ => (self.next(old, SwapEntryKind::None), LoadedPage::Dirty),
            };
            match word.compare_exchange(old.0, new.0, AcqRel, Acquire) {
                Ok(_) => {
                    if loaded == LoadedPage::Dirty {
                        self.dirty.fetch_sub(1, Relaxed);
                    }
                    // The cleaner that has the page as Writing writes it all the same.
                    if old.kind() == SwapEntryKind::Dirty {
                        count(&self.counts.got_back);
                    }
                    return loaded;
                }
                Err(now) => old = SwapEntry(now),
            }
        }
    }

    /// Forgets what was stored for a page: it is zero then.
    ///
    /// # Errors
    /// There is no such page.
    pub fn invalidate(&self, page: u64) -> Result<(), SwapError> {
        let word = self.entry(page)?;
        self.forget_left();
        let old = SwapEntry(word.load(Acquire));
        let new = self.next(old, SwapEntryKind::None);
        let old = SwapEntry(word.swap(new.0, AcqRel));
        self.gone(old);
        self.forget(page, old);
        Ok(())
    }
}
