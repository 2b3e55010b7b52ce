//! A lock that counts itself. The document blames global locks, so each lock of the baseline says how often it was
//! taken, how often a thread waited for it, and how long it was held.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// The hold of one acquisition in this many is timed: two readings of the clock take as long as a short
/// hold.
const TIMED_EVERY: u64 = 16;

/// What a lock has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockCount {
    /// The lock's name.
    pub name: &'static str,
    /// Times it was taken.
    pub acquisitions: u64,
    /// Of those, the times that another thread held it.
    pub contended: u64,
    /// The longest hold that was timed.
    pub hold_ns_max: u64,
    /// How long threads waited in all; 0 for a lock that does not tell.
    pub waited_ns: u64,
}

impl LockCount {
    /// Adds what another lock of the same name, or the same one later, has counted.
    pub fn add(&mut self, other: &Self) {
        self.acquisitions += other.acquisitions;
        self.contended += other.contended;
        self.waited_ns += other.waited_ns;
        self.hold_ns_max = self.hold_ns_max.max(other.hold_ns_max);
    }
}

/// A lock that counts how often threads take it and how often they wait for it. It times one hold in
/// sixteen.
#[derive(Debug)]
pub struct CountedLock<T> {
    value: Mutex<T>,
    name: &'static str,
    acquisitions: AtomicU64,
    contended: AtomicU64,
    hold_ns_max: AtomicU64,
    waited_ns: AtomicU64,
}

/// The lock, held.
#[derive(Debug)]
pub struct HeldLock<'l, T> {
    value: MutexGuard<'l, T>,
    since: Option<Instant>,
    hold_ns_max: &'l AtomicU64,
}

impl<T> CountedLock<T> {
    pub(super) const fn new(name: &'static str, value: T) -> Self {
        Self {
            value: Mutex::new(value),
            name,
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            hold_ns_max: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    /// Waits for it.
    pub fn lock(&self) -> HeldLock<'_, T> {
        self.lock_or_say().0
    }

    /// Waits for it; whether it had to.
    pub(super) fn lock_or_say(&self) -> (HeldLock<'_, T>, bool) {
        let (value, waited) = match self.value.try_lock() {
            Ok(value) => (value, false),
            Err(TryLockError::Poisoned(poisoned)) => (poisoned.into_inner(), false),
            Err(TryLockError::WouldBlock) => {
                self.contended.fetch_add(1, Relaxed);
                let since = Instant::now();
                // A thread that panicked under the lock has failed its run already.
                let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
                self.waited_ns.fetch_add(nanoseconds(since), Relaxed);
                (value, true)
            }
        };
        // Only the holder counts here, so a plain addition loses nothing.
        let nth = self.acquisitions.load(Relaxed);
        self.acquisitions.store(nth + 1, Relaxed);
        let held = HeldLock {
            value,
            since: nth.is_multiple_of(TIMED_EVERY).then(Instant::now),
            hold_ns_max: &self.hold_ns_max,
        };
        (held, waited)
    }

    /// What it counted so far.
    pub fn count(&self) -> LockCount {
        LockCount {
            name: self.name,
            acquisitions: self.acquisitions.load(Relaxed),
            contended: self.contended.load(Relaxed),
            hold_ns_max: self.hold_ns_max.load(Relaxed),
            waited_ns: self.waited_ns.load(Relaxed),
        }
    }
}

impl<T> Deref for HeldLock<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for HeldLock<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for HeldLock<'_, T> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.hold_ns_max.fetch_max(nanoseconds(since), Relaxed);
        }
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_counts_takers_and_those_that_had_to_wait() {
        let lock = CountedLock::new("x", 0);
        *lock.lock() += 1;
        std::thread::scope(|scope| {
            let held = lock.lock();
            let other = scope.spawn(|| lock.lock_or_say().1);
            while lock.count().contended == 0 {
                std::thread::yield_now();
            }
            drop(held);
            assert!(other.join().unwrap());
        });
        let count = lock.count();
        assert_eq!(
            (count.name, count.acquisitions, count.contended),
            ("x", 3, 1)
        );
        let mut sum = count;
        sum.add(&count);
        assert_eq!((sum.acquisitions, sum.contended), (6, 2));
    }

    #[test]
    fn the_longest_timed_hold_is_kept() {
        let lock = CountedLock::new("x", ());
        let held = lock.lock();
        std::thread::sleep(std::time::Duration::from_millis(2));
        drop(held);
        drop(lock.lock());
        assert!(lock.count().hold_ns_max >= 2_000_000);
    }
}
