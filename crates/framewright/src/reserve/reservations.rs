//! Runs that are set aside, by name.

use crate::raw::record;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::{Frame, Run};

record! {
    /// A reservation, or room for one.
    #[derive(Debug)]
    #[repr(C)]
    pub(super) struct ReservationRecord {
        /// Odd while it exists. 64 bits, changed under the area's lock: it does not come round.
        serial: AtomicU64,
        start: AtomicU64,
        frames: AtomicU64,
        taken: AtomicU64,
        /// The name's first sixteen bytes.
        name: [AtomicU64; 2],
        _rest: [AtomicU64; 2],
    } = 8 words;
}

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

impl Reservation {
    /// The low bits of a number, which name the slot: no area has more than 64.
    const SLOT_BITS: u32 = 8;

    /// A number for the reservation, never 0, for callers to whom a handle must be one: [`Reserve`](super::Reserve) finds
    /// it again by [that](super::Reserve::numbered). Another area may give the same number to one of its own.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.serial << Self::SLOT_BITS | self.slot as u64
    }
}

/// All reservations of an area. Read and changed under its lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservations<'m> {
    records: &'m [ReservationRecord],
}

/// A reservation that exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReservationEntry<'m> {
    record: &'m ReservationRecord,
}

impl ReservationRecord {
    fn exists(&self) -> bool {
        self.serial.load(Relaxed) & 1 != 0
    }
}

impl<'m> Reservations<'m> {
    /// None exists yet. Serials go on from what the records hold, so a handle of an earlier area in the same memory
    /// names no reservation of this one.
    pub(super) fn new(records: &'m [ReservationRecord]) -> Self {
        for record in records {
            let last = record.serial.load(Relaxed);
            record.serial.store((last | 1).wrapping_add(1), Relaxed);
        }
        Self { records }
    }

    fn area(self) -> usize {
        self.records.as_ptr().addr()
    }

    /// The first that exists, from the `nth` on, with its number.
    pub(super) fn next(self, nth: usize) -> Option<(usize, ReservationEntry<'m>)> {
        let mut slots = self.records.iter().enumerate().skip(nth);
        let (nth, record) = slots.find(|(_, record)| record.exists())?;
        Some((nth, ReservationEntry { record }))
    }

    /// All that exist.
    pub(super) fn all(self) -> impl Iterator<Item = ReservationEntry<'m>> {
        let existing = self.records.iter().filter(|record| record.exists());
        existing.map(|record| ReservationEntry { record })
    }

    /// The reservation that a handle names, if it still exists.
    pub(super) fn get(self, reservation: Reservation) -> Option<ReservationEntry<'m>> {
        let record = self.records.get(usize::from(reservation.slot))?;
        let is_same =
            reservation.area == self.area() && reservation.serial == record.serial.load(Relaxed);
        is_same.then_some(ReservationEntry { record })
    }

    /// The reservation that has that [number](Reservation::number), if it still exists.
    pub(super) fn numbered(self, number: u64) -> Option<Reservation> {
        let slot = number as u16 & ((1 << Reservation::SLOT_BITS) - 1);
        let record = self.records.get(usize::from(slot))?;
        let (area, serial) = (self.area(), record.serial.load(Relaxed));
        let found = Reservation { area, slot, serial };
        (record.exists() && found.number() == number).then_some(found)
    }

    /// How many there can be.
    pub(super) const fn max(self) -> usize {
        self.records.len()
    }

    /// Whether there is room for another one.
    pub(super) fn is_full(self) -> bool {
        self.all().count() == self.max()
    }

    /// Adds a reservation that is not taken; `None` if there is no room.
    pub(super) fn add(self, name: &str, run: Run) -> Option<Reservation> {
        let mut slots = self.records.iter().enumerate();
        let (slot, record) = slots.find(|(_, record)| !record.exists())?;
        record.start.store(run.start().0, Relaxed);
        record.frames.store(run.frames(), Relaxed);
        record.taken.store(0, Relaxed);
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        for (word, bytes) in record.name.iter().zip(bytes.chunks_exact(8)) {
            let bytes = bytes.try_into().expect("chunks of eight");
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
        let serial = record.serial.fetch_add(1, Relaxed) + 1;
        Some(Reservation {
            area: self.area(),
            slot: slot as u16,
            serial,
        })
    }
}

impl ReservationEntry<'_> {
    pub(super) fn run(self) -> Run {
        let start = Frame(self.record.start.load(Relaxed));
        Run::new(start, self.record.frames.load(Relaxed)).expect("it is inside its area")
    }

    pub(super) fn is_taken(self) -> bool {
        self.record.taken.load(Relaxed) != 0
    }

    pub(super) fn set_taken(self, taken: bool) {
        self.record.taken.store(taken.into(), Relaxed);
    }

    /// Ends the reservation.
    pub(super) fn remove(self) {
        self.record.serial.fetch_add(1, Relaxed);
    }

    /// A copy of all that a listing says of it.
    pub(super) fn listed(self) -> ListedReservation {
        let mut name = [0; 16];
        for (word, bytes) in self.record.name.iter().zip(name.chunks_exact_mut(8)) {
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
