//! Pageblocks set apart: their owner empties them, and nothing is allocated there meanwhile.
//!
//! ```text
//!     open ── set_apart ──▶ apart ── dropped ─────────────▶ open
//!                             │  └── open_with_block, open_with_run
//!                             │                           ▶ open, with frames of the owner's in it
//!                             └───── keep_isolated ───────▶ isolated, until `unisolate`
//! ```
//!
//! Each of these stops all CPUs for a moment. A pageblock apart is isolated, so no search finds it,
//! and no CPU caches a block that is freed there. All of its blocks that CPUs had cached go back in
//! the same moment, and other pageblocks do not change. From then on its frames are live, or free,
//! or on their way from live to free, and none of them can become live again.
//!
//! # Invariants
//! - **AP1** A pageblock is isolated by one owner: another CPU that finds it isolated is refused.
//! - **AP2** A pageblock with a pin, and one of the high-order reserve, is never set apart.
//! - **AP3** However an [`Apart`] ends, its pageblocks are open, except by `keep_isolated`.
//! - **AP4** Until then only the owner changes what they are: a call that would pin, isolate, open,
//!   label or remove them is [refused](RunError::Apart). So what lies there can be moved without
//!   another look.

use super::super::counters::Counters;
use super::super::pageblock::Tag;
use super::super::seat::{CACHE_MAX, CACHED_ORDERS, Seat, SeatWords};
use super::super::wanted::WantedBlock;
use super::{StoppedZone, Zone};
use crate::platform::{FramePlatform, Patience, surely};
use crate::policy::Label;
use crate::slots::ones_at;
use crate::sync::Ordering::Relaxed;
#[cfg(doc)]
use crate::units::RunError;
use crate::units::{Frame, Mobility, Order};
use core::mem;
use core::ops::Range;

/// Pageblocks that are apart as long as this lives.
#[must_use = "pageblocks are apart as long as this lives"]
pub(crate) struct Apart<'z, 'm, P: FramePlatform> {
    zone: &'z Zone<'m, P>,
    ids: Range<usize>,
}

/// Pageblocks beside those apart that cannot be pinned as long as this lives: blocks that are
/// larger than a pageblock reach into them.
#[must_use = "pageblocks are kept from being pinned as long as this lives"]
pub(crate) struct Beyond<'z, 'm, P: FramePlatform> {
    zone: &'z Zone<'m, P>,
    ids: [Range<usize>; 2],
}

/// Why a pageblock was not set apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotApart {
    /// It has a pin.
    Pinned(usize),
    /// It is isolated, or another CPU is emptying it.
    Isolated(usize),
    /// It is part of the high-order reserve.
    Reserved(usize),
}

/// What is at a frame that is not free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ApartContent {
    /// A live block starts here.
    Block(Order, Mobility),
    /// The first frame of a block in a CPU's cache.
    Cached(Order),
    /// It does not exist.
    Absent,
    /// No block starts here: the frame lies inside a larger block, or is on its way to be free or
    /// live.
    Unknown,
}

impl<'m, P: FramePlatform> Zone<'m, P> {
    /// Sets the pageblocks `ids` apart, all or none. Stops all CPUs; O(frames of `ids`), and if any
    /// of their frames is cached, O(cached blocks).
    ///
    /// # Errors
    /// The first pageblock that cannot be set apart; nothing has changed then.
    pub(crate) fn set_apart(&self, ids: Range<usize>) -> Result<Apart<'_, 'm, P>, NotApart> {
        self.stop().set_apart(ids)
    }

    /// The same, but gives up if stopping all CPUs takes longer than `patience` lasts: then `None`.
    pub(crate) fn set_apart_within(
        &self,
        ids: Range<usize>,
        patience: &mut Patience,
    ) -> Option<Result<Apart<'_, 'm, P>, NotApart>> {
        Some(self.stop_within(patience)?.set_apart(ids))
    }
}

impl<P> Zone<'_, P> {
    /// What the zone asks of the world: for other waits on the same CPUs.
    pub(crate) const fn platform(&self) -> &P {
        &self.platform
    }

    /// The offsets of the frames of pageblocks.
    pub(crate) const fn offsets_of(&self, ids: &Range<usize>) -> Range<usize> {
        ids.start << self.map.pageblock_order..ids.end << self.map.pageblock_order
    }

    /// The pageblock of the frame at `offset`.
    pub(crate) const fn pageblock_of(&self, offset: usize) -> usize {
        offset >> self.map.pageblock_order
    }

    /// How many pageblocks lie before the first aligned block of `order`, which is larger than one,
    /// and how many make up one such block.
    pub(crate) const fn alignment(&self, order: Order) -> (usize, usize) {
        let run = 1 << (order.get() - self.map.pageblock_order);
        // Of the first pageblock's number only what is left of whole blocks counts: the number itself may have more bits.
        let first = (self.map.origin >> self.map.pageblock_order) as usize & (run - 1);
        (first.next_multiple_of(run) - first, run)
    }

    /// Whether labels decide the class of a pageblock, and not its composition.
    pub(crate) const fn is_labelled(&self) -> bool {
        self.policy.is_labelled()
    }

    /// Whether a pageblock of `offsets`, which are not empty, has a pin: a block that is larger
    /// than one may reach into pageblocks that are not apart.
    pub(crate) fn is_pinned(&self, offsets: Range<usize>) -> bool {
        (self.pageblock_of(offsets.start)..=self.pageblock_of(offsets.end - 1))
            .any(|id| self.pins(id) > 0)
    }

    /// The pins of a pageblock, as of some moment: `None` if it is isolated or another CPU empties
    /// it.
    #[inline]
    pub(crate) fn pins_if_open(&self, id: usize) -> Option<u32> {
        (!self.meta(id).is_isolated() && !self.is_apart(id)).then(|| self.pins(id))
    }

    /// The first frame in `offsets` that is not free, as of some moment. In a pageblock apart a
    /// free frame stays free.
    #[inline]
    pub(crate) fn next_taken(&self, offsets: Range<usize>) -> Option<usize> {
        let mut at = offsets.start;
        while at < offsets.end {
            let slot = self.slot(at);
            let bits = self.bitmap(self.pageblock_of(at))[slot / 64].load(Relaxed);
            let free = (bits >> (slot % 64)).trailing_ones() as usize;
            // A pageblock of less than a word ends before its word does.
            let here = (64 - slot % 64).min(self.map.block_frames() as usize - slot);
            if free < here {
                let taken = at + free;
                return (taken < offsets.end).then_some(taken);
            }
            at += here;
        }
        None
    }

    /// How many of the frames in `offsets`, an aligned block in a pageblock, are free, as of some moment.
    #[inline]
    pub(crate) fn free_frames_in(&self, offsets: &Range<usize>) -> u32 {
        let bitmap = self.bitmap(self.pageblock_of(offsets.start));
        let slot = self.slot(offsets.start);
        let len = offsets.len();
        if len < 64 {
            let bits = bitmap[slot / 64].load(Relaxed) >> (slot % 64);
            return (bits & !(!0 << len)).count_ones();
        }
        let words = &bitmap[slot / 64..(slot + len) / 64];
        words
            .iter()
            .map(|word| word.load(Relaxed).count_ones())
            .sum()
    }

    /// What is at the frame at `offset`, which is not free.
    #[inline]
    pub(crate) fn content(&self, offset: usize) -> ApartContent {
        let tag = self.tag(offset);
        if let Some((order, mobility)) = tag.as_live() {
            return ApartContent::Block(order, mobility);
        }
        if let Some((_, order, _)) = tag.as_cached() {
            return ApartContent::Cached(order);
        }
        if self.is_absent(offset) {
            ApartContent::Absent
        } else {
            ApartContent::Unknown
        }
    }

    /// The live block that starts before `offset` and reaches it, if one does: where it starts, its
    /// order and its mobility.
    pub(crate) fn block_around(&self, offset: usize) -> Option<(usize, Order, Mobility)> {
        self.enclosing(offset, Order::ZERO)
            .filter(|&(start, _, _)| start < offset)
    }

    /// Whether the live block of `order` at `offset` is still there and movable.
    #[inline]
    pub(crate) fn is_movable_block(&self, offset: usize, order: Order) -> bool {
        self.tag(offset) == Tag::live(order, Mobility::Movable)
    }

    /// The frame at `offset`.
    #[inline]
    pub(crate) const fn frame_at(&self, offset: usize) -> Frame {
        self.frame(offset)
    }

    /// The offset of `frame`, if it is inside.
    #[inline]
    pub(crate) fn offset_of(&self, frame: Frame) -> Option<usize> {
        self.offset(frame)
    }

    /// Which of the 64 frames from `offset` on are free, as of some moment; bits beyond `end` have
    /// no meaning. `offset` is a multiple of 64, or of a pageblock's frames where those are fewer.
    #[inline]
    pub(crate) fn free_bits(&self, offset: usize, end: usize) -> u64 {
        let here = self.map.block_frames() as usize;
        if here >= 64 {
            return self.bitmap(self.pageblock_of(offset))[self.slot(offset) / 64].load(Relaxed);
        }
        let starts = (offset..end.min(offset + 64)).step_by(here);
        starts.fold(0, |bits, at| {
            let block = self.bitmap(self.pageblock_of(at))[0].load(Relaxed);
            bits | (block & ones_at(0, here as u32)) << (at - offset)
        })
    }
}

impl<'z, 'm, P: FramePlatform> Apart<'z, 'm, P> {
    /// The pageblocks.
    pub(crate) fn ids(&self) -> Range<usize> {
        self.ids.clone()
    }

    /// Makes sure that the pageblocks into which `offsets` reach beyond those apart cannot be
    /// pinned, until the result is dropped. This and the drop each stop all CPUs, if there are such
    /// pageblocks.
    ///
    /// # Errors
    /// The first one that is pinned, or that another CPU empties.
    pub(crate) fn keep_unpinned_beyond(
        &self,
        offsets: &Range<usize>,
    ) -> Result<Option<Beyond<'z, 'm, P>>, NotApart> {
        let zone = self.zone;
        let first = zone.pageblock_of(offsets.start);
        let last = zone.pageblock_of(offsets.end - 1);
        if self.ids.start <= first && last < self.ids.end {
            return Ok(None);
        }
        let ids = [first..self.ids.start, self.ids.end..last + 1];
        let stopped = zone.stop();
        for id in ids.iter().cloned().flatten() {
            if zone.is_apart(id) {
                return Err(NotApart::Isolated(id));
            }
            if zone.pins(id) > 0 {
                return Err(NotApart::Pinned(id));
            }
        }
        for id in ids.iter().cloned().flatten() {
            stopped.mark_apart(id, true);
        }
        drop(stopped);
        Ok(Some(Beyond { zone, ids }))
    }

    /// Opens the pageblocks, and takes the block of `order` at `offset` as an allocation of
    /// `seat`'s for contents of `mobility` before any other CPU can. `None` if one of its frames is
    /// not free: then it only opens them.
    ///
    /// A label of another mobility is treated as when a request falls back.
    #[inline(never)]
    pub(crate) fn open_with_block(
        mut self,
        seat: &mut Seat<'_, 'm, P>,
        offset: usize,
        order: Order,
        mobility: Mobility,
    ) -> Option<Frame> {
        let zone = self.zone;
        let stopped = zone.stop();
        let ids =
            zone.pageblock_of(offset)..zone.pageblock_of(offset + order.frames() as usize - 1) + 1;
        let frames = offset..offset + order.frames() as usize;
        let is_there = ids.start >= self.ids.start
            && ids.end <= self.ids.end
            && zone.next_taken(frames).is_none();
        if is_there {
            for id in ids {
                stopped.take_apart(
                    seat.words.counters(),
                    id,
                    zone.slot(offset),
                    WantedBlock { order, mobility },
                );
            }
            zone.set_tag(offset, Tag::live(order, mobility));
            seat.words.counters().pgalloc[mobility.index()].add(order.frames());
            seat.words.counters().net.add(order.frames());
        }
        self.open(&stopped);
        is_there.then(|| zone.frame(offset))
    }

    /// Opens the pageblocks, and takes the frames at `offsets`, which lie in them, as the fewest
    /// allocations for contents of `mobility`, before any other CPU can. `false` if one of the
    /// frames is not free: then it only opens the pageblocks.
    pub(crate) fn open_with_run(mut self, offsets: &Range<usize>, mobility: Mobility) -> bool {
        let zone = self.zone;
        let mine = zone.offsets_of(&self.ids);
        let stopped = zone.stop();
        let is_there = mine.start <= offsets.start
            && offsets.end <= mine.end
            && zone.next_taken(offsets.clone()).is_none();
        if is_there {
            zone.take_run_at(&stopped, offsets, mobility);
        }
        self.open(&stopped);
        is_there
    }

    /// Leaves the pageblocks isolated, until [`Zone::unisolate`].
    pub(crate) fn keep_isolated(mut self) {
        let stopped = self.zone.stop();
        for id in mem::take(&mut self.ids) {
            stopped.mark_apart(id, false);
        }
    }

    fn open(&mut self, stopped: &StoppedZone<'_, 'm, P>) {
        for id in mem::take(&mut self.ids) {
            stopped.relabel(id, self.zone.meta(id).label(), false);
            stopped.mark_apart(id, false);
        }
    }
}

impl<P: FramePlatform> Drop for Apart<'_, '_, P> {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            surely(|| {
                let stopped = self.zone.stop();
                self.open(&stopped);
            });
        }
    }
}

impl<P: FramePlatform> Drop for Beyond<'_, '_, P> {
    fn drop(&mut self) {
        surely(|| {
            let stopped = self.zone.stop();
            for id in self.ids.iter().cloned().flatten() {
                stopped.mark_apart(id, false);
            }
        });
    }
}

impl<'z, 'm, P: FramePlatform> StoppedZone<'z, 'm, P> {
    fn set_apart(self, ids: Range<usize>) -> Result<Apart<'z, 'm, P>, NotApart> {
        let zone = self.set;
        for id in ids.clone() {
            let meta = zone.meta(id);
            if meta.is_isolated() || zone.is_apart(id) {
                return Err(NotApart::Isolated(id));
            }
            if zone.pins(id) > 0 {
                return Err(NotApart::Pinned(id));
            }
            if meta.label() == Label::HighOrder {
                return Err(NotApart::Reserved(id));
            }
        }
        for id in ids.clone() {
            self.relabel(id, zone.meta(id).label(), true);
            self.mark_apart(id, true);
        }
        self.drain_from(&zone.offsets_of(&ids));
        drop(self);
        Ok(Apart { zone, ids })
    }
}

impl<'m, P: FramePlatform> StoppedZone<'_, 'm, P> {
    fn mark_apart(&self, id: usize, apart: bool) {
        let mut held = self.hold(id);
        held.set_apart(apart);
        held.unlock();
    }

    /// Gives back the cached blocks at `offsets`.
    fn drain_from(&self, offsets: &Range<usize>) {
        let zone = self.set;
        if !offsets.clone().any(|offset| zone.tag(offset).is_cached()) {
            return;
        }
        for seat in zone.all_seats() {
            seat.drain_from(zone, offsets);
        }
    }

    /// Takes `wanted` from the isolated pageblock `id`, at `slot`, where it is free.
    fn take_apart(&self, counters: &'m Counters, id: usize, slot: usize, wanted: WantedBlock) {
        let zone = self.set;
        let part = wanted.order.min(zone.pageblock_order());
        let mut held = self.hold(id);
        let label = held.meta().label();
        let is_own = label == Label::Of(wanted.mobility) || label == Label::Contiguous;
        let becomes = if is_own {
            label
        } else {
            zone.fall_back(counters, &held, wanted, part.get())
        };
        let taken = held.take_at(slot, part, wanted.mobility);
        debug_assert!(taken, "all its frames are free, and no CPU moves");
        held.unlock_as(becomes, true);
    }
}

impl<'m> SeatWords<'m> {
    /// Gives back the cached blocks that lie in `offsets`, which are whole pageblocks.
    fn drain_from<P>(self, zone: &Zone<'m, P>, offsets: &Range<usize>) {
        for mobility in Mobility::ALL {
            // A stock lies in one pageblock.
            if self
                .stock(mobility)
                .is_some_and(|(at, _)| offsets.contains(&at))
            {
                self.give_stock(zone, mobility);
            }
            for order in (0..CACHED_ORDERS as u8).filter_map(Order::new) {
                let cached = self.cached(mobility, order.index());
                let entries = &self.entries(mobility, order.index())[..cached];
                // Moves those that go before those that stay, each group in its order: the oldest
                // are given back.
                let mut stay = [0; CACHE_MAX];
                let mut staying = 0;
                let mut going = 0;
                for entry in entries {
                    let block = entry.load(Relaxed);
                    if offsets.contains(&(block as usize)) {
                        entries[going].store(block, Relaxed);
                        going += 1;
                    } else {
                        stay[staying] = block;
                        staying += 1;
                    }
                }
                for (entry, &block) in entries[going..].iter().zip(&stay[..staying]) {
                    entry.store(block, Relaxed);
                }
                self.spill(zone, mobility, order, staying);
            }
        }
    }
}
