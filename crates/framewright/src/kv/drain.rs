//! Work with other CPUs' seats: the last resort before an error.

use super::class::{Class, PLACES};
use super::held::Held;
use super::seat::{Count, SeatWords};
use super::slab::State;
use super::table::{Entry, Part};
use super::{Kv, KvSeat};
use crate::frame::Blocks;
use crate::platform::{Barrier, Direct, Map, Relax, Turn, Wakes, Watched, Zero};
use crate::sync::Lock;
use crate::vrange::FrameSource;

/// The kind of a request, for the memo of stops: by class, and for blocks.
fn kind(class: Option<Class>) -> usize {
    class.map_or(PLACES - 1, Class::index)
}

/// The right to stop all CPUs, until this is dropped.
struct StopLock<'k, 'm, P: Relax, R> {
    kv: &'k Kv<'m, P, R>,
    lock: Watched<'k, 'm, P>,
    wakes: Wakes<'k, P>,
}

/// The stop lock, held, with all seats claimed; dropping this gives them up.
pub(super) struct Claims<'k, 'm, P: Relax, R> {
    kv: &'k Kv<'m, P, R>,
    _lock: Watched<'k, 'm, P>,
    _wakes: Wakes<'k, P>,
}

impl<P: Relax, R> Drop for Claims<'_, '_, P, R> {
    fn drop(&mut self) {
        for seat in self.kv.all_seats() {
            seat.turn().give_up();
        }
    }
}

impl<'m, P: Relax, R> Claims<'_, 'm, P, R> {
    fn seats(&self) -> impl Iterator<Item = Held<'m>> + '_ {
        (0..self.kv.shape.cpus).map(|cpu| self.kv.held(cpu))
    }
}

/// The result of a drain before a request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drained {
    /// No CPU was stopped: the last stop gained nothing, and no slot was freed and no slab made
    /// since; or it gained nothing for another request, after this one had begun to ask.
    NotAgain,
    /// No CPU was stopped for this request, but all were stopped for another one since it began to
    /// ask, and that stop gained something: it is worth a look.
    Meanwhile,
    /// No memory was kept unused, but blocks on their way to the zones have arrived.
    Nothing,
    /// Frames, which are in the zones now, or a slab with free slots, unless others were quicker.
    Something,
}

impl<'m, P: Relax + Barrier, R> Kv<'m, P, R> {
    /// Stops all CPUs: each finishes its operation in its seat and then waits. The caller is in no
    /// seat.
    pub(super) fn stop(&self) -> Claims<'_, 'm, P, R> {
        self.lock_stops().stop()
    }

    /// Takes the stop lock: no other CPU stops all CPUs meanwhile. The caller is in no seat.
    fn lock_stops(&self) -> StopLock<'_, 'm, P, R> {
        let lock = Lock::new(self.stop_lock());
        let lock = self
            .accounts
            .lock(lock, &self.platform, self.stop_account());
        StopLock {
            kv: self,
            lock,
            wakes: Wakes(&self.platform),
        }
    }
}

impl<'k, 'm, P: Relax + Barrier, R> StopLock<'k, 'm, P, R> {
    fn stop(self) -> Claims<'k, 'm, P, R> {
        let kv = self.kv;
        // Made before the claims, so that these end even if the platform panics.
        let claims = Claims {
            kv,
            _lock: self.lock,
            _wakes: self.wakes,
        };
        Turn::claim_all(&kv.platform, || kv.all_seats().map(SeatWords::turn));
        claims
    }
}

impl<P, R> Kv<'_, P, R> {
    /// How many events there were that can make stopping all CPUs worth its cost. Only grows.
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
    /// Collects what CPUs freed in one another's slabs, and gives all slabs without an object back
    /// to the frames, through this CPU's seat. Returns how many frames.
    ///
    /// For a user that runs short of frames without a request to `kv`. Stops all CPUs. Time: O(CPUs
    /// + slabs with remote frees).
    pub fn drain(&mut self) -> u64 {
        let claims = self.kv.stop();
        self.collect_all_empties(&claims);
        drop(claims);
        self.return_surplus()
    }

    /// The same before a request fails: for a slot of that class, or for a block of frames. Also
    /// takes over slabs of other CPUs with free slots. Does nothing if the last stop did not help
    /// and no slot was freed since. Unless it `must`, it also does nothing if all CPUs were stopped
    /// for another request while this one waited to stop them.
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

    /// Brings all freed slots to their slabs, lets no class be served from any slab, and makes all
    /// slabs without an object this seat's, about to go back. For use with all CPUs stopped.
    fn collect_all_empties<'m>(&self, claims: &Claims<'_, 'm, P, R>) {
        self.words.count(Count::Drains, 1);
        // A slab that changed hands after it was sent is sent on, perhaps to a CPU that has
        // collected already. After the second round every slab is with its owner.
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

    /// Takes over slabs with free slots, of the smallest class that serves, one from each CPU.
    /// Returns whether the seat has one then. For use with all CPUs stopped and drained.
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

    /// Makes a slab of another CPU, whose seat is claimed, this CPU's, in the list for its state.
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
