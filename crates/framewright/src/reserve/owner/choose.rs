//! Chooses the run of an owner without a reservation: one that costs the fewest pages.

use super::super::area::Reserve;
use super::super::places::{Cost, RunPlaces};
use crate::platform::ReservePlatform;
use crate::slots::ones_at;
use crate::sync::Ordering::Relaxed;
use core::ops::{Add, Range, Sub};

/// What taking a run would cost. Guests work meanwhile, so what a sliding run adds at one end may differ
/// a little from what it subtracts at the other: a sum is an estimate, and may be below zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct RunCost {
    /// Frames that cannot be taken, reserved or owned: exact, under the owners' lock.
    impossible: u32,
    /// Pages that are not yet on their device and are not to be put back. It counts pages, not
    /// words with such pages: the ends of a run may cut a word, and its parts are then
    /// subtracted one by one.
    dirty: i32,
    /// Pages. One that was got lately counts twice, one to be put back counts [`PUT_BACK_PAGES`]
    /// times.
    pages: i64,
}

/// The cost of a page that is to be put back. Copying it takes 0.9 to 2.1 µs and a discard some ns,
/// but a clean page that is dropped may have to be read again. The factor lies between the two.
const PUT_BACK_PAGES: i64 = 64;

impl Add for RunCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            impossible: self.impossible + other.impossible,
            dirty: self.dirty + other.dirty,
            pages: self.pages + other.pages,
        }
    }
}

impl Sub for RunCost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            impossible: self.impossible - other.impossible,
            dirty: self.dirty - other.dirty,
            pages: self.pages - other.pages,
        }
    }
}

impl Cost for RunCost {
    fn is_possible(self) -> bool {
        self.impossible == 0 && self.dirty <= 0
    }

    fn price(self) -> i64 {
        self.pages
    }
}

impl<P: ReservePlatform> Reserve<'_, P> {
    /// What taking the frames of a word would cost, if those that can be put back may be.
    #[inline]
    fn cost_of_word(&self, nth: usize, mask: u64, put_back: bool) -> RunCost {
        let lane = self.table.lane(nth);
        let impossible = lane.unavailable() & mask;
        let pages = mask & !lane.free.load(Relaxed);
        if pages == 0 {
            return RunCost {
                impossible: impossible.count_ones(),
                ..RunCost::default()
            };
        }
        let hot = pages & lane.visited.load(Relaxed);
        let mut dirty = lane.dirty() & mask;
        let mut moved = 0;
        if put_back && dirty != 0 {
            moved = dirty & lane.movable.load(Relaxed);
            dirty &= !moved;
        }
        let count = |bits: u64| match bits {
            0 => 0,
            u64::MAX => 64,
            _ => i64::from(bits.count_ones()),
        };
        RunCost {
            impossible: impossible.count_ones(),
            dirty: count(dirty) as i32,
            pages: count(pages) + count(hot) + count(moved) * PUT_BACK_PAGES,
        }
    }

    /// The cheapest run that can be taken.
    pub(super) fn cheapest(&self, frames: u64, align: u64, put_back: bool) -> Option<Range<usize>> {
        let places = RunPlaces::new(self.run(), frames, align)?;
        if frames == 1 && align == 1 {
            let movable = || {
                let lanes = (0..self.table.frames().div_ceil(64)).filter(|_| put_back);
                let mut bits = lanes.map(|nth| {
                    let lane = self.table.lane(nth);
                    (nth, lane.movable.load(Relaxed) & !lane.unavailable())
                });
                let (nth, bits) = bits.find(|(_, bits)| *bits != 0)?;
                let id = nth * 64 + bits.trailing_zeros() as usize;
                Some(id..id + 1)
            };
            return self.cheapest_frame().or_else(movable);
        }
        let step = frames.next_power_of_two().min(64) as usize;
        let cost = |nth, mask| self.cost_of_word(nth, mask, put_back);
        let obstacles = |nth| {
            let lane = self.table.lane(nth);
            lane.unavailable() | lane.staying(put_back)
        };
        // A place that is not on the grid will do if no place on it is possible.
        let at = places.cheapest(step, &(0..self.table.frames()), cost);
        let at = at.or_else(|| places.first_fit(0, obstacles))?;
        Some(places.run_at(at))
    }

    /// A single frame: free if there is one near, else one that was not got lately.
    fn cheapest_frame(&self) -> Option<Range<usize>> {
        let words = self.table.frames().div_ceil(64);
        let begin = self.own.cursor.load(Relaxed) as usize % words;
        let has_free = (0..self.queues[0].len()).any(|shard| self.queues[0].can_have_free(shard));
        let look = |wants_free: bool, wants_cold: bool| {
            let nth = (begin..words).chain(0..begin);
            let found = nth.map(|nth| {
                let last = self.table.frames() - nth * 64;
                let inside = ones_at(0, last.min(64) as u32);
                let lane = self.table.lane(nth);
                let mut bits = inside & !(lane.unavailable_or_dirty());
                if wants_free {
                    bits &= lane.free.load(Relaxed);
                } else if wants_cold {
                    bits &= !lane.visited.load(Relaxed);
                }
                (nth, bits)
            });
            let found = found.into_iter().find(|(_, bits)| *bits != 0);
            found.map(|(nth, bits)| (nth, nth * 64 + bits.trailing_zeros() as usize))
        };
        let free = if has_free { look(true, false) } else { None };
        let found = free
            .or_else(|| look(false, true))
            .or_else(|| look(false, false));
        let (nth, id) = found?;
        self.own.cursor.store(nth as u64, Relaxed);
        Some(id..id + 1)
    }
}
