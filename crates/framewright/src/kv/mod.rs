//! Objects of any size: kmalloc's slabs and runs, and mapped pages where no contiguous memory is
//! there.
//!
//! ```text
//!   kvmalloc(bytes)
//!     up to 2048 bytes      Slab     a slot of a slab of this CPU's
//!     above, contiguous     Run      a block of frames, in the direct map
//!     else                  Mapped   an area of the space, page by page        (a spill)
//!
//!   a slab, of 2^k frames
//!                make                    all slots used, and another slab has some
//!     frames ──────────▶ Current ──────────────────────▶ Full (in no list)
//!        ▲                 ▲  (the class's magazine)         │ a slot is freed
//!        │                 ├──────── Partial ◀───────────────┘
//!        │                 │            │ the last object is freed
//!        │                 └──────── Empty (one is kept for each class)
//!        └──────── Surplus ◀────────────┘
//! ```
//!
//! An object is known by its [`Addr`]. An address in the direct map is a frame's and leads to the
//! *table*, a word for each frame, which says whether a run starts there, or which slab the frame
//! belongs to. All other addresses are the space's. So a free needs no size, and finds out in O(1)
//! which kind of object it was.
//!
//! A slab belongs to one CPU, which alone takes slots from it. Its record holds a bitmap of free
//! slots that only the owner changes, with plain loads and stores, and on a cache line of its own a
//! second, atomic one into which all other CPUs free. The word of a slab's free slots from which a
//! CPU serves a class at the moment is the class's *magazine*: up to 64 objects that cost a bit
//! operation each. An empty magazine is loaded from the same slab, then from a partial one, then
//! from what other CPUs freed, then from an empty slab, then from the zone. Nothing lies in the
//! objects themselves.
//!
//! A CPU that frees into another's slab sends the slab to the owner's *inbox*, once until it has
//! been collected. The inbox is a list that all CPUs push to and only the owner takes. A CPU that has gone keeps
//! its slabs until another CPU *starves*: it finds neither a free slot nor frames for a slab. Then a *drain* stops
//! all CPUs, collects all inboxes, takes the empty slabs back, and gives the starving CPU one partial slab of each
//! other CPU.
//!
//! A slab needs one of the records that were handed in. When none is left, small objects are slots
//! of larger classes, and in the end runs.
//!
//! # Invariants
//! - **K1** A frame of the zones belongs to one slab, or starts one run, or neither, and the table
//!   says which; only `kv` frees what the table names.
//! - **K2** A slot is free, in its slab's bitmap; or free in the second bitmap, on its way; or
//!   live. (Two CPUs that free one object at the same moment may both succeed. When the owner finds
//!   that, it counts it, and the slot is free once. If the owner has handed the slot out again
//!   before, it does not find it.)
//! - **K3** A slab is exactly one CPU's. Only the owner, or a CPU that has claimed the owner's
//!   seat, changes its record, except the second bitmap and the inbox link. A record is a slab's,
//!   or in one list of unused records.
//! - **K4** A slab with free slots is its owner's current one for its class, or in the owner's list
//!   of partial, empty or surplus slabs; a slab with a bit in its second bitmap is in its owner's
//!   inbox, or about to be put there.
//! - **K5** An object is handed out once, and its bytes are its user's alone until it is freed.
//! - **K6** Whatever a request took before it failed has been given back, also if it failed because the
//!   platform unwound while it zeroed or copied. A free may have to wait for another CPU. If that wait unwinds,
//!   `kv` still has what was to go back, and gives it back later. If the wait unwinds out of a request that has a
//!   block in its hands, the block is *loose*: the seat gives it back before it takes another.
//! - **K7** No effort but the one asked for: `FailFast` never asks for relief; `MayCompact` at most
//!   once for each kind; `MustSucceed` fails only in two cases: relief brings no more memory, or relief says
//!   that it has brought more frames than exist.
//! - **K8** Everything that a request calls is called within its context.
//! - **K9** Before a request fails for want of frames, it gives all CPUs' empty slabs back. Two kinds of requests
//!   do not: one that may not wait, and a fail-fast one that must be contiguous. If a request must be contiguous,
//!   there was a moment since it began at which neither a slab nor a zone had memory for it. A search for contiguous
//!   memory before a spill never waits, whatever the context.
//! - **K10** Between two reliefs a request stops `kv`'s CPUs at most once. It skips the stop in two
//!   cases: no slot was freed and no slab made since a stop that found nothing for a like request; or
//!   another request's stop found nothing for a like one meanwhile. It takes what it
//!   finds while they stand still, so that no other request can take it first. A request that must
//!   be contiguous first stops the space's CPUs once, if the space keeps anything. It then stops the zones' CPUs
//!   once: while `kv`'s CPUs stand still or, where a stop of those cannot help, alone. If a CPU frees or makes a
//!   slab meanwhile, the request does both, one after the other.
//! - **K11** All seats are in one space, so their frames have one origin: what one CPU allocated, each other CPU can free,
//!   and no frame is two zones'.
//!
//! `next_step` chooses what a request does next.
//!
//! # Locks
//! - Rank 0: the stop lock of `kv`: its holder may claim seats of `kv`, and ask the zones for blocks
//!   or give blocks back. A busy seat never takes it.
//! - Below it the ranks of the zones. A busy seat asks them for blocks that are there at once, and
//!   gives blocks back: so with all CPUs stopped no block is on its way from a slab to a zone, nor
//!   from a zone to a new slab that may fail. A seat waits there while a zone is stopped, and a CPU
//!   that stops `kv` waits for the seat. But a CPU that stops a zone waits for no seat of `kv`, and
//!   the zones do not call `kv`: so no CPUs wait in a circle.
//! - And those of the space, whose seats are entered when no seat of `kv` is busy.
//! - Records, inboxes and tables have no lock: several CPUs change them by single atomic
//!   operations.
//!
//! # Context
//! A seat is for one context at a time, like the frames' and the space's. A request that must not wait stops no
//! CPU. Where it fails, its caller may give all CPUs' empty slabs back with a bound on its waiting
//! ([`drain_within`](KvSeat::drain_within)) and ask once more.
//!
//! # Folders
//! - `slab`: a slab's record and its slots, the size classes, records without a slab.
//! - `request`: from a request to an object, step by step, and objects that change their length.
//! - `seat`: a CPU's slabs, and work with other CPUs' seats.
//!
//! # What is not here
//! Reclaim and compaction themselves: a [`Relief`](crate::platform::Relief) does them. Caches of
//! constructed objects of one type, NUMA, red zones.
//!
//! # Sources
//! Falling back at once instead of compacting: D. Chinner, "mm: vmalloc: use rwsem, mutex ...",
//! LKML, March 2023, and the commit quoted there. Slabs and magazines: Bonwick, "The slab
//! allocator", USENIX Summer 1994; Bonwick and Adams, USENIX ATC 2001. Slabs that one CPU owns,
//! with a second structure for remote frees: mimalloc (Leijen et al., 2019), snmalloc
//! (Lietar et al., 2019).
//!
//! [`Addr`]: crate::Addr

mod error;
mod heap;
mod layout;
mod lengths;
mod request;
mod seat;
mod slab;
mod table;
mod verify;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use error::{KvError, KvFreeError};
pub use heap::Kv;
pub use layout::KvLayout;
pub use request::KvRequest;
pub use seat::KvSeat;
pub use verify::KvRecount;

pub use crate::raw::owned::{IntoIter, KVBox, KVVec, Memory, Refused};
