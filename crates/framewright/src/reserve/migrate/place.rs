//! Where a run is tried.

use super::{FrameBits, MigrateArea};
use crate::reserve::places::{Cost, RunPlaces};
use crate::slots::{first_of, ones_at};
use crate::sync::Ordering::Relaxed;
use core::ops::{Add, Range, Sub};

/// In how many of the emptiest pageblocks a place for a run shorter than one is looked for.
const EMPTIEST: usize = 8;

/// What is in the way of a run, in frames. Only the first is exact: other CPUs are at work
/// meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct RunObstacles {
    /// Claimed, reserved, or known not to go away.
    taken: i64,
    /// In pageblocks that are pinned or that another CPU is emptying.
    shut: i64,
    /// In use.
    used: i64,
}

impl Add for RunObstacles {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            shut: self.shut + other.shut,
            used: self.used + other.used,
        }
    }
}

impl Sub for RunObstacles {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            taken: self.taken - other.taken,
            shut: self.shut - other.shut,
            used: self.used - other.used,
        }
    }
}

impl Cost for RunObstacles {
    fn is_possible(self) -> bool {
        self.taken <= 0 && self.shut <= 0
    }

    fn price(self) -> i64 {
        self.used
    }
}

/// Under the claims' lock.
impl<P> MigrateArea<'_, '_, '_, P> {
    /// The place for a run, not before `from` where that is first fit. Time: a few ns for each 64
    /// frames.
    pub(super) fn place(&self, places: RunPlaces, from: usize) -> Option<Range<usize>> {
        let at = if self.config.first_fit {
            places.first_fit(from, |nth| self.taken_bits(nth, false))
        } else {
            self.cheapest(places)
        };
        at.map(|at| places.run_at(at))
    }

    /// A place that will be there if other owners fail to take what they have claimed, and other CPUs
    /// end emptying pageblocks; and that this is so. Else a place that would be there if no pageblock
    /// were pinned either.
    pub(super) fn place_in_transit(&self, places: RunPlaces) -> Option<(usize, bool)> {
        let lasts = |nth| {
            self.any_of(
                nth,
                &[FrameBits::Owned, FrameBits::Reserved, FrameBits::Avoided],
            )
        };
        let is_pinned = |pins| matches!(pins, Some(1..));
        let in_transit = places.first_fit(0, |nth| lasts(nth) | self.bits_of(nth, is_pinned));
        match in_transit {
            Some(start) => Some((start, true)),
            None => Some((places.first_fit(0, lasts)?, false)),
        }
    }

    /// The highest run without a bit of `bits`.
    pub(super) fn last_fit(&self, places: RunPlaces, bits: &[FrameBits]) -> Option<Range<usize>> {
        let mut end = self.frames();
        loop {
            let ids = places.run_at(places.below(end)?);
            match first_of(&ids, |nth| self.any_of(nth, bits)) {
                None => return Some(ids),
                Some(obstacle) => end = obstacle,
            }
        }
    }

    fn frames(&self) -> usize {
        self.run.frames() as usize
    }

    fn any_of(&self, nth: usize, bits: &[FrameBits]) -> u64 {
        bits.iter()
            .fold(0, |sum, &bits| sum | self.bitmap(bits)[nth].load(Relaxed))
    }

    /// Which of 64 frames cannot be taken, as far as the area itself knows.
    fn taken_bits(&self, nth: usize, avoids: bool) -> u64 {
        if avoids {
            self.any_of(
                nth,
                &[FrameBits::Claimed, FrameBits::Reserved, FrameBits::Avoided],
            )
        } else {
            self.any_of(nth, &[FrameBits::Claimed, FrameBits::Reserved])
        }
    }

    /// Which of 64 frames lie in pageblocks that are pinned, or that another CPU is emptying.
    fn shut_bits(&self, nth: usize) -> u64 {
        self.bits_of(nth, |pins| pins != Some(0))
    }

    /// Which of 64 frames lie in pageblocks with such pins; `None` if another CPU is emptying one.
    fn bits_of(&self, nth: usize, matches: impl Fn(Option<u32>) -> bool) -> u64 {
        let zone = self.reclaim.zone();
        let offset = self.first + nth * 64;
        let end = (offset + 64).min(self.first + self.frames());
        let ids = zone.pageblock_of(offset)..zone.pageblock_of(end - 1) + 1;
        ids.fold(0, |bits, id| {
            if !matches(zone.pins_if_open(id)) {
                return bits;
            }
            let here = zone.offsets_of(&(id..id + 1));
            let from = here.start.max(offset) - offset;
            let to = here.end.min(end) - offset;
            bits | ones_at(from as u32, (to - from) as u32)
        })
    }

    /// The place with the fewest frames in use, as far as the search went.
    fn cheapest(&self, places: RunPlaces) -> Option<usize> {
        let found = if places.run_at(0).len() < self.block_frames() {
            self.cheapest_in_emptiest(places)
        } else {
            // The search takes a few ns for each 64 frames of the area.
            places.cheapest(64, &(0..self.frames()), |nth, mask| {
                self.in_the_way(nth, mask)
            })
        };
        let blocked = |nth| self.taken_bits(nth, true) | self.shut_bits(nth);
        found.or_else(|| places.first_fit(0, blocked))
    }

    fn block_frames(&self) -> usize {
        self.reclaim.zone().pageblock_order().frames() as usize
    }

    fn in_the_way(&self, nth: usize, mask: u64) -> RunObstacles {
        let zone = self.reclaim.zone();
        let count = |bits: u64| i64::from((bits & mask).count_ones());
        let end = self.first + self.frames();
        RunObstacles {
            taken: count(self.taken_bits(nth, true)),
            shut: count(self.shut_bits(nth)),
            used: count(!zone.free_bits(self.first + nth * 64, end)),
        }
    }

    /// For a run that is shorter than a pageblock: looks at the emptiest pageblocks in turn.
    /// Returns the cheapest place in the first of them that has one.
    fn cheapest_in_emptiest(&self, places: RunPlaces) -> Option<usize> {
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
            let found = places.cheapest(1, &starts, |nth, mask| self.in_the_way(nth, mask));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
