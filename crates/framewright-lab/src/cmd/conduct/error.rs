//! How a command ends: the exit code follows from the variant, so that a script tells figures that do not hold from
//! input that cannot be read.

use std::fmt;

/// How a command can end other than well.
#[derive(Debug)]
pub enum CommandError {
    /// An assertion does not hold, the message holds the figures; or a recording is not where it was to be. Exit code 1.
    Assertion(String),
    /// Bad input or usage: `path:line: what is wrong, what was expected`. Exit code 2.
    Input(String),
}

impl CommandError {
    /// Bad input, with whatever says what is wrong.
    pub fn input(cause: impl fmt::Display) -> Self {
        Self::Input(cause.to_string())
    }
}
