use super::fold::{STARTS, fold, fold_once, maximal, ones, ones_at};
use super::{WORD_ORDER, WORD_SLOTS};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// A bitmap of slots, one bit a slot, 1 = free, for the one who owns it at the moment.
///
/// Bit `s` lies in word `s / 64`. Every access is a `Relaxed` load or store: ownership, handed
/// over with whatever ordering its holder uses, is what makes them safe to mix. Two owners at a
/// time lose updates; nothing worse, in terms of the language.
///
/// The number of slots is a power of two up to `64 * words`; a bitmap of fewer than 64 slots has
/// zeros in the rest of its one word, which are never free. Orders above the bitmap's are never
/// found. Cost: O(words) for searches, O(1) within a word; 8 words are one cache line.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'m> {
    words: &'m [AtomicU64],
}

impl<'m> Slots<'m> {
    /// How many words hold `slots` slots.
    #[must_use]
    pub const fn words_needed(slots: usize) -> usize {
        slots.div_ceil(WORD_SLOTS)
    }

    /// The bitmap in `words`; the number of words is a power of two.
    ///
    /// # Panics
    /// If there is no word, or not a power of two of them: runs would not be aligned.
    #[inline]
    #[must_use]
    pub const fn new(words: &'m [AtomicU64]) -> Self {
        assert!(
            words.len().is_power_of_two(),
            "the words of a bitmap of slots are a power of two"
        );
        Self { words }
    }

    #[inline(always)]
    fn get(self, word: usize) -> u64 {
        self.words[word].load(Relaxed)
    }

    #[inline(always)]
    fn set(self, word: usize, bits: u64) {
        self.words[word].store(bits, Relaxed);
    }

    /// The words themselves.
    #[must_use]
    pub const fn words(self) -> &'m [AtomicU64] {
        self.words
    }

    /// Makes the slots `start..start + len` free, whatever they were. For building a bitmap.
    ///
    /// # Panics
    /// If the range leaves the bitmap.
    pub fn set_free(self, start: usize, len: usize) {
        self.for_each_part(start, len, |slots, word, mask| {
            slots.set(word, slots.get(word) | mask);
            true
        });
    }

    /// Makes the slots `start..start + len` taken, whatever they were.
    ///
    /// # Panics
    /// If the range leaves the bitmap.
    pub fn set_taken(self, start: usize, len: usize) {
        self.for_each_part(start, len, |slots, word, mask| {
            slots.set(word, slots.get(word) & !mask);
            true
        });
    }

    /// How many slots are free.
    #[inline]
    #[must_use]
    pub fn free_slots(self) -> u32 {
        (0..self.words.len())
            .map(|word| self.get(word).count_ones())
            .sum()
    }

    /// How many of the slots `start..start + len` are free.
    ///
    /// # Panics
    /// If the range leaves the bitmap.
    #[must_use]
    pub fn free_slots_in(self, start: usize, len: usize) -> u32 {
        let mut free = 0;
        self.for_each_part(start, len, |slots, word, mask| {
            free += (slots.get(word) & mask).count_ones();
            true
        });
        free
    }

    /// Whether all of the slots `start..start + len` are free.
    ///
    /// # Panics
    /// If the range leaves the bitmap.
    #[inline]
    #[must_use]
    pub fn is_free(self, start: usize, len: usize) -> bool {
        self.for_each_part(start, len, |slots, word, mask| {
            slots.get(word) & mask == mask
        })
    }

    /// Whether all of the slots `start..start + len` are taken.
    ///
    /// # Panics
    /// If the range leaves the bitmap.
    #[inline]
    #[must_use]
    pub fn is_taken(self, start: usize, len: usize) -> bool {
        self.for_each_part(start, len, |slots, word, mask| slots.get(word) & mask == 0)
    }

    /// Takes the aligned run of `order` at `start` if it is free. Returns whether it was; if not,
    /// nothing has changed.
    ///
    /// # Panics
    /// If the run leaves the bitmap.
    #[inline]
    #[must_use]
    pub fn take(self, start: usize, order: u8) -> bool {
        debug_assert!(start & ((1 << order) - 1) == 0, "a run is aligned");
        if order < WORD_ORDER {
            let mask = ones(order) << (start % WORD_SLOTS);
            let bits = self.get(start / WORD_SLOTS);
            if bits & mask != mask {
                return false;
            }
            self.set(start / WORD_SLOTS, bits & !mask);
        } else {
            let words = self.words_of(start, order);
            if words.iter().any(|word| word.load(Relaxed) != !0) {
                return false;
            }
            words.iter().for_each(|word| word.store(0, Relaxed));
        }
        true
    }

    /// Gives the aligned run of `order` at `start` back. Returns the order of the maximal free run
    /// that it is now part of (S2), or `None` if one of its slots was already free; then nothing
    /// has changed.
    ///
    /// # Panics
    /// If the run leaves the bitmap.
    #[inline]
    #[must_use]
    pub fn give(self, start: usize, order: u8) -> Option<u8> {
        debug_assert!(start & ((1 << order) - 1) == 0, "a run is aligned");
        if order < WORD_ORDER {
            let mask = ones(order) << (start % WORD_SLOTS);
            let bits = self.get(start / WORD_SLOTS);
            if bits & mask != 0 {
                return None;
            }
            self.set(start / WORD_SLOTS, bits | mask);
        } else {
            let words = self.words_of(start, order);
            if words.iter().any(|word| word.load(Relaxed) != 0) {
                return None;
            }
            words.iter().for_each(|word| word.store(!0, Relaxed));
        }
        self.maximal_order(start)
    }

    /// The order of the maximal free run (S2) that contains `slot`, or `None` if it is taken.
    ///
    /// # Panics
    /// If `slot` is not in the bitmap.
    #[inline]
    #[must_use]
    pub fn maximal_order(self, slot: usize) -> Option<u8> {
        let word = slot / WORD_SLOTS;
        let bits = self.get(word);
        let bit = slot % WORD_SLOTS;
        if bits == !0 {
            return Some(self.maximal_order_of_full_word(word));
        }
        // Free runs around one slot are nested, so that their number is the largest one's order.
        let mut runs = bits;
        let mut free = runs >> bit & 1;
        for order in 0..WORD_ORDER {
            runs = fold_once(runs, order);
            free += runs >> (bit & !((2 << order) - 1)) & 1;
        }
        free.checked_sub(1).map(|order| order as u8)
    }

    /// The maximal order around a word that is known to be all ones.
    fn maximal_order_of_full_word(self, word: usize) -> u8 {
        let mut order = WORD_ORDER;
        let mut len = 1;
        while len < self.words.len() {
            let buddy = (word & !(len - 1)) ^ len;
            if (buddy..buddy + len).any(|w| self.get(w) != !0) {
                break;
            }
            len *= 2;
            order += 1;
        }
        order
    }

    /// The largest order of which an aligned free run exists, or `None` if no slot is free.
    ///
    /// `bound` is a known upper bound: the search ends when it is met. Pass `u8::MAX` if none is
    /// known.
    #[inline]
    #[must_use]
    pub fn largest_order(self, bound: u8) -> Option<u8> {
        let in_a_word = bound.min(WORD_ORDER);
        let mut largest = None;
        let mut found = 0; // One more than the largest order found; 0 for none.
        for word in 0..self.words.len() {
            let mut runs = fold(self.get(word), found.min(WORD_ORDER));
            while runs != 0 {
                largest = Some(found);
                if found == in_a_word {
                    return if bound > WORD_ORDER {
                        self.largest_order_of_words(word, bound)
                    } else {
                        largest
                    };
                }
                runs = fold_once(runs, found);
                found += 1;
            }
        }
        largest
    }

    /// The largest order above a word's, where the first full word is `first`.
    #[cold]
    fn largest_order_of_words(self, first: usize, bound: u8) -> Option<u8> {
        let mut largest = WORD_ORDER;
        let mut word = first;
        while word < self.words.len() && largest < bound {
            if self.get(word) == !0 {
                let order = self.maximal_order_of_full_word(word);
                largest = largest.max(order);
                word = (word | ((1 << (order - WORD_ORDER)) - 1)) + 1;
            } else {
                word += 1;
            }
        }
        Some(largest)
    }

    /// The lowest aligned free run of `order`, part of a larger one or not.
    #[inline]
    #[must_use]
    pub fn find_lowest(self, order: u8) -> Option<usize> {
        if order <= WORD_ORDER {
            (0..self.words.len()).find_map(|word| {
                let runs = fold(self.get(word), order);
                (runs != 0).then(|| word * WORD_SLOTS + runs.trailing_zeros() as usize)
            })
        } else {
            let len = 1usize.checked_shl(u32::from(order - WORD_ORDER))?;
            (0..self.words.len() / len)
                .map(|group| group * len)
                .find(|&first| (first..first + len).all(|word| self.get(word) == !0))
                .map(|first| first * WORD_SLOTS)
        }
    }

    /// The smallest maximal free run (S2) of at least `order`, the lowest among equals: its start
    /// and its order. This is the piece that a buddy system would split.
    #[inline]
    #[must_use]
    pub fn find_best(self, order: u8) -> Option<(usize, u8)> {
        let mut best: Option<(usize, u8)> = None;
        let mut word = 0;
        while word < self.words.len() {
            let limit = best.map_or(u8::MAX, |(_, found)| found);
            let bits = self.get(word);
            if bits == !0 {
                let run = self.maximal_order_of_full_word(word);
                if order <= run && run < limit {
                    best = Some((word * WORD_SLOTS, run));
                    if run == order {
                        break;
                    }
                }
                word += 1 << (run - WORD_ORDER);
                continue;
            }
            if let Some((bit, run)) = smallest_in_word(bits, order, limit) {
                best = Some((word * WORD_SLOTS + bit, run));
                if run == order {
                    break;
                }
            }
            word += 1;
        }
        best
    }

    /// Takes up to `max` aligned runs of `order` (at most 6), the lowest first, and calls `sink`
    /// with the start of each. Returns how many it took.
    ///
    /// Runs are cut from whatever is lowest, larger runs included.
    #[inline]
    pub fn take_lowest(self, order: u8, max: usize, mut sink: impl FnMut(usize)) -> usize {
        debug_assert!(order <= WORD_ORDER, "a batch is of runs within a word");
        let mut taken = 0;
        for word in 0..self.words.len() {
            if taken == max {
                break;
            }
            let mut bits = self.get(word);
            let mut runs = fold(bits, order);
            if runs == 0 {
                continue;
            }
            while runs != 0 && taken < max {
                let bit = runs.trailing_zeros();
                runs &= runs - 1;
                bits &= !(ones(order) << bit);
                sink(word * WORD_SLOTS + bit as usize);
                taken += 1;
            }
            self.set(word, bits);
        }
        taken
    }

    /// Adds to `counts[o]` the number of maximal free runs of each order o (S2): what a buddy
    /// system's free lists would hold.
    ///
    /// # Panics
    /// If `counts` is too short for an order that occurs.
    pub fn count_runs(self, counts: &mut [u32]) {
        let mut word = 0;
        while word < self.words.len() {
            let bits = self.get(word);
            if bits == !0 {
                let run = self.maximal_order_of_full_word(word);
                counts[usize::from(run)] += 1;
                word += 1 << (run - WORD_ORDER);
                continue;
            }
            let mut runs = bits;
            for order in 0..WORD_ORDER {
                if runs == 0 {
                    break;
                }
                let next = fold_once(runs, order);
                let whole = maximal(runs, next, order);
                if whole != 0 {
                    counts[usize::from(order)] += whole.count_ones();
                }
                runs = next;
            }
            word += 1;
        }
    }

    /// The first free slot at or after `from`.
    #[must_use]
    pub fn next_free(self, from: usize) -> Option<usize> {
        self.next_set(from, 0)
    }

    /// The first taken slot at or after `from`; in a bitmap of fewer than 64 slots that may be
    /// one past its end.
    #[must_use]
    pub fn next_taken(self, from: usize) -> Option<usize> {
        self.next_set(from, !0)
    }

    fn next_set(self, from: usize, flip: u64) -> Option<usize> {
        let mut word = from / WORD_SLOTS;
        let mut mask = !0 << (from % WORD_SLOTS);
        while word < self.words.len() {
            let bits = (self.get(word) ^ flip) & mask;
            if bits != 0 {
                return Some(word * WORD_SLOTS + bits.trailing_zeros() as usize);
            }
            mask = !0;
            word += 1;
        }
        None
    }

    /// The lowest `len` consecutive free slots, of any alignment.
    ///
    /// # Panics
    /// If `len` is zero: an empty run has no place.
    #[must_use]
    pub fn find_run(self, len: usize) -> Option<usize> {
        assert!(len > 0, "a run of no slots has no place");
        let end = self.words.len() * WORD_SLOTS;
        let mut start = self.next_free(0)?;
        loop {
            let stop = self.next_taken(start).unwrap_or(end);
            if stop - start >= len {
                return Some(start);
            }
            start = self.next_free(stop)?;
        }
    }

    /// The words of an aligned run of `order` 6 or more.
    #[inline(always)]
    fn words_of(self, start: usize, order: u8) -> &'m [AtomicU64] {
        run_words(self.words, start, order)
    }

    /// Calls `part` with each word of a range and the mask of the range in it, until one call
    /// returns false; returns whether none did.
    #[inline(always)]
    fn for_each_part(
        self,
        start: usize,
        len: usize,
        mut part: impl FnMut(Self, usize, u64) -> bool,
    ) -> bool {
        // By what is left, not by an end: that may be past the number range, where the words end before.
        let (mut at, mut left) = (start, len);
        while left > 0 {
            let bit = at % WORD_SLOTS;
            let here = (WORD_SLOTS - bit).min(left);
            if !part(self, at / WORD_SLOTS, ones_at(bit, here)) {
                return false;
            }
            at += here;
            left -= here;
        }
        true
    }
}

/// The words of an aligned run of `order` 6 or more.
///
/// # Panics
/// If the run leaves them, also if its length is no number.
#[inline(always)]
pub(super) fn run_words(words: &[AtomicU64], start: usize, order: u8) -> &[AtomicU64] {
    let rest = &words[start / WORD_SLOTS..];
    let len = 1usize.checked_shl(u32::from(order - WORD_ORDER));
    &rest[..len.unwrap_or(usize::MAX)]
}

/// In one word that is not full: the lowest of the smallest maximal runs of at least `order` and
/// below `limit`, as bit and order.
#[inline(always)]
fn smallest_in_word(bits: u64, order: u8, limit: u8) -> Option<(usize, u8)> {
    const { assert!(STARTS.len() == WORD_ORDER as usize + 1) };
    if order >= WORD_ORDER {
        return None;
    }
    let mut runs = fold(bits, order);
    let mut o = order;
    while runs != 0 && o < limit && o < WORD_ORDER {
        let next = fold_once(runs, o);
        let whole = maximal(runs, next, o);
        if whole != 0 {
            return Some((whole.trailing_zeros() as usize, o));
        }
        runs = next;
        o += 1;
    }
    None
}
