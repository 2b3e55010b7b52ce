//! Where ordinary frames come from, one at a time.

use crate::frame::{AllocError, Seat};
use crate::platform::FramePlatform;
use crate::units::{Frame, Mobility, Order};

/// Where frames come from and go back to, one at a time, for contents that can move. A supply
/// belongs to the calling thread.
pub trait Supply {
    /// A frame, [movable](Mobility::Movable), with undefined contents. The caller must hold no lock
    /// that a client of reclaim takes, because the supply may ask clients to give memory back.
    ///
    /// # Errors
    /// There is no frame, and the supply has done all that it may to get one.
    fn frame(&mut self) -> Result<Frame, AllocError>;

    /// Takes back a frame that it, or another supply of the same zone, gave out. Never waits.
    fn free(&mut self, frame: Frame);
}

/// The frames' own seat as a supply: it gives what is there, regardless of watermarks, and asks no
/// client for memory.
impl<P: FramePlatform> Supply for Seat<'_, '_, P> {
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
