//! The release: from waiting to free, once the generation has passed.

use super::super::seat::Held;
use super::super::space::MERGES_MAX;
use super::super::span::{SpanBits, SpanOwner, bits};
use super::super::{AreaHeader, AreaKind};
use super::inbox::lazy_pages;
use super::strict::{Keeping, VICTIMS};
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::sync::Ordering::Relaxed;

/// What one part of a release may still give back. After the run of frames that uses it up the rest waits for another
/// call, so that none takes long. It has one run in any case.
pub(in super::super) struct ReleasePart {
    frames: u32,
    /// The part ends when the source's number of [slow calls](FrameSource::slow_calls) is no longer this one.
    slow_calls: Option<u64>,
    is_begun: bool,
    /// What a [strict](super::strict) space may keep, it keeps.
    keeps: bool,
}

impl ReleasePart {
    /// The whole release is one part.
    pub(in super::super) const fn whole() -> Self {
        Self {
            frames: u32::MAX,
            slow_calls: None,
            is_begun: false,
            keeps: false,
        }
    }

    pub(in super::super) fn new(frames: &impl FrameSource) -> Self {
        Self {
            frames: 32,
            slow_calls: Some(frames.slow_calls()),
            ..Self::whole()
        }
    }

    /// The same for a release after which kept areas may hold frames: neither under pressure nor for a drain.
    pub(in super::super) fn keeping(frames: &impl FrameSource) -> Self {
        Self {
            keeps: true,
            ..Self::new(frames)
        }
    }

    const fn take(&mut self, frames: u32) {
        self.frames = self.frames.saturating_sub(frames);
        self.is_begun = true;
    }

    fn is_over(&self, frames: &impl FrameSource) -> bool {
        let is_slow = |before| frames.slow_calls() != before;
        self.is_begun && (self.frames == 0 || self.slow_calls.is_some_and(is_slow))
    }
}

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Whether the generation of the first of the seat's spans with waiting pages has passed.
    fn has_ready_span(&self) -> bool {
        let first = self.words.wait_head.link();
        first.is_some_and(|number| self.span(number).stamp() <= self.space.done())
    }

    /// Frees some waiting pages whose generation has passed, and gives back the frames behind them: one
    /// [part](ReleasePart). Returns whether there were any.
    pub(in super::super) fn release_part(
        &self,
        mut part: ReleasePart,
        frames: &mut impl FrameSource,
    ) -> bool {
        let part = &mut part;
        if self.release_span(part, frames) {
            return true;
        }
        let (areas, is_part) = self.release_part_of_areas(MERGES_MAX, part, frames);
        areas != 0 || is_part
    }

    /// Frees waiting pages of the first of the seat's spans, if its generation has passed, and gives back the frames
    /// behind them: all of the span's, or one [part](ReleasePart). Returns whether there were any.
    pub(in super::super) fn release_span(
        &self,
        part: &mut ReleasePart,
        frames: &mut impl FrameSource,
    ) -> bool {
        let Some(number) = self.words.wait_head.link() else {
            return false;
        };
        if !self.has_ready_span() {
            return false;
        }
        let span = self.span(number);
        let has_frames = span.may_have_frames();
        let is_current = self.words.current.link() == Some(number);
        let is_block = matches!(span.owner(), SpanOwner::Block(_));
        let is_free = !is_block || self.space.config.recycle;
        // Of a block that is not recycled, the seat may have counted already that it goes to the arena.
        let _moving = (has_frames || !is_free).then(|| self.words.moving());
        debug_assert!(self.waits_as_a_whole(number), "V9: all of an area waits");
        let before = span.waiting().pages;
        let mut later = span.waiting();
        // The page at which it ends, once the part is over.
        let mut end = u32::MAX;
        let mut are_any_free = false;
        let mut are_full = false;
        let most = if part.keeps {
            self.kept_most(frames)
        } else {
            0
        };
        for word in bits::places(later.words) {
            let base = word as u32 * 64;
            if base >= end {
                break;
            }
            let mut waiting = span.bits(SpanBits::Waiting)[word].load(Relaxed);
            let starts = &span.bits(SpanBits::Starts)[word];
            let mut areas = if has_frames {
                starts.load(Relaxed) & waiting
            } else {
                0
            };
            while areas != 0 && end == u32::MAX {
                let place = base + areas.trailing_zeros();
                areas &= areas - 1;
                let at = self.space.spans.first(number) + place;
                let header = self.header(at);
                let keeping = self.keep_waiting(at, header, most);
                are_full |= keeping == Keeping::Full;
                if keeping == Keeping::Kept {
                    part.take(1);
                    bits::clear(span.bits(SpanBits::Waiting), place, header.pages());
                    waiting = span.bits(SpanBits::Waiting)[word].load(Relaxed);
                    later.pages -= header.pages();
                } else if !self.give_frames(at, part, frames) {
                    // Some of its frames are gone, so it may not be kept.
                    self.space.table.set_header(at, header.lazy(None));
                    end = place;
                }
                if end == u32::MAX && part.is_over(frames) {
                    end = place + header.pages();
                }
            }
            let freed = match end - base {
                rest @ ..64 => waiting & !(!0 << rest),
                _ => waiting,
            };
            later = later.without(freed, word, waiting == freed);
            if freed == 0 {
                continue;
            }
            are_any_free = true;
            span.bits(SpanBits::Waiting)[word].store(waiting & !freed, Relaxed);
            starts.store(starts.load(Relaxed) & !freed, Relaxed);
            if is_free {
                let free = &span.bits(SpanBits::Free)[word];
                free.store(free.load(Relaxed) | freed, Relaxed);
            }
        }
        if later.pages == 0 {
            later.words = 0;
            self.pop_waiting(number);
        }
        span.set_waiting(later);
        if is_block {
            self.block_released(number);
        } else if is_current && are_any_free {
            self.words.most.set(u64::from(self.space.spans.pages()));
        } else if are_any_free {
            self.unlist(number);
            self.list(number);
            self.return_surplus();
        }
        self.words
            .counters
            .released
            .add((before - later.pages).into());
        if are_full {
            self.retire_kept(VICTIMS);
        }
        true
    }

    /// Takes the first span of those with waiting pages out of the list.
    fn pop_waiting(&self, number: u32) {
        let next = self.span(number).waiting_next();
        self.words.wait_head.set_link(next);
        if next.is_none() {
            self.words.wait_tail.set_link(None);
        }
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
        let whole = &mut ReleasePart::whole();
        self.release_part_of_areas(most, whole, frames).0 != 0
    }

    /// The same until the part is over. Returns how many areas have gone back, and whether it stopped for that.
    pub(in super::super) fn release_part_of_areas(
        &self,
        most: usize,
        part: &mut ReleasePart,
        frames: &mut impl FrameSource,
    ) -> (usize, bool) {
        self.ready_areas();
        if self.words.areas_ready.link().is_none() {
            return (0, false);
        }
        let _moving = self.words.moving();
        let mut areas = [(0, 0); MERGES_MAX];
        let mut count = 0;
        // Gives frames back before it takes the arena's lock, because nothing is called under that.
        while count < most.min(MERGES_MAX)
            && !part.is_over(frames)
            && let Some(at) = self.words.areas_ready.link()
        {
            let header = self.header(at);
            if !self.give_frames(at, part, frames) {
                break;
            }
            self.words.areas_ready.set_link(header.next());
            let before = self.clear_arena_start(at);
            self.words.counters.released.add(header.pages().into());
            areas[count] = (at - before, before + header.pages());
            count += 1;
        }
        self.give_to_arena(&areas[..count]);
        (count, part.is_over(frames))
    }

    /// Gives areas, by page and pages, back to the arena. Not inlined: what this needs would lie on the stack while frames are
    /// freed.
    #[inline(never)]
    fn give_to_arena(&self, areas: &[(u32, u32)]) {
        self.space.give(self.words, areas.iter().copied());
    }

    /// Puts an area of the arena that is unmapped to those that wait for a flush.
    pub(in super::super) fn append_waiting_area(&self, at: u32, header: AreaHeader) {
        let list = &self.words.areas_wait;
        let before = list.link();
        if before.is_none() {
            self.words.areas_wait_last.set_link(Some(at));
        }
        self.space.table.set_header(at, header.lazy(before));
        list.set_link(Some(at));
    }

    /// Makes areas of the arena ready when their generation has passed, before others wait for a
    /// later one.
    pub(in super::super) fn ready_areas(&self) {
        let waiting = self.words.areas_wait.link();
        if waiting.is_none() {
            return;
        }
        if self.words.areas_stamp.get() > self.space.done() {
            return;
        }
        let _moving = self.words.moving();
        let ready = self.words.areas_ready.link();
        if ready.is_some() {
            let last = self.words.areas_wait_last.page() - 1;
            let linked = self.header(last).lazy(ready);
            self.space.table.set_header(last, linked);
        }
        self.words.areas_ready.set_link(waiting);
        self.words.areas_wait.set_link(None);
    }

    /// Gives back the frames behind an area, if they are the space's, until the part is over. Returns whether none is
    /// left. The next call for the area goes on where this one stopped, unless the seat has
    /// given back a part of another one meanwhile: so all parts together take O(pages).
    pub(in super::super) fn give_frames(
        &self,
        at: u32,
        part: &mut ReleasePart,
        frames: &mut impl FrameSource,
    ) -> bool {
        let table = self.space.table;
        let header = self.header(at);
        if header.kind() != AreaKind::Vmalloc {
            return true;
        }
        let (mut page, end) = (at, at + header.pages() - 1);
        let is_begun = self.words.given.link() == Some(at);
        if is_begun {
            page = (self.words.given.get() >> 32) as u32;
        }
        while page < end && !part.is_over(frames) {
            let Some(run) = table.run_at(page, end) else {
                page += 1;
                continue;
            };
            let pages = run.frames() as u32;
            table.clear_frames(page, pages);
            let calling = self.space.calling_out();
            frames.free_run(run);
            calling.end();
            part.take(pages);
            page += pages;
        }
        if page < end {
            let rest = u64::from(page) << 32;
            self.words.given.set(rest | (u64::from(at) + 1));
        } else if is_begun {
            // Another area may begin here when this one has ended.
            self.words.given.set(0);
        }
        page == end
    }
}
