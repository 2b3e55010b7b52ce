//! What a zone's reclaim remembers between calls: hints, counters and skip bits.

use crate::frame::Zone;
use crate::platform::FramePlatform;
use crate::policy::ReclaimConfig;
use crate::raw::{Carver, RawRecord, record};
use crate::stats::ReclaimStats;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::{Order, SetupError};

/// What the background can be short of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lack {
    /// Free frames.
    Frames,
    /// Entirely free pageblocks.
    Pageblocks,
    /// Free frames for unmovable contents: others are free, but lent to movable contents.
    Ordinary,
    /// Free frames in settled pageblocks.
    Stock,
}

impl Lack {
    /// How many there are.
    const COUNT: usize = Self::Stock as usize + 1;
}

/// What was looked at and moved, in frames except for looks at descriptors.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct MoveTally {
    pub(super) migrate_scanned: u64,
    pub(super) free_scanned: u64,
    pub(super) isolated: u64,
    pub(super) moved: u64,
    pub(super) stayed: u64,
}

record! {
    /// What is remembered between calls.
    ///
    /// All of it are hints or counts, read at each look at the zone and written by whichever CPU works for it. Each
    /// word is changed by itself, with relaxed operations, and no CPU infers another word's value from it.
    #[derive(Debug)]
    #[repr(C)]
    pub(super) struct ReclaimRecord {
        /// Compaction's deferral: see `Deferral`.
        pub(super) deferred: AtomicU64,
        /// Where the migrate scanner begins among equals: a pageblock.
        pub(super) migrate_at: AtomicU64,
        /// Looks of the background in this run since a client last gave frames back.
        pub(super) looked_in_vain: AtomicU64,
        /// Whether the background was woken and has not noticed yet.
        pub(super) woken: AtomicU64,
        /// Whether the background sleeps, naps or works.
        pub(super) phase: AtomicU64,
        /// The priority of its next round.
        pub(super) priority: AtomicU64,
        /// What it has given up in this run, one bit for each `Lack`; and whether it has compacted.
        pub(super) given_up: AtomicU64,
        /// By how many pageblocks its targets are raised.
        pub(super) boost: AtomicU64,
        /// The zone's polluting fallbacks that have already raised the targets.
        pub(super) polluted: AtomicU64,
        /// Which client is asked first next time, modulo how many there are.
        pub(super) turn: AtomicU64,
        /// By `Lack`.
        pub(super) efforts: [LackRecord; Lack::COUNT],
        stalls: [AtomicU64; ORDERS],
        counters: [AtomicU64; Counter::COUNT],
    } = 55 words, efforts at 10, stalls at 18;

    /// What came of the background's efforts about a `Lack`.
    #[derive(Debug)]
    #[repr(C)]
    pub(super) struct LackRecord {
        /// How often in a row it could do nothing.
        pub(super) in_vain: AtomicU64,
        /// For how many looks it is not woken for that reason.
        pub(super) left_off: AtomicU64,
    } = 2 words;
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

/// The words in which a zone's reclaim lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReclaimWords<'m> {
    pub(super) config: ReclaimConfig,
    record: &'m ReclaimRecord,
    /// One bit a pageblock, in three kinds: for the whole, for smaller blocks, and for movable
    /// contents of settled ones. Set where the last try gained nothing.
    pub(super) skips: &'m [AtomicU64],
}

const fn skip_words(pageblocks: usize) -> usize {
    3 * pageblocks.div_ceil(64)
}

impl<'m> ReclaimWords<'m> {
    /// How many words a zone of this many pageblocks needs.
    pub(crate) const fn needed(pageblocks: usize) -> usize {
        ReclaimRecord::WORDS + skip_words(pageblocks)
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
            record: carver.record(),
            skips: carver.words(skip_words(pageblocks)),
        })
    }

    /// Reclaim for `zone`, which has as many pageblocks.
    pub(crate) const fn of<'z, P>(self, zone: &'z Zone<'m, P>) -> Reclaim<'z, 'm, P> {
        Reclaim { zone, state: self }
    }

    fn count(&self, counter: Counter, by: u64) {
        if by > 0 {
            // Relaxed: a counter orders nothing.
            self.record.counters[counter as usize].fetch_add(by, Relaxed);
        }
    }

    /// Counts what was looked at and moved.
    pub(super) fn count_all(&self, tally: &MoveTally) {
        self.count(Counter::MigrateScanned, tally.migrate_scanned);
        self.count(Counter::FreeScanned, tally.free_scanned);
        self.count(Counter::Isolated, tally.isolated);
        self.count(Counter::Migrated, tally.moved);
        self.count(Counter::NotMigrated, tally.stayed);
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
        let mut stats = read(|counter| self.counted(counter));
        for (sum, stalls) in stats.allocstall.iter_mut().zip(&self.record().stalls) {
            *sum = stalls.load(Relaxed);
        }
        stats
    }

    /// Adds to a counter.
    pub(super) fn count(&self, counter: Counter, by: u64) {
        self.state.count(counter, by);
    }

    /// The value of a counter.
    pub(super) fn counted(&self, counter: Counter) -> u64 {
        self.record().counters[counter as usize].load(Relaxed)
    }

    /// Counts a request of `order` that reclaimed.
    pub(super) fn count_stall(&self, order: Order) {
        self.record().stalls[order.index()].fetch_add(1, Relaxed);
    }

    /// What is remembered between calls.
    pub(super) const fn record(&self) -> &'m ReclaimRecord {
        self.state.record
    }
}
