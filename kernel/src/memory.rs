//! The memory manager: all that a kernel writes to have the engine. The platform's traits, the set-up, one
//! static for the engine and one for the CPUs' places in it.
//!
//! # Rules
//! - **Interrupts are off in every call of the engine**: [`with`] does that, and its callers have them on. In a long
//!   call the engine [lets them in](RangePlatform::interrupt_window) where it holds nothing. A handler calls
//!   [`with_handler`], which works with other seats.
//! - A CPU that waits answers other CPUs: `FramePlatform::relax` and the waits of the shootdown.
//! - Page tables come from seats of their own, because the engine maps while the CPU's seat is in use.
//! - A CPU comes online in the shootdown before it takes its seats.

use crate::arch;
use crate::arch::PageAccess;
use crate::arch::cpu::cells::{CpuCells, InterruptFlags, NestedEntry, SetOnce};
use crate::arch::cpu::direct::DirectMap;
use crate::arch::cpu::instructions::{
    self, copy_words, current_cpu, flush_translations, let_interrupts_in, without_interrupts,
    zero_bytes,
};
use crate::arch::cpu::shootdown::{Ipi, Shootdown, ShootdownRound};
use crate::arch::cpu::tables::{PhysMap, TableSource};
use crate::boot::{self, BOOT_MAP_END, MemoryRange};
use crate::counts::{COUNTS, IS_FLUSH_LEFT_OUT};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::Seat;
use framewright::platform::{
    FramePlatform, MapError, ObjectPlatform, RangePlatform, ReservePlatform,
};
use framewright::policy::RangeConfig;
use framewright::reclaim::Clients;
use framewright::reserve::ReserveLayout;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageRange, Run};

/// All memory, at a fixed distance.
// SAFETY: the boot's page tables map it up to 4 GiB, `set_up` the rest; tables are never freed.
pub const DIRECT: DirectMap<{ arch::DIRECT_BASE }> = unsafe { DirectMap::new() };
/// Areas.
pub use arch::WINDOW;
pub const MAX_CPUS: usize = 8;
/// The reserve, at the end of the longest range of memory: 16 MiB.
pub const RESERVE_FRAMES: u64 = 4096;

/// The platform: this machine, of which there is one.
#[derive(Clone, Copy, Debug)]
pub struct BarePc;

/// A CPU's requests.
pub type KernelCpu = Cpu<'static, 'static, BarePc>;

static ENGINE: SetOnce<Engine<'static, BarePc>> = SetOnce::new();
/// A CPU's seats: those of its requests, those with which it takes page tables while it maps with the others, and
/// those of its handlers, if they allocate.
static SEATS: [CpuCells<KernelCpu, MAX_CPUS>; 3] = [const { CpuCells::new() }; 3];
const OWN: usize = 0;
const TABLES: usize = 1;
const HANDLER: usize = 2;
static MAY_INTERRUPT: InterruptFlags<MAX_CPUS> = InterruptFlags::new();
static SHOOTDOWN: Shootdown<MAX_CPUS> = Shootdown::new();
/// The next page that is free, while there is no engine.
static BOOT_NEXT: AtomicU64 = AtomicU64::new(0);

/// The engine.
pub fn engine() -> &'static Engine<'static, BarePc> {
    ENGINE.get().expect("memory is set up")
}

/// The calling CPU's seats, with interrupts off.
///
/// # Errors
/// If the CPU is inside: a handler that interrupted a call with interrupts on.
#[inline(always)]
pub fn try_with<T>(work: impl FnOnce(&mut KernelCpu) -> T) -> Result<T, NestedEntry> {
    // SAFETY: with interrupts off a CPU stays itself; it took its seats when it came.
    without_interrupts(|| unsafe {
        SEATS[OWN].enter(current_cpu(), |cpu| work(cpu.as_mut().unwrap_unchecked()))
    })
}

/// The same for a caller that knows the CPU is not inside. It panics if the CPU is.
#[inline(always)]
pub fn with<T>(work: impl FnOnce(&mut KernelCpu) -> T) -> T {
    // SAFETY: as above.
    without_interrupts(|| unsafe {
        SEATS[OWN].must_enter(current_cpu(), |cpu| work(cpu.as_mut().unwrap_unchecked()))
    })
}

/// The same for a handler, which may have interrupted such a call, with interrupts off. It panics if handlers have no
/// seats.
pub fn with_handler<T>(work: impl FnOnce(&mut KernelCpu) -> T) -> T {
    let cpu = BarePc.current();
    // SAFETY: as above.
    MAY_INTERRUPT.without(cpu, || unsafe {
        SEATS[HANDLER].must_enter(cpu, |cpu| work(cpu.as_mut().expect("handlers=1")))
    })
}

fn with_table_seats<T>(work: impl FnOnce(&mut KernelCpu) -> T) -> T {
    // SAFETY: the engine maps with interrupts off, and the CPU took these seats when it came.
    unsafe { SEATS[TABLES].must_enter(current_cpu(), |cpu| work(cpu.as_mut().unwrap_unchecked())) }
}

impl TableSource for BarePc {
    fn take_table(&self, context: Context) -> Option<Frame> {
        if ENGINE.get().is_none() {
            let next = BOOT_NEXT.fetch_add(Frame::BYTES, Relaxed);
            return Some(Frame(next / Frame::BYTES));
        }
        let taken = with_table_seats(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, context));
        COUNTS.tables.add(u64::from(taken.is_ok()));
        taken.ok()
    }

    fn give_back(&self, frame: Frame) {
        COUNTS.tables.add(u64::MAX);
        with_table_seats(|cpu| cpu.free(frame, Order::ZERO)).expect("it is a moment old");
    }
}

impl Ipi for BarePc {
    fn current(&self) -> CpuId {
        // SAFETY: a CPU sets its GS base before anything else.
        unsafe { current_cpu() }
    }

    fn interrupt(&self, cpu: CpuId) {
        arch::interrupt(cpu);
    }

    fn flush_here(&self) {
        if !IS_FLUSH_LEFT_OUT.load(Relaxed) {
            flush_translations();
        }
    }

    fn pause(&self, attempt: u32) {
        assert!(attempt < 200_000_000, "a CPU waits for ever");
        arch::pause(attempt);
    }
}

/// Answers other CPUs: the handler of their interrupt, and each wait.
pub fn answer() {
    SHOOTDOWN.answer(&BarePc);
}

impl FramePlatform for BarePc {
    const ASYMMETRIC: bool = true;

    fn relax(&self, attempt: u32) {
        SHOOTDOWN.answer(self);
        self.pause(attempt);
    }

    fn barrier_all(&self) {
        COUNTS.barriers.add(1);
        SHOOTDOWN.ask(ShootdownRound::Barrier, self);
    }
}

/// The kernel's page table.
pub fn page_tables() -> arch::KernelTables<impl PhysMap> {
    arch::tables(boot::root(), DIRECT)
}

impl RangePlatform for BarePc {
    fn map(&self, at: Page, frames: Run, context: Context) -> Result<(), MapError> {
        COUNTS.maps.add(1);
        page_tables().map(at, frames, PageAccess::DATA, self, context)
    }

    fn map_frames(&self, at: Page, all: &[Frame], how: Context) -> Result<(), (u64, MapError)> {
        COUNTS.maps.add(1);
        page_tables().map_frames(at, all, PageAccess::DATA, self, how)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        COUNTS.unmaps.add(1);
        page_tables().unmap(range, self, Context::NOWAIT)
    }

    fn flush_all(&self) {
        COUNTS.flushes.add(1);
        SHOOTDOWN.ask(ShootdownRound::Flush, self);
    }

    fn zero(&self, frames: Run) {
        self.zero_bytes(DIRECT.addr(frames.start()), frames.frames() * Frame::BYTES);
    }

    fn interrupt_window(&self) {
        if MAY_INTERRUPT.are_allowed(self.current()) {
            COUNTS.end_span();
            // SAFETY: the engine holds nothing, and the caller had them on.
            unsafe { let_interrupts_in() };
            COUNTS.begin_span();
        }
    }
}

impl ObjectPlatform for BarePc {
    fn direct_base(&self) -> Addr {
        DIRECT.addr(Frame(0))
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        COUNTS.zeroed_words.add(bytes / 8);
        // SAFETY: the engine says that the caller owns them.
        unsafe { zero_bytes(at.0 as *mut u8, bytes) };
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        let (from, to) = (from.0 as *const u8, to.0 as *mut u8);
        // SAFETY: as above, and two objects do not overlap.
        unsafe { from.copy_to_nonoverlapping(to, bytes as usize) };
    }
}

impl ReservePlatform for BarePc {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        // SAFETY: the direct map has the frame, and the engine says that no other CPU writes it.
        unsafe { copy_words(page.as_ptr(), DIRECT.addr(frame).0 as *mut u64, 512) };
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        // SAFETY: the direct map has the frame; an owner may write it meanwhile.
        unsafe { copy_words(DIRECT.addr(frame).0 as *const u64, page.as_mut_ptr(), 512) };
    }
}

/// A CPU's unit of per-CPU objects.
const UNIT_PAGES: u64 = 8192;

/// Sets memory up, on the first CPU: the direct map of what lies above 4 GiB, the metadata at the beginning of
/// the longest range, the engine with all other frames. Below 1 MiB is what the loader and other CPUs' start need.
pub fn set_up(memory: &[MemoryRange], cpus: u16, window_pages: u64, ranges: RangeConfig) {
    let usable = |from| {
        memory
            .iter()
            .filter_map(move |range| range.usable_from(from))
    };
    BOOT_NEXT.store(boot::end_of_image(), Relaxed);
    for run in usable(BOOT_MAP_END) {
        let at = Page::of_address(DIRECT.addr(run.start()).0);
        let mapped = page_tables().map(at, run, PageAccess::DATA, &BarePc, Context::ANY);
        mapped.expect("the direct map is built");
    }
    arch::devices_before_memory();
    // No table comes from behind the image after these two.
    let from = Frame(BOOT_NEXT.load(Relaxed) / Frame::BYTES);
    let longest = usable(from).max_by_key(|run| run.frames()).expect("RAM");
    let top = usable(from).map(|run| run.end().0).max().unwrap_or(0);
    let (longest, reserve) = boot::without_end(longest, RESERVE_FRAMES);
    // Seats for handlers make the CPUs' caches smaller, so a kernel has to ask for them.
    let for_handlers = u16::from(boot::number("handlers") == Some(1));
    let layout = EngineLayout::new(arch::FIRST, top - arch::FIRST.0)
        .with_cpus((2 + for_handlers) * cpus)
        .with_window(Page::of_address(WINDOW), window_pages)
        .with_range_config(ranges)
        .with_objects()
        .with_percpu(cpus, UNIT_PAGES)
        .with_reserve(ReserveLayout::new(reserve));
    let words = layout.words_needed().expect("the layout is possible");
    let pages = (words as u64 * 8).div_ceil(Frame::BYTES);
    let rest = boot::behind(longest, pages);
    // SAFETY: nothing else has this memory, now or later: it is not added below.
    let metadata = unsafe { DIRECT.words(longest.start(), words) };
    let engine = Engine::new(&layout, metadata, BarePc).expect("the layout is possible");
    for run in usable(from) {
        let left = if run.start() == longest.start() {
            rest
        } else {
            run
        };
        engine.add(left).expect("each range is there once");
    }
    COUNTS.metadata_pages.add(pages);
    ENGINE.set(engine);
    cpu_comes(cpus);
}

/// The calling CPU takes its seats, with interrupts off. `cpus` is the number of them all.
pub fn cpu_comes(cpus: u16) {
    SHOOTDOWN.online(&BarePc);
    let cpu = BarePc.current().0;
    in_all_seats(|nth, cell| *cell = engine().cpu(CpuId(nth * cpus + cpu)).ok());
}

/// The calling CPU gives its seats back, and what it keeps with them. From then on it uses no area, and is asked for no
/// flush and no barrier, until it [comes](cpu_comes) again.
pub fn cpu_goes() {
    with(KernelCpu::drain);
    in_all_seats(|_, cell| *cell = None);
    SHOOTDOWN.offline(&BarePc);
}

/// Works with each kind of seats of the calling CPU.
fn in_all_seats(work: impl Fn(u16, &mut Option<KernelCpu>)) {
    for (seats, nth) in SEATS.iter().zip(0..) {
        // SAFETY: with interrupts off a CPU stays itself.
        without_interrupts(|| unsafe { seats.must_enter(current_cpu(), |cell| work(nth, cell)) });
    }
}

/// The calling CPU, which has its seats, takes interrupts from now on, in long calls of the engine too.
///
/// # Safety
/// As of the architecture's `enable_interrupts`.
pub unsafe fn enable_interrupts() {
    MAY_INTERRUPT.allow(BarePc.current());
    // SAFETY: as the caller owes.
    unsafe { instructions::enable_interrupts() };
}

/// Gives the calling CPU's requests clients that they may ask for memory, those for page tables too.
pub fn with_clients(clients: Clients<'static, Seat<'static, 'static, BarePc>>) {
    in_all_seats(|_, cell| *cell = cell.take().map(|cpu| cpu.with_clients([clients])));
}
