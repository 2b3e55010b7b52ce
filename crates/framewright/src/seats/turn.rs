//! Which CPU is in a seat, and whether a thread has it.

use crate::platform::{FramePlatform, Patience};
use crate::raw::record;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    light_fence,
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem;

record! {
    /// The words of a seat that other CPUs write. Its owner's word, `busy`, is on another cache line.
    #[derive(Default, Debug)]
    #[repr(C)]
    pub(crate) struct ClaimWords {
        claimed: AtomicU64,
        taken: AtomicU64,
    }
}

/// Which thread's turn a CPU's seat is: its owner's, which enters often and must not pay for it, or
/// a claimer's, which comes rarely.
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
/// Each writes its own word before it reads the other's, so not both go on. The claimer's barrier makes
/// the owner's light fence as good as a full one (the asymmetric fences of membarrier(2)). The two words
/// are on different cache lines. Claimers exclude one another by a lock of their own.
///
/// An owner that calls the platform while its seat is whole says so
/// ([`calling_out`](Self::calling_out)). If that call unwinds, the owner leaves the seat, and no CPU waits
/// for it for ever. An owner in the middle of a change cannot leave so. If its call unwinds, the
/// allocator claims all seats for good, and tells the CPUs that wait
/// ([`wait_if_claimed_unless`](Self::wait_if_claimed_unless)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'m> {
    busy: &'m AtomicU64,
    claimed: &'m AtomicU64,
}

impl<'m> Turn<'m> {
    /// The turn of the seat with these words; zeroes are an idle seat.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn new(busy: &'m AtomicU64, claims: &'m ClaimWords) -> Self {
        let claimed = &claims.claimed;
        Self { busy, claimed }
    }

    /// The owner enters, but does not wait. False if a claimer wants the seat: then the seat is busy, and
    /// the owner must call [`wait_if_claimed`](Self::wait_if_claimed) before it does anything in it.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_enter<P: FramePlatform>(self) -> bool {
        self.busy.store(1, Relaxed);
        light_fence(P::ASYMMETRIC);
        self.is_unclaimed()
    }

    #[inline(always)]
    fn is_unclaimed(self) -> bool {
        // Acquire pairs with the claimer's Release: the owner sees what the claimer did.
        self.claimed.load(Acquire) == 0
    }

    /// The owner, in a busy seat before it does anything in it, lets a claimer have the seat first.
    #[inline]
    pub(crate) fn wait_if_claimed<P: FramePlatform>(self, platform: &P) {
        let entered = self.wait_if_claimed_unless(platform, || false);
        debug_assert!(entered, "every claim ends");
    }

    /// The same, but does not wait for a claim that never ends, of which `is_given_up` tells. Then the owner
    /// has left the seat, and the result is false.
    #[inline]
    #[must_use]
    pub(crate) fn wait_if_claimed_unless<P: FramePlatform>(
        self,
        platform: &P,
        is_given_up: impl Fn() -> bool,
    ) -> bool {
        self.is_unclaimed() || self.wait_until_unclaimed(platform, is_given_up)
    }

    /// The same, but gives up if the claim lasts longer than `patience`: then the owner has left the
    /// seat, and the result is false.
    #[must_use]
    pub(crate) fn wait_if_claimed_within<P: FramePlatform>(
        self,
        platform: &P,
        patience: &mut Patience,
    ) -> bool {
        self.is_unclaimed() || self.wait_until_unclaimed(platform, || !patience.spend())
    }

    #[cold]
    fn wait_until_unclaimed<P: FramePlatform>(
        self,
        platform: &P,
        mut is_given_up: impl FnMut() -> bool,
    ) -> bool {
        let mut attempt = 0;
        loop {
            self.exit();
            // The claimer may sleep until this owner leaves.
            platform.wake();
            // Also if the claim has ended: the next one may come before this owner enters again.
            loop {
                if is_given_up() {
                    return false;
                }
                if self.is_unclaimed() {
                    break;
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
        // Release pairs with the claimer's Acquire.
        self.busy.store(0, Release);
    }

    /// The owner is inside, the seat is whole, and it makes a call that may unwind. If the call returns, the
    /// owner [`ends`](CallingOut::end) this and stays inside. If it unwinds, the owner leaves.
    #[inline]
    pub(crate) const fn calling_out(self) -> CallingOut<'m> {
        CallingOut(self)
    }

    /// Claims seats, and waits until the owner of each has left it. They are the claimer's until it
    /// [gives them up](Self::give_up). One barrier serves any number of claims. It asks `is_given_up` before
    /// each wait, and returns false instead of waiting once that is true.
    pub(crate) fn claim_all<P: FramePlatform, T: Iterator<Item = Self>>(
        platform: &P,
        turns: impl Fn() -> T,
        mut is_given_up: impl FnMut() -> bool,
    ) -> bool {
        turns().for_each(Self::claim);
        platform.barrier_all();
        turns().all(|turn| turn.wait_until_idle(platform, &mut is_given_up))
    }

    /// Claims the seat without a wait. Its owner leaves it when it looks next.
    pub(crate) fn claim(self) {
        self.claimed.store(1, SeqCst);
    }

    /// After claim and barrier: waits until the owner has left. False if the claimer gave up before that.
    fn wait_until_idle(
        self,
        platform: &impl FramePlatform,
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

    /// Whether the seat is neither busy nor claimed.
    #[cfg(all(test, loom))]
    pub(super) fn is_idle(self) -> bool {
        self.busy.load(Relaxed) == 0 && self.claimed.load(Relaxed) == 0
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
    /// The call has returned: the owner stays inside.
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

/// One thread has a seat, until this is dropped. Two threads cannot share it.
#[derive(Debug)]
pub(crate) struct Taken<'m> {
    taken: &'m AtomicU64,
    not_sync: PhantomData<Cell<()>>,
}

impl<'m> Taken<'m> {
    /// Takes the seat with these words. `None` if a thread has it.
    pub(crate) fn take(claims: &'m ClaimWords) -> Option<Self> {
        let taken = &claims.taken;
        // Acquire pairs with the Release in `drop`.
        let was_taken = taken.swap(1, Acquire);
        // Not `then_some`, which would make a `Taken` in any case, and its drop would free the seat.
        (was_taken == 0).then(|| Self {
            taken,
            not_sync: PhantomData,
        })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Release: the next thread to take the seat sees what it has.
        self.taken.store(0, Release);
    }
}
