//! From which list a block comes, and what of its pageblock comes along: the rule that the document changes. The
//! two variants differ in this file alone.

use super::lists::{CMA, MOVABLE, RECLAIMABLE, RESERVE, UNMOVABLE};
use super::{Kernel310, Variant310};

/// The lists that a request tries after its own, in this order. The reserve is not among them: a
/// request tries it when all of these have failed.
const FALLBACKS: [&[usize]; 3] = {
    let mut table: [&[usize]; 3] = [&[]; 3];
    table[UNMOVABLE] = &[RECLAIMABLE, MOVABLE];
    table[RECLAIMABLE] = &[UNMOVABLE, MOVABLE];
    table[MOVABLE] = &[CMA, RECLAIMABLE, UNMOVABLE];
    table
};

/// The largest order of which the document says that splitting it hurts
/// (`PAGE_ALLOC_COSTLY_ORDER`).
pub(super) const COSTLY_ORDER: u8 = 3;

/// A free block of another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found310 {
    order: u8,
    list: usize,
}

impl Kernel310 {
    /// A block from the free lists, watermarks aside: the requester's own list, then another's,
    /// then the reserve.
    #[inline]
    pub(super) fn rmqueue(&mut self, order: u8, list: usize) -> Option<u32> {
        if self.cma_first
            && list == MOVABLE
            && let Some(frame) = self.take_own(order, CMA)
        {
            return Some(frame);
        }
        if let Some(frame) = self.take_own(order, list) {
            return Some(frame);
        }
        self.fall_back(order, list)
            .or_else(|| self.take_own(order, RESERVE))
    }

    /// The smallest sufficient block of one list.
    #[inline]
    fn take_own(&mut self, order: u8, list: usize) -> Option<u32> {
        let orders = self.zone.orders_of(list) >> order << order;
        if orders == 0 {
            return None;
        }
        let frame = self.zone.first_free(orders.trailing_zeros() as u8, list)?;
        self.zone.take(frame, order, list);
        Some(frame)
    }

    /// The largest block of `lowest` or above that another list has; among equals the table decides.
    fn find_largest(&self, lowest: u8, list: usize) -> Option<Found310> {
        let mut best: Option<Found310> = None;
        for &list in FALLBACKS[list] {
            let orders = self.zone.orders_of(list) >> lowest << lowest;
            if orders != 0 {
                let order = orders.ilog2() as u8;
                if best.is_none_or(|best| best.order < order) {
                    best = Some(Found310 { order, list });
                }
            }
        }
        best
    }

    /// The smallest, likewise.
    fn find_smallest(&self, lowest: u8, list: usize) -> Option<Found310> {
        let mut best: Option<Found310> = None;
        for &list in FALLBACKS[list] {
            let orders = self.zone.orders_of(list) >> lowest << lowest;
            if orders != 0 {
                let order = orders.trailing_zeros() as u8;
                if best.is_none_or(|best| order < best.order) {
                    best = Some(Found310 { order, list });
                }
            }
        }
        best
    }

    #[cold]
    fn fall_back(&mut self, order: u8, list: usize) -> Option<u32> {
        let found = match self.variant {
            Variant310::Before => self.find_largest(order, list)?,
            Variant310::Proposed => self
                .find_largest(order.max(COSTLY_ORDER + 1), list)
                .or_else(|| self.find_smallest(order, list))?,
        };
        let zone = &mut self.zone;
        let frame = zone.first_free(found.order, found.list)?;
        if found.list == CMA {
            // Neither its label nor its list ever changes, nor that of the rest of the block.
            zone.take(frame, order, CMA);
            return Some(frame);
        }
        let pageblock_order = zone.pageblock_order();
        if found.order >= pageblock_order / 2 || list == RECLAIMABLE {
            let moved = zone.move_pageblock(frame, list);
            if moved >= zone.pageblock_frames() / 2 {
                zone.set_label(zone.pageblock(frame), list);
            }
        }
        if found.order >= pageblock_order {
            zone.relabel(frame, found.order, list);
        }
        zone.take(frame, order, list);
        Some(frame)
    }
}
