//! The state of a space after a call out of it that did not return.
//!
//! A purge calls the platform and the source of frames in the middle of a change (`unmap`,
//! `flush_all`, `free_run`), and a CPU in its seat may have to wait for the arena's lock or the depot's (`relax`).
//! If one of these calls unwinds, it is unknown what is mapped, lazy or given back. So the space is not touched again. All seats are claimed for good (V11): the frequent side
//! notices by the claim, which it looks at anyway.

use super::Space;
use crate::platform::FramePlatform;
use crate::seats::SeatSet;
use crate::sync::Ordering::SeqCst;
use core::mem;

/// A call out that may unwind, in the middle of a change: dropping this poisons the space.
#[must_use = "dropped at once, it poisons the space"]
pub(in super::super) struct PoisonGuard<'s, 'm, P: FramePlatform>(&'s Space<'m, P>);

impl<P: FramePlatform> PoisonGuard<'_, '_, P> {
    /// The call has returned.
    #[inline]
    pub(in super::super) const fn end(self) {
        mem::forget(self);
    }
}

impl<P: FramePlatform> Drop for PoisonGuard<'_, '_, P> {
    #[cold]
    fn drop(&mut self) {
        self.0.poison();
    }
}

impl<'m, P: FramePlatform> Space<'m, P> {
    #[inline]
    pub(in super::super) const fn calling_out(&self) -> PoisonGuard<'_, 'm, P> {
        PoisonGuard(self)
    }

    /// Waits for the holder of a lock, in the middle of a change.
    #[cold]
    pub(in super::super) fn relax_for_lock(&self, attempt: u32) {
        let out = self.calling_out();
        self.platform.relax(attempt);
        out.end();
    }

    #[cold]
    fn poison(&self) {
        self.poison_word().store(1, SeqCst);
        self.claim_for_good();
    }
}

impl<P> Space<'_, P> {
    /// Whether a call of the platform's `unmap` or `flush_all`, or of a source's `free_run`, or a wait for a lock, has
    /// unwound out of the space. Then every request is refused, and `verify` too.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poison_word().load(SeqCst) != 0
    }
}
