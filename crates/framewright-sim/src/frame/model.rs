//! The model has no caches, no index and no policy: so it says which blocks may be handed out and not which one is.

use framewright::frame::{AllocError, FreeError, ZoneLayout};
use framewright::policy::Label;
use framewright::{Frame, Mobility, Order};
use std::ops::Range;

/// The state of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelFrame {
    /// It does not exist.
    Absent,
    /// It is not allocated. The model knows no caches: a cached frame is free.
    Free,
    /// An allocation of that order starts here.
    First(Order, Mobility),
    /// It belongs to an allocation that starts before it.
    Inside,
}

/// The page-frame allocator's obviously right, slow twin.
///
/// One state a frame, one label and one mark of isolation a pageblock, and every question answered
/// by looking at all of them. Places are offsets from the first pageblock's first frame.
///
/// # Invariants
/// - A request succeeds if and only if a free, existing, aligned block of its order lies in
///   pageblocks that may serve it.
/// - A block handed out was free, aligned, and in pageblocks that may serve the request.
/// - A free succeeds if and only if an allocation of exactly that order starts there.
#[derive(Clone, Debug)]
pub struct FrameModel {
    start: usize,
    end: usize,
    origin: u64,
    pageblock_order: u8,
    max_order: Order,
    frames: Vec<ModelFrame>,
    blocks: Vec<ModelBlock>,
    /// First frames of the allocations, in an arbitrary order.
    live: Vec<u32>,
    /// Where each first frame stands in `live`.
    place: Vec<u32>,
    free: u64,
    present: u64,
    allocated: [u64; 3],
}

#[derive(Clone, Copy, Debug)]
struct ModelBlock {
    /// `None` for a label that the policy may change as it likes.
    kept: Option<Label>,
    isolated: bool,
    free: u32,
    pins: u32,
}

impl FrameModel {
    /// The model of a zone of that layout in which no frame exists yet.
    #[must_use]
    pub fn new(layout: &ZoneLayout) -> Self {
        let shift = layout.pageblock_order.get();
        let origin = layout.start.0 >> shift << shift;
        let start = (layout.start.0 - origin) as usize;
        let end = start + layout.frames as usize;
        let blocks = end.div_ceil(1 << shift);
        let block = ModelBlock {
            kept: None,
            isolated: false,
            free: 0,
            pins: 0,
        };
        Self {
            start,
            end,
            origin,
            pageblock_order: shift,
            max_order: layout.max_order,
            frames: vec![ModelFrame::Absent; blocks << shift],
            blocks: vec![block; blocks],
            live: Vec::new(),
            place: vec![0; blocks << shift],
            free: 0,
            present: 0,
            allocated: [0; 3],
        }
    }

    /// The frame at `offset`.
    #[must_use]
    pub const fn frame(&self, offset: usize) -> Frame {
        Frame(self.origin + offset as u64)
    }

    /// The offset of `frame`, which may lie outside.
    #[must_use]
    pub const fn offset(&self, frame: Frame) -> usize {
        frame.0.wrapping_sub(self.origin) as usize
    }

    /// Frames that exist and are not allocated.
    #[must_use]
    pub const fn free_frames(&self) -> u64 {
        self.free
    }

    /// Frames that exist.
    #[must_use]
    pub const fn present_frames(&self) -> u64 {
        self.present
    }

    /// Allocated frames by mobility.
    #[must_use]
    pub const fn allocated_frames(&self) -> [u64; 3] {
        self.allocated
    }

    /// How many pageblocks there are.
    #[must_use]
    pub const fn pageblocks(&self) -> usize {
        self.blocks.len()
    }

    /// How many frames the pageblocks span.
    #[must_use]
    pub const fn span(&self) -> usize {
        self.frames.len()
    }

    /// How many allocations there are.
    #[must_use]
    pub const fn live(&self) -> usize {
        self.live.len()
    }

    /// The allocation that `pick` names: its offset, order and mobility. `None` if there are no
    /// allocations.
    #[must_use]
    pub fn pick(&self, pick: u32) -> Option<(usize, Order, Mobility)> {
        let nth = (pick as usize).checked_rem(self.live.len())?;
        let at = self.live[nth] as usize;
        match self.frames[at] {
            ModelFrame::First(order, mobility) => Some((at, order, mobility)),
            other => unreachable!("a live allocation starts with {other:?}"),
        }
    }

    /// The state of the frame at `offset`; a frame outside the zone does not exist.
    #[must_use]
    pub fn state(&self, offset: usize) -> ModelFrame {
        self.frames
            .get(offset)
            .copied()
            .unwrap_or(ModelFrame::Absent)
    }

    fn set(&mut self, offset: usize, state: ModelFrame) {
        let block = &mut self.blocks[offset >> self.pageblock_order];
        let is_free = |state: ModelFrame| u32::from(state == ModelFrame::Free);
        block.free = block.free + is_free(state) - is_free(self.frames[offset]);
        self.free += u64::from(is_free(state));
        self.free -= u64::from(is_free(self.frames[offset]));
        self.frames[offset] = state;
    }

    /// Whether a pageblock may serve a request.
    fn may_serve(&self, block: usize, order: Order, mobility: Mobility) -> bool {
        let ModelBlock { kept, isolated, .. } = self.blocks[block];
        let is_whole = order.get() > self.pageblock_order;
        !isolated
            && match kept {
                Some(Label::Contiguous) => mobility.is_movable(),
                Some(Label::HighOrder) => {
                    !mobility.is_movable() && order > Order::ZERO && !is_whole
                }
                Some(Label::Of(_)) | None => true,
            }
    }

    /// Free frames that count for an order and a mobility when a failure is named. Runs count like
    /// single frames.
    fn usable(&self, order: Order, mobility: Mobility) -> u64 {
        (0..self.blocks.len())
            .filter(|&block| self.may_serve(block, order, mobility))
            .map(|block| u64::from(self.blocks[block].free))
            .sum()
    }

    fn blocks_of(&self, offset: usize, frames: usize) -> Range<usize> {
        offset >> self.pageblock_order..((offset + frames - 1) >> self.pageblock_order) + 1
    }

    /// Whether exactly this block could serve that request.
    #[must_use]
    pub fn could_hand_out(&self, offset: usize, order: Order, mobility: Mobility) -> bool {
        let frames = order.frames() as usize;
        offset < self.frames.len()
            && frames <= self.frames.len() - offset
            && self.frame(offset).is_aligned(order)
            && self
                .blocks_of(offset, frames)
                .all(|block| self.may_serve(block, order, mobility))
            && self.all_free(offset..offset + frames)
    }

    fn all_free(&self, range: Range<usize>) -> bool {
        self.frames[range]
            .iter()
            .all(|&state| state == ModelFrame::Free)
    }

    /// What the result of a request must be: served, or refused for that reason.
    ///
    /// # Errors
    /// Why it must fail.
    pub fn must_alloc(&self, order: Order, mobility: Mobility) -> Result<(), AllocError> {
        let max = self.max_order;
        if order > max {
            return Err(AllocError::TooLarge { order, max });
        }
        let frames = order.frames() as usize;
        let first = self
            .frame(0)
            .align_up(order)
            .map_or(0, |frame| self.offset(frame));
        let mut at = first;
        while at + frames <= self.frames.len() {
            let block = &self.blocks[at >> self.pageblock_order];
            // A shortcut: a pageblock with too few free frames has no such block.
            let least = (frames as u64).min(1 << self.pageblock_order);
            if u64::from(block.free) < least {
                let next = ((at >> self.pageblock_order) + 1) << self.pageblock_order;
                at = next.max(at + frames);
            } else if self.could_hand_out(at, order, mobility) {
                return Ok(());
            } else {
                at += frames;
            }
        }
        if self.usable(order, mobility) < order.frames() {
            Err(AllocError::Exhausted)
        } else {
            Err(AllocError::Fragmented)
        }
    }

    /// Allocates the block, whatever its state was.
    pub fn alloc(&mut self, offset: usize, order: Order, mobility: Mobility) {
        self.put(offset, order, mobility);
        self.allocated[mobility.index()] += order.frames();
    }

    fn put(&mut self, offset: usize, order: Order, mobility: Mobility) {
        self.set(offset, ModelFrame::First(order, mobility));
        for inside in offset + 1..offset + order.frames() as usize {
            self.set(inside, ModelFrame::Inside);
        }
        self.place[offset] = self.live.len() as u32;
        self.live.push(offset as u32);
    }

    fn forget(&mut self, offset: usize) {
        let place = self.place[offset] as usize;
        self.live.swap_remove(place);
        if let Some(&moved) = self.live.get(place) {
            self.place[moved as usize] = place as u32;
        }
    }

    /// Frees, if an allocation of that order starts there.
    ///
    /// # Errors
    /// Why not. Nothing has changed then.
    pub fn free(&mut self, offset: usize, order: Order) -> Result<(), FreeError> {
        let frame = self.frame(offset);
        if offset >= self.frames.len() {
            return Err(FreeError::Outside(frame));
        }
        match self.state(offset) {
            ModelFrame::Absent => Err(FreeError::Absent(frame)),
            ModelFrame::Free => Err(FreeError::AlreadyFree(frame)),
            ModelFrame::Inside => Err(FreeError::NotTheFirst(frame)),
            ModelFrame::First(allocated, _) if allocated != order => {
                Err(FreeError::WrongOrder { frame, allocated })
            }
            ModelFrame::First(_, mobility) => {
                self.forget(offset);
                self.allocated[mobility.index()] -= order.frames();
                for freed in offset..offset + order.frames() as usize {
                    self.set(freed, ModelFrame::Free);
                }
                Ok(())
            }
        }
    }

    /// Frees an aligned part of an allocation, or a whole one; the rest becomes the fewest aligned
    /// allocations. Returns whether there was one.
    pub fn free_part(&mut self, offset: usize, order: Order) -> bool {
        if offset >= self.frames.len() || !self.frame(offset).is_aligned(order) {
            return false;
        }
        let first = (0..=offset)
            .rev()
            .find(|&at| !matches!(self.frames[at], ModelFrame::Inside));
        let Some((start, whole, mobility)) = first.and_then(|at| match self.frames[at] {
            ModelFrame::First(whole, mobility) => Some((at, whole, mobility)),
            _ => None,
        }) else {
            return false;
        };
        if whole < order || offset >= start + whole.frames() as usize {
            return false;
        }
        self.forget(start);
        let (mut at, mut left) = (start, whole);
        while left > order {
            left = Order::new(left.get() - 1).expect("above another order");
            let upper = at + left.frames() as usize;
            let rest = if offset >= upper { at } else { upper };
            self.put(rest, left, mobility);
            if offset >= upper {
                at = upper;
            }
        }
        self.put(offset, order, mobility);
        self.free(offset, order).is_ok()
    }

    /// Makes an allocation of `order` into allocations of order `into`. Returns whether there was one, not smaller than
    /// those.
    pub fn split(&mut self, offset: usize, order: Order, into: Order) -> bool {
        if offset >= self.frames.len() || into > order {
            return false;
        }
        let ModelFrame::First(allocated, mobility) = self.frames[offset] else {
            return false;
        };
        if allocated != order {
            return false;
        }
        self.forget(offset);
        for start in (offset..offset + order.frames() as usize).step_by(into.frames() as usize) {
            self.put(start, into, mobility);
        }
        true
    }

    /// The allocations that cover exactly `frames` frames from `offset` on, or `None`.
    #[must_use]
    pub fn covering(&self, offset: usize, frames: usize) -> Option<Vec<(usize, Order)>> {
        let mut found = Vec::new();
        let mut at = offset;
        while at < offset + frames {
            let ModelFrame::First(order, _) = self.state(at) else {
                return None;
            };
            found.push((at, order));
            at += order.frames() as usize;
        }
        (frames > 0 && at == offset + frames).then_some(found)
    }

    /// Allocates a run as the fewest aligned allocations.
    pub fn alloc_run(&mut self, offset: usize, frames: usize, mobility: Mobility) {
        let mut at = offset;
        while at < offset + frames {
            let order = (0..=self.max_order.get())
                .rev()
                .filter_map(Order::new)
                .find(|&order| {
                    self.frame(at).is_aligned(order)
                        && at + order.frames() as usize <= offset + frames
                })
                .expect("one frame always fits");
            self.alloc(at, order, mobility);
            at += order.frames() as usize;
        }
    }

    /// Whether the run can be allocated where it is.
    #[must_use]
    pub fn can_alloc_run(&self, offset: usize, frames: usize) -> bool {
        self.is_inside(offset, frames)
            && self.all_free(offset..offset + frames)
            && !self.blocks[self.blocks_of(offset, frames)]
                .iter()
                .any(|block| block.isolated)
    }

    /// Whether such a run of frames exists, free or not.
    fn has_run(&self, frames: usize, align: u64) -> bool {
        let mut present = 0;
        (0..self.frames.len()).any(|at| {
            present = if self.frames[at] == ModelFrame::Absent {
                0
            } else {
                present + 1
            };
            let start = self.frame(at + 1 - present).0.next_multiple_of(align) - self.origin;
            present >= frames && (start as usize).saturating_add(frames) <= at + 1
        })
    }

    /// The lowest run of free frames that serves, with its first frame at a multiple of `align`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find_contiguous(
        &self,
        frames: usize,
        align: u64,
        mobility: Mobility,
    ) -> Result<usize, AllocError> {
        // Whole blocks of the reserve for high orders never serve here; an order above the
        // pageblocks' expresses that.
        let whole = Order::MAX;
        if frames == 0 || !self.has_run(frames, align) {
            return Err(AllocError::Impossible);
        }
        let is_good = |at: usize| {
            self.frames[at] == ModelFrame::Free
                && self.may_serve(at >> self.pageblock_order, whole, mobility)
        };
        let mut good = 0;
        for at in 0..self.frames.len() {
            good = if is_good(at) { good + 1 } else { 0 };
            if good >= frames {
                // The run of good frames starts here; its aligned part must be long enough.
                let start = at + 1 - good;
                let aligned = self.frame(start).0.next_multiple_of(align) - self.origin;
                if aligned as usize + frames <= at + 1 {
                    return Ok(aligned as usize);
                }
            }
        }
        Err(if self.usable(Order::ZERO, mobility) < frames as u64 {
            AllocError::Exhausted
        } else {
            AllocError::Fragmented
        })
    }

    fn is_inside(&self, offset: usize, frames: usize) -> bool {
        frames > 0 && offset >= self.start && offset + frames <= self.end
    }

    /// Makes frames exist. Returns whether all were inside and absent; if not, nothing changes.
    pub fn add(&mut self, offset: usize, frames: usize) -> bool {
        let can = self.is_inside(offset, frames)
            && self.frames[offset..offset + frames]
                .iter()
                .all(|&state| state == ModelFrame::Absent);
        if can {
            (offset..offset + frames).for_each(|at| self.set(at, ModelFrame::Free));
            self.present += frames as u64;
        }
        can
    }

    /// Makes frames stop existing. Returns whether all were inside and free; if not, nothing
    /// changes.
    pub fn remove(&mut self, offset: usize, frames: usize) -> bool {
        let can = self.is_inside(offset, frames) && self.all_free(offset..offset + frames);
        if can {
            (offset..offset + frames).for_each(|at| self.set(at, ModelFrame::Absent));
            self.present -= frames as u64;
        }
        can
    }

    fn are_whole(&self, block: usize, blocks: usize) -> bool {
        let frames = blocks << self.pageblock_order;
        self.is_inside(block << self.pageblock_order, frames)
    }

    /// Isolates pageblocks, or ends that. Returns the allocated frames in them, or `None` if one is
    /// outside or in that state already.
    pub fn set_isolated(&mut self, block: usize, blocks: usize, isolated: bool) -> Option<u64> {
        let range = block..block + blocks;
        let can = self.are_whole(block, blocks)
            && self.blocks[range.clone()]
                .iter()
                .all(|block| block.isolated != isolated);
        can.then(|| {
            self.blocks[range]
                .iter_mut()
                .for_each(|block| block.isolated = isolated);
            let frames = block << self.pageblock_order..(block + blocks) << self.pageblock_order;
            self.frames[frames]
                .iter()
                .filter(|state| matches!(state, ModelFrame::First(..) | ModelFrame::Inside))
                .count() as u64
        })
    }

    /// Labels pageblocks; returns whether all were inside.
    pub fn set_label(&mut self, block: usize, blocks: usize, label: Label) -> bool {
        let can = self.are_whole(block, blocks);
        if can {
            let kept = (!matches!(label, Label::Of(_))).then_some(label);
            self.blocks[block..block + blocks]
                .iter_mut()
                .for_each(|block| block.kept = kept);
        }
        can
    }

    /// Adds a pin to the pageblock of a frame, or takes one back. Returns the pins then, or `None`
    /// if the frame does not exist or there is no pin.
    pub fn set_pinned(&mut self, offset: usize, pinned: bool) -> Option<u32> {
        if !(self.start..self.end).contains(&offset) {
            return None;
        }
        let block = self.blocks.get_mut(offset >> self.pageblock_order)?;
        let pins = if pinned {
            block.pins + 1
        } else {
            block.pins.checked_sub(1)?
        };
        block.pins = pins;
        Some(pins)
    }

    /// The pins of a pageblock.
    #[must_use]
    pub fn pins(&self, block: usize) -> u32 {
        self.blocks[block].pins
    }

    /// The pageblock of the frame at `offset`.
    #[must_use]
    pub const fn block_of(&self, offset: usize) -> usize {
        offset >> self.pageblock_order
    }

    /// Whether a pageblock can be set aside for high orders: all of it exists and is free, and it
    /// is neither isolated nor kept for another use.
    #[must_use]
    pub fn can_reserve(&self, block: usize) -> bool {
        let ModelBlock {
            kept,
            isolated,
            free,
            ..
        } = self.blocks[block];
        kept.is_none() && !isolated && u64::from(free) == 1 << self.pageblock_order
    }

    /// The label that a pageblock must have, if it must have one.
    #[must_use]
    pub fn kept_label(&self, block: usize) -> Option<Label> {
        self.blocks[block].kept
    }

    /// Whether the pageblock is isolated.
    #[must_use]
    pub fn is_isolated(&self, block: usize) -> bool {
        self.blocks[block].isolated
    }

    /// Free, absent, and by mobility allocated frames of a pageblock.
    #[must_use]
    pub fn counts(&self, block: usize) -> (u32, u32, [u32; 3]) {
        let frames = block << self.pageblock_order..(block + 1) << self.pageblock_order;
        let (mut free, mut absent, mut by_mobility) = (0, 0, [0; 3]);
        // The first frame of an allocation may lie in an earlier pageblock.
        let mut of = (0..=frames.start)
            .rev()
            .find_map(|at| match self.frames[at] {
                ModelFrame::Inside => None,
                ModelFrame::First(_, mobility) => Some(Some(mobility)),
                _ => Some(None),
            });
        for at in frames {
            match self.frames[at] {
                ModelFrame::Free => free += 1,
                ModelFrame::Absent => absent += 1,
                ModelFrame::First(_, mobility) => {
                    of = Some(Some(mobility));
                    by_mobility[mobility.index()] += 1;
                }
                ModelFrame::Inside => {
                    let mobility = of.flatten().expect("an inside has a first");
                    by_mobility[mobility.index()] += 1;
                }
            }
        }
        (free, absent, by_mobility)
    }

    /// Maximal free aligned blocks inside pageblocks, by order.
    #[must_use]
    pub fn free_blocks(&self) -> [u64; 21] {
        let mut counts = [0; 21];
        let mut at = 0;
        while at < self.frames.len() {
            let order = (0..=self.pageblock_order).rev().find(|&order| {
                let frames = 1usize << order;
                at.is_multiple_of(frames) && self.all_free(at..at + frames)
            });
            match order {
                Some(order) => {
                    counts[usize::from(order)] += 1;
                    at += 1 << order;
                }
                None => at += 1,
            }
        }
        counts
    }
}
