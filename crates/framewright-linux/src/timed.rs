//! How long owners wait: an area whose takes are timed.

use crate::LatencyHistogram;
use framewright::Run;
use framewright::RunError;
use framewright::reserve::{Contiguous, Reservation};
use std::time::Instant;

/// An area of contiguous frames, of either kind, that notes how long each call for a run took.
///
/// The engine reads no clock; this adds two readings to a call, some 20 to 50 ns each.
#[derive(Clone, Debug)]
pub struct TimedArea<A> {
    area: A,
    taken: LatencyHistogram,
    failed: LatencyHistogram,
}

impl<A> TimedArea<A> {
    /// The same area, timed.
    #[must_use]
    pub const fn new(area: A) -> Self {
        Self {
            area,
            taken: LatencyHistogram::new(),
            failed: LatencyHistogram::new(),
        }
    }

    /// Nanoseconds of calls that got a run.
    #[must_use]
    pub const fn taken(&self) -> &LatencyHistogram {
        &self.taken
    }

    /// Nanoseconds of calls that got no run.
    #[must_use]
    pub const fn failed(&self) -> &LatencyHistogram {
        &self.failed
    }

    /// The area.
    #[must_use]
    pub fn into_inner(self) -> A {
        self.area
    }

    fn time<T, E>(&mut self, call: impl FnOnce(&mut A) -> Result<T, E>) -> Result<T, E> {
        let start = Instant::now();
        let result = call(&mut self.area);
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match &result {
            Ok(_) => self.taken.record(ns),
            Err(_) => self.failed.record(ns),
        }
        result
    }
}

impl<A: Contiguous> Contiguous for TimedArea<A> {
    fn is_guaranteed(&self) -> bool {
        self.area.is_guaranteed()
    }

    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError> {
        self.time(|area| area.alloc_contig(frames, align))
    }

    fn release(&mut self, run: Run) -> Result<(), RunError> {
        self.area.release(run)
    }

    fn reserve(&mut self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        self.area.reserve(name, frames, align)
    }

    fn take(&mut self, reservation: Reservation) -> Result<Run, RunError> {
        self.time(|area| area.take(reservation))
    }

    fn try_take(&mut self, reservation: Reservation, rounds: u32) -> Result<Run, RunError> {
        self.time(|area| area.try_take(reservation, rounds))
    }

    fn unreserve(&mut self, reservation: Reservation) -> Result<(), RunError> {
        self.area.unreserve(reservation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Slots;
    use crate::{Linux, Ram, RamPages, Stored};
    use framewright::Frame;
    use framewright::reserve::{Reserve, ReserveLayout};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn every_call_for_a_run_is_timed_and_no_other() {
        let run = Run::new(Frame(0), 1024).unwrap();
        let ram = Arc::new(Ram::new(run, RamPages::Base).unwrap());
        let layout = ReserveLayout::new(run);
        let mut words = vec![0; layout.words_needed().unwrap()];
        let platform = Stored::new(Linux::fenced(Slots::new(1)), ram);
        let reserve = Reserve::new(&layout, &mut words, platform).unwrap();
        let mut area = TimedArea::new(reserve.owner(None));
        assert!(area.is_guaranteed());
        let start = Instant::now();
        let kept = area.reserve("kept", 512, 1).unwrap();
        let taken = area.take(kept).unwrap();
        assert_eq!(area.take(kept), Err(RunError::Taken(taken)));
        let some = area.alloc_contig(512, 1).unwrap();
        assert_eq!(area.alloc_contig(1, 1), Err(RunError::NoRoom));
        area.release(some).unwrap();
        area.release(taken).unwrap();
        area.unreserve(kept).unwrap();
        let all = start.elapsed();
        assert_eq!((area.taken().count(), area.failed().count()), (2, 2));
        let (_, longest) = area.taken().min_max().unwrap();
        assert!(Duration::from_nanos(longest) <= all);
        let inner = area.into_inner();
        assert!(inner.is_guaranteed());
    }
}
