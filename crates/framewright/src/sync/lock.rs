//! A spin lock in one word of metadata.

use super::{AtomicU64, Ordering};

/// A spin lock in one word of metadata. It guards no value of its own: it protects other words,
/// accessed with `Relaxed` operations while it is held.
///
/// 0 is unlocked, 1 locked; a zeroed word is an unlocked lock. Not fair and not recursive. The users rank their
/// locks. The header of `platform` lists what the engine calls under one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock<'m> {
    word: &'m AtomicU64,
}

impl<'m> Lock<'m> {
    /// The lock in `word`.
    #[must_use]
    pub(crate) fn new(word: &'m AtomicU64) -> Self {
        Self { word }
    }

    /// Locks, calling `relax` with the number of the attempt (from 0) each time it finds the lock
    /// taken.
    ///
    /// Time: one compare-and-swap when uncontended.
    #[inline]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn lock(self, relax: impl Fn(u32)) -> LockGuard<'m> {
        self.lock_and_tell(relax).0
    }

    /// The same; also returns whether it was found taken.
    #[inline]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn lock_and_tell(self, relax: impl Fn(u32)) -> (LockGuard<'m>, bool) {
        if let Some(guard) = self.try_lock() {
            return (guard, false);
        }
        (self.wait(relax), true)
    }

    #[cfg_attr(lines, track_caller)]
    fn wait(self, relax: impl Fn(u32)) -> LockGuard<'m> {
        let mut attempt = 0u32;
        loop {
            // Spin on a load: a failed compare-and-swap would take the line from the holder.
            while self.word.load(Ordering::Relaxed) != 0 {
                relax(attempt);
                attempt = attempt.saturating_add(1);
            }
            if let Some(guard) = self.try_lock() {
                return guard;
            }
        }
    }

    /// Locks if it is free.
    #[inline]
    #[must_use]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn try_lock(self) -> Option<LockGuard<'m>> {
        // Acquire pairs with the Release in `LockGuard::drop`.
        self.word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| LockGuard { word: self.word })
    }

    /// Whether it is held now; stale as soon as it is returned.
    #[must_use]
    pub(crate) fn is_locked(self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }
}

/// Proof that a [`Lock`] is held; unlocks when dropped.
#[derive(Debug)]
#[must_use = "the lock is given up when the guard is dropped"]
pub(crate) struct LockGuard<'m> {
    word: &'m AtomicU64,
}

impl Drop for LockGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: the next Acquire in `try_lock` sees what was written under the lock.
        self.word.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_its_guard_is_dropped() {
        let word = AtomicU64::new(0);
        let lock = Lock::new(&word);
        let guard = lock.lock(|_| panic!("free lock"));
        assert!(lock.is_locked() && lock.try_lock().is_none());
        drop(guard);
        assert!(!lock.is_locked() && lock.try_lock().is_some());
    }

    #[test]
    fn a_waiter_relaxes_with_growing_attempts() {
        let word = AtomicU64::new(1);
        let calls = core::cell::Cell::new(0);
        let guard = Lock::new(&word).lock(|attempt| {
            assert_eq!(attempt, calls.get());
            calls.set(attempt + 1);
            if attempt == 3 {
                word.store(0, Ordering::Release);
            }
        });
        assert_eq!(calls.get(), 4);
        drop(guard);
    }
}
