//! Looks where the zone stands, wakes the background, and leaves off waking it after it gained
//! nothing.

use super::state::{Counter, Reclaim, word};
use crate::policy::{Targets, boosted};
use crate::sync::Ordering::{Relaxed, Release};
use crate::units::Mobility;

/// What the background can be short of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lack {
    /// Free frames.
    Frames,
    /// Entirely free pageblocks.
    Pageblocks,
    /// Free frames for unmovable contents: others are free, but lent to movable contents.
    Ordinary,
    /// Free frames in settled pageblocks.
    Stock,
}

impl Lack {
    /// How often in a row the background could do nothing about it, and for how many looks it is
    /// not woken for that reason.
    const fn words(self) -> (usize, usize) {
        match self {
            Self::Frames => (word::FRAMES_IN_VAIN, word::FRAMES_LEFT_OFF),
            Self::Pageblocks => (word::PAGEBLOCKS_IN_VAIN, word::PAGEBLOCKS_LEFT_OFF),
            Self::Ordinary => (word::ORDINARY_IN_VAIN, word::ORDINARY_LEFT_OFF),
            Self::Stock => (word::STOCK_IN_VAIN, word::STOCK_LEFT_OFF),
        }
    }

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
        let boost = self.word(word::BOOST).load(Relaxed);
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
        let before = self.word(word::POLLUTED).fetch_max(now, Relaxed);
        let fallbacks = now.saturating_sub(before);
        if fallbacks == 0 {
            return;
        }
        let word = self.word(word::BOOST);
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
        self.word(word::WOKEN).load(Relaxed) != 0 || self.word(word::PHASE).load(Relaxed) == WORKS
    }

    /// Wakes the background, unless waking it for `lack` is being left off. If it already works,
    /// tells it to look once more: it may have seen enough before this request, and be about to
    /// rest.
    pub(super) fn wake(&self, lack: Lack) {
        let woken = self.word(word::WOKEN);
        if self.word(word::PHASE).load(Relaxed) == WORKS {
            // Release pairs with the Acquire of the background's last look, which thus sees what is
            // lacking.
            woken.swap(1, Release);
            return;
        }
        if woken.load(Relaxed) != 0 {
            return;
        }
        let left_off = self.word(lack.words().1);
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
        let (in_vain, left_off) = lack.words();
        let shift_max = lack.shift_max(self.config().defer_shift_max);
        let shift = self.word(in_vain).load(Relaxed).min(shift_max);
        self.word(left_off).store(1 << shift, Relaxed);
        self.word(in_vain).store(shift + 1, Relaxed);
    }

    /// Something was done about `lack`: it is no longer left off.
    pub(super) fn take_up(&self, lack: Lack) {
        let (in_vain, left_off) = lack.words();
        for word in [in_vain, left_off] {
            self.word(word).store(0, Relaxed);
        }
    }
}

/// The background's [phase](word::PHASE): it sleeps until it is woken.
pub(super) const SLEEPS: u64 = 0;
/// It sleeps for a short time, and will look again when that is over.
pub(super) const NAPS: u64 = 1;
/// It has not reached the target for which it was woken.
pub(super) const WORKS: u64 = 2;
