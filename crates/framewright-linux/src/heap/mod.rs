//! The whole heap of a program, or a part of it, from the engine's objects.
//!
//! ```text
//!   Heap ── Inner ─┬─ HostKv              frames, window, space, objects: the heap's alone
//!                  ├─ seat 0 .. n − 1     one for each thread, from its first request to its end
//!                  └─ seat n              behind a lock, for threads without one
//! ```
//!
//! A [`Heap`] is a [`GlobalAlloc`](std::alloc::GlobalAlloc), and a [`Memory`] for owners such as
//! [`KVVec`](framewright::kv::KVVec). A thread takes a free seat at its first request and keeps it
//! until it ends; then another thread may have the seat, with the cached objects in it. A thread
//! that finds none, because there are more threads than seats, shares the last seat with others
//! like it, under a lock; so does a thread that is ending and has given its seat back. Frees by any
//! thread are the engine's ordinary ones.
//!
//! # What the system's allocator does
//! As a `GlobalAlloc`, a heap passes on what it cannot serve itself: requests during the making of
//! the heap, or while a thread takes its seat; all requests, if it cannot be made (no memory, no
//! membarrier); and requests for which the engine has no memory. A free finds out from the address
//! which of the two has the object. As a [`Memory`] it passes nothing on: there an error is a
//! value.
//!
//! # Wrong frees
//! A free of an object that is free already, or of an address where none starts, is refused, and
//! counted in [`KvStats::bad_frees`]; in a build with debug assertions it ends the program, with a
//! line that says what is wrong with the address.
//!
//! # Limits
//! A forked process can read the heap, and so start another program, as
//! [`Command`](std::process::Command) does; a write to the heap ends it by SIGSEGV. It sees what
//! its parent changes later. Its allocations come from the system, its frees of the heap's objects
//! are lost, and as a [`Memory`] the heap returns [`HeapError::Forked`]. The same holds for a heap that
//! another thread was making at that moment. (A child that clone(2) makes without fork(3) shares the
//! memory with its parent, and must not change it.)
//!
//! A signal handler that interrupts the heap gets the system's memory, and its frees meanwhile are
//! lost. The system does not promise either that a handler may allocate at all.
//!
//! When a heap is dropped, its memory goes back at once, whichever threads had seats in it.
//!
//! [`Memory`]: framewright::kv::Memory

mod global;
mod inner;
mod memory;
mod mine;

#[cfg(test)]
mod tests;

pub use memory::{HeapError, HeapWith};

use crate::HostError;
use crate::fork::ProcessClaim;
use framewright::stats::KvStats;
use inner::HeapInner;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// How large a heap is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapOptions {
    /// How many frames it has, of 4096 bytes: more than `threads`. They cost no memory until they
    /// are used.
    pub frames: u64,
    /// How many threads have a seat of their own at a time, 1 to 1022.
    pub threads: u16,
    /// How many pages there are for objects that are not contiguous, 1 to 2^30 - 1.
    pub pages: u64,
}

impl HeapOptions {
    /// A heap of this many bytes for 63 threads, with four times as many addresses for objects that
    /// are not contiguous.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        let frames = bytes.div_ceil(4096);
        let pages = match frames.saturating_mul(4) {
            ..0x1_0000 => 0x1_0000,
            0x3fff_ffff.. => 0x3fff_ffff,
            pages => pages,
        };
        Self {
            frames,
            threads: 63,
            pages,
        }
    }

    /// The same for `threads` threads.
    #[must_use]
    pub const fn with_threads(mut self, threads: u16) -> Self {
        self.threads = threads;
        self
    }
}

/// A heap. See the [module's description](self).
///
/// ```
/// use framewright_linux::{Heap, HeapOptions};
///
/// #[global_allocator]
/// static HEAP: Heap = Heap::new(HeapOptions::new(256 << 20));
///
/// fn main() {
///     let words: Vec<String> = (0..1000).map(|number| format!("word {number}")).collect();
///     assert_eq!(words[999], "word 999");
///     let stats = HEAP.stats().expect("there was memory for a heap");
///     assert!(stats.objects.run_allocs + stats.objects.slab_allocs > 1000);
/// }
/// ```
#[derive(Debug)]
pub struct Heap {
    options: HeapOptions,
    inner: OnceLock<Result<Arc<HeapInner>, HostError>>,
    /// The process of the first thread that makes it. A process that was forked off meanwhile does not
    /// have that thread, and would wait for ever for it in `inner`.
    maker: ProcessClaim,
    system_allocs: AtomicU64,
    lost_frees: AtomicU64,
}

/// The counters of a heap since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapStats {
    /// The engine's counters.
    pub objects: KvStats,
    /// Free frames, including those that threads have cached. Not those in slabs
    /// ([`KvStats::slab_frames`]), even empty ones, nor those of mapped pages that were freed and
    /// are kept for the next requests or wait for a purge: that may be most of them. All of them go
    /// back before a request that may wait fails.
    pub free_frames: u64,
    /// Requests that were passed on to the system's allocator.
    pub system_allocs: u64,
    /// Operations in the seat that threads without one share.
    pub shared_seat: u64,
    /// Objects that could not be freed: see the [module's limits](self).
    pub lost_frees: u64,
}

impl Heap {
    /// A heap that is made at its first use.
    #[must_use]
    pub const fn new(options: HeapOptions) -> Self {
        Self {
            options,
            inner: OnceLock::new(),
            maker: ProcessClaim::new(),
            system_allocs: AtomicU64::new(0),
            lost_frees: AtomicU64::new(0),
        }
    }

    /// A heap that is made now.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn try_new(options: HeapOptions) -> Result<Self, HostError> {
        let heap = Self::new(options);
        heap.set_up()?;
        Ok(heap)
    }

    /// Makes the heap, if it has not been made. If that failed once, it is not tried again.
    ///
    /// # Errors
    /// The part that could not be made, now or at the first try; [`HostError::Forked`] if another thread
    /// was making it when this process was forked off.
    pub fn set_up(&self) -> Result<(), HostError> {
        if self.inner.get().is_none() && !self.maker.claim() {
            return Err(HostError::Forked);
        }
        let made = self
            .inner
            .get_or_init(|| mine::passing_on(|| HeapInner::new(&self.options)));
        made.as_ref().map(drop).map_err(|error| *error)
    }

    /// All counters so far; `None` if there is no heap, or not yet, or it is the parent's. Time:
    /// O(threads).
    #[must_use]
    pub fn stats(&self) -> Option<HeapStats> {
        let inner = self.made().filter(|inner| inner.is_this_process())?;
        Some(HeapStats {
            objects: inner.kv().kv().stats(),
            free_frames: inner.kv().zone().stats().nr_free_pages,
            // Relaxed: only a count.
            system_allocs: self.system_allocs.load(Relaxed),
            shared_seat: inner.shared_seat(),
            lost_frees: self.lost_frees.load(Relaxed),
        })
    }

    /// Whether an address is that of the heap's memory.
    #[must_use]
    pub fn contains(&self, at: *const u8) -> bool {
        self.made().is_some_and(|inner| inner.contains(at))
    }

    /// The heap, if it has been made.
    #[inline(always)]
    fn made(&self) -> Option<&Arc<HeapInner>> {
        self.inner.get()?.as_ref().ok()
    }

    /// The heap. Makes it if that is possible, but not while this thread is making one.
    #[inline(always)]
    fn inner(&self) -> Option<&Arc<HeapInner>> {
        match self.inner.get() {
            Some(made) => made.as_ref().ok(),
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Option<&Arc<HeapInner>> {
        if mine::is_passing_on() {
            return None;
        }
        // The failure is remembered.
        let _ = self.set_up();
        self.made()
    }
}
