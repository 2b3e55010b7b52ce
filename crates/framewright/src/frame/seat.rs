//! A CPU's seat in a zone: caches of free blocks, their limits, the stocks, and counters.
//!
//! Only its CPU writes a seat, or a CPU that has claimed it; the exceptions are the words by which
//! threads take and claim it. Any CPU reads the counters, at any moment.
//!
//! The fast path of a request or a free: enter the seat, look at one entry and one tag, move the
//! cache's head, write the tag, leave the seat. No lock and no atomic read-modify-write. The tag
//! decides, not the entry (F3). A head is a place and a count in one word, so one store takes a
//! block and counts it. The fast path of frees ends where the cache is full, and is closed while
//! the zone has pageblocks that serve only some requests. All other ways are in `slow`.

use super::counters::Counters;
use super::slow::Resort;
use super::tag::Tag;
use super::zone::Zone;
use super::{AllocError, BoundedError, FreeError};
use crate::platform::{FramePlatform, Patience};
use crate::policy::End;
use crate::raw::{Halves, record};
use crate::seats::{ClaimWords, Taken, Turn};
use crate::sync::{AtomicU32, AtomicU64, CounterWord, Ordering::Relaxed};
use crate::units::{CpuId, Frame, Mobility, Order};

/// Orders 0 to 4 are cached.
pub(crate) const CACHED_ORDERS: usize = 5;
/// The most blocks of order 0 in one cache; `CACHE_MAX >> order` of the others.
pub(super) const CACHE_MAX: usize = 64;
/// One cache for each mobility and cached order; numbered by order, then mobility.
pub(super) const CACHES: usize = 3 * CACHED_ORDERS;
/// The length of the tables by cache: a power of two, so that a mask keeps a cache's number inside.
const NUMBERS: usize = 16;

record! {
    /// The metadata of one seat, in whole cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct SeatRecord {
        // The first line is its owner's.
        busy: AtomicU64,
        /// The pageblock that the CPU works in for movable requests, plus one.
        current: AtomicU64,
        /// Where the CPU looks for entirely free pageblocks: see `away`. 0 means from the end.
        away: AtomicU64,
        /// By mobility: where the seat's stock begins, and below [`STOCK_WORDS`] how many words it has.
        stocks: [AtomicU64; 3],
        /// How many words each stock may have.
        stock_limit: AtomicU64,
        /// The figure from which the CPU last set the limits.
        basis: AtomicU64,

        // Other CPUs write the second line.
        claims: ClaimWords,
        /// Whether the zone has pageblocks that serve only some requests. If so, the fast path of frees is closed. A
        /// CPU changes this word only with all CPUs stopped.
        kept: AtomicU64,
        _unused: [AtomicU64; 5],

        // Only the owner writes the rest.
        /// By cache: the place of the entry for its next block, and above [`PLACES`] how many blocks it has handed out
        /// on the fast path. That count has 55 bits, which last for years.
        heads: [AtomicU64; NUMBERS],
        /// By cache: the place at which the fast path of frees ends, for the cache is at its limit there. While that
        /// way is closed, the limit itself, a number below every place.
        full: [AtomicU64; NUMBERS],
        /// By cache: how many blocks the owner put into it on the fast path.
        put: [CounterWord; NUMBERS],
        counters: Counters,
        /// The blocks in the caches, by place: offsets in the zone.
        entries: [AtomicU32; PLACES as usize + 1],
    } = 400 words, claims at 8, heads at 16, counters at 64, entries at 144;
}

/// The bits of a place in the entries. There is an entry for each, so that a mask keeps every place inside.
const PLACES: u64 = 511;
/// The first place of a cache, above every limit, and on a cache line of its own.
const FIRST_PLACE: usize = 80;
/// The bits of a stock's length.
const STOCK_WORDS: u64 = 0xff;
const _: () = {
    // 3 * (64 + 32 + 16 + 8 + 4) entries; the place behind the last one is a place too.
    const LAST: usize = CACHED_ORDERS - 1;
    assert!(entries_start(0, LAST) + 3 * (CACHE_MAX >> LAST) <= PLACES as usize);
    assert!(CACHES <= NUMBERS && CACHE_MAX < FIRST_PLACE);
};

/// The number of the cache for that mobility and order.
#[inline(always)]
const fn cache_number(mobility: Mobility, order: usize) -> usize {
    (order * 3 + mobility.index()) & (NUMBERS - 1)
}

/// The bit of that cache in a set of caches.
pub(super) const fn cache_bit(mobility: Mobility, order: usize) -> u32 {
    1 << cache_number(mobility, order)
}

/// Where the cache of that mobility and order begins.
const fn entries_start(mobility: usize, order: usize) -> usize {
    // Each order has half the entries of the one below it.
    let below = 3 * (2 * CACHE_MAX - ((2 * CACHE_MAX) >> order));
    FIRST_PLACE + below + mobility * (CACHE_MAX >> order)
}

impl SeatRecord {
    pub(super) const fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// One seat, and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatWords<'m> {
    record: &'m SeatRecord,
    pub(super) number: u16,
}

impl<'m> SeatWords<'m> {
    pub(super) const fn new(record: &'m SeatRecord, number: u16) -> Self {
        Self { record, number }
    }

    #[inline(always)]
    pub(super) const fn turn(self) -> Turn<'m> {
        Turn::new(&self.record.busy, &self.record.claims)
    }

    #[inline(always)]
    pub(super) const fn counters(self) -> &'m Counters {
        &self.record.counters
    }

    /// Gives the seat, whose words are zero, empty caches.
    pub(super) fn begin(self) {
        for order in 0..CACHED_ORDERS {
            for mobility in Mobility::ALL {
                self.set_cached(mobility, order, 0);
            }
        }
    }

    #[inline(always)]
    fn head(self, cache: usize) -> &'m AtomicU64 {
        &self.record.heads[cache & (NUMBERS - 1)]
    }

    #[inline(always)]
    pub(super) fn cached(self, mobility: Mobility, order: usize) -> usize {
        let head = self.head(cache_number(mobility, order)).load(Relaxed);
        (head & PLACES) as usize - entries_start(mobility.index(), order)
    }

    #[inline(always)]
    fn set_cached(self, mobility: Mobility, order: usize, count: usize) {
        let head = self.head(cache_number(mobility, order));
        let place = entries_start(mobility.index(), order) + count;
        head.store(head.load(Relaxed) & !PLACES | place as u64, Relaxed);
    }

    /// The youngest block of a cache. For an empty cache, some number. The caller finds out by the tag:
    /// only a block that is in the cache has a tag that names it (F3).
    #[inline(always)]
    fn youngest(self, cache: usize) -> usize {
        let place = self.head(cache).load(Relaxed).wrapping_sub(1) & PLACES;
        self.record.entries[place as usize].load(Relaxed) as usize
    }

    /// Takes the youngest block out of a cache that has one, and counts it.
    #[inline(always)]
    fn hand_out_youngest(self, cache: usize) {
        let head = self.head(cache);
        let now = head.load(Relaxed).wrapping_add(PLACES);
        head.store(now, Relaxed);
    }

    /// Puts a block into a cache and counts it, if the fast path of frees is open.
    #[inline(always)]
    fn put(self, cache: usize, offset: usize) -> bool {
        let head = self.head(cache);
        let now = head.load(Relaxed);
        let place = now & PLACES;
        if place >= self.record.full[cache & (NUMBERS - 1)].load(Relaxed) {
            return false;
        }
        self.record.entries[place as usize].store(offset as u32, Relaxed);
        head.store(now + 1, Relaxed);
        self.record.put[cache & (NUMBERS - 1)].add(1);
        true
    }

    /// Frames of `mobility` handed out since the zone was made.
    pub(super) fn allocated(self, mobility: Mobility) -> u64 {
        let short = |order| {
            let head = self.head(cache_number(mobility, order)).load(Relaxed);
            (head / (PLACES + 1)) << order
        };
        let short: u64 = (0..CACHED_ORDERS).map(short).sum();
        self.counters().pgalloc[mobility.index()].read() + short
    }

    /// Frames freed since the zone was made.
    pub(super) fn freed(self) -> u64 {
        let short = |cache: usize| self.record.put[cache].read() << (cache / 3);
        self.counters().pgfree.read() + (0..CACHES).map(short).sum::<u64>()
    }

    #[inline(always)]
    pub(super) fn limit(self, mobility: Mobility, order: usize) -> usize {
        let full = &self.record.full[cache_number(mobility, order)];
        let full = full.load(Relaxed) as usize;
        // A number below the first place is the limit itself.
        full.checked_sub(entries_start(mobility.index(), order))
            .unwrap_or(full)
    }

    pub(super) fn set_limit(self, mobility: Mobility, order: usize, blocks: usize) {
        let full = if self.is_kept() {
            blocks
        } else {
            entries_start(mobility.index(), order) + blocks
        };
        let at = &self.record.full[cache_number(mobility, order)];
        at.store(full as u64, Relaxed);
    }

    /// How many words a stock may have.
    pub(super) fn stock_limit(self) -> usize {
        self.record.stock_limit.load(Relaxed) as usize
    }

    pub(super) fn set_stock_limit(self, words: usize) {
        self.record.stock_limit.store(words as u64, Relaxed);
    }

    /// Where the seat's stock begins and how many words it has, if there is any.
    #[inline]
    pub(super) fn stock(self, mobility: Mobility) -> Option<(usize, usize)> {
        let stock = self.record.stocks[mobility.index()].load(Relaxed);
        let words = (stock & STOCK_WORDS) as usize;
        (words > 0).then_some(((stock / (STOCK_WORDS + 1)) as usize, words))
    }

    pub(super) fn set_stock(self, mobility: Mobility, offset: usize, words: usize) {
        let stock = (offset as u64 * (STOCK_WORDS + 1)) | words as u64;
        self.record.stocks[mobility.index()].store(stock, Relaxed);
    }

    /// Puts `count` frames from `offset` on into the cache of order 0, which is empty. Their tags say so
    /// already. The CPU will hand the lowest out first.
    pub(super) fn fill_cache(self, mobility: Mobility, offset: usize, count: usize) {
        let entries = &self.entries(mobility, 0)[..count];
        for (nth, entry) in entries.iter().rev().enumerate() {
            entry.store((offset + nth) as u32, Relaxed);
        }
        self.set_cached(mobility, 0, count);
    }

    /// The caches that hold a block, or have a stock behind them that does, by [`cache_bit`].
    pub(super) fn caches_in_use(self) -> u32 {
        let mut used = 0;
        for order in 0..CACHED_ORDERS {
            for mobility in Mobility::ALL {
                if self.cached(mobility, order) > 0 {
                    used |= cache_bit(mobility, order);
                }
            }
        }
        for mobility in Mobility::ALL {
            if self.stock(mobility).is_some() {
                used |= cache_bit(mobility, 0);
            }
        }
        used
    }

    /// Whether the CPU last set the limits from this figure. If not, it sets them now, and the word says so
    /// from here on.
    pub(super) fn has_limits_by(self, basis: u64) -> bool {
        let at = &self.record.basis;
        let same = at.load(Relaxed) == basis;
        at.store(basis, Relaxed);
        same
    }

    /// The cache's entries, oldest block first. Only the first [`cached`](Self::cached) hold blocks.
    #[inline(always)]
    pub(super) fn entries(self, mobility: Mobility, order: usize) -> &'m [AtomicU32] {
        let start = entries_start(mobility.index(), order);
        &self.record.entries[start..start + (CACHE_MAX >> order)]
    }

    pub(super) fn current(self) -> Option<usize> {
        (self.record.current.load(Relaxed) as usize).checked_sub(1)
    }

    pub(super) fn set_current(self, id: usize) {
        self.record.current.store(id as u64 + 1, Relaxed);
    }

    /// The region in which the CPU now looks for free pageblocks, and from which end of memory it does.
    #[inline(always)]
    pub(super) fn away(self) -> Option<(usize, End)> {
        let away = (self.record.away.load(Relaxed) as usize).checked_sub(1)?;
        let end = if away % 2 == 0 {
            End::Lowest
        } else {
            End::Highest
        };
        Some((away / 2, end))
    }

    #[inline(always)]
    pub(super) fn set_away(self, to: Option<(usize, End)>) {
        let away = to.map_or(0, |(region, end)| {
            2 * region + usize::from(end == End::Highest) + 1
        });
        self.record.away.store(away as u64, Relaxed);
    }

    /// Gives the oldest blocks of one cache back to their pageblocks, until `keep` are left.
    pub(super) fn spill<P>(
        self,
        zone: &Zone<'m, P>,
        mobility: Mobility,
        order: Order,
        keep: usize,
    ) {
        let cached = self.cached(mobility, order.index());
        if cached <= keep {
            return;
        }
        let entries = &self.entries(mobility, order.index())[..cached];
        let (old, young) = entries.split_at(cached - keep);
        zone.give_cached(self, old, order, mobility);
        for (to, from) in entries.iter().zip(young) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.set_cached(mobility, order.index(), keep);
    }

    /// Gives everything cached back.
    pub(super) fn drain<P>(self, zone: &Zone<'m, P>) {
        for mobility in Mobility::ALL {
            self.give_stock(zone, mobility);
        }
        for order in 0..CACHED_ORDERS {
            for mobility in Mobility::ALL {
                let order = Order::new(order as u8).expect("cached orders are small");
                self.spill(zone, mobility, order, 0);
            }
        }
    }

    /// Puts a block into the cache, which has room. The block's tag says so already.
    #[inline(always)]
    pub(super) fn push(self, mobility: Mobility, order: usize, offset: usize) {
        let head = self.head(cache_number(mobility, order));
        let now = head.load(Relaxed);
        self.record.entries[(now & PLACES) as usize].store(offset as u32, Relaxed);
        head.store(now + 1, Relaxed);
    }

    #[inline(always)]
    pub(super) fn is_kept(self) -> bool {
        self.record.kept.load(Relaxed) != 0
    }

    /// Only with all CPUs stopped.
    pub(super) fn set_kept(self, kept: bool) {
        self.record.kept.store(u64::from(kept), Relaxed);
        for order in 0..CACHED_ORDERS {
            for mobility in Mobility::ALL {
                self.set_limit(mobility, order, self.limit(mobility, order));
            }
        }
    }

    /// Takes the youngest block out of the cache, if it is still this seat's.
    pub(super) fn pop<P>(
        self,
        zone: &Zone<'m, P>,
        mobility: Mobility,
        order: Order,
    ) -> Option<usize> {
        loop {
            let cached = self.cached(mobility, order.index());
            let left = cached.checked_sub(1)?;
            let offset = self.youngest(cache_number(mobility, order.index()));
            self.set_cached(mobility, order.index(), left);
            if zone.tag(offset) == Tag::cached(self.number, order, mobility) {
                return Some(offset);
            }
            zone.count_corruption();
        }
    }
}

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
    turn: u16,
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
        Taken::take(&words.record.claims).map(|taken| Self {
            zone,
            words,
            tags: zone.tags,
            origin: zone.map.origin,
            turn: Tag::turn(words.number),
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
    /// breaks ties. Mostly 2 ns for orders 0 to 4; some 30 to 60 ns otherwise.
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
        match self.alloc_fast(order, mobility) {
            Some(frame) => Ok(frame),
            None => self.alloc_slow(order, mobility, Resort::ByOrder),
        }
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
        match self.alloc_fast(order, mobility) {
            Some(frame) => Ok(frame),
            None => self.alloc_slow(order, mobility, Resort::Stop),
        }
    }

    /// The fast path, which serves most requests without a call. Leaves the seat idle if it found a
    /// block, and else busy, perhaps while another CPU claims it.
    #[inline(always)]
    fn alloc_fast(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        let (words, tags) = (self.words, self.tags);
        if self.try_enter() && order.index() < CACHED_ORDERS {
            let cache = cache_number(mobility, order.index());
            let offset = words.youngest(cache);
            let live = Tag::live(order, mobility);
            if tags.get(offset, Relaxed) == Some(live.0 ^ self.turn) {
                words.hand_out_youngest(cache);
                tags.store(offset, live.0, Relaxed);
                let frame = Frame(self.origin + offset as u64);
                words.turn().exit();
                return Some(frame);
            }
        }
        None
    }

    /// Takes a block of `order` out of this CPU's cache, if one lies there.
    #[inline(always)]
    pub(crate) fn alloc_cached(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
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
    #[inline]
    pub fn try_alloc(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.enter();
        self.try_alloc_entered(order, mobility)
    }

    /// As [`alloc_hard`](Self::alloc_hard), but waits for other CPUs for at most `rounds` calls of
    /// [`Relax::relax`] in all. It may wait for a CPU that stops all others, and, before it fails, until
    /// each CPU has left its seat. With 0 it does not wait.
    ///
    /// # Errors
    /// As `alloc_hard` (F8); [`BoundedError::WouldWait`] if the bound was too short. Nothing has changed
    /// then.
    pub fn alloc_within(
        &mut self,
        order: Order,
        mobility: Mobility,
        rounds: u32,
    ) -> Result<Frame, BoundedError> {
        let mut patience = Patience::Rounds(rounds);
        let (turn, platform) = (self.words.turn(), &self.zone.platform);
        if !self.try_enter() && !turn.wait_if_claimed_within(platform, &mut patience) {
            return Err(BoundedError::WouldWait);
        }
        if let Some(frame) = self.try_alloc_entered(order, mobility) {
            return Ok(frame);
        }
        let found = self.alloc_at_rest_within(order, mobility, &mut patience);
        if let Err(BoundedError::Alloc(error)) = found {
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
        // As in `alloc`: the fast path.
        let (words, tags) = (self.words, self.tags);
        let offset = frame.0.wrapping_sub(self.origin) as usize;
        if self.try_enter()
            && order.index() < CACHED_ORDERS
            && let Some(tag) = tags.get(offset, Relaxed)
            && let Some(mobility) = Tag(tag).as_live_of(order)
            && if mobility.is_movable() {
                // The processor predicts this branch. Without it the cache's address would wait for the
                // tag, and alloc and free of one block would take twice the time.
                words.put(cache_number(Mobility::Movable, order.index()), offset)
            } else {
                words.put(cache_number(mobility, order.index()), offset)
            }
        {
            tags.store(offset, tag ^ self.turn, Relaxed);
            words.turn().exit();
            return Ok(());
        }
        self.free_slow(frame, order)
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

    pub(super) fn free_entered(&self, frame: Frame, order: Order) -> Result<(), FreeError> {
        let offset = self.zone.offset_unchecked(frame);
        let live = self.zone.tag_if_inside(offset);
        let Some(mobility) = live.and_then(|tag| tag.as_live_of(order)) else {
            return Err(self.refuse(frame, order));
        };
        if order.index() < CACHED_ORDERS {
            if self.words.is_kept() && self.zone.is_kept_from(offset, mobility) {
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
