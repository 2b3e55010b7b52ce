//! How long an owner waits for guests and other owners in its way.

use crate::platform::Relax;

/// How long an owner waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// As long as it takes.
    Endless,
    /// For so many more calls of the platform.
    Rounds(u32),
}

impl Patience {
    /// Waits once more; `false` if no patience is left.
    pub(super) fn wait(&mut self, platform: &impl Relax, attempt: u32) -> bool {
        if let Self::Rounds(left) = self {
            let Some(less) = left.checked_sub(1) else {
                return false;
            };
            *left = less;
        }
        platform.relax(attempt);
        true
    }
}
