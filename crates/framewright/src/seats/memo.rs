//! A memo of the results of stops.

use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

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
/// There is one word for the number of the last standstill, and two for each kind. Zeroes are an empty
/// memo. A CPU writes the words only under the stop lock, with all CPUs stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopMemo<'m> {
    words: &'m [AtomicU64],
}

/// A moment: the number of the last standstill before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Standstill(u64);

impl<'m> StopMemo<'m> {
    /// The words for this many kinds of requests.
    pub(crate) const fn words(kinds: usize) -> usize {
        1 + 2 * kinds
    }

    pub(crate) const fn new(words: &'m [AtomicU64]) -> Self {
        Self { words }
    }

    fn happened(self, kind: usize) -> &'m AtomicU64 {
        &self.words[1 + 2 * kind]
    }

    fn number(self, kind: usize) -> &'m AtomicU64 {
        &self.words[2 + 2 * kind]
    }

    /// The last standstill. A request reads it when it begins to ask for one.
    pub(crate) fn last(self) -> Standstill {
        // Acquire pairs with the Release in `stand_still`: the number counts every stop whose end the
        // caller knows of.
        Standstill(self.words[0].load(Acquire))
    }

    /// Counts a standstill: all CPUs stand still now.
    pub(crate) fn stand_still(self) {
        let now = &self.words[0];
        now.store(now.load(Relaxed).wrapping_add(1), Release);
    }

    /// With all CPUs stopped: notes that there is nothing for requests of that kind, and how much has
    /// happened so far.
    pub(crate) fn note(self, kind: usize, happened: u64) {
        // The sum plus one: zero is the empty memo. Release pairs with the Acquire in `is_in_vain`: a CPU that
        // sees the note sees the number of its standstill.
        self.happened(kind).store(happened.wrapping_add(1), Release);
        self.number(kind)
            .store(self.words[0].load(Relaxed), Relaxed);
    }

    /// Whether there was nothing for that kind at the last stop on its behalf, and nothing has
    /// happened since.
    pub(crate) fn is_in_vain(self, kind: usize, happened: u64) -> bool {
        self.happened(kind).load(Acquire) == happened.wrapping_add(1)
    }

    /// Under the stop lock: whether there was nothing for that kind at a standstill after `begin`.
    pub(crate) fn was_in_vain_since(self, kind: usize, begin: Standstill) -> bool {
        self.number(kind).load(Relaxed) > begin.0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_stop_in_vain_is_remembered_for_its_kind_until_something_happens() {
        let words = [const { AtomicU64::new(0) }; StopMemo::words(2)];
        let memo = StopMemo::new(&words);
        assert!(!memo.is_in_vain(0, 0) && !memo.is_in_vain(1, u64::MAX - 1));
        memo.stand_still();
        memo.note(1, 7);
        assert!(memo.is_in_vain(1, 7) && !memo.is_in_vain(1, 8) && !memo.is_in_vain(0, 7));
    }

    #[test]
    fn a_standstill_answers_the_requests_that_began_before_it_and_no_others() {
        let words = [const { AtomicU64::new(0) }; StopMemo::words(1)];
        let memo = StopMemo::new(&words);
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
