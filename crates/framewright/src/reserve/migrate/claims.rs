//! What a request of an owner's holds while it is served: dropping it gives that up.

use super::{FrameBits, MigrateArea};
use crate::platform::FramePlatform;
use crate::sync::Ordering::Relaxed;
use crate::units::Run;
use core::ops::Range;

/// A request that is being served. From the first one on, until none is at work, the area avoids
/// the frames that could not be emptied.
pub(super) struct AtWork<'a, 'r, 'z, 'm, P: FramePlatform>(
    pub(super) &'a MigrateArea<'r, 'z, 'm, P>,
);

impl<P: FramePlatform> Drop for AtWork<'_, '_, '_, '_, P> {
    fn drop(&mut self) {
        let _claims = self.0.lock_claims();
        let at_work = &self.0.own.at_work;
        at_work.store(at_work.load(Relaxed) - 1, Relaxed);
    }
}

/// Frames that are claimed while this lives, unless they become owned.
pub(super) struct ClaimedFrames<'a, 'r, 'z, 'm, P: FramePlatform> {
    pub(super) area: &'a MigrateArea<'r, 'z, 'm, P>,
    pub(super) ids: Range<usize>,
}

impl<P: FramePlatform> ClaimedFrames<'_, '_, '_, '_, P> {
    /// Makes them an owner's.
    pub(super) fn own(mut self) -> Run {
        let ids = core::mem::take(&mut self.ids);
        let _claims = self.area.lock_claims();
        self.area.set(FrameBits::Owned, &ids, true);
        self.area.run_of_ids(&ids)
    }
}

impl<P: FramePlatform> Drop for ClaimedFrames<'_, '_, '_, '_, P> {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            let _claims = self.area.lock_claims();
            self.area.set(FrameBits::Claimed, &self.ids, false);
        }
    }
}
