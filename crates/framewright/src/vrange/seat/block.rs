//! A seat's vmap blocks: spans from which `map_ram` cuts slots of a power of two of pages.
//!
//! ```text
//!     | used or freed | free | used | the block's run ...............| used |
//!                                    cursor ──▶                       end
//! ```
//!
//! A block has a *run* of pages from which slots are cut, one behind the other and without a look
//! at alignment; at first the run is the whole block. Blocks with room are in a list, the oldest
//! first or last as the policy says, and the first one that serves a request does.
//!
//! With recycling, freed pages become free as their generation passes, and when the run is used up
//! or too short, another one is found among the free pages. Without it, freed pages are only
//! counted (*dirty*): a block with a used-up run leaves the list, and comes back to the arena when
//! all of it is dirty, purged and flushed. A block leaves the list when a request passes it by and
//! finds that it has no room left.

use super::super::arena::WantedGap;
use super::super::purge::ReleasePart;
use super::super::space::RELEASES;
use super::super::span::{Span, SpanBits, SpanLink, SpanOwner, bits};
use super::super::{AreaHeader, AreaKind};
use super::Held;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::sync::Ordering::Relaxed;

/// How many blocks of the list are looked at before everything is done to serve a request. It is
/// one more than the list can have without recycling and with the tail policy, where each block has
/// room for less than a slot of 1, 2, 4, 8, 16, 32 or 64 pages.
const LOOKS: usize = 8;
/// How many blocks of the list are tried before another one is taken from the arena, with
/// recycling. Without it all are tried; with the tail policy there are no more than seven.
const TRIES: usize = 16;

/// The room in a block, packed into its record's word for lists: three numbers up to 1024, in pages
/// from the block's beginning, and three flags. Zero is a block without room, in no list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in super::super) struct BlockRoom(u64);

impl BlockRoom {
    const BITS: u32 = 11;
    const MASK: u64 = (1 << Self::BITS) - 1;
    const LISTED: u64 = 1 << 63;
    const EMPTY: u64 = 1 << 62;
    const RETIRED: u64 = 1 << 61;

    #[inline(always)]
    pub(super) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    pub(super) const fn word(self) -> u64 {
        self.0
    }

    /// The next page of the run.
    #[inline(always)]
    pub(in super::super) const fn cursor(self) -> u32 {
        (self.0 & Self::MASK) as u32
    }

    /// The page behind the run.
    #[inline(always)]
    pub(in super::super) const fn end(self) -> u32 {
        (self.0 >> Self::BITS & Self::MASK) as u32
    }

    /// With recycling: an upper bound on the runs of its free pages. Without: the number of dirty
    /// pages.
    #[inline(always)]
    pub(in super::super) const fn third(self) -> u32 {
        (self.0 >> (2 * Self::BITS) & Self::MASK) as u32
    }

    /// The room after a cut of `pages` pages from the run, which has as many.
    #[inline(always)]
    const fn cut(self, pages: u32) -> Self {
        Self(self.0 + pages as u64)
    }

    const fn with_run(self, cursor: u32, end: u32) -> Self {
        let run = cursor as u64 | (end as u64) << Self::BITS;
        Self(self.0 & !(Self::MASK | Self::MASK << Self::BITS) | run)
    }

    const fn with_third(self, third: u32) -> Self {
        let shift = 2 * Self::BITS;
        Self(self.0 & !(Self::MASK << shift) | (third as u64) << shift)
    }

    #[inline(always)]
    const fn with_more(self, pages: u32) -> Self {
        Self(self.0 + ((pages as u64) << (2 * Self::BITS)))
    }

    pub(in super::super) const fn is_listed(self) -> bool {
        self.0 & Self::LISTED != 0
    }

    const fn listed(self, listed: bool) -> Self {
        Self(self.0 & !Self::LISTED | if listed { Self::LISTED } else { 0 })
    }

    /// Whether it is counted as entirely free.
    const fn is_empty(self) -> bool {
        self.0 & Self::EMPTY != 0
    }

    /// Whether all of it has been dirty, and it was counted as given back.
    pub(super) const fn is_retired(self) -> bool {
        self.0 & Self::RETIRED != 0
    }

    const fn retired(self) -> Self {
        Self(self.0 | Self::RETIRED)
    }

    const fn empty(self, empty: bool) -> Self {
        Self(self.0 & !Self::EMPTY | if empty { Self::EMPTY } else { 0 })
    }
}

impl Span<'_, '_> {
    #[inline(always)]
    pub(in super::super) fn room(self) -> BlockRoom {
        BlockRoom::from_word(self.listed())
    }

    #[inline(always)]
    pub(super) fn set_room(self, room: BlockRoom) {
        self.set_listed(room.word());
    }
}

/// The slot that serves a request for so many pages, at least one: the next power of two.
#[inline(always)]
pub(in super::super) const fn slot_of(pages: u32) -> u32 {
    // By a logarithm of what is never 0: a processor has an instruction for that.
    1 << ((2 * pages - 1) | 1).ilog2()
}

impl<'s, 'm, P: RangePlatform> Held<'s, 'm, P> {
    /// Cuts a slot from the run of the first block in the list. Returns its block, and its place there.
    #[inline(always)]
    pub(in super::super) fn cut_first(&self, slot: u32) -> Option<(Span<'s, 'm>, u32)> {
        let number = self.words.block_head.link()?;
        let span = self.span(number);
        let room = span.room();
        if room.cursor() + slot > room.end() {
            return None;
        }
        span.set_room(room.cut(slot));
        Some((span, room.cursor()))
    }

    /// Cuts a slot from one of the first few blocks in the list.
    pub(in super::super) fn cut_near(&self, slot: u32) -> Option<u32> {
        self.cut_listed(slot, LOOKS)
    }

    /// Makes a slot in one of the seat's blocks live.
    pub(in super::super) fn finish_ram(&self, at: u32, pages: u32) {
        let (number, place) = self.space.spans.place(at);
        self.finish_slot(self.span(number), place, pages);
    }

    /// The same by its span and its place there. Returns its first page.
    #[inline(always)]
    pub(in super::super) fn finish_slot(&self, span: Span<'_, '_>, place: u32, pages: u32) -> u32 {
        let header = AreaHeader::live(AreaKind::Ram, pages, 0);
        let at = self.space.spans.first(span.number()) + place;
        self.space.table.set_header(at, header);
        span.set_start(place);
        self.words.counters.map_ram.add(1);
        self.words.live.add(u64::from(pages));
        at
    }

    /// Cuts a slot from the first block in the list that has it, looking at `most` of them.
    #[inline(never)]
    fn cut_listed(&self, slot: u32, most: usize) -> Option<u32> {
        let mut next = self.words.block_head.link();
        let mut tries = most;
        while let Some(number) = next
            && tries > 0
        {
            let span = self.span(number);
            next = span.next();
            tries -= 1;
            if let Some(place) = self.cut_from(number, slot) {
                return Some(self.space.spans.first(number) + place);
            }
        }
        None
    }

    /// Cuts a slot from a listed block. The block leaves the list if it has no room left.
    fn cut_from(&self, number: u32, slot: u32) -> Option<u32> {
        let span = self.span(number);
        let mut room = span.room();
        if room.cursor() + slot > room.end() {
            let recycle = self.space.config.recycle;
            let has_more = || recycle && bits::has_any(span.bits(SpanBits::Free));
            if room.cursor() == room.end() && !has_more() {
                self.unlist_block(number);
                return None;
            }
            if !recycle {
                return None;
            }
            room = self.find_run(span, room, slot)?;
        }
        span.set_room(room.cut(slot));
        Some(room.cursor())
    }

    /// Finds another run for a block, of at least `slot` pages. The rest of the old one becomes
    /// free pages. `None` if there is no such run; the block remembers that for the next time.
    fn find_run(&self, span: Span<'_, '_>, room: BlockRoom, slot: u32) -> Option<BlockRoom> {
        let (cursor, end) = (room.cursor(), room.end());
        if slot > room.third() && cursor == end {
            return None;
        }
        let free = span.bits(SpanBits::Free);
        bits::set(free, cursor, end - cursor);
        // The search has seen the pages before the run, so it goes on behind them.
        let from = cursor % self.space.spans.pages();
        let found = bits::find(free, from, slot, 1).or_else(|| bits::find(free, 0, slot, 1));
        let Some((at, stop)) = found else {
            span.set_room(room.with_run(cursor, cursor).with_third(slot - 1));
            return None;
        };
        bits::clear(free, at, stop - at);
        if room.is_empty() {
            self.words.block_empties.sub(1);
        }
        // The rest of the old run may have joined with free pages beside it.
        let most = self.space.spans.pages();
        Some(room.with_run(at, stop).with_third(most).empty(false))
    }

    /// A slot from the list or from a new block, counting pages that have become free in the
    /// meantime. If the arena has no block left, searches the whole list: O(blocks of this CPU).
    pub(in super::super) fn cut_slot(
        &self,
        slot: u32,
        frames: &mut impl FrameSource,
    ) -> Option<u32> {
        let recycle = self.space.config.recycle;
        let most = if recycle { TRIES } else { usize::MAX };
        for _ in 0..RELEASES {
            if let Some(at) = self.cut_listed(slot, most) {
                return Some(at);
            }
            if !self.release_span(&mut ReleasePart::keeping(frames), frames) {
                break;
            }
        }
        self.cut_listed(slot, most)
            .or_else(|| self.cut_from_new(slot))
            .or_else(|| self.cut_listed(slot, usize::MAX))
    }

    /// Takes a block from the arena, and a slot from it.
    fn cut_from_new(&self, slot: u32) -> Option<u32> {
        let pages = self.space.spans.pages();
        let wanted = WantedGap::new(pages, u64::from(pages))?;
        let takes = &self.words.counters.block_takes;
        let first = self.space.cut(self.words, &wanted, Some(takes))?;
        Some(self.begin_block(first, slot))
    }

    /// Turns a piece of the arena into a block, which at once serves the request that it was made
    /// for. The cut has counted it.
    pub(in super::super) fn begin_block(&self, first: u32, slot: u32) -> u32 {
        let (number, _) = self.space.spans.place(first);
        let span = self.span(number);
        let pages = self.space.spans.pages();
        span.set_owner(SpanOwner::Block(self.cpu));
        span.set_room(BlockRoom::default().with_run(slot, pages));
        self.list_block(number);
        first
    }

    /// Puts a block into the list, at the end that the policy says.
    pub(super) fn list_block(&self, number: u32) {
        let span = self.span(number);
        debug_assert!(!span.room().is_listed(), "a block is listed once");
        let newest_first = self.space.config.newest_first;
        let (near, far) = if newest_first {
            (&self.words.block_head, &self.words.block_tail)
        } else {
            (&self.words.block_tail, &self.words.block_head)
        };
        let beside = near.link();
        let (prev, next): (SpanLink, SpanLink) = if newest_first {
            (None, beside)
        } else {
            (beside, None)
        };
        span.set_prev(prev);
        span.set_next(next);
        match beside {
            None => far.set_link(Some(number)),
            Some(beside) if newest_first => self.span(beside).set_prev(Some(number)),
            Some(beside) => self.span(beside).set_next(Some(number)),
        }
        near.set_link(Some(number));
        span.set_room(span.room().listed(true));
    }

    /// Takes a block out of the list.
    fn unlist_block(&self, number: u32) {
        let span = self.span(number);
        let (prev, next) = (span.prev(), span.next());
        match prev {
            Some(prev) => self.span(prev).set_next(next),
            None => self.words.block_head.set_link(next),
        }
        match next {
            Some(next) => self.span(next).set_prev(prev),
            None => self.words.block_tail.set_link(prev),
        }
        span.set_room(span.room().listed(false));
    }

    /// Removes all blocks from the list; the caller lists them anew.
    pub(in super::super) fn forget_blocks(&self) {
        self.words.block_head.set_link(None);
        self.words.block_tail.set_link(None);
        self.words.block_empties.set(0);
    }

    /// Counts `pages` pages of a block that have become lazy.
    #[inline(always)]
    pub(in super::super) fn soil(&self, span: Span<'_, '_>, pages: u32) {
        if self.space.config.recycle {
            return;
        }
        let mut room = span.room().with_more(pages);
        if room.third() == self.space.spans.pages() && !room.is_retired() {
            // The purge and the flush that it still needs concern only the arena.
            self.words.counters.block_returns.add(1);
            room = room.retired();
        }
        span.set_room(room);
    }

    /// Counts lazy pages of a span as not yet collected again.
    pub(in super::super) fn unsoil(&self, span: Span<'_, '_>, pages: u32) {
        if !self.space.config.recycle && matches!(span.owner(), SpanOwner::Block(_)) {
            let room = span.room();
            span.set_room(room.with_third(room.third() - pages));
        }
    }

    /// Handles the pages of a block whose generation has passed. With recycling, its bitmap of free
    /// pages has them already.
    pub(in super::super) fn block_released(&self, number: u32) {
        let span = self.span(number);
        let room = span.room();
        let pages = self.space.spans.pages();
        if !self.space.config.recycle {
            if room.third() == pages && span.lazy().pages == 0 {
                self.return_block(number);
            }
            return;
        }
        // Free pages may have joined into a run that is longer than any before.
        let room = room.with_third(pages);
        span.set_room(room);
        let free = span.bits(SpanBits::Free);
        if bits::count(free) + room.end() - room.cursor() < pages {
            if !room.is_listed() {
                self.list_block(number);
            }
            return;
        }
        if self.words.block_empties.get() >= self.space.empties_max {
            self.return_block(number);
            return;
        }
        bits::set(free, 0, pages);
        span.set_room(room.with_run(0, 0).empty(true));
        self.words.block_empties.add(1);
        if !room.is_listed() {
            self.list_block(number);
        }
    }

    /// Gives a slot without any mapping back to its block.
    pub(in super::super) fn return_slot(&self, number: u32, place: u32, slot: u32) {
        let span = self.span(number);
        let room = span.room();
        let pages = self.space.spans.pages();
        if room.cursor() == place + slot {
            span.set_room(room.with_run(place, room.end()));
        } else if self.space.config.recycle {
            bits::set(span.bits(SpanBits::Free), place, slot);
        } else if room.third() + slot == pages && span.is_clean() {
            return self.return_block(number);
        } else {
            return self.soil(span, slot);
        }
        if self.space.config.recycle {
            // It may be entirely free now.
            self.block_released(number);
        } else if !room.is_listed() {
            self.list_block(number);
        }
    }

    /// Gives a block with no slot in use back to the arena.
    fn return_block(&self, number: u32) {
        let span = self.span(number);
        if span.room().is_listed() {
            self.unlist_block(number);
        }
        let pages = self.space.spans.pages();
        let is_counted = span.room().is_retired();
        bits::clear(span.bits(SpanBits::Free), 0, pages);
        span.set_room(BlockRoom::default());
        span.set_owner(SpanOwner::Arena);
        let first = self.space.spans.first(number);
        self.space
            .give(self.words, core::iter::once((first, pages)));
        if !is_counted {
            // Only now: a CPU that sees the count finds the block in the arena.
            self.words.counters.block_returns.add(1);
        }
    }

    /// Gives all blocks of the list that are entirely free back to the arena. O(blocks of this CPU), if there are such.
    pub(super) fn return_empty_blocks(&self) {
        let mut next = self.words.block_head.link();
        while self.words.block_empties.get() != 0
            && let Some(number) = next
        {
            let span = self.span(number);
            next = span.next();
            if span.room().is_empty() {
                self.words.block_empties.sub(1);
                self.return_block(number);
            }
        }
    }

    /// Whether a block is to be dissolved; then its free pages are in its bitmap. If not, lists it
    /// again. For use with all CPUs stopped, everything purged and flushed, and no list valid.
    pub(in super::super) fn dissolve_or_list(&self, number: u32) -> bool {
        let span = self.span(number);
        let pages = self.space.spans.pages();
        let room = span.room().listed(false).empty(false);
        let rests = span.is_clean();
        // When space is short, Linux gives a block back only if no slot of it is in use.
        let live = span
            .bits(SpanBits::Starts)
            .iter()
            .any(|word| word.load(Relaxed) != 0);
        if !rests || live && !self.space.config.recycle {
            span.set_room(room);
            let more = self.space.config.recycle && bits::has_any(span.bits(SpanBits::Free));
            if room.cursor() < room.end() || more {
                self.list_block(number);
            }
            return false;
        }
        if !room.is_retired() {
            self.words.counters.block_returns.add(1);
        }
        let free = span.bits(SpanBits::Free);
        bits::set(free, 0, pages);
        let first = self.space.spans.first(number);
        for (start, end) in bits::runs(span.bits(SpanBits::Starts), 0) {
            for place in start..end {
                bits::clear(free, place, self.header(first + place).pages());
            }
        }
        true
    }
}
