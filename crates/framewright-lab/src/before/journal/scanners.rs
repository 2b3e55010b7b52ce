//! What attempts at compaction leave to the next ones: where the scanners were, which pageblocks gave nothing, and the
//! back-off after failures.

use super::PAGEBLOCK;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// After this many failures in a row the back-off grows no more: one attempt in 2^6.
const DEFER_SHIFT_MAX: u32 = 6;

/// Where the scanners were, and when to try again. As in Linux no lock guards it: an attempt that
/// reads an old value scans a little more or less.
#[derive(Debug)]
pub(super) struct JournalScanners {
    /// Of requests, and of the background.
    pub(super) migrate: [AtomicU32; 2],
    pub(super) free: AtomicU32,
    /// By pageblock: nothing was found there.
    pub(super) skip: Box<[AtomicBool]>,
    /// The next time the background goes to sleep the hints are dropped.
    pub(super) flush: AtomicBool,
    pub(super) considered: AtomicU32,
    pub(super) shift: AtomicU32,
}

impl JournalScanners {
    pub(super) fn new(frames: u32) -> Self {
        Self {
            migrate: [const { AtomicU32::new(0) }; 2],
            free: AtomicU32::new(frames - PAGEBLOCK),
            skip: (0..frames / PAGEBLOCK)
                .map(|_| AtomicBool::new(false))
                .collect(),
            flush: AtomicBool::new(false),
            considered: AtomicU32::new(0),
            shift: AtomicU32::new(0),
        }
    }

    pub(super) fn skips(&self, pageblock: u32) -> bool {
        self.skip[(pageblock / PAGEBLOCK) as usize].load(Relaxed)
    }

    pub(super) fn set_skip(&self, pageblock: u32) {
        self.skip[(pageblock / PAGEBLOCK) as usize].store(true, Relaxed);
    }

    pub(super) fn forget_hints(&self) {
        self.flush.store(false, Relaxed);
        self.skip.iter().for_each(|hint| hint.store(false, Relaxed));
        self.begin_at_the_bottom();
        self.free
            .store(self.skip.len() as u32 * PAGEBLOCK - PAGEBLOCK, Relaxed);
    }

    pub(super) fn begin_at_the_bottom(&self) {
        self.migrate.iter().for_each(|at| at.store(0, Relaxed));
    }

    /// The background goes to sleep: what a whole scan left behind is dropped.
    pub(super) fn asleep(&self) {
        if self.flush.load(Relaxed) {
            self.forget_hints();
        }
    }

    /// Whether this attempt is one of those that the back-off passes over.
    pub(super) fn is_deferred(&self) -> bool {
        let limit = 1 << self.shift.load(Relaxed);
        let considered = self.considered.load(Relaxed) + 1;
        self.considered.store(considered.min(limit), Relaxed);
        considered < limit
    }

    /// An attempt of the background failed: twice as many are passed over.
    pub(super) fn defer(&self) {
        let shift = self.shift.load(Relaxed) + 1;
        self.considered.store(0, Relaxed);
        self.shift.store(shift.min(DEFER_SHIFT_MAX), Relaxed);
    }

    /// A block came of it.
    pub(super) fn succeeded(&self) {
        self.considered.store(0, Relaxed);
        self.shift.store(0, Relaxed);
    }

    /// Whether the back-off has just ended, at its longest.
    pub(super) fn restarts(&self) -> bool {
        let shift = self.shift.load(Relaxed);
        shift == DEFER_SHIFT_MAX && self.considered.load(Relaxed) >= 1 << shift
    }
}
