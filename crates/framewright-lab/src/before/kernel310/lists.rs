//! The zone's frames, the blocks they form, and the free lists by order and type.

use crate::before::buddy::MAX_ORDER;
use crate::before::buddy::links::{Links, ListEnd};
use crate::pressure::LISTS;
use framewright::Mobility;

pub(super) const UNMOVABLE: usize = 0;
pub(super) const RECLAIMABLE: usize = 1;
pub(super) const MOVABLE: usize = 2;
pub(super) const RESERVE: usize = 3;
pub(super) const CMA: usize = 4;

/// Types that a CPU keeps lists for: those that can be asked for.
pub(super) const ASKED: usize = 3;

pub(super) const ORDERS: usize = MAX_ORDER as usize + 1;
const FREE_LISTS: usize = ORDERS * LISTS;

/// The list that serves a mobility first, numbered as `/proc/pagetypeinfo` lists them.
pub(super) const fn list_of(mobility: Mobility) -> usize {
    match mobility {
        Mobility::Unmovable => UNMOVABLE,
        Mobility::Reclaimable => RECLAIMABLE,
        Mobility::Movable => MOVABLE,
    }
}

/// One byte a frame: what stands there. The scanners read nothing else.
///
/// Bit 7: the first frame of a free block. Bits 4 to 6: its list, or the type that was asked for.
/// Bits 0 to 3: its order, or [`CACHED`](Self::CACHED_ORDER). List 7 marks what is no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Tag310(u8);

impl Tag310 {
    const FREE: u8 = 0x80;
    const CACHED_ORDER: u8 = 0x0f;
    /// Not the first frame of a block.
    pub(super) const INSIDE: Self = Self(0x7f);
    /// No frame.
    pub(super) const ABSENT: Self = Self(0x7e);
    /// Taken off the free lists by compaction, as a frame to move to.
    pub(super) const ISOLATED: Self = Self(0x7d);
    /// A single movable page: what is on an LRU list and can be moved.
    pub(super) const LRU: Self = Self::allocated(0, MOVABLE);

    const fn free(order: u8, list: usize) -> Self {
        Self(Self::FREE | (list as u8) << 4 | order)
    }

    const fn cached(list: usize) -> Self {
        Self((list as u8) << 4 | Self::CACHED_ORDER)
    }

    pub(super) const fn allocated(order: u8, list: usize) -> Self {
        Self((list as u8) << 4 | order)
    }

    pub(super) const fn order(self) -> u8 {
        self.0 & 0x0f
    }

    pub(super) const fn list(self) -> usize {
        (self.0 >> 4 & 7) as usize
    }

    pub(super) const fn is_free(self) -> bool {
        self.0 & Self::FREE != 0
    }

    const fn is_block(self) -> bool {
        self.list() != 7
    }

    pub(super) const fn is_cached(self) -> bool {
        !self.is_free() && self.is_block() && self.order() == Self::CACHED_ORDER
    }

    pub(super) const fn is_allocated(self) -> bool {
        !self.is_free() && self.is_block() && self.order() != Self::CACHED_ORDER
    }

    const fn is_free_of(self, order: u8) -> bool {
        self.0 & (Self::FREE | 0x0f) == Self::FREE | order
    }
}

/// The frames and the lists (LK1 to LK5).
#[derive(Debug)]
pub(super) struct Zone310 {
    count: u32,
    present: u64,
    pageblock_order: u8,
    tags: Vec<Tag310>,
    /// The free lists' numbers come first, then the per-CPU lists'.
    links: Links,
    labels: Vec<u8>,
    free_count: [[u32; ORDERS]; LISTS],
    /// By list, a bit for each order it has blocks of.
    orders_of: [u16; LISTS],
    /// Frames on the free lists.
    free: u64,
    /// Of these, those on the contiguous area's.
    free_cma: u64,
}

impl Zone310 {
    /// A zone without frames: all are absent, all pageblocks movable.
    pub(super) fn new(count: u32, pageblock_order: u8, cached_lists: usize) -> Self {
        let frames = count as usize;
        Self {
            count,
            present: 0,
            pageblock_order,
            tags: vec![Tag310::ABSENT; frames],
            links: Links::new(frames, FREE_LISTS + cached_lists),
            labels: vec![MOVABLE as u8; frames.div_ceil(1 << pageblock_order)],
            free_count: [[0; ORDERS]; LISTS],
            orders_of: [0; LISTS],
            free: 0,
            free_cma: 0,
        }
    }

    /// Frees `from..to` at the start: the largest aligned blocks, ascending, each to a list's head,
    /// so that the highest is used first.
    pub(super) fn add_present(&mut self, from: u32, to: u32) {
        self.tags[from as usize..to as usize].fill(Tag310::INSIDE);
        self.present += u64::from(to - from);
        self.free += u64::from(to - from);
        let mut at = from;
        while at < to {
            let fits = (to - at).ilog2().min(u32::from(MAX_ORDER));
            let order = at.trailing_zeros().min(fits) as u8;
            let list = self.label(at);
            self.push_free(at, order, list, ListEnd::Head);
            at += 1 << order;
        }
    }

    pub(super) fn present(&self) -> u64 {
        self.present
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Of these, those on the contiguous area's lists.
    #[inline]
    pub(super) fn free_cma(&self) -> u64 {
        self.free_cma
    }

    /// Blocks of an order on all lists together.
    #[inline]
    pub(super) fn free_at(&self, order: u8) -> u32 {
        self.free_count
            .iter()
            .map(|orders| orders[usize::from(order)])
            .sum()
    }

    /// Whether any list has a block of at least `order`.
    pub(super) fn has_free(&self, order: u8) -> bool {
        self.orders_of.iter().any(|orders| orders >> order != 0)
    }

    pub(super) fn free_count(&self) -> &[[u32; ORDERS]; LISTS] {
        &self.free_count
    }

    /// By list, a bit for each order it has blocks of.
    #[inline]
    pub(super) fn orders_of(&self, list: usize) -> u16 {
        self.orders_of[list]
    }

    #[inline]
    pub(super) fn tag(&self, frame: u32) -> Tag310 {
        self.tags[frame as usize]
    }

    #[inline]
    pub(super) fn set_tag(&mut self, frame: u32, tag: Tag310) {
        self.tags[frame as usize] = tag;
    }

    pub(super) fn tags(&self) -> &[Tag310] {
        &self.tags
    }

    // Pageblocks.

    pub(super) fn pageblock_order(&self) -> u8 {
        self.pageblock_order
    }

    pub(super) fn pageblock_frames(&self) -> u32 {
        1 << self.pageblock_order
    }

    #[inline]
    pub(super) fn pageblock(&self, frame: u32) -> usize {
        (frame >> self.pageblock_order) as usize
    }

    /// The type of the pageblock that holds `frame`.
    #[inline]
    pub(super) fn label(&self, frame: u32) -> usize {
        usize::from(self.labels[self.pageblock(frame)])
    }

    pub(super) fn labels(&self) -> &[u8] {
        &self.labels
    }

    pub(super) fn set_label(&mut self, pageblock: usize, list: usize) {
        self.labels[pageblock] = list as u8;
    }

    /// Labels the pageblocks of a block of at least a pageblock's order.
    pub(super) fn relabel(&mut self, frame: u32, order: u8, list: usize) {
        let first = self.pageblock(frame);
        self.labels[first..first + (1 << (order - self.pageblock_order))].fill(list as u8);
    }

    /// Moves the free blocks of the pageblock that holds `frame` to `list`; how many frames.
    /// None where the pageblock is not whole: Linux leaves the zone's ends alone.
    pub(super) fn move_pageblock(&mut self, frame: u32, list: usize) -> u32 {
        let mut at = frame & !(self.pageblock_frames() - 1);
        let end = u64::from(at) + u64::from(self.pageblock_frames());
        if end > u64::from(self.count) {
            return 0;
        }
        let mut moved = 0;
        loop {
            at = next_free(&self.tags, at, end as u32);
            if at == end as u32 {
                return moved;
            }
            let order = self.tag(at).order();
            self.remove_free(at);
            self.push_free(at, order, list, ListEnd::Head);
            moved += 1 << order;
            at = (at + (1 << order)).min(end as u32);
        }
    }

    // Lists.

    fn free_list(&self, order: u8, list: usize) -> u32 {
        self.count + (list * ORDERS + usize::from(order)) as u32
    }

    fn cached_list(&self, list: usize) -> u32 {
        self.count + (FREE_LISTS + list) as u32
    }

    /// The first block of a list, which has one.
    #[inline]
    pub(super) fn first_free(&self, order: u8, list: usize) -> Option<u32> {
        self.links
            .end_of(self.free_list(order, list), ListEnd::Head)
    }

    pub(super) fn free_list_frames(&self, order: u8, list: usize) -> impl Iterator<Item = u32> {
        self.links.walk(self.free_list(order, list))
    }

    pub(super) fn cached_list_frames(&self, list: usize) -> impl Iterator<Item = u32> {
        self.links.walk(self.cached_list(list))
    }

    #[inline]
    fn push_free(&mut self, frame: u32, order: u8, list: usize, end: ListEnd) {
        self.tags[frame as usize] = Tag310::free(order, list);
        self.links.push(self.free_list(order, list), frame, end);
        self.free_count[list][usize::from(order)] += 1;
        if list == CMA {
            self.free_cma += 1 << order;
        }
        self.orders_of[list] |= 1 << order;
    }

    #[inline]
    fn remove_free(&mut self, frame: u32) {
        let tag = self.tags[frame as usize];
        let (order, list) = (usize::from(tag.order()), tag.list());
        self.links.unlink(frame);
        self.tags[frame as usize] = Tag310::INSIDE;
        self.free_count[list][order] -= 1;
        if list == CMA {
            self.free_cma -= 1 << order;
        }
        if self.free_count[list][order] == 0 {
            self.orders_of[list] &= !(1 << order);
        }
    }

    #[inline]
    pub(super) fn push_cached(&mut self, cached: usize, frame: u32, list: usize, end: ListEnd) {
        self.tags[frame as usize] = Tag310::cached(list);
        self.links.push(self.cached_list(cached), frame, end);
    }

    /// Takes the frame at one end of a per-CPU list, with the list it is to be freed to.
    #[inline]
    pub(super) fn pop_cached(&mut self, cached: usize, end: ListEnd) -> Option<(u32, usize)> {
        let frame = self.links.end_of(self.cached_list(cached), end)?;
        self.links.unlink(frame);
        Some((frame, self.tags[frame as usize].list()))
    }

    pub(super) fn is_cached_list_empty(&self, cached: usize) -> bool {
        self.links
            .end_of(self.cached_list(cached), ListEnd::Head)
            .is_none()
    }

    // Splitting and merging.

    /// Takes `frame`'s free block, of which the first 2^`order` frames are the caller's; the rest
    /// goes to the heads of the lists of `rest`.
    #[inline]
    pub(super) fn take(&mut self, frame: u32, order: u8, rest: usize) {
        let tag = self.tag(frame);
        self.remove_free(frame);
        self.free -= 1 << order;
        let mut high = tag.order();
        while high > order {
            high -= 1;
            self.push_free(frame + (1 << high), high, rest, ListEnd::Head);
        }
    }

    /// Frees a block whose frames are the caller's, merged with its free buddies on whatever list,
    /// to `list`.
    #[inline]
    pub(super) fn free_block(&mut self, frame: u32, order: u8, list: usize) {
        let (mut frame, mut order) = (frame, order);
        self.free += 1 << order;
        self.tags[frame as usize] = Tag310::INSIDE;
        while order < MAX_ORDER {
            let buddy = frame ^ (1 << order);
            if !self.is_free_block(buddy, order) {
                break;
            }
            self.remove_free(buddy);
            frame &= !(1 << order);
            order += 1;
        }
        let end = if self.will_merge_soon(frame, order) {
            ListEnd::Tail
        } else {
            ListEnd::Head
        };
        self.push_free(frame, order, list, end);
    }

    /// Splits the allocated block around `frame` so that one of `order` begins there, what is left
    /// of it into the aligned blocks it consists of. Whether there was one.
    #[cold]
    pub(super) fn split(&mut self, frame: u32, order: u8) -> bool {
        if order > MAX_ORDER || !frame.is_multiple_of(1 << order) {
            return false;
        }
        let around = (order..=MAX_ORDER)
            .map(|higher| frame & !((1u32 << higher) - 1))
            .find(|&head| self.tag(head) != Tag310::INSIDE);
        let Some(mut head) = around else {
            return false;
        };
        let tag = self.tag(head);
        if !tag.is_allocated() || tag.order() < order || frame - head >= 1 << tag.order() {
            return false;
        }
        for half in (order..tag.order()).rev() {
            let upper = head + (1 << half);
            let rest = if frame < upper { upper } else { head };
            head = if frame < upper { head } else { upper };
            self.tags[rest as usize] = Tag310::allocated(half, tag.list());
        }
        self.tags[head as usize] = Tag310::allocated(order, tag.list());
        true
    }

    #[inline]
    fn is_free_block(&self, frame: u32, order: u8) -> bool {
        self.tags
            .get(frame as usize)
            .is_some_and(|tag| tag.is_free_of(order))
    }

    /// Whether the buddy of the block one order up is free: then this block waits only for its own.
    #[inline]
    fn will_merge_soon(&self, frame: u32, order: u8) -> bool {
        order < MAX_ORDER - 1 && {
            let pair = frame & !(1 << order);
            self.is_free_block(pair ^ (1 << (order + 1)), order + 1)
        }
    }
}

/// Frames looked at together: what the compiler turns into two vector registers.
const CHUNK: usize = 32;

/// The first frame of `from..to` that begins a free block, or `to`.
pub(super) fn next_free(tags: &[Tag310], from: u32, to: u32) -> u32 {
    next(tags, from, to, |tag| tag.0 & Tag310::FREE)
}

/// The first frame of `from..to` that is a movable page, or `to`.
pub(super) fn next_lru(tags: &[Tag310], from: u32, to: u32) -> u32 {
    next(tags, from, to, |tag| u8::from(tag == Tag310::LRU))
}

/// The first frame whose tag is not passed by, by chunks of which most hold none.
#[inline(always)]
fn next(tags: &[Tag310], from: u32, to: u32, stops: impl Fn(Tag310) -> u8 + Copy) -> u32 {
    let tags = &tags[from as usize..to as usize];
    let mut at = 0;
    for chunk in tags.chunks_exact(CHUNK) {
        if chunk.iter().fold(0, |all, &tag| all | stops(tag)) != 0 {
            break;
        }
        at += CHUNK;
    }
    let rest = tags[at..].iter().position(|&tag| stops(tag) != 0);
    from + rest.map_or(tags.len(), |inside| at + inside) as u32
}
