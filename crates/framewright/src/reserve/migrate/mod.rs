//! An area whose idle frames are lent to movable memory: Linux's CMA, beside the kind that guarantees.
//!
//! ```text
//!            movable requests, by the zone's policy
//!     free ◀───────────────────────────────────────▶ lent
//!      │                                              │ dropped if clean, else moved
//!      └──────────▶ claimed ◀─────────────────────────┘
//!                     │ taken in the stop that opens its pageblocks
//!                     ▼
//!                   owned ──── release ────▶ free
//! ```
//!
//! The frames are a zone's, in pageblocks with the label
//! [`Contiguous`](crate::policy::Label::Contiguous): only movable requests are served there. One
//! bitmap says what owners have or are about to have, another what reservations need. A request
//! claims a place in the first, has the pageblocks set apart, has clients drop clean pages and move
//! the others, and takes the run. Where something stays, it goes to the next place.
//! [`ContigConfig`] says how: [`ContigConfig::LINUX`] as `cma_alloc` and `alloc_contig_range` do,
//! the default as seemed better.
//!
//! # Invariants
//! - **M1** A frame is claimed by one owner at a time, and an owned run is an unmovable allocation
//!   in the zone.
//! - **M2** A reservation overlaps with no other and with no [`alloc_contig`](MigrateArea::alloc_contig).
//! - **M3** Whatever a call returns, it leaves no pageblock isolated, and no frame claimed that is
//!   not owned. Contents that moved on the way stay where they went.
//! - **M4** Every request ends: its places are counted, and a place that failed is not tried again, except
//!   once because another request had found it so before this one began.
//! - **M5** A failing request makes no other one fail: what it has claimed counts as taken only when it
//!   has it. Others wait for that meanwhile, as long as for a pageblock that is being emptied; but not with
//!   [`ContigConfig::LINUX`], where only a reservation is waited for.
//!
//! This kind of area cannot guarantee a run: a reservation keeps other owners away, but pinned
//! contents may still lie in it. An owner that needs a guarantee takes the [other
//! kind](super::Reserve).
//!
//! # Locks
//! - Rank 0: the turn, where one owner at a time is wanted: Linux's `cma_mutex`, and like it held
//!   while contents move. It is the one exception to the rule that no client is called under a
//!   lock. It is off unless asked for, and only owners of this area ever take it. With it, a client
//!   that asks the area for frames while it moves or drops some waits for ever.
//! - Rank 1: the claims' lock, for bitmaps and reservations. Held while a place is chosen:
//!   microseconds. No client is called under it. A request that ends gives up what it has without it.
//!
//! Owners of different pageblocks work side by side. An owner that finds its place claimed or set apart by
//! another goes elsewhere, or waits if there is no other place: as long as the other's contents move, or
//! until it has looked 16,384 times. [`try_take`](MigrateArea::try_take) bounds that wait, the wait for the
//! turn, and the stop with which its own work begins. It does not bound its clients' work, nor the stop
//! with which that ends.
//!
//! # Sources
//! mm/cma.c and `alloc_contig_range` of Linux 3.17 to 6.12: what they do, and in which order. How the
//! design departs from it: docs/design/0013-contiguous-by-moving.md.

mod claims;
mod migrating;
mod owner;
mod place;
mod verify;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use crate::platform::{Awaited, FramePlatform, Patience};
use crate::policy::{ContigConfig, Label};
use crate::raw::{Carver, RawRecord, record};
use crate::reclaim::Reclaim;
use crate::reserve::reservations::{ReservationRecord, Reservations};
use crate::slots::words_of;
use crate::stats::ContigStats;
use crate::sync::{AtomicU64, Lock, LockGuard, Ordering::Relaxed};
use crate::units::{Frame, Run, SetupError};
use core::ops::Range;

record! {
    /// The area's own.
    #[derive(Debug)]
    #[repr(C)]
    struct MigrateRecord {
        /// Rank 1.
        claims_lock: AtomicU64,
        /// Rank 0.
        turn: AtomicU64,
        /// Requests that are being served.
        at_work: AtomicU64,
        _line: [AtomicU64; 5],
        /// In the order of `ContigStats`.
        counters: [AtomicU64; ContigStats::COUNT],
    }
}

/// Reservations that an area can remember.
const RESERVATIONS: usize = 16;

/// One bit a frame, by what it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameBits {
    /// An owner has it, or is about to.
    Claimed,
    /// An owner has it and may release it.
    Owned,
    /// A reservation needs it.
    Reserved,
    /// Something there did not go away during the requests that are at work now.
    Avoided,
}

impl FrameBits {
    const COUNT: usize = 4;
}

const fn bitmap_words(run: Run) -> usize {
    FrameBits::COUNT * run.frames().div_ceil(64) as usize
}

/// An area of contiguous frames that are lent to movable memory. See the [module's
/// description](self).
///
/// Shared by reference; an owner works through its [`owner`](Self::owner).
#[derive(Debug)]
pub struct MigrateArea<'r, 'z, 'm, P> {
    reclaim: &'r Reclaim<'z, 'm, P>,
    config: ContigConfig,
    run: Run,
    /// Where the run begins in the zone.
    first: usize,
    own: &'r MigrateRecord,
    reservations: Reservations<'r>,
    bitmaps: &'r [AtomicU64],
}

impl<'r, 'z, 'm, P: FramePlatform> MigrateArea<'r, 'z, 'm, P> {
    /// How many words of memory an area of `run` needs: four bits a frame, and 1.2 KiB.
    #[must_use]
    pub const fn words_needed(run: Run) -> usize {
        MigrateRecord::WORDS + RESERVATIONS * ReservationRecord::WORDS + bitmap_words(run)
    }

    /// An area of the frames `run` of the zone that `reclaim` is for. It lies in `memory`, which
    /// has at least as many words as [`words_needed`](Self::words_needed) says; their values do not
    /// matter. From now on its pageblocks are labelled contiguous: its contents stay, and from then
    /// on only movable requests get frames there. This cannot be undone: the area lasts as long as
    /// the zone.
    ///
    /// Stops all CPUs and drains. Time: O(pageblocks).
    ///
    /// # Errors
    /// What is wrong with run, configuration or memory. Nothing has changed then.
    pub fn new(
        reclaim: &'r Reclaim<'z, 'm, P>,
        run: Run,
        config: &ContigConfig,
        memory: &'r mut [u64],
    ) -> Result<Self, SetupError> {
        config.check()?;
        let zone = reclaim.zone();
        let ids = zone.pageblocks_of(run).map_err(SetupError::Run)?;
        let mut carver = Carver::new(memory, Self::words_needed(run))?;
        zone.set_label(run, Label::Contiguous)
            .map_err(SetupError::Run)?;
        let own = carver.record();
        // The serials of the reservations go on.
        let reservations = Reservations::new(carver.records_as_they_are(RESERVATIONS));
        Ok(Self {
            reclaim,
            config: *config,
            run,
            first: zone.offsets_of(&ids).start,
            own,
            reservations,
            bitmaps: carver.words(bitmap_words(run)),
        })
    }

    fn lock_claims(&self) -> LockGuard<'r> {
        let platform = self.reclaim.zone().platform();
        Lock::new(&self.own.claims_lock).lock(|attempt| platform.relax(attempt))
    }

    /// The same, but gives up if the lock's holder keeps it for longer than `patience` lasts.
    fn try_lock_claims(&self, patience: &mut Patience) -> Option<LockGuard<'r>> {
        let platform = self.reclaim.zone().platform();
        let relax = |attempt| platform.relax(attempt);
        let (claims, _) = patience.lock(Lock::new(&self.own.claims_lock), relax)?;
        Some(claims)
    }

    /// The turn, unless another owner keeps it for longer than `patience` lasts.
    fn try_lock_turn(&self, patience: &mut Patience) -> Option<Awaited<'_, 'r, P>> {
        let platform = self.reclaim.zone().platform();
        let relax = |attempt| platform.relax(attempt);
        let (turn, _) = patience.lock(Lock::new(&self.own.turn), relax)?;
        Some(Awaited::new(turn, platform))
    }
}

impl<'r, 'z, 'm, P> MigrateArea<'r, 'z, 'm, P> {
    /// The frames.
    #[must_use]
    pub const fn run(&self) -> Run {
        self.run
    }

    /// The reclaim that moves its contents.
    #[must_use]
    pub const fn reclaim(&self) -> &'r Reclaim<'z, 'm, P> {
        self.reclaim
    }

    /// The configuration that it was made with.
    #[must_use]
    pub const fn config(&self) -> &ContigConfig {
        &self.config
    }

    /// All counters since it was made, read one by one: while owners work they may be some
    /// operations apart.
    #[must_use]
    pub fn stats(&self) -> ContigStats {
        ContigStats::read(|nth| self.own.counters[nth].load(Relaxed))
    }

    /// Frames that owners have now, or are about to have.
    #[must_use]
    pub fn claimed_frames(&self) -> u64 {
        let words = self.bitmap(FrameBits::Claimed).iter();
        words
            .map(|word| u64::from(word.load(Relaxed).count_ones()))
            .sum()
    }

    fn count(&self, by: &ContigStats) {
        for (counter, (_, by)) in self.own.counters.iter().zip(by.named()) {
            if by > 0 {
                // Relaxed: a counter orders nothing.
                counter.fetch_add(by, Relaxed);
            }
        }
    }

    fn bitmap(&self, bits: FrameBits) -> &'r [AtomicU64] {
        let words = self.bitmaps.len() / FrameBits::COUNT;
        &self.bitmaps[bits as usize * words..][..words]
    }

    /// Sets the bits of `ids`, or clears them. A CPU that chooses by them has the claims' lock; one that gives up
    /// what it has needs none.
    fn set(&self, bits: FrameBits, ids: &Range<usize>, to: bool) {
        for (nth, mask) in words_of(ids) {
            let word = &self.bitmap(bits)[nth];
            // Relaxed: what lies in the frames is the zone's, whose stops order it.
            match to {
                true => word.fetch_or(mask, Relaxed),
                false => word.fetch_and(!mask, Relaxed),
            };
        }
    }

    /// Whether all bits of `ids` are set.
    fn has_all(&self, bits: FrameBits, ids: &Range<usize>) -> bool {
        words_of(ids).all(|(nth, mask)| self.bitmap(bits)[nth].load(Relaxed) & mask == mask)
    }

    /// The run of those frames of the area.
    fn run_of_ids(&self, ids: &Range<usize>) -> Run {
        Run::new(
            Frame(self.run.start().0 + ids.start as u64),
            ids.len() as u64,
        )
        .expect("it is inside the area")
    }

    /// The place of a run in the area, if it is inside and not empty.
    fn ids_of(&self, run: Run) -> Option<Range<usize>> {
        let is_inside =
            !run.is_empty() && run.start() >= self.run.start() && run.end() <= self.run.end();
        is_inside.then(|| {
            let start = (run.start().0 - self.run.start().0) as usize;
            start..start + run.frames() as usize
        })
    }
}
