//! Reclaim and compaction against their model.
//!
//! ```text
//!      Op ──▶ engine ──▶ Client (Shrink, Migrate) ─┐ each call is checked, and told to
//!       │        │                                 ▼
//!       │        └──────── result ───────────▶  World: whose each frame is, what it holds,
//!       └── what is known before ────────────▶         what is pinned, what was said
//! ```
//!
//! The model knows each frame's state, as the [page frames' own](crate::FrameModel) does, and of each
//! live block its owner, where its contents are and what they are: stamps, one a frame. It does not
//! say what is reclaimed or moved; it says what may be, and what must hold then:
//!
//! - no frame is lost or there twice, and every live block has its stamps where its owner has it;
//! - sources are live, movable and of the order said, and lie in no pageblock with a pin (R6); targets
//!   were free, lie elsewhere, and do not come out of what is to be made;
//! - when a call returns, exactly those pageblocks are isolated that were asked to be (R1);
//! - clients are called one at a time, under no lock (R4, R5), with the request's context, and a
//!   bounded number of times (R3);
//! - a request fails as it may (R7), and does not fall below the watermark where it need not;
//! - every counter has grown by what the model counted.

mod case;
mod client;
mod driver;
mod op;
mod runs;
mod world;

pub use crate::difference::{Difference, Finding, Summary};
pub use crate::drive::{Subject, check, every_sequence};
pub use case::{Case, Lie};
pub use driver::run;
pub use op::{Op, USER, mood};

/// How many clients there are, each of which gives back and moves.
pub const CLIENTS: usize = 2;
