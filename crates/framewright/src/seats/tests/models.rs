//! Interleavings of the words that seats share: whose turn it is, a stop and its memo, and the way of a parcel into its
//! owner's inbox. There is no allocator around them, so that loom can try many: in most models of a parcel all, in the
//! others those up to the preemptions that the model says.
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib seats::models`
//!
//! In each model of a parcel the sender is the first thread, with which loom begins. If it were the second one,
//! loom would not try its compare-and-swap before the other's load of the same word: loom does not see that the
//! two race if the sender has loaded the word itself in between.

extern crate std;

use super::{
    ACCOUNT_WORDS, Accounts, ClaimWords, Inboxes, Parcel, SeatSet, StopAsk, StopMemo, StopWords,
    StoppedInVain, Turn,
};
use crate::platform::Patience;
use crate::raw::Carver;
use crate::sync::models::explore;
use crate::sync::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    load_in_order,
};
use core::array;
use core::convert::Infallible;
use loom::thread;
use std::boxed::Box;

fn zeroes<const N: usize>() -> [AtomicU64; N] {
    array::from_fn(|_| AtomicU64::new(0))
}

/// If two threads are in the seat at a time, one of the additions is lost.
fn add_one(sum: &AtomicU64) {
    let seen = sum.load(Relaxed);
    sum.store(seen + 1, Relaxed);
}

/// Two seats with only a sum in them, which owners and stoppers count up.
struct SeatToy {
    seats: [(AtomicU64, ClaimWords); 2],
    lock: AtomicU64,
    account: [AtomicU64; ACCOUNT_WORDS],
    last_standstill: AtomicU64,
    in_vain: &'static [StoppedInVain],
    sum: AtomicU64,
    happened: AtomicU64,
}

fn toy() -> &'static SeatToy {
    Box::leak(Box::new(SeatToy {
        seats: array::from_fn(|_| (AtomicU64::new(0), ClaimWords::default())),
        lock: AtomicU64::new(0),
        account: zeroes(),
        last_standstill: AtomicU64::new(0),
        in_vain: Carver::of(std::vec![0; 2].leak()).records(1),
        sum: AtomicU64::new(0),
        happened: AtomicU64::new(0),
    }))
}

impl SeatSet<'static> for &'static SeatToy {
    type Platform = ();
    type Poisoned = Infallible;

    const CAN_BE_POISONED: bool = false;

    fn platform(&self) -> &() {
        &()
    }

    fn accounts(&self) -> Accounts<()> {
        Accounts::OFF
    }

    fn stop_words(&self) -> StopWords<'static> {
        StopWords {
            lock: &self.lock,
            account: &self.account,
            memo: StopMemo::new(&self.last_standstill, self.in_vain),
        }
    }

    fn turns(&self) -> impl Iterator<Item = Turn<'static>> {
        let seats = self.seats.iter();
        seats.map(|(busy, claims)| Turn::new(busy, claims))
    }

    fn happened(&self) -> u64 {
        self.happened.load(Relaxed)
    }

    fn poisoned(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn work_in_seat(toy: &'static SeatToy) {
    let turn = toy.turns().next().expect("there are two");
    if !turn.try_enter::<()>() {
        turn.wait_if_claimed(&());
    }
    add_one(&toy.sum);
    turn.exit();
}

#[test]
fn e1_a_seat_is_its_owners_or_the_stoppers_and_each_sees_what_the_other_did() {
    // The owner waits with yields, which count as preemptions where both wait.
    explore(Some(3), || {
        let toy = toy();
        let owner = thread::spawn(move || {
            work_in_seat(toy);
            work_in_seat(toy);
        });
        for _ in 0..2 {
            let Ok(stopped) = toy.lock_stops().stop();
            add_one(&stopped.set.sum);
        }
        owner.join().unwrap();
        assert_eq!(toy.sum.load(Relaxed), 4, "both were in at a time");
        let are_idle = toy.turns().all(Turn::is_idle);
        assert!(are_idle && toy.lock.load(Relaxed) == 0, "E2");
    });
}

#[test]
fn e2_of_two_stoppers_one_waits_for_the_other() {
    explore(Some(2), || {
        let toy = toy();
        let stop = move || {
            let Ok(stopped) = toy.lock_stops().stop();
            add_one(&stopped.set.sum);
        };
        let other = thread::spawn(stop);
        stop();
        other.join().unwrap();
        assert_eq!(toy.sum.load(Relaxed), 2, "two were in at a time");
    });
}

/// No CPU has a claim, or waits for one.
fn assert_idle(toy: &'static SeatToy) {
    let are_idle = toy.turns().all(Turn::is_idle);
    assert!(are_idle && toy.lock.load(Relaxed) == 0, "E2");
}

#[test]
fn e2_a_stopper_whose_patience_ends_leaves_no_claim_and_no_lock() {
    for rounds in 0..2 {
        explore(Some(3), move || {
            let toy = toy();
            let owner = thread::spawn(move || {
                work_in_seat(toy);
                work_in_seat(toy);
            });
            let mut patience = Patience::Rounds(rounds);
            let lock = toy.lock_stops_within(&mut patience);
            let lock = lock.expect("no other CPU stops any");
            let Ok(stopped) = lock.stop_within(&mut patience);
            let came_in = stopped.is_some();
            if came_in {
                add_one(&toy.sum);
            }
            drop(stopped);
            owner.join().unwrap();
            let sum = toy.sum.load(Relaxed);
            assert_eq!(sum, 2 + u64::from(came_in), "both were in at a time");
            assert_idle(toy);
        });
    }
}

#[test]
fn e1_an_owner_whose_patience_ends_is_not_in_its_seat_and_the_stopper_goes_on() {
    for rounds in 0..2 {
        explore(Some(3), move || {
            let toy = toy();
            let owner = thread::spawn(move || {
                let turn = toy.turns().next().expect("there are two");
                let mut patience = Patience::Rounds(rounds);
                let came_in =
                    turn.try_enter::<()>() || turn.wait_if_claimed_within(&(), &mut patience);
                if came_in {
                    add_one(&toy.sum);
                    turn.exit();
                }
                came_in
            });
            let Ok(stopped) = toy.lock_stops().stop();
            add_one(&toy.sum);
            drop(stopped);
            let came_in = owner.join().unwrap();
            let sum = toy.sum.load(Relaxed);
            assert_eq!(sum, 1 + u64::from(came_in), "both were in at a time");
            assert_idle(toy);
        });
    }
}

#[test]
fn e2_a_stopper_whose_patience_ends_before_it_has_the_lock_claims_nothing() {
    explore(Some(3), || {
        let toy = toy();
        let other = thread::spawn(move || {
            let Ok(stopped) = toy.lock_stops().stop();
            add_one(&stopped.set.sum);
        });
        let mut patience = Patience::Rounds(1);
        let lock = toy.lock_stops_within(&mut patience);
        let stopped = lock.and_then(|lock| {
            let Ok(stopped) = lock.stop_within(&mut patience);
            stopped
        });
        let came_in = stopped.is_some();
        if came_in {
            add_one(&toy.sum);
        }
        drop(stopped);
        other.join().unwrap();
        let sum = toy.sum.load(Relaxed);
        assert_eq!(sum, 1 + u64::from(came_in), "two were in at a time");
        assert_idle(toy);
    });
}

#[test]
fn e4_of_two_requests_that_ask_together_the_second_is_answered_by_the_first_ones_stop() {
    explore(Some(3), || {
        let toy = toy();
        let request = move || match toy.ask(0, toy.stop_words().memo.last()) {
            StopAsk::Vain => 0,
            StopAsk::Meanwhile(lock) | StopAsk::Alone(lock) => {
                let Ok(stopped) = lock.stop();
                let memo = stopped.set.stop_words().memo;
                memo.stand_still();
                memo.note(0, stopped.set.happened());
                1
            }
        };
        let other = thread::spawn(request);
        let stops = request() + other.join().unwrap();
        assert_eq!(stops, 1, "nothing happened between the two");
    });
}

/// Parcels with one word of remote frees each, and the inboxes of three CPUs. An owner of zero is none.
struct Post {
    inboxes: [AtomicU64; 3],
    parcels: [Letter; 2],
}

#[derive(Debug)]
struct Letter {
    owner: AtomicU64,
    remote: AtomicU64,
    pending: AtomicU64,
    next: AtomicU64,
    collected: AtomicU64,
}

#[derive(Clone, Copy)]
struct Here(&'static Post, u16);

/// Parcels that belong to CPU 0.
fn post() -> [Here; 3] {
    let parcels = array::from_fn(|_| Letter {
        owner: AtomicU64::new(1),
        remote: AtomicU64::new(0),
        pending: AtomicU64::new(0),
        next: AtomicU64::new(0),
        collected: AtomicU64::new(0),
    });
    let post: &'static Post = Box::leak(Box::new(Post {
        inboxes: zeroes(),
        parcels,
    }));
    [Here(post, 0), Here(post, 1), Here(post, 2)]
}

impl Inboxes<'static> for Here {
    fn here(&self) -> u16 {
        self.1
    }

    fn inbox(&self, cpu: u16) -> &'static AtomicU64 {
        &self.0.inboxes[usize::from(cpu)]
    }

    fn parcel(&self, number: u32) -> Parcel<'static> {
        let Letter { pending, next, .. } = self.letter(number);
        Parcel { pending, next }
    }

    fn owner(&self, number: u32) -> Option<u16> {
        let owner = self.letter(number).owner.load(Relaxed);
        owner.checked_sub(1).map(|cpu| cpu as u16)
    }

    fn has_remote(&self, number: u32) -> bool {
        load_in_order(&self.letter(number).remote) != 0
    }

    fn collect(&self, number: u32) {
        let letter = self.letter(number);
        // Spans and slabs look so too, before they take the bits of a word.
        if letter.remote.load(SeqCst) == 0 {
            return;
        }
        let bits = letter.remote.swap(0, SeqCst);
        let before = letter.collected.load(Relaxed);
        assert_eq!(before & bits, 0, "collected twice");
        letter.collected.store(before | bits, Relaxed);
    }
}

impl Here {
    fn letter(&self, number: u32) -> &'static Letter {
        &self.0.parcels[number as usize]
    }

    /// A remote free.
    fn free(&self, number: u32, bit: u64) {
        let letter = self.letter(number);
        letter.remote.fetch_or(bit, SeqCst);
        let owner = self
            .owner(number)
            .expect("the CPU that frees knows the owner");
        self.notify(owner, number);
    }

    /// Has all CPUs look into their inboxes, twice, and asserts that all bits are collected then.
    fn assert_collected(&self, number: u32, bits: u64) {
        for cpu in [0, 1, 2, 0, 1, 2] {
            Here(self.0, cpu).collect_inbox();
        }
        let letter = self.letter(number);
        let left = letter.remote.load(Relaxed);
        assert_eq!((letter.collected.load(Relaxed), left), (bits, 0), "E3");
        assert_eq!(letter.pending.load(Relaxed), 0, "E3");
    }
}

/// Runs two threads beside each other, the sender first: see above.
fn beside(sender: impl FnOnce() + Send + 'static, other: impl FnOnce() + Send + 'static) {
    for thread in [thread::spawn(sender), thread::spawn(other)] {
        thread.join().unwrap();
    }
}

#[test]
fn e3_of_two_frees_in_one_parcel_each_arrives() {
    explore(None, || {
        let [owner, sender, _] = post();
        let frees = move || {
            sender.free(0, 1);
            sender.free(0, 2);
        };
        beside(frees, move || _ = owner.collect_inbox());
        owner.assert_collected(0, 3);
    });
}

#[test]
fn e3_a_free_beside_the_collection_of_an_earlier_one_arrives() {
    explore(None, || {
        let [owner, sender, other] = post();
        other.free(0, 1);
        beside(move || sender.free(0, 2), move || _ = owner.collect_inbox());
        owner.assert_collected(0, 3);
    });
}

#[test]
fn e3_a_free_in_a_parcel_that_is_found_without_a_bit_arrives() {
    explore(None, || {
        let [owner, sender, _] = post();
        // A pass of the owner's, which does not look into the inbox, has collected the bits.
        owner.letter(0).pending.store(1, Relaxed);
        owner.push(0, 0);
        beside(move || sender.free(0, 1), move || _ = owner.collect_inbox());
        owner.assert_collected(0, 1);
    });
}

#[test]
fn e3_of_two_parcels_that_are_sent_one_after_another_each_arrives() {
    explore(None, || {
        let [owner, sender, _] = post();
        let frees = move || {
            sender.free(0, 1);
            sender.free(1, 1);
        };
        beside(frees, move || _ = owner.collect_inbox());
        owner.assert_collected(0, 1);
        owner.assert_collected(1, 1);
    });
}

#[test]
fn e3_of_two_parcels_that_two_cpus_send_each_arrives() {
    explore(Some(3), || {
        let [owner, one, other] = post();
        let second = thread::spawn(move || other.free(1, 1));
        beside(move || one.free(0, 1), move || _ = owner.collect_inbox());
        second.join().unwrap();
        owner.assert_collected(0, 1);
        owner.assert_collected(1, 1);
    });
}

#[test]
fn e3_a_free_in_a_parcel_that_lies_in_a_former_owners_inbox_is_not_lost() {
    explore(None, || {
        let [former, new, sender] = post();
        // The owner collected the bit before the sender had sent the parcel, and then it changed hands.
        former.letter(0).pending.store(1, Relaxed);
        former.push(0, 0);
        former.letter(0).owner.store(2, Relaxed);
        beside(
            move || sender.free(0, 1),
            move || _ = former.collect_inbox(),
        );
        new.assert_collected(0, 1);
    });
}

#[test]
fn e3_a_free_in_a_parcel_that_is_found_without_an_owner_is_not_lost() {
    explore(None, || {
        let [former, new, sender] = post();
        former.letter(0).pending.store(1, Relaxed);
        former.push(0, 0);
        former.letter(0).owner.store(0, Relaxed);
        // Another CPU becomes the owner, and hands an object out. A third CPU frees the object.
        let frees = move || {
            sender.letter(0).owner.store(2, Relaxed);
            sender.free(0, 1);
        };
        beside(frees, move || _ = former.collect_inbox());
        new.assert_collected(0, 1);
    });
}
