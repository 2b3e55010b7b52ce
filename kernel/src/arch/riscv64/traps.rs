//! Interrupts and faults of a hart.

use super::is_tick;
use crate::memory::{MAX_CPUS, answer, page_tables};
use crate::traps::{ANSWERS, TICKS, count, end_by_fault, run_tick, say_caught};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use framewright::{CpuId, Page};
use framewright_riscv64::entry::FaultedAccess;
use framewright_riscv64::instructions::{
    HartHeader, clear_software_interrupt, current_cpu, fault_address,
};

/// What the stub has saved.
#[repr(C)]
struct HartTrapFrame {
    registers: [u64; 16],
    stack: u64,
    at: u64,
    status: u64,
}

const FAULT_STACK_BYTES: usize = 16384;

#[repr(C, align(4096))]
struct HartFaultStack(UnsafeCell<[u8; FAULT_STACK_BYTES]>);
// SAFETY: only the CPU itself writes there, as its stack.
unsafe impl Sync for HartFaultStack {}

static HEADERS: [HartHeader; MAX_CPUS] = {
    let mut all = [const { HartHeader::new(CpuId(0)) }; MAX_CPUS];
    let mut number = 0;
    while number < MAX_CPUS {
        all[number] = HartHeader::new(CpuId(number as u16));
        number += 1;
    }
    all
};
static FAULT_STACKS: [HartFaultStack; MAX_CPUS] =
    [const { HartFaultStack(UnsafeCell::new([0; FAULT_STACK_BYTES])) }; MAX_CPUS];

unsafe extern "C" {
    static trap_entry: u8;
    static try_write_access: u8;
    static try_write_faulted: u8;

    /// Writes a byte, and says whether it did: `false` if the access faulted.
    #[link_name = "try_write"]
    safe fn try_write_at(at: u64) -> bool;
}

/// Writes a byte, and says whether it did: `false` if the access faulted.
pub fn try_write(at: u64) -> bool {
    try_write_at(at)
}

/// Makes the calling hart that CPU. Interrupts are off.
pub fn set_up(cpu: CpuId) {
    let stack = FAULT_STACKS[cpu.index()].0.get() as u64 + FAULT_STACK_BYTES as u64;
    // SAFETY: the CPU's own data, which no other one has; the stub saves what a handler may change.
    unsafe {
        HEADERS[cpu.index()].install(stack);
        asm!("csrw stvec, {}", in(reg) &raw const trap_entry, options(nostack));
    }
}

/// Calls a function that does not return, on another stack.
pub fn call_on_stack(top: u64, function: extern "C" fn()) -> ! {
    // SAFETY: the caller's stack is left for ever.
    unsafe { asm!("mv sp, {}", "jalr {}", in(reg) top, in(reg) function, options(noreturn)) }
}

#[unsafe(no_mangle)]
extern "C" fn on_trap(frame: &mut HartTrapFrame, cause: u64) {
    const IS_INTERRUPT: u64 = 1 << 63;
    const SOFTWARE: u64 = IS_INTERRUPT | 1;
    const TIMER: u64 = IS_INTERRUPT | 5;
    match cause {
        SOFTWARE => {
            count(&ANSWERS);
            clear_software_interrupt();
            answer();
        }
        TIMER => {
            if is_tick() {
                count(&TICKS);
                run_tick();
            }
        }
        _ => on_fault(frame, cause),
    }
}

/// How often in a row an access was tried again, by CPU, and where.
static RETRIED: [[AtomicU64; 2]; MAX_CPUS] = [const { [const { AtomicU64::new(0) }; 2] }; MAX_CPUS];

/// Whether the access is worth another try: its page is mapped by now. Each try fences, so one is enough, unless pages at
/// this address come and go; an access that nothing helps ends the machine.
fn is_tried_again(at: u64, address: u64, access: FaultedAccess) -> bool {
    const TRIES_MAX: u64 = 1000;
    // SAFETY: the handler of a CPU stays on it.
    let [last, times] = &RETRIED[unsafe { current_cpu() }.index()];
    if !page_tables().was_stale(Page::of_address(address), access) {
        return false;
    }
    let key = at ^ address;
    let tries = if last.swap(key, Relaxed) == key {
        times.load(Relaxed) + 1
    } else {
        0
    };
    times.store(tries, Relaxed);
    tries < TRIES_MAX
}

fn on_fault(frame: &mut HartTrapFrame, cause: u64) {
    let address = fault_address();
    if let Some(access) = FaultedAccess::of_cause(cause) {
        if is_tried_again(frame.at, address, access) {
            return;
        }
        if frame.at == (&raw const try_write_access) as u64 {
            frame.at = (&raw const try_write_faulted) as u64;
            return say_caught(address);
        }
    }
    end_by_fault(cause, frame.at, frame.status, address)
}
