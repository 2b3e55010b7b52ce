//! The gaps as a tree: AVL, by address, each node in the words of its gap's first page and
//! augmented with the reach of the gaps below it.
//!
//! A node has no link to its parent: whoever changes one has come down from the root and has the
//! way in a [`Path`]. What changed goes up the path only as far as it can be seen.
//!
//! # Sources
//! G. Adelson-Velsky, E. Landis, "An algorithm for the organization of information", 1962. The
//! height of n nodes is at most 1.4405 log2(n + 2) - 0.3277 (Knuth, vol. 3, 6.2.3).

use super::fit::{Reach, Wanted};
use super::table::{GAP, PAGE_BITS, PAGE_MASK, PAGES_MAX, Table};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Above the height of any tree: gaps do not touch, so at most every second of 2^30 pages starts
/// one, and 1.4405 * 29 - 0.3277 is 41.4.
pub(super) const HEIGHT_MAX: usize = 48;
const _: () = assert!(PAGES_MAX == 1 << 30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Left,
    Right,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    const fn of(child: u32, parent: u32) -> Self {
        if child < parent {
            Self::Left
        } else {
            Self::Right
        }
    }
}

/// A node as it is read and written, packed as [`Table`] says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    links: u64,
    sizes: u64,
}

/// In `links`: whether the gaps below hold an aligned block of the order of the longest's length.
const WHOLE_SHIFT: u32 = 62;
/// In `links`: 0 balanced, 1 higher on the left, 2 higher on the right.
const BALANCE_SHIFT: u32 = 2 * PAGE_BITS;
const BALANCE_MASK: u64 = 3 << BALANCE_SHIFT;
/// In `sizes`.
const POINT_SHIFT: u32 = 2 * PAGE_BITS;

impl Node {
    /// A gap of `pages` pages with nothing below it.
    #[inline(always)]
    fn leaf(pages: u32, reach: Reach) -> Self {
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
    fn set_pages(&mut self, pages: u32) {
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
    const fn child(&self, side: Side) -> Option<u32> {
        match side {
            Side::Left => self.left(),
            Side::Right => self.right(),
        }
    }

    #[inline(always)]
    fn set_child(&mut self, side: Side, child: Option<u32>) {
        match side {
            Side::Left => {
                let link = child.map_or(0, |page| page + 1);
                self.links &= !(PAGE_MASK << PAGE_BITS);
                self.links |= u64::from(link) << PAGE_BITS;
            }
            Side::Right => {
                self.links &= !PAGE_MASK;
                self.links |= u64::from(child.unwrap_or(0));
            }
        }
    }

    /// The side that is higher by one, if one is.
    #[inline(always)]
    fn higher(&self) -> Option<Side> {
        match (self.links & BALANCE_MASK) >> BALANCE_SHIFT {
            0 => None,
            1 => Some(Side::Left),
            _ => Some(Side::Right),
        }
    }

    /// Whether it says the truth about children of these heights, and they are no worse than AVL.
    pub(super) fn is_balanced(&self, left: usize, right: usize) -> bool {
        let higher = match left as isize - right as isize {
            0 => None,
            1 => Some(Side::Left),
            -1 => Some(Side::Right),
            _ => return false,
        };
        higher == self.higher()
    }

    #[inline(always)]
    fn set_higher(&mut self, side: Option<Side>) {
        let bits = match side {
            None => 0,
            Some(Side::Left) => 1,
            Some(Side::Right) => 2,
        };
        self.links = self.links & !BALANCE_MASK | bits << BALANCE_SHIFT;
    }

    #[inline(always)]
    pub(super) const fn reach(&self) -> Reach {
        let longest = (self.sizes & PAGE_MASK) as u32 + 1;
        let whole = (self.links >> WHOLE_SHIFT & 1) as u8;
        Reach {
            longest,
            order: (longest.ilog2() as u8 + whole).wrapping_sub(1),
            point: (self.sizes >> POINT_SHIFT) as u8,
        }
    }

    #[inline(always)]
    fn set_reach(&mut self, reach: Reach) {
        let whole = u64::from(u32::from(reach.order) == reach.longest.ilog2());
        self.links = self.links & !(1 << WHOLE_SHIFT) | whole << WHOLE_SHIFT;
        self.sizes &= PAGE_MASK << PAGE_BITS;
        self.sizes |= u64::from(reach.longest - 1) | u64::from(reach.point) << POINT_SHIFT;
    }
}

/// The nodes from the root down to one of them, by their pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pages: [u32; HEIGHT_MAX],
    len: usize,
}

impl Path {
    #[inline(always)]
    const fn new() -> Self {
        Self {
            pages: [0; HEIGHT_MAX],
            len: 0,
        }
    }

    #[inline(always)]
    fn push(&mut self, page: u32) {
        self.pages[self.len] = page;
        self.len += 1;
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.pages[self.len])
    }

    #[inline(always)]
    fn last(&self) -> Option<u32> {
        Some(self.pages[self.len.checked_sub(1)?])
    }

    /// The depth of the last node. There is one.
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
}

/// Where a page lies among the gaps: the way down to it, and on it the last gap that starts at or
/// before the page and the first that starts after it, by their depths.
pub(super) struct Place {
    pub(super) path: Path,
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

/// The tree. All operations are for the one who holds the arena's lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct GapTree<'m> {
    table: Table<'m>,
    /// The root's page plus one; 0 for none.
    root: &'m AtomicU64,
    /// The absolute number of the window's first page.
    base: u64,
}

impl<'m> GapTree<'m> {
    #[inline(always)]
    pub(super) const fn new(table: Table<'m>, root: &'m AtomicU64, base: u64) -> Self {
        Self { table, root, base }
    }

    #[inline(always)]
    pub(super) fn root(&self) -> Option<u32> {
        let page = self.root.load(Relaxed).checked_sub(1)?;
        Some(page as u32)
    }

    #[inline(always)]
    pub(super) fn node(&self, page: u32) -> Node {
        let [links, sizes] = self.table.words(page);
        Node {
            links: links.load(Relaxed),
            sizes: sizes.load(Relaxed),
        }
    }

    #[inline(always)]
    fn put(&self, page: u32, node: Node) {
        let [links, sizes] = self.table.words(page);
        links.store(node.links, Relaxed);
        sizes.store(node.sizes, Relaxed);
    }

    /// The reach of one gap alone.
    #[inline(always)]
    pub(super) fn own(&self, page: u32, pages: u32) -> Reach {
        Reach::of(self.base + u64::from(page), pages)
    }

    /// The reach of a node, from its gap and its children.
    #[inline(always)]
    fn recount(&self, page: u32, node: &Node) -> Reach {
        let mut reach = self.own(page, node.pages());
        for child in [node.left(), node.right()].into_iter().flatten() {
            reach = reach.or(self.node(child).reach());
        }
        reach
    }

    /// The lowest gap that serves `wanted`, as the last node of the path, and where in it.
    ///
    /// Time: O(log n) where the reach is exact; else one way back up and down for each gap that
    /// reaches as far and yet does not serve.
    #[inline]
    pub(super) fn find(&self, wanted: &Wanted) -> Option<(Path, u32)> {
        let mut path = Path::new();
        let mut at = self.root()?;
        let mut node = self.node(at);
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
                    return Some((path, start));
                }
                if let Some(right) = node.right() {
                    let below = self.node(right);
                    if wanted.may_lie_in(below.reach()) {
                        (at, node) = (right, below);
                        break;
                    }
                }
                // Up to the first node whose left side this was: it is the next one.
                loop {
                    path.pop();
                    let parent = path.last()?;
                    let side = Side::of(at, parent);
                    at = parent;
                    if side == Side::Left {
                        break;
                    }
                }
                node = self.node(at);
            }
        }
    }

    /// Looks for `page`. Time: O(log n).
    #[inline]
    pub(super) fn place(&self, page: u32) -> Place {
        let mut place = Place {
            path: Path::new(),
            before: None,
            after: None,
        };
        let mut next = self.root();
        while let Some(at) = next {
            let depth = place.path.len;
            place.path.push(at);
            let node = self.node(at);
            next = if at <= page {
                place.before = Some(depth);
                node.right()
            } else {
                place.after = Some(depth);
                node.left()
            };
        }
        place
    }

    /// The gap furthest to one side.
    pub(super) fn outermost(&self, side: Side) -> Option<u32> {
        let mut at = self.root()?;
        while let Some(child) = self.node(at).child(side) {
            at = child;
        }
        Some(at)
    }

    /// Puts `page` where the path's node at `depth` hung.
    #[inline(always)]
    fn hang(&self, path: &Path, depth: usize, page: Option<u32>) {
        if depth == 0 {
            let word = page.map_or(0, |page| u64::from(page) + 1);
            self.root.store(word, Relaxed);
        } else {
            let parent = path.at(depth - 1);
            let side = Side::of(path.at(depth), parent);
            self.hang_at(parent, side, page);
        }
    }

    #[inline(always)]
    fn hang_at(&self, parent: u32, side: Side, page: Option<u32>) {
        let mut node = self.node(parent);
        node.set_child(side, page);
        self.table.words(parent)[0].store(node.links, Relaxed);
    }

    /// The gap at `depth` of the path becomes the `pages` pages from `page`, between the same
    /// neighbours.
    #[inline]
    pub(super) fn reshape(&self, path: &mut Path, depth: usize, page: u32, pages: u32) {
        let old_page = path.at(depth);
        let mut node = self.node(old_page);
        let (old_pages, old) = (node.pages(), node.reach());
        node.set_pages(pages);
        let new = if pages >= old_pages {
            old.or(self.own(page, pages))
        } else {
            self.recount(page, &node)
        };
        node.set_reach(new);
        if page != old_page {
            self.hang(path, depth, Some(page));
            path.pages[depth] = page;
        }
        self.put(page, node);
        self.settle(path, depth, old, new);
    }

    /// Tells the nodes above `depth` that the reach there changed from `old` to `new`.
    #[inline(always)]
    fn settle(&self, path: &Path, mut depth: usize, mut old: Reach, mut new: Reach) {
        while old != new && depth > 0 {
            depth -= 1;
            let page = path.at(depth);
            let mut node = self.node(page);
            let was = node.reach();
            let now = if new.covers(old) {
                was.or(new)
            } else if was.hides(old, new) {
                return;
            } else {
                self.recount(page, &node)
            };
            if now == was {
                return;
            }
            node.set_reach(now);
            self.put(page, node);
            (old, new) = (was, now);
        }
    }

    /// Adds the gap of `pages` pages from `page` below the last node of the path, which has no
    /// child on its side.
    pub(super) fn insert(&self, path: &mut Path, page: u32, pages: u32) {
        let added = self.own(page, pages);
        self.put(page, Node::leaf(pages, added));
        let Some(parent) = path.last() else {
            self.root.store(u64::from(page) + 1, Relaxed);
            return;
        };
        self.hang_at(parent, Side::of(page, parent), Some(page));
        let (mut depth, mut child) = (path.len, page);
        while depth > 0 {
            depth -= 1;
            let page = path.at(depth);
            let mut node = self.node(page);
            let (was, side) = (node.reach(), Side::of(child, page));
            let now = was.or(added);
            node.set_reach(now);
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
            self.settle(path, depth, was, now);
            return;
        }
    }

    /// Adds a gap directly behind the last one of the path.
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
        let page = path.at(depth);
        let mut node = self.node(page);
        let (side, seen) = if let (Some(_), Some(right)) = (node.left(), node.right()) {
            // The next gap takes its place.
            let (mut next, mut below) = (right, self.node(right));
            while let Some(left) = below.left() {
                path.push(next);
                (next, below) = (left, self.node(left));
            }
            let side = if next == right {
                node.set_child(Side::Right, below.right());
                Side::Right
            } else {
                self.hang_at(path.at(path.depth()), Side::Left, below.right());
                Side::Left
            };
            node.set_pages(below.pages());
            self.put(next, node);
            self.hang(path, depth, Some(next));
            path.pages[depth] = next;
            (side, depth)
        } else {
            self.hang(path, depth, node.left().or(node.right()));
            path.pop();
            let Some(parent) = path.last() else {
                return;
            };
            (Side::of(page, parent), path.depth())
        };
        self.lowered(path, side, seen);
    }

    /// The gaps around a place become one, of `pages` pages from `page`: the one at the end of the
    /// path, which has at most one child, and the one at `depth`, above it.
    pub(super) fn join(&self, path: &mut Path, depth: usize, page: u32, pages: u32) {
        let lower = path.at(path.depth());
        let node = self.node(lower);
        self.hang(path, path.depth(), node.left().or(node.right()));
        path.pop();
        let side = Side::of(lower, path.at(path.depth()));
        let upper = path.at(depth);
        let mut node = self.node(upper);
        node.set_pages(pages);
        if page != upper {
            self.hang(path, depth, Some(page));
            path.pages[depth] = page;
        }
        // Its reach is still that of before: `lowered` sees the difference.
        self.put(page, node);
        self.lowered(path, side, depth);
    }

    /// What hangs on `side` of the last node of the path has become lower by one. Nodes above
    /// `seen` are visited only if they need be.
    fn lowered(&self, path: &Path, side: Side, seen: usize) {
        let (mut depth, mut side, mut lower) = (path.len, side, true);
        while depth > 0 {
            depth -= 1;
            let page = path.at(depth);
            let mut node = self.node(page);
            let was = node.reach();
            let now = self.recount(page, &node);
            node.set_reach(now);
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
            if !lower && now == was && depth <= seen {
                return;
            }
            if depth > 0 {
                side = Side::of(page, path.at(depth - 1));
            }
        }
    }

    /// Turns the subtree at `page`, which is two higher on side `high`. Returns its new top, and
    /// whether it is lower than before the turn.
    fn rotate(&self, page: u32, high: Side) -> (u32, bool) {
        let low = high.other();
        let mut top = self.node(page);
        let child = top.child(high).expect("the higher side has a node");
        let mut upper = self.node(child);
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
