//! Wakes the CPUs that wait, at the end of what they wait for.

use super::FramePlatform;
use crate::sync::LockGuard;

/// Wakes those that wait ([`FramePlatform::wake`]) when it is dropped. It is the last field of what others wait
/// for, so that it is dropped after the other fields.
#[derive(Debug)]
pub(crate) struct Wakes<'p, P: FramePlatform>(pub(crate) &'p P);

impl<P: FramePlatform> Drop for Wakes<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// A lock that its holder keeps for a whole call. The holder wakes those that wait when it gives the lock
/// up.
#[derive(Debug)]
#[must_use = "the lock is given up when this is dropped"]
pub(crate) struct Awaited<'p, 'm, P: FramePlatform> {
    _lock: LockGuard<'m>,
    _wakes: Wakes<'p, P>,
}

impl<'p, 'm, P: FramePlatform> Awaited<'p, 'm, P> {
    pub(crate) const fn new(lock: LockGuard<'m>, platform: &'p P) -> Self {
        Self {
            _lock: lock,
            _wakes: Wakes(platform),
        }
    }
}
