//! What a request for frames wants, for all that search: seats, pageblocks and zones.

use crate::units::{Mobility, Order};

/// A block that a request wants.
#[derive(Clone, Copy)]
pub(super) struct WantedBlock {
    pub(super) order: Order,
    pub(super) mobility: Mobility,
}

impl WantedBlock {
    /// Whether the high-order reserve may serve it, where all else fails: an unmovable block of
    /// several frames and of one pageblock at most.
    pub(super) fn may_have_reserved(self, pageblock: Order) -> bool {
        !self.mobility.is_movable() && self.order > Order::ZERO && self.order <= pageblock
    }
}
