//! Why there is no view: one error for the kernel's tracing, the terminal and the output.

use crate::record::RecordError;
use std::fmt;

/// Why a view cannot be shown: what is wrong, where, and what is needed.
#[derive(Debug)]
pub struct TopError(String);

impl TopError {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for TopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TopError {}

/// What a recorder's error says, without its first words: nothing is recorded here.
pub(super) fn what(error: &RecordError) -> String {
    match error {
        RecordError::Missing(what) | RecordError::NotPermitted(what) => what.clone(),
        other => other.to_string(),
    }
}
