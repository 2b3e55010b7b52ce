//! A seat's record: the bump, the lists of spans, vmap blocks and areas, and counters. It stands below `seat`, because
//! the space adds up what its seats have.
//!
//! Only its CPU writes a seat, or a CPU that has claimed it, except for the inbox, to which other
//! CPUs push, and the words by which threads take and claim the seat. Other CPUs read what they
//! add up. `unmapped` alone orders something: a page that is counted there is unmapped.

use super::super::areas::{AreaTable, Kept, KeptRecord};
use super::super::span::SpanLink;
use super::super::{AreaKind, Fit};
use crate::raw::record;
use crate::seats::{ClaimWords, Turn};
use crate::sync::{
    AtomicU64, CounterWord,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// The number of lists of spans: by longest run, poor and rich, and the entirely free ones.
pub(in super::super) const LISTS: usize = 23;

record! {
    /// A word of a seat that only its owner writes.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(in super::super) struct OwnWord {
        word: AtomicU64,
    }

    /// The counters of a seat: events since the space was made.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct SpaceCounters {
        pub(in super::super) allocs: CounterWord,
        pub(in super::super) frees: CounterWord,
        pub(in super::super) remote_frees: CounterWord,
        pub(in super::super) failures: CounterWord,
        pub(in super::super) cuts: CounterWord,
        pub(in super::super) gives: CounterWord,
        pub(in super::super) span_takes: CounterWord,
        pub(in super::super) span_returns: CounterWord,
        pub(in super::super) dissolves: CounterWord,
        pub(in super::super) block_takes: CounterWord,
        pub(in super::super) block_returns: CounterWord,
        pub(in super::super) map_ram: CounterWord,
        pub(in super::super) unmap_ram: CounterWord,
        pub(in super::super) purges: CounterWord,
        pub(in super::super) unmaps: CounterWord,
        pub(in super::super) unmap_failures: CounterWord,
        pub(in super::super) flushes: CounterWord,
        pub(in super::super) claims: CounterWord,
        pub(in super::super) drains: CounterWord,
        pub(in super::super) fit_full: CounterWord,
        pub(in super::super) fit_left: CounterWord,
        pub(in super::super) fit_right: CounterWord,
        pub(in super::super) fit_none: CounterWord,
        /// Requests that a kept area served.
        pub(in super::super) kept_takes: CounterWord,
        /// Kept areas that became lazy. The seat counted them as freed when it kept them.
        pub(in super::super) evictions: CounterWord,
        /// Takings of the space's list of deferred areas.
        pub(in super::super) gathers: CounterWord,
        /// Areas and slots that a failed call gave back, which do not count as freed.
        pub(in super::super) undone: CounterWord,
        /// Of the pages unmapped, those that wait no longer.
        pub(in super::super) released: CounterWord,
    }

    /// The metadata of one seat, in whole cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct SpaceSeatRecord {
        // The first line is its owner's.
        busy: AtomicU64,
        /// The bump: the next page to hand out, and below the page behind the last one.
        pub(in super::super) cursor: OwnWord,
        pub(in super::super) end: OwnWord,
        /// Pages made lazy that the seat has not yet told the space of.
        pub(in super::super) delta: OwnWord,
        /// Lazy pages that the seat can purge: in its spans, and in its list of the arena's areas.
        pub(in super::super) purgeable: OwnWord,
        /// The span that the bump is in.
        pub(in super::super) current: OwnWord,
        /// How many pages the seat may not have told of before it looks whether to purge some.
        pub(in super::super) look: OwnWord,
        /// Pages of areas allocated, less those of areas freed; wraps.
        pub(in super::super) live: OwnWord,

        // Other CPUs write the second line.
        pub(in super::super) claims: ClaimWords,
        /// Lazy pages unmapped. The owner writes it too, but rarely, and every CPU that flushes reads it.
        unmapped: AtomicU64,
        /// Deferred areas that the owner has taken off the space's list, the first of them. It writes this rarely, too.
        pub(in super::super) deferred: OwnWord,
        _others: [AtomicU64; 4],

        // Other CPUs push here.
        /// The spans in which other CPUs freed areas, as a list of numbers plus one.
        pub(in super::super) inbox: AtomicU64,
        _pushed: [AtomicU64; 7],

        // The owner's.
        /// Which lists are not empty.
        pub(in super::super) mask: OwnWord,
        pub(in super::super) lazy_head: OwnWord,
        pub(in super::super) lazy_tail: OwnWord,
        pub(in super::super) wait_head: OwnWord,
        pub(in super::super) wait_tail: OwnWord,
        /// How many spans are entirely free.
        pub(in super::super) empties: OwnWord,
        /// The arena's areas that this seat freed: those that a pass is to unmap, and those that wait for a flush.
        pub(in super::super) areas_lazy: OwnWord,
        pub(in super::super) areas_wait: OwnWord,
        /// The generation whose flush makes all waiting areas free.
        pub(in super::super) areas_stamp: OwnWord,
        /// The list of vmap blocks with room.
        pub(in super::super) block_head: OwnWord,
        pub(in super::super) block_tail: OwnWord,
        /// How many of them are entirely free.
        pub(in super::super) block_empties: OwnWord,
        /// No run of the current span's free pages is longer.
        pub(in super::super) most: OwnWord,
        /// Lazy areas of the arena that the platform failed to unmap, until the seat has tried all others.
        pub(in super::super) areas_failed: OwnWord,
        /// An upper bound on the purgeable pages that the last full attempt could not unmap.
        pub(in super::super) stuck: OwnWord,
        /// Areas of the arena that have waited: the generation that they waited for has passed.
        pub(in super::super) areas_ready: OwnWord,
        /// The lists of spans.
        heads: [OwnWord; LISTS],
        /// The last one of the areas that wait for a flush.
        pub(in super::super) areas_wait_last: OwnWord,
        pub(in super::super) counters: SpaceCounters,

        // The owner's, and CPUs that look for areas on their way read it.
        /// How many [moves](Moving) have begun, and how many have ended.
        moves_begun: AtomicU64,
        moves_ended: AtomicU64,
        /// A kept area that the owner has taken out of the lists to make it lazy. A CPU that stops all others may
        /// do that first.
        pub(in super::super) evicting: OwnWord,
        /// Lazy pages that a call has reported and that are not lazy yet, while it is out of the seat.
        pub(in super::super) promised: OwnWord,
        /// Pages above the bound that are lazy only until the free of their area has purged them.
        pub(in super::super) above: OwnWord,
        /// Lazy pages that the holder has reported and that are not lazy yet, while it is in the seat.
        pub(in super::super) reported: OwnWord,
        /// Odd while the holder [changes several counts](Counting) of lazy pages.
        countings: AtomicU64,
        /// An area some of whose frames have gone back, plus one, and in the high half the first page that may still
        /// have one; so the next part need not look at those before.
        pub(in super::super) given: OwnWord,
        /// The lists of kept areas.
        kept: KeptRecord,
    } = 240 words, claims at 8, inbox at 16, mask at 24, heads at 40, counters at 64, moves_begun at 96, kept at 104;
}

impl SpaceCounters {
    /// The counter of allocations of that kind.
    pub(in super::super) const fn allocs_of(&self, kind: AreaKind) -> &CounterWord {
        match kind {
            AreaKind::Plain | AreaKind::Vmalloc => &self.allocs,
            AreaKind::Ram => &self.map_ram,
        }
    }

    /// The counter of cuts of the arena that took that part of their gap.
    pub(super) const fn cuts_of(&self, fit: Fit) -> &CounterWord {
        match fit {
            Fit::Full => &self.fit_full,
            Fit::LeftEdge => &self.fit_left,
            Fit::RightEdge => &self.fit_right,
            Fit::NoEdge => &self.fit_none,
        }
    }

    /// Uncounts a call of `map_ram` that has failed, and the free of its slot.
    pub(in super::super) fn count_part_undone(&self) {
        self.undone.add(2);
        self.map_ram.add(1u64.wrapping_neg());
        self.unmap_ram.add(1u64.wrapping_neg());
    }
}

impl OwnWord {
    #[inline(always)]
    pub(in super::super) fn get(&self) -> u64 {
        self.word.load(Relaxed)
    }

    #[inline(always)]
    pub(in super::super) fn set(&self, value: u64) {
        self.word.store(value, Relaxed);
    }

    #[inline(always)]
    pub(in super::super) fn page(&self) -> u32 {
        self.get() as u32
    }

    pub(in super::super) fn link(&self) -> SpanLink {
        self.page().checked_sub(1)
    }

    pub(in super::super) fn set_link(&self, link: SpanLink) {
        self.set(link.map_or(0, |at| u64::from(at) + 1));
    }

    #[inline(always)]
    pub(in super::super) fn add(&self, by: u64) {
        self.set(self.get().wrapping_add(by));
    }

    #[inline(always)]
    pub(in super::super) fn sub(&self, by: u64) {
        self.set(self.get().wrapping_sub(by));
    }
}

impl SpaceSeatRecord {
    #[inline(always)]
    pub(in super::super) const fn turn(&self) -> Turn<'_> {
        Turn::new(&self.busy, &self.claims)
    }

    /// The lists of kept areas.
    #[inline(always)]
    pub(in super::super) const fn kept<'m>(&'m self, table: AreaTable<'m>) -> Kept<'m> {
        Kept::new(&self.kept, table)
    }

    /// Lazy pages unmapped since the space was made. A page that the caller sees counted is unmapped.
    pub(in super::super) fn unmapped(&self) -> u64 {
        // Acquire pairs with the Release in `add_unmapped`.
        self.unmapped.load(Acquire)
    }

    pub(in super::super) fn add_unmapped(&self, pages: u64) {
        let word = &self.unmapped;
        word.store(word.load(Relaxed) + pages, Release);
    }

    /// Pages that are unmapped and that wait: for a flush, or to be released after it.
    pub(in super::super) fn waiting(&self) -> u64 {
        let released = self.counters.released.read();
        self.unmapped.load(Relaxed).wrapping_sub(released)
    }

    /// From here until the result is dropped, this seat's holder moves freed areas between lists, or their frames
    /// to the source: another CPU may see them in neither place.
    pub(in super::super) fn moving(&self) -> Moving<'_> {
        let begun = &self.moves_begun;
        begun.store(begun.load(Relaxed) + 1, Relaxed);
        // A CPU that sees a list without the area sees also that the move has begun.
        fence(Release);
        Moving(self)
    }

    /// Whether deferred areas are on their way in the seat.
    pub(in super::super) fn defers(&self) -> bool {
        self.deferred.link().is_some() || self.evicting.link().is_some()
    }

    pub(super) fn moves_begun(&self) -> u64 {
        self.moves_begun.load(Relaxed)
    }

    pub(super) fn moves_ended(&self) -> u64 {
        // Acquire pairs with the Release at the end of a move: the caller sees what was moved in its new place.
        self.moves_ended.load(Acquire)
    }

    /// From here until the result is dropped, the seat's holder changes several counts of lazy pages, and another
    /// CPU that reads them reads them again later. Nothing is called meanwhile.
    pub(in super::super) fn counting(&self) -> Counting<'_> {
        let countings = &self.countings;
        countings.store(countings.load(Relaxed) + 1, Relaxed);
        // A CPU that sees one of the changes sees also that they have begun.
        fence(Release);
        Counting(self)
    }

    /// How often a [`Counting`] has begun or ended; odd within one. Acquire pairs with the Release at its end.
    pub(in super::super) fn countings(&self) -> u64 {
        self.countings.load(Acquire)
    }

    /// The pages counted by [`reported`](Self::reported) are lazy now, or are no longer reported.
    pub(in super::super) fn settle(&self) {
        if self.reported.get() != 0 {
            // A CPU that sees the zero sees how they were settled.
            fence(Release);
            self.reported.set(0);
        }
    }

    /// The call leaves its seat before what it has reported is lazy.
    pub(in super::super) fn promise_reported(&self) {
        let _counting = self.counting();
        self.promised.set(self.reported.get());
        self.reported.set(0);
    }

    /// The call is in its seat again.
    pub(in super::super) fn report_promised(&self) {
        let _counting = self.counting();
        self.reported.set(self.promised.get());
        self.promised.set(0);
    }

    /// Lazy pages that the space's sum does not have yet, less those that it has although they are not lazy yet, or
    /// only until a call returns; wraps.
    pub(in super::super) fn lazy_beside_the_sum(&self) -> u64 {
        let early = self.reported.get() + self.promised.get() + self.above.get();
        self.delta.get().wrapping_sub(early)
    }

    pub(in super::super) fn head(&self, list: usize) -> SpanLink {
        self.heads[list].link()
    }

    pub(in super::super) fn set_head(&self, list: usize, link: SpanLink) {
        self.heads[list].set_link(link);
    }
}

/// See [`SpaceSeatRecord::moving`]. Moves may be nested.
#[must_use = "the move ends when this is dropped"]
pub(in super::super) struct Moving<'m>(&'m SpaceSeatRecord);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let ended = &self.0.moves_ended;
        ended.store(ended.load(Relaxed) + 1, Release);
    }
}

/// See [`SpaceSeatRecord::counting`]. They are never nested.
#[must_use = "the change ends when this is dropped"]
pub(in super::super) struct Counting<'m>(&'m SpaceSeatRecord);

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let countings = &self.0.countings;
        countings.store(countings.load(Relaxed) + 1, Release);
    }
}

/// The sum of a counter over all seats.
pub(in super::super) fn sum<'m>(
    seats: impl Iterator<Item = &'m SpaceSeatRecord>,
    counter: fn(&SpaceCounters) -> &CounterWord,
) -> u64 {
    seats
        .map(|seat| counter(&seat.counters).read())
        .fold(0, u64::wrapping_add)
}

/// The sum, or zero if it is a little below zero for a moment.
pub(in super::super) const fn not_negative(sum: u64) -> u64 {
    if sum > i64::MAX as u64 { 0 } else { sum }
}
