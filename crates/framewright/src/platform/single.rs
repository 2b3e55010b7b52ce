//! The platform of a program in which one thread at a time uses the engine.

use super::FramePlatform;
use core::cell::Cell;
use core::marker::PhantomData;

/// The platform of a program in which one thread at a time uses the engine: a replay, a boot
/// loader, an example. A clock that stands still, barriers that cost nothing.
///
/// It is not `Sync`, and so is no engine over it: the compiler refuses the second thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleThread(PhantomData<Cell<()>>);

impl SingleThread {
    /// The platform.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl FramePlatform for SingleThread {
    /// One thread sees its own accesses in order.
    const ASYMMETRIC: bool = true;

    /// The type is not `Sync`, so no engine over it is either.
    const ALONE: bool = true;

    /// No other thread could end a wait; this is called only if the engine waits for itself.
    fn relax(&self, _attempt: u32) {
        core::hint::spin_loop();
    }

    fn barrier_all(&self) {}

    fn now_ns(&self) -> u64 {
        0
    }
}
