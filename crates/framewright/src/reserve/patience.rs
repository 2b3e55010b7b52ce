//! How long an owner waits for whoever is in its way.

use crate::platform::Relax;

/// How long an owner waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// As long as it takes.
    Endless,
    /// For so many calls of the platform more.
    Rounds(u32),
}

impl Patience {
    /// Waits once more; `false` if it is at its end.
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
