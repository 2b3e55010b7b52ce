use super::lock::{CountedLock, HeldLock};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Orders there are, 0 to 10.
pub(super) const ORDERS: usize = 11;

/// Frames of the largest block: a zone is a multiple of it.
pub const BLOCK_FRAMES_MAX: u32 = 1 << (ORDERS - 1);

/// No frame.
const NONE: u32 = u32::MAX;

/// The frame starts no free block.
const NO_BLOCK: u8 = u8::MAX;

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
    /// By frame: the order of the free block that starts there. Changed under the lock; a scanner
    /// looks without it, and looks again with it.
    orders: Box<[AtomicU8]>,
    free: AtomicU64,
    /// Blocks in each list.
    blocks: [AtomicU64; ORDERS],
    pub(super) marks: JournalMarks,
}

/// The lists' links. A thread reaches them only while it holds the zone's lock.
#[derive(Debug)]
pub(super) struct Lists {
    heads: [u32; ORDERS],
    next: Vec<u32>,
    prev: Vec<u32>,
}

impl JournalZone {
    /// `frames` frames, none of them free: a multiple of the largest block.
    pub(super) fn new(frames: u32, marks: JournalMarks) -> Self {
        assert!(frames.is_multiple_of(BLOCK_FRAMES_MAX), "whole blocks");
        let lists = Lists {
            heads: [NONE; ORDERS],
            next: vec![NONE; frames as usize],
            prev: vec![NONE; frames as usize],
        };
        Self {
            lists: CountedLock::new("zone", lists),
            orders: (0..frames).map(|_| AtomicU8::new(NO_BLOCK)).collect(),
            free: AtomicU64::new(0),
            blocks: [const { AtomicU64::new(0) }; ORDERS],
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
        self.blocks[order..].iter().any(|n| n.load(Relaxed) > 0)
    }

    /// The order of the free block that starts at `frame`, at about this moment.
    pub(super) fn order_at(&self, frame: u32) -> Option<usize> {
        let order = self.orders[frame as usize].load(Relaxed);
        (order != NO_BLOCK).then_some(order as usize)
    }

    /// Whether a block of `order` may be taken: enough stays free above `mark`, and there is one.
    pub(super) fn allows(&self, order: usize, mark: u64) -> bool {
        let others = (1 << order) - 1;
        self.free().saturating_sub(others) > mark && self.has(order)
    }

    /// A block of `order`, from the lowest order that has one; what is cut off goes to the lists.
    pub(super) fn take(&self, lists: &mut Lists, order: usize) -> Option<u32> {
        let from = (order..ORDERS).find(|&o| lists.heads[o] != NONE)?;
        let frame = lists.heads[from];
        self.unlink(lists, frame, from);
        for half in (order..from).rev() {
            self.link(lists, frame + (1 << half), half);
        }
        Some(frame)
    }

    /// Gives a block back; it becomes one with its free neighbours.
    pub(super) fn give(&self, lists: &mut Lists, frame: u32, order: usize) {
        debug_assert!(
            self.order_at(frame).is_none(),
            "frame {frame} is free already"
        );
        let (mut frame, mut order) = (frame, order);
        while order + 1 < ORDERS {
            let buddy = frame ^ (1 << order);
            if self.order_at(buddy) != Some(order) {
                break;
            }
            self.unlink(lists, buddy, order);
            frame &= !(1 << order);
            order += 1;
        }
        self.link(lists, frame, order);
    }

    /// Takes exactly the free block that starts at `frame`; its order.
    pub(super) fn isolate(&self, lists: &mut Lists, frame: u32) -> Option<usize> {
        let order = self.order_at(frame)?;
        self.unlink(lists, frame, order);
        Some(order)
    }

    fn link(&self, lists: &mut Lists, frame: u32, order: usize) {
        let at = frame as usize;
        let head = lists.heads[order];
        lists.next[at] = head;
        lists.prev[at] = NONE;
        if head != NONE {
            lists.prev[head as usize] = frame;
        }
        lists.heads[order] = frame;
        self.orders[at].store(order as u8, Relaxed);
        self.count(order, 1);
    }

    fn unlink(&self, lists: &mut Lists, frame: u32, order: usize) {
        let at = frame as usize;
        let (prev, next) = (lists.prev[at], lists.next[at]);
        match prev {
            NONE => lists.heads[order] = next,
            prev => lists.next[prev as usize] = next,
        }
        if next != NONE {
            lists.prev[next as usize] = prev;
        }
        self.orders[at].store(NO_BLOCK, Relaxed);
        self.count(order, -1);
    }

    /// Under the lock, so plain additions lose nothing.
    fn count(&self, order: usize, blocks: i64) {
        let add = |word: &AtomicU64, by: i64| {
            word.store(word.load(Relaxed).wrapping_add_signed(by), Relaxed);
        };
        add(&self.blocks[order], blocks);
        add(&self.free, blocks << order);
    }

    /// Free frames by the lists themselves, which must be what was counted; every block aligned,
    /// and no two buddies apart that could be one.
    pub(super) fn recount(&self) -> Result<u64, String> {
        let lists = self.lock();
        let mut free = 0;
        for order in 0..ORDERS {
            let (mut at, mut blocks) = (lists.heads[order], 0);
            while at != NONE {
                let buddy = at ^ (1 << order);
                if !at.is_multiple_of(1 << order) || self.order_at(at) != Some(order) {
                    return Err(format!("J1: frame {at} is no block of order {order}"));
                }
                if order + 1 < ORDERS && self.order_at(buddy) == Some(order) {
                    return Err(format!("J2: {at} and {buddy} are free and apart"));
                }
                blocks += 1;
                free += 1 << order;
                at = lists.next[at as usize];
            }
            let counted = self.blocks[order].load(Relaxed);
            if counted != blocks {
                return Err(format!(
                    "J3: {blocks} blocks of order {order}, {counted} counted"
                ));
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
