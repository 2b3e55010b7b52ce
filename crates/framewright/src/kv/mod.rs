//! Objects of any size: kmalloc's slabs and runs, and mapped pages where nothing contiguous is there.
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
//! An object is known by its [`Addr`]. Addresses in the direct map are frames' and lead to the
//! *table*, a word for each frame, which says whether a run starts there, or which slab the frame
//! belongs to; all others are the space's. So a free needs no size, and finds out in O(1) which
//! kind of object it was.
//!
//! A slab belongs to one CPU, which alone takes slots from it. Its record holds a bitmap of free
//! slots that only the owner changes, with plain loads and stores, and on a cache line of its own a
//! second, atomic one into which everybody else frees. The word of a slab's free slots from which
//! a CPU serves a class at the moment is the class's *magazine*: up to 64 objects that cost a bit
//! operation each. An empty magazine is loaded from the same slab, then from a partial one, then
//! from what others freed, then from an empty slab, then from the zone. Nothing lies in the objects
//! themselves.
//!
//! Whoever frees into another's slab sends it to the owner's *inbox*, a list that everybody pushes
//! to and only the owner takes, once until it has been collected. What a CPU that has gone left
//! stays its own until somebody starves: a *drain* stops all CPUs, collects all inboxes, takes the
//! empty slabs back, and gives the CPU that starves one partial slab of each other CPU.
//!
//! A slab's record is one of a number that was handed in; where none is left, small objects are
//! slots of larger classes, and in the end runs.
//!
//! # Invariants
//! - **K1** A frame of the zones is one slab's, or starts one run, or none of both, and the table
//!   says which; nobody but `kv` frees what the table names.
//! - **K2** A slot is free, in its slab's bitmap; or free in the second bitmap, on its way; or live.
//!   (Two CPUs that free one object at the same moment may both succeed; when that is found, it is
//!   counted, and the slot is free once. Where the owner has handed it out again before, it is not.)
//! - **K3** A slab is exactly one CPU's. Only the owner, or who has claimed the owner's seat,
//!   changes its record, except the second bitmap and the inbox link. A record is a slab's, or in
//!   one list of those that are not.
//! - **K4** A slab with free slots is its owner's current one for its class, or in the owner's list
//!   of partial, empty or surplus slabs; a slab in whose second bitmap is something is in its
//!   owner's inbox, or about to be put there.
//! - **K5** An object is handed out once, and its bytes are nobody else's until it is freed.
//! - **K6** Whatever a request took before it failed has been given back.
//! - **K7** No effort but the one asked for: `FailFast` never asks for relief; `MayCompact` at most
//!   once for each kind; `MustSucceed` fails only when nobody gives anything any more.
//! - **K8** Everything that a request calls is called within its context.
//! - **K9** A request fails for want of frames only after all CPUs' empty slabs went back, unless
//!   it may not wait, or must be contiguous and is fail-fast. What looks for contiguous
//!   memory before it spills never waits, whatever the context.
//!
//! - **K10** Between two reliefs a request stops `kv`'s CPUs at most once, and not in vain: not if nothing
//!   was freed into a slab and no slab made since a stop that brought nothing for its like; not if there
//!   was nothing for it when they stood still for somebody else meanwhile. What must be contiguous then
//!   stops the space's once, if that keeps anything, and the zones' once: three in all. A request that one
//!   frame would serve stops `kv`'s again where a stop brought that and others were quicker, 16 times at
//!   most: they were served each time.
//!
//! What a request does next is [`next_step`](crate::policy::next_step)'s choice.
//!
//! # Locks
//! - Rank 0: the stop lock of `kv`: its holder may claim seats of `kv`. Never taken by a busy seat,
//!   and given up before the zones are asked or given anything.
//! - Below it the ranks of the zones. A busy seat asks them for what is there at once, and gives
//!   blocks back: so with all CPUs stopped no block is on its way from a slab to a zone, nor from a
//!   zone to a new slab that may come to nothing. It waits there while a zone is stopped, and whoever
//!   stops `kv` waits for it; but whoever stops a zone waits for no seat of `kv`, and the zones
//!   call nothing of it: so nobody waits in a circle.
//! - And those of the space, whose seats are entered when no seat of `kv` is busy.
//! - Records, inboxes and tables have no lock: what several CPUs change is changed by one atomic
//!   operation.
//!
//! # Context
//! A seat is for one context at a time, as the frames' and the space's.
//!
//! # What is not here
//! Reclaim and compaction themselves: a [`Relief`](crate::platform::Relief) does them. Caches of
//! constructed objects of one type, NUMA, red zones.
//!
//! # Sources
//! Falling back at once instead of compacting: D. Chinner, "mm: vmalloc: use rwsem, mutex ...", LKML,
//! March 2023, and the commit that he quotes. Slabs and magazines: Bonwick, "The slab allocator",
//! USENIX Summer 1994; Bonwick and Adams, USENIX ATC 2001. Slabs that one CPU owns, with a second
//! structure for frees from elsewhere: mimalloc (Leijen et al., 2019), snmalloc (Lietar et al.,
//! 2019).
//!
//! [`Addr`]: crate::Addr

mod class;
mod drain;
mod error;
mod heap;
mod held;
mod kmalloc;
mod kvmalloc;
mod layout;
mod magazine;
mod obtain;
mod pool;
mod realloc;
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

pub use error::{KvError, KvFreeError, SetupError};
pub use heap::Kv;
pub use layout::KvLayout;
pub use request::KvRequest;
pub use seat::KvSeat;
pub use table::Kind;
pub use verify::{Broken, Recount};

pub use crate::raw::owned::{
    Boxed, IntoIter, KBox, KVBox, KVVec, KVec, Memory, Place, Refused, ReserveError, VBox, VVec,
    Vector,
};
