// UNSAFETY: a call of the firmware is an instruction that the compiler does not know.
//! Calls of the firmware, by the Supervisor Binary Interface (SBI): the timer, interrupts of other harts, their start.
//!
//! Its fences on other harts (RFENCE) are not here: a [shootdown](crate::shootdown) interrupts and fences, and serves
//! all that wait by one interrupt.

#![allow(unsafe_code)]

use core::arch::asm;

const TIMER: u64 = 0x5449_4d45;
const INTERRUPT: u64 = 0x0073_5049;
const HARTS: u64 = 0x0048_534d;

/// Why the firmware refused: its number, which is negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirmwareError(pub i64);

/// Calls a function of an extension.
///
/// # Safety
/// What the call does breaks no memory in use.
unsafe fn call(extension: u64, function: u64, arguments: [u64; 3]) -> Result<u64, FirmwareError> {
    let (error, value): (i64, u64);
    let [first, second, third] = arguments;
    // SAFETY: the firmware changes these two registers alone. Not `nomem`: what this hart wrote before, the hart that
    // the call reaches may read.
    unsafe {
        asm!(
            "ecall",
            inlateout("a0") first => error,
            inlateout("a1") second => value,
            in("a2") third,
            in("a6") function,
            in("a7") extension,
            options(nostack)
        );
    }
    if error == 0 {
        Ok(value)
    } else {
        Err(FirmwareError(error))
    }
}

/// Interrupts the calling hart when the clock says `time`, and takes an earlier order and its interrupt back. Never, if
/// `time` is as late as can be.
///
/// # Errors
/// What the firmware says.
pub fn set_timer(time: u64) -> Result<(), FirmwareError> {
    // SAFETY: an interrupt comes only where the kernel takes them.
    unsafe { call(TIMER, 0, [time, 0, 0]) }.map(|_| ())
}

/// Interrupts a hart. What the caller wrote before, its handler reads.
///
/// # Errors
/// What the firmware says, such as that there is no such hart.
pub fn interrupt(hart: u64) -> Result<(), FirmwareError> {
    // SAFETY: as above. The fence orders memory before the device by which the firmware interrupts.
    unsafe {
        asm!("fence iorw, iorw", options(nostack));
        call(INTERRUPT, 0, [1, hart, 0])
    }
    .map(|_| ())
}

/// Starts a hart at a physical address, without translation, with its own number and `word` in the registers `a0`
/// and `a1`.
///
/// # Errors
/// What the firmware says, such as that it runs already.
///
/// # Safety
/// The instructions there make it a CPU of the kernel.
pub unsafe fn start_hart(hart: u64, address: u64, word: u64) -> Result<(), FirmwareError> {
    // SAFETY: as the caller owes.
    unsafe { call(HARTS, 0, [hart, address, word]) }.map(|_| ())
}
