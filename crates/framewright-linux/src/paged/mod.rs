// UNSAFETY: the handler of faults knows a region by its address, and the region must live as long
// as it is known.

//! Paged anonymous memory: user addresses for more pages than there are frames for them.
//!
//! ```text
//!    a thread                 the handler of faults            a pager
//!    loads or stores ──SIGSEGV──▶ hidden? shown again ──▶ on
//!                               │ no frame
//!                               └──▶ asks, and sleeps ──────▶ room: others are evicted ──▶ Frontswap
//!                                                             a frame, from a source
//!                                                             contents: the store, the device, or zero
//!                                       wakes ◀────────────── shown
//! ```
//!
//! Loads and stores at [addresses](Paged::address) work on all of the region, directly while a page
//! has a frame and is shown. At most *budget* pages have a frame at a time. Second chance decides which pages those
//! are: it takes access away from batches of pages, neighbours by one call. A page that is touched gets its access
//! back in about 3 µs, and counts as used; a page that was not touched when its turn comes is evicted.
//!
//! A page that came from the swap is shown read-only. Its first write is a fault, which marks it
//! dirty; without one its slot stays valid, and it is not written again when it leaves.
//!
//! # When a thread touches a page
//! The kernel sends it SIGSEGV, and the thread sleeps in the handler until the page is there. This
//! holds for loads and stores. A system call that is handed such an address says EFAULT if the page
//! is not shown: use [`Paged::read`] and [`Paged::write`], or [pin](Paged::pin) the pages.
//!
//! If a page cannot be brought, because the device fails or there is no frame, `read`, `write` and
//! `pin` return the reason, and may be called again. A load or a store cannot. The handler treats it like one at an
//! address without memory, and mostly the process ends by SIGSEGV. The same happens if no thread
//! [serves](Paged::serve) the region.
//!
//! If a page cannot be written, it keeps its frame, and the region may be above its budget
//! meanwhile: [`Paged::take_error`] returns why.
//!
//! What [`Anon`](crate::anon) says of signal handlers holds for these regions, too. A thread that
//! serves a region, or gives its frames back, must not touch it.
//!
//! # Invariants
//! - **PG1** A page's contents are in its frame, or in the swap, or on the way between them while no
//!   thread has access.
//! - **PG2** A page without DIRTY is what the swap has for it.
//! - **PG3** A pinned page keeps its frame, and is visible as long as it is pinned.
//! - **PG4** A page that could not be stored keeps its frame and is dirty.
//! - **PG5** No waiting thread is missed. A thread that changes a page sets its state with the gate shut, and then
//!   tells all that wait, before or after it opens the gate.
//! - **PG6** If a call of the device, the store or the supply unwinds, no page stays busy. Each page has its frame,
//!   or none, as before, and another thread can bring it. Frames that no page has go to the next pager.
//! - **PG7** No call allocates with the gate shut: the allocator may ask reclaim, which may ask this region.
//! - **PG8** A page that was read ahead is hidden until its first use, so that this use is seen and counted.
//!
//! # Locks
//! A thread that evicts, saves or discards holds the evictor's lock, even during I/O. Under it, it shuts the
//! region's gate for each change of the shown pages, for some µs. The handler shuts the gate, too. No other lock is
//! taken with the gate shut. Frames are taken with neither held, because a supply may ask for reclaim, and freed
//! under the evictor's.
//!
//! # What is not here
//! Sharing; forking: a child has no access to a region, ends by SIGSEGV if it touches one, and does
//! not write to its swap file; reading ahead further than the eight around a page; huge pages.
//!
//! # Sources
//! Second chance: F. J. Corbató, "A paging experiment with the Multics system", 1968; by taking access away where hardware has no
//! bits: Ö. Babaoğlu and W. Joy, "Converting a swap-based system to do paging", SOSP 1981.

mod access;
mod around;
mod error;
mod evict;
mod moves;
mod pager;
mod region;
mod save;
mod table;
mod verify;

#[cfg(test)]
mod tests;

pub use access::PagedPin;
pub use error::PagedError;
pub use verify::PagedBroken;

use crate::anon::AnonError;
use crate::fault::{ListedRegion, Touched};
use crate::ram::{FRAME_BYTES, Ram};
use crate::swap::{Frontswap, SwapError};
use crate::window::{Window, WindowError};
use evict::Evictor;
use framewright::{Frame, Page};
use region::PagedRegion;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use std::sync::{Arc, Mutex, PoisonError};

/// What a region did since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PagedStats {
    /// Touches of pages that had no frame \[`pgmajfault`\], by load and store.
    pub faults: u64,
    /// Pages that were given a frame.
    pub brought: u64,
    /// Those of them that were zero, because no contents were stored for them.
    pub zeroed: u64,
    /// Those of them that came around a page that a thread touched, and not in sequence with it \[`swap_ra`\].
    pub ahead: u64,
    /// Of these, pages that a thread used before they left \[`swap_ra_hit`\]. Their number tells the region how much to read.
    pub ahead_used: u64,
    /// Pages that could not be brought.
    pub failed: u64,
    /// Pages that lost their frame.
    pub evicted: u64,
    /// Those of them that were dirty.
    pub evicted_dirty: u64,
    /// Pages that could not be stored, and stayed.
    pub evict_failed: u64,
    /// Times that reclaim waited for a thread that evicted already.
    pub evict_waits: u64,
    /// Pages from which access was taken to see whether they are used.
    pub hidden: u64,
    /// Calls that took access away, for any reason.
    pub hide_calls: u64,
    /// Touches that gave access back.
    pub used_again: u64,
    /// Touches that were the first write to a page.
    pub written_first: u64,
    /// Pages that got another frame.
    pub moved: u64,
    /// Mappings that the limit, or the kernel, did not allow.
    pub refused: u64,
    /// Pages that have a frame now.
    pub resident: u64,
}

/// A region of paged anonymous memory. See the [module's description](self).
///
/// Frames behind its pages stay allocated when it is dropped: [discard](Self::discard) them first.
///
/// ```
/// use framewright::{Frame, frame::ZoneLayout};
/// use framewright_linux::paged::Paged;
/// use framewright_linux::{Frontswap, Host, Options, Zram};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 4096).with_cpus(2)))?;
/// let device = Zram::new(1024, 4 << 20);
/// // 1024 pages, and frames for 64 of them at a time.
/// let paged = Paged::new(Arc::clone(host.ram_shared()), Frontswap::new(&device, 1024), 64)?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| paged.serve(&mut host.seat().unwrap()));
///     paged.await_pager().unwrap();
///     let words = paged.address(0).unwrap().cast::<u64>();
///     for page in 0..1024 {
///         // SAFETY: in the region, which no other thread uses.
///         unsafe { words.add(page * 512).write(page as u64) };
///     }
///     for page in 0..1024 {
///         // SAFETY: as above.
///         assert_eq!(unsafe { words.add(page * 512).read() }, page as u64);
///     }
///     paged.stop();
/// });
/// assert!(paged.stats().resident <= 64);
/// paged.discard(0..1024, &mut host.seat()?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Paged<'s> {
    // Before the region, so that the handler forgets it before it goes.
    _listed: ListedRegion,
    region: Arc<PagedRegion>,
    swap: Frontswap<'s>,
    budget: u64,
    /// Pages with a frame, and those for which one is being taken.
    resident: AtomicU64,
    /// Pagers that are bringing pages.
    arriving: AtomicU64,
    evictor: Mutex<Evictor>,
    /// See [`spare`](Self::spare). Nothing else is locked under it.
    spare: Mutex<Vec<Frame>>,
    /// Why pages could not be brought: for each the last reason that was not reported.
    errors: Mutex<BTreeMap<usize, PagedError>>,
    /// The last page that could not be stored.
    last_error: Mutex<Option<SwapError>>,
}

impl<'s> Paged<'s> {
    /// A region of as many pages as `swap` has, with at most `budget` frames of `ram` at a time, at least one.
    ///
    /// The pages hold what `swap` has: zero, if it is new. Costs address space; memory, less than
    /// 17 bytes a page and 8 a frame, only where it is used.
    ///
    /// # Errors
    /// What the host refused, a length that no window can have, or too many regions.
    pub fn new(ram: Arc<Ram>, swap: Frontswap<'s>, budget: u64) -> Result<Self, AnonError> {
        let window = Window::new(ram, swap.pages());
        Self::over(window.map_err(AnonError::Window)?, swap, budget)
    }

    /// The same with at most `mappings_max` mappings of the kernel's, however many it allows. About two for each
    /// page of the budget are enough for any pattern.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_mappings_max(
        ram: Arc<Ram>,
        swap: Frontswap<'s>,
        budget: u64,
        mappings_max: u64,
    ) -> Result<Self, AnonError> {
        let window = Window::with_mappings_max(ram, swap.pages(), mappings_max);
        Self::over(window.map_err(AnonError::Window)?, swap, budget)
    }

    fn over(window: Window, swap: Frontswap<'s>, budget: u64) -> Result<Self, AnonError> {
        let region = PagedRegion::new(window)
            .map_err(|errno| AnonError::Window(WindowError::Host(errno.raw_os_error())))?;
        let region = Arc::new(region);
        let budget = budget.max(1);
        let frames = region.ram().frames().frames();
        let resident_max = budget.min(swap.pages()).min(frames);
        // SAFETY: it lives at its place until the handler has forgotten it: it is dropped after
        // that.
        let listed = unsafe { ListedRegion::new(Arc::as_ptr(&region) as *const dyn Touched) }?;
        Ok(Self {
            _listed: listed,
            region,
            swap,
            budget,
            resident: AtomicU64::new(0),
            arriving: AtomicU64::new(0),
            evictor: Mutex::new(Evictor::new(resident_max)),
            spare: Mutex::default(),
            errors: Mutex::default(),
            last_error: Mutex::default(),
        })
    }

    /// The region's pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.region.page_count() as u64
    }

    /// Its length.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.pages() * FRAME_BYTES as u64
    }

    /// Where a page, counted from the first, lies; its neighbours lie beside it. Loads and stores
    /// there belong to the caller as long as the region lives and is [served](Self::serve).
    #[must_use]
    pub fn address(&self, page: u64) -> Option<*mut u8> {
        let first = self.region.window.range().start();
        let page = first.checked_add(page)?;
        self.region.window.address(Page(page.0)).ok()
    }

    /// The frame behind a page, counted from the first, at this moment, if it has one. Another
    /// frame may replace it as soon as this returns, unless the page is [pinned](Self::pin).
    #[must_use]
    pub fn frame_of(&self, page: u64) -> Option<Frame> {
        let nth = usize::try_from(page).ok()?;
        let table = &self.region.table;
        let state = (nth < self.region.page_count()).then(|| table.state(nth))?;
        table.frame(state)
    }

    /// An upper bound of the kernel's mappings that make up the region now.
    #[must_use]
    pub fn mappings(&self) -> u64 {
        self.region.window.mappings()
    }

    /// The swap behind it.
    #[must_use]
    pub const fn swap(&self) -> &Frontswap<'s> {
        &self.swap
    }

    /// All counters.
    #[must_use]
    pub fn stats(&self) -> PagedStats {
        let counts = &self.region.counts;
        let load = |word: &AtomicU64| word.load(Relaxed);
        PagedStats {
            faults: load(&counts.faults),
            brought: load(&counts.brought),
            zeroed: load(&counts.zeroed),
            ahead: load(&counts.ahead),
            ahead_used: load(&counts.ahead_used),
            failed: load(&counts.failed),
            evicted: load(&counts.evicted),
            evicted_dirty: load(&counts.evicted_dirty),
            evict_failed: load(&counts.evict_failed),
            evict_waits: load(&counts.waits),
            hidden: load(&counts.hidden),
            hide_calls: load(&counts.hide_calls),
            used_again: load(&counts.used_again),
            written_first: load(&counts.written_first),
            moved: load(&counts.moved),
            refused: load(&counts.refused),
            resident: load(&self.resident),
        }
    }

    /// Why a page could not be stored, the last time that this happened since the last call.
    pub fn take_error(&self) -> Option<SwapError> {
        let mut last = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.take()
    }

    fn tell_error(&self, error: &SwapError) {
        let mut last = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(error.clone());
    }

    /// Waits until a thread [serves](Self::serve) the region.
    ///
    /// # Errors
    /// [`PagedError::NotServed`] if the region was [stopped](Self::stop), or the last thread that served it, or was
    /// to serve it, has failed: by an error, or by a panic.
    pub fn await_pager(&self) -> Result<(), PagedError> {
        let region = &self.region;
        loop {
            let seen = region.changed.now();
            if region.is_served() {
                return Ok(());
            }
            if region.is_stopped.load(Acquire) || region.has_failed.load(Acquire) {
                return Err(PagedError::NotServed);
            }
            region.changed.wait(seen);
        }
    }
}
