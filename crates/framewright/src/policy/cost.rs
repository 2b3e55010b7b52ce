//! The scale of evacuation cost: what it takes to empty a frame, or a pageblock.

use super::BlockFacts;
use crate::units::Mobility;

/// What it costs to empty a frame, on one scale for all that want a range emptied: fallback,
/// compaction, contiguous ranges, the reserve.
///
/// Ordered: the cheaper is less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EvacuationCost {
    /// It has no contents.
    Free,
    /// Its contents may be dropped at once, without a wait.
    Discardable,
    /// Its contents are on a device and can be read again.
    CleanCache,
    /// Its contents must be copied elsewhere.
    Movable,
    /// Its owner must be asked to give it up, and may not be able to.
    Reclaimable,
    /// It cannot be emptied: unmovable, or pinned.
    Impossible,
}

impl EvacuationCost {
    /// The cost of an allocated frame of that mobility, if no more is known of it.
    #[must_use]
    pub const fn of(mobility: Mobility) -> Self {
        match mobility {
            Mobility::Movable => Self::Movable,
            Mobility::Reclaimable => Self::Reclaimable,
            Mobility::Unmovable => Self::Impossible,
        }
    }

    /// The cost in frames copied, which can be summed over a pageblock. `None` if it is impossible.
    ///
    /// Units: one copied frame is 16. A free frame costs 0 and a discardable one 1. A clean cache
    /// frame may have to be read again some day (a quarter of a copy). Asking an owner costs four
    /// copies, because most of these requests fail.
    #[must_use]
    pub const fn weight(self) -> Option<u32> {
        match self {
            Self::Free => Some(0),
            Self::Discardable => Some(1),
            Self::CleanCache => Some(4),
            Self::Movable => Some(16),
            Self::Reclaimable => Some(64),
            Self::Impossible => None,
        }
    }
}

/// What it costs to empty a whole pageblock: the sum of its frames' weights, or `None` if one of
/// them cannot be emptied. `pinned` is the number of pins in it.
#[must_use]
pub fn evacuation_cost(facts: &BlockFacts, pinned: u32) -> Option<u32> {
    if pinned > 0 {
        return None;
    }
    Mobility::ALL.iter().try_fold(0, |sum, &mobility| {
        match facts.by_mobility[mobility.index()] {
            0 => Some(sum),
            frames => Some(sum + frames * EvacuationCost::of(mobility).weight()?),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Label;

    #[test]
    fn the_scale_rises_from_free_to_impossible() {
        use EvacuationCost::*;
        let scale = [
            Free,
            Discardable,
            CleanCache,
            Movable,
            Reclaimable,
            Impossible,
        ];
        assert!(scale.is_sorted());
        assert!(
            scale
                .map(|cost| cost.weight().unwrap_or(u32::MAX))
                .is_sorted()
        );
    }

    #[test]
    fn one_unmovable_frame_or_pin_makes_a_pageblock_impossible_to_empty() {
        let facts = |by_mobility| BlockFacts {
            label: Label::Of(Mobility::Movable),
            free: 500,
            by_mobility,
            absent: 0,
        };
        assert_eq!(evacuation_cost(&facts([0, 0, 0]), 0), Some(0));
        assert_eq!(
            evacuation_cost(&facts([0, 10, 2]), 0),
            Some(10 * 16 + 2 * 64)
        );
        assert_eq!(evacuation_cost(&facts([1, 10, 1]), 0), None);
        assert_eq!(evacuation_cost(&facts([0, 10, 0]), 1), None);
    }
}
