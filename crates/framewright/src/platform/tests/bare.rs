//! A platform for tests of ranges and objects whose pages and bytes no test looks at.

use crate::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use crate::units::{Addr, Page, PageAccess, PageRange, Run};

/// Nothing is mapped, and no byte is written. What frames need is `F`'s; the direct map begins at the address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarePlatform<F>(pub(crate) F, pub(crate) Addr);

impl<F: FramePlatform> FramePlatform for BarePlatform<F> {
    const ASYMMETRIC: bool = F::ASYMMETRIC;

    fn relax(&self, attempt: u32) {
        self.0.relax(attempt);
    }

    fn barrier_all(&self) {
        self.0.barrier_all();
    }
}

impl<F: FramePlatform> RangePlatform for BarePlatform<F> {
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

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl<F: FramePlatform> ObjectPlatform for BarePlatform<F> {
    fn direct_base(&self) -> Addr {
        self.1
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}
