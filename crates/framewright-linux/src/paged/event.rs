use rustix::thread::futex::{Flags, wait, wake};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

/// Something that happens again and again, and that a signal handler may wait for: a word and a system
/// call.
///
/// Who waits looks at [`now`](Self::now) first, then at what he waits for, and then waits with what he saw:
/// if it happened in between he goes on at once.
#[derive(Debug, Default)]
pub(super) struct Event {
    times: AtomicU32,
    waiting: AtomicU32,
}

impl Event {
    /// How often it happened, modulo 2^32: who sleeps between this and [`wait`](Self::wait) for just so many times waits until
    /// it wakes by itself.
    pub(super) fn now(&self) -> u32 {
        self.times.load(SeqCst)
    }

    /// It happens: all who wait go on.
    pub(super) fn tell(&self) {
        // SeqCst with `wait`: either he is counted here, or he sees the new number.
        self.times.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) != 0 {
            let _ = wake(&self.times, Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Waits until it has happened once more than `seen`, or for no reason: ten seconds at most.
    pub(super) fn wait(&self, seen: u32) {
        self.waiting.fetch_add(1, SeqCst);
        // An error says that the number is another one already, or a signal came.
        let most = rustix::thread::Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        let _ = wait(&self.times, Flags::PRIVATE, seen, Some(&most));
        self.waiting.fetch_sub(1, Relaxed);
    }
}
