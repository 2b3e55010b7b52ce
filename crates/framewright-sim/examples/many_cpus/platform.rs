//! What the engine asks of the machine.

use crate::machine::{Loss, interrupt, now_ps, wait};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::{Addr, Page, PageAccess, PageRange, Run};

/// The machine of this thread. Page tables and contents are none of its own: a load's instructions have their work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManyCpusPlatform;

impl FramePlatform for ManyCpusPlatform {
    const ASYMMETRIC: bool = true;

    fn relax(&self, attempt: u32) {
        wait(attempt);
    }

    fn barrier_all(&self) {
        interrupt(Loss::Barrier);
    }

    fn now_ns(&self) -> u64 {
        now_ps() / 1000
    }
}

impl RangePlatform for ManyCpusPlatform {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {
        interrupt(Loss::Flush);
    }

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for ManyCpusPlatform {
    fn direct_base(&self) -> Addr {
        Addr(0xffff_8000_0000_0000)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}
