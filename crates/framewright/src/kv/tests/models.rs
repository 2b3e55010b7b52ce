//! The interleavings of a free from another CPU, its way to the owner, and the way of a slab that
//! was sent: every one of them but in one model, of seats without the frames and the space around them.
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib kv::models`

extern crate std;

use super::seat::KvHeld;
use super::slab::SizeClass;
use super::table::{KvEntry, SlabFrame};
use super::{Kv, KvLayout};
use crate::platform::bare::BarePlatform;
use crate::seats::Inboxes;
use crate::sync::models::explore;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::units::{Addr, Frame, Order};
use loom::thread;
use std::boxed::Box;
use std::vec;

/// Memory with bytes that no test reads.
const BARE_SLABS: BarePlatform<()> = BarePlatform((), Addr(0x10_0000));

type TestKv = &'static Kv<'static, BarePlatform<()>>;

fn kv() -> TestKv {
    let layout = KvLayout::new(Frame(0), 4).with_cpus(3).with_slabs_max(3);
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let kv = Kv::new(&layout, memory, BARE_SLABS).unwrap();
    Box::leak(Box::new(kv))
}

fn class() -> SizeClass {
    SizeClass::of(2048, 1).unwrap()
}

fn part(held: KvHeld<'_>, place: usize) -> SlabFrame {
    match held.table.get(place) {
        KvEntry::Slab(part) => part,
        other => panic!("{other:?}"),
    }
}

/// All freed slots have come back to the owner, whichever CPU had to hand the slab on.
fn assert_collected(kv: TestKv, owner: u16, live: u32) {
    for cpu in [0, 1, 2, 0, 1, 2] {
        kv.held(cpu).collect_inbox();
    }
    assert_collected_at(kv, owner, 0, live);
}

/// The same of the slab at a place.
fn assert_collected_at(kv: TestKv, owner: u16, place: usize, live: u32) {
    let number = part(kv.held(owner), place).record();
    let slab = kv.records.get(number);
    assert_eq!(slab.remote(0).load(Relaxed), 0, "K4: in no inbox");
    assert_eq!(slab.parcel().pending.load(Relaxed), 0);
    let free = slab.free(0).load(Relaxed);
    assert_eq!(free.count_ones() + live, slab.header().slots());
}

fn free(held: KvHeld<'_>, addr: Addr) {
    free_at(held, 0, addr);
}

fn free_at(held: KvHeld<'_>, place: usize, addr: Addr) {
    held.free(addr, part(held, place), false).unwrap();
}

/// Runs two threads beside each other. The sender is the first one, with which loom begins. If it
/// were the second one, loom would not try its compare-and-swap before the other's load of the same
/// word: loom does not see that the two race if the sender has loaded the word itself in between.
fn beside(first: impl FnOnce() + Send + 'static, second: impl FnOnce() + Send + 'static) {
    let threads = [thread::spawn(first), thread::spawn(second)];
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_record_that_is_given_back_between_two_looks_is_not_taken_twice() {
    explore(None, || {
        let kv = kv();
        let all = [(); 3].map(|()| kv.pool().take(kv.records).unwrap());
        all.into_iter().for_each(|number| kv.pool().give(number));
        let other = thread::spawn(move || {
            let first = kv.pool().take(kv.records).unwrap();
            let second = kv.pool().take(kv.records);
            kv.pool().give(first);
            second
        });
        let mine = kv.pool().take(kv.records);
        let theirs = other.join().unwrap();
        let last = kv.pool().take(kv.records);
        assert!(mine != theirs && mine != last && theirs != last, "K3");
    });
}

#[test]
fn a_pool_that_was_never_empty_is_found_to_have_a_record() {
    explore(Some(3), || {
        let layout = KvLayout::new(Frame(0), 64).with_cpus(3).with_slabs_max(64);
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let kv = Kv::new(&layout, memory, BARE_SLABS).unwrap();
        let kv: TestKv = Box::leak(Box::new(kv));
        // The last record is there, in another word than the first.
        let all = (0..64).map(|_| kv.pool().take(kv.records));
        assert_eq!(all.flatten().last(), Some(64));
        kv.pool().give(64);
        let other = thread::spawn(move || {
            kv.pool().give(1);
            // False where this model's other CPU has it.
            _ = kv.pool().remove(64);
        });
        let mine = kv.pool().take(kv.records);
        other.join().unwrap();
        assert!(mine.is_some(), "K3");
    });
}

#[test]
fn of_slabs_that_are_sent_one_after_another_each_arrives() {
    explore(None, || {
        let kv = kv();
        let owner = kv.held(0);
        let [one, two] = [0, 1].map(|place| {
            assert!(owner.make(class(), Order::ZERO, place));
            owner.take(class()).unwrap()
        });
        let frees = move || {
            free_at(kv.held(1), 0, one);
            free_at(kv.held(1), 1, two);
        };
        beside(frees, move || _ = owner.collect_inbox());
        owner.collect_inbox();
        assert_collected_at(kv, 0, 0, 0);
        assert_collected_at(kv, 0, 1, 0);
    });
}

#[test]
fn what_the_last_user_wrote_into_an_object_is_seen_by_the_next_one() {
    explore(None, || {
        let kv = kv();
        let owner = kv.held(0);
        assert!(owner.make(class(), Order::ZERO, 0));
        let addrs = [(); 2].map(|()| owner.take(class()).unwrap());
        let contents: &[AtomicU64; 2] = Box::leak(Box::new([0, 0].map(AtomicU64::new)));
        let frees = move || {
            for (addr, word) in addrs.into_iter().zip(contents) {
                word.store(1, Relaxed);
                free(kv.held(1), addr);
            }
        };
        let take = move || {
            owner.collect_inbox();
            while let Some(addr) = owner.take(class()) {
                let nth = addrs.iter().position(|other| *other == addr).unwrap();
                assert_eq!(contents[nth].load(Relaxed), 1, "K2: free too early");
                contents[nth].store(2, Relaxed);
            }
        };
        beside(frees, take);
        let taken = contents.iter().filter(|word| word.load(Relaxed) == 2);
        assert_collected(kv, 0, taken.count() as u32);
    });
}

#[test]
fn what_others_free_while_the_owner_collects_comes_back() {
    explore(None, || {
        let kv = kv();
        let owner = kv.held(0);
        assert!(owner.make(class(), Order::ZERO, 0));
        let one = owner.take(class()).unwrap();
        let two = owner.take(class()).unwrap();
        let third = thread::spawn(move || free(kv.held(2), two));
        let frees = move || free(kv.held(1), one);
        beside(frees, move || _ = owner.collect_inbox());
        third.join().unwrap();
        assert_collected(kv, 0, 0);
    });
}

#[test]
fn what_is_freed_in_a_slab_whose_record_is_in_an_old_owners_inbox_is_not_lost() {
    explore(None, || {
        let kv = kv();
        // A CPU freed the last object of a slab, and the slab went back before the CPU had sent it.
        let old = kv.held(0);
        assert_eq!(kv.pool().take(kv.records), Some(1));
        kv.pool().give(1);
        kv.records.get(1).parcel().pending.store(1, Relaxed);
        old.push(0, 1);
        let free_in_it = move || {
            // The record is another CPU's slab, in which a third one frees.
            let owner = kv.held(1);
            assert!(owner.make(class(), Order::ZERO, 0));
            assert_eq!(part(owner, 0).record(), 1);
            let addr = owner.take(class()).unwrap();
            free(kv.held(2), addr);
        };
        beside(free_in_it, move || _ = old.collect_inbox());
        assert_collected(kv, 1, 0);
    });
}

#[test]
fn what_is_freed_while_a_slab_changes_hands_is_sent_on() {
    explore(None, || {
        let kv = kv();
        let old = kv.held(0);
        assert!(old.make(class(), Order::ZERO, 0));
        let one = old.take(class()).unwrap();
        let two = old.take(class()).unwrap();
        let found = part(old, 0);
        let other = thread::spawn(move || {
            // It found the slab to be the old owner's.
            kv.held(2).free(one, found, false).unwrap();
        });
        old.retire(class());
        let slab = kv.records.get(found.record());
        old.move_to(found.record(), super::slab::SlabState::Full);
        slab.set_header(slab.header().with_owner(1));
        let now = SlabFrame::new(found.record(), class(), 1, 0);
        old.table.change(0, KvEntry::Slab(now));
        kv.held(1).list_by_slots(found.record());
        other.join().unwrap();
        assert_collected(kv, 1, 1);
        free(kv.held(1), two);
    });
}
