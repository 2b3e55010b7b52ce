//! What a replay is given before its first operation: the memory, its labels, and the objects that are in it.
//!
//! ```text
//!   Trace ─▶ labels, free memory, as far as the recording tells ─▶ TraceMemory, checked ─▶ Start: the objects in place
//! ```
//!
//! These files belong together because policies can be compared only as long as all of them begin alike. Memory and labels
//! are worked out once for all policies, from the recording alone. A start then puts the objects in place, the same ones
//! in the same order under every policy.

mod by_zone;
mod cached;
mod fitted;
mod labels;
mod memory;
mod settings;
mod start;
mod state;

pub use by_zone::labels_by_zone;
pub use cached::CachedBlock;
pub use labels::{count_labels, labels_by_content};
pub use memory::{MemoryError, TraceMemory};
pub use settings::ModelledSetting;
pub use start::Start;
pub(crate) use start::begin;
pub use state::{ListedFree, fit_free_memory, labels_by_state};
