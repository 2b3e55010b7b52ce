//! Where ordinary frames come from, one at a time.

use crate::frame::{AllocError, Seat};
use crate::platform::{Barrier, Relax};
use crate::units::{Frame, Mobility, Order};

/// Where frames come from, and where they go back to: one at a time, for contents that can move. It is
/// the calling thread's.
pub trait Supply {
    /// A frame, [movable](Mobility::Movable), whose contents are undefined. The caller holds no lock that a client of
    /// reclaim takes: it may be asked to give memory back.
    ///
    /// # Errors
    /// There is none, and what the supply may do about that has been done.
    fn frame(&mut self) -> Result<Frame, AllocError>;

    /// Takes back a frame that it, or another supply of the same zone, gave out. Never waits.
    fn free(&mut self, frame: Frame);
}

/// The frames' own seat: what is there, regardless of watermarks. Nobody is asked for memory.
impl<P: Relax + Barrier> Supply for Seat<'_, '_, P> {
    fn frame(&mut self) -> Result<Frame, AllocError> {
        self.alloc(Order::ZERO, Mobility::Movable)
    }

    fn free(&mut self, frame: Frame) {
        let freed = Self::free(self, frame, Order::ZERO);
        debug_assert!(freed.is_ok(), "a supply's frame: {freed:?}");
    }
}

impl<S: Supply + ?Sized> Supply for &mut S {
    fn frame(&mut self) -> Result<Frame, AllocError> {
        (**self).frame()
    }

    fn free(&mut self, frame: Frame) {
        (**self).free(frame);
    }
}
