//! The memory manager: all that a kernel writes to have the engine. The platform's traits, the set-up, one
//! static for the engine and one for the CPUs' places in it.
//!
//! # Rules
//! - **Interrupts are off in every call of the engine**: [`SEATS`] do that. In a long call the engine
//!   [lets them in](RangePlatform::interrupt_window) where it holds nothing.
//! - A CPU that waits answers other CPUs: `FramePlatform::relax` and the waits of the shootdown.
//! - A CPU comes online in the shootdown before it takes its seats.

use crate::arch::cpu::cells::{SetOnce, ThisCpu};
use crate::arch::cpu::direct::DirectMap;
use crate::arch::cpu::instructions::{
    self, copy_words, flush_translations, let_interrupts_in, zero_bytes,
};
use crate::arch::cpu::seats::CpuPlaces;
use crate::arch::cpu::shootdown::{Ipi, Shootdown, ShootdownRound};
use crate::arch::cpu::tables::{CpusTables, PhysMap, TableSource};
use crate::arch::{self, InstalledCpu};
use crate::boot::{self, BOOT_MAP_END, MemoryRange};
use crate::counts::COUNTS;
use crate::faults::{self, IS_FLUSH_LEFT_OUT};
use core::sync::atomic::Ordering::Relaxed;
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::Seat;
use framewright::platform::{
    FramePlatform, MapError, ObjectPlatform, RangePlatform, ReservePlatform,
};
use framewright::policy::RangeConfig;
use framewright::reserve::ReserveLayout;
use framewright::{Addr, CpuId, Frame, Page, PageAccess, PageRange, Run};

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

/// A CPU's seat in a zone of frames.
pub type ZoneSeat = Seat<'static, 'static, BarePc>;
/// A CPU's requests.
pub type KernelCpu = Cpu<'static, 'static, BarePc>;

static ENGINE: SetOnce<Engine<'static, BarePc>> = SetOnce::new();
/// Each CPU's seats in the engine.
pub static SEATS: CpuPlaces<BarePc, InstalledCpu, MAX_CPUS> = CpuPlaces::new(THIS_CPU);
// SAFETY: a CPU installs its header, which has its own number, before anything else.
const THIS_CPU: InstalledCpu = unsafe { InstalledCpu::new() };
static SHOOTDOWN: Shootdown<MAX_CPUS> = Shootdown::new();
/// The page tables that each CPU remembers, below the one root.
static KNOWN_TABLES: CpusTables<MAX_CPUS> = CpusTables::new();

/// The engine.
pub fn engine() -> &'static Engine<'static, BarePc> {
    ENGINE.get().expect("memory is set up")
}

/// Works with the calling CPU's seats, with interrupts off. It panics if the CPU is inside.
#[inline(always)]
pub fn with<T>(work: impl FnOnce(&mut KernelCpu) -> T) -> T {
    SEATS.with(work)
}

/// Maps a run before there is an engine.
pub fn map_at_boot(at: Page, run: Run, access: PageAccess) {
    let mapped = page_tables().map(at, run, access, &mut boot::BootTables);
    mapped.expect("the page is free, and memory is there");
}

impl Ipi for BarePc {
    fn current(&self) -> CpuId {
        THIS_CPU.current()
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
        faults::give_up(attempt);
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
        if faults::relax_answers() {
            SHOOTDOWN.answer(self);
        }
        self.pause(attempt);
    }

    fn barrier_all(&self) {
        COUNTS.barriers.add(1);
        SHOOTDOWN.ask(ShootdownRound::Barrier, self);
    }

    /// Ticks, which an emulator that counts instructions has a nanosecond apart.
    fn now_ns(&self) -> u64 {
        instructions::time_stamp()
    }
}

/// The kernel's page table.
pub fn page_tables() -> arch::KernelTables<impl PhysMap> {
    arch::tables(boot::root(), KNOWN_TABLES.on(THIS_CPU.current(), DIRECT))
}

impl RangePlatform for BarePc {
    #[inline(always)] // each of few callers knows the access, and mostly the CPU knows the table
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        COUNTS.maps.add(1);
        page_tables().map(at, frames, access, tables)
    }

    fn map_frames(
        &self,
        at: Page,
        all: &[Frame],
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), (u64, MapError)> {
        COUNTS.maps.add(1);
        page_tables().map_frames(at, all, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        COUNTS.unmaps.add(1);
        page_tables().unmap(range, &mut ())
    }

    fn flush_all(&self) {
        COUNTS.flushes.add(1);
        SHOOTDOWN.ask(ShootdownRound::Flush, self);
    }

    fn zero(&self, frames: Run) {
        self.zero_bytes(DIRECT.addr(frames.start()), frames.frames() * Frame::BYTES);
    }

    fn interrupt_window(&self) {
        if SEATS.may_let_interrupts_in() {
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

    fn copy(&self, from: Frame, to: Frame) {
        let [from, to] = [from, to].map(|frame| DIRECT.addr(frame).0 as *mut u64);
        // SAFETY: as above, without a page in between, which would lie on the stack.
        unsafe { copy_words(from, to, 512) };
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
    boot::NEXT.store(boot::end_of_image(), Relaxed);
    for run in usable(BOOT_MAP_END) {
        let at = Page::of_address(DIRECT.addr(run.start()).0);
        map_at_boot(at, run, PageAccess::DATA);
    }
    arch::devices_before_memory();
    // No table comes from behind the image after these two.
    let from = Frame(boot::NEXT.load(Relaxed) / Frame::BYTES);
    let longest = usable(from).max_by_key(|run| run.frames()).expect("RAM");
    let top = usable(from).map(|run| run.end().0).max().unwrap_or(0);
    let before_reserve = longest.frames().saturating_sub(RESERVE_FRAMES);
    let (first, reserve) = longest.split_at(before_reserve).expect("RAM");
    // Seats for handlers make the CPUs' caches smaller, so a kernel has to ask for them.
    let for_handlers = u16::from(boot::number("handlers") == Some(1));
    let ordinary = boot::number("ordinary").unwrap_or(0);
    let layout = EngineLayout::new(arch::FIRST, top - arch::FIRST.0)
        .with_cpus((1 + for_handlers) * cpus)
        .with_window(Page::of_address(WINDOW), window_pages)
        .with_range_config(ranges)
        .with_objects();
    #[cfg(feature = "percpu")]
    let layout = layout.with_percpu(cpus, UNIT_PAGES);
    #[cfg(feature = "reserve")]
    let layout = layout.with_reserve(ReserveLayout::new(reserve).with_ordinary(ordinary as u32));
    let pages = layout.frames_needed().expect("the layout is possible");
    let (metadata, rest) = first.split_at(pages).expect("RAM for the metadata");
    // SAFETY: nothing else has this memory, now or later: it is not added below.
    let words = unsafe { DIRECT.words(metadata) };
    let engine = match boot::number("zeroed") {
        Some(1) => Engine::in_zeroed(&layout, words, BarePc),
        _ => Engine::new(&layout, words, BarePc),
    };
    let mut engine = engine.expect("the layout is possible");
    if boot::number("locks").is_some_and(|asked| asked > 0) {
        engine = engine.with_lock_accounts();
    }
    for run in usable(from).filter(|run| *run != longest).chain([rest]) {
        engine.add(run).expect("each range is there once");
    }
    COUNTS.metadata_pages.add(pages);
    COUNTS.boot_tables.add(page_tables().count_tables());
    ENGINE.set(engine);
    cpu_comes(cpus);
}

/// The calling CPU takes its seats, with interrupts off. `cpus` is the number of them all.
pub fn cpu_comes(cpus: u16) {
    SHOOTDOWN.online(&BarePc);
    SEATS.come(engine(), cpus);
}

/// The calling CPU gives its seats back, and what it keeps with them. From then on it uses no area but its stack, and is asked for no
/// flush and no barrier, until it [comes](cpu_comes) again; its long calls let interrupts in only when it
/// [takes](enable_interrupts) them again.
pub fn cpu_goes() {
    SEATS.go();
    SHOOTDOWN.offline(&BarePc);
}

/// The calling CPU, which has its seats, takes interrupts from now on, in long calls of the engine too.
///
/// # Safety
/// As of the architecture's `enable_interrupts`.
pub unsafe fn enable_interrupts() {
    SEATS.allow_interrupts();
    // SAFETY: as the caller owes.
    unsafe { instructions::enable_interrupts() };
}
