//! Stopping all CPUs of a set of seats.
//!
//! ```text
//!     ask ─┬─▶ Vain                       a stop found nothing, and answers this request too
//!          ├─▶ Meanwhile(StopLock) ─┐     another stop ended since the request began: look before the next one
//!          └─▶ Alone(StopLock) ─────┴─▶ stop ─▶ Stopped ─▶ all go on
//! ```

use super::{Account, Accounts, Standstill, StopMemo, Turn, WatchedLock};
use crate::platform::{FramePlatform, Patience, Wakes};
use crate::sync::{AtomicU64, Lock, Ordering::SeqCst, fence};
use core::iter;

/// The words of a set of seats for its stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopWords<'m> {
    pub(crate) lock: &'m AtomicU64,
    pub(crate) account: Account<'m>,
    pub(crate) memo: StopMemo<'m>,
}

/// The seats of one allocator, as a stopper sees them.
pub(crate) trait SeatSet<'m> {
    type Platform: FramePlatform;
    /// Why a set refuses a stop: a call out of it was interrupted for good. `Infallible` if none can be.
    type Poisoned;

    fn platform(&self) -> &Self::Platform;

    fn accounts(&self) -> Accounts<Self::Platform>;

    fn stop_words(&self) -> StopWords<'m>;

    fn turns(&self) -> impl Iterator<Item = Turn<'m>>;

    /// A sum of counters, which grow with every event that can make a stop worth its cost: see [`StopMemo`].
    fn happened(&self) -> u64;

    /// Whether the set can be poisoned at all.
    const CAN_BE_POISONED: bool;

    /// An error if a change in the set was interrupted for good; read in one order with all `SeqCst` accesses.
    /// The set then stays poisoned, and no claim of its seats ends.
    fn poisoned(&self) -> Result<(), Self::Poisoned>;

    /// After the set was poisoned: claims every seat for good. So each owner learns of it from the word that it
    /// reads anyway.
    #[cold]
    fn claim_for_good(&self) {
        self.turns().for_each(Turn::claim);
    }

    /// Ends all claims, unless the set is poisoned.
    fn give_up_claims(&self) {
        if self.poisoned().is_err() {
            return;
        }
        self.turns().for_each(Turn::give_up);
        if Self::CAN_BE_POISONED {
            // Either this look sees that the set is poisoned, or the CPU that poisons it claims the seats later.
            fence(SeqCst);
            if self.poisoned().is_err() {
                self.claim_for_good();
            }
        }
    }

    /// Takes the stop lock. The caller is in no seat of the set.
    fn lock_stops(&self) -> StopLock<'_, 'm, Self>
    where
        Self: Sized,
    {
        let words = self.stop_words();
        let lock = Lock::new(words.lock);
        let lock = self.accounts().lock(lock, self.platform(), words.account);
        StopLock {
            set: self,
            lock,
            wakes: Wakes(self.platform()),
        }
    }

    /// The same, but gives up if its holder keeps it for longer than `patience` lasts: then `None`.
    fn lock_stops_within(&self, patience: &mut Patience) -> Option<StopLock<'_, 'm, Self>>
    where
        Self: Sized,
    {
        let (words, platform) = (self.stop_words(), self.platform());
        let (guard, waited) =
            patience.lock(Lock::new(words.lock), |attempt| platform.relax(attempt))?;
        let accounts = self.accounts();
        Some(StopLock {
            set: self,
            lock: accounts.watch(platform, words.account, waited, guard),
            wakes: Wakes(platform),
        })
    }

    /// Asks for a stop, for a request of that kind that would fail otherwise, and that began when `begin` was the
    /// last standstill. The caller is in no seat of the set.
    fn ask(&self, kind: usize, begin: Standstill) -> StopAsk<'_, 'm, Self>
    where
        Self: Sized,
    {
        let asked = self.ask_within(kind, begin, &mut Patience::Endless);
        asked.unwrap_or(StopAsk::Vain)
    }

    /// The same, but gives up if another CPU holds the stop lock for longer than `patience` lasts: then `None`.
    fn ask_within(
        &self,
        kind: usize,
        begin: Standstill,
        patience: &mut Patience,
    ) -> Option<StopAsk<'_, 'm, Self>>
    where
        Self: Sized,
    {
        let memo = self.stop_words().memo;
        if memo.is_in_vain(kind, self.happened()) {
            return Some(StopAsk::Vain);
        }
        let lock = self.lock_stops_within(patience)?;
        // The second look serves a request that began while the stop of another one was under way.
        if memo.was_in_vain_since(kind, begin) || memo.is_in_vain(kind, self.happened()) {
            return Some(StopAsk::Vain);
        }
        Some(if memo.last() == begin {
            StopAsk::Alone(lock)
        } else {
            StopAsk::Meanwhile(lock)
        })
    }
}

/// What a request that would fail may do: see [`SeatSet::ask`].
pub(crate) enum StopAsk<'s, 'm, S: SeatSet<'m>> {
    /// It fails. At one moment since it began there was nothing for its kind, as a stop has shown.
    Vain,
    /// It looks again, and stops all CPUs if it finds nothing: another request stopped them since this one began.
    Meanwhile(StopLock<'s, 'm, S>),
    /// It stops all CPUs.
    Alone(StopLock<'s, 'm, S>),
}

/// The right to claim the seats of a set, until this is dropped: no other CPU claims one.
pub(crate) struct StopLock<'s, 'm, S: SeatSet<'m>> {
    set: &'s S,
    lock: WatchedLock<'s, 'm, S::Platform>,
    /// Last, so that the lock is free when it wakes the waiters.
    wakes: Wakes<'s, S::Platform>,
}

impl<'s, 'm, S: SeatSet<'m>> StopLock<'s, 'm, S> {
    /// Begins to claim seats one by one.
    pub(crate) fn claims(self) -> Claims<'s, 'm, S> {
        Claims {
            set: self.set,
            _lock: self.lock,
            _wakes: self.wakes,
        }
    }

    /// Stops all CPUs: each finishes its work in its seat and then waits.
    ///
    /// # Errors
    /// The set is poisoned: a CPU that is in a seat may never leave it.
    pub(crate) fn stop(self) -> Result<Stopped<'s, 'm, S>, S::Poisoned>
    where
        S::Platform: FramePlatform,
    {
        let set = self.set;
        // This value exists before the claims, so that they end also if the platform panics.
        let claims = self.claims();
        let are_idle = claims.claim_all(|| set.turns(), &mut Patience::Endless)?;
        debug_assert!(are_idle, "patience has no end");
        Ok(Stopped {
            set,
            _claims: claims,
        })
    }

    /// The same, but gives up if a CPU stays in its seat for longer than `patience` lasts: then `None`.
    pub(crate) fn stop_within(
        self,
        patience: &mut Patience,
    ) -> Result<Option<Stopped<'s, 'm, S>>, S::Poisoned>
    where
        S::Platform: FramePlatform,
    {
        let set = self.set;
        let claims = self.claims();
        let are_idle = claims.claim_all(|| set.turns(), patience)?;
        Ok(are_idle.then_some(Stopped {
            set,
            _claims: claims,
        }))
    }
}

/// The claims of a CPU that holds the stop lock. All end when this is dropped.
pub(crate) struct Claims<'s, 'm, S: SeatSet<'m>> {
    set: &'s S,
    _lock: WatchedLock<'s, 'm, S::Platform>,
    _wakes: Wakes<'s, S::Platform>,
}

impl<'m, S: SeatSet<'m>> Drop for Claims<'_, 'm, S> {
    fn drop(&mut self) {
        self.set.give_up_claims();
    }
}

impl<'m, S: SeatSet<'m>> Claims<'_, 'm, S> {
    /// Claims one seat. Returns whether its owner has left it before `patience` ended; if not, the claim has ended.
    ///
    /// # Errors
    /// The set is poisoned.
    pub(crate) fn claim(&self, turn: Turn<'m>, patience: &mut Patience) -> Result<bool, S::Poisoned>
    where
        S::Platform: FramePlatform,
    {
        let is_idle = self.claim_all(|| iter::once(turn), patience)?;
        if !is_idle {
            self.give_up(turn);
        }
        Ok(is_idle)
    }

    /// Ends the claim of one seat.
    pub(crate) fn give_up(&self, turn: Turn<'m>) {
        turn.give_up();
        self.set.platform().wake();
    }

    /// Claims these seats. Returns whether all owners left them before `patience` ended. One barrier serves all
    /// claims.
    fn claim_all<T: Iterator<Item = Turn<'m>>>(
        &self,
        turns: impl Fn() -> T,
        patience: &mut Patience,
    ) -> Result<bool, S::Poisoned>
    where
        S::Platform: FramePlatform,
    {
        let set = self.set;
        // An owner that unwinds out of its seat poisons the set before it leaves.
        let is_given_up = || set.poisoned().is_err() || !patience.spend();
        let are_idle = Turn::claim_all(set.platform(), turns, is_given_up);
        set.poisoned()?;
        Ok(are_idle)
    }
}

/// All CPUs of a set stand still, until this is dropped: no seat is busy.
pub(crate) struct Stopped<'s, 'm, S: SeatSet<'m>> {
    pub(crate) set: &'s S,
    _claims: Claims<'s, 'm, S>,
}
