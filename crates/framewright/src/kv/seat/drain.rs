//! Work with other CPUs' seats: the last resort before an error.

use super::super::slab::{PLACES, SizeClass, SlabState};
use super::super::table::{KvEntry, SlabFrame};
use super::super::{Kv, KvError, KvSeat};
use super::held::KvHeld;
use super::record::{KINDS, KvSeatRecord};
use crate::frame::{AllocError, FrameSource};
use crate::platform::{FramePlatform, ObjectPlatform, OrElse, Patience};
use crate::seats::{self, Accounts, Inboxes, SeatSet, Standstill, StopAsk, StopWords, Turn};
use crate::units::{Addr, Order};
use core::convert::Infallible;

/// The kind of a request, for the memo of stops: by class, or by order, and the last one for pages.
fn kind(class: Option<SizeClass>, order: Option<Order>) -> usize {
    match (class, order) {
        (Some(class), _) => class.index(),
        (None, Some(order)) => PLACES - 1 + order.index(),
        (None, None) => KINDS - 1,
    }
}

/// All CPUs stand still: the caller may act in any seat.
pub(super) type StoppedKv<'k, 'm, P> = seats::Stopped<'k, 'm, Kv<'m, P>>;

impl<'m, P: FramePlatform> StoppedKv<'_, 'm, P> {
    fn seats(&self) -> impl Iterator<Item = KvHeld<'m>> + '_ {
        (0..self.set.shape.cpus).map(|cpu| self.set.held(cpu))
    }
}

/// Why a request got nothing from a standstill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Missed {
    /// It stopped no CPU. Either the last stop gained nothing, and no CPU has freed a slot or made a slab
    /// since. Or a stop for another request of its kind gained nothing after this one had begun.
    Vain,
    /// All CPUs stood still, and neither slabs nor zones had anything for it.
    Nothing(KvError),
}

impl Missed {
    /// The error of a request that failed so; `failed` if no CPU was stopped.
    pub(in super::super) fn or(self, failed: KvError) -> KvError {
        match self {
            Self::Vain => failed,
            Self::Nothing(error) => error,
        }
    }
}

impl<'m, P: FramePlatform> SeatSet<'m> for Kv<'m, P> {
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
        self.all_seats().map(KvSeatRecord::turn)
    }

    /// How many slots CPUs freed and slabs they made: only these can make another stop worth its cost. Only
    /// grows.
    fn happened(&self) -> u64 {
        let frees = self.sum(|of| &of.slab_frees);
        frees.wrapping_add(self.sum(|of| &of.slab_makes))
    }

    fn poisoned(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'m, P: FramePlatform> Kv<'m, P> {
    /// Stops all CPUs: each finishes its work in its seat and then waits. The caller is in no seat.
    pub(in super::super) fn stop(&self) -> StoppedKv<'_, 'm, P> {
        let Ok(stopped) = self.lock_stops().stop();
        stopped
    }
}

impl<P, F, R> KvSeat<'_, '_, '_, P, F, R>
where
    P: ObjectPlatform,
    F: FrameSource,
{
    /// Collects the slots that CPUs freed in one another's slabs, and gives all slabs without an object
    /// back to the frames, through this CPU's seat. Returns how many frames.
    ///
    /// For a user that runs short of frames without a request to `kv`. Stops all CPUs. Time: O(CPUs
    /// + slabs with remote frees).
    pub fn drain(&mut self) -> u64 {
        self.drain_with(&mut Patience::Endless).unwrap_or(0)
    }

    /// The same, but waits for other CPUs of `kv` for at most `rounds` calls of
    /// [`FramePlatform::relax`](crate::platform::FramePlatform::relax): for one that stops all, and until each has left its seat. With
    /// 0 it waits for none of them. `None` if the bound was too short: nothing has changed then. The way of the
    /// frames to their source is a [free](crate::frame::FrameSource::free_block), and waits as that.
    pub fn drain_within(&mut self, rounds: u32) -> Option<u64> {
        self.drain_with(&mut Patience::Rounds(rounds))
    }

    fn drain_with(&mut self, patience: &mut Patience) -> Option<u64> {
        let lock = self.kv.lock_stops_within(patience)?;
        let Ok(stopped) = lock.stop_within(patience);
        let stopped = stopped?;
        self.collect_all_empties(&stopped);
        drop(stopped);
        self.give_loose();
        Some(self.return_surplus())
    }

    /// The same before a request fails that began when `begin` was the last standstill. While all CPUs stand
    /// still, no frame is on its way from a zone to a slab or back: so if neither has anything for the request
    /// then, at that moment there was nothing (K9). Without an order the request takes nothing, because pages
    /// are mapped when no CPU stands still.
    ///
    /// Stops no CPU without hope of a gain, and looks once more before it does, if all CPUs stood still since `begin`.
    pub(in super::super) fn at_rest(
        &mut self,
        class: Option<SizeClass>,
        order: Option<Order>,
        begin: Standstill,
    ) -> Result<Addr, Missed> {
        let (kv, kind) = (self.kv, kind(class, order));
        let lock = match kv.ask(kind, begin) {
            StopAsk::Vain => return Err(Missed::Vain),
            StopAsk::Meanwhile(lock) => {
                if let Some(addr) = order.and_then(|order| self.at_once(class, order)) {
                    return Ok(addr);
                }
                lock
            }
            StopAsk::Alone(lock) => lock,
        };
        let Ok(stopped) = lock.stop();
        let memo = kv.stop_words().memo;
        memo.stand_still();
        let happened = kv.happened();
        self.collect_all_empties(&stopped);
        let had_surplus = self.held.words.has_surplus();
        let slot = class.and_then(|class| self.take_over_slots(&stopped, class));
        let found = match (slot, order) {
            (Some(addr), _) => Ok(addr),
            (None, Some(order)) => self.block_at_rest(class, order),
            (None, None) => Err(KvError::Frames(AllocError::Exhausted)),
        };
        if found.is_err() && (order.is_some() || !had_surplus) {
            memo.note(kind, happened);
        }
        // The end of the stop wakes those that wait.
        let unwound = OrElse::new(self, |seat: &mut Self| seat.take_back(found.ok()));
        drop(stopped);
        unwound.end();
        self.return_surplus_beside(found.ok());
        found.map_err(Missed::Nothing)
    }

    /// With all CPUs stopped and drained: an object in a block of the zones, to which surplus slabs go one by
    /// one until it is there.
    fn block_at_rest(&mut self, class: Option<SizeClass>, order: Order) -> Result<Addr, KvError> {
        loop {
            if let Some(addr) = self.try_block_at_rest(class, order) {
                return Ok(addr);
            }
            match self.held.unmake_surplus() {
                Some((class, frame, has)) => self.give_surplus(class, frame, has),
                None => break,
            }
        }
        let frame = self.fetch_block(class, order)?;
        let order = class.map_or(order, |_| Order::ZERO);
        let place = self.place_of(frame, order);
        let place = place.ok_or(KvError::Outside(frame))?;
        let slab = class.and_then(|class| self.slab_of(class, order, place));
        let addr = slab.or_else(|| self.run_of(order, frame));
        addr.ok_or(KvError::Outside(frame))
    }

    /// The same, if the block is there at once. Without a record, the object is a run.
    fn try_block_at_rest(&mut self, class: Option<SizeClass>, order: Order) -> Option<Addr> {
        if let Some(class) = class.filter(|_| self.held.has_record()) {
            let (order, place) = self.place_of_block(class)?;
            return self.slab_of(class, order, place);
        }
        let order = class.map_or(order, |_| Order::ZERO);
        let frame = self.try_block(order)?;
        self.run_of(order, frame)
    }

    /// With all CPUs stopped: collects all remote frees, and moves all slabs without an object into this
    /// seat's list of those about to go back. No magazine has a slab afterwards.
    fn collect_all_empties<'m>(&self, stopped: &StoppedKv<'_, 'm, P>) {
        self.held.words.counters.drains.add(1);
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
                while let number @ 1.. = seat.words.first(SlabState::Surplus, SizeClass::new(0)) {
                    self.take_over(seat, number);
                }
            }
        }
    }

    /// With all CPUs stopped and drained: takes over one slab with free slots from each CPU, and takes a
    /// slot. The slabs are of the smallest class that serves the request.
    fn take_over_slots<'m>(
        &self,
        stopped: &StoppedKv<'_, 'm, P>,
        class: SizeClass,
    ) -> Option<Addr> {
        class.and_larger().find_map(|class| {
            for seat in stopped.seats() {
                let number = seat.words.first(SlabState::Partial, class);
                if number != 0 && seat.cpu != self.held.cpu {
                    self.take_over(seat, number);
                }
            }
            self.held.take_any(class)
        })
    }

    /// Makes a slab of another CPU this CPU's, and puts it into the list for its state. The caller has
    /// claimed the other CPU's seat.
    fn take_over(&self, from: KvHeld<'_>, number: u32) {
        let slab = self.held.records.get(number);
        let header = slab.header();
        from.move_to(number, SlabState::Full);
        slab.set_header(slab.header().with_owner(self.held.cpu));
        for nth in 0..header.order().frames() as usize {
            let part = SlabFrame::new(number, header.class(), self.held.cpu, nth);
            let place = slab.place() + nth;
            self.held.table.change(place, KvEntry::Slab(part));
        }
        self.held.move_to(number, header.state());
    }
}
