//! Runs of any length: the lowest that exists, the lowest that is free, pageblock by pageblock.

use super::super::AllocError;
use super::super::pageblock::Tag;
use super::Zone;
use super::run_memo::Sought;
use crate::policy::Label;
use crate::sync::Ordering::Relaxed;
use crate::units::Mobility;
use core::ops::Range;

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in super::super) struct RunSearch {
    pub(in super::super) found: Option<Range<usize>>,
    /// Pageblocks looked at.
    pub(in super::super) looks: u64,
}

/// How many frames of a pageblock match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Matching {
    None,
    Some,
    Whole,
}

impl<P> Zone<'_, P> {
    /// Why a run of `frames` frames was not found.
    pub(super) fn why_no_run(&self, frames: u64, mobility: Mobility) -> AllocError {
        if self.usable_frames(mobility) < frames {
            AllocError::Exhausted
        } else {
            AllocError::Fragmented
        }
    }

    /// Whether a run may lie in the pageblock, by its label.
    fn may_have_runs(&self, id: usize, mobility: Mobility) -> bool {
        let meta = self.meta(id);
        let may = match meta.label() {
            Label::Of(_) => true,
            Label::Contiguous => mobility.is_movable(),
            Label::HighOrder => false,
        };
        may && !meta.is_isolated()
    }

    /// Whether all frames of a range are free and may serve a run. For use with all CPUs stopped.
    pub(super) fn is_run_free(&self, offsets: &Range<usize>, mobility: Mobility) -> bool {
        let mut all = true;
        self.for_each_part(offsets, |id, slots| {
            let bitmap = self.bitmap(id);
            let is_free = |slot: usize| bitmap[slot / 64].load(Relaxed) >> (slot % 64) & 1 != 0;
            all = all && self.may_have_runs(id, mobility) && { slots }.all(is_free);
        });
        all
    }

    /// The lowest run that exists, free or not.
    pub(in super::super) fn find_present(&self, wanted: Sought) -> RunSearch {
        let frames = self.map.block_frames() as usize;
        let part = |id| match self.absent_before_tags(id) {
            0 => Matching::Whole,
            absent if absent == frames => Matching::None,
            _ => Matching::Some,
        };
        self.find_run(wanted, part, |id, word| {
            let first = (id << self.map.pageblock_order) + word * 64;
            let mut slots = 0..(frames - word * 64).min(64);
            slots
                .try_fold(0, |bits, slot| {
                    let is_present = self.tag(first + slot) != Tag::ABSENT;
                    Some(bits | u64::from(is_present) << slot)
                })
                .unwrap_or_default()
        })
    }

    /// The lowest run that is free and may serve requests of `mobility`. The result holds only
    /// while all CPUs stand still; else it is a hint where to look.
    pub(in super::super) fn find_free(&self, wanted: Sought, mobility: Mobility) -> RunSearch {
        let frames = self.map.block_frames();
        let part = |id| match u64::from(self.facts(id).free) {
            0 => Matching::None,
            _ if !self.may_have_runs(id, mobility) => Matching::None,
            free if free == frames => Matching::Whole,
            _ => Matching::Some,
        };
        self.find_run(wanted, part, |id, word| self.bitmap(id)[word].load(Relaxed))
    }

    /// The lowest run of matching frames. `part` says how many of each pageblock match, and the
    /// words say which, where only some do. A long run contains whole pageblocks, so one pageblock
    /// that is not whole rules out all places that would need it: the gaps between matching ranges
    /// cost one look for each length of the run.
    fn find_run(
        &self,
        wanted: Sought,
        part: impl Fn(usize) -> Matching,
        word_of: impl Fn(usize, usize) -> u64,
    ) -> RunSearch {
        let shift = self.map.pageblock_order;
        let frames = self.map.block_frames() as usize;
        let mut looks = 0;
        let part = |id: usize, looks: &mut u64| {
            *looks += 1;
            part(id)
        };
        // A run has at least this many whole pageblocks after the one that it begins in.
        let after = (wanted.frames >> shift).saturating_sub(1);
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        // Where the matching frames that end at the position of the search begin.
        let mut start = None;
        let mut id = 0;
        while id < self.map.blocks {
            if start.is_none() {
                let last = id.saturating_add(after);
                if last >= self.map.blocks {
                    break;
                }
                let mut needed = (id + 1..=last).rev();
                if let Some(obstacle) = needed.find(|&id| part(id, &mut looks) != Matching::Whole) {
                    id = obstacle;
                    continue;
                }
            }
            let first = id << shift;
            match part(id, &mut looks) {
                Matching::None => start = None,
                Matching::Whole => {
                    let from = *start.get_or_insert(first);
                    if let Some(found) = self.fit(wanted, from..first + frames) {
                        let found = Some(found);
                        return RunSearch { found, looks };
                    }
                }
                Matching::Some => {
                    for word in 0..frames.div_ceil(64) {
                        let (mut bits, mut at) = (word_of(id, word), first + word * 64);
                        let end = at + (frames - word * 64).min(64);
                        while at < end {
                            let gap = (bits.trailing_zeros() as usize).min(end - at);
                            if gap > 0 {
                                start = None;
                            }
                            at += gap;
                            if at == end {
                                break;
                            }
                            bits >>= gap;
                            let len = (bits.trailing_ones() as usize).min(end - at);
                            let from = *start.get_or_insert(at);
                            at += len;
                            if let Some(found) = self.fit(wanted, from..at) {
                                let found = Some(found);
                                return RunSearch { found, looks };
                            }
                            bits = bits.checked_shr(len as u32).unwrap_or(0);
                        }
                    }
                }
            }
            id += 1;
        }
        RunSearch { found: None, looks }
    }

    /// The lowest place of a run in a range.
    fn fit(&self, wanted: Sought, range: Range<usize>) -> Option<Range<usize>> {
        let first = self.frame(range.start).0;
        let start = first.checked_next_multiple_of(wanted.align)? - self.map.origin;
        let end = start.checked_add(wanted.frames)?;
        (end <= range.end as u64).then_some(start as usize..end as usize)
    }
}
