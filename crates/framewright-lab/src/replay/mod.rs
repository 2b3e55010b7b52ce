//! Replay: feeds a recorded trace to an allocator and observes what becomes of memory.
//!
//! ```text
//!   Trace ──▶ TraceMemory ──▶ replay ──▶ ReplayOutcome         one policy
//!                  └────────▶ replay_all ──▶ [ReplayOutcome]   several, in parallel, on the same operations
//!                                │
//!              ReplaySubject ◀───┴───▶ Observer
//! ```
//!
//! The subject decides where a block lies; the observer notes what was handed out and freed, and
//! all that policies are compared by comes from it. What compaction moved on the
//! recording machine moves here too, where the recording says so. Without [`reclaim`] the replay has nothing else of
//! what the recording kernel did besides allocating: it reclaims nothing, so an
//! allocation that fails stays failed, its object is absent, and the object's frees are passed over.

pub mod admission;
mod compaction;
mod error;
mod flat;
mod given;
mod interleaving;
mod many;
mod notes;
mod objects;
mod placement;
mod propose;
pub mod reclaim;
mod reference;
mod run;
mod subjects;
#[cfg(test)]
mod tests;

use admission::USUAL_FLAGS;
pub use admission::{
    BackgroundRuns, MachineZones, RecordedStep, ZoneAllocator, ZoneLists, ZonePass,
};
pub use error::ReplayError;
pub use flat::{FlatSettings, flat_replay, replayed_lines};
pub use given::{
    CachedBlock, ListedFree, MemoryError, ModelledSetting, Start, TraceMemory, count_labels,
    fit_free_memory, labels_by_content, labels_by_state, labels_by_zone,
};
pub use many::{ReplayJob, replay_all, replay_all_until};
pub use notes::{
    AskedKind, Asker, FailureCause, FailureLog, FirstFailure, Tries, WhoCounts, WhoTally,
    caller_of, default_watermark, plain_function,
};
use objects::TraceObjects;
pub use placement::{Placement, placement};
pub use propose::{ProposedSqueeze, TRIED_OPS_MAX, least_free, propose_squeezes};
pub use reclaim::{HugeProbes, Stalls};
pub use reference::read_reference;
pub(crate) use run::by_flags;
pub use run::{ReclaimOptions, ReplayOptions, ReplayOutcome, SAMPLE_MS, SeriesPoint, replay};
pub use subjects::{
    FreeRefused, RecordedRequest, ReplayAnswer, ReplayPolicy, ReplaySubject, UnknownPolicy,
};
