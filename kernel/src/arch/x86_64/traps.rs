//! Interrupts and faults of the CPU.
//!
//! Faults have a stack of their own in each CPU, because a guard page below a stack is one of their causes.

use super::apic;
use crate::memory::{MAX_CPUS, answer};
use crate::traps::{ANSWERS, TICKS, count, end_by_fault, run_tick, say_caught};
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use framewright::CpuId;
use framewright_x86_64::instructions::{PerCpuHeader, fault_address};

/// What the CPU and the stub have pushed.
#[repr(C)]
pub struct TrapFrame {
    registers: [u64; 9],
    error: u64,
    pub at: u64,
    code_segment: u64,
    flags: u64,
    pub stack: u64,
    stack_segment: u64,
}

#[repr(C, packed(4))]
struct TaskState {
    reserved: u32,
    privileged: [u64; 3],
    reserved_too: u64,
    stacks: [u64; 7],
    reserved_also: [u16; 5],
    io_map: u16,
}

/// A CPU's own data. GS points at it.
#[repr(C, align(64))]
struct PerCpu {
    header: PerCpuHeader,
    segments: [u64; 5],
    task: TaskState,
}

const FAULT_STACK_BYTES: usize = 16384;

#[repr(C, align(4096))]
struct FaultStack(UnsafeCell<[u8; FAULT_STACK_BYTES]>);

struct PerCpus([UnsafeCell<PerCpu>; MAX_CPUS]);

// SAFETY: a CPU writes its own, once, before it takes interrupts.
unsafe impl Sync for PerCpus {}
// SAFETY: only the CPU itself writes there, as its stack.
unsafe impl Sync for FaultStack {}

const SEGMENTS: [u64; 5] = [0, 0x00af_9a00_0000_ffff, 0x00cf_9200_0000_ffff, 0, 0];

static PER_CPUS: PerCpus = {
    let mut number = 0;
    let mut all = [const {
        UnsafeCell::new(PerCpu {
            header: PerCpuHeader::new(CpuId(0)),
            segments: SEGMENTS,
            task: TaskState {
                reserved: 0,
                privileged: [0; 3],
                reserved_too: 0,
                stacks: [0; 7],
                reserved_also: [0; 5],
                io_map: size_of::<TaskState>() as u16,
            },
        })
    }; MAX_CPUS];
    while number < MAX_CPUS {
        all[number].get_mut().header = PerCpuHeader::new(CpuId(number as u16));
        number += 1;
    }
    PerCpus(all)
};
static FAULT_STACKS: [FaultStack; MAX_CPUS] =
    [const { FaultStack(UnsafeCell::new([0; FAULT_STACK_BYTES])) }; MAX_CPUS];

struct Gates(UnsafeCell<[u128; 256]>);
// SAFETY: the first CPU writes it, once, before any CPU loads it.
unsafe impl Sync for Gates {}
static GATES: Gates = Gates(UnsafeCell::new([0; 256]));

macro_rules! stub {
    ($name:ident, $error:literal, $handler:path, $vector:literal) => {
        /// Saves what a handler may change. Compiled code has no other registers here: no SSE.
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                $error,
                "push rax", "push rcx", "push rdx", "push rsi", "push rdi",
                "push r8", "push r9", "push r10", "push r11",
                "mov rdi, rsp",
                "mov esi, {vector}",
                "mov rax, rsp",
                "and rsp, -16",
                "push rax", "push rax",
                "cld",
                "call {handler}",
                "pop rsp",
                "pop r11", "pop r10", "pop r9", "pop r8",
                "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
                "add rsp, 8",
                "iretq",
                handler = sym $handler, vector = const $vector,
            )
        }
    };
}

stub!(on_invalid, "push 0", on_fault, 6);
stub!(on_double_fault, "nop", on_fault, 8);
stub!(on_protection, "nop", on_fault, 13);
stub!(on_page_fault, "nop", on_fault, 14);
stub!(on_other, "push 0", on_fault, 255);
stub!(on_answer, "push 0", on_answer_handler, 0xf0);
stub!(on_timer, "push 0", on_timer_handler, 0x40);

/// Loads the calling CPU's own tables. Interrupts are off.
pub fn set_up(cpu: CpuId) {
    if cpu.0 == 0 {
        write_gates();
    }
    let own = PER_CPUS.0[cpu.index()].get();
    let stack = FAULT_STACKS[cpu.index()].0.get() as u64 + FAULT_STACK_BYTES as u64;
    // SAFETY: the CPU's own data, which no other one reads.
    unsafe {
        (*own).task.stacks = [stack; 7];
        let task = (&raw const (*own).task) as u64;
        let limit = size_of::<TaskState>() as u64 - 1;
        (*own).segments[3] =
            0x0000_8900_0000_0000 | limit | (task & 0xff_ffff) << 16 | (task >> 24 & 0xff) << 56;
        (*own).segments[4] = task >> 32;
        let segments = pointer((&raw const (*own).segments) as u64, size_of::<[u64; 5]>());
        let gates = pointer(GATES.0.get() as u64, size_of::<[u128; 256]>());
        asm!("lgdt [{}]", "lidt [{}]", "ltr {:x}", in(reg) &segments, in(reg) &gates, in(reg) 24_u64);
        (*own).header.install();
    }
}

/// The operand of the instructions that load a table: the last byte's offset, and the address.
fn pointer(at: u64, bytes: usize) -> [u16; 5] {
    let [a, b, c, d] = [0, 16, 32, 48].map(|shift| (at >> shift) as u16);
    [bytes as u16 - 1, a, b, c, d]
}

fn write_gates() {
    let gate = |handler: extern "C" fn(), stack: u64| {
        let at = handler as usize as u64;
        let low = at & 0xffff | 8 << 16 | stack << 32 | 0x8e << 40 | (at >> 16 & 0xffff) << 48;
        u128::from(low) | u128::from(at >> 32) << 64
    };
    // SAFETY: one CPU runs, with interrupts off.
    let gates = unsafe { &mut *GATES.0.get() };
    gates.fill(gate(on_other, 1));
    gates[6] = gate(on_invalid, 1);
    gates[8] = gate(on_double_fault, 1);
    gates[13] = gate(on_protection, 1);
    gates[14] = gate(on_page_fault, 1);
    gates[usize::from(apic::ANSWER_VECTOR)] = gate(on_answer, 0);
    gates[usize::from(apic::TIMER_VECTOR)] = gate(on_timer, 0);
}

extern "C" fn on_answer_handler(_: &mut TrapFrame, _: u32) {
    count(&ANSWERS);
    answer();
    apic::end_of_interrupt();
}

extern "C" fn on_timer_handler(_: &mut TrapFrame, _: u32) {
    count(&TICKS);
    run_tick();
    apic::end_of_interrupt();
}

/// Writes a byte, and says whether it did: `false` if the access faulted.
#[unsafe(naked)]
pub extern "C" fn try_write(at: u64) -> bool {
    naked_asm!(
        ".global try_write_access, try_write_faulted",
        "try_write_access:",
        "mov byte ptr [rdi], 1",
        "mov eax, 1",
        "ret",
        "try_write_faulted:",
        "xor eax, eax",
        "ret",
    )
}

unsafe extern "C" {
    static try_write_access: u8;
    static try_write_faulted: u8;
}

/// Calls a function that does not return, on another stack.
pub fn call_on_stack(top: u64, function: extern "C" fn()) -> ! {
    // SAFETY: the caller's stack is left for ever.
    unsafe { asm!("mov rsp, {}", "call {}", in(reg) top, in(reg) function, options(noreturn)) }
}

extern "C" fn on_fault(frame: &mut TrapFrame, vector: u32) {
    let address = fault_address();
    if vector == 14 && frame.at == (&raw const try_write_access) as u64 {
        frame.at = (&raw const try_write_faulted) as u64;
        return say_caught(address);
    }
    end_by_fault(u64::from(vector), frame.at, frame.error, address)
}
