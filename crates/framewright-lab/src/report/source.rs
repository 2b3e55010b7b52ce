//! Where a figure comes from: measured, simulated or published, and the name of the one column that is the recording
//! kernel's own.

use serde::Serialize;

/// The name in JSON of the column that holds what the recording kernel itself did.
pub const LINUX: &str = "linux";

/// What a reader is shown in its place.
pub const RECORDED_KERNEL: &str = "the recorded kernel";

/// A variant's name as a reader is shown it.
#[must_use]
pub fn shown_variant(variant: &str) -> &str {
    match variant {
        LINUX => RECORDED_KERNEL,
        other => other,
    }
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureSource {
    /// Observed on a real machine: a recording, or this machine's clock.
    Measured,
    /// The outcome of a replay or a model.
    Simulated,
    /// Taken from a document.
    Published,
}
