//! Reclaim and compaction: frames back from their holders, and whole blocks out of frames.
//!
//! ```text
//!   free frames                            entirely free pageblocks
//!      high ┄┄┄┄┄┄ the background sleeps ┄┄┄┄┄┄ high
//!       │                                        │
//!      low  ┄┄┄┄┄┄ the background is woken ┄┄┄┄ low      a fallback that pollutes raises both
//!       │             │          │               │
//!       │          [Shrink]  [Migrate]           │
//!      min  ┄┄┄┄┄┄ requests do it themselves, and that is a stall
//!
//!   a pageblock:   open ──── set apart ────▶ apart ──── emptied, or given up ───▶ open
//!   a move:        found ──▶ target taken ──▶ offered ──▶ moved: the source is freed
//!                                                  └────▶ stays: the target is freed
//! ```
//!
//! Clients register by trait and are handed in with each call: [`Shrink`] gives frames back,
//! [`Migrate`] moves the contents of a frame to another. `Reclaim` is what a zone remembers of all
//! this: where the migrate scanner was, what to pass over, how long to leave off, and the counters.
//! A `ReclaimSeat` serves a CPU's requests with it: from the frames' own seat as long as that has any,
//! then by the watermarks. The background is a function that a thread or a CPU of its own calls;
//! the engine has neither.
//!
//! # Compaction
//! The *migrate scanner* chooses what to empty, by the scale of evacuation
//! cost, from the descriptors of the pageblocks. Among equals it
//! goes on from where it was. A place that gained nothing has a skip bit until all have been tried.
//! The *free scanner* finds frames to move to, where movable contents lie already, without breaking
//! a block of the order asked for. If the block is not for movable contents, it looks first in
//! pageblocks that are lent to them. It has no position: the index of the frames names the
//! pageblocks. A pageblock that is being emptied is set apart: nothing is allocated there
//! meanwhile, and the block that results belongs to the caller before any other CPU can see it.
//!
//! # Settled pageblocks and their stock
//! ```text
//!                an eighth cannot move             what moves leaves: by the background
//!                                                  below the target, by a request at once
//!     unsettled ────────────────────────▶ settled ────────────────────────▶ settled, in stock
//!         ▲                                │   ▲                                │
//!         └── less than an eighth is left ─┘   └── requests take what is free ──┘
//! ```
//! A pageblock is *settled* while an eighth of it cannot move: a fact that its descriptor shows at
//! that moment, and that is recorded nowhere. The *stock* is all free frames in settled pageblocks.
//! It has a target in the background's `Targets`. The stock grows in three ways: a user frees frames in a settled
//! pageblock; a pageblock with free frames settles; movable contents leave a settled pageblock for one that is
//! neither empty nor settled. The background has them leave when a request had to spread or the target is not met,
//! and never where labels decide. It begins with the pageblock in which most contents cannot move. An unmovable
//! request of order 0 or 1 that may wait has one pageblock cleared so before it contaminates another.
//!
//! Any request may take from the stock. Unmovable requests look there first, by the frames' policy;
//! movable ones go there last, because the zone gains more by leaving it. Up to eight times the
//! target is held back: the background does not count it as free, and
//! has frames given back elsewhere. Compaction moves contents to where some movable ones lie,
//! settled or not; it moves to pageblocks without any only if a request waits for a whole movable
//! pageblock.
//!
//! # Invariants
//! - **R1** When a call returns, on every way, it leaves no pageblock apart but those that it was
//!   asked to isolate, and it holds no frame but those it returns.
//! - **R2** A frame's contents are in one place: the source is freed only after the client said
//!   that it moved, the target only if it did not. If the client unwinds, the states that it had set until then
//!   count.
//! - **R3** Every call ends: priorities deepen; rounds, attempts of compaction and the pageblocks
//!   of each are counted; a scanner that has seen everything without a gain stops; and the
//!   background gives up a target that a step did not bring nearer. A step for the stock counts as
//!   nearer only if more was free in settled pageblocks after it; a pageblock that gained nothing
//!   is passed over until all have been tried.
//! - **R4** No recursion: clients are handed the frames' own seat, which does not know reclaim.
//! - **R5** No client is called while a seat is busy or a lock is held.
//! - **R6** Pinned contents are not moved: a pageblock with a pin is never set apart, and a block
//!   that a client calls pinned keeps its frames and its bytes. While contents are on their way,
//!   the place where they lie cannot be pinned.
//! - **R7** A request fails only in one of four cases: direct reclaim brought nothing at the deepest priority; the
//!   request has used up its rounds or its attempts of compaction; neither more free frames nor another attempt
//!   could help it; its context forbids reclaim and compaction.
//! - **R8** A client's answer is a claim about the block that it names: an answer counts for the
//!   source, or the block, beside which it stands, wherever the client has left it, and never for a
//!   neighbour. If a client makes up a number, that changes only how long others try. It overflows nothing.
//! - **R9** A client that unwinds changes no count but that of its own answer: what others did before is counted, an
//!   attempt of compaction has failed, and the next round begins with another client.
//!
//! # Locks
//! None of its own. Setting a pageblock apart stops all CPUs for a moment (rank 1 of the
//! [frames](crate::frame)), and so does opening it; the CPU that has set it apart owns it. Between calls the engine
//! remembers only hints, in atomic words: a CPU that reads an old one scans a little more or less.
//!
//! # What is not here
//! What clients hold and in which order they give it back; I/O, which is the clients'; a thread.
//!
//! # Sources
//! Two scanners that meet, isolation, deferral: memory compaction in Linux (M. Gorman, 2010).
//! Priorities and a background that is woken by watermarks: Linux's kswapd. Boosted watermarks:
//! Linux 5.0 (1c30844d). Background work for whole pageblocks, and reclaim at pageblock order for
//! unmovable requests: Linux 6.15's defrag_mode and its repair in 2026.

mod background;
mod client;
mod direct;
mod moving;
mod relief;
mod seat;
mod settled;
mod state;
mod watch;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use background::Background;
pub use client::{Ask, Clients, Discard, Migrate, Move, MoveState, Shrink, Shrunk};
pub(crate) use direct::BlockRequest;
pub use moving::Compaction;
pub(crate) use moving::Obstacle;
pub(crate) use seat::CpuRequests;
pub use seat::ReclaimSeat;
pub use state::Reclaim;
pub(crate) use state::ReclaimWords;
