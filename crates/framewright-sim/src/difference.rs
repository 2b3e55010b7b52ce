//! What every comparison of engine and model ends in. A panic of the engine is a difference as well.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The difference between engine and model, or the rule that the engine broke, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference(pub String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Builds a [`Difference`].
macro_rules! differ {
    ($($arg:tt)*) => { Err($crate::Difference(format!($($arg)*))) };
}
pub(crate) use differ;

/// The first operation after which engine and model differ.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its number in the sequence, from 0, if its own result differs; else how many operations
    /// there had been when a later comparison found the difference.
    pub at: usize,
    /// The difference.
    pub difference: Difference,
}

/// What a run without a difference did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunSummary {
    /// Operations.
    pub ops: u64,
    /// Requests served.
    pub served: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests refused that frames cached by other CPUs would have served, by a rule that allows
    /// it.
    pub missed: u64,
    /// Platform calls that were made to fail, and failed.
    pub faults: u64,
}

/// Runs `work`, and makes a panic in it a difference.
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Difference>) -> Result<(), Difference> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        differ!("the engine panicked: {}", text.unwrap_or("no message"))
    })
}
