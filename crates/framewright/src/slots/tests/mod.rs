//! Runs and the tree against obvious models: every state of small sizes, random states of large ones.

use super::{Tree, count_runs, free_slots};
use crate::random::Random;
use crate::raw::atomic_words;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

/// Fewer rounds under Miri, which looks for undefined behaviour and not for wrong answers.
fn rounds(rounds: usize) -> usize {
    if cfg!(miri) { rounds / 100 + 1 } else { rounds }
}

/// One bool a slot. The model looks at all of them for every answer.
struct Model(Vec<bool>);

impl Model {
    fn of(words: &[u64]) -> Self {
        let bit = |slot: usize| words[slot / 64] >> (slot % 64) & 1 != 0;
        Self((0..words.len() * 64).map(bit).collect())
    }

    fn is_free(&self, start: usize, order: usize) -> bool {
        self.0[start..start + (1 << order)].iter().all(|&free| free)
    }

    /// The maximal free runs of each order.
    fn runs(&self) -> [u32; 16] {
        let mut counts = [0; 16];
        let orders = self.0.len().ilog2() as usize + 1;
        for (order, count) in counts.iter_mut().enumerate().take(orders) {
            let starts = (0..self.0.len()).step_by(1 << order);
            let is_maximal = |&start: &usize| {
                let around = start >> (order + 1) << (order + 1);
                let fits = around + (2 << order) <= self.0.len();
                self.is_free(start, order) && !(fits && self.is_free(around, order + 1))
            };
            *count = starts.filter(is_maximal).count() as u32;
        }
        counts
    }
}

fn compare(words: &[u64]) {
    let model = Model::of(words);
    let mut memory = words.to_vec();
    let memory = atomic_words(&mut memory);
    let mut counts = [0; 16];
    count_runs(memory, &mut counts);
    assert_eq!(counts, model.runs(), "{words:x?}");
    let free = model.0.iter().filter(|&&free| free).count();
    assert_eq!(free_slots(memory) as usize, free);
}

#[test]
fn sl1_every_state_of_eight_slots_has_the_runs_of_the_model() {
    for state in 0..rounds(256) as u64 {
        compare(&[state]);
        // The same at the top of a word, where a shift could lose bits.
        compare(&[state << 56 | 0xff]);
    }
}

#[test]
fn sl1_every_state_of_whole_words_has_the_runs_of_the_model() {
    // Each of 8 words is full, empty or has one hole: orders 6 to 9 and everything between. Under Miri nine states, which have
    // each word in each way, and neighbours in every pair of ways: 820 is 01010101 in threes.
    let step = if cfg!(miri) { 820 } else { 1 };
    for state in (0..6561_u32).step_by(step) {
        let mut rest = state;
        let mut words = [0u64; 8];
        for word in &mut words {
            *word = [!0, 0, !1][(rest % 3) as usize];
            rest /= 3;
        }
        compare(&words);
    }
}

#[test]
fn sl1_random_states_have_the_runs_of_the_model() {
    let mut random = Random::new(1);
    for round in 0..rounds(120) {
        let len = [1, 2, 4, 8, 16][round % 5];
        let density = random.index(4);
        let words: Vec<u64> = (0..len)
            .map(|_| match random.index(5) {
                0 => !0,
                1 => 0,
                _ => (0..density).fold(random.bits(), |word, _| word | random.bits()),
            })
            .collect();
        compare(&words);
    }
}

#[test]
fn a_tree_answers_as_an_ordered_set() {
    let mut random = Random::new(6);
    for limit in [1, 63, 64, 65, 500, 4096, 4097, 300_000] {
        if cfg!(miri) && limit > 500 {
            continue;
        }
        let mut memory = vec![0u64; Tree::words_needed(limit)];
        let tree = Tree::new(atomic_words(&mut memory), limit);
        let mut model = BTreeSet::new();
        for round in 0..rounds(1500) {
            let value = if round % 3 == 0 {
                random.index(limit.min(70))
            } else {
                random.index(limit)
            };
            let grow = round % 500 < 300;
            if random.index(4) < if grow { 3 } else { 1 } {
                assert_eq!(tree.insert(value), model.insert(value));
            } else {
                // Removes an integer that is in the set, so that words become empty and summaries change.
                let value = model.range(value..).next().copied().unwrap_or(value);
                assert_eq!(tree.remove(value), model.remove(&value));
            }
            let from = random.index(limit);
            assert_eq!(tree.first(), model.first().copied());
            assert_eq!(tree.first_from(from), model.range(from..).next().copied());
        }
        assert!(tree.iter().eq(model.iter().copied()));
        assert!(tree.is_consistent(), "SL2");
        assert_eq!(tree.first_from(limit + 64), None);
        for &value in &model {
            tree.remove(value);
        }
        assert_eq!(tree.first(), None);
        assert!(tree.is_consistent(), "SL2");
    }
}

// Not under Miri, which checks a slice of 266 thousand atomics at every use.
#[cfg(not(miri))]
#[test]
fn a_tree_above_four_full_levels_has_a_wide_top() {
    let limit = 64usize.pow(4) + 1;
    assert_eq!(Tree::words_needed(limit), 262_145 + 4097 + 65 + 2 + 1);
    let mut memory = vec![0u64; Tree::words_needed(limit)];
    let tree = Tree::new(atomic_words(&mut memory), limit);
    assert_eq!(tree.first(), None);
    tree.insert(limit - 1);
    assert_eq!(tree.first_from(5), Some(limit - 1));
    tree.insert(3);
    assert_eq!(
        (tree.first(), tree.first_from(4)),
        (Some(3), Some(limit - 1))
    );
}

#[test]
fn a_set_of_nothing_is_searched() {
    let mut memory = std::vec![0; Tree::words_needed(0)];
    let tree = Tree::new(atomic_words(&mut memory), 0);
    assert_eq!((tree.first(), tree.first_from(5)), (None, None));
    assert_eq!((tree.iter().count(), tree.is_consistent()), (0, true));
}

#[cfg(target_pointer_width = "64")]
#[test]
fn a_tree_of_more_than_2_to_the_37_integers_is_refused() {
    extern crate std;
    let refused = std::panic::catch_unwind(|| Tree::words_needed((1 << 37) + 1));
    assert!(refused.is_err());
    assert!(Tree::words_needed(1 << 37) > 1 << 31);
}
