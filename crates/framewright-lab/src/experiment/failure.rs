//! Why an experiment ended without figures: the one error of all that measure here, with the case and the variant.

use framewright::SetupError;
use framewright::vrange::{RangeError, RangeFreeError};
use std::fmt;

/// Why an experiment ended without figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    case: String,
    variant: &'static str,
    cause: String,
}

impl Failure {
    pub(super) fn new(cause: impl fmt::Display) -> Self {
        Self {
            case: String::new(),
            variant: "",
            cause: cause.to_string(),
        }
    }

    /// The same, in that case of that variant.
    pub(super) fn of(mut self, case: &str, variant: &'static str) -> Self {
        if self.case.is_empty() {
            self.case = case.to_owned();
            self.variant = variant;
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.case.is_empty() {
            write!(f, "{}, {}: ", self.case, self.variant)?;
        }
        f.write_str(&self.cause)
    }
}

impl std::error::Error for Failure {}

macro_rules! failure_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        }
    )*};
}
failure_from!(RangeError, RangeFreeError, SetupError);
