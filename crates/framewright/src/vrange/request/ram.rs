//! Mapping the caller's own frames for a while.

use super::super::areas::AreaWord;
use super::super::purge::lazy_pages;
use super::super::seat::{Held, slot_of};
use super::super::span::{Span, SpanBits, SpanOwner, SpanPlace};
use super::super::{AreaHeader, AreaKind, RangeError, RangeFreeError, RangeSeat};
use super::alloc::GIVES;
use super::as_one_run;
use super::need::PageNeed;
use crate::frame::{FrameSource, FrameTables};
use crate::platform::{MapError, OrElse, RangePlatform, surely};
use crate::seats::Inboxes;
use crate::units::{Context, Frame, Page, PageAccess, Run};

impl<P: RangePlatform, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Maps frames of the caller's, in that order, at consecutive pages \[`vm_map_ram`\].
    ///
    /// Up to 64 pages come from this CPU's vmap blocks, in slots of a power of two of pages; more come
    /// from the arena. One call of the platform maps all of them. Cost: nanoseconds, and the platform's time.
    ///
    /// It waits for no other CPU, unless it would fail and the context allows waiting: then it
    /// first stops all CPUs and purges everything lazy. Without `may_block`, frames that are not
    /// consecutive also need as many pages below the bound on lazy pages, for the case that only
    /// some of them can be mapped.
    ///
    /// # Errors
    /// There is no frame, or more than the window has pages; no gap (V8), or none at once; or the platform could not
    /// map them: then none is mapped, and pages that were mapped for a moment are lazy. Otherwise
    /// nothing has changed.
    #[inline(always)]
    pub fn map_ram(&mut self, frames: &[Frame], context: Context) -> Result<Page, RangeError> {
        let (held, pages) = (self.held(), frames.len() as u64);
        if pages.wrapping_sub(1) < u64::from(held.space.slot_max) && self.try_enter() {
            let slot = slot_of(pages as u32);
            let Some((span, place)) = held.cut_first(slot) else {
                return self.map_listed(slot, frames, context);
            };
            let at = held.finish_slot(span, place, pages as u32);
            self.exit();
            return self.map_slot(at, frames, PageAccess::DATA, context);
        }
        self.map_slow(frames, context)
    }

    /// The same from a block behind the first one. The seat is busy before, and idle after.
    #[inline(never)]
    fn map_listed(
        &mut self,
        slot: u32,
        frames: &[Frame],
        context: Context,
    ) -> Result<Page, RangeError> {
        let held = self.held();
        let Some(at) = held.cut_near(slot) else {
            return self.map_slow(frames, context);
        };
        held.finish_ram(at, frames.len() as u32);
        self.exit();
        self.map_slot(at, frames, PageAccess::DATA, context)
    }

    #[cold]
    #[inline(never)]
    fn map_slow(&mut self, frames: &[Frame], context: Context) -> Result<Page, RangeError> {
        // The fast path may have entered the seat while another CPU claimed it.
        self.exit();
        let at = self.alloc_ram(frames.len() as u64, context)?;
        self.map_slot(at, frames, PageAccess::DATA, context)
    }

    /// Maps frames of the caller's as [`map_ram`](Self::map_ram) does, for an access of the caller's choice \[`vmap`\].
    /// [`unmap_ram`](Self::unmap_ram) ends it.
    ///
    /// # Errors
    /// As that.
    #[inline(never)]
    pub fn vmap(
        &mut self,
        frames: &[Frame],
        access: PageAccess,
        context: Context,
    ) -> Result<Page, RangeError> {
        let at = self.alloc_ram(frames.len() as u64, context)?;
        self.map_slot(at, frames, access, context)
    }

    /// The same for frames that follow one another, which the engine need not manage: a device's, with
    /// [`PageAccess::DEVICE`] \[`ioremap`\].
    ///
    /// # Errors
    /// As that.
    #[inline(never)]
    pub fn ioremap(
        &mut self,
        frames: Run,
        access: PageAccess,
        context: Context,
    ) -> Result<Page, RangeError> {
        let at = self.alloc_ram(frames.frames(), context)?;
        self.map_run(at, frames, access, context)
            .or_else(|(error, had_spare)| {
                let at = self.alloc_again(error, had_spare, frames.frames(), context)?;
                self.map_run(at, frames, access, context)
                    .map_err(|(error, _)| error)
            })
    }

    /// Maps the frames into a slot that was cut for them.
    #[inline(always)]
    fn map_slot(
        &mut self,
        at: u32,
        frames: &[Frame],
        access: PageAccess,
        context: Context,
    ) -> Result<Page, RangeError> {
        let Some(run) = as_one_run(frames) else {
            return self.map_several(at, frames, access, context);
        };
        match self.map_run(at, run, access, context) {
            Ok(page) => Ok(page),
            Err((error, had_spare)) => self.map_again(error, had_spare, frames, access, context),
        }
    }

    /// The same for frames that follow one another. On failure nothing is mapped, and the slot is given up; then it also
    /// returns whether anything was kept, lazy or waiting.
    #[inline(always)]
    fn map_run(
        &mut self,
        at: u32,
        run: Run,
        access: PageAccess,
        context: Context,
    ) -> Result<Page, (RangeError, bool)> {
        let page = self.space.page(at);
        match self.calling_map(at, page, run, access, context) {
            Ok(()) => Ok(page),
            Err(error) => {
                let had_spare = self.space.has_spare();
                surely(|| self.undo_ram(at));
                Err((RangeError::Map(error), had_spare))
            }
        }
    }

    #[inline(never)]
    fn map_several(
        &mut self,
        at: u32,
        frames: &[Frame],
        access: PageAccess,
        context: Context,
    ) -> Result<Page, RangeError> {
        match self.map_runs(at, frames, access, context) {
            Ok(()) => Ok(self.space.page(at)),
            Err((error, had_spare)) => self.map_again(error, had_spare, frames, access, context),
        }
    }

    /// Address space for `pages` pages of a caller's frames.
    pub(super) fn alloc_ram(&mut self, pages: u64, context: Context) -> Result<u32, RangeError> {
        if pages == 0 {
            return Err(RangeError::Empty);
        }
        if pages > self.space.pages() {
            return Err(RangeError::TooLong { pages });
        }
        let need = PageNeed {
            pages: pages as u32,
            before: 0,
            align_pages: 1,
            context,
        };
        let header = AreaHeader::live(AreaKind::Ram, pages as u32, 0);
        let begin = self.space.last_standstill();
        self.enter()?;
        let mut found = self.held().ram_at_hand(&need, header, &mut self.frames);
        self.exit();
        if found.is_none() {
            found = match context.may_block {
                true => self.ram_purged(&need, header)?,
                false => self.ram_at_once(&need, header, begin)?,
            };
        }
        let found = match found {
            None if context.may_block && !self.space.is_exhausted_since(begin) => {
                self.alloc_ram_at_rest(&need, header, begin)?
            }
            found => found,
        };
        found.ok_or_else(|| {
            self.failed(RangeError::NoSpace {
                pages,
                align_bytes: Page::BYTES,
            })
        })
    }

    /// Maps the frames of a live slot. On failure nothing is mapped, and the slot is
    /// given up; then it also returns whether anything was kept, lazy or waiting.
    pub(super) fn map_runs(
        &mut self,
        at: u32,
        frames: &[Frame],
        access: PageAccess,
        context: Context,
    ) -> Result<(), (RangeError, bool)> {
        let mut making = (&mut *self, None);
        let unwound = OrElse::new(&mut making, |(seat, reserved): &mut (&mut Self, _)| {
            seat.make_lazy(at, reserved.unwrap_or(0)); // Some of it may be mapped.
        });
        let (seat, reserved) = &mut *unwound.seat;
        let mapped = seat.map_each_run(at, frames, access, context, reserved);
        unwound.end();
        match mapped {
            Ok(()) => Ok(()),
            Err((done, error, had_spare)) => {
                if done > 0 && context.may_block {
                    self.free_part(at)
                        .map_err(|poisoned| (poisoned.into(), false))?;
                }
                Err((error, had_spare))
            }
        }
    }

    /// The same. On failure returns also how many pages were mapped: then the slot is lazy, or still live if the
    /// caller may wait; and else as if it had not been cut. Says in `reserved` how many lazy pages have been
    /// reported.
    fn map_each_run(
        &mut self,
        at: u32,
        frames: &[Frame],
        access: PageAccess,
        context: Context,
        reserved: &mut Option<u64>,
    ) -> Result<(), (u64, RangeError, bool)> {
        *reserved = match self.reserve(at, frames, context) {
            Ok(reserved) => reserved,
            Err(error) => {
                self.undo_ram(at);
                return Err((0, error, false));
            }
        };
        let page = self.space.page(at);
        let tables = &mut FrameTables::new(&mut self.frames, context);
        match (self.space.platform).map_frames(page, frames, access, tables) {
            Ok(()) => {
                self.unreserve(reserved.unwrap_or(0));
                Ok(())
            }
            Err((done, error)) => {
                let had_spare = self.space.has_spare();
                if done == 0 {
                    self.unreserve(reserved.take().unwrap_or(0));
                    self.undo_ram(at);
                } else if !context.may_block {
                    self.make_lazy(at, reserved.unwrap_or(0));
                }
                Err((done, RangeError::Map(error), had_spare))
            }
        }
    }

    /// Maps frames behind pages of the live slot at `at`. If the platform unwinds, some of it may be mapped,
    /// and the slot is given up.
    #[inline]
    fn calling_map(
        &mut self,
        at: u32,
        page: Page,
        run: Run,
        access: PageAccess,
        context: Context,
    ) -> Result<(), MapError> {
        let space = self.space;
        let unwound = OrElse::new(self, |seat: &mut Self| seat.make_lazy(at, 0));
        let tables = &mut FrameTables::new(&mut unwound.seat.frames, context);
        let mapped = space.platform.map(page, run, access, tables);
        unwound.end();
        mapped
    }

    /// Before a caller that may not wait maps several runs: reports as many lazy pages as it would
    /// leave if it could map only some of them. Returns how many it reported, or `None` if that is
    /// not needed.
    fn reserve(
        &mut self,
        at: u32,
        frames: &[Frame],
        context: Context,
    ) -> Result<Option<u64>, RangeError> {
        if context.may_block || as_one_run(frames).is_some() {
            return Ok(None);
        }
        self.enter()?;
        let held = self.held();
        let pages = u64::from(held.lazy_pages_of(at, held.header(at)));
        let fits = held.promise(pages);
        if !fits {
            self.words.counters.failures.add(1);
        }
        self.exit();
        fits.then_some(Some(pages)).ok_or(RangeError::WouldWait)
    }

    /// Unmaps all that one call of [`map_ram`](Self::map_ram) mapped, on any CPU
    /// \[`vm_unmap_ram`\]. Returns its length in pages.
    ///
    /// Its pages become lazy. If the space is strict, they are unmapped when this returns, for what the platform
    /// takes; else they stay mapped until a purge unmaps them, and this takes some nanoseconds mostly.
    /// If more would be lazy than the bound allows, it first purges this CPU's lazy pages, and if
    /// that is not enough, other CPUs', one after another.
    ///
    /// # Errors
    /// What is wrong with the page or the length. Nothing has changed then.
    #[inline(always)]
    pub fn unmap_ram(&mut self, page: Page, pages: u64) -> Result<u64, RangeFreeError> {
        let held = self.held();
        let offset = held.space.offset_unchecked(page);
        if self.try_enter() && offset < held.space.pages() {
            let at = offset as u32;
            let (number, place) = held.space.spans.place(at);
            let (span, area) = (held.span(number), held.space.table.area(at));
            let place = span.at(place);
            if span.is_owned_as(SpanOwner::Block(held.cpu))
                && span.has_start(place)
                && let Some(header) = area.live_of(AreaKind::Ram)
                && u64::from(header.pages()) == pages
            {
                let slot = slot_of(pages as u32);
                let delta = held.words.delta.get() + u64::from(slot);
                let batch = held.space.batch_of(AreaKind::Ram);
                if delta <= batch || held.tell(slot) {
                    if delta <= batch {
                        held.words.delta.set(delta);
                    }
                    if held.free_slot((span, place), (at, area), header, slot) {
                        held.words.live.sub(pages);
                        held.words.settle();
                        held.words.turn().exit();
                        return Ok(pages);
                    }
                    // Another CPU was first.
                    self.space.sub_lazy(u64::from(slot));
                    self.words.settle();
                }
            }
        }
        // The fast path may have entered the seat while another CPU claimed it.
        self.exit();
        self.unmap_slow(page, pages)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn unmap_slow(&mut self, page: Page, pages: u64) -> Result<u64, RangeFreeError> {
        self.enter()?;
        let check = |held: &Held<'_, '_, P>| {
            let header = held.space.check_free(page, AreaKind::Ram)?;
            let mapped = u64::from(header.pages());
            if mapped == pages {
                Ok(header)
            } else {
                Err(RangeFreeError::WrongLength {
                    page,
                    pages,
                    mapped,
                })
            }
        };
        self.free_entered(page, AreaKind::Ram, check)
    }
}

impl<P: RangePlatform> Held<'_, '_, P> {
    /// What can be done for a slot or a longer area without stopping others, and without purging what may be much.
    fn ram_at_hand(
        &self,
        need: &PageNeed,
        header: AreaHeader,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        self.collect_inbox();
        if need.context.may_block {
            self.relieve();
        }
        self.try_ram(need, header, frames)
    }

    /// Everything that can be done for a slot or a longer area without stopping others.
    pub(super) fn alloc_ram(
        &self,
        need: &PageNeed,
        header: AreaHeader,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        let at_hand = self.ram_at_hand(need, header, frames);
        if at_hand.is_some() || !need.context.may_block {
            return at_hand;
        }
        // Purges what this CPU itself made lazy, which disturbs no other CPU.
        self.release_kept(false, frames);
        self.purge_all(frames);
        self.try_ram(need, header, frames)
    }

    pub(super) fn try_ram(
        &self,
        need: &PageNeed,
        header: AreaHeader,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        if need.pages <= self.space.slot_max {
            if let Some(at) = self.cut_slot(slot_of(need.pages), frames) {
                self.finish_ram(at, need.pages);
                return Some(at);
            }
            // Linux serves so few pages only from a block.
            if !self.space.config.recycle {
                return None;
            }
        }
        let at = self.alloc_in_arena(need, GIVES, frames)?;
        self.finish_in_arena(at, header, need);
        Some(at)
    }

    /// How many pages become lazy when an area is freed: in a vmap block the whole slot.
    #[inline(always)]
    pub(super) fn lazy_pages_of(&self, at: u32, header: AreaHeader) -> u32 {
        let (number, _) = self.space.spans.place(at);
        let is_block = matches!(self.span(number).owner(), SpanOwner::Block(_));
        lazy_pages(header, is_block)
    }

    /// [Reports](Held::report) a slot, if that keeps the bound; purges some if it nearly does not.
    #[inline(never)]
    fn tell(self, slot: u32) -> bool {
        let (space, words) = (self.space, self.words);
        let delta = words.delta.get();
        if self.report(slot.into()) > space.lazy_max {
            let _counting = words.counting();
            space.sub_lazy(delta + u64::from(slot));
            words.delta.set(delta);
            words.reported.set(0);
            return false;
        }
        self.relieve();
        true
    }

    /// Makes a slot in one of the seat's blocks lazy, if its header is still `header`; it has been
    /// reported. Returns false if the header has changed.
    #[inline(always)]
    fn free_slot(
        &self,
        (span, place): (Span<'_, '_>, SpanPlace),
        (at, area): (u32, AreaWord<'_>),
        header: AreaHeader,
        slot: u32,
    ) -> bool {
        if !self.becomes_lazy(area, header) {
            return false;
        }
        // Its header need not say so: if the CPU collects it after all, a pass unmaps it again.
        let is_unmapped = self.space.config.strict && self.unmap(at, at + header.pages());
        self.mark_slot(span, place, slot, !is_unmapped);
        self.words.counters.unmap_ram.add(1);
        true
    }

    /// Marks a slot in one of the seat's blocks, whose header says that it is lazy.
    #[inline(always)]
    pub(super) fn mark_slot(
        &self,
        span: Span<'_, '_>,
        place: SpanPlace,
        slot: u32,
        is_mapped: bool,
    ) {
        let words = span.mark(SpanBits::Lazy, place, slot);
        self.note_lazy(span, slot, words, is_mapped);
        self.soil(span, slot);
    }
}
