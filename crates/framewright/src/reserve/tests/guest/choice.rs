//! Which page goes for another one, and which run an owner gets.

use super::*;

fn key(pool: PoolId, index: u64) -> Key {
    Key {
        pool,
        object: 0,
        index,
    }
}

/// Puts clean pages with those numbers, for each of which there is a frame.
fn put_all(guest: &mut Guest<'_, '_, ReserveToy>, pool: PoolId, indices: core::ops::Range<u64>) {
    for index in indices {
        guest.put(key(pool, index), &page(index)).unwrap();
    }
}

fn found(guest: &mut Guest<'_, '_, ReserveToy>, pool: PoolId, of: core::ops::Range<u64>) -> usize {
    let mut out = [0; 512];
    of.filter(|&index| guest.get(key(pool, index), &mut out))
        .count()
}

#[test]
fn another_pool_evicts_a_pools_pages_down_to_its_least_and_no_further() {
    let (reserve, _) = reserve(32, 1);
    let sheltered = |min_pages| PoolConfig {
        min_pages,
        ..PoolConfig::SWAP
    };
    let [a, b] = [8, 24].map(|min| reserve.open_pool(&sheltered(min)).unwrap());
    let mut guest = guest(&reserve, 0);
    put_all(&mut guest, a, 0..32);
    put_all(&mut guest, b, 0..200);
    assert_eq!(found(&mut guest, a, 0..32), 8);
    assert_eq!(found(&mut guest, b, 0..200), 24);
    // A pool evicts its own pages when it has no more than that, and no pool has.
    put_all(&mut guest, a, 100..200);
    assert_eq!(found(&mut guest, a, 100..200), 8);
    reserve.verify().unwrap();
}

#[test]
fn c3_a_dirty_page_takes_the_place_of_a_clean_one_that_is_in_no_reservation() {
    let (reserve, _) = reserve(32, 1);
    let reservation = reserve.reserve("camera", 16, 1).unwrap();
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    put_all(&mut guest, pool, 0..32);
    for index in 100..116 {
        guest
            .put_dirty(key(pool, index), &page(index))
            .expect("a clean page goes");
        reserve.verify().unwrap();
    }
    let one_more = guest.put_dirty(key(pool, 116), &page(116));
    assert_eq!(one_more, Err(PutRefused::Full));
    assert_eq!(found(&mut guest, pool, 100..116), 16);
    assert_eq!(
        found(&mut guest, pool, 0..32),
        16,
        "those in the reservation"
    );
    assert!(reserve.take(reservation).is_ok());
}

#[test]
fn a_dirty_page_of_a_pool_that_ended_has_no_owner_and_goes_for_another_one() {
    let (reserve, _) = reserve(32, 1);
    let [ended, other] = [(); 2].map(|()| reserve.open_pool(&PoolConfig::SWAP).unwrap());
    let mut guest = guest(&reserve, 0);
    for index in 0..32 {
        guest.put_dirty(key(ended, index), &page(index)).unwrap();
    }
    assert_eq!(
        guest.put(key(other, 0), &page(0)),
        Err(PutRefused::Full),
        "C7"
    );
    assert!(guest.invalidate_pool(ended));
    put_all(&mut guest, other, 0..32);
    assert_eq!(found(&mut guest, other, 0..32), 32);
    reserve.verify().unwrap();
}

#[test]
fn frames_that_were_released_are_used_before_a_page_is_evicted() {
    // Several shards, each with sections of its own, and a hint whether any frame is free.
    let (reserve, _) = reserve(4096, 2);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    put_all(&mut guest, pool, 0..4096);
    let before = reserve.stats().frontswap.evicted_pages;
    for (start, frames) in [(0, 4096), (512, 512), (1000, 600), (4095, 1)] {
        let others: Vec<Run> = [(0, start), (start + frames, 4096 - start - frames)]
            .into_iter()
            .filter(|(_, frames)| *frames > 0)
            .map(|(at, frames)| Run::new(Frame(FIRST + at), frames).unwrap())
            .collect();
        // Take all, give the rest back and fill it, and then only this run is free.
        let all = reserve.alloc_contig(4096, 1).unwrap();
        for run in &others {
            reserve.release(*run).unwrap();
        }
        put_all(&mut guest, pool, 10_000..14_096 - frames);
        let run = Run::new(Frame(FIRST + start), frames).unwrap();
        assert!(all.start() <= run.start() && run.end() <= all.end());
        reserve.release(run).unwrap();
        put_all(&mut guest, pool, 20_000..20_000 + frames);
        let after = reserve.stats().frontswap.evicted_pages;
        assert_eq!(after, before, "frames {start} to {}", start + frames);
        assert_eq!(reserve.occupancy().free, 0);
    }
    reserve.verify().unwrap();
}

#[test]
fn a_page_is_not_hot_because_the_one_before_it_in_its_frame_was() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    for (got, expected) in [(64, [0, 64]), (0, [64, 64]), (10, [118, 74])] {
        put_all(&mut guest, pool, 0..64);
        assert_eq!(found(&mut guest, pool, 0..got), got as usize);
        let run = reserve.alloc_contig(64, 1).unwrap();
        reserve.release(run).unwrap();
        let stats = reserve.stats();
        assert_eq!([stats.taken_cold, stats.taken_hot], expected);
    }
}

#[test]
fn the_cheapest_run_is_found_behind_what_is_owned() {
    let (reserve, _) = reserve(512, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    put_all(&mut guest, pool, 0..512);
    let owned = reserve.alloc_contig(128, 1).unwrap();
    assert_eq!(owned.start(), Frame(FIRST), "the lowest of equals");
    for index in 320..420 {
        guest.invalidate_page(key(pool, index));
    }
    // With a length that is no multiple of the grid's step, too.
    let run = reserve.alloc_contig(100, 1).unwrap();
    assert_eq!(run.start(), Frame(FIRST + 320));
    assert_eq!(reserve.stats().taken_free, 100);
}

#[test]
fn a_single_frame_is_a_free_one_else_one_that_was_not_got_lately_else_any() {
    let (reserve, _) = reserve(200, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    put_all(&mut guest, pool, 0..200);
    found(&mut guest, pool, 0..150);
    found(&mut guest, pool, 151..200);
    guest.invalidate_page(key(pool, 77));
    for expected in [77, 150, 0] {
        let run = reserve.alloc_contig(1, 1).unwrap();
        if expected > 0 {
            assert_eq!(run.start(), Frame(FIRST + expected));
        }
    }
    let stats = reserve.stats();
    let taken = [stats.taken_free, stats.taken_cold, stats.taken_hot];
    assert_eq!(taken, [1, 1, 1]);
}

#[test]
fn a_clean_run_is_found_behind_dirty_pages_where_the_places_cut_words() {
    // The places are frames 1024, 1088 and so on, which are not the first of 64 bits.
    let dirty = [70, 100, 130, 160];
    for frames in [256, 280] {
        let (reserve, _) = reserve(512, 1);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let mut guest = guest(&reserve, 0);
        for index in 0..512 {
            let put = if dirty.contains(&index) {
                guest.put_dirty(key(pool, index), &page(index))
            } else {
                guest.put(key(pool, index), &page(index))
            };
            put.unwrap();
        }
        let run = reserve.alloc_contig(frames, 64).unwrap();
        assert_eq!(run.start(), Frame(FIRST + 216), "{frames} frames");
        reserve.verify().unwrap();
    }
}
