//! The runs that searches did not find, remembered by alignment.

use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::Mobility;

/// The run that a search is for.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sought {
    pub(in super::super) frames: u64,
    pub(in super::super) align: u64,
}

impl Sought {
    /// `None` if no such run can exist: without a frame, or with an alignment that is no power of
    /// two.
    pub(in super::super) const fn new(frames: u64, align: u64) -> Option<Self> {
        if frames == 0 || !align.is_power_of_two() {
            return None;
        }
        Some(Self { frames, align })
    }
}

/// The alignments that the memo of runs tells apart: each power of two.
const ALIGNMENTS: usize = u64::BITS as usize;

/// The words of a [`RunMemo`].
pub(super) const RUN_MEMO_WORDS: usize = 2 * 2 * ALIGNMENTS;

/// The runs that a search did not find, so that the same is not looked for again, and no CPU stopped for it, as
/// long as nothing becomes free.
///
/// Where there is no run, there is no longer one, and none of a larger alignment. So there is a shortest
/// length for each alignment, for movable requests and for others, with the sum of what had happened until then:
/// two words each. Zeroes are an empty memo. A CPU writes the words only with all CPUs stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunMemo<'m>(&'m [AtomicU64; RUN_MEMO_WORDS]);

impl<'m> RunMemo<'m> {
    pub(super) const fn new(words: &'m [AtomicU64; RUN_MEMO_WORDS]) -> Self {
        Self(words)
    }

    fn entry(self, log: usize, mobility: Mobility) -> [&'m AtomicU64; 2] {
        let words: &'m [AtomicU64] = self.0;
        let at = 2 * (ALIGNMENTS * usize::from(mobility.is_movable()) + log);
        [&words[at], &words[at + 1]]
    }

    /// With all CPUs stopped: no such run is free, cached or on its way, and so much has happened so far.
    pub(super) fn note(self, wanted: Sought, mobility: Mobility, happened: u64) {
        // The sum plus one: zero is the empty memo.
        let now = happened.wrapping_add(1);
        for log in wanted.align.trailing_zeros() as usize..ALIGNMENTS {
            let [sum, frames] = self.entry(log, mobility);
            if sum.load(Relaxed) == now && frames.load(Relaxed) <= wanted.frames {
                continue;
            }
            // A CPU that reads the words meanwhile finds no sum, or the same one before and after the length.
            sum.store(0, Release);
            frames.store(wanted.frames, Release);
            sum.store(now, Release);
        }
    }

    /// Whether there was no such run when so much had happened.
    pub(super) fn is_in_vain(self, wanted: Sought, mobility: Mobility, happened: u64) -> bool {
        let now = happened.wrapping_add(1);
        let [sum, frames] = self.entry(wanted.align.trailing_zeros() as usize, mobility);
        sum.load(Acquire) == now
            && frames.load(Acquire) <= wanted.frames
            && sum.load(Acquire) == now
    }
}
