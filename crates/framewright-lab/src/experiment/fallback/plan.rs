//! What one run is given: the report reads it, the command makes it.

use super::{LifeSpan, Params, PhoneKernel};

/// A phone, and its lives.
#[derive(Debug, Clone)]
pub struct FallbackExperiment {
    pub(super) params: Params,
    /// Whether the phone is another than the program's own.
    pub(super) is_given: bool,
    pub(super) policies: Vec<PhoneKernel>,
    pub(crate) seeds: Vec<u64>,
    pub(crate) span: LifeSpan,
    /// Lives at a time.
    pub(crate) threads: usize,
    pub(super) has_series: bool,
}
