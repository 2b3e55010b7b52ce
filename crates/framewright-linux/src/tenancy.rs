//! A client on the engine's memory needs two things of it: a store for its pages, and frames.
//!
//! ```text
//!    file cache ─┬─▶ Tenancy ──────▶ Guests ──▶ a seat of the reserve, for one piece of work
//!    paged memory┘
//!                └─▶ FrameSource ──▶ a frames' seat, or one that reclaims
//! ```
//!
//! All threads share a [`Tenancy`], which lends a [`Store`] to a thread that has a page to put or
//! to get. [`Guests`] is the one over a reserve. A client gets frames from a
//! [`FrameSource`] of the calling thread, and gives them back to it.
//!
//! # Locks
//! One for each seat of [`Guests`], tried from the thread's own on. It is held while the work runs,
//! which is one put or get, or a few, or as long as a cleaner writes. No other lock is taken under
//! it.

use crate::platform::Slots;
use framewright::frame::{AllocError, FrameSource, FreeError, Seat as FrameSeat};
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::reclaim::{self, Clients};
use framewright::reserve::{Cleaned, Guest, Key, Reserve, Store};
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A store of guests' pages for many threads: lends one thread a store for one piece of work.
pub trait Tenancy: Sync {
    /// Runs `work` once with a store that no other thread uses meanwhile.
    ///
    /// A page that one thread put in one call, every other thread can get in the next. `work` must
    /// be short, and must not come back to the tenancy: it might wait for itself.
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store));

    /// Has up to `pages` dirty pages written: calls `write` with the key and contents of each,
    /// which returns whether the page is on its device now: see [`Guest::clean`]. Does nothing if
    /// the store keeps no dirty pages.
    fn clean(&self, pages: u64, write: &mut dyn FnMut(&Key, &[u64; 512]) -> bool) -> Cleaned {
        let _ = (pages, write);
        Cleaned::default()
    }
}

/// A seat that observes watermarks, and the clients that give memory back when there is too little.
#[derive(Debug)]
pub struct Reclaiming<'s, 'c, 'r, 'z, 'm, P> {
    /// The seat.
    pub seat: &'s mut reclaim::ReclaimSeat<'r, 'z, 'm, P>,
    /// The clients that are asked.
    pub clients: Clients<'c, FrameSeat<'z, 'm, P>>,
    /// What a request may wait for.
    pub context: Context,
}

impl<P: FramePlatform> FrameSource for Reclaiming<'_, '_, '_, '_, '_, P> {
    fn origin(&self) -> u64 {
        self.seat.reclaim().zone().origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.seat.reclaim().zone().present_frames()
    }

    fn max_order(&self) -> Order {
        self.seat.reclaim().zone().max_order()
    }

    fn alloc_run(&mut self, _frames: u64, context: Context) -> Result<Run, AllocError> {
        let frame = self.alloc_block(Order::ZERO, Mobility::Unmovable, context)?;
        Ok(Run::new(frame, 1).expect("a frame of the zone"))
    }

    fn free_run(&mut self, frames: Run) {
        self.seat.frames().free_run(frames);
    }

    fn try_free(&mut self, frame: Frame) -> Result<(), FreeError> {
        self.seat.frames().try_free(frame)
    }

    fn slow_calls(&self) -> u64 {
        self.seat.slow_calls()
    }

    /// A request may wait for what both its own context and the seat's allow.
    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        let context = context.and(self.context);
        self.seat.alloc(order, mobility, context, &self.clients)
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.seat.free(frame, order)
    }
}

/// A seat of the reserve is taken already, or it has none of that number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSeat(pub CpuId);

impl fmt::Display for NoSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reserve has no seat for {}, or it is taken", self.0)
    }
}

impl std::error::Error for NoSeat {}

/// Seats of a reserve, one for each CPU slot, lent to threads for one piece of work.
///
/// A thread takes the seat of its own slot, or the next one that is free at the moment. About 20
/// ns.
///
/// ```
/// use framewright::reserve::{Key, PoolConfig, Reserve, ReserveLayout};
/// use framewright::{Frame, Run};
/// use framewright_linux::platform::Slots;
/// use framewright_linux::tenancy::{Guests, Tenancy};
/// use framewright_linux::{Linux, Ram, RamPages, Stored};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let run = Run::new(Frame(0), 1024).unwrap();
/// let slots = Slots::new(2);
/// let platform = Stored::new(Linux::fenced(slots.clone()), Arc::new(Ram::new(run, RamPages::Base)?));
/// let layout = ReserveLayout::new(run).with_cpus(2);
/// let mut words = vec![0; layout.words_needed()?];
/// let reserve = Reserve::new(&layout, &mut words, platform)?;
/// let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
/// let guests = Guests::new(&reserve, slots)?;
/// let key = Key { pool, object: 1, index: 0 };
/// let mut page = [7; 512];
/// guests.with(&mut |store| {
///     store.put(key, &page).unwrap();
///     page.fill(0);
///     assert!(store.get(key, &mut page));
/// });
/// assert_eq!(page, [7; 512]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Guests<'r, 'm, P> {
    reserve: &'r Reserve<'m, P>,
    seats: Box<[Mutex<Guest<'r, 'm, P>>]>,
    slots: Slots,
}

impl<'r, 'm, P: ReservePlatform> Guests<'r, 'm, P> {
    /// The seats 0 to `slots.count() - 1` of `reserve`, until it is dropped. `slots` are those of
    /// the threads' other seats, so that a thread with such a seat finds its own.
    ///
    /// # Errors
    /// One of them is taken, or does not exist, as all do not if there are no slots. None is taken then.
    pub fn new(reserve: &'r Reserve<'m, P>, slots: Slots) -> Result<Self, NoSeat> {
        if slots.count() == 0 {
            return Err(NoSeat(CpuId(0)));
        }
        let seat = |cpu| reserve.guest(CpuId(cpu)).ok_or(NoSeat(CpuId(cpu)));
        let seats = (0..slots.count()).map(|cpu| seat(cpu).map(Mutex::new));
        Ok(Self {
            reserve,
            seats: seats.collect::<Result<_, _>>()?,
            slots,
        })
    }

    fn lend(&self) -> MutexGuard<'_, Guest<'r, 'm, P>> {
        // A thread without a slot of its own begins anywhere.
        let own = self.slots.mine().map_or(0, CpuId::index);
        let (before, rest) = self.seats.split_at(own);
        for seat in rest.iter().chain(before) {
            match seat.try_lock() {
                Ok(guest) => return guest,
                // The work panicked, not the guest, so its state is intact.
                Err(TryLockError::Poisoned(guest)) => return guest.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.seats[own]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: ReservePlatform + Send + Sync> Tenancy for Guests<'_, '_, P> {
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store)) {
        work(&mut *self.lend());
    }

    fn clean(&self, pages: u64, write: &mut dyn FnMut(&Key, &[u64; 512]) -> bool) -> Cleaned {
        let mut page = Box::new([0; 512]);
        let platform = self.reserve.platform();
        self.lend().clean(pages, |key, frame| {
            platform.load(frame, &mut page);
            write(key, &page)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Linux, Options, Ram, Stored, ram::RamPages};
    use framewright::Run;
    use framewright::frame::ZoneLayout;
    use framewright::policy::ReclaimConfig;
    use framewright::reclaim::{Ask, Reclaim, Shrink, Shrunk};
    use framewright::reserve::{PoolConfig, ReserveLayout};
    use std::sync::{Arc, Barrier as Rendezvous};
    use std::thread;

    type Platform = Stored<()>;

    fn reserve<'m>(words: &'m mut Vec<u64>, slots: &Slots) -> Reserve<'m, Platform> {
        let run = Run::new(Frame(64), 512).unwrap();
        let layout = ReserveLayout::new(run).with_cpus(slots.count());
        words.resize(layout.words_needed().unwrap(), 0);
        let ram = Arc::new(Ram::new(run, RamPages::Base).unwrap());
        let platform = Stored::new(Linux::fenced(slots.clone()), ram);
        Reserve::new(&layout, words, platform).unwrap()
    }

    #[test]
    fn threads_at_once_have_seats_of_their_own_and_find_each_others_pages() {
        let (slots, mut words) = (Slots::new(3), Vec::new());
        let reserve = reserve(&mut words, &slots);
        let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
        let guests = Guests::new(&reserve, slots).unwrap();
        let key = |index| Key {
            pool,
            object: 1,
            index,
        };
        // All seats are lent at one moment.
        let all_inside = Rendezvous::new(3);
        thread::scope(|scope| {
            for nth in 0..3 {
                let (guests, all_inside) = (&guests, &all_inside);
                scope.spawn(move || {
                    guests.with(&mut |store| {
                        all_inside.wait();
                        store.put(key(nth), &[nth + 5; 512]).unwrap();
                    });
                });
            }
        });
        thread::scope(|scope| {
            for nth in 0..4 {
                let guests = &guests;
                scope.spawn(move || {
                    let (mut page, mut hit) = ([0; 512], false);
                    guests.with(&mut |store| hit = store.get(key(nth), &mut page));
                    assert_eq!(hit, nth < 3);
                    assert!(!hit || page == [nth + 5; 512]);
                });
            }
        });
        let refused = Guests::new(&reserve, Slots::new(1)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the reserve has no seat for cpu 0, or it is taken"
        );
        drop(guests);
        assert!(Guests::new(&reserve, Slots::new(4)).is_err());
        assert!(Guests::new(&reserve, Slots::new(0)).is_err());
        assert!(Guests::new(&reserve, Slots::new(3)).is_ok());
    }

    #[test]
    fn work_that_panics_leaves_its_seat_to_the_next() {
        let (slots, mut words) = (Slots::new(1), Vec::new());
        let reserve = reserve(&mut words, &slots);
        let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
        let guests = Guests::new(&reserve, slots).unwrap();
        let lent = std::panic::AssertUnwindSafe(|| guests.with(&mut |_| panic!("in the work")));
        assert!(std::panic::catch_unwind(lent).is_err());
        let mut pools = 0;
        guests.with(&mut |store| pools += u32::from(store.invalidate_pool(pool)));
        assert_eq!(pools, 1);
    }

    /// Holds frames, and gives them back.
    struct Hoard(Mutex<Vec<Frame>>);

    impl<F: FrameSource> Shrink<F> for Hoard {
        fn holding(&self) -> u64 {
            self.0.lock().unwrap().len() as u64
        }

        fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
            let mut hoard = self.0.lock().unwrap();
            let stays = hoard
                .len()
                .saturating_sub(ask.wanted.min(ask.scan) as usize);
            let gone = hoard.split_off(stays);
            gone.iter().for_each(|frame| frames.free_frame(*frame));
            let freed = gone.len() as u64;
            Shrunk {
                scanned: freed,
                freed,
            }
        }
    }

    #[test]
    fn a_seat_that_reclaims_asks_clients_and_the_frames_own_does_not() {
        let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(512), 1024))).unwrap();
        let mut words = vec![0; Reclaim::words_needed(host.zone())];
        let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut words).unwrap();
        let mut seat = host.seat().unwrap();
        let hoard = Hoard(Mutex::default());
        let by_ref: &mut dyn FrameSource = &mut seat;
        while let Ok(frame) = by_ref.alloc_frame() {
            hoard.0.lock().unwrap().push(frame);
        }
        assert_eq!(hoard.0.lock().unwrap().len(), 1024);
        let mut seat = reclaim.seat(seat);
        let (none, all) = (Clients::NONE, [&hoard as &dyn Shrink<_>]);
        let mut supply = Reclaiming {
            seat: &mut seat,
            clients: none,
            context: Context::ANY,
        };
        assert_eq!(supply.alloc_frame(), Err(AllocError::Exhausted));
        supply.clients.shrink = &all;
        let slow_calls = supply.slow_calls();
        let frame = supply.alloc_frame().unwrap();
        assert!(hoard.0.lock().unwrap().len() < 1024);
        assert!(
            supply.slow_calls() > slow_calls,
            "as the frames' own seat says"
        );
        supply.free_frame(frame);
    }
}
