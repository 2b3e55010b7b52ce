//! How a run of allocations goes back: into caches that have room, and else under the lock of its pageblock, in turns.

use super::super::FreeError;
use super::super::pageblock::{HeldBlock, Tag, WordMask};
use super::Seat;
use super::record::CACHED_ORDERS;
use crate::platform::FramePlatform;
use crate::slots::WORD_ORDER;
use crate::units::{Frame, Mobility, Order};

/// So many allocations of a run go back at most before the lock of their pageblock is given up.
const TURN_BLOCKS: usize = 64;

impl<'m, P: FramePlatform> Seat<'_, 'm, P> {
    /// Frees the frames from `at` to `end`, each of which belonged to an allocation a moment ago. If a wait unwinds
    /// out of it, those before `at` are free, and the others as before.
    pub(in super::super) fn free_each(
        &mut self,
        at: &mut Frame,
        end: Frame,
        result: &mut Result<(), FreeError>,
    ) {
        while *at < end {
            let order = match self.allocation_at(*at, end) {
                Some((order, _))
                    if order.index() < CACHED_ORDERS && self.free_cached(*at, order) =>
                {
                    *at = Frame(at.0 + order.frames());
                    continue;
                }
                // It is the last one, for which a full cache gives others back, or it has room on the slow path.
                Some((order, mobility))
                    if at.0 + order.frames() == end.0
                        || order.index() < CACHED_ORDERS && !self.is_full(order, mobility) =>
                {
                    order
                }
                // What follows in the pageblock goes back with it, in turns, and the cache stays as it is.
                Some((order, _)) => match self.free_in_one_turn(*at, end) {
                    Some(next) => {
                        *at = next;
                        continue;
                    }
                    None => order,
                },
                None => {
                    let order = self.largest_part(*at, end);
                    *result = result.and(self.free_part(*at, order));
                    *at = Frame(at.0 + order.frames());
                    continue;
                }
            };
            *result = result.and(self.free(*at, order));
            *at = Frame(at.0 + order.frames());
        }
    }

    /// Whether the cache is at its limit, and has one: a look from outside of the busy seat.
    pub(super) fn is_full(&self, order: Order, mobility: Mobility) -> bool {
        let limit = self.words.limit(mobility, order.index());
        limit > 0 && self.words.cached(mobility, order.index()) >= limit
    }

    /// The order and the mobility of the allocation that starts at `at`, if one does and ends at or before `end`.
    #[inline]
    fn allocation_at(&self, at: Frame, end: Frame) -> Option<(Order, Mobility)> {
        let (order, mobility) = self.zone.tag(self.zone.offset(at)?).as_live()?;
        (at.0 + order.frames() <= end.0).then_some((order, mobility))
    }

    /// Frees the allocations from `at` to `end`, under one lock, as long as they lie side by side in one pageblock, and at
    /// most [as many](TURN_BLOCKS) as one turn has. The frame behind them; `None`, without any change, if another CPU holds
    /// the pageblock.
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    fn free_in_one_turn(&mut self, at: Frame, end: Frame) -> Option<Frame> {
        let zone = self.zone;
        let first = zone.offset(at)?;
        let id = first >> zone.map.pageblock_order;
        self.enter();
        let held = zone.try_lock(self.words.counters(), id);
        let (mut next, mut frames) = (first, 0);
        if let Some(mut held) = held {
            let block_end = (id + 1) << zone.map.pageblock_order;
            let end = block_end.min(first + (end.0 - at.0) as usize);
            let mut left = TURN_BLOCKS;
            while left > 0 && next < end {
                let tag = zone.tag(next);
                let Some((order, mobility)) = tag.as_live() else {
                    break;
                };
                let behind = next + order.frames() as usize;
                if behind > end {
                    break;
                }
                if behind < end && order.get() < WORD_ORDER && zone.tag(behind) == tag {
                    frames += self.give_alike(&mut held, &mut next, end, &mut left);
                    continue;
                }
                zone.set_tag(next, Tag::NONE);
                if held.give(zone.slot(next), order, mobility) {
                    frames += order.frames();
                } else {
                    zone.count_corruption();
                }
                (next, left) = (behind, left - 1);
            }
            held.unlock();
            self.words.counters().net.add(frames.wrapping_neg());
            self.words.counters().pgfree.add(frames);
        }
        self.exit();
        (next > first).then(|| Frame(at.0 + (next - first) as u64))
    }

    /// Gives back together the allocations from `next` to `end` that are like the first one and lie in the same word, at
    /// most `left`. Returns how many frames that are.
    #[inline(never)]
    fn give_alike(
        &self,
        held: &mut HeldBlock<'_, 'm, P>,
        next: &mut usize,
        end: usize,
        left: &mut usize,
    ) -> u64 {
        let zone = self.zone;
        let tag = zone.tag(*next);
        let Some((order, mobility)) = tag.as_live() else {
            return 0;
        };
        let (word, size) = (zone.slot(*next) / 64, order.frames() as usize);
        let mut mask = WordMask::default();
        while *left > 0
            && *next + size <= end
            && zone.slot(*next) / 64 == word
            && zone.tag(*next) == tag
        {
            zone.set_tag(*next, Tag::NONE);
            mask.add((zone.slot(*next) % 64) as u32, order);
            (*next, *left) = (*next + size, *left - 1);
        }
        held.give_mask(word, mask, order, mobility) << order.get()
    }
}
