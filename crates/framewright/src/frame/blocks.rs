use super::{AllocError, FreeError, Seat, Seats};
use crate::platform::{Barrier, Relax};
use crate::units::{Frame, Mobility, Order};

/// Where blocks of frames come from and go back to: a CPU's seat, in one zone or in several.
///
/// [`kv`](crate::kv) takes what is there at once, and gives back, while others wait for its seat:
/// neither may call it.
pub trait Blocks {
    /// A block of `order` if it is there at once: in this CPU's caches, or by one look at the
    /// zone; nobody is stopped.
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame>;

    /// A block of `order`, if there is any, in whatever CPU's cache.
    ///
    /// # Errors
    /// As [`Seat::alloc`].
    fn block(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError>;

    /// Gives a block back.
    ///
    /// # Errors
    /// As [`Seat::free`].
    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError>;

    /// The largest order of which there can be a block.
    fn max_order(&self) -> Order;
}

impl<P: Relax + Barrier> Blocks for Seat<'_, '_, P> {
    #[inline(always)]
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.try_alloc(order, mobility)
    }

    #[inline(always)]
    fn block(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        self.alloc(order, mobility)
    }

    #[inline(always)]
    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.free(frame, order)
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.zone().max_order()
    }
}

impl<P: Relax + Barrier, const N: usize> Blocks for Seats<'_, '_, P, N> {
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        (0..N).find_map(|nth| self.seat(nth).try_alloc(order, mobility))
    }

    fn block(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        self.alloc(0, order, mobility)
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.free(frame, order)
    }

    fn max_order(&self) -> Order {
        self.max_order()
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
}
