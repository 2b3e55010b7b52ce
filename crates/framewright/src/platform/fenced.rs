//! Waiting and barriers by means that every CPU has.

use super::{Barrier, Relax};
use crate::sync::{Ordering, fence};

/// Waiting and barriers by means that every CPU has: a spin hint and a full fence. For several CPUs
/// on a platform without a barrier that acts on all of them; models use it too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fenced;

impl Relax for Fenced {
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
}

impl Barrier for Fenced {
    const ASYMMETRIC: bool = false;

    fn barrier_all(&self) {
        fence(Ordering::SeqCst);
    }
}
