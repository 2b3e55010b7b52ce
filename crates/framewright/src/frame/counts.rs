//! Two words of a pageblock's descriptor, and what can be read from them.

use crate::policy::{BlockFacts, Classes, Label};
use crate::units::Mobility;

/// What the index and searches need to know of a pageblock, in one word: the orders of its maximal
/// free blocks (bits 0 to 10), its class (16 to 31), its label (32 to 34), isolation (bit 35).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta(pub(super) u64);

impl Meta {
    pub(super) const fn new(orders: u16, class: u16, label: Label, isolated: bool) -> Self {
        Self(
            orders as u64
                | (class as u64) << 16
                | (label.index() as u64) << 32
                | (isolated as u64) << 35,
        )
    }

    #[inline(always)]
    pub(super) const fn orders(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(super) const fn class(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    pub(super) const fn label(self) -> Label {
        match Label::from_index((self.0 >> 32 & 7) as usize) {
            Some(label) => label,
            // Only the numbers of labels are ever written.
            None => Label::HighOrder,
        }
    }

    #[inline(always)]
    pub(super) const fn is_isolated(self) -> bool {
        self.0 >> 35 & 1 != 0
    }
}

/// Free frames and allocated frames by mobility.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockCounts(pub(super) u64);

impl BlockCounts {
    #[inline(always)]
    pub(super) const fn free(self) -> u32 {
        self.0 as u16 as u32
    }

    #[inline(always)]
    pub(super) const fn by_mobility(self, mobility: Mobility) -> u32 {
        (self.0 >> (16 + 16 * mobility.index())) as u16 as u32
    }

    /// Whether a pageblock has the same class as with the counts `before`, without asking the
    /// policy: the same non-movable frames, some movable ones as before, and free frames of the
    /// same level.
    #[inline(always)]
    pub(super) const fn is_classed_like(self, before: Self, classes: Classes) -> bool {
        const NONMOVABLE: u64 = 0xffff_0000_ffff_0000;
        const _: () = assert!(Mobility::Movable.index() == 1);
        (self.0 ^ before.0) & NONMOVABLE == 0
            && self.by_mobility(Mobility::Movable) != 0
            && before.by_mobility(Mobility::Movable) != 0
            && classes.is_same_level(self.free(), before.free())
    }

    /// Its free frames, if it has both movable and non-movable frames.
    #[inline(always)]
    pub(super) const fn free_mixed(self) -> u64 {
        let movable = self.by_mobility(Mobility::Movable) > 0;
        let unmovable = self.by_mobility(Mobility::Unmovable) > 0;
        let reclaimable = self.by_mobility(Mobility::Reclaimable) > 0;
        if movable && (unmovable || reclaimable) {
            self.free() as u64
        } else {
            0
        }
    }

    /// Its free frames, if its label lends them to movable contents.
    #[inline(always)]
    pub(super) const fn free_lent(self, label: Label) -> u64 {
        match label {
            Label::Contiguous => self.free() as u64,
            Label::Of(_) | Label::HighOrder => 0,
        }
    }

    /// Moves `frames` from free to `mobility`.
    #[inline(always)]
    pub(super) const fn take(self, frames: u64, mobility: Mobility) -> Self {
        // No carry crosses a part: none goes below zero or above a pageblock's 1024 frames.
        Self(self.0 - frames + (frames << (16 + 16 * mobility.index())))
    }

    #[inline(always)]
    pub(super) const fn give(self, frames: u64, mobility: Mobility) -> Self {
        Self(self.0 + frames - (frames << (16 + 16 * mobility.index())))
    }

    #[inline(always)]
    pub(super) const fn facts(self, label: Label, absent: u32) -> BlockFacts {
        BlockFacts {
            label,
            free: self.free(),
            by_mobility: [
                self.by_mobility(Mobility::Unmovable),
                self.by_mobility(Mobility::Movable),
                self.by_mobility(Mobility::Reclaimable),
            ],
            absent,
        }
    }
}
