//! The frames' seat as objects see it, so that each frame that they hold is known to the RAM, and each of their calls
//! can fail.

use super::SimRam;
use crate::{MachineCall, PagingLie};
use framewright::frame::{AllocError, FrameSource, FreeError, Seat};
use framewright::{Context, Frame, Mobility, Order, Run};

/// A CPU's seat in the zone. It records its calls in the RAM, and they can be made to fail.
#[derive(Debug)]
pub struct RecordedSeat<'s, 'm> {
    pub(super) seat: Seat<'s, 'm, &'s SimRam>,
    pub(super) ram: &'s SimRam,
}

impl RecordedSeat<'_, '_> {
    fn taken(&self, frame: Frame, order: Order) -> Frame {
        self.ram.take(block(frame, order));
        frame
    }
}

fn block(frame: Frame, order: Order) -> Run {
    Run::new(frame, order.frames()).expect("a block of the zone")
}

impl FrameSource for RecordedSeat<'_, '_> {
    fn origin(&self) -> u64 {
        self.seat.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.seat.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        self.ram.paging().note_context("alloc_run", context);
        if self.ram.machine().is_hit(MachineCall::Frames) {
            return Err(AllocError::Exhausted);
        }
        let run = self.seat.alloc_run(frames, context)?;
        self.ram.take(run);
        Ok(run)
    }

    fn free_run(&mut self, frames: Run) {
        self.ram.give(frames);
        if !self.ram.paging().lies(PagingLie::LoseFrames) {
            self.seat.free_run(frames);
        }
    }

    fn slow_calls(&self) -> u64 {
        self.seat.slow_calls()
    }

    fn is_short(&mut self) -> bool {
        self.seat.is_short()
    }

    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        if self.ram.machine().is_hit(MachineCall::Block) {
            return None;
        }
        let frame = self.seat.try_block(order, mobility)?;
        Some(self.taken(frame, order))
    }

    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        self.ram.paging().note_wait("a block of all CPUs'");
        if self.ram.machine().is_hit(MachineCall::Block) {
            return Err(AllocError::Exhausted);
        }
        let frame = self.seat.alloc_block(order, mobility, context)?;
        Ok(self.taken(frame, order))
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.seat.free_block(frame, order)?;
        self.ram.give(block(frame, order));
        Ok(())
    }

    /// Fails only where the cache is empty: the call that follows can be made to fail.
    fn cached_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        let frame = self.seat.cached_block(order, mobility)?;
        Some(self.taken(frame, order))
    }

    fn free_cached(&mut self, frame: Frame, order: Order) -> bool {
        let is_freed = self.seat.free_cached(frame, order);
        if is_freed {
            self.ram.give(block(frame, order));
        }
        is_freed
    }

    fn max_order(&self) -> Order {
        self.seat.max_order()
    }

    fn could_have(&self, order: Order) -> bool {
        self.seat.could_have(order)
    }
}
