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
pub(crate) unsafe trait RawRecord: Send + Sync + Sized + 'static {
    /// The words of one. In a model, whose records lie elsewhere, one word stands for it.
    const WORDS: usize = if cfg!(any(loom, shuttle)) {
        1
    } else {
        size_of::<Self>().div_ceil(8)
    };

    /// Whether it is `AtomicU64`s throughout, so that it can be seen as words, too.
    const IS_WORDS: bool;

    /// A model makes a record of its own.
    #[cfg(any(loom, shuttle))]
    fn zeroed() -> Self;

    /// Adds the words of one that is words throughout, in order.
    #[cfg(any(loom, shuttle))]
    fn add_words<'r>(&'r self, words: &mut std::vec::Vec<&'r AtomicU64>);
}

macro_rules! atomics {
    ($($atomic:ty = $is_words:literal $word:expr),* $(,)?) => {$(
        // SAFETY: an atomic integer.
        #[allow(unsafe_code, reason = "as the comment says")]
        unsafe impl RawRecord for $atomic {
            const IS_WORDS: bool = $is_words;

            #[cfg(any(loom, shuttle))]
            fn zeroed() -> Self {
                Self::new(0)
            }

            #[cfg(any(loom, shuttle))]
            fn add_words<'r>(&'r self, words: &mut std::vec::Vec<&'r AtomicU64>) {
                let word: fn(&Self) -> Option<&AtomicU64> = $word;
                words.extend(word(self));
            }
        }
    )*};
}

atomics!(
    AtomicU16 = false | _ | None,
    AtomicU32 = false | _ | None,
    AtomicU64 = true | word | Some(word),
    CounterWord = false | _ | None,
);

// SAFETY: an array of records.
#[allow(unsafe_code, reason = "as the comment says")]
unsafe impl<R: RawRecord, const N: usize> RawRecord for [R; N] {
    const IS_WORDS: bool = R::IS_WORDS;

    #[cfg(any(loom, shuttle))]
    fn zeroed() -> Self {
        core::array::from_fn(|_| R::zeroed())
    }

    #[cfg(any(loom, shuttle))]
    fn add_words<'r>(&'r self, words: &mut std::vec::Vec<&'r AtomicU64>) {
        self.iter().for_each(|record| record.add_words(words));
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
pub(super) fn records<R: RawRecord>(words: &mut [u64]) -> &'static [R] {
    let count = words.len() / R::WORDS;
    super::kept::kept((0..count).map(|_| R::zeroed()).collect())
}

/// Records that are words throughout, and the same memory as words, for what names a word by one number.
#[derive(Debug)]
pub(crate) struct WordRecords<'m, R> {
    records: &'m [R],
    #[cfg(not(any(loom, shuttle)))]
    words: &'m [AtomicU64],
    #[cfg(any(loom, shuttle))]
    words: &'m [&'m AtomicU64],
}

impl<R> Clone for WordRecords<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for WordRecords<'_, R> {}

impl<'m, R: RawRecord> WordRecords<'m, R> {
    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn new(words: &'m mut [u64]) -> Self {
        const { assert!(R::IS_WORDS && size_of::<R>() == 8 * R::WORDS && R::WORDS > 0) };
        let count = words.len() / R::WORDS;
        let start = words.as_mut_ptr();
        assert!(
            start.cast::<R>().is_aligned(),
            "records begin where their type may"
        );
        let words = start.cast::<AtomicU64>();
        // SAFETY: size: a record is that many words, as asserted above. Alignment: asserted above; a record's is a multiple
        // of theirs. Exclusiveness: `words` are borrowed mutably for the lifetime of the result, so they are accessed
        // only through records and words; both come from one pointer, and are `AtomicU64`s in the same places, as
        // asserted above, but for padding, which no number is used for. Writing through a shared reference: atomics.
        let words = unsafe { core::slice::from_raw_parts(words, count * R::WORDS) };
        // SAFETY: as above.
        let records = unsafe { core::slice::from_raw_parts(start.cast::<R>(), count) };
        Self { records, words }
    }

    #[cfg(any(loom, shuttle))]
    pub(super) fn new(words: &'m mut [u64]) -> Self {
        const { assert!(R::IS_WORDS) };
        let records = records::<R>(words);
        let mut words = std::vec::Vec::new();
        records
            .iter()
            .for_each(|record| record.add_words(&mut words));
        let words = super::kept::kept(words);
        Self { records, words }
    }

    /// How many records there are.
    pub(crate) const fn len(self) -> usize {
        self.records.len()
    }

    #[inline(always)]
    pub(crate) fn get(self, nth: usize) -> &'m R {
        &self.records[nth]
    }

    #[inline(always)]
    pub(crate) fn find(self, nth: usize) -> Option<&'m R> {
        self.records.get(nth)
    }

    /// The word of that number, counted from the first record's first on.
    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    pub(crate) fn word(self, nth: usize) -> Option<&'m AtomicU64> {
        self.words.get(nth)
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn word(self, nth: usize) -> Option<&'m AtomicU64> {
        self.words.get(nth).copied()
    }
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
            const IS_WORDS: bool = $(<$type as $crate::raw::RawRecord>::IS_WORDS)&&*;

            #[cfg(any(loom, shuttle))]
            fn zeroed() -> Self {
                Self {
                    $($field: $crate::raw::RawRecord::zeroed()),*
                }
            }

            #[cfg(any(loom, shuttle))]
            fn add_words<'r>(&'r self, words: &mut std::vec::Vec<&'r $crate::sync::AtomicU64>) {
                $($crate::raw::RawRecord::add_words(&self.$field, words);)*
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
