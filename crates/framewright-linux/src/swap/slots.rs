//! Which slots of a device are in use.
//!
//! Slots are handed out in ascending order while there are any in front of the hand, cluster by
//! cluster. A cluster without a used slot is preferred, so that pages evicted in sequence are
//! written in sequence, and can be read so later. If no cluster is empty, any free slot will do.
//!
//! # Invariants
//! - **SW1** A slot that is in use is not handed out.
//! - **SW2** Nor is a slot that a [checkpoint](SlotMap::hold) names, used or not, until a later
//!   checkpoint does not name it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots in a cluster: 256 pages, 1 MiB.
const CLUSTER: u64 = 256;
const WORDS_PER_CLUSTER: usize = (CLUSTER / 64) as usize;

/// Which slots are in use. See the [module's description](self).
///
/// ```
/// use framewright_linux::swap::SlotMap;
///
/// let slots = SlotMap::new(1000);
/// assert_eq!(slots.alloc_run(3), Some(0..3));
/// assert_eq!(slots.alloc(), Some(3));
/// slots.free(1);
/// // Ascending: a freed slot comes last.
/// assert_eq!(slots.alloc(), Some(4));
/// assert_eq!(slots.used(), 4);
/// ```
#[derive(Debug)]
pub struct SlotMap {
    map: Mutex<SlotBits>,
}

#[derive(Debug)]
struct SlotBits {
    /// A bit for each slot in use; behind the last slot all are set.
    used: Vec<u64>,
    /// A bit for each slot that the last checkpoint names.
    held: Vec<u64>,
    slots: u64,
    used_slots: u64,
    /// Where the search for the next slot begins.
    hand: u64,
}

impl SlotMap {
    /// A map of `slots` slots, none of them in use.
    ///
    /// # Panics
    /// If there is no memory for two bits a slot.
    #[must_use]
    pub fn new(slots: u64) -> Self {
        Self::try_new(slots).unwrap_or_else(|| panic!("no memory for a map of {slots} slots"))
    }

    /// The same, or `None` if there is no memory for it. Unused parts take no memory.
    #[must_use]
    pub fn try_new(slots: u64) -> Option<Self> {
        let words = usize::try_from(slots.div_ceil(CLUSTER)).ok()?;
        let words = words.checked_mul(WORDS_PER_CLUSTER)?;
        // All at once: so a lack of memory shows before it is filled, which must not fail.
        Vec::<[u64; 2]>::new().try_reserve_exact(words).ok()?;
        let mut used = vec![0; words];
        for slot in slots..words as u64 * 64 {
            used[slot as usize / 64] |= 1 << (slot % 64);
        }
        Some(Self {
            map: Mutex::new(SlotBits {
                held: vec![0; words],
                used,
                slots,
                used_slots: 0,
                hand: 0,
            }),
        })
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.map().slots
    }

    /// How many are in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.map().used_slots
    }

    /// A slot, in use from now on. O(1) where slots are used up in sequence, O(slots / 64) at worst.
    pub fn alloc(&self) -> Option<u64> {
        self.map().alloc()
    }

    /// Takes `count` slots side by side. `None` if there is no such run from the hand to the end of
    /// its cluster, or in an empty one: then single slots may still be free.
    pub fn alloc_run(&self, count: u64) -> Option<std::ops::Range<u64>> {
        self.map().alloc_run(count)
    }

    /// Takes one particular slot. Returns whether it was free, and no checkpoint names it (SW2).
    pub fn take(&self, slot: u64) -> bool {
        let mut map = self.map();
        let free = slot < map.slots && map.is_free(slot);
        if free {
            map.mark(slot);
        }
        free
    }

    /// Frees the slot. Returns whether its contents may be overwritten: not if the last checkpoint
    /// names it.
    ///
    /// # Panics
    /// If it was not in use.
    pub fn free(&self, slot: u64) -> bool {
        let mut map = self.map();
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        let was_used = slot < map.slots && map.used[word] & bit != 0;
        assert!(was_used, "slot {slot} is not in use");
        map.used[word] &= !bit;
        map.used_slots -= 1;
        map.held[word] & bit == 0
    }

    /// Frees the slot, unless the last checkpoint, or the one that is being made, names it. Then
    /// runs `then`, while no slot is handed out, freed or named, and returns its result.
    pub(crate) fn free_unless_held<R>(&self, slot: u64, then: impl FnOnce() -> R) -> Option<R> {
        let mut map = self.map();
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        let is_free = slot < map.slots && map.used[word] & bit != 0 && map.held[word] & bit == 0;
        is_free.then(|| {
            map.used[word] &= !bit;
            map.used_slots -= 1;
            then()
        })
    }

    /// Records that a checkpoint names `slots`, and no others: they are not handed out until the
    /// next one (SW2).
    pub fn hold(&self, slots: impl IntoIterator<Item = u64>) {
        let (words, all) = {
            let map = self.map();
            (map.held.len(), map.slots)
        };
        // The caller's iterator runs before anything changes, and under no lock.
        let mut held = vec![0; words];
        for slot in slots.into_iter().filter(|slot| *slot < all) {
            held[slot as usize / 64] |= 1 << (slot % 64);
        }
        self.map().held = held;
    }

    /// Runs `names`, while no slot is handed out or freed, and holds the slots that its words name,
    /// each plus one; 0 names none. Slots that are held already stay so.
    pub(crate) fn hold_too(&self, names: impl FnOnce() -> Vec<u64>) -> Vec<u64> {
        let mut map = self.map();
        let named = names();
        for slot in named.iter().filter_map(|slot| slot.checked_sub(1)) {
            if slot < map.slots {
                map.held[slot as usize / 64] |= 1 << (slot % 64);
            }
        }
        named
    }

    /// The map is intact after a panic: code under the lock panics only before it changes anything.
    fn map(&self) -> MutexGuard<'_, SlotBits> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotBits {
    fn free_bits(&self, word: usize) -> u64 {
        !(self.used[word] | self.held[word])
    }

    fn mark(&mut self, slot: u64) {
        self.used[slot as usize / 64] |= 1 << (slot % 64);
        self.used_slots += 1;
    }

    fn is_free(&self, slot: u64) -> bool {
        self.free_bits(slot as usize / 64) >> (slot % 64) & 1 != 0
    }

    /// The first slot of an empty cluster, from the hand's on.
    fn empty_cluster(&self) -> Option<u64> {
        let clusters = self.used.len() / WORDS_PER_CLUSTER;
        let first = (self.hand / CLUSTER) as usize;
        let mut round = (first..clusters).chain(0..first.min(clusters));
        let empty = round.find(|cluster| {
            let words = cluster * WORDS_PER_CLUSTER..(cluster + 1) * WORDS_PER_CLUSTER;
            words.into_iter().all(|word| self.free_bits(word) == !0)
        });
        empty.map(|cluster| cluster as u64 * CLUSTER)
    }

    /// The first free slot of `words`, from bit `from` of the first on.
    fn first_free(&self, words: std::ops::Range<usize>, from: u64) -> Option<u64> {
        let start = words.start;
        words.into_iter().find_map(|word| {
            let skip = if word == start { from } else { 0 };
            let bits = self.free_bits(word) & (!0 << skip);
            (bits != 0).then(|| word as u64 * 64 + u64::from(bits.trailing_zeros()))
        })
    }

    fn alloc(&mut self) -> Option<u64> {
        let words = self.used.len();
        let hand = self.hand as usize / 64;
        let end = (hand / WORDS_PER_CLUSTER + 1) * WORDS_PER_CLUSTER;
        let in_cluster = !self.hand.is_multiple_of(CLUSTER);
        let here = in_cluster
            .then(|| self.first_free(hand..end.min(words), self.hand % 64))
            .flatten();
        let slot = here
            .or_else(|| self.empty_cluster())
            .or_else(|| self.first_free(hand.min(words)..words, self.hand % 64))
            .or_else(|| self.first_free(0..words, 0))?;
        self.mark(slot);
        self.hand = slot + 1;
        Some(slot)
    }

    fn alloc_run(&mut self, count: u64) -> Option<std::ops::Range<u64>> {
        if count == 0 || count > CLUSTER {
            return None;
        }
        let fits = |start: u64| {
            let end = start + count;
            start / CLUSTER == (end - 1) / CLUSTER
                && end <= self.slots
                && (start..end).all(|slot| self.is_free(slot))
        };
        let start = Some(self.hand).filter(|hand| fits(*hand));
        let start = start.or_else(|| self.empty_cluster().filter(|first| fits(*first)))?;
        (start..start + count).for_each(|slot| self.mark(slot));
        self.hand = start + count;
        Some(start..start + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_sim::Random;
    use std::collections::BTreeSet;

    #[test]
    fn slots_come_in_sequence_and_empty_clusters_before_holes() {
        let slots = SlotMap::new(1024);
        for slot in 0..300 {
            assert_eq!(slots.alloc(), Some(slot));
        }
        for slot in 0..300 {
            if slot % 2 == 0 {
                assert!(slots.free(slot));
            }
        }
        // To the end of its cluster, then the two empty ones, then those with holes.
        let got: Vec<_> = (0..5).map(|_| slots.alloc_run(256)).collect();
        assert_eq!(got, [Some(512..768), Some(768..1024), None, None, None]);
        assert_eq!(slots.alloc(), Some(0));
        assert_eq!(slots.alloc(), Some(2));
    }

    #[test]
    fn every_slot_is_handed_out_once_and_then_none() {
        for count in [1, 63, 64, 255, 256, 257, 1000] {
            let slots = SlotMap::new(count);
            let all: BTreeSet<_> = (0..count).map(|_| slots.alloc().unwrap()).collect();
            assert_eq!(all, (0..count).collect());
            assert_eq!((slots.alloc(), slots.alloc_run(1)), (None, None));
            assert!(slots.free(count / 2));
            assert_eq!(slots.alloc(), Some(count / 2));
            assert_eq!(slots.used(), count);
        }
    }

    #[test]
    fn what_a_checkpoint_names_is_not_handed_out_until_the_next_one() {
        let slots = SlotMap::new(4);
        (0..4).for_each(|slot| assert_eq!(slots.alloc(), Some(slot)));
        slots.hold([1, 2]);
        assert!(!slots.free(1));
        assert!(slots.free(3));
        assert_eq!(slots.alloc(), Some(3));
        assert_eq!(slots.alloc(), None);
        slots.hold([2]);
        assert_eq!(slots.alloc(), Some(1));
        // Both are held while the next one is written.
        assert_eq!(slots.hold_too(|| vec![0, 1, 4]), [0, 1, 4]);
        (0..4).for_each(|slot| assert_eq!(slots.free(slot), slot == 1));
        assert_eq!((slots.alloc(), slots.alloc()), (Some(1), None));
    }

    #[test]
    fn sw2_a_held_slot_is_not_taken_by_its_number_either() {
        let slots = SlotMap::new(4);
        assert!(slots.take(1));
        slots.hold([1]);
        assert!(!slots.free(1));
        assert!(!slots.take(1));
        slots.hold([]);
        assert!(slots.take(1));
    }

    #[test]
    fn sw2_a_list_that_panics_leaves_held_what_was_held() {
        let slots = SlotMap::new(4);
        assert!(slots.take(1));
        slots.hold([1]);
        assert!(!slots.free(1));
        let list = (0..4).map(|slot| match slot {
            // It may ask the map itself, too.
            2 => panic!("{} slots", slots.used()),
            _ => 3,
        });
        let held = std::panic::AssertUnwindSafe(|| slots.hold(list));
        assert!(std::panic::catch_unwind(held).is_err());
        let all: Vec<_> = std::iter::from_fn(|| slots.alloc()).collect();
        assert_eq!(all, [0, 2, 3]);
    }

    #[test]
    fn runs_and_single_slots_agree_with_a_set() {
        let slots = SlotMap::new(777);
        let mut used = BTreeSet::new();
        let mut numbers = Random::new(5);
        let mut random = |below| numbers.below(below);
        for _ in 0..20_000 {
            match random(4) {
                0 => {
                    if let Some(run) = slots.alloc_run(1 + random(40)) {
                        assert!(run.end <= 777);
                        run.for_each(|slot| assert!(used.insert(slot)));
                    }
                }
                1 => match slots.alloc() {
                    Some(slot) => assert!(used.insert(slot) && slot < 777),
                    None => assert_eq!(used.len(), 777),
                },
                _ => {
                    let nth = random(used.len().max(1) as u64 * 2) as usize;
                    if let Some(&slot) = used.iter().nth(nth) {
                        used.remove(&slot);
                        slots.free(slot);
                    }
                }
            }
            assert_eq!(slots.used(), used.len() as u64);
        }
    }

    #[test]
    #[should_panic(expected = "slot 3 is not in use")]
    fn a_slot_is_freed_once() {
        let slots = SlotMap::new(8);
        assert!(slots.take(3) && !slots.take(3) && !slots.take(8));
        slots.free(3);
        slots.free(3);
    }
}
