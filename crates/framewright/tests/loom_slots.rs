//! Every interleaving (and every outcome the memory model allows) of the slots' atomic parts:
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --test loom_slots`.
//! In a normal build this file is empty.
#![cfg(loom)]

use framewright::raw::atomic_words;
use framewright::slots::{Overlap, Slots, Tree, Twin};
use framewright::sync::{AtomicU64, Lock, Ordering};
use loom::thread;

fn words(values: &[u64]) -> &'static [AtomicU64] {
    atomic_words(values.to_vec().leak())
}

/// Explores everything. A bound on preemptions looks cheaper, but loom then also leaves out
/// interleavings below the bound: three planted faults in the tree went unseen at 3.
fn explore(body: impl Fn() + Sync + Send + 'static) {
    explore_within(None, body);
}

fn explore_within(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.max_branches = 10_000;
    model.check(body);
}

fn tree(limit: usize) -> Tree<'static> {
    Tree::new(words(&vec![0; Tree::words_needed(limit)]), limit)
}

#[test]
fn an_inserted_value_is_found_while_its_neighbour_is_removed() {
    explore(|| {
        let tree = tree(192);
        tree.insert(67);
        let remover = thread::spawn(move || assert!(tree.remove(67)));
        assert!(tree.insert(69));
        // Completed and never removed: every search must see it, the remover's moment included.
        // Both searches start in another word, so that they depend on the summaries.
        assert_eq!(tree.last(), Some(69));
        assert!(tree.first().is_some());
        remover.join().unwrap();
        assert!(tree.is_consistent() && !tree.contains(67), "S3");
        assert_eq!((tree.first(), tree.last()), (Some(69), Some(69)));
    });
}

#[test]
fn an_inserted_value_is_found_while_others_come_and_go_in_its_word() {
    explore(|| {
        let tree = tree(192);
        let other = thread::spawn(move || {
            tree.insert(67);
            tree.remove(67);
        });
        tree.insert(69);
        assert_eq!(tree.last(), Some(69));
        other.join().unwrap();
        assert!(tree.is_consistent(), "S3");
    });
}

#[test]
fn of_two_inserters_into_one_word_each_finds_its_value_at_once() {
    explore(|| {
        // Three levels with two words in the middle one.
        let tree = tree(64 * 64 * 2);
        let other = thread::spawn(move || {
            tree.insert(3);
            assert!(tree.last().is_some());
        });
        tree.insert(5);
        assert_eq!(tree.last(), Some(5));
        other.join().unwrap();
        assert!(tree.is_consistent(), "S3");
    });
}

#[test]
fn two_removers_and_an_inserter_leave_the_summaries_right() {
    // Unbounded, these three threads take two minutes.
    explore_within(Some(6), || {
        let tree = tree(192);
        tree.insert(3);
        tree.insert(70);
        let one = thread::spawn(move || tree.remove(3));
        let two = thread::spawn(move || tree.remove(70));
        tree.insert(4);
        // The search starts in the last word.
        assert!(tree.last().is_some());
        assert!(one.join().unwrap() && two.join().unwrap());
        assert!(tree.is_consistent(), "S3");
        assert_eq!(tree.last(), Some(4));
    });
}

#[test]
fn three_levels_agree_after_a_race_below_the_same_top() {
    explore(|| {
        let tree = tree(64 * 64 + 64);
        tree.insert(3);
        let remover = thread::spawn(move || tree.remove(3));
        tree.insert(64 * 63);
        assert_eq!(tree.first_from(64), Some(64 * 63));
        remover.join().unwrap();
        assert!(tree.is_consistent(), "S3");
        assert_eq!(tree.first(), Some(64 * 63));
    });
}

#[test]
fn of_two_equal_gives_over_two_words_one_wins_and_all_is_collected_once() {
    explore(|| {
        let twin = Twin::new(words(&[0, 0]));
        let slots = Slots::new(words(&[0, 0]));
        let other = thread::spawn(move || twin.give(0, 7));
        let early = twin.collect(slots).unwrap();
        let mine = twin.give(0, 7);
        let theirs = other.join().unwrap();
        if early == 0 {
            assert!(mine.is_ok() != theirs.is_ok(), "both or none won");
            assert_eq!(twin.collect(slots), Ok(128));
        } else {
            // The first run was collected, in part or whole, before the second was given: the
            // collector finds the double free.
            let late = twin.collect(slots);
            assert!(mine.is_err() || theirs.is_err() || late == Err(Overlap));
        }
        assert_eq!(slots.free_slots(), 128);
        assert!(twin.is_empty());
    });
}

#[test]
fn gives_into_one_word_are_all_collected_with_what_was_written_before() {
    explore(|| {
        let twin = Twin::new(words(&[0]));
        let slots = Slots::new(words(&[0]));
        let note: &'static [AtomicU64] = words(&[0]);
        let other = thread::spawn(move || {
            note[0].store(7, Ordering::Relaxed);
            twin.give(8, 3).unwrap();
        });
        let two = thread::spawn(move || twin.give(0, 0).unwrap());
        twin.collect(slots).unwrap();
        if slots.is_free(8, 8) {
            assert_eq!(note[0].load(Ordering::Relaxed), 7, "the give publishes");
        }
        other.join().unwrap();
        two.join().unwrap();
        twin.collect(slots).unwrap();
        assert_eq!((slots.free_slots(), twin.is_empty()), (9, true));
    });
}

#[test]
fn a_lock_excludes() {
    explore(|| {
        let memory = words(&[0, 0]);
        let add = move || {
            let guard = Lock::new(&memory[0]).lock(|_| thread::yield_now());
            let seen = memory[1].load(Ordering::Relaxed);
            memory[1].store(seen + 1, Ordering::Relaxed);
            drop(guard);
        };
        let other = thread::spawn(add);
        add();
        other.join().unwrap();
        assert_eq!(memory[1].load(Ordering::Relaxed), 2);
    });
}
