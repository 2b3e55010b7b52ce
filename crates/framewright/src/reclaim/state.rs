//! What a zone's reclaim remembers between calls: hints, counters and skip bits.

use crate::frame::Zone;
use crate::platform::FramePlatform;
use crate::policy::ReclaimConfig;
use crate::raw::Carver;
use crate::stats::ReclaimStats;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::{Order, SetupError};

/// The words that are remembered between calls.
///
/// All of them are hints or counts. Each is changed by itself, with relaxed operations, and no CPU
/// infers another word's value from it.
pub(super) mod word {
    /// Compaction's deferral: see `Deferral`.
    pub(in super::super) const DEFERRED: usize = 0;
    /// Where the migrate scanner begins among equals: a pageblock.
    pub(in super::super) const MIGRATE_AT: usize = 1;
    /// Looks of the background in this run since a client last gave frames back.
    pub(in super::super) const LOOKED_IN_VAIN: usize = 2;
    /// Whether the background was woken and has not noticed yet.
    pub(in super::super) const WOKEN: usize = 3;
    /// Whether the background sleeps, naps or works.
    pub(in super::super) const PHASE: usize = 4;
    /// The priority of its next round.
    pub(in super::super) const PRIORITY: usize = 5;
    /// What it has given up in this run, one bit for each `Lack`; and whether it has compacted.
    pub(in super::super) const GIVEN_UP: usize = 6;
    /// By how many pageblocks its targets are raised.
    pub(in super::super) const BOOST: usize = 7;
    /// The zone's polluting fallbacks that have already raised the targets.
    pub(in super::super) const POLLUTED: usize = 8;
    /// Which client is asked first next time, modulo how many there are.
    pub(in super::super) const TURN: usize = 9;
    /// By `Lack`: how often in a row an effort gained nothing, and for how many looks it is left
    /// off.
    pub(in super::super) const FRAMES_IN_VAIN: usize = 10;
    pub(in super::super) const FRAMES_LEFT_OFF: usize = 11;
    pub(in super::super) const PAGEBLOCKS_IN_VAIN: usize = 12;
    pub(in super::super) const PAGEBLOCKS_LEFT_OFF: usize = 13;
    pub(in super::super) const ORDINARY_IN_VAIN: usize = 14;
    pub(in super::super) const ORDINARY_LEFT_OFF: usize = 15;
    pub(in super::super) const STOCK_IN_VAIN: usize = 16;
    pub(in super::super) const STOCK_LEFT_OFF: usize = 17;
    /// How many words there are, in whole cache lines.
    pub(in super::super) const COUNT: usize = 24;
}

/// Names the counters but the stalls by order, in one list for all that is done to each.
macro_rules! counters {
    ($($name:ident = $field:ident),* $(,)?) => {
        /// A counter of [`ReclaimStats`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Counter {
            $(#[doc = concat!("`", stringify!($field), "`")] $name),*
        }

        impl Counter {
            const COUNT: usize = [$(Self::$name),*].len();
        }

        fn read(count: impl Fn(Counter) -> u64) -> ReclaimStats {
            ReclaimStats {
                $($field: count(Counter::$name),)*
                ..ReclaimStats::default()
            }
        }
    };
}

counters! {
    ScanBackground = pgscan_kswapd,
    ScanDirect = pgscan_direct,
    StealBackground = pgsteal_kswapd,
    StealDirect = pgsteal_direct,
    Wake = kswapd_wake,
    LowHitQuickly = kswapd_low_wmark_hit_quickly,
    HighHitQuickly = kswapd_high_wmark_hit_quickly,
    CompactStall = compact_stall,
    CompactSuccess = compact_success,
    CompactFail = compact_fail,
    CompactWake = compact_daemon_wake,
    MigrateScanned = compact_migrate_scanned,
    FreeScanned = compact_free_scanned,
    Isolated = compact_isolated,
    Migrated = pgmigrate_success,
    NotMigrated = pgmigrate_fail,
}

const ORDERS: usize = Order::MAX.index() + 1;
/// Counters: the stalls by order, then the others.
const COUNTERS: usize = ORDERS + Counter::COUNT;

/// The words in which a zone's reclaim lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReclaimWords<'m> {
    pub(super) config: ReclaimConfig,
    words: &'m [AtomicU64],
    counters: &'m [AtomicU64],
    /// One bit a pageblock, in three kinds: for the whole, for smaller blocks, and for movable
    /// contents of settled ones. Set where the last try gained nothing.
    pub(super) skips: &'m [AtomicU64],
}

const fn skip_words(pageblocks: usize) -> usize {
    3 * pageblocks.div_ceil(64)
}

impl<'m> ReclaimWords<'m> {
    /// How many words a zone of so many pageblocks needs.
    pub(crate) const fn needed(pageblocks: usize) -> usize {
        word::COUNT + COUNTERS + skip_words(pageblocks)
    }

    /// An empty memory, with all counters at zero.
    pub(crate) fn new(
        pageblocks: usize,
        config: &ReclaimConfig,
        memory: &'m mut [u64],
    ) -> Result<Self, SetupError> {
        config.check()?;
        let mut carver = Carver::new(memory, Self::needed(pageblocks))?;
        Ok(Self {
            config: *config,
            words: carver.words(word::COUNT),
            counters: carver.words(COUNTERS),
            skips: carver.words(skip_words(pageblocks)),
        })
    }

    /// Reclaim for `zone`, which has as many pageblocks.
    pub(crate) const fn of<'z, P>(self, zone: &'z Zone<'m, P>) -> Reclaim<'z, 'm, P> {
        Reclaim { zone, state: self }
    }
}

/// What a zone remembers of reclaim and compaction: where the migrate scanner was, what to pass
/// over, how long to leave off, and the counters.
///
/// A copy stands for the same memory, on whichever CPU. One memory for a zone: two would not know of each
/// other's deferral.
#[derive(Debug)]
pub struct Reclaim<'z, 'm, P> {
    zone: &'z Zone<'m, P>,
    pub(super) state: ReclaimWords<'m>,
}

impl<P> Clone for Reclaim<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Reclaim<'_, '_, P> {}

impl<'z, 'm, P: FramePlatform> Reclaim<'z, 'm, P> {
    /// How many words of memory are needed to remember the state of `zone`.
    #[must_use]
    pub fn words_needed(zone: &Zone<'_, P>) -> usize {
        ReclaimWords::needed(zone.pageblocks())
    }

    /// Reclaim for `zone`, with an empty memory and all counters at zero. It lies in `memory`,
    /// which has at least as many words as [`words_needed`](Self::words_needed) says; their values
    /// do not matter.
    ///
    /// # Errors
    /// What is wrong with configuration or memory, with the number.
    pub fn new(
        zone: &'z Zone<'m, P>,
        config: &ReclaimConfig,
        memory: &'m mut [u64],
    ) -> Result<Self, SetupError> {
        Ok(ReclaimWords::new(zone.pageblocks(), config, memory)?.of(zone))
    }
}

impl<'z, 'm, P> Reclaim<'z, 'm, P> {
    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &'z Zone<'m, P> {
        self.zone
    }

    /// The configuration that it was made with.
    #[must_use]
    pub const fn config(&self) -> &ReclaimConfig {
        &self.state.config
    }

    /// All counters since it was made, read one by one: while CPUs work they may be some operations
    /// apart.
    #[must_use]
    pub fn stats(&self) -> ReclaimStats {
        let (stalls, others) = self.state.counters.split_at(ORDERS);
        let mut stats = read(|counter| others[counter as usize].load(Relaxed));
        for (sum, stalls) in stats.allocstall.iter_mut().zip(stalls) {
            *sum = stalls.load(Relaxed);
        }
        stats
    }

    /// Adds to a counter.
    pub(super) fn count(&self, counter: Counter, by: u64) {
        if by > 0 {
            // Relaxed: a counter orders nothing.
            self.state.counters[ORDERS + counter as usize].fetch_add(by, Relaxed);
        }
    }

    /// The value of a counter.
    pub(super) fn counted(&self, counter: Counter) -> u64 {
        self.state.counters[ORDERS + counter as usize].load(Relaxed)
    }

    /// Counts a request of `order` that reclaimed.
    pub(super) fn count_stall(&self, order: Order) {
        self.state.counters[order.index()].fetch_add(1, Relaxed);
    }

    /// One of the [words](word).
    pub(super) fn word(&self, word: usize) -> &'m AtomicU64 {
        &self.state.words[word]
    }
}
