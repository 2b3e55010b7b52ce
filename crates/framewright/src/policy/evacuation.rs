//! The scale of evacuation cost: what it takes to empty a pageblock.

use super::BlockFacts;
use crate::units::Mobility;

/// The weight of a frame whose contents must be copied elsewhere. A free frame has none.
pub(super) const COPY: u32 = 16;

/// The weight of a frame whose owner must be asked: four copies, because most of these requests fail.
const ASK: u32 = 64;

/// What it costs to empty a whole pageblock: the sum of its frames' weights, or `None` if one of
/// them cannot be emptied. `pinned` is the number of pins in it.
#[must_use]
pub(super) fn evacuation_cost(facts: &BlockFacts, pinned: u32) -> Option<u32> {
    let frames = |mobility: Mobility| facts.by_mobility[mobility.index()];
    if pinned > 0 || frames(Mobility::Unmovable) > 0 {
        return None;
    }
    Some(frames(Mobility::Movable) * COPY + frames(Mobility::Reclaimable) * ASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Label;

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
