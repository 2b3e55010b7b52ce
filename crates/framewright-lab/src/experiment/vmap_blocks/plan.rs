//! What one run is given: the report reads it, the command makes it.

use super::Scenario;
use crate::experiment::SpaceOptions;

/// The scenarios, and what they are run with.
#[derive(Debug, Clone)]
pub struct VmapBlocks {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) options: SpaceOptions,
}
