//! A source of frames whose wait for another CPU unwinds while a request has a block or an object in its
//! hands (K6).

use super::*;
use crate::frame::{AllocError, FrameSource, FreeError};
use crate::policy::Effort::MayCompact;
use crate::units::{Mobility, Order};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A seat whose next free unwinds, if it is told so.
struct InterruptedFrames<'t> {
    seat: Seat<'static, 'static, &'static KvToy>,
    unwinds: &'t Cell<bool>,
}

impl FrameSource for InterruptedFrames<'_> {
    fn origin(&self) -> u64 {
        self.seat.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.seat.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        FrameSource::alloc_run(&mut self.seat, frames, context)
    }

    fn free_run(&mut self, frames: Run) {
        FrameSource::free_run(&mut self.seat, frames);
        assert!(!self.unwinds.take(), "it unwinds when the frames are back");
    }

    fn max_order(&self) -> Order {
        FrameSource::max_order(&self.seat)
    }

    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        self.seat.try_block(order, mobility)
    }

    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        self.seat.alloc_block(order, mobility, context)
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        assert!(!self.unwinds.take(), "the wait unwinds");
        self.seat.free_block(frame, order)
    }
}

type InterruptedSeat<'t> = KvSeat<'static, 'static, 'static, &'static KvToy, InterruptedFrames<'t>>;

fn interrupted<'t>(
    machine: &ToyMachine,
    kv: &'static Kv<'static, &'static KvToy>,
    unwinds: &'t Cell<bool>,
) -> InterruptedSeat<'t> {
    let seat = machine.zone.seat(CpuId(0)).unwrap();
    let frames = InterruptedFrames { seat, unwinds };
    kv.seat(machine.space.seat(CpuId(0), frames).unwrap())
        .unwrap()
}

/// What a call gives whose next free unwinds, or `None` if it did.
fn unless_unwound<T>(unwinds: &Cell<bool>, call: impl FnOnce() -> T) -> Option<T> {
    unwinds.set(true);
    let result = catch_unwind(AssertUnwindSafe(call)).ok();
    assert_eq!(
        result.is_none(),
        !unwinds.take(),
        "by this and nothing else"
    );
    result
}

#[test]
fn k6_a_block_in_which_no_object_can_lie_goes_back_later_if_its_free_unwinds() {
    for bytes in [64, 2048, 4096, 8192] {
        let machine = machine(512);
        let layout = KvLayout::new(Frame(0), 16);
        let memory = leak(vec![0; layout.words_needed().unwrap()]);
        let kv = leak(Kv::new(&layout, memory, machine.toy).unwrap());
        let unwinds = Cell::new(false);
        let mut seat = interrupted(&machine, kv, &unwinds);
        let request = KvRequest::new(bytes).with(MayCompact);
        let mut own = vec![];
        // The zone's pageblock has frames beyond the table, sooner or later.
        while let Ok(addr) = seat.kmalloc(&request) {
            own.push(addr);
        }
        machine.zone.drain();
        let free = machine.zone.recount().free;
        let held = [(); 3].map(|()| {
            assert!(unless_unwound(&unwinds, || seat.kmalloc(&request)).is_none());
            machine.zone.drain();
            free - machine.zone.recount().free
        });
        assert!(
            held[0].is_power_of_two() && held[0] <= 8,
            "{bytes}: one block"
        );
        assert_eq!(held, [held[0]; 3], "{bytes}: the same");
        if bytes == 64 {
            seat.drain();
        } else {
            seat.kmalloc(&request).unwrap_err();
        }
        machine.zone.drain();
        assert_eq!(machine.zone.recount().free, free, "{bytes}");
        for addr in own {
            seat.kfree(addr).unwrap();
        }
        seat.drain();
        drop(seat);
        machine.zone.drain();
        assert_eq!(machine.zone.recount().free, 512);
        kv.verify().unwrap();
    }
}

#[test]
fn k6_an_object_that_was_found_is_free_again_if_slabs_beside_it_cannot_go_back() {
    let machine = ToyMachine::new(512, 2, 4096);
    let unwinds = Cell::new(false);
    let mut seat = interrupted(&machine, machine.kv, &unwinds);
    let mut other = machine.seat(1);
    let small = KvRequest::new(64);
    // The other CPU frees an object of a full slab, and all of several slabs of another class: so the next
    // request finds a slot, and slabs that are surplus.
    let mut smalls = vec![seat.kmalloc(&small).unwrap()];
    while machine.kv.recount().free_slots != 0 {
        smalls.push(seat.kmalloc(&small).unwrap());
    }
    let large: Vec<Addr> = (0..64)
        .map(|_| seat.kmalloc(&KvRequest::new(2048)).unwrap())
        .collect();
    for addr in large {
        other.kfree(addr).unwrap();
    }
    other.kfree(smalls.pop().unwrap()).unwrap();
    assert!(unless_unwound(&unwinds, || seat.kmalloc(&small).unwrap()).is_none());
    machine.kv.verify().unwrap();
    assert_eq!(machine.kv.recount().live_slots, smalls.len() as u64);
    let again = seat.kmalloc(&small).unwrap();
    assert!(!smalls.contains(&again));
    smalls.push(again);
    for addr in smalls {
        seat.kfree(addr).unwrap();
    }
    seat.drain();
    drop((seat, other));
    machine.assert_all_free(machine.seat(0));
}

#[test]
fn k6_an_object_found_at_rest_is_free_again_if_slabs_beside_it_cannot_go_back() {
    for bytes in [64, 4096] {
        let machine = ToyMachine::new(512, 2, 4096);
        let unwinds = Cell::new(false);
        let mut seat = interrupted(&machine, machine.kv, &unwinds);
        let mut other = machine.seat(1);
        // All frames are in slabs of the other CPU: some of these are empty, and one has a free slot.
        let mut own = vec![];
        while let Ok(addr) = other.kmalloc(&KvRequest::new(2048)) {
            own.push(addr);
        }
        let freed: Vec<Addr> = own.drain(..own.len() / 2 + 1).collect();
        for addr in freed {
            seat.kfree(addr).unwrap();
        }
        let live = own.len() as u64;
        let request = KvRequest::new(bytes).with(MayCompact);
        let mut unwound = 0;
        // The first block that goes back is that of the request.
        for _ in 0..2 {
            unwound += u32::from(unless_unwound(&unwinds, || seat.kmalloc(&request)).is_none());
            machine.kv.verify().unwrap();
            let count = machine.kv.recount();
            assert!(
                unwound == 0 || count.live_slots + count.runs == live,
                "{bytes}"
            );
        }
        assert_ne!(unwound, 0, "{bytes}");
        for addr in own {
            other.kfree(addr).unwrap();
        }
        seat.drain();
        drop((seat, other));
        machine.assert_all_free(machine.seat(0));
    }
}

#[test]
fn k6_an_object_that_moved_is_where_it_was_if_the_free_of_its_old_place_unwinds() {
    let machine = machine(512);
    let unwinds = Cell::new(false);
    let mut seat = interrupted(&machine, machine.kv, &unwinds);
    let addr = seat.kmalloc(&KvRequest::new(8192)).unwrap();
    machine.toy.fill(addr, 8192, 7);
    let longer = KvRequest::new(16 << 10);
    assert!(unless_unwound(&unwinds, || seat.kvrealloc(addr, &longer)).is_none());
    assert_eq!(seat.kvsize(addr), Ok(8192));
    assert!(machine.toy.is_filled(addr, 8192, 7));
    assert_eq!(machine.kv.recount().runs, 1);
    seat.kfree(addr).unwrap();
    drop(seat);
    machine.assert_all_free(machine.seat(0));
}

#[test]
fn k6_an_object_that_became_shorter_is_so_if_the_free_of_its_rest_unwinds() {
    let machine = machine(512);
    let unwinds = Cell::new(false);
    let mut seat = interrupted(&machine, machine.kv, &unwinds);
    let addr = seat.kmalloc(&KvRequest::new(8 * 4096)).unwrap();
    let shorter = KvRequest::new(3 * 4096);
    assert!(unless_unwound(&unwinds, || seat.kvrealloc(addr, &shorter)).is_none());
    assert_eq!(seat.kvsize(addr), Ok(4 * 4096));
    machine.kv.verify().unwrap();
    seat.kfree(addr).unwrap();
    drop(seat);
    machine.assert_all_free(machine.seat(0));
}

/// A seat that sees no block at once, and beside which another CPU works before it stops the zone.
struct BesideFrames<W> {
    seat: Seat<'static, 'static, &'static KvToy>,
    work: Option<W>,
}

impl<W: FnOnce()> FrameSource for BesideFrames<W> {
    fn origin(&self) -> u64 {
        self.seat.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.seat.frames_in_all()
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, frames: Run) {
        FrameSource::free_run(&mut self.seat, frames);
    }

    fn try_block(&mut self, _order: Order, _mobility: Mobility) -> Option<Frame> {
        None
    }

    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        if let Some(work) = self.work.take() {
            work();
        }
        self.seat.alloc_block(order, mobility, context)
    }
}

#[test]
fn k9_a_frame_that_becomes_a_slab_while_the_zones_are_asked_is_found() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut other = machine.seat(1);
    let last = machine
        .zone
        .alloc_at(Frame(300), Order::ZERO, Mobility::Movable);
    last.unwrap();
    let mut own = vec![];
    for bytes in [2048, 64] {
        while let Ok(addr) = other.kmalloc(&KvRequest::new(bytes).with(MayCompact)) {
            own.push(addr);
        }
    }
    // No slab has anything, which a stop has found, and one frame of the zone is free.
    other
        .ranges()
        .frames()
        .free_block(Frame(300), Order::ZERO)
        .unwrap();
    let work = move || {
        let addr = other.kmalloc(&KvRequest::new(64)).unwrap();
        other.kfree(addr).unwrap();
    };
    let frames = BesideFrames {
        seat: machine.zone.seat(CpuId(0)).unwrap(),
        work: Some(work),
    };
    let ranges = machine.space.seat(CpuId(0), frames).unwrap();
    let mut seat = machine.kv.seat(ranges).unwrap();
    let request = KvRequest::new(64).with(MayCompact);
    let addr = seat.kmalloc(&request).expect("K9: in a slab or a zone");
    assert!(
        seat.ranges().frames().work.is_none(),
        "the zones were asked"
    );
    assert!(!own.contains(&addr));
    for addr in own {
        seat.kfree(addr).unwrap();
    }
    seat.kfree(addr).unwrap();
    machine.kv.verify().unwrap();
}
