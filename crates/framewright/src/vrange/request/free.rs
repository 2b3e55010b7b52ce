//! How a CPU frees an area, whichever CPU has its span.
//!
//! 1. The pages are counted as lazy. If other CPUs could purge them at once, they are counted
//!    before they are lazy, so that the bound holds at every moment (V6). A free that meets the
//!    bound first purges its own lazy pages, then other CPUs'.
//! 2. The header goes from live, or kept, to lazy by compare-and-exchange: of several frees of one
//!    area one succeeds, and the others change nothing (V10).
//! 3. In a strict space the platform unmaps the pages (V12).
//! 4. The pages are marked where the area lies: in the bits of a span of this CPU's, in its vmap
//!    block, by one bit in another CPU's span and inbox, or in this CPU's list of arena areas.
//!
//! Whose span it is, a CPU finds out after the second step (V10). A free by a stale address may be so slow that the area
//! ends before it, its span goes to another owner, and a new area with the same header begins there. Then the free
//! is the new area's, as if it had come later. It goes where the new area lies, because a lazy area holds its span.

use super::super::areas::AreaWord;
use super::super::error::Poisoned;
use super::super::seat::Held;
use super::super::space::SpaceCounters;
use super::super::span::{Span, SpanBits, SpanOwner, SpanPlace};
use super::super::{AreaHeader, AreaKind, AreaState, RangeFreeError, RangeSeat};
use crate::frame::FrameSource;
use crate::platform::{Patience, RangePlatform};
use crate::seats::Inboxes;
use crate::sync::CounterWord;
use crate::units::Page;

/// While another CPU makes room, so many of a CPU's own lazy pages may be left for the final step of a free: as many as a part has.
const AHEAD_PAGES: u64 = 1024;

impl<P: RangePlatform, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Frees an area made by [`alloc_area`](Self::alloc_area), by any CPU \[`remove_vm_area`\].
    /// Returns its length in pages, without the guard page.
    ///
    /// Its pages become lazy. If the space is strict, they are unmapped when this returns, for what the platform
    /// takes; else they stay mapped until a purge unmaps them, and this takes some nanoseconds mostly.
    /// A free that would make more pages lazy than the bound allows first purges this CPU's lazy
    /// pages, and if that is not enough, other CPUs', one after another.
    ///
    /// # Errors
    /// What is wrong with the page. Nothing has changed then.
    #[inline]
    pub fn free_area(&mut self, page: Page) -> Result<u64, RangeFreeError> {
        self.free_kind(page, AreaKind::Plain)
    }

    #[inline(always)]
    pub(in super::super) fn free_kind(
        &mut self,
        page: Page,
        kind: AreaKind,
    ) -> Result<u64, RangeFreeError> {
        let offset = self.space.offset_unchecked(page);
        if self.try_enter() && offset < self.space.pages() {
            let at = offset as u32;
            let (number, place) = self.space.spans.place(at);
            let span = self.space.spans.get(number);
            let place = span.at(place);
            let area = self.space.table.area(at);
            if span.is_owned_as(SpanOwner::Areas(self.cpu))
                && span.has_start(place)
                && let Some(header) = area.live_of(kind)
            {
                let pages = u64::from(header.pages());
                let delta = self.words.delta.get() + pages;
                let held = self.held();
                if delta <= held.unreported_max(kind)
                    && held.free_own((span, place), (at, area), header)
                {
                    self.words.delta.set(delta);
                    self.exit();
                    return Ok(pages - kind.guard_pages());
                }
            }
        }
        self.free_slow(page, kind)
    }

    #[inline(never)]
    fn free_slow(&mut self, page: Page, kind: AreaKind) -> Result<u64, RangeFreeError> {
        self.wait_if_claimed()?;
        if let Some(pages) = self.held().free_elsewhere(page, kind) {
            self.exit();
            return Ok(pages - kind.guard_pages());
        }
        self.free_entered(page, kind, |held| held.space.check_free(page, kind))
    }

    /// Makes the area at `page` lazy, if `check` finds its header and has no objection, and leaves
    /// the seat. The header is that of a live area, or of the kept or deferred one that this CPU evicts.
    pub(in super::super) fn free_entered(
        &mut self,
        page: Page,
        kind: AreaKind,
        check: impl Fn(&Held<'_, '_, P>) -> Result<AreaHeader, RangeFreeError>,
    ) -> Result<u64, RangeFreeError> {
        self.held().end_unwound();
        if self.words.above.get() != 0 {
            self.purge_others_meanwhile()?;
            self.words.above.set(0);
        }
        let mut told = 0;
        let mut is_ahead = false;
        let mut helped = false;
        let mut is_long = false;
        let freed = loop {
            let held = self.held();
            let header = match check(&held) {
                Ok(header) => header,
                Err(error) => break Err(error),
            };
            let is_evicted = header.state() != AreaState::Live;
            let moving = is_evicted.then(|| self.words.moving());
            let at = self.space.offset_unchecked(page) as u32;
            let pages = u64::from(held.lazy_pages_of(at, header));
            if told > pages {
                // Its vmap block was dissolved meanwhile, and the area is shorter than its slot.
                let _counting = self.words.counting();
                self.space.sub_lazy(told - pages);
                self.words.reported.set(pages);
                told = pages;
            }
            if told == 0 {
                // Reported before they are lazy, so that the bound holds at every moment.
                let delta = self.words.delta.get();
                if delta + pages <= self.space.batch_of(kind) {
                    held.look_at(delta + pages, kind);
                    told = pages;
                } else if !is_ahead {
                    is_ahead = true;
                    // Out of the seat the area is to be found as the one that this CPU evicts.
                    drop(moving);
                    self.unmap_ahead(delta + pages, kind)?;
                    continue;
                } else {
                    told = pages;
                    let has_room = held.make_room(pages, kind, &mut self.frames)
                        || self.space.told_lazy() <= self.space.lazy_max;
                    if !has_room && !helped {
                        helped = true;
                        self.words.promise_reported();
                        self.purge_others_meanwhile()?;
                        self.words.report_promised();
                        continue;
                    }
                }
            }
            if held.free_checked(at, header) {
                told = 0;
                if is_evicted {
                    self.words.evicting.set_link(None);
                }
                if helped && self.space.told_lazy() > self.space.lazy_max {
                    // No CPU could make room for it, so it is purged at once, on whichever CPU it
                    // is. The peak counts only pages that stay lazy, so these are not in it. Other CPUs may have
                    // reported pages since, and found no room: what room there is now belongs to them.
                    self.words.above.set(pages);
                    self.words.settle();
                    // The area is mostly this CPU's to purge.
                    self.held().purge_lazy();
                }
                self.words.settle();
                is_long = header.pages() > self.space.small_max;
                break Ok(u64::from(header.pages()) - kind.guard_pages());
            }
        };
        if told != 0 {
            // It was reported but not freed after all, because another CPU was first.
            self.space.sub_lazy(told);
            self.words.settle();
        }
        let is_above = self.words.above.get() != 0;
        self.exit();
        if is_above {
            self.purge_above();
        }
        if is_long {
            // A few long areas have many frames: these do not wait for the next request.
            let _ = self.release_long_areas(false);
        }
        self.release_above(kind);
        freed
    }

    /// Unmaps this CPU's lazy pages until `pages` more would fit under the bound for areas of that kind. Works in parts
    /// and leaves the seat between them, so the final step has only to flush, and to unmap few.
    fn unmap_ahead(&mut self, pages: u64, kind: AreaKind) -> Result<(), Poisoned> {
        loop {
            self.held().collect_inbox();
            let told = self.space.told_lazy() + pages;
            let excess = told.saturating_sub(self.space.bound_of(kind));
            if excess == 0 {
                return Ok(());
            }
            // To add up what all CPUs have unmapped costs a line of each. While one of them makes room, this one leaves only so much
            // to the final step as that may take.
            let is_enough = match self.space.is_flushing() {
                true => self.words.purgeable.get() <= AHEAD_PAGES,
                false => self.space.unflushed() >= excess,
            };
            if is_enough || !self.held().pass() {
                return Ok(());
            }
            self.exit();
            self.space.platform.interrupt_window();
            self.enter()?;
        }
    }

    /// Purges other CPUs' pages for an area above the bound that has been freed: so far as that takes no wait, which
    /// might unwind. This CPU's next slow free waits for the rest.
    fn purge_above(&mut self) {
        let is_within = self.space.told_lazy() <= self.space.lazy_max;
        let is_done = is_within || self.purge_others(&mut Patience::Rounds(0)) == Ok(true);
        if !is_done {
            return;
        }
        if self.try_enter() {
            self.words.above.set(0);
        }
        self.exit();
    }
}

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Makes an area in one of the seat's spans lazy, if its header is still `header`; it has been
    /// reported. Returns false if the header has changed.
    #[inline(always)]
    fn free_own(
        &self,
        (span, place): (Span<'_, '_>, SpanPlace),
        (at, area): (u32, AreaWord<'_>),
        header: AreaHeader,
    ) -> bool {
        if !self.becomes_lazy(area, header) {
            return false;
        }
        let is_mapped = !self.unmap_if_strict(at, header);
        self.mark_lazy(span, place, header.pages(), is_mapped);
        self.count_lazy(header);
        true
    }

    /// Marks an area in one of the seat's spans, whose header says that it is lazy.
    #[inline(always)]
    fn mark_lazy(&self, span: Span<'_, '_>, place: SpanPlace, pages: u32, is_mapped: bool) {
        let words = span.mark(SpanBits::Lazy, place, pages);
        self.note_lazy(span, pages, words, is_mapped);
    }

    /// Changes the header of an area, live or kept, from `before` to lazy. Returns false if another
    /// CPU freed the area first: of two CPUs that free the same area at the same moment, whichever
    /// owns its span, one learns that it is free.
    #[inline(always)]
    pub(in super::super) fn becomes_lazy(&self, area: AreaWord<'_>, before: AreaHeader) -> bool {
        area.becomes(before, before.lazy(None), P::ALONE)
    }

    /// Frees an area if its header is still `header`, whichever CPU has its span. Returns false if
    /// the header has changed.
    pub(in super::super) fn free_checked(&self, at: u32, header: AreaHeader) -> bool {
        self.free_as(at, header, || self.unmap_if_strict(at, header))
    }

    /// The same for a call that may call the platform no more: the area is mapped then as far as it was.
    pub(super) fn free_mapped(&self, at: u32, header: AreaHeader) -> bool {
        self.free_as(at, header, || false)
    }

    /// Makes an area lazy, if its header is still `header`, and then has it unmapped, if `unmap` does so, before it
    /// marks it where it lies.
    #[inline(always)]
    fn free_as(&self, at: u32, header: AreaHeader, unmap: impl FnOnce() -> bool) -> bool {
        let told = self.lazy_pages_of(at, header);
        if !self.becomes_lazy(self.space.table.area(at), header) {
            return false;
        }
        let is_unmapped = unmap();
        let (number, place) = self.space.spans.place(at);
        let span = self.span(number);
        match span.owner() {
            SpanOwner::Areas(cpu) if cpu == self.cpu => {
                self.mark_lazy(span, span.at(place), header.pages(), !is_unmapped);
            }
            SpanOwner::Block(cpu) if cpu == self.cpu => {
                self.mark_slot(span, span.at(place), told, !is_unmapped);
            }
            _ => self.pass_on(at, header, told, is_unmapped),
        }
        self.count_lazy(header);
        true
    }

    /// Brings an area that this CPU has just made lazy, and reported as `told` pages, to the CPU that has its span, or
    /// into one of this CPU's lists of the arena's areas.
    #[inline(always)]
    pub(in super::super) fn pass_on(
        &self,
        at: u32,
        header: AreaHeader,
        told: u32,
        is_unmapped: bool,
    ) {
        let (number, place) = self.space.spans.place(at);
        let pages = self.lazy_pages_of(at, header);
        if pages != told {
            // A slot of a block, and now the arena's area, or the other way round.
            let less = u64::from(told).wrapping_sub(pages.into());
            self.space.sub_lazy(less);
        }
        match self.span(number).owner() {
            SpanOwner::Areas(cpu) | SpanOwner::Block(cpu) => self.send(cpu, number, place),
            SpanOwner::Arena if is_unmapped => self.wait_in_arena(at, header),
            SpanOwner::Arena => {
                let lazy = header.lazy(self.words.areas_lazy.link());
                self.space.table.set_header(at, lazy);
                self.words.areas_lazy.set_link(Some(at));
                self.words.purgeable.add(u64::from(pages));
            }
        }
    }

    /// Counts a free of an area that had the header `before` and is lazy now. A kept area was
    /// counted when it was kept.
    #[inline(always)]
    fn count_lazy(&self, before: AreaHeader) {
        if before.state() == AreaState::Kept {
            self.words.counters.evictions.add(1);
        } else {
            count_of_free(&self.words.counters, before.kind()).add(1);
            self.words.live.sub(u64::from(before.pages()));
        }
    }

    /// The common case of a remote free: a live area in another CPU's span, and room in the
    /// batch. Frees it and returns its length in pages; else changes nothing.
    #[inline(always)]
    fn free_elsewhere(&self, page: Page, kind: AreaKind) -> Option<u64> {
        let offset = self.space.offset_unchecked(page);
        if offset >= self.space.pages() {
            return None;
        }
        let at = offset as u32;
        let (number, place) = self.space.spans.place(at);
        let span = self.span(number);
        match span.owner() {
            SpanOwner::Areas(cpu) if cpu != self.cpu && span.starts_at(place) => {}
            _ => return None,
        }
        let header = self.space.table.header(at)?;
        let pages = u64::from(header.pages());
        let before = self.words.delta.get();
        if !header.is_live_of(kind) || before + pages > self.unreported_max(kind) {
            return None;
        }
        // Counted before they are lazy, as always where they may be purged at once.
        self.words.delta.set(before + pages);
        if !self.becomes_lazy(self.space.table.area(at), header) {
            self.words.delta.set(before);
            return None;
        }
        let is_unmapped = self.unmap_if_strict(at, header);
        self.pass_on(at, header, header.pages(), is_unmapped);
        self.words.counters.frees.add(1);
        self.words.live.sub(pages);
        Some(pages)
    }
}

/// The counter of frees of that kind.
const fn count_of_free(counters: &SpaceCounters, kind: AreaKind) -> &CounterWord {
    match kind {
        AreaKind::Plain | AreaKind::Vmalloc => &counters.frees,
        AreaKind::Ram => &counters.unmap_ram,
    }
}
