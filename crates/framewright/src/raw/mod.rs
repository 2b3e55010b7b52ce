//! The only folder with `unsafe`: metadata memory presented as atomics, values that own their
//! memory, and hints to the processor.
//!
//! The caller hands in plain words (`&mut [u64]`); the engine shares them between CPUs. In a model
//! (loom, shuttle) an atomic is not a plain word, so there the same functions make atomics of their
//! own with the words' values, and `kept` keeps them.
//!
//! A `Carver` cuts the memory of an allocator into its parts: words, halves, and records, which are structs of
//! atomics with named fields.
//!
//! Each place in memory has one size for all accesses: a word, a half of 16 bits, or the field of a record, which
//! may have 16, 32 or 64 bits. The memory model does not define mixed sizes. Words, halves and records each borrow
//! their memory exclusively, so no caller can have two of them over one place. `WordRecords` is the exception: records
//! that are words throughout, and the same words by number.

mod carve;
mod halves;
#[cfg(any(loom, shuttle))]
mod kept;
pub(crate) mod owned;
mod record;
mod soon;
mod words;

pub(crate) use carve::{Carver, zeroed_words};
pub(crate) use halves::Halves;
pub(crate) use record::{RawRecord, WordRecords, record};
pub(crate) use soon::soon_written;
pub(crate) use words::atomic_words;
