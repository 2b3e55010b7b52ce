//! Blocks of the pageblock order: a whole pageblock, and where CPUs look for one.
//!
//! Before, such a pageblock is entirely free; afterwards it is full of frames of one mobility. So
//! nothing has to be counted: descriptor and class are constants, by label and mobility.
//!
//! # CPUs that meet
//! All CPUs begin at the same end of memory, which the policy chooses. Two CPUs that meet at a
//! pageblock would meet at each one after it, and at the cache lines of the index. So the CPU that
//! finds it locked goes away, to the next [`REGION`] that has one and that no other CPU went to,
//! stays there as long as the region has any, and then goes to the next such region. A CPU that
//! meets no other follows the policy alone.

use super::super::counters::Counters;
use super::super::seat::SeatWords;
use super::super::wanted::WantedBlock;
use super::super::zone::Zone;
use super::descriptor::{BlockCounts, Meta, PageblockRecord};
use super::index::REGION;
use super::tag::Tag;
use super::{FULL_WORDS, LOCKED};
use crate::policy::{End, Label, Policy, Pressure};
use crate::slots::WORD_ORDER;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::{Mobility, Order};

/// How often a search goes away before it goes on from where it is, to the end of the row.
const TRIES: usize = 8;

/// What requests for whole pageblocks look at and write.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Whole {
    pub(in super::super) order: Order,
    frames: u64,
    /// The orders of the words of a free pageblock's bitmap, one byte a word.
    orders: [u64; 2],
    /// By mobility.
    ways: [Way; 3],
}

/// The constants for one mobility, where the pageblock has its label.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The index's list, and where it begins.
    list: usize,
    end: End,
    /// The row of entirely free pageblocks.
    row: usize,
    /// The descriptor word of a pageblock that is entirely free.
    free: Meta,
    /// The same when it is entirely one block, and its counts then.
    taken: Meta,
    counts: BlockCounts,
}

impl Whole {
    pub(in super::super) fn new(policy: &Policy, order: Order) -> Self {
        let frames = order.frames();
        let way = |mobility| {
            let label = Label::Of(mobility);
            let meta = |orders, counts: BlockCounts| {
                let class = policy.class(&counts.facts(label, 0));
                Meta::new(orders, policy.classes().number(class), label, false)
            };
            let free = meta(1 << order.get(), BlockCounts(frames));
            let counts = BlockCounts(frames).take(frames, mobility);
            Way {
                list: policy.list(mobility, Pressure::default()),
                end: policy.end(mobility),
                row: order.index() * policy.classes().count() + usize::from(free.class()),
                free,
                taken: meta(0, counts),
                counts,
            }
        };
        // In pageblocks of less than a word no byte is written as a whole.
        let bytes = 8 * ((1 << order.get()) / 64);
        let orders = [0, 64].map(|before| match bytes - before {
            ..=0 => 0,
            bytes @ 1..64 => FULL_WORDS & ((1 << bytes) - 1),
            64.. => FULL_WORDS,
        });
        Self {
            order,
            frames,
            orders,
            ways: Mobility::ALL.map(way),
        }
    }

    #[inline(always)]
    const fn way(&self, mobility: Mobility) -> &Way {
        &self.ways[mobility.index()]
    }
}

impl<'m, P> Zone<'m, P> {
    /// The row of the index with the entirely free pageblocks that are labelled for `mobility`.
    pub(in super::super) const fn whole_row(&self, mobility: Mobility) -> usize {
        self.whole.way(mobility).row
    }

    /// Takes a whole pageblock as one block. Returns its offset, if there is one. Never waits.
    ///
    /// The result is that of [`take_some`](Self::take_some), for the one order at which there is
    /// nothing to weigh: a whole pageblock is a whole pageblock, and the index ranks the cheapest.
    #[inline]
    pub(in super::super) fn take_whole(
        &self,
        seat: SeatWords<'m>,
        mobility: Mobility,
    ) -> Option<usize> {
        let order = self.whole.order;
        let way = self.whole.way(mobility);
        if let Some((_, class, _)) = self.index.cheapest(way.list, order.index(), 0)
            && class == usize::from(way.free.class())
            && let Some(id) = match seat.away() {
                None => self.index.find_at_end(way.row, way.end),
                Some((region, end)) if end == way.end => {
                    self.index.find_in_region(way.row, end, region)
                }
                Some(_) => None,
            }
            && self.take_this(seat.counters(), id, way)
        {
            return Some(id << order.get());
        }
        self.take_whole_slow(seat, mobility)
    }

    /// The same in any place, and also where another CPU is met.
    #[inline(never)]
    fn take_whole_slow(&self, seat: SeatWords<'m>, mobility: Mobility) -> Option<usize> {
        let order = self.whole.order;
        let way = self.whole.way(mobility);
        let (list, end) = (way.list, way.end);
        let mut from = 0;
        while let Some((rank, class, _)) = self.index.cheapest(list, order.index(), from) {
            let class = class as u16;
            let row = self.row(order.index(), class);
            let mut at = self.begin_away(seat, row, end);
            let mut found = self.index.find(row, end, at, true);
            if found.is_none() {
                self.index.lower_flag(list, row);
            }
            let mut met = 0;
            while let Some(id) = found {
                if row == way.row && self.take_this(seat.counters(), id, way)
                    || self.take_any(seat.counters(), id, class, WantedBlock { order, mobility })
                {
                    return Some(id << order.get());
                }
                met += 1;
                at = if met < TRIES {
                    self.go_away(seat, row, end, id)
                } else {
                    Some(id)
                };
                found = self.index.find(row, end, at, true);
            }
            from = rank + 1;
        }
        None
    }

    /// Takes pageblock `id` if it is entirely free, has the requester's label, and no CPU holds it
    /// or left something in it.
    #[inline(always)]
    fn take_this(&self, counters: &'m Counters, id: usize, way: &Way) -> bool {
        let record = self.descriptor(id);
        let is_free = || record.meta() == way.free;
        // Two looks that only bring the cache lines, both at once, before the lock holds up later
        // loads.
        let bitmap = self.bitmap(id);
        let looks =
            self.tag(id << self.whole.order.get()) == Tag::NONE && bitmap[0].load(Relaxed) == !0;
        if !looks || !is_free() || !self.lock_untouched(record) {
            return false;
        }
        if !is_free() {
            self.let_go(counters, id);
            return false;
        }
        let since = self.account_taken(counters);
        write_words(bitmap, 0);
        write_descriptor(record, way.taken, way.counts, [0; 2]);
        counters.large.add(self.whole.frames.wrapping_neg());
        self.index.remove(way.row, id);
        // Release pairs with the Acquire in `lock_untouched` and `try_lock`. No live block started
        // in the pageblock, so none can have become remote.
        record.lock.store(0, Release);
        self.account_given_up(counters, since);
        true
    }

    /// Takes pageblock `id` if it is entirely free, of `class`, and not locked.
    fn take_any(&self, counters: &'m Counters, id: usize, class: u16, wanted: WantedBlock) -> bool {
        let Some(mut held) = self.try_lock(counters, id) else {
            return false;
        };
        let meta = held.meta();
        let is_free = meta.orders() >> self.map.pageblock_order & 1 != 0;
        if meta.class() != class || !is_free || meta.is_isolated() {
            held.unlock();
            return false;
        }
        let label = meta.label();
        let is_own = label == Label::Of(wanted.mobility) || label == Label::Contiguous;
        let becomes = if is_own {
            label
        } else {
            self.fall_back(counters, &held, wanted, self.map.pageblock_order)
        };
        let taken = held.take_at(0, wanted.order, wanted.mobility);
        debug_assert!(taken, "a pageblock with a free block of its order is free");
        held.unlock_as(becomes, false);
        taken
    }

    /// Gives back the pageblock at `offset`, a live block of `mobility`. `None`, without any
    /// change, in the rare cases: another CPU holds the pageblock, or it is isolated, or there is
    /// no such block.
    #[inline(always)]
    pub(in super::super) fn give_whole(
        &self,
        counters: &'m Counters,
        offset: usize,
        mobility: Mobility,
    ) -> Option<()> {
        let id = offset >> self.whole.order.get();
        let record = self.descriptor(id);
        let way = self.whole.way(mobility);
        // As in `take_this`; the slow path looks at bits of a pageblock of less than a word.
        let is_taken = || record.meta() == way.taken;
        let bitmap = self.bitmap(id);
        let looks = is_taken() && bitmap[0].load(Relaxed) == 0;
        if !looks || self.whole.order.get() < WORD_ORDER || !self.lock_untouched(record) {
            return None;
        }
        let is_live = self.tag(offset) == Tag::live(self.whole.order, mobility)
            && is_taken()
            && record.counts() == way.counts;
        if !is_live {
            self.let_go(counters, id);
            return None;
        }
        let since = self.account_taken(counters);
        self.set_tag(offset, Tag::NONE);
        let frames = self.whole.frames;
        write_words(bitmap, !0);
        write_descriptor(record, way.free, BlockCounts(frames), self.whole.orders);
        counters.large.add(frames);
        self.index.insert(way.row, id);
        counters.inserted.add_after(1);
        // As in `take_this`.
        record.lock.store(0, Release);
        self.account_given_up(counters, since);
        Some(())
    }

    /// Unlocks a pageblock that is not what it seemed.
    #[cold]
    #[inline(never)]
    pub(super) fn let_go(&self, counters: &'m Counters, id: usize) {
        self.hold(counters, id).unlock();
    }

    /// Locks a pageblock in which no CPU works or left anything.
    #[inline(always)]
    pub(super) fn lock_untouched(&self, record: &PageblockRecord) -> bool {
        let lock = &record.lock;
        if self.index.alone() {
            let is_untouched = lock.load(Relaxed) == 0;
            if is_untouched {
                lock.store(LOCKED, Relaxed);
            }
            return is_untouched;
        }
        // Acquire pairs with the Release of the last holder's unlock.
        lock.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Where this seat begins to look for an entirely free pageblock in `row`: `None` at the end
    /// where the policy begins.
    #[inline]
    pub(in super::super) fn begin_away(
        &self,
        seat: SeatWords<'m>,
        row: usize,
        end: End,
    ) -> Option<usize> {
        // The seat was sent away only at one end of memory.
        let (region, _) = seat.away().filter(|&(_, away)| away == end)?;
        let at = before(region, end);
        let next = self.index.find(row, end, at, false);
        if next.is_some_and(|id| id / REGION == region) {
            return at;
        }
        let next = self.next_region(seat, row, end, None);
        seat.set_away(next.map(|region| (region, end)));
        before(next?, end)
    }

    /// Where to look after another CPU was met at `id`: in another region, if there is one, and in
    /// later searches too.
    #[cold]
    pub(in super::super) fn go_away(
        &self,
        seat: SeatWords<'m>,
        row: usize,
        end: End,
        id: usize,
    ) -> Option<usize> {
        let met = id / REGION;
        let Some(region) = self
            .next_region(seat, row, end, Some(met))
            .or_else(|| self.next_region(seat, row, end, None))
            .filter(|&region| region != met)
        else {
            return Some(id);
        };
        seat.set_away(Some((region, end)));
        before(region, end)
    }

    /// The first region, counted from `end` or from behind `met`, that has an entirely free
    /// pageblock in `row` and that no other CPU went to.
    ///
    /// Time: O(CPUs²), because it passes by no more regions than there are CPUs; mostly O(CPUs).
    #[cold]
    fn next_region(
        &self,
        seat: SeatWords<'m>,
        row: usize,
        end: End,
        met: Option<usize>,
    ) -> Option<usize> {
        let behind = |region: usize| match end {
            End::Lowest => region * REGION + REGION - 1,
            End::Highest => region * REGION,
        };
        let mut at = met.map(behind);
        loop {
            let region = self.index.find(row, end, at, false)? / REGION;
            let is_there = |other: SeatWords<'m>| {
                other.number != seat.number && other.away() == Some((region, end))
            };
            if !self.all_seats().any(is_there) {
                return Some(region);
            }
            at = Some(behind(region));
        }
    }
}

/// The starting point from which a search meets `region` first.
#[inline(always)]
const fn before(region: usize, end: End) -> Option<usize> {
    match end {
        End::Lowest => (region * REGION).checked_sub(1),
        End::Highest => Some((region + 1) * REGION),
    }
}

/// Writes the bitmap of a pageblock that changes between entirely free and one block.
#[inline(always)]
fn write_words(bitmap: &[AtomicU64], bits: u64) {
    if let Ok(bitmap) = <&[AtomicU64; 8]>::try_from(bitmap) {
        // Without a loop: pageblocks of 512 frames.
        _ = bitmap.each_ref().map(|word| word.store(bits, Relaxed));
    } else {
        bitmap.iter().for_each(|word| word.store(bits, Relaxed));
    }
}

#[inline(always)]
fn write_descriptor(record: &PageblockRecord, meta: Meta, counts: BlockCounts, orders: [u64; 2]) {
    record.set_counts(counts);
    record.set_orders(orders);
    record.set_meta(meta);
}
