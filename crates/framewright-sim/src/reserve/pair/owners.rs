//! What owners do: take runs and reservations, release them, and collect ordinary frames. The model knows which frames
//! owners have, and that guests wrote in none of them.

use super::super::{Ground, POOLS, ReserveLie};
use super::supplies::{MeddlingSupply, OtherSupply};
use super::{HeldRun, PagePlace, PairChecked, PutPage, ReservePair};
use crate::Difference;
use crate::difference::differ;
use framewright::frame::FrameSource;
use framewright::reclaim::{Ask, Shrink};
use framewright::{Context, Frame, Order, Run, RunError};

impl ReservePair<'_, '_, '_> {
    /// A run of an owner or a reservation that overlaps `run`.
    fn overlapped(&self, run: Run) -> Option<Run> {
        let reserved = self.reservations.iter().map(|held| held.run);
        let mut all = self.owned.iter().copied().chain(reserved);
        all.find(|other| other.start().0 < run.end().0 && run.start().0 < other.end().0)
    }

    /// A request that puts pages back. The first `meddles` times that the owner asks for an ordinary frame, a guest
    /// invalidates a page that may be moved.
    fn alloc_with(&mut self, frames: u64, align: u64, meddles: u8) -> Result<Run, RunError> {
        let is = |(at, page): &(&PagePlace, &PutPage)| page.is_dirty && POOLS[at.0].put_back;
        let places = self.pages.iter().filter(is).map(|(at, _)| *at);
        // Other ones each time: those that were put lately lie anywhere in this order.
        let skipped = self.stamps as usize % 3;
        let places = places.skip(skipped).take(meddles.into());
        let keys: Vec<_> = places.map(|at| (at, self.key(at))).collect();
        let mut supply = MeddlingSupply {
            ground: self.ground,
            guest: &mut self.guests[1],
            keys: keys.into_iter(),
            gone: Vec::new(),
        };
        let taken = self.reserve.alloc_contig_with(frames, align, &mut supply);
        for at in supply.gone {
            self.pages.remove(&at);
        }
        taken
    }

    pub(super) fn alloc(&mut self, frames: u64, align: u64, put_back: Option<u8>) -> PairChecked {
        let taken = match put_back {
            Some(meddles) => self.alloc_with(frames, align, meddles),
            None => self.reserve.alloc_contig(frames, align),
        };
        self.count(taken.is_ok());
        // The dirty page that was in the way may be gone.
        let meddles = put_back.is_some_and(|meddles| meddles > 0);
        if frames == 0 || !align.is_power_of_two() {
            return match taken {
                Err(RunError::Malformed) => Ok(()),
                other => differ!("{frames} frames at {align}: {other:?}"),
            };
        }
        let has_room = || {
            let starts = (0..self.case.frames).step_by(align as usize);
            let mut runs = starts.filter_map(|start| Run::new(Frame(start), frames));
            runs.any(|run| run.end().0 <= self.case.frames && self.overlapped(run).is_none())
        };
        match taken {
            Ok(run) => {
                if let Some(other) = self.overlapped(run) {
                    return differ!("C2: {run:?} overlaps {other:?}");
                }
                if run.frames() != frames
                    || run.start().0 % align != 0
                    || run.end().0 > self.case.frames
                {
                    return differ!("asked for {frames} at {align}, got {run:?}");
                }
                self.ground.own(run, true);
                self.owned.push(run);
                if self.lies(ReserveLie::OwnTwice) {
                    let released = self.reserve.release(run);
                    return released.map_err(|error| Difference(error.to_string()));
                }
                Ok(())
            }
            Err(RunError::NoRoom) if self.pages.dirty() > 0 || meddles || !has_room() => Ok(()),
            Err(RunError::NoMemory(_))
                if put_back.is_some() && (self.pages.dirty() > 0 || meddles) =>
            {
                Ok(())
            }
            Err(error) => differ!("no run of {frames} at {align}: {error}"),
        }
    }

    pub(super) fn release(&mut self, pick: u32) -> PairChecked {
        let taken = self.reservations.iter_mut().filter(|held| held.taken);
        let mut taken: Vec<&mut HeldRun> = taken.collect();
        let all = self.owned.len() + taken.len();
        if all == 0 {
            return Ok(());
        }
        let pick = pick as usize % all;
        let run = match pick.checked_sub(self.owned.len()) {
            Some(reserved) => {
                taken[reserved].taken = false;
                taken[reserved].run
            }
            None => self.owned.swap_remove(pick),
        };
        self.ground.expect_filled(run)?;
        self.ground.own(run, false);
        let released = self.reserve.release(run);
        released.map_err(|error| Difference(format!("{run:?} is not released: {error}")))
    }

    /// Any run: an owner's, a part of it or of several, or a taken reservation's, and nothing else.
    pub(super) fn release_any(&mut self, run: Run) -> PairChecked {
        let taken = self.reservations.iter_mut().filter(|held| held.taken);
        let reserved = { taken }.find(|held| held.run == run);
        let mut owned: u64 = 0;
        for other in &self.owned {
            let (start, end) = (run.start().max(other.start()), run.end().min(other.end()));
            owned += end.0.saturating_sub(start.0);
        }
        let may = run.frames() > 0 && (reserved.is_some() || owned == run.frames());
        if may {
            self.ground.expect_filled(run)?;
            self.ground.own(run, false);
        }
        match self.reserve.release(run) {
            Ok(()) if may => {}
            Err(RunError::NotOwned(at)) if !may && at == run => return Ok(()),
            other => {
                return differ!("the release of {run:?}, of which {owned} are owned: {other:?}");
            }
        }
        if let Some(held) = reserved {
            held.taken = false;
            return Ok(());
        }
        let part = |from: Frame, to: Frame| {
            let frames = to.0.saturating_sub(from.0);
            Run::new(from, frames).filter(|_| frames > 0)
        };
        let parts = self.owned.iter().flat_map(|other| {
            [
                part(other.start(), other.end().min(run.start())),
                part(other.start().max(run.end()), other.end()),
            ]
        });
        self.owned = parts.flatten().collect();
        Ok(())
    }

    pub(super) fn reserve(&mut self, frames: u64, align: u64) -> PairChecked {
        let is_possible = frames > 0 && align.is_power_of_two();
        match self.reserve.reserve("model", frames, align) {
            Err(RunError::Malformed) if !is_possible => Ok(()),
            other if !is_possible => differ!("{frames} frames at {align}: {other:?}"),
            Ok(reservation) => {
                let run = self.reserve.run_of(reservation);
                let run = run.ok_or(Difference("a reservation has no run".into()))?;
                if let Some(other) = self.overlapped(run) {
                    return differ!("C2: the reservation {run:?} overlaps {other:?}");
                }
                let taken = false;
                self.reservations.push(HeldRun {
                    reservation,
                    run,
                    taken,
                });
                Ok(())
            }
            Err(RunError::NoRoom | RunError::Held) => Ok(()),
            Err(RunError::TooMany(max)) if self.reservations.len() == max => Ok(()),
            Err(error) => differ!("no reservation of {frames} at {align}: {error}"),
        }
    }

    pub(super) fn take(&mut self, pick: u32) -> PairChecked {
        let len = self.reservations.len();
        let Some(held) = self.reservations.get_mut(pick as usize % len.max(1)) else {
            return Ok(());
        };
        // No guest is at work meanwhile, so nothing has to be waited for.
        let taken = if pick.is_multiple_of(2) {
            self.reserve.take(held.reservation)
        } else {
            self.reserve.try_take(held.reservation, 0)
        };
        let expected = if held.taken {
            Err(RunError::Taken(held.run))
        } else {
            Ok(held.run)
        };
        if taken != expected {
            return differ!("C3: {taken:?}, and {expected:?} was expected");
        }
        if !held.taken {
            self.ground.own(held.run, true);
        }
        held.taken = true;
        Ok(())
    }

    pub(super) fn unreserve(&mut self, pick: u32) -> PairChecked {
        if self.reservations.is_empty() {
            return Ok(());
        }
        let pick = pick as usize % self.reservations.len();
        let held = &self.reservations[pick];
        match self.reserve.unreserve(held.reservation) {
            Err(RunError::Taken(run)) if held.taken && run == held.run => {}
            Ok(()) if !held.taken => {
                self.reservations.swap_remove(pick);
            }
            other => return differ!("{other:?} when {:?} was given up", held.run),
        }
        Ok(())
    }

    /// Checks that a reservation of another reserve is unknown to this one, and that another source gets none of the
    /// ordinary frames (C11).
    pub(super) fn cross(&mut self, pick: u32) -> PairChecked {
        let stranger = self.strangers[pick as usize % self.strangers.len()];
        let run = self.reserve.run_of(stranger);
        let taken = self.reserve.take(stranger);
        let given_up = self.reserve.unreserve(stranger);
        if (run, taken, given_up) != (None, Err(RunError::Unknown), Err(RunError::Unknown)) {
            return differ!(
                "C2: another reserve's {stranger:?} is {run:?}, {taken:?}, {given_up:?}"
            );
        }
        let mut other = OtherSupply { given: 0 };
        let collected = self.reserve.collect(&mut other);
        // Before the first frame was put back into, any source will do.
        let is_known = self.ground.lent() > 0;
        let taken = is_known.then(|| self.reserve.alloc_contig_with(1, 1, &mut other));
        let is_refused = taken.is_none_or(|taken| taken == Err(RunError::OtherFrames));
        match (collected, other.given, is_refused) {
            (0, 0, true) => Ok(()),
            _ => differ!(
                "C11: another source got {} frames, or {taken:?}",
                other.given
            ),
        }
    }

    /// Checks that every reservation is listed once, and that the callback may ask the reserve.
    pub(super) fn list(&self) -> PairChecked {
        let mut left: Vec<&HeldRun> = self.reservations.iter().collect();
        let mut wrong = None;
        self.reserve.for_each_reservation(|name, run, taken| {
            let is = |held: &&HeldRun| (held.run, held.taken) == (run, taken);
            let at = left
                .iter()
                .position(|held| is(held) && self.reserve.run_of(held.reservation) == Some(run));
            match at.filter(|_| name == "model") {
                Some(at) => drop(left.swap_remove(at)),
                None => wrong = Some(run),
            }
        });
        match (wrong, left.first()) {
            (None, None) => Ok(()),
            (Some(run), _) => differ!("{run:?} is listed, and is no such reservation"),
            (_, Some(held)) => differ!("{:?} is not listed", held.run),
        }
    }

    /// Checks that every ordinary frame that is lent has a page, after collecting them.
    pub(super) fn collect(&mut self) -> PairChecked {
        let mut supply = self.ground;
        // Reclaim that must not wait; that wants one, twice; that may look at one descriptor; that wants half of what is left.
        for (wanted, scan, context) in [
            (u64::MAX, u64::MAX, Context::NOWAIT),
            (1, u64::MAX, Context::ANY),
            (1, u64::MAX, Context::ANY),
            (u64::MAX, 1, Context::ANY),
            (u64::MAX, u64::MAX, Context::ANY),
        ] {
            let spare = Shrink::<&Ground>::holding(self.reserve);
            let ask = Ask {
                wanted: if scan < u64::MAX {
                    wanted
                } else {
                    wanted.min(spare / 2)
                },
                scan,
                order: Order::ZERO,
                context,
            };
            let shrunk = self.reserve.shrink(&mut supply, &ask);
            let most = if context.may_block { ask.wanted } else { 0 };
            let is_right = shrunk.scanned <= scan
                && shrunk.freed <= most
                && (scan < u64::MAX || shrunk.freed == most);
            if !is_right {
                return differ!("{shrunk:?} of {spare} spare frames for {ask:?}");
            }
        }
        self.reserve.collect(&mut supply);
        if self.lies(ReserveLie::KeepFrame) {
            let _ = supply.alloc_frame();
        }
        let (lent, there) = (self.ground.lent(), self.reserve.occupancy().put_back);
        if lent != there {
            return differ!("{lent} ordinary frames are lent, for {there} pages");
        }
        Ok(())
    }
}
