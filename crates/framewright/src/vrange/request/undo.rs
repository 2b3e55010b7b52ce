//! Takes back an area that was never handed out.

use super::super::seat::Held;
use super::super::span::{SpanBits, SpanOwner, bits};
use super::super::{AreaKind, RangeSeat};
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::units::{Context, Page};

impl<P: RangePlatform, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Gives back the frames behind the first `done` pages of an area, which are not mapped. None
    /// of its pages has a frame then.
    pub(super) fn give_back(&mut self, at: u32, done: u32, pages: u32) {
        let frames = &mut self.frames;
        self.space
            .table
            .for_all_runs(at, done, |run| frames.free_run(run));
        self.space.table.clear_frames(at, pages);
    }

    /// Takes back the allocation of an area that was never handed out and has no mapping.
    pub(in super::super) fn undo(&mut self, at: u32, context: Context) {
        if self.enter().is_err() {
            return;
        }
        let undone = self.held().unalloc(at);
        self.exit();
        if !undone {
            self.free_unused(at, 0, context);
        }
    }

    /// The same if it has a mapping: it becomes lazy. `reserved` lazy pages have been reported
    /// already for a caller that may not wait, and so neither unmaps nor flushes.
    pub(super) fn free_unused(&mut self, at: u32, reserved: u64, context: Context) {
        if context.may_block {
            let freed = self.free_kind(self.space.page(at), AreaKind::Vmalloc);
            let is_freed = freed.is_ok() || self.space.is_poisoned();
            debug_assert!(is_freed, "{freed:?}: no other CPU knows the area");
            return;
        }
        self.make_lazy(at, reserved);
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
        match reserved {
            0 => held.settle(),
            _ => words.promised.set(0),
        }
        let header = held.header(at);
        let pages = u64::from(held.lazy_pages_of(at, header));
        if space.add_lazy(pages.wrapping_sub(reserved)) > space.lazy_max {
            words.above.set(words.above.get() + pages);
        }
        let freed = held.free_checked(at, header);
        debug_assert!(freed, "no other CPU knows the area");
        if header.kind() == AreaKind::Ram {
            words.counters.count_part_undone();
        }
        self.exit();
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
                self.clear_arena_start(at);
                self.space.give(self.words, core::iter::once((at, pages)));
            }
            SpanOwner::Areas(_) | SpanOwner::Block(_) => return false,
        }
        self.words.counters.allocs.add(1u64.wrapping_neg());
        self.words.counters.undone.add(1);
        self.words.live.sub(u64::from(pages));
        true
    }
}
