//! A counter that one CPU writes at a time.

use super::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use core::fmt;

/// A counter that one CPU writes at a time, with plain loads and stores; any CPU reads it.
#[repr(transparent)]
pub(crate) struct CounterWord(AtomicU64);

impl CounterWord {
    #[cfg(any(loom, shuttle))]
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Adds to it; wraps.
    #[inline(always)]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.read().wrapping_add(by), Relaxed);
    }

    #[inline(always)]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Counts what the CPU has just done: a CPU that reads this, and then has a fence that acquires, sees that, too.
    #[inline(always)]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn add_after(&self, by: u64) {
        self.0.store(self.read().wrapping_add(by), Release);
    }
}

impl fmt::Debug for CounterWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}
