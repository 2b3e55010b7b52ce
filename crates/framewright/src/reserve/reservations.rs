//! Runs that are set aside, by name.

use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::{Frame, Run};

/// Words of one reservation.
const WORDS: usize = 8;

// The words of one reservation.
/// Odd while it exists. 64 bits, changed under the area's lock: it does not come round.
const SERIAL: usize = 0;
const START: usize = 1;
const FRAMES: usize = 2;
const TAKEN: usize = 3;
/// The name's first sixteen bytes.
const NAME: usize = 4;

/// A run of frames that is set aside for one owner. The owner of one in a
/// [`Reserve`](super::Reserve) can take it without fail.
///
/// It names one reservation of one area. Another area does not know it, and its own area forgets it
/// once it is given up (docs/handles.md).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reservation {
    /// Where the area's reservations lie: no two areas share an address at a time.
    area: usize,
    slot: u16,
    serial: u64,
}

/// All reservations of an area. Read and changed under its lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservations<'m> {
    words: &'m [AtomicU64],
}

/// A reservation that exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReservationEntry<'m> {
    words: &'m [AtomicU64],
}

impl<'m> Reservations<'m> {
    /// Words of up to `max`.
    pub(super) const fn words_needed(max: usize) -> usize {
        max * WORDS
    }

    /// As many as fit into `words`; none exists yet. Serials go on from what the words hold, so a
    /// handle of an earlier area in the same memory names no reservation of this one.
    pub(super) fn new(words: &'m [AtomicU64]) -> Self {
        for slot in words.chunks_exact(WORDS) {
            let last = slot[SERIAL].load(Relaxed);
            slot[SERIAL].store((last | 1).wrapping_add(1), Relaxed);
            slot[START..].iter().for_each(|word| word.store(0, Relaxed));
        }
        Self { words }
    }

    fn area(self) -> usize {
        self.words.as_ptr().addr()
    }

    /// The first that exists, from the `nth` on, with its number.
    pub(super) fn next(self, nth: usize) -> Option<(usize, ReservationEntry<'m>)> {
        let mut slots = self.words.chunks_exact(WORDS).enumerate().skip(nth);
        let (nth, words) = slots.find(|(_, words)| words[SERIAL].load(Relaxed) & 1 != 0)?;
        Some((nth, ReservationEntry { words }))
    }

    /// All that exist.
    pub(super) fn all(self) -> impl Iterator<Item = ReservationEntry<'m>> {
        self.words
            .chunks_exact(WORDS)
            .filter(|words| words[SERIAL].load(Relaxed) & 1 != 0)
            .map(|words| ReservationEntry { words })
    }

    /// The reservation that a handle names, if it still exists.
    pub(super) fn get(self, reservation: Reservation) -> Option<ReservationEntry<'m>> {
        let words = self
            .words
            .chunks_exact(WORDS)
            .nth(reservation.slot.into())?;
        let is_same =
            reservation.area == self.area() && reservation.serial == words[SERIAL].load(Relaxed);
        is_same.then_some(ReservationEntry { words })
    }

    /// How many there can be.
    pub(super) const fn max(self) -> usize {
        self.words.len() / WORDS
    }

    /// Whether there is room for another one.
    pub(super) fn is_full(self) -> bool {
        self.all().count() == self.max()
    }

    /// Adds a reservation that is not taken; `None` if there is no room.
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
            area: self.area(),
            slot: slot as u16,
            serial,
        })
    }
}

impl ReservationEntry<'_> {
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

    /// Ends the reservation.
    pub(super) fn remove(self) {
        self.words[SERIAL].fetch_add(1, Relaxed);
    }

    /// A copy of all that a listing says of it.
    pub(super) fn listed(self) -> ListedReservation {
        let mut name = [0; 16];
        for (word, bytes) in self.words[NAME..].iter().zip(name.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        ListedReservation {
            name,
            run: self.run(),
            is_taken: self.is_taken(),
        }
    }
}

/// What a listing says of a reservation, copied out of its area: so its lock is not held while the listing is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedReservation {
    name: [u8; 16],
    pub(super) run: Run,
    pub(super) is_taken: bool,
}

impl ListedReservation {
    /// The name, as much of it as is kept.
    pub(super) fn name(&self) -> &str {
        let len = self.name.iter().position(|&b| b == 0).unwrap_or(16);
        match core::str::from_utf8(&self.name[..len]) {
            Ok(name) => name,
            // Cut inside a character.
            Err(e) => core::str::from_utf8(&self.name[..e.valid_up_to()]).unwrap_or(""),
        }
    }
}
