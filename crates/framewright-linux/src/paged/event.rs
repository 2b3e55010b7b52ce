use rustix::thread::futex::{Flags, wait, wake};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

/// An event that happens again and again, and that a signal handler may wait for: a word and a
/// system call.
///
/// A thread that waits first looks at [`now`](Self::now), then at its condition, and then waits
/// with that number: if the event happened in between, it goes on at once.
#[derive(Debug, Default)]
pub(super) struct Event {
    times: AtomicU32,
    waiting: AtomicU32,
}

impl Event {
    /// How often it happened, modulo 2^32. A thread that sleeps between this and
    /// [`wait`](Self::wait) for exactly that many events waits until it wakes by itself.
    pub(super) fn now(&self) -> u32 {
        self.times.load(SeqCst)
    }

    /// Reports the event: all threads that wait go on.
    pub(super) fn tell(&self) {
        // SeqCst with `wait`: either the waiting thread is counted here, or it sees the new number.
        self.times.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) != 0 {
            let _ = wake(&self.times, Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Waits until it has happened once more than `seen`, or wakes for no reason, after ten seconds
    /// at most.
    pub(super) fn wait(&self, seen: u32) {
        self.waiting.fetch_add(1, SeqCst);
        // An error means that the number has changed already, or a signal came.
        let most = rustix::thread::Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        let _ = wait(&self.times, Flags::PRIVATE, seen, Some(&most));
        self.waiting.fetch_sub(1, Relaxed);
    }
}
