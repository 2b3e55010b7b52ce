//! Runs that are set aside, by name.

use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::{Frame, Run};

/// Words of one.
const WORDS: usize = 8;

// The words of one.
/// Odd while it exists.
const SERIAL: usize = 0;
const START: usize = 1;
const FRAMES: usize = 2;
const TAKEN: usize = 3;
/// The name's first sixteen bytes.
const NAME: usize = 4;

/// A run of frames that is set aside for one owner: to be taken without fail from a
/// [`Reserve`](super::Reserve).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reservation {
    slot: u16,
    serial: u64,
}

/// All reservations of an area. Read and changed under its lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservations<'m> {
    words: &'m [AtomicU64],
}

/// One that exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'m> {
    words: &'m [AtomicU64],
}

impl<'m> Reservations<'m> {
    /// Words of up to `max`.
    pub(super) const fn words_needed(max: usize) -> usize {
        max * WORDS
    }

    /// As many as fit into `words`, none of which exists if those are zero.
    pub(super) const fn new(words: &'m [AtomicU64]) -> Self {
        Self { words }
    }

    /// Those that exist.
    pub(super) fn all(self) -> impl Iterator<Item = Entry<'m>> {
        self.words
            .chunks_exact(WORDS)
            .filter(|words| words[SERIAL].load(Relaxed) & 1 != 0)
            .map(|words| Entry { words })
    }

    /// The one that a handle names, if it is still there.
    pub(super) fn get(self, reservation: Reservation) -> Option<Entry<'m>> {
        let words = self
            .words
            .chunks_exact(WORDS)
            .nth(reservation.slot.into())?;
        (words[SERIAL].load(Relaxed) == reservation.serial).then_some(Entry { words })
    }

    /// How many there can be.
    pub(super) const fn max(self) -> usize {
        self.words.len() / WORDS
    }

    /// Whether there is room for another one.
    pub(super) fn is_full(self) -> bool {
        self.all().count() == self.max()
    }

    /// Another one, not taken; `None` if it is full.
    pub(super) fn add(self, name: &str, run: Run) -> Option<Reservation> {
        let mut slots = self.words.chunks_exact(WORDS).enumerate();
        let (slot, words) = slots.find(|(_, words)| words[SERIAL].load(Relaxed) & 1 == 0)?;
        words[START].store(run.start().0, Relaxed);
        words[FRAMES].store(run.frames(), Relaxed);
        words[TAKEN].store(0, Relaxed);
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        for (word, bytes) in words[NAME..].iter().zip(bytes.chunks_exact(8)) {
            let bytes = bytes.try_into().expect("chunks of eight");
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
        let serial = words[SERIAL].fetch_add(1, Relaxed) + 1;
        Some(Reservation {
            slot: slot as u16,
            serial,
        })
    }
}

impl Entry<'_> {
    pub(super) fn run(self) -> Run {
        let start = Frame(self.words[START].load(Relaxed));
        Run::new(start, self.words[FRAMES].load(Relaxed)).expect("it is inside its area")
    }

    pub(super) fn is_taken(self) -> bool {
        self.words[TAKEN].load(Relaxed) != 0
    }

    pub(super) fn set_taken(self, taken: bool) {
        self.words[TAKEN].store(taken.into(), Relaxed);
    }

    /// It does not exist any more.
    pub(super) fn remove(self) {
        self.words[SERIAL].fetch_add(1, Relaxed);
    }

    /// Calls `with` with the name, as much of it as is kept.
    pub(super) fn with_name<T>(self, with: impl FnOnce(&str) -> T) -> T {
        let mut bytes = [0; 16];
        for (word, bytes) in self.words[NAME..].iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(16);
        with(match core::str::from_utf8(&bytes[..len]) {
            Ok(name) => name,
            // Cut inside a character.
            Err(e) => core::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or(""),
        })
    }
}
