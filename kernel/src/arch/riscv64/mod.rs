//! QEMU's `virt` machine, with firmware below (SBI), a device tree, and translation by Sv39.
//!
//! The kernel lies at its physical address. The boot's root maps 4 GiB there, and once more at the direct map, by
//! entries of 1 GiB: devices in the first two, memory from the third on. The kernel maps the rest of the memory itself.

mod loader;
mod traps;

pub use framewright_riscv64 as cpu;
pub use framewright_riscv64::instructions::InstalledHart as InstalledCpu;
pub use traps::{call_on_stack, set_up as set_up_traps, try_write};

use crate::memory::MAX_CPUS;
use core::arch::global_asm;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use cpu::entry::SvEntry;
use cpu::firmware;
use cpu::instructions::{
    clock, current_cpu, flush_page, flush_translations, halt, wait_for_interrupt,
    without_interrupts,
};
use cpu::tables::{PhysMap, Sv39Tables, TableFence};
use framewright::{CpuId, Frame, Page, PageAccess};

global_asm!(include_str!("boot.s"));

/// Where all memory is mapped: the upper half of Sv39 begins there.
pub const DIRECT_BASE: u64 = 0xffff_ffc0_0000_0000;
/// Areas.
pub const WINDOW: u64 = 0xffff_ffe0_0000_0000;
/// The first frame that the engine is laid out for: memory begins at 2 GiB.
pub const FIRST: Frame = Frame(0x8_0000);

/// The fences of the calling hart.
#[derive(Clone, Copy, Debug)]
pub struct HartFence;

impl TableFence for HartFence {
    #[inline(always)]
    fn fence_page(&self, page: Page) {
        flush_page(page);
    }

    #[inline(always)]
    fn fence_all(&self) {
        flush_translations();
    }
}

pub type KernelTables<M> = Sv39Tables<M, HartFence>;

/// The page tables over memory as a kernel sees it.
pub const fn tables<M: PhysMap>(root: Frame, phys: M) -> KernelTables<M> {
    KernelTables::new(root, phys, HartFence)
}

#[repr(C, align(4096))]
struct BootRoot([AtomicU64; 512]);

/// The root of the page table.
#[unsafe(export_name = "boot_root")]
static BOOT_ROOT: BootRoot = {
    const GIBIBYTE: u64 = 1 << 18;
    let mut entries = [const { AtomicU64::new(0) }; 512];
    let mut nth = 0;
    while nth < 4 {
        let frame = Frame(nth as u64 * GIBIBYTE);
        let here = SvEntry::<3>::leaf(frame, PageAccess::ALL).0;
        let direct = SvEntry::<3>::leaf(frame, PageAccess::DATA).0;
        entries[nth] = AtomicU64::new(here);
        entries[256 + nth] = AtomicU64::new(direct);
        nth += 1;
    }
    BootRoot(entries)
};

/// The firmware's numbers of the CPUs.
static HARTS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Devices lie in what the boot has mapped.
pub fn devices_before_memory() {}

/// Interrupts need nothing more than to be let in.
pub fn enable(_cpu: CpuId) {}

#[unsafe(no_mangle)]
extern "C" fn kernel_main(hart: u64, tree: *const u8) -> ! {
    set_up_traps(CpuId(0));
    // SAFETY: the firmware's pointer, as boot.s hands it on.
    let tree = unsafe { loader::read(tree) };
    HARTS[0].store(hart, Release);
    let others = loader::harts(&tree).filter(|other| *other != hart);
    for (place, other) in HARTS[1..].iter().zip(others) {
        place.store(other, Release);
    }
    crate::start()
}

/// Starts all other CPUs, which come to `other_cpu_main`.
pub fn start_others(cpus: u16) {
    unsafe extern "C" {
        static other_hart: u8;
    }
    for cpu in 1..cpus {
        let hart = HARTS[usize::from(cpu)].load(Acquire);
        // SAFETY: the instructions there make it that CPU.
        let started =
            unsafe { firmware::start_hart(hart, &raw const other_hart as u64, u64::from(cpu)) };
        started.unwrap_or_else(|error| panic!("hart {hart} does not start: {error:?}"));
    }
}

/// Interrupts another CPU: it answers.
pub fn interrupt(cpu: CpuId) {
    let hart = HARTS[cpu.index()].load(Acquire);
    firmware::interrupt(hart).expect("the hart is there");
}

/// When each CPU's timer ticks next, by the clock.
static NEXT_TICKS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(NEVER) }; MAX_CPUS];
const NEVER: u64 = u64::MAX;

fn next_tick() -> &'static AtomicU64 {
    // SAFETY: a CPU sets its base before anything else, and the callers stay on it.
    &NEXT_TICKS[unsafe { current_cpu() }.index()]
}

fn order(time: u64) {
    firmware::set_timer(time).expect("there is a timer");
}

/// Interrupts the calling CPU after four times as many nanoseconds, by a clock that has a hundred in each step: the
/// firmware executes thousands of instructions for each, and the kernel is to come on in between.
pub fn set_timer(ticks: u32) {
    const STEP: u64 = 100 / 4;
    let steps = (u64::from(ticks) / STEP).max(1);
    without_interrupts(|| {
        let time = clock() + steps;
        next_tick().store(time, Relaxed);
        order(time);
    });
}

/// The timer has interrupted this CPU: whether it was to tick, or only ended a pause.
fn is_tick() -> bool {
    let next = next_tick();
    let is_due = next.load(Relaxed) <= clock();
    if is_due {
        next.store(NEVER, Relaxed);
    }
    order(next.load(Relaxed));
    is_due
}

/// Waits a moment for another CPU. Every few attempts the hart sleeps until its clock has gone on: where an emulator has
/// harts take turns, the others have theirs only then.
pub fn pause(attempt: u32) {
    const SPINS: u32 = 8;
    core::hint::spin_loop();
    if attempt % SPINS == SPINS - 1 {
        without_interrupts(|| {
            order(next_tick().load(Relaxed).min(clock() + 1));
            wait_for_interrupt();
            order(next_tick().load(Relaxed));
        });
    }
}

/// A register of a device of the machine.
fn register(physical: u64) -> u64 {
    DIRECT_BASE + physical
}

/// Writes a byte to the serial line, a 16550.
pub fn write_byte(byte: u8) {
    const DATA: u64 = 0x1000_0000;
    const STATUS: u64 = DATA + 5;
    const IS_EMPTY: u8 = 1 << 5;
    // SAFETY: the boot's root maps the device, which touches no memory.
    unsafe {
        while (register(STATUS) as *const u8).read_volatile() & IS_EMPTY == 0 {}
        (register(DATA) as *mut u8).write_volatile(byte);
    }
}

/// Ends the emulator with twice the number plus one, by the device `sifive,test0`.
pub fn stop_machine(why: u32) -> ! {
    const EXIT_DEVICE: u64 = 0x10_0000;
    const FAILED: u32 = 0x3333;
    // SAFETY: as above; the machine is over.
    unsafe { (register(EXIT_DEVICE) as *mut u32).write_volatile((2 * why + 1) << 16 | FAILED) };
    halt()
}
