// UNSAFETY: a slice of atomic words is seen as a slice of atomic bytes, which the language has no
// safe cast for.
#![cfg_attr(not(any(loom, shuttle)), allow(unsafe_code))]

use crate::sync::{AtomicU64, Ordering};

/// Atomic bytes in memory that was lent as words: byte `i` lies in word `i / 8`.
///
/// While a `Bytes` over some words is in use, nobody may access those words as words: the memory
/// model does not define accesses of different sizes to the same memory. A zeroed word is eight
/// zero bytes on every machine; no other correspondence is promised.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'m> {
    #[cfg(not(any(loom, shuttle)))]
    bytes: &'m [crate::sync::AtomicU8],
    /// A model's atomics cannot be taken apart: there a byte is changed by changing its word.
    #[cfg(any(loom, shuttle))]
    words: &'m [AtomicU64],
}

impl<'m> Bytes<'m> {
    /// How many words hold `bytes` bytes.
    #[must_use]
    pub const fn words_needed(bytes: usize) -> usize {
        bytes.div_ceil(8)
    }
}

#[cfg(not(any(loom, shuttle)))]
impl<'m> Bytes<'m> {
    /// Sees `words` as `8 * words.len()` bytes.
    #[must_use]
    pub fn new(words: &'m [AtomicU64]) -> Self {
        let start = words.as_ptr().cast::<crate::sync::AtomicU8>();
        // SAFETY: size: eight bytes a word, all inside `words`. Alignment: a byte has none.
        // Writing through a shared reference: atomics are interior mutable (`UnsafeCell`), and
        // the lifetime is that of `words`.
        // Mixed sizes: owed by the caller of this module, see the type's description.
        let bytes = unsafe { core::slice::from_raw_parts(start, words.len() * 8) };
        Self { bytes }
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// The value of byte `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    #[must_use]
    pub fn load(self, index: usize, order: Ordering) -> u8 {
        self.bytes[index].load(order)
    }

    /// Sets byte `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn store(self, index: usize, value: u8, order: Ordering) {
        self.bytes[index].store(value, order);
    }

    /// Sets byte `index` and returns what it was.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn swap(self, index: usize, value: u8, order: Ordering) -> u8 {
        self.bytes[index].swap(value, order)
    }

    /// Sets byte `index` to `new` if it is `current`.
    ///
    /// # Errors
    /// The value found, if it was not `current`; nothing has changed then.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn compare_exchange(
        self,
        index: usize,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8> {
        self.bytes[index].compare_exchange(current, new, success, failure)
    }
}

#[cfg(any(loom, shuttle))]
#[allow(missing_docs, reason = "documented at the normal build's twin above")]
impl<'m> Bytes<'m> {
    #[must_use]
    pub fn new(words: &'m [AtomicU64]) -> Self {
        Self { words }
    }

    #[must_use]
    pub const fn len(self) -> usize {
        self.words.len() * 8
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.words.is_empty()
    }

    #[must_use]
    pub fn load(self, index: usize, order: Ordering) -> u8 {
        (self.words[index / 8].load(order) >> (index % 8 * 8)) as u8
    }

    pub fn store(self, index: usize, value: u8, order: Ordering) {
        self.swap(index, value, order);
    }

    pub fn swap(self, index: usize, value: u8, order: Ordering) -> u8 {
        let shift = index % 8 * 8;
        let word = &self.words[index / 8];
        let old = word
            .fetch_update(order_for_update(order), Ordering::Relaxed, |old| {
                Some(old & !(0xff << shift) | u64::from(value) << shift)
            })
            .expect("the update is never refused");
        (old >> shift) as u8
    }

    pub fn compare_exchange(
        self,
        index: usize,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8> {
        let shift = index % 8 * 8;
        let update = |old: u64| {
            ((old >> shift) as u8 == current)
                .then(|| old & !(0xff << shift) | u64::from(new) << shift)
        };
        self.words[index / 8]
            .fetch_update(order_for_update(success), failure, update)
            .map(|old| (old >> shift) as u8)
            .map_err(|old| (old >> shift) as u8)
    }
}

/// A store's ordering is given to a read-modify-write as it is; all of them are allowed there.
#[cfg(any(loom, shuttle))]
fn order_for_update(order: Ordering) -> Ordering {
    order
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::raw::atomic_words;

    #[test]
    fn neighbouring_bytes_do_not_disturb_each_other() {
        let mut memory = [0u64; 2];
        let bytes = Bytes::new(atomic_words(&mut memory));
        assert_eq!((bytes.len(), bytes.is_empty()), (16, false));
        assert_eq!(Bytes::words_needed(9), 2);
        for index in 0..16 {
            bytes.store(index, index as u8 + 1, Ordering::Relaxed);
        }
        assert_eq!(bytes.swap(7, 99, Ordering::AcqRel), 8);
        let raced = bytes.compare_exchange(8, 1, 2, Ordering::AcqRel, Ordering::Relaxed);
        assert_eq!(raced, Err(9));
        let won = bytes.compare_exchange(8, 9, 2, Ordering::AcqRel, Ordering::Relaxed);
        assert_eq!(won, Ok(9));
        assert_eq!(bytes.load(6, Ordering::Relaxed), 7);
        assert_eq!(bytes.load(7, Ordering::Relaxed), 99);
        assert_eq!(bytes.load(8, Ordering::Relaxed), 2);
        assert_eq!(bytes.load(9, Ordering::Relaxed), 10);
    }
}
