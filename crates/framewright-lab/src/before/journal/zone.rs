//! Free blocks by mobility and order, and the labels of pageblocks by which they are kept apart.

use super::lock::{CountedLock, HeldLock};
use framewright::Mobility;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The largest order that is expected to be had (`PAGE_ALLOC_COSTLY_ORDER`).
pub(super) const COSTLY_ORDER: usize = 3;

/// Frames of a pageblock.
pub(super) const PAGEBLOCK: u32 = 512;

/// Orders there are, 0 to 10.
pub(super) const ORDERS: usize = 11;

/// Frames of the largest block: a zone is a multiple of it.
pub const BLOCK_FRAMES_MAX: u32 = 1 << (ORDERS - 1);

/// No frame.
const NONE: u32 = u32::MAX;

/// The frame starts no free block.
const NO_BLOCK: u8 = u8::MAX;

/// Kinds of lists and labels: unmovable and movable. Nothing here is reclaimable.
const KINDS: [Mobility; 2] = [Mobility::Unmovable, Mobility::Movable];

/// In a block's code, above its order: the kind of its list.
const KIND_SHIFT: u8 = 4;

/// The order of a pageblock.
const PAGEBLOCK_ORDER: usize = PAGEBLOCK.ilog2() as usize;

/// Free-frame counts at which behaviour changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalMarks {
    /// No request is served below it.
    pub min: u64,
    /// Below it the fast path gives up and wakes the background.
    pub low: u64,
    /// The background reclaims up to here.
    pub high: u64,
}

/// Free blocks in a list for each order, under one lock.
#[derive(Debug)]
pub(super) struct JournalZone {
    lists: CountedLock<Lists>,
    /// By frame: the order of the free block that starts there, and its list's kind. Changed under the lock; a
    /// scanner looks without it, and looks again with it.
    orders: Box<[AtomicU8]>,
    /// By pageblock: its label. Changed under the lock.
    labels: Box<[AtomicU8]>,
    free: AtomicU64,
    /// Blocks in each list.
    blocks: [[AtomicU64; ORDERS]; KINDS.len()],
    pub(super) marks: JournalMarks,
}

/// The lists' links. A thread reaches them only while it holds the zone's lock.
#[derive(Debug)]
pub(super) struct Lists {
    heads: [[u32; ORDERS]; KINDS.len()],
    next: Vec<u32>,
    prev: Vec<u32>,
}

impl JournalZone {
    /// `frames` frames, none of them free: a multiple of the largest block. All labels are movable.
    pub(super) fn new(frames: u32, marks: JournalMarks) -> Self {
        assert!(frames.is_multiple_of(BLOCK_FRAMES_MAX), "whole blocks");
        let lists = Lists {
            heads: [[NONE; ORDERS]; KINDS.len()],
            next: vec![NONE; frames as usize],
            prev: vec![NONE; frames as usize],
        };
        Self {
            lists: CountedLock::new("zone", lists),
            orders: (0..frames).map(|_| AtomicU8::new(NO_BLOCK)).collect(),
            labels: (0..frames / PAGEBLOCK)
                .map(|_| AtomicU8::new(Mobility::Movable as u8))
                .collect(),
            free: AtomicU64::new(0),
            blocks: [const { [const { AtomicU64::new(0) }; ORDERS] }; KINDS.len()],
            marks,
        }
    }

    pub(super) fn frames(&self) -> u32 {
        self.orders.len() as u32
    }

    pub(super) const fn locks(&self) -> &CountedLock<Lists> {
        &self.lists
    }

    pub(super) fn lock(&self) -> HeldLock<'_, Lists> {
        self.lists.lock()
    }

    /// Frames in the lists, at about this moment.
    pub(super) fn free(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// Whether a list of `order` or above has a block, at about this moment.
    pub(super) fn has(&self, order: usize) -> bool {
        let mut all = self.blocks.iter().flat_map(|kind| &kind[order..]);
        all.any(|n| n.load(Relaxed) > 0)
    }

    /// The order of the free block that starts at `frame`, at about this moment.
    pub(super) fn order_at(&self, frame: u32) -> Option<usize> {
        self.block_at(frame).map(|(order, _)| order)
    }

    fn block_at(&self, frame: u32) -> Option<(usize, Mobility)> {
        let code = self.orders[frame as usize].load(Relaxed);
        let kind = KINDS[usize::from(code >> KIND_SHIFT) % KINDS.len()];
        (code != NO_BLOCK).then_some((usize::from(code & ((1 << KIND_SHIFT) - 1)), kind))
    }

    /// The label of the pageblock that `frame` lies in.
    pub(super) fn label(&self, frame: u32) -> Mobility {
        KINDS[usize::from(self.labels[(frame / PAGEBLOCK) as usize].load(Relaxed)) % KINDS.len()]
    }

    pub(super) fn set_label(&self, frame: u32, kind: Mobility) {
        self.labels[(frame / PAGEBLOCK) as usize].store(kind as u8, Relaxed);
    }

    /// Whether a block of `order` may be taken: enough stays free above `mark`, and there is one.
    pub(super) fn allows(&self, order: usize, mark: u64) -> bool {
        let others = (1 << order) - 1;
        self.free().saturating_sub(others) > mark && self.has(order)
    }

    /// A block of `order` for a request of `kind`, from the lowest order that has one; what is cut off goes to that
    /// kind's lists. If they have none, it comes from the other kind's largest block, and the rest of that pageblock
    /// may change sides; `can_move` tells of a frame whether it has a page that can be moved.
    pub(super) fn take(
        &self,
        lists: &mut Lists,
        order: usize,
        kind: Mobility,
        can_move: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        self.smallest(lists, order, kind).or_else(|| {
            self.steal(lists, order, kind, can_move)?;
            self.smallest(lists, order, kind)
        })
    }

    fn smallest(&self, lists: &mut Lists, order: usize, kind: Mobility) -> Option<u32> {
        let heads = &lists.heads[kind as usize];
        let from = (order..ORDERS).find(|&o| heads[o] != NONE)?;
        let frame = heads[from];
        self.unlink(lists, frame, from, kind);
        for half in (order..from).rev() {
            self.link(lists, frame + (1 << half), half, kind);
        }
        Some(frame)
    }

    /// Moves a block of the other kind to the lists of `kind`, by the rules of 4.13 to 5.16.
    fn steal(
        &self,
        lists: &mut Lists,
        order: usize,
        kind: Mobility,
        can_move: impl Fn(u32) -> bool,
    ) -> Option<()> {
        let (other, is_movable) = match kind {
            Mobility::Movable => (Mobility::Unmovable, true),
            _ => (Mobility::Movable, false),
        };
        let heads = lists.heads[other as usize];
        let from = (order..ORDERS).rev().find(|&o| heads[o] != NONE)?;
        // A movable page does not pollute the pageblock for long, so a small block is enough for it.
        let takes_rest = !is_movable || from >= PAGEBLOCK_ORDER / 2;
        let from = if takes_rest || from == order {
            from
        } else {
            (order..ORDERS).find(|&o| heads[o] != NONE)?
        };
        let frame = heads[from];
        if from >= PAGEBLOCK_ORDER {
            let blocks = (1 << from) / PAGEBLOCK;
            (0..blocks).for_each(|nth| self.set_label(frame + nth * PAGEBLOCK, kind));
        } else if takes_rest {
            self.claim(lists, frame, kind, can_move);
            return Some(());
        }
        self.unlink(lists, frame, from, other);
        self.link(lists, frame, from, kind);
        Some(())
    }

    /// Moves all free blocks of a pageblock to the lists of `kind`. If they and what is of its kind there are half of
    /// the pageblock, it gets that label.
    fn claim(&self, lists: &mut Lists, frame: u32, kind: Mobility, can_move: impl Fn(u32) -> bool) {
        let start = frame & !(PAGEBLOCK - 1);
        let (mut at, mut free, mut movable) = (start, 0, 0);
        while at < start + PAGEBLOCK {
            match self.block_at(at) {
                Some((order, of)) => {
                    self.unlink(lists, at, order, of);
                    self.link(lists, at, order, kind);
                    free += 1 << order;
                    at += 1 << order;
                }
                None => {
                    movable += u32::from(can_move(at));
                    at += 1;
                }
            }
        }
        let alike = match (kind, self.label(frame)) {
            (Mobility::Movable, _) => movable,
            (_, Mobility::Movable) => PAGEBLOCK - free - movable,
            _ => 0,
        };
        if free + alike >= PAGEBLOCK / 2 {
            self.set_label(frame, kind);
        }
    }

    /// Gives a block back to the lists of its pageblock's label; it becomes one with its free neighbours.
    pub(super) fn give(&self, lists: &mut Lists, frame: u32, order: usize) {
        debug_assert!(
            self.order_at(frame).is_none(),
            "frame {frame} is free already"
        );
        let kind = self.label(frame);
        let (mut frame, mut order) = (frame, order);
        while order + 1 < ORDERS {
            let buddy = frame ^ (1 << order);
            match self.block_at(buddy) {
                Some((of, other)) if of == order => self.unlink(lists, buddy, order, other),
                _ => break,
            }
            frame &= !(1 << order);
            order += 1;
        }
        self.link(lists, frame, order, kind);
    }

    /// Takes exactly the free block that starts at `frame`; its order.
    pub(super) fn isolate(&self, lists: &mut Lists, frame: u32) -> Option<usize> {
        let (order, kind) = self.block_at(frame)?;
        self.unlink(lists, frame, order, kind);
        Some(order)
    }

    /// The first movable free block of `order` among `most` for which `is_right` holds.
    pub(super) fn find_movable(
        &self,
        lists: &Lists,
        order: usize,
        most: usize,
        is_right: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut at = lists.heads[Mobility::Movable as usize][order];
        for _ in 0..most {
            if at == NONE {
                return None;
            }
            if is_right(at) {
                return Some(at);
            }
            at = lists.next[at as usize];
        }
        None
    }

    fn link(&self, lists: &mut Lists, frame: u32, order: usize, kind: Mobility) {
        let at = frame as usize;
        let head = lists.heads[kind as usize][order];
        lists.next[at] = head;
        lists.prev[at] = NONE;
        if head != NONE {
            lists.prev[head as usize] = frame;
        }
        lists.heads[kind as usize][order] = frame;
        let code = (kind as u8) << KIND_SHIFT | order as u8;
        self.orders[at].store(code, Relaxed);
        self.count(order, kind, 1);
    }

    fn unlink(&self, lists: &mut Lists, frame: u32, order: usize, kind: Mobility) {
        let at = frame as usize;
        let (prev, next) = (lists.prev[at], lists.next[at]);
        match prev {
            NONE => lists.heads[kind as usize][order] = next,
            prev => lists.next[prev as usize] = next,
        }
        if next != NONE {
            lists.prev[next as usize] = prev;
        }
        self.orders[at].store(NO_BLOCK, Relaxed);
        self.count(order, kind, -1);
    }

    /// Under the lock, so plain additions lose nothing.
    fn count(&self, order: usize, kind: Mobility, blocks: i64) {
        let add = |word: &AtomicU64, by: i64| {
            word.store(word.load(Relaxed).wrapping_add_signed(by), Relaxed);
        };
        add(&self.blocks[kind as usize][order], blocks);
        add(&self.free, blocks << order);
    }

    /// Free frames by the lists themselves, which must be what was counted; every block aligned,
    /// and no two buddies apart that could be one.
    pub(super) fn recount(&self) -> Result<u64, String> {
        let lists = self.lock();
        let mut free = 0;
        for kind in KINDS {
            for order in 0..ORDERS {
                let (mut at, mut blocks) = (lists.heads[kind as usize][order], 0);
                while at != NONE {
                    let buddy = at ^ (1 << order);
                    if !at.is_multiple_of(1 << order) || self.block_at(at) != Some((order, kind)) {
                        return Err(format!(
                            "J1: frame {at} is no {kind} block of order {order}"
                        ));
                    }
                    if order + 1 < ORDERS && self.order_at(buddy) == Some(order) {
                        return Err(format!("J2: {at} and {buddy} are free and apart"));
                    }
                    blocks += 1;
                    free += 1 << order;
                    at = lists.next[at as usize];
                }
                let counted = self.blocks[kind as usize][order].load(Relaxed);
                if counted != blocks {
                    return Err(format!(
                        "J3: {blocks} {kind} blocks of order {order}, {counted} counted"
                    ));
                }
            }
        }
        if free != self.free() {
            return Err(format!(
                "J3: {free} frames are free, {} counted",
                self.free()
            ));
        }
        Ok(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: JournalMarks = JournalMarks {
        min: 0,
        low: 0,
        high: 0,
    };

    fn free(zone: &JournalZone, frames: std::ops::Range<u32>) {
        let mut lists = zone.lock();
        frames.for_each(|frame| zone.give(&mut lists, frame, 0));
    }

    #[test]
    fn an_unmovable_request_takes_the_largest_movable_block_and_what_is_free_beside_it() {
        let zone = JournalZone::new(2048, MARKS);
        free(&zone, 0..4);
        free(&zone, 512..520);
        free(&zone, 600..602);
        // Of that pageblock 10 frames are free; the others are a cache's.
        let got = zone.take(&mut zone.lock(), 0, Mobility::Unmovable, |_| true);
        // What came with the largest one is shorter, and serves.
        assert_eq!(got, Some(600));
        assert_eq!(zone.block_at(601), Some((0, Mobility::Unmovable)));
        assert_eq!(zone.block_at(512), Some((3, Mobility::Unmovable)));
        assert_eq!(zone.block_at(0), Some((2, Mobility::Movable)));
        assert_eq!(zone.label(512), Mobility::Movable, "too little of it is");
        assert_eq!(zone.recount(), Ok(13));
    }

    #[test]
    fn a_pageblock_of_which_half_is_free_or_alike_changes_its_label() {
        let zone = JournalZone::new(1024, MARKS);
        free(&zone, 0..16);
        // 240 more frames are of no page that can move.
        let can_move = |frame| frame >= 256;
        let got = zone.take(&mut zone.lock(), 0, Mobility::Unmovable, can_move);
        assert_eq!(got, Some(0));
        assert_eq!(zone.label(0), Mobility::Unmovable);
        assert_eq!(zone.label(512), Mobility::Movable);
        // What is freed goes where the label says.
        free(&zone, 0..1);
        assert_eq!(zone.block_at(0), Some((4, Mobility::Unmovable)));
    }

    #[test]
    fn a_movable_request_takes_of_a_small_unmovable_block_only_that() {
        let zone = JournalZone::new(1024, MARKS);
        zone.set_label(0, Mobility::Unmovable);
        free(&zone, 0..4);
        free(&zone, 8..9);
        let got = zone.take(&mut zone.lock(), 0, Mobility::Movable, |_| false);
        assert_eq!(got, Some(8), "the smallest, because it is soon given back");
        assert_eq!(zone.block_at(0), Some((2, Mobility::Unmovable)));
        assert_eq!(zone.label(0), Mobility::Unmovable);
    }
}
