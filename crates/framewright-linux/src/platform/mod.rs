//! What the engine asks of the world, answered by Linux.
//!
//! Waiting spins a moment, then lets another thread run a few times, then sleeps on a futex: on a
//! host the thread that it waits for may not be running, and if the waiter has a real-time priority,
//! `sched_yield` never lets a thread of lower priority run. The thread that ends a wait wakes all
//! sleepers, at the cost of one load if there are none.
//!
//! A sleeper may miss a wake. The engine looks at its condition before it calls `relax`, so the wait may
//! end between this look and the sleep. And the engine's frequent side leaves a seat without a
//! word. So a sleep ends by itself: the first after 16 us, each later one after twice as long, up to a
//! millisecond. A missed wake costs about as long again as the wait has lasted, and a millisecond at
//! most. So a wait lasts at most a millisecond longer than it must, and takes no CPU from the other thread.
//! To miss no wake, each end of a wait would have to count before it knows of a sleeper.
//!
//! The clock is CLOCK_MONOTONIC. A CPU is a thread's slot.
//! The barrier is membarrier(2) where the kernel has it, which makes the engine's frequent paths
//! cheap, and else `()`, the engine's defaults, with a full barrier in each operation. Which of the
//! two is a type, because the frequent paths are compiled for one of them.

mod contents;
mod copy;
mod direct;
mod slots;
mod windowed;

pub use contents::Stored;
pub use slots::{NoSlot, Slots};
pub use windowed::Windowed;

use crate::event::WaitEvent;
use framewright::platform::FramePlatform;
use rustix::thread::{MembarrierCommand, membarrier};
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// A barrier on all threads of the process: membarrier(2), private and expedited.
///
/// A value is the proof that the process is registered for it.
#[derive(Clone, Copy, Debug)]
pub struct Membarrier(());

/// The kernel has no private expedited membarrier: use a platform with the default barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMembarrier;

impl std::fmt::Display for NoMembarrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the kernel has no private expedited membarrier (Linux 4.14)")
    }
}

impl std::error::Error for NoMembarrier {}

impl Membarrier {
    /// Registers the process; doing so again changes nothing.
    ///
    /// # Errors
    /// If the kernel does not have it.
    pub fn register() -> Result<Self, NoMembarrier> {
        membarrier(MembarrierCommand::RegisterPrivateExpedited)
            .and_then(|()| membarrier(MembarrierCommand::PrivateExpedited))
            .map(|()| Self(()))
            .map_err(|_| NoMembarrier)
    }
}

impl FramePlatform for Membarrier {
    const ASYMMETRIC: bool = true;

    /// Some microseconds: an interrupt on each CPU that runs a thread of the process.
    ///
    /// Ends the process if the kernel refuses what it granted when the process was registered: a
    /// seccomp filter that was installed later does that. To go on would hand out one frame twice,
    /// since the frequent sides have no fence of their own, and no other call of Linux is by
    /// contract a barrier on all CPUs. A panic would unwind through an allocator. A program that
    /// sandboxes itself must allow membarrier(2), or use a platform with the default barrier.
    fn barrier_all(&self) {
        if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            end_without_barrier();
        }
    }
}

/// The message before the process ends.
const REFUSED: &str = "framewright: membarrier(2) is refused since the process registered for it (a seccomp \
                       filter?): ending the process, because memory would be handed out twice\n";

/// Allocates nothing: it may be called inside the global allocator.
#[cold]
fn end_without_barrier() -> ! {
    let _ = std::io::stderr().write_all(REFUSED.as_bytes());
    std::process::abort()
}

/// The platform of one [`Host`](crate::Host): waiting, clock, slots, and the barrier `B`.
///
/// Threads that wait for one another use the same value or clones of it: a thread sleeps where the
/// others wake it.
#[derive(Clone, Debug)]
pub struct Linux<B = Membarrier> {
    barrier: B,
    slots: Slots,
    /// A wait may be over.
    over: Arc<WaitEvent>,
}

impl Linux<Membarrier> {
    /// A platform for the threads of `slots`, with membarrier.
    ///
    /// # Errors
    /// If the kernel does not have it.
    pub fn new(slots: Slots) -> Result<Self, NoMembarrier> {
        Ok(Self::with(Membarrier::register()?, slots))
    }
}

impl Linux<()> {
    /// A platform for the threads of `slots` that needs no feature of the kernel, at about 10 ns
    /// more for each operation of the engine.
    #[must_use]
    pub fn fenced(slots: Slots) -> Self {
        Self::with((), slots)
    }
}

impl<B> Linux<B> {
    fn with(barrier: B, slots: Slots) -> Self {
        Self {
            barrier,
            slots,
            over: Arc::default(),
        }
    }

    /// The threads' slots.
    #[must_use]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }
}

/// Attempts that spin, 2^n hints each: together 255, some microseconds. That is about the cost of
/// giving the CPU away and getting it back.
const SPINS: u32 = 8;

/// Attempts that give the CPU away after that. As many as it takes for the threads in the same
/// queue for a CPU to run once; they do not let a thread of lower priority than the caller's run.
const YIELDS: u32 = 32;

/// The attempts after those sleep until they are woken, first for this long at most, and then twice
/// as long each time,
const SLEEP_MIN: Duration = Duration::from_micros(16);
/// up to this: so much longer than necessary a wait may last if it misses its wake.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// How long an attempt sleeps at most.
fn sleep_of(attempt: u32) -> Option<Duration> {
    let nth = attempt.checked_sub(SPINS + YIELDS)?;
    Some(SLEEP_MIN.saturating_mul(1 << nth.min(6)).min(SLEEP_MAX))
}

impl<B: FramePlatform> FramePlatform for Linux<B> {
    const ASYMMETRIC: bool = B::ASYMMETRIC;

    fn relax(&self, attempt: u32) {
        if attempt < SPINS {
            (0..1u32 << attempt).for_each(|_| std::hint::spin_loop());
        } else if let Some(sleep) = sleep_of(attempt) {
            self.over.sleep(sleep);
        } else {
            std::thread::yield_now();
        }
    }

    fn wake(&self) {
        self.over.tell_sleepers();
    }

    fn barrier_all(&self) {
        self.barrier.barrier_all();
    }

    /// CLOCK_MONOTONIC, as in traces of the kernel with the clock `mono`.
    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    #[test]
    fn a_wait_that_lasts_sleeps_and_never_longer_than_a_millisecond() {
        let last_that_yields = SPINS + YIELDS - 1;
        assert_eq!(sleep_of(0), None);
        assert_eq!(sleep_of(last_that_yields), None);
        assert_eq!(sleep_of(last_that_yields + 1), Some(SLEEP_MIN));
        let slept: Vec<_> = (0..100).filter_map(sleep_of).collect();
        assert!(slept.is_sorted() && slept.last() == Some(&SLEEP_MAX));
        assert_eq!(sleep_of(u32::MAX), Some(SLEEP_MAX));
        let linux = Linux::fenced(Slots::new(1));
        let start = linux.now_ns();
        linux.relax(u32::MAX);
        assert!(linux.now_ns() - start >= 1_000_000);
    }

    #[test]
    fn a_barrier_that_is_refused_ends_the_process_with_a_message_and_does_not_unwind() {
        use std::os::unix::process::ExitStatusExt;
        const CHILD: &str = "FRAMEWRIGHT_TEST_NO_BARRIER";
        if std::env::var_os(CHILD).is_some() {
            let caught = std::panic::catch_unwind(|| {
                end_without_barrier();
            });
            std::process::exit(i32::from(caught.is_err()));
        }
        let name = "a_barrier_that_is_refused_ends_the_process_with_a_message_and_does_not_unwind";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                &format!("platform::tests::{name}"),
                "--exact",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(6), "SIGABRT");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("membarrier(2) is refused"), "{said}");
    }

    #[test]
    fn the_clock_never_goes_back_and_does_go_on() {
        let linux = Linux::fenced(Slots::new(1));
        let start = linux.now_ns();
        let mut last = start;
        while last < start + 1_000_000 {
            let now = linux.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    /// Store buffering: without a barrier on the other thread, both may read 0 (on x86 within a few
    /// thousand rounds). Whether they do is the hardware's choice, so only the sound outcome is
    /// asserted.
    #[test]
    fn membarrier_orders_the_other_threads_plain_accesses() {
        let Ok(barrier) = Membarrier::register() else {
            eprintln!("skipped: {NoMembarrier}");
            return;
        };
        let linux = Linux::fenced(Slots::new(2));
        let wait_for = |word: &AtomicU64, value: u64| {
            let mut attempt = 0;
            while word.load(Ordering::Acquire) != value {
                linux.relax(attempt);
                attempt += 1;
            }
        };
        let words: [AtomicU64; 4] = Default::default();
        let [busy, claimed, started, done] = &words;
        let saw_no_claim = AtomicBool::new(false);
        const ROUNDS: u64 = 1000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    wait_for(started, round);
                    busy.store(round, Ordering::Relaxed);
                    std::sync::atomic::compiler_fence(Ordering::SeqCst);
                    let none = claimed.load(Ordering::Relaxed) < round;
                    saw_no_claim.store(none, Ordering::Relaxed);
                    done.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                started.store(round, Ordering::Release);
                claimed.store(round, Ordering::Relaxed);
                barrier.barrier_all();
                let saw_no_busy = busy.load(Ordering::Relaxed) < round;
                wait_for(done, round);
                let both = saw_no_busy && saw_no_claim.load(Ordering::Relaxed);
                assert!(!both, "round {round}: neither saw the other");
            }
        });
    }
}
