use crate::units::Page;
use core::fmt;

/// An invariant that does not hold: its letter, and the page where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The invariant's name in the [module's description](super).
    pub invariant: &'static str,
    /// The page, or the first page of the span.
    pub at: Page,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invariant {} is broken at page {}",
            self.invariant, self.at
        )
    }
}

impl core::error::Error for Broken {}
