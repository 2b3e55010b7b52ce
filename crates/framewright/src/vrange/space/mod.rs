//! The space: its metadata cut into parts, its own words, and its seats as a set.
//!
//! The space's own words, by what writes them: `lazy`, `peak`, `spans_out`, the counts of flushes and `depot.deferred`, all
//! CPUs, by single atomic operations; `lowest`, `highest` and `merges`, the holder of the arena's lock; `longest` and the memo,
//! the holder of the stop lock, with all CPUs stopped; `origin` and `poisoned`, one CPU, once.

mod layout;
mod poison;
mod record;
mod seat_record;

pub use layout::SpaceLayout;
pub(super) use layout::{MERGES_MAX, RELEASES};
pub(super) use record::DepotRecord;
pub(super) use seat_record::{LISTS, SpaceCounters, SpaceSeatRecord, not_negative, sum};

use super::areas::AreaTable;
use super::arena::{Arena, ArenaGuard, WantedGap};
use super::error::Poisoned;
use super::span::Spans;
use crate::platform::{FramePlatform, RangePlatform};
use crate::policy::RangeConfig;
use crate::raw::Carver;
use crate::seats::{Accounts, SeatSet, StopMemo, StopWords, Turn, WatchedLock, read_account};
use crate::stats::LockStats;
use crate::sync::{
    AtomicU64, CounterWord,
    Ordering::{Acquire, Relaxed},
    fence,
};
use crate::units::{Page, SetupError};
use core::ops::Range;
use layout::{SLOT_MAX, SpaceShape};
use record::SpaceRecord;

/// One window of address space.
///
/// See the [module's description](super) for states, invariants and locks. CPUs share a space by
/// reference; each works through its [`RangeSeat`](super::RangeSeat).
#[derive(Debug)]
pub struct Space<'m, P> {
    pub(super) shape: SpaceShape,
    pub(super) config: RangeConfig,
    pub(super) platform: P,
    pub(super) accounts: Accounts<P>,
    pub(super) words: &'m SpaceRecord,
    pub(super) seats: &'m [SpaceSeatRecord],
    pub(super) spans: Spans<'m>,
    pub(super) table: AreaTable<'m>,
    pub(super) arena: Arena<'m>,
    /// The longest slot of a vmap block, in pages.
    pub(super) slot_max: u32,
    /// The most pages of areas that a CPU keeps, or that lie between the CPUs.
    pub(super) kept_max: u64,
    /// Of so many frames of its source a CPU of a strict space keeps one; 0 for any number of them.
    pub(super) kept_share: u64,
    /// The longest area that is cut from a span, in pages, guard page included.
    pub(super) small_max: u32,
    /// The most lazy pages: the configured bound, or an eighth of the window if that is less.
    pub(super) lazy_max: u64,
    /// From this many lazy pages on, a free of an area with frames purges this CPU's own. In a strict space it is lower
    /// than the bound. It is no bound itself, because other CPUs' pages stay.
    pub(super) frames_lazy_max: u64,
    /// The most pages of spans, used or idle: a quarter of the window, and at least one span for
    /// each CPU. Below it, the most pages of spans without a user, above that number.
    span_pages_max: u64,
    idle_max: u64,
    /// Lazy pages that a seat need not report.
    pub(super) batch: u64,
    /// The same for areas with frames.
    pub(super) frames_batch: u64,
    /// The same for slots. With one CPU no other reads the shared sum, so that CPU reports more
    /// often, and needs fewer vmap blocks.
    pub(super) ram_batch: u64,
    /// A CPU with more unmapped pages that wait gives some back when it frees: twice its share of the bound. And the same
    /// for a free of an area with frames.
    pub(super) waiting_max: u64,
    pub(super) frames_waiting_max: u64,
    /// Entirely free spans that a seat keeps.
    pub(super) empties_max: u64,
}

impl<P: FramePlatform> Space<'_, P> {
    /// The same with its locks accounted, for the statistics: each lock that is taken then costs
    /// two readings of the clock.
    #[must_use]
    pub fn with_lock_accounts(self) -> Self {
        let accounts = Accounts::on();
        Self { accounts, ..self }
    }
}

impl<'m, P: RangePlatform> Space<'m, P> {
    /// A space of that layout, with those policies, in `memory`, which has at least as many words
    /// as [`SpaceLayout::words_needed`] says; their values do not matter.
    ///
    /// The whole window is free and has no mapping. Time: O(spans and CPUs); the words of the pages
    /// are not touched. If memory is known to hold zeroes, [`in_zeroed`](Self::in_zeroed) leaves
    /// the spans' words untouched, too.
    ///
    /// # Errors
    /// What is wrong with layout or memory, with the number.
    pub fn new(
        layout: &SpaceLayout,
        config: &RangeConfig,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, SetupError> {
        Self::in_memory(layout, config, memory, platform, false)
    }

    /// As [`new`](Self::new), in memory that holds zeroes, as a host's fresh mapping does. It does
    /// not touch the words of spans and pages that are never used, so on such a host a large window
    /// with little in it costs little. Time: O(CPUs).
    ///
    /// If memory holds anything else, the space may hand out pages that are not free; it breaks no
    /// other promise of the language.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_zeroed(
        layout: &SpaceLayout,
        config: &RangeConfig,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, SetupError> {
        Self::in_memory(layout, config, memory, platform, true)
    }

    pub(crate) fn in_memory(
        layout: &SpaceLayout,
        config: &RangeConfig,
        memory: &'m mut [u64],
        platform: P,
        is_zeroed: bool,
    ) -> Result<Self, SetupError> {
        let shape = SpaceShape::new(layout)?;
        let carver = Carver::new(memory, shape.words)?;
        let mut carver = carver.in_zeroed(is_zeroed).at_a_line();
        let [bitmaps, of_table] = shape.parts();
        let words = carver.record::<SpaceRecord>();
        let seats = carver.records(usize::from(shape.cpus));
        let records = carver.records(shape.spans);
        let spans = Spans::new(records, carver.words(bitmaps), shape.span_shift);
        let table = AreaTable::new(carver.words_as_they_are(of_table));
        let arena = Arena::new(table, &words.arena, shape.start.0);
        let lazy_max = config.lazy_pages_max.min(layout.pages / 8);
        let frames_lazy_max = if config.strict {
            config.lazy_frames_max.min(lazy_max)
        } else {
            lazy_max
        };
        let cpus = u64::from(shape.cpus);
        let batch_below = |most: u64| (most / (4 * cpus)).clamp(1, 2048);
        let batch = batch_below(lazy_max);
        let space = Self {
            shape,
            config: *config,
            platform,
            accounts: Accounts::OFF,
            words,
            seats,
            spans,
            table,
            arena,
            slot_max: SLOT_MAX.min(spans.pages()),
            kept_max: config.kept_pages_max,
            kept_share: 0,
            small_max: if config.spans { spans.pages() / 2 } else { 0 },
            lazy_max,
            frames_lazy_max,
            span_pages_max: (layout.pages / 4).max(cpus << shape.span_shift),
            idle_max: layout.pages / 16,
            batch,
            frames_batch: batch_below(frames_lazy_max),
            ram_batch: if cpus == 1 { batch.min(256) } else { batch },
            waiting_max: 2 * lazy_max / cpus,
            frames_waiting_max: 2 * frames_lazy_max / cpus,
            empties_max: (lazy_max >> shape.span_shift).max(2),
        };
        let mut held = space.lock_arena();
        let given = held.guard.give(0, shape.pages as u32);
        debug_assert!(given.is_ok(), "a new arena has no gap");
        drop(held);
        Ok(space)
    }

    /// The address of its metadata: a number that no other space of the host has.
    pub(crate) fn metadata_address(&self) -> u64 {
        core::ptr::from_ref(self.words).addr() as u64
    }

    /// Whether freed areas are kept.
    #[inline(always)]
    pub(super) const fn keeps(&self) -> bool {
        self.kept_max != 0
    }

    /// The arena, locked.
    pub(super) fn lock_arena(&self) -> WatchedLock<'_, 'm, P, ArenaGuard<'m>> {
        let (guard, waited) = self
            .arena
            .lock_and_tell(|attempt| self.relax_for_lock(attempt));
        let account = &self.words.arena_account;
        self.accounts.watch(&self.platform, account, waited, guard)
    }

    /// Cuts the lowest possible piece from the arena. Counts it for the seat, a span or block also in `takes`.
    pub(super) fn cut(
        &self,
        words: &'m SpaceSeatRecord,
        wanted: &WantedGap,
        takes: Option<&CounterWord>,
    ) -> Option<u32> {
        let mut held = self.lock_arena();
        let (at, fit) = held.guard.alloc_wanted(wanted)?;
        let lowest = &self.words.lowest;
        if lowest.load(Relaxed).wrapping_sub(1) > u64::from(at) {
            lowest.store(u64::from(at) + 1, Relaxed);
        }
        let highest = &self.words.highest;
        let end = u64::from(at + wanted.pages());
        if highest.load(Relaxed) < end {
            highest.store(end, Relaxed);
        }
        // Under the lock: a CPU whose search misses the piece sees the count.
        if let Some(takes) = takes {
            takes.add(1);
        }
        drop(held);
        words.counters.cuts.add(1);
        words.counters.cuts_of(fit).add(1);
        Some(at)
    }

    /// Gives pieces back to the arena, a bounded number under one hold of its lock.
    pub(super) fn give(
        &self,
        words: &'m SpaceSeatRecord,
        mut pieces: impl Iterator<Item = (u32, u32)>,
    ) {
        let mut next = pieces.next();
        while next.is_some() {
            let mut held = self.lock_arena();
            let mut merges = 0;
            while let Some((at, pages)) = next {
                if merges == MERGES_MAX {
                    break;
                }
                let given = held.guard.give(at, pages);
                debug_assert!(given.is_ok(), "{given:?}: a range given back was taken");
                merges += 1;
                next = pieces.next();
            }
            let most = &self.words.merges;
            if most.load(Relaxed) < merges as u64 {
                most.store(merges as u64, Relaxed);
            }
            drop(held);
            words.counters.gives.add(merges as u64);
        }
    }
}

/// How many moves of freed areas and their frames had ended at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moves(u64);

impl<'m, P> Space<'m, P> {
    /// The accounts of the stop lock, the arena's lock and the depot's.
    pub(super) fn locks(&self) -> [LockStats; 3] {
        let words = self.words;
        [
            &words.stop_account,
            &words.arena_account,
            &words.depot.account,
        ]
        .map(read_account)
    }

    pub(super) fn merges_max(&self) -> u64 {
        self.words.merges.load(Relaxed)
    }

    /// Pages from the lowest to the highest that was ever cut.
    pub(super) fn extent(&self) -> u64 {
        let lowest = self.words.lowest.load(Relaxed);
        let highest = self.words.highest.load(Relaxed);
        (highest + 1).saturating_sub(lowest.max(1))
    }

    /// The spans in which a page was ever cut, and those between: the others are as they were made.
    pub(super) fn used_spans(&self) -> Range<u32> {
        let lowest = self.words.lowest.load(Relaxed);
        let highest = self.words.highest.load(Relaxed);
        if lowest == 0 || highest < lowest {
            return 0..0;
        }
        let of = |page: u64| self.spans.place(page as u32 - 1).0;
        of(lowest)..of(highest) + 1
    }

    /// How many moves of freed areas and their frames have ended.
    pub(super) fn moves(&self) -> Moves {
        Moves(self.sum_over_seats(SpaceSeatRecord::moves_ended))
    }

    fn sum_over_seats(&self, of: impl Fn(&'m SpaceSeatRecord) -> u64) -> u64 {
        self.all_seats().map(of).fold(0, u64::wrapping_add)
    }

    /// Whether there are deferred, kept, lazy or waiting pages that a purge could free, or pages or frames on their
    /// way from there.
    pub(crate) fn has_spare(&self) -> bool {
        self.had_spare_since(self.moves())
    }

    /// The same, or there were some on their way at a moment since `begin`. A request that looked for frames
    /// after `begin` may have missed these everywhere.
    pub(super) fn had_spare_since(&self, begin: Moves) -> bool {
        let has_spare = self.sees_spare();
        // Pairs with the Release with which a move begins.
        fence(Acquire);
        has_spare || Moves(self.sum_over_seats(SpaceSeatRecord::moves_begun)) != begin
    }

    /// The same; false if the caller has not watched since some moment.
    pub(super) fn had_spare_since_some(&self, begin: Option<Moves>) -> bool {
        begin.is_some_and(|begin| self.had_spare_since(begin))
    }

    fn sees_spare(&self) -> bool {
        let has_some = |seat: &'m SpaceSeatRecord| {
            seat.kept(self.table).pages() != 0
                || seat.evicting.link().is_some()
                || seat.deferred.link().is_some()
                || seat.wait_head.link().is_some()
                || seat.areas_wait.link().is_some()
                || seat.areas_ready.link().is_some()
        };
        self.sum_of_lazy(0) != 0
            || self.has_deferred()
            || self.depot().pages() != 0
            || self.all_seats().any(has_some)
    }

    /// Whether to take no more spans: because they are a good part of the window, and either half
    /// of it is gone or a good part of them is idle. Areas of the arena count as areas in spans, so
    /// the true idle part is larger.
    pub(super) fn has_enough_spans(&self) -> bool {
        let pages = self.words.spans_out.load(Relaxed) << self.shape.span_shift;
        if pages < self.span_pages_max {
            return false;
        }
        if u64::from(self.arena.free_pages()) < self.pages() / 2 {
            return true;
        }
        let live = self.all_seats().map(|seat| seat.live.get());
        let live = not_negative(live.fold(0, u64::wrapping_add));
        pages.saturating_sub(live) >= self.idle_max
    }

    /// Whether so little is free that it should be packed closely.
    pub(super) fn is_crowded(&self) -> bool {
        u64::from(self.arena.free_pages()) < self.pages() / 4
    }

    pub(super) fn add_span(&self) {
        self.words.spans_out.fetch_add(1, Relaxed);
    }

    pub(super) fn sub_span(&self) {
        self.words.spans_out.fetch_sub(1, Relaxed);
    }

    fn poison_word(&self) -> &'m AtomicU64 {
        &self.words.poisoned
    }

    /// The longest gap of the arena when all CPUs stood still last.
    pub(super) fn longest(&self) -> &'m AtomicU64 {
        &self.words.longest
    }

    /// The words of all seats.
    pub(super) fn all_seats(&self) -> impl Iterator<Item = &'m SpaceSeatRecord> + use<'m, P> {
        self.seats.iter()
    }

    pub(super) fn seat_words(&self, cpu: u16) -> &'m SpaceSeatRecord {
        let seats: &'m [SpaceSeatRecord] = self.seats;
        &seats[usize::from(cpu)]
    }

    /// The page's place in the window; if it is outside, a number that is not below its length.
    #[inline(always)]
    pub(super) const fn offset_unchecked(&self, page: Page) -> u64 {
        page.0.wrapping_sub(self.shape.start.0)
    }

    #[inline(always)]
    pub(super) const fn page(&self, offset: u32) -> Page {
        Page(self.shape.start.0 + offset as u64)
    }

    /// The policies that the space was made with.
    #[must_use]
    pub const fn config(&self) -> &RangeConfig {
        &self.config
    }

    /// The platform.
    #[must_use]
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The window's first page.
    #[must_use]
    pub const fn start(&self) -> Page {
        self.shape.start
    }

    /// The window's length in pages.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.shape.pages as u64
    }

    /// How many CPUs may have a seat.
    #[must_use]
    pub const fn cpus(&self) -> u16 {
        self.shape.cpus
    }

    /// The bound on lazy pages: the configured one, or an eighth of the window if that is less.
    #[must_use]
    pub const fn lazy_bound_pages(&self) -> u64 {
        self.lazy_max
    }

    /// Lazy pages that a CPU may have beyond the bound: one batch.
    #[must_use]
    pub const fn lazy_batch_pages(&self) -> u64 {
        self.batch
    }
}

impl<'m, P: FramePlatform> SeatSet<'m> for Space<'m, P> {
    type Platform = P;
    type Poisoned = Poisoned;

    const CAN_BE_POISONED: bool = true;

    fn platform(&self) -> &P {
        &self.platform
    }

    fn accounts(&self) -> Accounts<P> {
        self.accounts
    }

    fn stop_words(&self) -> StopWords<'m> {
        StopWords {
            lock: &self.words.stop_lock,
            account: &self.words.stop_account,
            memo: StopMemo::new(&self.words.last_standstill, &self.words.in_vain),
        }
    }

    fn turns(&self) -> impl Iterator<Item = Turn<'m>> {
        self.all_seats().map(SpaceSeatRecord::turn)
    }

    /// How often a CPU did what can make stopping all CPUs worth its cost.
    fn happened(&self) -> u64 {
        let all = |counter| sum(self.all_seats(), counter);
        all(|of| &of.frees)
            .wrapping_add(all(|of| &of.unmap_ram))
            .wrapping_add(all(|of| &of.evictions))
            .wrapping_add(all(|of| &of.gathers))
            .wrapping_add(all(|of| &of.undone))
            .wrapping_add(all(|of| &of.span_takes))
            .wrapping_add(all(|of| &of.block_takes))
    }

    fn poisoned(&self) -> Result<(), Poisoned> {
        if self.is_poisoned() {
            Err(Poisoned)
        } else {
            Ok(())
        }
    }
}
