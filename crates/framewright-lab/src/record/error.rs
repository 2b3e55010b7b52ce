//! The errors of the recorder. What this machine lacks and what this user may not do are variants of their own,
//! because their messages say how to get it.

use crate::printable;
use crate::report::WriteError;
use std::fmt;
use std::io;
use std::path::Path;

/// Why a recording could not be made. Nothing is left behind: no file, no instance, no mount.
#[derive(Debug)]
pub enum RecordError {
    /// This machine, this kernel or this user cannot record. What is missing, and how to get it.
    Missing(String),
    /// This user may not trace the kernel. What is needed.
    NotPermitted(String),
    /// An option asks for what cannot be.
    Options(String),
    /// A file cannot be read or written: `PATH: what`.
    File(String),
    /// The trace that the kernel wrote cannot be read.
    Trace(String),
    /// Interrupted a second time, before the recording was written.
    Interrupted,
}

impl RecordError {
    pub(super) fn file(path: &Path, cause: &io::Error) -> Self {
        Self::File(format!("{}: {cause}", printable::path(path)))
    }
}

impl From<WriteError> for RecordError {
    fn from(error: WriteError) -> Self {
        Self::File(error.to_string())
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) | Self::NotPermitted(what) => write!(f, "cannot record: {what}"),
            Self::Options(what) | Self::File(what) | Self::Trace(what) => f.write_str(what),
            Self::Interrupted => {
                f.write_str("interrupted before the recording was written; nothing is left behind")
            }
        }
    }
}

impl std::error::Error for RecordError {}
