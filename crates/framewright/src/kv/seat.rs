use super::Kv;
use crate::frame::Blocks;
use crate::platform::{Barrier, Direct, Map, Relax, Zero};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::CpuId;
use crate::vrange::{FrameSource, RangeSeat};

const TAKEN: usize = 9;
const COUNTERS: usize = 96;

/// The counters of a seat: events since the allocator was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Count {
    RunAllocs,
    RunFrees,
    Spills,
    MappedFrees,
    Failures,
    CompactStall,
    AllocStall,
    BadFrees,
}

/// Words of one seat: whole cache lines, so that no two seats share one.
pub(super) const SEAT_WORDS: usize = 128;

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
    pub(super) fn read(self, counter: Count) -> u64 {
        self.words[COUNTERS + counter as usize].load(Relaxed)
    }

    /// Adds to a counter that only this seat changes.
    #[inline(always)]
    pub(super) fn count(self, counter: Count, by: u64) {
        let word = &self.words[COUNTERS + counter as usize];
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }
}

/// A CPU's place in an object allocator: everything that a CPU does, it does here.
///
/// Made of the CPU's seat in the space, with that in the zones. Only one thread at a time can have
/// it, and it cannot be used by two at once.
#[derive(Debug)]
pub struct KvSeat<'k, 's, 'm, P, R, F> {
    pub(super) kv: &'k Kv<'m, P, R>,
    pub(super) words: SeatWords<'m>,
    pub(super) ranges: RangeSeat<'s, 'm, P, F>,
}

impl<P, R, F> Drop for KvSeat<'_, '_, '_, P, R, F> {
    fn drop(&mut self) {
        // Release: the next one to take the seat sees what it has.
        self.words.words[TAKEN].store(0, Release);
    }
}

impl<'k, 's, 'm, P: Relax + Barrier + Map + Zero + Direct, R, F: FrameSource + Blocks>
    KvSeat<'k, 's, 'm, P, R, F>
{
    pub(super) fn take(kv: &'k Kv<'m, P, R>, ranges: RangeSeat<'s, 'm, P, F>) -> Option<Self> {
        let words = kv.seat_words(ranges.cpu());
        // Acquire pairs with the Release in `drop`.
        let taken = words.words[TAKEN].swap(1, Acquire);
        // Not `then_some`: a seat that was made is given back when it is dropped.
        (taken == 0).then(|| Self { kv, words, ranges })
    }

    /// The object allocator.
    #[must_use]
    pub const fn kv(&self) -> &'k Kv<'m, P, R> {
        self.kv
    }

    /// The CPU whose seat it is.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.ranges.cpu()
    }

    /// The CPU's seat in the space, for areas and mappings; its
    /// [`frames`](RangeSeat::frames) are the seat in the zones.
    #[must_use]
    pub const fn ranges(&mut self) -> &mut RangeSeat<'s, 'm, P, F> {
        &mut self.ranges
    }
}
