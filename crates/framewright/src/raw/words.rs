//! Plain words that the caller lends, seen as atomic words.

// UNSAFETY: plain words handed in by the caller are used as atomic words for as long as they are
// lent; the language has the cast for one atomic, but not for a slice on stable.
#![cfg_attr(not(any(loom, shuttle)), allow(unsafe_code))]

use crate::sync::AtomicU64;

#[cfg(not(any(loom, shuttle)))]
const _: () = {
    assert!(size_of::<AtomicU64>() == size_of::<u64>());
    assert!(
        align_of::<AtomicU64>() == align_of::<u64>(),
        "framewright is for targets that align a `u64` as an atomic one, to 8 bytes: i686 aligns it to 4"
    );
};

/// Presents `memory` as atomic words for as long as it is lent; the values stay.
///
/// Costs nothing, except in a model, where it copies into atomics of the model's own.
#[cfg(not(any(loom, shuttle)))]
#[must_use]
pub(crate) fn atomic_words(memory: &mut [u64]) -> &[AtomicU64] {
    let len = memory.len();
    let start = memory.as_mut_ptr().cast::<AtomicU64>();
    // SAFETY: size: asserted above, so `len` atomics cover exactly `memory`.
    // Alignment: asserted above.
    // Exclusiveness: `memory` is borrowed mutably for the lifetime of the result, so the words
    // are accessed only through the atomics.
    // Initialised: every bit pattern is a valid `u64` and the words are initialised.
    unsafe { core::slice::from_raw_parts(start, len) }
}

/// Presents `memory` as atomic words: in a model, atomics of the model's own with the same values.
#[cfg(any(loom, shuttle))]
#[must_use]
pub(crate) fn atomic_words(memory: &mut [u64]) -> &[AtomicU64] {
    super::kept::kept(memory.iter().map(|&word| AtomicU64::new(word)).collect())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn words_keep_their_values_and_return_them() {
        let mut memory = [3, 5, 7];
        let words = atomic_words(&mut memory);
        assert_eq!(words[1].fetch_add(1, Ordering::Relaxed), 5);
        assert_eq!(words.len(), 3);
        assert_eq!(memory, [3, 6, 7]);
        assert!(atomic_words(&mut []).is_empty());
    }
}
