//! Replay with reclaim: a request that cannot be served at once waits, and that is a stall.
//!
//! ```text
//!   Trace ──▶ requests, frees ──▶ Impose (a kernel under pressure) ──▶ Stalls
//!     │                             │ Shrink       │ Migrate    ▲
//!     └──▶ Content of objects ──▶ Programs ◀───────┘            │ the background, as trace time passes
//!                                   └──▶ Observer               │
//! ```
//!
//! The objects of the trace are the clients: those that are copies of what files hold can be given
//! back, the longest held first, all that are movable can be moved. When the trace later frees what
//! was given back, that free is passed over and counted. What the program would have done instead,
//! read the file again, nobody recorded; so reclaim costs less here than on a machine, for every
//! kernel alike.

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
