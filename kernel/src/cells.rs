//! A static that is set once, and counters.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// A value that one CPU sets at boot, before others read it.
pub struct Once<T>(AtomicBool, UnsafeCell<Option<T>>);

// SAFETY: it is written once, before the flag is set, and only read afterwards.
unsafe impl<T: Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub const fn new() -> Self {
        Self(AtomicBool::new(false), UnsafeCell::new(None))
    }

    pub fn set(&self, value: T) {
        // SAFETY: one CPU runs, and no reference exists before the flag is set.
        unsafe { *self.1.get() = Some(value) };
        assert!(!self.0.swap(true, Release));
    }

    pub fn get(&self) -> Option<&T> {
        // SAFETY: behind the flag nothing writes.
        self.0
            .load(Acquire)
            .then(|| unsafe { (*self.1.get()).as_ref().unwrap_unchecked() })
    }
}

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
