//! Records: structs of atomics with named fields, laid over words.

// UNSAFETY: words are seen as a struct of atomics, for which the language has no safe cast.
#![cfg_attr(not(any(loom, shuttle)), allow(unsafe_code))]

use crate::sync::{AtomicU16, AtomicU32, AtomicU64, CounterWord};

/// A struct of atomics, or an array of them, that can be laid over words: see [`record!`].
///
/// # Safety
/// It consists of atomic integers only, in arrays, in structs and between padding: so every value of the words is
/// valid, and shared references allow writing.
#[allow(
    unsafe_code,
    reason = "the trait promises what laying it over words takes"
)]
pub(crate) unsafe trait RawRecord: Sized {
    /// The words of one. In a model, in which atomics have other sizes, another number.
    const WORDS: usize = size_of::<Self>().div_ceil(8);

    /// A model makes a record of its own.
    #[cfg(any(loom, shuttle))]
    fn zeroed() -> Self;
}

macro_rules! atomics {
    ($($atomic:ty),*) => {$(
        // SAFETY: an atomic integer.
        #[allow(unsafe_code, reason = "as the comment says")]
        unsafe impl RawRecord for $atomic {
            #[cfg(any(loom, shuttle))]
            fn zeroed() -> Self {
                Self::new(0)
            }
        }
    )*};
}

atomics!(AtomicU16, AtomicU32, AtomicU64, CounterWord);

// SAFETY: an array of records.
#[allow(unsafe_code, reason = "as the comment says")]
unsafe impl<R: RawRecord, const N: usize> RawRecord for [R; N] {
    #[cfg(any(loom, shuttle))]
    fn zeroed() -> Self {
        core::array::from_fn(|_| R::zeroed())
    }
}

/// Lays as many records over `words` as fit, for as long as the words are lent.
///
/// # Panics
/// If the words do not begin where such a record may begin.
#[cfg(not(any(loom, shuttle)))]
pub(super) fn records<R: RawRecord>(words: &mut [u64]) -> &[R] {
    const { assert!(size_of::<R>() == 8 * R::WORDS && R::WORDS > 0) };
    let start = words.as_mut_ptr().cast::<R>();
    assert!(start.is_aligned(), "records begin where their type may");
    // SAFETY: size: asserted above, so these records are all inside `words`. Alignment: asserted above.
    // Exclusiveness: `words` are borrowed mutably for the lifetime of the result, so they are accessed only through
    // the records. Validity, and writing through a shared reference: `RawRecord` promises both.
    unsafe { core::slice::from_raw_parts(start, words.len() / R::WORDS) }
}

/// In a model: records of the model's own. All words that a record is laid over are zero.
#[cfg(any(loom, shuttle))]
pub(super) fn records<R: RawRecord>(words: &mut [u64]) -> &[R] {
    let count = words.len() / R::WORDS;
    let records: std::vec::Vec<R> = (0..count).map(|_| R::zeroed()).collect();
    std::boxed::Box::leak(records.into_boxed_slice())
}

/// Declares structs whose fields are all records, which makes them [`RawRecord`]s. `= ... words` asserts the size and the
/// places of fields, in words.
macro_rules! record {
    ($(
        $(#[$meta:meta])*
        $visible:vis struct $name:ident {
            $($(#[$about:meta])* $shown:vis $field:ident: $type:ty),* $(,)?
        }
        $(= $words:literal words $(, $place:ident at $at:literal)*;)?
    )*) => {$(
        $(#[$meta])*
        $visible struct $name {
            $($(#[$about])* $shown $field: $type),*
        }

        // SAFETY: every field is a record, which `zeroed` or the assertion asks for.
        #[allow(unsafe_code, reason = "as the comment says")]
        unsafe impl $crate::raw::RawRecord for $name {
            #[cfg(any(loom, shuttle))]
            fn zeroed() -> Self {
                Self {
                    $($field: $crate::raw::RawRecord::zeroed()),*
                }
            }
        }

        const _: () = {
            const fn is_record<R: $crate::raw::RawRecord>() {}
            $(is_record::<$type>();)*
        };

        $(#[cfg(not(any(loom, shuttle)))]
        const _: () = {
            assert!(size_of::<$name>() == 8 * $words);
            $(assert!(core::mem::offset_of!($name, $place) == 8 * $at);)*
        };)?
    )*};
}

pub(crate) use record;
