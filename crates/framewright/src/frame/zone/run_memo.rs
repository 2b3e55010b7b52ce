//! The runs that searches did not find, remembered by alignment.

use crate::raw::record;
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

record! {
    /// The shortest run of one alignment that a search did not find.
    #[derive(Debug)]
    #[repr(C)]
    pub(super) struct RunInVain {
        /// How much had happened until then, plus one; 0 if there is none.
        happened: AtomicU64,
        frames: AtomicU64,
    } = 2 words;

/// The runs that a search did not find, so that the same is not looked for again, and no CPU stopped for it, as
/// long as nothing becomes free.
///
/// Where there is no run, there is no longer one, and none of a larger alignment. So there is a shortest
/// length for each alignment, for movable requests and for others. Zeroes are an empty memo. A CPU writes the words
/// only with all CPUs stopped.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RunMemo {
    movable: [RunInVain; ALIGNMENTS],
    other: [RunInVain; ALIGNMENTS],
} = 256 words;
}

impl RunMemo {
    const fn of(&self, mobility: Mobility) -> &[RunInVain; ALIGNMENTS] {
        match mobility.is_movable() {
            true => &self.movable,
            false => &self.other,
        }
    }

    /// With all CPUs stopped: no such run is free, cached or on its way, and so much has happened so far.
    pub(super) fn note(&self, wanted: Sought, mobility: Mobility, happened: u64) {
        // The sum plus one: zero is the empty memo.
        let now = happened.wrapping_add(1);
        for of in &self.of(mobility)[wanted.align.trailing_zeros() as usize..] {
            if of.happened.load(Relaxed) == now && of.frames.load(Relaxed) <= wanted.frames {
                continue;
            }
            // A CPU that reads the words meanwhile finds no sum, or the same one before and after the length.
            of.happened.store(0, Release);
            of.frames.store(wanted.frames, Release);
            of.happened.store(now, Release);
        }
    }

    /// Whether there was no such run when so much had happened.
    pub(super) fn is_in_vain(&self, wanted: Sought, mobility: Mobility, happened: u64) -> bool {
        let now = happened.wrapping_add(1);
        let of = &self.of(mobility)[wanted.align.trailing_zeros() as usize];
        of.happened.load(Acquire) == now
            && of.frames.load(Acquire) <= wanted.frames
            && of.happened.load(Acquire) == now
    }
}
