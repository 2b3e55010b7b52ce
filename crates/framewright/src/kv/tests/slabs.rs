//! Slabs on one CPU: classes, states, records that run out. Other CPUs' frees are in `slabs_shared`.

use super::super::layout::KvShape;
use super::super::slab::SizeClass;
use super::*;
use crate::frame::AllocError;
use crate::kv::table::ObjectKind;
use crate::policy::Effort;
use crate::units::Order;
use std::collections::BTreeSet;

pub(super) const SIZES: [u64; 14] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
];

pub(super) fn sized(bytes: u64) -> KvRequest {
    KvRequest::new(bytes)
}

/// A machine with this many records of slabs.
pub(super) fn with_slabs(frames: u64, cpus: u16, slabs: u64) -> ToyMachine {
    let machine = ToyMachine::new(frames, cpus, 4096);
    let layout = KvLayout::new(Frame(0), frames)
        .with_cpus(cpus)
        .with_slabs_max(slabs);
    let memory = leak(vec![!0; layout.words_needed().unwrap()]);
    let kv = leak(Kv::new(&layout, memory, machine.toy).unwrap());
    ToyMachine { kv, ..machine }
}

impl ToyMachine {
    /// All invariants hold, and the counters say what is there.
    pub(super) fn check(&self) {
        self.kv.verify().unwrap();
        let (stats, found) = (self.kv.stats(), self.kv.recount());
        let live = stats.slab_allocs - stats.slab_frees;
        assert_eq!(live + stats.double_frees, found.live_slots);
        assert_eq!(stats.slab_frames, found.slab_frames);
        assert_eq!(stats.slab_makes - stats.slab_returns, found.slabs);
        assert_eq!(stats.run_allocs - stats.run_frees, found.runs);
    }

    /// The same, and everything comes back when all objects are freed and drained.
    pub(super) fn check_empty(&self, mut seat: ToySeat<'static>) {
        self.check();
        seat.drain();
        self.check();
        assert_eq!(self.kv.recount(), crate::kv::verify::KvRecount::default());
        self.assert_all_free(seat);
    }
}

#[test]
fn a_record_holds_anything_until_a_seat_takes_it() {
    let machine = with_slabs(1024, 1, 200);
    let mut seat = machine.seat(0);
    let fresh = || machine.kv.pool().fresh();
    let is_touched = |number| machine.kv.records.get(number).next() != u32::MAX;
    let mut objects = 0;
    // The memory was full of ones.
    while fresh() < 40 {
        let taken = fresh();
        assert!((1..=200).all(|number| is_touched(number) == (number <= taken)));
        machine.check();
        seat.kmalloc(&sized(2048)).unwrap();
        objects += 1;
    }
    assert_eq!(machine.kv.recount().live_slots, objects);
}

#[test]
fn every_length_comes_in_a_slot_of_its_class_aligned_and_with_its_contents() {
    let machine = machine(2048);
    let mut seat = machine.seat(0);
    let mut live = Vec::new();
    for bytes in (1..=2048).step_by(13).chain([16, 32, 2047, 2048]) {
        let addr = seat.kmalloc(&sized(bytes)).unwrap();
        let class = SIZES.into_iter().find(|&size| size >= bytes).unwrap();
        assert_eq!(seat.kvsize(addr), Ok(class), "{bytes}");
        assert_eq!(addr.0 % 16, 0, "{bytes}");
        if bytes.is_power_of_two() {
            assert_eq!(addr.0 % bytes, 0, "{bytes}");
        }
        assert_eq!(machine.kv.kind(addr), ObjectKind::Slab);
        let value = live.len() as u8;
        machine.toy.fill(addr, bytes, value);
        live.push((addr, bytes, value));
        machine.check();
    }
    for &(addr, bytes, value) in &live {
        assert!(machine.toy.is_filled(addr, bytes, value), "{addr}");
    }
    for (addr, bytes, _) in live {
        assert!(seat.kfree(addr).unwrap() >= bytes);
        machine.check();
    }
    machine.check_empty(seat);
}

#[test]
fn every_alignment_is_kept() {
    let machine = machine(2048);
    let mut seat = machine.seat(0);
    for shift in 0..14 {
        let align = 1 << shift;
        for bytes in [1, 24, 48, 96, 100, 192, 700, 2048, 3000, 9000] {
            let addr = seat.kmalloc(&sized(bytes).aligned_to(align)).unwrap();
            assert_eq!(addr.0 % align, 0, "{bytes} bytes aligned to {align}");
            assert!(seat.kvsize(addr).unwrap() >= bytes);
            if shift % 2 == 0 {
                seat.kfree(addr).unwrap();
            }
        }
        machine.check();
    }
    assert!(machine.kv.stats().slab_allocs > 80);
}

#[test]
fn all_slots_of_some_slabs_are_distinct_and_come_again_when_they_are_freed() {
    for bytes in SIZES {
        let machine = machine(1024);
        let mut seat = machine.seat(0);
        let class = SizeClass::of(bytes, 1).unwrap();
        let slots = u64::from(class.slots(class.order()));
        let mut live = Vec::new();
        for _ in 0..3 * slots {
            live.push(seat.kmalloc(&sized(bytes)).unwrap());
        }
        machine.check();
        let frames = 3 * class.order().frames();
        assert_eq!(machine.kv.stats().slab_frames, frames, "{bytes}");
        let distinct: BTreeSet<u64> = live.iter().map(|addr| addr.0).collect();
        assert_eq!(distinct.len() as u64, 3 * slots);
        let gaps = distinct.iter().zip(distinct.iter().skip(1));
        assert!(gaps.into_iter().all(|(a, b)| b - a >= bytes), "{bytes}");
        for (nth, &addr) in live.iter().enumerate() {
            seat.kfree(addr).unwrap();
            if nth % 7 == 0 {
                machine.check();
            }
        }
        // The one that is served from, and one that is kept.
        assert_eq!(machine.kv.stats().slab_returns, 1, "{bytes}");
        for _ in 0..2 * slots {
            let addr = seat.kmalloc(&sized(bytes)).unwrap();
            assert!(distinct.contains(&addr.0));
        }
        assert_eq!(machine.kv.stats().slab_makes, 3, "{bytes}");
        machine.check();
    }
}

#[test]
fn a_slab_goes_from_full_to_partial_to_empty_and_back_to_the_frames() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let mut slab = || -> Vec<Addr> {
        let slots = 0..SizeClass::of(2048, 1)
            .unwrap()
            .slots(Order::new(3).unwrap());
        slots.map(|_| seat.kmalloc(&sized(2048)).unwrap()).collect()
    };
    let slabs = [slab(), slab(), slab(), slab()];
    machine.check();
    assert_eq!(machine.kv.stats().slab_frames, 32);
    // Full to partial, and served from again before a new slab is made.
    seat.kfree(slabs[1][5]).unwrap();
    machine.check();
    assert_eq!(seat.kmalloc(&sized(2048)), Ok(slabs[1][5]));
    machine.check();
    // That slab is served from now; two others become empty, and one of them goes back.
    for (nth, &addr) in slabs[0].iter().chain(&slabs[2]).enumerate() {
        seat.kfree(addr).unwrap();
        machine.check();
        let returned = u64::from(nth == 31);
        assert_eq!(machine.kv.stats().slab_returns, returned, "{nth}");
    }
    assert_eq!(machine.kv.stats().slab_frames, 24);
    // The slab from which the CPU serves stays, even when it is empty.
    for &addr in &slabs[1] {
        seat.kfree(addr).unwrap();
    }
    assert_eq!(machine.kv.stats().slab_returns, 1);
    for &addr in &slabs[3] {
        seat.kfree(addr).unwrap();
    }
    assert_eq!(machine.kv.stats().slab_returns, 2);
    assert_eq!(seat.drain(), 16);
    assert_eq!(seat.drain(), 0);
    machine.check_empty(seat);
}

#[test]
fn wrong_frees_of_slots_are_refused_and_change_nothing() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut seats = [machine.seat(0), machine.seat(1)];
    for bytes in SIZES {
        let addr = seats[0].kmalloc(&sized(bytes)).unwrap();
        let other = seats[0].kmalloc(&sized(bytes)).unwrap();
        let before = machine.kv.recount();
        for seat in &mut seats {
            let inside = Addr(addr.0 + bytes / 2);
            let wrong = KvFreeError::NotTheFirst {
                addr: inside,
                start: addr,
            };
            assert_eq!(seat.kfree(inside), Err(wrong));
            assert_eq!(seat.kvfree(inside), Err(wrong));
            assert_eq!(seat.kvsize(inside), Err(wrong));
        }
        // The bytes left behind the last slot of a slab of one frame, or of two.
        let class = SizeClass::of(bytes, 1).unwrap();
        let slab = class.order().frames() * Page::BYTES;
        let tail = Addr(addr.0 / slab * slab + slab - slab % bytes);
        if !slab.is_multiple_of(bytes) {
            let wrong = KvFreeError::NotAllocated(tail);
            assert_eq!(seats[0].kfree(tail), Err(wrong));
            assert_eq!(seats[1].kfree(tail), Err(wrong));
        }
        assert_eq!(machine.kv.recount(), before);
        seats[0].kfree(addr).unwrap();
        let twice = KvFreeError::AlreadyFree(addr);
        assert_eq!(seats[0].kfree(addr), Err(twice));
        assert_eq!(seats[1].kfree(addr), Err(twice));
        assert_eq!(seats[0].kvsize(addr), Err(twice));
        seats[1].kfree(other).unwrap();
        let twice = KvFreeError::AlreadyFree(other);
        assert_eq!(seats[0].kfree(other), Err(twice), "on its way");
        assert_eq!(seats[1].kfree(other), Err(twice), "on its way");
        machine.check();
        seats[0].drain();
        let gone = KvFreeError::NotAllocated(other);
        assert_eq!(seats[0].kfree(other), Err(gone), "its slab went back");
    }
    assert_eq!(machine.kv.stats().double_frees, 0);
    drop(seats);
    let seat = machine.seat(0);
    machine.check_empty(seat);
}

#[test]
fn without_a_record_small_requests_come_from_larger_slabs_and_then_as_runs() {
    let machine = with_slabs(512, 1, 2);
    let mut seat = machine.seat(0);
    let large = seat.kmalloc(&sized(1024)).unwrap();
    let small = seat.kmalloc(&sized(16)).unwrap();
    assert_eq!(seat.kvsize(small), Ok(16));
    // Both records are used now.
    let mut live = Vec::new();
    for _ in 0..31 {
        let addr = seat.kmalloc(&sized(64)).unwrap();
        assert_eq!(seat.kvsize(addr), Ok(1024));
        live.push(addr);
    }
    let run = seat.kmalloc(&sized(64)).unwrap();
    assert_eq!(machine.kv.kind(run), ObjectKind::Run);
    assert_eq!(seat.kvsize(run), Ok(4096));
    let small = seat.kmalloc(&sized(16)).unwrap();
    assert_eq!(seat.kvsize(small), Ok(16));
    machine.check();
    for addr in live.into_iter().chain([large, run]) {
        seat.kfree(addr).unwrap();
    }
    machine.check();
    // The slab of 1024 bytes is empty, but served from: a drain sets its record free.
    seat.drain();
    let addr = seat.kmalloc(&sized(64)).unwrap();
    assert_eq!(seat.kvsize(addr), Ok(64));
    machine.check();
}

#[test]
fn records_move_between_the_cpus() {
    let machine = with_slabs(512, 2, 16);
    let mut seats = [machine.seat(0), machine.seat(1)];
    for cpu in [0, 1, 0] {
        let mut live = Vec::new();
        while machine.kv.recount().slabs < 16 {
            live.push(seats[cpu].kmalloc(&sized(2048)).unwrap());
            let kind = machine.kv.kind(*live.last().unwrap());
            assert_eq!(kind, ObjectKind::Slab, "{cpu}");
        }
        machine.check();
        for addr in live {
            seats[1 - cpu].kfree(addr).unwrap();
        }
        seats[1 - cpu].drain();
        machine.check();
    }
}

#[test]
fn slabs_are_smaller_where_only_small_blocks_are_there() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let mut frames = Vec::new();
    while let Ok(addr) = seat.kmalloc(&sized(4096)) {
        frames.push(addr);
    }
    assert_eq!(frames.len(), 512);
    // Every second frame: no block of two.
    for addr in frames.iter().filter(|addr| addr.page().0 % 2 == 0) {
        seat.kfree(*addr).unwrap();
    }
    for bytes in SIZES {
        let addr = seat.kmalloc(&sized(bytes)).unwrap();
        assert_eq!(seat.kvsize(addr), Ok(bytes));
        machine.check();
    }
    assert_eq!(machine.kv.stats().slab_frames, SIZES.len() as u64);
    let not_now = KvError::NotNow { bytes: 8192 };
    assert_eq!(seat.kmalloc(&sized(8192)), Err(not_now));
    let patient = sized(8192).with(Effort::MayCompact);
    let fragmented = KvError::Frames(AllocError::Fragmented);
    assert_eq!(seat.kmalloc(&patient), Err(fragmented));
    machine.check();
}

#[test]
fn an_empty_slab_that_is_kept_serves_requests_of_other_kinds_at_once() {
    for (kept, wanted) in [(64, 256), (2048, 16), (256, 4096), (2048, 16_384)] {
        let machine = machine(64);
        let mut seat = machine.seat(0);
        // Two slabs of the class; the one that is not served from is kept when it is empty.
        let class = SizeClass::of(kept, 1).unwrap();
        let slots = class.slots(class.order());
        let live: Vec<Addr> = (0..=slots)
            .map(|_| seat.kmalloc(&sized(kept)).unwrap())
            .collect();
        let mut others = Vec::new();
        while let Ok(addr) = seat.kmalloc(&sized(Page::BYTES)) {
            others.push(addr);
        }
        for &addr in &live[..slots as usize] {
            seat.kfree(addr).unwrap();
        }
        let returns = machine.kv.stats().slab_returns;
        let request = sized(wanted).within(Context::NOWAIT);
        let addr = seat.kmalloc(&request).unwrap();
        assert!(seat.kvsize(addr).unwrap() >= wanted);
        assert_eq!(machine.kv.stats().slab_returns, returns + 1, "{wanted}");
        assert_eq!(machine.kv.stats().drains, 0);
        machine.check();
        seat.kfree(addr).unwrap();
        seat.kfree(live[slots as usize]).unwrap();
        for addr in others {
            seat.kfree(addr).unwrap();
        }
        machine.check_empty(seat);
    }
}

#[test]
fn zeroed_objects_are_zero_however_they_were_used_before() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    for bytes in [1, 16, 100, 2048, 4096, 20_000] {
        for _ in 0..3 {
            let addr = seat.kmalloc(&sized(bytes).zeroed()).unwrap();
            assert!(machine.toy.is_filled(addr, bytes, 0), "{bytes}");
            machine.toy.fill(addr, bytes, 0xee);
            seat.kfree(addr).unwrap();
        }
    }
    machine.check_empty(seat);
}

#[test]
fn metadata_is_a_word_a_frame_and_two_lines_and_a_bit_a_slab() {
    let layout = KvLayout::new(Frame(7), 1000).with_slabs_max(100);
    let shape = KvShape::new(&layout).unwrap();
    // 101 bits are two words, with one above them and one that says how the three change; in a line.
    assert_eq!(shape.words, 7 + 96 + 112 + 101 * 16 + 8 + 1000);
}
