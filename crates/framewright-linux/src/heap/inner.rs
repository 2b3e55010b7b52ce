// UNSAFETY: a seat that outlives the borrow of its host is made here, with the host's owner beside
// it.

use super::HeapOptions;
use crate::{Host, HostError, HostKv, HostKvSeat, HostSpace, Options, RangeOptions};
use framewright::frame::ZoneLayout;
use framewright::platform::NoRelief;
use framewright::{Addr, CpuId, Frame, kv};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What a heap is made of, shared by the heap and the threads that have a seat in it.
#[derive(Debug)]
pub(super) struct Inner {
    kv: HostKv,
    threads: u16,
    ram: Memory,
    window: Memory,
    /// Who has it may take the last seat.
    shared: Mutex<()>,
    shared_seat: AtomicU64,
    closed: AtomicBool,
}

/// Bytes that lie side by side.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: an address, with the right to say so; what is done with the bytes is the users'.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    #[inline(always)]
    fn contains(&self, at: usize) -> bool {
        at.wrapping_sub(self.start.addr().get()) < self.len_bytes
    }
}

/// A thread's seat in a heap.
#[derive(Debug)]
pub(super) struct OwnSeat {
    // INVARIANT: `seat` points to a boxed seat in `heap`, which this value owns: 'static is a lie,
    // and the heap is dropped after it.
    seat: NonNull<HostKvSeat<'static>>,
    heap: Arc<Inner>,
}

impl OwnSeat {
    /// A seat that is free now. Time: O(seats).
    pub(super) fn take(heap: &Arc<Inner>) -> Option<Self> {
        let seat = (0..heap.threads).find_map(|cpu| heap.kv.seat_of(CpuId(cpu)))?;
        // SAFETY: only the lifetime changes. What it borrows from lies in the `Arc`, which is kept
        // beside it and dropped after it; it is moved out of nowhere, because nothing in an `Arc`
        // that is shared is moved.
        let seat: HostKvSeat<'static> =
            unsafe { std::mem::transmute::<HostKvSeat<'_>, HostKvSeat<'static>>(seat) };
        Some(Self {
            seat: NonNull::from(Box::leak(Box::new(seat))),
            heap: Arc::clone(heap),
        })
    }

    pub(super) const fn heap(&self) -> &Arc<Inner> {
        &self.heap
    }

    /// Where the seat lies: valid as long as this value lives, and to be used by one at a time.
    pub(super) const fn seat(&self) -> NonNull<HostKvSeat<'static>> {
        self.seat
    }
}

impl Drop for OwnSeat {
    fn drop(&mut self) {
        // SAFETY: boxed by `take`, and dropped once.
        drop(unsafe { Box::from_raw(self.seat.as_ptr()) });
    }
}

impl Inner {
    pub(super) fn new(options: &HeapOptions) -> Result<Arc<Self>, HostError> {
        // One seat more than threads, for those that have none.
        let cpus = options
            .threads
            .checked_add(1)
            .filter(|_| options.threads > 0);
        let cpus = cpus.ok_or(HostError::Objects(kv::SetupError::Cpus(options.threads)))?;
        let layout = ZoneLayout::new(Frame(0), options.frames).with_cpus(cpus);
        let mut of_host = Options::new(layout);
        // Most seats are empty most of the time: those that are not may have a tenth together.
        of_host.config.cache_permille = 100;
        let host = Host::new(&of_host)?;
        let space = HostSpace::over(host, &RangeOptions::new(options.pages))?;
        let kv = HostKv::over(space, NoRelief)?;
        let (ram, window) = (kv.host().ram(), kv.window());
        let (frames, pages) = (ram.frames(), window.range());
        let start = ram.address(frames.start()).ok().and_then(NonNull::new);
        let ram = Memory {
            start: start.expect("RAM has a first frame"),
            len_bytes: (frames.frames() * Frame::BYTES) as usize,
        };
        let start = window.address(pages.start()).ok().and_then(NonNull::new);
        let window = Memory {
            start: start.expect("a window has a first page"),
            len_bytes: (pages.pages() * Frame::BYTES) as usize,
        };
        Ok(Arc::new(Self {
            kv,
            threads: options.threads,
            ram,
            window,
            shared: Mutex::new(()),
            shared_seat: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }))
    }

    pub(super) const fn kv(&self) -> &HostKv {
        &self.kv
    }

    /// How often the shared seat was used.
    pub(super) fn shared_seat(&self) -> u64 {
        // Relaxed: only counted.
        self.shared_seat.load(Relaxed)
    }

    /// Nobody will ask for anything any more.
    pub(super) fn close(&self) {
        // Relaxed: seats that are still there keep everything until they see it.
        self.closed.store(true, Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Works in the seat that is nobody's own, when it is free.
    #[cold]
    pub(super) fn in_shared_seat<T>(
        &self,
        work: impl FnOnce(&mut HostKvSeat<'_>) -> T,
    ) -> Option<T> {
        // There is nothing behind the lock that a panic could have left half done.
        let _mine = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seat = self.kv.seat_of(CpuId(self.threads))?;
        self.shared_seat.fetch_add(1, Relaxed);
        Some(work(&mut seat))
    }

    /// Whether an address is that of the heap's memory.
    #[inline(always)]
    pub(super) fn contains(&self, at: *const u8) -> bool {
        self.ram.contains(at.addr()) || self.window.contains(at.addr())
    }

    /// Whether an address is in the direct map.
    #[inline(always)]
    pub(super) fn is_direct(&self, at: *const u8) -> bool {
        self.ram.contains(at.addr())
    }

    /// The pointer to an object.
    #[inline(always)]
    pub(super) fn pointer(&self, addr: Addr) -> NonNull<u8> {
        let at = addr.0 as usize;
        let memory = if self.ram.contains(at) {
            &self.ram
        } else {
            &self.window
        };
        let offset = at.wrapping_sub(memory.start.addr().get());
        // An object is in one of the two, so this is inside, and no number is 0.
        NonNull::new(memory.start.as_ptr().wrapping_byte_add(offset)).unwrap_or(memory.start)
    }
}

/// The address of an object.
#[inline(always)]
pub(super) fn address(at: NonNull<u8>) -> Addr {
    Addr(at.addr().get() as u64)
}
