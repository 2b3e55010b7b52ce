//! Reclaim and compaction: frames back from those who hold them, and whole blocks out of frames.
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
//! [`Migrate`] moves what a frame holds to another. `Reclaim` is what a zone remembers of all this:
//! where the migrate scanner was, what to pass over, how long to leave off, and the counters. A
//! `Seat` serves a CPU's requests with it: from the frames' own seat as long as that has
//! something, then by the watermarks. The background is a function that somebody calls from a
//! thread or a CPU of its own; the engine has neither.
//!
//! # Compaction
//! The *migrate scanner* chooses what to empty, by the scale of [evacuation
//! cost](crate::policy::EvacuationCost), from the descriptors of the pageblocks. Among equals it goes on
//! from where it was, and what gave nothing has a skip bit until all has been tried. The *free scanner*
//! finds frames to move to, where movable contents lie already and no block of the order asked for is
//! broken; where what is made is not for what moves, first of all in what is lent to that. It has no
//! position: the index of the frames names the pageblocks. A pageblock that is being emptied is set
//! apart: nothing is allocated there meanwhile, and what was made of it is the caller's before anybody
//! else sees it.
//!
//! # Settled pageblocks and their stock
//! ```text
//!                an eighth cannot move             what moves leaves: by the background
//!                                                  below the target, by a request at once
//!     unsettled ────────────────────────▶ settled ────────────────────────▶ settled, in stock
//!         ▲                                │   ▲                                │
//!         └── less than an eighth is left ─┘   └── requests take what is free ──┘
//! ```
//! A pageblock is *settled* while an eighth of it cannot move: a fact of its descriptor at that moment,
//! which nobody records. The *stock* is what is free in all of them together. It has a target in the
//! background's [`Targets`](crate::policy::Targets), and grows where something there is freed, where a pageblock
//! settles that has free frames, and where what moves leaves for pageblocks that hold something and are not
//! settled: the one first in which most cannot move. The
//! background does that when a request had to spread or the target is not met, and never where labels
//! decide; a request of order 0 or 1 that may wait does it for one pageblock before it contaminates
//! another.
//!
//! Anybody may allocate from the stock. What cannot move looks there first, by the frames' policy; what moves
//! goes there last, and to leave it is worth more to the zone than to be served there: up to
//! eight times its target is [held back](crate::policy::held_back), which does not count as free for the
//! background, so that it has frames given back elsewhere. Compaction moves contents to where some that move lie,
//! settled or not; to where none do any more only if a request waits for a whole movable pageblock.
//!
//! # Invariants
//! - **R1** When a call returns, on every way, no pageblock is apart because of it but those that it
//!   was asked to isolate, and it holds no frame but what it returns.
//! - **R2** A frame's contents are in one place: the source is freed only after the client said that
//!   it moved, the target only if it did not.
//! - **R3** Every call ends: priorities deepen, rounds, attempts of compaction and the pageblocks of
//!   each are counted, a scanner that has seen everything without a gain stops, and the background
//!   gives up what a step did not bring nearer. To stock is a step nearer only if more was free in settled
//!   pageblocks after it; one that gave nothing is passed over until all have been tried.
//! - **R4** No recursion: clients are handed the frames' own seat, which knows nothing of reclaim.
//! - **R5** No client is called while a seat is busy or a lock is held.
//! - **R6** What is pinned is not moved: a pageblock with a pin is never set apart, and of what a
//!   client calls pinned neither frame nor bytes change. While contents are on their way nobody can pin
//!   where they lie.
//! - **R7** A request fails only after direct reclaim brought nothing at the deepest priority, or its
//!   rounds or its attempts of compaction were over, or neither more free frames nor another attempt
//!   could help it, or its context forbids to try.
//! - **R8** What a client says is a claim about what it names: an answer counts for the source, or the
//!   block, beside which it stands, wherever the client has left it, and never for a neighbour. A number
//!   that it makes up bends how long others try, and overflows nothing.
//!
//! # Locks
//! None of its own. Setting a pageblock apart stops all CPUs for a moment (rank 1 of the
//! [frames](crate::frame)); who has set it apart owns it. What is remembered between calls are hints
//! in atomic words: who reads an old one scans a little more or less.
//!
//! # What is not here
//! What clients hold and in which order they give it back; I/O, which is theirs; a thread.
//!
//! # Sources
//! Two scanners that meet, isolation, deferral: memory compaction in Linux (M. Gorman, 2010).
//! Priorities and a background that is woken by watermarks: Linux's kswapd. Boosted watermarks:
//! Linux 5.0 (1c30844d). Background work for whole pageblocks, and reclaim at pageblock order for
//! what cannot move: Linux 6.15's defrag_mode and its repair in 2026.

mod background;
mod client;
mod compact;
mod contig;
mod direct;
mod evacuate;
mod moving;
mod relief;
mod seat;
mod settled;
mod state;
mod watch;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use background::Background;
pub use client::{Ask, Clients, Discard, Holding, Migrate, Move, MoveState, Shrink, Shrunk};
pub use compact::{CompactEffort, Compaction};
pub use contig::RunEffort;
pub use evacuate::{EvacuateError, Evacuated};
pub use moving::Obstacle;
pub use relief::ReclaimRelief;
pub use seat::Seat;
pub use state::Reclaim;
