//! What `kv` asks of the frames: blocks from a seat in one zone, or from seats in several.

use super::{AllocError, FreeError, Seat, Seats};
use crate::platform::FramePlatform;
use crate::units::{Frame, Mobility, Order};

/// Where a CPU gets blocks of frames and gives them back: its seat, in one zone or in several.
///
/// [`kv`](crate::kv) calls [`try_block`](Self::try_block), [`block`](Self::block) and
/// [`free_block`](Self::free_block) while other CPUs wait for its seat: none of them may call it.
pub trait Blocks {
    /// A block of `order` if one is there at once: in this CPU's caches, or by one look at the
    /// zone. Stops no CPU.
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame>;

    /// A block of `order`, if there is any, in the zone or in any CPU's cache.
    ///
    /// # Errors
    /// As [`Seat::alloc_hard`].
    fn block(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError>;

    /// Gives a block back.
    ///
    /// # Errors
    /// As [`Seat::free`].
    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError>;

    /// The largest order that a block can have.
    fn max_order(&self) -> Order;

    /// Whether a block of `order` can exist among the frames that exist now, however many are free.
    fn could_have(&self, order: Order) -> bool {
        order <= self.max_order()
    }

    /// How many frames exist: an upper bound of what a caller can have at a time.
    fn frames_max(&self) -> u64 {
        u64::MAX
    }
}

impl<P: FramePlatform> Blocks for Seat<'_, '_, P> {
    #[inline(always)]
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.try_alloc(order, mobility)
    }

    #[inline(always)]
    fn block(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        self.alloc_hard(order, mobility)
    }

    #[inline(always)]
    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.free(frame, order)
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.zone().max_order()
    }

    #[inline]
    fn could_have(&self, order: Order) -> bool {
        order <= self.zone().max_order() && self.zone().could_have(order)
    }

    #[inline]
    fn frames_max(&self) -> u64 {
        self.zone().present_frames()
    }
}

impl<P: FramePlatform, const N: usize> Blocks for Seats<'_, '_, P, N> {
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        (0..N).find_map(|nth| self.seat(nth).try_alloc(order, mobility))
    }

    fn block(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        self.alloc_hard(0, order, mobility)
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.free(frame, order)
    }

    fn max_order(&self) -> Order {
        self.max_order()
    }

    fn could_have(&self, order: Order) -> bool {
        self.zones()
            .any(|zone| order <= zone.max_order() && zone.could_have(order))
    }

    fn frames_max(&self) -> u64 {
        self.zones().map(super::Zone::present_frames).sum()
    }
}

impl<T: Blocks + ?Sized> Blocks for &mut T {
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        (**self).try_block(order, mobility)
    }

    fn block(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        (**self).block(order, mobility)
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        (**self).free_block(frame, order)
    }

    fn max_order(&self) -> Order {
        (**self).max_order()
    }

    fn could_have(&self, order: Order) -> bool {
        (**self).could_have(order)
    }

    fn frames_max(&self) -> u64 {
        (**self).frames_max()
    }
}
