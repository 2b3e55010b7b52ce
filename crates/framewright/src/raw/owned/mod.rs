//! Values in memory of the object allocator, which get their memory back to it when they are
//! dropped.
//!
//! ```text
//!   KVBox   one value              in memory of its handle: contiguous [kmalloc], mapped pages [vmalloc],
//!   KVVec   elements side by side  or contiguous if that is there and else mapped pages [kvmalloc]
//! ```
//!
//! An owner holds a handle to the memory that it came from, as a value. Nothing is global, so two
//! heaps in one program have owners side by side. The handle has the place, the effort and the
//! context of an owner's requests. Every operation that needs memory says so in its name (`try_`), and returns
//! its argument when there was no memory.
//!
//! The engine itself knows addresses as numbers and never touches an object. If they are real
//! addresses, of a kernel or of a process, a few lines turn a seat into a [`Memory`].
//!
//! # Sources
//! The names are those of Rust for Linux.

// UNSAFETY: values are put into memory that is known only by its address, and taken out again.
#![allow(unsafe_code)]

mod boxed;
mod error;
mod into_iter;
mod vector;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use boxed::KVBox;
pub use error::Refused;
pub use into_iter::IntoIter;
pub use vector::KVVec;

use core::alloc::Layout;
use core::ptr::NonNull;

/// Memory for objects, at real addresses.
///
/// Implemented by a handle: a reference to an allocator, with the place, the effort and the context of the
/// requests that it makes.
///
/// # Safety
/// An implementation promises, for each pointer that [`alloc`](Self::alloc) and
/// [`resize`](Self::resize) return:
/// - As many bytes as asked for may be read and written through it, by any thread and by plain
///   accesses, from then on until it is passed to [`free`](Self::free) or to a `resize` that
///   succeeds, on this handle or one that it was moved or cloned to; or until all of those are
///   gone.
/// - No other code accesses them meanwhile.
/// - It is aligned as asked for.
///
/// It also promises that none of the four unwinds.
pub unsafe trait Memory {
    /// Why there is no memory.
    type Error;

    /// The error for this many elements of this many bytes, for which no object has room.
    fn too_long(&self, elements: usize, bytes_each: usize) -> Self::Error;

    /// Memory for an object of that layout, zeroed if `zero` says so, and else of any contents.
    ///
    /// # Errors
    /// If there is none, or if zero bytes are asked for, which no owner does.
    fn alloc(&self, layout: Layout, zero: bool) -> Result<NonNull<u8>, Self::Error>;

    /// Changes the length of an object to `bytes`, at the same alignment. Keeps the bytes that both
    /// lengths have. The object may move, and the old pointer is then invalid.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); the object is as it was.
    ///
    /// # Safety
    /// `at` came from this handle for this layout, or a `resize` to its length; it is
    /// not free. `bytes`, rounded up to the alignment, is at most `isize::MAX`.
    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, Self::Error>;

    /// Gives an object's memory back.
    ///
    /// # Safety
    /// `at` came from this handle for this layout, or a `resize` to its length. It is not free, and
    /// no longer in use.
    unsafe fn free(&self, at: NonNull<u8>, layout: Layout);
}

// SAFETY: all promises are those of the handle referred to; moving or copying the reference does
// not change them.
unsafe impl<M: Memory + ?Sized> Memory for &M {
    type Error = M::Error;

    fn too_long(&self, elements: usize, bytes_each: usize) -> M::Error {
        (**self).too_long(elements, bytes_each)
    }

    fn alloc(&self, layout: Layout, zero: bool) -> Result<NonNull<u8>, M::Error> {
        (**self).alloc(layout, zero)
    }

    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, M::Error> {
        // SAFETY: what the caller promised.
        unsafe { (**self).resize(at, old, bytes) }
    }

    unsafe fn free(&self, at: NonNull<u8>, layout: Layout) {
        // SAFETY: what the caller promised.
        unsafe { (**self).free(at, layout) }
    }
}
