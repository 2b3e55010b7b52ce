//! Work with other CPUs' seats: purging for CPUs that sleep, and the last resort before an error.

use super::alloc::Need;
use super::bits;
use super::poison::Poisoned;
use super::purge::sum;
use super::seat::{Count, Held, Own, SeatWords};
use super::span::{Bits, Owner};
use super::{FrameSource, Header, RangeSeat, Space};
use crate::platform::{Barrier, Map, Relax, Turn, Wakes, Watched};
use crate::sync::{Lock, Ordering::Relaxed};
use core::iter;

/// How many pages a CPU makes lazy, at least, between two looks for pages to purge.
const LOOK_PAGES: u64 = 64;

/// The stop lock, held, with claimed seats; dropping this gives them up.
pub(super) struct Claims<'s, 'm, P: Relax> {
    space: &'s Space<'m, P>,
    _lock: Watched<'s, 'm, P>,
    _wakes: Wakes<'s, P>,
}

impl<P: Relax> Drop for Claims<'_, '_, P> {
    fn drop(&mut self) {
        self.space.give_up_claims();
    }
}

impl<'s, 'm, P: Relax + Barrier + Map> Claims<'s, 'm, P> {
    fn seat(&self, cpu: u16) -> Held<'s, 'm, P> {
        Held {
            space: self.space,
            words: self.space.seat_words(cpu),
            cpu,
        }
    }

    /// All seats; only for use when all are claimed.
    fn seats(&self) -> impl Iterator<Item = Held<'s, 'm, P>> + '_ {
        (0..self.space.shape.cpus).map(|cpu| self.seat(cpu))
    }

    /// Claims one more seat.
    fn claim(&self, cpu: u16) -> Result<Held<'s, 'm, P>, Poisoned> {
        let held = self.seat(cpu);
        let turn = held.words.turn();
        self.space.claim_all(|| iter::once(turn))?;
        Ok(held)
    }

    fn give_up(&self, held: Held<'s, 'm, P>) {
        held.words.turn().give_up();
        self.space.platform.wake();
    }
}

impl<'m, P: Relax + Barrier + Map> Space<'m, P> {
    /// Takes the right to claim seats. The caller is in no seat.
    fn claims(&self) -> Claims<'_, 'm, P> {
        let lock = Lock::new(self.stop_lock());
        let lock = self
            .accounts
            .lock(lock, &self.platform, self.stop_account());
        Claims {
            space: self,
            _lock: lock,
            _wakes: Wakes(&self.platform),
        }
    }

    /// Stops all CPUs: each finishes its operation in its seat and then waits. The caller is in no
    /// seat.
    ///
    /// # Errors
    /// The space is poisoned: a CPU in a seat may never leave it.
    pub(super) fn stop(&self) -> Result<Claims<'_, 'm, P>, Poisoned> {
        // Made before the claims, so that these end even if the platform panics.
        let claims = self.claims();
        self.claim_all(|| self.all_seats().map(SeatWords::turn))?;
        Ok(claims)
    }

    /// Claims seats and waits until their owners have left them. A CPU that leaves a seat by
    /// unwinding has poisoned the space before, and so has one that left its seat to a claimer
    /// which unwound.
    fn claim_all<T: Iterator<Item = Turn<'m>>>(
        &self,
        turns: impl Fn() -> T,
    ) -> Result<(), Poisoned> {
        let are_idle = Turn::claim_all_unless(&self.platform, turns, || self.is_poisoned());
        if are_idle && !self.is_poisoned() {
            Ok(())
        } else {
            Err(Poisoned)
        }
    }
}

impl<'m, P> Space<'m, P> {
    /// How many events there were that can make stopping all CPUs worth its cost, plus one.
    fn events(&self) -> u64 {
        let all = |counter| sum(self.all_seats(), counter);
        all(Count::Frees)
            .wrapping_add(all(Count::UnmapRam))
            .wrapping_add(all(Count::Evictions))
            .wrapping_add(all(Count::Undone))
            .wrapping_add(all(Count::SpanTakes))
            .wrapping_add(all(Count::BlockTakes))
            .wrapping_add(1)
    }

    /// Whether the arena had all free pages when a search of it ended without success: since the
    /// last fruitless stop of all CPUs, no CPU has freed anything or taken a span. Counters only
    /// grow, so a comparison that holds now held at any moment between.
    pub(super) fn is_exhausted(&self) -> bool {
        self.fruitless().load(Relaxed) == self.events()
    }
}

impl<P: Relax + Barrier + Map> Held<'_, '_, P> {
    /// Takes note of `delta` lazy pages that are not yet reported; purges some if it is time to.
    pub(super) fn look_at(&self, delta: u64) {
        self.words.set(Own::Delta, delta);
        self.look_again(delta, self.space.told_lazy());
    }

    /// Purges some if it is time to, and sets when to look again.
    fn look_again(&self, delta: u64, told: u64) {
        let before = self.words.get(Own::Purgeable);
        self.relieve_above(told);
        // The difference includes pages that others freed, and that were found beside pages that
        // could not be unmapped.
        let unmapped = before.saturating_sub(self.words.get(Own::Purgeable));
        // The next pass comes before as many pages are freed as this one unmapped, so that a CPU
        // that meets the bound need only flush.
        let step = match unmapped {
            0 => self.space.batch,
            some => (some - some / 4).max(LOOK_PAGES),
        };
        let next = (delta + step).min(self.space.batch);
        self.words.set(Own::Look, next);
    }

    /// Does some of the purge ahead of the bound, if much is lazy and enough of it is this CPU's,
    /// so that no CPU has to do all of it at once.
    pub(super) fn relieve(&self) {
        self.relieve_above(self.space.told_lazy());
    }

    fn relieve_above(&self, told: u64) {
        let bound = self.space.lazy_max;
        let own = self.words.get(Own::Purgeable);
        let ahead = bound / (8 * u64::from(self.space.shape.cpus));
        if own > ahead && told > bound / 2 && self.pass() && told > bound {
            // Some pages could not be unmapped before; those unmapped now are among them.
            self.space.flush(self.words);
        }
    }

    /// Reports `pages` lazy pages, of which `reserved` are not lazy yet, and purges this CPU's lazy
    /// pages if there are too many. Returns whether they are within the bound then.
    pub(super) fn make_room(
        &self,
        pages: u64,
        reserved: u64,
        frames: &mut impl FrameSource,
    ) -> bool {
        let bound = self.space.lazy_max;
        self.collect_inbox();
        let told = self.space.add_lazy(pages);
        if told <= bound {
            self.look_again(self.words.get(Own::Delta), told);
            return true;
        }
        self.space.look_at_lazy(reserved);
        if self.purge_down_to(bound) {
            self.look_again(self.words.get(Own::Delta), self.space.told_lazy());
            return true;
        }
        // No more can be purged. Areas that waited for another CPU's flush can be released.
        self.release_areas(super::space::MERGES_MAX, frames);
        self.space.told_lazy() <= bound
    }

    /// Purges this CPU's lazy pages, in passes, until at most `bound` lazy pages are reported.
    /// Returns false if it could purge no more before that.
    fn purge_down_to(&self, bound: u64) -> bool {
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
}

impl<P: Relax + Barrier + Map, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Purges the pages of other CPUs, one after another and each in passes, until the bound is
    /// kept with an eighth to spare, so that the next free need not do it again.
    #[cold]
    pub(super) fn purge_others(&mut self, reserved: u64) -> Result<(), Poisoned> {
        let bound = self.space.lazy_max;
        let claims = self.space.claims();
        for cpu in 0..self.space.shape.cpus {
            if self.space.told_lazy() <= bound {
                break;
            }
            if self.space.seat_words(cpu).get(Own::Purgeable) == 0
                && self.space.seat_words(cpu).inbox().load(Relaxed) == 0
            {
                continue;
            }
            let held = claims.claim(cpu)?;
            self.space.look_at_lazy(reserved);
            held.collect_inbox();
            held.purge_down_to(bound - bound / 8);
            held.release_all(&mut self.frames);
            held.words.count(Count::Claims, 1);
            claims.give_up(held);
        }
        Ok(())
    }

    /// The last resort: stops all CPUs, purges and dissolves everything, and lets the arena have
    /// the last word.
    #[cold]
    pub(super) fn alloc_at_rest(
        &mut self,
        need: &Need,
        header: Header,
    ) -> Result<Option<u32>, Poisoned> {
        let claims = self.space.stop()?;
        let own = claims.seat(self.cpu);
        let found = claims.cut_drained(own, need, &mut self.frames);
        if let Some(at) = found {
            own.finish_in_arena(at, header);
        }
        Ok(found)
    }

    /// The last resort of `map_ram`: a block of its own, or, where slots are recycled, just the
    /// pages.
    #[cold]
    pub(super) fn alloc_ram_at_rest(
        &mut self,
        need: &Need,
        header: Header,
    ) -> Result<Option<u32>, Poisoned> {
        let claims = self.space.stop()?;
        let own = claims.seat(self.cpu);
        if need.pages <= self.space.slot_max {
            let all = self.space.spans.pages();
            let block = Need {
                pages: all,
                align_pages: u64::from(all),
                context: need.context,
            };
            if let Some(first) = claims.cut_drained(own, &block, &mut self.frames) {
                let at = own.begin_block(first, need.pages.next_power_of_two());
                own.finish_ram(at, header);
                return Ok(Some(at));
            }
            if !self.space.config.recycle {
                return Ok(None);
            }
        }
        let found = claims.cut_drained(own, need, &mut self.frames);
        if let Some(at) = found {
            own.finish_in_arena(at, header);
        }
        Ok(found)
    }

    /// Purges what this CPU made lazy, and flushes once \[`vm_unmap_aliases`\].
    ///
    /// Pages that the platform fails to unmap stay lazy. A poisoned space stays as it is.
    pub fn purge(&mut self) {
        if self.enter().is_err() {
            return;
        }
        self.space.look_at_lazy(0);
        self.held().purge_all(&mut self.frames);
        self.exit();
    }

    /// Purges everything, of all CPUs, kept areas included, and dissolves all spans: all free pages
    /// are then in the arena. Stops all CPUs. O(spans). A poisoned space stays as it is.
    pub fn drain(&mut self) {
        let Ok(claims) = self.space.stop() else {
            return;
        };
        claims.drain(claims.seat(self.cpu), &mut self.frames);
    }
}

impl<'m, P: Relax + Barrier + Map> Claims<'_, 'm, P> {
    /// Cuts from the arena with all CPUs stopped. Drains first, unless that cannot help.
    fn cut_drained(
        &self,
        own: Held<'_, 'm, P>,
        need: &Need,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        let space = self.space;
        let events = space.events();
        if space.fruitless().load(Relaxed) != events {
            self.drain(own, frames);
        }
        let at = space.cut(own.words, need.pages, need.align_pages);
        if at.is_none() && !space.has_spare() {
            space.fruitless().store(space.events(), Relaxed);
        }
        at
    }

    /// Purges everything and dissolves spans. For use with all CPUs stopped.
    fn drain(&self, own: Held<'_, 'm, P>, frames: &mut impl FrameSource) {
        let space = self.space;
        own.words.count(Count::Drains, 1);
        space.look_at_lazy(0);
        // A span that changed hands after it was sent is sent on, perhaps to a CPU that has
        // collected already. After the second round every span is with its owner.
        for seat in self.seats() {
            seat.collect_inbox();
        }
        for seat in self.seats() {
            seat.collect_inbox();
        }
        self.release_kept(own, frames);
        for seat in self.seats() {
            seat.collect_inbox();
        }
        for seat in self.seats() {
            while seat.pass() {}
        }
        if space.unflushed() != 0 {
            space.flush(own.words);
        }
        for seat in self.seats() {
            seat.release_all(frames);
            seat.retire_current();
            seat.return_empties(0);
            seat.forget_lists();
            seat.forget_blocks();
        }
        for number in 0..space.spans.count() {
            let span = space.spans.get(number);
            match span.owner() {
                Owner::Areas(cpu) if span.is_clean() => {
                    self.dissolve(own, number);
                    space.sub_span();
                    self.seat(cpu).words.count(Count::Dissolves, 1);
                }
                Owner::Block(cpu) => {
                    if self.seat(cpu).settle_block(number) {
                        self.dissolve(own, number);
                    }
                }
                // A block that could not be unmapped stays as it is.
                Owner::Areas(cpu) => self.seat(cpu).list(number),
                Owner::Arena => {}
            }
        }
    }

    /// Makes kept areas lazy, and purges when the bound demands it. For use with all CPUs stopped.
    fn release_kept(&self, own: Held<'_, 'm, P>, frames: &mut impl FrameSource) {
        let space = self.space;
        for seat in self.seats() {
            let mut is_forced = false;
            while !seat.release_kept(is_forced, frames) {
                let mut unmapped = false;
                for other in self.seats() {
                    other.collect_inbox();
                    while other.pass() {
                        unmapped = true;
                    }
                }
                if space.unflushed() != 0 {
                    space.flush(own.words);
                }
                // An area that is above the bound by itself goes alone, and at once.
                is_forced = !unmapped && space.told_lazy() == 0;
                if !unmapped && !is_forced {
                    // Pages that cannot be unmapped stay lazy, and areas that would be above the
                    // bound stay kept.
                    return;
                }
            }
        }
    }

    /// Turns the free pages of a span into gaps, and its areas into areas of the arena.
    fn dissolve(&self, own: Held<'_, 'm, P>, number: u32) {
        let space = self.space;
        let span = space.spans.get(number);
        let first = space.spans.first(number);
        let free = span.bits(Bits::Free);
        span.set_listed(0);
        span.set_frames(false);
        span.set_owner(Owner::Arena);
        space.give(
            own.words,
            bits::runs(free, 0).map(|(start, end)| (first + start, end - start)),
        );
        bits::clear(free, 0, space.spans.pages());
    }
}
