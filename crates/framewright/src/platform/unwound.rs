//! Gives back what a call has taken, if the platform unwinds out of it.

use core::mem;

/// A seat in a call that may unwind. If it does, `undo` gives back what the caller has taken for it; if it
/// returns, the caller [`ends`](Self::end) this.
pub(crate) struct OrElse<'s, S, U: FnMut(&mut S)> {
    pub(crate) seat: &'s mut S,
    undo: U,
}

impl<'s, S, U: FnMut(&mut S)> OrElse<'s, S, U> {
    #[inline(always)]
    #[must_use = "dropped, it gives back"]
    pub(crate) const fn new(seat: &'s mut S, undo: U) -> Self {
        Self { seat, undo }
    }

    /// The call has returned.
    #[inline(always)]
    pub(crate) fn end(self) {
        mem::forget(self);
    }
}

impl<S, U: FnMut(&mut S)> Drop for OrElse<'_, S, U> {
    #[cold]
    fn drop(&mut self) {
        (self.undo)(self.seat);
    }
}
