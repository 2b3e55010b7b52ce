//! Each thing that `verify` claims to look for, spoiled: it is found, and named.

use super::super::seat::KvHeld;
use super::super::slab::{Records, SizeClass, Slab, SlabState};
use super::super::table::{KvEntry, SlabFrame};
use super::slabs::sized;
use super::slabs_shared::slot_of;
use super::*;
use crate::seats::Inboxes;
use crate::sync::Ordering::Relaxed;
use crate::units::Order;

/// Two slabs of objects of 48 bytes, of which a slab has 170: one is full, the other one has one object. Beside
/// them a run of two frames.
struct SpoiledMachine {
    machine: ToyMachine,
    seat: ToySeat<'static>,
    held: KvHeld<'static>,
    live: Vec<Addr>,
    run: Addr,
    full: (Slab<'static>, u32),
    current: (Slab<'static>, u32),
}

impl SpoiledMachine {
    fn new() -> Self {
        let machine = ToyMachine::new(512, 2, 4096);
        let mut seat = machine.seat(0);
        let held = machine.kv.held(0);
        let live: Vec<Addr> = (0..171)
            .map(|_| seat.kmalloc(&sized(48)).unwrap())
            .collect();
        let run = seat.kmalloc(&sized(8192)).unwrap();
        let slab_of = |addr| {
            let (slab, number, _) = slot_of(held, &machine, addr);
            (slab, number)
        };
        let (full, current) = (slab_of(live[0]), slab_of(live[170]));
        machine.kv.verify().unwrap();
        Self {
            machine,
            seat,
            held,
            live,
            run,
            full,
            current,
        }
    }

    fn finds(&self, invariant: &str) {
        let broken = self.machine.kv.verify().unwrap_err();
        assert_eq!(broken.invariant, invariant);
        let message = std::format!("{broken}");
        let is_named = message.starts_with(&std::format!("invariant {invariant}"));
        assert!(is_named && message.contains(" at 0x"), "{message}");
    }

    fn is_whole(&self) {
        self.machine.kv.verify().unwrap();
    }
}

#[test]
fn k1_what_the_table_says_and_does_not_hold_is_named() {
    let of = SpoiledMachine::new();
    let table = of.machine.kv.table;
    let place = of.machine.kv.place(of.run).unwrap();
    let run = table.get(place);
    table.change(place + 1, run);
    of.finds("K1: nothing else is in a run");
    table.change(place + 1, KvEntry::None);
    let last = table.frames() - 1;
    table.change(last, KvEntry::Run(Order::new(1).unwrap()));
    of.finds("K1: a run ends in memory");
    for record in [0, u32::MAX] {
        let part = SlabFrame::new(record, SizeClass::new(0), 0, 0);
        table.change(last, KvEntry::Slab(part));
        of.finds("K1: a slab has a record");
    }
    table.change(last, KvEntry::None);

    let (full, number) = of.full;
    let place = full.place() + 1;
    let part = table.get(place);
    table.change(place, KvEntry::None);
    of.finds("K1: the table names a slab's frames");
    table.change(place, table.get(of.current.0.place()));
    of.finds("K1: table and record say the same");
    table.change(place, part);
    let header = full.header();
    full.set_header(header.with_owner(1));
    of.finds("K1: table and record say the same");
    // A CPU that does not exist, in all places.
    full.set_header(header.with_owner(7));
    let of_owner = |owner| {
        for nth in 0..header.order().frames() as usize {
            let part = SlabFrame::new(number, header.class(), owner, nth);
            table.change(full.place() + nth, KvEntry::Slab(part));
        }
    };
    of_owner(7);
    of.finds("K3: a slab's owner and slots");
    of_owner(0);
    full.set_header(header);
    of.is_whole();
}

#[test]
fn k2_slots_that_are_none_or_free_twice_are_named() {
    let of = SpoiledMachine::new();
    let (full, _) = of.full;
    for word in [full.free(3), full.remote(3)] {
        word.store(1, Relaxed);
        of.finds("K2: free slots are slots");
        word.store(0, Relaxed);
    }
    full.free(0).store(1, Relaxed);
    full.remote(0).store(1, Relaxed);
    of.finds("K2: a slot is in one bitmap");
    full.free(0).store(0, Relaxed);
    of.finds("K4: frees of other CPUs are on their way");
    full.remote(0).store(0, Relaxed);
    of.is_whole();
}

#[test]
fn k3_a_record_that_is_lost_or_in_two_places_is_named() {
    let of = SpoiledMachine::new();
    let (held, pool) = (of.held, of.machine.kv.pool());
    let records = held.words.records();
    let (first, count) = records;
    assert!(count >= 2, "some to spare");
    held.words.set_records(first, count - 1);
    of.finds("K3: a seat's list of records");
    held.words.set_records(first, count + 1);
    of.finds("K3: a seat's count of records");
    held.words.set_records(0, 0);
    of.finds("K3: a record is a slab's or in one list");
    for wrong in [of.full.1, u32::MAX, pool.fresh() + 1] {
        held.words.set_records(wrong, 1);
        of.finds("K3: a seat's list of records");
    }
    held.words.set_records(first, count);
    // In a circle, and in two CPUs' lists.
    let next = held.records.get(first).next();
    held.records.get(first).set_next(first);
    of.finds("K3: a record is in one list");
    held.records.get(first).set_next(next);
    let other = of.machine.kv.held(1);
    other.words.set_records(next, count - 1);
    of.finds("K3: a record is in one list");
    other.words.set_records(0, 0);
    of.is_whole();
    // A list's record, and a slab's, that no seat has either.
    for number in [first, of.full.1] {
        pool.give(number);
        of.finds("K3: a record is a slab's or in one list");
        assert_eq!(pool.take(held.records), Some(number));
    }
    of.is_whole();
    pool.give(pool.fresh() + 1);
    of.finds("SL2: the set of free records");
}

#[test]
fn k4_a_slab_that_is_not_where_it_belongs_is_named() {
    let mut of = SpoiledMachine::new();
    let ((full, number), held) = (of.full, of.held);
    let header = full.header();
    full.free(0).store(1, Relaxed);
    of.finds("K4: a slab is where its free slots belong");
    full.free(0).store(0, Relaxed);
    for state in [SlabState::Partial, SlabState::Empty, SlabState::Current] {
        full.set_header(header.with_state(state));
        of.finds("K4: a slab is where its free slots belong");
    }
    full.set_header(header);
    of.is_whole();

    of.seat.kfree(of.live[0]).unwrap();
    let (class, list) = (header.class(), SlabState::Partial);
    assert_eq!(held.words.first(list, class), number);
    let head = held.words.list(list, class).unwrap();
    head.store(u64::from(u32::MAX), Relaxed);
    of.finds("K4: a listed slab exists");
    head.store(u64::from(of.current.1), Relaxed);
    of.finds("K4: a list is of its seat, class and state");
    head.store(0, Relaxed);
    of.finds("K4: every slab is in its list");
    // In a circle that no head leads to.
    full.set_prev(number);
    full.set_next(number);
    of.finds("K4: every slab is in its list");
    head.store(u64::from(number), Relaxed);
    of.finds("K4: a list is of its seat, class and state");
    full.set_prev(0);
    of.finds("K4: a list is of its seat, class and state");
    full.set_next(0);
    of.is_whole();
}

#[test]
fn k4_and_k5_a_magazine_of_other_slots_is_named() {
    let of = SpoiledMachine::new();
    let (held, class) = (of.held, of.full.0.header().class());
    let (magazine, first) = held.words.magazine(class);
    for (magazine, first, finds) in [
        (1, 0, "K4: a magazine names a slab or nothing"),
        (
            Records::magazine(u32::MAX, 0),
            first,
            "K4: a magazine's slab exists",
        ),
        (
            Records::magazine(of.full.1, 0),
            first,
            "K4: a magazine's slab is the current one",
        ),
        (
            magazine,
            first + 48,
            "K5: a magazine knows where its slots lie",
        ),
        (
            magazine + 1,
            first,
            "K5: a magazine knows where its slots lie",
        ),
        (
            magazine + 4,
            first,
            "K5: a magazine knows where its slots lie",
        ),
        (0, 0, "K4: a slab is where its free slots belong"),
    ] {
        held.words.set_magazine(class, magazine, first);
        of.finds(finds);
    }
    held.words.set_magazine(class, magazine, first);
    of.is_whole();
}

#[test]
fn e3_a_slab_that_was_sent_and_is_in_no_inbox_is_named() {
    let of = SpoiledMachine::new();
    let mut other = of.machine.seat(1);
    other.kfree(of.live[0]).unwrap();
    of.is_whole();
    let inbox = of.held.inbox(0);
    let sent = inbox.load(Relaxed);
    let parcel = of.full.0.parcel();
    inbox.store(0, Relaxed);
    of.finds("E3: a slab on its way is in an inbox");
    inbox.store(u64::from(u32::MAX), Relaxed);
    of.finds("E3: a slab in an inbox exists");
    inbox.store(u64::from(of.current.1) + 1, Relaxed);
    of.finds("E3: a slab in an inbox is on its way");
    inbox.store(sent, Relaxed);
    // Twice, and in a circle.
    parcel.next.store(sent, Relaxed);
    of.finds("E3: a slab in an inbox is on its way");
    parcel.next.store(0, Relaxed);
    of.held.inbox(1).store(sent, Relaxed);
    of.finds("E3: a slab on its way is in an inbox");
    of.held.inbox(1).store(0, Relaxed);
    of.is_whole();
}
