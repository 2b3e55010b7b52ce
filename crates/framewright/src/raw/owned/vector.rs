//! A vector in memory of an allocator: elements side by side, and the buffer beneath them.
//!
//! The buffer knows memory, but no contents: it asks for memory, resizes it and gives it back. The
//! vector knows how many elements are valid. An element is written before it counts, and no longer
//! counts when it is read out or dropped: so a panic in between leaks elements, and drops none
//! twice.

use super::{Memory, Refused};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

/// Elements side by side in memory of `A`: contiguous, in mapped pages, or either, as the handle says.
///
/// It gets longer by the memory's `resize` \[`kvrealloc`\], to at least twice its capacity, or, if
/// there is not so much, to what was asked for. Elements without bytes take no memory.
///
/// # Invariants
/// - The first `len` elements of `buffer` are valid, and this owner's alone.
/// - `len` is at most the buffer's capacity.
pub struct KVVec<T, A: Memory> {
    buffer: Buffer<T, A>,
    len: usize,
}

/// Memory for `capacity` elements, without knowledge of their contents.
///
/// # Invariants
/// - Unless the elements have no bytes or `capacity` is 0, `start` is memory from `heap` for an
///   array of `capacity` elements, and this buffer's alone.
pub(super) struct Buffer<T, A: Memory> {
    start: NonNull<T>,
    capacity: usize,
    heap: A,
    owns: PhantomData<T>,
}

// SAFETY: a buffer alone has its memory, which any thread may use (the contract); see `KVBox`.
unsafe impl<T: Send, A: Memory + Send> Send for Buffer<T, A> {}
// SAFETY: as above; a shared buffer gives out only shared elements.
unsafe impl<T: Sync, A: Memory + Sync> Sync for Buffer<T, A> {}

impl<T, A: Memory> Buffer<T, A> {
    const HAS_BYTES: bool = size_of::<T>() > 0;
    /// The first capacity: more than a few bytes.
    const CAPACITY_MIN: usize = match size_of::<T>() {
        0..=1 => 16,
        2..=1024 => 4,
        _ => 1,
    };

    const fn new(heap: A) -> Self {
        Self {
            start: NonNull::dangling(),
            capacity: if Self::HAS_BYTES { 0 } else { usize::MAX },
            heap,
            owns: PhantomData,
        }
    }

    pub(super) const fn start(&self) -> NonNull<T> {
        self.start
    }

    /// The layout of its memory; `None` if it has none.
    fn layout(&self) -> Option<Layout> {
        if !Self::HAS_BYTES || self.capacity == 0 {
            return None;
        }
        // The memory was asked for with this layout.
        Layout::array::<T>(self.capacity).ok()
    }

    /// Makes room for `elements` elements, or for more.
    fn grow(&mut self, elements: usize) -> Result<(), A::Error> {
        if elements <= self.capacity {
            return Ok(());
        }
        let roomy = elements
            .max(self.capacity.saturating_mul(2))
            .max(Self::CAPACITY_MIN);
        match self.resize(roomy) {
            Err(_) if roomy > elements => self.resize(elements),
            done => done,
        }
    }

    /// Makes the capacity `capacity`, which is not 0, of elements that have bytes.
    fn resize(&mut self, capacity: usize) -> Result<(), A::Error> {
        let layout = Layout::array::<T>(capacity);
        let layout = layout.map_err(|_| self.heap.too_long(capacity, size_of::<T>()))?;
        let start = match self.layout() {
            None => self.heap.alloc(layout, false),
            // SAFETY: the memory came from this handle with this layout, and is not free
            // (invariant). The new length is one of a layout with the same alignment.
            Some(old) => unsafe { self.heap.resize(self.start.cast(), old, layout.size()) },
        };
        // INVARIANT: the memory is for `capacity` elements.
        self.start = start?.cast();
        self.capacity = capacity;
        Ok(())
    }
}

impl<T, A: Memory> Drop for Buffer<T, A> {
    fn drop(&mut self) {
        if let Some(layout) = self.layout() {
            // SAFETY: from this handle with this layout, and this buffer alone had it (invariant),
            // which no longer exists.
            unsafe { self.heap.free(self.start.cast(), layout) };
        }
    }
}

impl<T, A: Memory> KVVec<T, A> {
    /// An empty vector, which takes no memory yet.
    #[must_use]
    pub const fn new(heap: A) -> Self {
        Self {
            buffer: Buffer::new(heap),
            len: 0,
        }
    }

    /// An empty vector with memory for `capacity` elements.
    ///
    /// # Errors
    /// If there is no memory; the handle is dropped then.
    pub fn try_with_capacity(capacity: usize, heap: A) -> Result<Self, A::Error> {
        let mut this = Self::new(heap);
        if capacity > this.buffer.capacity {
            this.buffer.resize(capacity)?;
        }
        Ok(this)
    }

    /// Makes room for `more` elements: that many can then be added without an error.
    ///
    /// # Errors
    /// If there is no memory, or no such length. The vector is as it was.
    pub fn try_reserve(&mut self, more: usize) -> Result<(), A::Error> {
        match self.len.checked_add(more) {
            Some(elements) => self.buffer.grow(elements),
            None => Err(self.buffer.heap.too_long(usize::MAX, size_of::<T>())),
        }
    }

    /// Adds an element at the end. Time: O(1) on average.
    ///
    /// # Errors
    /// The element, if there is no memory for it. The vector is as it was.
    pub fn try_push(&mut self, value: T) -> Result<(), Refused<T, A::Error>> {
        if self.len == self.buffer.capacity
            && let Err(error) = self.try_reserve(1)
        {
            return Err(Refused { value, error });
        }
        // SAFETY: below the capacity, so inside the buffer's memory, and the place is empty.
        unsafe { self.buffer.start.add(self.len).write(value) };
        // INVARIANT: one more element is valid.
        self.len += 1;
        Ok(())
    }

    /// Adds clones of all elements of `from` at the end.
    ///
    /// # Errors
    /// If there is no memory for all of them; none is added then.
    ///
    /// # Panics
    /// If a clone does; those made before it have been added.
    pub fn try_extend_from_slice(&mut self, from: &[T]) -> Result<(), A::Error>
    where
        T: Clone,
    {
        self.try_reserve(from.len())?;
        let mut added = Added {
            now: self.len,
            len: &mut self.len,
        };
        for value in from {
            // SAFETY: below the capacity, so inside the buffer's memory, and the place is empty.
            unsafe { self.buffer.start.add(added.now).write(value.clone()) };
            added.now += 1;
        }
        Ok(())
    }

    /// Removes the last element, and returns it.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was valid, and no longer counts, so it is read once.
        Some(unsafe { self.buffer.start.add(self.len).read() })
    }

    /// Drops all elements but the first `len`, in their order. The memory stays.
    pub fn truncate(&mut self, len: usize) {
        let Some(gone) = self.len.checked_sub(len) else {
            return;
        };
        // INVARIANT: the first `len` are valid; elements that a panic leaves behind do not count.
        self.len = len;
        // SAFETY: these elements were valid, and no longer count, so they are dropped once.
        unsafe {
            let first = self.buffer.start.add(len);
            core::ptr::slice_from_raw_parts_mut(first.as_ptr(), gone).drop_in_place();
        }
    }

    /// Drops all elements, in their order. The memory stays.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// How many elements it has memory for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.buffer.capacity
    }

    /// The memory behind the last element.
    #[must_use]
    pub fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<T>] {
        let spare = self.buffer.capacity - self.len;
        // SAFETY: inside the buffer's memory, which is borrowed mutably; any bytes are a
        // `MaybeUninit`.
        unsafe {
            let first = self.buffer.start.add(self.len);
            slice::from_raw_parts_mut(first.cast().as_ptr(), spare)
        }
    }

    /// Declares that the first `len` elements are valid.
    ///
    /// # Safety
    /// They are: those behind the former length have been written through
    /// [`spare_capacity_mut`](Self::spare_capacity_mut). `len` is at most the capacity.
    pub const unsafe fn set_len(&mut self, len: usize) {
        // INVARIANT: by the caller's promise.
        self.len = len;
    }

    /// The elements.
    #[must_use]
    pub const fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` are valid and this owner's alone, which is borrowed.
        unsafe { slice::from_raw_parts(self.buffer.start.as_ptr(), self.len) }
    }

    /// The elements.
    #[must_use]
    pub const fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: the first `len` are valid and this owner's alone, which is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.buffer.start.as_ptr(), self.len) }
    }

    /// The handle to the memory.
    #[must_use]
    pub const fn heap(&self) -> &A {
        &self.buffer.heap
    }
}

/// A length that is counted where the compiler knows that it does not overlap the elements, and
/// that becomes the vector's in the end, even if a clone panics.
struct Added<'v> {
    len: &'v mut usize,
    now: usize,
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        // INVARIANT: that many elements are valid.
        *self.len = self.now;
    }
}

impl<T, A: Memory> Drop for KVVec<T, A> {
    fn drop(&mut self) {
        // The buffer gives its memory back after this, even if an element panics.
        self.clear();
    }
}

impl<T, A: Memory> Deref for KVVec<T, A> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T, A: Memory> DerefMut for KVVec<T, A> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.as_mut_slice()
    }
}

impl<T, A: Memory> KVVec<T, A> {
    /// The buffer, and how many of its first elements are valid; the caller has them from now on.
    pub(super) fn into_parts(self) -> (Buffer<T, A>, usize) {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, and `this` is neither used again nor dropped.
        (unsafe { core::ptr::read(&this.buffer) }, this.len)
    }
}

impl<'a, T, A: Memory> IntoIterator for &'a KVVec<T, A> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T, A: Memory> IntoIterator for &'a mut KVVec<T, A> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;

    fn into_iter(self) -> slice::IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T: fmt::Debug, A: Memory> fmt::Debug for KVVec<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}
