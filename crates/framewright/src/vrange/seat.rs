use super::kept::{KEPT_WORDS, Kept};
use super::poison::Poisoned;
use super::span::Link;
use super::table::Table;
use super::{FrameSource, Space};
use crate::platform::{Barrier, Map, Relax};
use crate::seats::{Taken, Turn};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::CpuId;

// The words of a seat, beside those of [`Turn`] and [`Taken`]: the owner's, and those that others write, are on
// different cache lines.
/// The owner's too, but rarely written, and read by whoever flushes: lazy pages unmapped.
const UNMAPPED: usize = 10;
const INBOX: usize = 16;
const HEADS: usize = 40;
const COUNTERS: usize = 64;

/// A word of a seat that only its owner writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Own {
    /// The bump: from the next page to hand out, to the page behind its last.
    Cursor = 1,
    End = 2,
    /// Pages made lazy and not yet told to the space.
    Delta = 3,
    /// Lazy pages in the seat's spans and its list of the arena's areas: what it can purge.
    Purgeable = 4,
    /// The span that the bump is in.
    Current = 5,
    /// How many pages may be untold of before the seat looks whether some should be purged.
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
    /// The arena's areas that this seat freed: still mapped, and waiting.
    AreasLazy = 30,
    AreasWait = 31,
    /// The generation that makes all those that wait free.
    AreasStamp = 32,
    /// The list of vmap blocks with room.
    BlockHead = 33,
    BlockTail = 34,
    /// How many of them are entirely free.
    BlockEmpties = 35,
    /// No run of the current span's free pages is longer.
    Most = 36,
    /// Lazy areas of the arena that could not be unmapped, until all others have been tried.
    AreasFailed = 37,
    /// Of what can be purged, at most so many pages are those that the last attempt at all of it
    /// could not unmap.
    Stuck = 38,
    /// Areas of the arena that waited, and whose generation has passed.
    AreasReady = 39,
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
    /// Requests served by a kept area.
    KeptTakes,
    /// Kept areas that became lazy; they were counted as freed when they were kept.
    Evictions,
    /// Areas and slots given back by a call that failed, and so not counted as freed.
    Undone,
}

/// The lists of kept areas.
const KEPT: usize = 128;
/// Words of one seat: whole cache lines, so that no two seats share one.
pub(super) const SEAT_WORDS: usize = KEPT + KEPT_WORDS;
/// Lists of spans: by longest run, poor and rich, and those entirely free.
pub(super) const LISTS: usize = 23;
const _: () = {
    assert!(HEADS + LISTS <= COUNTERS && COUNTERS + (Count::Undone as usize) < KEPT);
    assert!((Own::AreasReady as usize) < HEADS);
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

    /// The spans in which others freed something, as a list of numbers plus one.
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
    pub(super) fn kept(self, table: Table<'m>) -> Kept<'m> {
        Kept::new(&self.words[KEPT..KEPT + KEPT_WORDS], table)
    }

    /// Lazy pages unmapped since the space was made. What is counted is unmapped.
    pub(super) fn unmapped(self) -> u64 {
        // Acquire pairs with the Release in `add_unmapped`.
        self.words[UNMAPPED].load(Acquire)
    }

    pub(super) fn add_unmapped(self, pages: u64) {
        let word = &self.words[UNMAPPED];
        word.store(word.load(Relaxed) + pages, Release);
    }

    pub(super) fn link(self, word: Own) -> Link {
        (self.get(word) as u32).checked_sub(1)
    }

    pub(super) fn set_link(self, word: Own, link: Link) {
        self.set(word, link.map_or(0, |at| u64::from(at) + 1));
    }

    pub(super) fn head(self, list: usize) -> Link {
        (self.words[HEADS + list].load(Relaxed) as u32).checked_sub(1)
    }

    pub(super) fn set_head(self, list: usize, link: Link) {
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

/// A seat in the hands of whoever may touch it: its own thread while it is busy, or the holder of
/// the stop lock who has claimed it.
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

/// A CPU's place in a space: everything that a CPU does, it does here.
///
/// Only one thread at a time can have a CPU's seat, and it cannot be used by two at once.
#[derive(Debug)]
pub struct RangeSeat<'s, 'm, P, F> {
    pub(super) space: &'s Space<'m, P>,
    pub(super) words: SeatWords<'m>,
    pub(super) frames: F,
    pub(super) cpu: u16,
    _taken: Taken<'m>,
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

    /// What the busy seat's own thread works with.
    #[inline(always)]
    pub(super) const fn held(&self) -> Held<'s, 'm, P> {
        Held {
            space: self.space,
            words: self.words,
            cpu: self.cpu,
        }
    }

    /// From here to [`exit`](Self::exit) nobody else touches the seat, and nobody who stops all
    /// CPUs goes on. In between one must not wait for somebody who does.
    ///
    /// # Errors
    /// The space is poisoned, and the seat is not entered.
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

    /// In a busy seat, before anything is done in it: lets whoever claims it have it first.
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
