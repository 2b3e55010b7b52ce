//! The frames of the area: a byte of flags each, and the bitmaps of what is in use and of what owners have. A
//! bitmap is one value under one lock, as published, and no file beside this one touches a bit.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// On its client's list.
pub(super) const LRU: u8 = 1;
/// An owner is taking it: the thread that drops the page's last reference gives the frame to that
/// owner.
pub(super) const RECLAIMING: u8 = 2;
/// An owner's.
pub(super) const ISOLATED: u8 = 4;

/// A frame's flags.
#[derive(Debug, Default)]
pub(super) struct FrameFlags(AtomicU8);

impl FrameFlags {
    pub(super) fn has(&self, flag: u8) -> bool {
        self.0.load(SeqCst) & flag != 0
    }

    pub(super) fn set(&self, flag: u8) {
        self.0.fetch_or(flag, SeqCst);
    }

    pub(super) fn clear(&self, flag: u8) {
        self.0.fetch_and(!flag, SeqCst);
    }

    pub(super) fn replace(&self, flags: u8) {
        self.0.store(flags, SeqCst);
    }
}

/// Which frames are in use: a bit each, one lock for all.
#[derive(Debug)]
pub(super) struct GcmaFrames {
    bits: Vec<u64>,
    frames: usize,
}

impl GcmaFrames {
    pub(super) fn new(frames: usize) -> Self {
        let mut bits = vec![0; frames.div_ceil(64)];
        // Bits behind the last frame are in use for ever.
        if !frames.is_multiple_of(64)
            && let Some(last) = bits.last_mut()
        {
            *last = u64::MAX << (frames % 64);
        }
        Self { bits, frames }
    }

    /// The first free frame, looked for from bit 0, in use from now on.
    pub(super) fn take_first(&mut self) -> Option<usize> {
        let word = self.bits.iter().position(|word| *word != u64::MAX)?;
        let bit = self.bits[word].trailing_ones() as usize;
        self.bits[word] |= 1 << bit;
        Some(word * 64 + bit)
    }

    pub(super) fn is_used(&self, frame: usize) -> bool {
        self.bits[frame / 64] >> (frame % 64) & 1 != 0
    }

    pub(super) fn set(&mut self, frame: usize) {
        self.bits[frame / 64] |= 1 << (frame % 64);
    }

    pub(super) fn clear(&mut self, frame: usize) {
        self.bits[frame / 64] &= !(1 << (frame % 64));
    }

    pub(super) fn free(&self) -> u64 {
        let used: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        (self.bits.len() * 64) as u64 - u64::from(used)
    }

    pub(super) const fn frames(&self) -> usize {
        self.frames
    }
}

/// The bitmap of what owners have: CMA's, by which the range is chosen.
#[derive(Debug)]
pub(super) struct OwnersBitmap(GcmaFrames);

impl OwnersBitmap {
    pub(super) fn new(frames: usize) -> Self {
        Self(GcmaFrames::new(frames))
    }

    /// Takes the first run of `frames` frames that no owner has, `shift` frames before its start a
    /// multiple of `align`.
    pub(super) fn take(&mut self, frames: usize, align: usize, shift: usize) -> Option<usize> {
        let aligned = |at: usize| (at + shift).next_multiple_of(align) - shift;
        let mut start = aligned(0);
        while start
            .checked_add(frames)
            .is_some_and(|end| end <= self.0.frames())
        {
            match (start..start + frames).rfind(|&frame| self.0.is_used(frame)) {
                None => {
                    (start..start + frames).for_each(|frame| self.0.set(frame));
                    return Some(start);
                }
                Some(owned) => start = aligned(owned + 1),
            }
        }
        None
    }

    /// Takes these, if no owner has one of them.
    pub(super) fn take_at(&mut self, mut ids: Range<usize>) -> bool {
        let is_free = ids.end <= self.0.frames() && !ids.clone().any(|frame| self.0.is_used(frame));
        if is_free {
            ids.by_ref().for_each(|frame| self.0.set(frame));
        }
        is_free
    }

    /// Whether all of them are an owner's.
    pub(super) fn has(&self, mut ids: Range<usize>) -> bool {
        ids.end <= self.0.frames() && ids.all(|frame| self.0.is_used(frame))
    }

    pub(super) fn give_back(&mut self, mut ids: Range<usize>) {
        ids.by_ref().for_each(|frame| self.0.clear(frame));
    }
}
