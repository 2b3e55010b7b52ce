//! What a slow check found.

use core::fmt;

/// An invariant that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Its letter in the description of the module that keeps it, and what it says.
    pub invariant: &'static str,
    /// Where: the number of a frame, a page, a pageblock or a pool; the check says which.
    pub at: u64,
}

impl Broken {
    /// Passes if the invariant holds.
    pub(crate) const fn unless(holds: bool, invariant: &'static str, at: u64) -> Result<(), Self> {
        if holds {
            Ok(())
        } else {
            Err(Self { invariant, at })
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invariant {} is broken at {:#x}",
            self.invariant, self.at
        )
    }
}

impl core::error::Error for Broken {}
