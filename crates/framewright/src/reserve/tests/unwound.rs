//! Waits that unwind out of calls of the reserve: such a call has changed nothing, or what it began has ended.

use super::guest::under_way::{At, Hook, HookedReserve, hooked, key};
use super::owner::put_back::{OrdinaryFrames, PUT_BACK};
use super::*;
use crate::frame::{AllocError, FrameSource};
use crate::units::{Context, RunError};
use core::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Two gates.
const FRAMES: u64 = 2 * table::SECTION as u64;

/// Does `work`, whose next wait unwinds.
fn unwinds<T>(hook: &Hook, work: impl FnOnce() -> T) {
    hook.set(At::Wait, || panic!("the platform's wait"));
    let worked = catch_unwind(AssertUnwindSafe(work));
    assert!(worked.is_err() && hook.is_done(), "it has not waited");
}

/// What an owner does with a reservation of all frames, or with none. It waits at the second gate and unwinds;
/// then no frame is owned, and as many are reserved as before.
fn owner_waits(reserved: bool, owner: impl FnOnce(&HookedReserve, Option<Reservation>)) {
    let (reserve, hook, _) = hooked(FRAMES);
    let all = reserved.then(|| reserve.reserve("all", FRAMES, 1).unwrap());
    let inside = reserve.table.try_enter(table::SECTION);
    unwinds(&hook, || owner(reserve, all));
    drop(inside);
    let occupancy = reserve.occupancy();
    assert_eq!(occupancy.owned, 0);
    assert_eq!(occupancy.reserved, if reserved { FRAMES } else { 0 });
    reserve.verify().unwrap();
    // All of it can be had.
    let all = all.unwrap_or_else(|| reserve.reserve("all", FRAMES, 1).unwrap());
    let run = reserve.take(all).unwrap();
    reserve.release(run).unwrap();
    reserve.unreserve(all).unwrap();
    let run = reserve.alloc_contig(FRAMES, 1).unwrap();
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}

#[test]
fn c3_a_take_that_unwinds_at_a_gate_can_be_made_again() {
    owner_waits(true, |reserve, all| {
        _ = reserve.take(all.unwrap());
    });
    owner_waits(true, |reserve, all| {
        _ = reserve.try_take(all.unwrap(), 5);
    });
}

#[test]
fn c3_a_request_that_unwinds_at_a_gate_has_no_frame() {
    owner_waits(false, |reserve, _| {
        _ = reserve.alloc_contig(FRAMES, 1);
    });
    owner_waits(false, |reserve, _| {
        _ = reserve.reserve("all", FRAMES, 1);
    });
}

#[test]
fn a_reservation_is_given_up_without_a_wait_for_guests() {
    let (reserve, _, _) = hooked(FRAMES);
    let all = reserve.reserve("all", FRAMES, 1).unwrap();
    let inside = reserve.table.try_enter(table::SECTION);
    reserve.unreserve(all).unwrap();
    drop(inside);
    assert_eq!(reserve.occupancy().reserved, 0);
    reserve.verify().unwrap();
}

/// What another CPU holds, until the hook lets it go.
type HeldElsewhere<T> = Rc<RefCell<Option<T>>>;

/// The next wait unwinds. If the call waits once more while that unwinds, the other CPU lets go.
fn unwinds_then_goes_on<T: 'static>(hook: &Hook, held: &HeldElsewhere<T>) {
    let (then, held) = (hook.clone(), held.clone());
    hook.set(At::Wait, move || {
        let held = held.clone();
        then.set(At::Wait, move || drop(held.take()));
        panic!("the platform's wait");
    });
}

/// A supply without frames. While it says so, another owner begins.
struct LackingSupply {
    reserve: &'static HookedReserve,
    held: HeldElsewhere<Box<dyn core::any::Any>>,
    hook: Hook,
}

impl FrameSource for LackingSupply {
    fn origin(&self) -> u64 {
        7
    }

    fn frames_in_all(&self) -> u64 {
        0
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        *self.held.borrow_mut() = Some(Box::new(self.reserve.lock_owners()));
        unwinds_then_goes_on(&self.hook, &self.held);
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, _run: Run) {}
}

#[test]
fn c10_a_run_is_reserved_no_longer_than_its_request_even_if_the_wait_for_that_unwinds() {
    let (reserve, hook, [mut one, _]) = hooked(64);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    one.put_dirty(key(pool, 1), &page(1)).unwrap();
    let held = HeldElsewhere::default();
    let mut supply = LackingSupply {
        reserve,
        held: held.clone(),
        hook: hook.clone(),
    };
    let asked = catch_unwind(AssertUnwindSafe(|| {
        reserve.alloc_contig_with(64, 1, &mut supply)
    }));
    assert!(asked.is_err() && hook.is_done(), "it has waited twice");
    assert_eq!(reserve.occupancy().reserved, 0);
    assert_eq!(
        reserve.alloc_contig(64, 1),
        Err(RunError::NoRoom),
        "at once"
    );
    assert!(one.get(key(pool, 1), &mut [0; 512]));
    reserve.verify().unwrap();
}

#[test]
fn c1_a_page_that_is_gone_when_it_was_put_back_leaves_its_frame_even_if_the_wait_for_that_unwinds()
{
    let (reserve, hook, [mut one, mut other]) = hooked(64);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    one.put_dirty(key(pool, 1), &page(1)).unwrap();
    let held: HeldElsewhere<Box<dyn core::any::Any>> = HeldElsewhere::default();
    let (inner, holding) = (hook.clone(), held.clone());
    hook.set(At::Store, move || {
        other.invalidate_page(key(pool, 1));
        *holding.borrow_mut() = Some(Box::new(reserve.lock_owners()));
        unwinds_then_goes_on(&inner, &holding);
    });
    let mut supply = OrdinaryFrames::new(FIRST + 64, 16);
    let asked = catch_unwind(AssertUnwindSafe(|| {
        reserve.alloc_contig_with(64, 1, &mut supply)
    }));
    assert!(asked.is_err() && hook.is_done(), "it has waited twice");
    assert_eq!(reserve.occupancy().free, 64);
    reserve.verify().unwrap();
    let run = reserve.alloc_contig(64, 1).unwrap();
    reserve.release(run).unwrap();
}

#[test]
fn c1_a_put_that_unwinds_at_its_bucket_leaves_no_frame_in_transit() {
    for dirty in [false, true] {
        let (reserve, hook, [mut one, mut other]) = hooked(64);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        // While it waits for the eviction queue, another CPU locks its bucket.
        let shard = Rc::new(RefCell::new(Some(
            reserve.queues[0].lock(0, reserve.platform()),
        )));
        let held = HeldElsewhere::default();
        let (inner, holding) = (hook.clone(), held.clone());
        hook.set(At::Wait, move || {
            let at = key(pool, 1);
            let bucket = reserve.bucket(&at, at.object_hash());
            *holding.borrow_mut() = Some(bucket.lock(reserve.platform()));
            drop(shard.take());
            inner.set(At::Wait, || panic!("the platform's wait"));
        });
        let put = catch_unwind(AssertUnwindSafe(|| match dirty {
            true => one.put_dirty(key(pool, 1), &page(1)),
            false => one.put(key(pool, 1), &page(1)),
        }));
        assert!(put.is_err() && hook.is_done(), "it has waited twice");
        drop(held.take());
        assert_eq!(reserve.occupancy().free, 64);
        reserve.verify().unwrap();
        // A walk waits for no page that is not on its way.
        other.invalidate_object(pool, 0);
    }
}

#[test]
fn c6_an_invalidation_that_unwinds_at_a_gate_can_be_made_again() {
    for config in [PoolConfig::SWAP, PoolConfig::CLEAN] {
        let (reserve, hook, [mut one, mut other]) = hooked(64);
        let pool = reserve.open_pool(&config).unwrap();
        if config.may_be_dirty {
            one.put_dirty(key(pool, 1), &page(1)).unwrap();
        } else {
            one.put(key(pool, 1), &page(1)).unwrap();
        }
        let shut = reserve.table.shut(0, reserve.platform());
        unwinds(&hook, || one.invalidate_page(key(pool, 1)));
        // A put forgets the older version first.
        unwinds(&hook, || one.put(key(pool, 1), &page(2)));
        drop(shut);
        reserve.verify().unwrap();
        one.invalidate_page(key(pool, 1));
        let written = other.clean(u64::MAX, |_, _| true).written;
        assert_eq!(written, 0, "it is gone");
        assert_eq!(reserve.occupancy().free, 64);
        reserve.verify().unwrap();
    }
}

/// A supply whose wait for another CPU unwinds out of the next free.
struct WaitingSupply(OrdinaryFrames, bool);

impl FrameSource for WaitingSupply {
    fn origin(&self) -> u64 {
        self.0.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.0.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        self.0.alloc_run(frames, context)
    }

    fn free_run(&mut self, run: Run) {
        assert!(!core::mem::take(&mut self.1), "as told");
        self.0.free_run(run);
    }
}

#[test]
fn c11_spare_frames_go_back_even_if_the_wait_of_their_supply_unwinds() {
    let (reserve, _, [mut one, _]) = hooked(64);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    for index in 0..16 {
        one.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    let mut supply = WaitingSupply(OrdinaryFrames::new(FIRST + 64, 16), false);
    let run = reserve.alloc_contig_with(64, 1, &mut supply).unwrap();
    one.invalidate_pool(pool);
    supply.1 = true;
    let collected = catch_unwind(AssertUnwindSafe(|| reserve.collect(&mut supply)));
    assert!(collected.is_err());
    assert_eq!(reserve.collect(&mut supply), 0);
    assert_eq!(supply.0.free.len(), 16);
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}
