//! The space: its metadata cut into parts, its own words, its seats as a set, and the flush.
//!
//! The space's own words, by what writes them: `LAZY`, `PEAK`, `SPANS_OUT` and the counts of
//! flushes, all CPUs, by single atomic operations; `LOWEST`, `HIGHEST` and `MERGES`, the holder of
//! the arena's lock; `LONGEST` and the memo, the holder of the stop lock, with all CPUs stopped;
//! `ORIGIN` and `POISONED`, one CPU, once.
//!
//! A flush takes a number, flushes, and then publishes the number as done. A CPU that has unmapped
//! pages stamps them with the number of the next flush: they are free when a flush of that number
//! or a higher one is done (V5). The flush takes off the lazy pages what was unmapped before it
//! began, unless another flush took that off already (V6).

use super::arena::{Arena, ArenaGuard};
use super::block::SLOT_MAX;
use super::depot::DEPOT_WORDS;
use super::layout::Shape;
use super::poison::Poisoned;
use super::purge::sum;
use super::seat::{Count, Own, SeatWords};
use super::span::Spans;
use super::table::AreaTable;
use super::{AreaKind, Fit, FrameSource, RangeSeat, RangeSetupError, SpaceLayout};
use crate::platform::{Barrier, Clock, Map, Relax};
use crate::policy::RangeConfig;
use crate::raw::Carver;
use crate::seats::{
    ACCOUNT_WORDS, Account, Accounts, SeatSet, StopMemo, StopWords, Turn, WatchedLock, read_account,
};
use crate::stats::LockStats;
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};
use crate::units::{CpuId, Page};

// The space's own words. Words that many CPUs write are on lines of their own.
/// Rank 1: the stop lock, held by the CPU that claims seats.
const STOP_LOCK: usize = 0;
/// The accounts of the stop lock and of the arena's.
const STOP_ACCOUNT: usize = 1;
/// Lazy pages that the seats have reported, including those that wait for a flush. Wraps below zero
/// for a moment if a CPU purged pages before they were reported.
const LAZY: usize = 8;
/// Flushes begun, and the highest completed.
const BEGUN: usize = 16;
const DONE: usize = 17;
/// Lazy pages unmapped and flushed since the space was made.
const FLUSHED: usize = 18;
/// The most lazy pages at one time; merges under one hold; the lowest and the highest page ever
/// cut, plus one.
const PEAK: usize = 24;
const MERGES: usize = 25;
const LOWEST: usize = 26;
const HIGHEST: usize = 27;
/// The longest gap of the arena when all CPUs stood still last; written under the stop lock.
const LONGEST: usize = 28;
/// Spans that CPUs have.
const SPANS_OUT: usize = 29;
/// The number of the origin of all seats' frames; zero until there is a first seat.
const ORIGIN: usize = 30;
/// One, after a call out of the space has not returned.
const POISONED: usize = 31;
const ARENA: usize = 32;
const ARENA_ACCOUNT: usize = ARENA + Arena::WORDS;
/// What stopping all CPUs came to, of one kind: whatever was asked for, a drain brought nothing.
const MEMO: usize = 64;
const DEPOT: usize = 72;
/// Words of the space itself: whole cache lines.
pub(super) const SPACE_WORDS: usize = DEPOT + DEPOT_WORDS;
const _: () = {
    assert!(ARENA_ACCOUNT + ACCOUNT_WORDS <= MEMO && MEMO + StopMemo::words(1) <= DEPOT);
    assert!(SPACE_WORDS.is_multiple_of(8));
};

/// The most gaps given back under one hold of the arena's lock.
pub(super) const MERGES_MAX: usize = 32;

/// One window of address space.
///
/// See the [module's description](super) for states, invariants and locks. CPUs share a space by
/// reference; each works through its [`RangeSeat`].
#[derive(Debug)]
pub struct Space<'m, P> {
    pub(super) shape: Shape,
    pub(super) config: RangeConfig,
    pub(super) platform: P,
    pub(super) accounts: Accounts<P>,
    pub(super) words: &'m [AtomicU64],
    pub(super) seats: &'m [AtomicU64],
    pub(super) spans: Spans<'m>,
    pub(super) table: AreaTable<'m>,
    pub(super) arena: Arena<'m>,
    /// The lists of kept areas that no CPU has.
    pub(super) depot: &'m [AtomicU64],
    /// The longest slot of a vmap block, in pages.
    pub(super) slot_max: u32,
    /// The longest area that is cut from a span, in pages, guard page included.
    pub(super) small_max: u32,
    /// The most lazy pages: the configured bound, or an eighth of the window if that is less.
    pub(super) lazy_max: u64,
    /// The most pages of spans, used or idle: a quarter of the window, and at least one span for
    /// each CPU. Below it, the most pages of spans without a user, above that number.
    pub(super) span_pages_max: u64,
    pub(super) idle_max: u64,
    /// Lazy pages that a seat need not report.
    pub(super) batch: u64,
    /// The same for slots. With one CPU no other reads the shared sum, so that CPU reports more
    /// often, and needs fewer vmap blocks.
    pub(super) ram_batch: u64,
    /// Entirely free spans that a seat keeps.
    pub(super) empties_max: u64,
}

impl<'m, P: Relax + Barrier + Map> Space<'m, P> {
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
    ) -> Result<Self, RangeSetupError> {
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
    ) -> Result<Self, RangeSetupError> {
        Self::in_memory(layout, config, memory, platform, true)
    }

    fn in_memory(
        layout: &SpaceLayout,
        config: &RangeConfig,
        memory: &'m mut [u64],
        platform: P,
        is_zeroed: bool,
    ) -> Result<Self, RangeSetupError> {
        let shape = Shape::new(layout)?;
        let carver = Carver::new(memory, shape.words)?;
        let mut carver = carver.in_zeroed(is_zeroed).at_a_line();
        let [parts @ .., of_table] = shape.parts();
        let [words, seats, records] = parts.map(|len| carver.words(len));
        let spans = Spans::new(records, &shape);
        let table = AreaTable::new(carver.words_as_they_are(of_table));
        let arena = Arena::new(table, &words[ARENA..], shape.start.0);
        let lazy_max = config.lazy_pages_max.min(layout.pages / 8);
        let batch = (lazy_max / (4 * u64::from(shape.cpus))).clamp(1, 2048);
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
            depot: &words[DEPOT..SPACE_WORDS],
            slot_max: SLOT_MAX.min(spans.pages()),
            small_max: if config.spans { spans.pages() / 2 } else { 0 },
            lazy_max,
            span_pages_max: (layout.pages / 4).max(u64::from(shape.cpus) << shape.span_shift),
            idle_max: layout.pages / 16,
            batch,
            ram_batch: if shape.cpus == 1 {
                batch.min(256)
            } else {
                batch
            },
            empties_max: (lazy_max >> shape.span_shift).max(2),
        };
        let mut held = space.lock_arena();
        let given = held.guard.give(0, shape.pages as u32);
        debug_assert!(given.is_ok(), "a new arena has no gap");
        drop(held);
        Ok(space)
    }

    /// The same with its locks accounted, for the statistics: each lock that is taken then costs
    /// two readings of the clock.
    #[must_use]
    pub fn with_lock_accounts(self) -> Self
    where
        P: Clock,
    {
        let accounts = Accounts::on();
        Self { accounts, ..self }
    }

    /// The arena, locked.
    pub(super) fn lock_arena(&self) -> WatchedLock<'_, 'm, P, ArenaGuard<'m>> {
        let (guard, waited) = self
            .arena
            .lock_and_tell(|attempt| self.platform.relax(attempt));
        let account = self.account(ARENA_ACCOUNT);
        self.accounts.watch(&self.platform, account, waited, guard)
    }

    /// The seat of `cpu`, until it is dropped. Frames for its areas come from `frames`, and go back
    /// to it, as do those of other CPUs' areas that this seat purges.
    ///
    /// All seats that a space ever has must have frames of one [origin](super::Origin), because
    /// each gives back frames that another one took.
    ///
    /// The spans and lazy pages of the seat stay when it is given back. Time: two atomic
    /// operations.
    ///
    /// # Errors
    /// If the seat is in use, the space was made for fewer CPUs, or its frames have another origin.
    pub fn seat<F: FrameSource>(
        &self,
        cpu: CpuId,
        frames: F,
    ) -> Result<RangeSeat<'_, 'm, P, F>, RangeSetupError> {
        if cpu.0 >= self.shape.cpus {
            return Err(RangeSetupError::UnknownCpu(cpu));
        }
        let origin = frames.origin().number();
        let seat = RangeSeat::take(self, cpu, frames).ok_or(RangeSetupError::SeatTaken(cpu))?;
        // Relaxed: no other access depends on the number.
        match self.words[ORIGIN].compare_exchange(0, origin, Relaxed, Relaxed) {
            Err(other) if other != origin => Err(RangeSetupError::OtherFrames(cpu)),
            _ => Ok(seat),
        }
    }

    /// Cuts the lowest possible piece from the arena. Counts it for the seat.
    pub(super) fn cut(&self, words: SeatWords<'m>, pages: u32, align_pages: u64) -> Option<u32> {
        let mut held = self.lock_arena();
        let (at, fit) = held.guard.alloc(pages, align_pages)?;
        let lowest = &self.words[LOWEST];
        if lowest.load(Relaxed).wrapping_sub(1) > u64::from(at) {
            lowest.store(u64::from(at) + 1, Relaxed);
        }
        let highest = &self.words[HIGHEST];
        if highest.load(Relaxed) < u64::from(at + pages) {
            highest.store(u64::from(at + pages), Relaxed);
        }
        drop(held);
        words.count(Count::Cuts, 1);
        let fit = match fit {
            Fit::Full => Count::FitFull,
            Fit::LeftEdge => Count::FitLeft,
            Fit::RightEdge => Count::FitRight,
            Fit::NoEdge => Count::FitNone,
        };
        words.count(fit, 1);
        Some(at)
    }

    /// Gives pieces back to the arena, a bounded number under one hold of its lock.
    pub(super) fn give(&self, words: SeatWords<'m>, mut pieces: impl Iterator<Item = (u32, u32)>) {
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
            let most = &self.words[MERGES];
            if most.load(Relaxed) < merges as u64 {
                most.store(merges as u64, Relaxed);
            }
            drop(held);
            words.count(Count::Gives, merges as u64);
        }
    }

    /// Flushes for all CPUs: pages that were unmapped before the call are free after it.
    pub(super) fn flush(&self, words: SeatWords<'m>) {
        // Pages are counted only after they were unmapped.
        let unmapped = self.unmapped();
        let number = self.words[BEGUN].fetch_add(1, AcqRel) + 1;
        // Pairs with the fence in `stamp`: a CPU with a stamp of at most this number did not see
        // this flush begin, so this flush sees what the CPU had unmapped before.
        fence(SeqCst);
        let calling = self.calling_out();
        self.platform.flush_all();
        calling.end();
        // Release pairs with the Acquire in `done`.
        self.words[DONE].fetch_max(number, AcqRel);
        // If several flushes run at a time, each subtracts only what no other one has.
        let flushed = self.words[FLUSHED].fetch_max(unmapped, AcqRel);
        self.words[LAZY].fetch_sub(unmapped.saturating_sub(flushed), AcqRel);
        words.count(Count::Flushes, 1);
    }

    /// The generation that frees all pages unmapped so far.
    pub(super) fn stamp(&self) -> u64 {
        // Not a read-modify-write, so that the word's line stays with all CPUs between two flushes.
        fence(SeqCst);
        self.words[BEGUN].load(Relaxed) + 1
    }
}

/// How many moves of freed areas and their frames had ended at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moves(u64);

impl<'m, P> Space<'m, P> {
    fn account(&self, at: usize) -> Account<'m> {
        let account = &self.words[at..];
        account.first_chunk().expect("the space has its words")
    }

    pub(super) fn stop_account(&self) -> Account<'m> {
        self.account(STOP_ACCOUNT)
    }

    /// The accounts of the stop lock, the arena's lock and the depot's.
    pub(super) fn locks(&self) -> [LockStats; 3] {
        let arena = self.account(ARENA_ACCOUNT);
        [self.stop_account(), arena, self.depot_account()].map(read_account)
    }

    /// The highest completed generation.
    pub(super) fn done(&self) -> u64 {
        self.words[DONE].load(Acquire)
    }

    /// Lazy pages unmapped since the space was made, by all CPUs.
    fn unmapped(&self) -> u64 {
        self.all_seats().map(SeatWords::unmapped).sum()
    }

    /// Lazy pages that are unmapped and wait for a flush.
    pub(super) fn unflushed(&self) -> u64 {
        let flushed = self.words[FLUSHED].load(Relaxed);
        self.unmapped().saturating_sub(flushed)
    }

    /// Adds to the lazy pages, and returns their sum.
    pub(super) fn add_lazy(&self, pages: u64) -> u64 {
        let before = self.words[LAZY].fetch_add(pages, AcqRel);
        not_negative(before.wrapping_add(pages))
    }

    /// Lazy pages that a seat need not report, if the last ones were of areas of that kind.
    #[inline(always)]
    pub(super) const fn batch_of(&self, kind: AreaKind) -> u64 {
        match kind {
            AreaKind::Ram => self.ram_batch,
            AreaKind::Plain | AreaKind::Vmalloc => self.batch,
        }
    }

    /// Takes back what [`add_lazy`](Self::add_lazy) added.
    pub(super) fn sub_lazy(&self, pages: u64) {
        self.words[LAZY].fetch_sub(pages, AcqRel);
    }

    /// Lazy pages that the seats have reported.
    pub(super) fn told_lazy(&self) -> u64 {
        not_negative(self.words[LAZY].load(Relaxed))
    }

    /// All lazy pages, except `reserved` ones that are reported but not lazy yet. Remembers the
    /// peak.
    pub(super) fn look_at_lazy(&self, reserved: u64) -> u64 {
        let told = self.words[LAZY].load(Relaxed).wrapping_sub(reserved);
        let all = self
            .all_seats()
            .map(|seat| seat.get(super::seat::Own::Delta))
            .fold(told, u64::wrapping_add);
        let all = not_negative(all);
        if self.words[PEAK].load(Relaxed) < all {
            self.words[PEAK].fetch_max(all, Relaxed);
        }
        all
    }

    pub(super) fn peak(&self) -> u64 {
        self.words[PEAK].load(Relaxed)
    }

    pub(super) fn merges_max(&self) -> u64 {
        self.words[MERGES].load(Relaxed)
    }

    /// Pages from the lowest to the highest that was ever cut.
    pub(super) fn extent(&self) -> u64 {
        let lowest = self.words[LOWEST].load(Relaxed);
        let highest = self.words[HIGHEST].load(Relaxed);
        (highest + 1).saturating_sub(lowest.max(1))
    }

    /// How many moves of freed areas and their frames have ended.
    pub(super) fn moves(&self) -> Moves {
        Moves(self.sum_over_seats(SeatWords::moves_ended))
    }

    fn sum_over_seats(&self, of: impl Fn(SeatWords<'m>) -> u64) -> u64 {
        self.all_seats().map(of).fold(0, u64::wrapping_add)
    }

    /// Whether there are kept, lazy or waiting pages that a purge could free, or pages or frames on their way
    /// from there.
    pub(crate) fn has_spare(&self) -> bool {
        self.had_spare_since(self.moves())
    }

    /// The same, or there were some on their way at a moment since `begin`. A request that looked for frames
    /// after `begin` may have missed these everywhere.
    pub(super) fn had_spare_since(&self, begin: Moves) -> bool {
        let has_spare = self.sees_spare();
        // Pairs with the Release with which a move begins.
        fence(Acquire);
        has_spare || Moves(self.sum_over_seats(SeatWords::moves_begun)) != begin
    }

    fn sees_spare(&self) -> bool {
        let has_some = |seat: SeatWords<'m>| {
            seat.kept(self.table).pages() != 0
                || seat.link(Own::Evicting).is_some()
                || seat.link(Own::WaitHead).is_some()
                || seat.link(Own::AreasWait).is_some()
                || seat.link(Own::AreasReady).is_some()
        };
        self.look_at_lazy(0) != 0 || self.depot().pages() != 0 || self.all_seats().any(has_some)
    }

    /// Whether to take no more spans: because they are a good part of the window, and either half
    /// of it is gone or a good part of them is idle. Areas of the arena count as areas in spans, so
    /// the true idle part is larger.
    pub(super) fn has_enough_spans(&self) -> bool {
        let pages = self.words[SPANS_OUT].load(Relaxed) << self.shape.span_shift;
        if pages < self.span_pages_max {
            return false;
        }
        if u64::from(self.arena.free_pages()) < self.pages() / 2 {
            return true;
        }
        let live = self.all_seats().map(|seat| seat.get(Own::Live));
        let live = not_negative(live.fold(0, u64::wrapping_add));
        pages.saturating_sub(live) >= self.idle_max
    }

    /// Whether so little is free that it should be packed closely.
    pub(super) fn is_crowded(&self) -> bool {
        u64::from(self.arena.free_pages()) < self.pages() / 4
    }

    pub(super) fn add_span(&self) {
        self.words[SPANS_OUT].fetch_add(1, Relaxed);
    }

    pub(super) fn sub_span(&self) {
        self.words[SPANS_OUT].fetch_sub(1, Relaxed);
    }

    pub(super) fn poison_word(&self) -> &'m AtomicU64 {
        &self.words[POISONED]
    }

    /// The longest gap of the arena when all CPUs stood still last.
    pub(super) fn longest(&self) -> &'m AtomicU64 {
        &self.words[LONGEST]
    }

    /// The words of all seats.
    pub(super) fn all_seats(&self) -> impl Iterator<Item = SeatWords<'m>> + use<'m, P> {
        let seats = self.seats;
        (0..usize::from(self.shape.cpus)).map(move |seat| SeatWords::new(seats, seat))
    }

    pub(super) fn seat_words(&self, cpu: u16) -> SeatWords<'m> {
        SeatWords::new(self.seats, usize::from(cpu))
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

/// The sum, or zero if it is a little below zero for a moment.
const fn not_negative(sum: u64) -> u64 {
    if sum > i64::MAX as u64 { 0 } else { sum }
}

impl<'m, P: Relax> SeatSet<'m> for Space<'m, P> {
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
            lock: &self.words[STOP_LOCK],
            account: self.stop_account(),
            memo: StopMemo::new(&self.words[MEMO..]),
        }
    }

    fn turns(&self) -> impl Iterator<Item = Turn<'m>> {
        self.all_seats().map(SeatWords::turn)
    }

    /// How often a CPU did what can make stopping all CPUs worth its cost.
    fn happened(&self) -> u64 {
        let all = |counter| sum(self.all_seats(), counter);
        all(Count::Frees)
            .wrapping_add(all(Count::UnmapRam))
            .wrapping_add(all(Count::Evictions))
            .wrapping_add(all(Count::Undone))
            .wrapping_add(all(Count::SpanTakes))
            .wrapping_add(all(Count::BlockTakes))
    }

    fn poisoned(&self) -> Result<(), Poisoned> {
        if self.is_poisoned() {
            Err(Poisoned)
        } else {
            Ok(())
        }
    }
}
