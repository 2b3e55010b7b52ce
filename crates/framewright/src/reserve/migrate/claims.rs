//! What a request of an owner's holds while it is served: dropping it gives that up.
//!
//! Giving up takes no lock: a wait could unwind, and no later call would make up for it. So bits and counts that
//! some CPU chooses by, under the claims' lock, change by atomic exchanges.

use super::{FrameBits, MigrateArea};
use crate::platform::FramePlatform;
use crate::reserve::reservations::ReservationEntry;
use crate::stats::ContigStats;
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
        self.0.own.at_work.fetch_sub(1, Relaxed);
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
        self.area.set(FrameBits::Owned, &ids, true);
        self.area.run_of_ids(&ids)
    }
}

impl<P: FramePlatform> Drop for ClaimedFrames<'_, '_, '_, '_, P> {
    fn drop(&mut self) {
        self.area.set(FrameBits::Claimed, &self.ids, false);
    }
}

impl<'z, 'm, P: FramePlatform> MigrateArea<'_, 'z, 'm, P> {
    /// The frames are free: their owner has them no longer.
    pub(super) fn released(&self, ids: &Range<usize>, reservation: Option<ReservationEntry<'_>>) {
        if let Some(reservation) = reservation {
            reservation.set_taken(false);
        }
        self.set(FrameBits::Claimed, ids, false);
        self.count(&ContigStats {
            release_pages_success: ids.len() as u64,
            ..ContigStats::default()
        });
    }
}
