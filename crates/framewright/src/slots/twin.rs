use super::bitmap::run_words;
use super::fold::ones;
use super::{Slots, WORD_ORDER, WORD_SLOTS};
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};
use core::fmt;

/// The second bitmap beside a [`Slots`], into which everybody but the owner frees: 1 = freed here
/// and not yet collected.
///
/// Whoever gives a run has the only right to it (it is allocated, and this free has won whatever
/// decides between two frees of the same run). A bit that is already set shows that somebody had
/// not, and is reported.
#[derive(Clone, Copy, Debug)]
pub struct Twin<'m> {
    words: &'m [AtomicU64],
}

/// A run was given of which something had been given before: a double free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlap;

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a slot of the run was already given back")
    }
}

impl<'m> Twin<'m> {
    /// The twin in `words`, as many as the bitmap beside it has.
    #[inline]
    #[must_use]
    pub const fn new(words: &'m [AtomicU64]) -> Self {
        Self { words }
    }

    /// Gives the aligned run of `order` at `start`.
    ///
    /// What the giver wrote before is seen by whoever collects the run. Time: one atomic operation
    /// for each word of the run.
    ///
    /// # Errors
    /// [`Overlap`] if a slot of the run had been given and not collected; nothing has changed then.
    /// (One case is beyond this bitmap: where runs of *different* orders race over several words,
    /// the owner may already have collected part of what is taken back.)
    ///
    /// # Panics
    /// If the run leaves the bitmap.
    pub fn give(self, start: usize, order: u8) -> Result<(), Overlap> {
        debug_assert!(start & ((1 << order) - 1) == 0, "a run is aligned");
        let first = start / WORD_SLOTS;
        // Release here pairs with the Acquire in `collect`.
        if order < WORD_ORDER {
            let mask = ones(order) << (start % WORD_SLOTS);
            let word = &self.words[first];
            // Guessing zero instead of loading first: one transfer of the line instead of two.
            let mut before = 0;
            while let Err(found) =
                word.compare_exchange_weak(before, before | mask, Release, Relaxed)
            {
                if found & mask != 0 {
                    return Err(Overlap);
                }
                before = found;
            }
            return Ok(());
        }
        let words = run_words(self.words, start, order);
        // Ascending, so that of two equal runs the second fails at its first word.
        for (index, word) in words.iter().enumerate() {
            if word.compare_exchange(0, !0, Release, Relaxed).is_err() {
                for undone in words[..index].iter().rev() {
                    // A word that was collected meanwhile is not this call's any more.
                    let _collected = undone.compare_exchange(!0, 0, Relaxed, Relaxed);
                }
                return Err(Overlap);
            }
        }
        Ok(())
    }

    /// Whether nothing waits to be collected; stale as soon as it is returned.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.words.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// How many slots wait to be collected.
    #[must_use]
    pub fn waiting(self) -> u32 {
        self.words
            .iter()
            .map(|word| word.load(Relaxed).count_ones())
            .sum()
    }

    /// Whether any of the slots `start..start + len` waits to be collected; `len` is at least 1.
    ///
    /// # Panics
    /// If the range leaves the bitmap.
    #[must_use]
    pub fn has_any(self, start: usize, len: usize) -> bool {
        Slots::new(self.words).free_slots_in(start, len) > 0
    }

    /// Moves everything that waits into `slots`, whose owner the caller is. Returns how many slots
    /// became free.
    ///
    /// Time: one load a word, and one atomic operation for each that is not zero.
    ///
    /// # Errors
    /// [`Overlap`] if a slot was free there already (S1); all words are collected nevertheless.
    pub fn collect(self, slots: Slots<'_>) -> Result<u32, Overlap> {
        debug_assert_eq!(self.words.len(), slots.words().len(), "twins are equal");
        let (mut collected, mut overlap) = (0, 0);
        for (own, word) in slots.words().iter().zip(self.words) {
            // Relaxed: only a hint that the exchange is worth its cost.
            if word.load(Relaxed) == 0 {
                continue;
            }
            // Acquire pairs with the Release in `give`.
            let given = word.swap(0, AcqRel);
            let free = own.load(Relaxed);
            overlap |= free & given;
            own.store(free | given, Relaxed);
            collected += (given & !free).count_ones();
        }
        if overlap == 0 {
            Ok(collected)
        } else {
            Err(Overlap)
        }
    }
}
