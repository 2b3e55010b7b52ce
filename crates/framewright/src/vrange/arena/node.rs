//! A node of the tree of gaps, unpacked from the two words of its gap's first page.
//!
//! The table has the picture. Only the holder of the arena's lock reads or writes
//! nodes. Of the reach of its gaps a node keeps the order as one bit: it is that of the longest
//! gap's length, or one less.

use super::super::areas::{GAP, PAGE_BITS, PAGE_MASK};
use super::fit::Reach;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeSide {
    Left,
    Right,
}

impl NodeSide {
    #[inline(always)]
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    #[inline(always)]
    pub(super) const fn of(child: u32, parent: u32) -> Self {
        if child < parent {
            Self::Left
        } else {
            Self::Right
        }
    }
}

/// A node in unpacked form; the table shows how it is packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct GapNode {
    pub(super) links: u64,
    pub(super) sizes: u64,
}

/// In `links`: whether the gaps below hold an aligned block of the order of the longest one's
/// length.
const WHOLE_SHIFT: u32 = 62;
/// In `links`: 0 balanced, 1 higher on the left, 2 higher on the right.
const BALANCE_SHIFT: u32 = 2 * PAGE_BITS;
const BALANCE_MASK: u64 = 3 << BALANCE_SHIFT;
/// In `sizes`.
const POINT_SHIFT: u32 = 2 * PAGE_BITS;

impl GapNode {
    /// A gap of `pages` pages without children.
    #[inline(always)]
    pub(super) fn leaf(pages: u32, reach: Reach) -> Self {
        let mut leaf = Self {
            links: GAP,
            sizes: u64::from(pages - 1) << PAGE_BITS,
        };
        leaf.set_reach(reach);
        leaf
    }

    #[inline(always)]
    pub(super) const fn pages(&self) -> u32 {
        (self.sizes >> PAGE_BITS & PAGE_MASK) as u32 + 1
    }

    #[inline(always)]
    pub(super) fn set_pages(&mut self, pages: u32) {
        self.sizes &= !(PAGE_MASK << PAGE_BITS);
        self.sizes |= u64::from(pages - 1) << PAGE_BITS;
    }

    #[inline(always)]
    pub(super) const fn left(&self) -> Option<u32> {
        ((self.links >> PAGE_BITS & PAGE_MASK) as u32).checked_sub(1)
    }

    #[inline(always)]
    pub(super) const fn right(&self) -> Option<u32> {
        match (self.links & PAGE_MASK) as u32 {
            0 => None,
            page => Some(page),
        }
    }

    #[inline(always)]
    pub(super) const fn child(&self, side: NodeSide) -> Option<u32> {
        match side {
            NodeSide::Left => self.left(),
            NodeSide::Right => self.right(),
        }
    }

    #[inline(always)]
    pub(super) fn set_child(&mut self, side: NodeSide, child: Option<u32>) {
        match side {
            NodeSide::Left => {
                let link = child.map_or(0, |page| page + 1);
                self.links &= !(PAGE_MASK << PAGE_BITS);
                self.links |= u64::from(link) << PAGE_BITS;
            }
            NodeSide::Right => {
                self.links &= !PAGE_MASK;
                self.links |= u64::from(child.unwrap_or(0));
            }
        }
    }

    /// The side that is higher by one, if one is.
    #[inline(always)]
    pub(super) fn higher(&self) -> Option<NodeSide> {
        match (self.links & BALANCE_MASK) >> BALANCE_SHIFT {
            0 => None,
            1 => Some(NodeSide::Left),
            _ => Some(NodeSide::Right),
        }
    }

    /// Whether its balance is right for children of these heights, and AVL allows it.
    pub(super) fn is_balanced(&self, left: usize, right: usize) -> bool {
        let higher = match left as isize - right as isize {
            0 => None,
            1 => Some(NodeSide::Left),
            -1 => Some(NodeSide::Right),
            _ => return false,
        };
        higher == self.higher()
    }

    #[inline(always)]
    pub(super) fn set_higher(&mut self, side: Option<NodeSide>) {
        let bits = match side {
            None => 0,
            Some(NodeSide::Left) => 1,
            Some(NodeSide::Right) => 2,
        };
        self.links = self.links & !BALANCE_MASK | bits << BALANCE_SHIFT;
    }

    /// Whether a gap below, or this one, has that many pages.
    #[inline(always)]
    pub(super) const fn reaches(&self, pages: u32) -> bool {
        self.sizes & PAGE_MASK >= pages as u64 - 1
    }

    /// Where to look on for `page`: the child towards it, and whether that is the right one,
    /// because this gap, at `at`, starts at `page` or before. Without a branch, because the side
    /// cannot be predicted.
    #[inline(always)]
    pub(super) const fn towards(&self, at: u32, page: u32) -> (Option<u32>, bool) {
        let left = (page < at) as u32;
        let link = (self.links >> (left * PAGE_BITS) & PAGE_MASK) as u32;
        let child = if link == 0 { None } else { Some(link - left) };
        (child, left == 0)
    }

    #[inline(always)]
    pub(super) const fn reach(&self) -> Reach {
        let longest = (self.sizes & PAGE_MASK) as u32 + 1;
        let whole = (self.links >> WHOLE_SHIFT & 1) as u8;
        Reach {
            longest,
            order: (longest.ilog2() as u8 + whole).wrapping_sub(1),
            point: self.point(),
        }
    }

    /// The point of the reach.
    #[inline(always)]
    pub(super) const fn point(&self) -> u8 {
        (self.sizes >> POINT_SHIFT) as u8
    }

    #[inline(always)]
    pub(super) const fn set_point(&mut self, point: u8) {
        self.sizes = self.sizes << 4 >> 4 | (point as u64) << POINT_SHIFT;
    }

    #[inline(always)]
    pub(super) fn set_reach(&mut self, reach: Reach) {
        let whole = u64::from(u32::from(reach.order) == reach.longest.ilog2());
        self.links = self.links & !(1 << WHOLE_SHIFT) | whole << WHOLE_SHIFT;
        self.sizes &= PAGE_MASK << PAGE_BITS;
        self.sizes |= u64::from(reach.longest - 1) | u64::from(reach.point) << POINT_SHIFT;
    }
}
