//! A PC: booted by PVH, with local APICs.

mod apic;
mod loader;
mod traps;

pub use apic::{enable, interrupt, set_timer};
pub use framewright_x86_64 as cpu;
pub use framewright_x86_64::instructions::InstalledCpu;
pub use framewright_x86_64::tables::PageTables as KernelTables;
pub use traps::{call_on_stack, set_up as set_up_traps, try_write};

use crate::memory::MAX_CPUS;
use core::arch::global_asm;
use framewright::{CpuId, Frame};
use framewright_x86_64::instructions::{halt, read_port, write_port, write_port_u32};

global_asm!(include_str!("boot.s"), MAX_CPUS = const MAX_CPUS, options(att_syntax));

/// Where all memory is mapped.
pub const DIRECT_BASE: u64 = 0xffff_8880_0000_0000;
/// Areas.
pub const WINDOW: u64 = 0xffff_c900_0000_0000;
/// The first frame that the engine is laid out for.
pub const FIRST: Frame = Frame(0);

/// The page tables over memory as a kernel sees it.
pub const fn tables<M: cpu::tables::PhysMap>(root: Frame, phys: M) -> KernelTables<M> {
    KernelTables::new(root, phys)
}

/// What the first CPU needs of the page tables before the engine has all frames.
pub fn devices_before_memory() {
    apic::map_registers();
}

#[unsafe(no_mangle)]
extern "C" fn kernel_main(info: u64) -> ! {
    set_up_traps(CpuId(0));
    // SAFETY: the loader's pointer, as boot.s hands it on; then the old interrupt controllers are masked.
    unsafe {
        loader::read(info);
        write_port(0x21, 0xff);
        write_port(0xa1, 0xff);
    }
    crate::start()
}

/// Starts all other CPUs, which come to `other_cpu_main`.
pub fn start_others(_cpus: u16) {
    unsafe extern "C" {
        static trampoline: u8;
        static trampoline_end: u8;
    }
    let (from, end) = (&raw const trampoline, &raw const trampoline_end);
    // SAFETY: nothing else lies at 0x8000, and both are in the boot's map.
    unsafe {
        core::ptr::copy_nonoverlapping(from, 0x8000 as *mut u8, end as usize - from as usize)
    };
    apic::start_others();
}

/// Waits a moment for another CPU.
pub fn pause(_attempt: u32) {
    core::hint::spin_loop();
}

/// Writes a byte to the serial line.
pub fn write_byte(byte: u8) {
    const DATA: u16 = 0x3f8;
    const STATUS: u16 = DATA + 5;
    const IS_EMPTY: u8 = 1 << 5;
    // SAFETY: the serial line has no part in memory.
    unsafe {
        while read_port(STATUS) & IS_EMPTY == 0 {}
        write_port(DATA, byte);
    }
}

/// Ends the emulator with twice the number plus one.
pub fn stop_machine(why: u32) -> ! {
    const EXIT_DEVICE: u16 = 0xf4;
    // SAFETY: the machine is over.
    unsafe { write_port_u32(EXIT_DEVICE, why) };
    halt()
}
