//! Several zones in the order in which requests prefer them, and a CPU's seats in all of them.

use super::seat::Resort;
use super::wanted::WantedBlock;
use super::zone::StoppedZone;
use super::{AllocError, FreeError, Seat, Zone};
use crate::platform::FramePlatform;
use crate::seats::SeatSet;
use crate::units::{Context, CpuId, Frame, Mobility, Order, Run, SetupError};

/// A CPU's seats in several zones, which have no frame in common. They are in the order in which requests prefer them:
/// the usual memory first, and last the memory that few requests need, such as that for devices with short addresses.
#[derive(Debug)]
pub struct Seats<'z, 'm, P, const N: usize> {
    seats: [Seat<'z, 'm, P>; N],
}

impl<'z, 'm, P, const N: usize> Seats<'z, 'm, P, N> {
    /// The seats, in the order of preference.
    pub(crate) const fn all(&self) -> &[Seat<'z, 'm, P>; N] {
        &self.seats
    }
}

impl<'z, 'm, P: FramePlatform, const N: usize> Seats<'z, 'm, P, N> {
    /// The seats of `cpu` in all `N` zones, which are in order of preference.
    ///
    /// # Errors
    /// The error of the first zone that does not give its seat; no seat is taken then.
    ///
    /// # Panics
    /// If there are not exactly `N` zones, or none.
    pub fn take(zones: &'z [Zone<'m, P>], cpu: CpuId) -> Result<Self, SetupError> {
        assert!(N > 0, "no zone, no seat");
        assert!(zones.len() == N, "a seat in each zone");
        let mut seats = [const { None }; N];
        for (seat, zone) in seats.iter_mut().zip(zones) {
            *seat = Some(zone.seat(cpu)?);
        }
        let seats = seats.map(|seat| seat.expect("each zone gave its seat"));
        Ok(Seats { seats })
    }

    /// Allocates a block of `order` from the first zone that has one, from `first` on: a request
    /// that does not need short addresses starts further forward.
    ///
    /// No zone is stopped as long as another can serve the request without a stop. Time: as
    /// [`Seat::alloc`], for each zone that is full; and a stop of all zones at once if a frame was freed
    /// meanwhile.
    ///
    /// # Errors
    /// [`AllocError::Fragmented`] if one of the zones has enough free frames,
    /// [`AllocError::Exhausted`] if none has. For an exact order, there was one moment during the call
    /// at which no zone had a block (F8). Nothing has changed then.
    ///
    /// # Panics
    /// If there is no zone `first`.
    pub fn alloc(
        &mut self,
        first: usize,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.alloc_by(first, order, mobility, Resort::ByOrder)
    }

    /// As [`alloc`](Self::alloc), with [`Seat::alloc_hard`] in each zone.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    ///
    /// # Panics
    /// If there is no zone `first`.
    pub fn alloc_hard(
        &mut self,
        first: usize,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.alloc_by(first, order, mobility, Resort::Stop)
    }

    /// As [`alloc`](Self::alloc), with [`Seat::alloc_at_once`] in each zone: it stops no CPU.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if at one moment no zone had that many free frames, and
    /// [`AllocError::WouldWait`] if that cannot be said: then there may be a block. Nothing has changed then.
    ///
    /// # Panics
    /// If there is no zone `first`.
    pub fn alloc_at_once(
        &mut self,
        first: usize,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.alloc_by(first, order, mobility, Resort::OwnCaches)
    }

    /// As [`alloc_at_once`](Self::alloc_at_once), for a caller that goes on in another way if this fails: the
    /// failure is not counted.
    pub(crate) fn alloc_at_once_first(
        &mut self,
        order: Order,
        mobility: Mobility,
    ) -> Result<Frame, AllocError> {
        self.alloc_by(0, order, mobility, Resort::OwnCachesFirst)
    }

    /// Counts a request of `order` that failed, in each zone that could serve it.
    pub(crate) fn count_failure(&self, order: Order, error: AllocError) {
        let seats = self.seats.iter();
        let seats = seats.filter(|seat| order <= seat.zone().max_order());
        seats.for_each(|seat| seat.count_failure(order, error));
    }

    /// As [`alloc`](Self::alloc), or as [`alloc_at_once`](Self::alloc_at_once) if `context` must not block.
    #[inline(always)]
    pub(crate) fn alloc_in(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        self.alloc_by(0, order, mobility, Resort::within(context))
    }

    #[inline(always)]
    fn alloc_by(
        &mut self,
        first: usize,
        order: Order,
        mobility: Mobility,
        resort: Resort,
    ) -> Result<Frame, AllocError> {
        if let [seat] = &mut self.seats[first..] {
            return seat.alloc_by(order, mobility, resort);
        }
        self.alloc_in_several(first, order, mobility, resort)
    }

    fn alloc_in_several(
        &mut self,
        first: usize,
        order: Order,
        mobility: Mobility,
        resort: Resort,
    ) -> Result<Frame, AllocError> {
        let freed = self.freed_from(first);
        let seats = &mut self.seats[first..];
        let quick = seats
            .iter_mut()
            .find_map(|seat| seat.try_alloc(order, mobility));
        if let Some(frame) = quick {
            return Ok(frame);
        }
        let mut worst = None;
        let mut is_exact = true;
        for seat in seats {
            is_exact &= resort.stops(seat.zone(), order);
            match seat.alloc_by(order, mobility, resort) {
                Ok(frame) => return Ok(frame),
                Err(error) => worst = Some(AllocError::worse(worst, error)),
            }
        }
        let last = match is_exact {
            true => self.alloc_if_freed(first, order, mobility, freed),
            false => None,
        };
        let worst = worst.expect("there is a zone");
        match last {
            Some(frame) => Ok(frame),
            None if resort == Resort::OwnCaches => Err(self.unless_freed(first, freed, worst)),
            None => Err(worst),
        }
    }

    /// Why a request fails that looked at one zone after the other and stopped none: no zone had enough frames
    /// when it was looked at. If a block became free since `freed` was read, perhaps that was so
    /// in each of them, and never in all at one moment.
    pub(crate) fn unless_freed(&self, first: usize, freed: u64, error: AllocError) -> AllocError {
        match error {
            AllocError::Exhausted if self.freed_from(first) != freed => AllocError::WouldWait,
            error => error,
        }
    }

    /// How often blocks became free in the zones from `first` on; 0 if that is one zone.
    pub(crate) fn freed_from(&self, first: usize) -> u64 {
        match &self.seats[first..] {
            [_] => 0,
            seats => seats
                .iter()
                .fold(0, |sum, seat| sum.wrapping_add(seat.zone().happened())),
        }
    }

    /// The last attempt of a request that found nothing in one zone after the other: a block freed in one of
    /// them meanwhile was perhaps taken in another, so that there was one at each moment (F8). If nothing
    /// became free since `freed` was read, each zone still had nothing when the last one was searched.
    /// Otherwise this stops all of them at once.
    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_if_freed(
        &mut self,
        first: usize,
        order: Order,
        mobility: Mobility,
        freed: u64,
    ) -> Option<Frame> {
        if self.freed_from(first) == freed {
            return None;
        }
        let stopped = self.stop_from(first);
        let seats = &self.seats[first..];
        let wanted = WantedBlock { order, mobility };
        let large = |seat: &&Seat<'z, 'm, P>| order <= seat.zone().max_order();
        let found = seats.iter().filter(large).find_map(|seat| {
            let offset = seat.fetch_drained(wanted)?;
            seat.hand_out(offset, order, mobility);
            Some(seat.zone().frame(offset))
        });
        if found.is_none() {
            for zone in stopped.iter().flatten() {
                zone.note_in_vain(order, mobility);
            }
        }
        found
    }

    /// The same for a run of `frames` frames, the first at a multiple of `align` frames.
    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_run_if_freed(
        &mut self,
        frames: u64,
        align: u64,
        mobility: Mobility,
        freed: u64,
    ) -> Option<Run> {
        if self.freed_from(0) == freed {
            return None;
        }
        let stopped = self.stop_from(0);
        let mut stopped = stopped.iter().flatten();
        stopped.find_map(|zone| zone.set.alloc_contiguous_of(zone, frames, align, mobility))
    }

    /// Stops the zones from `first` on, all at once, and gives back what is cached.
    fn stop_from(&self, first: usize) -> [Option<StoppedZone<'z, 'm, P>>; N] {
        let seats = &self.seats[first..];
        let mut stopped: [Option<StoppedZone<'z, 'm, P>>; N] = [const { None }; N];
        // By their addresses: whatever order others have for these zones, no CPUs wait in a circle.
        let mut below = 0;
        let next = |below| {
            let places = seats.iter().enumerate();
            let places = places.map(|(nth, seat)| (seat.zone().metadata_address(), nth));
            places.filter(|(at, _)| *at > below).min()
        };
        while let Some((at, nth)) = next(below) {
            let zone = stopped[nth].insert(seats[nth].zone().stop());
            seats[nth].count_drain();
            zone.drain();
            below = at;
        }
        stopped
    }

    /// Frees the block of `order` at `frame`, in whichever zone it lies.
    ///
    /// # Errors
    /// As [`Seat::free`].
    #[inline(always)]
    pub fn free(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        match self.likely_seat_of(frame) {
            Some(seat) => seat.free(frame, order),
            None => Err(FreeError::Outside(frame)),
        }
    }

    /// The seat that a free of `frame` goes to: that of its zone, or the only one, which refuses frames of no zone itself.
    #[inline(always)]
    pub(crate) fn likely_seat_of(&mut self, frame: Frame) -> Option<&mut Seat<'z, 'm, P>> {
        match N {
            1 => self.seats.first_mut(),
            _ => self.seat_of(frame),
        }
    }

    /// The seat in the zone of `frame`, for all that a seat can do.
    pub fn seat_of(&mut self, frame: Frame) -> Option<&mut Seat<'z, 'm, P>> {
        self.seats
            .iter_mut()
            .find(|seat| seat.zone().contains(frame))
    }

    /// The seat in the zone of a run's first frame, and the part of the run in that zone. Zones may
    /// lie side by side.
    pub(crate) fn first_part(&mut self, run: Run) -> Option<(&mut Seat<'z, 'm, P>, Run)> {
        let seat = self.seat_of(run.start())?;
        let end = run.end().min(seat.zone().map.end);
        let part = Run::new(run.start(), end.0 - run.start().0)?;
        Some((seat, part))
    }

    /// The largest order that one of the zones serves.
    pub(crate) fn max_order(&self) -> Order {
        let orders = self.seats.iter().map(|seat| seat.zone().max_order());
        orders.max().unwrap_or(Order::ZERO)
    }

    /// The seat in zone `nth`.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn seat(&mut self, nth: usize) -> &mut Seat<'z, 'm, P> {
        &mut self.seats[nth]
    }
}

impl AllocError {
    /// The error to report when two zones fail: enough free frames in one are enough.
    pub(crate) fn worse(sofar: Option<Self>, next: Self) -> Self {
        match (sofar, next) {
            (None, error) => error,
            (Some(Self::WouldWait), _) | (_, Self::WouldWait) => Self::WouldWait,
            (Some(Self::Fragmented), _) | (_, Self::Fragmented) => Self::Fragmented,
            (Some(Self::Exhausted), _) | (_, Self::Exhausted) => Self::Exhausted,
            (Some(first), _) => first,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::frame::ZoneLayout;
    use crate::platform::SingleThread;
    use crate::policy::Config;
    use crate::units::Run;
    use std::vec;

    #[test]
    fn requests_go_to_the_first_zone_that_has_room_and_frees_find_their_zone() {
        let order = |order| Order::new(order).unwrap();
        let near = ZoneLayout::new(Frame(0), 1024);
        let far = ZoneLayout::new(Frame(10_240), 2048);
        let mut memory = [near, far].map(|layout| vec![0; layout.words_needed().unwrap()]);
        let [a, b] = &mut memory;
        let zone = |layout: &ZoneLayout, memory| {
            let zone = Zone::new(layout, &Config::default(), memory, SingleThread::new()).unwrap();
            zone.add(Run::new(layout.start, layout.frames).unwrap())
                .unwrap();
            zone
        };
        let zones = [zone(&far, b), zone(&near, a)];
        let mut seats = Seats::<_, 2>::take(&zones, CpuId(0)).unwrap();
        assert!(Seats::<_, 2>::take(&zones, CpuId(0)).is_err());
        assert!(seats.alloc(0, order(0), Mobility::Movable).unwrap().0 >= 10_240);
        let low = seats.alloc(1, order(0), Mobility::Movable).unwrap();
        assert!(low.0 < 1024);
        seats.free(low, order(0)).unwrap();
        let mut taken = vec![];
        while let Ok(frame) = seats.alloc(0, order(9), Mobility::Movable) {
            taken.push(frame);
        }
        assert_eq!(taken.len(), 3 + 2);
        assert!(taken[..3].iter().all(|frame| frame.0 >= 10_240));
        let failed = seats.alloc(0, order(9), Mobility::Movable);
        assert_eq!(failed, Err(AllocError::Exhausted));
        let outside = Frame(5000);
        assert_eq!(
            seats.free(outside, order(0)),
            Err(FreeError::Outside(outside))
        );
        for frame in taken {
            seats.free(frame, order(9)).unwrap();
        }
        let free = zones.each_ref().map(|zone| zone.stats().nr_free_pages);
        assert_eq!(free, [2047, 1024]);
        assert!(!zones.iter().any(|zone| zone.contains(outside)));
        zones.iter().for_each(|zone| zone.verify().unwrap());
    }
}
