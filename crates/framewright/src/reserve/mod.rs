//! The reserve: contiguous runs of frames that an owner is *guaranteed*, lent to guests while idle.
//!
//! ```text
//!              put: claim            publish
//!     Free ────────────────▶ Filling ────────▶ Cached ◀──── cleaned ──── Writing
//!      ▲ ▲ ▲                   │ ▲              │ │ │                      ▲
//!      │ │ └── invalidated ────┘ └─── evicted ──┘ │ └──▶ Loading           │ write-back, put-back
//!      │ │                          (next put)    │         │         Dirty ┘
//!      │ └───── invalidate, exclusive get ────────┴─────────┘           ▲
//!      │                                          │                     └── publish of a dirty page
//!      └───────── release ────────── Owned ◀──────┘ take (from every state but Dirty, Writing)
//! ```
//!
//! Each frame has a *state word*: a generation, the pool whose page it holds, and the state. A guest's
//! index says (frame, generation): whoever moves the generation on has discarded the page, without
//! looking for the entry, which dies when somebody meets it. An owner who [takes](Reserve::take) a run does
//! nothing else: for every 512 frames (a *block*) he shuts a gate, waits until those who are inside
//! have finished their one copy, moves the generations on, and opens the gate.
//!
//! Pages that consist of one repeated word have a descriptor, but no frame. Pages that are on no device
//! have another one's frame, if an owner wanted theirs and their pool is of those that are put back.
//!
//! # Invariants
//! - **C1** Every frame is in exactly one state, and "in transit" (Filling, Loading, Writing) is one.
//! - **C2** A run is owned by one owner: no frame of it is handed out again before its release.
//! - **C3** A reservation is taken unless it is taken already: no guest can prevent it, no I/O and no pin
//!   is waited for; at most one copy in flight for each CPU is, for as long as its guest takes to end it. That is a copy's
//!   time where guests are not preempted inside a call, and else also the time that one is off its CPU; who
//!   cannot wait for that has a bound ([`Reserve::try_take`]). So no dirty page lies in one.
//! - **C4** A page is returned whole, as one put stored it, or not at all.
//! - **C5** After put A, put B of the same key no get returns A, whether B was stored or refused; and
//!   a miss stays a miss until the next put.
//! - **C6** After an invalidation has returned, no get returns a page that was put before it, not even a
//!   get that was under way; and no put that was under way leaves one.
//! - **C7** A dirty page is not lost: it leaves its frame only for its device, for an ordinary frame, or by
//!   invalidation.
//! - **C8** An entry of the index that is stale is never followed: its generation is not the frame's. It remembers
//!   the lower half of one, so it may look as if it were not stale: then it stands in another bucket than its
//!   descriptor's key, or is the entry of the page that is there. A bucket names each descriptor at most once.
//! - **C9** A handle is known to the area that gave it out, until what it names is given up, and to nothing else.
//!
//! # Generations
//! A page remembers the sum of its pool's and its object's generation when it was put: 63 bits, counted by
//! invalidations. Its frame's generation has 52 bits, counted by pages. Neither comes round in a year of the fastest
//! loop, and the half that the index has of the second may: C8. All of them stand in docs/generations.md.
//!
//! # Locks
//! - Rank 1: the owners' lock, which takes, releases and reservations hold, and who opens a pool: not on any path of
//!   a guest, who closes one by an atomic exchange.
//! - Rank 2: a block's gate. A guest enters it by a word of his own seat, is inside of one at a time, and
//!   for at most one copy; an owner shuts it, and looks at every seat. A put goes to another block where it finds the gate shut; who invalidates,
//!   or takes a page away, waits until the owner has opened it. An owner shuts one gate at a time.
//! - Rank 3: a shard's lock: the order of eviction of its blocks. Guests try it and go to the next;
//!   only a put that would be refused waits for one.
//! - Rank 4: a bucket's lock: the index entries of some keys. Held for a few loads and stores.
//!
//! A put has its entry in the index before it copies, in state Filling, which no get follows. So all
//! that it does with an atomic exchange comes before the copy; after it there are plain stores. Who
//! invalidates meanwhile takes the entry away, and moves the generation on, which the put looks at once
//! more.
//!
//! - Beside them the cleaner's lock, which is tried, and which nobody waits for.
//!
//! A get that does not take its page away takes none of these, except where the page is in an ordinary frame:
//! then it enters a gate. What is called outside, devices and supplies of frames, is called under none
//! but the cleaner's.
//!
//! # What is not here
//! Files, devices, compression: the guests' users'. Frames of the reserve are in no zone.
//!
//! # Sources
//! First- and second-class clients: S. Park, "introduce gcma", LKML RFC v2, February 2015. The guests'
//! contract: Linux's cleancache and frontswap. Eviction: SIEVE (Zhang et al., NSDI 2024). Generations
//! that are checked after the copy: sequence locks (Boehm, MSPC 2012).

mod aging;
mod area;
mod choose;
mod claim;
mod clean;
mod contiguous;
pub mod contract;
mod counters;
mod error;
mod guest;
mod index;
pub mod migrate;
mod order;
mod patience;
mod places;
mod pool;
mod put_back;
mod reservations;
mod supply;
mod table;
mod take;
mod verify;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use area::{Reserve, ReserveLayout};
pub use clean::Cleaned;
pub use contiguous::{AreaKind, ContigError, Contiguous, Guaranteed};
pub use contract::Store;
pub use error::{Refused, ReleaseError, ReservationError, SetupError, TakeError};
pub use guest::{Guest, Key, Put};
pub use migrate::{AreaError, MigrateArea, Migrating};
pub use pool::{PoolConfig, PoolId, PoolKind};
pub use reservations::Reservation;
pub use supply::Supply;
pub use verify::Broken;
