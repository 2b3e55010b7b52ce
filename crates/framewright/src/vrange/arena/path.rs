//! A way from the root of the tree of gaps down to a node. The nodes have no links to their parents,
//! so a change comes back up along it.

use super::super::areas::PAGES_MAX;

/// Above the height of any tree: gaps do not touch, so at most every second of 2^30 pages starts
/// one, and 1.4405 * 29 - 0.3277 is 41.4.
pub(super) const HEIGHT_MAX: usize = 44;
const _: () = assert!(PAGES_MAX == 1 << 30);

/// The nodes from the root down to one of them, by their pages.
#[derive(Debug)]
pub(super) struct Path {
    pages: [u32; HEIGHT_MAX],
    len: usize,
}

impl Path {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self {
            pages: [0; HEIGHT_MAX],
            len: 0,
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, page: u32) {
        self.pages[self.len] = page;
        self.len += 1;
    }

    #[inline(always)]
    pub(super) fn last(&self) -> Option<u32> {
        Some(self.pages[self.len.checked_sub(1)?])
    }

    /// The depth of the last node. The path must not be empty.
    #[inline(always)]
    pub(super) const fn depth(&self) -> usize {
        self.len - 1
    }

    /// Makes the node at `depth` the last.
    #[inline(always)]
    pub(super) const fn cut_to(&mut self, depth: usize) {
        self.len = depth + 1;
    }

    /// The node at a depth, 0 for the root.
    #[inline(always)]
    pub(super) fn at(&self, depth: usize) -> u32 {
        self.pages[depth]
    }

    /// Another node in the place of the one at `depth`.
    #[inline(always)]
    pub(super) fn set(&mut self, depth: usize, page: u32) {
        self.pages[depth] = page;
    }

    #[inline(always)]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Leaves the last node, which [`at`](Self::at) still tells.
    #[inline(always)]
    pub(super) const fn pop(&mut self) {
        self.len -= 1;
    }
}
