//! The reserve: contiguous runs of frames that an owner is *guaranteed*, lent to guests while idle.
//!
//! ```text
//!              put: obtain           publish
//!     Free ────────────────▶ Filling ────────▶ Cached ◀──── cleaned ──── Writing
//!      ▲ ▲ ▲                   │ ▲              │ │ │                      ▲
//!      │ │ └── invalidated ────┘ └─── evicted ──┘ │ └──▶ Loading           │ write-back, put-back
//!      │ │                          (next put)    │         │         Dirty ┘
//!      │ └───── invalidate, exclusive get ────────┴─────────┘           ▲
//!      │                                          │                     └── publish of a dirty page
//!      └───────── release ────────── Owned ◀──────┘ take (from every state but Dirty, Writing)
//! ```
//!
//! Each frame has a *state word*: a generation, the pool whose page it holds, and the state. A guest's index says
//! (frame, generation). To discard a page, a CPU moves the generation on. It does not search for the entry: a later
//! call that meets the entry removes it. An owner that [takes](Reserve::take) a run does nothing else. For every
//! 512 frames, a *section*, it shuts a gate, waits until the guests inside have finished their one copy, moves the
//! generations on, and opens the gate.
//!
//! A page that consists of one repeated word has a descriptor, but no frame. An owner may want the frame of a page
//! that is on no device. If the page's pool is put-back, the owner copies the page to an ordinary frame. When that
//! page is gone, the ordinary frame is spare: it stays for the next page, until a caller or reclaim collects it.
//!
//! # Invariants
//! - **C1** Every frame is in exactly one state, and "in transit" (Filling, Loading, Writing) is one.
//! - **C2** A run is owned by one owner: no frame of it is handed out again before its release.
//! - **C3** A take of a reservation fails only if it is taken already. No guest can prevent it, and
//!   it waits for no I/O and no pin, because no dirty page lies in a reservation. It waits for calls
//!   of other owners that came first. At the gate of each 512 frames it also waits for the guests
//!   inside, at most one on each CPU, and for an owner that puts a page back there: for one copy and
//!   a few stores under a bucket's lock each. Guests that come later are not let in. If no guest is
//!   preempted inside a call, that is the time of a copy for each CPU and gate; else the time that
//!   such a guest, or the holder of such a lock, is off its CPU comes on top. An owner that cannot
//!   wait so long sets a bound ([`Reserve::try_take`]).
//! - **C4** A page is returned whole, as one put stored it, or not at all.
//! - **C5** After put A, put B of the same key no get returns A, whether B was stored or refused; and
//!   a miss stays a miss until the next put.
//! - **C6** After an invalidation has returned, no get returns a page that was put before it, not even a
//!   get that was under way; and no put that was under way leaves one.
//! - **C7** A dirty page is not lost: it leaves its frame only for its device, for an ordinary frame, or by
//!   invalidation.
//! - **C8** A stale entry of the index is never followed: its generation is not the frame's. An
//!   entry remembers the lower half of the generation, so a stale one may look valid. Such an entry does no harm.
//!   Either it stands in another bucket than its descriptor's key, and no search in that bucket is for that key; or
//!   it is the entry of the page that is there now. A bucket names each descriptor at most once.
//! - **C9** A handle is known only to the area that gave it out, and only until what it names is
//!   given up.
//! - **C10** An owner that clears a run ([`Reserve::alloc_contig_with`]) may fail. Until it has the frames they do
//!   not count as taken, so its failure makes no other owner fail. An owner that finds no other room waits until
//!   the first one has succeeded or failed, for at most 2^14 calls of
//!   [`FramePlatform::relax`](crate::platform::FramePlatform::relax).
//! - **C11** An ordinary frame goes back to the source that it came from: all supplies have one origin.
//!
//! # Generations
//! A page remembers the sum of its pool's and its object's generation when it was put: 63 bits,
//! counted by invalidations. Its frame's generation has 52 bits, counted by pages. Neither comes
//! round in a year of the fastest loop. The half of the second that the index remembers may come
//! round: see C8. docs/generations.md lists them all.
//!
//! # Locks
//! - Rank 1: the owners' lock. Takes, releases and reservations hold it, and so does opening a
//!   pool, and collecting spare frames. No put, get or invalidation takes it, and a guest closes
//!   a pool by an atomic exchange.
//! - Rank 2: a section's gate. A guest enters it by a word of its own seat, is inside one gate at a
//!   time, and stays for at most one copy. An owner shuts it and looks at every seat; it shuts one
//!   gate at a time. A put that finds a gate shut goes to another section. An invalidation, or a get
//!   that takes its page away, waits until the owner has opened the gate. Before the owner opens the gate, it waits
//!   for the guests inside and works on 512 frames. It calls `wake` for the waiting guest only at the end of its
//!   whole call, so the guest also looks by itself.
//! - Rank 3: a shard's lock: the eviction queue of its sections. Guests try it and go to the next;
//!   only a put that would be refused waits for one.
//! - Rank 4: a bucket's lock: the index entries of some keys. Held for a few loads and stores.
//! - The cleaner's lock has no rank: CPUs only try it, so no CPU waits for it.
//!
//! A put enters its page into the index before it copies, in state Filling, which no get follows.
//! So all its atomic exchanges come before the copy, and only plain stores follow it. An
//! invalidation meanwhile takes the entry away and moves the generation on; the put looks at the
//! generation once more after the copy.
//!
//! A get that leaves its page in place takes none of these, except that it enters a gate where the
//! page is in an ordinary frame. Calls to the outside, to devices and supplies of frames, are made
//! under no lock but the cleaner's.
//!
//! # Folders
//! - `table`: what is known of each frame, where a key's page is, the eviction queue, the pools.
//! - `guest`: puts, gets, invalidation, eviction, write-back.
//! - `owner`: reservations, taking and releasing, the choice of a run, what is moved out of it.
//! - `migrate`: the other kind of area, in which an owner's frames are lent to contents that move.
//!
//! # What is not here
//! Files, devices, compression: they belong to the guests. Frames of the reserve are in no zone.
//!
//! # Sources
//! First- and second-class clients: S. Park, "introduce gcma", LKML RFC v2, February 2015. The guests'
//! contract: Linux's cleancache and frontswap. Eviction: SIEVE (Zhang et al., NSDI 2024). Generations
//! that are checked after the copy: sequence locks (Boehm, MSPC 2012).

mod aging;
mod area;
mod contiguous;
pub mod contract;
mod error;
mod guest;
pub mod migrate;
mod owner;
mod places;
mod reservations;
mod table;
mod tally;
mod verify;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use area::{Reserve, ReserveLayout};
pub use contiguous::Contiguous;
pub use contract::Store;
pub use error::PutRefused;
pub use guest::{Cleaned, Guest, Key};
pub use migrate::MigrateArea;
pub use reservations::Reservation;
pub use table::{PoolConfig, PoolId};
