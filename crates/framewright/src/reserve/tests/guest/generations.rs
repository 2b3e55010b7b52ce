//! Generations that tell an earlier page from a later one, counted further than a test can wait
//! for.

use super::*;

const fn key(pool: PoolId, index: u64) -> Key {
    Key {
        pool,
        object: 7,
        index,
    }
}

/// Frees every frame by an owner, so that the index keeps its entries.
fn discard_all(reserve: &Reserve<'_, ReserveToy>) {
    let run = reserve.alloc_contig(reserve.run().frames(), 1).unwrap();
    reserve.release(run).unwrap();
}

#[test]
fn c6_a_page_stays_invalid_however_often_its_object_is_invalidated_and_its_pool_opened() {
    for kind in [PoolConfig::CLEAN, PoolConfig::SWAP] {
        for times in [1, 1 << 31, 1 << 32, 3 << 32, 1 << 48, (1 << 62) - 1] {
            let (reserve, _) = reserve(64, 1);
            let pool = reserve.open_pool(&kind).unwrap();
            let mut guest = guest(&reserve, 0);
            guest.put(key(pool, 3), &page(1)).unwrap();
            reserve.age_pools(times);
            assert!(!guest.get(key(pool, 3), &mut [0; 512]), "{times}");
            guest.put(key(pool, 3), &page(2)).unwrap();
            assert!(guest.get(key(pool, 3), &mut [0; 512]), "{times}");
        }
    }
}

#[test]
fn c6_an_object_alone_is_invalidated_for_good() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let mut guest = guest(&reserve, 0);
    guest.put(key(pool, 3), &page(1)).unwrap();
    let before = reserve.pools.now(pool, key(pool, 3).object_hash());
    // A pool that is opened once less while its object is invalidated twice more has another sum.
    for _ in 0..1000 {
        guest.invalidate_object(pool, 7);
        assert_ne!(reserve.pools.now(pool, key(pool, 3).object_hash()), before);
    }
    assert!(!guest.get(key(pool, 3), &mut [0; 512]));
}

#[test]
fn c6_a_pool_number_that_is_opened_for_both_kinds_of_pages_in_turn_serves_none_of_an_earlier_one() {
    let (reserve, _) = reserve(64, 1);
    let mut guest = guest(&reserve, 0);
    let clean = PoolConfig {
        exclusive: false,
        ..PoolConfig::CLEAN
    };
    let dirty = PoolConfig {
        may_be_dirty: true,
        ..clean
    };
    let mut pool = reserve.open_pool(&clean).unwrap();
    for _ in 0..6 {
        guest.invalidate_object(pool, 7);
    }
    // Its sum is one that the pool's generation alone comes to.
    guest.put(key(pool, 3), &page(1)).unwrap();
    for nth in 0..20 {
        guest.invalidate_pool(pool);
        let config = if nth % 3 == 2 { &clean } else { &dirty };
        pool = reserve.open_pool(config).unwrap();
        assert!(!guest.get(key(pool, 3), &mut [0; 512]), "{nth}");
        if nth % 3 == 2 {
            guest.invalidate_object(pool, 7);
            guest.put(key(pool, 3), &page(nth)).unwrap();
        }
    }
}

#[test]
fn c8_an_entry_that_is_left_of_a_generation_with_the_same_lower_half_is_written_over() {
    for dirty in [false, true] {
        let (reserve, _) = reserve(1, 1);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let mut guest = guest(&reserve, 0);
        for stamp in 1..20 {
            if dirty {
                guest.put_dirty(key(pool, 3), &page(stamp)).unwrap();
                assert_eq!(guest.clean(1, |_, _| true).written, 1);
            } else {
                guest.put(key(pool, 3), &page(stamp)).unwrap();
            }
            let mut out = [0; 512];
            assert!(guest.get(key(pool, 3), &mut out));
            assert_eq!(super::stamp(&out), stamp);
            reserve.verify().unwrap();
            // The entry stays, and the frame's next page has the same lower half.
            discard_all(&reserve);
            reserve.age_frames((1 << 32) - 2);
            assert!(!guest.get(key(pool, 3), &mut out));
        }
    }
}

#[test]
fn c8_what_is_left_of_another_key_is_not_followed() {
    let (reserve, _) = reserve(8, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    for round in 0..40 {
        for index in 0..8 {
            guest
                .put(key(pool, round * 8 + index), &page(index))
                .unwrap();
        }
        for index in 0..(round + 1) * 8 {
            let mut out = [0; 512];
            let hit = guest.get(key(pool, index), &mut out);
            assert_eq!(hit, index >= round * 8, "round {round}, page {index}");
            assert!(!hit || super::stamp(&out) == index % 8);
        }
        reserve.verify().unwrap();
        discard_all(&reserve);
        reserve.age_frames((1 << 32) - 2);
    }
}

#[test]
fn a_frames_generation_comes_round_and_nothing_is_lost() {
    let (reserve, _) = reserve(4, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    reserve.age_frames((1 << 52) - 6);
    for round in 0..20 {
        for index in 0..4 {
            guest.put(key(pool, index), &page(round)).unwrap();
            let mut out = [0; 512];
            assert!(guest.get(key(pool, index), &mut out));
            assert_eq!(super::stamp(&out), round);
        }
        if round % 3 == 0 {
            discard_all(&reserve);
        }
        reserve.verify().unwrap();
    }
}
