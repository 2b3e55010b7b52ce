//! A CPU's seat in a space: the bump, the lists of spans, vmap blocks and areas, and counters.
//!
//! Only its CPU writes a seat, or a CPU that has claimed it, except for the inbox, to which other
//! CPUs push, and the words by which threads take and claim the seat. Other CPUs read what they
//! add up. `UNMAPPED` alone orders something: a page that is counted there is unmapped.
//!
//! `RangeSeat` is the CPU's handle. `Held` is the seat in the hands of the thread that may touch
//! it, whether by its own turn or by a claim, so the same code serves both. No CPU enters a seat of
//! a poisoned space (V11).

use super::kept::{KEPT_WORDS, Kept};
use super::poison::Poisoned;
use super::span::SpanLink;
use super::table::AreaTable;
use super::{FrameSource, Space};
use crate::platform::{Barrier, Map, Relax};
use crate::seats::{Taken, Turn};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use crate::units::CpuId;

// The words of a seat, beside those of [`Turn`] and [`Taken`]. The words that the owner writes and those that
// other CPUs write are on different cache lines.
/// Lazy pages unmapped. The owner writes it too, but rarely, and every CPU that flushes reads it.
const UNMAPPED: usize = 10;
const INBOX: usize = 16;
const HEADS: usize = 40;
const COUNTERS: usize = 64;
/// How many [moves](Moving) have begun, and how many have ended.
const MOVES_BEGUN: usize = 96;
const MOVES_ENDED: usize = 97;

/// A word of a seat that only its owner writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Own {
    /// The bump: the next page to hand out, and below the page behind the last one.
    Cursor = 1,
    End = 2,
    /// Pages made lazy that the seat has not yet told the space of.
    Delta = 3,
    /// Lazy pages that the seat can purge: in its spans, and in its list of the arena's areas.
    Purgeable = 4,
    /// The span that the bump is in.
    Current = 5,
    /// How many pages the seat may not have told of before it looks whether to purge some.
    Look = 6,
    /// Pages of areas allocated, less those of areas freed; wraps.
    Live = 7,
    /// Which lists are not empty.
    Mask = 24,
    LazyHead = 25,
    LazyTail = 26,
    WaitHead = 27,
    WaitTail = 28,
    /// How many spans are entirely free.
    Empties = 29,
    /// The arena's areas that this seat freed: those still mapped, and those that wait for a flush.
    AreasLazy = 30,
    AreasWait = 31,
    /// The generation whose flush makes all waiting areas free.
    AreasStamp = 32,
    /// The list of vmap blocks with room.
    BlockHead = 33,
    BlockTail = 34,
    /// How many of them are entirely free.
    BlockEmpties = 35,
    /// No run of the current span's free pages is longer.
    Most = 36,
    /// Lazy areas of the arena that the platform failed to unmap, until the seat has tried all others.
    AreasFailed = 37,
    /// At most so many purgeable pages are ones that the last attempt at all of them could not unmap.
    Stuck = 38,
    /// Areas of the arena that have waited: the generation that they waited for has passed.
    AreasReady = 39,
    /// A kept area that the owner has taken out of the lists to make it lazy. A CPU that stops all others may
    /// do that first.
    Evicting = 98,
}

/// The counters of a seat: events since the space was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Count {
    Allocs,
    Frees,
    RemoteFrees,
    Failures,
    Cuts,
    Gives,
    SpanTakes,
    SpanReturns,
    Dissolves,
    BlockTakes,
    BlockReturns,
    MapRam,
    UnmapRam,
    Purges,
    Unmaps,
    UnmapFailures,
    Flushes,
    Claims,
    Drains,
    FitFull,
    FitLeft,
    FitRight,
    FitNone,
    /// Requests that a kept area served.
    KeptTakes,
    /// Kept areas that became lazy. The seat counted them as freed when it kept them.
    Evictions,
    /// Areas and slots that a failed call gave back, which do not count as freed.
    Undone,
}

/// The lists of kept areas.
const KEPT: usize = 128;
/// Words of one seat: whole cache lines, so that no two seats share one.
pub(super) const SEAT_WORDS: usize = KEPT + KEPT_WORDS;
/// The number of lists of spans: by longest run, poor and rich, and the entirely free ones.
pub(super) const LISTS: usize = 23;
const _: () = {
    assert!(HEADS + LISTS <= COUNTERS && COUNTERS + (Count::Undone as usize) < MOVES_BEGUN);
    assert!((Own::AreasReady as usize) < HEADS && (Own::Evicting as usize) < KEPT);
};

/// The metadata of one seat.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatWords<'m> {
    words: &'m [AtomicU64; SEAT_WORDS],
}

impl<'m> SeatWords<'m> {
    #[inline(always)]
    pub(super) fn new(seats: &'m [AtomicU64], number: usize) -> Self {
        let start = number * SEAT_WORDS;
        let words = (&seats[start..start + SEAT_WORDS])
            .try_into()
            .expect("a seat has its words");
        Self { words }
    }

    #[inline(always)]
    pub(super) fn turn(self) -> Turn<'m> {
        Turn::of(self.words)
    }

    /// The spans in which other CPUs freed areas, as a list of numbers plus one.
    #[inline(always)]
    pub(super) fn inbox(self) -> &'m AtomicU64 {
        &self.words[INBOX]
    }

    #[inline(always)]
    pub(super) fn get(self, word: Own) -> u64 {
        self.words[word as usize].load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(self, word: Own, value: u64) {
        self.words[word as usize].store(value, Relaxed);
    }

    #[inline(always)]
    pub(super) fn page(self, word: Own) -> u32 {
        self.get(word) as u32
    }

    /// The lists of kept areas.
    #[inline(always)]
    pub(super) fn kept(self, table: AreaTable<'m>) -> Kept<'m> {
        Kept::new(&self.words[KEPT..KEPT + KEPT_WORDS], table)
    }

    /// Lazy pages unmapped since the space was made. A page that the caller sees counted is unmapped.
    pub(super) fn unmapped(self) -> u64 {
        // Acquire pairs with the Release in `add_unmapped`.
        self.words[UNMAPPED].load(Acquire)
    }

    pub(super) fn add_unmapped(self, pages: u64) {
        let word = &self.words[UNMAPPED];
        word.store(word.load(Relaxed) + pages, Release);
    }

    /// From here until the result is dropped, this seat's holder moves freed areas between lists, or their frames
    /// to the source: another CPU may see them in neither place.
    pub(super) fn moving(self) -> Moving<'m> {
        let begun = &self.words[MOVES_BEGUN];
        begun.store(begun.load(Relaxed) + 1, Relaxed);
        // A CPU that sees a list without the area sees also that the move has begun.
        fence(Release);
        Moving(self)
    }

    pub(super) fn moves_begun(self) -> u64 {
        self.words[MOVES_BEGUN].load(Relaxed)
    }

    pub(super) fn moves_ended(self) -> u64 {
        // Acquire pairs with the Release at the end of a move: the caller sees what was moved in its new place.
        self.words[MOVES_ENDED].load(Acquire)
    }

    pub(super) fn link(self, word: Own) -> SpanLink {
        (self.get(word) as u32).checked_sub(1)
    }

    pub(super) fn set_link(self, word: Own, link: SpanLink) {
        self.set(word, link.map_or(0, |at| u64::from(at) + 1));
    }

    pub(super) fn head(self, list: usize) -> SpanLink {
        (self.words[HEADS + list].load(Relaxed) as u32).checked_sub(1)
    }

    pub(super) fn set_head(self, list: usize, link: SpanLink) {
        let word = link.map_or(0, |span| u64::from(span) + 1);
        self.words[HEADS + list].store(word, Relaxed);
    }

    #[inline(always)]
    pub(super) fn read(self, counter: Count) -> u64 {
        self.words[COUNTERS + counter as usize].load(Relaxed)
    }

    /// Adds to a counter, or to another word, that only this seat changes; wraps.
    #[inline(always)]
    pub(super) fn count(self, counter: Count, by: u64) {
        let word = &self.words[COUNTERS + counter as usize];
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }

    #[inline(always)]
    pub(super) fn add(self, word: Own, by: u64) {
        self.set(word, self.get(word).wrapping_add(by));
    }

    #[inline(always)]
    pub(super) fn sub(self, word: Own, by: u64) {
        self.set(word, self.get(word).wrapping_sub(by));
    }
}

/// See [`SeatWords::moving`]. Moves may be nested.
#[must_use = "the move ends when this is dropped"]
pub(super) struct Moving<'m>(SeatWords<'m>);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let ended = &self.0.words[MOVES_ENDED];
        ended.store(ended.load(Relaxed) + 1, Release);
    }
}

/// A seat in the hands of the one thread that may touch it: its owner while the seat is busy, or the holder
/// of the stop lock that has claimed it.
#[derive(Debug)]
pub(super) struct Held<'s, 'm, P> {
    pub(super) space: &'s Space<'m, P>,
    pub(super) words: SeatWords<'m>,
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
    pub(super) words: SeatWords<'m>,
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

impl<'s, 'm, P: Relax + Barrier + Map, F: FrameSource> RangeSeat<'s, 'm, P, F> {
    pub(super) fn take(space: &'s Space<'m, P>, cpu: CpuId, frames: F) -> Option<Self> {
        let words = SeatWords::new(space.seats, cpu.index());
        Taken::take(words.words).map(|taken| Self {
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
