//! A seat's slabs: made, moved between its lists, and given back.

use super::super::slab::{RecordPool, Records, SizeClass, SlabHeader, SlabState};
use super::super::table::{KvEntry, KvTable, SlabFrame, SlabOwner};
use super::record::KvSeatRecord;
use crate::sync::Ordering::Relaxed;
use crate::units::{Frame, Order};

/// A seat in the hands of the CPU that may touch it: its own while it is busy, or the holder of the
/// stop lock that has claimed it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct KvHeld<'m> {
    pub(in super::super) words: &'m KvSeatRecord,
    pub(in super::super) records: Records<'m>,
    pub(in super::super) table: KvTable<'m>,
    pub(in super::super) pool: RecordPool<'m>,
    /// All seats' words, to reach other CPUs' inboxes.
    pub(in super::super) seats: &'m [KvSeatRecord],
    pub(in super::super) cpu: u16,
    /// The same, as entries of the table have it.
    pub(in super::super) owner: SlabOwner,
}

impl KvHeld<'_> {
    /// Whether the seat has a record without a slab; takes some from the pool if it has none.
    pub(in super::super) fn has_record(&self) -> bool {
        if self.words.records().1 == 0 {
            for _ in 0..self.pool.batch() {
                let Some(number) = self.pool.take(self.records) else {
                    break;
                };
                self.put_record(number);
            }
        }
        self.words.records().1 != 0
    }

    fn put_record(&self, number: u32) {
        let (first, count) = self.words.records();
        self.records.get(number).set_next(first);
        self.words.set_records(number, count + 1);
    }

    fn take_record(&self) -> Option<u32> {
        if !self.has_record() {
            return None;
        }
        let (first, count) = self.words.records();
        let next = self.records.get(first).next();
        self.words.set_records(next, count - 1);
        Some(first)
    }

    /// Gives records to the pool until the seat has no more than `keep`.
    pub(super) fn return_records(&self, keep: u32) {
        while self.words.records().1 > keep
            && let Some(number) = self.take_record()
        {
            self.pool.give(number);
        }
    }

    /// Turns a block of frames, at a place in the table, into a slab with all slots free, and
    /// serves the class from it. False if there is no record.
    pub(in super::super) fn make(&self, class: SizeClass, order: Order, place: usize) -> bool {
        let made = self.begin_slab(class, order, place, SlabState::Full);
        if let Some(number) = made {
            self.serve_from(class, number);
        }
        made.is_some()
    }

    /// Makes a slab of a block, whose slots are all free; its number. `None` if there is no record.
    fn begin_slab(
        &self,
        class: SizeClass,
        order: Order,
        place: usize,
        state: SlabState,
    ) -> Option<u32> {
        let number = self.take_record()?;
        let header = SlabHeader::new(class, order, self.cpu).with_state(state);
        self.records.get(number).begin(header, place);
        for nth in 0..order.frames() as usize {
            let part = SlabFrame::new(number, class, self.cpu, nth);
            self.table.set(place + nth, KvEntry::Slab(part));
        }
        self.words.counters.slab_makes.add(1);
        self.words.counters.slab_frames.add(order.frames());
        Some(number)
    }

    /// Takes apart a slab that is about to go back to the frames. Returns its block, which belongs
    /// to the caller then.
    pub(super) fn unmake_surplus(&self) -> Option<(SizeClass, Frame, Order)> {
        let number = self.words.first(SlabState::Surplus, SizeClass::new(0));
        if number == 0 {
            return None;
        }
        self.move_to(number, SlabState::None);
        let slab = self.records.get(number);
        let (class, order, place) = (slab.header().class(), slab.header().order(), slab.place());
        for nth in 0..order.frames() as usize {
            self.table.change(place + nth, KvEntry::None);
        }
        slab.end();
        self.put_record(number);
        let batch = self.pool.batch();
        if self.words.records().1 > 2 * batch {
            self.return_records(batch);
        }
        self.words.counters.slab_returns.add(1);
        let frames = order.frames().wrapping_neg();
        self.words.counters.slab_frames.add(frames);
        Some((class, self.table.frame(place), order))
    }

    /// Takes such a block back, which could not be given to the frames. Its record is still the seat's.
    #[cold]
    pub(super) fn remake_surplus(&self, class: SizeClass, frame: Frame, order: Order) {
        if let Some(place) = self.table.place(frame)
            && let Some(number) = self.begin_slab(class, order, place, SlabState::None)
        {
            self.move_to(number, SlabState::Surplus);
        }
    }

    /// Moves a slab from the list of its state to that of another.
    #[inline(always)]
    pub(in super::super) fn move_to(&self, number: u32, state: SlabState) {
        let slab = self.records.get(number);
        let header = slab.header();
        if let Some(head) = self.words.list(header.state(), header.class()) {
            let (next, prev) = (slab.next(), slab.prev());
            match prev {
                0 => head.store(u64::from(next), Relaxed),
                _ => self.records.get(prev).set_next(next),
            }
            if next != 0 {
                self.records.get(next).set_prev(prev);
            }
        }
        if let Some(head) = self.words.list(state, header.class()) {
            let next = head.load(Relaxed) as u32;
            slab.set_next(next);
            slab.set_prev(0);
            if next != 0 {
                self.records.get(next).set_prev(number);
            }
            head.store(u64::from(number), Relaxed);
        }
        slab.set_header(header.with_state(state));
    }

    /// Puts a slab that no class is served from into the list that its free slots call for.
    pub(in super::super) fn list_by_slots(&self, number: u32) {
        let slab = self.records.get(number);
        let header = slab.header();
        let is_empty = matches!(header.state(), SlabState::Empty | SlabState::Surplus);
        let state = if slab.is_empty() {
            if is_empty {
                return;
            }
            // Keeps one empty slab for the next request, so that a slab does not come and go with
            // one object.
            match self.words.first(SlabState::Empty, header.class()) {
                0 => SlabState::Empty,
                _ => SlabState::Surplus,
            }
        } else if slab.first_free_word().is_some() {
            SlabState::Partial
        } else {
            SlabState::Full
        };
        if state != header.state() {
            self.move_to(number, state);
        }
    }

    /// Serves the class from that slab, which has a free slot.
    pub(super) fn serve_from(&self, class: SizeClass, number: u32) {
        self.retire(class);
        self.move_to(number, SlabState::Current);
        self.words
            .set_magazine(class, Records::magazine(number, 0), 0);
        let loaded = self.next_word(class);
        debug_assert!(loaded, "K4: a listed slab has a free slot");
    }

    /// Serves the class, whose slab is full or which has none, from a slab with free slots. False
    /// if there is no such slab.
    pub(super) fn next_partial(&self, class: SizeClass) -> bool {
        let number = self.words.first(SlabState::Partial, class);
        if number == 0 {
            return false;
        }
        let full = Records::named_by(self.words.magazine(class).0);
        if full != 0 {
            let slab = self.records.get(full);
            slab.set_header(slab.header().with_state(SlabState::Full));
        }
        self.move_to(number, SlabState::Current);
        self.words
            .set_magazine(class, Records::magazine(number, 0), 0);
        self.next_word(class)
    }

    /// Serves the class from no slab until the next request.
    pub(in super::super) fn retire(&self, class: SizeClass) {
        let current = Records::named_by(self.words.magazine(class).0);
        if current != 0 {
            self.words.set_magazine(class, 0, 0);
            self.move_to(current, SlabState::Full);
            self.list_by_slots(current);
        }
    }

    /// Loads the magazine with the first word of its slab that has a free slot. False if there is
    /// no free slot, or no slab.
    pub(super) fn next_word(&self, class: SizeClass) -> bool {
        let current = Records::named_by(self.words.magazine(class).0);
        if current == 0 {
            return false;
        }
        let slab = self.records.get(current);
        // Keeps the slab: slots that are freed in its other words are found the next time.
        let found = slab.first_free_word();
        let word = found.unwrap_or(0);
        let start = self.table.addr(slab.place()).0;
        let first = start.wrapping_add(64 * word as u64 * class.bytes());
        let magazine = Records::magazine(current, word);
        self.words.set_magazine(class, magazine, first);
        found.is_some()
    }

    /// Moves all of the seat's slabs with only free slots to those that are about to go back to the
    /// frames; with `retire` also those that classes are served from.
    pub(super) fn give_up_empties(&self, retire: bool) {
        for class in SizeClass::all() {
            if retire {
                self.retire(class);
            }
            while let number @ 1.. = self.words.first(SlabState::Empty, class) {
                self.move_to(number, SlabState::Surplus);
            }
        }
    }

    /// Whether the seat keeps a slab with only free slots.
    pub(super) fn has_empties(&self) -> bool {
        SizeClass::all().any(|class| self.words.first(SlabState::Empty, class) != 0)
    }
}
