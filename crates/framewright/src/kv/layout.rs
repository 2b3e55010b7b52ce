//! The layout of an object allocator: what the user chooses, and where each part then lies.
//!
//! `KvShape` checks the layout once, before there is an allocator; nothing of it changes later. The
//! allocator cuts its memory in the order of `KvShape::parts`, from the start of a cache line on.
//! Record 0 is there, but no slab has it.

use super::seat::{KvRecord, KvSeatRecord};
use super::slab::SlabRecord;
use crate::raw::{Carver, RawRecord};
use crate::slots::Tree;
use crate::units::{FRAMES_MAX, Frame, SetupError};

/// Determines the size of an object allocator's metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvLayout {
    /// The first frame that objects can lie in.
    pub start: Frame,
    /// How many frames there are from there on, including those that do not exist: up to the end of
    /// the last zone. 1 to 2^32, or to 2^25 where addresses have 32 bits.
    pub frames: u64,
    /// How many CPUs may have a seat, 1 to 1023.
    pub cpus: u16,
    /// The most slabs that can exist at a time: at least one for each CPU, at most one for each
    /// frame. When all exist, larger classes' slabs serve small requests.
    pub slabs_max: u64,
}

impl KvLayout {
    /// Objects in `frames` frames from `start` on, for one CPU, with a slab for each four frames.
    #[must_use]
    pub const fn new(start: Frame, frames: u64) -> Self {
        Self {
            start,
            frames,
            cpus: 1,
            slabs_max: frames.div_ceil(4),
        }
    }

    /// The same for `cpus` CPUs.
    #[must_use]
    pub const fn with_cpus(mut self, cpus: u16) -> Self {
        self.cpus = cpus;
        self
    }

    /// The same with at most `slabs` slabs.
    #[must_use]
    pub const fn with_slabs_max(mut self, slabs: u64) -> Self {
        self.slabs_max = slabs;
        self
    }

    /// How many words of metadata it needs: a word for each frame, 128 bytes and a bit for each slab, 0.9 KiB
    /// for each CPU; by default 1 % of memory.
    ///
    /// # Errors
    /// If no allocator can have the layout.
    pub fn words_needed(&self) -> Result<usize, SetupError> {
        Ok(KvShape::new(self)?.words)
    }
}

/// Where each part lies in the words handed in.
#[derive(Clone, Copy, Debug)]
pub(super) struct KvShape {
    pub(super) start: Frame,
    pub(super) frames: u64,
    pub(super) cpus: u16,
    pub(super) slabs: usize,
    pub(super) words: usize,
}

impl KvShape {
    pub(super) fn new(layout: &KvLayout) -> Result<Self, SetupError> {
        let KvLayout {
            start,
            frames,
            cpus,
            slabs_max,
        } = *layout;
        SetupError::limits(&[
            ("number of frames", frames, 1, FRAMES_MAX),
            ("number of CPUs", cpus.into(), 1, 1023),
            // At least one for each CPU, and at most one for each frame.
            ("slabs_max", slabs_max, cpus.into(), frames),
        ])?;
        if start.0.checked_add(frames).is_none() {
            let (what, start) = ("the frames of objects", start.0);
            return Err(SetupError::End { what, start });
        }
        let mut shape = Self {
            start,
            frames,
            cpus,
            // Their numbers have 32 bits.
            slabs: slabs_max.min(u64::from(u32::MAX)) as usize,
            words: 0,
        };
        let seats = usize::from(cpus) * KvSeatRecord::WORDS;
        // No slab has number 0.
        let slabs = (shape.slabs + 1) * SlabRecord::WORDS;
        let parts = shape.parts().iter().sum::<usize>();
        shape.words = Carver::words_needed(KvRecord::WORDS + seats + slabs + parts);
        Ok(shape)
    }

    /// The lengths of the parts behind the records (the allocator's own, the seats', the slabs'), in the order in
    /// which they lie: the set of records that no seat has, the table.
    pub(super) fn parts(&self) -> [usize; 2] {
        [
            // Whole cache lines, so that a block's words in the table share none with another's.
            Tree::words_needed(self.slabs + 1).next_multiple_of(8),
            self.frames as usize,
        ]
    }
}
