//! What guests may rely on: C4 to C8.

use super::*;
use crate::random::Random;
use crate::units::RunError;

fn key(pool: PoolId, object: u64, index: u64) -> Key {
    Key {
        pool,
        object,
        index,
    }
}

#[test]
fn c5_after_a_second_put_no_get_returns_the_first() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    let key = key(pool, 0, 7);
    assert!(!guest.get(key, &mut out));
    guest.put(key, &page(1)).unwrap();
    guest.put(key, &page(2)).unwrap();
    assert!(guest.get(key, &mut out));
    assert_eq!(stamp(&out), 2);
    guest.invalidate_page(key);
    assert!(!guest.get(key, &mut out));
    reserve.verify().unwrap();
}

#[test]
fn c5_a_refused_put_leaves_no_older_version() {
    let (reserve, _) = reserve(8, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    guest.put(key(pool, 0, 0), &page(1)).unwrap();
    // Everything else is full of pages that may not be dropped.
    for index in 1..8 {
        guest.put_dirty(key(pool, 0, index), &page(9)).unwrap();
    }
    // The frame of the old version is free then, and an owner has it.
    let (reserve, taken) = (&reserve, reserve.alloc_contig(1, 1).unwrap());
    assert_eq!(taken.frames(), 1);
    assert!(!guest.get(key(pool, 0, 0), &mut out), "discarded");
    assert_eq!(guest.put(key(pool, 0, 1), &page(2)), Ok(()));
    assert!(guest.get(key(pool, 0, 1), &mut out));
    assert_eq!(
        guest.put(key(pool, 0, 8), &page(2)),
        Ok(()),
        "a clean one goes"
    );
    assert_eq!(
        guest.put_dirty(key(pool, 0, 2), &page(3)),
        Ok(()),
        "its own old frame"
    );
    for index in 2..9 {
        let _ = guest.put_dirty(key(pool, 0, index), &page(4));
    }
    assert_eq!(guest.put(key(pool, 0, 9), &page(5)), Err(PutRefused::Full));
    assert!(!guest.get(key(pool, 0, 9), &mut out));
    reserve.verify().unwrap();
}

#[test]
fn an_exclusive_get_takes_the_page_away() {
    let (reserve, _) = reserve(8, 1);
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    guest.put(key(pool, 1, 1), &page(3)).unwrap();
    assert!(guest.get(key(pool, 1, 1), &mut out));
    assert_eq!(stamp(&out), 3);
    assert!(!guest.get(key(pool, 1, 1), &mut out));
    assert_eq!(reserve.stats().guests().held_pages, 0);
    reserve.verify().unwrap();
}

#[test]
fn c6_an_object_and_a_pool_are_invalid_at_once() {
    let (reserve, _) = reserve(64, 1);
    let pools = [0; 2].map(|_| reserve.open_pool(&PoolConfig::SWAP).unwrap());
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for pool in pools {
        for index in 0..20 {
            guest
                .put(key(pool, index % 4, index), &page(index))
                .unwrap();
        }
    }
    guest.invalidate_object(pools[0], 1);
    for index in 0..20 {
        let hit = guest.get(key(pools[0], index % 4, index), &mut out);
        assert!(!hit || index % 4 != 1, "page {index} of the object");
    }
    assert!(guest.invalidate_pool(pools[0]));
    assert!(!guest.invalidate_pool(pools[0]));
    for index in 0..20 {
        assert!(!guest.get(key(pools[0], index % 4, index), &mut out));
    }
    assert_eq!(
        guest.put(key(pools[0], 0, 0), &page(1)),
        Err(PutRefused::NoPool)
    );
    assert!(guest.get(key(pools[1], 2, 2), &mut out));
    assert_eq!(stamp(&out), 2);
    // The number is given again, and the old pages are not the new pool's.
    let again = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    assert_eq!(again, pools[0]);
    assert!((0..20).all(|index| !guest.get(key(again, index % 4, index), &mut out)));
    reserve.verify().unwrap();
}

#[test]
fn a_page_of_one_repeated_word_needs_no_frame() {
    let (reserve, _) = reserve(4, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [1; 512];
    for index in 0..64 {
        guest.put(key(pool, 0, index), &[index; 512]).unwrap();
    }
    let run = reserve.alloc_contig(4, 4).unwrap();
    assert_eq!(reserve.stats().taken_free, 4, "no frame was in use");
    for index in 0..64 {
        assert!(guest.get(key(pool, 0, index), &mut out));
        assert_eq!(out, [index; 512]);
    }
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}

#[test]
fn the_oldest_that_no_guest_got_is_evicted_first() {
    let (reserve, _) = reserve(16, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..16 {
        guest.put(key(pool, 0, index), &page(index)).unwrap();
    }
    for index in 0..8 {
        assert!(guest.get(key(pool, 0, index), &mut out));
    }
    for index in 16..24 {
        guest.put(key(pool, 0, index), &page(index)).unwrap();
    }
    let there: Vec<u64> = (0..24)
        .filter(|&index| guest.get(key(pool, 0, index), &mut out))
        .collect();
    let expected: Vec<u64> = (0..8).chain(16..24).collect();
    assert_eq!(there, expected);
    assert_eq!(reserve.stats().guests().evicted_pages, 8);
    reserve.verify().unwrap();
}

#[test]
fn a_pool_keeps_its_least_and_does_not_grow_above_its_most() {
    let (reserve, _) = reserve(32, 1);
    let sheltered = PoolConfig {
        min_pages: 8,
        ..PoolConfig::SWAP
    };
    let bounded = PoolConfig {
        max_pages: 4,
        ..PoolConfig::SWAP
    };
    let [a, b, c] =
        [sheltered, PoolConfig::SWAP, bounded].map(|config| reserve.open_pool(&config).unwrap());
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..8 {
        guest.put(key(a, 0, index), &page(index)).unwrap();
    }
    for index in 0..100 {
        let _ = guest.put(key(c, 0, index), &page(index));
    }
    let count = |guest: &mut Guest<'_, '_, ReserveToy>, pool, of: u64, out: &mut [u64; 512]| {
        (0..of).filter(|&n| guest.get(key(pool, 0, n), out)).count()
    };
    assert_eq!(count(&mut guest, c, 100, &mut out), 4);
    for index in 0..200 {
        guest.put(key(b, 0, index), &page(index)).unwrap();
    }
    assert_eq!(count(&mut guest, a, 8, &mut out), 8);
    reserve.verify().unwrap();
}

/// The contract as a map that may forget.
#[test]
fn a_map_that_may_miss_agrees_with_every_step() {
    let (reserve, _) = reserve(48, 2);
    let pools = [PoolConfig::CLEAN, PoolConfig::SWAP].map(|c| reserve.open_pool(&c).unwrap());
    let mut guests = [guest(&reserve, 0), guest(&reserve, 1)];
    let mut model = std::collections::HashMap::new();
    let mut taken: Vec<Run> = Vec::new();
    let mut random = Random::new(12345);
    let mut next = |below: u64| random.below(below);
    let mut out = [0; 512];
    let (mut hits, mut takes) = (0, 0);
    for step in 0..60_000u64 {
        let guest = &mut guests[next(2) as usize];
        let k = key(pools[next(2) as usize], next(5), next(12));
        match next(20) {
            0..8 => {
                let page = if next(6) == 0 {
                    [step; 512]
                } else {
                    page(step)
                };
                model.remove(&k);
                let put = if k.pool == pools[1] && next(8) == 0 {
                    guest.put_dirty(k, &page)
                } else {
                    guest.put(k, &page)
                };
                if put.is_ok() {
                    model.insert(k, page);
                }
            }
            8..16 => {
                let known = model.get(&k).copied();
                if guest.get(k, &mut out) {
                    hits += 1;
                    assert_eq!(Some(out), known, "step {step}: {k:?}");
                    if k.pool == pools[0] {
                        model.remove(&k);
                    }
                } else {
                    // A miss stays a miss.
                    model.remove(&k);
                }
            }
            16 => {
                guest.invalidate_page(k);
                model.remove(&k);
            }
            17 if next(8) == 0 => {
                guest.invalidate_object(k.pool, k.object);
                model.retain(|other, _| other.pool != k.pool || other.object != k.object);
            }
            18 => {
                if let Ok(run) = reserve.alloc_contig(1 + next(6), 1 << next(3)) {
                    takes += 1;
                    let clash =
                        |other: &Run| other.start() < run.end() && run.start() < other.end();
                    assert!(!taken.iter().any(clash), "{run:?} is owned twice");
                    taken.push(run);
                }
            }
            _ => {
                if taken.len() > 4 || next(3) == 0 && !taken.is_empty() {
                    let run = taken.swap_remove(next(taken.len() as u64) as usize);
                    reserve.release(run).unwrap();
                }
            }
        }
        if step % 16 == 0 {
            reserve
                .verify()
                .unwrap_or_else(|e| panic!("step {step}: {e}"));
        }
    }
    assert!(hits > 5_000 && takes > 1_000, "{hits} hits, {takes} takes");
}

#[test]
fn c7_a_dirty_page_stays_until_it_is_written() {
    let (reserve, _) = reserve(16, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..12 {
        guest.put_dirty(key(pool, 0, index), &page(index)).unwrap();
    }
    for index in 100..200 {
        guest.put(key(pool, 0, index), &page(index)).unwrap();
    }
    assert!((0..12).all(|index| guest.get(key(pool, 0, index), &mut out)));
    assert_eq!(reserve.alloc_contig(16, 1), Err(RunError::NoRoom));
    // The device fails at every third, and one page is put again while it is written.
    let mut written = Vec::new();
    let mut nth = 0;
    let cleaned = guest.clean(12, |key, frame| {
        nth += 1;
        written.push((key.index, frame));
        nth % 3 != 0
    });
    assert_eq!((cleaned.written, cleaned.failed), (8, 4));
    written.sort();
    written.dedup();
    assert_eq!(
        written.len(),
        12,
        "each once, and each in a frame of its own"
    );
    reserve.verify().unwrap();
    assert_eq!(guest.clean(99, |_, _| true).written, 4);
    assert_eq!(guest.clean(99, |_, _| true), Cleaned::default());
    assert!((0..12).all(|index| guest.get(key(pool, 0, index), &mut out)));
    assert!(
        reserve.alloc_contig(16, 1).is_ok(),
        "they may be dropped now"
    );
    assert!((0..12).all(|index| !guest.get(key(pool, 0, index), &mut out)));
    reserve.verify().unwrap();
}

#[test]
fn c7_the_page_whose_nth_write_fails_keeps_its_frame_whatever_owners_take() {
    for nth in 0..12 {
        let (reserve, toy) = reserve(16, 1);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let mut guest = guest(&reserve, 0);
        for index in 0..12 {
            guest.put_dirty(key(pool, 0, index), &page(index)).unwrap();
        }
        let (mut calls, mut failed) = (0, None);
        let cleaned = guest.clean(12, |key, _| {
            if calls == nth {
                failed = Some(key.index);
            }
            calls += 1;
            failed != Some(key.index)
        });
        assert_eq!((cleaned.written, cleaned.failed), (11, 1));
        // Every other frame is an owner's.
        let owned: Vec<Run> = core::iter::from_fn(|| reserve.alloc_contig(1, 1).ok()).collect();
        assert_eq!(owned.len(), 15);
        owned.iter().for_each(|run| toy.fill(*run, 0xdead_beef));
        let mut out = [0; 512];
        for index in 0..12 {
            let is_there = guest.get(key(pool, 0, index), &mut out);
            assert_eq!(is_there, failed == Some(index));
            assert!(!is_there || stamp(&out) == index);
        }
        owned.iter().for_each(|run| reserve.release(*run).unwrap());
        assert_eq!(guest.clean(12, |_, _| true).written, 1);
        assert!(reserve.alloc_contig(16, 1).is_ok(), "it may be dropped now");
        reserve.verify().unwrap();
    }
}

#[test]
fn a_page_that_is_put_again_while_it_is_written_stays_dirty_in_its_new_version() {
    let (reserve, _) = reserve(16, 2);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut cleaner = guest(&reserve, 0);
    let mut other = guest(&reserve, 1);
    let mut out = [0; 512];
    cleaner.put_dirty(key(pool, 0, 1), &page(1)).unwrap();
    let cleaned = cleaner.clean(1, |written, _| {
        other.put_dirty(*written, &page(2)).unwrap();
        true
    });
    assert_eq!(cleaned.overtaken, 1);
    assert!(other.get(key(pool, 0, 1), &mut out));
    assert_eq!(stamp(&out), 2);
    reserve.verify().unwrap();
    let cleaned = cleaner.clean(9, |written, _| {
        other.invalidate_page(*written);
        false
    });
    assert_eq!(cleaned.overtaken, 1);
    assert!(!other.get(key(pool, 0, 1), &mut out));
    assert_eq!(reserve.stats().guests().held_pages, 0);
    reserve.verify().unwrap();
}

#[test]
fn a_pool_with_a_budget_of_dirty_pages_refuses_one_more_until_some_are_clean() {
    let (reserve, _) = reserve(64, 1);
    let config = PoolConfig {
        dirty_pages_max: 5,
        ..PoolConfig::SWAP
    };
    let pool = reserve.open_pool(&config).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..5 {
        guest.put_dirty(key(pool, 0, index), &page(index)).unwrap();
    }
    let over = guest.put_dirty(key(pool, 0, 5), &page(5));
    assert_eq!(over, Err(PutRefused::DirtyFull));
    assert!(!guest.get(key(pool, 0, 5), &mut out));
    assert_eq!(guest.put_dirty(key(pool, 0, 4), &page(14)), Ok(()));
    assert_eq!(guest.put(key(pool, 0, 6), &page(6)), Ok(()), "a clean one");
    // Each way in which a dirty page ends makes room for one.
    guest.invalidate_page(key(pool, 0, 0));
    assert_eq!(guest.put(key(pool, 0, 1), &page(11)), Ok(()));
    assert_eq!(guest.clean(2, |_, _| true).written, 2);
    assert_eq!(guest.clean(1, |_, _| false).failed, 1);
    for index in 7..11 {
        guest.put_dirty(key(pool, 0, index), &page(index)).unwrap();
    }
    let over = guest.put_dirty(key(pool, 0, 11), &page(11));
    assert_eq!(over, Err(PutRefused::DirtyFull));
    guest.invalidate_object(pool, 0);
    for index in 0..5 {
        guest.put_dirty(key(pool, 0, index), &page(index)).unwrap();
    }
    assert_eq!(
        guest.clean(1, |key, _| {
            assert!(key.index < 5);
            true
        }),
        Cleaned {
            written: 1,
            ..Cleaned::default()
        }
    );
    // A put that is refused for another reason is not counted.
    let all: Vec<Run> = core::iter::from_fn(|| reserve.alloc_contig(1, 1).ok()).collect();
    assert_eq!(all.len(), 60);
    assert_eq!(
        guest.put_dirty(key(pool, 0, 20), &page(20)),
        Err(PutRefused::Full)
    );
    all.iter().for_each(|run| reserve.release(*run).unwrap());
    assert_eq!(guest.put_dirty(key(pool, 0, 20), &page(20)), Ok(()));
    assert_eq!(
        guest.put_dirty(key(pool, 0, 21), &page(21)),
        Err(PutRefused::DirtyFull)
    );
    assert_eq!(
        reserve.stats().guests().refused[PutRefused::DirtyFull as usize],
        3
    );
    // A closed pool leaves nothing over for the next one of its number, even before a cleaner runs.
    guest.invalidate_pool(pool);
    let again = reserve.open_pool(&config).unwrap();
    assert_eq!(again, pool);
    assert_eq!(guest.clean(u64::MAX, |_, _| true), Cleaned::default());
    for index in 0..5 {
        guest.put_dirty(key(pool, 0, index), &page(index)).unwrap();
    }
    reserve.verify().unwrap();
}
