//! Framewright's engine as the frame allocator of a kernel on OSTD, the framework of Asterinas.
//!
//! ```ignore
//! #[ostd::global_frame_allocator]
//! static FRAMES: framewright_ostd::Frames = framewright_ostd::Frames;
//! ```
//!
//! OSTD adds memory region by region, and says neither how many come nor how far they reach. So this notes them, and
//! makes the engine when OSTD asks for the first frame.
//!
//! OSTD frees a request of many frames frame by frame. So whatever the engine hands out, this splits into single frames
//! at once, and each free takes the engine's fast path.
//!
//! # Rules
//! - **Interrupts are off in every call**: the guards of OSTD prove that a CPU stays itself and has its seats alone.
//! - A CPU takes its seats at its first call, and keeps them.
//! - A call that frees what was [set aside](set_aside) touches no seat: a guest's put and get make such calls.
#![no_std]
#![deny(unsafe_code)]

mod aside;
mod boot;
mod platform;

pub use aside::{AsideError, get, put, set_aside};
pub use platform::Ostd;

use core::alloc::Layout;
use core::cell::RefCell;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use framewright::engine::Engine;
use framewright::frame::{FreeError, Seat, Zone};
use framewright::stats::FrameStats;
use framewright::{CpuId, Frame, Mobility, Order, Run};
use ostd::cpu::PinCurrentCpu;
use ostd::irq::{self, DisabledLocalIrqGuard};
use ostd::mm::frame::GlobalFrameAllocator;
use ostd::mm::{PAGE_SIZE, Paddr};
use ostd::util::id_set::Id;

/// The engine of such a kernel: frames alone, in one zone.
pub type OstdEngine = Engine<'static, Ostd, ()>;
type OstdSeat = Seat<'static, 'static, Ostd>;

ostd::cpu_local! {
    static SEAT: RefCell<Option<OstdSeat>> = RefCell::new(None);
}

/// From this many frames on, a request is placed as one for movable contents: from the other end of memory, in pageblocks
/// where no small ones are. When it goes, a long run is free again, and not one with a page in its midst that stays.
///
/// Nothing moves: OSTD says nothing of what its requests are for, and the engine has no clients here.
const APART_FROM: u64 = 8;

const fn mobility_of(frames: u64) -> Mobility {
    if frames < APART_FROM {
        Mobility::Unmovable
    } else {
        Mobility::Movable
    }
}

const ONE_PAGE: Layout = match Layout::from_size_align(PAGE_SIZE, PAGE_SIZE) {
    Ok(layout) => layout,
    Err(_) => panic!("a page is a power of two"),
};

/// From this many frames on, a request that finds no block has all frames searched for a run of any shape.
const SEARCHED_FROM: u64 = 512;

static LATE: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The frame allocator. All values are the same one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frames;

/// What the allocator counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct OstdStats {
    /// Of the engine.
    pub frames: FrameStats,
    /// Frames that were freed although OSTD had not added them: it took them before there was an allocator.
    pub late: usize,
    /// Frees and additions that were refused: of a free frame, or of memory beyond what was there at boot.
    pub refused: usize,
}

/// The engine, once the kernel has asked for a frame. What stops CPUs there, such as `verify`, is called with interrupts
/// off.
pub fn engine() -> Option<&'static OstdEngine> {
    boot::ENGINE.get()
}

/// The counters.
pub fn stats() -> OstdStats {
    OstdStats {
        frames: engine().map(OstdEngine::frame_stats).unwrap_or_default(),
        late: LATE.load(Relaxed),
        refused: REFUSED.load(Relaxed),
    }
}

/// The number of the CPU that has the guard.
fn current(guard: &DisabledLocalIrqGuard) -> CpuId {
    CpuId(guard.current_cpu().as_usize() as u16)
}

/// The calling CPU's seat, for what it can do at once; `None` if it cannot, or the CPU has none yet.
#[inline(always)]
fn at_once<T>(
    guard: &DisabledLocalIrqGuard,
    work: impl FnOnce(&mut OstdSeat) -> Option<T>,
) -> Option<T> {
    let cell = SEAT.get_with(guard);
    // Its address is a difference of two symbols, which the compiler would otherwise compute at each access anew.
    let mut cell = black_box(&*cell).borrow_mut();
    cell.as_mut().and_then(work)
}

/// The same for all it can do. `None` if there is no memory yet.
fn with_seat<T>(guard: &DisabledLocalIrqGuard, work: impl FnOnce(&mut OstdSeat) -> T) -> Option<T> {
    let cell = SEAT.get_with(guard);
    let mut cell = cell.borrow_mut();
    if cell.is_none() {
        *cell = zone(boot::engine()?).seat(current(guard)).ok();
    }
    cell.as_mut().map(work)
}

fn zone(engine: &'static OstdEngine) -> &'static Zone<'static, Ostd> {
    let [zone] = engine.zones();
    zone
}

/// The address of a frame. The engine has only frames that came as addresses.
#[inline(always)]
fn addr(frame: Frame) -> Paddr {
    frame.0 as Paddr * PAGE_SIZE
}

/// What the seat has not at hand, and many frames: these as single frames side by side.
fn alloc_any(seat: &mut OstdSeat, layout: Layout) -> Option<Frame> {
    let frames = (layout.size() / PAGE_SIZE) as u64;
    let align = (layout.align() / PAGE_SIZE).max(1) as u64;
    let mobility = mobility_of(frames);
    if frames == 1 && align == 1 {
        return seat.alloc(Order::ZERO, mobility).ok();
    }
    if let Some(run) = seat.try_alloc_singles(frames, align, mobility) {
        return Some(run.start());
    }
    let order = Order::covering(frames.max(align))?;
    let found = match frames {
        0 => None,
        _ if order <= seat.zone().config().stop_order_max => alloc_small(seat, order, frames),
        SEARCHED_FROM.. => alloc_large(seat, frames, align),
        _ => None,
    };
    found.or_else(|| aside::take(frames, align))
}

/// A small request that finds nothing at once: a block that may lie in other CPUs' caches.
#[cold]
fn alloc_small(seat: &mut OstdSeat, order: Order, frames: u64) -> Option<Frame> {
    let first = seat.alloc(order, mobility_of(frames)).ok()?;
    let mut is_right = seat.split(first, order, Order::ZERO).is_ok();
    for rest in frames..order.frames() {
        is_right &= seat.free(Frame(first.0 + rest), Order::ZERO).is_ok();
    }
    debug_assert!(is_right, "it was allocated a moment ago");
    Some(first)
}

/// A large one: a run of any shape, for which all frames are searched, with all CPUs stopped.
#[cold]
fn alloc_large(seat: &mut OstdSeat, frames: u64, align: u64) -> Option<Frame> {
    let run = seat
        .zone()
        .alloc_contiguous(frames, align, mobility_of(frames))
        .ok()?;
    split_run(seat, run);
    Some(run.start())
}

/// Splits a run, which consists of the fewest aligned allocations, into single frames.
fn split_run(seat: &mut OstdSeat, run: Run) {
    let mut at = run.start();
    while at < run.end() {
        let fits = (run.end().0 - at.0).ilog2();
        let order = fits.min(at.0.trailing_zeros()) as u8;
        let order = Order::new(order).unwrap_or(Order::ZERO);
        if order > Order::ZERO {
            let split = seat.split(at, order, Order::ZERO);
            debug_assert!(split.is_ok(), "the run was allocated a moment ago");
        }
        at = Frame(at.0 + order.frames());
    }
}

// All that is not the shortest way is a call at the very end, so that the shortest way saves no registers.
impl GlobalFrameAllocator for Frames {
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        let guard = irq::disable_local();
        if layout == ONE_PAGE
            && let Some(frame) = at_once(&guard, |seat| {
                seat.alloc_cached(Order::ZERO, mobility_of(1))
            })
        {
            return Some(addr(frame));
        }
        alloc_slow(layout, guard)
    }

    fn dealloc(&self, at: Paddr, size: usize) {
        let guard = irq::disable_local();
        let frame = Frame::from_addr(at as u64);
        if size == PAGE_SIZE
            && at_once(&guard, |seat| {
                seat.free_cached(frame, Order::ZERO).then_some(())
            })
            .is_some()
        {
            return;
        }
        free_slow(at, size, guard);
    }

    fn add_free_memory(&self, at: Paddr, size: usize) {
        let _guard = irq::disable_local();
        if !boot::run(at, size).is_some_and(boot::add) {
            REFUSED.fetch_add(1, Relaxed);
        }
    }
}

#[inline(never)]
fn alloc_slow(layout: Layout, guard: DisabledLocalIrqGuard) -> Option<Paddr> {
    let found = with_seat(&guard, |seat| alloc_any(seat, layout));
    found.flatten().map(addr)
}

#[inline(never)]
fn free_slow(at: Paddr, size: usize, guard: DisabledLocalIrqGuard) {
    let Some(run) = boot::run(at, size) else {
        return;
    };
    if aside::has(run.start()) {
        return aside::come_back(run);
    }
    let freed = with_seat(&guard, |seat| match run.frames() {
        1 => seat.free(run.start(), Order::ZERO),
        _ => seat.free_frames(run),
    });
    if let Err(error) = freed.unwrap_or(Err(FreeError::Absent(run.start()))) {
        came_late(run, error);
    }
}

/// A free that the engine refused: frames from before there was an allocator, or a mistake.
#[cold]
#[inline(never)]
fn came_late(run: Run, error: FreeError) {
    let is_late = matches!(error, FreeError::Absent(_)) && boot::add(run);
    let counter = if is_late { &LATE } else { &REFUSED };
    counter.fetch_add(run.frames() as usize, Relaxed);
}

/// Frees a run that the engine gave.
fn free_run(run: Run) {
    let guard = irq::disable_local();
    let freed = with_seat(&guard, |seat| seat.free_frames(run));
    debug_assert!(freed == Some(Ok(())), "it was allocated a moment ago");
}
