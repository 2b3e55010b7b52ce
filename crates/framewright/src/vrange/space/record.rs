//! The space's own words, and the depot's.

use super::super::areas::KeptRecord;
use super::super::arena::ArenaRecord;
use crate::raw::record;
use crate::seats::{ACCOUNT_WORDS, StoppedInVain};
use crate::sync::AtomicU64;

record! {
    /// The space's own words, in whole cache lines. Words that many CPUs write are on lines of their own.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct SpaceRecord {
        /// Rank 1: the stop lock, held by the CPU that claims seats.
        pub(in super::super) stop_lock: AtomicU64,
        pub(in super::super) stop_account: [AtomicU64; ACCOUNT_WORDS],
        /// One, while a CPU makes room because too many pages are lazy. Not with the words that its flush writes, because other CPUs
        /// look at this one meanwhile.
        pub(in super::super) flushing: AtomicU64,
        pub(in super::super) _stop: [AtomicU64; 3],

        /// Lazy pages that the seats have reported, including those that wait for a flush. Wraps below zero for a
        /// moment if a CPU purged pages before they were reported.
        pub(in super::super) lazy: AtomicU64,
        pub(super) _lazy: [AtomicU64; 7],

        /// Flushes begun, and the highest completed.
        pub(in super::super) begun: AtomicU64,
        pub(in super::super) done: AtomicU64,
        /// Lazy pages unmapped and flushed since the space was made.
        pub(in super::super) flushed: AtomicU64,
        pub(super) _flushes: [AtomicU64; 5],

        /// The most lazy pages at one time.
        pub(in super::super) peak: AtomicU64,
        /// The most merges under one hold of the arena's lock.
        pub(super) merges: AtomicU64,
        /// The lowest and the highest page ever cut, plus one.
        pub(in super::super) lowest: AtomicU64,
        pub(in super::super) highest: AtomicU64,
        /// The longest gap of the arena when all CPUs stood still last; written under the stop lock.
        pub(in super::super) longest: AtomicU64,
        /// Spans that CPUs have.
        pub(super) spans_out: AtomicU64,
        /// The number of the origin of all seats' frames; zero until there is a first seat.
        pub(in super::super) origin: AtomicU64,
        /// One, after a call out of the space has not returned.
        pub(in super::super) poisoned: AtomicU64,

        pub(in super::super) arena: ArenaRecord,
        pub(super) arena_account: [AtomicU64; ACCOUNT_WORDS],
        /// What stopping all CPUs came to, of one kind: whatever was asked for, a drain brought nothing.
        pub(in super::super) last_standstill: AtomicU64,
        pub(in super::super) in_vain: [StoppedInVain; 1],
        pub(super) _memo: [AtomicU64; 2],
        pub(in super::super) depot: DepotRecord,
    } = 192 words, lazy at 8, begun at 16, peak at 24, arena at 32, depot at 48;

    /// The depot's words; but for `deferred`, its holder writes them.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct DepotRecord {
        pub(in super::super) lock: AtomicU64,
        pub(in super::super) account: [AtomicU64; ACCOUNT_WORDS],
        /// The first area whose free is deferred, plus one; zero if there is none. Any caller adds to that list, and a CPU
        /// that takes from it takes all.
        pub(in super::super) deferred: AtomicU64,
        _lock: [AtomicU64; 3],
        /// The lists of kept areas that no CPU has.
        pub(in super::super) lists: KeptRecord,
    } = 144 words, lists at 8;
}
