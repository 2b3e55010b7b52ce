//! Bytes of memory that all threads access as atomic words.
//!
//! All accesses have the size of a word, even if only some of its bytes are meant: the language
//! does not define accesses of different sizes to the same memory by several threads. They are
//! relaxed: handing an object from one thread to another orders their accesses.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes in a word.
const BYTES: usize = size_of::<u64>();

/// A word's number and some of its bytes.
type WordPart = (usize, Range<usize>);

/// Splits `bytes` into those of the first word if it is not covered as a whole, whole words, and
/// those of the last word; each word by its number.
fn parts(bytes: Range<usize>) -> (WordPart, Range<usize>, WordPart) {
    let (first, last) = (bytes.start / BYTES, bytes.end / BYTES);
    let (head, tail) = (bytes.start % BYTES, bytes.end % BYTES);
    if first == last {
        return ((first, head..tail), 0..0, (last, 0..0));
    }
    let whole = bytes.start.div_ceil(BYTES);
    let head = if head == 0 { 0..0 } else { head..BYTES };
    ((first, head), whole..last, (last, 0..tail))
}

/// Changes some bytes of one word to those of `value`, and leaves the others alone, which other
/// threads may change at the same moment.
fn change(word: Option<&AtomicU64>, bytes: Range<usize>, value: u64) {
    let Some(word) = word.filter(|_| !bytes.is_empty()) else {
        return;
    };
    let from = value.to_ne_bytes();
    let mut old = word.load(Relaxed);
    loop {
        let mut new = old.to_ne_bytes();
        new[bytes.clone()].copy_from_slice(&from[bytes.clone()]);
        match word.compare_exchange_weak(old, u64::from_ne_bytes(new), Relaxed, Relaxed) {
            Ok(_) => return,
            Err(now) => old = now,
        }
    }
}

/// Fills the bytes `bytes` of `words` with zeroes.
///
/// # Panics
/// If they are not all in `words`.
pub(crate) fn zero(words: &[AtomicU64], bytes: Range<usize>) {
    let (head, whole, tail) = parts(bytes);
    change(words.get(head.0), head.1, 0);
    for word in &words[whole] {
        word.store(0, Relaxed);
    }
    change(words.get(tail.0), tail.1, 0);
}

/// Copies the bytes `bytes` of `from` to as many of `to` from byte `at` on.
///
/// # Panics
/// If they are not all in there.
pub(crate) fn copy(from: &[AtomicU64], bytes: Range<usize>, to: &[AtomicU64], at: usize) {
    let start = bytes.start;
    let (head, whole, tail) = parts(at..at + bytes.len());
    // The bytes for word `number` of `to`, of which only `part` exist.
    let gather = |number: usize, part: Range<usize>| {
        let mut value = [0; BYTES];
        for nth in part {
            let byte = start + number * BYTES + nth - at;
            value[nth] = from[byte / BYTES].load(Relaxed).to_ne_bytes()[byte % BYTES];
        }
        u64::from_ne_bytes(value)
    };
    change(to.get(head.0), head.1.clone(), gather(head.0, head.1));
    let is_aligned = start % BYTES == at % BYTES;
    if is_aligned && !whole.is_empty() {
        let first = (start + whole.start * BYTES - at) / BYTES;
        let sources = &from[first..first + whole.len()];
        for (to, from) in to[whole].iter().zip(sources) {
            to.store(from.load(Relaxed), Relaxed);
        }
    } else {
        // No two objects lie so; correctness is enough, speed is not needed.
        for number in whole {
            to[number].store(gather(number, 0..BYTES), Relaxed);
        }
    }
    change(to.get(tail.0), tail.1.clone(), gather(tail.0, tail.1));
}

/// Copies the bytes of `from` from byte `at` on to `into`.
///
/// # Panics
/// If they are not all in there.
pub(crate) fn load(from: &[AtomicU64], at: usize, into: &mut [u8]) {
    let (head, whole, tail) = parts(at..at + into.len());
    let bytes_of = |number: usize| from[number].load(Relaxed).to_ne_bytes();
    let (first, rest) = into.split_at_mut(head.1.len());
    if !head.1.is_empty() {
        first.copy_from_slice(&bytes_of(head.0)[head.1]);
    }
    let (middle, last) = rest.split_at_mut(whole.len() * BYTES);
    let (middle, _) = middle.as_chunks_mut::<BYTES>();
    for (to, word) in middle.iter_mut().zip(&from[whole]) {
        *to = word.load(Relaxed).to_ne_bytes();
    }
    if !tail.1.is_empty() {
        last.copy_from_slice(&bytes_of(tail.0)[tail.1]);
    }
}

/// Copies `from` to the bytes of `to` from byte `at` on.
///
/// # Panics
/// If they are not all in there.
pub(crate) fn store(to: &[AtomicU64], at: usize, from: &[u8]) {
    let (head, whole, tail) = parts(at..at + from.len());
    let part = |bytes: &Range<usize>, some: &[u8]| {
        let mut value = [0; BYTES];
        value[bytes.clone()].copy_from_slice(some);
        u64::from_ne_bytes(value)
    };
    let (first, rest) = from.split_at(head.1.len());
    if !head.1.is_empty() {
        change(Some(&to[head.0]), head.1.clone(), part(&head.1, first));
    }
    let (middle, last) = rest.split_at(whole.len() * BYTES);
    let (middle, _) = middle.as_chunks::<BYTES>();
    for (word, bytes) in to[whole].iter().zip(middle) {
        word.store(u64::from_ne_bytes(*bytes), Relaxed);
    }
    if !tail.1.is_empty() {
        change(Some(&to[tail.0]), tail.1.clone(), part(&tail.1, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8; 40]) -> [AtomicU64; 5] {
        let (chunks, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|nth| AtomicU64::new(u64::from_ne_bytes(chunks[nth])))
    }

    fn bytes(words: &[AtomicU64; 5]) -> [u8; 40] {
        std::array::from_fn(|nth| words[nth / 8].load(Relaxed).to_ne_bytes()[nth % 8])
    }

    #[test]
    fn every_range_is_zeroed_and_nothing_else() {
        for start in 0..=40 {
            for end in start..=40 {
                let some = words(&[0xa5; 40]);
                zero(&some, start..end);
                let mut expected = [0xa5; 40];
                expected[start..end].fill(0);
                assert_eq!(bytes(&some), expected, "{start}..{end}");
            }
        }
    }

    #[test]
    fn every_range_of_bytes_is_loaded_and_stored() {
        let source: [u8; 40] = std::array::from_fn(|nth| nth as u8 + 1);
        let from = words(&source);
        for at in 0..=40 {
            for end in at..=40 {
                let mut some = vec![0; end - at];
                load(&from, at, &mut some);
                assert_eq!(some, source[at..end]);
                let to = words(&[0xa5; 40]);
                store(&to, at, &some);
                let mut expected = [0xa5; 40];
                expected[at..end].copy_from_slice(&source[at..end]);
                assert_eq!(bytes(&to), expected, "{at}..{end}");
            }
        }
    }

    #[test]
    fn every_range_is_copied_to_every_place() {
        let source: [u8; 40] = std::array::from_fn(|nth| nth as u8 + 1);
        let from = words(&source);
        for start in 0..=40 {
            for len in 0..=40 - start {
                for at in 0..=40 - len {
                    let to = words(&[0xa5; 40]);
                    copy(&from, start..start + len, &to, at);
                    let mut expected = [0xa5; 40];
                    expected[at..at + len].copy_from_slice(&source[start..start + len]);
                    assert_eq!(bytes(&to), expected, "{len} from {start} to {at}");
                }
            }
        }
    }
}
