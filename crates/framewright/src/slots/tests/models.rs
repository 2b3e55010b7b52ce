//! Every interleaving (and every outcome that the memory model allows) of a tree's words:
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib slots::models`
//!
//! A bound on preemptions looks cheaper, but loom then also leaves out interleavings below the bound: three planted
//! faults in the tree went unseen at 3.

extern crate std;

use super::Tree;
use crate::raw::atomic_words;
use crate::sync::AtomicU64;
use crate::sync::models::explore;
use loom::thread;
use std::vec;

fn words(values: &[u64]) -> &'static [AtomicU64] {
    atomic_words(values.to_vec().leak())
}

fn tree(limit: usize) -> Tree<'static> {
    Tree::new(words(&vec![0; Tree::words_needed(limit)]), limit)
}

#[test]
fn an_inserted_value_is_found_while_its_neighbour_is_removed() {
    explore(None, || {
        let tree = tree(192);
        tree.insert(69);
        let remover = thread::spawn(move || assert!(tree.remove(69)));
        assert!(tree.insert(67));
        // The insertion is complete, and no thread removes 67. So every search must find it, also at the
        // moment of the other removal. This one starts in another word, so that it needs the summaries.
        assert_eq!(tree.first(), Some(67));
        remover.join().unwrap();
        assert!(tree.is_consistent() && tree.first_from(68).is_none(), "SL2");
        assert_eq!(tree.first(), Some(67));
    });
}

#[test]
fn an_inserted_value_is_found_while_others_come_and_go_in_its_word() {
    explore(None, || {
        let tree = tree(192);
        let other = thread::spawn(move || {
            tree.insert(69);
            tree.remove(69);
        });
        tree.insert(67);
        assert_eq!(tree.first(), Some(67));
        other.join().unwrap();
        assert!(tree.is_consistent(), "SL2");
    });
}

#[test]
fn of_two_inserters_into_one_word_each_finds_its_value_at_once() {
    explore(None, || {
        // Three levels with two words in the middle one.
        let tree = tree(64 * 64 * 2);
        let other = thread::spawn(move || {
            tree.insert(64 * 64 + 5);
            assert!(tree.first().is_some());
        });
        tree.insert(64 * 64 + 3);
        assert_eq!(tree.first(), Some(64 * 64 + 3));
        other.join().unwrap();
        assert!(tree.is_consistent(), "SL2");
    });
}

#[test]
fn two_removers_and_an_inserter_leave_the_summaries_right() {
    // Unbounded, these three threads take two minutes.
    explore(Some(6), || {
        let tree = tree(192);
        tree.insert(131);
        tree.insert(70);
        let one = thread::spawn(move || tree.remove(131));
        let two = thread::spawn(move || tree.remove(70));
        tree.insert(132);
        // The search starts in the first word.
        assert!(tree.first().is_some());
        assert!(one.join().unwrap() && two.join().unwrap());
        assert!(tree.is_consistent(), "SL2");
        assert_eq!(tree.first(), Some(132));
    });
}

#[test]
fn three_levels_agree_after_a_race_below_the_same_top() {
    explore(None, || {
        let tree = tree(64 * 64 + 64);
        tree.insert(3);
        let remover = thread::spawn(move || tree.remove(3));
        tree.insert(64 * 63);
        assert_eq!(tree.first_from(64), Some(64 * 63));
        remover.join().unwrap();
        assert!(tree.is_consistent(), "SL2");
        assert_eq!(tree.first(), Some(64 * 63));
    });
}
