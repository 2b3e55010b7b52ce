//! Where frames come from: a seat in one zone, seats in several, none, or a source of the caller's.

use super::seat::Resort;
use super::{AllocError, CACHED_ORDERS, FreeError, Seat, Seats, Zone};
use crate::platform::{FramePlatform, surely};
use crate::units::{Context, Frame, Mobility, Order, Run};

/// An origin for a word in which 0 says that there is none yet.
pub(crate) const fn origin_word(origin: u64) -> u64 {
    if origin == 0 { u64::MAX } else { origin }
}

impl<P: FramePlatform> Zone<'_, P> {
    /// The [origin](FrameSource::origin) of all sources that are seats in this zone: the address of its metadata.
    #[must_use]
    pub fn origin(&self) -> u64 {
        self.metadata_address()
    }
}

/// Where a CPU gets frames and gives them back: a seat in one zone, seats in several, or a source of the
/// caller's. Address space, objects and reserve take their frames from one.
///
/// A source gives runs of frames, and [blocks](Self::alloc_block) if it says that it
/// [has them](Self::max_order). Address space and objects call a source while other CPUs wait for the
/// calling CPU's seat there: a source must not call these.
pub trait FrameSource {
    /// The origin of these frames, a number that no other source of the space's host has: two sources with the same
    /// origin give the same frames, and take them back from each other. The seats of one space must have one origin,
    /// because each gives back frames that another one took. Sources that share something, and take all their frames
    /// from it, return its address; then it must stay there as long as the space has areas. Asked once, when a seat is
    /// taken; always the same, and not 0.
    fn origin(&self) -> u64;

    /// The most frames that this source could give if none were in use: a request for more is
    /// refused before it takes a frame. Asked for each request that no kept area serves; a look at
    /// a number.
    fn frames_in_all(&self) -> u64;

    /// An upper bound of the frames that the source could give at some moment of the call: a
    /// `vmalloc` of more pages fails before it takes a frame. Asked for a request that may wait,
    /// and that is long or meets a source that [is short](Self::is_short). A source that gets
    /// frames back from their users, or does not know how many are free, keeps the default.
    fn frames_free(&self) -> u64 {
        u64::MAX
    }

    /// Takes a run of at most `frames` consecutive frames: the longest that is cheap to find, at
    /// least one. The contents are undefined. If the context must not block, it waits for no CPU and stops
    /// none.
    ///
    /// # Errors
    /// The source has not even one frame to give within the context. It may have one for another context if
    /// the error is [`AllocError::WouldWait`].
    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError>;

    /// Gives frames back that were taken from here, or from another source of this origin. A run may be
    /// a part of one that was taken, or of several that lie side by side. Never waits for long. If a wait for
    /// another CPU unwinds out of this, the frames have gone back all the same.
    fn free_run(&mut self, frames: Run);

    /// Gives one frame back as [`free_run`](Self::free_run) does, for a caller that may be wrong about it.
    ///
    /// # Errors
    /// It was not taken from here, or is free already. Nothing has changed then. A source that does not know that takes any.
    fn try_free(&mut self, frame: Frame) -> Result<(), FreeError> {
        self.free_run(run_of(frame, Order::ZERO));
        Ok(())
    }

    /// How often calls of this source have gone beyond what was at hand, and so taken a while. A space that takes
    /// many frames, or gives many back, lets interrupts in whenever this number has changed. Always 0 unless overridden.
    fn slow_calls(&self) -> u64 {
        0
    }

    /// Whether frames are so scarce that memory kept for speed should go back. Asked when a
    /// `vmalloc` that may wait, and that no kept area serves, is about to take frames: its CPU's
    /// kept areas and the depot's then go back, each time that it is so. A user that takes frames
    /// without the space, and runs short, must drain the space itself.
    fn is_short(&mut self) -> bool {
        false
    }

    /// The largest order that a block can have. By default 0: a block is one frame.
    fn max_order(&self) -> Order {
        Order::ZERO
    }

    /// Whether a block of `order` can exist among the frames that exist now, however many are free.
    fn could_have(&self, order: Order) -> bool {
        order <= self.max_order()
    }

    /// Takes a block of `order` if one is there at once: in this CPU's caches, or by one look at the zone.
    /// Stops no CPU.
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.alloc_block(order, mobility, Context::NOWAIT).ok()
    }

    /// Takes a block of `order` if it lies where the calling CPU takes it without a search and without a call.
    /// `None` says nothing of other places, and by default always.
    #[inline]
    fn cached_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        let _ = (order, mobility);
        None
    }

    /// Takes a block of `order` for contents of `mobility`; the contents are undefined. If the context may
    /// block, any free block counts, in whichever CPU's cache it lies. Else the source waits for no CPU and
    /// stops none.
    ///
    /// # Errors
    /// There is no such block, and the source has done all that the context allows to get one; there may be
    /// one if the error is [`AllocError::WouldWait`].
    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        let _ = mobility;
        let max = self.max_order();
        if order > max || order > Order::ZERO {
            return Err(AllocError::TooLarge { order, max });
        }
        Ok(self.alloc_run(1, context)?.start())
    }

    /// Gives a block back that was taken as one. If a wait for another CPU unwinds out of this, the block has
    /// not gone back, and may be given back once more.
    ///
    /// # Errors
    /// As [`Seat::free`]. A source that cannot tell, and whose waits do not unwind, gives the frames back as a run.
    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        let run = Run::new(frame, order.frames()).ok_or(FreeError::Outside(frame))?;
        self.free_run(run);
        Ok(())
    }

    /// Gives a block back that was taken as one, if the calling CPU can keep it at once for the next request. False if
    /// not, and by default always: then nothing has changed, and [`free_block`](Self::free_block) takes it.
    #[inline]
    fn free_cached(&mut self, frame: Frame, order: Order) -> bool {
        let _ = (frame, order);
        false
    }

    /// Takes one frame for contents that can move. The caller must hold no lock that a client of reclaim
    /// takes: a source may ask clients to give memory back.
    ///
    /// # Errors
    /// As [`alloc_block`](Self::alloc_block) with a context that allows everything.
    fn alloc_frame(&mut self) -> Result<Frame, AllocError> {
        self.alloc_block(Order::ZERO, Mobility::Movable, Context::ANY)
    }

    /// Gives such a frame back. Never waits.
    fn free_frame(&mut self, frame: Frame) {
        let freed = self.free_block(frame, Order::ZERO);
        debug_assert!(freed.is_ok(), "a source's frame: {freed:?}");
    }
}

/// No frames: for a space whose areas their users map.
impl FrameSource for () {
    fn origin(&self) -> u64 {
        1
    }

    fn frames_in_all(&self) -> u64 {
        0
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, _frames: Run) {}
}

impl<T: FrameSource + ?Sized> FrameSource for &mut T {
    fn origin(&self) -> u64 {
        (**self).origin()
    }

    fn frames_in_all(&self) -> u64 {
        (**self).frames_in_all()
    }

    fn frames_free(&self) -> u64 {
        (**self).frames_free()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        (**self).alloc_run(frames, context)
    }

    fn free_run(&mut self, frames: Run) {
        (**self).free_run(frames);
    }

    fn try_free(&mut self, frame: Frame) -> Result<(), FreeError> {
        (**self).try_free(frame)
    }

    fn slow_calls(&self) -> u64 {
        (**self).slow_calls()
    }

    fn is_short(&mut self) -> bool {
        (**self).is_short()
    }

    fn max_order(&self) -> Order {
        (**self).max_order()
    }

    fn could_have(&self, order: Order) -> bool {
        (**self).could_have(order)
    }

    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        (**self).try_block(order, mobility)
    }

    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        (**self).alloc_block(order, mobility, context)
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        (**self).free_block(frame, order)
    }

    #[inline(always)]
    fn cached_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        (**self).cached_block(order, mobility)
    }

    #[inline(always)]
    fn free_cached(&mut self, frame: Frame, order: Order) -> bool {
        (**self).free_cached(frame, order)
    }
}

/// Unmovable frames: as many side by side as asked for, if a block at most a third longer is there at once, and
/// else the largest block that is there at once and fits.
impl<P: FramePlatform> FrameSource for Seat<'_, '_, P> {
    fn origin(&self) -> u64 {
        self.zone().origin()
    }

    /// The frames that exist in the zone, including those in use: one load.
    fn frames_in_all(&self) -> u64 {
        self.zone().present_frames()
    }

    /// The frames that are not in use, wherever they lie. Time: O(CPUs).
    fn frames_free(&self) -> u64 {
        self.zone().frames_not_allocated()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        if let Some(run) = self.try_run(frames) {
            return Ok(run);
        }
        let frame = self.alloc_by(Order::ZERO, Mobility::Unmovable, Resort::within(context))?;
        Ok(run_of(frame, Order::ZERO))
    }

    fn free_run(&mut self, frames: Run) {
        let freed = self.free_frames(frames);
        debug_assert!(freed.is_ok(), "frames come back to where they came from");
    }

    fn try_free(&mut self, frame: Frame) -> Result<(), FreeError> {
        self.free_part(frame, Order::ZERO)
    }

    /// The searches for a batch, and the frees for which a full cache gave others back.
    #[inline(always)]
    fn slow_calls(&self) -> u64 {
        self.looks()
    }

    fn is_short(&mut self) -> bool {
        self.zone().is_low()
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.zone().max_order()
    }

    #[inline]
    fn could_have(&self, order: Order) -> bool {
        order <= self.zone().max_order() && self.zone().could_have(order)
    }

    #[inline(always)]
    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.try_alloc(order, mobility)
    }

    #[inline(always)]
    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        match context.may_block {
            true => self.alloc_hard(order, mobility),
            false => self.alloc_at_once(order, mobility),
        }
    }

    #[inline(always)]
    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.free(frame, order)
    }

    #[inline(always)]
    fn cached_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.alloc_cached(order, mobility)
    }

    #[inline(always)]
    fn free_cached(&mut self, frame: Frame, order: Order) -> bool {
        self.free_cached(frame, order)
    }
}

impl<P: FramePlatform> Seat<'_, '_, P> {
    /// The longest run of at most `frames` unmovable frames that is there at once.
    fn try_run(&mut self, frames: u64) -> Option<Run> {
        if let Some(fits) = frames.checked_ilog2().filter(|fits| *fits > 0)
            && let Some(run) = self.try_longer_run(frames, fits as u8)
        {
            return Some(run);
        }
        let frame = self.try_alloc(Order::ZERO, Mobility::Unmovable)?;
        Some(run_of(frame, Order::ZERO))
    }

    /// The same for a run of at least two frames; `fits` is the largest order that is not longer than asked for.
    #[inline(never)]
    fn try_longer_run(&mut self, frames: u64, fits: u8) -> Option<Run> {
        let largest = self.zone().pageblock_order().get();
        let above = fits + 1;
        let is_close = above <= largest && frames >= 3 << above >> 2 && !frames.is_power_of_two();
        if is_close
            && let Some(above) = Order::new(above)
            && let Some(run) = self.try_first((above, Mobility::Unmovable), frames)
        {
            return Some(run);
        }
        // The largest, and if there is none, those that the seat caches: the orders between would
        // mostly be missing too, and cost a search each time.
        let largest = fits.min(largest);
        let cached = (1..=largest.min(CACHED_ORDER_MAX)).rev();
        let orders = (largest > CACHED_ORDER_MAX)
            .then_some(largest)
            .into_iter()
            .chain(cached);
        for order in orders.filter_map(Order::new) {
            if let Some(frame) = self.try_alloc(order, Mobility::Unmovable) {
                return Some(run_of(frame, order));
            }
        }
        None
    }
}

/// From the first zone, in the order of preference, that has frames at once; only then is a zone
/// stopped. The seats are short of frames when each zone is.
impl<P: FramePlatform, const N: usize> FrameSource for Seats<'_, '_, P, N> {
    fn origin(&self) -> u64 {
        let zones = self.all().iter().map(Seat::origin);
        zones
            .reduce(|first, next| first.rotate_left(21) ^ next)
            .unwrap_or(().origin())
    }

    fn frames_in_all(&self) -> u64 {
        self.all().iter().map(Seat::frames_in_all).sum()
    }

    fn frames_free(&self) -> u64 {
        self.all().iter().map(Seat::frames_free).sum()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        if let Some(run) = (0..N).find_map(|nth| self.seat(nth).try_run(frames)) {
            return Ok(run);
        }
        let frame = self.alloc_in(Order::ZERO, Mobility::Unmovable, context)?;
        Ok(run_of(frame, Order::ZERO))
    }

    fn free_run(&mut self, frames: Run) {
        let mut rest = frames;
        surely(|| {
            while !rest.is_empty() {
                let Some((seat, part)) = self.first_part(rest) else {
                    debug_assert!(false, "frames come back to where they came from");
                    return;
                };
                rest = split(rest, part.frames()).1;
                seat.free_run(part);
            }
        });
    }

    fn try_free(&mut self, frame: Frame) -> Result<(), FreeError> {
        let seat = self.seat_of(frame);
        seat.ok_or(FreeError::Outside(frame))?.try_free(frame)
    }

    #[inline(always)]
    fn slow_calls(&self) -> u64 {
        self.all().iter().map(Seat::looks).sum()
    }

    fn is_short(&mut self) -> bool {
        (0..N).all(|nth| self.seat(nth).is_short())
    }

    fn max_order(&self) -> Order {
        self.max_order()
    }

    fn could_have(&self, order: Order) -> bool {
        self.all().iter().any(|seat| seat.could_have(order))
    }

    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        (0..N).find_map(|nth| self.seat(nth).try_alloc(order, mobility))
    }

    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        match context.may_block {
            true => self.alloc_hard(0, order, mobility),
            false => self.alloc_at_once(0, order, mobility),
        }
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.free(frame, order)
    }

    /// From the first zone only: it comes before the others.
    #[inline(always)]
    fn cached_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.seat(0).alloc_cached(order, mobility)
    }

    #[inline(always)]
    fn free_cached(&mut self, frame: Frame, order: Order) -> bool {
        self.likely_seat_of(frame)
            .is_some_and(|seat| seat.free_cached(frame, order))
    }
}

/// The largest order that a seat caches.
const CACHED_ORDER_MAX: u8 = CACHED_ORDERS as u8 - 1;

/// The first `frames` of a run, and the rest.
fn split(run: Run, frames: u64) -> (Run, Run) {
    let frames = frames.min(run.frames());
    let part =
        |start, frames| Run::new(start, frames).expect("it ends where the run does, or before");
    let behind = Frame(run.start().0 + frames);
    (
        part(run.start(), frames),
        part(behind, run.frames() - frames),
    )
}

fn run_of(frame: Frame, order: Order) -> Run {
    Run::new(frame, order.frames()).expect("a block of a zone is below the number range's end")
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
