//! A platform for tests in which one wait unwinds, while another thread has all CPUs stopped.

extern crate std;
use super::FramePlatform;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

/// The next stop stands still from its barrier on. The first wait of another thread unwinds then; at the second
/// one the stop goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene(Arc<AtomicU32>);

const ARMED: u32 = 1;
const STOPPED: u32 = 2;
const UNWOUND: u32 = 3;

impl Scene {
    pub(crate) fn arm(&self) {
        self.0.store(ARMED, SeqCst);
    }

    /// Waits for that, in the thread that stops.
    pub(crate) fn wait_until_armed(&self) {
        while self.0.load(SeqCst) != ARMED {
            thread::yield_now();
        }
    }

    pub(crate) fn wait_until_stopped(&self) {
        while self.0.load(SeqCst) != STOPPED {
            thread::yield_now();
        }
    }

    pub(crate) fn has_unwound(&self) -> bool {
        self.0.load(SeqCst) == UNWOUND
    }
}

impl FramePlatform for Scene {
    fn relax(&self, attempt: u32) {
        assert!(attempt < 1 << 23, "waits for itself");
        let unwinds = self.0.compare_exchange(STOPPED, UNWOUND, SeqCst, SeqCst);
        assert!(unwinds.is_err(), "the platform's wait");
        thread::yield_now();
    }

    fn barrier_all(&self) {
        ().barrier_all();
        let is_armed = self.0.compare_exchange(ARMED, STOPPED, SeqCst, SeqCst);
        while is_armed.is_ok() && !self.has_unwound() {
            thread::yield_now();
        }
    }
}
