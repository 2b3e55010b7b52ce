//! Atomic 16-bit numbers in words that the caller lends.
//!
//! While they are lent, the words are accessed as halves only: the exclusive borrow keeps other
//! sizes away. In a model a half is a part of an atomic word, and each store is a read-modify-write
//! of that word. So a model has the halves' values, but orders neighbours more than a machine does.

// UNSAFETY: a slice of words is seen as a slice of atomic 16-bit numbers, which the language has no safe cast
// for.
#![cfg_attr(not(any(loom, shuttle)), allow(unsafe_code))]

#[cfg(any(loom, shuttle))]
use crate::sync::AtomicU64;
use crate::sync::Ordering;

/// Atomic 16-bit numbers in memory that was lent as words: number `i` lies in word `i / 4`.
///
/// The words are borrowed for as long as any copy of this lives, so they are not accessed as words
/// meanwhile: the memory model does not define racing atomic accesses of different sizes to the
/// same memory. A zeroed word is four zeros on every machine; no other correspondence is promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves<'m> {
    #[cfg(not(any(loom, shuttle)))]
    halves: &'m [crate::sync::AtomicU16],
    /// A model's atomics cannot be split, so there a number is changed by changing its word.
    #[cfg(any(loom, shuttle))]
    words: &'m [AtomicU64],
}

/// One of the numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half<'m> {
    #[cfg(not(any(loom, shuttle)))]
    half: &'m crate::sync::AtomicU16,
    #[cfg(any(loom, shuttle))]
    all: Halves<'m>,
    #[cfg(any(loom, shuttle))]
    index: usize,
}

impl<'m> Halves<'m> {
    /// How many words hold `halves` halves.
    #[must_use]
    pub(crate) const fn words_needed(halves: usize) -> usize {
        halves.div_ceil(4)
    }
}

#[cfg(not(any(loom, shuttle)))]
impl<'m> Halves<'m> {
    /// Presents `words` as `4 * words.len()` halves.
    #[must_use]
    pub(crate) fn new(words: &'m mut [u64]) -> Self {
        let start = words.as_mut_ptr().cast::<crate::sync::AtomicU16>();
        // SAFETY: size: four halves a word, all inside `words`. Alignment: a word's is a multiple of theirs.
        // Writing through a shared reference: atomics are interior mutable (`UnsafeCell`), the pointer
        // is derived from an exclusive reference, and the lifetime is that of the borrow.
        // Mixed sizes: the exclusive borrow ends with the last copy of this value, so there is no
        // other access.
        let halves = unsafe { core::slice::from_raw_parts(start, words.len() * 4) };
        Self { halves }
    }

    /// How many halves there are.
    #[cfg(test)]
    #[must_use]
    pub(crate) const fn len(self) -> usize {
        self.halves.len()
    }

    /// The value of number `index`.
    ///
    /// # Panics
    /// If `index` is not below their number.
    #[inline]
    #[must_use]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn load(self, index: usize, order: Ordering) -> u16 {
        self.halves[index].load(order)
    }

    /// Number `index`, if there is one.
    #[inline(always)]
    #[must_use]
    pub(crate) fn find(self, index: usize) -> Option<Half<'m>> {
        self.halves.get(index).map(|half| Half { half })
    }

    /// Sets number `index`.
    ///
    /// # Panics
    /// If `index` is not below their number.
    #[inline]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn store(self, index: usize, value: u16, order: Ordering) {
        self.halves[index].store(value, order);
    }

    /// Sets `len` numbers from `start` on.
    ///
    /// # Panics
    /// If they are not all below their number.
    #[inline]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn fill(self, start: usize, len: usize, value: u16, order: Ordering) {
        // In eights, of which the compiler takes two at a time.
        let (eights, last) = self.halves[start..start + len].as_chunks::<8>();
        for eight in eights {
            for half in eight {
                half.store(value, order);
            }
        }
        for half in last {
            half.store(value, order);
        }
    }

    /// Sets number `index` to `new` if it is `current`.
    ///
    /// # Errors
    /// The value found, if it was not `current`; nothing has changed then.
    ///
    /// # Panics
    /// If `index` is not below their number.
    #[inline]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn compare_exchange(
        self,
        index: usize,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16> {
        self.halves[index].compare_exchange(current, new, success, failure)
    }
}

#[cfg(not(any(loom, shuttle)))]
impl Half<'_> {
    /// Its value.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn load(self, order: Ordering) -> u16 {
        self.half.load(order)
    }

    /// Sets it.
    #[inline(always)]
    #[cfg_attr(lines, track_caller)]
    pub(crate) fn store(self, value: u16, order: Ordering) {
        self.half.store(value, order);
    }
}

#[cfg(any(loom, shuttle))]
#[allow(missing_docs, reason = "documented at the normal build's twin above")]
impl Half<'_> {
    #[must_use]
    pub(crate) fn load(self, order: Ordering) -> u16 {
        self.all.load(self.index, order)
    }

    pub(crate) fn store(self, value: u16, order: Ordering) {
        self.all.store(self.index, value, order);
    }
}

#[cfg(any(loom, shuttle))]
#[allow(missing_docs, reason = "documented at the normal build's twin above")]
impl<'m> Halves<'m> {
    #[must_use]
    pub(crate) fn new(words: &'m mut [u64]) -> Self {
        let words = super::atomic_words(words);
        Self { words }
    }

    #[must_use]
    pub(crate) const fn len(self) -> usize {
        self.words.len() * 4
    }

    #[must_use]
    pub(crate) fn load(self, index: usize, order: Ordering) -> u16 {
        (self.words[index / 4].load(order) >> (index % 4 * 16)) as u16
    }

    #[must_use]
    pub(crate) fn find(self, index: usize) -> Option<Half<'m>> {
        (index < self.len()).then_some(Half { all: self, index })
    }

    pub(crate) fn store(self, index: usize, value: u16, order: Ordering) {
        let shift = index % 4 * 16;
        self.words[index / 4]
            .fetch_update(order_for_update(order), Ordering::Relaxed, |old| {
                Some(old & !(0xffff << shift) | u64::from(value) << shift)
            })
            .expect("the update is never refused");
    }

    pub(crate) fn fill(self, start: usize, len: usize, value: u16, order: Ordering) {
        for index in start..start + len {
            self.store(index, value, order);
        }
    }

    pub(crate) fn compare_exchange(
        self,
        index: usize,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16> {
        let shift = index % 4 * 16;
        let update = |old: u64| {
            ((old >> shift) as u16 == current)
                .then(|| old & !(0xffff << shift) | u64::from(new) << shift)
        };
        self.words[index / 4]
            .fetch_update(order_for_update(success), failure, update)
            .map(|old| (old >> shift) as u16)
            .map_err(|old| (old >> shift) as u16)
    }
}

/// A store's ordering is passed to a read-modify-write as it is; all of them are allowed there.
#[cfg(any(loom, shuttle))]
fn order_for_update(order: Ordering) -> Ordering {
    order
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    #[test]
    fn neighbouring_numbers_do_not_disturb_each_other() {
        let mut memory = [0u64; 2];
        let halves = Halves::new(&mut memory);
        assert_eq!(halves.len(), 8);
        assert_eq!(Halves::words_needed(5), 2);
        for index in 0..8 {
            halves.store(index, 0x1000 + index as u16, Ordering::Relaxed);
        }
        let raced = halves.compare_exchange(4, 1, 2, Ordering::AcqRel, Ordering::Relaxed);
        assert_eq!(raced, Err(0x1004));
        let won = halves.compare_exchange(4, 0x1004, 2, Ordering::AcqRel, Ordering::Relaxed);
        assert_eq!(won, Ok(0x1004));
        halves.store(3, 7, Ordering::Relaxed);
        let all: [u16; 8] = core::array::from_fn(|index| halves.load(index, Ordering::Relaxed));
        assert_eq!(all, [0x1000, 0x1001, 0x1002, 7, 2, 0x1005, 0x1006, 0x1007]);
        let last = halves.find(7).unwrap();
        assert_eq!(last.load(Ordering::Relaxed), 0x1007);
        last.store(0x2007, Ordering::Relaxed);
        assert_eq!(halves.load(7, Ordering::Relaxed), 0x2007);
        last.store(0x1007, Ordering::Relaxed);
        assert!(halves.find(8).is_none());
        halves.fill(1, 5, 9, Ordering::Relaxed);
        let all: [u16; 8] = core::array::from_fn(|index| halves.load(index, Ordering::Relaxed));
        assert_eq!(all, [0x1000, 9, 9, 9, 9, 9, 0x1006, 0x1007]);
    }

    #[test]
    fn what_is_filled_is_what_was_asked_for_and_no_more() {
        for (start, len) in [(0, 0), (3, 7), (1, 8), (0, 16), (2, 17), (5, 27), (0, 32)] {
            let mut memory = [0u64; 8];
            let halves = Halves::new(&mut memory);
            halves.fill(start, len, 7, Ordering::Relaxed);
            for index in 0..halves.len() {
                let expected = if (start..start + len).contains(&index) {
                    7
                } else {
                    0
                };
                assert_eq!(halves.load(index, Ordering::Relaxed), expected);
            }
        }
    }
}
