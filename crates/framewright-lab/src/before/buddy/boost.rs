//! The watermark boost of one zone, a number with a least and a most. It is apart from the zone because two others
//! work on it: the fallback raises it, the background of `replay::admission` takes it away.

/// By how much the watermarks of a zone are raised for a while, because a request tried to take a pageblock from another
/// mobility (Linux 5.0 and later, `watermark_boost_factor`).
///
/// Each try raises them by a pageblock, up to a most. When it ends is the background's matter, which works for all
/// zones at once: see `replay::admission`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WatermarkBoost {
    frames: u64,
    step: u64,
    most: u64,
}

impl WatermarkBoost {
    /// A boost of `first` frames, of at most `most` but at least one `step`; never one with 0.
    pub(super) fn new(most: u64, step: u64, first: u64) -> Self {
        let most = if most == 0 { 0 } else { most.max(step) };
        Self {
            frames: first.min(most),
            step,
            most,
        }
    }

    /// Frames that come on top of each watermark.
    #[inline]
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// A request tried to claim part of a pageblock.
    #[inline]
    pub(super) fn claimed(&mut self) {
        self.frames = (self.frames + self.step).min(self.most);
    }

    /// The background takes so much of it away.
    pub(super) fn lower(&mut self, frames: u64) {
        self.frames = self.frames.saturating_sub(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boost_grows_by_pageblocks_up_to_its_most() {
        let mut boost = WatermarkBoost::new(1200, 512, 0);
        let grown = [(); 4].map(|()| {
            boost.claimed();
            boost.frames()
        });
        assert_eq!(grown, [512, 1024, 1200, 1200]);
        boost.lower(1000);
        assert_eq!(boost.frames(), 200);
        boost.lower(1000);
        assert_eq!(boost.frames(), 0);
    }

    #[test]
    fn a_boost_that_was_there_at_the_start_is_one_of_the_zone() {
        assert_eq!(WatermarkBoost::new(1200, 512, 700).frames(), 700);
        assert_eq!(WatermarkBoost::new(1200, 512, 2000).frames(), 1200);
    }

    #[test]
    fn a_zone_without_boost_never_has_one() {
        let mut boost = WatermarkBoost::new(0, 512, 512);
        boost.claimed();
        assert_eq!(boost.frames(), 0);
        // A most below a pageblock is one pageblock.
        let mut boost = WatermarkBoost::new(5, 512, 0);
        boost.claimed();
        assert_eq!(boost.frames(), 512);
    }
}
