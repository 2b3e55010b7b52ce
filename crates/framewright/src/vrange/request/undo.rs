//! Takes back an area that was never handed out.

use super::super::error::Poisoned;
use super::super::seat::{Held, slot_of};
use super::super::space::Moves;
use super::super::span::{SpanBits, SpanOwner, bits};
use super::super::{AreaKind, AreaRequest, RangeError, RangeSeat};
use crate::frame::FrameSource;
use crate::platform::{MapError, RangePlatform};
use crate::units::{Context, Frame, Page, PageAccess};

/// A live area that no other CPU knows yet, and how much of it is done.
pub(super) struct UnknownArea {
    pub(super) at: u32,
    /// Without the guard page.
    pub(super) pages: u32,
    /// Pages from the first on of which the table says which frames they have. In the words of the others stands
    /// what was there before, perhaps of gaps.
    pub(super) done: u32,
    /// Lazy pages that have been reported for a caller that may not wait.
    pub(super) reserved: u64,
    /// It is still live when the request has failed, and goes the way of all areas.
    pub(super) is_left: bool,
}

impl UnknownArea {
    pub(super) const fn new(at: u32, request: &AreaRequest) -> Self {
        Self {
            at,
            pages: request.pages as u32,
            done: 0,
            reserved: 0,
            is_left: false,
        }
    }
}

impl<P: RangePlatform, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Gives up an area that has no mapping, and the frames behind it. Returns whether anything was kept, lazy,
    /// waiting or on its way since `begin`, if that is known.
    pub(super) fn give_up(
        &mut self,
        area: &mut UnknownArea,
        context: Context,
        begin: Option<Moves>,
    ) -> bool {
        self.give_back(area);
        let had_spare = self.space.had_spare_since_some(begin);
        if self.enter().is_ok() {
            let undone = self.held().unalloc(area.at);
            self.exit();
            if !undone {
                self.leave(area, context);
            }
        }
        had_spare
    }

    /// Gives back the frames behind an area, which are not mapped. None of its pages has a frame then. A source
    /// whose wait unwinds has taken the run back all the same.
    fn give_back(&mut self, area: &UnknownArea) {
        let table = self.space.table;
        let (mut page, end) = (area.at, area.at + area.done);
        while let Some(run) = table.run_at(page, end) {
            table.clear_frames(page, run.frames() as u32);
            page += run.frames() as u32;
            self.frames.free_run(run);
        }
        self.clear_others(area);
    }

    /// Says of the pages without a frame that they have none.
    fn clear_others(&self, area: &UnknownArea) {
        let UnknownArea {
            at, pages, done, ..
        } = area;
        self.space.table.clear_frames(at + done, pages - done);
    }

    /// Makes an area lazy for a caller that may not wait, and so neither unmaps nor flushes. One for another
    /// caller [is left](UnknownArea::is_left) live.
    pub(super) fn leave(&self, area: &mut UnknownArea, context: Context) {
        if context.may_block {
            area.is_left = true;
        } else {
            self.make_lazy(area.at, area.reserved);
        }
    }

    /// Frees an area that a request has left, for a caller that may wait.
    pub(super) fn free_unused(&mut self, at: u32) {
        let freed = self.free_kind(self.space.page(at), AreaKind::Vmalloc);
        let is_freed = freed.is_ok() || self.space.is_poisoned();
        debug_assert!(is_freed, "{freed:?}: no other CPU knows the area");
        self.purge();
    }

    /// Makes an area lazy because a call has unwound, with what it has of a mapping and of frames.
    #[cold]
    pub(super) fn lose(&mut self, area: &UnknownArea) {
        self.clear_others(area);
        self.make_lazy(area.at, area.reserved);
    }

    /// Makes a live area lazy that no other CPU knows, with what it has of a mapping and of frames. It neither unmaps
    /// nor flushes, because a caller may not wait for that; or because the platform has just unwound, and if it
    /// did so once more, the program would end. It may wait for a CPU that has claimed the seat. So the area may be above the bound until a later free or purge of
    /// this seat's (V6). `reserved` lazy pages have been promised for it. A poisoned space keeps it.
    pub(super) fn make_lazy(&self, at: u32, reserved: u64) {
        if self.enter().is_err() {
            return;
        }
        let (held, space, words) = (self.held(), self.space, self.words);
        if reserved == 0 {
            held.end_unwound();
        }
        let header = held.header(at);
        let pages = u64::from(held.lazy_pages_of(at, header));
        let counting = words.counting();
        words.promised.set(0);
        words.reported.set(pages);
        if space.add_lazy(pages.wrapping_sub(reserved)) > space.lazy_max {
            words.above.set(words.above.get() + pages);
        }
        drop(counting);
        let freed = held.free_mapped(at, header);
        debug_assert!(freed, "no other CPU knows the area");
        words.settle();
        if header.kind() == AreaKind::Ram {
            words.counters.count_part_undone();
        }
        self.exit();
    }

    /// Frees a live slot with some mapping as if it had never been live, for a caller that may wait.
    pub(super) fn free_part(&mut self, at: u32) -> Result<(), Poisoned> {
        self.enter()?;
        let header = self.held().header(at);
        self.exit();
        let freed = self.unmap_slow(self.space.page(at), u64::from(header.pages()));
        let is_freed = freed.is_ok() || self.space.is_poisoned();
        debug_assert!(is_freed, "{freed:?}: no other CPU knows the slot");
        self.enter()?;
        self.words.counters.count_part_undone();
        self.exit();
        self.purge();
        Ok(())
    }

    /// Tries once more after a failure. First drains, if that may help.
    #[cold]
    pub(super) fn map_again(
        &mut self,
        error: RangeError,
        had_spare: bool,
        frames: &[Frame],
        access: PageAccess,
        context: Context,
    ) -> Result<Page, RangeError> {
        let at = self.alloc_again(error, had_spare, frames.len() as u64, context)?;
        self.map_runs(at, frames, access, context)
            .map_err(|(error, _)| error)?;
        Ok(self.space.page(at))
    }

    /// Address space once more after such a failure, and a drain, if that may help: if anything was kept, lazy
    /// or waiting before this call's own mapping was taken back.
    #[cold]
    pub(super) fn alloc_again(
        &mut self,
        error: RangeError,
        had_spare: bool,
        pages: u64,
        context: Context,
    ) -> Result<u32, RangeError> {
        let would_a_drain_help = matches!(
            error,
            RangeError::Map(MapError::NoMemory | MapError::Limit { .. })
        );
        if !would_a_drain_help || !context.may_block || !had_spare {
            return Err(error);
        }
        self.drain();
        self.alloc_ram(pages, context)
    }

    /// Makes a live slot without any mapping as if it had not been cut; in a poisoned space it
    /// stays.
    pub(super) fn undo_ram(&mut self, at: u32) {
        if self.enter().is_ok() {
            self.held().uncut(at);
            self.exit();
        }
    }

    /// Takes back a live area that its caller will never know, because the platform has unwound.
    pub(crate) fn free_unwound(&self, page: Page) {
        self.make_lazy(self.space.offset_unchecked(page) as u32, 0);
    }
}

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Takes back the allocation of an area without any mapping, if it is in a span of this CPU's,
    /// or the arena's.
    fn unalloc(&self, at: u32) -> bool {
        let header = self.header(at);
        let pages = header.pages();
        let (number, place) = self.space.spans.place(at);
        let span = self.span(number);
        match span.owner() {
            SpanOwner::Areas(cpu) if cpu == self.cpu => {
                bits::clear(span.bits(SpanBits::Starts), place, 1);
                self.put_back(number, at, pages);
            }
            SpanOwner::Arena => {
                let before = self.clear_arena_start(at);
                let all = (at - before, pages + before);
                self.space.give(self.words, core::iter::once(all));
            }
            SpanOwner::Areas(_) | SpanOwner::Block(_) => return false,
        }
        self.words.counters.allocs.add(1u64.wrapping_neg());
        self.words.counters.undone.add(1);
        self.words.live.sub(u64::from(pages));
        true
    }

    /// Takes back the cut of a slot, or of the arena's area, without any mapping.
    fn uncut(&self, at: u32) {
        let header = self.header(at);
        let pages = header.pages();
        let (number, place) = self.space.spans.place(at);
        let span = self.span(number);
        match span.owner() {
            SpanOwner::Arena => {
                self.clear_arena_start(at);
                self.space.give(self.words, core::iter::once((at, pages)));
            }
            SpanOwner::Areas(_) | SpanOwner::Block(_) => {
                bits::clear(span.bits(SpanBits::Starts), place, 1);
                self.return_slot(number, place, slot_of(pages));
            }
        }
        self.words.counters.undone.add(1);
        self.words.counters.map_ram.add(1u64.wrapping_neg());
        self.words.live.sub(u64::from(pages));
    }
}
