use crate::frame::{AllocError, Seat};
use crate::platform::{Barrier, Relax};
use crate::units::{Context, Frame, Mobility, Order, Run};

/// Where an area's frames come from, and go back to.
pub trait FrameSource {
    /// Takes a run of at most `frames` consecutive frames: the longest that is there cheaply, at
    /// least one. Contents are anything.
    ///
    /// # Errors
    /// If not even one frame could be had within the context.
    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError>;

    /// Gives frames back that were taken from here; a run may be a part of one that was taken, or
    /// of several that lie side by side.
    fn free_run(&mut self, frames: Run);
}

/// The source of a space whose areas have no frames of the space's: callers map what they own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFrames;

impl FrameSource for NoFrames {
    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, _frames: Run) {}
}

impl<T: FrameSource + ?Sized> FrameSource for &mut T {
    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        (**self).alloc_run(frames, context)
    }

    fn free_run(&mut self, frames: Run) {
        (**self).free_run(frames);
    }
}

/// Unmovable frames, one at a time.
impl<P: Relax + Barrier> FrameSource for Seat<'_, '_, P> {
    fn alloc_run(&mut self, _frames: u64, context: Context) -> Result<Run, AllocError> {
        let frame = if context.may_block {
            self.alloc(Order::ZERO, Mobility::Unmovable)?
        } else {
            self.try_alloc(Order::ZERO, Mobility::Unmovable)
                .ok_or(AllocError::Exhausted)?
        };
        Ok(Run::new(frame, 1).expect("a frame of a zone is below the number range's end"))
    }

    fn free_run(&mut self, frames: Run) {
        for frame in frames.start().0..frames.end().0 {
            let freed = self.free(Frame(frame), Order::ZERO);
            debug_assert!(freed.is_ok(), "frames come back to where they came from");
        }
    }
}
