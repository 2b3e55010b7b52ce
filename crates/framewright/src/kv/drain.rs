//! Work with other CPUs' seats: the last resort before an error.

use super::class::{Class, PLACES};
use super::held::Held;
use super::seat::{Count, SeatWords};
use super::slab::State;
use super::table::{Entry, Part};
use super::{Kv, KvSeat};
use crate::frame::Blocks;
use crate::platform::{Barrier, Direct, Map, Relax, Zero};
use crate::seats::{self, Accounts, Ask, Inboxes, SeatSet, StopWords, Turn};
use crate::units::{Addr, Frame, Order, Run};
use crate::vrange::FrameSource;
use core::convert::Infallible;

/// The kind of a request, for the memo of stops: by class, and for blocks.
fn kind(class: Option<Class>) -> usize {
    class.map_or(PLACES - 1, Class::index)
}

/// All CPUs stand still: the caller may act in any seat.
pub(super) type Stopped<'k, 'm, P, R> = seats::Stopped<'k, 'm, Kv<'m, P, R>>;

impl<'m, P: Relax, R> Stopped<'_, 'm, P, R> {
    fn seats(&self) -> impl Iterator<Item = Held<'m>> + '_ {
        (0..self.set.shape.cpus).map(|cpu| self.set.held(cpu))
    }
}

/// The result of a drain before a request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drained {
    /// The request stopped no CPU. Either the last stop gained nothing, and no CPU has freed a slot or made
    /// a slab since. Or a stop for another request gained nothing after this one had begun to ask.
    NotAgain,
    /// The request stopped no CPU, but another one stopped all since this one began to ask, and gained
    /// memory. So it is worth a look.
    Meanwhile,
    /// No CPU kept memory unused, but blocks on their way to the zones have arrived.
    Nothing,
    /// The request is served. It took its memory while all CPUs stood still, before another could.
    Served(Addr),
    /// The zones have frames now that they had not, in blocks that are too short.
    Frames,
}

impl<'m, P: Relax, R> SeatSet<'m> for Kv<'m, P, R> {
    type Platform = P;
    type Poisoned = Infallible;

    const CAN_BE_POISONED: bool = false;

    fn platform(&self) -> &P {
        &self.platform
    }

    fn accounts(&self) -> Accounts<P> {
        self.accounts
    }

    fn stop_words(&self) -> StopWords<'m> {
        Kv::stop_words(self)
    }

    fn turns(&self) -> impl Iterator<Item = Turn<'m>> {
        self.all_seats().map(SeatWords::turn)
    }

    /// How many slots CPUs freed and slabs they made: only these can make another stop worth its cost. Only
    /// grows.
    fn happened(&self) -> u64 {
        let frees = self.sum(Count::SlabFrees);
        frees.wrapping_add(self.sum(Count::SlabMakes))
    }

    fn poisoned(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'m, P: Relax + Barrier, R> Kv<'m, P, R> {
    /// Stops all CPUs: each finishes its work in its seat and then waits. The caller is in no seat.
    pub(super) fn stop(&self) -> Stopped<'_, 'm, P, R> {
        let Ok(stopped) = self.lock_stops().stop();
        stopped
    }
}

impl<P, R, F> KvSeat<'_, '_, '_, P, R, F>
where
    P: Relax + Barrier + Map + Zero + Direct,
    F: FrameSource + Blocks,
{
    /// Collects the slots that CPUs freed in one another's slabs, and gives all slabs without an object
    /// back to the frames, through this CPU's seat. Returns how many frames.
    ///
    /// For a user that runs short of frames without a request to `kv`. Stops all CPUs. Time: O(CPUs
    /// + slabs with remote frees).
    pub fn drain(&mut self) -> u64 {
        let stopped = self.kv.stop();
        self.collect_all_empties(&stopped);
        drop(stopped);
        self.return_surplus()
    }

    /// The same before a request fails: for a slot of that class, or for a block of that order. Also
    /// takes over slabs of other CPUs with free slots. Does nothing if the last stop did not help and no
    /// CPU has freed a slot since. Unless it `must`, it also does nothing if another request stopped all
    /// CPUs while this one waited to do so.
    pub(super) fn drain_for(
        &mut self,
        class: Option<Class>,
        order: Option<Order>,
        must: bool,
    ) -> Drained {
        let (kv, kind) = (self.kv, kind(class));
        let lock = match kv.ask(kind) {
            Ask::Vain => return Drained::NotAgain,
            Ask::Meanwhile(_) if !must => return Drained::Meanwhile,
            Ask::Meanwhile(lock) | Ask::Alone(lock) => lock,
        };
        let Ok(stopped) = lock.stop();
        let memo = kv.stop_words().memo;
        memo.stand_still();
        let happened = kv.happened();
        self.collect_all_empties(&stopped);
        let had_surplus = self.words.has_surplus();
        let slot = class.and_then(|class| self.take_over_slots(&stopped, class));
        let found = slot.or_else(|| self.take_of_surplus(class, order));
        if found.is_none() && !had_surplus {
            memo.note(kind, happened);
        }
        drop(stopped);
        self.return_surplus();
        match found {
            Some(addr) => Drained::Served(addr),
            None if had_surplus => Drained::Frames,
            None => Drained::Nothing,
        }
    }

    /// With all CPUs stopped and drained: turns a surplus slab into a slab of the request's class, or into
    /// a block of its order.
    fn take_of_surplus(&mut self, class: Option<Class>, order: Option<Order>) -> Option<Addr> {
        let order = class.map_or(order, |class| Some(class.order()))?;
        let (frame, has) = self.held.unmake_surplus()?;
        if class.is_none() && has < order {
            self.free_block(frame, has);
            return None;
        }
        let order = order.min(has);
        let rest = has.frames() - order.frames();
        if let Some(rest) = Run::new(Frame(frame.0 + order.frames()), rest) {
            self.ranges.frames().free_run(rest);
        }
        match class {
            Some(class) => {
                let place = self.place_of(frame, order)?;
                let addr = self.slab_of(class, order, place);
                // Without a record, the frames become a run.
                addr.or_else(|| self.run_of(order, frame))
            }
            None => self.run_of(order, frame),
        }
    }

    /// With all CPUs stopped: collects all remote frees, and moves all slabs without an object into this
    /// seat's list of those about to go back. No magazine has a slab afterwards.
    fn collect_all_empties<'m>(&self, stopped: &Stopped<'_, 'm, P, R>) {
        self.words.count(Count::Drains, 1);
        // A slab may have changed hands after a CPU sent it. The receiver sends it on, perhaps to a CPU
        // that has collected already. After the second round every slab is with its owner.
        for _ in 0..2 {
            for seat in stopped.seats() {
                seat.collect_inbox();
            }
        }
        for seat in stopped.seats() {
            seat.give_up_empties(true);
            seat.return_records(0);
            if seat.cpu != self.held.cpu {
                while let number @ 1.. = seat.words.first(State::Surplus, Class::new(0)) {
                    self.take_over(seat, number);
                }
            }
        }
    }

    /// With all CPUs stopped and drained: takes over one slab with free slots from each CPU, and takes a
    /// slot. The slabs are of the smallest class that serves the request.
    fn take_over_slots<'m>(&self, stopped: &Stopped<'_, 'm, P, R>, class: Class) -> Option<Addr> {
        class.and_larger().find_map(|class| {
            for seat in stopped.seats() {
                let number = seat.words.first(State::Partial, class);
                if number != 0 && seat.cpu != self.held.cpu {
                    self.take_over(seat, number);
                }
            }
            self.held.take_any(class)
        })
    }

    /// Makes a slab of another CPU this CPU's, and puts it into the list for its state. The caller has
    /// claimed the other CPU's seat.
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
