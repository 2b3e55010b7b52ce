//! From a request to a pageblock: takes the cheapest candidate in the index, or passes it by.

use super::super::counters::Counters;
use super::super::pageblock::{HeldBlock, Meta, Passing};
use super::super::wanted::WantedBlock;
use super::super::zone::Zone;
use super::candidates::{BlockSearch, Candidate, ORDERS, RowSearch, SearchNote};
use super::record::{CACHED_ORDERS, SeatWords};
use crate::policy::{Class, Label, Pressure, SHARE_SETTLED, ZoneFacts};
use crate::slots::WORD_ORDER;
use crate::sync::{Ordering::Acquire, fence};
use crate::units::{Mobility, Order};

/// How many pageblocks of one row a search tries before the next row.
const TRIES: usize = 8;

/// The result of a search.
pub(super) struct BlockBatch<'o> {
    /// The first frames of blocks, as offsets in the zone.
    blocks: &'o mut [u32],
    /// How many of them there are.
    pub(in super::super) taken: usize,
    /// At most this many whole words may be taken instead of blocks of order 0.
    pub(super) words_max: usize,
    /// Where the words begin, and how many there are; then the batch has no blocks.
    pub(in super::super) words: Option<(usize, usize)>,
    /// This many frames of one block are taken, from its first on, instead of blocks.
    frames: Option<usize>,
}

impl<'o> BlockBatch<'o> {
    /// A batch with room for as many blocks as `blocks`.
    pub(super) const fn new(blocks: &'o mut [u32]) -> Self {
        Self {
            blocks,
            taken: 0,
            words_max: 0,
            words: None,
            frames: None,
        }
    }

    /// A batch of the first `frames` frames of one block.
    pub(super) const fn first(frames: usize, offset: &'o mut [u32; 1]) -> Self {
        let mut batch = Self::new(offset);
        batch.frames = Some(frames);
        batch
    }

    const fn is_full(&self) -> bool {
        self.taken == self.blocks.len() || self.words.is_some()
    }
}

/// The result of trying a row.
enum RowOutcome {
    /// Something was taken from that pageblock, which is like this now, and the label was the requester's own.
    Own(usize, Meta),
    /// The same behind other pageblocks, which it tried first. It may have unlocked one of them, and so have published what
    /// other CPUs left in it.
    OwnBehindOthers(usize, Meta),
    /// It was a fallback, or would have been: the batch ends.
    Fallback,
    /// Other CPUs work in all of its pageblocks, or in all that were tried.
    Busy,
}

/// The result of trying one pageblock of a row.
enum BlockOutcome {
    /// It is the row's result.
    Row(RowOutcome),
    /// Another CPU holds it.
    Locked,
    /// Another CPU works in it, or it is not what it seemed.
    Other,
}

impl<'m, P> Zone<'m, P> {
    /// Takes one block. Returns its offset, if there is one. Never waits.
    pub(super) fn take_one(&self, seat: SeatWords<'m>, wanted: WantedBlock) -> Option<usize> {
        self.take_first(seat, wanted, wanted.order.frames() as usize)
    }

    /// Takes `frames` frames side by side, the first ones of a block that `wanted` could have. Returns the offset of
    /// the first, if there is such a block. Never waits.
    pub(super) fn take_first(
        &self,
        seat: SeatWords<'m>,
        wanted: WantedBlock,
        frames: usize,
    ) -> Option<usize> {
        let mut out = [0];
        let mut batch = BlockBatch::first(frames, &mut out);
        self.take_some(seat, wanted, &mut batch);
        (batch.taken == 1).then_some(out[0] as usize)
    }

    /// Takes as many blocks as fit into the batch, or fewer. Never waits.
    ///
    /// Goes from pageblock to pageblock as long as no request for one block would have to fall
    /// back: a batch is no reason to break up a block that another mobility needs. The caller writes the tags, and
    /// adds the frames to the counter `net`.
    #[inline]
    pub(super) fn take_some(
        &self,
        seat: SeatWords<'m>,
        wanted: WantedBlock,
        batch: &mut BlockBatch<'_>,
    ) {
        let own = seat.counters().inserted.read();
        let (facts, insertions) = self.facts_and_insertions();
        let asked = (wanted, self.policy.pressure(&facts));
        // Without its own, of which its looks at the index know.
        let of_others = insertions.wrapping_sub(own);
        let note = SearchNote::of(seat, insertions);
        let is_noted = seat.is_noted_at(insertions);
        if !note.is_cheapest_for(asked) {
            return self.take_searched(seat, asked, (of_others, is_noted), batch);
        }
        let Some((order, candidate)) = note.cheapest_now(self, asked) else {
            return self.take_searched(seat, asked, (of_others, is_noted), batch);
        };
        let row = RowSearch::new(self, asked, Passing::SEATED);
        match self.take_from_row(seat, row, (order, candidate), batch) {
            RowOutcome::Own(id, _) if batch.is_full() => {
                let own = seat.counters().inserted.read();
                note.after(id).keep(seat, of_others.wrapping_add(own));
            }
            RowOutcome::OwnBehindOthers(..) if batch.is_full() => {}
            RowOutcome::Own(..) | RowOutcome::OwnBehindOthers(..) | RowOutcome::Busy => {
                self.take_searched(seat, asked, (of_others, is_noted), batch);
            }
            RowOutcome::Fallback => {}
        }
    }

    /// The same by a search of all candidates, of which some blocks may have been taken already.
    #[inline(never)]
    fn take_searched(
        &self,
        seat: SeatWords<'m>,
        asked: (WantedBlock, Pressure),
        (insertions_of_others, is_noted): (u64, bool),
        batch: &mut BlockBatch<'_>,
    ) {
        let mut search = BlockSearch::new(self, asked, Passing::SEATED);
        // A stock begins with a whole word, not in the middle of one, where each batch after it would begin too.
        let mut ends_at_words = batch.taken > 0 && batch.words_max > 0;
        loop {
            let Some(order) = search.cheapest(&self.index) else {
                if batch.taken == 0 && search.row.spare {
                    search.row.spare = false;
                    search.look_again(&self.index);
                    continue;
                }
                return;
            };
            if ends_at_words && search.may_prefer_words(&self.index, order) {
                return;
            }
            let candidate = search.best[order % ORDERS];
            let outcome = self.take_from_row(seat, search.row, (order, candidate), batch);
            search.strayed |= matches!(outcome, RowOutcome::OwnBehindOthers(..));
            match outcome {
                RowOutcome::Own(id, now) | RowOutcome::OwnBehindOthers(id, now) => {
                    if batch.is_full() {
                        // A note says that all insertions of this seat since the looks were of pageblocks taken from.
                        if !search.met && !search.strayed {
                            // Where each request comes after a free, a note would never be read.
                            let is_worth_it =
                                is_noted && self.is_worth_a_note(&search, (order, candidate), now);
                            let note = if is_worth_it {
                                SearchNote::cheapest(asked, (order, candidate.rank), id)
                            } else {
                                SearchNote::NOTHING
                            };
                            let own = seat.counters().inserted.read();
                            note.keep(seat, insertions_of_others.wrapping_add(own));
                        }
                        return;
                    }
                    search.look_after(self, id, now);
                    ends_at_words = batch.words_max > 0;
                }
                RowOutcome::Fallback => return,
                RowOutcome::Busy => {
                    search.met = true;
                    let rank = usize::from(candidate.rank);
                    search.look_from(&self.index, order, rank + 1);
                }
            }
        }
    }

    /// Whether a request like the one that has just taken a candidate of `order` may be served without a search: from what it
    /// left of the block, in the pageblock that is like `now`, or from the same row.
    #[inline(always)]
    fn is_worth_a_note(
        &self,
        search: &BlockSearch,
        (order, candidate): (usize, Candidate),
        now: Meta,
    ) -> bool {
        let RowSearch { wanted, end, .. } = search.row;
        let smaller = u32::from(now.orders()) & ((1 << order) - 1);
        let row = self.row(order, candidate.class);
        smaller >> wanted.order.get() != 0 || self.index.find_at_end(row, end).is_some()
    }

    /// Whether a request of `mobility` for a block of `order` would now be served from a pageblock
    /// with movable contents and no others. The block would keep such a pageblock from ever being
    /// one free block again.
    ///
    /// Never for movable requests, nor if there is no block. As of one moment. Time: O(CPUs), and
    /// one search.
    #[must_use]
    pub fn would_contaminate(&self, order: Order, mobility: Mobility) -> bool {
        self.spreads(order, mobility) == Spread::Contaminates
    }

    /// The effect of a request of `mobility` for a block of `order` on the pageblock that would now
    /// serve it. As [`would_contaminate`](Self::would_contaminate).
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    pub(crate) fn spreads(&self, order: Order, mobility: Mobility) -> Spread {
        if mobility.is_movable() || order > self.pageblock_order() {
            return Spread::Stays;
        }
        let wanted = WantedBlock { order, mobility };
        // From outside the seats: writes nothing (I3).
        let pressure = self.policy.pressure(&self.zone_facts());
        let mut search = BlockSearch::new(self, (wanted, pressure), Passing::OUTSIDE);
        let Some(found) = search.cheapest(&self.index) else {
            return Spread::Stays;
        };
        let labelled = self.policy.is_labelled();
        let is_whole = found == usize::from(self.map.pageblock_order);
        let class = search.best[found % ORDERS].class;
        match self.policy.classes().class(class, labelled) {
            Some(Class::Clean { .. }) => Spread::Contaminates,
            Some(Class::Labelled { label, .. }) if label.is_movable() && !is_whole => {
                Spread::Contaminates
            }
            Some(Class::Pure { share, .. } | Class::Mixed { share, .. })
                if share >= SHARE_SETTLED =>
            {
                Spread::Stays
            }
            Some(Class::Labelled { .. }) => Spread::Stays,
            _ => Spread::Settles,
        }
    }

    /// The facts of the zone, by the counters of all seats; inexact while other CPUs work.
    pub(in super::super) fn zone_facts(&self) -> ZoneFacts {
        self.facts_and_insertions().0
    }

    /// The same, and the *insertions*: how often a pageblock came into rows of the index, or a look may have missed one, by
    /// the counters of all seats. They only grow, and are read before all that the CPU reads after them.
    ///
    /// So if they are now as they were before a look at the index, then no pageblock has come into a row since and been
    /// counted. One that has not been counted is still locked: the free that brings it has not returned, and a request that
    /// fails meanwhile fails as if it had come before that free.
    #[inline(always)]
    pub(in super::super) fn facts_and_insertions(&self) -> (ZoneFacts, u64) {
        let (mut net, mut large, mut order_2, mut lent) = (0u64, 0u64, 0u64, 0u64);
        let mut insertions = self.index.missed();
        for seat in self.all_seats() {
            let of = seat.counters();
            insertions = insertions.wrapping_add(of.inserted.read());
            net = net.wrapping_add(of.net.read());
            large = large.wrapping_add(of.large.read());
            order_2 = order_2.wrapping_add(of.order_2.read());
            lent = lent.wrapping_add(of.lent.read());
        }
        // Pairs with the Release of each count. One fence, because loads that acquire would wait for each other.
        fence(Acquire);
        // A sum is below zero for a moment when one seat's counter is behind another's.
        let not_below_zero = |sum: u64| if (sum as i64) < 0 { 0 } else { sum };
        let frames = self.present_frames();
        let facts = ZoneFacts {
            frames,
            free: frames.saturating_sub(not_below_zero(net)),
            free_large: not_below_zero(large),
            blocks_of_order_2: not_below_zero(order_2),
            free_lent: not_below_zero(lent),
        };
        (facts, insertions)
    }

    /// Takes from the row of the candidate of order `found`.
    #[inline(always)]
    fn take_from_row(
        &self,
        seat: SeatWords<'m>,
        search: RowSearch,
        (found, candidate): (usize, Candidate),
        batch: &mut BlockBatch<'_>,
    ) -> RowOutcome {
        let is_whole = found == usize::from(self.map.pageblock_order);
        if is_whole && seat.away().is_some() {
            return self.take_from_others(seat, search, (found, candidate), batch, None);
        }
        match self.take_from_block(seat, search, (found, candidate), batch) {
            BlockOutcome::Row(outcome) => outcome,
            tried => self.take_from_others(seat, search, (found, candidate), batch, Some(tried)),
        }
    }

    /// The same where the CPU went away, or where it `tried` the row's nearest pageblock, which was of no use.
    #[cold]
    #[inline(never)]
    fn take_from_others(
        &self,
        seat: SeatWords<'m>,
        search: RowSearch,
        (found, candidate): (usize, Candidate),
        batch: &mut BlockBatch<'_>,
        tried: Option<BlockOutcome>,
    ) -> RowOutcome {
        let RowSearch { end, .. } = search;
        let row = self.row(found, candidate.class);
        let is_whole = found == usize::from(self.map.pageblock_order);
        let tidy = search.passing.is_tidy();
        let nearest = candidate.id as usize;
        let mut at = match tried {
            None => self.begin_away(seat, row, end),
            Some(BlockOutcome::Locked) if is_whole => self.go_away(seat, row, end, nearest),
            Some(_) => Some(nearest),
        };
        let mut has_tried = tried.is_some();
        for _ in usize::from(has_tried)..TRIES {
            let Some(id) = self.index.find(row, end, at, tidy) else {
                return RowOutcome::Busy;
            };
            at = Some(id);
            let other = Candidate {
                id: id as u32,
                ..candidate
            };
            match self.take_from_block(seat, search, (found, other), batch) {
                BlockOutcome::Row(RowOutcome::Own(id, now)) if has_tried => {
                    return RowOutcome::OwnBehindOthers(id, now);
                }
                BlockOutcome::Row(outcome) => return outcome,
                BlockOutcome::Locked if is_whole => at = self.go_away(seat, row, end, id),
                BlockOutcome::Locked | BlockOutcome::Other => {}
            }
            has_tried = true;
        }
        RowOutcome::Busy
    }

    /// Takes from one pageblock of the row.
    #[inline(never)]
    fn take_from_block(
        &self,
        seat: SeatWords<'m>,
        search: RowSearch,
        (found, candidate): (usize, Candidate),
        batch: &mut BlockBatch<'_>,
    ) -> BlockOutcome {
        let wanted = search.wanted;
        let Candidate { class, id, .. } = candidate;
        let (found, id) = (found as u8, id as usize);
        if search.spare && self.worker_of(id).is_some_and(|cpu| cpu != seat.number) {
            return BlockOutcome::Other;
        }
        let Some(mut held) = self.try_lock(seat.counters(), id) else {
            return BlockOutcome::Locked;
        };
        let meta = held.meta();
        if meta.class() != class || meta.orders() >> found & 1 == 0 || meta.is_isolated() {
            held.unlock();
            return BlockOutcome::Other;
        }
        let label = meta.label();
        let is_own = label == Label::Of(wanted.mobility) || label == Label::Contiguous;
        if !is_own && batch.taken > 0 {
            // More would need a fallback: the batch ends here.
            held.unlock();
            return BlockOutcome::Row(RowOutcome::Fallback);
        }
        let becomes = if is_own {
            label
        } else {
            self.fall_back(seat.counters(), &held, wanted, found)
        };
        if is_own && batch.words_max > 0 && batch.taken == 0 && found >= WORD_ORDER {
            let (slot, words) = held.take_words(found, batch.words_max, wanted.mobility);
            batch.words = Some((id << self.map.pageblock_order | slot, words));
        } else if let Some(frames) = batch.frames {
            if let Some(slot) = held.take_first(found, frames, wanted.mobility) {
                batch.blocks[0] = (id << self.map.pageblock_order | slot) as u32;
                batch.taken = 1;
            }
        } else {
            let (out, taken) = (&mut *batch.blocks, batch.taken);
            batch.taken = held.take(found, wanted.order, wanted.mobility, out, taken);
        }
        let now = held.unlock_as(becomes, false);
        let is_small = wanted.order.index() < CACHED_ORDERS;
        if self.map.cpus > 1 && is_small && wanted.mobility.is_movable() {
            self.work_in(seat, id);
        }
        BlockOutcome::Row(if is_own {
            RowOutcome::Own(id, now)
        } else {
            RowOutcome::Fallback
        })
    }

    /// Decides the label of a pageblock that a request falls back to, and counts the fallback.
    #[cold]
    pub(in super::super) fn fall_back(
        &self,
        counters: &'m Counters,
        held: &HeldBlock<'_, 'm, P>,
        wanted: WantedBlock,
        found: u8,
    ) -> Label {
        let facts = held.facts();
        let Label::Of(owner) = facts.label else {
            return facts.label;
        };
        let found = Order::new(found).expect("orders in a pageblock are small");
        let relabel = self.policy.is_relabelled(&facts, wanted.mobility, found);
        let pair = wanted.mobility.index() * 3 + owner.index();
        if !wanted.mobility.is_movable() && facts.nonmovable() == 0 && facts.movable() > 0 {
            counters.polluted.add(1);
        }
        if relabel {
            counters.relabels[pair].add(1);
            Label::Of(wanted.mobility)
        } else {
            counters.steals[pair].add(1);
            facts.label
        }
    }

    /// Marks `id` as the pageblock in which this CPU works, as a hint to the others.
    #[inline]
    fn work_in(&self, seat: SeatWords<'m>, id: usize) {
        let current = seat.current();
        if current == Some(id) {
            return;
        }
        if let Some(current) = current
            && self.worker_of(current) == Some(seat.number)
        {
            self.set_worker(current, None);
        }
        self.set_worker(id, Some(seat.number));
        seat.set_current(id);
    }

    /// Takes one block from the high-order reserve, for a request that [may have
    /// one](WantedBlock::may_have_reserved).
    #[cold]
    pub(super) fn take_reserved(&self, seat: SeatWords<'m>, wanted: WantedBlock) -> Option<usize> {
        let class = self.policy.classes().number(Class::HighOrder);
        for found in wanted.order.get()..=self.map.pageblock_order {
            let row = self.row(usize::from(found), class);
            let end = self.policy.end(wanted.mobility);
            let Some(id) = self.index.find(row, end, None, true) else {
                continue;
            };
            let Some(mut held) = self.try_lock(seat.counters(), id) else {
                continue;
            };
            let mut out = [0];
            let taken = if held.meta().orders() >> found & 1 != 0 {
                held.take(found, wanted.order, wanted.mobility, &mut out, 0)
            } else {
                0
            };
            held.unlock();
            if taken == 1 {
                return Some(out[0] as usize);
            }
        }
        None
    }
}

/// The effect of a request on the pageblock that serves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// It goes where its like is at home, or it moves, or there is no block.
    Stays,
    /// It goes where few or no contents are unmovable, and harms few or no movable ones.
    Settles,
    /// It goes where contents are movable, and none are unmovable yet.
    Contaminates,
}
