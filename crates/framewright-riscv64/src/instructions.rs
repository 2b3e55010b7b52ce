// UNSAFETY: instructions that the compiler does not know.
//! The instructions that have no name in Rust: per-CPU base, clocks, interrupts, fences of page tables.
//!
//! Most need the supervisor's mode. Those that can break memory are `unsafe`.

#![allow(unsafe_code)]

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use framewright::{CpuId, Frame, Page};
use framewright_paging::cells::ThisCpu;

/// The bit of `sstatus` by which a hart takes interrupts.
const INTERRUPTS: u64 = 1 << 1;
/// Those of other harts, in `sie` and `sip`.
const SOFTWARE: u64 = 1 << 1;
/// The timer's.
const TIMER: u64 = 1 << 5;

/// The start of a CPU's own data, at which its register `tp` points. A kernel puts it first in its own structure.
#[derive(Debug)]
#[repr(C)]
pub struct HartHeader {
    cpu: u64,
    /// Where the stack ends on which the CPU handles faults: the first instructions of a handler find it at `8(tp)`.
    fault_stack: AtomicU64,
}

impl HartHeader {
    /// The header of that CPU.
    #[must_use]
    pub const fn new(cpu: CpuId) -> Self {
        Self {
            cpu: cpu.0 as u64,
            fault_stack: AtomicU64::new(0),
        }
    }

    /// Makes this the calling CPU's data, and that the end of its stack for faults.
    ///
    /// # Safety
    /// No other CPU has it, it stays where it is, nothing else uses `tp`, and the stack is the CPU's alone.
    pub unsafe fn install(&'static self, fault_stack: u64) {
        self.fault_stack.store(fault_stack, Relaxed);
        // SAFETY: the caller owes that the register has no other use.
        unsafe { asm!("mv tp, {}", in(reg) core::ptr::from_ref(self), options(nostack)) };
    }
}

/// The calling CPU.
///
/// # Safety
/// It has [installed](HartHeader::install) its header.
#[inline(always)]
#[must_use]
pub unsafe fn current_cpu() -> CpuId {
    let cpu: u64;
    // SAFETY: `tp` points at a header (the caller), whose first word is the number. It never changes, so
    // two reads give the same as long as the caller stays on the CPU.
    unsafe { asm!("ld {}, 0(tp)", out(reg) cpu, options(nostack, readonly, preserves_flags)) };
    CpuId(cpu as u16)
}

/// The calling CPU by its header, for [cells](framewright_paging::cells) and [seats](framewright_paging::seats).
#[derive(Clone, Copy, Debug)]
pub struct InstalledHart(());

impl InstalledHart {
    /// The calling CPU, whichever that is.
    ///
    /// # Safety
    /// Each CPU that asks for its number has [installed](HartHeader::install) a header, and no other CPU has that number.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: each number is one CPU's (`new`). With interrupts off a CPU stays itself.
unsafe impl ThisCpu for InstalledHart {
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

/// The count of cycles. An emulator that counts instructions has them there.
#[inline(always)]
#[must_use]
pub fn time_stamp() -> u64 {
    let count: u64;
    // SAFETY: it reads a counter.
    unsafe { asm!("rdcycle {}", out(reg) count, options(nomem, nostack)) };
    count
}

/// The machine's clock, by which its timer goes.
#[inline(always)]
#[must_use]
pub fn clock() -> u64 {
    let time: u64;
    // SAFETY: it reads a counter.
    unsafe { asm!("rdtime {}", out(reg) time, options(nomem, nostack)) };
    time
}

/// Calls `work` with interrupts off, and leaves them as they were.
#[inline(always)]
pub fn without_interrupts<T>(work: impl FnOnce() -> T) -> T {
    let before: u64;
    // SAFETY: it changes nothing else. No option says `nomem`: what `work` touches stays between the two.
    unsafe { asm!("csrrci {}, sstatus, {}", out(reg) before, const INTERRUPTS, options(nostack)) };
    let result = work();
    // SAFETY: only the bit that was set is.
    unsafe { asm!("csrs sstatus, {}", in(reg) before & INTERRUPTS, options(nostack)) };
    result
}

/// Lets interrupts in that wait, and leaves them on or off as they were.
///
/// # Safety
/// As of [`enable_interrupts`].
#[inline]
pub unsafe fn let_interrupts_in() {
    let before: u64;
    // SAFETY: as the caller owes. A hart looks for interrupts behind each write of this register.
    unsafe {
        asm!("csrrsi {}, sstatus, {}", out(reg) before, const INTERRUPTS, options(nostack));
        if before & INTERRUPTS == 0 {
            asm!("csrci sstatus, {}", const INTERRUPTS, options(nostack));
        }
    }
}

/// Turns interrupts on: those of the timer and of other harts.
///
/// # Safety
/// The handler of traps is set, and no caller relies on their being off.
pub unsafe fn enable_interrupts() {
    // SAFETY: as the caller owes.
    unsafe {
        asm!("csrs sie, {}", in(reg) SOFTWARE | TIMER, options(nostack));
        asm!("csrsi sstatus, {}", const INTERRUPTS, options(nostack));
    }
}

/// Sleeps until an interrupt of the timer or of another hart waits. With interrupts off it is not taken, but it ends the sleep.
#[inline]
pub fn wait_for_interrupt() {
    // SAFETY: interrupts come only if they were on.
    unsafe { asm!("csrs sie, {}", "wfi", in(reg) SOFTWARE | TIMER, options(nostack)) };
}

/// Takes the interrupt of another hart back, before what it asks for is read.
#[inline]
pub fn clear_software_interrupt() {
    // SAFETY: the bit says nothing but that. The fence orders the write of the register with loads and stores behind it:
    // else a question that comes in between would be neither read now nor interrupt again.
    unsafe { asm!("csrc sip, {}", "fence iorw, iorw", in(reg) SOFTWARE, options(nostack)) };
}

/// Stops this CPU for ever.
pub fn halt() -> ! {
    loop {
        // SAFETY: it touches nothing; with interrupts off it wakes for none.
        unsafe { asm!("csrci sstatus, {}", "wfi", const INTERRUPTS, options(nomem, nostack)) };
    }
}

/// Reads the register of the page table.
#[must_use]
pub fn page_table() -> Frame {
    let register: u64;
    // SAFETY: it reads a register.
    unsafe { asm!("csrr {}, satp", out(reg) register, options(nomem, nostack)) };
    Frame(register & ((1 << 44) - 1))
}

/// Orders what this hart sees of page tables now before its later accesses, and drops all translations that it keeps.
#[inline]
pub fn flush_translations() {
    // SAFETY: it changes no register. Not `nomem`: no access moves to the other side.
    unsafe { asm!("sfence.vma", options(nostack)) };
}

/// The same for the entry of one page, in the last table.
#[inline]
pub fn flush_page(page: Page) {
    // SAFETY: as above.
    unsafe { asm!("sfence.vma {}, zero", in(reg) page.0 * Page::BYTES, options(nostack)) };
}

/// The address of the last page fault.
#[must_use]
pub fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: it reads a register.
    unsafe { asm!("csrr {}, stval", out(reg) address, options(nomem, nostack)) };
    address
}

/// Fills words with zeroes, 64 in a row: hardly more than an instruction a word.
///
/// # Safety
/// `words` words from `at` on are the caller's to write.
#[inline]
pub unsafe fn zero_words(at: *mut u64, words: usize) {
    const ROW: usize = 64;
    let mut done = 0;
    // SAFETY: as the caller owes, row by row and then word by word.
    unsafe {
        while words - done >= ROW {
            for nth in 0..ROW {
                at.add(done + nth).write_volatile(0);
            }
            done += ROW;
        }
        while done < words {
            at.add(done).write_volatile(0);
            done += 1;
        }
    }
}

/// Fills bytes with zeroes, whole words first. `at` is a word's address.
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

/// Copies words. Another CPU may write the source meanwhile: then the copy is any mixture.
///
/// # Safety
/// `words` words from `from` on are memory, and as many from `to` on are the caller's to write.
#[inline]
pub unsafe fn copy_words(from: *const u64, to: *mut u64, words: usize) {
    for nth in 0..words {
        // SAFETY: as the caller owes. An atomic load beside a store is no race.
        unsafe {
            let word = AtomicU64::from_ptr(from.add(nth).cast_mut()).load(Relaxed);
            to.add(nth).write(word);
        }
    }
}
