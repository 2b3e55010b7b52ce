// UNSAFETY: a seat that outlives the borrow of its host is made here, with what says whether the
// host is still there beside it.

use super::HeapOptions;
use crate::fork::{Process, Watched};
use crate::{Host, HostError, HostKv, HostKvSeat, HostSpace, Options, RangeOptions};
use framewright::frame::ZoneLayout;
use framewright::kv::KvLayout;
use framewright::platform::NoRelief;
use framewright::{Addr, CpuId, Frame};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// Seats are CPUs, of which there are at most 1023, and one seat is nobody's own.
const THREADS_MAX: u16 = 1022;

/// What a heap is made of. Behind an `Arc` that the heap alone has, because that, unlike a box, may
/// be moved while seats refer to what is in it.
#[derive(Debug)]
pub(super) struct Inner {
    // INVARIANT: dropped after `life` has ended.
    kv: HostKv,
    life: Arc<Life>,
    process: Watched,
    threads: u16,
    ram: Memory,
    window: Memory,
    /// Who has it may take the last seat.
    shared: Mutex<()>,
    shared_seat: AtomicU64,
}

/// Whether a heap is still there; its address says which heap's it is, as long as anybody has it.
#[derive(Debug)]
pub(super) struct Life {
    ended: AtomicBool,
    /// Whose it is: for one that was forked off it has ended.
    process: Process,
    /// Who has it may give a seat back, or end the life.
    gate: Mutex<()>,
}

impl Life {
    /// Ends it: no seat is given back any more, and the heap can go.
    fn end(&self) {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: who must know has the gate.
        self.ended.store(true, Relaxed);
    }

    /// Whether it has ended, or is about to.
    pub(super) fn has_ended(&self) -> bool {
        // Relaxed: as above; others do no more than forget what is of no use.
        self.ended.load(Relaxed) || !self.process.is_this()
    }
}

/// Why a thread gets no seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoSeat {
    /// It is inside a heap already.
    Inside,
    /// It has none of its own, and may not wait for the shared one.
    InUse,
    /// Its process was forked off from the one whose heap it is.
    Forked,
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
    // INVARIANT: `seat` points to a box that this value owns, with a seat in the heap whose life
    // `life` is: 'static is a lie, and nobody touches the seat once that has ended.
    seat: NonNull<HostKvSeat<'static>>,
    life: Arc<Life>,
}

impl OwnSeat {
    /// A seat that is free now. Time: O(seats).
    pub(super) fn take(heap: &Arc<Inner>) -> Option<Self> {
        let seat = (0..heap.threads).find_map(|cpu| heap.kv.seat_of(CpuId(cpu)))?;
        // SAFETY: only the lifetime changes. What it borrows from lies in the `Arc`, is not moved out
        // of it, and is dropped after `life` has ended, when the seat is not touched any more.
        let seat: HostKvSeat<'static> =
            unsafe { std::mem::transmute::<HostKvSeat<'_>, HostKvSeat<'static>>(seat) };
        Some(Self {
            seat: NonNull::from(Box::leak(Box::new(seat))),
            life: Arc::clone(&heap.life),
        })
    }

    /// Where the seat lies: valid as long as this value and the heap live, and to be used by one at
    /// a time.
    pub(super) const fn seat(&self) -> NonNull<HostKvSeat<'static>> {
        self.seat
    }
}

impl Drop for OwnSeat {
    fn drop(&mut self) {
        if !self.life.process.is_this() {
            // The seat is the parent's, and so may be the gate.
            return;
        }
        let gate = self.life.gate.lock();
        let _gate = gate.unwrap_or_else(PoisonError::into_inner);
        let seat = self.seat.cast::<MaybeUninit<HostKvSeat<'static>>>();
        // SAFETY: boxed by `take`, in the same layout, and unboxed once.
        let mut seat = unsafe { Box::from_raw(seat.as_ptr()) };
        if !self.life.has_ended() {
            // SAFETY: `take` put it there, and it is dropped once. The heap is there: its life does
            // not end as long as the gate is this thread's.
            unsafe { seat.assume_init_drop() };
        }
    }
}

impl Inner {
    pub(super) fn new(options: &HeapOptions) -> Result<Arc<Self>, HostError> {
        let &HeapOptions {
            frames, threads, ..
        } = options;
        // One seat more than threads, for those that have none; each needs a slab.
        if !(1..=THREADS_MAX).contains(&threads) || frames <= u64::from(threads) {
            return Err(HostError::Heap { frames, threads });
        }
        let cpus = threads + 1;
        let layout = ZoneLayout::new(Frame(0), frames).with_cpus(cpus);
        let mut of_host = Options::new(layout);
        // Most seats are empty most of the time: those that are not may have a tenth together.
        of_host.config.cache_permille = 100;
        let host = Host::new(&of_host)?;
        let space = HostSpace::over(host, &RangeOptions::new(options.pages))?;
        let objects = KvLayout::new(Frame(0), frames);
        let slabs = objects.slabs_max.max(u64::from(cpus));
        let kv = HostKv::with_layout(space, &objects.with_slabs_max(slabs), NoRelief)?;
        let (ram, window) = (kv.host().ram(), kv.window());
        let (frames, pages) = (ram.frames(), window.range());
        let start = ram.address(frames.start()).ok().and_then(NonNull::new);
        // What another program is started with lies here, and is read by the process that is forked off for it.
        kv.host().ram().let_children_read();
        window.let_children_read();
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
            process: Watched::this(),
            life: Arc::new(Life {
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

    /// Whether it is the calling process's, and not that of one from which it was forked off.
    #[inline(always)]
    pub(super) fn is_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// How often the shared seat was used.
    pub(super) fn shared_seat(&self) -> u64 {
        // Relaxed: only counted.
        self.shared_seat.load(Relaxed)
    }

    /// The heap's life, which is its own.
    #[inline(always)]
    pub(super) const fn life(&self) -> &Arc<Life> {
        &self.life
    }

    /// Works in the seat that is nobody's own, when it is free; now or not at all if `may_block`
    /// does not let it wait.
    #[cold]
    pub(super) fn in_shared_seat<T>(
        &self,
        may_block: bool,
        work: impl FnOnce(&mut HostKvSeat<'_>) -> T,
    ) -> Result<T, NoSeat> {
        // There is nothing behind the lock that a panic could have left half done.
        let _mine = match self.shared.try_lock() {
            Ok(mine) => mine,
            Err(TryLockError::Poisoned(mine)) => mine.into_inner(),
            Err(TryLockError::WouldBlock) if !may_block => return Err(NoSeat::InUse),
            Err(TryLockError::WouldBlock) => {
                self.shared.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        let seat = self.kv.seat_of(CpuId(self.threads));
        let mut seat = seat.ok_or(NoSeat::InUse)?;
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
        // An object is in one of the two, so this is inside, and no number is 0.
        NonNull::new(memory.start.as_ptr().wrapping_byte_add(offset)).unwrap_or(memory.start)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // INVARIANT: ended before what the seats refer to is dropped.
        self.life.end();
    }
}

/// The address of an object.
#[inline(always)]
pub(super) fn address(at: NonNull<u8>) -> Addr {
    Addr(at.addr().get() as u64)
}
