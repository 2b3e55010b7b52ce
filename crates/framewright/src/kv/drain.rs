//! What is done with others' seats: the last resort before an error.

use super::class::{Class, PLACES};
use super::held::Held;
use super::seat::{Count, SeatWords};
use super::slab::State;
use super::table::{Entry, Part};
use super::{Kv, KvSeat};
use crate::frame::Blocks;
use crate::platform::{Barrier, Direct, Map, Relax, Turn, Watched, Zero};
use crate::sync::Lock;
use crate::vrange::FrameSource;

/// The kind of a request, for the memo of stops: by class, and for blocks.
fn kind(class: Option<Class>) -> usize {
    class.map_or(PLACES - 1, Class::index)
}

/// The right to stop all CPUs, until this is dropped.
struct StopLock<'k, 'm, P, R> {
    kv: &'k Kv<'m, P, R>,
    lock: Watched<'k, 'm, P>,
}

/// Somebody has the stop lock, and has claimed all seats; they are given up when this is dropped.
pub(super) struct Claims<'k, 'm, P, R> {
    kv: &'k Kv<'m, P, R>,
    _lock: Watched<'k, 'm, P>,
}

impl<P, R> Drop for Claims<'_, '_, P, R> {
    fn drop(&mut self) {
        for seat in self.kv.all_seats() {
            seat.turn().give_up();
        }
    }
}

impl<'m, P, R> Claims<'_, 'm, P, R> {
    fn seats(&self) -> impl Iterator<Item = Held<'m>> + '_ {
        (0..self.kv.shape.cpus).map(|cpu| self.kv.held(cpu))
    }
}

/// What a drain before a request fails brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drained {
    /// Nobody was stopped: it brought nothing the last time, and nothing was freed or made since; or it
    /// brought nothing for somebody else, after this request had begun to ask.
    NotAgain,
    /// Nobody was stopped on this request's behalf, but all CPUs were since it began to ask, and it
    /// brought something for somebody: it is worth a look.
    Meanwhile,
    /// Nothing was kept for nobody; but what was on its way to the zones has arrived.
    Nothing,
    /// Frames, which are in the zones now, or a slab with free slots, unless others were quicker.
    Something,
}

impl<'m, P: Relax + Barrier, R> Kv<'m, P, R> {
    /// Stops all CPUs: each finishes what it is doing in its seat and then waits. The caller is in
    /// no seat.
    pub(super) fn stop(&self) -> Claims<'_, 'm, P, R> {
        self.lock_stops().stop()
    }

    /// The stop lock: nobody else stops all CPUs. The caller is in no seat.
    fn lock_stops(&self) -> StopLock<'_, 'm, P, R> {
        let lock = Lock::new(self.stop_lock());
        let lock = self
            .accounts
            .lock(lock, &self.platform, self.stop_account());
        StopLock { kv: self, lock }
    }
}

impl<'k, 'm, P: Relax + Barrier, R> StopLock<'k, 'm, P, R> {
    fn stop(self) -> Claims<'k, 'm, P, R> {
        let kv = self.kv;
        // Made before the claims, so that they end also if the platform panics.
        let claims = Claims {
            kv,
            _lock: self.lock,
        };
        Turn::claim_all(&kv.platform, || kv.all_seats().map(SeatWords::turn));
        claims
    }
}

impl<P, R> Kv<'_, P, R> {
    /// How often anybody did what can make stopping all CPUs worth its cost. Only grows.
    fn happened(&self) -> u64 {
        let frees = self.sum(Count::SlabFrees);
        frees.wrapping_add(self.sum(Count::SlabMakes))
    }
}

impl<P, R, F> KvSeat<'_, '_, '_, P, R, F>
where
    P: Relax + Barrier + Map + Zero + Direct,
    F: FrameSource + Blocks,
{
    /// Collects what all CPUs freed in one another's slabs, and gives all slabs in which nothing
    /// is allocated back to the frames, through this CPU's seat. Returns how many frames.
    ///
    /// For who runs short of frames without asking here. Stops all CPUs. Time: O(CPUs + slabs in
    /// which something was freed).
    pub fn drain(&mut self) -> u64 {
        let claims = self.kv.stop();
        self.collect_all_empties(&claims);
        drop(claims);
        self.return_surplus()
    }

    /// The same before a request fails: for a slot of that class, or for a block of frames. What
    /// others have free of a slab is taken over too. Does nothing if it did not help the last time
    /// and nothing was freed since, and unless it `must` also if all CPUs were stopped for somebody else
    /// while this request waited for that.
    pub(super) fn drain_for(&mut self, class: Option<Class>, must: bool) -> Drained {
        let (kv, kind) = (self.kv, kind(class));
        let begin = kv.memo().last();
        if kv.memo().is_in_vain(kind, kv.happened()) {
            return Drained::NotAgain;
        }
        let lock = kv.lock_stops();
        if kv.memo().was_in_vain_since(kind, begin) {
            return Drained::NotAgain;
        }
        if !must && kv.memo().last() != begin {
            return Drained::Meanwhile;
        }
        let claims = lock.stop();
        kv.memo().stand_still();
        let happened = kv.happened();
        self.collect_all_empties(&claims);
        let helps = self.words.has_surplus()
            || class.is_some_and(|class| self.take_over_slots(&claims, class));
        if !helps {
            kv.memo().note(kind, happened);
        }
        drop(claims);
        self.return_surplus();
        match helps {
            true => Drained::Something,
            false => Drained::Nothing,
        }
    }

    /// With all CPUs stopped: what is freed is where it belongs, no class is served from any slab,
    /// and all slabs in which nothing is allocated are this seat's, about to go back.
    fn collect_all_empties<'m>(&self, claims: &Claims<'_, 'm, P, R>) {
        self.words.count(Count::Drains, 1);
        // A slab that changed hands since it was sent is sent on, perhaps to one who was asked
        // before; after that all are where they belong.
        for _ in 0..2 {
            for seat in claims.seats() {
                seat.collect_inbox();
            }
        }
        for seat in claims.seats() {
            seat.give_up_empties(true);
            seat.return_records(0);
            if seat.cpu != self.held.cpu {
                while let number @ 1.. = seat.words.first(State::Surplus, Class::new(0)) {
                    self.take_over(seat, number);
                }
            }
        }
    }

    /// With all CPUs stopped and drained: takes slabs over that have free slots, of the smallest
    /// class that serves, one from each CPU. Returns whether the seat has one then.
    fn take_over_slots<'m>(&self, claims: &Claims<'_, 'm, P, R>, class: Class) -> bool {
        for class in class.and_larger() {
            for seat in claims.seats() {
                let number = seat.words.first(State::Partial, class);
                if number != 0 && seat.cpu != self.held.cpu {
                    self.take_over(seat, number);
                }
            }
            if self.words.first(State::Partial, class) != 0 {
                return true;
            }
        }
        false
    }

    /// Makes another CPU's slab, whose seat is claimed, this one's: in the list of its state.
    fn take_over(&self, from: Held<'_>, number: u32) {
        let slab = self.held.records.get(number);
        let header = slab.header();
        from.move_to(number, State::Full);
        slab.set_header(slab.header().with_owner(self.held.cpu));
        for nth in 0..header.order().frames() as usize {
            let part = Part::new(number, header.class(), self.held.cpu, nth);
            let place = slab.place() + nth;
            self.held.table.change(place, Entry::Slab(part));
        }
        self.held.move_to(number, header.state());
    }
}
