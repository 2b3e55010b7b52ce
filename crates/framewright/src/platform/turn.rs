use super::{Barrier, Patience, Relax};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    light_fence,
};
use core::mem;

/// Whose turn a CPU's seat is: its own thread's, which enters often and must not pay for it, or
/// somebody's who claims it, rarely.
///
/// ```text
///     owner                      claimer
///     busy = 1                   claimed = 1
///     light fence                barrier on all CPUs
///     claimed? no: go on         busy? no: go on
///              yes: busy = 0,         yes: wait
///              wait
/// ```
///
/// Each says what it does before it looks at the other, so not both go on: the claimer's barrier
/// makes the owner's light fence as good as a full one (the asymmetric fences of membarrier(2)).
/// Claimers exclude one another by a lock of their own. One word each, on different cache lines.
///
/// Whoever is inside calls the platform only where the seat is whole, and says so
/// ([`calling_out`](Self::calling_out)): if what it calls unwinds, it has left, and nobody waits for it
/// for ever. Where that cannot be, because a change is under way, all seats are claimed for good, and those
/// who wait are told ([`wait_if_claimed_unless`](Self::wait_if_claimed_unless)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'m> {
    busy: &'m AtomicU64,
    claimed: &'m AtomicU64,
}

impl<'m> Turn<'m> {
    /// The turn that these two words say; zero is nobody's.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn new(busy: &'m AtomicU64, claimed: &'m AtomicU64) -> Self {
        Self { busy, claimed }
    }

    /// The owner enters, but does not wait: false if somebody claims the seat. Then it is busy,
    /// and nothing may be done in it before [`wait_if_claimed`](Self::wait_if_claimed).
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_enter<P: Barrier>(self) -> bool {
        self.busy.store(1, Relaxed);
        light_fence(P::ASYMMETRIC);
        self.is_unclaimed()
    }

    #[inline(always)]
    fn is_unclaimed(self) -> bool {
        // Acquire pairs with the Release of whoever claimed the seat: what they did is seen.
        self.claimed.load(Acquire) == 0
    }

    /// The owner, in a busy seat before anything is done in it: lets whoever claims it have it
    /// first.
    #[inline]
    pub(crate) fn wait_if_claimed<P: Relax + Barrier>(self, platform: &P) {
        let entered = self.wait_if_claimed_unless(platform, || false);
        debug_assert!(entered, "every claim ends");
    }

    /// The same, but for a claim that `is_given_up` says nobody will end: then the owner has left the
    /// seat, and the answer is false.
    #[inline]
    #[must_use]
    pub(crate) fn wait_if_claimed_unless<P: Relax + Barrier>(
        self,
        platform: &P,
        is_given_up: impl Fn() -> bool,
    ) -> bool {
        self.is_unclaimed() || self.wait_until_unclaimed(platform, is_given_up)
    }

    /// The same, but gives up if the claim lasts longer than `patience`: then the owner has left the
    /// seat, and the result is false.
    #[must_use]
    pub(crate) fn wait_if_claimed_within<P: Relax + Barrier>(
        self,
        platform: &P,
        patience: &mut Patience,
    ) -> bool {
        self.is_unclaimed() || self.wait_until_unclaimed(platform, || !patience.spend())
    }

    #[cold]
    fn wait_until_unclaimed<P: Relax + Barrier>(
        self,
        platform: &P,
        mut is_given_up: impl FnMut() -> bool,
    ) -> bool {
        let mut attempt = 0;
        loop {
            self.exit();
            // The claimer may wait for just that.
            platform.wake();
            while !self.is_unclaimed() {
                if is_given_up() {
                    return false;
                }
                platform.relax(attempt);
                attempt = attempt.saturating_add(1);
            }
            if self.try_enter::<P>() {
                return true;
            }
        }
    }

    /// The owner leaves.
    #[inline(always)]
    pub(crate) fn exit(self) {
        // Release pairs with the Acquire of whoever claims the seat.
        self.busy.store(0, Release);
    }

    /// The owner is inside, the seat is whole, and it calls what may unwind. It stays inside if that
    /// returns, and [`ends`](CallingOut::end) this; else it leaves.
    #[inline]
    pub(crate) const fn calling_out(self) -> CallingOut<'m> {
        CallingOut(self)
    }

    /// Claims seats, and waits until the owner of each has left it. They are the claimer's until it
    /// [gives them up](Self::give_up). One barrier serves any number of claims.
    pub(crate) fn claim_all<P: Relax + Barrier, T: Iterator<Item = Self>>(
        platform: &P,
        turns: impl Fn() -> T,
    ) {
        Self::claim_all_unless(platform, turns, || false);
    }

    /// The same; but where `is_given_up` says of an owner that it will not leave, nobody waits for it, and the
    /// result is false.
    pub(crate) fn claim_all_unless<P: Relax + Barrier, T: Iterator<Item = Self>>(
        platform: &P,
        turns: impl Fn() -> T,
        mut is_given_up: impl FnMut() -> bool,
    ) -> bool {
        turns().for_each(Self::claim);
        platform.barrier_all();
        turns().all(|turn| turn.wait_until_idle_unless(platform, &mut is_given_up))
    }

    /// The same, but gives up if an owner stays for longer than `patience` lasts: then the result is
    /// false, and the caller gives its claims up.
    pub(crate) fn claim_all_within<P: Relax + Barrier, T: Iterator<Item = Self>>(
        platform: &P,
        turns: impl Fn() -> T,
        patience: &mut Patience,
    ) -> bool {
        Self::claim_all_unless(platform, turns, || !patience.spend())
    }

    /// A claim without a wait: its owner leaves at the next look.
    pub(crate) fn claim(self) {
        self.claimed.store(1, SeqCst);
    }

    /// After claim and barrier: waits until the owner has left, or is said not to leave: then false.
    fn wait_until_idle_unless(
        self,
        platform: &impl Relax,
        mut is_given_up: impl FnMut() -> bool,
    ) -> bool {
        let mut attempt = 0;
        // Acquire pairs with the Release with which the owner leaves.
        while self.busy.load(Acquire) != 0 {
            if is_given_up() {
                return false;
            }
            platform.relax(attempt);
            attempt = attempt.saturating_add(1);
        }
        true
    }

    /// Gives a claim up.
    pub(crate) fn give_up(self) {
        // Release pairs with the Acquire of an owner that waits.
        self.claimed.store(0, Release);
    }
}

/// See [`Turn::calling_out`].
#[must_use = "dropped at once, it leaves the seat"]
pub(crate) struct CallingOut<'m>(Turn<'m>);

impl CallingOut<'_> {
    /// What was called has returned: the owner is still inside.
    #[inline]
    pub(crate) const fn end(self) {
        mem::forget(self);
    }
}

impl Drop for CallingOut<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.exit();
    }
}
