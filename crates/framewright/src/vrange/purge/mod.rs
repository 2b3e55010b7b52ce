//! The purge as a whole: makes free all that a seat can make free. And what keeps the bound of lazy pages: a CPU unmaps its own ahead
//! of the bound, and flushes at it.
//!
//! It works in bounded passes, so that a caller that has to purge for the bound is not held up for
//! long. A [pass] turns lazy into waiting, the [release] waiting into
//! free.

mod inbox;
mod lazy;
mod pass;
mod promise;
mod release;
mod strict;

pub(super) use inbox::lazy_pages;

pub(super) use release::ReleasePart;

use super::AreaKind;
use super::seat::Held;
use super::space::MERGES_MAX;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::seats::Inboxes;

/// How many pages a CPU makes lazy, at least, between two looks for pages to purge.
const LOOK_PAGES: u64 = 64;

impl<P: RangePlatform> Held<'_, '_, P> {
    /// How many lazy pages the seat may have, and not have reported, before a free of that kind looks further.
    #[inline(always)]
    pub(super) fn unreported_max(&self, kind: AreaKind) -> u64 {
        self.words.look.get().min(self.space.batch_of(kind))
    }

    /// Takes note of `delta` lazy pages that the seat has not reported yet; purges some if it is time to.
    pub(super) fn look_at(&self, delta: u64, kind: AreaKind) {
        self.words.delta.set(delta);
        self.look_again(delta, self.space.told_lazy(), kind);
    }

    /// Purges some if it is time to, and sets when to look again.
    fn look_again(&self, delta: u64, told: u64, kind: AreaKind) {
        let before = self.words.purgeable.get();
        self.relieve_above(told, self.space.bound_of(kind));
        // The pass may also have found pages that other CPUs freed, beside pages that the platform
        // could not unmap. They raise the second figure.
        let unmapped = before.saturating_sub(self.words.purgeable.get());
        // The next pass comes before as many pages are freed as this one unmapped, so that a CPU
        // that meets the bound need only flush.
        let step = match unmapped {
            0 => self.space.batch,
            some => (some - some / 4).max(LOOK_PAGES),
        };
        let next = (delta + step).min(self.space.batch);
        self.words.look.set(next);
    }

    /// Does some of the purge before the bound is reached, if many pages are lazy and enough of them are
    /// this CPU's. So no CPU has to do all of it at once.
    pub(super) fn relieve(&self) {
        self.relieve_above(self.space.told_lazy(), self.space.lazy_max);
    }

    fn relieve_above(&self, told: u64, bound: u64) {
        let own = self.words.purgeable.get();
        let ahead = bound / (8 * u64::from(self.space.shape.cpus));
        if own > ahead && told > bound / 2 && self.pass() && told > bound {
            // Earlier passes could not unmap some pages. The pages that this one unmapped are among them.
            // Where another CPU has the turn, these go with the next flush: no page needs to be free yet.
            if let Some(_turn) = self.space.try_turn_to_flush() {
                self.space.flush(self.words);
            }
        }
    }

    /// Reports the lazy pages that the seat has not reported, and `pages` that will be. Returns how many all CPUs
    /// have reported. The caller [settles](crate::vrange::space::SpaceSeatRecord::settle) what it reports early.
    pub(super) fn report(&self, pages: u64) -> u64 {
        let words = self.words;
        let _counting = words.counting();
        words.reported.set(pages);
        let delta = words.delta.get();
        words.delta.set(0);
        self.space.add_lazy(delta + pages)
    }

    /// [Reports](Self::report), and purges this CPU's lazy pages if there are too many. Returns whether they are
    /// within the bound then.
    pub(super) fn make_room(
        &self,
        pages: u64,
        kind: AreaKind,
        frames: &mut impl FrameSource,
    ) -> bool {
        let bound = self.space.bound_of(kind);
        self.collect_inbox();
        let told = self.report(pages);
        if told <= bound {
            self.look_again(self.words.delta.get(), told, kind);
            return true;
        }
        let has_room = match self.space.turn_to_flush(bound) {
            Some(_turn) => {
                self.space.look_at_lazy();
                self.purge_down_to(bound)
            }
            None => true,
        };
        if has_room {
            self.look_again(self.words.delta.get(), self.space.told_lazy(), kind);
            return true;
        }
        // This CPU has no more to purge. But it can release areas that waited for another CPU's flush.
        self.release_areas(MERGES_MAX, frames);
        self.space.told_lazy() <= bound
    }

    /// Purges this CPU's lazy pages, in passes, until at most `bound` lazy pages are reported.
    /// Returns false if it could purge no more before that.
    pub(super) fn purge_down_to(&self, bound: u64) -> bool {
        loop {
            // Unmaps as many pages as are above the bound before it makes all CPUs flush.
            let excess = self.space.told_lazy().saturating_sub(bound);
            while self.space.unflushed() < excess && self.pass() {}
            if self.space.unflushed() == 0 {
                return false;
            }
            self.space.flush(self.words);
            if self.space.told_lazy() <= bound {
                return true;
            }
        }
    }

    /// Makes free all that the seat can make free: unmaps lazy pages, flushes and releases them.
    /// Pages that the platform fails to unmap stay lazy.
    pub(super) fn purge_all(&self, frames: &mut impl FrameSource) {
        self.purge_lazy();
        self.release_all(frames);
    }

    /// The same without the release: no page becomes free yet.
    pub(super) fn purge_lazy(&self) {
        self.collect_inbox();
        while self.pass() {}
        if self.space.unflushed() != 0 {
            self.space.flush(self.words);
        }
    }

    /// Frees everything with a generation that has passed.
    pub(super) fn release_all(&self, frames: &mut impl FrameSource) {
        while self.release_span(&mut ReleasePart::new(frames), frames) {}
        while self.release_areas(MERGES_MAX, frames) {}
    }
}
