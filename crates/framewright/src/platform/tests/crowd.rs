//! A platform for tests in which many requests wait while all CPUs stand still.

extern crate std;
use super::FramePlatform;
use std::collections::BTreeSet;
use std::string::String;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// A stop goes on only when that many other CPUs have waited: for its lock, or for their seats. So the first stop serves
/// requests that came at once; those of later ones wait no longer for each other.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    expected: AtomicUsize,
    /// The threads that have waited since others are expected.
    waited: Mutex<BTreeSet<String>>,
}

impl Crowd {
    /// Expects so many others from now on.
    pub(crate) fn expect(&self, others: u16) {
        self.waited.lock().unwrap().clear();
        self.expected.store(others.into(), Relaxed);
    }
}

impl FramePlatform for Crowd {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        if attempt == 0 {
            let thread = std::format!("{:?}", thread::current().id());
            self.waited.lock().unwrap().insert(thread);
        }
        thread::yield_now();
    }

    fn barrier_all(&self) {
        ().barrier_all();
        while self.waited.lock().unwrap().len() < self.expected.load(Relaxed) {
            thread::yield_now();
        }
    }
}
