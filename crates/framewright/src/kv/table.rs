use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::units::{Frame, Order};

/// What kind of object stands at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A slot of a slab.
    Slab,
    /// A block of frames.
    Run,
    /// Mapped pages.
    Mapped,
}

/// What the table says of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// Nothing of `kv`'s, or inside a run.
    None,
    /// A run of that order starts here.
    Run(Order),
}

/// The bits of an entry that say what it is.
const KIND: u64 = 0b11;
const RUN: u64 = 1;

impl Entry {
    fn of(word: u64) -> Self {
        match word & KIND {
            RUN => Order::new((word >> 2 & 31) as u8).map_or(Self::None, Self::Run),
            _ => Self::None,
        }
    }

    const fn word(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Run(order) => RUN | (order.get() as u64) << 2,
        }
    }
}

/// A word for each frame that objects can lie in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'m> {
    words: &'m [AtomicU64],
    start: u64,
}

impl<'m> Table<'m> {
    pub(super) const fn new(words: &'m [AtomicU64], start: Frame) -> Self {
        Self {
            words,
            start: start.0,
        }
    }

    /// The place of a frame, if objects can lie in it.
    #[inline(always)]
    pub(super) fn place(self, frame: Frame) -> Option<usize> {
        let place = frame.0.wrapping_sub(self.start);
        (place < self.words.len() as u64).then_some(place as usize)
    }

    #[inline(always)]
    pub(super) fn get(self, place: usize) -> Entry {
        // Acquire pairs with the Release in `set`.
        Entry::of(self.words[place].load(Acquire))
    }

    /// Says what a frame is, of which nothing was said.
    #[inline(always)]
    pub(super) fn set(self, place: usize, entry: Entry) {
        debug_assert!(self.words[place].load(Relaxed) == 0, "K1");
        self.words[place].store(entry.word(), Release);
    }

    /// Says what a frame is from now on, if it still is `from`: of several CPUs that try, one
    /// succeeds.
    #[inline(always)]
    pub(super) fn replace(self, place: usize, from: Entry, to: Entry) -> bool {
        self.words[place]
            .compare_exchange(from.word(), to.word(), AcqRel, Relaxed)
            .is_ok()
    }

    /// Forgets what was said of a frame, in the same way.
    #[inline(always)]
    pub(super) fn clear(self, place: usize, entry: Entry) -> bool {
        self.replace(place, entry, Entry::None)
    }
}
