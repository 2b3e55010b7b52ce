//! The release: from waiting to free, once the generation has passed.

use super::super::AreaKind;
use super::super::seat::Held;
use super::super::space::MERGES_MAX;
use super::super::span::{Marked, SpanBits, SpanOwner, bits};
use super::inbox::lazy_pages;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::sync::Ordering::Relaxed;

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Frees the waiting pages of one of the seat's spans, if there is one whose generation has
    /// passed, and gives back the frames behind them. Returns whether there was one.
    pub(in super::super) fn release_span(&self, frames: &mut impl FrameSource) -> bool {
        let Some(number) = self.words.wait_head.link() else {
            return false;
        };
        let span = self.span(number);
        if span.stamp() > self.space.done() {
            return false;
        }
        let has_frames = span.may_have_frames();
        let _moving = has_frames.then(|| self.words.moving());
        let next = span.waiting_next();
        self.words.wait_head.set_link(next);
        if next.is_none() {
            self.words.wait_tail.set_link(None);
        }
        let is_current = self.words.current.link() == Some(number);
        let is_block = matches!(span.owner(), SpanOwner::Block(_));
        let is_free = !is_block || self.space.config.recycle;
        if !is_current && !is_block {
            self.unlist(number);
        }
        debug_assert!(self.waits_as_a_whole(number), "V9: all of an area waits");
        for word in bits::places(span.waiting().words) {
            let waiting = span.bits(SpanBits::Waiting)[word].load(Relaxed);
            span.bits(SpanBits::Waiting)[word].store(0, Relaxed);
            let starts = &span.bits(SpanBits::Starts)[word];
            let mut freed = if has_frames {
                starts.load(Relaxed) & waiting
            } else {
                0
            };
            starts.store(starts.load(Relaxed) & !waiting, Relaxed);
            if is_free {
                let free = &span.bits(SpanBits::Free)[word];
                free.store(free.load(Relaxed) | waiting, Relaxed);
            }
            while freed != 0 {
                let at = word as u32 * 64 + freed.trailing_zeros();
                freed &= freed - 1;
                self.give_frames(self.space.spans.first(number) + at, frames);
            }
        }
        span.set_waiting(Marked::default());
        if is_block {
            self.block_released(number);
        } else if is_current {
            self.words.most.set(u64::from(self.space.spans.pages()));
        } else {
            self.list(number);
            self.return_surplus();
        }
        true
    }

    /// Whether each area with a waiting first page waits with all of its pages.
    fn waits_as_a_whole(&self, number: u32) -> bool {
        let span = self.span(number);
        let first = self.space.spans.first(number);
        let is_block = matches!(span.owner(), SpanOwner::Block(_));
        let waiting = span.bits(SpanBits::Waiting);
        let starts = bits::runs(span.bits(SpanBits::Starts), 0).flat_map(|(start, end)| start..end);
        let mut all = true;
        for place in starts.filter(|&place| bits::has_all(waiting, place, 1)) {
            let pages = lazy_pages(self.header(first + place), is_block);
            all &= bits::has_all(waiting, place, pages);
        }
        all
    }

    /// Gives waiting areas of the arena back to it, if their generation has passed. Returns whether
    /// there were any.
    pub(in super::super) fn release_areas(
        &self,
        most: usize,
        frames: &mut impl FrameSource,
    ) -> bool {
        self.ready_areas();
        if self.words.areas_ready.link().is_none() {
            return false;
        }
        let _moving = self.words.moving();
        let mut areas = [(0, 0); MERGES_MAX];
        let mut count = 0;
        // Gives frames back before it takes the arena's lock, because nothing is called under that.
        while count < most.min(MERGES_MAX)
            && let Some(at) = self.words.areas_ready.link()
        {
            let header = self.header(at);
            self.words.areas_ready.set_link(header.next());
            self.give_frames(at, frames);
            self.clear_arena_start(at);
            areas[count] = (at, header.pages());
            count += 1;
        }
        self.space.give(self.words, areas[..count].iter().copied());
        true
    }

    /// Makes areas of the arena ready when their generation has passed, before others wait for a
    /// later one. Time: O(1) if none is ready, and else O(those that waited).
    pub(in super::super) fn ready_areas(&self) {
        let waiting = self.words.areas_wait.link();
        let Some(first) = waiting else { return };
        if self.words.areas_stamp.get() > self.space.done() {
            return;
        }
        let _moving = self.words.moving();
        let ready = self.words.areas_ready.link();
        if ready.is_some() {
            let mut last = first;
            while let Some(next) = self.header(last).next() {
                last = next;
            }
            let linked = self.header(last).lazy(ready);
            self.space.table.set_header(last, linked);
        }
        self.words.areas_ready.set_link(waiting);
        self.words.areas_wait.set_link(None);
    }

    /// Gives back the frames behind an area, if they are the space's.
    pub(in super::super) fn give_frames(&self, at: u32, frames: &mut impl FrameSource) {
        let table = self.space.table;
        let header = self.header(at);
        if header.kind() != AreaKind::Vmalloc {
            return;
        }
        let (mut page, end) = (at, at + header.pages() - 1);
        while page < end {
            let Some(run) = table.run_at(page, end) else {
                page += 1;
                continue;
            };
            let pages = run.frames() as u32;
            table.clear_frames(page, pages);
            let calling = self.space.calling_out();
            frames.free_run(run);
            calling.end();
            page += pages;
        }
    }
}
