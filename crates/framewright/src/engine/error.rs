//! What an engine refuses, and why.

use crate::frame::{SeatError, ZoneSetupError};
use crate::kv::KvSetupError;
use crate::raw::TooShort;
use crate::reserve::ReserveSetupError;
use crate::units::CpuId;
use crate::vrange::RangeSetupError;
use core::fmt;

/// Why there is no engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineError {
    /// The memory for metadata is too short.
    TooShort(TooShort),
    /// Two zones have frames in common, or all zones together span more than 2^32 frames.
    Zones,
    /// A zone, or its reclaim, cannot be made that way.
    Zone {
        /// The zone's number in the layout.
        nth: usize,
        /// What is wrong.
        error: ZoneSetupError,
    },
    /// The address space cannot be made that way.
    Ranges(RangeSetupError),
    /// The object allocator cannot be made that way.
    Objects(KvSetupError),
    /// The reserve cannot be made that way.
    Reserve(ReserveSetupError),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort(error) => write!(f, "engine: {error}"),
            Self::Zones => f.write_str(
                "zones: expected that no two have a frame in common, and that all lie within 2^32 frames",
            ),
            Self::Zone { nth, error } => write!(f, "zone {nth}: {error}"),
            Self::Ranges(error) => write!(f, "address space: {error}"),
            Self::Objects(error) => write!(f, "objects: {error}"),
            Self::Reserve(error) => write!(f, "reserve: {error}"),
        }
    }
}

impl core::error::Error for EngineError {}

impl From<RangeSetupError> for EngineError {
    fn from(error: RangeSetupError) -> Self {
        Self::Ranges(error)
    }
}

impl From<KvSetupError> for EngineError {
    fn from(error: KvSetupError) -> Self {
        Self::Objects(error)
    }
}

impl From<ReserveSetupError> for EngineError {
    fn from(error: ReserveSetupError) -> Self {
        Self::Reserve(error)
    }
}

/// Why a CPU has no seats. It has none of them then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuError {
    /// One of its seats is taken.
    Taken(CpuId),
    /// The engine was made for fewer CPUs.
    Unknown(CpuId),
}

impl fmt::Display for CpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(cpu) => write!(f, "a seat of {cpu} is in use"),
            Self::Unknown(cpu) => write!(f, "{cpu} is not one of the engine's CPUs"),
        }
    }
}

impl core::error::Error for CpuError {}

impl From<SeatError> for CpuError {
    fn from(error: SeatError) -> Self {
        match error {
            SeatError::Taken(cpu) => Self::Taken(cpu),
            SeatError::Unknown(cpu) => Self::Unknown(cpu),
        }
    }
}
