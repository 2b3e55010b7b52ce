//! The blocks of a zone and the lists of those that are free or cached. This file alone writes tags, links and the
//! counts of each pageblock, so that B1 to B5 can be checked by reading it.

use super::links::{Links, ListEnd};
use super::{LinuxBuddyConfig, MAX_ORDER};
use crate::replay::FreeRefused;
use framewright::{Frame, Mobility, Order};

/// Orders of free lists.
const ORDERS: usize = MAX_ORDER as usize + 1;
/// Free lists; their numbers follow the frames'.
const FREE_LISTS: usize = ORDERS * 3;
/// What stands in a block's first frame; all other frames carry [`BuddyTag::INSIDE`].
///
/// Bits 0 to 3 order, 4 and 5 mobility, 6 and 7 state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BuddyTag(u8);

impl BuddyTag {
    /// Not the first frame of a block.
    pub(super) const INSIDE: Self = Self(0);
    const STATE: u8 = 3 << 6;
    const FREE: u8 = 1 << 6;
    const CACHED: u8 = 2 << 6;
    const ALLOCATED: u8 = 3 << 6;

    const fn new(state: u8, order: u8, mt: usize) -> Self {
        Self(state | (mt as u8) << 4 | order)
    }

    pub(super) const fn order(self) -> u8 {
        self.0 & 15
    }

    /// Of a free or cached block the list it belongs to, of an allocated one the mobility asked for.
    pub(super) const fn mt(self) -> usize {
        (self.0 >> 4 & 3) as usize
    }

    pub(super) const fn is_free(self) -> bool {
        self.0 & Self::STATE == Self::FREE
    }

    pub(super) const fn is_cached(self) -> bool {
        self.0 & Self::STATE == Self::CACHED
    }

    pub(super) const fn is_allocated(self) -> bool {
        self.0 & Self::STATE == Self::ALLOCATED
    }

    const fn is_free_of(self, order: u8) -> bool {
        self.0 & (Self::STATE | 15) == Self::FREE | order
    }
}

/// The frames, the blocks they form, and the lists of those that are not allocated (B1 to B5).
#[derive(Debug)]
pub(super) struct BuddyFrames {
    count: u32,
    present: u64,
    pageblock_order: u8,
    strict: bool,
    tags: Vec<BuddyTag>,
    /// The free lists' numbers come first, then the per-CPU lists'.
    links: Links,
    labels: Vec<u8>,
    /// How many pageblocks have each of them.
    labelled: [u64; 3],
    /// Frames in free blocks, per pageblock; cached ones are not among them, as in Linux.
    free_in: Vec<u16>,
    /// Frames in blocks allocated as movable, per pageblock: what Linux sees as LRU pages.
    movable_in: Vec<u16>,
    free_count: [[u32; 3]; ORDERS],
    /// Frames in free blocks.
    free: u64,
}

impl BuddyFrames {
    pub(super) fn new(config: &LinuxBuddyConfig<'_>, cached_lists: usize) -> Self {
        let count = config.frames as usize;
        let pageblocks = count.div_ceil(1 << config.pageblock_order);
        let label = if config.policy.groups() {
            Mobility::Movable
        } else {
            Mobility::Unmovable
        };
        let mut frames = Self {
            count: count as u32,
            present: 0,
            pageblock_order: config.pageblock_order,
            strict: config.policy.is_strict(),
            tags: vec![BuddyTag::INSIDE; count],
            links: Links::new(count, FREE_LISTS + cached_lists),
            labels: vec![label.index() as u8; pageblocks],
            labelled: Mobility::ALL.map(|l| if l == label { pageblocks as u64 } else { 0 }),
            free_in: vec![0; pageblocks],
            movable_in: vec![0; pageblocks],
            free_count: [[0; 3]; ORDERS],
            free: 0,
        };
        let mut holes: Vec<(u64, u64)> = config
            .absent
            .iter()
            .map(|run| (run.start().0, run.end().0))
            .collect();
        holes.sort_unstable();
        let mut at = 0;
        for (start, end) in holes {
            frames.add_present(at, start.min(config.frames));
            at = at.max(end);
        }
        frames.add_present(at, config.frames);
        frames
    }

    pub(super) fn count_present(&mut self, frames: u64) {
        self.present += frames;
    }

    /// Frames that exist.
    pub(super) fn present(&self) -> u64 {
        self.present
    }

    /// Frames in free blocks, cached ones not among them.
    #[inline]
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn pageblock_order(&self) -> u8 {
        self.pageblock_order
    }

    pub(super) fn pageblocks(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn tag(&self, frame: u32) -> BuddyTag {
        self.tags[frame as usize]
    }

    pub(super) fn pageblock(&self, frame: u32) -> usize {
        (frame >> self.pageblock_order) as usize
    }

    /// The label of the pageblock that holds `frame`.
    #[inline]
    pub(super) fn label(&self, frame: u32) -> usize {
        usize::from(self.labels[self.pageblock(frame)])
    }

    pub(super) fn label_at(&self, pageblock: usize) -> Option<usize> {
        self.labels.get(pageblock).map(|&label| usize::from(label))
    }

    pub(super) fn pageblock_counts(&self, pageblock: usize) -> (u32, u32) {
        (
            u32::from(self.free_in[pageblock]),
            u32::from(self.movable_in[pageblock]),
        )
    }

    /// The block as numbers that index safely, or `None` if there can be no such block here.
    #[inline]
    pub(super) fn block_at(&self, frame: Frame, order: Order) -> Option<(u32, u8)> {
        let inside = order.get() <= MAX_ORDER
            && frame.is_aligned(order)
            && frame.0 < u64::from(self.count)
            && frame.0 + order.frames() <= u64::from(self.count);
        inside.then_some((frame.0 as u32, order.get()))
    }

    /// Free blocks on one list.
    pub(super) fn listed(&self, order: u8, mt: usize) -> u64 {
        u64::from(self.free_count[usize::from(order)][mt])
    }

    pub(super) fn free_blocks(&self) -> [[u64; 11]; 3] {
        let mut blocks = [[0; 11]; 3];
        for (order, counts) in self.free_count.iter().enumerate() {
            for (mt, &count) in counts.iter().enumerate() {
                blocks[mt][order] = u64::from(count);
            }
        }
        blocks
    }

    pub(super) fn label_list(&self) -> &[u8] {
        &self.labels
    }

    /// Pageblocks by label.
    pub(super) fn labels(&self) -> [u64; 3] {
        self.labelled
    }

    // Lists.

    fn free_list(&self, order: u8, mt: usize) -> u32 {
        self.count + u32::from(order) * 3 + mt as u32
    }

    fn cached_list(&self, list: usize) -> u32 {
        self.count + (FREE_LISTS + list) as u32
    }

    /// The first free block of a list.
    #[inline]
    pub(super) fn first_free(&self, order: u8, mt: usize) -> Option<u32> {
        self.links.end_of(self.free_list(order, mt), ListEnd::Head)
    }

    pub(super) fn has_free(&self, order: u8) -> bool {
        self.free_count[usize::from(order)] != [0; 3]
    }

    /// Walks a list of free blocks from its head.
    pub(super) fn free_list_frames(&self, order: u8, mt: usize) -> impl Iterator<Item = u32> {
        self.links.walk(self.free_list(order, mt))
    }

    /// Walks a per-CPU list from its head.
    pub(super) fn cached_list_frames(&self, list: usize) -> impl Iterator<Item = u32> {
        self.links.walk(self.cached_list(list))
    }

    #[inline]
    pub(super) fn push_free(&mut self, frame: u32, order: u8, mt: usize, end: ListEnd) {
        self.tags[frame as usize] = BuddyTag::new(BuddyTag::FREE, order, mt);
        self.links.push(self.free_list(order, mt), frame, end);
        self.free_count[usize::from(order)][mt] += 1;
    }

    /// Takes a free block off its list; its frames then belong to the caller.
    #[inline]
    pub(super) fn remove_free(&mut self, frame: u32) -> BuddyTag {
        let tag = self.tags[frame as usize];
        self.links.unlink(frame);
        self.tags[frame as usize] = BuddyTag::INSIDE;
        self.free_count[usize::from(tag.order())][tag.mt()] -= 1;
        tag
    }

    /// Puts a free block on another mobility's list.
    pub(super) fn move_free(&mut self, frame: u32, mt: usize, end: ListEnd) {
        let tag = self.remove_free(frame);
        self.push_free(frame, tag.order(), mt, end);
    }

    #[inline]
    pub(super) fn push_cached(
        &mut self,
        list: usize,
        frame: u32,
        order: u8,
        mt: usize,
        end: ListEnd,
    ) {
        self.tags[frame as usize] = BuddyTag::new(BuddyTag::CACHED, order, mt);
        self.links.push(self.cached_list(list), frame, end);
    }

    /// Takes the block at one end of a per-CPU list.
    #[inline]
    pub(super) fn pop_cached(&mut self, list: usize, end: ListEnd) -> Option<(u32, BuddyTag)> {
        let frame = self.links.end_of(self.cached_list(list), end)?;
        self.links.unlink(frame);
        let tag = core::mem::replace(&mut self.tags[frame as usize], BuddyTag::INSIDE);
        Some((frame, tag))
    }

    pub(super) fn is_cached_list_empty(&self, list: usize) -> bool {
        self.links
            .end_of(self.cached_list(list), ListEnd::Head)
            .is_none()
    }

    // Splitting and merging.

    /// Adds a block to, or takes it from, its pageblocks' free counts.
    #[inline]
    pub(super) fn count_free(&mut self, frame: u32, order: u8, free: bool) {
        let shift = self.pageblock_order;
        add(&mut self.free_in, frame, order, shift, free);
        if free {
            self.free += 1 << order;
        } else {
            self.free -= 1 << order;
        }
    }

    /// Takes `frame`'s free block, of which the first 2^`order` frames are the caller's; the rest
    /// goes back to the heads of the lists of `mt`.
    #[inline]
    pub(super) fn take_and_expand(&mut self, frame: u32, order: u8, mt: usize) {
        let mut high = self.remove_free(frame).order();
        while high > order {
            high -= 1;
            self.push_free(frame + (1 << high), high, mt, ListEnd::Head);
        }
        self.count_free(frame, order, false);
    }

    /// Frees a block whose frames are the caller's, to the lists of its pageblocks' labels.
    #[inline]
    pub(super) fn free_block(&mut self, frame: u32, order: u8) {
        if self.strict && order > self.pageblock_order {
            // Each pageblock goes back under its own label.
            let step = 1u32 << self.pageblock_order;
            for i in 0..1 << (order - self.pageblock_order) {
                let at = frame + i * step;
                self.free_block_to(at, self.pageblock_order, self.label(at));
            }
        } else {
            self.free_block_to(frame, order, self.label(frame));
        }
    }

    /// Frees a block to the lists of `mt`.
    #[inline]
    pub(super) fn free_block_to(&mut self, frame: u32, order: u8, mt: usize) {
        self.count_free(frame, order, true);
        self.merge_and_push(frame, order, mt);
    }

    #[inline]
    pub(super) fn is_free_block(&self, frame: u32, order: u8) -> bool {
        // A free block's tag says that all of it exists; past the end there is no tag.
        self.tags
            .get(frame as usize)
            .is_some_and(|tag| tag.is_free_of(order))
    }

    pub(super) fn merge_and_push(&mut self, frame: u32, order: u8, mt: usize) {
        let (mut frame, mut order) = (frame, order);
        while order < MAX_ORDER {
            let buddy = frame ^ (1 << order);
            if !self.is_free_block(buddy, order) {
                break;
            }
            self.remove_free(buddy);
            if self.strict && order >= self.pageblock_order {
                self.relabel(buddy, order, mt);
            }
            frame &= !(1 << order);
            order += 1;
        }
        let end = if self.will_merge_soon(frame, order) {
            ListEnd::Tail
        } else {
            ListEnd::Head
        };
        self.push_free(frame, order, mt, end);
    }

    /// Whether the buddy of the block one order up is free: then this block waits only for its own.
    #[inline]
    fn will_merge_soon(&self, frame: u32, order: u8) -> bool {
        order < MAX_ORDER - 1 && {
            let pair = frame & !(1 << order);
            self.is_free_block(pair ^ (1 << (order + 1)), order + 1)
        }
    }

    /// Labels the pageblocks of a block of at least a pageblock's order.
    pub(super) fn relabel(&mut self, frame: u32, order: u8, mt: usize) {
        let first = self.pageblock(frame);
        for pageblock in first..first + (1 << (order - self.pageblock_order)) {
            self.set_label(pageblock, mt);
        }
    }

    pub(super) fn set_label(&mut self, pageblock: usize, mt: usize) {
        let before = std::mem::replace(&mut self.labels[pageblock], mt as u8);
        self.labelled[usize::from(before)] -= 1;
        self.labelled[mt] += 1;
    }

    /// Whether all of the pageblock lies in the zone; Linux moves no blocks where it does not.
    pub(super) fn is_whole(&self, pageblock: usize) -> bool {
        (pageblock as u64 + 1) << self.pageblock_order <= u64::from(self.count)
    }

    /// Moves a pageblock's free blocks, ascending, to the lists of `mt`.
    pub(super) fn move_pageblock(&mut self, pageblock: usize, mt: usize, end: ListEnd) {
        let mut at = (pageblock as u32) << self.pageblock_order;
        let stop = (u64::from(at) + (1 << self.pageblock_order)).min(u64::from(self.count)) as u32;
        while at < stop {
            let tag = self.tags[at as usize];
            if tag.is_free() {
                self.move_free(at, mt, end);
            }
            // Frames that do not exist are INSIDE without a block, and are stepped over singly.
            at += if tag == BuddyTag::INSIDE {
                1
            } else {
                1 << tag.order()
            };
        }
    }

    // Allocated blocks.

    /// Tags a block that its caller took as allocated.
    #[inline]
    pub(super) fn mark_allocated(&mut self, frame: u32, order: u8, mobility: usize) {
        self.tags[frame as usize] = BuddyTag::new(BuddyTag::ALLOCATED, order, mobility);
        self.count_movable(frame, order, mobility, true);
    }

    /// Makes an allocated block, or an aligned part of one, the caller's; what is left of a block
    /// stays allocated as the aligned blocks it consists of.
    #[inline]
    pub(super) fn unmark_allocated(&mut self, frame: u32, order: u8) -> Result<(), FreeRefused> {
        let tag = self.tags[frame as usize];
        let mobility = if tag.is_allocated() && tag.order() == order {
            self.tags[frame as usize] = BuddyTag::INSIDE;
            tag.mt()
        } else {
            self.split_allocated(frame, order)?
        };
        self.count_movable(frame, order, mobility, false);
        Ok(())
    }

    #[cold]
    fn split_allocated(&mut self, frame: u32, order: u8) -> Result<usize, FreeRefused> {
        for o in order..=MAX_ORDER {
            let mut head = frame & !((1u32 << o) - 1);
            let tag = self.tags[head as usize];
            if tag == BuddyTag::INSIDE {
                continue;
            }
            if !tag.is_allocated() || tag.order() < order || frame - head >= 1 << tag.order() {
                return Err(FreeRefused);
            }
            let mut high = tag.order();
            while high > order {
                high -= 1;
                let upper = head + (1 << high);
                let rest = if frame < upper { upper } else { head };
                if frame >= upper {
                    head = upper;
                }
                self.tags[rest as usize] = BuddyTag::new(BuddyTag::ALLOCATED, high, tag.mt());
            }
            self.tags[frame as usize] = BuddyTag::INSIDE;
            return Ok(tag.mt());
        }
        Err(FreeRefused)
    }

    #[inline]
    fn count_movable(&mut self, frame: u32, order: u8, mobility: usize, allocated: bool) {
        if mobility == Mobility::Movable.index() {
            let shift = self.pageblock_order;
            add(&mut self.movable_in, frame, order, shift, allocated);
        }
    }
}

/// Adds a block's frames to, or takes them from, a count per pageblock of 2^`shift` frames.
#[inline]
fn add(counts: &mut [u16], frame: u32, order: u8, shift: u8, plus: bool) {
    let first = (frame >> shift) as usize;
    let (blocks, frames) = if order <= shift {
        (1, 1u16 << order)
    } else {
        (1 << (order - shift), 1u16 << shift)
    };
    for count in &mut counts[first..first + blocks] {
        if plus {
            *count += frames;
        } else {
            *count -= frames;
        }
    }
}
