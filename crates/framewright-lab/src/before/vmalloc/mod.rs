//! Linux's address-space allocator as it was up to 5.1, and as a proposal of 2018 would have it: two sets of areas
//! behind the same lazy frees.
//!
//! ```text
//!   BusyList   a list of busy areas by address; an allocation walks it until a hole between two of them fits (busy.rs)
//!   FreeList   a list of free areas by address; an allocation takes the first that fits (free.rs)
//!
//!   VmallocList: lock, lazy areas, purge, counters
//!     free: the area stays where it is, lazy; more lazy than the threshold: one flush, and each lazy area leaves
//! ```
//!
//! # Rules
//! - An area is its pages and one guard page.
//! - A free unmaps the area's pages before it returns. Its address space is lazy: used again behind the next flush.
//! - A request for which there is no place purges and looks again, once.
//! - Above `fls(cpus) * 32 MiB` of lazy pages the freeing thread purges. If another thread purges
//!   already, it does not wait for that one, so the threshold is no bound. Between two areas the
//!   purging thread gives up the lock if another thread waits for it: always in `BusyList`; in `FreeList` only while
//!   less than twice the threshold is lazy, which is the proposal's second patch.
//!
//! # Invariants
//! - **BL3** Lazy areas are in the set, and their pages are what the counter says.
//!
//! # Locks
//! Rank 1: the purge's. Rank 2: the set's, global. Rank 3: the lazy areas'.
//!
//! # What is not here
//! vmap blocks over it; the notifiers that Linux calls before it gives up; the memory of descriptors, which are
//! numbers in a vector here and two objects of a slab there. `BTreeMap` stands for the red-black tree in both.
//!
//! # Sources
//! U. Rezki, "improve vmalloc allocation", LKML, October 2018, whose complaint and whose proposal these are; the rules
//! of the cache and of the purge as in Linux 4.12 to 5.1, mm/vmalloc.c. Of the second patch the message has the title
//! alone: the factor 2 is that of Linux 5.2, which has that patch.

mod busy;
mod free;
#[cfg(test)]
mod free_tests;
#[cfg(test)]
mod tests;

pub use busy::BusyAreas;
pub use free::FreeAreas;

use framewright::platform::{MapError, RangePlatform};
use framewright::vrange::{RangeError, RangeFreeError};
use framewright::{Page, PageRange};
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

/// What a [`VmallocList`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VmallocCounters {
    /// Areas made.
    pub area_allocs: u64,
    /// Areas that the walks passed: busy ones, or free ones that were too short.
    pub areas_walked: u64,
    /// Flushes, one a purge.
    pub flushes: u64,
    /// Pages lazy now, guard pages included.
    pub lazy_pages: u64,
    /// The most pages that were lazy at once.
    pub lazy_pages_peak: u64,
    /// Areas made by how they fit, in the order of [`HoleFit`].
    pub fits: [u64; 4],
    /// The most areas that were in the set at once, lazy ones included.
    pub areas_peak: u64,
    /// Descriptors that came from the cache instead of from new memory.
    pub descriptors_reused: u64,
}

/// Busy, lazy and free areas of one window.
pub trait AreaSet {
    /// How many times the threshold must be lazy before a purge no longer lets waiting threads in between; `None`
    /// if it always does.
    const GIVES_WAY_BELOW: Option<u64>;

    /// All of `window` free.
    fn new(window: PageRange) -> Self;

    /// A new busy area of `pages` pages aligned to `align`, or `None` if there is no place.
    fn alloc(&mut self, pages: u64, align: u64) -> Option<Page>;

    /// Marks the area that starts at `page`, and says which it is.
    ///
    /// # Errors
    /// If no area starts there, or it is lazy already.
    fn set_lazy(&mut self, page: Page) -> Result<(u32, PageRange), RangeFreeError>;

    /// Makes a lazy area free, and says how many pages it had.
    fn remove(&mut self, number: u32) -> u64;

    /// What it counted so far.
    fn counters(&self) -> VmallocCounters;

    /// Checks its own rules, and counts the lazy pages for BL3.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn verify(&self) -> Result<u64, String>;
}

/// Linux up to 5.1: a list of busy areas.
pub type BusyList<M> = VmallocList<BusyAreas, M>;

/// The proposal of 2018: a list of free areas.
pub type FreeList<M> = VmallocList<FreeAreas, M>;

/// The allocator; any number of threads use it by reference.
#[derive(Debug)]
pub struct VmallocList<A, M> {
    list: Mutex<A>,
    /// Threads that wait for the set.
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

impl<A: AreaSet, M: RangePlatform> VmallocList<A, M> {
    /// An empty window; the threshold is that of a machine with `cpus` CPUs.
    ///
    /// # Panics
    /// If the window is empty.
    #[must_use]
    pub fn new(window: PageRange, cpus: u16, mapper: M) -> Self {
        assert!(!window.is_empty(), "a window has pages");
        Self {
            list: Mutex::new(A::new(window)),
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

    /// An area of `pages` pages and a guard page.
    ///
    /// Time: O(areas) in the list that is walked.
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

    /// Frees the area that starts at `page`: unmaps it, and leaves it where it is, lazy. Purges if
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

    /// Makes what is lazy free, after one flush; waits for a purge that runs.
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
            let lazy = self.lazy_pages.fetch_sub(pages, Ordering::Relaxed) - pages;
            if self.waiting.load(Ordering::Relaxed) > 0 && self.gives_way(lazy) {
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

    /// Whether a purge lets other threads in between while `lazy` pages are lazy.
    const fn gives_way(&self, lazy: u64) -> bool {
        match A::GIVES_WAY_BELOW {
            Some(times) => lazy < self.lazy_pages_max * times,
            None => true,
        }
    }

    /// What it counted so far.
    pub fn counters(&self) -> VmallocCounters {
        let list = self.locked();
        VmallocCounters {
            flushes: self.flushes.load(Ordering::Relaxed),
            lazy_pages: self.lazy_pages.load(Ordering::Relaxed),
            lazy_pages_peak: self.lazy_pages_peak.load(Ordering::Relaxed),
            ..list.counters()
        }
    }

    /// Checks BL3 and the set's own rules; the message says which one does not hold. No other thread may use the
    /// areas meanwhile.
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

    fn locked(&self) -> MutexGuard<'_, A> {
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
