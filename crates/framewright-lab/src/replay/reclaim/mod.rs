//! Replay with reclaim: a request that cannot be served at once waits, and that is a stall.
//!
//! ```text
//!   Trace ──▶ requests, frees ──▶ Impose (a kernel under pressure) ──▶ Stalls
//!     │                             │ Shrink       │ Migrate    ▲
//!     └──▶ Content of objects ──▶ Programs ◀───────┘            │ the background, as trace time passes
//!                                   └──▶ Observer               │
//! ```
//!
//! The objects of the trace are the clients. The kernel can reclaim those that are copies of what files
//! hold, the longest held first, and can move all that are movable. When the trace later frees what the
//! kernel has reclaimed, the replay passes that free over and counts it. On a machine the program would
//! read the file again. The recording holds no such read, so reclaim costs less here than on a machine,
//! for every kernel alike.

mod content;
mod kernels;
mod programs;
mod run;
mod stalls;
#[cfg(test)]
mod tests;

pub use content::{ObjectContent, context_of};
pub use kernels::{reclaims, with_kernel};
pub use run::{BACKGROUND_FRAMES_PER_MS, replay_with_reclaim};
pub use stalls::{HugeProbes, Stalls};
