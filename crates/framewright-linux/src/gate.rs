//! The gate of a region, where a page's frame is about to change. It is this crate's only lock that code in a signal
//! handler waits for, so no lock of the standard library will do.

// UNSAFETY: of the unit tests alone: their allocator, which is the system's.

use rustix::thread::futex::{Flags, wait, wake};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const OPEN: u32 = 0;
const SHUT: u32 = 1;
/// Shut, and a thread sleeps in front of it.
const AWAITED: u32 = 2;

/// A lock that a signal handler may wait for: a word and a system call, nothing of the language's.
///
/// A thread that changes what a region shows holds it; a thread that has touched a page meanwhile
/// waits until it is open.
///
/// No thread allocates with a gate shut: an allocator may ask reclaim, and reclaim the region, whose gate the thread
/// would then wait for itself. The unit tests' allocator counts where that is not so ([`allocs_with_a_gate_shut`]).
#[derive(Debug, Default)]
pub(crate) struct SignalGate {
    word: AtomicU32,
    /// How often a thread waited because of a touch.
    waits: AtomicU64,
}

impl SignalGate {
    /// Shuts the gate, after its holder has opened it.
    pub(crate) fn shut(&self) -> GateShut<'_> {
        // Acquire pairs with the Release of the last thread to open it, so its changes are seen.
        let mut taken = self.word.compare_exchange(OPEN, SHUT, Acquire, Relaxed);
        while taken.is_err() {
            // An open gate is now shut as if awaited: one wake too many, none too few.
            if self.word.swap(AWAITED, Acquire) == OPEN {
                taken = Ok(OPEN);
            } else {
                self.sleep();
            }
        }
        GateShut::new(self)
    }

    /// Shuts the gate if it is open.
    pub(crate) fn try_shut(&self) -> Option<GateShut<'_>> {
        let taken = self.word.compare_exchange(OPEN, SHUT, Acquire, Relaxed);
        // Not made unless the gate was taken: dropping it would open the gate.
        taken.is_ok().then(|| GateShut::new(self))
    }

    /// Waits while it is shut. Returns whether it was.
    pub(crate) fn wait(&self) -> bool {
        let mut waited = false;
        loop {
            let now = self.word.load(Acquire);
            if now == OPEN {
                return waited;
            }
            if !waited {
                self.waits.fetch_add(1, Relaxed);
                waited = true;
            }
            if now == SHUT {
                // A failure means that it has changed: looks again.
                let _ = self.word.compare_exchange(SHUT, AWAITED, Relaxed, Relaxed);
            } else {
                self.sleep();
            }
        }
    }

    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    /// Sleeps until it is opened, or wakes for no reason.
    fn sleep(&self) {
        let _ = wait(&self.word, Flags::PRIVATE, AWAITED, None);
    }
}

/// Keeps the gate shut while it lives.
#[derive(Debug)]
pub(crate) struct GateShut<'g>(&'g SignalGate);

impl<'g> GateShut<'g> {
    fn new(gate: &'g SignalGate) -> Self {
        #[cfg(test)]
        watch::GATES.set(watch::GATES.get() + 1);
        Self(gate)
    }
}

impl Drop for GateShut<'_> {
    fn drop(&mut self) {
        #[cfg(test)]
        watch::GATES.set(watch::GATES.get() - 1);
        // Release: see `shut`.
        if self.0.word.swap(OPEN, Release) == AWAITED {
            let _ = wake(&self.0.word, Flags::PRIVATE, u32::MAX >> 1);
        }
    }
}

#[cfg(test)]
pub(crate) use watch::allocs_with_a_gate_shut;

/// The allocator of the unit tests: the system's, which notes the allocations with a gate shut.
#[cfg(test)]
mod watch {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        /// Gates that the thread has shut, and how often it allocated meanwhile.
        pub(super) static GATES: Cell<u64> = const { Cell::new(0) };
        static ALLOCS: Cell<u64> = const { Cell::new(0) };
    }

    /// How often the calling thread allocated with a gate shut.
    pub(crate) fn allocs_with_a_gate_shut() -> u64 {
        ALLOCS.get()
    }

    struct WatchedAlloc;

    #[global_allocator]
    static WATCHED: WatchedAlloc = WatchedAlloc;

    // SAFETY: all is the system's, and what is noted beside it allocates nothing.
    unsafe impl GlobalAlloc for WatchedAlloc {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCS.set(ALLOCS.get() + u64::from(GATES.get() != 0));
            // SAFETY: what the caller promised.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(at, layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_waits_goes_on_when_it_is_opened() {
        let gate = SignalGate::default();
        assert!(!gate.wait());
        let opened = AtomicBool::new(false);
        let shut = gate.shut();
        assert!(gate.try_shut().is_none());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    assert!(gate.wait());
                    assert!(opened.load(Relaxed));
                });
            }
            let begun = Instant::now();
            while gate.waits() < 2 && begun.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened.store(true, Relaxed);
            drop(shut);
        });
        assert_eq!(gate.waits(), 2);
        drop(gate.try_shut().unwrap());
    }

    #[test]
    fn one_at_a_time_has_it() {
        let gate = SignalGate::default();
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        let _shut = gate.shut();
                        let now = count.load(Relaxed);
                        count.store(now + 1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 15_000);
    }
}
