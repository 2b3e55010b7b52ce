//! A board whose RAM is memory of this process. Nothing is ever mapped beside its direct map, so objects are contiguous
//! ones. For the tests of several crates.

use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::{Addr, Page, PageAccess, PageRange, Run};

/// By where its direct map begins.
#[derive(Clone, Copy)]
pub(crate) struct DirectBoard(pub(crate) u64);

impl FramePlatform for DirectBoard {}

impl RangePlatform for DirectBoard {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Err(MapError::NoMemory)
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, frames: Run) {
        self.zero_bytes(
            Addr(self.0 + frames.start().0 * 4096),
            frames.frames() * 4096,
        );
    }
}

impl ObjectPlatform for DirectBoard {
    fn direct_base(&self) -> Addr {
        Addr(self.0)
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        // SAFETY: the engine names bytes of its frames, which are this process's memory.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(at.0 as usize)
                .write_bytes(0, bytes as usize)
        };
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        let from = std::ptr::with_exposed_provenance::<u8>(from.0 as usize);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to.0 as usize);
        // SAFETY: as above, of two objects.
        unsafe { from.copy_to_nonoverlapping(to, bytes as usize) };
    }
}
