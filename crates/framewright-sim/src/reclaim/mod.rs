//! Reclaim and compaction against their model.
//!
//! ```text
//!      Op ──▶ engine ──▶ Client (Shrink, Migrate) ─┐ each call is checked, and told to
//!       │        │                                 ▼
//!       │        └──────── result ───────────▶  World: each frame's owner and contents,
//!       └── what is known before ────────────▶         the pins, and what clients said
//! ```
//!
//! The model knows each frame's state, as the [page frames' own](crate::FrameModel) does, and for
//! each live block its owner, and where and what its contents are: stamps, one a frame. It does not
//! say what is reclaimed or moved; it says what may be, and what must hold then:
//!
//! - no frame is lost or there twice, and every live block has its stamps where its owner has it;
//! - sources are live, movable and of the order given, and lie in no pageblock with a pin (R6);
//!   targets were free, lie elsewhere, and do not come out of the block to be made;
//! - when a call returns, exactly those pageblocks are isolated that were asked to be (R1);
//! - clients are called one at a time, under no lock (R4, R5), with the request's context, and a
//!   bounded number of times (R3);
//! - a request fails only as it may (R7), and falls below the watermark only where it must;
//! - every counter has grown by what the model counted.

mod case;
mod client;
mod driver;
mod op;
mod runs;
mod world;

pub use crate::difference::{Difference, Finding, RunSummary};
pub use crate::drive::{DrivenCase, check, every_sequence};
pub use case::{ReclaimCase, ReclaimLie};
pub use driver::run;
pub use op::{ReclaimOp, USER, mood};

/// How many clients there are; each gives frames back and moves contents.
pub const CLIENTS: usize = 2;
