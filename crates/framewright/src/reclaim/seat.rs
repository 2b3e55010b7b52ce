//! A CPU's seat in a zone with watermarks, around the frames' own seat.
//!
//! It is a plain value of its CPU's, and counts down the frames that it may hand out before it looks
//! at the watermarks. Until then the frames' cache serves. A request that looks, and would leave too
//! little free, reclaims if it may; any other one first takes a block that is there. Clients are
//! handed the frames' own seat, so they cannot come back here (R4).

use super::Clients;
use super::direct::BlockRequest;
use super::state::{Lack, Reclaim};
use crate::frame::{AllocError, FrameSource, FreeError, Seat as FrameSeat, Spread};
use crate::platform::FramePlatform;
use crate::policy::quota;
use crate::units::{Context, Frame, Mobility, Order};

/// A CPU's place in a zone with watermarks. A request that may wait reclaims for itself when the zone has
/// no block for it, or too few free frames.
///
/// The [frames' own seat](FrameSeat) serves each request as long as it has a block, for the price of one
/// more subtraction. After some frames, at most `quota_frames`, and for every large block, the seat looks
/// at the zone's watermarks.
#[derive(Debug)]
pub struct ReclaimSeat<'r, 'z, 'm, P> {
    reclaim: &'r Reclaim<'z, 'm, P>,
    frames: FrameSeat<'z, 'm, P>,
    /// Frames that the seat may hand out before its next look at the watermarks.
    left: u32,
}

impl<'z, 'm, P: FramePlatform> Reclaim<'z, 'm, P> {
    /// A CPU's seat in the zone, made of the frames' own.
    ///
    /// # Panics
    /// If `frames` is a seat in another zone.
    #[must_use]
    pub fn seat<'r>(&'r self, frames: FrameSeat<'z, 'm, P>) -> ReclaimSeat<'r, 'z, 'm, P> {
        assert!(
            core::ptr::eq(self.zone(), frames.zone()),
            "a seat in another zone than the one that is reclaimed"
        );
        ReclaimSeat {
            reclaim: self,
            frames,
            left: 0,
        }
    }
}

impl<'r, 'z, 'm, P: FramePlatform> ReclaimSeat<'r, 'z, 'm, P> {
    /// Allocates a block of `order` for contents of `mobility`.
    ///
    /// Mostly as [the frames' own](FrameSeat::alloc). Near the low watermark it wakes the background.
    ///
    /// If there is no block, or the zone would fall below its min watermark, a request that may wait and
    /// reclaim helps itself. It compacts memory and asks `clients` to give frames back, by turns, until it
    /// gets a block or nothing more helps. Each of these steps counts as a stall. It never stalls while
    /// there is a free block of its order and enough frames beside it are free.
    ///
    /// A request that must not reclaim takes a block that is there, below the watermark too, or fails, as
    /// [the frames' own](FrameSeat::alloc). One that must not wait stops no CPU: it ends as
    /// [`FrameSeat::alloc_at_once`].
    ///
    /// A request for contents that cannot move may find room only in a pageblock in which all contents can.
    /// Then it wakes the background to empty a pageblock. If the
    /// [config](crate::policy::ReclaimConfig) says so, it empties the cheapest one itself instead, unless
    /// that is hopeless.
    ///
    /// # Errors
    /// As the frames' own. Nothing has changed then, but the request may have reclaimed and moved frames. A
    /// request that may reclaim fails only in three cases: direct reclaim brought nothing at the deepest
    /// priority, or it has done as much as one request may, or neither of the two could help further (R7).
    #[inline]
    pub fn alloc(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
        clients: &Clients<'_, FrameSeat<'z, 'm, P>>,
    ) -> Result<Frame, AllocError> {
        let mut requests = CpuRequests {
            reclaim: self.reclaim,
            frames: &mut self.frames,
            left: &mut self.left,
        };
        if let Some(frame) = requests.alloc_fast(order, mobility) {
            return Ok(frame);
        }
        let request = BlockRequest {
            order,
            mobility,
            context,
            goes_on: false,
        };
        requests.alloc_slow(&request, clients)
    }

    /// Frees the block of `order` at `frame`, which was allocated with that order.
    ///
    /// # Errors
    /// As [`FrameSeat::free`].
    #[inline]
    pub fn free(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.frames.free(frame, order)
    }

    /// The reclaim to which the seat belongs.
    #[must_use]
    pub const fn reclaim(&self) -> &'r Reclaim<'z, 'm, P> {
        self.reclaim
    }

    /// The frames' own seat. A caller that takes frames there obeys no watermark.
    pub const fn frames(&mut self) -> &mut FrameSeat<'z, 'm, P> {
        &mut self.frames
    }

    /// How often the frames' own seat has gone [beyond its caches](FrameSource::slow_calls).
    #[must_use]
    pub fn slow_calls(&self) -> u64 {
        self.frames.slow_calls()
    }

    /// Gives the frames' own seat back.
    #[must_use]
    pub fn into_inner(self) -> FrameSeat<'z, 'm, P> {
        self.frames
    }
}

/// What a request of a CPU works with.
pub(crate) struct CpuRequests<'a, 'z, 'm, P> {
    pub(crate) reclaim: &'a Reclaim<'z, 'm, P>,
    pub(crate) frames: &'a mut FrameSeat<'z, 'm, P>,
    /// Frames that the CPU may hand out before its next look at the watermarks.
    pub(crate) left: &'a mut u32,
}

impl<'z, 'm, P: FramePlatform> CpuRequests<'_, 'z, 'm, P> {
    /// Allocates a block from the CPU's cache, unless a look at the watermarks is due.
    #[inline(always)]
    pub(crate) fn alloc_fast(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        let frames = order.frames();
        if u64::from(*self.left) < frames {
            return None;
        }
        let frame = self.frames.alloc_cached(order, mobility)?;
        *self.left -= frames as u32;
        Some(frame)
    }

    /// Allocates a block that is there while the zone is above its low watermark.
    pub(crate) fn alloc_above_low(&mut self, request: &BlockRequest) -> Option<Frame> {
        let &BlockRequest {
            order, mobility, ..
        } = request;
        if self.frames.zone().is_low() {
            return None;
        }
        self.look(request);
        *self.left = u64::from(*self.left).saturating_sub(order.frames()) as u32;
        self.frames.try_alloc(order, mobility)
    }

    /// Allocates when the cache has no block, or a look at the watermarks is due.
    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_slow(
        mut self,
        request: &BlockRequest,
        clients: &Clients<'_, FrameSeat<'z, 'm, P>>,
    ) -> Result<Frame, AllocError> {
        let &BlockRequest {
            order,
            mobility,
            context,
            ..
        } = request;
        let reclaim = self.reclaim;
        let may_help = context.may_block && context.may_reclaim;
        let frames = order.frames();
        let is_look_due = u64::from(*self.left) < frames;
        if is_look_due && self.look(request) && may_help {
            // Whatever this brings, the next request looks again.
            *self.left = 0;
            return reclaim.obtain(self.frames, request, clients);
        }
        *self.left = u64::from(*self.left).saturating_sub(frames) as u32;
        // The look came before the cache, so the cache is still to be tried. A block there costs no wait
        // and contaminates no pageblock.
        if is_look_due && let Some(frame) = self.frames.alloc_cached_again(order, mobility) {
            return Ok(frame);
        }
        let spread = reclaim.zone().spreads(order, mobility);
        if spread != Spread::Stays && reclaim.keeps_stock() {
            reclaim.wake(Lack::Stock);
        }
        if spread == Spread::Contaminates {
            // The request empties the cheapest pageblock at once, or asks the background to.
            if may_help
                && reclaim.config().empties_for_nonmovable
                && let Some(frame) = reclaim.make_room(self.frames, request, clients)
            {
                return Ok(frame);
            }
            if may_help {
                reclaim.make_room_where_settled(self.frames, request, clients);
            }
            reclaim.wake(Lack::Pageblocks);
        }
        if let Some(frame) = self.frames.try_alloc_again(order, mobility) {
            return Ok(frame);
        }
        reclaim.wake(if order == Order::ZERO {
            Lack::Frames
        } else {
            Lack::Pageblocks
        });
        if may_help {
            reclaim.obtain(self.frames, request, clients)
        } else {
            self.alloc_without_help(request)
        }
    }

    /// Serves a request that may not wait, or not reclaim, with what there is.
    #[inline(never)]
    fn alloc_without_help(self, request: &BlockRequest) -> Result<Frame, AllocError> {
        let &BlockRequest {
            order, mobility, ..
        } = request;
        if request.context.may_block {
            // A request that must not reclaim does not make all other CPUs wait for a costly order either
            // (F8).
            self.frames.alloc(order, mobility)
        } else if request.goes_on {
            self.frames.alloc_at_once_first(order, mobility)
        } else {
            self.frames.alloc_at_once(order, mobility)
        }
    }

    /// Looks at the watermarks, and may wake the background. Returns whether the request would leave fewer
    /// free frames than the min watermark.
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    fn look(&mut self, request: &BlockRequest) -> bool {
        let reclaim = self.reclaim;
        let min = reclaim.watch().targets.frames.min;
        let zone = reclaim.zone();
        let config = reclaim.config();
        let taken = request.order.frames();
        let free = zone.free_frames_for(request.mobility);
        let after = free.saturating_sub(taken);
        *self.left = quota(config, after, min, zone.cpus()).saturating_add(taken as u32);
        free < min + taken
    }
}
