//! The machine for threads. Its lock makes no order that the engine may rely on: it is held for one call alone.

use super::{Paging, PoolFrames};
use framewright::frame::{AllocError, FrameSource};
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::{Context, CpuId, Page, PageAccess, PageRange, Run};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A [`Paging`] for several threads, behind a lock that the engine does not know.
///
/// It calls `pause` before each of its calls, and between the CPUs of one flush: a place where
/// other threads may go on.
#[derive(Debug)]
pub struct SharedPaging {
    paging: Mutex<Paging>,
    pause: fn(),
}

impl SharedPaging {
    /// That machine, with that pause.
    #[must_use]
    pub const fn new(paging: Paging, pause: fn()) -> Self {
        Self {
            paging: Mutex::new(paging),
            pause,
        }
    }

    /// Locks the machine for the caller alone.
    pub fn lock(&self) -> MutexGuard<'_, Paging> {
        self.paging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused(&self) -> MutexGuard<'_, Paging> {
        (self.pause)();
        self.lock()
    }
}

impl FramePlatform for SharedPaging {
    const ASYMMETRIC: bool = <() as FramePlatform>::ASYMMETRIC;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
        // The thread that it waits for may have no CPU.
        (self.pause)();
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for SharedPaging {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.paused().map(at, frames, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.paused().unmap(range)
    }

    fn flush_all(&self) {
        let cpus = self.lock().machine().cpus();
        for cpu in 0..cpus {
            self.paused().flush(CpuId(cpu));
        }
        (self.pause)();
    }

    fn zero(&self, frames: Run) {
        self.paused().zero(frames);
    }
}

/// The pool of a [`SharedPaging`]'s frames.
#[derive(Clone, Copy, Debug)]
pub struct SharedFrames<'p>(pub &'p SharedPaging);

impl FrameSource for SharedFrames<'_> {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(self.0).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        PoolFrames(&self.0.lock()).frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        PoolFrames(&self.0.paused()).alloc_run(frames, context)
    }

    fn slow_calls(&self) -> u64 {
        PoolFrames(&self.0.lock()).slow_calls()
    }

    fn free_run(&mut self, frames: Run) {
        PoolFrames(&self.0.paused()).free_run(frames);
    }
}
