//! The slow, obvious count of everything, and the invariants as assertions.

use super::super::pageblock::Tag;
use super::super::seat::{CACHED_ORDERS, WORD_FRAMES, cache_bit};
use super::Zone;
use crate::platform::FramePlatform;
use crate::policy::{BlockFacts, Label, ZoneFacts};
use crate::slots;
use crate::stats::Broken;
use crate::sync::Ordering::Relaxed;
use crate::units::{Mobility, Order};

/// The frames of a zone, counted one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recount {
    /// Frames that exist.
    pub present: u64,
    /// Free frames in pageblocks.
    pub free: u64,
    /// Frames of blocks in CPU caches.
    pub cached: u64,
    /// Allocated frames, by mobility.
    pub allocated: [u64; 3],
}

impl<'m, P: FramePlatform> Zone<'m, P> {
    /// Counts everything from the tags and the bitmaps. Stops all CPUs. O(frames).
    pub fn recount(&self) -> Recount {
        let _stopped = self.stop();
        let mut sum = Recount::default();
        for id in 0..self.map.blocks {
            let (facts, cached) = self.recount_pageblock(id);
            sum.present += self.map.block_frames() - u64::from(facts.absent);
            sum.free += u64::from(facts.free);
            for (sum, frames) in sum.allocated.iter_mut().zip(facts.by_mobility) {
                *sum += u64::from(frames);
            }
            sum.cached += cached.iter().map(|&frames| u64::from(frames)).sum::<u64>();
        }
        sum
    }

    /// Checks every invariant F1 to F7 against a recount. Stops all CPUs. O(frames and index).
    ///
    /// # Errors
    /// The first one that does not hold, with the number of the pageblock or of the seat.
    pub fn verify(&self) -> Result<(), Broken> {
        let _stopped = self.stop();
        let mut present = 0;
        let mut free = 0;
        for id in 0..self.map.blocks {
            let holds = |invariant, holds| Broken::unless(holds, invariant, id as u64);
            let counted = self.facts(id);
            let (facts, cached) = self.recount_pageblock(id);
            let mut by_mobility = facts.by_mobility;
            for (frames, cached) in by_mobility.iter_mut().zip(cached) {
                *frames += cached;
            }
            let all = facts.free + facts.absent + by_mobility.iter().sum::<u32>();
            holds("F1", u64::from(all) == self.map.block_frames())?;
            let same = facts.free == counted.free && facts.absent == counted.absent;
            holds("F2", same && by_mobility == counted.by_mobility)?;
            holds(
                "F4",
                self.try_lock(self.unseated_counters(), id)
                    .map(super::super::pageblock::HeldBlock::unlock)
                    .is_some(),
            )?;
            let remote = self.remote_bitmap(id);
            holds("F4", remote.iter().all(|word| word.load(Relaxed) == 0))?;
            holds("F5", self.is_indexed_exactly(id))?;
            present += self.map.block_frames() - u64::from(facts.absent);
            free += u64::from(facts.free);
        }
        let of_zone = |invariant, holds| Broken::unless(holds, invariant, 0);
        of_zone("F5", self.index.is_consistent())?;
        let mut cached = 0;
        for seat in self.all_seats() {
            let is_cached = |holds| Broken::unless(holds, "F3", u64::from(seat.number));
            let may_hold = |mobility, order| seat.may_hold() & cache_bit(mobility, order) != 0;
            for mobility in Mobility::ALL {
                let (start, words) = seat.stock(mobility).unwrap_or((0, 0));
                is_cached(words == 0 || may_hold(mobility, 0))?;
                for word in 0..words {
                    let tag = self.tag(start + word * WORD_FRAMES);
                    is_cached(tag == Tag::stocked(seat.number, mobility))?;
                    cached += WORD_FRAMES as u64;
                }
            }
            for order in 0..CACHED_ORDERS {
                let order = Order::new(order as u8).expect("cached orders are small");
                for mobility in Mobility::ALL {
                    let count = seat.cached(mobility, order.index());
                    let has_room = count > 0 || seat.limit(mobility, order.index()) > 0;
                    is_cached(!has_room || may_hold(mobility, order.index()))?;
                    let tag = Tag::cached(seat.number, order, mobility);
                    let entries = &seat.entries(mobility, order.index())[..count];
                    for entry in entries {
                        is_cached(self.tag(entry.load(Relaxed) as usize) == tag)?;
                    }
                    cached += count as u64 * order.frames();
                }
            }
        }
        let tagged = self.all_cached_frames();
        of_zone("F3", cached == tagged)?;
        of_zone("F6", present == self.present_frames())?;
        of_zone("F6", free == self.free_in_pageblocks())?;
        of_zone("F6", self.stats().nr_free_pages == free + cached)?;
        of_zone("F6", self.zone_facts() == self.recount_facts())?;
        of_zone("F7", self.corruptions() == 0)
    }

    fn recount_facts(&self) -> ZoneFacts {
        let mut sum = ZoneFacts {
            frames: self.present_frames(),
            ..ZoneFacts::default()
        };
        for id in 0..self.map.blocks {
            let mut runs = [0; 11];
            slots::count_runs(self.bitmap(id), &mut runs);
            let large = runs.iter().enumerate().skip(3);
            sum.free_large += large.map(|(o, &runs)| u64::from(runs) << o).sum::<u64>();
            sum.blocks_of_order_2 += u64::from(runs[2]);
            let facts = self.facts(id);
            sum.free += u64::from(facts.free);
            if facts.label == Label::Contiguous {
                sum.free_lent += u64::from(facts.free);
            }
        }
        sum
    }

    fn all_cached_frames(&self) -> u64 {
        (0..self.map.blocks << self.map.pageblock_order)
            .filter_map(|offset| self.tag(offset).as_cached())
            .map(|(_, order, _)| order.frames())
            .sum()
    }

    /// A pageblock's facts from tags and bitmap alone, and its cached frames by mobility. The
    /// frames of a block larger than a pageblock are found from the block's first frame.
    fn recount_pageblock(&self, id: usize) -> (BlockFacts, [u32; 3]) {
        let first = id << self.map.pageblock_order;
        let frames = self.map.block_frames() as usize;
        let bitmap = self.bitmap(id);
        let mut facts = BlockFacts {
            label: self.meta(id).label(),
            free: slots::free_slots(bitmap),
            by_mobility: [0; 3],
            absent: 0,
        };
        let mut cached = [0; 3];
        for offset in first..first + frames {
            let tag = self.tag(offset);
            let slot = offset - first;
            let is_free = bitmap[slot / 64].load(Relaxed) >> (slot % 64) & 1 != 0;
            if tag == Tag::ABSENT {
                facts.absent += 1;
            } else if let Some((order, mobility)) = tag.as_live() {
                let here = order.frames().min(self.map.block_frames());
                facts.by_mobility[mobility.index()] += here as u32;
            } else if let Some((_, order, mobility)) = tag.as_cached() {
                cached[mobility.index()] += order.frames() as u32;
            } else if slot == 0
                && !is_free
                && let Some((start, _, mobility)) = self.enclosing(offset, Order::ZERO)
                && start != offset
            {
                facts.by_mobility[mobility.index()] += frames as u32;
            }
        }
        // No tag and no bit says anything of any frame, nor does a block from before reach here: none exists.
        let counted = facts.free + facts.absent + facts.by_mobility.iter().sum::<u32>();
        if counted + cached.iter().sum::<u32>() == 0 {
            facts.absent = frames as u32;
        }
        (facts, cached)
    }

    /// Whether the pageblock is in exactly the rows that its bitmap requires.
    fn is_indexed_exactly(&self, id: usize) -> bool {
        let mut runs = [0; 11];
        slots::count_runs(self.bitmap(id), &mut runs);
        let facts = self.facts(id);
        let classes = self.policy.classes();
        let class = classes.number(self.policy.class(&facts));
        let meta = self.meta(id);
        let orders = (0..=usize::from(self.map.pageblock_order))
            .filter(|&order| runs[order] > 0)
            .fold(0u16, |orders, order| orders | 1 << order);
        meta.orders() == orders
            && meta.class() == class
            && (0..=usize::from(self.map.pageblock_order)).all(|order| {
                (0..classes.count()).all(|number| {
                    let expected = number == usize::from(class)
                        && orders >> order & 1 != 0
                        && !meta.is_isolated();
                    self.index.contains(self.row(order, number as u16), id) == expected
                })
            })
    }
}
