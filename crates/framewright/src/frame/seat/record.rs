//! A seat's record: caches of free blocks, their limits, the stocks, and counters.
//!
//! Only its CPU writes a seat, or a CPU that has claimed it; the exceptions are the words by which
//! threads take and claim it. Any CPU reads the counters, at any moment.
//!
//! A cache is a stack of entries, one for each mobility and order. Its head is a place and a count in
//! one word, so one store takes a block and counts it. An entry is not cleared when its block goes:
//! the block's tag tells whether it is still in the cache (F3). One word names the caches that may hold any, so that a look
//! at those in use passes by the others.

use super::super::counters::Counters;
use crate::policy::End;
use crate::raw::record;
use crate::seats::{ClaimWords, Turn};
use crate::sync::{AtomicU32, AtomicU64, CounterWord, Ordering::Relaxed};
use crate::units::{Mobility, Order};

/// Orders 0 to 4 are cached.
pub(crate) const CACHED_ORDERS: usize = 5;
/// The most blocks of order 0 in one cache; `CACHE_MAX >> order` of the others.
pub(in super::super) const CACHE_MAX: usize = 64;
/// One cache for each mobility and cached order; numbered by order, then mobility.
pub(super) const CACHES: usize = 3 * CACHED_ORDERS;
/// The length of the tables by cache: a power of two, so that a mask keeps a cache's number inside.
const NUMBERS: usize = 16;

record! {
    /// The metadata of one seat, in whole cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct SeatRecord {
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

        // The owner reads the second line at each entry. Other CPUs write the claims, seldom.
        claims: ClaimWords,
        /// Whether the zone has pageblocks that serve only some requests. If so, the fast path of frees is closed. A
        /// CPU changes this word only with all CPUs stopped.
        restricted: AtomicU64,
        /// The offset of the seat's [loose](super::loose) block, plus one. Its owner writes this word, rarely; the
        /// first line has no room for it.
        loose: AtomicU64,
        /// [`NO_ORDER`] less the smallest order of which a search of the seat found no block, with none of that order or
        /// above found since; 0 without such a search. Its owner writes this word where memory runs out.
        barren: AtomicU64,
        /// The caches that may hold a block or have a stock behind them, by [`cache_bit`]: all that have a limit, and those
        /// that got a stock or a word of one since the limits were set. Its owner writes this word then, where it changes.
        may_hold: AtomicU64,
        /// What the CPU's last look at the index came to, as a note (`candidates`), and the insertions into
        /// the index up to then; for a note of none, the tidying up, too. Its owner writes these words at most searches.
        noted: AtomicU64,
        noted_at: AtomicU64,

        // Only the owner writes the rest.
        /// By cache: the place of the entry for its next block, and above [`PLACES`] how many blocks it has handed out
        /// on the fast path. That count has 55 bits, which last for years.
        heads: [AtomicU64; NUMBERS],
        /// By cache: the place at which the cache is at its limit and the fast path of frees ends. While the zone
        /// has pageblocks that serve only some requests, this word holds the limit itself, a number below every
        /// place: then that path is closed.
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
/// More than any order.
const NO_ORDER: u64 = 64;
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
pub(super) const fn cache_number(mobility: Mobility, order: usize) -> usize {
    (order * 3 + mobility.index()) & (NUMBERS - 1)
}

/// The bit of that cache in a set of caches.
#[inline(always)]
pub(in super::super) const fn cache_bit(mobility: Mobility, order: usize) -> u32 {
    1 << cache_number(mobility, order)
}

/// The numbers of a set of caches, by order, then by mobility.
#[inline(always)]
pub(super) fn numbers_of(mut set: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let cache = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (cache < CACHES).then_some(cache)
    })
}

/// Mobility and order of a cache.
#[inline(always)]
pub(super) fn cache_of(number: usize) -> (Mobility, Order) {
    let order = Order::new((number / 3) as u8);
    let mobility = Mobility::from_index(number % 3);
    mobility.zip(order).expect("there is such a cache")
}

/// Where the cache of that mobility and order begins.
const fn entries_start(mobility: usize, order: usize) -> usize {
    // Each order has half the entries of the one below it.
    let below = 3 * (2 * CACHE_MAX - ((2 * CACHE_MAX) >> order));
    FIRST_PLACE + below + mobility * (CACHE_MAX >> order)
}

/// Where each cache begins, by its number. What is no cache begins behind every place of a cache.
const STARTS: [u64; NUMBERS] = {
    let mut starts = [PLACES; NUMBERS];
    let mut cache = 0;
    while cache < CACHES {
        starts[cache] = entries_start(cache % 3, cache / 3) as u64;
        cache += 1;
    }
    starts
};

impl SeatRecord {
    pub(in super::super) const fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// One seat, and its number.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SeatWords<'m> {
    record: &'m SeatRecord,
    pub(in super::super) number: u16,
}

impl<'m> SeatWords<'m> {
    pub(in super::super) const fn new(record: &'m SeatRecord, number: u16) -> Self {
        Self { record, number }
    }

    #[inline(always)]
    pub(in super::super) const fn turn(self) -> Turn<'m> {
        Turn::new(&self.record.busy, &self.record.claims)
    }

    /// The words by which threads take and claim the seat.
    pub(super) const fn claims(self) -> &'m ClaimWords {
        &self.record.claims
    }

    #[inline(always)]
    pub(in super::super) const fn counters(self) -> &'m Counters {
        &self.record.counters
    }

    /// Gives the seat, whose words are zero, empty caches.
    pub(in super::super) fn begin(self) {
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
    pub(in super::super) fn cached(self, mobility: Mobility, order: usize) -> usize {
        let cache = cache_number(mobility, order);
        let head = self.head(cache).load(Relaxed);
        ((head & PLACES) - STARTS[cache]) as usize
    }

    #[inline(always)]
    pub(super) fn set_cached(self, mobility: Mobility, order: usize, count: usize) {
        let cache = cache_number(mobility, order);
        let head = self.head(cache);
        let place = STARTS[cache] + count as u64;
        head.store(head.load(Relaxed) & !PLACES | place, Relaxed);
    }

    /// The youngest block of a cache. For an empty cache, some number. The caller finds out by the tag:
    /// only a block that is in the cache has a tag that names it (F3).
    #[inline(always)]
    pub(super) fn youngest(self, cache: usize) -> usize {
        let place = self.head(cache).load(Relaxed).wrapping_sub(1) & PLACES;
        self.record.entries[place as usize].load(Relaxed) as usize
    }

    /// Takes the youngest block out of a cache, if it has one, and does not count it.
    #[inline(always)]
    pub(super) fn take_youngest(self, cache: usize) -> Option<usize> {
        let head = self.head(cache);
        let now = head.load(Relaxed);
        let place = now & PLACES;
        if place == STARTS[cache & (NUMBERS - 1)] {
            return None;
        }
        head.store(now - 1, Relaxed);
        let place = (place - 1) & PLACES;
        Some(self.record.entries[place as usize].load(Relaxed) as usize)
    }

    /// Takes the youngest block out of a cache that has one, and counts it.
    #[inline(always)]
    pub(super) fn hand_out_youngest(self, cache: usize) {
        let head = self.head(cache);
        let now = head.load(Relaxed).wrapping_add(PLACES);
        head.store(now, Relaxed);
    }

    /// Puts a block into a cache and counts it, if the fast path of frees is open.
    #[inline(always)]
    pub(super) fn put(self, cache: usize, offset: usize) -> bool {
        let head = self.head(cache);
        let place = head.load(Relaxed) & PLACES;
        if place >= self.record.full[cache & (NUMBERS - 1)].load(Relaxed) {
            return false;
        }
        self.record.entries[place as usize].store(offset as u32, Relaxed);
        // Read once more: a machine adds to a word in memory by one instruction.
        head.store(head.load(Relaxed) + 1, Relaxed);
        self.record.put[cache & (NUMBERS - 1)].add(1);
        true
    }

    /// Frames of `mobility` handed out since the zone was made.
    pub(in super::super) fn allocated(self, mobility: Mobility) -> u64 {
        let short = |order| {
            let head = self.head(cache_number(mobility, order)).load(Relaxed);
            (head / (PLACES + 1)) << order
        };
        let short: u64 = (0..CACHED_ORDERS).map(short).sum();
        self.counters().pgalloc[mobility.index()].read() + short
    }

    /// Frames freed since the zone was made.
    pub(in super::super) fn freed(self) -> u64 {
        let short = |cache: usize| self.record.put[cache].read() << (cache / 3);
        self.counters().pgfree.read() + (0..CACHES).map(short).sum::<u64>()
    }

    #[inline(always)]
    pub(in super::super) fn limit(self, mobility: Mobility, order: usize) -> usize {
        let cache = cache_number(mobility, order);
        let full = self.record.full[cache].load(Relaxed);
        // A number below the first place is the limit itself.
        full.checked_sub(STARTS[cache]).unwrap_or(full) as usize
    }

    pub(in super::super) fn set_limit(self, mobility: Mobility, order: usize, blocks: usize) {
        let cache = cache_number(mobility, order);
        let from = if self.is_restricted() {
            0
        } else {
            STARTS[cache]
        };
        self.record.full[cache].store(from + blocks as u64, Relaxed);
        if blocks > 0 {
            self.note_may_hold(mobility, order);
        }
    }

    /// The caches that may hold a block or have a stock behind them, by [`cache_bit`].
    #[inline(always)]
    pub(in super::super) fn may_hold(self) -> u32 {
        self.record.may_hold.load(Relaxed) as u32
    }

    #[inline(always)]
    fn note_may_hold(self, mobility: Mobility, order: usize) {
        let (before, cache) = (self.may_hold(), cache_bit(mobility, order));
        if before & cache == 0 {
            // Only then, because other CPUs write the same line.
            self.set_may_hold(before | cache);
        }
    }

    /// The caller takes the limits of all others, which have no block, at once.
    pub(in super::super) fn set_may_hold(self, caches: u32) {
        self.record.may_hold.store(u64::from(caches), Relaxed);
    }

    /// How many words a stock may have.
    pub(in super::super) fn stock_limit(self) -> usize {
        self.record.stock_limit.load(Relaxed) as usize
    }

    pub(super) fn set_stock_limit(self, words: usize) {
        self.record.stock_limit.store(words as u64, Relaxed);
    }

    /// Where the seat's stock begins and how many words it has, if there is any.
    #[inline]
    pub(in super::super) fn stock(self, mobility: Mobility) -> Option<(usize, usize)> {
        let stock = self.record.stocks[mobility.index()].load(Relaxed);
        let words = (stock & STOCK_WORDS) as usize;
        (words > 0).then_some(((stock / (STOCK_WORDS + 1)) as usize, words))
    }

    pub(super) fn set_stock(self, mobility: Mobility, offset: usize, words: usize) {
        let stock = (offset as u64 * (STOCK_WORDS + 1)) | words as u64;
        self.record.stocks[mobility.index()].store(stock, Relaxed);
        if words > 0 {
            self.note_may_hold(mobility, 0);
        }
    }

    /// Puts `count` blocks, side by side from `offset` on, into the cache of `order`, which is empty. Their tags say so
    /// already. The CPU will hand the lowest out first.
    pub(in super::super) fn fill_cache(
        self,
        mobility: Mobility,
        order: Order,
        offset: usize,
        count: usize,
    ) {
        let entries = &self.entries(mobility, order.index())[..count];
        let mut at = (offset as u32).wrapping_add((count as u32) << order.get());
        for entry in entries {
            at = at.wrapping_sub(1 << order.get());
            entry.store(at, Relaxed);
        }
        self.set_cached(mobility, order.index(), count);
        self.note_may_hold(mobility, order.index());
    }

    /// The caches that hold a block, or have a stock behind them that does, by [`cache_bit`].
    #[inline]
    pub(in super::super) fn caches_in_use(self) -> u32 {
        numbers_of(self.may_hold()).fold(0, |used, cache| {
            let place = self.head(cache).load(Relaxed) & PLACES;
            let is_stocked = || self.record.stocks[cache].load(Relaxed) & STOCK_WORDS != 0;
            let is_used = place > STARTS[cache] || cache < 3 && is_stocked();
            used | u32::from(is_used) << cache
        })
    }

    /// Whether the CPU last set the limits from this figure. If not, it sets them now, and the word says so
    /// from here on.
    pub(super) fn has_limits_by(self, basis: u64) -> bool {
        let at = &self.record.basis;
        let same = at.load(Relaxed) == basis;
        at.store(basis, Relaxed);
        same
    }

    /// Whether a search of the seat found no block of `order`, or of a smaller one, and none since has.
    #[inline(always)]
    pub(in super::super) fn was_barren(self, order: Order) -> bool {
        let barren = self.record.barren.load(Relaxed);
        u64::from(order.get()) + barren >= NO_ORDER
    }

    /// Notes whether a search found a block of `order`.
    #[inline(always)]
    pub(super) fn note_search(self, order: Order, is_found: bool) {
        let was_barren = self.was_barren(order);
        if is_found && was_barren {
            self.record.barren.store(0, Relaxed);
        } else if !is_found && !was_barren {
            let barren = NO_ORDER - u64::from(order.get());
            self.record.barren.store(barren, Relaxed);
        }
    }

    /// The note of the CPU's last look at the index, if that was noted at as many `insertions`, or else 0.
    #[inline(always)]
    pub(in super::super) fn noted(self, insertions: u64) -> u64 {
        match self.is_noted_at(insertions) {
            true => self.record.noted.load(Relaxed),
            false => 0,
        }
    }

    /// The CPU's last note, whether or not it holds.
    #[inline(always)]
    pub(super) fn noted_last(self) -> u64 {
        self.record.noted.load(Relaxed)
    }

    /// Whether the CPU noted anything after these insertions.
    #[inline(always)]
    pub(super) fn is_noted_at(self, insertions: u64) -> bool {
        self.record.noted_at.load(Relaxed) == insertions
    }

    /// Notes what a look came to, which has seen all of these `insertions`.
    #[inline(always)]
    pub(in super::super) fn note(self, note: u64, insertions: u64) {
        self.record.noted.store(note, Relaxed);
        self.record.noted_at.store(insertions, Relaxed);
    }

    /// The cache's entries, oldest block first. Only the first [`cached`](Self::cached) hold blocks.
    #[inline(always)]
    pub(in super::super) fn entries(self, mobility: Mobility, order: usize) -> &'m [AtomicU32] {
        let start = STARTS[cache_number(mobility, order)] as usize;
        &self.record.entries[start..start + (CACHE_MAX >> order)]
    }

    pub(in super::super) fn current(self) -> Option<usize> {
        (self.record.current.load(Relaxed) as usize).checked_sub(1)
    }

    pub(super) fn set_current(self, id: usize) {
        self.record.current.store(id as u64 + 1, Relaxed);
    }

    /// The region in which the CPU now looks for free pageblocks, and from which end of memory it does.
    #[inline(always)]
    pub(in super::super) fn away(self) -> Option<(usize, End)> {
        let away = (self.record.away.load(Relaxed) as usize).checked_sub(1)?;
        let end = if away % 2 == 0 {
            End::Lowest
        } else {
            End::Highest
        };
        Some((away / 2, end))
    }

    #[inline(always)]
    pub(in super::super) fn set_away(self, to: Option<(usize, End)>) {
        let away = to.map_or(0, |(region, end)| {
            2 * region + usize::from(end == End::Highest) + 1
        });
        self.record.away.store(away as u64, Relaxed);
    }

    /// Where the seat's loose block begins.
    pub(super) fn loose(self) -> Option<usize> {
        (self.record.loose.load(Relaxed) as usize).checked_sub(1)
    }

    pub(super) fn set_loose(self, offset: Option<usize>) {
        let word = offset.map_or(0, |offset| offset as u64 + 1);
        self.record.loose.store(word, Relaxed);
    }

    /// Puts a block into the cache, which has room. The block's tag says so already.
    #[inline(always)]
    pub(in super::super) fn push(self, mobility: Mobility, order: usize, offset: usize) {
        let head = self.head(cache_number(mobility, order));
        let now = head.load(Relaxed);
        self.record.entries[(now & PLACES) as usize].store(offset as u32, Relaxed);
        head.store(now + 1, Relaxed);
    }

    #[inline(always)]
    pub(in super::super) fn is_restricted(self) -> bool {
        self.record.restricted.load(Relaxed) != 0
    }

    /// Only with all CPUs stopped.
    pub(in super::super) fn set_restricted(self, restricted: bool) {
        self.record.restricted.store(u64::from(restricted), Relaxed);
        for order in 0..CACHED_ORDERS {
            for mobility in Mobility::ALL {
                self.set_limit(mobility, order, self.limit(mobility, order));
            }
        }
    }
}
