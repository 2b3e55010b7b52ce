//! Work with other CPUs' seats: purging for CPUs that sleep, and the last resort before an error.

use super::super::error::Poisoned;
use super::super::purge::ReleasePart;
use super::super::seat::{Held, slot_of};
use super::super::span::{SpanBits, SpanOwner, bits};
use super::super::{AreaHeader, AreaKind, RangeSeat, Space};
use super::at_once::DRAIN;
use super::need::PageNeed;
use crate::frame::FrameSource;
use crate::platform::{Patience, RangePlatform};
use crate::seats::{self, Inboxes, SeatSet, Standstill};
use crate::sync::{CounterWord, Ordering::Relaxed};

/// All CPUs stand still: the caller may act in any seat.
type StoppedSpace<'s, 'm, P> = seats::Stopped<'s, 'm, Space<'m, P>>;

impl<'m, P: RangePlatform, F: FrameSource> RangeSeat<'_, 'm, P, F> {
    /// Purges the lazy pages of other CPUs, one CPU after another and each in passes, until the space keeps
    /// its bound. It purges an eighth of the bound more, so that the next free need not do so again. Returns whether it
    /// looked at all CPUs that it had to, before `patience` ended.
    #[cold]
    pub(in super::super) fn purge_others(
        &mut self,
        patience: &mut Patience,
    ) -> Result<bool, Poisoned> {
        let bound = self.space.lazy_max;
        let Some(lock) = self.space.lock_stops_within(patience) else {
            return Ok(false);
        };
        let claims = lock.claims();
        let mut are_all = true;
        for cpu in 0..self.space.shape.cpus {
            if self.space.told_lazy() <= bound {
                break;
            }
            if self.space.seat_words(cpu).purgeable.get() == 0
                && self.space.seat_words(cpu).inbox.load(Relaxed) == 0
            {
                continue;
            }
            let turn = self.space.seat_words(cpu).turn();
            if !claims.claim(turn, patience)? {
                are_all = false;
                continue;
            }
            let held = self.space.claimed(cpu);
            self.space.look_at_lazy();
            held.collect_inbox();
            held.purge_down_to(bound - bound / 8);
            held.release_all(&mut self.frames);
            held.words.counters.claims.add(1);
            claims.give_up(turn);
        }
        Ok(are_all)
    }

    /// The last resort: stops all CPUs, purges everything, dissolves all spans, and then asks the arena. A
    /// stop for another request that began after this one serves this one too.
    #[cold]
    pub(super) fn alloc_at_rest(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
        begin: Standstill,
    ) -> Result<Option<u32>, Poisoned> {
        self.at_rest(
            need,
            begin,
            |held, frames| held.alloc_entered(need, header, frames),
            |stopped, own, frames| {
                let at = stopped.cut_drained(own, need, None, frames)?;
                own.finish_in_arena(at, header, need);
                Some(at)
            },
        )
    }

    /// The last resort of `map_ram`: a vmap block for this request, or, if the space recycles slots, just
    /// its pages.
    #[cold]
    pub(super) fn alloc_ram_at_rest(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
        begin: Standstill,
    ) -> Result<Option<u32>, Poisoned> {
        self.at_rest(
            need,
            begin,
            |held, frames| held.alloc_ram(need, header, frames),
            |stopped, own, frames| {
                let space = stopped.set;
                if need.pages <= space.slot_max {
                    let all = space.spans.pages();
                    let block = PageNeed {
                        pages: all,
                        before: 0,
                        align_pages: u64::from(all),
                        context: need.context,
                    };
                    let takes = Some(&own.words.counters.block_takes);
                    if let Some(first) = stopped.cut_drained(own, &block, takes, frames) {
                        let at = own.begin_block(first, slot_of(need.pages));
                        own.finish_ram(at, need.pages);
                        return Some(at);
                    }
                    if !space.config.recycle {
                        return None;
                    }
                }
                let at = stopped.cut_drained(own, need, None, frames)?;
                own.finish_in_arena(at, header, need);
                Some(at)
            },
        )
    }

    /// Stops all CPUs and returns what `stopped` finds. If another request stopped them since `begin`, before
    /// this one searched, returns what `look` finds in this CPU's seat, or nothing if every gap was too short
    /// then.
    fn at_rest(
        &mut self,
        need: &PageNeed,
        begin: Standstill,
        look: impl FnOnce(&Held<'_, 'm, P>, &mut F) -> Option<u32>,
        stopped: impl FnOnce(&StoppedSpace<'_, 'm, P>, Held<'_, 'm, P>, &mut F) -> Option<u32>,
    ) -> Result<Option<u32>, Poisoned> {
        let space = self.space;
        let lock = space.lock_stops();
        if space.last_standstill() != begin || space.is_exhausted() {
            if space.longest().load(Relaxed) < u64::from(need.pages) {
                return Ok(None);
            }
            self.enter()?;
            let found = look(&self.held(), &mut self.frames);
            self.exit();
            if found.is_some() || space.is_exhausted() {
                return Ok(found);
            }
        }
        let all = lock.stop()?;
        Ok(stopped(&all, space.claimed(self.cpu), &mut self.frames))
    }

    /// [Frees](Self::free_deferred) what is deferred, purges what this CPU made lazy, and flushes \[`vm_unmap_aliases`\].
    /// Pages that the platform fails to unmap stay lazy. A poisoned space stays as it is.
    pub fn purge(&mut self) {
        self.free_deferred();
        self.unmap_lazy();
        self.release_waiting();
    }

    /// The first half of a purge, in parts: no page becomes free yet.
    pub(super) fn unmap_lazy(&mut self) {
        if self.enter().is_err() {
            return;
        }
        self.held().end_unwound();
        self.space.look_at_lazy();
        self.held().collect_inbox();
        self.exit();
        while self.part(|held, _| held.pass()) {}
        self.part(|held, _| {
            if held.space.unflushed() != 0 {
                held.space.flush(held.words);
            }
            false
        });
    }

    /// The second half: all of this CPU's waiting pages whose generation has passed become free, in parts.
    pub(super) fn release_waiting(&mut self) {
        while self.part(|held, frames| held.release_part(ReleasePart::new(frames), frames)) {}
    }

    /// While more pages wait than a CPU may have, releases those whose generation has passed, in parts. The rest waits
    /// for this CPU's requests: it is cheaper to release it a little at a time, because a request uses waiting areas
    /// as they are, and the CPU's caches hold only so many frames.
    ///
    /// It does not wait for a CPU that has claimed the seat, because that may unwind: such a CPU mostly releases them
    /// itself.
    pub(super) fn release_above(&mut self, kind: AreaKind) {
        let most = match kind {
            AreaKind::Vmalloc => self.space.frames_waiting_max,
            AreaKind::Plain | AreaKind::Ram => self.space.waiting_max,
        };
        while self.words.waiting() > most {
            self.space.platform.interrupt_window();
            let has_some = self.try_enter() && {
                let part = ReleasePart::keeping(&self.frames);
                self.held().release_part(part, &mut self.frames)
            };
            self.exit();
            if !has_some {
                break;
            }
        }
    }

    /// One part of a long call. Returns what `work` does; false if the space is poisoned, which stays as it is.
    fn part(&mut self, work: impl FnOnce(&Held<'_, 'm, P>, &mut F) -> bool) -> bool {
        if self.enter().is_err() {
            return false;
        }
        let done = work(&self.held(), &mut self.frames);
        self.exit();
        self.space.platform.interrupt_window();
        done
    }

    /// Purges the lazy pages and the kept areas of all CPUs, and dissolves all spans: all free pages are
    /// then in the arena. Stops all CPUs. O(spans between the lowest and the highest that was ever used). A poisoned
    /// space stays as it is.
    ///
    /// Before that it gives back what this CPU keeps and what is lazy of its own, in parts: only the rest is done while
    /// all CPUs stand still.
    pub fn drain(&mut self) {
        // A space that is poisoned stays as it is.
        let _ = self.purge_kept();
        self.drain_with(&mut Patience::Endless);
    }

    /// The same, but waits for other CPUs' seats in the space for at most `rounds` calls of
    /// [`FramePlatform::relax`](crate::platform::FramePlatform::relax): for a CPU that stops all, and until each
    /// has left its seat. With 0 it does not wait for them. False if the bound was too short, or the space is
    /// poisoned: nothing has changed then. What the drain itself does has no such bound: it unmaps, flushes, and
    /// gives frames back to its source, which may wait for a CPU that stops the zone.
    ///
    /// For a caller whose requests must not wait ([`Context::NOWAIT`](crate::Context::NOWAIT)), before it makes
    /// one once more.
    pub fn drain_within(&mut self, rounds: u32) -> bool {
        self.drain_with(&mut Patience::Rounds(rounds))
    }

    fn drain_with(&mut self, patience: &mut Patience) -> bool {
        let lock = self.space.lock_stops_within(patience);
        let stopped = lock.map(|lock| lock.stop_within(patience));
        let Some(Ok(Some(stopped))) = stopped else {
            return false;
        };
        stopped.drain(self.space.claimed(self.cpu), &mut self.frames);
        true
    }
}

impl<'m, P: RangePlatform> StoppedSpace<'_, 'm, P> {
    fn seats(&self) -> impl Iterator<Item = Held<'_, 'm, P>> {
        (0..self.set.shape.cpus).map(|cpu| self.set.claimed(cpu))
    }

    /// Cuts from the arena with all CPUs stopped; drains first, unless that cannot help.
    fn cut_drained(
        &self,
        own: Held<'_, 'm, P>,
        need: &PageNeed,
        takes: Option<&CounterWord>,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        let space = self.set;
        if !space.is_exhausted() {
            self.drain(own, frames);
        }
        let first = space.cut(own.words, &need.wanted()?, takes);
        let at = first.map(|first| first + need.before);
        if at.is_none() && !space.has_spare() {
            space.stop_words().memo.note(DRAIN, space.happened());
        }
        at
    }

    /// Purges everything and dissolves spans. For use with all CPUs stopped.
    fn drain(&self, own: Held<'_, 'm, P>, frames: &mut impl FrameSource) {
        let space = self.set;
        own.words.counters.drains.add(1);
        space.look_at_lazy();
        // A span may have changed hands after a CPU sent it. The receiver sends it on, perhaps to a CPU
        // that has collected already. After the second round every span is with its owner.
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
        for number in space.used_spans() {
            let span = space.spans.get(number);
            match span.owner() {
                SpanOwner::Areas(cpu) if span.is_clean() => {
                    self.dissolve(own, number);
                    space.sub_span();
                    space.claimed(cpu).words.counters.dissolves.add(1);
                }
                SpanOwner::Block(cpu) => {
                    if space.claimed(cpu).dissolve_or_list(number) {
                        self.dissolve(own, number);
                    }
                }
                // A span with pages that the platform could not unmap stays as it is.
                SpanOwner::Areas(cpu) => space.claimed(cpu).list(number),
                SpanOwner::Arena => {}
            }
        }
        let longest = space.lock_arena().guard.longest();
        space.longest().store(u64::from(longest), Relaxed);
        space.stop_words().memo.stand_still();
    }

    /// Makes deferred and kept areas lazy, and purges when the bound demands it. For use with all CPUs stopped.
    fn release_kept(&self, own: Held<'_, 'm, P>, frames: &mut impl FrameSource) {
        let space = self.set;
        // Its own seat first: it takes what is deferred.
        for seat in core::iter::once(own).chain(self.seats()) {
            seat.begin_to_gather();
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
                // An area that is longer than the bound goes alone, and at once. So does one for which there
                // is no room because CPUs that wait have reported areas that they have not freed yet.
                let has_lazy = |seat: Held<'_, '_, P>| seat.words.purgeable.get() != 0;
                is_forced = !unmapped && !self.seats().any(has_lazy);
                if !unmapped && !is_forced {
                    // Pages that the platform cannot unmap stay lazy; areas that would exceed the bound stay kept, or deferred.
                    return self.seats().for_each(|seat| seat.put_back_deferred());
                }
            }
        }
    }

    /// Turns the free pages of a span into gaps, and its areas into areas of the arena.
    fn dissolve(&self, own: Held<'_, 'm, P>, number: u32) {
        let space = self.set;
        let span = space.spans.get(number);
        let first = space.spans.first(number);
        let free = span.bits(SpanBits::Free);
        span.set_listed(0);
        span.set_frames(false);
        span.set_owner(SpanOwner::Arena);
        space.give(
            own.words,
            bits::runs(free, 0).map(|(start, end)| (first + start, end - start)),
        );
        bits::clear(free, 0, space.spans.pages());
    }
}
