//! A span's record: its owner, its five bitmaps, and its places in its owner's lists.
//!
//! ```text
//!     line 0       owner, covering area, frames   read by all CPUs, rarely written
//!     line 1       links, counts, stamp           the owner's
//!     line 2       pending, inbox link            other CPUs that free, and the owner
//!     bitmaps      free, starts, lazy, waiting    the owner's; starts and lazy of an arena's span: atomic
//!                  sent                           other CPUs that free, and the owner
//! ```
//!
//! Zeroed words are a span of the arena in which no area starts.

use super::bits;
use crate::raw::record;
use crate::seats::Parcel;
use crate::slots::ones_at;
use crate::sync::{AtomicU64, Ordering::Relaxed};

record! {
    /// A span's record but for its bitmaps: three cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct SpanRecord {
        // All CPUs read the first line when they free; it is written as the span changes hands.
        owner: AtomicU64,
        /// The first page of the arena's area that covers the span's first page, as a link.
        covers: AtomicU64,
        /// Whether areas of the span may have frames of the space's.
        frames: AtomicU64,
        _first: [AtomicU64; 5],

        // The second one is the owner's.
        next: AtomicU64,
        prev: AtomicU64,
        /// The list that it is in, and its longest run; of a vmap block, its room.
        listed: AtomicU64,
        lazy_next: AtomicU64,
        waiting_next: AtomicU64,
        lazy: AtomicU64,
        waiting: AtomicU64,
        stamp: AtomicU64,

        // other CPUs that free write the third one, and the owner when it collects.
        pending: AtomicU64,
        inbox_next: AtomicU64,
        _third: [AtomicU64; 6],
    } = 24 words, next at 8, pending at 16;
}

/// The owner of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum SpanOwner {
    /// No CPU: its pages are gaps and areas of the arena.
    Arena,
    /// A CPU, for small areas.
    Areas(u16),
    /// A CPU, as a vmap block.
    Block(u16),
}

impl SpanOwner {
    const fn encode(self) -> u64 {
        match self {
            Self::Arena => 0,
            Self::Areas(cpu) => (cpu as u64 + 1) << 1,
            Self::Block(cpu) => (cpu as u64 + 1) << 1 | 1,
        }
    }

    const fn decode(word: u64) -> Self {
        match (word >> 1, word & 1) {
            (0, _) => Self::Arena,
            (cpu, 0) => Self::Areas(cpu as u16 - 1),
            (cpu, _) => Self::Block(cpu as u16 - 1),
        }
    }

    /// The CPU that has it, if one does.
    pub(in super::super) const fn cpu(self) -> Option<u16> {
        match self {
            Self::Arena => None,
            Self::Areas(cpu) | Self::Block(cpu) => Some(cpu),
        }
    }
}

/// The meanings of a span's bitmaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum SpanBits {
    /// Free, and not in the bump.
    Free,
    /// An area starts here, live, kept, lazy or waiting.
    Starts,
    /// Freed; still mapped, or unmapped by a strict free. In a span of the arena's, where no page is marked so, the bit says
    /// of the start of an area that the page before it is its guard, too.
    Lazy,
    /// Unmapped; free as soon as the span's stamp has passed.
    Waiting,
}

/// Free, starts, lazy, waiting, sent.
const BITMAPS: usize = 5;

/// How many bits of a bitmap are set, and in which of its words, so that a purge need not look at
/// the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in super::super) struct Marked {
    pub(in super::super) pages: u32,
    /// One bit for each word; if it is clear, no bit of the word is set.
    pub(in super::super) words: u32,
    /// Whether some of the pages may be mapped; only of lazy ones.
    pub(in super::super) is_mapped: bool,
}

impl Marked {
    /// A span has at most 1024 pages.
    const MAPPED: u64 = 1 << 31;

    #[inline(always)]
    const fn decode(word: u64) -> Self {
        Self {
            pages: (word & (Self::MAPPED - 1)) as u32,
            words: (word >> 32) as u32,
            is_mapped: word & Self::MAPPED != 0,
        }
    }

    #[inline(always)]
    const fn encode(self) -> u64 {
        let mapped = if self.is_mapped { Self::MAPPED } else { 0 };
        (self.words as u64) << 32 | mapped | self.pages as u64
    }

    /// The same with `pages` more pages, in these words.
    #[inline(always)]
    pub(in super::super) const fn with(self, pages: u32, words: u32) -> Self {
        Self {
            pages: self.pages + pages,
            words: self.words | words,
            ..self
        }
    }

    /// The same without these bits of a word, which are all that it had if `is_all`.
    pub(in super::super) const fn without(self, bits: u64, word: usize, is_all: bool) -> Self {
        Self {
            pages: self.pages - bits.count_ones(),
            words: self.words & !((is_all as u32) << word),
            ..self
        }
    }
}

/// A link to a span: its number plus one, so that zero means no link.
pub(in super::super) type SpanLink = Option<u32>;

const fn link(word: u64) -> SpanLink {
    (word as u32).checked_sub(1)
}

const fn word_of(link: SpanLink) -> u64 {
    match link {
        Some(span) => span as u64 + 1,
        None => 0,
    }
}

/// All records of a window.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Spans<'m> {
    records: &'m [SpanRecord],
    bitmaps: &'m [AtomicU64],
    /// Words of a span's bitmaps, and of one of them.
    all_words: usize,
    bitmap_words: usize,
    shift: u32,
    /// The bits of a page's place in its span.
    places: u32,
}

impl<'m> Spans<'m> {
    pub(in super::super) fn new(
        records: &'m [SpanRecord],
        bitmaps: &'m [AtomicU64],
        shift: u32,
    ) -> Self {
        Self {
            records,
            bitmaps,
            all_words: Self::bitmaps_words(shift),
            bitmap_words: Self::bitmap_words(shift),
            shift,
            places: (1 << shift) - 1,
        }
    }

    /// Words of one bitmap over a span of `1 << shift` pages.
    const fn bitmap_words(shift: u32) -> usize {
        (1usize << shift).div_ceil(64)
    }

    /// Words of all bitmaps of such a span, in whole cache lines: spans of different owners share none.
    pub(in super::super) const fn bitmaps_words(shift: u32) -> usize {
        (BITMAPS * Self::bitmap_words(shift)).next_multiple_of(8)
    }

    /// The pages of a span.
    #[inline(always)]
    pub(in super::super) const fn pages(self) -> u32 {
        1 << self.shift
    }

    /// The span of a page, and the page's place in it.
    #[inline(always)]
    pub(in super::super) const fn place(self, page: u32) -> (u32, u32) {
        (page >> self.shift, page & self.places)
    }

    /// The first page of a span.
    #[inline(always)]
    pub(in super::super) const fn first(self, span: u32) -> u32 {
        span << self.shift
    }

    /// The record of a span.
    #[inline(always)]
    pub(in super::super) fn get(&self, span: u32) -> Span<'_, 'm> {
        Span {
            number: span,
            record: &self.records[span as usize],
            start: span as usize * self.all_words,
            spans: self,
        }
    }
}

/// One span's record.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Span<'s, 'm> {
    number: u32,
    record: &'m SpanRecord,
    /// Where its bitmaps begin.
    start: usize,
    /// All of them, with the bitmaps of each.
    spans: &'s Spans<'m>,
}

/// A place in a span, and the word with its bit in the span's first bitmap.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SpanPlace {
    at: u32,
    word: usize,
}

impl<'m> Span<'_, 'm> {
    #[inline(always)]
    pub(in super::super) const fn number(self) -> u32 {
        self.number
    }

    /// Relaxed is enough. A CPU that frees an area was given it after its span was handed over, and
    /// until then the span is handed over only with all CPUs stopped. The arena's lock orders the
    /// record for the next owner. A CPU that collects what was sent sees in a bit the owner that
    /// the bit's sender saw, or a later one.
    #[inline(always)]
    pub(in super::super) fn owner(self) -> SpanOwner {
        SpanOwner::decode(self.record.owner.load(Relaxed))
    }

    #[inline(always)]
    pub(in super::super) fn is_owned_as(self, owner: SpanOwner) -> bool {
        self.record.owner.load(Relaxed) == owner.encode()
    }

    /// Hands the span over.
    pub(in super::super) fn set_owner(self, owner: SpanOwner) {
        self.record.owner.store(owner.encode(), Relaxed);
    }

    /// The first page of the arena's area that covers the span's first page and starts before it.
    /// May be out of date, but is never wrong about an area that exists.
    pub(in super::super) fn covers(self) -> SpanLink {
        link(self.record.covers.load(Relaxed))
    }

    pub(in super::super) fn set_covers(self, page: u32) {
        self.record.covers.store(word_of(Some(page)), Relaxed);
    }

    /// Whether areas of the span may have frames of the space's.
    #[inline(always)]
    pub(in super::super) fn may_have_frames(self) -> bool {
        self.record.frames.load(Relaxed) != 0
    }

    /// Records whether areas of the span may have frames. For the owner.
    #[inline(always)]
    pub(in super::super) fn set_frames(self, may_have: bool) {
        self.record.frames.store(u64::from(may_have), Relaxed);
    }

    #[inline(always)]
    pub(in super::super) fn bits(self, which: SpanBits) -> &'m [AtomicU64] {
        self.bitmap(which as usize)
    }

    #[inline(always)]
    fn bitmap(self, nth: usize) -> &'m [AtomicU64] {
        let words = self.spans.bitmap_words;
        &self.spans.bitmaps[self.start + nth * words..][..words]
    }

    /// A place in the span, for several looks at its bits.
    #[inline(always)]
    pub(in super::super) fn at(self, at: u32) -> SpanPlace {
        let word = (at / 64) as usize;
        debug_assert!(word < self.spans.bitmap_words, "a place in the span");
        let word = self.start + word;
        SpanPlace { at, word }
    }

    /// The word of a bitmap with the bit of a place.
    #[inline(always)]
    fn word_of(self, which: SpanBits, place: SpanPlace) -> &'m AtomicU64 {
        &self.spans.bitmaps[place.word + which as usize * self.spans.bitmap_words]
    }

    /// Sets the bits of a range, which lies in one word mostly. Returns in which words, as [`bits::summary_of`].
    #[inline(always)]
    pub(in super::super) fn mark(self, which: SpanBits, start: SpanPlace, len: u32) -> u32 {
        let at = start.at;
        if at % 64 + len > 64 {
            return set_in_words(self.bits(which), at, len);
        }
        let word = self.word_of(which, start);
        word.store(word.load(Relaxed) | ones_at(at % 64, len), Relaxed);
        1 << (at / 64)
    }

    /// The starts of areas that other CPUs freed, and that the owner has not yet
    /// collected.
    #[inline(always)]
    pub(in super::super) fn sent(self) -> &'m [AtomicU64] {
        self.bitmap(SpanBits::Waiting as usize + 1)
    }

    /// Whether an area starts at that place.
    #[inline(always)]
    pub(in super::super) fn starts_at(self, at: u32) -> bool {
        self.has_start(self.at(at))
    }

    #[inline(always)]
    pub(in super::super) fn has_start(self, place: SpanPlace) -> bool {
        self.word_of(SpanBits::Starts, place).load(Relaxed) >> (place.at % 64) & 1 != 0
    }

    /// Records that an area starts at that place. For the owner.
    #[inline(always)]
    pub(in super::super) fn set_start(self, at: u32) {
        let word = self.word_of(SpanBits::Starts, self.at(at));
        word.store(word.load(Relaxed) | 1 << (at % 64), Relaxed);
    }

    /// The nearest place at or before `at` where an area starts.
    pub(in super::super) fn start_before(self, at: u32) -> Option<u32> {
        bits::last_set_to(self.bits(SpanBits::Starts), at)
    }

    /// The lazy pages of the span.
    #[inline(always)]
    pub(in super::super) fn lazy(self) -> Marked {
        Marked::decode(self.record.lazy.load(Relaxed))
    }

    /// Adds lazy pages in these words. Returns whether they are the first ones.
    #[inline(always)]
    pub(in super::super) fn add_lazy(self, pages: u32, words: u32, is_mapped: bool) -> bool {
        let before = self.record.lazy.load(Relaxed);
        let more = Marked {
            pages: 0,
            words,
            is_mapped,
        };
        let now = (before | more.encode()) + u64::from(pages);
        self.record.lazy.store(now, Relaxed);
        before & (Marked::MAPPED - 1) == 0
    }

    #[inline(always)]
    pub(in super::super) fn set_lazy(self, lazy: Marked) {
        self.record.lazy.store(lazy.encode(), Relaxed);
    }

    /// The waiting pages of the span.
    #[inline(always)]
    pub(in super::super) fn waiting(self) -> Marked {
        Marked::decode(self.record.waiting.load(Relaxed))
    }

    #[inline(always)]
    pub(in super::super) fn set_waiting(self, waiting: Marked) {
        self.record.waiting.store(waiting.encode(), Relaxed);
    }

    /// Whether no page of the span is lazy or waits.
    pub(in super::super) fn is_clean(self) -> bool {
        self.lazy().pages == 0 && self.waiting().pages == 0
    }

    /// The generation that frees the waiting pages.
    pub(in super::super) fn stamp(self) -> u64 {
        self.record.stamp.load(Relaxed)
    }

    pub(in super::super) fn set_stamp(self, stamp: u64) {
        self.record.stamp.store(stamp, Relaxed);
    }

    /// The number of the owner's list that it is in, plus one, and its longest run; zero if it is
    /// in no list.
    pub(in super::super) fn listed(self) -> u64 {
        self.record.listed.load(Relaxed)
    }

    pub(in super::super) fn set_listed(self, listed: u64) {
        self.record.listed.store(listed, Relaxed);
    }

    pub(in super::super) fn next(self) -> SpanLink {
        link(self.record.next.load(Relaxed))
    }

    pub(in super::super) fn set_next(self, next: SpanLink) {
        self.record.next.store(word_of(next), Relaxed);
    }

    pub(in super::super) fn prev(self) -> SpanLink {
        link(self.record.prev.load(Relaxed))
    }

    pub(in super::super) fn set_prev(self, prev: SpanLink) {
        self.record.prev.store(word_of(prev), Relaxed);
    }

    pub(in super::super) fn lazy_next(self) -> SpanLink {
        link(self.record.lazy_next.load(Relaxed))
    }

    pub(in super::super) fn set_lazy_next(self, next: SpanLink) {
        self.record.lazy_next.store(word_of(next), Relaxed);
    }

    pub(in super::super) fn waiting_next(self) -> SpanLink {
        link(self.record.waiting_next.load(Relaxed))
    }

    pub(in super::super) fn set_waiting_next(self, next: SpanLink) {
        self.record.waiting_next.store(word_of(next), Relaxed);
    }

    /// As what a seat is sent that owns the span.
    #[inline(always)]
    pub(in super::super) fn parcel(self) -> Parcel<'m> {
        Parcel {
            pending: &self.record.pending,
            next: &self.record.inbox_next,
        }
    }
}

/// Sets the bits of a range that lies in several words.
#[inline(never)]
fn set_in_words(words: &[AtomicU64], start: u32, len: u32) -> u32 {
    bits::set(words, start, len);
    bits::summary_of(start, len)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_as_it_was_written() {
        for owner in [
            SpanOwner::Arena,
            SpanOwner::Areas(0),
            SpanOwner::Block(0),
            SpanOwner::Areas(1022),
            SpanOwner::Block(1022),
        ] {
            assert_eq!(SpanOwner::decode(owner.encode()), owner);
        }
        assert_eq!(SpanOwner::decode(0), SpanOwner::Arena, "a zeroed record");
    }
}
