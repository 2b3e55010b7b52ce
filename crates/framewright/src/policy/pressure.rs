//! What to do about pressure: how much to ask of which client, for how long, and where it ends.

use super::Watermarks;
use crate::units::{Order, SetupError};

/// How reclaim and compaction of one zone work, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReclaimConfig {
    /// Where priorities begin, 31 at most: at priority p a client is asked to look at what it holds,
    /// divided by 2^p. Each round that does not bring enough goes one deeper, down to 0, which is all.
    pub priority_first: u8,
    /// The most rounds of direct reclaim for one request. More than `priority_first`, so that the
    /// deepest priority is reached before a request fails; 1024 at most.
    pub rounds_max: u16,
    /// Frames that a request wants at least when it reclaims, and the background at a time: 1 to
    /// 4096. One call for that many costs little for each, and a request that waits brings enough
    /// for some requests after it.
    pub batch_frames: u16,
    /// Frames that a CPU takes at most between two looks at the watermarks, 1 to 4096; fewer, the
    /// nearer free memory is to `min`.
    pub quota_frames: u16,
    /// The most attempts of compaction for one request, 1 to 16: before reclaim, and again when
    /// reclaim has brought enough for another. Besides, one attempt for a whole pageblock and one
    /// for half of one may be made, if they serve later requests, too.
    pub compactions_max: u8,
    /// After this many failed attempts of compaction, each of which leaves off for twice as many
    /// requests as the one before, the number of requests does not grow further: 2 to the power of
    /// this, 16 at most.
    pub defer_shift_max: u8,
    /// How much of the watermarks in whole pageblocks the background
    /// keeps, in percent, 1000 at most; with 0 it does not keep whole pageblocks.
    pub pageblocks_percent: u16,
    /// How many frames the background keeps free in settled pageblocks, those of which at least an
    /// eighth cannot move, in percent of the frames in the pageblocks that it keeps, 1000 at most;
    /// with 0 it keeps none. Unmovable contents then find room there, and need not settle anywhere
    /// else. To keep these frames free, movable contents are moved out of there, and a request that
    /// would contaminate a pageblock does that itself.
    pub stock_percent: u16,
    /// How far fallbacks that pollute may raise the background's targets, in percent of the high
    /// watermark, 400 at most; 0: they do not.
    pub boost_percent: u16,
    /// Whether an unmovable request that may reclaim has the cheapest pageblock emptied before it
    /// goes into a pageblock with movable contents only. Else it asks the background for one, and
    /// goes there this time. Off, unless asked for: on the recorded traces it cost 56 and 95 stalls
    /// of order 2, and did not reduce the number of contaminated pageblocks.
    pub empties_for_nonmovable: bool,
}

impl Default for ReclaimConfig {
    /// Linux's numbers, where it has one: `DEF_PRIORITY` 12, `MAX_RECLAIM_RETRIES` 16 beyond the 13
    /// priorities (rounded up), `COMPACT_MAX_DEFER_SHIFT` 6, `watermark_boost_factor` 150 %,
    /// `defrag_mode`'s high watermark in whole pageblocks. A batch is four times
    /// `SWAP_CLUSTER_MAX`: one stall of some 0.1 ms instead of four.
    fn default() -> Self {
        Self {
            priority_first: 12,
            rounds_max: 32,
            batch_frames: 128,
            quota_frames: 32,
            compactions_max: 3,
            defer_shift_max: 6,
            pageblocks_percent: 100,
            stock_percent: 100,
            boost_percent: 150,
            empties_for_nonmovable: false,
        }
    }
}

impl ReclaimConfig {
    /// Checks every limit.
    ///
    /// # Errors
    /// The first limit that is not kept.
    pub const fn check(&self) -> Result<(), SetupError> {
        let rounds_min = self.priority_first as u64 + 1;
        let limits = [
            ("priority_first", self.priority_first as u64, 0, 31),
            ("rounds_max", self.rounds_max as u64, rounds_min, 1024),
            ("batch_frames", self.batch_frames as u64, 1, 4096),
            ("quota_frames", self.quota_frames as u64, 1, 4096),
            ("compactions_max", self.compactions_max as u64, 1, 16),
            ("defer_shift_max", self.defer_shift_max as u64, 0, 16),
            (
                "pageblocks_percent",
                self.pageblocks_percent as u64,
                0,
                1000,
            ),
            ("stock_percent", self.stock_percent as u64, 0, 1000),
            ("boost_percent", self.boost_percent as u64, 0, 400),
        ];
        SetupError::limits(&limits)
    }
}

/// How many of the `held` frames a client is asked to look at, at `priority`.
///
/// The frames held, divided by 2^priority; of that, the hotter they are, the less: all at heat 0, a
/// 256th at heat 255. At priority 0 all frames, however hot (R7). So each cache is asked in
/// proportion to what it holds and to how little that is missed, whichever cache comes first.
#[must_use]
pub(crate) const fn share(held: u64, heat: u8, priority: u8) -> u64 {
    if priority == 0 {
        return held;
    }
    let asked = if priority < u64::BITS as u8 {
        held >> priority
    } else {
        0
    };
    // A 256th of the rest, without a product that could overflow.
    let cold = 256 - heat as u64;
    asked / 256 * cold + asked % 256 * cold / 256
}

/// Frames that must be free for compaction to make a block of `order`: the block and as much again,
/// because for a while sources and targets exist side by side (`compact_gap`).
#[must_use]
pub(crate) const fn gap(order: Order) -> u64 {
    2 << order.get()
}

/// What helps a request of an order above 0 that found no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remedy {
    /// Enough is free, but in pieces.
    Compact,
    /// Too little is free, but there would be enough if clients gave some back.
    Reclaim,
    /// Neither: not even all that clients could give back would be enough.
    Nothing,
}

/// What helps a request of `order`, when `free` frames are free that it might use, `min` of which
/// it must leave, and clients hold `held`.
///
/// High-order reclaim goes on only as long as it can help: beyond what compaction needs, more free
/// frames do not make a block (`should_continue_reclaim`).
#[must_use]
pub(crate) const fn remedy(order: Order, free: u64, min: u64, held: u64) -> Remedy {
    let needed = min.saturating_add(gap(order));
    if free >= needed {
        Remedy::Compact
    } else if free.saturating_add(held) >= needed {
        Remedy::Reclaim
    } else {
        Remedy::Nothing
    }
}

/// The priority of the next round, or `None` if that was the last: the request has had all its
/// rounds, or the deepest priority brought nothing (R3, R7). `rounds` counts those so far.
#[must_use]
pub(crate) const fn next_priority(
    config: &ReclaimConfig,
    priority: u8,
    rounds: u16,
    freed: u64,
) -> Option<u8> {
    if rounds >= config.rounds_max || priority == 0 && freed == 0 {
        None
    } else {
        Some(priority.saturating_sub(1))
    }
}

/// How many frames one of `cpus` CPUs may take before it looks at the watermarks again: so few that
/// all of them together stay above `min`.
#[must_use]
pub(crate) const fn quota(config: &ReclaimConfig, free: u64, min: u64, cpus: u16) -> u32 {
    let cpus = if cpus == 0 { 1 } else { cpus as u64 };
    let each = free.saturating_sub(min) / cpus;
    if each < config.quota_frames as u64 {
        each as u32
    } else {
        config.quota_frames as u32
    }
}

/// Where the background begins and ends, and where requests reclaim themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Targets {
    /// In free frames. `min` is the zone's. `low` and `high` are above the zone's by the frames of
    /// the free pageblocks that are to be kept, because these do not help requests for frames.
    /// Frames that are held back do not count as free.
    pub frames: Watermarks,
    /// In entirely free pageblocks. All zero if none are to be kept.
    pub pageblocks: Watermarks,
    /// In free frames of settled pageblocks; `min` is zero. All zero if none are to be kept.
    pub stock: Watermarks,
}

impl ReclaimConfig {
    /// The targets of a zone with the watermarks `marks` and pageblocks of `pageblock_order`, raised by
    /// `boost` pageblocks.
    #[must_use]
    pub(crate) const fn targets(
        &self,
        marks: Watermarks,
        pageblock_order: Order,
        boost: u64,
    ) -> Targets {
        let percent = self.pageblocks_percent as u64;
        let part = Watermarks {
            min: marks.min * percent / 100,
            low: marks.low * percent / 100,
            high: marks.high * percent / 100,
        };
        let mut pageblocks = part.in_pageblocks(pageblock_order);
        let stocked = (self.stock_percent as u64) << pageblock_order.get();
        let stock = Watermarks {
            min: 0,
            low: pageblocks.low * stocked / 100,
            high: above(pageblocks) * stocked / 100,
        };
        if percent > 0 {
            pageblocks.low += boost;
            pageblocks.high += boost;
            pageblocks.high = above(pageblocks);
        }
        let each = pageblock_order.frames();
        let kept = if percent > 0 { pageblocks } else { MARKS_ZERO };
        let boosted = if percent > 0 { 0 } else { boost * each };
        Targets {
            frames: Watermarks {
                min: marks.min,
                low: marks.low + kept.low * each + boosted,
                high: marks.high + kept.high * each + boosted,
            },
            pageblocks: kept,
            stock,
        }
    }
}

/// The high mark, and at least one above the low one: rounding makes small watermarks equal, and
/// the background needs a distance to work over.
const fn above(marks: Watermarks) -> u64 {
    if marks.high > marks.low {
        marks.high
    } else {
        marks.low + 1
    }
}

/// How many of the `free` frames in settled pageblocks do not count as free for movable requests:
/// all, up to eight times the high target of the stock.
///
/// The next burst of kernel objects wants the frames that the last one freed there. If they counted
/// as free, page cache would fill them meanwhile. On a phone of 2.7 GiB the bursts are some 40,000
/// frames. Holding back the target, four times the target, and all came to 503, 451 and 417
/// contaminated pageblocks; eight times the target, and all, to 405 and 396, since the background
/// is woken as soon as a request settles in a new pageblock. Holding back more than that leaves
/// memory idle.
#[must_use]
pub(crate) const fn held_back(free: u64, targets: &Targets) -> u64 {
    const TIMES: u64 = 8;
    let max = targets.stock.high.saturating_mul(TIMES);
    if free < max { free } else { max }
}

const MARKS_ZERO: Watermarks = Watermarks {
    min: 0,
    low: 0,
    high: 0,
};

/// The boost, in pageblocks, after `fallbacks` more that polluted: one pageblock for each, up to
/// the configured part of the high watermark `high`, and at least one if that is not zero (Linux
/// raises by one pageblock, too).
#[must_use]
pub(crate) const fn boosted(
    config: &ReclaimConfig,
    boost: u64,
    fallbacks: u64,
    high: u64,
    pageblock_order: Order,
) -> u64 {
    if config.boost_percent == 0 || fallbacks == 0 {
        return boost;
    }
    let frames = high * config.boost_percent as u64 / 100;
    let max = frames >> pageblock_order.get();
    let max = if max == 0 { 1 } else { max };
    let sum = boost.saturating_add(fallbacks);
    if sum < max { sum } else { max }
}

/// The boost when the background goes to sleep: none if it reached the raised targets, and half if
/// it did not, so that it does not strive for ever for targets that cannot be reached.
#[must_use]
pub(crate) const fn boost_after(boost: u64, reached: bool) -> u64 {
    if reached { 0 } else { boost / 2 }
}

#[cfg(test)]
#[path = "tests/pressure.rs"]
mod tests;
