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
//!   users' to keep. Where two CPUs free one block at the same moment, the zone counts it when it finds
//!   it, and loses the block rather than hand it out twice. One race it does not find: a CPU reads the
//!   tag of a live block in order to free it a second time, and is held up there while the block is
//!   freed and handed out again; then it frees the new owner's block, as if that had been asked for. To
//!   tell the two apart would take an atomic operation in every free.
//! - **F8** A request of an *exact* order fails only if, at one moment during the call, no free block of
//!   its order existed that it was allowed to take: with all CPUs stopped and all caches drained. Exact
//!   are orders up to the configuration's [`stop_order_max`](crate::policy::Config::stop_order_max), any
//!   order that was asked for with [`alloc_hard`](Seat::alloc_hard), as reclaim and `kv` ask when they may
//!   wait, and all orders where there is one CPU. Others stop nobody: they fail if there is no block in
//!   the pageblocks with this CPU's caches drained, or if others work in all pageblocks that have one.
//! - **F9** A request stops all CPUs at most once, and not in vain: not if nothing was freed, added,
//!   relabelled or opened since a stop that failed for its like; not if all CPUs stood still for somebody
//!   else after it had begun, and there was nothing for it then; and not for what the zone could never
//!   have. While they stand still, each CPU's caches are drained, at most 372 blocks and 24 words, and
//!   the index is asked; only an order above the pageblocks' looks at all of them. Nothing is counted.
//!
//! # Locks
//! - Rank 1: the zone's stop lock. Whoever holds it claims every seat, executes the platform's
//!   barrier, and waits until no seat is busy; then the zone stands still. Taken when a request of an
//!   exact order would fail, and by what is done to the zone as a whole. Never taken by a busy seat.
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
//! # Waiting
//! Who stops the zone waits until each CPU has left its seat: for the one operation that it does there,
//! and as long as it does not run meanwhile. Each CPU whose seat is claimed waits for the stop, in an
//! ordinary allocation or free too, and so for the slowest of those seats, and for what is done while all
//! stand still (F9, or what the zone's own operations say). So one thread that is taken off its CPU inside
//! its seat holds up all CPUs, from the moment at which one of them stops the zone: a kernel does not
//! preempt there, and a host's [`relax`](crate::platform::Relax) lets it run, whatever the priorities.
//! [`try_alloc`](Seat::try_alloc) stops nobody, and nothing that fails waits for more than one stop of
//! its own and those that were asked for before it.
//!
//! # Context
//! A seat is for one context at a time: in a kernel, with interrupts off, or from one level only.
//! Remote frees need no seat of the pageblock's, but the freeing context needs a seat. A handler that
//! interrupts a CPU inside its seat calls nothing of the zone but queries: a stop would wait for the seat
//! that it interrupted. So a non-maskable interrupt calls nothing at all. The platform's waiting answers
//! other CPUs' barriers: see [`Relax`](crate::platform::Relax). A CPU that is taken away leaves its seat
//! idle; its caches are drained like all others.
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
mod runs;
mod search;
mod seat;
mod slow;
mod stock;
mod tag;
mod target;
mod verify;
mod whole;
mod zone;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
mod models;
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
