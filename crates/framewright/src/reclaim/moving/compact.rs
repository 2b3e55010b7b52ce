//! One attempt at a free block: compaction chooses what to empty, empties it, and takes the block.
//!
//! ```text
//!     deferred? ─▶ enough free? ─▶ a stretch of places ▶ the cheapest: set apart ─▶ emptied ─▶ taken
//!                                   ▲ next stretch         ▲ next cheapest ── skip ◀─┘ in the way
//! ```
//!
//! Scanner, skip bits and deferral are hints in relaxed words: an old value costs work, and never
//! yields a wrong block. A pageblock is apart from before the first move until the block in it is
//! the caller's, so no other CPU gets its frames. An attempt ends because its tries are counted,
//! each stretch is looked at once, and skip bits are dropped once (R3).

use super::emptying::{Emptying, cheapest_block};
use crate::frame::{NotApart, Seat, TargetRoom};
use crate::platform::{FramePlatform, OrElse};
use crate::policy::{Deferral, Label, compaction_cost, gap, takes_contents};
use crate::reclaim::Migrate;
use crate::reclaim::state::{Counter, MoveTally, Reclaim};
use crate::sync::Ordering::Relaxed;
use crate::units::{Frame, Mobility, Order};
use core::ops::Range;

/// How many pageblocks one attempt tries to empty, the cheapest first.
const TRIES: usize = 16;

/// The same if a request waits. Each try stops all CPUs twice. Where the first tries gain nothing, the later ones
/// hardly gain anything. Of 564 requests that got their block, 505 had it from the first pageblock and 562 from one
/// of eight; 59 tries beyond that gained two (`mixC`, with 100,000 frames less).
const TRIES_DIRECT: usize = 8;

/// Descriptors among which the cheapest are chosen: 8 GiB of usual pageblocks, some 30 µs. The ones
/// beyond are looked at only if these gained nothing.
const STRETCH: usize = 4096;

/// The same for movable contents and a small block, shifted by its order: 64 for order 2.
const STRETCH_SMALL: usize = 16;

/// How much work an attempt of compaction takes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompactEffort {
    /// A request waits. The attempt does not begin where attempts failed lately. It counts as a stall unless it was
    /// deferred or skipped.
    Direct,
    /// No request waits, and the block is for all users; so the attempt makes it in no contiguous area, which only
    /// movable requests may use.
    Background,
}

/// The result of an attempt of compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compaction {
    /// There is a block of the order. It is the caller's, allocated with the mobility asked for.
    Captured(Frame),
    /// Not tried: recent attempts failed.
    Deferred,
    /// Not tried: too little is free, or the counts say that nothing can be emptied.
    Skipped,
    /// The tries gained nothing; some places have not been tried yet.
    Partial,
    /// Every place was tried, and none gained anything.
    Complete,
}

/// The cheapest places found, cheapest first.
struct Candidates {
    /// A zone has fewer pageblocks than 32 bits count, and this lies on the stack while clients are called.
    ids: [u32; TRIES],
    len: usize,
    /// There were more.
    more: bool,
    /// Some were passed over because they gained nothing before.
    skipped: bool,
    /// Free frames to which contents could be moved, in all pageblocks that were looked at.
    room: u64,
}

impl Candidates {
    const NONE: Self = Self {
        ids: [0; TRIES],
        len: 0,
        more: false,
        skipped: false,
        room: 0,
    };

    /// Inserts it behind those of the same cost, by the costs of those before, so the place seen first is tried first.
    fn add(&mut self, costs: &mut [u32; TRIES], id: usize, cost: u32) {
        self.more = self.len == TRIES;
        if self.more && cost >= costs[TRIES - 1] {
            return;
        }
        let mut at = self.len.min(TRIES - 1);
        while at > 0 && costs[at - 1] > cost {
            (costs[at], self.ids[at]) = (costs[at - 1], self.ids[at - 1]);
            at -= 1;
        }
        (costs[at], self.ids[at]) = (cost, id as u32);
        self.len = (self.len + 1).min(TRIES);
    }
}

/// The kind of the skip bits behind those for whole pageblocks and for smaller blocks.
const SETTLED: usize = 2;

/// Where a block may be made: numbered by its first pageblock.
struct CompactPlaces {
    first: usize,
    /// Pageblocks of one place.
    run: usize,
    count: usize,
}

impl<'m, P: FramePlatform> Reclaim<'_, 'm, P> {
    /// Tries once to make a free block of `order` for contents of `mobility`, by moving the
    /// contents between free frames; the block is the caller's then.
    ///
    /// It chooses the pageblock in which that costs least, by the counts in the descriptors. For an
    /// order below the pageblocks' it empties the cheapest block in it, for an order above it
    /// empties several pageblocks. The pageblock is set apart meanwhile, so no other CPU gets
    /// frames that become free there. Contents go to the smallest free blocks that suffice, in the
    /// fullest pageblocks with movable contents, but never to a block there that is as large as the
    /// one to be made. If the block is not for movable contents, or for all users, contents go
    /// first to contiguous areas, however large the free blocks are there. A place that could not
    /// be emptied is passed over until all have been tried.
    ///
    /// A request waits for it: the attempt is left off where attempts failed lately. One that is not
    /// [deferred](Compaction::Deferred) or [skipped](Compaction::Skipped) counts as a stall. Stops
    /// all CPUs twice for each of at most 8 pageblocks that it tries, or for each run of them for a larger order,
    /// and twice more for blocks that reach beyond it. Time: O(pageblocks), 4096 of them at most
    /// if one of the cheapest can be emptied; for each frame moved the time of its client; and for
    /// each other frame of a whole pageblock less than 0.1 µs.
    ///
    /// # Panics
    /// If `seat` is in another zone.
    pub fn compact(
        &self,
        seat: &mut Seat<'_, 'm, P>,
        order: Order,
        mobility: Mobility,
        movers: &[&dyn Migrate],
    ) -> Compaction {
        self.compact_with(seat, order, mobility, CompactEffort::Direct, movers)
    }

    /// The same when no request waits, for all users: so the block is not made in a contiguous area, the attempt
    /// is never deferred, and tries up to 16 pageblocks.
    ///
    /// # Panics
    /// As [`compact`](Self::compact).
    pub fn compact_ahead(
        &self,
        seat: &mut Seat<'_, 'm, P>,
        order: Order,
        mobility: Mobility,
        movers: &[&dyn Migrate],
    ) -> Compaction {
        self.compact_with(seat, order, mobility, CompactEffort::Background, movers)
    }

    pub(crate) fn compact_with(
        &self,
        seat: &mut Seat<'_, 'm, P>,
        order: Order,
        mobility: Mobility,
        effort: CompactEffort,
        movers: &[&dyn Migrate],
    ) -> Compaction {
        assert!(
            core::ptr::addr_eq(seat.zone(), self.zone()),
            "a seat in the zone that is to be compacted"
        );
        if order == Order::ZERO || order > self.zone().max_order() || movers.is_empty() {
            return Compaction::Skipped;
        }
        let is_direct = effort == CompactEffort::Direct;
        if is_direct && self.is_deferred(order) {
            return Compaction::Deferred;
        }
        if !self.has_enough_free(order) {
            return Compaction::Skipped;
        }
        let mut emptying = Emptying {
            seat,
            movers,
            room: if mobility.is_movable() && is_direct {
                TargetRoom::Below(order)
            } else {
                TargetRoom::BelowOrLent(order)
            },
            holes: false,
            tally: MoveTally::default(),
            counts: self.state,
        };
        // An attempt out of which a client unwinds has failed (R9).
        let unwound = OrElse::new(&mut emptying, |_| {
            self.remember(Compaction::Partial, order, is_direct);
        });
        let result = self.try_places(unwound.seat, order, mobility, effort);
        unwound.end();
        self.remember(result, order, is_direct);
        result
    }

    /// Whether enough is free for sources and targets to exist side by side, with `min` beside
    /// them.
    fn has_enough_free(&self, order: Order) -> bool {
        let zone = self.zone();
        zone.free_in_pageblocks() >= zone.watermarks().min + gap(order)
    }

    fn is_deferred(&self, order: Order) -> bool {
        let word = &self.record().deferred;
        // Relaxed, and not one atomic step: of two simultaneous requests one may be forgotten.
        let mut deferral = Deferral::from_word(word.load(Relaxed));
        if deferral.defers(order) {
            word.store(deferral.to_word(), Relaxed);
            return true;
        }
        if deferral.restarts(order, self.state.config.defer_shift_max) {
            self.drop_skips();
        }
        false
    }

    /// Counts the attempt, and sets how long to leave compaction off.
    fn remember(&self, result: Compaction, order: Order, is_direct: bool) {
        let word = &self.record().deferred;
        let mut deferral = Deferral::from_word(word.load(Relaxed));
        let shift_max = self.state.config.defer_shift_max;
        match result {
            Compaction::Captured(_) => deferral.succeeded(order),
            Compaction::Deferred => return,
            Compaction::Skipped | Compaction::Partial | Compaction::Complete if is_direct => {
                deferral.failed(order, shift_max);
            }
            Compaction::Skipped | Compaction::Partial | Compaction::Complete => {}
        }
        word.store(deferral.to_word(), Relaxed);
        if !is_direct || result == Compaction::Skipped {
            return;
        }
        self.count(Counter::CompactStall, 1);
        if matches!(result, Compaction::Captured(_)) {
            self.count(Counter::CompactSuccess, 1);
        } else {
            self.count(Counter::CompactFail, 1);
        }
    }

    fn places(&self, order: Order) -> CompactPlaces {
        let zone = self.zone();
        let (first, run) = if order > zone.pageblock_order() {
            zone.alignment(order)
        } else {
            (0, 1)
        };
        CompactPlaces {
            first,
            run,
            count: zone.pageblocks().saturating_sub(first) / run,
        }
    }

    /// How many places to choose the cheapest from.
    fn stretch(&self, places: &CompactPlaces, order: Order, mobility: Mobility) -> usize {
        // A small block is emptied with a few copies nearly anywhere: a longer search costs more
        // than it could spare. Unmovable contents are worth a search for a place that they do not
        // contaminate.
        let descriptors = if mobility.is_movable() && order < self.zone().pageblock_order() {
            STRETCH.min(STRETCH_SMALL << order.get())
        } else {
            STRETCH
        };
        (descriptors / places.run).max(1)
    }

    /// Goes through all places in stretches, from where the last attempt ended, and tries the
    /// cheapest of each.
    fn try_places(
        &self,
        emptying: &mut Emptying<'_, '_, 'm, P>,
        order: Order,
        mobility: Mobility,
        effort: CompactEffort,
    ) -> Compaction {
        let tries_max = match effort {
            CompactEffort::Direct => TRIES_DIRECT,
            CompactEffort::Background => TRIES,
        };
        let places = self.places(order);
        let stretch = self.stretch(&places, order, mobility);
        let mut dropped = false;
        loop {
            let begin = self.record().migrate_at.load(Relaxed) as usize;
            let begin = begin.saturating_sub(places.first) / places.run;
            let mut tried = 0;
            let mut skipped = false;
            let mut seen = 0;
            while seen < places.count {
                let next = (seen + stretch).min(places.count);
                let candidates =
                    self.candidates(emptying, &places, begin, seen..next, (order, mobility));
                seen = next;
                skipped |= candidates.skipped;
                for &id in &candidates.ids[..candidates.len] {
                    let id = id as usize;
                    if tried == tries_max {
                        return Compaction::Partial;
                    }
                    let is_known =
                        order == self.zone().pageblock_order() && stretch >= places.count;
                    if is_known && !self.has_room(id, candidates.room) {
                        // Moving half of it would gain nothing.
                        continue;
                    }
                    tried += 1;
                    let behind = id + places.run;
                    self.record().migrate_at.store(behind as u64, Relaxed);
                    if let Some(frame) = self.try_place(emptying, id..behind, order, mobility) {
                        return Compaction::Captured(frame);
                    }
                }
                if candidates.more {
                    return Compaction::Partial;
                }
            }
            if skipped || tried > 0 {
                // The pass is complete: places that gained nothing may gain something next time.
                self.drop_skips();
            }
            if tried > 0 {
                return Compaction::Complete;
            }
            if !skipped || dropped {
                return Compaction::Skipped;
            }
            dropped = true;
        }
    }

    /// Whether the contents of pageblock `id` fit, when there is `room` in all pageblocks together.
    fn has_room(&self, id: usize, room: u64) -> bool {
        let facts = self.zone().pageblock(id);
        let its_own = if takes_contents(&facts, self.zone().is_labelled()) {
            facts.free
        } else {
            0
        };
        u64::from(facts.movable()) <= room.saturating_sub(u64::from(its_own))
    }

    /// The cheapest of the places `nths`, counted from `begin` on.
    #[inline(never)]
    fn candidates(
        &self,
        emptying: &mut Emptying<'_, '_, 'm, P>,
        places: &CompactPlaces,
        begin: usize,
        nths: Range<usize>,
        (order, mobility): (Order, Mobility),
    ) -> Candidates {
        let zone = self.zone();
        let pageblock_order = zone.pageblock_order();
        let (mut found, mut costs) = (Candidates::NONE, [0; TRIES]);
        // Then lent pageblocks are room, and not to be emptied.
        let is_for_all = matches!(emptying.room, TargetRoom::BelowOrLent(_));
        let takes_pure = emptying.room.takes_pure(pageblock_order) && !zone.is_labelled();
        for nth in nths {
            let id = places.first + (begin + nth) % places.count * places.run;
            emptying.tally.migrate_scanned += places.run as u64;
            let mut cost = Some(0);
            for id in id..id + places.run {
                let Some(pins) = zone.pins_if_open(id) else {
                    cost = None;
                    continue;
                };
                let facts = zone.pageblock(id);
                let is_lent = is_for_all && facts.label == Label::Contiguous;
                let is_pure = takes_pure && facts.movable() == 0 && facts.nonmovable() > 0;
                if is_lent || is_pure || takes_contents(&facts, zone.is_labelled()) {
                    found.room += u64::from(facts.free);
                }
                if is_lent {
                    cost = None;
                    continue;
                }
                let of = compaction_cost(&facts, pins, pageblock_order, order, mobility);
                cost = cost.zip(of).map(|(sum, cost)| sum + cost);
            }
            if let Some(cost) = cost {
                if (id..id + places.run).any(|id| self.is_skipped(id, order)) {
                    found.skipped = true;
                } else {
                    found.add(&mut costs, id, cost);
                }
            }
        }
        found
    }

    /// Tries to empty enough for a block of `order` in the pageblocks `ids`.
    fn try_place(
        &self,
        emptying: &mut Emptying<'_, '_, 'm, P>,
        ids: Range<usize>,
        order: Order,
        mobility: Mobility,
    ) -> Option<Frame> {
        let zone = self.zone();
        let area = if order < zone.pageblock_order() {
            let looks = &mut emptying.tally.migrate_scanned;
            // For all users, or for frames of a kind, a block that is free already is no gain.
            let another = matches!(emptying.room, TargetRoom::BelowOrLent(_));
            let Some(area) = cheapest_block(zone, ids.start, order, another, looks) else {
                self.skip(ids.start, order);
                return None;
            };
            area
        } else {
            zone.offsets_of(&ids)
        };
        let apart = match zone.set_apart(ids) {
            Ok(apart) => apart,
            // Another CPU is emptying it, and will see the result.
            Err(NotApart::Isolated(_)) => return None,
            Err(NotApart::Pinned(id) | NotApart::Reserved(id)) => {
                self.skip(id, order);
                return None;
            }
        };
        if let Err(in_the_way) = emptying.empty(&apart, area.clone()) {
            let at = zone.pageblock_of(in_the_way.offset);
            let id = if apart.ids().contains(&at) {
                at
            } else {
                apart.ids().start
            };
            self.skip(id, order);
            return None;
        }
        apart.open_with_block(emptying.seat, area.start, order, mobility)
    }

    /// The skip bit of a pageblock: one for the whole, and one for blocks inside it.
    fn skip_bit(&self, id: usize, order: Order) -> (usize, u64) {
        let kind = usize::from(order < self.zone().pageblock_order());
        (kind * self.skip_words() + id / 64, 1 << (id % 64))
    }

    /// Words of skip bits of each kind.
    fn skip_words(&self) -> usize {
        self.zone().pageblocks().div_ceil(64)
    }

    /// Whether the movable contents of a settled pageblock stayed there at the last try.
    pub(in crate::reclaim) fn is_skipped_when_settled(&self, id: usize) -> bool {
        self.state.skips[SETTLED * self.skip_words() + id / 64].load(Relaxed) >> (id % 64) & 1 != 0
    }

    pub(in crate::reclaim) fn skip_when_settled(&self, id: usize) {
        self.state.skips[SETTLED * self.skip_words() + id / 64].fetch_or(1 << (id % 64), Relaxed);
    }

    pub(in crate::reclaim) fn drop_skips_of_settled(&self) {
        for word in &self.state.skips[SETTLED * self.skip_words()..] {
            word.store(0, Relaxed);
        }
    }

    fn is_skipped(&self, id: usize, order: Order) -> bool {
        let (word, bit) = self.skip_bit(id, order);
        self.state.skips[word].load(Relaxed) & bit != 0
    }

    fn skip(&self, id: usize, order: Order) {
        let (word, bit) = self.skip_bit(id, order);
        self.state.skips[word].fetch_or(bit, Relaxed);
    }

    fn drop_skips(&self) {
        for word in &self.state.skips[..SETTLED * self.skip_words()] {
            word.store(0, Relaxed);
        }
    }
}
