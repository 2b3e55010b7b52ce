//! What work looks at, counted in tests: cost is held against input without a clock, which says as
//! much of the machine as of the work. A program counts nothing.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Notes that this many things were looked at.
#[cfg(test)]
pub(crate) fn add(steps: u64) {
    TAKEN.with(|taken| taken.set(taken.get() + steps));
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn add(_: u64) {}

/// How many things `work` looks at on this thread.
#[cfg(test)]
pub(crate) fn of(work: impl FnOnce()) -> u64 {
    let before = TAKEN.with(Cell::get);
    work();
    TAKEN.with(Cell::get) - before
}
