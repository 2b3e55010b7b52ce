//! The subjects of a replay: what it asks of an allocator, and the allocators that can be asked, by name.
//!
//! ```text
//!   ReplayPolicy, a name ─┬─▶ Linux's buddy systems ─┐
//!                         └─▶ the engine ────────────┴─▶ ReplaySubject ◀── the replay
//! ```
//!
//! These files belong together because each allocator is hidden behind the one trait: the loop of a replay without reclaim
//! knows the trait, and no allocator.

mod engine;
mod policy;
mod subject;
#[cfg(test)]
mod test_subject;

pub(super) use engine::present;
#[cfg(test)]
pub(crate) use engine::with_engine;
pub use policy::{ReplayPolicy, UnknownPolicy};
pub use subject::{FreeRefused, RecordedRequest, ReplayAnswer, ReplaySubject};
#[cfg(test)]
pub(crate) use test_subject::NoGrouping;
