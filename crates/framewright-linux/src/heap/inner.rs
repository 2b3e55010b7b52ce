//! The host that a heap consists of, and the seats that threads keep in it. A thread's seat may outlive the heap, so
//! each has a mark of whether the heap is there; the proof of every dereference is in this file.

// UNSAFETY: a seat that outlives the borrow of its host is made here, together with a mark of
// whether the host is still there.

use super::HeapOptions;
use crate::fork::{Process, WatchedProcess};
use crate::{HostCpu, HostError, HostKv, Options, RangeOptions};
use framewright::frame::ZoneLayout;
use framewright::kv::KvLayout;
use framewright::policy::RangeConfig;
use framewright::{Addr, CpuId, Frame};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// Seats are CPUs, of which there are at most 1023, and one seat is shared.
const THREADS_MAX: u16 = 1022;

/// The parts of a heap. Behind an `Arc` that the heap alone has, because that, unlike a box, may be
/// moved while seats refer to its contents.
#[derive(Debug)]
pub(super) struct HeapInner {
    // INVARIANT: dropped after `life` has ended.
    kv: HostKv,
    life: Arc<HeapLife>,
    process: WatchedProcess,
    threads: u16,
    ram: HeapMemory,
    window: HeapMemory,
    /// Its holder may take the last seat.
    shared: Mutex<()>,
    shared_seat: AtomicU64,
}

/// Whether a heap is still there. Its address identifies the heap while any reference to it exists.
#[derive(Debug)]
pub(super) struct HeapLife {
    ended: AtomicBool,
    /// The heap's process: in one that was forked off, the life has ended.
    process: Process,
    /// Its holder may give a seat back, or end the life.
    gate: Mutex<()>,
}

impl HeapLife {
    /// Ends it: from here on no seat is given back, and the heap can go.
    fn end(&self) {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: a thread that must know holds the gate.
        self.ended.store(true, Relaxed);
    }

    /// Whether it has ended, or is about to.
    pub(super) fn has_ended(&self) -> bool {
        // Relaxed: as above; other threads only forget entries that are of no use.
        self.ended.load(Relaxed) || !self.process.is_this()
    }
}

/// Why a thread gets no seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoHeapSeat {
    /// It is inside a heap already.
    Inside,
    /// It has none of its own, and may not wait for the shared one.
    InUse,
    /// Its process was forked off from the heap's.
    Forked,
}

/// A contiguous range of bytes.
#[derive(Debug)]
struct HeapMemory {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: an address and a length; the users answer for what they do with the bytes.
unsafe impl Send for HeapMemory {}
// SAFETY: as above.
unsafe impl Sync for HeapMemory {}

impl HeapMemory {
    #[inline(always)]
    fn contains(&self, at: usize) -> bool {
        at.wrapping_sub(self.start.addr().get()) < self.len_bytes
    }
}

/// A thread's seat in a heap.
#[derive(Debug)]
pub(super) struct HeapSeat {
    // INVARIANT: `seat` points to a box that this value owns, with a seat in the heap of the life
    // `life`. Its 'static is a lie: no code touches the seat after that life has ended.
    seat: NonNull<HostCpu<'static>>,
    life: Arc<HeapLife>,
}

impl HeapSeat {
    /// A seat that is free now. Time: O(seats).
    pub(super) fn take(heap: &Arc<HeapInner>) -> Option<Self> {
        let seat = (0..heap.threads).find_map(|cpu| heap.kv.cpu_of(CpuId(cpu)))?;
        // SAFETY: only the lifetime changes. The value that it borrows from lies in the `Arc`, is
        // not moved out of it, and is dropped after `life` has ended, when the seat is no longer
        // touched.
        let seat: HostCpu<'static> =
            unsafe { std::mem::transmute::<HostCpu<'_>, HostCpu<'static>>(seat) };
        Some(Self {
            seat: NonNull::from(Box::leak(Box::new(seat))),
            life: Arc::clone(&heap.life),
        })
    }

    /// Where the seat lies: valid while this value and the heap live; for one user at a time.
    pub(super) const fn seat(&self) -> NonNull<HostCpu<'static>> {
        self.seat
    }
}

impl Drop for HeapSeat {
    fn drop(&mut self) {
        if !self.life.process.is_this() {
            // The seat is the parent's, and so may be the gate's holder.
            return;
        }
        let gate = self.life.gate.lock();
        let _gate = gate.unwrap_or_else(PoisonError::into_inner);
        let seat = self.seat.cast::<MaybeUninit<HostCpu<'static>>>();
        // SAFETY: boxed by `take`, in the same layout, and unboxed once.
        let mut seat = unsafe { Box::from_raw(seat.as_ptr()) };
        if !self.life.has_ended() {
            // SAFETY: `take` put it there, and it is dropped once. The heap is there: its life does
            // not end while this thread holds the gate.
            unsafe { seat.assume_init_drop() };
        }
    }
}

impl HeapInner {
    pub(super) fn new(options: &HeapOptions) -> Result<Arc<Self>, HostError> {
        let &HeapOptions {
            frames, threads, ..
        } = options;
        // One more seat than threads, for threads without one; each needs a slab.
        if !(1..=THREADS_MAX).contains(&threads) || frames <= u64::from(threads) {
            return Err(HostError::Heap { frames, threads });
        }
        let cpus = threads + 1;
        let layout = ZoneLayout::new(Frame(0), frames).with_cpus(cpus);
        let mut of_host = Options::new(layout);
        // Most seats are empty most of the time: the others together may have a tenth.
        of_host.config.cache_permille = 100;
        let slabs = KvLayout::new(Frame(0), frames).slabs_max;
        let mut of_window = RangeOptions::new(options.pages);
        // As other heaps, it leaves freed memory mapped for the next request.
        of_window.config = Some(RangeConfig::for_cpus(cpus).kept());
        of_window.slabs_max = Some(slabs.max(u64::from(cpus)));
        let kv = HostKv::new(&of_host.with_ranges(of_window))?;
        let (ram, window) = (kv.ram(), kv.window());
        let (frames, pages) = (ram.frames(), window.range());
        let start = ram.address(frames.start()).ok().and_then(NonNull::new);
        // A forked child that starts another program reads that program's arguments from here.
        kv.ram().let_children_read();
        window.let_children_read();
        let ram = HeapMemory {
            start: start.expect("RAM has a first frame"),
            len_bytes: (frames.frames() * Frame::BYTES) as usize,
        };
        let start = window.address(pages.start()).ok().and_then(NonNull::new);
        let window = HeapMemory {
            start: start.expect("a window has a first page"),
            len_bytes: (pages.pages() * Frame::BYTES) as usize,
        };
        Ok(Arc::new(Self {
            kv,
            process: WatchedProcess::this(),
            life: Arc::new(HeapLife {
                ended: AtomicBool::new(false),
                process: Process::this(),
                gate: Mutex::new(()),
            }),
            threads,
            ram,
            window,
            shared: Mutex::new(()),
            shared_seat: AtomicU64::new(0),
        }))
    }

    pub(super) const fn kv(&self) -> &HostKv {
        &self.kv
    }

    /// Whether the heap was made by the calling process, and not by one that it was forked off
    /// from.
    #[inline(always)]
    pub(super) fn is_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// How often the shared seat was used.
    pub(super) fn shared_seat(&self) -> u64 {
        // Relaxed: only a count.
        self.shared_seat.load(Relaxed)
    }

    /// The heap's life, which is its own.
    #[inline(always)]
    pub(super) const fn life(&self) -> &Arc<HeapLife> {
        &self.life
    }

    /// Works in the shared seat when it is free. If `may_block` is false, works now or not at all.
    #[cold]
    pub(super) fn in_shared_seat<T>(
        &self,
        may_block: bool,
        work: impl FnOnce(&mut HostCpu<'_>) -> T,
    ) -> Result<T, NoHeapSeat> {
        // The lock protects no data that a panic could have left half changed.
        let _mine = match self.shared.try_lock() {
            Ok(mine) => mine,
            Err(TryLockError::Poisoned(mine)) => mine.into_inner(),
            Err(TryLockError::WouldBlock) if !may_block => return Err(NoHeapSeat::InUse),
            Err(TryLockError::WouldBlock) => {
                self.shared.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        let seat = self.kv.cpu_of(CpuId(self.threads));
        let mut seat = seat.ok_or(NoHeapSeat::InUse)?;
        self.shared_seat.fetch_add(1, Relaxed);
        Ok(work(&mut seat))
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
        // An object is in one of the two ranges, so this is inside, and not null.
        NonNull::new(memory.start.as_ptr().wrapping_byte_add(offset)).unwrap_or(memory.start)
    }
}

impl Drop for HeapInner {
    fn drop(&mut self) {
        // INVARIANT: ended before the values that the seats refer to are dropped.
        self.life.end();
    }
}

/// The address of an object.
#[inline(always)]
pub(super) fn address(at: NonNull<u8>) -> Addr {
    Addr(at.addr().get() as u64)
}
