//! Supplies of ordinary frames for owners, beside the ground's own.

use super::super::Ground;
use super::PagePlace;
use framewright::frame::{AllocError, FrameSource};
use framewright::reserve::{Guest, Key};
use framewright::{Context, Run};

/// A supply of ordinary frames, with a guest: each time that the owner asks for a frame, the guest
/// invalidates a page, between two steps of the owner's.
pub(super) struct MeddlingSupply<'a, 'r, 'm, 'g> {
    pub(super) ground: &'g Ground,
    pub(super) guest: &'a mut Guest<'r, 'm, &'g Ground>,
    pub(super) keys: std::vec::IntoIter<(PagePlace, Key)>,
    pub(super) gone: Vec<PagePlace>,
}

impl FrameSource for MeddlingSupply<'_, '_, '_, '_> {
    fn origin(&self) -> u64 {
        self.ground.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.ground.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        if let Some((at, key)) = self.keys.next() {
            self.guest.invalidate_page(key);
            self.gone.push(at);
        }
        let mut ground = self.ground;
        ground.alloc_run(frames, context)
    }

    fn free_run(&mut self, run: Run) {
        let mut ground = self.ground;
        ground.free_run(run);
    }
}

/// A source whose frames have the numbers of the ground's.
pub(super) struct OtherSupply {
    pub(super) given: u64,
}

impl FrameSource for OtherSupply {
    fn origin(&self) -> u64 {
        1
    }

    fn frames_in_all(&self) -> u64 {
        u64::MAX
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, run: Run) {
        self.given += run.frames();
    }
}
