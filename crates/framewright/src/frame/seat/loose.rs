//! A block of which a request keeps the first frames.
//!
//! A request that needs fewer frames than a block has allocates the block and frees the rest. To do that it
//! enters its seat once more, and a wait for a CPU that stops it may unwind. Then no caller knows the block. It
//! is *loose*: still an allocation, noted in the seat's record. Every drain gives it back, whichever CPU
//! drains the seat, and so does the seat's next request of this kind before it takes a block.

use super::super::pageblock::Tag;
use super::super::zone::Zone;
use super::Seat;
use super::record::SeatWords;
use crate::platform::{FramePlatform, OrElse};
use crate::units::{Frame, Mobility, Order, Run};
use core::iter;

impl<P: FramePlatform> Seat<'_, '_, P> {
    /// Gives back the loose block, if there is one. If the wait for another CPU unwinds, it is loose as before.
    #[inline]
    pub(crate) fn give_loose(&mut self) {
        if self.words.loose().is_some() {
            self.enter();
            self.words.give_loose(self.zone);
            self.exit();
        }
    }

    /// Keeps the first `frames` frames of the block of `order` at `first`, as the fewest aligned allocations, and
    /// frees the rest. The seat has just allocated the block, and had nothing loose before. Time: O(orders).
    ///
    /// If the wait for another CPU unwinds out of this, the block is loose.
    pub(crate) fn keep_first(
        &mut self,
        first: Frame,
        (order, mobility): (Order, Mobility),
        frames: u64,
    ) -> Run {
        let kept = Run::new(first, frames).expect("it is inside a block");
        if frames == order.frames() {
            return kept;
        }
        let (zone, offset) = (self.zone, self.zone.offset_unchecked(first));
        let unwound = OrElse::new(self, |seat: &mut Self| {
            seat.words.set_loose(Some(offset));
        });
        unwound.seat.enter();
        let held = unwound.seat.turn_to_split(offset);
        let all = parts(0, frames).chain(parts(frames, order.frames()));
        for (at, part) in all {
            zone.set_tag(offset + at as usize, Tag::live(part, mobility));
        }
        held.unlock();
        unwound.end();
        for (at, part) in parts(frames, order.frames()) {
            let freed = self.free_entered(Frame(first.0 + at), part);
            debug_assert!(freed.is_ok(), "{freed:?}: it was just allocated");
        }
        self.exit();
        kept
    }
}

/// The fewest aligned blocks of the frames from `from` to `to` of a block: where each begins, and its order.
pub(super) fn parts(from: u64, to: u64) -> impl Iterator<Item = (u64, Order)> {
    let mut at = from;
    iter::from_fn(move || {
        let largest = (to - at).checked_ilog2()?.min(at.trailing_zeros());
        let part = Order::new(largest as u8)?;
        at += part.frames();
        Some((at - part.frames(), part))
    })
}

impl<'m> SeatWords<'m> {
    /// Gives back the loose block. The seat is busy, or all CPUs stand still.
    pub(super) fn give_loose<P>(self, zone: &Zone<'m, P>) {
        let Some(offset) = self.loose() else { return };
        self.set_loose(None);
        if let Some((order, mobility)) = zone.tag(offset).as_live() {
            let given = zone.give_back(self.counters(), offset, order, mobility);
            debug_assert!(given.is_ok(), "no caller knows the block");
        }
    }
}
