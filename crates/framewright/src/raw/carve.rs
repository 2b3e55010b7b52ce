//! Cuts the memory that a user hands in for metadata into parts.

// UNSAFETY: a slice of words that hold nothing becomes one of words that hold zeroes. The standard library has this for slices
// only since a release that is newer than the oldest one that builds the engine.

use super::record::{RawRecord, WordRecords, records};
use super::{Halves, atomic_words};
use crate::sync::AtomicU64;
use crate::units::SetupError;
use core::mem::MaybeUninit;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// Words handed in for metadata, from which one part after another is cut. A part holds zeroes, except where
/// the caller asks for it [as it is](Self::words_as_they_are).
#[derive(Debug)]
pub(crate) struct Carver<'m> {
    rest: &'m mut [u64],
    is_zeroed: bool,
}

impl<'m> Carver<'m> {
    /// How many words are handed in for parts of `words` words in all, so that the first part can begin a cache
    /// line wherever the memory lies.
    pub(crate) const fn words_needed(words: usize) -> usize {
        words + LINE_WORDS - 1
    }

    /// The first `needed` words of `memory`.
    pub(crate) fn new(memory: &'m mut [u64], needed: usize) -> Result<Self, SetupError> {
        let words = memory.len();
        let rest = memory.get_mut(..needed);
        rest.map(Self::of)
            .ok_or(SetupError::Metadata { words, needed })
    }

    /// All words of `memory`.
    pub(crate) const fn of(rest: &'m mut [u64]) -> Self {
        let is_zeroed = false;
        Self { rest, is_zeroed }
    }

    /// The same from the first cache line on.
    pub(crate) fn at_a_line(mut self) -> Self {
        let misaligned = self.rest.as_ptr().addr() % 64 / 8;
        self.cut((LINE_WORDS - misaligned) % LINE_WORDS);
        self
    }

    /// The same words; if `is_zeroed`, they hold zeroes already, and the carver does not touch them.
    pub(crate) fn in_zeroed(self, is_zeroed: bool) -> Self {
        Self { is_zeroed, ..self }
    }

    /// Whether all words are in parts, but for those that aligning the first part may have taken.
    pub(crate) const fn is_used_up(&self) -> bool {
        self.rest.len() < LINE_WORDS
    }

    /// The next `len` words, with the values that they have.
    pub(crate) fn cut(&mut self, len: usize) -> &'m mut [u64] {
        let (part, rest) = core::mem::take(&mut self.rest).split_at_mut(len);
        self.rest = rest;
        part
    }

    fn cut_zeroed(&mut self, len: usize) -> &'m mut [u64] {
        let is_zeroed = self.is_zeroed;
        let part = self.cut(len);
        if !is_zeroed {
            part.fill(0);
        }
        part
    }

    /// The next `len` words.
    pub(crate) fn words(&mut self, len: usize) -> &'m [AtomicU64] {
        atomic_words(self.cut_zeroed(len))
    }

    /// The next `count` records.
    pub(crate) fn records<R: RawRecord>(&mut self, count: usize) -> &'m [R] {
        records(self.cut_zeroed(count * R::WORDS))
    }

    /// The next `count` records, with the values that their words have.
    pub(crate) fn records_as_they_are<R: RawRecord>(&mut self, count: usize) -> &'m [R] {
        records(self.cut(count * R::WORDS))
    }

    /// The same of records whose words have numbers, too.
    pub(crate) fn word_records_as_they_are<R: RawRecord>(
        &mut self,
        count: usize,
    ) -> WordRecords<'m, R> {
        WordRecords::new(self.cut(count * R::WORDS))
    }

    /// The next record.
    pub(crate) fn record<R: RawRecord>(&mut self) -> &'m R {
        &self.records(1)[0]
    }

    /// The next `len` words, with the values that they have.
    pub(crate) fn words_as_they_are(&mut self, len: usize) -> &'m [AtomicU64] {
        atomic_words(self.cut(len))
    }

    /// The next `len` words, to be cut further.
    pub(crate) fn part(&mut self, len: usize) -> Self {
        let is_zeroed = self.is_zeroed;
        let rest = self.cut(len);
        Self { rest, is_zeroed }
    }

    /// The next `len` words, as halves.
    pub(crate) fn halves(&mut self, len: usize) -> Halves<'m> {
        Halves::new(self.cut_zeroed(len))
    }
}

/// Writes zeroes into `memory`, which are its words from then on.
#[expect(unsafe_code, reason = "all of it has just been written")]
pub(crate) fn zeroed_words(memory: &mut [MaybeUninit<u64>]) -> &mut [u64] {
    memory.fill(MaybeUninit::new(0));
    // SAFETY: every word was written above. A `MaybeUninit<u64>` has the size and the alignment of a `u64`, and `memory` is
    // borrowed for as long as the result.
    unsafe { &mut *(core::ptr::from_mut(memory) as *mut [u64]) }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::raw::record;
    use crate::sync::Ordering::Relaxed;

    fn values<const N: usize>(words: &[AtomicU64]) -> [u64; N] {
        core::array::from_fn(|nth| words[nth].load(Relaxed))
    }

    #[test]
    fn parts_follow_one_another_from_a_cache_line_on() {
        for shift in 0..LINE_WORDS {
            let mut memory = [7; 40];
            let memory = &mut memory[shift..];
            let needed = Carver::words_needed(13);
            let mut carver = Carver::new(memory, needed).unwrap().at_a_line();
            let (first, kept) = (carver.words(8), carver.words_as_they_are(2));
            assert_eq!(first.as_ptr().addr() % 64, 0);
            assert_eq!(first.as_ptr_range().end, kept.as_ptr());
            assert_eq!((values(first), values(kept)), ([0; 8], [7, 7]));
            let halves = carver.halves(3);
            assert_eq!((halves.len(), halves.load(11, Relaxed)), (12, 0));
        }
    }

    record! {
        #[repr(C, align(64))]
        struct Pair {
            first: AtomicU64,
            halves: [crate::sync::AtomicU32; 4],
        }
        = 8 words, halves at 1;
    }

    #[test]
    fn a_record_lies_over_its_words() {
        let mut memory = [7; 40];
        let needed = Carver::words_needed(24);
        let mut carver = Carver::new(&mut memory, needed).unwrap().at_a_line();
        let one: &Pair = carver.record();
        let two: &[Pair] = carver.records(2);
        assert_eq!((&raw const two[0]).addr() - (&raw const *one).addr(), 64);
        one.first.store(5, Relaxed);
        two[1].halves[3].store(6, Relaxed);
        let start = memory.iter().position(|&word| word == 5).unwrap();
        assert_eq!(memory[start + 1..start + 16], [0; 15]);
        assert_eq!(
            memory[start + 18],
            u64::from_ne_bytes([0, 0, 0, 0, 6, 0, 0, 0])
        );
    }

    record! {
        #[repr(C, align(64))]
        struct Words {
            first: AtomicU64,
            others: [AtomicU64; 5],
        }
        = 8 words, others at 1;
    }

    #[test]
    fn a_record_of_words_is_reached_by_their_numbers_too() {
        let mut memory = [7; 40];
        let mut carver = Carver::new(&mut memory, Carver::words_needed(24))
            .unwrap()
            .at_a_line();
        let records = carver.word_records_as_they_are::<Words>(3);
        records.get(1).others[4].store(5, Relaxed);
        records.word(16).unwrap().store(6, Relaxed);
        assert_eq!(records.word(8 + 5).unwrap().load(Relaxed), 5);
        assert_eq!(records.get(2).first.load(Relaxed), 6);
        assert_eq!(records.len(), 3);
    }

    #[test]
    fn memory_that_holds_zeroes_is_not_touched() {
        let mut memory = [7; 40];
        let mut carver = Carver::new(&mut memory, 40).unwrap().in_zeroed(true);
        assert_eq!(values(carver.words(2)), [7, 7]);
    }

    #[test]
    fn memory_that_holds_nothing_becomes_zeroes() {
        let mut memory = [MaybeUninit::new(!0); 9];
        let words = zeroed_words(&mut memory[1..8]);
        assert_eq!(words, [0; 7]);
        words[6] = 5;
        assert!(zeroed_words(&mut memory[..0]).is_empty());
        // SAFETY: it was written through `words`.
        #[expect(unsafe_code, reason = "what a caller may do with its own memory")]
        let last = unsafe { memory[7].assume_init() };
        assert_eq!(last, 5);
    }

    #[test]
    fn too_few_words_are_refused_with_both_numbers() {
        let refused = Carver::new(&mut [0; 9], 10).unwrap_err();
        let (words, needed) = (9, 10);
        assert_eq!(refused, SetupError::Metadata { words, needed });
        let text = std::format!("{refused}");
        assert_eq!(text, "9 words of metadata, 10 are needed");
    }
}
