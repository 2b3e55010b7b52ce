//! A platform for tests in which many requests wait while all CPUs stand still.

extern crate std;
use super::{FramePlatform, MapError, ObjectPlatform, RangePlatform};
use crate::units::{Addr, Context, Page, PageRange, Run};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// A stop goes on only when that many other CPUs wait: for its lock, or for their seats.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    expected: AtomicU64,
    waiting: AtomicU64,
}

impl Crowd {
    /// Expects so many others from now on.
    pub(crate) fn expect(&self, others: u16) {
        self.waiting.store(0, Relaxed);
        self.expected.store(others.into(), Relaxed);
    }
}

impl FramePlatform for Crowd {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        if attempt == 0 {
            self.waiting.fetch_add(1, Relaxed);
        }
        thread::yield_now();
    }

    fn barrier_all(&self) {
        ().barrier_all();
        while self.waiting.load(Relaxed) < self.expected.load(Relaxed) {
            thread::yield_now();
        }
    }
}

impl RangePlatform for Crowd {
    fn map(&self, _at: Page, _frames: Run, _context: Context) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for Crowd {
    fn direct_base(&self) -> Addr {
        Addr(1 << 40)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}
