//! Waiting and barriers by means that every CPU has.

use super::FramePlatform;
use crate::sync::{Ordering, fence};

/// A platform without anything of its own. It waits by a spin hint, and its barrier is a full fence, which every CPU has:
/// for several CPUs without a barrier that acts on all of them. Models use it too.
impl FramePlatform for () {
    #[cfg(not(any(loom, shuttle)))]
    fn relax(&self, _attempt: u32) {
        core::hint::spin_loop();
    }

    /// A model must be told that this thread makes no progress until another one runs.
    #[cfg(loom)]
    fn relax(&self, _attempt: u32) {
        loom::thread::yield_now();
    }

    #[cfg(shuttle)]
    fn relax(&self, _attempt: u32) {
        shuttle::thread::yield_now();
    }

    fn barrier_all(&self) {
        fence(Ordering::SeqCst);
    }
}
