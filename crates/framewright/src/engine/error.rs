//! What an engine refuses, and why.

use crate::units::{FRAMES_MAX, SetupError};
use core::fmt;

/// Why there is no engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineError {
    /// The memory for metadata is too short.
    Metadata(SetupError),
    /// Two zones have frames in common, or all zones together span more than 2^32 frames, or 2^25 where
    /// addresses have 32 bits.
    Zones,
    /// A zone, or its reclaim, cannot be made that way.
    Zone {
        /// The zone's number in the layout.
        nth: usize,
        /// What is wrong.
        error: SetupError,
    },
    /// The address space cannot be made that way.
    Ranges(SetupError),
    /// The object allocator cannot be made that way.
    Objects(SetupError),
    /// The reserve cannot be made that way.
    Reserve(SetupError),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(error) => write!(f, "engine: {error}"),
            Self::Zones => write!(
                f,
                "zones: expected that no two have a frame in common, and that all lie within 2^{} frames",
                FRAMES_MAX.ilog2()
            ),
            Self::Zone { nth, error } => write!(f, "zone {nth}: {error}"),
            Self::Ranges(error) => write!(f, "address space: {error}"),
            Self::Objects(error) => write!(f, "objects: {error}"),
            Self::Reserve(error) => write!(f, "reserve: {error}"),
        }
    }
}

impl core::error::Error for EngineError {}
