//! Operations on frames side by side, of which the engine chooses how many allocations they are.

use super::{Difference, FramePair, differ};
use crate::frame::ModelFrame;
use framewright::frame::FrameSource;
use framewright::{Context, Frame, Mobility, Order, Run};

/// Blocks up to this order come from a seat's caches.
const CACHED_ORDER_MAX: u8 = 4;

/// Frames side by side, as address space takes them from a seat.
impl FramePair<'_, '_> {
    /// As many frames as asked for, or a block that is not longer.
    pub(super) fn take_run(&mut self, cpu: u16, frames: u64) -> Result<(), Difference> {
        let got = self.seat(cpu).alloc_run(frames, Context::ANY);
        let run = match got {
            Ok(run) => run,
            Err(error) => return self.judge(Order::ZERO, Mobility::Unmovable, Err(error)),
        };
        let taken = run.frames();
        let is_all = taken == frames.max(1);
        if taken == 0 || !(is_all || taken < frames && taken.is_power_of_two()) {
            return differ!("a run of {frames} frames: {run:?}");
        }
        let above = Order::new(u64::BITS as u8 - (taken - 1).leading_zeros() as u8);
        let Some(above) = above.filter(|_| taken > 1) else {
            return self.judge(Order::ZERO, Mobility::Unmovable, Ok(run.start()));
        };
        if above.get() <= CACHED_ORDER_MAX {
            // A block out of the cache, of which the seat frees what is too much.
            self.judge(above, Mobility::Unmovable, Ok(run.start()))?;
            let mut at = taken;
            while at < above.frames() {
                let part = Order::new(at.trailing_zeros() as u8).expect("smaller than a block");
                let offset = self.model.offset(run.start()) + at as usize;
                if !self.model.free_part(offset, part) {
                    return differ!("the rest of {run:?} cannot be freed");
                }
                self.expected.pgfree += part.frames();
                at += part.frames();
            }
            return Ok(());
        }
        let mut at = run.start();
        while at < run.end() {
            let part = (run.end().0 - at.0).ilog2();
            let part = Order::new(part as u8).expect("smaller than a block");
            self.judge(part, Mobility::Unmovable, Ok(at))?;
            at.0 += part.frames();
        }
        Ok(())
    }

    /// Frames side by side, each an allocation, or nothing: it stops no CPU, and counts no failure.
    pub(super) fn singles(
        &mut self,
        cpu: u16,
        frames: u64,
        align: u64,
        mobility: Mobility,
    ) -> Result<(), Difference> {
        let drains = self.zone.stats().drains;
        let got = self.seat(cpu).try_alloc_singles(frames, align, mobility);
        if self.zone.stats().drains != drains {
            return differ!("{frames} singles: all CPUs were stopped for them");
        }
        let Some(run) = got else {
            return Ok(());
        };
        if run.frames() != frames || frames == 0 || run.start().0 % align != 0 {
            return differ!("{frames} singles at a multiple of {align}: {run:?}");
        }
        for at in run.start().0..run.end().0 {
            self.judge(Order::ZERO, mobility, Ok(Frame(at)))?;
        }
        let order = Order::covering(frames.max(align)).expect("there is such a block");
        if order.get() <= CACHED_ORDER_MAX || order > self.case.layout.pageblock_order {
            // The seat took the whole block, and freed what is too much.
            let rest = order.frames() - frames;
            self.expected.pgalloc[mobility.index()] += rest;
            self.expected.pgfree += rest;
        }
        Ok(())
    }

    /// From inside a live allocation on.
    pub(super) fn free_frames_from(
        &mut self,
        cpu: u16,
        pick: u32,
        count: u8,
        cut: usize,
    ) -> Result<(), Difference> {
        let Some((start, first, _)) = self.model.pick(pick) else {
            return Ok(());
        };
        let mut end = start + first.frames() as usize;
        let mut last = first;
        for _ in 0..count {
            if let ModelFrame::First(order, _) = self.model.state(end) {
                end += order.frames() as usize;
                last = order;
            }
        }
        let at = start + cut % first.frames() as usize;
        let end = end - (cut / 256) % last.frames() as usize;
        self.free_frames(cpu, at, end.saturating_sub(at))
    }

    /// All of the run, or nothing.
    pub(super) fn free_frames(
        &mut self,
        cpu: u16,
        at: usize,
        frames: usize,
    ) -> Result<(), Difference> {
        let run = Run::new(self.model.frame(at), frames as u64).expect("small numbers");
        let got = self.seat(cpu).free_frames(run);
        let is_live = |at| {
            let state = self.model.state(at);
            matches!(state, ModelFrame::First(..) | ModelFrame::Inside)
        };
        let can = (at..at + frames).all(is_live);
        self.agree(got, can)?;
        if !can {
            return Ok(());
        }
        let (mut at, end) = (at, at + frames);
        while at < end {
            let whole = match self.model.state(at) {
                ModelFrame::First(order, _) => Some(order),
                _ => None,
            };
            let whole = whole.filter(|order| at + order.frames() as usize <= end);
            let order = whole.unwrap_or_else(|| self.largest_part(at, end));
            if !self.model.free_part(at, order) {
                return differ!("a part of {run:?} cannot be freed");
            }
            self.expected.pgfree += order.frames();
            at += order.frames() as usize;
        }
        Ok(())
    }

    /// The largest aligned block from `at` on that ends at or before `end` and lies in one allocation.
    fn largest_part(&self, at: usize, end: usize) -> Order {
        let mut inside = at + 1;
        while inside < end && matches!(self.model.state(inside), ModelFrame::Inside) {
            inside += 1;
        }
        let fits = (inside - at).ilog2();
        let aligned = self.model.frame(at).0.trailing_zeros();
        Order::new(fits.min(aligned) as u8).unwrap_or(Order::ZERO)
    }
}
