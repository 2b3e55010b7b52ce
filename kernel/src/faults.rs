//! Faults that the tests make, each of which a test must catch: a kernel that breaks a promise of its platform.
//!
//! | word | what the kernel leaves out | what it ends as |
//! |---|---|---|
//! | `noflush=1` | the flush of a CPU's translations | wrong bytes, a fault or a panic |
//! | `noanswer=1` | answers to other CPUs in `FramePlatform::relax` | [`Exit::Hung`] |
//!
//! # Why a kernel without answers hangs
//! A CPU that waits inside the engine has interrupts off, so no interrupt reaches it: what another CPU asks of it, it sees
//! only if the wait looks for it. Two waits without a look close a circle: one CPU stops the others and asks for a barrier,
//! while another one waits in `relax` until that stop is over. A CPU with interrupts on still answers, in the handler of the
//! interrupt: so such a kernel boots and works until two calls meet.
//!
//! The word leaves out the look in `relax` alone. A CPU that waits for others' answers itself, in a flush or a barrier, still
//! answers them: that is rule SD2 of the crate for page tables, whose own models check it. The test `asking` has CPUs ask at the
//! same moment, with the answers in place.
//!
//! A wait of the engine or of a shootdown is bounded ([`give_up`]): a kernel that stands still ends, and says how.

use crate::serial::{Exit, exit};
use crate::{boot, say};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// A flush does nothing.
pub static IS_FLUSH_LEFT_OUT: AtomicBool = AtomicBool::new(false);
/// `relax` answers no CPU.
static IS_ANSWER_LEFT_OUT: AtomicBool = AtomicBool::new(false);
/// The most attempts of a wait.
static ATTEMPTS_MAX: AtomicU32 = AtomicU32::new(200_000_000);

/// Makes the faults that the command line asks for.
pub fn make() {
    let number = |name| boot::number(name).unwrap_or(0);
    IS_FLUSH_LEFT_OUT.store(number("noflush") == 1, Relaxed);
    IS_ANSWER_LEFT_OUT.store(number("noanswer") == 1, Relaxed);
    if let Some(attempts) = boot::number("patience") {
        ATTEMPTS_MAX.store(u32::try_from(attempts).unwrap_or(u32::MAX), Relaxed);
    }
}

/// Whether `relax` answers.
#[inline(always)]
pub fn relax_answers() -> bool {
    !IS_ANSWER_LEFT_OUT.load(Relaxed)
}

/// Ends a machine that stands still: no wait takes so many attempts.
#[inline(always)]
pub fn give_up(attempt: u32) {
    if attempt >= ATTEMPTS_MAX.load(Relaxed) {
        hang();
    }
}

#[cold]
fn hang() -> ! {
    say!("HUNG: a CPU waits for ever");
    exit(Exit::Hung)
}
