//! The slow check of the invariants, and the slow count of objects and slabs, with all CPUs stopped.

use super::Kv;
use super::seat::KvHeld;
use super::slab::{BITMAP_WORDS, Records, SizeClass, SlabHeader, SlabState};
use super::table::{KvEntry, SlabFrame};
use crate::platform::FramePlatform;
use crate::stats::Broken;
use crate::sync::Ordering::Relaxed;

/// All objects and slabs, counted anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvRecount {
    /// Slabs.
    pub slabs: u64,
    /// Frames in slabs.
    pub slab_frames: u64,
    /// Objects in slabs.
    pub live_slots: u64,
    /// Slots that are free, without those of remote frees.
    pub free_slots: u64,
    /// Slots of remote frees that are not yet collected.
    pub remote_slots: u64,
    /// Blocks of frames that are objects.
    pub runs: u64,
    /// Frames in these.
    pub run_frames: u64,
}

impl<P: FramePlatform> Kv<'_, P> {
    /// Checks every invariant K1 to K5 and E3 that can be seen at rest. Stops all CPUs.
    /// O(frames + slabs).
    ///
    /// # Errors
    /// The first one that does not hold, with the frame or the slab's first frame. If it is about no frame, with the
    /// number of a record, or a count.
    pub fn verify(&self) -> Result<(), Broken> {
        let _stopped = self.stop();
        let mut place = 0;
        while place < self.table.frames() {
            place += self.verify_frame(place)?;
        }
        let pool = self.pool();
        check("SL2: the set of free records", 0, pool.is_consistent())?;
        // A record without a slab has no neighbour before it: that word is 1 here if a seat has the record.
        for number in (1..=pool.fresh()).filter(|&number| self.is_unused(number)) {
            self.records.get(number).set_prev(0);
        }
        let (mut in_lists, mut sent) = (0, 0);
        for cpu in 0..self.shape.cpus {
            in_lists += self.verify_seat(self.held(cpu))?;
            sent += self.verify_inbox(self.held(cpu))?;
        }
        let (mut listed, mut pending) = (0, 0);
        // Those above hold anything.
        for number in 1..=pool.fresh() {
            let slab = self.records.get(number);
            pending += u64::from(slab.parcel().pending.load(Relaxed) != 0);
            let has_place = match slab.header().state() {
                SlabState::None => (slab.prev() == 1) != pool.has(number),
                state => {
                    self.verify_slab(number)?;
                    let is_listed = SlabState::LISTED.contains(&state);
                    listed += u64::from(is_listed);
                    !pool.has(number)
                }
            };
            let at = u64::from(number);
            check("K3: a record is a slab's or in one list", at, has_place)?;
        }
        check("K4: every slab is in its list", 0, in_lists == listed)?;
        check("E3: a slab on its way is in an inbox", 0, sent == pending)
    }

    /// Whether a record has no slab.
    fn is_unused(&self, number: u32) -> bool {
        self.records.get(number).header().state() == SlabState::None
    }

    /// Checks the entry at a place of the table. Returns how many frames it covers.
    fn verify_frame(&self, place: usize) -> Result<usize, Broken> {
        let at = self.table.frame(place).0;
        let part = match self.table.get(place) {
            KvEntry::None => return Ok(1),
            KvEntry::Run(order) => {
                let frames = order.frames() as usize;
                let inside = place + frames <= self.table.frames();
                check("K1: a run ends in memory", at, inside)?;
                let is_one =
                    (place + 1..place + frames).all(|place| self.table.get(place) == KvEntry::None);
                check("K1: nothing else is in a run", at, is_one)?;
                return Ok(frames);
            }
            KvEntry::Slab(part) => part,
        };
        let exists = (1..=self.pool().fresh()).contains(&part.record());
        check("K1: a slab has a record", at, exists)?;
        let slab = self.records.get(part.record());
        let header = slab.header();
        let nth = part.nth() as usize;
        let same = header.state() != SlabState::None
            && slab.place() + nth == place
            && (nth as u64) < header.order().frames()
            && part.class() == header.class()
            && part.owner() == header.owner();
        check("K1: table and record say the same", at, same)?;
        Ok(1)
    }

    /// Checks the lists of a seat, and marks its records without a slab. Returns how many slabs are in the lists.
    fn verify_seat(&self, seat: KvHeld<'_>) -> Result<u64, Broken> {
        let mut in_lists = 0;
        for class in SizeClass::all() {
            self.verify_magazine(seat, class)?;
            for state in [SlabState::Partial, SlabState::Empty] {
                in_lists += self.verify_list(seat, state, class)?;
            }
        }
        in_lists += self.verify_list(seat, SlabState::Surplus, SizeClass::new(0))?;
        let (mut next, count) = seat.words.records();
        let mut left = count;
        while next != 0 {
            let is_one = next <= self.pool().fresh() && left != 0 && self.is_unused(next);
            check("K3: a seat's list of records", next.into(), is_one)?;
            let record = self.records.get(next);
            check(
                "K3: a record is in one list",
                next.into(),
                record.prev() == 0,
            )?;
            record.set_prev(1);
            next = record.next();
            left -= 1;
        }
        check("K3: a seat's count of records", count.into(), left == 0)?;
        Ok(in_lists)
    }

    /// Checks the slab from which a seat serves a class, and the address of the first slot there.
    fn verify_magazine(&self, seat: KvHeld<'_>, class: SizeClass) -> Result<(), Broken> {
        let (magazine, first) = seat.words.magazine(class);
        let current = Records::named_by(magazine);
        if current == 0 {
            return check("K4: a magazine names a slab or nothing", 0, magazine == 0);
        }
        let exists = current <= self.pool().fresh();
        check("K4: a magazine's slab exists", current.into(), exists)?;
        let (slab, at) = (self.records.get(current), self.at(current));
        let header = slab.header();
        let same = header.state() == SlabState::Current
            && header.class() == class
            && header.owner() == seat.cpu;
        check("K4: a magazine's slab is the current one", at, same)?;
        let is_first = (0..BITMAP_WORDS).any(|word| {
            let start = self.table.addr(slab.place()).0;
            magazine == Records::magazine(current, word)
                && first == start.wrapping_add(64 * word as u64 * class.bytes())
        });
        check("K5: a magazine knows where its slots lie", at, is_first)
    }

    /// Checks a list. Returns how many slabs are in it.
    fn verify_list(
        &self,
        seat: KvHeld<'_>,
        state: SlabState,
        class: SizeClass,
    ) -> Result<u64, Broken> {
        let (mut prev, mut next) = (0, seat.words.first(state, class));
        let mut count = 0;
        while next != 0 {
            let exists = next <= self.pool().fresh();
            check("K4: a listed slab exists", next.into(), exists)?;
            let slab = self.records.get(next);
            let header = slab.header();
            let same = header.state() == state
                && header.owner() == seat.cpu
                && (state == SlabState::Surplus || header.class() == class);
            let is_one = same && slab.prev() == prev && count < self.pool().fresh();
            check(
                "K4: a list is of its seat, class and state",
                self.at(next),
                is_one,
            )?;
            (prev, next) = (next, slab.next());
            count += 1;
        }
        Ok(count.into())
    }

    /// Checks the list of slabs that were sent to a seat. Returns how many there are.
    fn verify_inbox(&self, seat: KvHeld<'_>) -> Result<u64, Broken> {
        let mut next = seat.words.inbox.load(Relaxed) as u32;
        let mut count = 0;
        while let Some(number) = next.checked_sub(1) {
            let exists = (1..=self.pool().fresh()).contains(&number);
            check("E3: a slab in an inbox exists", number.into(), exists)?;
            let parcel = self.records.get(number).parcel();
            let is_one = parcel.pending.load(Relaxed) != 0 && count < self.pool().fresh();
            check(
                "E3: a slab in an inbox is on its way",
                number.into(),
                is_one,
            )?;
            next = parcel.next.load(Relaxed) as u32;
            count += 1;
        }
        Ok(count.into())
    }

    /// Checks a slab.
    fn verify_slab(&self, number: u32) -> Result<(), Broken> {
        let slab = self.records.get(number);
        let header = slab.header();
        let at = self.at(number);
        let known = header.owner() < self.shape.cpus
            && header.slots() == header.class().slots(header.order());
        check("K3: a slab's owner and slots", at, known)?;
        let place = slab.place();
        let frames = header.order().frames() as usize;
        check(
            "K1: a slab ends in memory",
            at,
            frames <= self.table.frames().saturating_sub(place),
        )?;
        for nth in 0..frames {
            let part = SlabFrame::new(number, header.class(), header.owner(), nth);
            let named = self.table.get(place + nth) == KvEntry::Slab(part);
            check("K1: the table names a slab's frames", at, named)?;
        }
        for word in 0..BITMAP_WORDS {
            let free = slab.free(word).load(Relaxed);
            let remote = slab.remote(word).load(Relaxed);
            let inside = (free | remote) & !header.all_in(word) == 0;
            check("K2: free slots are slots", at, inside)?;
            check("K2: a slot is in one bitmap", at, free & remote == 0)?;
        }
        let sent = slab.parcel().pending.load(Relaxed) != 0 || !slab.has_remote();
        check("K4: frees of other CPUs are on their way", at, sent)?;
        self.check_state(number, header)
    }

    /// Checks that a slab is what its list, or the magazine that it says it is in, is for.
    fn check_state(&self, number: u32, header: SlabHeader) -> Result<(), Broken> {
        let seat = self.held(header.owner());
        let slab = self.records.get(number);
        let has_free = slab.first_free_word().is_some();
        let fits = match header.state() {
            SlabState::Full => !has_free,
            SlabState::Current => {
                Records::named_by(seat.words.magazine(header.class()).0) == number
            }
            SlabState::Partial => has_free && !slab.is_empty(),
            SlabState::Empty | SlabState::Surplus => slab.is_empty(),
            SlabState::None => false,
        };
        check(
            "K4: a slab is where its free slots belong",
            self.at(number),
            fits,
        )
    }

    /// Counts all objects and slabs anew. Stops all CPUs; blocks are counted exactly only if no CPU
    /// allocates or frees any meanwhile. O(frames + slabs).
    #[must_use]
    pub fn recount(&self) -> KvRecount {
        let _stopped = self.stop();
        let mut all = KvRecount::default();
        for place in 0..self.table.frames() {
            if let KvEntry::Run(order) = self.table.get(place) {
                all.runs += 1;
                all.run_frames += order.frames();
            }
        }
        for number in 1..=self.pool().fresh() {
            let slab = self.records.get(number);
            let header = slab.header();
            if header.state() == SlabState::None {
                continue;
            }
            all.slabs += 1;
            all.slab_frames += header.order().frames();
            let (mut free, mut remote) = (0, 0);
            for word in 0..BITMAP_WORDS {
                free += slab.free(word).load(Relaxed).count_ones();
                remote += slab.remote(word).load(Relaxed).count_ones();
            }
            all.free_slots += u64::from(free);
            all.remote_slots += u64::from(remote);
            all.live_slots += u64::from(header.slots().saturating_sub(free + remote));
        }
        all
    }

    /// The first frame of a slab.
    fn at(&self, number: u32) -> u64 {
        self.table.frame(self.records.get(number).place()).0
    }
}

fn check(invariant: &'static str, at: u64, holds: bool) -> Result<(), Broken> {
    Broken::unless(holds, invariant, at)
}
