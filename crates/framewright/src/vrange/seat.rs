//! A CPU's seat in a space: the bump, the lists of spans, vmap blocks and areas, and counters.
//!
//! Only its CPU writes a seat, or a CPU that has claimed it, except for the inbox, to which other
//! CPUs push, and the words by which threads take and claim the seat. Other CPUs read what they
//! add up. `unmapped` alone orders something: a page that is counted there is unmapped.
//!
//! `RangeSeat` is the CPU's handle. `Held` is the seat in the hands of the thread that may touch
//! it, whether by its own turn or by a claim, so the same code serves both. No CPU enters a seat of
//! a poisoned space (V11).

use super::Space;
use super::kept::{KEPT_WORDS, Kept};
use super::poison::Poisoned;
use super::span::SpanLink;
use super::table::AreaTable;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::raw::record;
use crate::seats::{ClaimWords, Taken, Turn};
use crate::sync::{
    AtomicU64, CounterWord,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use crate::units::CpuId;

/// The number of lists of spans: by longest run, poor and rich, and the entirely free ones.
pub(super) const LISTS: usize = 23;

record! {
    /// A word of a seat that only its owner writes.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(super) struct OwnWord {
        word: AtomicU64,
    }

    /// The counters of a seat: events since the space was made.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct SpaceCounters {
        pub(super) allocs: CounterWord,
        pub(super) frees: CounterWord,
        pub(super) remote_frees: CounterWord,
        pub(super) failures: CounterWord,
        pub(super) cuts: CounterWord,
        pub(super) gives: CounterWord,
        pub(super) span_takes: CounterWord,
        pub(super) span_returns: CounterWord,
        pub(super) dissolves: CounterWord,
        pub(super) block_takes: CounterWord,
        pub(super) block_returns: CounterWord,
        pub(super) map_ram: CounterWord,
        pub(super) unmap_ram: CounterWord,
        pub(super) purges: CounterWord,
        pub(super) unmaps: CounterWord,
        pub(super) unmap_failures: CounterWord,
        pub(super) flushes: CounterWord,
        pub(super) claims: CounterWord,
        pub(super) drains: CounterWord,
        pub(super) fit_full: CounterWord,
        pub(super) fit_left: CounterWord,
        pub(super) fit_right: CounterWord,
        pub(super) fit_none: CounterWord,
        /// Requests that a kept area served.
        pub(super) kept_takes: CounterWord,
        /// Kept areas that became lazy. The seat counted them as freed when it kept them.
        pub(super) evictions: CounterWord,
        /// Areas and slots that a failed call gave back, which do not count as freed.
        pub(super) undone: CounterWord,
    }

    /// The metadata of one seat, in whole cache lines.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct SpaceSeatRecord {
        // The first line is its owner's.
        busy: AtomicU64,
        /// The bump: the next page to hand out, and below the page behind the last one.
        pub(super) cursor: OwnWord,
        pub(super) end: OwnWord,
        /// Pages made lazy that the seat has not yet told the space of.
        pub(super) delta: OwnWord,
        /// Lazy pages that the seat can purge: in its spans, and in its list of the arena's areas.
        pub(super) purgeable: OwnWord,
        /// The span that the bump is in.
        pub(super) current: OwnWord,
        /// How many pages the seat may not have told of before it looks whether to purge some.
        pub(super) look: OwnWord,
        /// Pages of areas allocated, less those of areas freed; wraps.
        pub(super) live: OwnWord,

        // Other CPUs write the second line.
        claims: ClaimWords,
        /// Lazy pages unmapped. The owner writes it too, but rarely, and every CPU that flushes reads it.
        unmapped: AtomicU64,
        _others: [AtomicU64; 5],

        // Other CPUs push here.
        /// The spans in which other CPUs freed areas, as a list of numbers plus one.
        pub(super) inbox: AtomicU64,
        _pushed: [AtomicU64; 7],

        // The owner's.
        /// Which lists are not empty.
        pub(super) mask: OwnWord,
        pub(super) lazy_head: OwnWord,
        pub(super) lazy_tail: OwnWord,
        pub(super) wait_head: OwnWord,
        pub(super) wait_tail: OwnWord,
        /// How many spans are entirely free.
        pub(super) empties: OwnWord,
        /// The arena's areas that this seat freed: those still mapped, and those that wait for a flush.
        pub(super) areas_lazy: OwnWord,
        pub(super) areas_wait: OwnWord,
        /// The generation whose flush makes all waiting areas free.
        pub(super) areas_stamp: OwnWord,
        /// The list of vmap blocks with room.
        pub(super) block_head: OwnWord,
        pub(super) block_tail: OwnWord,
        /// How many of them are entirely free.
        pub(super) block_empties: OwnWord,
        /// No run of the current span's free pages is longer.
        pub(super) most: OwnWord,
        /// Lazy areas of the arena that the platform failed to unmap, until the seat has tried all others.
        pub(super) areas_failed: OwnWord,
        /// At most so many purgeable pages are ones that the last attempt at all of them could not unmap.
        pub(super) stuck: OwnWord,
        /// Areas of the arena that have waited: the generation that they waited for has passed.
        pub(super) areas_ready: OwnWord,
        /// The lists of spans.
        heads: [OwnWord; LISTS],
        pub(super) counters: SpaceCounters,

        // The owner's, and CPUs that look for areas on their way read it.
        /// How many [moves](Moving) have begun, and how many have ended.
        moves_begun: AtomicU64,
        moves_ended: AtomicU64,
        /// A kept area that the owner has taken out of the lists to make it lazy. A CPU that stops all others may
        /// do that first.
        pub(super) evicting: OwnWord,
        /// Lazy pages that a call has reported and that are not lazy yet, while it is out of the seat.
        pub(super) promised: OwnWord,
        /// Pages above the bound that are lazy only until the free of their area has purged them.
        pub(super) above: OwnWord,
        _moves: [AtomicU64; 3],
        /// The lists of kept areas.
        kept: [AtomicU64; KEPT_WORDS],
    } = 176 words, claims at 8, inbox at 16, mask at 24, heads at 40, counters at 64, moves_begun at 96, kept at 104;
}

impl OwnWord {
    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        self.word.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, value: u64) {
        self.word.store(value, Relaxed);
    }

    #[inline(always)]
    pub(super) fn page(&self) -> u32 {
        self.get() as u32
    }

    pub(super) fn link(&self) -> SpanLink {
        self.page().checked_sub(1)
    }

    pub(super) fn set_link(&self, link: SpanLink) {
        self.set(link.map_or(0, |at| u64::from(at) + 1));
    }

    #[inline(always)]
    pub(super) fn add(&self, by: u64) {
        self.set(self.get().wrapping_add(by));
    }

    #[inline(always)]
    pub(super) fn sub(&self, by: u64) {
        self.set(self.get().wrapping_sub(by));
    }
}

impl SpaceSeatRecord {
    #[inline(always)]
    pub(super) const fn turn(&self) -> Turn<'_> {
        Turn::new(&self.busy, &self.claims)
    }

    /// The lists of kept areas.
    #[inline(always)]
    pub(super) const fn kept<'m>(&'m self, table: AreaTable<'m>) -> Kept<'m> {
        Kept::new(&self.kept, table)
    }

    /// Lazy pages unmapped since the space was made. A page that the caller sees counted is unmapped.
    pub(super) fn unmapped(&self) -> u64 {
        // Acquire pairs with the Release in `add_unmapped`.
        self.unmapped.load(Acquire)
    }

    pub(super) fn add_unmapped(&self, pages: u64) {
        let word = &self.unmapped;
        word.store(word.load(Relaxed) + pages, Release);
    }

    /// From here until the result is dropped, this seat's holder moves freed areas between lists, or their frames
    /// to the source: another CPU may see them in neither place.
    pub(super) fn moving(&self) -> Moving<'_> {
        let begun = &self.moves_begun;
        begun.store(begun.load(Relaxed) + 1, Relaxed);
        // A CPU that sees a list without the area sees also that the move has begun.
        fence(Release);
        Moving(self)
    }

    pub(super) fn moves_begun(&self) -> u64 {
        self.moves_begun.load(Relaxed)
    }

    pub(super) fn moves_ended(&self) -> u64 {
        // Acquire pairs with the Release at the end of a move: the caller sees what was moved in its new place.
        self.moves_ended.load(Acquire)
    }

    pub(super) fn head(&self, list: usize) -> SpanLink {
        self.heads[list].link()
    }

    pub(super) fn set_head(&self, list: usize, link: SpanLink) {
        self.heads[list].set_link(link);
    }
}

/// See [`SpaceSeatRecord::moving`]. Moves may be nested.
#[must_use = "the move ends when this is dropped"]
pub(super) struct Moving<'m>(&'m SpaceSeatRecord);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let ended = &self.0.moves_ended;
        ended.store(ended.load(Relaxed) + 1, Release);
    }
}

/// A seat in the hands of the one thread that may touch it: its owner while the seat is busy, or the holder
/// of the stop lock that has claimed it.
#[derive(Debug)]
pub(super) struct Held<'s, 'm, P> {
    pub(super) space: &'s Space<'m, P>,
    pub(super) words: &'m SpaceSeatRecord,
    pub(super) cpu: u16,
}

impl<'m, P> Held<'_, 'm, P> {
    /// The seat's lists of kept areas.
    #[inline(always)]
    pub(super) fn kept(&self) -> Kept<'m> {
        self.words.kept(self.space.table)
    }
}

impl<P> Clone for Held<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Held<'_, '_, P> {}

/// A CPU's place in a space. The CPU does all its work in the space through it.
///
/// Only one thread at a time has a CPU's seat, and two threads cannot share it.
#[derive(Debug)]
pub struct RangeSeat<'s, 'm, P, F> {
    pub(super) space: &'s Space<'m, P>,
    pub(super) words: &'m SpaceSeatRecord,
    pub(super) frames: F,
    pub(super) cpu: u16,
    _taken: Taken<'m>,
}

impl<'s, 'm, P, F> RangeSeat<'s, 'm, P, F> {
    /// The space.
    #[must_use]
    pub const fn space(&self) -> &'s Space<'m, P> {
        self.space
    }

    /// The CPU whose seat it is.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        CpuId(self.cpu)
    }

    /// The source of its frames.
    #[must_use]
    pub const fn frames(&mut self) -> &mut F {
        &mut self.frames
    }
}

impl<'s, 'm, P: RangePlatform, F: FrameSource> RangeSeat<'s, 'm, P, F> {
    pub(super) fn take(space: &'s Space<'m, P>, cpu: CpuId, frames: F) -> Option<Self> {
        let words = space.seat_words(cpu.0);
        Taken::take(&words.claims).map(|taken| Self {
            space,
            words,
            frames,
            cpu: cpu.0,
            _taken: taken,
        })
    }

    /// What the busy seat's own thread works with.
    #[inline(always)]
    pub(super) const fn held(&self) -> Held<'s, 'm, P> {
        Held {
            space: self.space,
            words: self.words,
            cpu: self.cpu,
        }
    }

    /// From here to [`exit`](Self::exit) no other CPU touches the seat, and a CPU that stops all CPUs
    /// waits for this one. So the caller must not wait for such a CPU in between.
    ///
    /// # Errors
    /// The space is poisoned. The caller has not entered the seat.
    #[inline(always)]
    pub(super) fn enter(&self) -> Result<(), Poisoned> {
        if self.try_enter() {
            return Ok(());
        }
        self.wait_if_claimed()
    }

    /// Enters, but does not wait: see `Turn::try_enter`.
    #[inline(always)]
    pub(super) fn try_enter(&self) -> bool {
        self.words.turn().try_enter::<P>()
    }

    /// In a busy seat, before the caller does anything in it: lets a CPU that claims the seat have it
    /// first.
    pub(super) fn wait_if_claimed(&self) -> Result<(), Poisoned> {
        let space = self.space;
        let turn = self.words.turn();
        match turn.wait_if_claimed_unless(&space.platform, || space.is_poisoned()) {
            true => Ok(()),
            false => Err(Poisoned),
        }
    }

    #[inline(always)]
    pub(super) fn exit(&self) {
        self.words.turn().exit();
    }
}
