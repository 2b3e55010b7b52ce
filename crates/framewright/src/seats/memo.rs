//! A memo of the results of stops.

use crate::raw::record;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

record! {
    /// What stops found for one kind of requests.
    #[derive(Debug)]
    #[repr(C)]
    pub(crate) struct StoppedInVain {
        /// How much had happened when a stop found nothing, plus one; 0 if none has.
        happened: AtomicU64,
        /// The number of that standstill.
        number: AtomicU64,
    } = 2 words;
}

/// The results of earlier stops, so that no stop is repeated that would gain nothing.
///
/// A request of some *kind* that would fail stops all CPUs, and finds nothing even then. Two things
/// follow for other requests of its kind:
///
/// - As long as nothing has *happened* since, another stop would find nothing either. The memo asks a sum
///   of counters that only grow, and each of which one CPU writes as part of other work. If the sum is as
///   it was during the stop, then each counter was so when the reading of the sum began, and at that
///   moment there was nothing.
/// - A stop also answers a request that waited for the stop lock meanwhile, if all CPUs stood still after
///   the request had begun: at that moment of the request there was nothing.
///
/// So of several requests that wait together only one stops all CPUs (E4).
///
/// Zeroes are an empty memo. A CPU writes the words only under the stop lock, with all CPUs stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopMemo<'m> {
    /// The number of the last standstill.
    last: &'m AtomicU64,
    kinds: &'m [StoppedInVain],
}

/// A moment: the number of the last standstill before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Standstill(u64);

impl<'m> StopMemo<'m> {
    pub(crate) const fn new(last: &'m AtomicU64, kinds: &'m [StoppedInVain]) -> Self {
        Self { last, kinds }
    }

    /// The last standstill. A request reads it when it begins to ask for one.
    pub(crate) fn last(self) -> Standstill {
        // Acquire pairs with the Release in `stand_still`: the number counts every stop whose end the
        // caller knows of.
        Standstill(self.last.load(Acquire))
    }

    /// Counts a standstill: all CPUs stand still now.
    pub(crate) fn stand_still(self) {
        let now = self.last.load(Relaxed).wrapping_add(1);
        self.last.store(now, Release);
    }

    /// With all CPUs stopped: notes that there is nothing for requests of that kind, and how much has
    /// happened so far.
    pub(crate) fn note(self, kind: usize, happened: u64) {
        // The sum plus one: zero is the empty memo. Release pairs with the Acquire in `is_in_vain`: a CPU that
        // sees the note sees the number of its standstill.
        let of = &self.kinds[kind];
        of.happened.store(happened.wrapping_add(1), Release);
        of.number.store(self.last.load(Relaxed), Relaxed);
    }

    /// Whether there was nothing for that kind at the last stop on its behalf, and nothing has
    /// happened since.
    pub(crate) fn is_in_vain(self, kind: usize, happened: u64) -> bool {
        self.kinds[kind].happened.load(Acquire) == happened.wrapping_add(1)
    }

    /// Under the stop lock: whether there was nothing for that kind at a standstill after `begin`.
    pub(crate) fn was_in_vain_since(self, kind: usize, begin: Standstill) -> bool {
        self.kinds[kind].number.load(Relaxed) > begin.0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::raw::Carver;

    #[test]
    fn a_stop_in_vain_is_remembered_for_its_kind_until_something_happens() {
        let mut words = [0; 5];
        let mut carver = Carver::of(&mut words);
        let memo = StopMemo::new(carver.record(), carver.records(2));
        assert!(!memo.is_in_vain(0, 0) && !memo.is_in_vain(1, u64::MAX - 1));
        memo.stand_still();
        memo.note(1, 7);
        assert!(memo.is_in_vain(1, 7) && !memo.is_in_vain(1, 8) && !memo.is_in_vain(0, 7));
    }

    #[test]
    fn a_standstill_answers_the_requests_that_began_before_it_and_no_others() {
        let mut words = [0; 3];
        let mut carver = Carver::of(&mut words);
        let memo = StopMemo::new(carver.record(), carver.records(1));
        let before = memo.last();
        assert!(!memo.was_in_vain_since(0, before));
        memo.stand_still();
        let during = memo.last();
        memo.note(0, 0);
        assert!(memo.was_in_vain_since(0, before) && !memo.was_in_vain_since(0, during));
        memo.stand_still();
        assert!(!memo.was_in_vain_since(0, during), "it found something");
    }
}
