//! A CPU's interrupt controller: interrupts of other CPUs, the timer, the start of other CPUs.

use crate::memory::{MAX_CPUS, map_at_boot};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use framewright::{CpuId, Frame, Page, PageAccess, Run};
use framewright_x86_64::entry::{PAGE_ATTRIBUTES, PAGE_ATTRIBUTES_REGISTER};
use framewright_x86_64::instructions::{time_stamp, write_msr};

/// Where the registers are mapped.
const DEVICES: u64 = 0xffff_c000_0000_0000;
const PHYSICAL: u64 = 0xfee0_0000;

pub const ANSWER_VECTOR: u8 = 0xf0;
pub const TIMER_VECTOR: u8 = 0x40;
const SPURIOUS_VECTOR: u32 = 0xff;

const ID: u64 = 0x20;
const PRIORITY: u64 = 0x80;
const END: u64 = 0xb0;
const SPURIOUS: u64 = 0xf0;
const COMMAND: u64 = 0x300;
const COMMAND_TARGET: u64 = 0x310;
const TIMER: u64 = 0x320;
const TIMER_COUNT: u64 = 0x380;
const TIMER_DIVIDER: u64 = 0x3e0;

/// The controllers' own numbers, by CPU.
static IDS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

/// Maps the registers, past all caches.
pub fn map_registers() {
    let frame = Run::new(Frame(PHYSICAL / Frame::BYTES), 1).expect("one frame");
    let at = Page::of_address(DEVICES);
    map_at_boot(at, frame, PageAccess::DEVICE);
}

fn register(offset: u64) -> *mut u32 {
    (DEVICES + offset) as *mut u32
}

fn read(offset: u64) -> u32 {
    // SAFETY: the page of registers is mapped, and is nothing else's.
    unsafe { register(offset).read_volatile() }
}

fn write(offset: u64, value: u32) {
    // SAFETY: as above; the commands below touch no memory.
    unsafe { register(offset).write_volatile(value) };
}

/// Turns the calling CPU's controller on.
pub fn enable(cpu: CpuId) {
    const BASE: u32 = 0x1b;
    const IS_ON: u64 = 1 << 11;
    const IS_FIRST_CPU: u64 = 1 << 8;
    let first = if cpu.0 == 0 { IS_FIRST_CPU } else { 0 };
    // SAFETY: the address is the one it has.
    unsafe { write_msr(BASE, PHYSICAL | IS_ON | first) };
    // SAFETY: nothing is mapped as write-through, which is what changes.
    unsafe { write_msr(PAGE_ATTRIBUTES_REGISTER, PAGE_ATTRIBUTES) };
    write(SPURIOUS, 1 << 8 | SPURIOUS_VECTOR);
    write(PRIORITY, 0);
    write(TIMER_DIVIDER, 0b1011);
    IDS[cpu.index()].store(read(ID) >> 24, Release);
}

fn command(target: u32, value: u32) {
    const IS_UNDER_WAY: u32 = 1 << 12;
    while read(COMMAND) & IS_UNDER_WAY != 0 {
        core::hint::spin_loop();
    }
    write(COMMAND_TARGET, target << 24);
    write(COMMAND, value);
}

/// Interrupts another CPU: it answers. With interrupts off: the command is two registers.
pub fn interrupt(cpu: CpuId) {
    command(
        IDS[cpu.index()].load(Acquire),
        1 << 14 | u32::from(ANSWER_VECTOR),
    );
}

/// Starts all other CPUs, at address 0x8000.
pub fn start_others() {
    const OTHERS: u32 = 0b11 << 18;
    command(0, OTHERS | 0x4500);
    let start = time_stamp();
    while time_stamp() - start < 1_000_000 {
        core::hint::spin_loop();
    }
    command(0, OTHERS | 0x4608);
}

/// The handler of an interrupt is done.
pub fn end_of_interrupt() {
    write(END, 0);
}

/// Interrupts the calling CPU after this many ticks.
pub fn set_timer(ticks: u32) {
    write(TIMER, u32::from(TIMER_VECTOR));
    write(TIMER_COUNT, ticks.max(1));
}
