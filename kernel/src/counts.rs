//! Counters.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that CPUs count up.
pub struct Count(AtomicU64);

impl Count {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How often the platform was called.
pub struct Counts {
    pub maps: Count,
    pub unmaps: Count,
    pub flushes: Count,
    pub barriers: Count,
    pub tables: Count,
    pub zeroed_words: Count,
    pub metadata_pages: Count,
}

impl Counts {
    pub const fn new() -> Self {
        Self {
            maps: Count::new(),
            unmaps: Count::new(),
            flushes: Count::new(),
            barriers: Count::new(),
            tables: Count::new(),
            zeroed_words: Count::new(),
            metadata_pages: Count::new(),
        }
    }
}
