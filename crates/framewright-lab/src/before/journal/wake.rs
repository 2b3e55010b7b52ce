//! The sleep of the background between two requests. A request must not pay for a lock when the background works
//! already, so a flag says whether it sleeps; a wake that comes a moment too early is lost, and the next request
//! repeats it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What the background sleeps on. A request that finds few free frames wakes it.
#[derive(Debug, Default)]
pub struct Wake {
    asked: Mutex<WakeAsked>,
    changed: Condvar,
    /// Whether it is worth taking the lock.
    sleeps: AtomicBool,
    wakes: AtomicU64,
}

#[derive(Debug, Default)]
struct WakeAsked {
    order: Option<usize>,
    ends: bool,
}

impl Wake {
    /// Wakes the background, if it sleeps, on behalf of a request of `order`.
    pub fn wake(&self, order: usize) {
        // Acquire pairs with the Release of `wait`. A request that looks a moment too early leaves
        // the background asleep; the next one wakes it.
        if !self.sleeps.load(Ordering::Acquire) {
            return;
        }
        self.sleeps.store(false, Ordering::Relaxed);
        let mut asked = self.locked();
        asked.order = asked.order.max(Some(order));
        drop(asked);
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Has [`wait`](Self::wait) say that it is over.
    pub fn end(&self) {
        self.locked().ends = true;
        self.changed.notify_all();
    }

    /// Sleeps until a request wakes the background. Returns the highest order asked for, or `None` at
    /// the end.
    pub fn wait(&self) -> Option<usize> {
        let mut asked = self.locked();
        loop {
            if asked.ends {
                return None;
            }
            if let Some(order) = asked.order.take() {
                return Some(order);
            }
            self.sleeps.store(true, Ordering::Release);
            asked = self
                .changed
                .wait(asked)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Times that it was woken.
    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    fn locked(&self) -> MutexGuard<'_, WakeAsked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken_for_the_highest_order_and_at_the_end() {
        let wake = Wake::default();
        wake.wake(4);
        assert_eq!(wake.wakes(), 0, "no thread sleeps");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| [wake.wait(), wake.wait()]);
            while wake.wakes() == 0 {
                wake.wake(4);
                std::thread::yield_now();
            }
            wake.end();
            let got = sleeper.join().unwrap();
            assert_eq!(got[1], None);
            // The end may come before the sleeper has looked.
            assert!(matches!(got[0], Some(4) | None), "{got:?}");
        });
    }
}
