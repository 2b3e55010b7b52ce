//! One error for every reader: a name, a line where there is one, and what was expected there.

use crate::printable;
use std::fmt;

/// Why an input could not be read: where, what is wrong, what was expected.
///
/// Displays as `NAME:LINE: MESSAGE`, or as `NAME: MESSAGE` where the fault has no line. The name is
/// shown printable (P7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    name: String,
    line: Option<u64>,
    message: String,
}

impl TraceError {
    /// An error about the input as a whole, or about a place that is not a line.
    #[must_use]
    pub fn new(name: &str, message: impl Into<String>) -> Self {
        Self {
            name: printable::text(name),
            line: None,
            message: message.into(),
        }
    }

    /// An error about one line; lines count from 1.
    #[must_use]
    pub fn at_line(name: &str, line: u64, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            ..Self::new(name, message)
        }
    }

    /// The line, counted from 1, where the fault has one.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// What is wrong and what was expected, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.name, self.message),
            None => write!(f, "{}: {}", self.name, self.message),
        }
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_place_first() {
        let error = TraceError::at_line("a.txt", 7, "no order=, expected one");
        assert_eq!(error.to_string(), "a.txt:7: no order=, expected one");
        assert_eq!(error.line(), Some(7));
        let error = TraceError::new("a.gz", "cut off");
        assert_eq!(error.to_string(), "a.gz: cut off");
    }
}
