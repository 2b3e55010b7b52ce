//! Requests: what a caller asks (this file), and how that becomes an object, or stops being one.
//!
//! `obtain` takes the steps that the policy chooses, each outside a busy seat (K6 to K10). `kmalloc`: slots and blocks,
//! and their frees. `kvmalloc`: the same, or mapped pages. `realloc`: a change of length. Nothing here has state of
//! its own.

mod kmalloc;
mod kvmalloc;
mod obtain;
mod realloc;

use super::KvError;
use crate::policy::Effort;
use crate::units::Context;

/// A request for an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvRequest {
    /// The length in bytes.
    pub bytes: u64,
    /// The alignment of the first byte's address: a power of two. Whatever the request asks for, an
    /// object is aligned to 16 bytes, and one with a power of two as its length to that length or a
    /// page; but not if it got that length by a change in place.
    pub align_bytes: u64,
    /// Whether the object's bytes must be zero, including those behind its length that it has room
    /// for.
    pub zero: bool,
    /// How hard to try for it.
    pub effort: Effort,
    /// What the caller may do while it waits.
    pub context: Context,
    /// The caller's tag, for listings of mapped objects.
    pub tag: u32,
}

impl KvRequest {
    /// `bytes` bytes of any contents, fail-fast, for a caller that may do anything.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self {
            bytes,
            align_bytes: 1,
            zero: false,
            effort: Effort::FailFast,
            context: Context::ANY,
            tag: 0,
        }
    }

    /// As many bytes as `count` elements of `bytes_each` have \[`kvmalloc_array`\].
    ///
    /// # Errors
    /// [`KvError::Overflow`] if the product exceeds the range of numbers.
    pub const fn array(count: u64, bytes_each: u64) -> Result<Self, KvError> {
        match count.checked_mul(bytes_each) {
            Some(bytes) => Ok(Self::new(bytes)),
            None => Err(KvError::Overflow { count, bytes_each }),
        }
    }

    /// Checks for errors that no amount of memory would cure.
    pub(super) const fn check(&self) -> Result<(), KvError> {
        if self.bytes == 0 {
            return Err(KvError::Empty);
        }
        if !self.align_bytes.is_power_of_two() {
            let bytes = self.align_bytes;
            return Err(KvError::Align { bytes });
        }
        if !self.effort.is_allowed(self.context) {
            return Err(KvError::MustNotWait);
        }
        Ok(())
    }

    /// The same, aligned to `bytes`.
    #[must_use]
    pub const fn aligned_to(mut self, bytes: u64) -> Self {
        self.align_bytes = bytes;
        self
    }

    /// The same, with zeroes in it.
    #[must_use]
    pub const fn zeroed(mut self) -> Self {
        self.zero = true;
        self
    }

    /// The same, and memory may be compacted or reclaimed once: [`Effort::MayCompact`].
    #[must_use]
    pub const fn may_compact(self) -> Self {
        self.with(Effort::MayCompact)
    }

    /// The same, and memory is reclaimed as long as clients give any: [`Effort::MustSucceed`].
    #[must_use]
    pub const fn must_succeed(self) -> Self {
        self.with(Effort::MustSucceed)
    }

    /// The same with that effort.
    #[must_use]
    pub const fn with(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// The same for a caller that may do less.
    #[must_use]
    pub const fn within(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// The same with a tag.
    #[must_use]
    pub const fn tagged(mut self, tag: u32) -> Self {
        self.tag = tag;
        self
    }
}
