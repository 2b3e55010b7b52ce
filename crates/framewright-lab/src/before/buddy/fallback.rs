//! What a request does when its own mobility's lists have no block. Each year's rule is a function here, over the
//! same lists and the same merging, so that two policies differ by their rules.

use super::links::ListEnd;
use super::{LinuxBuddy, LinuxPolicy, MAX_ORDER};
use framewright::Mobility;

const UNMOVABLE: usize = Mobility::Unmovable as usize;
const MOVABLE: usize = Mobility::Movable as usize;
const RECLAIMABLE: usize = Mobility::Reclaimable as usize;

/// The mobilities that a request tries after its own, in this order.
const FALLBACKS: [[usize; 2]; 3] = {
    let mut table = [[0; 2]; 3];
    table[UNMOVABLE] = [RECLAIMABLE, MOVABLE];
    table[MOVABLE] = [RECLAIMABLE, UNMOVABLE];
    table[RECLAIMABLE] = [UNMOVABLE, MOVABLE];
    table
};

/// The largest order of which the document says that splitting it hurts
/// (`PAGE_ALLOC_COSTLY_ORDER`).
const COSTLY_ORDER: u8 = 3;

/// A free block of another mobility.
#[derive(Debug, Clone, Copy)]
struct BuddyFound {
    frame: u32,
    order: u8,
    /// The list it is on.
    taken: usize,
}

impl LinuxBuddy {
    /// A block from the free lists: the requester's own first, then by the policy's fallback.
    ///
    /// `whole_only` forbids to take less than whole pageblocks from other mobilities; `stealing`
    /// lives as long as one refill: after one theft 6.12 goes straight to the next.
    #[inline]
    pub(super) fn rmqueue(
        &mut self,
        order: u8,
        mt: usize,
        whole_only: bool,
        stealing: &mut bool,
    ) -> Option<u32> {
        if !*stealing && let Some(frame) = self.take_own(order, mt) {
            return Some(frame);
        }
        match self.policy {
            LinuxPolicy::NoGrouping => None,
            LinuxPolicy::Linux44 => self.fall_back_44(order, mt, false),
            LinuxPolicy::Proposal => self.fall_back_44(order, mt, true),
            LinuxPolicy::Linux413 => self.fall_back_413(order, mt),
            LinuxPolicy::Linux612
            | LinuxPolicy::Linux612NoFragment
            | LinuxPolicy::Linux618Defrag => {
                if !*stealing && let Some(frame) = self.claim(order, mt, whole_only) {
                    return Some(frame);
                }
                if whole_only {
                    return None;
                }
                let frame = self.steal(order, mt)?;
                *stealing = true;
                Some(frame)
            }
        }
    }

    /// The smallest sufficient block of the requester's own lists.
    #[inline]
    fn take_own(&mut self, order: u8, mt: usize) -> Option<u32> {
        for high in order..=MAX_ORDER {
            if let Some(frame) = self.frames.first_free(high, mt) {
                self.frames.take_and_expand(frame, order, mt);
                return Some(frame);
            }
        }
        None
    }

    /// The first block of exactly `order` on the lists that `mt` may fall back to.
    #[inline]
    fn find(&self, order: u8, mt: usize) -> Option<BuddyFound> {
        if !self.frames.has_free(order) {
            return None;
        }
        FALLBACKS[mt].into_iter().find_map(|taken| {
            let frame = self.frames.first_free(order, taken)?;
            Some(BuddyFound {
                frame,
                order,
                taken,
            })
        })
    }

    fn find_largest(&self, from: u8, mt: usize) -> Option<BuddyFound> {
        (from..=MAX_ORDER)
            .rev()
            .find_map(|order| self.find(order, mt))
    }

    fn find_smallest(&self, from: u8, mt: usize) -> Option<BuddyFound> {
        (from..=MAX_ORDER).find_map(|order| self.find(order, mt))
    }

    /// Whether a block of `order` is reason enough to take its whole pageblock.
    fn may_take_pageblock(&self, order: u8, mt: usize) -> bool {
        order >= self.frames.pageblock_order() / 2 || mt != MOVABLE
    }

    fn count_fallback(&mut self, wanted: usize, taken: usize) {
        self.fallbacks[wanted][taken] += 1;
    }

    fn half_a_pageblock(&self) -> u32 {
        1 << (self.frames.pageblock_order() - 1)
    }

    /// 4.4's rule, and on it the document's: with `spare_costly`, where no block above
    /// [`COSTLY_ORDER`] is found, the smallest one and not the largest.
    fn fall_back_44(&mut self, order: u8, mt: usize, spare_costly: bool) -> Option<u32> {
        let found = if spare_costly {
            self.find_largest(order.max(COSTLY_ORDER + 1), mt)
                .or_else(|| self.find_smallest(order, mt))?
        } else {
            self.find_largest(order, mt)?
        };
        if found.order >= self.frames.pageblock_order() {
            self.frames.relabel(found.frame, found.order, mt);
        } else if self.may_take_pageblock(found.order, mt) {
            let pageblock = self.frames.pageblock(found.frame);
            if self.frames.is_whole(pageblock) {
                let (free, _) = self.frames.pageblock_counts(pageblock);
                self.frames.move_pageblock(pageblock, mt, ListEnd::Head);
                if free >= self.half_a_pageblock() {
                    self.frames.set_label(pageblock, mt);
                }
            }
        }
        self.frames.take_and_expand(found.frame, order, mt);
        self.count_fallback(mt, found.taken);
        Some(found.frame)
    }

    /// 4.13's rule: bring something to the requester's own lists, then look there again.
    fn fall_back_413(&mut self, order: u8, mt: usize) -> Option<u32> {
        let mut found = self.find_largest(order, mt)?;
        let whole = self.may_take_pageblock(found.order, mt);
        if !whole && found.order > order {
            // Only a movable request gets here: it may not have the pageblock, so it takes little.
            found = self.find_smallest(order, mt)?;
        }
        self.count_fallback(mt, found.taken);
        let pageblock = self.frames.pageblock(found.frame);
        if found.order >= self.frames.pageblock_order() {
            self.frames.relabel(found.frame, found.order, mt);
            self.frames.move_free(found.frame, mt, ListEnd::Head);
        } else if whole && self.frames.is_whole(pageblock) {
            let enough = self.is_mostly_free_or_alike(pageblock, mt);
            self.frames.move_pageblock(pageblock, mt, ListEnd::Head);
            if enough {
                self.frames.set_label(pageblock, mt);
            }
        } else {
            self.frames.move_free(found.frame, mt, ListEnd::Head);
        }
        self.take_own(order, mt)
    }

    /// Whether at least half of a pageblock is free or allocated to the requester's kind. Linux
    /// tells movable pages (on an LRU list) from others, and the others not from each other: in a
    /// movable pageblock they count as alike, between unmovable and reclaimable nothing does.
    fn is_mostly_free_or_alike(&self, pageblock: usize, mt: usize) -> bool {
        let (free, movable) = self.frames.pageblock_counts(pageblock);
        let alike = if mt == MOVABLE {
            movable
        } else if self.frames.label_at(pageblock) == Some(MOVABLE) {
            (1 << self.frames.pageblock_order()) - free - movable
        } else {
            0
        };
        free + alike >= self.half_a_pageblock()
    }

    /// 6.12's first step: take over a pageblock, with its label.
    fn claim(&mut self, order: u8, mt: usize, whole_only: bool) -> Option<u32> {
        let pageblock_order = self.frames.pageblock_order();
        let lowest = if whole_only {
            order.max(pageblock_order)
        } else {
            order
        };
        for high in (lowest..=MAX_ORDER).rev() {
            if !self.may_take_pageblock(high, mt) {
                break;
            }
            let Some(found) = self.find(high, mt) else {
                continue;
            };
            if high >= pageblock_order {
                self.frames.relabel(found.frame, high, mt);
                self.frames.take_and_expand(found.frame, order, mt);
                self.count_fallback(mt, found.taken);
                return Some(found.frame);
            }
            self.boost.claimed();
            let pageblock = self.frames.pageblock(found.frame);
            if self.frames.is_whole(pageblock) && self.is_mostly_free_or_alike(pageblock, mt) {
                self.frames.move_pageblock(pageblock, mt, ListEnd::Tail);
                self.frames.set_label(pageblock, mt);
                self.count_fallback(mt, found.taken);
                return self.take_own(order, mt);
            }
        }
        None
    }

    /// 6.12's second step: the smallest sufficient block; its rest stays where it was.
    fn steal(&mut self, order: u8, mt: usize) -> Option<u32> {
        let found = self.find_smallest(order, mt)?;
        self.frames.take_and_expand(found.frame, order, found.taken);
        self.count_fallback(mt, found.taken);
        Some(found.frame)
    }
}
