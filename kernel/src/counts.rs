//! Counters.

use crate::arch::cpu::instructions::time_stamp;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often the platform was called.
pub static COUNTS: Counts = Counts::new();

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
    pub zeroed_words: Count,
    pub metadata_pages: Count,
    /// The page tables that came before the engine.
    pub boot_tables: Count,
    /// When interrupts went off last, and for how long they were at most.
    span_start: AtomicU64,
    pub span_longest: AtomicU64,
}

impl Counts {
    pub const fn new() -> Self {
        Self {
            maps: Count::new(),
            unmaps: Count::new(),
            flushes: Count::new(),
            barriers: Count::new(),
            zeroed_words: Count::new(),
            metadata_pages: Count::new(),
            boot_tables: Count::new(),
            span_start: AtomicU64::new(0),
            span_longest: AtomicU64::new(0),
        }
    }

    /// A span without interrupts begins. On one CPU.
    #[inline]
    pub fn begin_span(&self) {
        self.span_start.store(time_stamp(), Relaxed);
    }

    /// It ends.
    #[inline]
    pub fn end_span(&self) {
        let ticks = time_stamp() - self.span_start.load(Relaxed);
        self.span_longest.fetch_max(ticks, Relaxed);
    }
}
