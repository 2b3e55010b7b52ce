//! Slabs of several CPUs: remote frees, inboxes, drains, and what is found broken.

use super::super::seat::KvHeld;
use super::super::slab::{Slab, SlabState};
use super::super::table::KvEntry;
use super::slabs::{SIZES, sized, with_slabs};
use super::*;
use crate::frame::AllocError;
use crate::kv::table::ObjectKind;
use crate::policy::Effort;
use crate::seats::Inboxes;
use crate::sync::Ordering::Relaxed;

/// The slab that an object lies in, its record's number, and the object's word and bit.
pub(super) fn slot_of(
    held: KvHeld<'static>,
    machine: &ToyMachine,
    addr: Addr,
) -> (Slab<'static>, u32, u64) {
    let place = machine.kv.place(addr).unwrap();
    let KvEntry::Slab(part) = machine.kv.table.get(place) else {
        panic!("{addr} is in a slab");
    };
    let offset = part.nth() * Page::BYTES + addr.in_page();
    let (slot, is_first) = part.class().slot_at(offset);
    assert!(is_first && slot < 64, "in the first word");
    (held.records.get(part.record()), part.record(), 1 << slot)
}

#[test]
fn what_another_cpu_frees_is_collected_before_the_owner_asks_for_frames() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut owner = machine.seat(0);
    let mut other = machine.seat(1);
    // Three slabs of 64 slots, the last one being served from.
    let live: Vec<Addr> = (0..192)
        .map(|_| owner.kmalloc(&sized(128)).unwrap())
        .collect();
    assert_eq!(machine.kv.stats().slab_makes, 3);
    // One of each stays, so that no slab is entirely free.
    for addr in live[..153].iter().filter(|addr| addr.0 % 8192 != 0) {
        assert_eq!(other.kfree(*addr), Ok(128));
        machine.check();
    }
    let found = machine.kv.recount();
    assert_eq!((found.live_slots, found.remote_slots), (42, 150));
    assert_eq!(machine.kv.stats().remote_frees, 150);
    for _ in 0..150 {
        let addr = owner.kmalloc(&sized(128)).unwrap();
        assert!(live.contains(&addr));
    }
    machine.check();
    let stats = machine.kv.stats();
    assert_eq!((stats.slab_makes, stats.slab_returns), (3, 0));
    assert_eq!(machine.kv.recount().live_slots, 192);
    // The slab from which the CPU serves has slots on their way, too.
    other.kfree(live[0]).unwrap();
    other.kfree(live[191]).unwrap();
    assert!(owner.kmalloc(&sized(128)).is_ok() && owner.kmalloc(&sized(128)).is_ok());
    assert_eq!(machine.kv.stats().slab_makes, 3);
    for addr in live {
        other.kfree(addr).unwrap();
    }
    drop(owner);
    machine.check_empty(other);
}

#[test]
fn two_cpus_that_free_each_others_objects_leave_nothing_behind() {
    let machine = ToyMachine::new(1024, 2, 4096);
    let mut seats = [machine.seat(0), machine.seat(1)];
    let mut live: [Vec<Addr>; 2] = [Vec::new(), Vec::new()];
    for round in 0..40 {
        for cpu in 0..2 {
            for nth in 0..50 {
                let bytes = SIZES[(round + nth) % SIZES.len()];
                live[cpu].push(seats[cpu].kmalloc(&sized(bytes)).unwrap());
            }
            let theirs = core::mem::take(&mut live[1 - cpu]);
            for addr in theirs {
                seats[cpu].kfree(addr).unwrap();
            }
        }
        machine.check();
    }
    // Far below the total that was allocated: the slots that other CPUs freed came back.
    assert!(machine.kv.stats().slab_frames < 150);
    for addr in live.into_iter().flatten() {
        seats[0].kfree(addr).unwrap();
    }
    drop(seats);
    let seat = machine.seat(1);
    machine.check_empty(seat);
}

#[test]
fn a_request_fails_only_when_all_cpus_slabs_are_full() {
    let machine = ToyMachine::new(64, 3, 4096);
    let mut seats = [machine.seat(0), machine.seat(1), machine.seat(2)];
    let mut live = Vec::new();
    // Everything is in slabs of two CPUs, most of them full.
    let patient = |bytes| sized(bytes).with(Effort::MayCompact);
    while let Ok(addr) = seats[0].kmalloc(&patient(512)) {
        live.push(addr);
    }
    assert_eq!(live.len(), 64 * 8);
    let exhausted = Err(KvError::Frames(AllocError::Exhausted));
    assert_eq!(seats[2].kmalloc(&patient(512)), exhausted);
    let drains = machine.kv.stats().drains;
    assert_eq!(seats[2].kmalloc(&patient(512)), exhausted);
    assert_eq!(machine.kv.stats().drains, drains, "nothing was freed since");
    machine.check();
    // One slot, freed by its owner, by another CPU, and by the one that asks for it; a smaller one
    // fits, too.
    for freer in 0..3 {
        let addr = live.pop().unwrap();
        seats[freer].kfree(addr).unwrap();
        let at_once = seats[1].kmalloc(&sized(400));
        assert_eq!(at_once, Err(KvError::NotNow { bytes: 400 }), "{freer}");
        assert_eq!(seats[2].kmalloc(&patient(400)), Ok(addr), "{freer}");
        machine.check();
        live.insert(0, addr);
    }
    // Empty slabs go to a CPU that asks for another class.
    for addr in live.drain(..) {
        seats[1].kfree(addr).unwrap();
    }
    machine.check();
    let large = seats[2].kmalloc(&patient(64 * 4096)).unwrap();
    machine.check();
    seats[0].kfree(large).unwrap();
    let [seat, ..] = seats;
    machine.check_empty(seat);
}

#[test]
fn what_a_cpu_left_is_served_to_the_next_in_its_seat() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut seat = machine.seat(0);
    let live: Vec<Addr> = (0..100)
        .map(|_| seat.kmalloc(&sized(48)).unwrap())
        .collect();
    drop(seat);
    let mut other = machine.seat(1);
    for &addr in &live {
        other.kfree(addr).unwrap();
    }
    machine.check();
    let mut seat = machine.seat(0);
    let again = seat.kmalloc(&sized(48)).unwrap();
    assert!(!live.contains(&again), "the rest of the slab comes first");
    seat.kfree(again).unwrap();
    drop(other);
    machine.check_empty(seat);
}

#[test]
fn an_object_that_two_cpus_free_at_the_same_moment_is_free_once() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut owner = machine.seat(0);
    let mut other = machine.seat(1);
    let addr = owner.kmalloc(&sized(64)).unwrap();
    let kept = owner.kmalloc(&sized(64)).unwrap();
    let (slab, _, bit) = slot_of(machine.kv.held(0), &machine, addr);
    // Each looks, and then each sets its bit.
    let free = slab.free(0).load(Relaxed);
    other.kfree(addr).unwrap();
    slab.free(0).store(free | bit, Relaxed);
    let broken = machine.kv.verify().unwrap_err();
    assert_eq!(broken.invariant, "K2: a slot is in one bitmap");
    assert!(machine.kv.held(0).collect_inbox());
    assert_eq!(machine.kv.stats().double_frees, 1);
    machine.kv.verify().unwrap();
    assert_eq!(machine.kv.recount().live_slots, 1);
    let next = [addr, owner.kmalloc(&sized(64)).unwrap()];
    assert_ne!(owner.kmalloc(&sized(64)), Ok(next[1]));
    assert_ne!(next[1], kept);
    machine.kv.verify().unwrap();
}

#[test]
fn slabs_that_others_emptied_go_back_when_their_owner_finds_out_and_records_with_them() {
    let machine = ToyMachine::new(1024, 2, 4096);
    let mut owner = machine.seat(0);
    let mut other = machine.seat(1);
    let batch = machine.kv.held(0).pool.batch();
    // Of 16 slots each, and the last one is full.
    let slabs = 4 * u64::from(batch);
    let live: Vec<Addr> = (0..16 * slabs)
        .map(|_| owner.kmalloc(&sized(2048)).unwrap())
        .collect();
    assert_eq!(machine.kv.stats().slab_makes, slabs);
    for addr in live {
        other.kfree(addr).unwrap();
    }
    assert_eq!(machine.kv.stats().slab_returns, 0, "no owner knows yet");
    let addr = owner.kmalloc(&sized(2048)).unwrap();
    // That one, and one that is kept.
    assert_eq!(machine.kv.stats().slab_returns, slabs - 2);
    let (_, records) = machine.kv.held(0).words.records();
    assert!((batch..=2 * batch).contains(&records), "{records}");
    machine.check();
    owner.kfree(addr).unwrap();
    drop(other);
    machine.check_empty(owner);
}

#[test]
fn what_is_no_slot_is_not_free_whichever_bit_says_so() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let addr = seat.kmalloc(&sized(2048)).unwrap();
    let held = machine.kv.held(0);
    let (slab, number, bit) = slot_of(held, &machine, addr);
    // Of the slab that had the record before, and another number of slots: freed twice.
    slab.remote(0).store(1 << 16 | bit, Relaxed);
    slab.remote(3).store(1, Relaxed);
    slab.parcel().pending.store(1, Relaxed);
    held.push(0, number);
    assert!(held.collect_inbox());
    assert_eq!(machine.kv.stats().double_frees, 2);
    machine.kv.verify().unwrap();
    assert_eq!(machine.kv.recount().free_slots, 16);
}

#[test]
fn a_slab_that_is_another_cpus_when_it_is_collected_is_sent_on() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut owner = machine.seat(0);
    let held = [machine.kv.held(0), machine.kv.held(1)];
    let addr = owner.kmalloc(&sized(64)).unwrap();
    let (slab, number, bit) = slot_of(held[0], &machine, addr);
    // Freed by a CPU that saw CPU 1 as its owner.
    slab.remote(0).store(bit, Relaxed);
    slab.parcel().pending.store(1, Relaxed);
    held[0].push(1, number);
    assert!(held[1].collect_inbox() && !held[1].collect_inbox());
    assert_eq!(
        (
            slab.remote(0).load(Relaxed),
            slab.parcel().pending.load(Relaxed)
        ),
        (bit, 1)
    );
    assert!(held[0].collect_inbox() && !held[0].collect_inbox());
    assert_eq!(
        (
            slab.remote(0).load(Relaxed),
            slab.parcel().pending.load(Relaxed)
        ),
        (0, 0)
    );
    assert_eq!(owner.kmalloc(&sized(64)), Ok(addr));
    machine.kv.verify().unwrap();
}

#[test]
fn k9_a_drain_empties_a_slab_that_is_on_its_way_to_a_former_owner() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut owner = machine.seat(0);
    let held = machine.kv.held(0);
    let addr = owner.kmalloc(&sized(2048)).unwrap();
    let (_, number, _) = slot_of(held, &machine, addr);
    machine.seat(1).kfree(addr).unwrap();
    // As if its owner had been cpu 1 then, whose inbox is the last one that a drain looks into.
    assert_eq!(held.words.inbox.swap(0, Relaxed), u64::from(number) + 1);
    held.push(1, number);
    assert_eq!(owner.drain(), 8);
    machine.check_empty(owner);
}

#[test]
fn a_record_that_is_no_slabs_when_it_is_collected_is_forgotten() {
    let machine = with_slabs(512, 2, 2);
    let mut owner = machine.seat(0);
    let held = machine.kv.held(0);
    let addr = owner.kmalloc(&sized(2048)).unwrap();
    let (slab, number, _) = slot_of(held, &machine, addr);
    owner.kfree(addr).unwrap();
    assert_eq!(owner.drain(), 8);
    assert_eq!(slab.header().state(), SlabState::None);
    // The CPU that freed the last object sends the record only now.
    slab.parcel().pending.store(1, Relaxed);
    held.push(0, number);
    assert!(held.collect_inbox());
    assert_eq!(slab.parcel().pending.load(Relaxed), 0);
    // The same, but another slab has the record when it arrives.
    assert_eq!(owner.drain(), 0, "but the record goes back, too");
    slab.parcel().pending.store(1, Relaxed);
    held.push(0, number);
    drop(owner);
    let mut other = machine.seat(1);
    let addr = other.kmalloc(&sized(2048)).unwrap();
    let (again, same, bit) = slot_of(held, &machine, addr);
    assert_eq!(same, number, "the record that was free is taken again");
    let mut owner = machine.seat(0);
    owner.kfree(addr).unwrap();
    assert!(!machine.kv.held(1).collect_inbox(), "it is on its way");
    assert_eq!(again.remote(0).load(Relaxed), bit);
    assert!(held.collect_inbox() && machine.kv.held(1).collect_inbox());
    assert_eq!(
        (
            again.remote(0).load(Relaxed),
            again.parcel().pending.load(Relaxed)
        ),
        (0, 0)
    );
    assert_eq!(other.kmalloc(&sized(2048)), Ok(addr));
    other.kfree(addr).unwrap();
    drop(owner);
    machine.check_empty(other);
}

#[test]
fn slabs_that_are_taken_over_are_freed_into_by_their_new_owner() {
    let machine = ToyMachine::new(32, 2, 4096);
    let mut seats = [machine.seat(0), machine.seat(1)];
    let patient = |bytes| sized(bytes).with(Effort::MayCompact);
    let mut live = Vec::new();
    while let Ok(addr) = seats[0].kmalloc(&patient(256)) {
        live.push(addr);
    }
    // Two slots of one slab; the other CPU takes it over with the first.
    let (first, second) = (live.remove(0), live.remove(0));
    seats[0].kfree(first).unwrap();
    seats[0].kfree(second).unwrap();
    let taken = seats[1].kmalloc(&patient(256)).unwrap();
    assert!(taken == first || taken == second);
    machine.check();
    let again = seats[1].kmalloc(&sized(256)).unwrap();
    assert!(again != taken && (again == first || again == second));
    let remote = machine.kv.stats().remote_frees;
    seats[1].kfree(taken).unwrap();
    seats[1].kfree(again).unwrap();
    assert_eq!(machine.kv.stats().remote_frees, remote, "its own");
    seats[0].kfree(live.remove(0)).unwrap();
    assert_eq!(
        machine.kv.stats().remote_frees,
        remote + 1,
        "of the same slab"
    );
    machine.check();
    for addr in live {
        seats[1].kfree(addr).unwrap();
    }
    let [seat, other] = seats;
    drop(other);
    machine.check_empty(seat);
}

#[test]
fn k9_what_cpus_keep_in_slabs_goes_back_before_pages_cannot_be_mapped() {
    let machine = ToyMachine::new(64, 2, 4096);
    let mut seats = [machine.seat(0), machine.seat(1)];
    for bytes in [64, 512, 2048] {
        let both = [bytes; 40].map(|bytes| seats[0].kmalloc(&sized(bytes)).unwrap());
        for addr in both {
            seats[0].kfree(addr).unwrap();
        }
    }
    let kept = machine.kv.stats().slab_frames;
    assert!(kept > 8, "{kept}");
    // All frames but one, page by page.
    let one = seats[1].kmalloc(&sized(Page::BYTES)).unwrap();
    let all = sized(63 * Page::BYTES);
    let hurried = seats[1].kvmalloc(&all.within(Context::NOWAIT));
    assert!(hurried.is_err(), "a request that may not wait stops no CPU");
    assert_eq!(machine.kv.stats().slab_frames, kept);
    let addr = seats[1].kvmalloc(&all).unwrap();
    assert_eq!(machine.kv.kind(addr), ObjectKind::Mapped);
    assert_eq!(machine.kv.stats().slab_frames, 0);
    machine.check();
    seats[1].kvfree(addr).unwrap();
    seats[1].kvfree(one).unwrap();
    // And slots that other CPUs have, when there is no frame left.
    let mut live = Vec::new();
    while let Ok(addr) = seats[0].kmalloc(&sized(2048).with(Effort::MayCompact)) {
        live.push(addr);
    }
    assert!(seats[1].kvmalloc(&sized(64)).is_err());
    let last = live.pop().unwrap();
    seats[0].kfree(last).unwrap();
    assert!(
        seats[1]
            .kvmalloc(&sized(64).within(Context::NOWAIT))
            .is_err()
    );
    assert_eq!(seats[1].kvmalloc(&sized(64)), Ok(last));
    live.push(last);
    for addr in live {
        seats[1].kvfree(addr).unwrap();
    }
    let [seat, other] = seats;
    drop(other);
    machine.check_empty(seat);
}
