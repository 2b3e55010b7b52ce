//! Operations on the zone as a whole. Where the engine may choose, as with pageblocks that are set aside, the model
//! follows its choice after a look at whether it was allowed.

use super::{Difference, FramePair, differ, order_of};
use crate::frame::FrameOp;
use framewright::Run;
use framewright::policy::Label;

impl FramePair<'_, '_> {
    pub(super) fn step_zone(&mut self, op: FrameOp) -> Result<(), Difference> {
        let zone = self.zone;
        match op {
            FrameOp::AllocAt {
                at,
                order,
                mobility,
            } => {
                let order = order_of(order);
                let got = zone.alloc_at(self.frame(at), order, mobility);
                let can = order <= zone.max_order()
                    && self.frame(at).is_aligned(order)
                    && self
                        .model
                        .can_alloc_run(at as usize, order.frames() as usize);
                self.agree(got, can)?;
                if can {
                    self.model.alloc(at as usize, order, mobility);
                    self.expected.pgalloc[mobility.index()] += order.frames();
                }
            }
            FrameOp::AllocRun {
                at,
                frames,
                mobility,
            } => {
                let got = zone.alloc_run_at(self.run_of(at, frames), mobility);
                let can = self.model.can_alloc_run(at as usize, frames as usize);
                self.agree(got, can)?;
                if can {
                    self.model.alloc_run(at as usize, frames as usize, mobility);
                    self.expected.pgalloc[mobility.index()] += u64::from(frames);
                }
            }
            FrameOp::AllocContiguous {
                frames,
                align,
                mobility,
            } => {
                let got = zone.alloc_contiguous(u64::from(frames), 1 << align, mobility);
                let must = self
                    .model
                    .find_contiguous(frames as usize, 1 << align, mobility);
                let must_run = must.map(|at| self.run_of(at as u32, frames));
                if got != must_run {
                    return differ!("contiguous: the engine says {got:?}, the model {must_run:?}");
                }
                if let Ok(at) = must {
                    self.model.alloc_run(at, frames as usize, mobility);
                    self.expected.pgalloc[mobility.index()] += u64::from(frames);
                }
            }
            FrameOp::Add { at, frames } => {
                let got = zone.add(self.run_of(at, frames));
                let can = self.model.add(at as usize, frames as usize);
                self.agree(got, can)?;
            }
            FrameOp::Remove { at, frames } => {
                let got = zone.remove(self.run_of(at, frames));
                let can = self.model.remove(at as usize, frames as usize);
                self.agree(got, can)?;
            }
            FrameOp::Isolate { block, blocks } => self.isolate(block, blocks, true)?,
            FrameOp::Unisolate { block, blocks } => self.isolate(block, blocks, false)?,
            FrameOp::SetLabel {
                block,
                blocks,
                label,
            } => {
                let got = zone.set_label(self.pageblocks(block, blocks), label);
                let can = self.model.set_label(block as usize, blocks as usize, label);
                self.agree(got, can)?;
            }
            FrameOp::ReserveHighOrder { blocks } => {
                let got = zone.reserve_high_order(blocks as usize);
                self.follow_reserve(blocks as usize, got)?;
            }
            FrameOp::Pin { at, pinned } => {
                let frame = self.frame(at);
                let got = if pinned {
                    zone.pin(frame)
                } else {
                    zone.unpin(frame)
                };
                let must = self.model.set_pinned(at as usize, pinned);
                if got.ok() != must {
                    return differ!("pins: the engine says {got:?}, the model {must:?}");
                }
            }
            FrameOp::Drain => {
                zone.drain();
                self.compare_pageblocks()?;
            }
            _ => unreachable!("a seat's operation is not the zone's"),
        }
        Ok(())
    }

    pub(super) fn pageblocks(&self, block: u32, blocks: u32) -> Run {
        let shift = self.zone.pageblock_order().get();
        self.run_of(block << shift, blocks << shift)
    }

    pub(super) fn isolate(
        &mut self,
        block: u32,
        blocks: u32,
        isolated: bool,
    ) -> Result<(), Difference> {
        let run = self.pageblocks(block, blocks);
        let got = if isolated {
            self.zone.isolate(run)
        } else {
            self.zone.unisolate(run)
        };
        let must = self
            .model
            .set_isolated(block as usize, blocks as usize, isolated);
        if got.ok() != must {
            return differ!("isolation: the engine says {got:?}, the model {must:?}");
        }
        Ok(())
    }

    /// Which pageblocks were set aside is the engine's choice among those that can be.
    pub(super) fn follow_reserve(&mut self, wanted: usize, got: usize) -> Result<(), Difference> {
        let limit = wanted.min(self.model.pageblocks() / 100);
        let mut reserved = 0;
        let mut is_new = false;
        for block in 0..self.model.pageblocks() {
            if self.zone.pageblock(block).label != Label::HighOrder {
                continue;
            }
            reserved += 1;
            if self.model.kept_label(block) != Some(Label::HighOrder) {
                is_new = true;
                if !self.model.can_reserve(block) {
                    return differ!("pageblock {block} was set aside, and cannot be");
                }
                self.model.set_label(block, 1, Label::HighOrder);
            }
        }
        if got != reserved || is_new && reserved > limit {
            return differ!("the engine says that {got} are reserved, at most {limit}: {reserved}");
        }
        Ok(())
    }
}
