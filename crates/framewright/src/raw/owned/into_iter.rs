//! The elements of a vector, handed out by value from either end.

use super::Memory;
use super::vector::{Buffer, KVVec};
use core::fmt;
use core::iter::FusedIterator;
use core::ops::Range;

/// The elements of a [`KVVec`], one after another.
///
/// # Invariants
/// - The elements of the buffer with numbers in `left` are valid, and this iterator alone has them.
pub struct IntoIter<T, A: Memory> {
    buffer: Buffer<T, A>,
    left: Range<usize>,
}

impl<T, A: Memory> IntoIter<T, A> {
    /// The elements that remain.
    #[must_use]
    pub const fn as_slice(&self) -> &[T] {
        let len = self.left.end - self.left.start;
        // SAFETY: valid and this iterator's alone (invariant), which is borrowed.
        unsafe {
            let first = self.buffer.start().add(self.left.start);
            core::slice::from_raw_parts(first.as_ptr(), len)
        }
    }

    /// Takes an element that is no longer in `left`.
    ///
    /// # Safety
    /// It was in `left` until now.
    unsafe fn take(&mut self, number: usize) -> T {
        // SAFETY: it was valid, and will not be read again.
        unsafe { self.buffer.start().add(number).read() }
    }
}

impl<T, A: Memory> IntoIterator for KVVec<T, A> {
    type Item = T;
    type IntoIter = IntoIter<T, A>;

    fn into_iter(self) -> IntoIter<T, A> {
        let (buffer, len) = self.into_parts();
        // INVARIANT: the vector's first `len` elements are valid, and it has given them up.
        IntoIter {
            buffer,
            left: 0..len,
        }
    }
}

impl<T, A: Memory> Iterator for IntoIter<T, A> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let number = self.left.next()?;
        // SAFETY: taken out of `left` a line above.
        Some(unsafe { self.take(number) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<T, A: Memory> DoubleEndedIterator for IntoIter<T, A> {
    fn next_back(&mut self) -> Option<T> {
        let number = self.left.next_back()?;
        // SAFETY: taken out of `left` a line above.
        Some(unsafe { self.take(number) })
    }
}

impl<T, A: Memory> ExactSizeIterator for IntoIter<T, A> {}
impl<T, A: Memory> FusedIterator for IntoIter<T, A> {}

impl<T, A: Memory> Drop for IntoIter<T, A> {
    fn drop(&mut self) {
        let left = core::mem::replace(&mut self.left, 0..0);
        // SAFETY: valid, and no longer in `left`, so they are dropped once. The buffer gives its
        // memory back after this, even if an element panics.
        unsafe {
            let first = self.buffer.start().add(left.start);
            core::ptr::slice_from_raw_parts_mut(first.as_ptr(), left.len()).drop_in_place();
        }
    }
}

impl<T: fmt::Debug, A: Memory> fmt::Debug for IntoIter<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}
