//! A seat's stock: while memory abounds, whole words of 64 free frames behind the caches.
//!
//! One lock and one change of the index bring up to [`WORDS_MAX`] words of one free block, which
//! the policy chose for a single request. Each word is cached as one block of order 6, with one tag
//! ([`Tag::stocked`]), until a cache of its mobility is empty: then the blocks of which the word
//! consists get tags of their own and fill that cache, whatever its order. A request of orders 6 and more
//! takes whole words. Frees never go into a stock.
//!
//! A stock is part of what its CPU may hold, at most half of that. It goes back as soon as the seat
//! finds that it may hold less, and whenever caches are drained.
//!
//! A search of the pageblocks that finds nothing is noted: see [`is_barren`](Seat::is_barren).

use super::super::pageblock::Tag;
use super::super::wanted::WantedBlock;
use super::super::zone::Zone;
use super::Seat;
use super::candidates::SearchNote;
use super::record::{CACHE_MAX, CACHED_ORDERS, SeatWords};
use super::search::BlockBatch;
use crate::platform::FramePlatform;
use crate::slots::WORD_ORDER;
use crate::sync::Ordering::Relaxed;
use crate::units::{Mobility, Order};

/// The most words in one stock: a pageblock of 512 frames.
pub(super) const WORDS_MAX: usize = 8;

/// Frames of one word.
pub(in super::super) const WORD_FRAMES: usize = 1 << WORD_ORDER;

const _: () = assert!(WORD_FRAMES <= CACHE_MAX, "a word fits into an empty cache");

/// What remains of a word without its first frame, as blocks: slot and order.
const REST: [(usize, u8); 6] = [(1, 0), (2, 1), (4, 2), (8, 3), (16, 4), (32, 5)];

/// How many words a stock may have if the caches in use of its CPU may hold `share` frames each.
pub(super) const fn words_of(share: u64) -> usize {
    let words = share / 2 / WORD_FRAMES as u64;
    if words < WORDS_MAX as u64 {
        words as usize
    } else {
        WORDS_MAX
    }
}

/// How many words a request of `order` takes from a stock. `None` for order 5: half a word has no cache.
const fn words_for(order: Order) -> Option<usize> {
    if order.index() < CACHED_ORDERS {
        Some(1)
    } else if order.get() >= WORD_ORDER {
        Some(1 << (order.get() - WORD_ORDER))
    } else {
        None
    }
}

impl<P: FramePlatform> Seat<'_, '_, P> {
    /// Fetches the first `frames` frames of a block above the cached orders, which has as many. Out of a pageblock it
    /// takes these frames alone, and out of the stock whole blocks only: what a block leaves would go through the caches,
    /// and cost more than the look for a pageblock that the stock saves.
    pub(super) fn fetch_first(&self, wanted: WantedBlock, frames: u64) -> Option<usize> {
        let WantedBlock { order, mobility } = wanted;
        let (zone, words) = (self.zone, self.words);
        let may_be_stocked = frames == order.frames() && words_for(order).is_some();
        if may_be_stocked {
            if words.stock(mobility).is_some()
                && let Some(offset) = words.take_stocked(zone, order, mobility)
            {
                return Some(offset);
            }
            // A stock is part of what the cache of order 0 may hold.
            self.look_at_limits(Order::ZERO, mobility);
        }
        if self.is_barren(wanted) {
            return None;
        }
        let mut out = [0];
        let mut batch = BlockBatch::first(frames as usize, &mut out);
        if may_be_stocked {
            batch.words_max = words.stock_for(order, mobility);
        }
        self.search(wanted, &mut batch);
        if let Some(stock) = batch.words {
            words.stock_up(zone, mobility, stock);
            return words.take_stocked(zone, order, mobility);
        }
        let is_taken = batch.taken == 1;
        is_taken.then(|| {
            words.counters().net.add(frames);
            out[0] as usize
        })
    }

    /// Takes what a batch asks for, and notes whether there was anything.
    pub(super) fn search(&self, wanted: WantedBlock, batch: &mut BlockBatch<'_>) {
        self.zone.take_some(self.words, wanted, batch);
        let is_found = batch.words.is_some() || batch.taken > 0;
        self.words.note_search(wanted.order, is_found);
    }

    /// Whether the seat's last search for such a block, of a pageblock's order at most, found none, and the index still has
    /// none. It reads the counters of all CPUs, and a few rows of the index, or only the counters, if an earlier look has seen
    /// that, no pageblock has come into a row since, and no search has tidied up. The seat is busy, or all CPUs are stopped.
    ///
    /// A search looks at every order from its own on, so from there on the zone was *barren*. What the index says is an answer
    /// by itself: that a search found nothing says only that the question is worth asking. What caches have above their limits
    /// may be all there is, so the caller has looked at those before, or has drained its caches.
    #[inline]
    pub(in super::super) fn is_barren(&self, wanted: WantedBlock) -> bool {
        self.words.was_barren(wanted.order)
            && (self.has_noted_none(wanted) || self.has_none(wanted))
    }

    /// Whether the seat has noted that, and the note holds. It reads nothing after the counters, so it needs no fence.
    #[inline(always)]
    fn has_noted_none(&self, wanted: WantedBlock) -> bool {
        let (zone, words) = (self.zone, self.words);
        SearchNote::last(words).has_none(wanted)
            && words.is_noted_at(self.insertions().wrapping_add(zone.index.begun()))
    }

    /// The insertions alone, as `facts_and_insertions` has them, without its fence.
    #[inline(always)]
    fn insertions(&self) -> u64 {
        let seats = self.zone.all_seats();
        seats.fold(self.zone.index.missed(), |sum, seat| {
            sum.wrapping_add(seat.counters().inserted.read())
        })
    }

    /// Whether the index has no such block; if so, notes it.
    #[inline(never)]
    fn has_none(&self, wanted: WantedBlock) -> bool {
        let zone = self.zone;
        let (tidied, is_tidying) = zone.index.tidied();
        let (facts, insertions) = zone.facts_and_insertions();
        let at = insertions.wrapping_add(tidied);
        let list = zone
            .policy
            .list(wanted.mobility, zone.policy.pressure(&facts));
        let has_none = !zone.index.may_have(list, wanted.order.index());
        if has_none && !is_tidying {
            // A search's failure is no such answer: it passes by pageblocks that other CPUs hold.
            SearchNote::none(wanted).keep(self.words, at);
        }
        has_none
    }
}

impl<'m> SeatWords<'m> {
    /// Puts `words` words of free frames from `offset` on, which were just taken, into the stock,
    /// which is empty.
    pub(super) fn stock_up<P>(
        self,
        zone: &Zone<'m, P>,
        mobility: Mobility,
        (offset, words): (usize, usize),
    ) {
        let tag = Tag::stocked(self.number, mobility);
        for word in 0..words {
            zone.set_tag(offset + word * WORD_FRAMES, tag);
        }
        self.counters().net.add((words * WORD_FRAMES) as u64);
        self.set_stock(mobility, offset, words);
    }

    /// How many words a stock that begins with a request of `order` may have; 0 if it could not serve that, or if the
    /// seat has a stock of that mobility.
    #[inline(always)]
    pub(super) fn stock_for(self, order: Order, mobility: Mobility) -> usize {
        let may_have = self.stock_limit();
        let serves = words_for(order).is_some_and(|needed| needed <= may_have);
        if serves && self.stock(mobility).is_none() {
            may_have
        } else {
            0
        }
    }

    /// Takes a block of `order`, below a pageblock's, out of the stock; what remains of its word goes into the cache
    /// of that order, which is empty. `None` if the stock has no such block: its first word may not be aligned to the
    /// order.
    pub(super) fn take_stocked<P>(
        self,
        zone: &Zone<'m, P>,
        order: Order,
        mobility: Mobility,
    ) -> Option<usize> {
        let (offset, words) = self.stock(mobility)?;
        let frames = order.frames() as usize;
        let needed = words_for(order).filter(|needed| *needed <= words)?;
        if !offset.is_multiple_of(frames) {
            return None;
        }
        let stocked = Tag::stocked(self.number, mobility);
        let starts = (offset..).step_by(WORD_FRAMES).take(needed);
        if starts.clone().any(|start| zone.tag(start) != stocked) {
            // Another CPU freed a frame here before this one did, and has it.
            self.give_stock(zone, mobility);
            return None;
        }
        self.set_stock(mobility, offset + needed * WORD_FRAMES, words - needed);
        if order.index() < CACHED_ORDERS {
            let tag = Tag::cached(self.number, order, mobility);
            let others = (WORD_FRAMES >> order.get()) - 1;
            if order == Order::ZERO {
                zone.tags.fill(offset + 1, others, tag.0, Relaxed);
            } else {
                for nth in 1..=others {
                    zone.set_tag(offset + (nth << order.get()), tag);
                }
            }
            self.fill_cache(mobility, order, offset + frames, others);
        } else {
            for start in starts.skip(1) {
                zone.set_tag(start, Tag::NONE);
            }
        }
        Some(offset)
    }

    /// Gives the stock back. Never waits.
    pub(in super::super) fn give_stock<P>(self, zone: &Zone<'m, P>, mobility: Mobility) {
        let Some((offset, words)) = self.stock(mobility) else {
            return;
        };
        self.set_stock(mobility, 0, 0);
        let leave = |offset, order| {
            let order = Order::new(order).expect("orders in a word are small");
            zone.set_tag(offset, Tag::remote(order, mobility));
            zone.leave(self.counters(), offset);
            order.frames()
        };
        let mut frames = 0;
        for word in 0..words {
            let offset = offset + word * WORD_FRAMES;
            if zone.tag(offset) == Tag::stocked(self.number, mobility) {
                frames += leave(offset, WORD_ORDER);
            } else {
                // Another CPU freed the word before this one did, and has its first frame.
                zone.count_corruption();
                frames += REST
                    .map(|(slot, order)| leave(offset + slot, order))
                    .iter()
                    .sum::<u64>();
            }
        }
        self.counters().net.add(frames.wrapping_neg());
    }
}
