//! Handles, and the hosts behind them.
//!
//! ```text
//!   Empty ──claim──▶ Changing ──publish──▶ handle ──close──▶ Changing ──▶ Free ──claim──▶ Changing
//! ```
//!
//! Entries lie in a static table and are never given back, so a call that comes late finds an entry, and there that the
//! handle is not its host's. Nothing here waits: each transition is one exchange, and the only locks are those of places.
//! A child finds the entries of its parent, and leaves them as they are (CA5).

use crate::c::held::{HeldHost, HeldSeat};
use crate::codes::CallRefusal;
use framewright::reserve::Reservation;
use framewright_capi_core::codes::{
    FW_EAGAIN, FW_EFORKED, FW_EHANDLE, FW_ENOENT, FW_ENOSPC, FW_EPANIC,
};
use framewright_linux::{HostCpu, HostKv, Process};
use std::ffi::c_int;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// The most hosts at a time.
pub(crate) const HOSTS_MAX: usize = 255;

/// A handle is a serial number, and below it the number of its entry.
const ENTRY_BITS: u32 = 8;

// Serial numbers have 56 bits. A reservation takes one, too: at one every 50 ns they last for 100 years.
const _: () = assert!(usize::BITS == 64 && HOSTS_MAX < 1 << ENTRY_BITS);

/// The classes of entries' lengths: 2 to 1024 places, one for each power of two.
const CLASSES: usize = 10;

/// The states that are no handle; a handle has a serial number, so it is larger.
const EMPTY: usize = 0;
const CHANGING: usize = 1;
const FREE: usize = 2;

static ENTRIES: [HostEntry; HOSTS_MAX] = [const { HostEntry::empty() }; HOSTS_MAX];
static SERIAL: AtomicUsize = AtomicUsize::new(1);

/// Room for a host.
pub(crate) struct HostEntry {
    state: AtomicUsize,
    /// The process that claimed it first, for ever.
    process: OnceLock<Process>,
    /// A call of the host's has panicked.
    is_broken: AtomicBool,
    // INVARIANT: set only by the thread that claimed the entry, so no thread waits for it.
    places: [OnceLock<Box<[HostPlace]>>; CLASSES],
    class: AtomicUsize,
    /// How many places threads may have for their own; one more is shared.
    own: AtomicUsize,
    shared_calls: AtomicUsize,
    host: HeldHost,
    reservations: Mutex<Vec<(u64, Reservation)>>,
}

/// A thread's place in a host. A line of its own, and its neighbour, which the processor fetches, too.
#[repr(align(128))]
pub(crate) struct HostPlace {
    /// The handle under which a thread has it for its own; 0 for none.
    owner: AtomicUsize,
    seat: Mutex<Option<HostedSeat>>,
}

/// A seat in a host.
pub(crate) struct HostedSeat {
    handle: usize,
    entry: &'static HostEntry,
    held: HeldSeat,
}

/// The entry of a host of this process.
pub(crate) fn find(handle: usize) -> Result<&'static HostEntry, CallRefusal> {
    look(handle).map_err(CallRefusal::plain)
}

/// Whether a handle names a host of this process now.
pub(crate) fn is_known(handle: usize) -> bool {
    look(handle).is_ok()
}

/// The entry of a host, or the code of the reason why there is none: no refusal yet, so the thread's message stays.
fn look(handle: usize) -> Result<&'static HostEntry, c_int> {
    let entry = ENTRIES.get(handle & ((1 << ENTRY_BITS) - 1));
    let is_its = |entry: &&HostEntry| {
        // Acquire pairs with the Release of the thread that published the host.
        handle >> ENTRY_BITS != 0 && entry.state.load(Acquire) == handle
    };
    let entry = entry.filter(is_its).ok_or(FW_EHANDLE)?;
    match entry.is_this_process() {
        true => Ok(entry),
        false => Err(FW_EFORKED),
    }
}

/// Gives a thread's own place back, if the host is still there.
pub(crate) fn give_place_back(handle: usize, place: u16) {
    if let Ok(entry) = look(handle) {
        // Relaxed: the lock of the place orders what is done in its seat.
        let owner = &entry.own(place).owner;
        let _ = owner.compare_exchange(handle, 0, Relaxed, Relaxed);
    }
}

/// Makes `host` known, with `own` places for threads and one that is shared. Returns its handle.
pub(crate) fn publish(host: HostKv, own: u16) -> Result<usize, CallRefusal> {
    let claimed = ENTRIES
        .iter()
        .enumerate()
        .find(|(_, entry)| entry.claim(FREE));
    let claimed = claimed.or_else(|| {
        ENTRIES
            .iter()
            .enumerate()
            .find(|(_, entry)| entry.claim(EMPTY))
    });
    let (number, entry) = claimed.ok_or_else(|| {
        CallRefusal::new(
            FW_ENOSPC,
            &format_args!("{HOSTS_MAX} hosts are there at a time"),
        )
    })?;
    entry.process.get_or_init(Process::this);
    // Relaxed: only a number.
    let handle = SERIAL.fetch_add(1, Relaxed) << ENTRY_BITS | number;
    entry.fill(host, own, handle);
    // Release pairs with the Acquire in `find`.
    entry.state.store(handle, Release);
    Ok(handle)
}

/// Ends a host: waits for the calls that are inside, and gives all its memory back.
pub(crate) fn close(handle: usize) -> Result<(), CallRefusal> {
    let entry = find(handle)?;
    entry.check_whole()?;
    // Acquire: of two that close it, the other one finds no host.
    let closing = entry
        .state
        .compare_exchange(handle, CHANGING, SeqCst, Relaxed);
    closing.map_err(|_| CallRefusal::plain(FW_EHANDLE))?;
    for place in entry.places() {
        let mut seat = place.lock();
        // If a call has panicked meanwhile, its seat is not dropped: memory and entry stay.
        entry.check_whole()?;
        drop(seat.take());
    }
    entry.reservations().clear();
    entry.host.free();
    entry.state.store(FREE, Release);
    Ok(())
}

impl HostPlace {
    const fn new() -> Self {
        Self {
            owner: AtomicUsize::new(0),
            seat: Mutex::new(None),
        }
    }

    /// The seat, for one user (CA1). A panic leaves the host broken, which its next user finds out.
    fn lock(&self) -> MutexGuard<'_, Option<HostedSeat>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostEntry {
    const fn empty() -> Self {
        Self {
            state: AtomicUsize::new(EMPTY),
            process: OnceLock::new(),
            is_broken: AtomicBool::new(false),
            places: [const { OnceLock::new() }; CLASSES],
            class: AtomicUsize::new(0),
            own: AtomicUsize::new(0),
            shared_calls: AtomicUsize::new(0),
            host: HeldHost::none(),
            reservations: Mutex::new(Vec::new()),
        }
    }

    fn is_this_process(&self) -> bool {
        self.process.get().is_some_and(|process| process.is_this())
    }

    /// Claims it in that state. A free one is of use only to the process that it belonged to: in a child its locks may be
    /// held for ever.
    fn claim(&self, state: usize) -> bool {
        let is_mine = state == EMPTY || self.is_this_process();
        let change = || {
            self.state
                .compare_exchange(state, CHANGING, Acquire, Relaxed)
        };
        is_mine && change().is_ok()
    }

    /// Puts a host into the entry, which the calling thread has claimed.
    fn fill(&'static self, host: HostKv, own: u16, handle: usize) {
        let all = usize::from(own) + 1;
        let class = all.next_power_of_two().trailing_zeros().max(1) as usize - 1;
        self.places[class].get_or_init(|| (0..2 << class).map(|_| HostPlace::new()).collect());
        // Release pairs with the Acquire in `places`: a call that comes late for an earlier host finds places.
        self.class.store(class, Release);
        self.own.store(usize::from(own), Relaxed);
        self.shared_calls.store(0, Relaxed);
        self.is_broken.store(false, Relaxed);
        let mut seats = self.host.hold(host);
        for place in &self.places()[..all] {
            let held = seats.next();
            // SeqCst: see `take_place`.
            place.owner.store(0, SeqCst);
            *place.lock() = Some(HostedSeat {
                handle,
                entry: self,
                held: held.expect("the host was made for so many, and all seats are free"),
            });
        }
    }

    fn places(&self) -> &[HostPlace] {
        let places = self.places.get(self.class.load(Acquire));
        places.and_then(OnceLock::get).map_or(&[], |places| places)
    }

    /// A thread's own place, by its number.
    pub(crate) fn own(&self, place: u16) -> &HostPlace {
        // A number from before the host was freed may be too large: the lock's holder will see that the handle is another.
        self.places()
            .get(usize::from(place))
            .unwrap_or_else(|| self.shared())
    }

    /// The place of all threads that have none.
    pub(crate) fn shared(&self) -> &HostPlace {
        let places = self.places();
        // A call that comes late may meet another host's number here. Any place does: its seat has another handle.
        places.get(self.own.load(Relaxed)).unwrap_or(&places[0])
    }

    /// A free place for the calling thread. O(places).
    pub(crate) fn take_place(&self, handle: usize) -> Option<u16> {
        let own = self.own.load(Relaxed);
        let take = |place: &HostPlace| {
            let taken = place.owner.compare_exchange(0, handle, SeqCst, Relaxed);
            taken.is_ok()
        };
        let at = self.places().iter().take(own).position(take)? as u16;
        // A call that comes late must not keep a place of the next host's, which would never come back. SeqCst: either
        // this sees that the host was closed, or the next one is filled after it, and that makes all places free.
        if self.state.load(SeqCst) != handle {
            let owner = &self.own(at).owner;
            let _ = owner.compare_exchange(handle, 0, Relaxed, Relaxed);
            return None;
        }
        Some(at)
    }

    /// Whether no call of the host's has panicked.
    fn check_whole(&self) -> Result<(), CallRefusal> {
        match self.is_broken.load(Acquire) {
            false => Ok(()),
            true => Err(CallRefusal::plain(FW_EPANIC)),
        }
    }

    /// Works in the seat at a place, if it is the seat of `handle`.
    #[inline]
    pub(crate) fn work_at<T>(
        &self,
        place: &HostPlace,
        handle: usize,
        work: impl FnOnce(&mut HostedSeat) -> Result<T, CallRefusal>,
    ) -> Result<T, CallRefusal> {
        self.work_in(place, place.lock(), handle, work)
    }

    /// The same, unless another thread is in the seat.
    pub(crate) fn work_at_once<T>(
        &self,
        place: &HostPlace,
        handle: usize,
        work: impl FnOnce(&mut HostedSeat) -> Result<T, CallRefusal>,
    ) -> Result<T, CallRefusal> {
        let seat = match place.seat.try_lock() {
            Ok(seat) => seat,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(CallRefusal::plain(FW_EAGAIN)),
        };
        self.work_in(place, seat, handle, work)
    }

    #[inline]
    fn work_in<T>(
        &self,
        place: &HostPlace,
        mut seat: MutexGuard<'_, Option<HostedSeat>>,
        handle: usize,
        work: impl FnOnce(&mut HostedSeat) -> Result<T, CallRefusal>,
    ) -> Result<T, CallRefusal> {
        let seat = seat.as_mut().filter(|seat| seat.handle == handle);
        let seat = seat.ok_or_else(|| CallRefusal::plain(FW_EHANDLE))?;
        self.check_whole()?;
        if std::ptr::eq(place, self.shared()) {
            self.shared_calls.fetch_add(1, Relaxed);
        }
        let broken = BrokenByPanic(&self.is_broken);
        let done = work(seat);
        std::mem::forget(broken);
        done
    }

    fn reservations(&self) -> MutexGuard<'_, Vec<(u64, Reservation)>> {
        self.reservations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a host as broken when it is dropped: when a call unwinds (CA3).
struct BrokenByPanic<'e>(&'e AtomicBool);

impl Drop for BrokenByPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

impl HostedSeat {
    /// The seats in the host's parts.
    pub(crate) const fn cpu(&mut self) -> &mut HostCpu<'static> {
        self.held.cpu()
    }

    /// The host, for as long as the seat is borrowed.
    pub(crate) const fn host(&self) -> &HostKv {
        self.held.host()
    }

    /// How many places threads may have, how many have one, and how many calls came to the shared one.
    pub(crate) fn threads(&self) -> [u64; 3] {
        let own = self.entry.own.load(Relaxed);
        let places = self.entry.places().iter().take(own);
        let taken = places
            .filter(|place| place.owner.load(Relaxed) != 0)
            .count();
        let shared = self.entry.shared_calls.load(Relaxed);
        [own, taken, shared].map(|count| count as u64)
    }

    /// Remembers a reservation under a number that no other one in the process has.
    pub(crate) fn remember(&self, reservation: Reservation) -> u64 {
        let id = SERIAL.fetch_add(1, Relaxed) as u64;
        self.entry.reservations().push((id, reservation));
        id
    }

    /// The reservation of a number.
    pub(crate) fn reservation(&self, id: u64) -> Result<Reservation, CallRefusal> {
        let all = self.entry.reservations();
        let found = all.iter().find(|(of, _)| *of == id);
        found.map(|(_, reservation)| *reservation).ok_or_else(|| {
            CallRefusal::new(
                FW_ENOENT,
                &format_args!("{id} is the number of no reservation"),
            )
        })
    }

    /// Forgets the reservation of a number.
    pub(crate) fn forget(&self, id: u64) {
        self.entry.reservations().retain(|(of, _)| *of != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c::host::FwOptions;
    use crate::seats;
    use framewright_capi_core::codes::FW_EREENTRY;

    fn host() -> usize {
        let options = FwOptions {
            threads: 2,
            memory_bytes: 1 << 20,
            ..FwOptions::default()
        };
        publish(options.host().unwrap(), 2).unwrap()
    }

    fn call(handle: usize, work: impl FnOnce(&mut HostedSeat)) -> Result<(), i32> {
        seats::call(|| {
            seats::in_seat(handle, |seat| {
                work(seat);
                Ok(())
            })
        })
    }

    #[test]
    fn ca3_a_panic_in_a_host_ends_the_use_of_that_host_alone() {
        let (broken, whole) = (host(), host());
        assert_eq!(call(broken, |_| ()), Ok(()));
        assert_eq!(
            call(broken, |_| panic!("as the test wants it")),
            Err(FW_EPANIC)
        );
        assert_eq!(seats::last(), FW_EPANIC);
        // From other threads, too; and its memory stays.
        let from_other = std::thread::spawn(move || call(broken, |_| ())).join();
        assert_eq!(from_other.unwrap(), Err(FW_EPANIC));
        assert_eq!(seats::call(|| close(broken)), Err(FW_EPANIC));
        assert_eq!(call(whole, |_| ()), Ok(()));
        assert_eq!(seats::call(|| close(whole)), Ok(()));
        assert_eq!(call(whole, |_| ()), Err(FW_EHANDLE));
    }

    #[test]
    fn ca2_a_call_inside_a_call_is_refused_whichever_host_it_names() {
        let (one, other) = (host(), host());
        let outer = call(one, |_| {
            // This one first: were it let in, it would not wait for itself.
            assert_eq!(call(other, |_| ()), Err(FW_EREENTRY));
            assert_eq!(call(one, |_| ()), Err(FW_EREENTRY));
            assert_eq!(seats::call(|| close(one)), Err(FW_EREENTRY));
        });
        assert_eq!(outer, Ok(()));
        for handle in [one, other] {
            assert_eq!(call(handle, |_| ()), Ok(()));
            assert_eq!(seats::call(|| close(handle)), Ok(()));
        }
    }

    #[test]
    fn a_call_that_comes_late_finds_a_place_whatever_the_next_host_has() {
        let handle = host();
        let entry = find(handle).unwrap();
        let own = entry.own.swap(1000, Relaxed);
        for place in [entry.shared(), entry.own(1000)] {
            let refused = entry.work_at(place, handle + (1 << ENTRY_BITS), |_| Ok(()));
            assert_eq!(refused.unwrap_err().code(), FW_EHANDLE);
        }
        entry.own.store(own, Relaxed);
        assert_eq!(seats::call(|| close(handle)), Ok(()));
    }

    #[test]
    fn a_call_that_comes_late_keeps_no_place_of_the_next_host() {
        let first = host();
        let entry = find(first).unwrap();
        assert_eq!(seats::call(|| close(first)), Ok(()));
        // Other tests may get the entry, too: whichever host has it, the late call takes none of its places.
        let next = host();
        for _ in 0..3 {
            assert_eq!(entry.take_place(first), None);
        }
        let taken = |entry: &HostEntry| {
            let owners = entry.places().iter().map(|place| place.owner.load(Relaxed));
            owners.filter(|owner| *owner == first).count()
        };
        assert_eq!(taken(entry), 0);
        assert_eq!(seats::call(|| close(next)), Ok(()));
    }

    #[test]
    fn a_thread_has_the_place_that_it_took_until_it_ends() {
        let handle = host();
        let at = |seat: &HostedSeat| std::ptr::from_ref(seat).addr();
        let mut places = Vec::new();
        for _ in 0..3 {
            call(handle, |seat| places.push(at(seat))).unwrap();
        }
        assert!(places.iter().all(|place| *place == places[0]));
        let place_of = move || {
            let mut found = (0, [0; 3]);
            call(handle, |seat| found = (at(seat), seat.threads())).unwrap();
            found
        };
        // The second place, again and again: join waits for the end.
        let seconds: Vec<_> = (0..20)
            .map(|_| std::thread::spawn(place_of).join().unwrap())
            .collect();
        assert!(
            seconds
                .iter()
                .all(|second| *second == (seconds[0].0, [2, 2, 0]))
        );
        assert_ne!(seconds[0].0, places[0]);
        // A third thread beside these two has the shared one.
        let third = std::thread::spawn(move || {
            place_of();
            std::thread::spawn(place_of).join().unwrap()
        });
        let (third, counts) = third.join().unwrap();
        assert!(third != places[0] && third != seconds[0].0);
        assert_eq!(counts, [2, 2, 1]);
        assert_eq!(seats::call(|| close(handle)), Ok(()));
    }
}
