//! A platform that maps nothing, for the experiments on virtual ranges.

use super::engine::{RAM_PAGES_MAX, SeatFrames};
use crate::experiment::{Failure, WINDOW_PAGES, WINDOW_START};
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::vrange::SpaceLayout;
use framewright::{CpuId, Frame, Page, PageAccess, PageRange, Run};
use framewright_linux::Membarrier;
use std::hint::black_box;

/// A platform that maps nothing: the address-space level alone. What the engine asks of it, the
/// engine counts.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiment) struct Null {
    barrier: Membarrier,
}

impl Null {
    /// # Errors
    /// If the kernel has no membarrier, and so the engine's frequent paths would be others.
    pub(in crate::experiment) fn new() -> Result<Self, Failure> {
        let barrier = Membarrier::register().map_err(Failure::new)?;
        Ok(Self { barrier })
    }

    /// A window of the usual length for `cpus` CPUs.
    pub(in crate::experiment) const fn layout(cpus: u16) -> SpaceLayout {
        SpaceLayout::new(WINDOW_START, WINDOW_PAGES).with_cpus(cpus)
    }
}

impl RangePlatform for Null {
    #[inline]
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        black_box((at, frames));
        Ok(())
    }

    #[inline]
    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        black_box(range);
        Ok(())
    }

    #[inline]
    fn flush_all(&self) {}

    fn zero(&self, frames: Run) {
        black_box(frames);
    }
}

/// Attempts that spin before the CPU is given away.
const SPINS: u32 = 8;

/// Waits for another thread: spins a moment, then lets it run.
pub(in crate::experiment) fn relax(attempt: u32) {
    if attempt < SPINS {
        (0..1u32 << attempt).for_each(|_| std::hint::spin_loop());
    } else {
        std::thread::yield_now();
    }
}

impl FramePlatform for Null {
    const ASYMMETRIC: bool = <Membarrier as FramePlatform>::ASYMMETRIC;

    fn relax(&self, attempt: u32) {
        relax(attempt);
    }

    fn barrier_all(&self) {
        self.barrier.barrier_all();
    }
}

/// No frames; `map_ram` is given numbers.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiment) struct NumberFrames;

impl SeatFrames for NumberFrames {
    type Source<'a> = ();

    fn source(&self, _cpu: CpuId) -> Result<(), Failure> {
        Ok(())
    }

    fn shown(&self, cpu: CpuId) -> Result<[Frame; RAM_PAGES_MAX], Failure> {
        let first = cpu.index() * RAM_PAGES_MAX;
        Ok(std::array::from_fn(|nth| Frame((first + nth) as u64)))
    }
}
