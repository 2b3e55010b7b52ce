//! Page frames: zones of pageblocks, with a seat for each CPU.
//!
//! ```text
//!               alloc                     free
//!   Free ──────────────────▶ Live ─────────────────▶ Cached (in the freeing CPU's seat)
//!    ▲ ▲                      ▲ │                     │ │
//!    │ │                      │ │ free, not cached    │ │
//!    │ └──────────────────────┼─┘                     │ │
//!    │                        └────────── alloc ──────┘ │
//!    │   collect              spill, and somebody else  │
//!    └──────────── Remote ◀──── holds the pageblock ────┤
//!    ▲                                                  │
//!    └────────────────────────────── spill, drain ──────┘
//! ```
//!
//! A zone's frames are grouped into pageblocks. A pageblock is a bitmap (1 = free), a second bitmap
//! for what others free while somebody works in it, and a descriptor: a lock, free frames and
//! frames of each mobility, the orders of its maximal free blocks, its class and label. An index
//! knows all pageblocks by class and by those orders, completely. Beside each frame stands a tag
//! that says whether an allocation starts there, of which order and mobility, and in which state;
//! so a wrong free is recognised without a search. Nothing lies in the frames themselves.
//!
//! A CPU works in its [`Seat`]: from caches of small blocks, one for each mobility and order, with
//! plain loads and stores. When a cache is empty, the [policy](crate::policy) names the cheapest
//! candidate, and the seat takes a batch out of it under the pageblock's lock; when it is full,
//! the older half goes back. While memory abounds, the batch for order 0 is up to a pageblock in
//! whole words, which wait behind the cache in the seat's *stock*.
//!
//! # Invariants
//! - **F1** Every frame of a pageblock is in exactly one state: absent, free, live, cached, remote.
//! - **F2** An unlocked pageblock's counts are those of its bitmap and tags. Cached and remote
//!   frames count as allocated with the mobility that they had.
//! - **F3** A block is in a seat's cache if and only if its tag names that seat, and a word in its
//!   stock likewise. A seat hands out what its tag names and nothing else: so a block freed by two
//!   CPUs at the same moment is handed out once.
//! - **F4** With all CPUs stopped no pageblock is locked, and no block is remote.
//! - **F5** The index holds exactly the unlocked pageblocks that are not isolated, each in the rows
//!   of its class and the orders of its maximal free blocks.
//! - **F6** Free frames are present frames less what the seats took, plus what they gave.
//! - **F7** No block was found in a state that only a racing double free explains. This one is the
//!   users' to keep; the zone counts when they do not, and loses the block rather than hand it out
//!   twice.
//! - **F8** A request fails only if, at one moment during the call, no free block of its order
//!   existed that it was allowed to take: with all CPUs stopped and all caches drained.
//!
//! # Locks
//! - Rank 1: the zone's stop lock. Whoever holds it claims every seat, executes the platform's
//!   barrier, and waits until no seat is busy; then the zone stands still. Taken when a request
//!   would fail, and by what is done to the zone as a whole. Never taken by a busy seat.
//! - Rank 2: a pageblock's lock, held for one batch. A busy seat never waits for one, except to
//!   split an allocation, and whoever holds one waits for nothing. It is given up with a
//!   compare-and-swap that fails if something was freed from elsewhere meanwhile; that is then
//!   collected first. So what is remote never stays behind.
//!
//! At orders 0 to 4 an ordinary allocation or free takes neither, whichever CPU the block came from: the
//! seat serves it with plain loads and stores. When a cache runs dry or over, one try at a pageblock's
//! lock for each pageblock in it, for half of what the cache may hold; where a CPU may hold nothing
//! (too little is free, or the pageblock is not everybody's), one for each block. What is met locked is
//! passed by, or left in the second bitmap. Rank 1 is no part of this: it is taken by a request that
//! would fail, and never by `try_alloc`. So no lock is every CPU's for each operation; what all CPUs
//! share on the way to a pageblock is the index, read, and changed by single atomic operations.
//!
//! No callback runs under either, except the platform's `relax` while waiting for rank 1, and its clock
//! where locks are [accounted](Zone::with_lock_accounts).
//!
//! # Context
//! A seat is for one context at a time: in a kernel, with interrupts off, or from one level only.
//! Remote frees need no seat of the pageblock's, but the freeing context needs a seat.
//!
//! # What is not here
//! What is done about watermarks, and compaction: [reclaim](crate::reclaim)'s; here only the caches
//! keep less below them. Zeroing, mapping, NUMA distances.
//!
//! # Sources
//! A bitmap and a counter for each 2 MiB, allocated with atomics: LLFree (Wrenger et al., USENIX
//! ATC 2023). Frees from elsewhere through a second structure: mimalloc (Leijen et al., 2019),
//! snmalloc (Lietar et al., 2019). Per-CPU caches: Bonwick and Adams, USENIX ATC 2001. An index of
//! groups by largest free order: ext4's mballoc. Claiming idle CPUs' seats with a barrier on their
//! behalf: the asymmetric fences of membarrier(2), and hazard pointers in folly.

mod apart;
mod big;
mod block;
mod blocks;
mod counts;
mod error;
mod frames;
mod give;
mod index;
mod layout;
mod memory;
mod outlook;
mod part;
mod report;
mod search;
mod seat;
mod slow;
mod stock;
mod tag;
mod target;
mod verify;
mod whole;
mod zone;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub(crate) use apart::{Apart, Beyond, Content, NotApart};
pub use blocks::Blocks;
pub use error::{AllocError, FreeError, RangeError, SeatError, SetupError};
pub use frames::{Frames, Seats};
pub use layout::ZoneLayout;
pub use report::{FreeBlocks, Region, Standing};
pub(crate) use search::Spread;
pub(crate) use seat::CACHED_ORDERS;
pub use seat::Seat;
pub(crate) use target::Room;
pub use verify::{Broken, Recount};
pub use zone::Zone;
