//! The slow check of the invariants, and the slow count of objects and slabs, with all CPUs stopped.

use super::Kv;
use super::seat::Held;
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
    /// Slots that are free, without those freed from elsewhere.
    pub free_slots: u64,
    /// Slots freed from elsewhere and not yet collected.
    pub remote_slots: u64,
    /// Blocks of frames that are objects.
    pub runs: u64,
    /// Frames in these.
    pub run_frames: u64,
}

impl<P: FramePlatform> Kv<'_, P> {
    /// Checks every invariant K1 to K4 that can be seen at rest. Stops all CPUs.
    /// O(frames + slabs).
    ///
    /// # Errors
    /// The first one that does not hold, with the frame or the slab's first frame; 0 if it is about no frame.
    pub fn verify(&self) -> Result<(), Broken> {
        let _stopped = self.stop();
        let mut place = 0;
        while place < self.table.frames() {
            place += self.verify_frame(place)?;
        }
        let given = self.pool().recount();
        check("SL2: the set of free records", 0, given.is_some())?;
        let mut listed = u64::from(given.unwrap_or(0));
        for cpu in 0..self.shape.cpus {
            listed += self.verify_seat(self.held(cpu))?;
        }
        let mut used = 0;
        for number in 1..=self.records.count() {
            used += self.verify_slab(number)?;
        }
        let all = u64::from(self.records.count());
        check(
            "K3: records are slabs' or in one list",
            0,
            listed + used == all,
        )
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
        let exists = part.record() != 0 && part.record() <= self.records.count();
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

    /// Checks the lists of a seat. Returns how many records without a slab it has.
    fn verify_seat(&self, seat: Held<'_>) -> Result<u64, Broken> {
        let most = self.records.count();
        for class in SizeClass::all() {
            let current = Records::named_by(seat.words.magazine(class).0);
            if current != 0 {
                let header = self.records.get(current).header();
                let same = header.state() == SlabState::Current
                    && header.class() == class
                    && header.owner() == seat.cpu;
                check(
                    "K4: a magazine's slab is the current one",
                    self.at(current),
                    same,
                )?;
            }
            for state in [SlabState::Partial, SlabState::Empty] {
                self.verify_list(seat, state, class)?;
            }
        }
        self.verify_list(seat, SlabState::Surplus, SizeClass::new(0))?;
        let (mut next, count) = seat.words.records();
        for _ in 0..count {
            let is_one = next != 0 && next <= most;
            check("K3: a seat's list of records", 0, is_one)?;
            let state = self.records.get(next).header().state();
            check(
                "K3: a listed record is no slab's",
                0,
                state == SlabState::None,
            )?;
            next = self.records.get(next).next();
        }
        check("K3: a seat's count of records", 0, next == 0)?;
        Ok(u64::from(count))
    }

    fn verify_list(
        &self,
        seat: Held<'_>,
        state: SlabState,
        class: SizeClass,
    ) -> Result<(), Broken> {
        let (mut prev, mut next) = (0, seat.words.first(state, class));
        let mut left = self.records.count();
        while next != 0 {
            let slab = self.records.get(next);
            let header = slab.header();
            let same = header.state() == state
                && header.owner() == seat.cpu
                && (state == SlabState::Surplus || header.class() == class);
            let is_one = same && slab.prev() == prev && left != 0;
            check(
                "K4: a list is of its seat, class and state",
                self.at(next),
                is_one,
            )?;
            (prev, next) = (next, slab.next());
            left -= 1;
        }
        Ok(())
    }

    /// Checks a record. Returns whether it has a slab.
    fn verify_slab(&self, number: u32) -> Result<u64, Broken> {
        let slab = self.records.get(number);
        let header = slab.header();
        if header.state() == SlabState::None {
            return Ok(0);
        }
        let at = self.at(number);
        let known = header.owner() < self.shape.cpus
            && header.slots() == header.class().slots(header.order());
        check("K3: a slab's owner and slots", at, known)?;
        let place = slab.place();
        let frames = header.order().frames() as usize;
        check(
            "K1: a slab ends in memory",
            at,
            place + frames <= self.table.frames(),
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
        self.check_state(number, header)?;
        Ok(1)
    }

    /// Checks that a slab is in the list, or the magazine, that it says it is in.
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
        )?;
        let is_linked = match seat.words.list(header.state(), header.class()) {
            None => true,
            Some(head) => match slab.prev() {
                0 => head.load(Relaxed) == u64::from(number),
                prev => self.records.get(prev).next() == number,
            },
        };
        check("K4: a slab is in its list", self.at(number), is_linked)
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
        for number in 1..=self.records.count() {
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
