//! The slow check of the invariants, with all CPUs stopped.

use super::purge::lazy_pages;
use super::span::{SpanBits, SpanOwner, bits};
use super::{AreaHeader, AreaState, Space};
use crate::platform::RangePlatform;
use crate::seats::SeatSet;
use crate::stats::Broken;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::Frame;

impl<'m, P: RangePlatform> Space<'m, P> {
    /// Checks every invariant that can be seen at rest, and changes nothing. O(window).
    ///
    /// It stops all CPUs itself, so the others may be at work, also in the middle of a call: the
    /// answer is about the moment at which no seat was busy. The caller must not be in a call of this
    /// space that purges (`unmap`, `flush_all`, a source's `free_run`), which would wait for itself.
    ///
    /// # Errors
    /// The first one that does not hold, with the page or the span's first page; V11 if the space is
    /// poisoned.
    pub fn verify(&self) -> Result<(), Broken> {
        let stopped = self.lock_stops().stop();
        let _stopped = stopped.map_err(|_| self.broken("V11: not poisoned", 0))?;
        self.verify_deferred()?;
        let held = self.lock_arena();
        let guard = &held.guard;
        guard
            .verify()
            .map_err(|at| self.broken("V2: the tree of gaps", at))?;
        let (mut at, end) = (0, self.shape.pages as u32);
        let mut freed_in_arena = 0;
        while at < end {
            if let Some(gap) = guard.gap_at(at) {
                self.check("V2: gaps do not overlap", at, gap.start == at)?;
                at = gap.end();
                continue;
            }
            let (number, place) = self.spans.place(at);
            if self.spans.get(number).owner() == SpanOwner::Arena {
                if at + 1 < end && self.has_guard_before(at + 1) {
                    self.verify_guard_before(at)?;
                    at += 1;
                }
                let pages = self.verify_area(at, end)?;
                let header = self.table.header(at);
                freed_in_arena += u32::from(header.map(AreaHeader::state) == Some(AreaState::Lazy));
                at += pages;
            } else {
                self.check("V3: a span is one CPU's", at, place == 0)?;
                self.verify_span(number)?;
                at += self.spans.pages();
            }
        }
        self.check("V1: areas end in the window", at, at == end)?;
        drop(held);
        self.verify_marks()?;
        self.verify_lists(freed_in_arena)?;
        self.verify_lazy()
    }

    /// V13: checks that the areas in lists of deferred ones, and those that seats evict, are deferred, and that none is there
    /// twice. Callers may add to the list meanwhile: so it is looked at before the areas are counted.
    fn verify_deferred(&self) -> Result<(), Broken> {
        let mut listed = 0;
        let seats = self.all_seats().map(|seat| seat.deferred.link());
        for first in seats.chain([self.first_deferred()]) {
            let mut next = first;
            while let Some(at) = next {
                let header = self.table.header(at).filter(AreaHeader::is_deferred);
                let header = header.filter(|_| listed < self.shape.pages);
                let header = header.ok_or(self.broken("V13: a list of deferred areas", at))?;
                listed += 1;
                next = header.next();
            }
        }
        let evicted = self.all_seats().filter_map(|seat| seat.evicting.link());
        let is_deferred = |at: &u32| {
            let header = self.table.header(*at);
            header.as_ref().is_some_and(AreaHeader::is_deferred)
        };
        listed += evicted.filter(is_deferred).count();
        let mut all = 0;
        self.for_each_area(|area| all += usize::from(area.state == AreaState::Deferred));
        self.check("V13: a deferred area is in one list", 0, listed == all)
    }

    /// V1: checks that each freed area of the arena, and each span with pages that wait for a flush, is in one list,
    /// so that it is found once its time has come; and V6: that a seat counts the pages that wait.
    fn verify_lists(&self, freed_in_arena: u32) -> Result<(), Broken> {
        let mut areas = 0;
        for cpu in 0..self.shape.cpus {
            let seat = self.seat_words(cpu);
            let mut pages = 0;
            for (list, waits) in [
                (&seat.areas_lazy, false),
                (&seat.areas_failed, false),
                (&seat.areas_wait, true),
                (&seat.areas_ready, true),
            ] {
                let mut next = list.link();
                while let Some(at) = next {
                    let header = self.table.header(at);
                    let header = header.filter(|header| header.state() == AreaState::Lazy);
                    let listed = header.filter(|_| areas < freed_in_arena);
                    let listed = listed.ok_or(self.broken("V1: a list of freed areas", at))?;
                    areas += 1;
                    pages += u64::from(if waits { listed.pages() } else { 0 });
                    next = listed.next();
                }
            }
            let waits = |number: &u32| {
                let span = self.spans.get(*number);
                span.owner().cpu() == Some(cpu) && span.waiting().pages != 0
            };
            let waiting = self.used_spans().filter(waits).count();
            let mut next = seat.wait_head.link();
            for _ in 0..waiting {
                let number = next.filter(waits);
                let number = number.ok_or(self.broken("V1: a waiting span is in its list", 0))?;
                pages += u64::from(self.spans.get(number).waiting().pages);
                next = self.spans.get(number).waiting_next();
            }
            self.check("V6: the count of waiting pages", 0, seat.waiting() == pages)?;
            let end = next.map_or(0, |number| self.spans.first(number));
            self.check("V1: the list of waiting spans ends", end, next.is_none())?;
        }
        self.check(
            "V1: each freed area of the arena is in a list",
            0,
            areas == freed_in_arena,
        )
    }

    /// Checks that in the arena's spans only areas are marked as having a guard page before them.
    fn verify_marks(&self) -> Result<(), Broken> {
        for number in self.used_spans() {
            let span = self.spans.get(number);
            let starts = span.bits(SpanBits::Starts).iter();
            let mut pairs = span.bits(SpanBits::Lazy).iter().zip(starts);
            let is_right = span.owner() != SpanOwner::Arena
                || pairs.all(|(marks, starts)| marks.load(Relaxed) & !starts.load(Relaxed) == 0);
            let first = self.spans.first(number);
            self.check("V1: a mark of a guard page is at a start", first, is_right)?;
        }
        Ok(())
    }

    /// Checks the guard page before the area that starts behind it.
    fn verify_guard_before(&self, at: u32) -> Result<(), Broken> {
        let starts_at = |page| {
            let (number, place) = self.spans.place(page);
            self.spans.get(number).starts_at(place)
        };
        let is_guard = !starts_at(at) && starts_at(at + 1);
        self.check("V1: a guard page is before its area", at, is_guard)?;
        let found = self.find(self.page(at));
        let same = found.is_some_and(|area| area.start == self.page(at + 1));
        self.check("V4: an area is found from its guard page", at, same)
    }

    /// Checks the area that starts at a page. Returns its length.
    fn verify_area(&self, at: u32, end: u32) -> Result<u32, Broken> {
        let (number, place) = self.spans.place(at);
        let starts = self.spans.get(number).starts_at(place);
        self.check("V1: a gap or an area", at, starts)?;
        let header = self.table.header(at);
        let pages = header.map_or(0, AreaHeader::pages);
        self.check("V1: an area has pages", at, pages != 0 && pages <= end - at)?;
        if header.is_some_and(|header| header.state() == AreaState::Kept) {
            for page in at..at + pages - 1 {
                let frame = self.table.frame(page);
                self.check("V7: a kept area has its frames", page, frame.is_some())?;
            }
            self.verify_runs(at, pages - 1)?;
            let is_default = self.config.strict || !self.table.has_access(at);
            self.check("V14: a kept area has the default access", at, is_default)?;
        }
        for page in at..at + pages {
            let found = self.find(self.page(page));
            let same = found.is_some_and(|area| area.start == self.page(at));
            self.check("V4: an area is found from each page", page, same)?;
            let (number, place) = self.spans.place(page);
            let starts = self.spans.get(number).starts_at(place);
            self.check("V1: one area a page", page, page == at || !starts)?;
        }
        Ok(pages)
    }

    /// Checks that each run behind an area's pages has consecutive frames, and that a longer one is not two.
    fn verify_runs(&self, at: u32, pages: u32) -> Result<(), Broken> {
        let mut behind = None;
        self.table.for_each_run(at, pages, |page, run| {
            let are_consecutive = (page..)
                .zip(run.start().0..run.end().0)
                .all(|(page, frame)| self.table.frame(page) == Some(Frame(frame)));
            let is_whole = behind != Some((page, run.start()));
            behind = Some((page + run.frames() as u32, run.end()));
            self.check(
                "V7: a run of a kept area has consecutive frames",
                page,
                are_consecutive && is_whole,
            )
        })
    }

    /// Checks a span that a CPU has.
    fn verify_span(&self, number: u32) -> Result<(), Broken> {
        let span = self.spans.get(number);
        let (first, all) = (self.spans.first(number), self.spans.pages());
        let cpu = span.owner().cpu().unwrap_or(u16::MAX);
        self.check("V3: the owner exists", first, cpu < self.shape.cpus)?;
        let seat = self.seat_words(cpu);
        let is_current = seat.current.link() == Some(number);
        let bump = if is_current {
            seat.cursor.page()..seat.end.page()
        } else {
            0..0
        };
        for (marked, bits) in [
            (span.lazy(), span.bits(SpanBits::Lazy)),
            (span.waiting(), span.bits(SpanBits::Waiting)),
        ] {
            let counted = marked.pages == bits::count(bits);
            self.check("V3: a span's counts", first, counted)?;
            let unmarked = |(word, bits): (usize, &AtomicU64)| {
                bits.load(Relaxed) != 0 && marked.words >> word & 1 == 0
            };
            let none = !bits.iter().enumerate().any(unmarked);
            self.check("V3: the words with lazy or waiting pages", first, none)?;
        }
        if matches!(span.owner(), SpanOwner::Block(_)) {
            return self.verify_block(number);
        }
        let (longest, _) = bits::survey(span.bits(SpanBits::Free));
        let listed = (span.listed() >> 8) as u32;
        let is_listed = is_current && listed == 0 || !is_current && listed == longest;
        self.check("V3: a span's list", first, is_listed)?;
        let mut at = first;
        while at < first + all {
            let place = at - first;
            let is = |bits: &[AtomicU64], at: u32| {
                bits[(at / 64) as usize].load(Relaxed) >> (at % 64) & 1 != 0
            };
            if is(span.bits(SpanBits::Free), place) || bump.contains(&at) {
                let starts = span.starts_at(place);
                self.check("V1: free pages are in no area", at, !starts)?;
                let both = is(span.bits(SpanBits::Free), place) && bump.contains(&at);
                self.check("V1: free or in the bump", at, !both)?;
                at += 1;
                continue;
            }
            let pages = self.verify_area(at, first + all)?;
            self.verify_as_a_whole(number, place, pages)?;
            for page in at..at + pages {
                let place = page - first;
                let free = is(span.bits(SpanBits::Free), place) || bump.contains(&page);
                self.check("V1: an area's pages are not free", page, !free)?;
            }
            at += pages;
        }
        Ok(())
    }

    /// V9: checks that an area of a CPU's span, or a slot of a block, is in one state with all of
    /// its pages, and that its header says which.
    fn verify_as_a_whole(&self, number: u32, place: u32, pages: u32) -> Result<(), Broken> {
        let span = self.spans.get(number);
        let at = self.spans.first(number) + place;
        let freed = self.table.header(at).map(AreaHeader::state) == Some(AreaState::Lazy);
        let (lazy, waiting) = (span.bits(SpanBits::Lazy), span.bits(SpanBits::Waiting));
        let is_sent = bits::has_all(span.sent(), place, 1);
        let others = bits::count_in(span.sent(), place, pages) - u32::from(is_sent);
        self.check("V9: one bit sends an area", at, others == 0)?;
        let states = [
            (bits::count_in(lazy, place, pages), pages),
            (bits::count_in(waiting, place, pages), pages),
            (u32::from(is_sent), 1),
        ];
        let whole = states.iter().all(|&(has, all)| has == 0 || has == all);
        self.check("V9: lazy or waiting as a whole", at, whole)?;
        let in_states = states.iter().filter(|&&(has, _)| has != 0).count();
        let is_as_said = in_states == usize::from(freed);
        self.check("V9: a header says the state of its area", at, is_as_said)
    }

    /// Checks a vmap block: each page is free, in the run, in a live slot, or freed in one of the
    /// states.
    fn verify_block(&self, number: u32) -> Result<(), Broken> {
        let span = self.spans.get(number);
        let (first, all) = (self.spans.first(number), self.spans.pages());
        let (room, recycle) = (span.room(), self.config.recycle);
        let is = |bits: &[AtomicU64], at: u32| {
            bits[(at / 64) as usize].load(Relaxed) >> (at % 64) & 1 != 0
        };
        let (mut live_end, mut sent_end, mut dirty) = (0, 0, 0);
        for place in 0..all {
            let at = first + place;
            let header = self.table.header(at);
            let starts = span.starts_at(place);
            let state = header.filter(|_| starts).map(AreaHeader::state);
            if state == Some(AreaState::Live) || state == Some(AreaState::Kept) {
                let pages = header.map_or(1, AreaHeader::pages);
                self.check("V1: slots do not overlap", at, place >= live_end)?;
                live_end = place + pages.next_power_of_two();
                self.check("V1: a slot is in its block", at, live_end <= all)?;
                let found = self.find(self.page(at + pages - 1));
                let same = found.is_some_and(|area| area.start == self.page(at));
                self.check("V4: found", at, same)?;
            }
            if starts {
                let slot = lazy_pages(header.ok_or(self.broken("V1: a slot's header", at))?, true);
                self.check("V1: a slot is in its block", at, place + slot <= all)?;
                self.verify_as_a_whole(number, place, slot)?;
                if is(span.sent(), place) {
                    sent_end = place + slot;
                }
            }
            let dead =
                is(span.bits(SpanBits::Lazy), place) || is(span.bits(SpanBits::Waiting), place);
            let freed = u32::from(is(span.bits(SpanBits::Lazy), place))
                + u32::from(is(span.bits(SpanBits::Waiting), place))
                + u32::from(place < sent_end);
            let free = u32::from(is(span.bits(SpanBits::Free), place))
                + u32::from((room.cursor()..room.end()).contains(&place));
            let sum = freed + free + u32::from(place < live_end);
            // Without recycling, a page that is none of these is dirty, and no other page is.
            dirty += u32::from(dead || sum == 0);
            self.check("V1: one state a page", at, sum == 1 || sum == 0 && !recycle)?;
        }
        let counted = recycle || room.third() == dirty;
        self.check("V3: dirty pages", first, counted)?;
        let (longest, free) = bits::survey(span.bits(SpanBits::Free));
        let bounded = !recycle || longest <= room.third();
        self.check("V3: a block's longest run", first, bounded)?;
        self.check("V3: no dirty page is free", first, recycle || free == 0)?;
        let has_room = room.cursor() < room.end() || free != 0;
        let listed = room.is_listed() || !has_room;
        self.check("V3: a block with room is listed", first, listed)?;
        let gone = !recycle && dirty == all && span.is_clean();
        self.check("V3: a block that is all dirty is given back", first, !gone)?;
        Ok(())
    }

    /// Checks the sums of lazy pages.
    fn verify_lazy(&self) -> Result<(), Broken> {
        let mut lazy = 0;
        let mut stuck = 0;
        for cpu in 0..self.shape.cpus {
            let seat = self.seat_words(cpu);
            let mut own = 0;
            let kept = seat.kept(self.table).verify();
            kept.map_err(|at| self.broken("V1: kept areas are in a list", at))?;
            let kept = self.depot().verify();
            kept.map_err(|at| self.broken("V1: kept areas are in a list", at))?;
            for list in [&seat.areas_lazy, &seat.areas_failed] {
                let mut next = list.link();
                while let Some(header) = next.and_then(|at| self.table.header(at)) {
                    own += u64::from(header.pages());
                    next = header.next();
                }
            }
            for number in self.used_spans() {
                let span = self.spans.get(number);
                if span.owner().cpu() == Some(cpu) {
                    own += u64::from(span.lazy().pages);
                    lazy += self.sent_pages(number);
                }
            }
            let same = own == seat.purgeable.get();
            self.check("V6: a seat's lazy pages", u32::from(cpu), same)?;
            lazy += own;
            stuck += own.min(seat.stuck.get());
        }
        // Calls that are out of their seats have reported these.
        let counted = self.sum_of_lazy(self.promised());
        let same = lazy + self.unflushed() == counted;
        self.check("V6: all lazy pages", 0, same)?;
        let most = self.lazy_max + self.batch * u64::from(self.shape.cpus);
        self.check("V6: the bound", 0, counted <= most + stuck + self.above())
    }

    /// The pages of areas in a span that other CPUs freed, and are not yet collected.
    fn sent_pages(&self, number: u32) -> u64 {
        let span = self.spans.get(number);
        let first = self.spans.first(number);
        let is_block = matches!(span.owner(), SpanOwner::Block(_));
        bits::runs(span.sent(), 0)
            .flat_map(|(start, end)| start..end)
            .filter_map(|place| self.table.header(first + place))
            .map(|header| u64::from(lazy_pages(header, is_block)))
            .sum()
    }

    fn check(&self, invariant: &'static str, at: u32, holds: bool) -> Result<(), Broken> {
        Broken::unless(holds, invariant, self.page(at).0)
    }

    fn broken(&self, invariant: &'static str, at: u32) -> Broken {
        Broken {
            invariant,
            at: self.page(at).0,
        }
    }
}
