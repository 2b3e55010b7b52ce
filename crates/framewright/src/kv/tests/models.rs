//! The interleavings of a free from another CPU, its way to the owner, and what becomes of a slab
//! that was sent: every one of them, of seats without the frames and the space around them.
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib kv::models`

extern crate std;

use super::class::Class;
use super::held::Held;
use super::table::{Entry, Part};
use super::{Kv, KvLayout};
use crate::platform::{Barrier, Direct, Fenced, NoRelief, Relax};
use crate::sync::Ordering::Relaxed;
use crate::units::{Addr, Frame, Order};
use loom::thread;
use std::boxed::Box;
use std::vec;

/// Memory that nobody looks into.
struct Bare;

impl Relax for Bare {
    fn relax(&self, attempt: u32) {
        Fenced.relax(attempt);
    }
}

impl Barrier for Bare {
    const ASYMMETRIC: bool = false;

    fn barrier_all(&self) {
        Fenced.barrier_all();
    }
}

impl Direct for Bare {
    fn direct_base(&self) -> Addr {
        Addr(0x10_0000)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

type TestKv = &'static Kv<'static, Bare>;

fn kv() -> TestKv {
    let layout = KvLayout::new(Frame(0), 4).with_cpus(3).with_slabs_max(3);
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let kv = Kv::new(&layout, memory, Bare, NoRelief).unwrap();
    Box::leak(Box::new(kv))
}

fn class() -> Class {
    Class::of(2048, 1).unwrap()
}

fn part(held: Held<'_>) -> Part {
    match held.table.get(0) {
        Entry::Slab(part) => part,
        other => panic!("{other:?}"),
    }
}

/// What was freed has come back to the owner, whoever had to hand it on.
fn assert_collected(kv: TestKv, owner: u16, live: u32) {
    for cpu in [0, 1, 2, 0, 1, 2] {
        kv.held(cpu).collect_inbox();
    }
    let number = part(kv.held(owner)).record();
    let slab = kv.records.get(number);
    assert_eq!(slab.remote(0).load(Relaxed), 0, "K4: in no inbox");
    assert_eq!(slab.pending().load(Relaxed), 0);
    let free = slab.free(0).load(Relaxed);
    assert_eq!(free.count_ones() + live, slab.header().slots());
}

fn free(held: Held<'_>, addr: Addr) {
    held.free(addr, part(held), false).unwrap();
}

#[test]
fn what_others_free_while_the_owner_collects_comes_back() {
    loom::model(|| {
        let kv = kv();
        let owner = kv.held(0);
        assert!(owner.make(class(), Order::ZERO, 0));
        let one = owner.take(class()).unwrap();
        let two = owner.take(class()).unwrap();
        let other = thread::spawn(move || free(kv.held(1), one));
        let third = thread::spawn(move || free(kv.held(2), two));
        owner.collect_inbox();
        other.join().unwrap();
        third.join().unwrap();
        assert_collected(kv, 0, 0);
    });
}

#[test]
fn what_is_freed_in_a_slab_whose_record_is_in_an_old_owners_inbox_is_not_lost() {
    loom::model(|| {
        let kv = kv();
        // Somebody freed the last object of a slab, and it went back before he had sent it.
        let old = kv.held(0);
        kv.records.get(1).pending().store(1, Relaxed);
        old.send(1, 0);
        let other = thread::spawn(move || {
            // The record is another CPU's slab, in which a third one frees.
            let owner = kv.held(1);
            assert!(owner.make(class(), Order::ZERO, 0));
            assert_eq!(part(owner).record(), 1);
            let addr = owner.take(class()).unwrap();
            free(kv.held(2), addr);
        });
        old.collect_inbox();
        other.join().unwrap();
        assert_collected(kv, 1, 0);
    });
}

#[test]
fn what_is_freed_while_a_slab_changes_hands_is_sent_on() {
    loom::model(|| {
        let kv = kv();
        let old = kv.held(0);
        assert!(old.make(class(), Order::ZERO, 0));
        let one = old.take(class()).unwrap();
        let two = old.take(class()).unwrap();
        let found = part(old);
        let other = thread::spawn(move || {
            // He found it to be the old owner's.
            kv.held(2).free(one, found, false).unwrap();
        });
        old.retire(class());
        let slab = kv.records.get(found.record());
        old.move_to(found.record(), super::slab::State::Full);
        slab.set_header(slab.header().with_owner(1));
        let now = Part::new(found.record(), class(), 1, 0);
        old.table.change(0, Entry::Slab(now));
        kv.held(1).settle(found.record());
        other.join().unwrap();
        assert_collected(kv, 1, 1);
        free(kv.held(1), two);
    });
}
