//! Threads wait here for a change that any number of them may see: [`gate`](crate::gate) is for what one thread
//! holds. Neither allocates, because signal handlers use both.

use rustix::thread::Timespec;
use rustix::thread::futex::{Flags, wait, wake};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

/// The longest wait with a number.
const LONG: Duration = Duration::from_secs(10);

/// An event that happens again and again, and that a signal handler may wait for: a word and a
/// system call.
///
/// A thread that waits first looks at [`now`](Self::now), then at its condition, and then waits
/// with that number: if the event happened in between, it goes on at once. A thread that cannot keep
/// the number [sleeps](Self::sleep) for a bounded time.
#[derive(Debug, Default)]
pub(crate) struct WaitEvent {
    times: AtomicU32,
    waiting: AtomicU32,
}

impl WaitEvent {
    /// How often it happened, modulo 2^32. A thread that sleeps between this and
    /// [`wait`](Self::wait) for exactly that many events waits until it wakes by itself.
    pub(crate) fn now(&self) -> u32 {
        self.times.load(SeqCst)
    }

    /// Reports the event: all threads that wait go on.
    pub(crate) fn tell(&self) {
        // SeqCst with `wait`: either the waiting thread is counted here, or it sees the new number.
        self.times.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) != 0 {
            let _ = wake(&self.times, Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// The same for threads that sleep, at the cost of one load if none does. It may miss a thread that
    /// is about to sleep.
    #[inline]
    pub(crate) fn tell_sleepers(&self) {
        if self.waiting.load(Relaxed) != 0 {
            self.tell();
        }
    }

    /// Waits until it has happened once more than `seen`, or wakes for no reason, after ten seconds
    /// at most.
    pub(crate) fn wait(&self, seen: u32) {
        self.waiting.fetch_add(1, SeqCst);
        self.wait_counted(seen, LONG);
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Sleeps until it happens, or wakes for no reason, after `most` at the latest. It does not see what
    /// happened before the call.
    pub(crate) fn sleep(&self, most: Duration) {
        self.waiting.fetch_add(1, SeqCst);
        self.wait_counted(self.now(), most);
        self.waiting.fetch_sub(1, Relaxed);
    }

    fn wait_counted(&self, seen: u32, most: Duration) {
        let most = Timespec {
            tv_sec: most.as_secs() as _,
            tv_nsec: most.subsec_nanos() as _,
        };
        // An error means that the number has changed already, the time is over, or a signal came.
        let _ = wait(&self.times, Flags::PRIVATE, seen, Some(&most));
    }
}
