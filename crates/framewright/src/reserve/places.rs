//! Where a run could be in an area: the places that its alignment leaves, the first with nothing in
//! the way, and the cheapest. Both kinds of area share this search.

use crate::slots::{first_of, words_of};
use crate::units::Run;
use core::ops::{Add, Range, Sub};

/// The cost of a run that slides over the frames: a sum that gains at one end what it loses at the other.
/// Other CPUs may work meanwhile, so a part may be subtracted with another value than it was added
/// with.
pub(super) trait Cost: Copy + Default + Add<Output = Self> + Sub<Output = Self> {
    /// Whether the run can be taken, as far as the search saw.
    fn is_possible(self) -> bool;

    /// The price that possible runs are compared by. No price is below zero.
    fn price(self) -> i64;
}

/// The places of a run in an area, as numbers of its frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunPlaces {
    /// The area's first frame, from which the alignment counts.
    start: u64,
    /// Frames of the area.
    all: usize,
    /// Frames of the run, at most as many.
    frames: usize,
    align: u64,
}

impl RunPlaces {
    /// The places of runs of `frames` frames, the first at a multiple of `align`; `None` if `area`
    /// is too short to have any.
    #[inline]
    pub(super) fn new(area: Run, frames: u64, align: u64) -> Option<Self> {
        debug_assert!(align.is_power_of_two(), "asked before");
        let places = Self {
            start: area.start().0,
            all: usize::try_from(area.frames()).ok()?,
            frames: usize::try_from(frames).ok()?,
            align,
        };
        (places.frames <= places.all).then_some(places)
    }

    /// The run at a place.
    #[inline]
    pub(super) const fn run_at(self, at: usize) -> Range<usize> {
        at..at + self.frames
    }

    /// The lowest place at or after `at`.
    #[inline]
    fn from(self, at: usize) -> Option<usize> {
        let frame = self.start.checked_add(at as u64)?;
        let aligned = frame.checked_next_multiple_of(self.align)?;
        let at = usize::try_from(aligned - self.start).ok()?;
        (at <= self.all - self.frames).then_some(at)
    }

    /// The highest place whose run ends at or before `end`.
    pub(super) fn below(self, end: usize) -> Option<usize> {
        let frame = self.start + end.checked_sub(self.frames)? as u64;
        let aligned = frame / self.align * self.align;
        usize::try_from(aligned.checked_sub(self.start)?).ok()
    }

    /// The lowest place, at or after `from`, whose run has no `blocked` frame.
    pub(super) fn first_fit(self, from: usize, blocked: impl Fn(usize) -> u64) -> Option<usize> {
        let mut at = self.from(from)?;
        while let Some(obstacle) = first_of(&self.run_at(at), &blocked) {
            at = self.from(obstacle + 1)?;
        }
        Some(at)
    }

    /// The cheapest place on a grid, of those in `starts`; the lowest of several. On a grid a
    /// run slides over the area piece by piece. The grid is that of the alignment, and not finer
    /// than `step`, which is a power of two. `of_word` says what the bits of 64 frames cost.
    #[inline]
    pub(super) fn cheapest<C: Cost>(
        self,
        step: usize,
        starts: &Range<usize>,
        of_word: impl Fn(usize, u64) -> C,
    ) -> Option<usize> {
        let cost = |ids: Range<usize>| {
            let words = words_of(&ids).map(|(nth, mask)| of_word(nth, mask));
            words.fold(C::default(), |sum, word| sum + word)
        };
        let grid = usize::try_from(self.align).ok()?.max(step);
        let (whole, rest) = (self.frames / grid * grid, self.frames % grid);
        let last = self.all - self.frames;
        let mut at = self.from(starts.start)?;
        let mut sum = cost(at..at + whole);
        let mut best: Option<(i64, usize)> = None;
        while at < starts.end {
            let here = sum + cost(at + whole..at + whole + rest);
            if here.is_possible() && best.is_none_or(|(price, _)| here.price() < price) {
                best = Some((here.price(), at));
                if here.price() <= 0 {
                    break;
                }
            }
            let next = at.saturating_add(grid);
            if next > last {
                break;
            }
            if whole > 0 {
                sum = sum - cost(at..next);
                sum = sum + cost(at + whole..next + whole);
            }
            at = next;
        }
        best.map(|(_, at)| at)
    }
}
