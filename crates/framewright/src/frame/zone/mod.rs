//! The zone: its metadata cut into parts, its seats as a set, and the moment in which all CPUs
//! stand still.
//!
//! The zone's own words are the stop lock (rank 1), the frames that exist, the low watermark, how
//! many pageblocks are restricted, how often something changed, and the memos of stops and of runs. Except for the lock with its
//! account and the count of corruptions, they change only with all CPUs stopped. Everything else is
//! in seats, descriptors, bitmaps, index and tags.
//!
//! A stop claims all seats; `at_rest` then drains all caches. The last seat in the metadata is no
//! CPU's: work outside the CPUs' seats counts there, with all of them stopped.

mod apart;
mod memory;
mod presence;
mod report;
mod run_memo;
mod runs;
mod stopped;
mod verify;

pub(crate) use apart::{Apart, ApartContent, Beyond, NotApart};
#[cfg(all(test, not(shuttle)))]
pub(super) use run_memo::Sought;
pub(super) use stopped::StoppedZone;
pub use verify::Recount;

use super::ZoneLayout;
use super::counters::Counters;
use super::layout::Map;
use super::pageblock::{BlockIndex, PageblockRecord, Tag, Whole};
use super::seat::{Seat, SeatRecord, SeatWords};
use crate::platform::{FramePlatform, Patience};
use crate::policy::{Config, Label, Policy, Watermarks};
use crate::raw::{Carver, Halves, record};
use crate::seats::{
    ACCOUNT_WORDS, Accounts, SeatSet, StopMemo, StopWords, StoppedInVain, Turn, read_account,
};
use crate::stats::LockStats;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::{CpuId, Frame, Mobility, Order, SetupError};
use core::convert::Infallible;
use run_memo::RunMemo;

/// Kinds of requests that the same blocks serve: by order, for movable ones and for others.
const KINDS: usize = 2 * (Order::MAX.index() + 1);

record! {
    /// The zone's own words, in whole cache lines. A CPU writes them only with all CPUs stopped, but
    /// for the stop lock with its account, the corruptions, and what the index counts.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct ZoneRecord {
        /// Rank 1: the stop lock, held by the CPU that stops all others.
        stop_lock: AtomicU64,
        /// Frames that exist.
        present: AtomicU64,
        /// How many blocks were found in a state that only a wrong free in a race of two CPUs explains.
        corruptions: AtomicU64,
        /// Pageblocks that some requests may not be served from: isolated, contiguous, high-order.
        restricted: AtomicU64,
        /// The low watermark.
        low: AtomicU64,
        stop_account: [AtomicU64; ACCOUNT_WORDS],
        /// How often blocks became available other than by a free: memory added, labels and isolation changed.
        changes: AtomicU64,
        /// The index counts here when a search, from its busy seat, has hidden a pageblock for a moment from others. All
        /// searches read it.
        again: AtomicU64,
        /// What stops of all CPUs found, by [`kind`].
        last_standstill: AtomicU64,
        in_vain: [StoppedInVain; KINDS],
        /// The index counts here searches that begin to tidy up, and that are done: only requests that fail read these.
        tidying: [AtomicU64; 2],
        /// The runs that were not found.
        runs: RunMemo,
    } = 360 words;
}

/// The kind of a request, for the memo of stops.
pub(super) const fn kind(order: Order, mobility: Mobility) -> usize {
    2 * order.index() + mobility.is_movable() as usize
}

/// One physical range under one set of metadata: a page-frame allocator.
///
/// See the [module's description](super) for states, invariants and locks. CPUs share a zone by
/// reference; each works through its [`Seat`]. Made without any memory: see [`add`](Self::add).
#[derive(Debug)]
pub struct Zone<'m, P> {
    pub(super) map: Map,
    pub(super) policy: Policy,
    classes: usize,
    pub(super) whole: Whole,
    pub(super) config: Config,
    pub(super) platform: P,
    words: &'m ZoneRecord,
    pub(super) seats: &'m [SeatRecord],
    accounts: Accounts<P>,
    pub(super) descriptors: &'m [PageblockRecord],
    pub(super) free: &'m [AtomicU64],
    pub(super) remote: &'m [AtomicU64],
    pub(super) index: BlockIndex<'m>,
    pub(super) tags: Halves<'m>,
}

impl<'m, P: FramePlatform> Zone<'m, P> {
    /// A zone of that layout, with those policies, in `memory`, which has at least as many words as
    /// [`ZoneLayout::words_needed`] says; their values do not matter.
    ///
    /// No frame exists yet. Time: O(metadata).
    ///
    /// # Errors
    /// What is wrong with layout, configuration or memory, with the number.
    pub fn new(
        layout: &ZoneLayout,
        config: &Config,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, SetupError> {
        Self::in_memory(layout, config, memory, platform, false)
    }

    /// As [`new`](Self::new), in memory that holds zeroes, as that of a machine that has just started. It does not touch
    /// the tags, bitmaps and the index of frames that never exist. Time: O(pageblocks).
    ///
    /// If memory holds anything else, it may hand out what is not free; it breaks no other promise of the language.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_zeroed(
        layout: &ZoneLayout,
        config: &Config,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, SetupError> {
        Self::in_memory(layout, config, memory, platform, true)
    }

    pub(crate) fn in_memory(
        layout: &ZoneLayout,
        config: &Config,
        memory: &'m mut [u64],
        platform: P,
        is_zeroed: bool,
    ) -> Result<Self, SetupError> {
        let map = Map::new(layout)?;
        config.check()?;
        let carver = Carver::new(memory, map.words)?;
        let mut carver = carver.in_zeroed(is_zeroed).at_a_line();
        let words: &'m ZoneRecord = carver.record();
        let seats = carver.records(usize::from(map.cpus) + 1);
        let descriptors = carver.records(map.blocks);
        let [parts @ .., of_index, of_tags] = map.parts();
        let [free, remote] = parts.map(|len| carver.words(len));
        let of_index = carver.part(of_index);
        let tags = carver.halves(of_tags);
        let policy = Policy::new(config.fallback, layout.pageblock_order);
        let index = BlockIndex::new(
            map.index,
            of_index,
            (
                [&words.again, &words.tidying[0], &words.tidying[1]],
                P::ALONE,
            ),
            |list, order, class| {
                let class = policy.classes().class(class as u16, policy.is_labelled())?;
                policy.cost(list, Order::new(order as u8)?, class)
            },
        );
        let zone = Self {
            map,
            policy,
            classes: policy.classes().count(),
            whole: Whole::new(&policy, layout.pageblock_order),
            config: *config,
            platform,
            words,
            seats,
            accounts: Accounts::OFF,
            descriptors,
            free,
            remote,
            index,
            tags,
        };
        for seat in zone.all_seats() {
            seat.begin();
        }
        for id in 0..map.blocks {
            zone.make_absent(id);
        }
        Ok(zone)
    }

    /// The same with its locks accounted, for the statistics: each lock that is taken then costs
    /// two readings of the clock.
    #[must_use]
    pub fn with_lock_accounts(self) -> Self
    where
        P: FramePlatform,
    {
        let accounts = Accounts::on();
        Self { accounts, ..self }
    }

    /// The seat of `cpu`, until it is dropped.
    ///
    /// Blocks that the seat has cached stay cached when it is given back. Time: one atomic
    /// operation.
    ///
    /// # Errors
    /// If the seat is taken, or the zone was made for fewer CPUs.
    pub fn seat(&self, cpu: CpuId) -> Result<Seat<'_, 'm, P>, SetupError> {
        if cpu.0 >= self.map.cpus {
            return Err(SetupError::Unknown(cpu));
        }
        Seat::take(self, cpu).ok_or(SetupError::Taken(cpu))
    }

    /// Stops all CPUs, drains all caches, and lets `work` see the zone at rest.
    ///
    /// No CPU may wait for this one: it must not hold a pageblock or be inside its own seat.
    pub(super) fn at_rest<T>(&self, work: impl FnOnce(&StoppedZone<'_, 'm, P>) -> T) -> T {
        let stopped = self.stop();
        stopped.drain();
        work(&stopped)
    }

    /// Stops all CPUs: each finishes what it is doing in its seat and then waits. The caller is in no seat.
    pub(super) fn stop(&self) -> StoppedZone<'_, 'm, P> {
        let Ok(stopped) = self.lock_stops().stop();
        stopped
    }

    /// Stops all CPUs, but gives up if that takes longer than `patience` lasts.
    pub(super) fn stop_within(&self, patience: &mut Patience) -> Option<StoppedZone<'_, 'm, P>> {
        let Ok(stopped) = self.lock_stops_within(patience)?.stop_within(patience);
        stopped
    }

    /// Whether a request of `order` that would fail may stop all CPUs without having been told to
    /// try hard: see [`Config::stop_order_max`].
    pub(super) fn stops_for(&self, order: Order) -> bool {
        // With one CPU no other one would have to wait.
        P::ALONE || self.map.cpus == 1 || order <= self.config.stop_order_max
    }
}

impl<'m, P: FramePlatform> SeatSet<'m> for Zone<'m, P> {
    type Platform = P;
    type Poisoned = Infallible;

    const CAN_BE_POISONED: bool = false;

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
        self.all_seats().map(SeatWords::turn)
    }

    /// How much happened that can make a block free that was not: frames freed, and `changes`. Only
    /// grows.
    fn happened(&self) -> u64 {
        let freed = self
            .all_seats()
            .fold(0u64, |sum, seat| sum.wrapping_add(seat.freed()));
        freed.wrapping_add(self.words.changes.load(Relaxed))
    }

    fn poisoned(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'m, P> Zone<'m, P> {
    /// Whether a block of `order` has a place in the zone, and as many frames exist.
    pub(super) fn could_have(&self, order: Order) -> bool {
        let last = self.map.end.0.checked_sub(order.frames());
        let first = self.map.start.align_up(order);
        let has_place = first.zip(last).is_some_and(|(first, last)| first.0 <= last);
        has_place && order.frames() <= self.present_frames()
    }

    /// The words of all seats; the last one serves work outside the CPUs' seats.
    pub(super) fn all_seats(&self) -> impl Iterator<Item = SeatWords<'m>> + use<'m, P> {
        (0..)
            .zip(self.seats)
            .map(|(number, seat)| SeatWords::new(seat, number))
    }

    /// The accounts of the stop lock and of the pageblocks' locks.
    pub(super) fn locks(&self) -> [LockStats; 2] {
        let mut pageblocks = LockStats::default();
        for seat in self.all_seats() {
            pageblocks.add(&read_account(&seat.counters().locks));
        }
        [read_account(&self.words.stop_account), pageblocks]
    }

    /// Records that a CPU found a pageblock's lock held.
    #[inline(always)]
    pub(super) fn account_met(&self, counters: &'m Counters) {
        self.accounts.contended(&counters.locks);
    }

    /// Records that a CPU took a pageblock's lock. Returns when.
    #[inline(always)]
    pub(super) fn account_taken(&self, counters: &'m Counters) -> u64 {
        self.accounts.acquired(&self.platform, &counters.locks)
    }

    /// Records that a CPU gives up a pageblock's lock, or just did.
    #[inline(always)]
    pub(super) fn account_given_up(&self, counters: &'m Counters, since: u64) {
        self.accounts
            .released(&self.platform, &counters.locks, since);
    }

    /// The counters of work without a seat; only touched with all CPUs stopped.
    pub(super) fn unseated_counters(&self) -> &'m Counters {
        let seats: &'m [SeatRecord] = self.seats;
        seats[usize::from(self.map.cpus)].counters()
    }

    #[inline(always)]
    pub(super) fn tag(&self, offset: usize) -> Tag {
        Tag(self.tags.load(offset, Relaxed))
    }

    #[inline(always)]
    pub(super) fn set_tag(&self, offset: usize, tag: Tag) {
        self.tags.store(offset, tag.0, Relaxed);
    }

    /// Changes the tag at `offset` if it is `from`; of several CPUs that try, one succeeds.
    #[inline]
    pub(super) fn change_tag(&self, offset: usize, from: Tag, to: Tag) -> bool {
        self.tags
            .compare_exchange(offset, from.0, to.0, Relaxed, Relaxed)
            .is_ok()
    }

    /// The row of the index for free blocks of `order` in pageblocks of `class`.
    #[inline(always)]
    pub(super) fn row(&self, order: usize, class: u16) -> usize {
        order * self.classes + usize::from(class)
    }

    /// The offset of `frame` in the zone; if it is outside, a number that has no tag.
    #[inline(always)]
    pub(super) fn offset_unchecked(&self, frame: Frame) -> usize {
        frame.offset_from(self.map.origin)
    }

    /// The tag at `offset`, if it is inside.
    #[inline(always)]
    pub(super) fn tag_if_inside(&self, offset: usize) -> Option<Tag> {
        self.tags.find(offset).map(|tag| Tag(tag.load(Relaxed)))
    }

    /// The offset of `frame` in the zone, if it is inside.
    #[inline(always)]
    pub(super) fn offset(&self, frame: Frame) -> Option<usize> {
        let offset = frame.0.wrapping_sub(self.map.origin);
        (offset < (self.map.blocks as u64) << self.map.pageblock_order).then_some(offset as usize)
    }

    #[inline(always)]
    pub(super) const fn frame(&self, offset: usize) -> Frame {
        Frame(self.map.origin + offset as u64)
    }

    /// Whether `frame` belongs to the zone, existing or not.
    #[inline]
    #[must_use]
    pub fn contains(&self, frame: Frame) -> bool {
        frame >= self.map.start && frame < self.map.end
    }

    /// The order of the pageblocks.
    #[must_use]
    pub fn pageblock_order(&self) -> Order {
        self.policy.classes().pageblock_order()
    }

    /// The largest order that the zone serves.
    #[must_use]
    pub const fn max_order(&self) -> Order {
        match Order::new(self.map.max_order) {
            Some(order) => order,
            None => Order::MAX,
        }
    }

    /// The policies that the zone was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether a request of `mobility` and any order must not be served from the pageblock of
    /// `offset`. A block that is freed there is not cached, because a cache hands out without
    /// asking.
    #[cold]
    pub(super) fn is_restricted_for(&self, offset: usize, mobility: Mobility) -> bool {
        let meta = self.meta(offset >> self.map.pageblock_order);
        meta.is_isolated()
            || match meta.label() {
                Label::Of(_) => false,
                Label::Contiguous => !mobility.is_movable(),
                Label::HighOrder => true,
            }
    }

    /// Where the zone's metadata lies: no other zone's lies there, and it does not move.
    pub(crate) fn metadata_address(&self) -> u64 {
        (&raw const *self.words).addr() as u64
    }

    /// Frames that exist, free or not. Time: one load.
    #[must_use]
    pub fn present_frames(&self) -> u64 {
        self.words.present.load(Relaxed)
    }

    /// Whether fewer frames are free than the low watermark, those in caches not counted.
    /// Time: O(CPUs).
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.free_in_pageblocks() < self.low_watermark()
    }

    /// The low watermark: a square root, taken whenever memory comes or goes.
    pub(super) fn low_watermark(&self) -> u64 {
        self.words.low.load(Relaxed)
    }

    /// Only with all CPUs stopped.
    pub(super) fn set_present_frames(&self, frames: u64) {
        self.words.present.store(frames, Relaxed);
        self.words.low.store(Watermarks::of(frames).low, Relaxed);
    }

    /// Counts a block that was found in a state that only a racing double free can explain. The
    /// block is not handed out: it is lost to the zone, and stays its user's.
    #[cold]
    pub(super) fn count_corruption(&self) {
        self.words.corruptions.fetch_add(1, Relaxed);
    }

    const fn run_memo(&self) -> &'m RunMemo {
        &self.words.runs
    }

    pub(super) fn corruptions(&self) -> u64 {
        self.words.corruptions.load(Relaxed)
    }
}
