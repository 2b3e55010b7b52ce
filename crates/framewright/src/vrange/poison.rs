//! The state of a space after a call out of it that did not return.
//!
//! A purge calls the platform and the source of frames in the middle of a change (`unmap`,
//! `flush_all`, `free_run`). If one of them unwinds, it is unknown what is mapped, lazy or given
//! back. So the space is not touched again. All seats are claimed for good (V11): the frequent side
//! notices by the claim, which it looks at anyway.

use super::seat::SeatWords;
use super::{RangeError, RangeFreeError, Space};
use crate::sync::Ordering::SeqCst;
use crate::sync::fence;
use core::mem;

/// The space is poisoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Poisoned;

impl From<Poisoned> for RangeError {
    fn from(_: Poisoned) -> Self {
        Self::Poisoned
    }
}

impl From<Poisoned> for RangeFreeError {
    fn from(_: Poisoned) -> Self {
        Self::Poisoned
    }
}

/// A call out that may unwind, in the middle of a change: dropping this poisons the space.
#[must_use = "dropped at once, it poisons the space"]
pub(super) struct CallingOut<'s, 'm, P>(&'s Space<'m, P>);

impl<P> CallingOut<'_, '_, P> {
    /// The call has returned.
    #[inline]
    pub(super) const fn end(self) {
        mem::forget(self);
    }
}

impl<P> Drop for CallingOut<'_, '_, P> {
    #[cold]
    fn drop(&mut self) {
        self.0.poison();
    }
}

impl<'m, P> Space<'m, P> {
    #[inline]
    pub(super) const fn calling_out(&self) -> CallingOut<'_, 'm, P> {
        CallingOut(self)
    }

    /// Whether a call of the platform's `unmap` or `flush_all`, or of a source's `free_run`, has
    /// unwound out of the space. Then every request is refused, and `verify` too.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned().load(SeqCst) != 0
    }

    #[cold]
    fn poison(&self) {
        self.poisoned().store(1, SeqCst);
        self.claim_for_good();
    }

    fn claim_for_good(&self) {
        self.all_seats().for_each(|seat| seat.turn().claim());
    }

    /// Ends the claims; but if the space is poisoned they stay.
    pub(super) fn give_up_claims(&self) {
        if self.is_poisoned() {
            return;
        }
        self.all_seats()
            .map(SeatWords::turn)
            .for_each(|turn| turn.give_up());
        // Either this look sees what `poison` wrote, or its claims come after these were given up.
        fence(SeqCst);
        if self.is_poisoned() {
            self.claim_for_good();
        }
    }
}
