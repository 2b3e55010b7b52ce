//! The gaps as a tree: AVL, by address, each node in the words of its gap's first page and
//! augmented with the reach of the gaps below it.
//!
//! A node has no link to its parent: a change comes down from the root and keeps the way in a
//! [`Path`]. An update goes up the path only as far as it makes a difference.
//!
//! # Sources
//! G. Adelson-Velsky, E. Landis, "An algorithm for the organization of information", 1962. The
//! height of n nodes is at most 1.4405 log2(n + 2) - 0.3277 (Knuth, vol. 3, 6.2.3).

use super::super::areas::AreaTable;
use super::fit::{Reach, ReachChange, WantedGap};
use super::node::{GapNode, NodeSide};
use super::path::Path;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Where a page lies among the gaps: by their depths, the last gap on the way down that starts at
/// or before the page, and the first that starts after it.
#[derive(Clone, Copy)]
pub(super) struct TreePlace {
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

/// The tree. All operations are for the holder of the arena's lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct GapTree<'m> {
    table: AreaTable<'m>,
    /// The root's page plus one; 0 if there is no root.
    root: &'m AtomicU64,
    /// The absolute number of the window's first page.
    base: u64,
}

impl<'m> GapTree<'m> {
    #[inline(always)]
    pub(super) const fn new(table: AreaTable<'m>, root: &'m AtomicU64, base: u64) -> Self {
        Self { table, root, base }
    }

    #[inline(always)]
    pub(super) fn root(&self) -> Option<u32> {
        let page = self.root.load(Relaxed).checked_sub(1)?;
        Some(page as u32)
    }

    #[inline(always)]
    pub(super) fn node(&self, page: u32) -> GapNode {
        let [links, sizes] = self.table.words(page);
        GapNode {
            links: links.load(Relaxed),
            sizes: sizes.load(Relaxed),
        }
    }

    #[inline(always)]
    fn put(&self, page: u32, node: GapNode) {
        let [links, sizes] = self.table.words(page);
        links.store(node.links, Relaxed);
        sizes.store(node.sizes, Relaxed);
    }

    /// The reach of one gap alone.
    #[inline(always)]
    pub(super) fn own(&self, page: u32, pages: u32) -> Reach {
        Reach::of(self.base + u64::from(page), pages)
    }

    /// The reach of the subtree behind a link.
    #[inline(always)]
    fn reach_of(&self, link: Option<u32>) -> Reach {
        link.map_or(Reach::NONE, |page| self.node(page).reach())
    }

    /// The reach of a node, from its gap and its children.
    #[inline(always)]
    fn recount(&self, page: u32, node: &GapNode) -> Reach {
        self.own(page, node.pages())
            .or(self.reach_of(node.left()))
            .or(self.reach_of(node.right()))
    }

    /// The same if the reach on one side is known.
    #[inline(always)]
    fn recount_beside(&self, page: u32, node: &GapNode, side: NodeSide, reach: Reach) -> Reach {
        self.reach_of(node.child(side.other()))
            .or(reach)
            .or(self.own(page, node.pages()))
    }

    /// The lowest gap that serves `wanted`, as the last node of the path, and the page where the
    /// range starts.
    ///
    /// Time: O(log n) where the reach is exact; else one more way up and down for each gap with
    /// enough reach that still does not serve.
    #[inline(always)]
    pub(super) fn find(&self, wanted: &WantedGap, path: &mut Path) -> Option<u32> {
        let root = self.root()?;
        if wanted.is_unaligned() {
            self.find_unaligned(root, wanted.pages(), path)
        } else {
            self.find_aligned(root, wanted, path)
        }
    }

    #[inline(always)]
    fn find_unaligned(&self, root: u32, pages: u32, path: &mut Path) -> Option<u32> {
        let (mut at, mut node) = (root, self.node(root));
        if !node.reaches(pages) {
            return None;
        }
        loop {
            path.push(at);
            if let Some(left) = node.left() {
                let below = self.node(left);
                if below.reaches(pages) {
                    (at, node) = (left, below);
                    continue;
                }
            }
            if node.pages() >= pages {
                return Some(at);
            }
            // The reach has promised that the right side serves.
            at = node.right()?;
            node = self.node(at);
        }
    }

    fn find_aligned(&self, root: u32, wanted: &WantedGap, path: &mut Path) -> Option<u32> {
        let (mut at, mut node) = (root, self.node(root));
        if !wanted.may_lie_in(node.reach()) {
            return None;
        }
        loop {
            path.push(at);
            if let Some(left) = node.left() {
                let below = self.node(left);
                if wanted.may_lie_in(below.reach()) {
                    (at, node) = (left, below);
                    continue;
                }
            }
            loop {
                if let Some(start) = wanted.start_in(self.base, at, node.pages()) {
                    return Some(start);
                }
                if let Some(right) = node.right() {
                    let below = self.node(right);
                    if wanted.may_lie_in(below.reach()) {
                        (at, node) = (right, below);
                        break;
                    }
                }
                // Goes up to the first node that has this subtree on its left: that is the next
                // one.
                loop {
                    path.pop();
                    let parent = path.last()?;
                    let side = NodeSide::of(at, parent);
                    at = parent;
                    if side == NodeSide::Left {
                        break;
                    }
                }
                node = self.node(at);
            }
        }
    }

    /// Searches for `page`. Time: O(log n).
    #[inline(always)]
    pub(super) fn place(&self, page: u32, path: &mut Path) -> TreePlace {
        let (mut before, mut after) = (usize::MAX, usize::MAX);
        let mut next = self.root();
        while let Some(at) = next {
            let depth = path.len();
            path.push(at);
            let node = GapNode {
                links: self.table.words(at)[0].load(Relaxed),
                sizes: 0,
            };
            let (child, right) = node.towards(at, page);
            before = if right { depth } else { before };
            after = if right { after } else { depth };
            next = child;
        }
        let depth = |depth| (depth != usize::MAX).then_some(depth);
        TreePlace {
            before: depth(before),
            after: depth(after),
        }
    }

    /// Puts `page` in the place of the path's node at `depth`.
    #[inline(always)]
    fn hang(&self, path: &Path, depth: usize, page: Option<u32>) {
        if depth == 0 {
            let word = page.map_or(0, |page| u64::from(page) + 1);
            self.root.store(word, Relaxed);
        } else {
            let parent = path.at(depth - 1);
            let side = NodeSide::of(path.at(depth), parent);
            self.hang_at(parent, side, page);
        }
    }

    #[inline(always)]
    fn hang_at(&self, parent: u32, side: NodeSide, page: Option<u32>) {
        let links = &self.table.words(parent)[0];
        let mut node = GapNode {
            links: links.load(Relaxed),
            sizes: 0,
        };
        node.set_child(side, page);
        links.store(node.links, Relaxed);
    }

    /// Makes the gap at `depth` of the path the `pages` pages from `page`, between the same
    /// neighbours.
    #[inline]
    pub(super) fn reshape(&self, path: &mut Path, depth: usize, page: u32, pages: u32) {
        let old_page = path.at(depth);
        let mut node = self.node(old_page);
        let (grows, old) = (pages >= node.pages(), node.reach());
        node.set_pages(pages);
        let new = if grows {
            old.or(self.own(page, pages))
        } else {
            self.recount(page, &node)
        };
        node.set_reach(new);
        if page != old_page {
            self.hang(path, depth, Some(page));
            path.set(depth, page);
        }
        self.put(page, node);
        if old != new {
            self.pass_up(path, depth, ReachChange { old, new });
        }
    }

    /// Passes a change at `depth` on to the nodes above.
    fn pass_up(&self, path: &Path, mut depth: usize, mut change: ReachChange) {
        while depth > 0 {
            if change.is_of_the_point_only() {
                self.pass_point_up(path, depth, change);
                return;
            }
            depth -= 1;
            let page = path.at(depth);
            let mut node = self.node(page);
            let was = node.reach();
            if was.hides(change.old, change.new) {
                return;
            }
            let now = if change.new.covers(change.old) {
                was.or(change.new)
            } else {
                let side = NodeSide::of(path.at(depth + 1), page);
                self.recount_beside(page, &node, side, change.new)
            };
            if now == was {
                return;
            }
            node.set_reach(now);
            self.put(page, node);
            change = ReachChange { old: was, new: now };
        }
    }

    /// The same if only the point differs. Gaps of the same length come and go, and a change of the
    /// roundest page goes further up than any other.
    fn pass_point_up(&self, path: &Path, mut depth: usize, change: ReachChange) {
        let (mut old, mut new) = (change.old.point, change.new.point);
        while depth > 0 && old != new {
            depth -= 1;
            let page = path.at(depth);
            let mut node = self.node(page);
            let was = node.point();
            let now = if new > old {
                was.max(new)
            } else if was > old {
                return;
            } else {
                let side = NodeSide::of(path.at(depth + 1), page);
                let beside = node.child(side.other());
                let beside = beside.map_or(0, |page| self.node(page).point());
                new.max(beside).max(self.own(page, node.pages()).point)
            };
            node.set_point(now);
            self.table.words(page)[1].store(node.sizes, Relaxed);
            (old, new) = (was, now);
        }
    }

    /// Adds the gap of `pages` pages from `page` below the last node of the path, which has no
    /// child on its side.
    pub(super) fn insert(&self, path: &Path, page: u32, pages: u32) {
        let added = self.own(page, pages);
        self.put(page, GapNode::leaf(pages, added));
        let Some(parent) = path.last() else {
            self.root.store(u64::from(page) + 1, Relaxed);
            return;
        };
        self.hang_at(parent, NodeSide::of(page, parent), Some(page));
        let (mut depth, mut child) = (path.len(), page);
        while depth > 0 {
            depth -= 1;
            let page = path.at(depth);
            let mut node = self.node(page);
            let (was, side) = (node.reach(), NodeSide::of(child, page));
            let now = was.or(added);
            if now != was {
                node.set_reach(now);
            }
            let higher = node.higher();
            if higher == Some(side) {
                self.put(page, node);
                let (top, _) = self.rotate(page, side);
                self.hang(path, depth, Some(top));
            } else {
                let evened = higher.is_some();
                node.set_higher(if evened { None } else { Some(side) });
                self.put(page, node);
                if !evened {
                    child = page;
                    continue;
                }
            }
            if now != was {
                self.pass_up(path, depth, ReachChange { old: was, new: now });
            }
            return;
        }
    }

    /// Adds a gap directly behind the last one of the path, if there is one.
    pub(super) fn insert_behind(&self, path: &mut Path, page: u32, pages: u32) {
        let mut next = path.last().and_then(|last| self.node(last).right());
        while let Some(at) = next {
            path.push(at);
            next = self.node(at).left();
        }
        self.insert(path, page, pages);
    }

    /// Removes the gap at the end of the path.
    pub(super) fn remove(&self, path: &mut Path) {
        let depth = path.depth();
        let mut node = self.node(path.at(depth));
        let (Some(_), Some(right)) = (node.left(), node.right()) else {
            let (side, change) = self.unhang(path);
            self.lowered(path, side, change, usize::MAX);
            return;
        };
        // The next gap takes its place.
        path.push(right);
        let mut next = right;
        while let Some(left) = self.node(next).left() {
            next = left;
            path.push(next);
        }
        let pages = self.node(next).pages();
        let (side, change) = self.unhang(path);
        if next == right {
            node.set_child(NodeSide::Right, self.node(next).right());
        }
        node.set_pages(pages);
        self.put(next, node);
        self.hang(path, depth, Some(next));
        path.set(depth, next);
        self.lowered(path, side, change, depth);
    }

    /// Takes the last node of the path, which has at most one child, out of the tree and the path.
    /// Returns where it hung and what changed there.
    #[inline(always)]
    fn unhang(&self, path: &mut Path) -> (NodeSide, ReachChange) {
        let depth = path.depth();
        let node = self.node(path.at(depth));
        let child = node.left().or(node.right());
        self.hang(path, depth, child);
        path.pop();
        let side = match path.last() {
            Some(parent) => NodeSide::of(path.at(depth), parent),
            None => NodeSide::Left,
        };
        let change = ReachChange {
            old: node.reach(),
            new: self.reach_of(child),
        };
        (side, change)
    }

    /// Merges the gaps around a place into one, of `pages` pages from `page`: the gap at the end of
    /// the path, which has at most one child, and the one at `depth`, above it.
    pub(super) fn join(&self, path: &mut Path, depth: usize, page: u32, pages: u32) {
        let (side, change) = self.unhang(path);
        let upper = path.at(depth);
        let mut node = self.node(upper);
        node.set_pages(pages);
        if page != upper {
            self.hang(path, depth, Some(page));
            path.set(depth, page);
        }
        // Its reach is still the old one: `lowered` sees the difference.
        self.put(page, node);
        self.lowered(path, side, change, depth);
    }

    /// Handles that the subtree on `side` of the path's last node has become lower by one, and that
    /// its reach has changed. At the depth `other`, if there is such a depth, the gap itself has
    /// changed.
    fn lowered(&self, path: &Path, side: NodeSide, change: ReachChange, other: usize) {
        let (mut depth, mut side, mut change, mut lower) = (path.len(), side, change, true);
        while depth > 0 {
            depth -= 1;
            let page = path.at(depth);
            let mut node = self.node(page);
            let was = node.reach();
            let mut now = was;
            if depth == other || !was.hides(change.old, change.new) {
                now = self.recount_beside(page, &node, side, change.new);
                node.set_reach(now);
            }
            match node.higher() {
                _ if !lower => self.put(page, node),
                None => {
                    node.set_higher(Some(side.other()));
                    self.put(page, node);
                    lower = false;
                }
                Some(higher) if higher == side => {
                    node.set_higher(None);
                    self.put(page, node);
                }
                Some(higher) => {
                    self.put(page, node);
                    let (top, lowered) = self.rotate(page, higher);
                    self.hang(path, depth, Some(top));
                    lower = lowered;
                }
            }
            change = ReachChange { old: was, new: now };
            // Above the gap that changed only reaches can differ now.
            if !lower && depth <= other {
                if now != was {
                    self.pass_up(path, depth, change);
                }
                return;
            }
            if depth > 0 {
                side = NodeSide::of(page, path.at(depth - 1));
            }
        }
    }

    /// Rotates the subtree at `page`, which is two higher on side `high`. Returns its new top, and
    /// whether it is lower than before.
    fn rotate(&self, page: u32, high: NodeSide) -> (u32, bool) {
        let low = high.other();
        let mut top = self.node(page);
        let child = top.child(high).expect("the higher side has a node");
        let mut upper = self.node(child);
        // The gaps stay the same, and so does their joint reach.
        let reach = top.reach();
        if upper.higher() != Some(low) {
            // Single: the child goes up.
            let lower = upper.higher().is_some();
            top.set_child(high, upper.child(low));
            upper.set_child(low, Some(page));
            top.set_higher(if lower { None } else { Some(high) });
            upper.set_higher(if lower { None } else { Some(low) });
            top.set_reach(self.recount(page, &top));
            upper.set_reach(reach);
            self.put(page, top);
            self.put(child, upper);
            return (child, lower);
        }
        // Double: the grandchild between the two goes up.
        let grand = upper.child(low).expect("the higher side has a node");
        let mut middle = self.node(grand);
        let leaning = middle.higher();
        upper.set_child(low, middle.child(high));
        top.set_child(high, middle.child(low));
        middle.set_child(high, Some(child));
        middle.set_child(low, Some(page));
        top.set_higher((leaning == Some(high)).then_some(low));
        upper.set_higher((leaning == Some(low)).then_some(high));
        middle.set_higher(None);
        top.set_reach(self.recount(page, &top));
        upper.set_reach(self.recount(child, &upper));
        middle.set_reach(reach);
        self.put(page, top);
        self.put(child, upper);
        self.put(grand, middle);
        (grand, true)
    }
}
