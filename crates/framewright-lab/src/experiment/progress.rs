//! How far an experiment is: a counter that the work adds to and the command's thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far an experiment is, for the command's progress bar.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a>(&'a AtomicU64);

impl<'a> Progress<'a> {
    /// Counts steps there.
    #[must_use]
    pub const fn new(steps: &'a AtomicU64) -> Self {
        Self(steps)
    }

    pub(super) fn step(self) {
        // Shown to a person; nothing is ordered by it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
