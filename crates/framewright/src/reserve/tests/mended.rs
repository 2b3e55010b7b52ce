//! Histories in which an earlier version went wrong.

use super::guest::under_way::{At, hooked};
use super::*;
use crate::units::RunError;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn key(pool: PoolId, object: u64, index: u64) -> Key {
    Key {
        pool,
        object,
        index,
    }
}

#[test]
fn c2_no_part_of_a_reservation_is_ever_given_to_a_plain_request() {
    let (reserve, _) = reserve(280, 1);
    let at = |f: u64| Frame(FIRST + f);
    let r1 = reserve.reserve("r1", 64, 1).unwrap();
    let b = reserve.reserve("b", 115, 1).unwrap();
    let r2 = reserve.reserve("r2", 1, 1).unwrap();
    let c = reserve.reserve("c", 29, 1).unwrap();
    let r4 = reserve.reserve("r4", 1, 1).unwrap();
    assert_eq!(reserve.run_of(r2).unwrap().start(), at(100));
    assert_eq!(reserve.run_of(r4).unwrap().start(), at(70));
    assert_eq!(reserve.run_of(r1).unwrap().start(), at(216));
    reserve.unreserve(b).unwrap();
    reserve.unreserve(c).unwrap();
    let got = reserve.alloc_contig(128, 64);
    if let Ok(run) = got {
        assert!(
            !(run.start() <= at(100) && at(100) < run.end()),
            "a reserved frame was given: {run:?}"
        );
    }
    reserve.take(r2).unwrap();
}

#[test]
fn a_search_beside_reservations_that_cut_words_ends() {
    let (reserve, _) = reserve(280, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    for n in 0..280 {
        let _ = guest.put(key(pool, 0, n), &page(n));
    }
    let _r1 = reserve.reserve("r1", 64, 1).unwrap();
    let b = reserve.reserve("b", 115, 1).unwrap();
    let _r2 = reserve.reserve("r2", 1, 1).unwrap();
    let c = reserve.reserve("c", 29, 1).unwrap();
    let _r4 = reserve.reserve("r4", 1, 1).unwrap();
    reserve.unreserve(b).unwrap();
    reserve.unreserve(c).unwrap();
    assert_eq!(reserve.alloc_contig(128, 64), Err(RunError::NoRoom));
}

#[test]
fn c5_a_dirty_put_that_the_pool_does_not_take_leaves_no_older_version() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    guest.put(key(pool, 0, 1), &page(1)).unwrap();
    assert!(guest.put_dirty(key(pool, 0, 1), &page(2)).is_err());
    assert!(
        !guest.get(key(pool, 0, 1), &mut out),
        "old version {}",
        stamp(&out)
    );
}

#[test]
fn dirty_pages_of_one_repeated_word_are_written_too() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    for n in 0..64 {
        guest.put_dirty(key(pool, 0, n), &[0; 512]).unwrap();
    }
    let done = guest.clean(u64::MAX, |_, _| true);
    assert_eq!(done.written, 64);
    assert_eq!(guest.put(key(pool, 0, 100), &[0; 512]), Ok(()));
}

#[test]
fn a_page_of_a_closed_pool_is_not_written_for_the_next_one_of_that_number() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    guest.put_dirty(key(pool, 0, 5), &page(1)).unwrap();
    guest.invalidate_pool(pool);
    let again = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let cleaned = guest.clean(u64::MAX, |_, _| panic!("a page without a pool is written"));
    assert_eq!(cleaned, Cleaned::default());
    // As long as no pool has the number, the cleaner gives the frame back.
    guest.put_dirty(key(again, 0, 5), &page(1)).unwrap();
    guest.invalidate_pool(again);
    let cleaned = guest.clean(u64::MAX, |_, _| panic!("a page without a pool is written"));
    assert_eq!(cleaned.overtaken, 1);
    let again = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    assert!(!guest.get(key(again, 0, 5), &mut [0; 512]));
    // Without a cleaner it is not in the way either.
    guest.put_dirty(key(again, 0, 6), &page(2)).unwrap();
    guest.invalidate_pool(again);
    let all = reserve.reserve("all", 64, 1).unwrap();
    reserve.take(all).unwrap();
    reserve.verify().unwrap();
}

#[test]
fn c7_invalidating_a_file_leaves_swapped_pages() {
    let (reserve, _) = reserve(1024, 1);
    let files = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let swap = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for n in 0..100 {
        guest.put_dirty(key(swap, 0, n), &page(n)).unwrap();
    }
    for inode in 0..2000 {
        guest.invalidate_object(files, inode);
        let there = (0..100)
            .filter(|&n| guest.get(key(swap, 0, n), &mut out))
            .count();
        assert_eq!(there, 100, "after invalidating file {inode}");
    }
}

#[test]
fn c6_an_exclusive_get_under_way_serves_nothing_that_was_invalidated() {
    let (reserve, hook, [mut a, mut b]) = hooked(64);
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let mut out = [0; 512];
    a.put(key(pool, 0, 1), &page(7)).unwrap();
    hook.set(At::Load, move || b.invalidate_page(key(pool, 0, 1)));
    let hit = a.get(key(pool, 0, 1), &mut out);
    assert!(
        !hit,
        "served after invalidate_page returned: {}",
        stamp(&out)
    );
}

#[test]
fn c7_an_exclusive_get_whose_copy_panics_leaves_the_page_where_it_was() {
    let (reserve, hook, [mut guest, _]) = hooked(64);
    let config = PoolConfig {
        exclusive: true,
        ..PoolConfig::SWAP
    };
    let pool = reserve.open_pool(&config).unwrap();
    let mut out = [0; 512];
    guest.put_dirty(key(pool, 0, 1), &page(7)).unwrap();
    hook.set(At::Load, || panic!("the platform's copy"));
    let got = catch_unwind(AssertUnwindSafe(|| guest.get(key(pool, 0, 1), &mut out)));
    assert!(got.is_err());
    reserve.verify().unwrap();
    assert!(guest.get(key(pool, 0, 1), &mut out));
    assert_eq!(stamp(&out), 7);
    reserve.verify().unwrap();
}

#[test]
fn c1_a_load_or_a_write_that_panics_leaves_the_page_and_holds_no_gate() {
    let (reserve, hook, [mut guest, mut other]) = hooked(64);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut out = [0; 512];
    guest.put_dirty(key(pool, 0, 1), &page(7)).unwrap();
    for round in 0..3 {
        hook.set(At::Load, || panic!("the platform's copy"));
        let got = catch_unwind(AssertUnwindSafe(|| guest.get(key(pool, 0, 1), &mut out)));
        assert!(got.is_err(), "{round}");
        let write = |_: &Key, _| panic!("the device");
        let written = catch_unwind(AssertUnwindSafe(|| guest.clean(1, write)));
        assert!(written.is_err(), "{round}");
        reserve.verify().unwrap();
        // The page is there, and dirty: no owner takes its frame before it is written.
        assert!(other.get(key(pool, 0, 1), &mut out), "{round}");
        assert_eq!(stamp(&out), 7);
        assert!(reserve.alloc_contig(64, 1).is_err());
    }
    // The cleaner's lock and all gates are free.
    assert_eq!(other.clean(8, |_, _| true).written, 1);
    let run = reserve.alloc_contig(64, 1).unwrap();
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}

#[test]
fn c6_a_get_that_is_too_late_leaves_nothing_in_its_callers_page() {
    let (reserve, hook, [mut guest, _]) = hooked(64);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    guest.put(key(pool, 0, 1), &page(7)).unwrap();
    // The owner takes the frame and writes, before the guest copies.
    let owner = move || {
        let run = reserve.alloc_contig(64, 1).unwrap();
        reserve.platform().toy().fill(run, 0x5ec2e7);
    };
    hook.set(At::Load, owner);
    let mut out = [0x5ec2e7; 512];
    assert!(!guest.get(key(pool, 0, 1), &mut out));
    assert_eq!(out, [0; 512]);
}

#[test]
fn a_page_whose_writing_fails_is_tried_again_when_all_others_have_been() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    for n in 0..10 {
        guest.put_dirty(key(pool, 0, n), &page(n)).unwrap();
    }
    let mut written = 0;
    for _ in 0..100 {
        written += guest.clean(1, |k, _| k.index != 0).written;
    }
    assert_eq!(written, 9);
}

#[test]
fn a_put_that_finds_the_index_full_leaves_nothing() {
    let (reserve, _) = reserve(7680, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut full = 0;
    for n in 0..7600 {
        match guest.put_dirty(key(pool, 0, n), &page(n)) {
            Ok(()) => {}
            Err(PutRefused::IndexFull) => {
                full += 1;
                assert!(!guest.get(key(pool, 0, n), &mut [0; 512]));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    // Seven keys of a bucket where two are expected: one in a thousand.
    assert!((1..20).contains(&full), "{full} of 7600");
    assert_eq!(reserve.stats().guests().held_pages, 7600 - full);
    reserve.verify().unwrap();
}
