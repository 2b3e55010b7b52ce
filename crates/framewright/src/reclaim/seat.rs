use super::direct::Request;
use super::state::Reclaim;
use super::{Clients, watch::Lack};
use crate::frame::{AllocError, FreeError, Seat as FrameSeat, Spread};
use crate::platform::{Barrier, Relax};
use crate::policy::quota;
use crate::units::{Context, Frame, Mobility, Order};

/// A CPU's place in a zone, with watermarks: requests that may wait help themselves when there is
/// nothing, or too little.
///
/// Each request is served from the [frames' own seat](FrameSeat) as long as that has something, and
/// pays for it one subtraction. After some frames, at most `quota_frames`, and for every large block,
/// it looks where the zone stands.
#[derive(Debug)]
pub struct Seat<'r, 'z, 'm, P> {
    reclaim: &'r Reclaim<'z, 'm, P>,
    frames: FrameSeat<'z, 'm, P>,
    /// Frames that may be taken before the next look at the watermarks.
    left: u32,
}

impl<'z, 'm, P: Relax + Barrier> Reclaim<'z, 'm, P> {
    /// A CPU's seat in the zone, made of the frames' own.
    ///
    /// # Panics
    /// If it is a seat in another zone.
    #[must_use]
    pub fn seat<'r>(&'r self, frames: FrameSeat<'z, 'm, P>) -> Seat<'r, 'z, 'm, P> {
        assert!(
            core::ptr::eq(self.zone(), frames.zone()),
            "a seat in another zone than the one that is reclaimed"
        );
        Seat {
            reclaim: self,
            frames,
            left: 0,
        }
    }
}

impl<'r, 'z, 'm, P: Relax + Barrier> Seat<'r, 'z, 'm, P> {
    /// Allocates a block of `order` for contents of `mobility`.
    ///
    /// Mostly as [the frames' own](FrameSeat::alloc). Near the low watermark the background is woken.
    /// Where there is no block, or the zone would fall below its min watermark, a request that may
    /// wait and reclaim has memory compacted and has `clients` give frames back, by turns, until it is
    /// served or nothing more helps; each of these is counted as a stall. It never stalls while a free
    /// block of its order is there and enough is free beside it. One that must not wait takes what is
    /// there, below the watermark too, or fails; like the frames' own, it stops other CPUs only for orders up
    /// to [`Config::stop_order_max`](crate::policy::Config::stop_order_max).
    ///
    /// A request that cannot move and would have to go into a pageblock in which everything can, wakes the
    /// background for a pageblock; where the [config](crate::policy::ReclaimConfig) says so, it has the
    /// cheapest one emptied itself instead, if that is not hopeless.
    ///
    /// # Errors
    /// As the frames' own; nothing has changed then but what was reclaimed and moved. One that may
    /// reclaim fails only after direct reclaim brought nothing at the deepest priority, or it has done as
    /// much as one request may, or neither could help any more (R7).
    #[inline]
    pub fn alloc(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
        clients: &Clients<'_, FrameSeat<'z, 'm, P>>,
    ) -> Result<Frame, AllocError> {
        let frames = order.frames();
        if u64::from(self.left) >= frames
            && let Some(frame) = self.frames.alloc_cached(order, mobility)
        {
            self.left -= frames as u32;
            return Ok(frame);
        }
        let request = Request {
            order,
            mobility,
            context,
        };
        self.alloc_otherwise(&request, clients)
    }

    /// Nothing is cached, or a look at the watermarks is due.
    #[cold]
    #[inline(never)]
    fn alloc_otherwise(
        &mut self,
        request: &Request,
        clients: &Clients<'_, FrameSeat<'z, 'm, P>>,
    ) -> Result<Frame, AllocError> {
        let &Request {
            order,
            mobility,
            context,
        } = request;
        let reclaim = self.reclaim;
        let may_help = context.may_block && context.may_reclaim;
        let frames = order.frames();
        let is_look_due = u64::from(self.left) < frames;
        if is_look_due && self.look(request) && may_help {
            // Whatever it brings: the next request looks again.
            self.left = 0;
            return reclaim.obtain(&mut self.frames, request, clients);
        }
        self.left = u64::from(self.left).saturating_sub(frames) as u32;
        // The look was in front of the cache. What lies there is had at once, and contaminates nothing.
        if is_look_due && let Some(frame) = self.frames.alloc_cached(order, mobility) {
            return Ok(frame);
        }
        let spread = reclaim.zone().spreads(order, mobility);
        if spread != Spread::Stays && reclaim.keeps_stock() {
            reclaim.wake(Lack::Stock);
        }
        if spread == Spread::Contaminates {
            // The cheapest pageblock to empty is asked for: of the background, or at once.
            if may_help
                && reclaim.config().empties_for_nonmovable
                && let Some(frame) = reclaim.make_room(&mut self.frames, request, clients)
            {
                return Ok(frame);
            }
            if may_help {
                reclaim.make_room_where_settled(&mut self.frames, request, clients);
            }
            reclaim.wake(Lack::Pageblocks);
        }
        if let Some(frame) = self.frames.try_alloc(order, mobility) {
            return Ok(frame);
        }
        reclaim.wake(if order == Order::ZERO {
            Lack::Frames
        } else {
            Lack::Pageblocks
        });
        if may_help {
            reclaim.obtain(&mut self.frames, request, clients)
        } else {
            // Who may not wait for long does not make all others wait for a costly order either (F8).
            self.frames.alloc(order, mobility)
        }
    }

    /// Looks where the zone stands, which may wake the background. Whether the request would leave less
    /// than the min watermark.
    fn look(&mut self, request: &Request) -> bool {
        let reclaim = self.reclaim;
        let min = reclaim.watch().targets.frames.min;
        let zone = reclaim.zone();
        let config = reclaim.config();
        let taken = request.order.frames();
        let free = zone.free_frames_for(request.mobility);
        let after = free.saturating_sub(taken);
        self.left = quota(config, after, min, zone.cpus()).saturating_add(taken as u32);
        free < min + taken
    }

    /// Frees the block of `order` at `frame`, which was allocated with that order.
    ///
    /// # Errors
    /// As [`FrameSeat::free`].
    #[inline]
    pub fn free(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.frames.free(frame, order)
    }

    /// The reclaim that it belongs to.
    #[must_use]
    pub const fn reclaim(&self) -> &'r Reclaim<'z, 'm, P> {
        self.reclaim
    }

    /// The frames' own seat: what is taken there obeys no watermark.
    pub const fn frames(&mut self) -> &mut FrameSeat<'z, 'm, P> {
        &mut self.frames
    }

    /// The frames' own seat again.
    #[must_use]
    pub fn into_inner(self) -> FrameSeat<'z, 'm, P> {
        self.frames
    }
}
