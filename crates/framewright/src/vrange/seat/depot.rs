//! The depot: kept areas that one CPU has too many of, for CPUs that have too few.
//!
//! When one CPU allocates and another one frees, all kept areas would gather on the CPU that never
//! asks for them. So a seat with full lists moves a batch of areas into the depot, and a seat
//! without an area of a length looks there before it builds one. A batch at a time, so that its
//! lock is taken once for many operations, and never by a CPU whose own lists serve.
//!
//! Beside it lies the list of areas whose free is deferred (V13). Any caller adds to that list, in any context, by a
//! compare-and-exchange of its head. A CPU that takes from it takes all, into a word of its seat, where other CPUs find them: so
//! none compares the head with an area that has come back meanwhile. From there each area goes the way of a kept one that is
//! evicted.
//!
//! # Locks
//! The depot's lock, rank 2: held for the moves of one batch. Nothing is called under it. A CPU that would only gain by the
//! depot waits a moment for it, and then does without: it builds the area, or has the one that it frees go. One that must
//! empty the depot waits for as long as it takes.
//!
//! # Sources
//! Magazines and their depot: Bonwick and Adams, "Magazines and vmem", USENIX ATC 2001.

use super::super::areas::{KEPT_MAX, Kept};
use super::super::space::DepotRecord;
use super::super::{AreaHeader, Space};
use super::Held;
use crate::platform::{Patience, RangePlatform};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, Lock, LockGuard};

/// Areas moved at once.
const BATCH: u64 = 16;

/// How often a CPU waits for the depot's lock before it does without: mostly longer than another CPU moves a batch. Where many
/// CPUs come, to build an area costs less than to wait for all that came before, and is work that CPUs do side by side.
const DEPOT_WAITS: u32 = 8;

/// The result of making room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Spill {
    /// There is room now.
    Moved,
    /// The depot is full: this area is to go, and then there is room.
    Victim(u32),
    /// There is no depot, or no area to move, or other CPUs hold the depot's lock.
    Nothing,
}

/// The area that the head of the list names.
fn area_of(word: u64) -> Option<u32> {
    word.checked_sub(1).map(|at| at as u32)
}

impl<'m, P> Space<'m, P> {
    fn depot_words(&self) -> (&'m AtomicU64, Kept<'m>) {
        let DepotRecord { lock, lists, .. } = &self.words.depot;
        (lock, Kept::new(lists, self.table))
    }

    /// The depot's lists, for a CPU that has stopped all others, or that only looks.
    pub(in super::super) fn depot(&self) -> Kept<'m> {
        self.depot_words().1
    }

    #[inline]
    pub(in super::super) fn has_deferred(&self) -> bool {
        self.words.depot.deferred.load(Acquire) != 0
    }

    pub(in super::super) fn first_deferred(&self) -> Option<u32> {
        area_of(self.words.depot.deferred.load(Acquire))
    }

    /// Defers the free of a live area, if its header is still `header`: of several frees one succeeds.
    pub(in super::super) fn defer(&self, at: u32, header: AreaHeader) -> bool {
        let first = self.words.depot.deferred.load(Relaxed);
        let deferred = header.deferred(area_of(first));
        if !self.table.change_header(at, header, deferred) {
            return false;
        }
        self.put_deferred(at, header, first);
        true
    }

    /// Puts an area on top of the list of deferred ones. Its header says that the next is `first`.
    ///
    /// Release: a CPU that takes the area sees its header. So does one that takes it after others, because each change of the
    /// word is an operation that also reads it.
    fn put_deferred(&self, at: u32, header: AreaHeader, mut first: u64) {
        let list = &self.words.depot.deferred;
        while let Err(now) = list.compare_exchange_weak(first, u64::from(at) + 1, Release, Relaxed)
        {
            first = now;
            self.table.set_header(at, header.deferred(area_of(first)));
        }
    }

    /// The most pages that the depot holds: as many as one CPU keeps, if there is another CPU.
    fn depot_max(&self) -> u64 {
        if self.shape.cpus > 1 {
            self.kept_max
        } else {
            0
        }
    }
}

impl<'m, P: RangePlatform> Space<'m, P> {
    fn with_depot<T>(&self, work: impl FnOnce(Kept<'m>) -> T) -> T {
        let (lock, depot) = self.depot_words();
        let (guard, waited) = Lock::new(lock).lock_and_tell(|attempt| self.relax_for_lock(attempt));
        let _held = self.watch_depot(guard, waited);
        work(depot)
    }

    /// The same, unless other CPUs hold the lock for longer than [`DEPOT_WAITS`].
    fn try_with_depot<T>(&self, work: impl FnOnce(Kept<'m>) -> T) -> Option<T> {
        let (lock, depot) = self.depot_words();
        let relax = |attempt| self.relax_for_lock(attempt);
        let (guard, waited) = Patience::Rounds(DEPOT_WAITS).lock(Lock::new(lock), relax)?;
        let _held = self.watch_depot(guard, waited);
        Some(work(depot))
    }

    fn watch_depot<'s>(&'s self, guard: LockGuard<'m>, waited: bool) -> impl Drop + use<'s, 'm, P> {
        let account = &self.words.depot.account;
        self.accounts.watch(&self.platform, account, waited, guard)
    }

    /// Takes an area out of the depot, so that it becomes lazy. The caller has seen that there is one.
    pub(in super::super) fn take_from_depot(&self) -> Option<u32> {
        self.with_depot(Kept::take_any)
    }
}

impl<'m, P: RangePlatform> Held<'_, 'm, P> {
    /// Takes all deferred areas off the space's list, if the seat has none left of those that it took before. The caller has
    /// begun a [move](crate::vrange::space::SpaceSeatRecord::moving).
    pub(in super::super) fn gather_deferred(&self) {
        if self.words.deferred.link().is_none() && self.space.has_deferred() {
            // Release: a CPU that finds the list empty sees this count, so a memo of a stop that brought nothing no longer holds.
            self.words.counters.gathers.add(1);
            let first = self.space.words.depot.deferred.swap(0, AcqRel);
            self.words.deferred.set_link(area_of(first));
        }
    }

    /// [Gathers](Self::gather_deferred), if there is something to gather.
    pub(in super::super) fn begin_to_gather(&self) {
        if self.space.has_deferred() {
            let _moving = self.words.moving();
            self.gather_deferred();
        }
    }

    /// Takes the next of the areas that the seat has gathered, so that it becomes lazy. The caller has begun a move.
    pub(in super::super) fn take_deferred(&self) -> Option<u32> {
        let at = self.words.deferred.link()?;
        let header = self.space.table.header(at).filter(AreaHeader::is_deferred);
        debug_assert!(header.is_some(), "only its list changes a deferred area");
        let next = header.and_then(AreaHeader::next);
        self.words.deferred.set_link(next);
        header.map(|_| at)
    }

    /// Puts the deferred areas that the seat has back on the space's list, where each CPU finds them. For use with all CPUs
    /// stopped.
    pub(in super::super) fn put_back_deferred(&self) {
        let _moving = self.words.moving();
        let evicting = self.words.evicting.link();
        let mut next = evicting.filter(|&at| self.header(at).is_deferred());
        if next.is_some() {
            self.words.evicting.set_link(None);
        }
        while let Some(at) = next.take().or_else(|| self.take_deferred()) {
            let header = self.header(at).deferred(None);
            self.space.table.set_header(at, header);
            // If others are there, the exchange fails and says which.
            self.space.put_deferred(at, header, 0);
        }
    }

    /// Whether the seat's lists have room for another area of `pages` pages. With other CPUs, one
    /// length takes at most its share: areas that this CPU only frees are for
    /// the others.
    #[inline(always)]
    pub(super) fn has_room(&self, pages: u32) -> bool {
        self.kept().pages() + u64::from(pages) <= self.space.kept_max
            && (self.space.shape.cpus == 1 || !self.has_share_of(pages))
    }

    /// Whether the seat's lists have areas of `pages` pages, and so many that another one would be above that length's share: a
    /// quarter of the pages, and 32 areas.
    #[inline(always)]
    fn has_share_of(&self, pages: u32) -> bool {
        let count = self.kept().count(pages);
        count != 0
            && (count >= 2 * BATCH || 4 * (count + 1) * u64::from(pages) > self.space.kept_max)
    }

    /// Whether an area of `pages` pages, for which the seat's lists have no room, would only take the place of one of
    /// its length: in the depot, or, of a CPU alone, among those above its length's share.
    pub(super) fn is_full_of(&self, pages: u32) -> bool {
        if self.space.shape.cpus == 1 {
            return self.has_share_of(pages);
        }
        let depot = self.space.depot();
        let has_room = depot.pages() + u64::from(pages) <= self.space.depot_max();
        !has_room && depot.count(pages) != 0 && self.kept().count(pages) != 0
    }

    /// Makes room in the seat's lists for an area of `pages` pages: moves half of the areas of that
    /// length into the depot, or, if it has none, one of another length.
    pub(super) fn spill(&self, pages: u32) -> Spill {
        let max = self.space.depot_max();
        if max == 0 {
            return Spill::Nothing;
        }
        let own = self.kept();
        let batch = own.count(pages).div_ceil(2).min(BATCH);
        let spilled = self.space.try_with_depot(|depot| {
            let mut moved = 0;
            while moved < batch.max(1) {
                let at = own.take(pages, |_| true);
                let Some(at) = at.or_else(|| own.take_any()) else {
                    break;
                };
                let header = self.header(at);
                if depot.pages() + u64::from(header.pages()) - 1 > max {
                    own.add(at, header);
                    if moved == 0 {
                        let victim = depot.take(pages, |_| true);
                        return match victim.or_else(|| depot.take_any()) {
                            Some(victim) => Spill::Victim(victim),
                            None => Spill::Nothing,
                        };
                    }
                    break;
                }
                depot.add(at, header);
                moved += 1;
            }
            if moved == 0 {
                Spill::Nothing
            } else {
                Spill::Moved
            }
        });
        spilled.unwrap_or(Spill::Nothing)
    }

    /// Moves areas of `pages` pages from the depot into the seat's lists, if one of them is
    /// aligned, which then stands first. Returns whether there was one that could be had without a long wait.
    pub(in super::super) fn fetch_kept(
        &self,
        pages: u32,
        is_aligned: impl Fn(u32) -> bool,
    ) -> bool {
        if pages == 0 || pages > KEPT_MAX || !self.space.depot().has(pages) {
            return false;
        }
        let own = self.kept();
        let max = self.space.kept_max;
        let _moving = self.words.moving();
        let fetched = self.space.try_with_depot(|depot| {
            let Some(first) = depot.take(pages, is_aligned) else {
                return false;
            };
            let mut moved = 1;
            while moved < BATCH
                && 4 * (moved + 1) * u64::from(pages) <= max
                && own.pages() + 2 * u64::from(pages) <= max
                && let Some(at) = depot.take(pages, |_| true)
            {
                own.add(at, self.header(at));
                moved += 1;
            }
            // The caller takes it at once, so it needs no room.
            own.add(first, self.header(first));
            true
        });
        fetched.unwrap_or(false)
    }
}
