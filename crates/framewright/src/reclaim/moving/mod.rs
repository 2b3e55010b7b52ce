//! Contents leave where they lie: for a free block, for a run that is taken, or for pageblocks that stay isolated.
//!
//! ```text
//!   compact ── one free block          contig ── a run of any length          evacuate ── whole pageblocks
//!      └──────────────────────┬───────────┴───────────────────────────────────────┘
//!                         emptying ── a range that is set apart: what is in the way, and where it may go
//!                             │
//!                           batch ── moves that are offered to clients together, and their answers
//! ```
//!
//! Each of the three chooses a place, sets it apart and takes or keeps what results. They move in one way, so that
//! R2, R6 and R8 hold in [`Emptying`] and its batch.

mod batch;
mod compact;
mod contig;
mod emptying;
mod evacuate;

#[cfg(all(test, not(any(loom, shuttle))))]
pub(super) use compact::CompactEffort;
pub use compact::Compaction;
pub(super) use emptying::Emptying;
pub(crate) use emptying::Obstacle;
