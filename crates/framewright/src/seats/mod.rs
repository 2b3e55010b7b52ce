//! Seats: ownership instead of locks, for frames, ranges and objects alike.
//!
//! Each CPU has a *seat* in each allocator, and works there with plain loads and stores. Seats meet only through
//! the parts in this folder, which are the same for all allocators. (Beside them each allocator has words that
//! belong to no seat: pageblocks, the arena, the table.)
//!
//! ```text
//!     Turn       a seat's turn        idle ─▶ busy ─▶ idle             its own CPU, often
//!                                     idle ─▶ claimed ─▶ idle          a stopper, rarely
//!     Taken      a seat's thread      free ─▶ taken ─▶ free            a thread, once
//!     SeatSet    a stop               lock ─▶ claim all ─▶ give up     one stopper at a time
//!     StopMemo   whether to stop      a stop that found nothing answers all requests that waited for it
//!     Inboxes    a remote free        bit ─▶ pending ─▶ inbox ─▶ owner    ranges and objects only
//!     Accounts   lock times           how long locks are held, where the user asked for it
//! ```
//!
//! A live block of frames belongs to no seat, so its free needs no inbox. The freeing CPU caches the block, or
//! leaves it to the CPU that holds its pageblock (`frame/pageblock/mod.rs`; docs/how/remote-free.md).
//!
//! # Invariants
//! - **E1** A seat is busy or in a claimer's hands, never both: owner and claimer each write their own word
//!   before they look at the other's ([`Turn`]).
//! - **E2** A CPU claims seats only under the stop lock of their set, and ends its claims before it gives the
//!   lock up. If a change was interrupted for good, the set is poisoned, and claims stay.
//! - **E3** A parcel with a remote free that its owner has not seen is pending, or its sender is about to mark
//!   it so; a pending parcel is in exactly one inbox, or a CPU is about to push it there.
//! - **E4** A request that asks for a stop ([`SeatSet::ask`]) is given none in two cases: the last stop for its
//!   kind found nothing, and nothing has happened since; or all CPUs stood still for another request of its kind after
//!   this one had begun, and there was nothing. How often one request asks is its allocator's rule: F9 for frames, K10
//!   for objects; docs/how/pressure.md adds up one request with reclaim.
//!
//! # Locks
//! The stop lock of a set has rank 1: a CPU takes it outside its seats. Nothing else here is a lock.
//!
//! # Sources
//! Asymmetric fences: membarrier(2). Remote frees through a second bitmap and a list: mimalloc (Leijen
//! et al., 2019), snmalloc (Lietar et al., 2019).

mod accounts;
mod inbox;
mod memo;
mod stop;
mod turn;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
mod models;

pub(crate) use accounts::{ACCOUNT_WORDS, Account, Accounts, WatchedLock, read as read_account};
pub(crate) use inbox::{Inboxes, Parcel};
pub(crate) use memo::{Standstill, StopMemo, StoppedInVain};
pub(crate) use stop::{SeatSet, StopAsk, StopWords, Stopped};
pub(crate) use turn::{ClaimWords, Taken, Turn};
