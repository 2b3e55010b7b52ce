//! How a case is measured: by one clock and in one order of turns, whatever the case does and whichever variant serves
//! it.
//!
//! ```text
//!   timed ── a case in each variant     limits ── what no table has a cell for     remote ── through a queue
//!     ├────────────────┬──────────────────┘
//!     │              peer ── Linux's own allocator, in a process of its own
//!     ├────────────────┘
//!   timing ── batches that take turns, and one pass with a look at every call
//! ```

pub(super) mod limits;
pub(super) mod peer;
pub(super) mod remote;
mod timed;
mod timing;

pub(super) use timed::TimedCase;
