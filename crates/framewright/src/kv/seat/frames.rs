//! A seat and the zones' frames: blocks that become slabs and runs, and those that go back. A block in between is in
//! the busy seat, or *loose*: named in the seat's words, so that a wait that unwinds loses none (K6).

use super::super::slab::SizeClass;
use super::super::{KvError, KvSeat};
use crate::frame::FrameSource;
use crate::platform::{ObjectPlatform, OrElse};
use crate::units::{Addr, Context, Frame, Mobility, Order};

impl<P, F, R> KvSeat<'_, '_, '_, P, F, R>
where
    P: ObjectPlatform,
    F: FrameSource,
{
    /// A block of the zones, if it is there at once. With a loose block in its hands, the seat takes no other.
    #[inline(always)]
    pub(in super::super) fn try_block(&mut self, order: Order) -> Option<Frame> {
        if self.held.words.has_loose() {
            self.give_loose();
        }
        let blocks = self.ranges.frames();
        blocks.try_block(order, Mobility::Unmovable)
    }

    /// The frames for that: of `order`, or one frame for a slab.
    pub(in super::super) fn fetch_block(
        &mut self,
        class: Option<SizeClass>,
        order: Order,
    ) -> Result<Frame, KvError> {
        let order = class.map_or(order, |_| Order::ZERO);
        self.give_loose();
        let block = self
            .ranges
            .frames()
            .alloc_block(order, Mobility::Unmovable, Context::ANY);
        block.map_err(KvError::Frames)
    }

    /// A block for a slab of that class, of the class's order or a smaller one: its order and its
    /// place.
    pub(in super::super) fn place_of_block(&mut self, class: SizeClass) -> Option<(Order, usize)> {
        let mut orders = (0..=class.order().get()).rev().filter_map(Order::new);
        let (order, frame) = orders.find_map(|order| {
            let frame = self.try_block(order)?;
            Some((order, frame))
        })?;
        let place = self.place_of(frame, order)?;
        Some((order, place))
    }

    /// The place of a block that was just taken. Gives the block back if objects cannot lie in all
    /// of it.
    #[inline(always)]
    pub(in super::super) fn place_of(&mut self, frame: Frame, order: Order) -> Option<usize> {
        let place = self.held.table.place_of_block(frame, order);
        if place.is_none() {
            self.held.words.set_loose(frame, order);
            self.give_loose();
        }
        place
    }

    /// Gives back the seat's loose block. If the wait for another CPU unwinds, it is loose as before.
    #[cold]
    pub(super) fn give_loose(&mut self) {
        if let Some((frame, order)) = self.held.words.loose() {
            self.free_block(frame, order);
            self.held.words.end_loose();
        }
    }

    /// Gives back a block of `kv`'s that has no entry in the table.
    #[inline(always)]
    pub(in super::super) fn free_block(&mut self, frame: Frame, order: Order) {
        let freed = self.ranges.frames().free_block(frame, order);
        debug_assert!(freed.is_ok(), "{freed:?}: it was kv's (K1)");
    }

    /// Gives back the seat's surplus slabs, for a request that has found `found`. If the wait for another CPU
    /// unwinds out of this, the object is free again (K6).
    #[inline(always)]
    pub(in super::super) fn return_surplus_beside(&mut self, found: Option<Addr>) {
        if self.held.words.has_surplus() {
            let unwound = OrElse::new(self, |seat: &mut Self| seat.take_back(found));
            unwound.seat.return_all_surplus();
            unwound.end();
        }
    }

    /// Gives back the seat's surplus slabs. Returns how many frames.
    #[inline(always)]
    pub(in super::super) fn return_surplus(&mut self) -> u64 {
        match self.held.words.has_surplus() {
            true => self.return_all_surplus(),
            false => 0,
        }
    }

    #[cold]
    fn return_all_surplus(&mut self) -> u64 {
        let mut frames = 0;
        self.enter();
        while let Some((class, frame, order)) = self.held.unmake_surplus() {
            // Still in the seat: a CPU that stops all others finds the block here or in the zones.
            let giving = self.held.words.turn().calling_out();
            self.give_surplus(class, frame, order);
            giving.end();
            frames += order.frames();
            // A CPU that stops all others waits for one block, not for all.
            self.exit();
            self.enter();
        }
        self.exit();
        frames
    }

    /// Gives back the block of a slab that was just taken apart. If a wait for another CPU unwinds out of this,
    /// the block has not gone back, and is a slab again. The caller is in the busy seat.
    pub(super) fn give_surplus(&mut self, class: SizeClass, frame: Frame, order: Order) {
        let unwound = OrElse::new(self, |seat: &mut Self| {
            seat.held.remake_surplus(class, frame, order);
        });
        unwound.seat.free_block(frame, order);
        unwound.end();
    }

    /// Gives back all slabs with only free slots that no class is served from. Returns whether
    /// there were any.
    pub(in super::super) fn return_empties(&mut self) -> bool {
        self.enter();
        let has_empties = self.held.has_empties();
        self.held.give_up_empties(false);
        self.exit();
        self.return_surplus() != 0 || has_empties
    }
}
