//! What others do between two steps of a call: where it waits for them, or while it copies.

use super::super::guest::under_way::{At, HookedGuest, HookedReserve, hooked, key};
use super::*;
use crate::units::RunError;
use std::panic::{AssertUnwindSafe, catch_unwind};

const KINDS_OF_PUT: [bool; 2] = [false, true];

fn put(
    guest: &mut HookedGuest,
    dirty: bool,
    key: Key,
    page: &[u64; 512],
) -> Result<(), PutRefused> {
    if dirty {
        guest.put_dirty(key, page)
    } else {
        guest.put(key, page)
    }
}

/// Puts page 1, and has it wait for a frame: by then it has made way for itself. The other guest does
/// `meanwhile`.
fn put_that_waits(
    config: &PoolConfig,
    dirty: bool,
    meanwhile: impl Fn(&mut HookedGuest, PoolId) + 'static,
) -> (
    Result<(), PutRefused>,
    &'static HookedReserve,
    HookedGuest,
    PoolId,
) {
    let (reserve, hook, [mut one, mut other]) = hooked(64);
    let pool = reserve.open_pool(config).unwrap();
    let queue = reserve.queues[0];
    let shards = (0..queue.len()).map(|nth| queue.try_lock(nth).unwrap());
    let mut shards: Vec<_> = shards.collect();
    hook.set(At::Wait, move || {
        shards.clear();
        meanwhile(&mut other, pool);
    });
    let put = put(&mut one, dirty, key(pool, 1), &page(1));
    assert!(hook.is_done(), "it has waited");
    (put, reserve, one, pool)
}

#[test]
fn c5_a_put_that_has_waited_finds_that_another_one_came_first() {
    for dirty in KINDS_OF_PUT {
        let (first, reserve, mut guest, pool) =
            put_that_waits(&PoolConfig::SWAP, dirty, move |other, pool| {
                assert_eq!(put(other, dirty, key(pool, 1), &page(2)), Ok(()));
            });
        assert_eq!(first, Err(PutRefused::Overtaken), "dirty: {dirty}");
        let mut out = [0; 512];
        assert!(guest.get(key(pool, 1), &mut out));
        assert_eq!(stamp(&out), 2);
        reserve.verify().unwrap();
        guest.invalidate_page(key(pool, 1));
        assert!(!guest.get(key(pool, 1), &mut out), "one version is behind");
        assert_eq!(reserve.occupancy().free, 64);
        reserve.verify().unwrap();
    }
}

#[test]
fn c6_a_put_that_has_waited_leaves_nothing_of_what_was_invalidated() {
    type Meanwhile = fn(&mut HookedGuest, PoolId);
    let page_gone: Meanwhile = |other, pool| other.invalidate_page(key(pool, 1));
    let object_gone: Meanwhile = |other, pool| other.invalidate_object(pool, 0);
    let pool_gone: Meanwhile = |other, pool| assert!(other.invalidate_pool(pool));
    for config in [PoolConfig::CLEAN, PoolConfig::SWAP] {
        for dirty in [false, config.may_be_dirty] {
            for meanwhile in [page_gone, object_gone, pool_gone] {
                let (_, reserve, mut guest, pool) = put_that_waits(&config, dirty, meanwhile);
                assert!(!guest.get(key(pool, 1), &mut [0; 512]), "dirty: {dirty}");
                // Nor for the next pool of that number.
                guest.invalidate_pool(pool);
                assert_eq!(reserve.open_pool(&config), Some(pool));
                assert!(!guest.get(key(pool, 1), &mut [0; 512]), "dirty: {dirty}");
                reserve.verify().unwrap();
            }
        }
    }
}

#[test]
fn c6_a_walk_waits_for_a_page_on_its_way_in() {
    for dirty in KINDS_OF_PUT {
        let (reserve, hook, [mut one, mut other]) = hooked(64);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let inner = hook.clone();
        hook.set(At::Store, move || {
            inner.set(At::Wait, || panic!("the walk waits"));
            // Not for ever, because the copy waits for it here.
            let walk = AssertUnwindSafe(|| other.invalidate_object(pool, 0));
            assert!(catch_unwind(walk).is_err(), "the walk has passed it by");
        });
        assert_eq!(put(&mut one, dirty, key(pool, 1), &page(1)), Ok(()));
        one.invalidate_object(pool, 0);
        assert!(!one.get(key(pool, 1), &mut [0; 512]));
        reserve.verify().unwrap();
    }
}

#[test]
fn c6_a_get_serves_nothing_that_is_invalidated_while_it_copies() {
    type Meanwhile = fn(&mut HookedGuest, PoolId);
    let object_gone: Meanwhile = |other, pool| other.invalidate_object(pool, 0);
    let pool_gone: Meanwhile = |other, pool| assert!(other.invalidate_pool(pool));
    let page_gone: Meanwhile = |other, pool| other.invalidate_page(key(pool, 1));
    let stays = PoolConfig {
        exclusive: false,
        ..PoolConfig::CLEAN
    };
    let goes = PoolConfig {
        exclusive: true,
        ..PoolConfig::SWAP
    };
    for config in [PoolConfig::CLEAN, PoolConfig::SWAP, stays, goes] {
        for meanwhile in [object_gone, pool_gone, page_gone] {
            let (reserve, hook, [mut one, mut other]) = hooked(64);
            let pool = reserve.open_pool(&config).unwrap();
            one.put(key(pool, 1), &page(1)).unwrap();
            hook.set(At::Load, move || meanwhile(&mut other, pool));
            assert!(!one.get(key(pool, 1), &mut [0; 512]), "{config:?}");
            assert!(hook.is_done(), "it has copied");
            reserve.verify().unwrap();
        }
    }
}

#[test]
fn c6_a_get_serves_no_page_that_a_full_bucket_gave_up_and_that_was_then_invalidated() {
    let (reserve, hook, [mut one, mut other]) = hooked(64);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let bucket = |key: &Key| reserve.bucket(key, key.object_hash());
    let (first, mut others) = {
        let mut keys = (0..).map(|index| key(pool, index));
        let first = keys.next().unwrap();
        (
            first,
            keys.filter(move |key| bucket(key).is(bucket(&first))),
        )
    };
    one.put(first, &page(0)).unwrap();
    (&mut others)
        .take(6)
        .for_each(|key| one.put(key, &page(1)).unwrap());
    let last = others.next().unwrap();
    let inner = hook.clone();
    hook.set(At::Load, move || {
        // The first page's entry has gone for the sake of the last one, and the page itself has not yet.
        inner.set(At::Store, || panic!("the put is held up in its copy"));
        let put = AssertUnwindSafe(|| other.put(last, &page(2)));
        assert!(catch_unwind(put).is_err());
        other.invalidate_page(first);
    });
    assert!(!one.get(first, &mut [0; 512]));
    assert!(hook.is_done(), "both have copied");
    reserve.verify().unwrap();
}

/// Of a reserve of two sections: while an owner waits at the first one's gate, a guest puts a dirty page into the
/// other one. Then what the owner asked for fails, and the page is there.
fn dirty_meanwhile(owner: impl Fn(&HookedReserve)) {
    let (reserve, hook, [mut one, mut other]) = hooked(2 * table::SECTION as u64);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut inside = reserve.table.try_enter(0);
    hook.set(At::Wait, move || {
        assert_eq!(other.put_dirty(key(pool, 1), &page(1)), Ok(()));
        inside.take();
    });
    owner(reserve);
    assert!(hook.is_done(), "it has waited");
    let mut out = [0; 512];
    assert!(one.get(key(pool, 1), &mut out), "C7");
    assert_eq!(stamp(&out), 1);
    let occupancy = reserve.occupancy();
    assert_eq!((occupancy.owned, occupancy.reserved), (0, 0));
    reserve.verify().unwrap();
}

#[test]
fn c7_a_page_that_becomes_dirty_after_the_run_was_chosen_is_not_an_owners() {
    let frames = 2 * table::SECTION as u64;
    dirty_meanwhile(|reserve| {
        assert_eq!(reserve.alloc_contig(frames, 1), Err(RunError::NoRoom));
    });
}

#[test]
fn c3_a_page_that_becomes_dirty_before_its_section_is_reserved_is_in_no_reservation() {
    let frames = 2 * table::SECTION as u64;
    dirty_meanwhile(|reserve| {
        let reserved = reserve.reserve("late", frames, 1);
        assert_eq!(reserved, Err(RunError::Held));
    });
}
