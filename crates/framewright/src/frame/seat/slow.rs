//! The slow path of a seat, taken when its cache cannot serve a request or a free.

use super::super::counters::Counters;
use super::super::pageblock::{Tag, big};
use super::super::wanted::WantedBlock;
use super::super::zone::{Zone, kind};
use super::super::{AllocError, FreeError};
use super::Seat;
use super::record::{CACHE_MAX, CACHED_ORDERS, cache_bit, cache_of, numbers_of};
use super::search::BlockBatch;
use super::stock::{self, WORD_FRAMES};
use crate::platform::{FramePlatform, Patience};
use crate::seats::{SeatSet, StopAsk};
use crate::sync::Ordering::Relaxed;
use crate::units::{Context, Frame, Mobility, Order};

/// The most blocks fetched from pageblocks at once: half a full cache.
const BATCH: usize = CACHE_MAX / 2;

/// How far a request may go before it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Resort {
    /// As far as the zone's configuration says for its order.
    ByOrder,
    /// Stop all CPUs.
    Stop,
    /// No further than this CPU's own caches.
    OwnCaches,
    /// The same for a caller that goes on in another way: a failure is not counted.
    OwnCachesFirst,
}

impl Resort {
    /// For a request within `context`: one that must not wait stops no CPU.
    #[inline(always)]
    pub(in super::super) const fn within(context: Context) -> Self {
        match context.may_block {
            true => Self::ByOrder,
            false => Self::OwnCaches,
        }
    }

    /// Whether a request that goes so far stops the CPUs of `zone` for a block of `order` before it fails.
    pub(in super::super) fn stops<P: FramePlatform>(
        self,
        zone: &Zone<'_, P>,
        order: Order,
    ) -> bool {
        match self {
            Self::ByOrder => zone.stops_for(order),
            Self::Stop => true,
            Self::OwnCaches | Self::OwnCachesFirst => false,
        }
    }
}

impl<'m, P: FramePlatform> Seat<'_, 'm, P> {
    /// The path of a request that the cache does not serve at once. The seat is busy before, perhaps while another
    /// CPU claims it, and idle after.
    #[cold]
    #[inline(never)]
    pub(super) fn alloc_slow(
        &mut self,
        order: Order,
        mobility: Mobility,
        resort: Resort,
    ) -> Result<Frame, AllocError> {
        self.wait_if_claimed();
        if order == self.zone.whole.order
            && let Some(offset) = self.fetch_whole(mobility)
        {
            self.hand_out(offset, order, mobility);
            self.exit();
            return Ok(self.zone.frame(offset));
        }
        let cached = if order.index() < CACHED_ORDERS {
            self.words.pop(self.zone, mobility, order)
        } else {
            None
        };
        if let Some(offset) = cached.or_else(|| self.fetch(order, mobility)) {
            self.hand_out(offset, order, mobility);
            self.exit();
            return Ok(self.zone.frame(offset));
        }
        self.exit();
        let found = match resort.stops(self.zone, order) {
            true => self.alloc_at_rest(order, mobility),
            false => self.alloc_without_own_caches(order, mobility, resort),
        };
        if let Err(error) = found
            && resort != Resort::OwnCachesFirst
        {
            self.count_failure(order, error);
        }
        found
    }

    /// Whether the zone could ever have a block of that order and mobility.
    fn check(&self, order: Order, mobility: Mobility) -> Result<(), AllocError> {
        let max = self.zone.max_order();
        if order > max {
            return Err(AllocError::TooLarge { order, max });
        }
        if self.zone.could_have(order) {
            Ok(())
        } else {
            Err(self.zone.why_none(order, mobility))
        }
    }

    /// The last attempt of a request that may not stop other CPUs: gives this CPU's caches back,
    /// and searches the pageblocks once more.
    fn alloc_without_own_caches(
        &mut self,
        order: Order,
        mobility: Mobility,
        resort: Resort,
    ) -> Result<Frame, AllocError> {
        self.check(order, mobility)?;
        self.enter();
        if self.words.caches_in_use() != 0 || self.words.loose().is_some() {
            self.words.drain(self.zone);
        }
        let found = self.fetch_drained(WantedBlock { order, mobility });
        if let Some(offset) = found {
            self.hand_out(offset, order, mobility);
        }
        self.exit();
        match found {
            Some(offset) => Ok(self.zone.frame(offset)),
            None if resort == Resort::ByOrder => Err(self.zone.why_none(order, mobility)),
            None => Err(self.zone.why_not_at_once(order, mobility)),
        }
    }

    /// The last attempt of a request; no seat may be busy for it. Stops all CPUs and drains all
    /// caches, unless that would gain nothing, or was done for another CPU meanwhile. A failure is
    /// not counted.
    pub(crate) fn alloc_at_rest(
        &mut self,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.alloc_at_rest_within(order, mobility, &mut Patience::Endless)
    }

    /// The same, but gives up if it has to wait for longer than `patience` lasts.
    pub(super) fn alloc_at_rest_within(
        &mut self,
        order: Order,
        mobility: Mobility,
        patience: &mut Patience,
    ) -> Result<Frame, AllocError> {
        self.check(order, mobility)?;
        let zone = self.zone;
        let begin = zone.stop_words().memo.last();
        let ask = zone.ask_within(kind(order, mobility), begin, patience);
        let lock = match ask.ok_or(AllocError::WouldWait)? {
            StopAsk::Vain => return Err(zone.why_none(order, mobility)),
            StopAsk::Meanwhile(lock) => {
                if let Some(frame) = self.try_alloc(order, mobility) {
                    return Ok(frame);
                }
                lock
            }
            StopAsk::Alone(lock) => lock,
        };
        let Ok(stopped) = lock.stop_within(patience);
        let stopped = stopped.ok_or(AllocError::WouldWait)?;
        self.count_drain();
        stopped.drain();
        // All that is free lies in pageblocks now, and no other CPU takes it: if a free block of
        // the order exists, this finds it.
        let found = self.fetch_drained(WantedBlock { order, mobility });
        match found {
            Some(offset) => self.hand_out(offset, order, mobility),
            None => stopped.note_in_vain(order, mobility),
        }
        drop(stopped);
        match found {
            Some(offset) => Ok(zone.frame(offset)),
            None => Err(zone.why_none(order, mobility)),
        }
    }

    pub(in super::super) fn count_drain(&self) {
        self.words.counters().drains.add(1);
    }

    /// Counts a request of `order` that failed.
    pub(crate) fn count_failure(&self, order: Order, error: AllocError) {
        let counters = self.words.counters();
        let counters = match error {
            AllocError::Exhausted => &counters.exhausted,
            AllocError::Fragmented | AllocError::WouldWait => &counters.fragmented,
            AllocError::TooLarge { .. } | AllocError::Impossible => return,
        };
        counters[order.index()].add(1);
    }

    /// Fetches a block from the pageblocks, and a batch of others into the cache. Never waits.
    #[inline(never)]
    pub(super) fn fetch(&self, order: Order, mobility: Mobility) -> Option<usize> {
        let wanted = WantedBlock { order, mobility };
        if order > self.zone.pageblock_order() {
            return big::take(self.zone, self.words.counters(), wanted);
        }
        if order == self.zone.pageblock_order() {
            return self.fetch_whole(mobility);
        }
        if order.index() >= CACHED_ORDERS {
            return self.fetch_first(wanted, order.frames());
        }
        if let Some(offset) = self.words.take_stocked(self.zone, order, mobility) {
            return Some(offset);
        }
        self.look_at_limits(order, mobility);
        if self.is_barren(wanted) {
            return None;
        }
        let limit = self.words.limit(mobility, order.index());
        let len = limit.div_ceil(2).clamp(1, BATCH);
        let mut out = [0u32; BATCH];
        let mut batch = BlockBatch::new(&mut out[..len]);
        batch.words_max = self.words.stock_for(order, mobility);
        self.search(wanted, &mut batch);
        if let Some(words) = batch.words {
            self.words.stock_up(self.zone, mobility, words);
            return self.words.take_stocked(self.zone, order, mobility);
        }
        let taken = batch.taken;
        let (first, others) = out[..taken].split_first()?;
        self.words.counters().net.add((taken as u64) << order.get());
        // The cache hands out its youngest first, so this way the blocks come out in the order
        // found.
        for &offset in others.iter().rev() {
            let tag = Tag::cached(self.words.number, order, mobility);
            self.zone.set_tag(offset as usize, tag);
            self.words.push(mobility, order.index(), offset as usize);
        }
        Some(*first as usize)
    }

    fn fetch_whole(&self, mobility: Mobility) -> Option<usize> {
        let offset = self.zone.take_whole(self.words, mobility)?;
        let frames = self.zone.whole.order.frames();
        self.words.counters().net.add(frames);
        Some(offset)
    }

    /// Fetches a block from the pageblocks, the high-order reserve included; caches none. The seat
    /// is busy, or all CPUs are stopped.
    pub(in super::super) fn fetch_drained(&self, wanted: WantedBlock) -> Option<usize> {
        if wanted.order > self.zone.pageblock_order() {
            return big::take(self.zone, self.words.counters(), wanted);
        }
        let taken = if wanted.order == self.zone.pageblock_order() {
            self.zone.take_whole(self.words, wanted.mobility)
        } else if self.is_barren(wanted) {
            None
        } else {
            self.zone.take_one(self.words, wanted)
        };
        let offset = if let Some(offset) = taken {
            offset
        } else if wanted.may_have_reserved(self.zone.pageblock_order()) {
            self.zone.take_reserved(self.words, wanted)?
        } else {
            return None;
        };
        self.words.counters().net.add(wanted.order.frames());
        Some(offset)
    }

    /// How often the seat looked at its limits: before it takes a batch, and at a free beyond a full cache.
    #[inline(always)]
    pub(in super::super) fn looks(&self) -> u64 {
        self.words.counters().looks.read()
    }

    /// Sets the caches' limits by how much memory is free. With many CPUs it does so only now and then, because it
    /// adds up the counters of all of them.
    ///
    /// The caches in use, and the one of `order` and `mobility`, share what a CPU may hold. Mostly one or two
    /// caches are in use. The others may hold nothing until they are used. A cache above its new limit gives back
    /// its older blocks, so together they never hold more.
    pub(super) fn look_at_limits(&self, order: Order, mobility: Mobility) {
        let words = self.words;
        let looks = words.counters().looks.read();
        words.counters().looks.add(1);
        let cpus = self.zone.map.cpus;
        // Without a division for few CPUs.
        let is_due = cpus < 8 || looks.is_multiple_of(u64::from(cpus / 4));
        if !is_due && words.limit(mobility, order.index()) > 0 {
            return;
        }
        let config = &self.zone.config;
        let free = self.zone.free_in_pageblocks();
        let cpus = u64::from(self.zone.map.cpus);
        let mut frames = free * u64::from(config.cache_permille) / (1000 * cpus);
        if free < self.zone.low_watermark() {
            // Memory is short: blocks in a cache are missing elsewhere.
            frames /= 4;
        }
        let used = words.caches_in_use() | cache_bit(mobility, order.index());
        let share = frames / u64::from(used.count_ones());
        let blocks_max = u64::from(config.cache_blocks_max);
        // Only if a whole word fits into the cache in front of the stock.
        let is_large = usize::from(config.cache_blocks_max) >= WORD_FRAMES;
        let stock = if is_large { stock::words_of(share) } else { 0 };
        let share = share.min(blocks_max);
        // All that the limits depend on, in one word.
        let basis = 1 << 63 | u64::from(used) << 32 | (stock as u64) << 16 | share;
        if words.has_limits_by(basis) {
            return;
        }
        words.set_stock_limit(stock);
        let before = words.may_hold();
        words.set_may_hold(used);
        for cache in numbers_of(before | used) {
            let (mobility, order) = cache_of(cache);
            // Giving back half the cache cannot split a block of several pageblocks.
            let is_within = order <= self.zone.pageblock_order();
            let share = if is_within { share >> order.get() } else { 0 };
            if order == Order::ZERO
                && words
                    .stock(mobility)
                    .is_some_and(|(_, words)| words > stock)
            {
                words.give_stock(self.zone, mobility);
            }
            let cached = words.cached(mobility, order.index());
            let limit = if used >> cache & 1 != 0 {
                share as usize
            } else {
                0
            };
            words.set_limit(mobility, order.index(), limit);
            if cached > limit {
                words.spill(self.zone, mobility, order, limit / 2);
            }
        }
    }

    /// The path of a free with a full cache, or without one.
    #[cold]
    #[inline(never)]
    pub(super) fn free_beyond_cache(
        &self,
        offset: usize,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), FreeError> {
        if order.index() < CACHED_ORDERS {
            self.look_at_limits(order, mobility);
            let limit = self.words.limit(mobility, order.index());
            if limit > 0 && self.words.cached(mobility, order.index()) >= limit {
                self.words.spill_some(self.zone, mobility, order);
            }
            if limit > 0 {
                self.put_into_cache(offset, order, mobility);
                return Ok(());
            }
        }
        self.free_uncached(offset, order, mobility)
    }

    /// Frees into the pageblock, or pageblocks.
    pub(in super::super) fn free_uncached(
        &self,
        offset: usize,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), FreeError> {
        let counters = self.words.counters();
        let freed = self.zone.give_back(counters, offset, order, mobility);
        freed.map_err(|()| self.refuse(self.zone.frame(offset), order))
    }

    /// Frees a whole pageblock. `None`, without any change, if the block is not one, or the
    /// pageblock cannot be changed at once.
    #[inline(always)]
    pub(super) fn free_whole(&self, frame: Frame) -> Option<()> {
        let order = self.zone.whole.order;
        let offset = self.zone.offset_unchecked(frame);
        let mobility = self.zone.tag_if_inside(offset)?.as_live_of(order)?;
        self.zone
            .give_whole(self.words.counters(), offset, mobility)?;
        self.words.counters().net.add(order.frames().wrapping_neg());
        self.words.counters().pgfree.add(order.frames());
        Some(())
    }

    /// Why a free is refused.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&self, frame: Frame, order: Order) -> FreeError {
        self.words.counters().bad.add(1);
        self.zone.why_not_free(frame, order)
    }
}

impl<'m, P> Zone<'m, P> {
    /// Gives a live block back to its pageblock or pageblocks. `Err` if it is no longer live: another CPU was
    /// faster with the same free.
    pub(in super::super) fn give_back(
        &self,
        counters: &'m Counters,
        offset: usize,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), ()> {
        if order > self.pageblock_order() {
            return big::give(self, counters, offset, order, mobility);
        }
        self.give_live(counters, offset, order, mobility)
    }

    /// The same for a block within one pageblock.
    fn give_live(
        &self,
        counters: &'m Counters,
        offset: usize,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), ()> {
        let live = Tag::live(order, mobility);
        if let Some(mut held) = self.try_lock(counters, offset >> self.map.pageblock_order) {
            let is_live = self.tag(offset) == live;
            if is_live {
                self.set_tag(offset, Tag::NONE);
            }
            let given = is_live && held.give(self.slot(offset), order, mobility);
            held.unlock();
            if !given {
                return Err(());
            }
        } else {
            if !self.change_tag(offset, live, Tag::remote(order, mobility)) {
                return Err(());
            }
            self.leave(counters, offset);
            counters.remote.add(1);
        }
        counters.net.add(order.frames().wrapping_neg());
        counters.pgfree.add(order.frames());
        Ok(())
    }

    /// The place of `offset` in its pageblock.
    #[inline(always)]
    pub(in super::super) fn slot(&self, offset: usize) -> usize {
        offset & (self.map.block_frames() as usize - 1)
    }

    /// Why a block of `order` at `frame` cannot be freed; the caller knows that it cannot.
    pub(super) fn why_not_free(&self, frame: Frame, order: Order) -> FreeError {
        let Some(offset) = self.offset(frame) else {
            return FreeError::Outside(frame);
        };
        let tag = self.tag(offset);
        if self.is_absent(offset) {
            return FreeError::Absent(frame);
        }
        if let Some((allocated, _)) = tag.as_live() {
            return if allocated == order {
                // The block is live again by now: another CPU freed it, and one allocated it.
                FreeError::AlreadyFree(frame)
            } else {
                FreeError::WrongOrder { frame, allocated }
            };
        }
        let word = &self.bitmap(offset >> self.map.pageblock_order)[self.slot(offset) / 64];
        let is_free = word.load(Relaxed) >> (self.slot(offset) % 64) & 1 != 0;
        if is_free || tag.is_on_its_way() || self.enclosing(offset, Order::ZERO).is_none() {
            FreeError::AlreadyFree(frame)
        } else {
            FreeError::NotTheFirst(frame)
        }
    }

    /// The live allocation of at least `order` that contains `offset`: its offset, order and
    /// mobility.
    pub(in super::super) fn enclosing(
        &self,
        offset: usize,
        order: Order,
    ) -> Option<(usize, Order, Mobility)> {
        let first = self.map.origin + offset as u64;
        (order.get()..=self.map.max_order).find_map(|probe| {
            let start = (first >> probe << probe).checked_sub(self.map.origin)? as usize;
            let (allocated, mobility) = self.tag(start).as_live()?;
            (allocated.get() >= probe).then_some((start, allocated, mobility))
        })
    }
}
