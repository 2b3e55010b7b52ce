//! The platform of a space: page tables by a [`Window`]. `direct` adds what objects ask.

use super::Linux;
use super::copy::Copying;
use crate::Membarrier;
use crate::window::Window;
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::{Page, PageAccess, PageRange, Run};
use std::sync::Arc;

/// The platform of a space: [`Linux`] for waiting, barriers, clock and slots, and a [`Window`] with
/// page tables of the kernel's.
#[derive(Clone, Debug)]
pub struct Windowed<B = Membarrier> {
    linux: Linux<B>,
    window: Arc<Window>,
    pub(super) copying: Copying,
}

impl<B> Windowed<B> {
    /// The two together.
    #[must_use]
    pub fn new(linux: Linux<B>, window: Arc<Window>) -> Self {
        Self {
            linux,
            window,
            copying: Copying::detect(),
        }
    }

    /// Clock and slots.
    #[must_use]
    pub const fn linux(&self) -> &Linux<B> {
        &self.linux
    }

    /// The window.
    #[must_use]
    pub const fn window(&self) -> &Arc<Window> {
        &self.window
    }
}

impl<B: FramePlatform> FramePlatform for Windowed<B> {
    const ASYMMETRIC: bool = Linux::<B>::ASYMMETRIC;
    const ALONE: bool = Linux::<B>::ALONE;

    fn relax(&self, attempt: u32) {
        self.linux.relax(attempt);
    }

    fn wake(&self) {
        self.linux.wake();
    }

    fn barrier_all(&self) {
        self.linux.barrier_all();
    }

    fn now_ns(&self) -> u64 {
        self.linux.now_ns()
    }
}

impl<B: FramePlatform> RangePlatform for Windowed<B> {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.window.map(at, frames, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.window.unmap(range)
    }

    fn flush_all(&self) {
        self.window.flush_all();
    }

    fn zero(&self, frames: Run) {
        self.window.zero(frames);
    }
}
