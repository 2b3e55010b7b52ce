//! The memory manager: all that a kernel writes to have the engine. The platform's traits, the set-up, one
//! static for the engine and one for the CPUs' places in it.
//!
//! # Rules
//! - **Interrupts are off in every call of the engine**: [`with`] does that. A handler calls [`with`] too.
//! - A CPU that waits answers other CPUs: `Relax::relax` and the waits of the shootdown.
//! - Page tables come from seats of their own, because the engine maps while the CPU's seat is in use.
//! - A CPU comes online in the shootdown before it takes its seats.

use crate::apic;
use crate::boot::{self, MemoryRange};
use crate::cells::{Counts, Once};
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
    compiler_fence,
};
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::Seats;
use framewright::platform::{Barrier, Direct, Map, MapError, Relax, Zero};
use framewright::policy::RangeConfig;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageRange, Run};
use framewright_x86_64::entry::PageAccess;
use framewright_x86_64::instructions::{
    current_cpu, flush_translations, without_interrupts, zero_words,
};
use framewright_x86_64::shootdown::{Ipi, Shootdown, ShootdownRound};
use framewright_x86_64::tables::{PageTables, PhysMap, TablePage, TableSource};

/// All memory, at a fixed distance.
pub const DIRECT: u64 = 0xffff_8880_0000_0000;
/// Registers of devices.
pub const DEVICES: u64 = 0xffff_c000_0000_0000;
/// The first frame that the boot's page tables do not map: at 4 GiB.
const BOOT_MAP_END: Frame = Frame(1 << 20);
/// Areas.
pub const WINDOW: u64 = 0xffff_c900_0000_0000;
pub const MAX_CPUS: usize = 8;

/// The platform: this machine, of which there is one.
#[derive(Clone, Copy, Debug)]
pub struct BarePc;

/// A CPU's requests.
pub type KernelCpu = Cpu<'static, 'static, BarePc>;

/// What a CPU has: its place in the engine, and a seat in the zones for page tables.
struct Place {
    is_busy: AtomicBool,
    cpu: UnsafeCell<Option<KernelCpu>>,
    tables: UnsafeCell<Option<Seats<'static, 'static, BarePc, 1>>>,
}

// SAFETY: a CPU uses only its own place, with interrupts off or `is_busy` set.
unsafe impl Sync for Place {}

static ENGINE: Once<Engine<'static, BarePc>> = Once::new();
static PLACES: [Place; MAX_CPUS] = [const {
    Place {
        is_busy: AtomicBool::new(false),
        cpu: UnsafeCell::new(None),
        tables: UnsafeCell::new(None),
    }
}; MAX_CPUS];
static SHOOTDOWN: Shootdown<MAX_CPUS> = Shootdown::new();
/// The next page that is free, while there is no engine.
static BOOT_NEXT: AtomicU64 = AtomicU64::new(0);

/// For the tests: how often the platform was called, and a flush that does nothing.
pub static COUNTS: Counts = Counts::new();
pub static IS_FLUSH_LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// The engine.
pub fn engine() -> &'static Engine<'static, BarePc> {
    ENGINE.get().expect("memory is set up")
}

/// The calling CPU's place in the engine, with interrupts off. `None` if the CPU is in it: a handler that
/// interrupted a call with interrupts on.
#[inline(always)]
pub fn try_with<T>(work: impl FnOnce(&mut KernelCpu) -> T) -> Option<T> {
    without_interrupts(|| {
        let place = place();
        (!place.is_busy.load(Relaxed)).then(|| place.enter(work))
    })
}

/// The same for a caller that knows the CPU is not in it.
///
/// # Panics
/// If it is: one load tells, where two in one place would hand memory out twice.
#[inline(always)]
pub fn with<T>(work: impl FnOnce(&mut KernelCpu) -> T) -> T {
    without_interrupts(|| {
        let place = place();
        assert!(!place.is_busy.load(Relaxed), "a nested call of the engine");
        place.enter(work)
    })
}

impl Place {
    #[inline(always)]
    fn enter<T>(&self, work: impl FnOnce(&mut KernelCpu) -> T) -> T {
        self.is_busy.store(true, Relaxed);
        // For a handler on this CPU: what is done in the place stays between the two stores.
        compiler_fence(SeqCst);
        // SAFETY: `is_busy` was not set, so no other reference exists. The CPU took its seats when it came.
        let result = work(unsafe { (*self.cpu.get()).as_mut().unwrap_unchecked() });
        compiler_fence(SeqCst);
        self.is_busy.store(false, Relaxed);
        result
    }
}

#[inline(always)]
fn place() -> &'static Place {
    // SAFETY: a CPU sets its GS base before anything else.
    &PLACES[unsafe { current_cpu() }.index() % MAX_CPUS]
}

impl PhysMap for BarePc {
    #[inline(always)]
    fn table(&self, frame: Frame) -> &TablePage {
        // SAFETY: the direct map has all memory, a table is never freed, and all its words are atomics.
        unsafe { &*((DIRECT + frame.0 * Frame::BYTES) as *const TablePage) }
    }
}

impl TableSource for BarePc {
    fn take_table(&self, context: Context) -> Option<Frame> {
        if ENGINE.get().is_none() {
            let next = BOOT_NEXT.fetch_add(Frame::BYTES, Relaxed);
            return Some(Frame(next / Frame::BYTES));
        }
        // SAFETY: interrupts are off, and nothing that this seat does maps.
        let seats = unsafe { (*place().tables.get()).as_mut()? };
        let frame = match context.may_block {
            true => seats.alloc(0, Order::ZERO, Mobility::Unmovable).ok(),
            false => seats.seat(0).try_alloc(Order::ZERO, Mobility::Unmovable),
        };
        COUNTS.tables.add(u64::from(frame.is_some()));
        frame
    }

    fn give_back(&self, frame: Frame) {
        COUNTS.tables.add(u64::MAX);
        // SAFETY: as above.
        let seats = unsafe { (*place().tables.get()).as_mut() };
        let seats = seats.expect("one CPU at a time maps at boot");
        seats.free(frame, Order::ZERO).expect("it is a moment old");
    }
}

impl Ipi for BarePc {
    fn current(&self) -> CpuId {
        // SAFETY: a CPU sets its GS base before anything else.
        unsafe { current_cpu() }
    }

    fn interrupt(&self, cpu: CpuId) {
        apic::interrupt(cpu);
    }

    fn flush_here(&self) {
        if !IS_FLUSH_LEFT_OUT.load(Relaxed) {
            flush_translations();
        }
    }

    fn pause(&self, attempt: u32) {
        assert!(attempt < 200_000_000, "a CPU waits for ever");
        core::hint::spin_loop();
    }
}

/// Answers other CPUs: the handler of their interrupt, and each wait.
pub fn answer() {
    SHOOTDOWN.answer(&BarePc);
}

impl Relax for BarePc {
    fn relax(&self, attempt: u32) {
        SHOOTDOWN.answer(self);
        self.pause(attempt);
    }
}

impl Barrier for BarePc {
    const ASYMMETRIC: bool = true;

    fn barrier_all(&self) {
        COUNTS.barriers.add(1);
        SHOOTDOWN.ask(ShootdownRound::Barrier, self);
    }
}

/// The kernel's page table.
pub fn page_tables() -> PageTables<BarePc> {
    PageTables::new(boot::root(), BarePc)
}

impl Map for BarePc {
    fn map(&self, at: Page, frames: Run, context: Context) -> Result<(), MapError> {
        COUNTS.maps.add(1);
        page_tables().map(at, frames, PageAccess::DATA, self, context)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        COUNTS.unmaps.add(1);
        page_tables().unmap(range, self, Context::NOWAIT)
    }

    fn flush_all(&self) {
        COUNTS.flushes.add(1);
        SHOOTDOWN.ask(ShootdownRound::Flush, self);
    }
}

impl Zero for BarePc {
    fn zero(&self, frames: Run) {
        let at = Addr(DIRECT + frames.start().0 * Frame::BYTES);
        self.zero_bytes(at, frames.frames() * Frame::BYTES);
    }
}

impl Direct for BarePc {
    fn direct_base(&self) -> Addr {
        Addr(DIRECT)
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        let (words, rest) = ((bytes / 8) as usize, (bytes % 8) as usize);
        COUNTS.zeroed_words.add(words as u64);
        // SAFETY: the engine says that the caller owns them.
        unsafe {
            zero_words(at.0 as *mut u64, words);
            core::ptr::write_bytes((at.0 as *mut u8).add(words * 8), 0, rest);
        }
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        let (from, to) = (from.0 as *const u8, to.0 as *mut u8);
        // SAFETY: as above, and two objects do not overlap.
        unsafe { from.copy_to_nonoverlapping(to, bytes as usize) };
    }
}

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
        let at = Page(DIRECT / Page::BYTES + run.start().0);
        let mapped = page_tables().map(at, run, PageAccess::DATA, &BarePc, Context::ANY);
        mapped.expect("the direct map is built");
    }
    apic::map_registers();
    // No table comes from behind the image after these two.
    let from = Frame(BOOT_NEXT.load(Relaxed) / Frame::BYTES);
    let longest = usable(from).max_by_key(|run| run.frames()).expect("RAM");
    let top = usable(from).map(|run| run.end().0).max().unwrap_or(0);
    let layout = EngineLayout::new(Frame(0), top)
        .with_cpus(2 * cpus)
        .with_window(Page::of_address(WINDOW), window_pages)
        .with_range_config(ranges)
        .with_objects();
    let words = layout.words_needed().expect("the layout is possible");
    let pages = (words as u64 * 8).div_ceil(Frame::BYTES);
    let rest = boot::behind(longest, pages);
    let at = (DIRECT + longest.start().0 * Frame::BYTES) as *mut u64;
    // SAFETY: nothing else has this memory, now or later: it is not added below.
    let metadata = unsafe { core::slice::from_raw_parts_mut(at, words) };
    let engine = Engine::new(&layout, metadata, BarePc).expect("the layout is possible");
    for run in usable(from) {
        let added = engine.add(if run == longest { rest } else { run });
        added.expect("each range is there once");
    }
    COUNTS.metadata_pages.add(pages);
    ENGINE.set(engine);
    cpu_comes(cpus);
}

/// The calling CPU takes its seats. `cpus` is the number of them all.
pub fn cpu_comes(cpus: u16) {
    SHOOTDOWN.online(&BarePc);
    let (cpu, place) = (BarePc.current(), place());
    let tables = engine().frames().seats(CpuId(cpus + cpu.0));
    // SAFETY: no other CPU uses this place, and this one has interrupts off.
    unsafe {
        *place.tables.get() = Some(tables.expect("no other has it"));
        *place.cpu.get() = Some(engine().cpu(cpu).expect("no other has it"));
    }
}
