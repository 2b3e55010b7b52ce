//! What happens to a put while its page is being copied; and the platform by which others act in the middle of a call.

use super::super::owner::put_back::{OrdinaryFrames, PUT_BACK};
use super::*;
use crate::sync::Ordering;
use crate::units::RunError;
use core::cell::RefCell;
use std::rc::Rc;

/// Where a call asks the platform for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum At {
    /// It copies into a frame.
    Store,
    /// It copies out of a frame.
    Load,
    /// It waits for an owner or another guest.
    Wait,
}

type Planned = Option<(At, Box<dyn FnMut()>)>;

/// A hook that runs once, in the next call that gets there.
#[derive(Clone, Default)]
pub(in super::super) struct Hook(Rc<RefCell<Planned>>);

impl Hook {
    pub(in super::super) fn set(&self, at: At, what: impl FnMut() + 'static) {
        *self.0.borrow_mut() = Some((at, Box::new(what)));
    }

    pub(in super::super) fn is_done(&self) -> bool {
        self.0.borrow().is_none()
    }

    fn call(&self, here: At) {
        let hook = self.0.borrow_mut().take_if(|(at, _)| *at == here);
        if let Some((_, mut what)) = hook {
            what();
        }
    }
}

/// Calls a hook before it does what it is asked for.
#[derive(Clone)]
pub(in super::super) struct Hooked(ReserveToy, Hook);

impl Hooked {
    pub(in super::super) fn toy(&self) -> &ReserveToy {
        &self.0
    }
}

impl FramePlatform for Hooked {
    fn relax(&self, attempt: u32) {
        self.1.call(At::Wait);
        self.0.relax(attempt);
    }
}

impl ReservePlatform for Hooked {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.1.call(At::Store);
        self.0.store(frame, page);
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        self.1.call(At::Load);
        self.0.load(frame, page);
    }
}

pub(in super::super) type HookedReserve = Reserve<'static, Hooked>;
pub(in super::super) type HookedGuest = Guest<'static, 'static, Hooked>;

fn whole() -> (&'static HookedReserve, Hook, [HookedGuest; 2]) {
    hooked(64)
}

/// A reserve of this many frames, with room for 16 pages in ordinary ones behind them.
pub(in super::super) fn hooked(frames: u64) -> (&'static HookedReserve, Hook, [HookedGuest; 2]) {
    let pages = (0..frames + 16).map(|_| core::array::from_fn(|_| AtomicU64::new(0)));
    let toy = ReserveToy(Arc::new(pages.collect()));
    let hook = Hook::default();
    let layout = ReserveLayout::new(Run::new(Frame(FIRST), frames).unwrap())
        .with_cpus(2)
        .with_ordinary(16);
    let memory = std::vec![0u64; layout.words_needed().unwrap()].leak();
    let reserve = Reserve::new(&layout, memory, Hooked(toy, hook.clone())).unwrap();
    let reserve: &'static HookedReserve = Box::leak(Box::new(reserve));
    let seats = [0, 1].map(|cpu| reserve.guest(CpuId(cpu)).unwrap());
    (reserve, hook, seats)
}

pub(in super::super) fn key(pool: PoolId, index: u64) -> Key {
    Key {
        pool,
        object: 0,
        index,
    }
}

/// Puts page 1 as `state`; while it is copied the other guest does `meanwhile`.
fn put_while(
    dirty: bool,
    mut meanwhile: impl FnMut(&mut HookedGuest, PoolId) + 'static,
) -> (
    Result<(), PutRefused>,
    &'static HookedReserve,
    HookedGuest,
    PoolId,
) {
    let (reserve, hook, [mut one, mut other]) = whole();
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    hook.set(At::Store, move || meanwhile(&mut other, pool));
    let put = if dirty {
        one.put_dirty(key(pool, 1), &page(1))
    } else {
        one.put(key(pool, 1), &page(1))
    };
    (put, reserve, one, pool)
}

#[test]
fn c6_a_page_that_is_forgotten_on_its_way_in_does_not_arrive() {
    for dirty in [false, true] {
        let (put, reserve, mut guest, pool) =
            put_while(dirty, |other, pool| other.invalidate_page(key(pool, 1)));
        assert_eq!(put, Err(PutRefused::Overtaken), "dirty: {dirty}");
        assert!(!guest.get(key(pool, 1), &mut [0; 512]));
        assert_eq!(reserve.stats().guests().held_pages, 0);
        assert_eq!(reserve.occupancy().free, 64);
        reserve.verify().unwrap();
        // Nothing of it is left in the way.
        assert_eq!(guest.put_dirty(key(pool, 1), &page(2)), Ok(()));
        assert_eq!(guest.clean(u64::MAX, |_, _| true).written, 1);
        reserve.verify().unwrap();
    }
}

#[test]
fn c3_an_owner_that_waits_with_a_bound_goes_on_without_the_run_and_nothing_has_changed() {
    for dirty in [false, true] {
        let (reserve, hook, [mut one, _]) = whole();
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        // All frames but the one that a dirty page lies in.
        let all = reserve.reserve("all", 63, 1).unwrap();
        let run = reserve.run_of(all).unwrap();
        hook.set(At::Store, move || {
            // Inside the gate of all frames; a guest that is off its CPU looks like this.
            for rounds in [0, 1, 100] {
                assert_eq!(reserve.try_take(all, rounds), Err(RunError::WouldWait));
            }
            assert_eq!(
                reserve.owner(None).try_take(all, 3),
                Err(RunError::WouldWait)
            );
        });
        let put = if dirty {
            one.put_dirty(key(pool, 1), &page(1))
        } else {
            one.put(key(pool, 1), &page(1))
        };
        assert_eq!(put, Ok(()));
        assert!(hook.is_done());
        assert_eq!(reserve.occupancy().owned, 0);
        assert!(one.get(key(pool, 1), &mut [0; 512]));
        reserve.verify().unwrap();
        // No guest is inside now, so no round is needed.
        assert_eq!(reserve.try_take(all, 0), Ok(run));
        assert_eq!(reserve.try_take(all, 0), Err(RunError::Taken(run)));
        reserve.release(run).unwrap();
        reserve.verify().unwrap();
    }
}

#[test]
fn c1_a_copy_that_panics_leaves_no_frame_in_transit() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    for dirty in [false, true] {
        let (reserve, hook, [mut one, mut other]) = whole();
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        hook.set(At::Store, || panic!("the platform's copy"));
        let put = catch_unwind(AssertUnwindSafe(|| {
            if dirty {
                one.put_dirty(key(pool, 1), &page(1))
            } else {
                one.put(key(pool, 1), &page(1))
            }
        }));
        assert!(put.is_err());
        reserve.verify().unwrap();
        assert_eq!(reserve.occupancy().free, 64);
        assert!(!other.get(key(pool, 1), &mut [0; 512]));
        // A walk waits for no other CPU, and holds no gate open.
        other.invalidate_object(pool, 0);
        let run = reserve.alloc_contig(64, 1).unwrap();
        reserve.release(run).unwrap();
        one.put(key(pool, 1), &page(2)).unwrap();
        assert!(one.get(key(pool, 1), &mut [0; 512]));
    }
}

#[test]
fn c5_of_two_puts_at_one_time_the_later_one_stays() {
    for dirty in [false, true] {
        let (put, reserve, mut guest, pool) = put_while(dirty, move |other, pool| {
            let put = if dirty {
                other.put_dirty(key(pool, 1), &page(2))
            } else {
                other.put(key(pool, 1), &page(2))
            };
            assert_eq!(put, Ok(()));
        });
        assert_eq!(put, Err(PutRefused::Overtaken), "dirty: {dirty}");
        let mut out = [0; 512];
        assert!(guest.get(key(pool, 1), &mut out));
        assert_eq!(stamp(&out), 2);
        assert_eq!(reserve.stats().guests().held_pages, 1);
        reserve.verify().unwrap();
    }
}

#[test]
fn a_page_on_its_way_in_is_found_by_no_guest_and_its_entry_is_kept() {
    static FOUND: AtomicU64 = AtomicU64::new(0);
    let (put, reserve, mut guest, pool) = put_while(false, |other, pool| {
        let mut out = [0; 512];
        for index in 0..2 {
            let found = other.get(key(pool, index), &mut out);
            FOUND.fetch_add(u64::from(found), Ordering::Relaxed);
        }
        // As many as to fill the bucket, too, wherever they lie.
        for index in 2..40 {
            other.put(key(pool, index), &page(index)).unwrap();
        }
    });
    assert_eq!(put, Ok(()));
    assert_eq!(FOUND.load(Ordering::Relaxed), 0);
    let mut out = [0; 512];
    for index in 1..40 {
        assert!(guest.get(key(pool, index), &mut out), "page {index}");
        assert_eq!(stamp(&out), index);
    }
    reserve.verify().unwrap();
}

#[test]
fn c6_a_page_of_an_object_or_a_pool_that_ends_meanwhile_is_served_to_no_guest() {
    let (reserve, hook, [mut one, mut other]) = whole();
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    hook.set(At::Store, move || {
        other.invalidate_object(pool, 0);
        other.put(key(pool, 2), &page(2)).unwrap();
    });
    let _ = one.put(key(pool, 1), &page(1));
    assert!(!one.get(key(pool, 1), &mut [0; 512]));
    assert!(one.get(key(pool, 2), &mut [0; 512]));
    one.put(key(pool, 2), &page(2)).unwrap();
    one.invalidate_pool(pool);
    assert!(!one.get(key(pool, 2), &mut [0; 512]));
    reserve.verify().unwrap();
}

/// Has page 1, of three that are on no device, put back; while it is copied the other guest does `meanwhile`.
fn put_back_while(
    config: &PoolConfig,
    mut meanwhile: impl FnMut(&mut HookedGuest, PoolId) + 'static,
) {
    let (reserve, hook, [mut one, mut other]) = whole();
    let pool = reserve.open_pool(config).unwrap();
    for index in 1..4 {
        one.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    hook.set(At::Store, move || meanwhile(&mut other, pool));
    let mut supply = OrdinaryFrames::new(FIRST + 64, 16);
    let run = reserve.alloc_contig_with(64, 1, &mut supply).unwrap();
    assert!(hook.is_done(), "it was called");
    let mut out = [0; 512];
    assert!(!one.get(key(pool, 1), &mut out), "it is gone");
    let left = reserve.stats().frontswap.held_pages;
    let found = (2..4).filter(|index| one.get(key(pool, *index), &mut out));
    assert_eq!(found.count() as u64, left);
    reserve.verify().unwrap();
    reserve.release(run).unwrap();
    one.invalidate_pool(pool);
    reserve.collect(&mut supply);
    assert_eq!(supply.free.len(), 16, "each frame is back");
    assert_eq!(reserve.occupancy().free, 64);
    reserve.verify().unwrap();
}

#[test]
fn a_page_that_is_forgotten_or_taken_away_while_it_is_put_back_is_nowhere() {
    put_back_while(&PUT_BACK, |other, pool| {
        other.invalidate_page(key(pool, 1));
    });
    put_back_while(&PUT_BACK, |other, pool| {
        other.put_dirty(key(pool, 1), &page(9)).unwrap_err();
    });
    // Forgetting a whole object waits for a page on its way, so it cannot be called in the middle
    // of one.
    let exclusive = PoolConfig {
        exclusive: true,
        ..PUT_BACK
    };
    put_back_while(&exclusive, |other, pool| {
        let mut out = [0; 512];
        assert!(other.get(key(pool, 1), &mut out) && stamp(&out) == 1);
    });
}
