//! What owners do: requests, reservations, releasing.

use super::claims::{AtWork, ClaimedFrames};
use super::{FrameBits, MigrateArea, RESERVATIONS};
use crate::frame::Seat;
use crate::platform::{FramePlatform, OrElse, Patience};
use crate::reclaim::Clients;
use crate::reserve::Reservation;
use crate::reserve::places::RunPlaces;
use crate::slots::words_of;
use crate::stats::ContigStats;
use crate::sync::Ordering::Relaxed;
use crate::units::{Frame, Run, RunError};
use core::ops::Range;

/// Looks at pageblocks that another CPU is emptying before a request gives up. A compaction takes
/// 20 to 1,000 us, an owner's run a millisecond for each 1,000 frames that are copied; a look, with
/// the CPU given away, 1 us and more.
const LOOKS: u32 = 1 << 14;

impl<'z, 'm, P: FramePlatform> MigrateArea<'_, 'z, 'm, P> {
    /// A run of `frames` frames, the first at a multiple of `align` frames, from what no
    /// reservation needs. The first place at which that can be done is claimed, emptied and taken,
    /// in the order that the [configuration](crate::policy::ContigConfig) says. The frames are
    /// unmovable allocations of the zone until they are [released](Self::release).
    ///
    /// Clients may be called, under no lock unless one owner at a time is wanted. Time: a search through
    /// the bitmaps, some ns for each 64 frames; and for each place as [`Reclaim::take_run`].
    ///
    /// # Errors
    /// Why there is none. Nothing is claimed or isolated then; contents that have moved stay moved, and
    /// those dropped are gone.
    ///
    /// # Panics
    /// If `seat` is in another zone.
    ///
    /// [`Reclaim::take_run`]: crate::reclaim::Reclaim::take_run
    pub fn alloc_contig(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        frames: u64,
        align: u64,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> Result<Run, RunError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(RunError::Malformed);
        }
        let result = self.alloc(seat, frames, align, clients);
        self.count_request(frames, result.is_ok());
        result
    }

    /// Gives frames back: a whole reservation, or any part of what [`alloc_contig`](Self::alloc_contig)
    /// gave. Movable requests may be served from them at once.
    ///
    /// Time: O(allocations of the run); frees that reach out of an allocation split it.
    ///
    /// # Errors
    /// If not all of it is owned, or it is part of a reservation. Nothing has changed then.
    ///
    /// # Panics
    /// If `seat` is in another zone.
    pub fn release(&self, seat: &mut Seat<'z, 'm, P>, run: Run) -> Result<(), RunError> {
        self.assert_zone(seat);
        let not_owned = RunError::NotOwned(run);
        let ids = self.ids_of(run).ok_or(not_owned)?;
        let reservation = {
            let _claims = self.lock_claims();
            let whole = self.reservations.all();
            let whole = { whole }.find(|entry| entry.is_taken() && entry.run() == run);
            let is_whole_or_none = whole.is_some() || !self.has_any(FrameBits::Reserved, &ids);
            if !self.has_all(FrameBits::Owned, &ids) || !is_whole_or_none {
                return Err(not_owned);
            }
            // From here on no other CPU can release them; they stay claimed until they are free.
            self.set(FrameBits::Owned, &ids, false);
            whole
        };
        // A free that unwinds has ended all the same.
        let unwound = OrElse::new(seat, |_| self.released(&ids, reservation));
        let freed = unwound.seat.free_frames(run);
        unwound.end();
        if freed.is_err() {
            // The caller has freed some of them by another call, so it does not own them all.
            self.set(FrameBits::Owned, &ids, true);
            return Err(not_owned);
        }
        self.released(&ids, reservation);
        Ok(())
    }

    /// Sets a run of `frames` frames aside, the first at a multiple of `align` frames: the highest
    /// such run. No other reservation and no [`alloc_contig`](Self::alloc_contig) gets any of it.
    /// It is lent to movable requests like the rest of the area, so [taking](Self::take) it can
    /// fail.
    ///
    /// `name` is for listings; its first sixteen bytes are kept. Time: O(frames of the area / 64).
    ///
    /// # Errors
    /// Why not. Nothing has changed then.
    pub fn reserve(&self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(RunError::Malformed);
        }
        let _claims = self.lock_claims();
        if self.reservations.is_full() {
            return Err(RunError::TooMany(RESERVATIONS));
        }
        let places = RunPlaces::new(self.run, frames, align).ok_or(RunError::NoRoom)?;
        let Some(ids) = self.last_fit(places, &[FrameBits::Claimed, FrameBits::Reserved]) else {
            return Err(match self.last_fit(places, &[FrameBits::Reserved]) {
                Some(_) => RunError::Held,
                None => RunError::NoRoom,
            });
        };
        let reservation = self.reservations.add(name, self.run_of_ids(&ids));
        let reservation = reservation.ok_or(RunError::TooMany(RESERVATIONS))?;
        self.set(FrameBits::Reserved, &ids, true);
        Ok(reservation)
    }

    /// Gives a reservation up: movable requests and other owners may use its frames again. Waits for no
    /// other owner.
    ///
    /// # Errors
    /// If there is no such reservation, or it is taken; [`RunError::WouldWait`] if an owner is about
    /// to take it, and may fail to. Nothing has changed then.
    pub fn unreserve(&self, reservation: Reservation) -> Result<(), RunError> {
        let _claims = self.lock_claims();
        let entry = self.reservations.get(reservation);
        let entry = entry.ok_or(RunError::Unknown)?;
        let run = entry.run();
        let ids = self.ids_of(run).ok_or(RunError::Unknown)?;
        if entry.is_taken() {
            return Err(RunError::Taken(run));
        }
        // An owner that is about to take it has claimed it.
        if self.has_any(FrameBits::Claimed, &ids) {
            return Err(RunError::WouldWait);
        }
        self.set(FrameBits::Reserved, &ids, false);
        entry.remove();
        Ok(())
    }

    /// The run of a reservation.
    pub fn run_of(&self, reservation: Reservation) -> Option<Run> {
        let _claims = self.lock_claims();
        Some(self.reservations.get(reservation)?.run())
    }

    /// Calls `each` with the name and the run of every reservation, and whether it is taken. Holds
    /// no lock meanwhile, so `each` may call the area. Each reservation is as it is when its turn
    /// comes.
    pub fn for_each_reservation(&self, mut each: impl FnMut(&str, Run, bool)) {
        let mut at = 0;
        let next = |at| {
            let _claims = self.lock_claims();
            let (nth, entry) = self.reservations.next(at)?;
            Some((nth, entry.listed()))
        };
        while let Some((nth, listed)) = next(at) {
            each(listed.name(), listed.run, listed.is_taken);
            at = nth + 1;
        }
    }

    /// Takes a reservation, as [`alloc_contig`](Self::alloc_contig) takes a run, but at one place.
    /// A reservation keeps other owners away; it does not remove pinned contents.
    ///
    /// Waits for another owner that empties the same pageblocks, is about to take the same reservation, or
    /// has the turn, as long as contents move for it, and until all CPUs have left their seats: see
    /// [`try_take`](Self::try_take).
    ///
    /// # Errors
    /// If it is taken already, there is no such reservation, or something is in the way. Nothing is
    /// claimed or isolated then. That it is taken is said only when its owner has it (M5).
    ///
    /// # Panics
    /// If `seat` is in another zone.
    pub fn take(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        reservation: Reservation,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> Result<Run, RunError> {
        self.take_within(seat, reservation, clients, &mut Patience::Endless)
    }

    /// The same, but waits for other owners, and until each CPU has left its seat, for at most `rounds`
    /// calls of [`FramePlatform::relax`] in all, until the pageblocks are set apart. 0 means that it does not wait.
    ///
    /// From then on it goes on as [`take`](Self::take) does: contents move for as long as clients take, as
    /// often as the [configuration](crate::policy::ContigConfig) says. To open the pageblocks it stops all
    /// CPUs once more, without a bound, because no pageblock may stay apart.
    ///
    /// # Errors
    /// As [`take`](Self::take); [`RunError::WouldWait`] if the bound was too short. Then nothing has been set
    /// apart, moved or dropped, and the reservation is as it was.
    ///
    /// # Panics
    /// If `seat` is in another zone.
    pub fn try_take(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        reservation: Reservation,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        rounds: u32,
    ) -> Result<Run, RunError> {
        self.take_within(seat, reservation, clients, &mut Patience::Rounds(rounds))
    }

    fn take_within(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        reservation: Reservation,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        patience: &mut Patience,
    ) -> Result<Run, RunError> {
        self.assert_zone(seat);
        let mut looks = 0;
        let claim = loop {
            let run = match self.claim_reserved(reservation, patience)? {
                Ok(claim) => break claim,
                Err(run) => run,
            };
            // Another owner is about to take it, and may fail.
            if looks == LOOKS {
                return Err(RunError::Busy(run.start()));
            }
            if !patience.wait(self.reclaim.zone().platform(), looks) {
                return Err(RunError::WouldWait);
            }
            looks += 1;
        };
        let run = self.run_of_ids(&claim.ids);
        let result = loop {
            match self.take_at(seat, &claim, clients, patience) {
                None => break Err(RunError::WouldWait),
                Some(Err(RunError::Isolation(_))) if looks < LOOKS => {
                    if !patience.wait(self.reclaim.zone().platform(), looks) {
                        break Err(RunError::WouldWait);
                    }
                    looks += 1;
                }
                Some(Err(error)) => break Err(why(run, error)),
                Some(Ok(())) => {
                    // The reservation is claimed, so it is not given up meanwhile.
                    if let Some(entry) = self.reservations.get(reservation) {
                        entry.set_taken(true);
                    }
                    break Ok(claim.own());
                }
            }
        };
        self.count_request(run.frames(), result.is_ok());
        result
    }

    /// Claims the run of a reservation that is not taken; the inner error is its run, if another owner has claimed it.
    fn claim_reserved(
        &self,
        reservation: Reservation,
        patience: &mut Patience,
    ) -> Result<Result<ClaimedFrames<'_, '_, 'z, 'm, P>, Run>, RunError> {
        let claims = self.try_lock_claims(patience);
        let _claims = claims.ok_or(RunError::WouldWait)?;
        let entry = self.reservations.get(reservation);
        let entry = entry.ok_or(RunError::Unknown)?;
        let run = entry.run();
        let ids = self.ids_of(run).ok_or(RunError::Unknown)?;
        if entry.is_taken() {
            return Err(RunError::Taken(run));
        }
        if self.has_any(FrameBits::Claimed, &ids) {
            return Ok(Err(run));
        }
        self.set(FrameBits::Claimed, &ids, true);
        Ok(Ok(ClaimedFrames { area: self, ids }))
    }

    fn alloc(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        frames: u64,
        align: u64,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> Result<Run, RunError> {
        self.assert_zone(seat);
        let places = RunPlaces::new(self.run, frames, align).ok_or(RunError::NoRoom)?;
        let (_at_work, mut knows_all) = self.begin();
        let mut last = RunError::NoRoom;
        let (mut from, mut tried, mut looks) = (0, 0, 0);
        while tried < self.config.places_max {
            let Some(claim) = self.claim(places, from) else {
                if !knows_all {
                    // Others avoid places since before this request began. What was in the way there
                    // may be gone.
                    self.avoid_nothing();
                    knows_all = true;
                    continue;
                }
                if looks < LOOKS && self.is_being_emptied(places, &mut last) {
                    self.reclaim.zone().platform().relax(looks);
                    looks += 1;
                    continue;
                }
                break;
            };
            let run = self.run_of_ids(&claim.ids);
            let error = match self.take_at(seat, &claim, clients, &mut Patience::Endless) {
                Some(Ok(())) => return Ok(claim.own()),
                Some(Err(error)) => error,
                None => return Err(RunError::WouldWait),
            };
            if !self.config.first_fit
                && looks < LOOKS
                && let RunError::Isolation(_) = error
            {
                // Another CPU was faster; the next choice of a place sees which pageblocks are
                // shut.
                looks += 1;
                continue;
            }
            tried += 1;
            last = why(run, error);
            let (RunError::Pinned(frame) | RunError::Busy(frame) | RunError::Unmovable(frame)) =
                last
            else {
                break;
            };
            self.count(&ContigStats {
                busy_retries: 1,
                ..ContigStats::default()
            });
            from = claim
                .ids
                .start
                .saturating_add(usize::try_from(align).unwrap_or(usize::MAX));
            self.avoid(&claim, frame);
        }
        Err(last)
    }

    /// Begins a request. If it is the only one, it forgets the avoided frames, which may have
    /// become free since. Returns also whether it did: then it knows of each that it was in the way
    /// at some moment since.
    fn begin(&self) -> (AtWork<'_, '_, 'z, 'm, P>, bool) {
        let _claims = self.lock_claims();
        let at_work = &self.own.at_work;
        let is_alone = at_work.load(Relaxed) == 0;
        if is_alone {
            self.clear_avoided();
        }
        at_work.fetch_add(1, Relaxed);
        (AtWork(self), is_alone)
    }

    fn avoid_nothing(&self) {
        let _claims = self.lock_claims();
        self.clear_avoided();
    }

    /// Under the claims' lock.
    fn clear_avoided(&self) {
        let avoided = self.bitmap(FrameBits::Avoided);
        avoided.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Claims the next place.
    fn claim(&self, places: RunPlaces, from: usize) -> Option<ClaimedFrames<'_, '_, 'z, 'm, P>> {
        let _claims = self.lock_claims();
        let ids = self.place(places, from)?;
        self.set(FrameBits::Claimed, &ids, true);
        Some(ClaimedFrames { area: self, ids })
    }

    /// Remembers that the block at `frame` did not go away: no run with it is tried again meanwhile
    /// (M4).
    fn avoid(&self, claim: &ClaimedFrames<'_, '_, 'z, 'm, P>, frame: Frame) {
        let _claims = self.lock_claims();
        // Of that block or pageblock, marks a frame inside the place.
        let at = frame.0.saturating_sub(self.run.start().0) as usize;
        let at = at.clamp(claim.ids.start, claim.ids.end - 1);
        self.set(FrameBits::Avoided, &(at..at + 1), true);
    }

    /// No place could be tried. Returns whether there may be one when another owner has failed to take what it
    /// claimed, or another CPU has emptied a pageblock; if not, sets `last` to why there is none.
    fn is_being_emptied(&self, places: RunPlaces, last: &mut RunError) -> bool {
        if self.config.first_fit {
            return false;
        }
        let _claims = self.lock_claims();
        let Some((start, is_in_transit)) = self.place_in_transit(places) else {
            return false;
        };
        if *last == RunError::NoRoom {
            let frame = Frame(self.run.start().0 + start as u64);
            *last = if is_in_transit {
                RunError::Busy(frame)
            } else {
                RunError::Pinned(frame)
            };
        }
        is_in_transit
    }

    /// Empties the claimed run and takes it. `None` if patience ends before it can begin.
    fn take_at(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        claim: &ClaimedFrames<'_, '_, 'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        patience: &mut Patience,
    ) -> Option<Result<(), RunError>> {
        let _turn = if self.config.one_at_a_time {
            Some(self.try_lock_turn(patience)?)
        } else {
            None
        };
        let run = self.run_of_ids(&claim.ids);
        let mut counts = ContigStats {
            isolated_ranges: 1,
            ..ContigStats::default()
        };
        let taken = self.reclaim.take_run_within(
            seat,
            run,
            clients,
            &self.config,
            &mut counts,
            patience,
        )?;
        self.count(&counts);
        Some(taken)
    }

    fn count_request(&self, frames: u64, is_served: bool) {
        let [success, fail] = if is_served { [1, 0] } else { [0, 1] };
        self.count(&ContigStats {
            cma_alloc_success: success,
            cma_alloc_fail: fail,
            alloc_pages_success: success * frames,
            alloc_pages_fail: fail * frames,
            ..ContigStats::default()
        });
    }

    fn has_any(&self, bits: FrameBits, ids: &Range<usize>) -> bool {
        words_of(ids).any(|(nth, mask)| self.bitmap(bits)[nth].load(Relaxed) & mask != 0)
    }

    fn assert_zone(&self, seat: &Seat<'z, 'm, P>) {
        assert!(
            core::ptr::addr_eq(seat.zone(), self.reclaim.zone()),
            "a seat in the zone of the area"
        );
    }
}

/// Translates why a run was not taken into the owners' words.
fn why(run: Run, error: RunError) -> RunError {
    match error {
        RunError::Pinned(_)
        | RunError::Busy(_)
        | RunError::Unmovable(_)
        | RunError::NoMemory(_) => error,
        // Another CPU is emptying a pageblock of it.
        RunError::Isolation(frame) | RunError::Apart(frame) => RunError::Busy(frame),
        // The zone keeps the area's frames unless they are removed.
        _ => RunError::Unmovable(run.start()),
    }
}
