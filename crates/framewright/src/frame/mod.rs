//! Page frames: zones of pageblocks, with a seat for each CPU.
//!
//! ```text
//!               alloc                     free
//!   Free ──────────────────▶ Live ─────────────────▶ Cached (in the freeing CPU's seat)
//!    ▲ ▲                      ▲ │                     │ │
//!    │ │                      │ │ free, not cached    │ │
//!    │ └──────────────────────┼─┘                     │ │
//!    │                        └────────── alloc ──────┘ │
//!    │   collect              spill, while another CPU  │
//!    └──────────── Remote ◀──── holds the pageblock ────┤
//!    ▲                                                  │
//!    └────────────────────────────── spill, drain ──────┘
//! ```
//!
//! A free that is not cached goes to *Free*; while another CPU holds the pageblock, to *Remote*. The words of a
//! stock that goes back always pass through *Remote*.
//!
//! A zone's frames are grouped into pageblocks. A pageblock is a bitmap (1 = free), a second bitmap
//! for what other CPUs free while one works in it, and a descriptor: a lock, free frames and frames
//! of each mobility, the orders of its maximal free blocks, its class and label. An index knows all
//! pageblocks by class and by those orders, completely. Beside each frame stands a tag that says
//! whether an allocation starts there, of which order and mobility, and in which state; so a wrong
//! free is recognised without a search. Nothing lies in the frames themselves.
//!
//! A CPU works in its [`Seat`]: from caches of small blocks, one for each mobility and order, with
//! plain loads and stores. When a cache is empty, the [policy](crate::policy) names the cheapest
//! candidate, and the seat takes a batch out of it under the pageblock's lock; when it is full,
//! the older half goes back. While memory abounds, the batch is up to a pageblock in
//! whole words, which wait behind the caches in the seat's *stock*.
//!
//! # Where a frame's state lies, and which CPU writes it
//! A CPU writes any of these only from inside its own seat, or with all CPUs stopped.
//! - **Tag** (`pageblock/tag`), beside the block's first frame. The CPU that frees the block turns live to
//!   cached or remote. The seat that a cached tag names turns it to live, or to remote when it
//!   spills or gives its stock back. The CPU that took frames out of the bitmap makes them live or cached. The holder
//!   of the pageblock clears a tag as it sets the bits; a CPU frees a block above the
//!   pageblock order by clearing its live tag with a compare-and-swap. Parts of a live block get tags
//!   under the lock of the pageblock in which the largest block around the frame would start (`seat/part`). Frames
//!   become absent, and exist again, only with all CPUs stopped.
//! - **Bitmap** (`pageblock/bitmap`), counts, orders, class and label (`pageblock`), and the index's leaf bits for
//!   the pageblock: the holder of the pageblock's lock.
//! - **Second bitmap**: a CPU that leaves a block sets the bit of its first frame; the holder of the
//!   pageblock clears the bit when it collects the block.
//! - **Lock word**: the holder writes it; a CPU that leaves a block sets `PENDING` in it. **Worker**: the CPU that
//!   works in the pageblock writes its number, as a hint.
//! - **Caches, stock and loose block** (`seat/record`, `seat/stock`, `seat/part`): the
//!   seat's CPU, or one that has stopped all others.
//! - **Absent frames, pins, apart, isolation**: a CPU that has stopped all others. Where no frame of a pageblock
//!   ever existed, its descriptor alone says so (`zone/presence`).
//!
//! # Invariants
//! - **F1** Every frame of a pageblock is in exactly one state: absent, free, live, cached, remote.
//! - **F2** An unlocked pageblock's counts are those of its bitmap and tags. Cached and remote
//!   frames count as allocated with the mobility that they had.
//! - **F3** A block is in a seat's cache if and only if its tag names that seat, and a word in its
//!   stock likewise. A seat hands out what its tag names and nothing else: so a block freed by two
//!   CPUs at the same moment is handed out once. Each cache with a block, a stock or a limit is among those that its seat says
//!   may hold a block.
//! - **F4** With all CPUs stopped no pageblock is locked, and no block is remote.
//! - **F5** The index holds exactly the unlocked pageblocks that are not isolated, each in the rows
//!   of its class and the orders of its maximal free blocks.
//! - **F6** Free frames are present frames less what the seats took, plus what they gave.
//! - **F7** The zone has found no block in a state that only a racing double free explains: the users keep this one.
//! - **F8** A request of an *exact* order fails only if at one moment during the call a stop of all CPUs, which
//!   drains all caches, finds no free block of that order that the request may take, or would have found none. For
//!   a request that may wait, an order is exact in three cases: the order is at most the
//!   configuration's [`stop_order_max`](crate::policy::Config::stop_order_max); the caller asked with
//!   [`alloc_hard`](Seat::alloc_hard), as reclaim and `kv` do when they may wait; or there is one CPU. A request to
//!   several zones ([`Seats::alloc`]) fails only if that moment was the same in all of them. The same holds for a
//!   run of any length ([`Zone::alloc_contiguous`], and over several zones the engine's `Cpu::alloc_run`), with one
//!   difference: frames that CPUs cached after the drain count as taken. Other requests, and all that must not wait
//!   ([`alloc_at_once`](Seat::alloc_at_once)), stop no CPU. They fail if, with this CPU's caches drained, no
//!   pageblock has a block, or if other CPUs work in all pageblocks that have one.
//! - **F9** A request for a block stops all CPUs at most once; one to several zones stops all of them together once
//!   more, if a block became free in one of them meanwhile. A request for a run stops the CPUs of a zone twice: to
//!   drain, and to take what it found. Each search that other CPUs' work made worthless adds a stop, up to nine in
//!   all. It stops none if an earlier request did not find such a run, or a shorter one, and nothing has become free
//!   since. A request for a block stops none in three cases:
//!   - a stop failed for a like request, and since then no CPU has freed, added, relabelled or opened anything;
//!   - all CPUs stood still for another request after this one had begun, and there was no block for it then;
//!   - the zone could never have such a block.
//!
//! # What F7 does not cover
//! A second free that comes after the first one has ended is refused, unless the block has been handed out again in
//! between. If two CPUs free one block at the same moment, both calls may succeed. The zone counts that when it finds
//! it, and loses the block rather than hand it out twice.
//!
//! One race it does not find. A CPU reads the tag of a live block, in order to free the block a second time, and is then
//! held up. Meanwhile another CPU frees the block. When the first CPU goes on, it frees what lies there by then. That
//! may be a new owner's block. It may also be a free block, and the zone may then hand it out twice. To tell these
//! apart would take an atomic operation in every free.
//!
//! # Locks
//! - Rank 1: the zone's stop lock. Its holder claims every seat, executes the platform's barrier,
//!   and waits until no seat is busy; then the zone stands still. A request of an exact order takes
//!   it before it fails, and operations on the zone as a whole take it; reclaim takes it to set a pageblock apart,
//!   and to open it again. A busy seat never takes it.
//!   A request to several zones takes those of all zones, by their addresses.
//! - Rank 2: a pageblock's lock, held for one batch. A busy seat never waits for one, except to
//!   split an allocation, and its holder waits for nothing. The holder unlocks it by a compare-and-swap, which
//!   fails if another CPU left a block there meanwhile. The holder then collects that block first. So no remote
//!   block stays behind.
//!
//! At orders 0 to 4 an ordinary allocation or free takes neither, whichever CPU the block came
//! from: the seat serves it with plain loads and stores. A cache that runs dry or over tries the
//! lock of each pageblock that it touches once, for half of what the cache may hold. Where a CPU may cache no
//! blocks, it tries one lock for each block. That is so if too little memory is free, or if the pageblock serves
//! only some requests. It passes by a pageblock that it finds locked, or leaves the block in its second bitmap.
//! Rank 1 is no part of this: of a seat's requests only one that would fail takes it, and `try_alloc` never does. So
//! no lock is shared by all CPUs on each operation. What all CPUs share on the way to a pageblock is the index, which
//! they read, and change by single atomic operations.
//!
//! No callback runs under either, except the platform's `relax` while waiting for rank 1, and its clock
//! where locks are [accounted](Zone::with_lock_accounts).
//!
//! # Waiting
//! A CPU that stops the zone waits until every other CPU has left its seat. Each of them ends the one operation
//! that it does there, which takes longer if that CPU is off the processor meanwhile. A CPU with a claimed seat
//! waits for the stop, even in an ordinary allocation or free. So a stopped CPU waits for two things: until the
//! slowest CPU has left its seat, and until the stopper has done its work. For a request that work is to drain each
//! CPU's caches, at most 372 blocks and 24 words, and to ask the index; only an order above the pageblocks' looks at
//! all of them, and nothing is counted. What the zone's own operations do, their own docs say.
//!
//! So one thread that is taken off its CPU inside its seat holds up all CPUs, from the moment at which one of them stops
//! the zone: a kernel does not preempt there, and a host's [`relax`](crate::platform::FramePlatform) lets it run,
//! whatever the priorities.
//!
//! At the end of a stop, the stopper [wakes](crate::platform::FramePlatform::wake) the stopped CPUs and those
//! that wait for the stop lock. A CPU that comes to its seat and finds it claimed wakes the stopper. A
//! CPU that leaves its seat and does not come back wakes no CPU: that would cost each operation.
//!
//! [`try_alloc`](Seat::try_alloc) stops no CPU. [`alloc_within`](Seat::alloc_within) and
//! [`free_within`](Seat::free_within) have a bound for all of these waits, in calls of the platform's
//! `relax`. A request that fails waits for at most one stop of its own and those that were asked for
//! before it.
//!
//! # Context
//! A seat is for one context at a time: in a kernel, with interrupts off, or from one level only. A CPU frees a
//! block from its own seat, whichever CPU holds the pageblock; so each context that frees needs a seat. A handler
//! that interrupts a CPU inside its seat must call nothing of the zone but queries: a stop would wait for the seat
//! that it interrupted. So a non-maskable interrupt calls nothing at all. While it waits, the platform answers
//! other CPUs' barriers: see [`FramePlatform`](crate::platform::FramePlatform). A CPU that is taken away leaves its
//! seat idle; its caches are drained like all others.
//!
//! # Folders
//! - `pageblock`: what one pageblock is, its lock, blocks taken out of it and given back; the index of all of them;
//!   blocks that are whole pageblocks or several.
//! - `seat`: a CPU's caches, the fast path, the slow path, and the search from a request to a pageblock.
//! - `zone`: all seats and pageblocks together, what is done while all CPUs stand still, and reports.
//!
//! # What is not here
//! Decisions at watermarks, and compaction: these are [reclaim](crate::reclaim)'s; here the caches
//! only keep less below the watermarks. Zeroing, mapping, NUMA distances.
//!
//! # Sources
//! A bitmap and a counter for each 2 MiB, allocated with atomics: LLFree (Wrenger et al., USENIX
//! ATC 2023). Remote frees through a second structure: mimalloc (Leijen et al., 2019),
//! snmalloc (Lietar et al., 2019). Per-CPU caches: Bonwick and Adams, USENIX ATC 2001. An index of
//! groups by largest free order: ext4's mballoc. Claiming idle CPUs' seats with a barrier on their
//! behalf: the asymmetric fences of membarrier(2), and hazard pointers in folly.

mod counters;
mod error;
mod frames;
mod layout;
mod pageblock;
mod seat;
mod source;
mod tables;
mod wanted;
mod zone;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use error::{AllocError, FreeError};
pub use frames::Seats;
pub use layout::ZoneLayout;
pub use seat::Seat;
pub(crate) use seat::{CACHED_ORDERS, Spread, TargetRoom};
pub use source::FrameSource;
pub(crate) use source::origin_word;
pub(crate) use tables::FrameTables;
pub use tables::tables_of;
pub(crate) use zone::{Apart, ApartContent, Beyond, NotApart};
pub use zone::{Recount, Zone};
