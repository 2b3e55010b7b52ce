//! Those that are measured, behind one small trait.

use ax_sync::interface::{AcquireResult, ContextState, LockMetadata};
use buddy_slab_allocator::{GlobalAllocator, PerCpuSlab, SlabPoolTrait, StaticSlabPool};
use buddy_system_allocator::LockedHeap;
use framewright::Addr;
use framewright::Frame;
use framewright::frame::ZoneLayout;
use framewright::kv::KvRequest;
use framewright::platform::FramePlatform;
use framewright_linux::{
    Heap, HeapOptions, HostCpu, HostError, HostKv, Membarrier, Options, Windowed,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use talc::TalcLock;
use talc::source::Manual;

/// An allocator that threads share.
pub(crate) trait KvSubject: Sync {
    type Worker<'s>: KvWorker
    where
        Self: 's;

    /// A thread's access to it.
    fn worker(&self) -> Self::Worker<'_>;

    /// Panics if it says that something is wrong with it.
    fn verify(&self) {}
}

/// What a thread measures. Every request is one that can be served; a refusal ends the benchmark.
pub(crate) trait KvWorker {
    /// An object; `any` if it need not be contiguous in memory.
    fn try_alloc(&mut self, bytes: usize, any: bool) -> Option<usize>;

    #[inline]
    fn alloc(&mut self, bytes: usize, any: bool) -> usize {
        self.try_alloc(bytes, any).expect("there is memory")
    }

    fn free(&mut self, at: usize, bytes: usize, any: bool);
}

/// The engine on this host, by a thread's seat.
pub(crate) enum KvEngine {
    Asymmetric(HostKv<Membarrier>),
    Symmetric(HostKv<()>),
}

impl KvEngine {
    pub(crate) fn new(frames: u64, cpus: u16) -> Self {
        let options =
            Options::new(ZoneLayout::new(Frame(0), frames).with_cpus(cpus)).with_window(1 << 18);
        match HostKv::new(&options) {
            Ok(host) => Self::Asymmetric(host),
            Err(HostError::NoMembarrier) => {
                Self::Symmetric(HostKv::fenced(&options).expect("host"))
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl<B: FramePlatform + Clone + Sync> KvSubject for HostKv<B> {
    type Worker<'s>
        = HostCpu<'s, Windowed<B>>
    where
        B: 's;

    fn worker(&self) -> HostCpu<'_, Windowed<B>> {
        self.cpu().expect("as many slots as threads")
    }

    fn verify(&self) {
        self.engine().verify().expect("every invariant holds");
        assert_eq!(self.kv().stats().bad_frees, 0);
    }
}

impl<B: FramePlatform + Clone> KvWorker for HostCpu<'_, Windowed<B>> {
    #[inline]
    fn try_alloc(&mut self, bytes: usize, any: bool) -> Option<usize> {
        let request = KvRequest::new(bytes as u64);
        let addr = match any {
            true => self.kvmalloc(&request),
            false => self.kmalloc(&request),
        };
        Some(addr.ok()?.0 as usize)
    }

    #[inline]
    fn free(&mut self, at: usize, _bytes: usize, any: bool) {
        let addr = Addr(at as u64);
        let freed = match any {
            true => self.kvfree(addr),
            false => self.objects().kfree(addr),
        };
        freed.expect("it is allocated");
    }
}

/// A global allocator.
pub(crate) struct Global<A>(pub(crate) A);

impl<A: GlobalAlloc + Sync> KvSubject for Global<A> {
    type Worker<'s>
        = &'s Self
    where
        A: 's;

    fn worker(&self) -> &Self {
        self
    }
}

impl<A: GlobalAlloc> KvWorker for &Global<A> {
    #[inline]
    fn try_alloc(&mut self, bytes: usize, _any: bool) -> Option<usize> {
        // SAFETY: no request is for 0 bytes.
        let at = unsafe { self.0.alloc(layout(bytes)) };
        (!at.is_null()).then(|| at.expose_provenance())
    }

    #[inline]
    fn free(&mut self, at: usize, bytes: usize, _any: bool) {
        let at = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: the patterns free what they allocated, once and with its length.
        unsafe { self.0.dealloc(at, layout(bytes)) };
    }
}

/// As C's malloc aligns.
fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).expect("a length that there can be")
}

/// The engine as a global allocator; `None` where there is no membarrier.
pub(crate) fn heap(frames: u64) -> Option<Global<Heap>> {
    match Heap::try_new(HeapOptions::new(frames * 4096).with_threads(4)) {
        Ok(heap) => Some(Global(heap)),
        Err(HostError::NoMembarrier) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Memory for a rival, for as long as the process lives.
fn arena(bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes, 4096).expect("a length that there can be");
    // SAFETY: it is not 0 bytes long.
    let at = unsafe { System.alloc(layout) };
    assert!(!at.is_null(), "there is memory");
    // All of it is touched beforehand, as the engine's is.
    // SAFETY: as long as that, and no other code has it.
    unsafe { at.write_bytes(1, bytes) };
    at
}

pub(crate) type Talc = Global<TalcLock<spin::Mutex<()>, Manual>>;

/// `talc` behind a spin lock.
pub(crate) fn talc(bytes: usize) -> Talc {
    let talc = TalcLock::new(Manual);
    // SAFETY: the memory is as long as that, and no other code has it.
    let claimed = unsafe { talc.lock().claim(arena(bytes), bytes) };
    assert!(claimed.is_some(), "it takes the memory");
    Global(talc)
}

pub(crate) type Buddy = Global<LockedHeap<32>>;

/// `buddy_system_allocator` behind its spin lock.
pub(crate) fn buddy(bytes: usize) -> Buddy {
    let heap = LockedHeap::new();
    // SAFETY: the memory is as long as that, and no other code has it.
    unsafe { heap.lock().init(arena(bytes).addr(), bytes) };
    Global(heap)
}

const PAGE: usize = Frame::BYTES as usize;

pub(crate) type BuddySlab = Global<GlobalAllocator<PAGE>>;

/// `buddy-slab-allocator`: slabs of each CPU, and pages behind one spin lock.
pub(crate) fn buddy_slab(bytes: usize) -> BuddySlab {
    let allocator = GlobalAllocator::new();
    // SAFETY: the memory is as long as that, all of it is written, and no other code has it.
    let made = unsafe {
        let region = std::slice::from_raw_parts_mut(arena(bytes), bytes);
        allocator.init(region)
    };
    assert!(made.is_ok(), "it takes the memory");
    Global(allocator)
}

/// As many threads as a case has; each is a CPU.
const CPUS: usize = 2;

static SLABS: StaticSlabPool<PAGE, CPUS> =
    StaticSlabPool::new([PerCpuSlab::new(0), PerCpuSlab::new(1)], this_cpu);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The calling thread's number. Threads that run together are begun one after the other, and so have different ones.
fn this_cpu() -> usize {
    let known = CPU.get();
    if known != usize::MAX {
        return known;
    }
    let cpu = THREADS.fetch_add(1, Relaxed) % CPUS;
    CPU.set(cpu);
    cpu
}

/// The machine, as that crate asks for it.
struct RivalsMachine;

#[ax_crate_interface::impl_interface]
impl buddy_slab_allocator::interface::BuddySlabIf for RivalsMachine {
    fn virt_to_phys(vaddr: usize) -> usize {
        vaddr
    }

    fn slab_pool() -> &'static dyn SlabPoolTrait {
        &SLABS
    }
}

/// Its locks, as spin locks.
struct RivalsLocks;

fn try_lock(locked: &AtomicBool) -> bool {
    let taken = locked.compare_exchange(false, true, Acquire, Relaxed);
    taken.is_ok()
}

#[ax_crate_interface::impl_interface]
impl ax_sync::interface::SpinOps for RivalsLocks {
    fn acquire(
        locked: &AtomicBool,
        _metadata: &LockMetadata,
        _lock_addr: usize,
        _context: u8,
        _subclass: u32,
        _caller: &'static Location<'static>,
    ) -> ContextState {
        while !try_lock(locked) {
            while locked.load(Relaxed) {
                std::hint::spin_loop();
            }
        }
        ContextState::new(0, 0)
    }

    fn try_acquire(
        locked: &AtomicBool,
        _metadata: &LockMetadata,
        _lock_addr: usize,
        _context: u8,
        _subclass: u32,
        _caller: &'static Location<'static>,
    ) -> AcquireResult {
        AcquireResult::new(try_lock(locked), ContextState::new(0, 0))
    }

    fn release(locked: &AtomicBool, _lock_addr: usize, _context: u8, _state: ContextState) {
        locked.store(false, Release);
    }

    fn force_release(locked: &AtomicBool, _lock_addr: usize, _context: u8) {
        locked.store(false, Release);
    }

    fn is_locked(locked: &AtomicBool) -> bool {
        locked.load(Acquire)
    }
}

/// No allocator: every object is this word. What a pattern does with it is the pattern's own work.
#[derive(Default)]
pub(crate) struct NoObjects(AtomicUsize);

impl KvSubject for NoObjects {
    type Worker<'s> = &'s Self;

    fn worker(&self) -> &Self {
        self
    }
}

impl KvWorker for &NoObjects {
    #[inline]
    fn try_alloc(&mut self, _bytes: usize, _any: bool) -> Option<usize> {
        Some(std::hint::black_box(self.0.as_ptr().expose_provenance()))
    }

    #[inline]
    fn free(&mut self, at: usize, _bytes: usize, _any: bool) {
        std::hint::black_box(at);
    }
}
