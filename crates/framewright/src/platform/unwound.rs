//! Gives back what a call has taken, if the platform unwinds out of it; and ends what must end.

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

/// Does `work`, which may wait for another CPU before it changes anything, and which no later call would make up
/// for. If the platform unwinds out of that wait, does it once more. If the platform unwinds then as well, the
/// program ends.
#[inline]
pub(crate) fn surely(mut work: impl FnMut()) {
    let unwound = OrElse::new(&mut work, |work| work());
    (unwound.seat)();
    unwound.end();
}
