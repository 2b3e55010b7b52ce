//! The object allocator: its metadata cut into parts, and the way from an address to an object.
//!
//! Its own words are the stop lock (rank 0) with its account, the memo of stops, which changes only
//! with all CPUs stopped, and two counters of the pool of records, which all CPUs change by single
//! atomic operations. Everything else is in seats, records and the table.
//!
//! An address with a place in the table is a frame's, and any other one a page's of the space. So
//! the two ranges must not overlap, which is checked whenever a seat is made.

use super::KvLayout;
use super::layout::KvShape;
use super::lengths::addr_of;
use super::seat::{KvCounters, KvHeld, KvRecord, KvSeatRecord};
use super::slab::{RecordPool, Records};
use super::table::{KvEntry, KvTable, ObjectKind, SlabOwner};
use crate::platform::{FramePlatform, ObjectPlatform};
use crate::raw::Carver;
use crate::seats::{Accounts, StopMemo, StopWords, read_account};
use crate::slots::Tree;
use crate::stats::KvStats;
use crate::sync::{AtomicU64, CounterWord};
use crate::units::{Addr, Page, SetupError};

/// An object allocator over zones and a space.
///
/// See the [module's description](super) for states, invariants and locks. CPUs share it by
/// reference; each works through its [`KvSeat`](super::KvSeat), which is made from the CPU's seats in the space
/// and in the zones.
#[derive(Debug)]
pub struct Kv<'m, P> {
    pub(super) shape: KvShape,
    pub(super) platform: P,
    pub(super) accounts: Accounts<P>,
    words: &'m KvRecord,
    seats: &'m [KvSeatRecord],
    pub(super) records: Records<'m>,
    given: Tree<'m>,
    pub(super) table: KvTable<'m>,
    /// Where frame 0 lies, in wrapping arithmetic.
    pub(super) direct: u64,
}

impl<P: FramePlatform> Kv<'_, P> {
    /// The same with its locks accounted, for the statistics: each lock that is taken then costs
    /// two readings of the clock.
    #[must_use]
    pub fn with_lock_accounts(self) -> Self {
        let accounts = Accounts::on();
        Self { accounts, ..self }
    }
}

impl<'m, P: ObjectPlatform> Kv<'m, P> {
    /// An object allocator of that layout in `memory`, which has at least as many words as
    /// [`KvLayout::words_needed`] says; their values do not matter. It does not touch the words of slabs' records: each is
    /// cleared when it is first used. Time: O(frames + CPUs).
    ///
    /// # Errors
    /// What is wrong with layout or memory, with the number.
    pub fn new(layout: &KvLayout, memory: &'m mut [u64], platform: P) -> Result<Self, SetupError> {
        Self::in_memory(layout, memory, platform, false)
    }

    /// As [`new`](Self::new), in memory that holds zeroes, as a host's fresh mapping does. It does
    /// not touch the words of frames that are never an object's either. Time: O(CPUs).
    ///
    /// If memory holds anything else, it may hand out memory that is not free; it breaks no other
    /// promise of the language.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_zeroed(
        layout: &KvLayout,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, SetupError> {
        Self::in_memory(layout, memory, platform, true)
    }

    pub(crate) fn in_memory(
        layout: &KvLayout,
        memory: &'m mut [u64],
        platform: P,
        is_zeroed: bool,
    ) -> Result<Self, SetupError> {
        let shape = KvShape::new(layout)?;
        let direct = platform.direct_base();
        if direct.in_page() != 0 {
            return Err(SetupError::Multiple {
                what: "the direct map's base",
                found: direct.0,
                of: Page::BYTES,
            });
        }
        let carver = Carver::new(memory, shape.words)?;
        let mut carver = carver.in_zeroed(is_zeroed).at_a_line();
        let words = carver.record();
        let seats = carver.records(usize::from(shape.cpus));
        let records = Records::new(carver.word_records_as_they_are(shape.slabs + 1));
        let [given, table] = shape.parts().map(|len| carver.words(len));
        // One address, for the direct map's base and the first frame together.
        let bytes = shape.start.0.wrapping_mul(Page::BYTES);
        let first = Addr(direct.0.wrapping_add(bytes));
        Ok(Self {
            shape,
            platform,
            accounts: Accounts::OFF,
            words,
            seats,
            records,
            given: Tree::new(given, shape.slabs + 1),
            table: KvTable::new(table, shape.start, first),
            direct: direct.0,
        })
    }
}

impl<'m, P> Kv<'m, P> {
    /// The first bytes of the space and of the frames, if an address is both a page's of the space and a frame's.
    pub(crate) fn overlap(&self, start: Page, pages: u64) -> Option<(Addr, Addr)> {
        let (window, direct) = (addr_of(start), self.table.addr(0));
        let bytes = |pages: u64| pages.saturating_mul(Page::BYTES);
        // Either range can wrap around the end of the number range.
        let is_in = |addr: Addr, from: Addr, bytes| addr.0.wrapping_sub(from.0) < bytes;
        let overlap =
            is_in(window, direct, bytes(self.shape.frames)) || is_in(direct, window, bytes(pages));
        overlap.then_some((window, direct))
    }

    /// The word that says in which space all seats are.
    pub(super) const fn space(&self) -> &'m AtomicU64 {
        &self.words.space
    }

    /// The seat of a CPU, for the CPU itself while it is busy, or for a CPU that has claimed it.
    pub(super) fn held(&self, cpu: u16) -> KvHeld<'m> {
        KvHeld {
            words: &self.seats[usize::from(cpu)],
            records: self.records,
            table: self.table,
            pool: self.pool(),
            seats: self.seats,
            cpu,
            owner: SlabOwner::new(cpu),
        }
    }

    pub(super) fn pool(&self) -> RecordPool<'m> {
        let (gives, fresh) = (&self.words.gives, &self.words.fresh);
        let records = self.records.count();
        RecordPool::new(self.given, gives, fresh, records, self.shape.cpus)
    }

    pub(super) fn stop_words(&self) -> StopWords<'m> {
        StopWords {
            lock: &self.words.stop_lock,
            account: &self.words.stop_account,
            memo: StopMemo::new(&self.words.last_standstill, &self.words.in_vain),
        }
    }

    pub(super) fn all_seats(&self) -> impl Iterator<Item = &'m KvSeatRecord> + use<'m, P> {
        self.seats.iter()
    }

    /// The place in the table of the frame that contains an address of the direct map.
    #[inline(always)]
    pub(super) fn place(&self, addr: Addr) -> Option<usize> {
        self.table.place_at(addr)
    }

    /// Whether an object at that address would be mapped pages, without a look whether there is one.
    #[must_use]
    pub fn is_mapped(&self, addr: Addr) -> bool {
        self.kind(addr) == ObjectKind::Mapped
    }

    /// Whether the address lies in a slab.
    #[must_use]
    pub fn is_in_slab(&self, addr: Addr) -> bool {
        self.kind(addr) == ObjectKind::Slab
    }

    /// What kind of object an address could belong to, without a look whether there is one.
    pub(super) fn kind(&self, addr: Addr) -> ObjectKind {
        match self.place(addr).map(|place| self.table.get(place)) {
            Some(KvEntry::Slab(_)) => ObjectKind::Slab,
            Some(KvEntry::Run(_) | KvEntry::None) => ObjectKind::Run,
            None => ObjectKind::Mapped,
        }
    }

    /// All counters so far. Time: O(CPUs).
    #[must_use]
    pub fn stats(&self) -> KvStats {
        let sum = |counter| self.sum(counter);
        KvStats {
            slab_allocs: sum(|of| &of.slab_allocs),
            slab_frees: sum(|of| &of.slab_frees),
            remote_frees: sum(|of| &of.remote_frees),
            run_allocs: sum(|of| &of.run_allocs),
            run_frees: sum(|of| &of.run_frees),
            mapped_allocs: sum(|of| &of.mapped_allocs),
            spills: sum(|of| &of.spills),
            mapped_frees: sum(|of| &of.mapped_frees),
            failures: sum(|of| &of.failures),
            slab_frames: sum(|of| &of.slab_frames),
            slab_makes: sum(|of| &of.slab_makes),
            slab_returns: sum(|of| &of.slab_returns),
            compact_stall: sum(|of| &of.compact_stall),
            allocstall: sum(|of| &of.alloc_stall),
            drains: sum(|of| &of.drains),
            bad_frees: sum(|of| &of.bad_frees),
            double_frees: sum(|of| &of.double_frees),
            stop_lock: read_account(&self.words.stop_account),
        }
    }

    /// The sum of a counter over all seats.
    pub(super) fn sum(&self, counter: fn(&KvCounters) -> &CounterWord) -> u64 {
        let each = self.all_seats().map(|seat| counter(&seat.counters).read());
        each.fold(0, u64::wrapping_add)
    }
}
