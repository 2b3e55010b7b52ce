//! Why an owner got no memory, with the value that comes back.

use core::fmt;

/// There was no memory for a value, which comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T, E> {
    /// The value.
    pub value: T,
    /// Why there was no memory.
    pub error: E,
}

// By hand, so that the value need not implement `Debug`.
impl<T, E: fmt::Debug> fmt::Debug for Refused<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Refused");
        fields.field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T, E: fmt::Display> fmt::Display for Refused<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T, E: core::error::Error> core::error::Error for Refused<T, E> {}
