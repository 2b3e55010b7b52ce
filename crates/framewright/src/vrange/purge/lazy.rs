//! How many pages are lazy, and the flush that ends it.
//!
//! Lazy pages, those that wait for a flush included, are bounded (V6). A seat counts its own and
//! adds them to the space's sum a batch at a time, so that frees on several CPUs seldom meet at the
//! sum's line. The sum and what the seats have not reported yet are all lazy pages, and a few more: a
//! call reports some before they are lazy, and says in its seat how many these are.
//!
//! A CPU that adds all this up, while others change it, takes a count only if no CPU moved pages from
//! one of these words to another meanwhile, and the lesser of the sum before and after. So the count is
//! never more than there were at one moment, and the peak is within the bound (V6).
//!
//! A flush takes a number, flushes, and then publishes the number as done. A CPU that has unmapped
//! pages stamps them with the number of the next flush: they are free when a flush of that number
//! or a higher one is done (V5). The flush takes off the lazy pages what was unmapped before it
//! began, unless another flush took that off already.

use super::super::space::{SpaceSeatRecord, not_negative};
use super::super::{AreaKind, Space};
use crate::platform::RangePlatform;
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// How often a CPU looks whether another CPU's turn has made room, before it makes some itself. In a model of loom each look is many
/// schedules more.
const FLUSH_LOOKS: u32 = if cfg!(loom) { 1 } else { 256 };

/// The highest number of an attempt that [`relax`](crate::platform::FramePlatform::relax) is told in that wait. With higher ones it
/// may sleep, and no CPU wakes it when the turn ends.
const RELAX_MOST: u32 = 16;

/// How often a CPU tries to count the lazy pages while others change the counts.
const LOOKS: usize = 4;

/// A CPU's turn to make room. Dropping this ends the turn, also if a call of the platform's has unwound. It holds no word where the CPU
/// has waited for long, and goes on without a turn.
pub(in super::super) struct FlushTurn<'m>(Option<&'m AtomicU64>);

impl Drop for FlushTurn<'_> {
    fn drop(&mut self) {
        if let Some(flushing) = self.0 {
            flushing.store(0, Release);
        }
    }
}

impl<'m, P: RangePlatform> Space<'m, P> {
    /// Flushes for all CPUs: pages that were unmapped before the call are free after it.
    pub(in super::super) fn flush(&self, words: &'m SpaceSeatRecord) {
        // Pages are counted only after they were unmapped.
        let unmapped = self.unmapped();
        let number = self.words.begun.fetch_add(1, AcqRel) + 1;
        // Pairs with the fence in `stamp`: a CPU with a stamp of at most this number did not see
        // this flush begin, so this flush sees what the CPU had unmapped before.
        fence(SeqCst);
        let calling = self.calling_out();
        self.platform.flush_all();
        calling.end();
        // Release pairs with the Acquire in `done`.
        self.words.done.fetch_max(number, AcqRel);
        // If several flushes run at a time, each subtracts only what no other one has.
        let flushed = self.words.flushed.fetch_max(unmapped, AcqRel);
        self.words
            .lazy
            .fetch_sub(unmapped.saturating_sub(flushed), AcqRel);
        words.counters.flushes.add(1);
    }

    /// A CPU's turn to make room, because more than `bound` pages are lazy. `None` if another CPU has made room meanwhile: many CPUs
    /// find too many lazy pages at the same moment, and one flush frees what all of them have unmapped.
    ///
    /// It waits for another CPU's turn, but not for long, because this may be a handler in the midst of its own CPU's: after
    /// [so many looks](FLUSH_LOOKS) it goes on without a turn.
    pub(in super::super) fn turn_to_flush(&self, bound: u64) -> Option<FlushTurn<'m>> {
        let flushing = &self.words.flushing;
        for attempt in 0..FLUSH_LOOKS {
            // It looks at the sum only between turns, because other CPUs write that all the time.
            if flushing.load(Acquire) == 0 {
                if self.told_lazy() <= bound {
                    return None;
                }
                if let Some(turn) = self.try_turn_to_flush() {
                    return (self.told_lazy() > bound).then_some(turn);
                }
            }
            self.relax_for_lock(attempt.min(RELAX_MOST));
        }
        (self.told_lazy() > bound).then_some(FlushTurn(None))
    }

    /// The same for a CPU that need not make room yet: `None` where another CPU has the turn.
    pub(super) fn try_turn_to_flush(&self) -> Option<FlushTurn<'m>> {
        let flushing = &self.words.flushing;
        let taken = flushing.compare_exchange(0, 1, Acquire, Relaxed);
        taken.ok().map(|_| FlushTurn(Some(flushing)))
    }

    /// The generation that frees all pages unmapped so far.
    pub(super) fn stamp(&self) -> u64 {
        // Not a read-modify-write, so that the word's line stays with all CPUs between two flushes.
        fence(SeqCst);
        self.words.begun.load(Relaxed) + 1
    }
}

impl<P> Space<'_, P> {
    /// Whether a CPU makes room just now.
    pub(in super::super) fn is_flushing(&self) -> bool {
        self.words.flushing.load(Relaxed) != 0
    }

    /// The highest completed generation.
    pub(super) fn done(&self) -> u64 {
        self.words.done.load(Acquire)
    }

    /// Lazy pages unmapped since the space was made, by all CPUs.
    fn unmapped(&self) -> u64 {
        self.all_seats().map(SpaceSeatRecord::unmapped).sum()
    }

    /// Lazy pages that are unmapped and wait for a flush.
    pub(in super::super) fn unflushed(&self) -> u64 {
        let flushed = self.words.flushed.load(Relaxed);
        self.unmapped().saturating_sub(flushed)
    }

    /// Adds to the lazy pages, and returns their sum.
    pub(in super::super) fn add_lazy(&self, pages: u64) -> u64 {
        let before = self.words.lazy.fetch_add(pages, AcqRel);
        not_negative(before.wrapping_add(pages))
    }

    /// Lazy pages that a seat need not report, if the last ones were of areas of that kind.
    #[inline(always)]
    pub(in super::super) const fn batch_of(&self, kind: AreaKind) -> u64 {
        match kind {
            AreaKind::Ram => self.ram_batch,
            AreaKind::Plain => self.batch,
            AreaKind::Vmalloc => self.frames_batch,
        }
    }

    /// The most lazy pages that a free of an area of that kind leaves, if this CPU's own are above that.
    #[inline(always)]
    pub(in super::super) const fn bound_of(&self, kind: AreaKind) -> u64 {
        match kind {
            AreaKind::Vmalloc => self.frames_lazy_max,
            AreaKind::Plain | AreaKind::Ram => self.lazy_max,
        }
    }

    /// The same, if it is strict with kept areas in one of `share` frames of the source at most, all CPUs together.
    pub(crate) fn with_kept_share(mut self, share: u64) -> Self {
        self.kept_share = share * u64::from(self.shape.cpus);
        self
    }

    /// Takes back what [`add_lazy`](Self::add_lazy) added.
    pub(in super::super) fn sub_lazy(&self, pages: u64) {
        self.words.lazy.fetch_sub(pages, AcqRel);
    }

    /// Lazy pages that the seats have reported.
    pub(in super::super) fn told_lazy(&self) -> u64 {
        not_negative(self.words.lazy.load(Relaxed))
    }

    /// All lazy pages, except `reserved` ones that are reported but not lazy yet.
    pub(in super::super) fn sum_of_lazy(&self, reserved: u64) -> u64 {
        let told = self.words.lazy.load(Relaxed).wrapping_sub(reserved);
        let all = self
            .all_seats()
            .map(|seat| seat.delta.get())
            .fold(told, u64::wrapping_add);
        not_negative(all)
    }

    /// Remembers how many pages are lazy if they are more than ever before, those above the bound not counted. If
    /// other CPUs change the counts each time it looks, it remembers nothing.
    pub(in super::super) fn look_at_lazy(&self) {
        if cfg!(loom) {
            // A figure that nothing depends on: all its steps would multiply the schedules of each model. It has its own.
            return;
        }
        let all = (0..LOOKS).find_map(|_| self.lazy_at_a_moment());
        if let Some(all) = all
            && self.words.peak.load(Relaxed) < all
        {
            self.words.peak.fetch_max(all, Relaxed);
        }
    }

    /// As many pages as were lazy at one moment, or fewer; none if other CPUs change the counts meanwhile.
    pub(in super::super) fn lazy_at_a_moment(&self) -> Option<u64> {
        let countings = || self.all_seats().map(SpaceSeatRecord::countings);
        let begin = countings().try_fold(0u64, |sum, of_seat| {
            of_seat.is_multiple_of(2).then(|| sum.wrapping_add(of_seat))
        })?;
        let before = self.words.lazy.load(Relaxed);
        let beside = self
            .all_seats()
            .map(SpaceSeatRecord::lazy_beside_the_sum)
            .fold(0, u64::wrapping_add);
        // If a seat says no longer that it has reported pages early, the sum is read after they were settled.
        fence(Acquire);
        let after = self.words.lazy.load(Relaxed);
        fence(Acquire);
        let is_one = countings().fold(0, u64::wrapping_add) == begin;
        let lesser = if not_negative(after.wrapping_sub(before)) == 0 {
            after
        } else {
            before
        };
        is_one.then(|| not_negative(lesser.wrapping_add(beside)))
    }

    pub(in super::super) fn peak(&self) -> u64 {
        self.words.peak.load(Relaxed)
    }
}
