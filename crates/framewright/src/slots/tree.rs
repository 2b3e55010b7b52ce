//! A set of integers as bitmaps of bitmaps, which several CPUs change without a lock.

use super::WORD_SLOTS;
use crate::sync::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    model_fence,
};

/// A set of integers below a limit, as bitmaps of bitmaps: one bit an integer, and above it up to
/// three summary levels, one bit for each word of the level below that is not zero.
///
/// ```text
///     level 1      1 0 1 0            bit w: word w of level 0 is not zero
///     level 0   0110 0000 1000 0000   bit i: i is in the set
/// ```
///
/// Several CPUs may call all operations at a time, without a lock. An integer that a search finds was in
/// the set at some moment of the search. A search that finds none is exact too (see `flux` below): no
/// integer in its range was in the set all the while.
///
/// # How a summary bit is cleared
/// The CPU that removes the last integer of a word clears the word's summary bit and then looks at the
/// word again. If an integer has come in between, it sets the bit again. So the bit can be 0 for a
/// moment although its word is not zero. The `flux` word tells of such moments. Its lower 12 bits count
/// the removals that are in this step now, the others all that ever began it. A search that found
/// nothing reads all words of level 0 if `flux` was not at rest, or has changed meanwhile.
///
/// # Memory order
/// The inserter writes a word and then reads its summary; the remover writes the summary and then
/// reads the word. At least one must see the other's write, so these four are `SeqCst`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'m> {
    /// Level 0, level 1, ... and last the flux word.
    words: &'m [AtomicU64],
    /// Where each level starts in `words`; `starts[levels]` is the flux word.
    starts: [u32; MAX_LEVELS + 1],
    levels: u8,
}

/// Level 0 and three summaries. Up to 64^4 integers, 64 GiB of frames, the top level has one word; for
/// more it has several.
const MAX_LEVELS: usize = 4;
/// Adds one to both counts. The lower one counts CPUs; the upper one wraps after more than a year.
const FLUX_BEGIN: u64 = (1 << 12) | 1;
const FLUX_BUSY: u64 = (1 << 12) - 1;

impl<'m> Tree<'m> {
    /// How many words hold a set of integers below `limit`.
    ///
    /// # Panics
    /// If `limit` is above 2^37: places of words have 32 bits, and the summaries need some.
    #[must_use]
    pub(crate) const fn words_needed(limit: usize) -> usize {
        let (starts, levels) = Self::shape(limit);
        starts[levels] as usize + 1
    }

    const fn shape(limit: usize) -> ([u32; MAX_LEVELS + 1], usize) {
        let mut starts = [0; MAX_LEVELS + 1];
        let mut levels = 0;
        assert!(limit as u64 <= 1 << 37, "a tree has at most 2^37 integers");
        let mut words = limit;
        loop {
            words = words.div_ceil(WORD_SLOTS);
            levels += 1;
            starts[levels] = starts[levels - 1] + words as u32;
            if words <= 1 || levels == MAX_LEVELS {
                return (starts, levels);
            }
        }
    }

    /// The set of integers below `limit` in `words`. All zeros is the empty set.
    ///
    /// # Panics
    /// If there are fewer than [`words_needed`](Self::words_needed) words, or `limit` is above 2^37.
    #[must_use]
    pub(crate) const fn new(words: &'m [AtomicU64], limit: usize) -> Self {
        let (starts, levels) = Self::shape(limit);
        assert!(
            words.len() > starts[levels] as usize,
            "a tree needs the words that words_needed says"
        );
        Self {
            words,
            starts,
            levels: levels as u8,
        }
    }

    #[inline(always)]
    fn level(&self, level: usize) -> &'m [AtomicU64] {
        &self.words[self.starts[level] as usize..self.starts[level + 1] as usize]
    }

    #[inline(always)]
    fn flux(&self) -> &'m AtomicU64 {
        &self.words[self.starts[usize::from(self.levels)] as usize]
    }

    /// Adds `value`; returns whether it was absent.
    ///
    /// # Panics
    /// If `value` is not below the limit, rounded up to a whole word; so does [`remove`](Self::remove).
    ///
    /// From its return on, searches find `value`, until a CPU removes it. Time: one atomic operation, one
    /// load for each summary level, and another operation for each level whose bit was not set.
    #[inline]
    pub(crate) fn insert(&self, value: usize) -> bool {
        let bit = 1 << (value % WORD_SLOTS);
        let before = self.level(0)[value / WORD_SLOTS].fetch_or(bit, SeqCst);
        self.summarise(1, value / WORD_SLOTS);
        before & bit == 0
    }

    /// Sets the bits above word `index` of level `from - 1`, where they are not set. It looks at all levels,
    /// because the CPU that set a lower bit may not have come to the higher ones yet.
    #[inline]
    fn summarise(&self, from: usize, mut index: usize) {
        for level in from..usize::from(self.levels) {
            let bit = 1 << (index % WORD_SLOTS);
            let word = &self.level(level)[index / WORD_SLOTS];
            model_fence();
            if word.load(SeqCst) & bit == 0 {
                word.fetch_or(bit, SeqCst);
            }
            index /= WORD_SLOTS;
        }
    }

    /// Removes `value`; returns whether it was present.
    ///
    /// Time: one atomic operation, and four for each level of which a word becomes zero.
    #[inline]
    pub(crate) fn remove(&self, value: usize) -> bool {
        let bit = 1 << (value % WORD_SLOTS);
        let before = self.level(0)[value / WORD_SLOTS].fetch_and(!bit, SeqCst);
        if before == bit && self.levels > 1 {
            self.clear_summaries(value / WORD_SLOTS);
        }
        before & bit != 0
    }

    /// Clears the summary bits above the level-0 word `index`, which has become zero.
    fn clear_summaries(&self, mut index: usize) {
        self.flux().fetch_add(FLUX_BEGIN, SeqCst);
        for level in 1..usize::from(self.levels) {
            let bit = 1 << (index % WORD_SLOTS);
            let before = self.level(level)[index / WORD_SLOTS].fetch_and(!bit, SeqCst);
            model_fence();
            if self.level(level - 1)[index].load(SeqCst) != 0 {
                self.summarise(level, index);
                break;
            }
            if before != bit {
                break;
            }
            index /= WORD_SLOTS;
        }
        // This call added the one that it takes away, so the lower bits borrow nothing from the upper ones.
        self.flux().fetch_sub(1, SeqCst);
    }

    /// Whether `value` is in the set.
    #[inline]
    pub(crate) fn contains(&self, value: usize) -> bool {
        let word = self.word(value / WORD_SLOTS);
        word.is_some_and(|word| word >> (value % WORD_SLOTS) & 1 != 0)
    }

    /// A word of the lowest level: which of the integers from 64 times `index` on are in the set; `None` behind the limit.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> Option<u64> {
        self.level(0).get(index).map(|word| word.load(Relaxed))
    }

    /// The lowest integer in the set.
    #[inline]
    #[must_use]
    pub(crate) fn first(&self) -> Option<usize> {
        self.first_from(0)
    }

    /// The lowest integer in the set that is at least `from`.
    ///
    /// Time: at most two loads a level, as long as no CPU removes at the same time.
    #[inline]
    #[must_use]
    pub(crate) fn first_from(&self, from: usize) -> Option<usize> {
        if self.levels == 1 {
            return self.scan(from);
        }
        let before = self.flux().load(SeqCst);
        model_fence();
        if let Some(found) = self.descend(from) {
            return Some(found);
        }
        model_fence();
        if before & FLUX_BUSY == 0 && self.flux().load(SeqCst) == before {
            return None;
        }
        self.scan(from)
    }

    /// The integers in the set, ascending. It may or may not meet one that a CPU adds or removes meanwhile.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + use<'m> {
        let tree = *self;
        let mut from = 0;
        core::iter::from_fn(move || {
            let found = tree.first_from(from)?;
            from = found + 1;
            Some(found)
        })
    }

    /// The search by summaries: up to the first level with a bit set, and down from that bit.
    fn descend(&self, from: usize) -> Option<usize> {
        let (mut level, mut at) = (0, from);
        loop {
            let word = self.level(level).get(at / WORD_SLOTS)?;
            match nearest(word.load(SeqCst), at % WORD_SLOTS) {
                Some(bit) => {
                    let found = at / WORD_SLOTS * WORD_SLOTS + bit;
                    if level == 0 {
                        return Some(found);
                    }
                    level -= 1;
                    at = found * WORD_SLOTS;
                }
                // Only in a top of several words the search goes on to the next word.
                None if level + 1 == usize::from(self.levels) => {
                    at = (at / WORD_SLOTS + 1) * WORD_SLOTS;
                }
                // One level up, the search goes on beyond this word.
                None => {
                    level += 1;
                    at = at / WORD_SLOTS + 1;
                }
            }
        }
    }

    /// The search without summaries: every word of level 0 from `from` on.
    fn scan(&self, from: usize) -> Option<usize> {
        let words = self.level(0);
        let mut at = from;
        loop {
            let word = words.get(at / WORD_SLOTS)?.load(SeqCst);
            if let Some(bit) = nearest(word, at % WORD_SLOTS) {
                return Some(at / WORD_SLOTS * WORD_SLOTS + bit);
            }
            at = (at / WORD_SLOTS + 1) * WORD_SLOTS;
        }
    }

    /// Whether SL2 holds now. Only meaningful while no CPU changes the set.
    #[must_use]
    pub(crate) fn is_consistent(&self) -> bool {
        let summaries_agree = (1..usize::from(self.levels)).all(|level| {
            self.level(level - 1)
                .iter()
                .enumerate()
                .all(|(index, word)| {
                    let summary = self.level(level)[index / WORD_SLOTS].load(Relaxed);
                    (summary >> (index % WORD_SLOTS) & 1 != 0) == (word.load(Relaxed) != 0)
                })
        });
        summaries_agree && self.flux().load(Relaxed) & FLUX_BUSY == 0
    }
}

/// The lowest set bit of `word` that is not below `bit`.
#[inline(always)]
fn nearest(word: u64, bit: usize) -> Option<usize> {
    let rest = word & (!0 << bit);
    (rest != 0).then(|| rest.trailing_zeros() as usize)
}
