//! A CPU's seat in a zone: how a request is served from its caches, and how a free goes into them.
//!
//! The fast path of a request or a free: enter the seat, look at one entry and one tag, move the
//! cache's head, write the tag, leave the seat. No lock and no atomic read-modify-write. The tag
//! decides, not the entry (F3). The fast path of frees ends where the cache is full, and is closed
//! while the zone has pageblocks that serve only some requests. All other ways are in `slow`.
//!
//! The seat's CPU writes the seat, or one that has claimed it (F1, F3). A busy seat waits for no pageblock, except to
//! split an allocation. `record`, `caches`, `stock`: what the seat has. `search`, `candidates`: from a request
//! to a pageblock. `slow`, `chains`: what comes and goes in batches. `part`, `turn`, `target`: many blocks, parts
//! of one, and the loose block.

mod caches;
mod candidates;
mod chains;
mod part;
mod record;
mod search;
mod slow;
mod stock;
mod target;
mod turn;

pub(crate) use record::CACHED_ORDERS;
pub(super) use record::{CACHE_MAX, SeatRecord, SeatWords, cache_bit};
pub(crate) use search::Spread;
pub(super) use slow::Resort;
pub(super) use stock::WORD_FRAMES;
pub(crate) use target::TargetRoom;

use super::pageblock::Tag;
use super::zone::Zone;
use super::{AllocError, FreeError};
use crate::platform::{FramePlatform, Patience};
use crate::raw::Halves;
use crate::seats::Taken;
use crate::sync::Ordering::Relaxed;
use crate::units::{CpuId, Frame, Mobility, Order};
use record::cache_number;

/// A CPU's place in a zone. The CPU does all its work in the zone through it.
///
/// Only one thread at a time has a CPU's seat, and two threads cannot share it. Frees and
/// allocations of orders 0 to 4 mostly work on a small cache of the seat, without any atomic
/// read-modify-write operation: about 2 ns each.
#[derive(Debug)]
pub struct Seat<'z, 'm, P> {
    pub(super) zone: &'z Zone<'m, P>,
    pub(super) words: SeatWords<'m>,
    /// Copies of what the fast paths need, so that they need not read it through the zone.
    tags: Halves<'m>,
    origin: u64,
    /// The difference between the tag of a live block and the tag of one in this seat's cache.
    cache_mask: u16,
    _taken: Taken<'m>,
}

impl<'z, 'm, P> Seat<'z, 'm, P> {
    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &'z Zone<'m, P> {
        self.zone
    }

    /// The CPU whose seat it is.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        CpuId(self.words.number)
    }
}

impl<'z, 'm, P: FramePlatform> Seat<'z, 'm, P> {
    pub(super) fn take(zone: &'z Zone<'m, P>, cpu: CpuId) -> Option<Self> {
        let words = SeatWords::new(&zone.seats[cpu.index()], cpu.0);
        Taken::take(words.claims()).map(|taken| Self {
            zone,
            words,
            tags: zone.tags,
            origin: zone.map.origin,
            cache_mask: Tag::cache_mask(words.number),
            _taken: taken,
        })
    }

    /// From here to [`exit`](Self::exit) no other CPU touches the seat, and a CPU that stops all CPUs
    /// waits for this one. So the caller must not wait for such a CPU in between.
    #[inline(always)]
    pub(super) fn enter(&self) {
        if !self.try_enter() {
            self.wait_if_claimed();
        }
    }

    /// Enters, but does not wait: see `Turn::try_enter`.
    #[inline(always)]
    pub(super) fn try_enter(&self) -> bool {
        self.words.turn().try_enter::<P>()
    }

    /// In a busy seat, before the caller does anything in it: lets a CPU that claims the seat have it
    /// first.
    pub(super) fn wait_if_claimed(&self) {
        self.words.turn().wait_if_claimed(&self.zone.platform);
    }

    #[inline(always)]
    pub(super) fn exit(&self) {
        self.words.turn().exit();
    }

    /// Allocates a block of `order` for contents of `mobility`.
    ///
    /// The [policy](crate::policy) chooses the block; the lowest or the highest address, by mobility,
    /// breaks ties. Mostly 2 ns for orders 0 to 4. Where the cache has no block, the seat's stock serves every order
    /// below a pageblock's but 5, while memory abounds. Other requests search the pageblocks: some hundred nanoseconds.
    ///
    /// Until it would fail, a request waits only for a CPU that stops this one. Before one of an order up to
    /// [`Config::stop_order_max`] fails, it stops all CPUs and drains all caches, unless an earlier stop
    /// shows that this gains nothing. Before a larger one fails, it drains only this CPU's caches: see
    /// [`alloc_hard`](Self::alloc_hard).
    ///
    /// # Errors
    /// For orders up to [`Config::stop_order_max`], only when no free block of the order existed at one
    /// moment during the call (F8). A larger request also fails if its block would consist of frames in
    /// other CPUs' caches, or if other CPUs held it at that moment. Nothing has changed then.
    ///
    /// [`Config::stop_order_max`]: crate::policy::Config::stop_order_max
    #[inline(always)]
    pub fn alloc(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        self.alloc_by(order, mobility, Resort::ByOrder)
    }

    /// As [`alloc`](Self::alloc), but stops all CPUs before it fails, whatever the order, as
    /// `__GFP_RETRY_MAYFAIL` tries harder for costly orders.
    ///
    /// For a caller that has moved contents or waited for a block, and for one that cannot do without the
    /// memory. A caller should not serve clients so that it does not trust: each request may stop all CPUs.
    ///
    /// # Errors
    /// Only when no free block of the order existed at one moment during the call (F8). Nothing has
    /// changed then.
    #[inline]
    pub fn alloc_hard(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        self.alloc_by(order, mobility, Resort::Stop)
    }

    /// The fast path, which serves most requests without a call. Leaves the seat idle if it found a
    /// block, and else busy, perhaps while another CPU claims it.
    #[inline(always)]
    fn alloc_fast(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        let words = self.words;
        if self.try_enter() && order.index() < CACHED_ORDERS {
            let cache = cache_number(mobility, order.index());
            let offset = words.youngest(cache);
            let live = Tag::live(order, mobility);
            if let Some(tag) = self.tags.find(offset)
                && tag.load(Relaxed) == live.0 ^ self.cache_mask
            {
                words.hand_out_youngest(cache);
                tag.store(live.0, Relaxed);
                let frame = Frame(self.origin + offset as u64);
                words.turn().exit();
                return Some(frame);
            }
        }
        None
    }

    /// Takes a block of `order` out of this CPU's cache, if one lies there. `None` if not, or if another CPU stops this
    /// one. It is the fast path of [`alloc`](Self::alloc), for a caller that then calls that.
    #[inline(always)]
    pub fn alloc_cached(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        let found = self.alloc_fast(order, mobility);
        if found.is_none() {
            self.exit();
        }
        found
    }

    /// Allocates a block of `order` if there is one at once. Unlike [`alloc`](Self::alloc) it stops no
    /// CPU before it fails. It waits only while another CPU stops this one.
    ///
    /// `None` does not mean that there is no block: it may lie in another CPU's cache.
    #[inline(always)]
    pub fn try_alloc(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        match self.alloc_fast(order, mobility) {
            Some(frame) => Some(frame),
            None => self.try_alloc_slow(order, mobility),
        }
    }

    /// [`alloc_cached`](Self::alloc_cached) for the slow paths of requests: not inlined, because what it needs would lie on
    /// the stack with all that they call.
    #[inline(never)]
    pub(crate) fn alloc_cached_again(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.alloc_cached(order, mobility)
    }

    /// [`try_alloc`](Self::try_alloc) for them.
    #[inline(never)]
    pub(crate) fn try_alloc_again(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.try_alloc(order, mobility)
    }

    /// The seat is busy before, perhaps while another CPU claims it, and idle after.
    #[inline(never)]
    fn try_alloc_slow(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.wait_if_claimed();
        self.try_alloc_entered(order, mobility)
    }

    /// As [`alloc`](Self::alloc), but stops no CPU, whatever the order, and so is for a caller that must not
    /// wait for others to leave their seats. Before it fails it drains this CPU's caches. It waits only while
    /// another CPU stops this one, as each call does.
    ///
    /// # Errors
    /// [`AllocError::WouldWait`] if enough frames are free by the counts: a block may lie in another CPU's
    /// cache, or in a pageblock that another CPU has locked. [`AllocError::Exhausted`] if fewer are.
    /// Nothing has changed then.
    #[inline]
    pub fn alloc_at_once(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        self.alloc_by(order, mobility, Resort::OwnCaches)
    }

    /// The same for a caller that goes on in another way if this fails: the failure is not counted.
    #[inline]
    pub(crate) fn alloc_at_once_first(
        &mut self,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.alloc_by(order, mobility, Resort::OwnCachesFirst)
    }

    #[inline(always)]
    pub(super) fn alloc_by(
        &mut self,
        order: Order,
        mobility: Mobility,
        resort: Resort,
    ) -> Result<Frame, AllocError> {
        // The fast path's result lies in registers, so it is not the one that the slow path writes to memory.
        let frame = match self.alloc_fast(order, mobility) {
            Some(frame) => frame,
            None => self.alloc_slow(order, mobility, resort)?,
        };
        Ok(frame)
    }

    /// As [`alloc_hard`](Self::alloc_hard), but waits for other CPUs for at most `rounds` calls of
    /// [`FramePlatform::relax`](crate::platform::FramePlatform::relax) in all. It may wait for a CPU that stops all
    /// others, and, before it fails, until each CPU has left its seat. With 0 it does not wait.
    ///
    /// # Errors
    /// As `alloc_hard` (F8); [`AllocError::WouldWait`] if the bound was too short. Nothing has changed
    /// then.
    pub fn alloc_within(
        &mut self,
        order: Order,
        mobility: Mobility,
        rounds: u32,
    ) -> Result<Frame, AllocError> {
        let mut patience = Patience::Rounds(rounds);
        let (turn, platform) = (self.words.turn(), &self.zone.platform);
        if !self.try_enter() && !turn.wait_if_claimed_within(platform, &mut patience) {
            return Err(AllocError::WouldWait);
        }
        if let Some(frame) = self.try_alloc_entered(order, mobility) {
            return Ok(frame);
        }
        let found = self.alloc_at_rest_within(order, mobility, &mut patience);
        if let Err(error) = found
            && error != AllocError::WouldWait
        {
            self.count_failure(order, error);
        }
        found
    }

    /// Allocates a block that is there at once. The seat is busy before and idle after.
    #[inline]
    fn try_alloc_entered(&self, order: Order, mobility: Mobility) -> Option<Frame> {
        let cached = if order.index() < CACHED_ORDERS {
            self.words.pop(self.zone, mobility, order)
        } else {
            None
        };
        let offset = cached.or_else(|| self.fetch(order, mobility));
        if let Some(offset) = offset {
            self.hand_out(offset, order, mobility);
        }
        self.exit();
        offset.map(|offset| self.zone.frame(offset))
    }

    /// Tags the block as live and counts it.
    #[inline(always)]
    pub(super) fn hand_out(&self, offset: usize, order: Order, mobility: Mobility) {
        self.zone.set_tag(offset, Tag::live(order, mobility));
        self.words.counters().pgalloc[mobility.index()].add(order.frames());
    }

    /// Frees the block of `order` at `frame`, which was allocated with that order.
    ///
    /// Mostly 2 ns for orders 0 to 4, some 30 ns otherwise. Waits only for a CPU that stops it.
    ///
    /// # Errors
    /// If no block of that order is allocated there: it is free already, has another order, lies inside
    /// another block, or is not in the zone. Nothing has changed then.
    #[inline(always)]
    pub fn free(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        if !self.free_fast(frame, order) {
            self.free_slow(frame, order)?;
        }
        Ok(())
    }

    /// Frees the block of `order` at `frame` into this CPU's cache, if that has room. False if not, if another CPU stops
    /// this one, or if no such block is allocated there. It is the fast path of [`free`](Self::free), for a caller that
    /// then calls that.
    #[inline(always)]
    pub fn free_cached(&mut self, frame: Frame, order: Order) -> bool {
        let is_freed = self.free_fast(frame, order);
        if !is_freed {
            self.exit();
        }
        is_freed
    }

    /// The fast path of a free. Leaves the seat idle if it freed the block, and else busy, perhaps while another CPU
    /// claims it.
    #[inline(always)]
    fn free_fast(&mut self, frame: Frame, order: Order) -> bool {
        let words = self.words;
        let offset = frame.offset_from(self.origin);
        if self.try_enter()
            && order.index() < CACHED_ORDERS
            && let Some(half) = self.tags.find(offset)
            && let tag = half.load(Relaxed)
            && let Some(mobility) = Tag(tag).as_live_of(order)
            && if mobility.is_movable() {
                // The processor predicts this branch. Without it the cache's address would wait for the
                // tag, and alloc and free of one block would take twice the time.
                words.put(cache_number(Mobility::Movable, order.index()), offset)
            } else {
                words.put(cache_number(mobility, order.index()), offset)
            }
        {
            half.store(tag ^ self.cache_mask, Relaxed);
            words.turn().exit();
            return true;
        }
        false
    }

    /// Frees a block that the fast path did not put into the cache. The seat is busy before, perhaps
    /// while another CPU claims it, and idle after.
    #[cold]
    #[inline(never)]
    fn free_slow(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.wait_if_claimed();
        if order == self.zone.whole.order && self.free_whole(frame).is_some() {
            self.exit();
            return Ok(());
        }
        self.free_any(frame, order)
    }

    #[inline(never)]
    fn free_any(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        let freed = self.free_entered(frame, order);
        self.exit();
        freed
    }

    /// As [`free`](Self::free), but waits for a CPU that stops this one for at most `rounds` calls of
    /// [`FramePlatform::relax`](crate::platform::FramePlatform::relax). With 0 it does not wait. False if the bound
    /// was too short: nothing has changed then.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn free_within(
        &mut self,
        frame: Frame,
        order: Order,
        rounds: u32,
    ) -> Result<bool, FreeError> {
        let mut patience = Patience::Rounds(rounds);
        let (turn, platform) = (self.words.turn(), &self.zone.platform);
        if !self.try_enter() && !turn.wait_if_claimed_within(platform, &mut patience) {
            return Ok(false);
        }
        self.free_any(frame, order).map(|()| true)
    }

    pub(super) fn free_entered(&self, frame: Frame, order: Order) -> Result<(), FreeError> {
        let offset = self.zone.offset_unchecked(frame);
        let live = self.zone.tag_if_inside(offset);
        let Some(mobility) = live.and_then(|tag| tag.as_live_of(order)) else {
            return Err(self.refuse(frame, order));
        };
        if order.index() < CACHED_ORDERS {
            if self.words.is_restricted() && self.zone.is_restricted_for(offset, mobility) {
                return self.free_uncached(offset, order, mobility);
            }
            let cached = self.words.cached(mobility, order.index());
            if cached < self.words.limit(mobility, order.index()) {
                self.put_into_cache(offset, order, mobility);
                return Ok(());
            }
        }
        self.free_beyond_cache(offset, order, mobility)
    }

    /// Frees a block into the cache, which has room.
    #[inline(always)]
    pub(super) fn put_into_cache(&self, offset: usize, order: Order, mobility: Mobility) {
        let tag = Tag::cached(self.words.number, order, mobility);
        self.zone.set_tag(offset, tag);
        self.words.push(mobility, order.index(), offset);
        self.words.counters().pgfree.add(order.frames());
    }
}
