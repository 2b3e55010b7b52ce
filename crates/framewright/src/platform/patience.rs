//! How long a CPU waits for others in its way.

use super::FramePlatform;
use crate::sync::{Lock, LockGuard};

/// How long a CPU waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// As long as it takes.
    Endless,
    /// For this many more calls of the platform.
    Rounds(u32),
}

impl Patience {
    /// Takes one call of the platform from what is left; `false` if there is none.
    pub(crate) const fn spend(&mut self) -> bool {
        if let Self::Rounds(left) = self {
            let Some(less) = left.checked_sub(1) else {
                return false;
            };
            *left = less;
        }
        true
    }

    /// Waits once more; `false` if no patience is left.
    pub(crate) fn wait(&mut self, platform: &impl FramePlatform, attempt: u32) -> bool {
        let waits = self.spend();
        if waits {
            platform.relax(attempt);
        }
        waits
    }

    /// Takes a lock, unless its holder keeps it for longer than the patience lasts; and whether the lock was
    /// found taken. It waits by calls of `relax`.
    pub(crate) fn lock<'m>(
        &mut self,
        lock: Lock<'m>,
        relax: impl Fn(u32),
    ) -> Option<(LockGuard<'m>, bool)> {
        let mut attempt = 0;
        loop {
            // A look first, as `Lock::lock` has it.
            if !lock.is_locked()
                && let Some(guard) = lock.try_lock()
            {
                return Some((guard, attempt > 0));
            }
            if !self.spend() {
                return None;
            }
            relax(attempt);
            attempt = attempt.saturating_add(1);
        }
    }
}
