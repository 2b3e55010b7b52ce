// UNSAFETY: what these functions do is an instruction that Rust has no name for.
//! Instructions without a name in Rust: per-CPU base, clock, interrupts, ports, the register of the page table.
//!
//! Most need the privileged mode: in a process they fault, which ends it. Those that can break memory
//! are `unsafe`.

#![allow(unsafe_code)]

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use framewright::{CpuId, Frame};
use framewright_paging::cells::ThisCpu;

/// The start of a CPU's own data, at which its GS base points. A kernel puts it first in its own structure.
#[derive(Debug)]
#[repr(C)]
pub struct PerCpuHeader {
    cpu: u64,
    /// For the kernel: what the CPU was doing, how deep in interrupts it is.
    pub state: AtomicU64,
}

impl PerCpuHeader {
    /// The header of that CPU.
    #[must_use]
    pub const fn new(cpu: CpuId) -> Self {
        Self {
            cpu: cpu.0 as u64,
            state: AtomicU64::new(0),
        }
    }

    /// Makes this the calling CPU's data.
    ///
    /// # Safety
    /// No other CPU has it, it stays where it is, and nothing else uses GS.
    pub unsafe fn install(&'static self) {
        const GS_BASE: u32 = 0xc000_0101;
        // SAFETY: the caller owes that GS has no other use.
        unsafe { write_msr(GS_BASE, core::ptr::from_ref(self) as u64) };
    }
}

/// The calling CPU.
///
/// # Safety
/// It has [installed](PerCpuHeader::install) its header.
#[inline(always)]
#[must_use]
pub unsafe fn current_cpu() -> CpuId {
    let cpu: u64;
    // SAFETY: GS points at a header (the caller), whose first word is the number. It never changes, so
    // two reads give the same as long as the caller stays on the CPU.
    unsafe { asm!("mov {}, gs:[0]", out(reg) cpu, options(nostack, readonly, preserves_flags)) };
    // SAFETY: `new` put a number of 16 bits there.
    unsafe { core::hint::assert_unchecked(cpu <= u16::MAX as u64) };
    CpuId(cpu as u16)
}

/// The calling CPU by its header, for [cells](framewright_paging::cells) and [seats](framewright_paging::seats).
#[derive(Clone, Copy, Debug)]
pub struct InstalledCpu(());

impl InstalledCpu {
    /// The calling CPU, whichever that is.
    ///
    /// # Safety
    /// Each CPU that asks for its number has [installed](PerCpuHeader::install) a header, and no other CPU has that number.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: each number is one CPU's (`new`). With interrupts off a CPU stays itself.
unsafe impl ThisCpu for InstalledCpu {
    #[inline(always)]
    fn current(self) -> CpuId {
        // SAFETY: it has installed its header (`new`).
        unsafe { current_cpu() }
    }

    #[inline(always)]
    fn without_interrupts<R>(self, work: impl FnOnce() -> R) -> R {
        without_interrupts(work)
    }
}

/// The time stamp counter.
#[inline(always)]
#[must_use]
pub fn time_stamp() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: it reads a counter.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack)) };
    (u64::from(high) << 32) | u64::from(low)
}

/// Calls `work` with interrupts off, and leaves them as they were.
#[inline(always)]
pub fn without_interrupts<T>(work: impl FnOnce() -> T) -> T {
    const INTERRUPTS: u64 = 1 << 9;
    let flags: u64;
    // SAFETY: the stack is as before behind each line. No option says `nomem`: what `work` touches stays
    // between the two.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
    let result = work();
    if flags & INTERRUPTS != 0 {
        // SAFETY: they were on.
        unsafe { asm!("sti") };
    }
    result
}

/// Lets interrupts in that wait, and leaves them on or off as they were.
///
/// # Safety
/// As of [`enable_interrupts`].
#[inline]
pub unsafe fn let_interrupts_in() {
    // SAFETY: the stack is as before behind it. The instruction behind `sti` still belongs to it.
    unsafe { asm!("pushfq", "sti", "nop", "popfq") };
}

/// Turns interrupts on.
///
/// # Safety
/// The interrupt table is loaded, and no caller relies on their being off.
pub unsafe fn enable_interrupts() {
    // SAFETY: as the caller owes.
    unsafe { asm!("sti") };
}

/// Stops this CPU for ever.
pub fn halt() -> ! {
    loop {
        // SAFETY: it touches nothing.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// Reads the register of the page table.
#[must_use]
pub fn page_table() -> Frame {
    let root: u64;
    // SAFETY: it reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack)) };
    Frame((root & 0x000f_ffff_ffff_f000) / Frame::BYTES)
}

/// Drops this CPU's translations of all pages that are not global. A kernel whose areas are global pages
/// needs more: to turn global pages off and on in control register 4.
#[inline]
pub fn flush_translations() {
    // SAFETY: the register gets the value it has. Not `nomem`: no access moves to the other side.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack)) };
}

/// The address of the last page fault.
#[must_use]
pub fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: it reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack)) };
    address
}

/// Writes a model-specific register.
///
/// # Safety
/// The value is one that the register's meaning allows here.
pub unsafe fn write_msr(register: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: as the caller owes.
    unsafe { asm!("wrmsr", in("ecx") register, in("eax") low, in("edx") high, options(nostack)) };
}

/// Writes a byte to a port.
///
/// # Safety
/// The device there does nothing to memory in use.
pub unsafe fn write_port(port: u16, value: u8) {
    // SAFETY: as the caller owes.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack)) };
}

/// Writes four bytes to a port.
///
/// # Safety
/// As [`write_port`].
pub unsafe fn write_port_u32(port: u16, value: u32) {
    // SAFETY: as the caller owes.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack)) };
}

/// Reads a byte from a port.
///
/// # Safety
/// As [`write_port`].
#[must_use]
pub unsafe fn read_port(port: u16) -> u8 {
    let value: u8;
    // SAFETY: as the caller owes.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack)) };
    value
}

/// Fills words with zeroes, 8 bytes a step: an emulator that counts instructions counts each step.
///
/// # Safety
/// `words` words from `at` on are the caller's to write.
#[inline]
pub unsafe fn zero_words(at: *mut u64, words: usize) {
    // SAFETY: the caller owes the memory; the direction flag is clear, as the ABI has it.
    unsafe {
        asm!(
            "rep stosq",
            inout("rdi") at => _,
            inout("rcx") words => _,
            in("rax") 0_u64,
            options(nostack, preserves_flags)
        );
    }
}

/// Fills bytes with zeroes, whole words first.
///
/// # Safety
/// `bytes` bytes from `at` on are the caller's to write.
#[inline]
pub unsafe fn zero_bytes(at: *mut u8, bytes: u64) {
    let (words, rest) = ((bytes / 8) as usize, (bytes % 8) as usize);
    // SAFETY: as the caller owes.
    unsafe {
        zero_words(at.cast(), words);
        at.add(words * 8).write_bytes(0, rest);
    }
}

/// Copies words, 8 bytes a step. Another CPU may write the source meanwhile: then the copy is any mixture.
///
/// # Safety
/// `words` words from `from` on are memory, and as many from `to` on are the caller's to write.
#[inline]
pub unsafe fn copy_words(from: *const u64, to: *mut u64, words: usize) {
    // SAFETY: as the caller owes; the compiler knows nothing of the loads, so a race is only a mixture.
    unsafe {
        asm!(
            "rep movsq",
            inout("rsi") from => _,
            inout("rdi") to => _,
            inout("rcx") words => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_may_execute_does_what_it_says() {
        let before = time_stamp();
        let mut words = [!0_u64; 5];
        // SAFETY: three words inside the array.
        unsafe { zero_words(words[1..].as_mut_ptr(), 3) };
        assert_eq!(words, [!0, 0, 0, 0, !0]);
        let from = [1, 2, 3, 4, 5];
        // SAFETY: two words inside each array.
        unsafe { copy_words(from[2..].as_ptr(), words[1..].as_mut_ptr(), 2) };
        assert_eq!(words, [!0, 3, 4, 0, !0]);
        // SAFETY: eleven bytes of the array: of its last word three.
        unsafe { zero_bytes(words[3..].as_mut_ptr().cast(), 11) };
        assert_eq!(words, [!0, 3, 4, 0, !0 << 24]);
        assert!(time_stamp() > before);
    }
}
