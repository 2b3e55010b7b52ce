//! Linux's address-space allocator as it was up to 5.1: busy areas in a list by address, and an
//! allocation that walks it until a hole between two of them fits.
//!
//! ```text
//!   window   [ area ][ area ]....[ area ]..[ area ][ area ]............
//!   list        └──────┴───────────┴─────────┴───────┘
//!                                  ▲ cache: where the last area was made; the walk begins behind it
//!
//!   free: the area stays in list and tree, lazy; more lazy than the threshold: one flush, and each
//!   lazy area leaves list and tree.
//! ```
//!
//! # Rules
//! - An area is its pages and one guard page.
//! - The walk begins at the cached area, unless a request could fit into a hole *below* it that the
//!   last walk passed by: one that is shorter than the largest hole seen, or less aligned than the
//!   request before. Then it begins at the window's first page.
//! - A request whose walk passes the window's end purges and walks again, once.
//! - A lazy area that leaves the list moves the cache back to the area before it, if it starts at or
//!   before the cached one.
//! - Above `fls(cpus) * 32 MiB` of lazy pages the freeing thread purges. If another thread purges
//!   already, it does not wait for that one, so the threshold is no bound. Between two areas the
//!   purging thread gives up the list's lock if another thread waits for it.
//!
//! # Invariants
//! - **BL1** The list is in the order of addresses, its areas are disjoint and inside the window, and
//!   the tree holds the same areas.
//! - **BL2** The cached area is in the list.
//! - **BL3** Lazy areas are in the list, and their pages are what the counter says.
//!
//! # Locks
//! Rank 1: the purge's. Rank 2: the list's, global. Rank 3: the lazy areas'.
//!
//! # What is not here
//! vmap blocks over it; the notifiers that Linux calls before it gives up.
//!
//! # Sources
//! U. Rezki, "improve vmalloc allocation", LKML, October 2018, whose complaint this is; the rules of
//! the cache and of the purge as in Linux 4.12 to 5.1, mm/vmalloc.c.

mod list;
#[cfg(test)]
mod tests;

use framewright::platform::{Map, MapError};
use framewright::vrange::{RangeError, RangeFreeError};
use framewright::{Page, PageRange};
use list::BusyAreas;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages of one step of the purge threshold: 32 MiB.
const LAZY_STEP_PAGES: u64 = (32 << 20) / Page::BYTES;

/// How an area lay in the hole it was cut from, as the document names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleFit {
    /// It fills the hole.
    Full,
    /// It begins where the hole begins.
    LeftEdge,
    /// It ends where the hole ends.
    RightEdge,
    /// It touches neither end.
    NoEdge,
}

/// What a [`BusyList`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BusyCounters {
    /// Areas made.
    pub area_allocs: u64,
    /// Areas that the walks passed.
    pub areas_walked: u64,
    /// Flushes, one a purge.
    pub flushes: u64,
    /// Pages lazy now, guard pages included.
    pub lazy_pages: u64,
    /// The most pages that were lazy at once.
    pub lazy_pages_peak: u64,
    /// Areas made by how they fit, in the order of [`HoleFit`].
    pub fits: [u64; 4],
    /// The most areas that were in the list at once, lazy ones included.
    pub areas_peak: u64,
}

/// The allocator; any number of threads use it by reference.
#[derive(Debug)]
pub struct BusyList<M> {
    list: Mutex<BusyAreas>,
    /// Threads that wait for the list.
    waiting: AtomicU32,
    purging: Mutex<()>,
    /// Lazy areas, by number and with their pages; the last one freed is the first one purged.
    lazy: Mutex<Vec<u32>>,
    lazy_pages: AtomicU64,
    lazy_pages_peak: AtomicU64,
    lazy_pages_max: u64,
    flushes: AtomicU64,
    mapper: M,
}

impl<M: Map> BusyList<M> {
    /// An empty window; the threshold is that of a machine with `cpus` CPUs.
    ///
    /// # Panics
    /// If the window is empty.
    #[must_use]
    pub fn new(window: PageRange, cpus: u16, mapper: M) -> Self {
        assert!(!window.is_empty(), "a window has pages");
        Self {
            list: Mutex::new(BusyAreas::new(window)),
            waiting: AtomicU32::new(0),
            purging: Mutex::new(()),
            lazy: Mutex::new(Vec::new()),
            lazy_pages: AtomicU64::new(0),
            lazy_pages_peak: AtomicU64::new(0),
            lazy_pages_max: Self::threshold(cpus),
            flushes: AtomicU64::new(0),
            mapper,
        }
    }

    /// Lazy pages above which a free purges: 32 MiB for each binary digit of the number of CPUs.
    #[must_use]
    pub const fn threshold(cpus: u16) -> u64 {
        (u16::BITS - cpus.leading_zeros()) as u64 * LAZY_STEP_PAGES
    }

    /// The same, purging above `pages` lazy pages.
    #[must_use]
    pub fn with_lazy_pages_max(mut self, pages: u64) -> Self {
        self.lazy_pages_max = pages;
        self
    }

    /// Lazy pages above which a free purges.
    pub const fn lazy_pages_max(&self) -> u64 {
        self.lazy_pages_max
    }

    /// What it maps with.
    pub const fn mapper(&self) -> &M {
        &self.mapper
    }

    /// An area of `pages` pages and a guard page, the lowest from where the walk begins.
    ///
    /// Time: O(areas) from there on.
    ///
    /// # Errors
    /// If nothing fits, with everything lazy purged, or the request means nothing.
    pub fn alloc(&self, pages: u64, align_bytes: u64) -> Result<Page, RangeError> {
        if pages == 0 {
            return Err(RangeError::Empty);
        }
        if !align_bytes.is_power_of_two() {
            return Err(RangeError::Align { bytes: align_bytes });
        }
        let with_guard = pages.checked_add(1).ok_or(RangeError::TooLong { pages })?;
        let align = (align_bytes / Page::BYTES).max(1);
        for last in [false, true] {
            if let Some(start) = self.locked().alloc(with_guard, align) {
                return Ok(start);
            }
            if !last {
                self.purge();
            }
        }
        Err(RangeError::NoSpace { pages, align_bytes })
    }

    /// Frees the area that starts at `page`: unmaps it, and leaves it in the list, lazy. Purges if
    /// that is too much.
    ///
    /// # Errors
    /// If no area starts there, or it is lazy already.
    pub fn free(&self, page: Page) -> Result<(), RangeFreeError> {
        let (number, range) = self.locked().set_lazy(page)?;
        let pages = range.pages();
        // Linux unmaps under no lock too. It cannot fail there; a host's limit can say no here, and
        // then the pages stay mapped until the window goes.
        let _: Result<(), MapError> = self.mapper.unmap(range);
        let lazy = self.lazy_pages.fetch_add(pages, Ordering::Relaxed) + pages;
        self.lazy_pages_peak.fetch_max(lazy, Ordering::Relaxed);
        lock(&self.lazy).push(number);
        if lazy > self.lazy_pages_max
            && let Ok(purging) = self.purging.try_lock()
        {
            self.purge_lazy(&purging);
        }
        Ok(())
    }

    /// Has what is lazy leave the list, after one flush; waits for a purge that runs.
    pub fn purge(&self) {
        let purging = lock(&self.purging);
        self.purge_lazy(&purging);
    }

    fn purge_lazy(&self, _purging: &MutexGuard<'_, ()>) {
        let areas = std::mem::take(&mut *lock(&self.lazy));
        if areas.is_empty() {
            return;
        }
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.mapper.flush_all();
        let mut list = self.locked();
        for &number in areas.iter().rev() {
            let pages = list.remove(number);
            self.lazy_pages.fetch_sub(pages, Ordering::Relaxed);
            if self.waiting.load(Ordering::Relaxed) > 0 {
                drop(list);
                std::thread::yield_now();
                list = self.locked();
            }
        }
        // The list's memory is used again, so that a free needs no heap.
        drop(list);
        let mut lazy = lock(&self.lazy);
        if lazy.capacity() < areas.capacity() {
            let mut areas = areas;
            areas.clear();
            areas.extend_from_slice(&lazy);
            *lazy = areas;
        }
    }

    /// What it counted so far.
    pub fn counters(&self) -> BusyCounters {
        let list = self.locked();
        BusyCounters {
            flushes: self.flushes.load(Ordering::Relaxed),
            lazy_pages: self.lazy_pages.load(Ordering::Relaxed),
            lazy_pages_peak: self.lazy_pages_peak.load(Ordering::Relaxed),
            ..list.counters()
        }
    }

    /// Checks BL1 to BL3; the message says which one does not hold. No other thread may use the
    /// list meanwhile.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn verify(&self) -> Result<(), String> {
        let lazy = self.locked().verify()?;
        let counted = self.lazy_pages.load(Ordering::Relaxed);
        if lazy == counted {
            Ok(())
        } else {
            Err(format!("BL3: {lazy} pages are lazy, {counted} are counted"))
        }
    }

    fn locked(&self) -> MutexGuard<'_, BusyAreas> {
        if let Ok(list) = self.list.try_lock() {
            return list;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let list = lock(&self.list);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        list
    }
}

/// A thread that panicked under the lock has failed its test or its run already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
