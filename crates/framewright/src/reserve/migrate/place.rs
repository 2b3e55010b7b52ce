//! Where a run is tried.

use super::{Bits, MigrateArea, words_of};
use crate::policy::Place;
use crate::sync::Ordering::Relaxed;
use core::ops::Range;

/// In how many of the emptiest pageblocks a place for a run shorter than one is looked for.
const EMPTIEST: usize = 8;

/// What is in the way of a run, in frames. Only the first is exact: guests are at work meanwhile, and what
/// is added at one end of a window and subtracted at the other may differ by a little.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cost {
    /// Claimed, kept, or known not to go away.
    taken: i64,
    /// In pageblocks that are pinned or that somebody is emptying.
    shut: i64,
    /// In use.
    used: i64,
}

impl Cost {
    const fn plus(self, other: Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            shut: self.shut + other.shut,
            used: self.used + other.used,
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            taken: self.taken - other.taken,
            shut: self.shut - other.shut,
            used: self.used - other.used,
        }
    }

    const fn is_possible(self) -> bool {
        self.taken <= 0 && self.shut <= 0
    }
}

/// Under the claims' lock.
impl<P> MigrateArea<'_, '_, '_, P> {
    /// The place for a run, not before `from` where that is first fit. Time: a few ns for each 64
    /// frames.
    pub(super) fn place(&self, frames: usize, align: u64, from: usize) -> Option<Range<usize>> {
        let start = match self.config.place {
            Place::FirstFit => {
                self.first_fit(frames, align, from, |nth| self.taken_bits(nth, false))
            }
            Place::Cheapest => self.cheapest(frames, align),
        }?;
        Some(start..start + frames)
    }

    /// A place that would be there if pageblocks were not pinned, and nobody was emptying them; and
    /// whether somebody is.
    pub(super) fn place_if_opened(&self, frames: usize, align: u64) -> Option<(usize, bool)> {
        let start = self.first_fit(frames, align, 0, |nth| self.taken_bits(nth, true))?;
        let zone = self.reclaim.zone();
        let offsets = self.first + start..self.first + start + frames;
        let mut ids = zone.pageblock_of(offsets.start)..zone.pageblock_of(offsets.end - 1) + 1;
        Some((start, ids.any(|id| zone.pins_if_open(id).is_none())))
    }

    /// The highest run without a bit of `bits`.
    pub(super) fn last_fit(
        &self,
        frames: usize,
        align: u64,
        bits: &[Bits],
    ) -> Option<Range<usize>> {
        let start = self.run.start().0;
        let mut end = self.frames();
        loop {
            let at = (start + end.checked_sub(frames)? as u64) / align * align;
            let at = at.checked_sub(start)? as usize;
            let blocked = |nth| self.any_of(nth, bits);
            match first_of(&(at..at + frames), blocked) {
                None => return Some(at..at + frames),
                Some(obstacle) => end = obstacle,
            }
        }
    }

    fn frames(&self) -> usize {
        self.run.frames() as usize
    }

    fn any_of(&self, nth: usize, bits: &[Bits]) -> u64 {
        bits.iter()
            .fold(0, |sum, &bits| sum | self.bitmap(bits)[nth].load(Relaxed))
    }

    /// What of 64 frames cannot be had, as far as the area itself knows.
    fn taken_bits(&self, nth: usize, avoids: bool) -> u64 {
        if avoids {
            self.any_of(nth, &[Bits::Claimed, Bits::Kept, Bits::Avoided])
        } else {
            self.any_of(nth, &[Bits::Claimed, Bits::Kept])
        }
    }

    /// What of 64 frames lies in pageblocks that are pinned, or that somebody is emptying.
    fn shut_bits(&self, nth: usize) -> u64 {
        let zone = self.reclaim.zone();
        let offset = self.first + nth * 64;
        let end = (offset + 64).min(self.first + self.frames());
        let ids = zone.pageblock_of(offset)..zone.pageblock_of(end - 1) + 1;
        ids.fold(0, |bits, id| {
            if zone.pins_if_open(id) == Some(0) {
                return bits;
            }
            let here = zone.offsets_of(&(id..id + 1));
            let from = here.start.max(offset) - offset;
            let to = here.end.min(end) - offset;
            bits | (u64::MAX >> (64 - (to - from))) << from
        })
    }

    /// The first multiple of `align` frames from `at` on, in the area.
    fn aligned(&self, at: usize, align: u64) -> Option<usize> {
        let start = self.run.start().0;
        let aligned = (start + at as u64).checked_next_multiple_of(align)?;
        usize::try_from(aligned - start).ok()
    }

    /// The lowest run from `from` on none of whose bits are set in `blocked`.
    fn first_fit(
        &self,
        frames: usize,
        align: u64,
        from: usize,
        blocked: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let mut at = self.aligned(from, align)?;
        while at.checked_add(frames)? <= self.frames() {
            match first_of(&(at..at + frames), &blocked) {
                None => return Some(at),
                Some(obstacle) => at = self.aligned(obstacle + 1, align)?,
            }
        }
        None
    }

    /// The run with the fewest frames in use, as far as it was looked for.
    fn cheapest(&self, frames: usize, align: u64) -> Option<usize> {
        let found = if frames < self.block_frames() {
            self.cheapest_in_emptiest(frames, align)
        } else {
            self.cheapest_long(frames, align)
        };
        found.or_else(|| {
            let blocked = |nth| self.taken_bits(nth, true) | self.shut_bits(nth);
            self.first_fit(frames, align, 0, blocked)
        })
    }

    fn block_frames(&self) -> usize {
        self.reclaim.zone().pageblock_order().frames() as usize
    }

    fn cost(&self, ids: &Range<usize>) -> Cost {
        words_of(ids)
            .map(|(nth, mask)| self.cost_of_word(nth, mask))
            .fold(Cost::default(), Cost::plus)
    }

    fn cost_of_word(&self, nth: usize, mask: u64) -> Cost {
        let zone = self.reclaim.zone();
        let count = |bits: u64| i64::from((bits & mask).count_ones());
        let end = self.first + self.frames();
        Cost {
            taken: count(self.taken_bits(nth, true)),
            shut: count(self.shut_bits(nth)),
            used: count(!zone.free_bits(self.first + nth * 64, end)),
        }
    }

    /// A run that is shorter than a pageblock and starts in one of the emptiest: of the first of those in
    /// which there is a place, the cheapest one.
    fn cheapest_in_emptiest(&self, frames: usize, align: u64) -> Option<usize> {
        let zone = self.reclaim.zone();
        let blocks = self.frames() / self.block_frames();
        let first = zone.pageblock_of(self.first);
        let used = |nth: usize| zone.pageblock(first + nth).movable();
        let is_open = |nth: usize| zone.pins_if_open(first + nth) == Some(0);
        let mut before = None;
        for _ in 0..EMPTIEST {
            let next = (0..blocks)
                .map(|nth| (used(nth), nth))
                .filter(|&candidate| Some(candidate) > before && is_open(candidate.1))
                .min()?;
            before = Some(next);
            let start = next.1 * self.block_frames();
            let starts = start..start + self.block_frames();
            if let Some(found) = self.cheapest_among(frames, align, starts) {
                return Some(found);
            }
        }
        None
    }

    /// The cheapest run that starts in `starts`.
    fn cheapest_among(&self, frames: usize, align: u64, starts: Range<usize>) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        let mut at = self.aligned(starts.start, align)?;
        while at < starts.end && at.checked_add(frames)? <= self.frames() {
            let cost = self.cost(&(at..at + frames));
            if cost.is_possible() && best.is_none_or(|(used, _)| cost.used < used) {
                best = Some((cost.used, at));
                if cost.used == 0 {
                    break;
                }
            }
            at = self.aligned(at + 1, align)?;
        }
        best.map(|(_, at)| at)
    }

    /// A run as long as a pageblock or longer: candidates stand on a grid, so that a window slides over
    /// it piece by piece.
    fn cheapest_long(&self, frames: usize, align: u64) -> Option<usize> {
        let grid = usize::try_from(align).ok()?.max(64);
        let (whole, rest) = (frames / grid * grid, frames % grid);
        let mut at = self.aligned(0, align)?;
        if at.checked_add(frames)? > self.frames() {
            return None;
        }
        let mut sum = self.cost(&(at..at + whole));
        let mut best: Option<(i64, usize)> = None;
        loop {
            let tail = at + whole..at + whole + rest;
            let cost = sum.plus(self.cost(&tail));
            if cost.is_possible() && best.is_none_or(|(used, _)| cost.used < used) {
                best = Some((cost.used, at));
                if cost.used <= 0 {
                    break;
                }
            }
            let next = at.checked_add(grid)?;
            if next.checked_add(frames)? > self.frames() {
                break;
            }
            if whole > 0 {
                sum = sum.minus(self.cost(&(at..next)));
                sum = sum.plus(self.cost(&(at + whole..next + whole)));
            }
            at = next;
        }
        best.map(|(_, at)| at)
    }
}

/// The first frame of `ids` that is `blocked`.
fn first_of(ids: &Range<usize>, blocked: impl Fn(usize) -> u64) -> Option<usize> {
    words_of(ids).find_map(|(nth, mask)| {
        let bits = blocked(nth) & mask;
        (bits != 0).then(|| nth * 64 + bits.trailing_zeros() as usize)
    })
}
