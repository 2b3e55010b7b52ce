//! What an owner does: it sets runs aside, takes them from guests, and gives them back.
//!
//! ```text
//!     lent ── reserve ──▶ reserved ── take ──▶ reserved, owned ── release ──▶ reserved ── unreserve ──▶ lent
//!     lent ── alloc_contig ──▶ owned ── release ──▶ lent
//! ```
//!
//! Only owners write the bits of reserved and owned frames, and only under the owners' lock (rank 1). An owner
//! takes 512 frames at a time: it shuts their gate (rank 2), waits for the guests inside, moves the pages'
//! generations on, and opens the gate (C2, C3). If a later section hinders it, it gives the earlier ones back;
//! what it discarded there stays discarded. Where pages must be copied first, the owner reserves the run, and
//! copies under no lock (C10).

mod choose;
mod clearing;
mod put_back;
mod spare;

use super::area::{RESERVATIONS, Reserve};
use super::places::RunPlaces;
use super::reservations::{Reservation, ReservationEntry};
use super::table::{FrameState, Lane, SECTION, add};
use crate::platform::{OrElse, Patience, ReservePlatform};
use crate::slots::{first_of, words_of};
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::units::{Run, RunError};
use clearing::LOOKS_IN_TRANSIT;
use core::ops::Range;

/// How many further searches follow one whose choice became dirty meanwhile.
const TRIES: usize = 8;

/// Why frames did not become an owner's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hindered {
    /// A frame has a forbidden bit.
    Forbidden,
    /// Others were in the way for longer than the patience lasted.
    Waiting,
}

impl<'m, P: ReservePlatform> Reserve<'m, P> {
    /// Sets a run of `frames` frames aside, the first at a multiple of `align` frames: the highest
    /// such run. No other reservation and no [`alloc_contig`](Self::alloc_contig) gets any of it.
    /// Guests keep their pages there, but from now on it holds only pages that can be dropped.
    ///
    /// A page that is on no device yet is an obstacle, even one that may be put back: this copies
    /// and writes nothing. An owner with ordinary frames for such pages takes a run by
    /// [`alloc_contig_with`](Self::alloc_contig_with), releases it, and reserves then.
    ///
    /// `name` is for listings; its first sixteen bytes are kept. Time: O(frames). Takes the owners' lock. If
    /// another owner is clearing frames that would do, waits until it has succeeded or failed (C10).
    ///
    /// # Errors
    /// Why not. Nothing has changed then.
    pub fn reserve(&self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(RunError::Malformed);
        }
        let mut looks = 0;
        loop {
            let owners = self.lock_owners();
            if self.reservations.is_full() {
                return Err(RunError::TooMany(RESERVATIONS));
            }
            match self.place(frames, align) {
                Err(_) if looks < LOOKS_IN_TRANSIT && self.is_in_transit(frames, align, false) => {}
                Err(error) => return Err(error),
                Ok(run) => {
                    let reservation = self.reservations.add(name, run);
                    return reservation.ok_or(RunError::TooMany(RESERVATIONS));
                }
            }
            drop(owners);
            self.platform.relax(looks);
            looks += 1;
        }
    }

    /// Gives a reservation up: guests and other owners may use its frames again.
    ///
    /// # Errors
    /// If there is no such reservation, or it is taken.
    pub fn unreserve(&self, reservation: Reservation) -> Result<(), RunError> {
        let _owners = self.lock_owners();
        let entry = self.reserved(reservation)?;
        let run = entry.run();
        if entry.is_taken() {
            return Err(RunError::Taken(run));
        }
        entry.remove();
        self.reserved_no_more(&self.offsets(run));
        Ok(())
    }

    /// The run of a reservation.
    #[must_use]
    pub fn run_of(&self, reservation: Reservation) -> Option<Run> {
        // Start and length are of one reservation only under the lock.
        let _owners = self.lock_owners();
        Some(self.reservations.get(reservation)?.run())
    }

    /// Takes a reservation, discarding the guests' pages that are in it.
    ///
    /// Time: about 1 ns for each page discarded and 20 ns for each 512 frames. Calls nothing
    /// outside. Waits for another owner's call, and at the gate of each 512 frames for the guests
    /// inside: at most one for each CPU, which stays for one copy of a page, **and for as long as
    /// it is off its CPU meanwhile**. A kernel switches preemption off inside a guest's call; where
    /// that cannot be, [`try_take`](Self::try_take) sets a bound.
    ///
    /// No guest writes the frames from then on. A get of a pool that is not
    /// [exclusive](super::PoolConfig::exclusive) copies outside every gate, and checks afterwards
    /// that its page was there all the time. So a get that was under way may still *read* the
    /// frames, once, at any later time; its guest never sees what it read. An owner that makes the
    /// frames inaccessible, or writes them by plain stores, first waits until each guest's call
    /// that had begun has ended.
    ///
    /// # Errors
    /// If it is taken already, or there is no such reservation: never because of guests (C3).
    pub fn take(&self, reservation: Reservation) -> Result<Run, RunError> {
        self.take_with(reservation, &mut Patience::Endless)
    }

    /// The same, but waits for others for at most `rounds` calls of
    /// [`FramePlatform::relax`](crate::platform::FramePlatform::relax) in all; 0 means not at all.
    ///
    /// # Errors
    /// As [`take`](Self::take); [`RunError::WouldWait`] if the bound was too short. The
    /// reservation is as it was, and no frame has changed hands. The call may have dropped pages that could be
    /// dropped at any time.
    pub fn try_take(&self, reservation: Reservation, rounds: u32) -> Result<Run, RunError> {
        self.take_with(reservation, &mut Patience::Rounds(rounds))
    }

    fn take_with(
        &self,
        reservation: Reservation,
        patience: &mut Patience,
    ) -> Result<Run, RunError> {
        let owners = self.try_lock_owners(patience);
        let _owners = owners.ok_or(RunError::WouldWait)?;
        let entry = self.reserved(reservation)?;
        let (run, free) = (entry.run(), !entry.is_taken());
        let discarded = if free {
            self.try_discard(&self.offsets(run), Lane::owned_or_dirty, patience)
        } else {
            Err(Hindered::Forbidden)
        };
        match discarded {
            Ok(()) => {
                entry.set_taken(true);
                return Ok(run);
            }
            Err(Hindered::Forbidden) => {
                debug_assert!(!free, "no dirty page and no owner is in a reservation");
            }
            Err(Hindered::Waiting) => {}
        }
        add(&self.own.takes_failed, 1);
        Err(if discarded == Err(Hindered::Waiting) {
            RunError::WouldWait
        } else {
            RunError::Taken(run)
        })
    }

    /// Takes a run of `frames` frames, the first at a multiple of `align` frames, from what no
    /// reservation needs: one that costs the fewest pages, where a page that was got lately counts
    /// twice; the lowest of several.
    ///
    /// Time: a search of the bitmaps, a few ns for each 64 frames, and as [`take`](Self::take).
    ///
    /// # Errors
    /// If every run has a frame that is reserved, owned or dirty; [`RunError::WouldWait`] if another owner
    /// clears frames that would do, for longer than this one waits for it (C10). Nothing has changed then,
    /// except that pages may have been dropped.
    pub fn alloc_contig(&self, frames: u64, align: u64) -> Result<Run, RunError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(RunError::Malformed);
        }
        let mut looks = 0;
        loop {
            let owners = self.lock_owners();
            let mut swept = false;
            for _ in 0..TRIES {
                let Some(ids) = self.cheapest(frames, align, false) else {
                    if swept {
                        break;
                    }
                    self.drop_dead(&(0..self.table.frames()));
                    swept = true;
                    continue;
                };
                if self.discard(&ids, Lane::unavailable_or_dirty) {
                    return Ok(self.run_at(&ids));
                }
            }
            let in_transit = self.is_in_transit(frames, align, false);
            if !in_transit || looks == LOOKS_IN_TRANSIT {
                add(&self.own.takes_failed, 1);
                return Err(match in_transit {
                    true => RunError::WouldWait,
                    false => RunError::NoRoom,
                });
            }
            drop(owners);
            self.platform.relax(looks);
            looks += 1;
        }
    }

    /// Gives an owner's frames back: a whole reservation, or any part of what
    /// [`alloc_contig`](Self::alloc_contig) gave. Guests may use them at once; their old contents
    /// are never served.
    ///
    /// # Errors
    /// If not all of it is owned, or it is part of a reservation. Nothing has changed then.
    pub fn release(&self, run: Run) -> Result<(), RunError> {
        let _owners = self.lock_owners();
        let whole = self.contains(run).then(|| self.offsets(run));
        let ids = whole.ok_or(RunError::NotOwned(run))?;
        let owned = |(nth, mask)| self.table.lane(nth).owned.load(Relaxed) & mask == mask;
        let reserved = |(nth, mask)| self.table.lane(nth).reserved.load(Relaxed) & mask != 0;
        let mut reservations = self.reservations.all();
        let reservation = reservations.find(|entry| entry.is_taken() && entry.run() == run);
        if ids.is_empty()
            || !words_of(&ids).all(owned)
            || reservation.is_none() && words_of(&ids).any(reserved)
        {
            return Err(RunError::NotOwned(run));
        }
        if let Some(entry) = reservation {
            entry.set_taken(false);
        }
        self.own_no_more(&ids);
        add(&self.own.released, run.frames());
        Ok(())
    }

    /// Calls `each` with the name and the run of every reservation, and whether it is taken. Holds
    /// no lock meanwhile, so `each` may call the reserve. Each reservation is as it is when its
    /// turn comes.
    pub fn for_each_reservation(&self, mut each: impl FnMut(&str, Run, bool)) {
        let mut at = 0;
        let next = |at| {
            let _owners = self.lock_owners();
            let (nth, entry) = self.reservations.next(at)?;
            Some((nth, entry.listed()))
        };
        while let Some((nth, listed)) = next(at) {
            each(listed.name(), listed.run, listed.is_taken);
            at = nth + 1;
        }
    }

    /// The reservation with that [number](Reservation::number), if it exists.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Option<Reservation> {
        let _owners = self.lock_owners();
        self.reservations.numbered(number)
    }

    fn reserved(&self, reservation: Reservation) -> Result<ReservationEntry<'m>, RunError> {
        let entry = self.reservations.get(reservation);
        entry.ok_or(RunError::Unknown)
    }

    fn contains(&self, run: Run) -> bool {
        run.start() >= self.run().start() && run.end() <= self.run().end()
    }

    pub(super) fn offsets(&self, run: Run) -> Range<usize> {
        let start = (run.start().0 - self.run().start().0) as usize;
        start..start + run.frames() as usize
    }

    pub(super) fn run_at(&self, ids: &Range<usize>) -> Run {
        Run::new(self.frame(ids.start), ids.len() as u64).expect("inside the reserve")
    }

    /// Finds a place for a reservation and reserves it, if no dirty page is there or comes meanwhile.
    /// It begins at the highest place. After each obstacle it tries the highest place below that frame.
    fn place(&self, frames: u64, align: u64) -> Result<Run, RunError> {
        let places = RunPlaces::new(self.run(), frames, align).ok_or(RunError::NoRoom)?;
        let mut why = RunError::NoRoom;
        let mut end = self.table.frames();
        while let Some(at) = places.below(end) {
            let ids = places.run_at(at);
            self.drop_dead(&ids);
            let mut obstacle = self.first_of(&ids, Lane::unavailable_or_dirty);
            if obstacle.is_none() {
                self.mark_reserved(&ids);
                // Dirty pages that came before the run was reserved are visible now.
                obstacle = self.first_of(&ids, Lane::owned_or_dirty);
                if obstacle.is_none() {
                    return Ok(self.run_at(&ids));
                }
                self.reserved_no_more(&ids);
            }
            if self.first_of(&ids, Lane::owned_or_dirty).is_some() {
                why = RunError::Held;
            }
            end = obstacle.unwrap_or(0);
        }
        Err(why)
    }

    /// The first frame for which `bits` has a bit.
    pub(super) fn first_of(
        &self,
        ids: &Range<usize>,
        bits: impl Fn(&Lane) -> u64,
    ) -> Option<usize> {
        first_of(ids, |nth| bits(self.table.lane(nth)))
    }

    /// Drops dirty pages that are invalid by their pool's generation; no get can find them.
    pub(super) fn drop_dead(&self, ids: &Range<usize>) {
        let mut at = ids.start;
        while let Some(id) = self.first_of(&(at..ids.end), Lane::dirty) {
            at = id + 1;
            // A look first, so that no guest waits at the gate for a page that is alive.
            if !self.is_dead(id, self.table.state(id)) {
                continue;
            }
            let _shut = self.table.shut(id / SECTION, &self.platform);
            let state = self.table.state(id);
            if state.state() == FrameState::Dirty
                && self.is_dead(id, state)
                && self
                    .table
                    .change(id, state, state.next(FrameState::Free, state.pool()))
            {
                self.dirty_no_more(id, state.pool());
                self.count_lost(state.pool());
                self.table.set_free(id);
                self.tell_free(id);
            }
        }
    }

    /// Counts a page that its pool lost to an owner.
    pub(super) fn count_lost(&self, pool: usize) {
        let lost = &self.lost[pool];
        lost.store(lost.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Sets frames aside. A CPU that puts a dirty page is inside the gate from its look at this
    /// bitmap to the end. The owner sets the bit while the gate is shut. So each such put either came later and
    /// sees the bit, or has ended and the owner sees its page. If the wait at a gate unwinds out of this, no frame
    /// is reserved.
    pub(super) fn mark_reserved(&self, ids: &Range<usize>) {
        let mut reserve = self;
        let unwound = OrElse::new(&mut reserve, |reserve| reserve.reserved_no_more(ids));
        for (nth, mask) in words_of(ids) {
            let _shut = self.table.shut(nth * 64 / SECTION, &self.platform);
            let word = &self.table.lane(nth).reserved;
            // Only owners write it, and they take turns.
            word.store(word.load(Relaxed) | mask, Relaxed);
        }
        unwound.end();
    }

    /// Ends that. Waits for no guest: one that has not seen it yet passes the frames by.
    pub(super) fn reserved_no_more(&self, ids: &Range<usize>) {
        for (nth, mask) in words_of(ids) {
            let word = &self.table.lane(nth).reserved;
            word.store(word.load(Relaxed) & !mask, Relaxed);
        }
    }

    /// Makes frames an owner's. `false` if one of them has a `forbidden` bit: no frame is owned then.
    pub(super) fn discard(&self, ids: &Range<usize>, forbidden: impl Fn(&Lane) -> u64) -> bool {
        let discarded = self.try_discard(ids, forbidden, &mut Patience::Endless);
        discarded.is_ok()
    }

    /// The same, while there is patience.
    fn try_discard(
        &self,
        ids: &Range<usize>,
        forbidden: impl Fn(&Lane) -> u64,
        patience: &mut Patience,
    ) -> Result<(), Hindered> {
        let table = &self.table;
        let (mut free, mut cold, mut hot) = (0, 0, 0);
        let mut done = ids.start;
        // Whatever ends this early, a wait that unwinds too: no frame is owned then.
        let early = OrElse::new(&mut done, |done| self.own_no_more(&(ids.start..*done)));
        while *early.seat < ids.end {
            let section = *early.seat / SECTION;
            let end = ids.end.min((section + 1) * SECTION);
            let Some(shut) = table.try_shut(section, &self.platform, patience) else {
                return Err(Hindered::Waiting);
            };
            let here = *early.seat..end;
            if words_of(&here).any(|(nth, mask)| forbidden(table.lane(nth)) & mask != 0) {
                return Err(Hindered::Forbidden);
            }
            for (nth, mask) in words_of(&here) {
                let lane = table.lane(nth);
                let was_free = lane.free.load(Relaxed) & mask;
                // Plain stores: with the gate shut only this owner writes these two.
                lane.free.store(lane.free.load(Relaxed) & !mask, Relaxed);
                lane.owned.store(lane.owned.load(Relaxed) | mask, Relaxed);
                free += u64::from(was_free.count_ones());
                let mut pages = mask & !was_free;
                let visited = lane.visited.load(Relaxed) & mask;
                if pages != 0 && visited != 0 {
                    lane.visited.fetch_and(!mask, Relaxed);
                }
                hot += u64::from((pages & visited).count_ones());
                cold += u64::from((pages & !visited).count_ones());
                while pages != 0 {
                    let id = nth * 64 + pages.trailing_zeros() as usize;
                    pages &= pages - 1;
                    let state = table.state(id);
                    table.set_shut(id, state.next(FrameState::Free, state.pool()));
                    self.count_lost(state.pool());
                }
            }
            drop(shut);
            *early.seat = end;
        }
        early.end();
        // Comes before the owner's first write.
        table.before_writing();
        add(&self.own.takes, 1);
        add(&self.own.taken_free, free);
        add(&self.own.taken_cold, cold);
        add(&self.own.taken_hot, hot);
        Ok(())
    }

    fn own_no_more(&self, ids: &Range<usize>) {
        for (nth, mask) in words_of(ids) {
            let lane = self.table.lane(nth);
            // Only owners write it, and they take turns.
            lane.owned.store(lane.owned.load(Relaxed) & !mask, Relaxed);
            // SeqCst, as where one frame becomes free.
            lane.free.fetch_or(mask, SeqCst);
        }
        if !ids.is_empty() {
            for section in ids.start / SECTION..=(ids.end - 1) / SECTION {
                self.tell_free(section * SECTION);
            }
        }
    }
}
