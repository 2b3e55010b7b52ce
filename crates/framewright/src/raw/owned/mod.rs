//! Values in memory of the object allocator, which get their memory back to it when they are
//! dropped.
//!
//! ```text
//!   KBox, KVec     contiguous in memory        [kmalloc]
//!   VBox, VVec     mapped pages                [vmalloc]
//!   KVBox, KVVec   contiguous if it is there, else mapped pages   [kvmalloc]
//! ```
//!
//! An owner holds a handle to the memory that it came from, as a value. Nothing is global, so two
//! heaps in one program have owners side by side. The handle has the effort and the context of an
//! owner's requests. Every operation that needs memory says so in its name (`try_`), and returns
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

pub(crate) use boxed::Boxed;
pub use error::{Refused, ReserveError};
pub(crate) use into_iter::IntoIter;
pub(crate) use vector::Vector;

use core::alloc::Layout;
use core::ptr::NonNull;

/// A value that is contiguous in memory.
pub type KBox<T, A> = Boxed<T, A, Contiguous>;
/// A value in mapped pages.
pub type VBox<T, A> = Boxed<T, A, Mapped>;
/// A value that is contiguous in memory if that is there, and else in mapped pages.
pub type KVBox<T, A> = Boxed<T, A, Either>;
/// A vector that is contiguous in memory.
pub type KVec<T, A> = Vector<T, A, Contiguous>;
/// A vector in mapped pages.
pub type VVec<T, A> = Vector<T, A, Mapped>;
/// A vector that is contiguous in memory if that is there, and else in mapped pages.
pub type KVVec<T, A> = Vector<T, A, Either>;

/// Where an object may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Contiguous in memory, in the direct map.
    Contiguous,
    /// In mapped pages.
    Mapped,
    /// The first if it is there, else the second.
    Either,
}

/// A [`Place`] as a type.
pub trait Where: sealed::Sealed {
    /// The place.
    const PLACE: Place;
}

/// [`Place::Contiguous`].
#[derive(Debug)]
pub enum Contiguous {}
/// [`Place::Mapped`].
#[derive(Debug)]
pub enum Mapped {}
/// [`Place::Either`].
#[derive(Debug)]
pub enum Either {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Contiguous {}
    impl Sealed for super::Mapped {}
    impl Sealed for super::Either {}
}

impl Where for Contiguous {
    const PLACE: Place = Place::Contiguous;
}
impl Where for Mapped {
    const PLACE: Place = Place::Mapped;
}
impl Where for Either {
    const PLACE: Place = Place::Either;
}

/// Memory for objects, at real addresses.
///
/// Implemented by a handle: a reference to an allocator, with the effort and the context of the
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
/// It also promises that none of the three unwinds.
pub unsafe trait Memory {
    /// Why there is no memory.
    type Error;

    /// Memory for an object of that layout, zeroed if `zero` says so, and else of any contents.
    ///
    /// # Errors
    /// If there is none, or if zero bytes are asked for, which no owner does.
    fn alloc(&self, layout: Layout, place: Place, zero: bool) -> Result<NonNull<u8>, Self::Error>;

    /// Changes the length of an object to `bytes`, at the same alignment. Keeps the bytes that both
    /// lengths have. The object may move, and the old pointer is then invalid.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); the object is as it was.
    ///
    /// # Safety
    /// `at` came from this handle for this place and this layout, or a `resize` to its length; it is
    /// not free. `bytes`, rounded up to the alignment, is at most `isize::MAX`.
    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
        place: Place,
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

    fn alloc(&self, layout: Layout, place: Place, zero: bool) -> Result<NonNull<u8>, M::Error> {
        (**self).alloc(layout, place, zero)
    }

    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
        place: Place,
    ) -> Result<NonNull<u8>, M::Error> {
        // SAFETY: what the caller promised.
        unsafe { (**self).resize(at, old, bytes, place) }
    }

    unsafe fn free(&self, at: NonNull<u8>, layout: Layout) {
        // SAFETY: what the caller promised.
        unsafe { (**self).free(at, layout) }
    }
}
