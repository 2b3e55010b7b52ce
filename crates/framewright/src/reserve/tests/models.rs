//! Interleavings of a section's gate, up to a few preemptions, and every one of a page that is read while an owner
//! takes its frame: tables without a reserve around them.
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib reserve::models`

extern crate std;

use super::table::{FrameTable, GuestRecord, SECTION, StateWord};
use crate::platform::Patience;
use crate::raw::{Carver, RawRecord, atomic_words};
use crate::sync::models::explore;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use loom::thread;
use std::vec;

fn records<R: RawRecord>(count: usize) -> &'static [R] {
    let memory = vec![0; Carver::words_needed(count * R::WORDS)].leak();
    Carver::of(memory).at_a_line().records(count)
}

fn words(count: usize) -> &'static [AtomicU64] {
    atomic_words(vec![0; count].leak())
}

/// A lost update is what comes of two threads that are in at a time.
fn add_one(sum: &AtomicU64) {
    let seen = sum.load(Relaxed);
    sum.store(seen + 1, Relaxed);
}

/// One section, one seat, and a sum for a CPU that is alone in the section.
#[derive(Clone, Copy)]
struct Gated {
    table: FrameTable<'static>,
    seat: &'static GuestRecord,
    sum: &'static AtomicU64,
}

impl Gated {
    fn new() -> Self {
        let seats = records(1);
        let (states, sections) = (words(1), records(1));
        Self {
            table: FrameTable::new(states, &[], sections, seats, SECTION, SECTION),
            seat: &seats[0],
            sum: &words(1)[0],
        }
    }

    fn guest_with_a_seat(self) {
        let inside = self.table.enter_from(0, self.seat, &());
        add_one(self.sum);
        drop(inside);
    }

    fn guest_without_a_seat(self) {
        let inside = self.table.enter(0, &());
        add_one(self.sum);
        drop(inside);
    }

    fn owner(self) {
        let shut = self.table.shut(0, &());
        add_one(self.sum);
        drop(shut);
    }

    fn assert_counted(self, times: u64) {
        assert_eq!(self.sum.load(Relaxed), times, "C1: two were in at a time");
        assert_eq!(self.seat.inside.load(Relaxed), 0);
        let mut none = Patience::Rounds(0);
        assert!(self.table.try_shut(0, &(), &mut none).is_some());
    }
}

#[test]
fn c1_a_guest_with_a_seat_and_an_owner_are_not_in_a_section_together() {
    explore(Some(3), || {
        let gated = Gated::new();
        let guest = thread::spawn(move || gated.guest_with_a_seat());
        gated.owner();
        guest.join().unwrap();
        gated.assert_counted(2);
    });
}

#[test]
fn c1_a_guest_without_a_seat_and_an_owner_are_not_in_a_section_together() {
    explore(Some(3), || {
        let gated = Gated::new();
        let guest = thread::spawn(move || gated.guest_without_a_seat());
        gated.owner();
        guest.join().unwrap();
        gated.assert_counted(2);
    });
}

#[test]
fn c1_an_owner_whose_patience_ends_leaves_the_gate_open() {
    explore(Some(3), || {
        let gated = Gated::new();
        let guest = thread::spawn(move || gated.guest_with_a_seat());
        let shut = gated.table.try_shut(0, &(), &mut Patience::Rounds(1));
        let came_in = shut.is_some();
        if came_in {
            add_one(gated.sum);
        }
        drop(shut);
        guest.join().unwrap();
        gated.assert_counted(1 + u64::from(came_in));
    });
}

#[test]
fn c1_a_page_that_is_read_while_its_frame_is_taken_is_whole_or_known_to_be_gone() {
    explore(None, || {
        let gated = Gated::new();
        let page = words(2);
        let owner = thread::spawn(move || {
            let shut = gated.table.shut(0, &());
            let state = gated.table.state(0);
            gated.table.set_shut(0, StateWord(state.0 + 1));
            gated.table.before_writing();
            page.iter().for_each(|word| word.store(7, Relaxed));
            drop(shut);
        });
        let before = gated.table.state(0);
        let read = [1, 0].map(|at: usize| page[at].load(Relaxed));
        if gated.table.state_after_reading(0) == before && before == StateWord(0) {
            assert_eq!(read, [0, 0], "the owner's words were read as the page's");
        }
        owner.join().unwrap();
    });
}
