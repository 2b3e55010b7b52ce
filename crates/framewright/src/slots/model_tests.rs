//! The bitmap, its twin and the tree against obvious models: every state of small sizes, random
//! states of large ones.

use super::{Overlap, Slots, Tree, Twin};
use crate::raw::atomic_words;
use crate::sync::Ordering::Relaxed;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Fewer rounds under Miri, which looks for undefined behaviour and not for wrong answers.
fn rounds(rounds: usize) -> usize {
    if cfg!(miri) { rounds / 100 + 1 } else { rounds }
}

/// One bool a slot, and every question answered by looking at all of them.
struct Model(Vec<bool>);

impl Model {
    fn of(words: &[u64]) -> Self {
        let bit = |slot: usize| words[slot / 64] >> (slot % 64) & 1 != 0;
        Self((0..words.len() * 64).map(bit).collect())
    }

    fn max_order(&self) -> u8 {
        self.0.len().ilog2() as u8
    }

    fn all_free(&self, start: usize, len: usize) -> bool {
        self.0[start..start + len].iter().all(|&free| free)
    }

    fn starts(&self, order: u8) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() >> order)
            .map(move |index| index << order)
            .filter(move |&start| self.all_free(start, 1 << order))
    }

    fn maximal_order(&self, slot: usize) -> Option<u8> {
        (0..=self.max_order())
            .rev()
            .find(|&o| self.all_free(slot >> o << o, 1 << o))
    }

    fn maximal_starts(&self, order: u8) -> Vec<usize> {
        self.starts(order)
            .filter(|&start| self.maximal_order(start) == Some(order))
            .collect()
    }

    fn find_run(&self, len: usize) -> Option<usize> {
        (0..(self.0.len() + 1).saturating_sub(len)).find(|&start| self.all_free(start, len))
    }
}

fn compare_all_questions(memory: &mut [u64], orders: &[u8]) {
    let model = Model::of(memory);
    let slots = Slots::new(atomic_words(memory));
    let len = model.0.len();
    let mut counts = [0u32; 16];
    slots.count_runs(&mut counts);
    for &order in orders {
        assert_eq!(slots.find_lowest(order), model.starts(order).next());
        let best = (order..=model.max_order())
            .find_map(|o| model.maximal_starts(o).first().map(|&start| (start, o)));
        assert_eq!(slots.find_best(order), best, "order {order}");
        let maximal = model.maximal_starts(order).len();
        assert_eq!(
            counts[usize::from(order)] as usize,
            maximal,
            "order {order}"
        );
    }
    let largest = (0..=model.max_order())
        .rev()
        .find(|&o| model.starts(o).next().is_some());
    for bound in largest.unwrap_or(0)..=model.max_order() + 1 {
        assert_eq!(slots.largest_order(bound), largest, "bound {bound}");
    }
    assert_eq!(slots.largest_order(u8::MAX), largest);
    for slot in 0..len {
        assert_eq!(
            slots.maximal_order(slot),
            model.maximal_order(slot),
            "slot {slot}"
        );
    }
    let free = model.0.iter().filter(|&&free| free).count();
    assert_eq!(slots.free_slots() as usize, free);
    for run in [1, 2, 3, 5, 17, 63, 64, 65, 100, len] {
        assert_eq!(slots.find_run(run), model.find_run(run), "run of {run}");
    }
    for from in [0, 1, 63, len / 2, len - 1] {
        let next = |wanted| (from..len).find(|&slot| model.0[slot] == wanted);
        assert_eq!(slots.next_free(from), next(true));
        assert_eq!(slots.next_taken(from), next(false));
    }
}

#[test]
fn every_state_of_eight_slots_answers_as_the_model() {
    for state in 0..rounds(256) as u64 {
        compare_all_questions(&mut [state], &[0, 1, 2, 3, 4, 5, 6]);
        // The same at the top of a word, where shifts could leave it.
        compare_all_questions(&mut [state << 56 | 0xff], &[0, 1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn every_state_of_whole_words_answers_as_the_model() {
    // Each of 8 words is full, empty or has one hole: orders 6 to 9 and everything between.
    for state in 0..rounds(6561) as u32 {
        let mut rest = state;
        let mut words = [0u64; 8];
        for word in &mut words {
            *word = [!0, 0, !1][(rest % 3) as usize];
            rest /= 3;
        }
        let model = Model::of(&words);
        let copy = words;
        let slots = Slots::new(atomic_words(&mut words));
        for order in 6..=9 {
            assert_eq!(slots.find_lowest(order), model.starts(order).next());
        }
        if !cfg!(miri) && (state % 31 == 0 || copy.iter().all(|&word| word == !0)) {
            compare_all_questions(&mut words, &[0, 5, 6, 7, 8, 9]);
        }
    }
}

#[test]
fn random_states_answer_as_the_model() {
    let mut random = Random(1);
    for round in 0..rounds(120) {
        let len = [1, 2, 4, 8, 16][round % 5];
        let density = random.below(4);
        let words: Vec<u64> = (0..len)
            .map(|_| match random.below(5) {
                0 => !0,
                1 => 0,
                _ => (0..density).fold(random.next(), |word, _| word | random.next()),
            })
            .collect();
        compare_all_questions(&mut words.clone(), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
}

#[test]
fn takes_and_gives_change_what_they_say_and_nothing_else() {
    let mut random = Random(2);
    for words in [1usize, 2, 8, 16] {
        let mut memory = vec![0u64; words];
        let slots = Slots::new(atomic_words(&mut memory));
        let mut model = Model(vec![false; words * 64]);
        for _ in 0..rounds(2500) {
            let order = random.below(usize::from(model.max_order()) + 1) as u8;
            let start = random.below(model.0.len()) >> order << order;
            let run = start..start + (1 << order);
            let (free, taken) = (
                model.all_free(start, 1 << order),
                model.0[run.clone()].iter().all(|&free| !free),
            );
            assert_eq!(slots.is_free(start, 1 << order), free);
            assert_eq!(slots.is_taken(start, 1 << order), taken);
            if random.below(2) == 0 {
                assert_eq!(slots.take(start, order), free);
                if free {
                    model.0[run].fill(false);
                }
            } else {
                if taken {
                    model.0[run].fill(true);
                }
                let merged = slots.give(start, order);
                assert_eq!(merged, taken.then(|| model.maximal_order(start).unwrap()));
            }
            let now: Vec<u64> = slots
                .words()
                .iter()
                .map(|word| word.load(Relaxed))
                .collect();
            assert_eq!(Model::of(&now).0, model.0);
        }
    }
}

#[test]
fn ranges_of_any_alignment_are_set_and_counted() {
    let mut random = Random(3);
    let mut memory = [0u64; 4];
    let slots = Slots::new(atomic_words(&mut memory));
    let mut model = Model(vec![false; 256]);
    for _ in 0..rounds(2000) {
        let start = random.below(256);
        let len = random.below(257 - start);
        let free = random.below(2) == 0;
        if free {
            slots.set_free(start, len);
        } else {
            slots.set_taken(start, len);
        }
        model.0[start..start + len].fill(free);
        let (at, many) = (random.below(200), random.below(57));
        let expected = model.0[at..at + many].iter().filter(|&&free| free).count();
        assert_eq!(slots.free_slots_in(at, many) as usize, expected);
        assert_eq!(slots.is_free(at, many), expected == many);
        assert_eq!(slots.is_taken(at, many), expected == 0);
    }
}

#[test]
fn a_batch_is_taken_from_the_lowest_runs() {
    let mut random = Random(4);
    for _ in 0..rounds(300) {
        let mut memory: Vec<u64> = (0..4).map(|_| random.next() | random.next()).collect();
        let model = Model::of(&memory);
        let (order, max) = (random.below(4) as u8, random.below(90));
        let slots = Slots::new(atomic_words(&mut memory));
        let before = slots.free_slots();
        let mut got = Vec::new();
        assert_eq!(
            slots.take_lowest(order, max, |start| got.push(start)),
            got.len()
        );
        let expected: Vec<usize> = model.starts(order).take(max).collect();
        assert_eq!(got, expected);
        assert!(got.iter().all(|&start| slots.is_taken(start, 1 << order)));
        assert_eq!(slots.free_slots(), before - ((got.len() as u32) << order));
    }
}

#[test]
fn what_the_twin_was_given_is_collected_once() {
    let mut random = Random(5);
    let (mut own, mut other) = (vec![0u64; 16], vec![0u64; 16]);
    let slots = Slots::new(atomic_words(&mut own));
    let twin = Twin::new(atomic_words(&mut other));
    let mut given = BTreeSet::new();
    for _ in 0..rounds(3000) {
        let order = random.below(11) as u8;
        let start = random.below(1024) >> order << order;
        let run = start..start + (1 << order);
        let fresh = run.clone().all(|slot| !given.contains(&slot));
        assert_eq!(twin.has_any(start, 1 << order), !fresh);
        assert_eq!(
            twin.give(start, order),
            if fresh { Ok(()) } else { Err(Overlap) }
        );
        if fresh {
            given.extend(run);
        }
        assert_eq!(twin.waiting() as usize, given.len());
        if random.below(20) == 0 {
            let free = slots.free_slots();
            assert_eq!(twin.collect(slots), Ok(given.len() as u32));
            assert!(twin.is_empty() && given.iter().all(|&slot| slots.is_free(slot, 1)));
            assert_eq!(slots.free_slots() as usize, free as usize + given.len());
            slots.set_taken(0, 1024);
            given.clear();
        }
    }
}

#[test]
fn s1_a_slot_free_on_both_sides_is_reported() {
    let (mut own, mut other) = ([0b0110u64], [0u64]);
    let slots = Slots::new(atomic_words(&mut own));
    let twin = Twin::new(atomic_words(&mut other));
    twin.give(2, 1).unwrap();
    assert_eq!(twin.collect(slots), Err(Overlap));
    assert!(twin.is_empty() && slots.is_free(1, 3));
}

#[test]
fn a_tree_answers_as_an_ordered_set() {
    let mut random = Random(6);
    for limit in [1, 63, 64, 65, 500, 4096, 4097, 300_000] {
        if cfg!(miri) && limit > 500 {
            continue;
        }
        let mut memory = vec![0u64; Tree::words_needed(limit)];
        let tree = Tree::new(atomic_words(&mut memory), limit);
        let mut model = BTreeSet::new();
        for round in 0..rounds(1500) {
            let value = if round % 3 == 0 {
                random.below(limit.min(70))
            } else {
                random.below(limit)
            };
            let grow = round % 500 < 300;
            if random.below(4) < if grow { 3 } else { 1 } {
                assert_eq!(tree.insert(value), model.insert(value));
            } else {
                // Removing what is there makes words empty, which is what summaries are about.
                let value = model.range(value..).next().copied().unwrap_or(value);
                assert_eq!(tree.remove(value), model.remove(&value));
            }
            let from = random.below(limit);
            assert_eq!(tree.contains(from), model.contains(&from));
            assert_eq!(tree.first(), model.first().copied());
            assert_eq!(tree.last(), model.last().copied());
            assert_eq!(tree.first_from(from), model.range(from..).next().copied());
            assert_eq!(
                tree.last_to(from),
                model.range(..=from).next_back().copied()
            );
        }
        assert!(tree.iter().eq(model.iter().copied()));
        assert!(tree.is_consistent(), "S3");
        assert_eq!(
            (tree.first_from(limit + 64), tree.last_to(usize::MAX)),
            (None, tree.last())
        );
        for &value in &model {
            tree.remove(value);
        }
        assert_eq!((tree.first(), tree.last()), (None, None));
        assert!(tree.is_consistent(), "S3");
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
    assert_eq!((tree.first(), tree.last()), (None, None));
    tree.insert(limit - 1);
    assert_eq!(tree.first_from(5), Some(limit - 1));
    tree.insert(3);
    assert_eq!((tree.last_to(limit - 2), tree.first()), (Some(3), Some(3)));
}

#[test]
fn a_run_that_leaves_the_bitmap_is_refused_however_long_it_is() {
    extern crate std;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let mut memory = [!0; 4];
    let slots = Slots::new(atomic_words(&mut memory));
    let mut given = [0; 4];
    let twin = Twin::new(atomic_words(&mut given));
    let refused = |what: &str, call: &dyn Fn()| {
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "{what}");
    };
    for (start, len) in [
        (5, usize::MAX),
        (255, 2),
        (256, 1),
        (usize::MAX, 1),
        (64, usize::MAX - 63),
    ] {
        refused("is_free", &|| _ = slots.is_free(start, len));
        refused("free_slots_in", &|| _ = slots.free_slots_in(start, len));
    }
    for order in [9, 63, 64, 69, 70, 71, 72, 134, u8::MAX] {
        refused("take", &|| _ = slots.take(0, order));
        refused("give", &|| _ = slots.give(0, order));
        refused("twin", &|| _ = twin.give(0, order));
        assert_eq!(slots.find_lowest(order), None);
        assert_eq!(slots.find_best(order), None);
    }
    assert_eq!((slots.free_slots(), twin.waiting()), (256, 0));
    assert_eq!(slots.find_run(usize::MAX), None);
    assert!(catch_unwind(|| Tree::words_needed((1 << 37) + 1)).is_err());
    assert!(Tree::words_needed(1 << 37) > 1 << 31);
}

#[test]
fn a_set_of_nothing_is_searched_from_either_end() {
    let mut memory = std::vec![0; Tree::words_needed(0)];
    let tree = Tree::new(atomic_words(&mut memory), 0);
    assert_eq!((tree.first(), tree.last()), (None, None));
    assert_eq!((tree.first_from(5), tree.last_to(5)), (None, None));
    assert_eq!((tree.iter().count(), tree.is_consistent()), (0, true));
}
