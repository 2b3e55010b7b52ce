//! How a CPU allocates an area, step by step.
//!
//! ```text
//!     fast path      the bump of the current span
//!     in the seat    the inbox; then, if it is small, the current span, others of the CPU's, a new
//!                    one; then an area of its length that has waited; then a cut from the arena
//!     may it wait?   own kept areas go and own lazy pages are purged, in parts, and the same is tried again;
//!                    if not, what has waited becomes free, and all of the CPU's own spans are searched
//!     at rest        `slow`: all CPUs stopped, everything purged, spans dissolved (V8)
//! ```
//!
//! The header is written first, then the start bit, by which the area is found (V4). A span's owner
//! sets its start bits by plain stores; two areas of the arena can share a span, so theirs are atomic.

use super::super::error::Poisoned;
use super::super::purge::ReleasePart;
use super::super::seat::{Choice, Held};
use super::super::space::RELEASES;
use super::super::span::SpanBits;
use super::super::{AreaHeader, AreaKind, RangeError, RangeSeat, Space};
use super::AreaRequest;
use super::need::PageNeed;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::seats::Inboxes;
use crate::sync::{Ordering::Relaxed, clear_bits, set_bits};
use crate::units::Page;

/// How many of its waiting areas one allocation from the arena gives back first.
pub(super) const GIVES: usize = 8;

/// How many areas in a CPU's list of waiting ones a request to the arena looks at.
const LOOKS: usize = 16;

/// Purgeable pages of a CPU that are worth a flush where the window is crowded.
const WORTH_A_FLUSH: u64 = 512;

impl<P: RangePlatform, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Allocates address space \[`get_vm_area`\]: as many pages as asked for, and a guard page
    /// behind them, and before them if that was asked for. It maps nothing; the caller maps what it
    /// wants into the area's pages (never into a guard page).
    ///
    /// Uses the address space that this CPU has at hand; in the arena it takes the lowest address.
    /// Mostly some nanoseconds. It waits for no other CPU, unless it would fail and the context
    /// allows waiting: then it first stops all CPUs, purges everything lazy, and dissolves all
    /// spans.
    ///
    /// # Errors
    /// The window can never serve the request, or there is no gap (V8); without `may_block` it
    /// [would have to wait](RangeError::WouldWait) for one. Nothing has changed then.
    #[inline]
    pub fn alloc_area(&mut self, request: &AreaRequest) -> Result<Page, RangeError> {
        self.alloc_kind(request, AreaKind::Plain)
    }

    /// Allocates an area of that kind, with a guard page. It maps nothing.
    #[inline(always)]
    pub(super) fn alloc_kind(
        &mut self,
        request: &AreaRequest,
        kind: AreaKind,
    ) -> Result<Page, RangeError> {
        // Serves the common case here, and leaves the rest to `alloc_slow`. An alignment is a
        // power of two and at most a page's if it has one bit, and that is no higher than a page's.
        let small = u64::from(self.space.small_max);
        if request.pages.wrapping_sub(1) < small.saturating_sub(1)
            && request.align_bytes <= Page::BYTES
            && request.align_bytes.is_power_of_two()
            && !request.guard_before
            && self.try_enter()
        {
            let cursor = self.words.cursor.page();
            let pages = request.pages as u32 + 1;
            if cursor + pages <= self.words.end.page() {
                self.words.cursor.set(u64::from(cursor + pages));
                let header = AreaHeader::live(kind, pages, request.tag);
                self.held().finish(cursor, header);
                self.exit();
                return Ok(self.space.page(cursor));
            }
        }
        self.alloc_slow(request, kind)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, request: &AreaRequest, kind: AreaKind) -> Result<Page, RangeError> {
        // The fast path may have entered the seat while another CPU claimed it.
        self.exit();
        let need = match PageNeed::of(request, self.space.start(), self.space.pages()) {
            Ok(need) => need,
            Err(error @ RangeError::NoSpace { .. }) => return Err(self.failed(error)),
            Err(error) => return Err(error),
        };
        let header = AreaHeader::live(kind, need.pages, request.tag);
        let begin = self.space.last_standstill();
        if let Some(aligned) = need.for_huge_pages(request.huge)
            && let Some(at) = self.alloc_preferred(&aligned, header)?
        {
            return Ok(self.space.page(at));
        }
        let at_once = match self.space.is_for_spans(&need) {
            true => self.prepare_spans(&need, header)?,
            false => self.prepare_arena(&need, header)?,
        };
        if let Some(at) = at_once {
            return Ok(self.space.page(at));
        }
        self.enter()?;
        let mut found = self.held().alloc_at_hand(&need, header, &mut self.frames);
        self.exit();
        if found.is_none() {
            found = match request.context.may_block {
                true => self.alloc_purged(&need, header)?,
                false => self.alloc_at_once(&need, header, begin)?,
            };
        }
        let found = match found {
            None if request.context.may_block && !self.space.is_exhausted_since(begin) => {
                self.alloc_at_rest(&need, header, begin)?
            }
            found => found,
        };
        match found {
            Some(at) => Ok(self.space.page(at)),
            None => Err(self.failed(RangeError::NoSpace {
                pages: request.pages,
                align_bytes: request.align_bytes,
            })),
        }
    }

    /// Has the spans serve a request: from the current one at once, or releases some that wait, in parts, before the
    /// search.
    fn prepare_spans(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
    ) -> Result<Option<u32>, Poisoned> {
        let (pages, align) = (need.pages, need.align_pages as u32);
        self.enter()?;
        let at = self.held().take_current(pages, align);
        if let Some(at) = at {
            self.held().finish(at, header);
        }
        self.exit();
        if at.is_some() {
            return Ok(at);
        }
        // One in any case: a CPU that always takes the first free pages spreads over more and more spans.
        for _ in 0..=RELEASES {
            if !self.release_first_span()? {
                break;
            }
            self.space.platform.interrupt_window();
            self.enter()?;
            let is_enough = self.held().has_rich(pages, align);
            self.exit();
            if is_enough {
                break;
            }
        }
        Ok(None)
    }

    /// Serves a request that prefers an alignment, if the arena can at once: the request succeeds without it, too.
    #[cold]
    fn alloc_preferred(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
    ) -> Result<Option<u32>, Poisoned> {
        let waited = self.prepare_arena(need, header)?;
        if waited.is_some() {
            return Ok(waited);
        }
        self.enter()?;
        let at = self.held().alloc_in_arena(need, 0, &mut self.frames);
        if let Some(at) = at {
            self.held().finish_in_arena(at, header, need);
        }
        self.exit();
        Ok(at)
    }

    /// Has an area of its length that waited serve a request for the arena, and releases some others.
    pub(super) fn prepare_arena(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
    ) -> Result<Option<u32>, Poisoned> {
        let at = loop {
            self.enter()?;
            let held = self.held();
            let part = &mut ReleasePart::new(&self.frames);
            let (at, is_part) = held.take_waiting(need, part, &mut self.frames);
            if let Some(at) = at {
                held.finish_in_arena(at, header, need);
            }
            self.exit();
            if at.is_none() && !is_part {
                break None;
            }
            self.space.platform.interrupt_window();
            if at.is_some() {
                break at;
            }
        };
        if at.is_none() || need.pages > self.space.small_max {
            // Other waiting areas have many frames each too, and no other CPU gives these back.
            self.release_long_areas(at.is_none())?;
        }
        Ok(at)
    }

    /// Releases some areas of the arena, and leaves the seat after each part. A caller that has freed or taken an area
    /// already may not wait for a CPU that has claimed the seat, because that may unwind: such a CPU mostly releases
    /// these areas itself.
    pub(super) fn release_long_areas(&mut self, may_wait: bool) -> Result<(), Poisoned> {
        let mut left = GIVES;
        loop {
            if may_wait {
                self.enter()?;
            } else if !self.try_enter() {
                self.exit();
                return Ok(());
            }
            let part = &mut ReleasePart::new(&self.frames);
            let (areas, is_part) = self
                .held()
                .release_part_of_areas(left, part, &mut self.frames);
            self.exit();
            left -= areas;
            if !is_part {
                return Ok(());
            }
            self.space.platform.interrupt_window();
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Releases a span that waits, if its generation has passed, and leaves the seat after each part. Returns whether
    /// there was one.
    fn release_first_span(&mut self) -> Result<bool, Poisoned> {
        let mut released = false;
        loop {
            self.enter()?;
            let first = self.words.wait_head.link();
            let part = &mut ReleasePart::keeping(&self.frames);
            let is_part = first.is_some() && self.held().release_span(part, &mut self.frames);
            let has_more = self.words.wait_head.link() == first;
            self.exit();
            released |= is_part;
            if !is_part || !has_more {
                return Ok(released);
            }
            self.space.platform.interrupt_window();
        }
    }

    /// Counts a failure for want of space.
    pub(super) fn failed(&self, error: RangeError) -> RangeError {
        if let Err(poisoned) = self.enter() {
            return poisoned.into();
        }
        self.words.counters.failures.add(1);
        self.exit();
        error
    }
}

impl<P> Space<'_, P> {
    /// Whether a span serves it.
    pub(super) fn is_for_spans(&self, need: &PageNeed) -> bool {
        need.before == 0
            && need.pages <= self.small_max
            && need.align_pages <= u64::from(self.spans.pages())
    }
}

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Makes an area in one of the seat's spans live.
    #[inline(always)]
    pub(super) fn finish(&self, at: u32, header: AreaHeader) {
        self.space.table.set_header(at, header);
        let (number, place) = self.space.spans.place(at);
        let span = self.span(number);
        span.set_start(place);
        if header.kind() == AreaKind::Vmalloc {
            span.set_frames(true);
        }
        self.words.counters.allocs.add(1);
        self.words.live.add(u64::from(header.pages()));
    }

    /// Makes an area of the arena live.
    pub(super) fn finish_in_arena(&self, at: u32, header: AreaHeader, need: &PageNeed) {
        let spans = self.space.spans;
        self.space.table.set_header(at, header);
        if need.before != 0 {
            self.space.mark_guard_before(at, true);
        }
        let (number, place) = spans.place(at);
        let (last, _) = spans.place(at + header.pages() - 1);
        for covered in number + 1..=last {
            self.span(covered).set_covers(at);
        }
        // Atomic, because other CPUs set and clear bits beside it: two areas of the arena can share
        // a span.
        let starts = &self.span(number).bits(SpanBits::Starts)[(place / 64) as usize];
        set_bits(starts, 1 << (place % 64), P::ALONE);
        self.words.counters.allocs_of(header.kind()).add(1);
        self.words.live.add(u64::from(header.pages()));
    }

    /// Clears the start of an area of the arena, which has ended. Returns how many guard pages before it have ended too.
    pub(in super::super) fn clear_arena_start(&self, at: u32) -> u32 {
        let (number, place) = self.space.spans.place(at);
        let span = self.span(number);
        let (word, bit) = ((place / 64) as usize, 1 << (place % 64));
        clear_bits(&span.bits(SpanBits::Starts)[word], bit, P::ALONE);
        if span.bits(SpanBits::Lazy)[word].load(Relaxed) & bit == 0 {
            return 0;
        }
        self.space.mark_guard_before(at, false);
        1
    }

    /// What can be done without stopping others, and without purging what may be much.
    fn alloc_at_hand(
        &self,
        need: &PageNeed,
        header: AreaHeader,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        // A CPU that frees relieves the bound itself; here it does so only for pages that other
        // CPUs freed.
        if self.collect_inbox() && need.context.may_block {
            self.relieve();
        }
        if self.space.is_for_spans(need) {
            let align = need.align_pages as u32;
            if let Some(at) = self.alloc_in_spans(need, align) {
                self.finish(at, header);
                return Some(at);
            }
        }
        if need.context.may_block
            && self.space.is_crowded()
            && self.words.purgeable.get() >= WORTH_A_FLUSH
        {
            // First fit packs more closely if more low pages are free.
            self.purge_all(frames);
        }
        // For others, `prepare_arena` has given some back.
        let gives = if self.space.is_for_spans(need) {
            GIVES
        } else {
            0
        };
        let at = self.alloc_in_arena(need, gives, frames)?;
        self.finish_in_arena(at, header, need);
        Some(at)
    }

    /// Everything that can be done without stopping others.
    pub(super) fn alloc_entered(
        &self,
        need: &PageNeed,
        header: AreaHeader,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        let at_hand = self.alloc_at_hand(need, header, frames);
        if at_hand.is_some() || !need.context.may_block {
            return at_hand;
        }
        // Purges what this CPU itself made lazy, which disturbs no other CPU.
        self.release_kept(false, frames);
        self.purge_lazy();
        if let (Some(at), _) = self.take_waiting(need, &mut ReleasePart::whole(), frames) {
            self.finish_in_arena(at, header, need);
            return Some(at);
        }
        self.release_all(frames);
        if self.space.is_for_spans(need)
            && let Some(at) = self.alloc_in_spans(need, need.align_pages as u32)
        {
            self.finish(at, header);
            return Some(at);
        }
        let at = self.alloc_in_arena(need, 0, frames)?;
        self.finish_in_arena(at, header, need);
        Some(at)
    }

    /// All that this CPU has itself, without a purge: a search of its spans and of the arena, to which it has given those
    /// that are entirely free.
    pub(super) fn alloc_from_own(
        &self,
        need: &PageNeed,
        header: AreaHeader,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        let (pages, align) = (need.pages, need.align_pages as u32);
        if self.space.is_for_spans(need)
            && let Some(at) =
                (self.take_current(pages, align)).or_else(|| self.take_anywhere(pages, align))
        {
            self.finish(at, header);
            return Some(at);
        }
        self.return_all_empties();
        let at = self.alloc_in_arena(need, 0, frames)?;
        self.finish_in_arena(at, header, need);
        Some(at)
    }

    fn alloc_in_spans(&self, need: &PageNeed, align: u32) -> Option<u32> {
        let pages = need.pages;
        if let Some(at) = self.take_current(pages, align) {
            return Some(at);
        }
        if let Some(at) = self.take_listed(pages, align, Choice::Rich) {
            return Some(at);
        }
        if self.take_span() {
            return self.take_current(pages, align);
        }
        self.take_listed(pages, align, Choice::Poor)
    }

    /// An area of the arena that this CPU freed, of exactly the length asked for, that is ready: of
    /// the first few in its list the least aligned one that will do. So it need not go into the
    /// tree and be found there again.
    ///
    /// Only for requests that no span serves, and not where first fit should pack closely. If it has more than
    /// one part's frames, only some go back; then there is none, and it says that it stopped for that.
    fn take_waiting(
        &self,
        need: &PageNeed,
        part: &mut ReleasePart,
        frames: &mut impl FrameSource,
    ) -> (Option<u32>, bool) {
        let space = self.space;
        if space.is_for_spans(need) || !space.config.spans || space.is_crowded() {
            return (None, false);
        }
        self.ready_areas();
        let mut best = None;
        let mut least = u32::MAX;
        let (mut before, mut next) = (None, self.words.areas_ready.link());
        for _ in 0..LOOKS {
            let Some(at) = next else { break };
            let header = self.header(at);
            next = header.next();
            let zeroes = space.page(at).0.trailing_zeros();
            if header.pages() == need.pages
                && zeroes >= need.align_pages.trailing_zeros()
                && zeroes < least
                && space.has_guard_before(at) == (need.before != 0)
            {
                least = zeroes;
                best = Some((at, before, next));
            }
            before = Some(at);
        }
        let Some((at, before, next)) = best else {
            return (None, false);
        };
        let _moving = self.words.moving();
        if !self.give_frames(at, part, frames) {
            return (None, true);
        }
        self.words.counters.released.add(need.pages.into());
        match before {
            None => self.words.areas_ready.set_link(next),
            Some(before) => {
                let waiting = self.header(before).lazy(next);
                space.table.set_header(before, waiting);
            }
        }
        (Some(at), false)
    }

    pub(super) fn alloc_in_arena(
        &self,
        need: &PageNeed,
        gives: usize,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        if gives != 0 {
            self.release_areas(gives, frames);
        }
        let first = self.space.cut(self.words, &need.wanted()?, None)?;
        Some(first + need.before)
    }
}
