//! Looks where the zone stands, wakes the background, and leaves off waking it after it gained
//! nothing.

use super::state::{Counter, Lack, LackRecord, Reclaim};
use crate::policy::{Targets, boosted};
use crate::sync::Ordering::{Relaxed, Release};
use crate::units::Mobility;

impl Lack {
    /// How often the time of leaving off is doubled. For frames up to 8 looks, so that the
    /// background learns how much clients hold before requests stall; for pageblocks as in
    /// compaction.
    fn shift_max(self, defer_shift_max: u8) -> u64 {
        match self {
            Self::Frames | Self::Ordinary | Self::Stock => u64::from(defer_shift_max).min(3),
            Self::Pageblocks => u64::from(defer_shift_max),
        }
    }
}

/// What a look at the zone saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneSeen {
    /// Free frames; cached blocks do not count.
    pub(super) free: u64,
    pub(super) targets: Targets,
}

impl ZoneSeen {
    pub(super) const fn lacks_frames(&self, mark: u64) -> bool {
        self.free < mark
    }
}

impl<P> Reclaim<'_, '_, P> {
    /// The targets at the moment, boost included.
    pub(super) fn targets(&self) -> Targets {
        let boost = self.record().boost.load(Relaxed);
        let (zone, mut config) = (self.zone(), *self.config());
        if !self.keeps_stock() {
            config.stock_percent = 0;
        }
        config.targets(zone.watermarks(), zone.pageblock_order(), boost)
    }

    /// Looks where the zone stands, and wakes the background if it is below its low targets. First
    /// raises these if a fallback has polluted since the last look. Time: O(CPUs).
    pub(super) fn watch(&self) -> ZoneSeen {
        self.raise_for_pollution();
        let zone = self.zone();
        let seen = ZoneSeen {
            free: zone.free_in_pageblocks(),
            targets: self.targets(),
        };
        if seen.lacks_frames(seen.targets.frames.low) {
            self.wake(Lack::Frames);
        }
        if zone.free_frames_for(Mobility::Unmovable) < zone.watermarks().low {
            self.wake(Lack::Ordinary);
        }
        let low = seen.targets.pageblocks.low;
        if zone.free_pageblocks_up_to(low) < low {
            self.wake(Lack::Pageblocks);
        }
        seen
    }

    /// Raises the targets by the growth of the zone's own counter of polluting fallbacks.
    fn raise_for_pollution(&self) {
        let zone = self.zone();
        let now = zone.polluting_fallbacks();
        // If several CPUs look at once, each counts what the others have not.
        let before = self.record().polluted.fetch_max(now, Relaxed);
        let fallbacks = now.saturating_sub(before);
        if fallbacks == 0 {
            return;
        }
        let word = &self.record().boost;
        let high = zone.watermarks().high;
        let boost = boosted(
            self.config(),
            word.load(Relaxed),
            fallbacks,
            high,
            zone.pageblock_order(),
        );
        word.store(boost, Relaxed);
    }

    /// Whether the background has something to do: it was woken, or has not gone to sleep. Time:
    /// two loads.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.record().woken.load(Relaxed) != 0 || self.record().phase.load(Relaxed) == WORKS
    }

    /// Wakes the background, unless waking it for `lack` is being left off. If it already works,
    /// tells it to look once more: it may have seen enough before this request, and be about to
    /// rest.
    pub(super) fn wake(&self, lack: Lack) {
        let woken = &self.record().woken;
        if self.record().phase.load(Relaxed) == WORKS {
            // Release pairs with the Acquire of the background's last look, which thus sees what is
            // lacking.
            woken.swap(1, Release);
            return;
        }
        if woken.load(Relaxed) != 0 {
            return;
        }
        let left_off = &self.effort(lack).left_off;
        let left = left_off.load(Relaxed);
        if left > 0 {
            left_off.store(left - 1, Relaxed);
            return;
        }
        // If several CPUs wake it at once, one of them does.
        if woken.swap(1, Relaxed) == 0 {
            self.count(Counter::Wake, 1);
        }
    }

    /// Nothing could be done about `lack`: it is left off for a while, twice as long as the last time.
    pub(super) fn leave_off(&self, lack: Lack) {
        let effort = self.effort(lack);
        let shift_max = lack.shift_max(self.config().defer_shift_max);
        let shift = effort.in_vain.load(Relaxed).min(shift_max);
        effort.left_off.store(1 << shift, Relaxed);
        effort.in_vain.store(shift + 1, Relaxed);
    }

    /// Something was done about `lack`: it is no longer left off.
    pub(super) fn take_up(&self, lack: Lack) {
        let effort = self.effort(lack);
        effort.in_vain.store(0, Relaxed);
        effort.left_off.store(0, Relaxed);
    }

    fn effort(&self, lack: Lack) -> &LackRecord {
        &self.record().efforts[lack as usize]
    }
}

/// The background's phase: it sleeps until it is woken.
pub(super) const SLEEPS: u64 = 0;
/// It sleeps for a short time, and will look again when that is over.
pub(super) const NAPS: u64 = 1;
/// It has not reached the target for which it was woken.
pub(super) const WORKS: u64 = 2;
