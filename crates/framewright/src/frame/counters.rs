//! The counters of a seat. They stand below seat and pageblock: a CPU that changes a pageblock charges the change to
//! its own counters, and needs no more of its seat.

use crate::raw::record;
use crate::seats::ACCOUNT_WORDS;
use crate::sync::{AtomicU64, CounterWord};
use crate::units::Order;

const ORDERS: usize = Order::MAX.index() + 1;

record! {
    /// Frames and events since the zone was made. The seat's CPU writes them, or one that has claimed it.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct Counters {
        // Searches read this line in other seats too, and the owner writes nothing here without need.
        /// Frames taken from pageblocks less frames given to them; wraps.
        pub(super) net: CounterWord,
        /// How many free frames in pageblocks that are lent to movable contents and in blocks of order 3 and more this
        /// seat's changes added, and how many blocks of order 2; each wraps.
        pub(super) lent: CounterWord,
        pub(super) large: CounterWord,
        pub(super) order_2: CounterWord,
        pub(super) remote: CounterWord,
        pub(super) drains: CounterWord,
        /// How often a pageblock came into rows of the index.
        pub(super) inserted: CounterWord,
        /// Fallbacks that put contents that cannot move into a pageblock in which all contents could.
        pub(super) polluted: CounterWord,

        /// Frames handed out, by mobility, and frames freed. Those of the fast path are counted by cache.
        pub(super) pgalloc: [CounterWord; 3],
        pub(super) pgfree: CounterWord,
        /// How often the CPU looked at its caches' limits.
        pub(super) looks: CounterWord,
        /// The account of the pageblocks' locks.
        pub(super) locks: [AtomicU64; ACCOUNT_WORDS],

        pub(super) steals: [CounterWord; 9],
        pub(super) relabels: [CounterWord; 9],
        pub(super) exhausted: [CounterWord; ORDERS],
        pub(super) fragmented: [CounterWord; ORDERS],
        /// Frees that were refused.
        pub(super) bad: CounterWord,
    } = 80 words, net at 0, pgalloc at 8, steals at 16;
}
