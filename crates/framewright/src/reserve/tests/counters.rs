//! Each counter counts what its calls did.

use super::*;
use crate::random::Random;
use crate::stats::{GuestStats, Occupancy};

fn key(pool: PoolId, object: u64, index: u64) -> Key {
    Key {
        pool,
        object,
        index,
    }
}

/// Counts beside the reserve what calls of one kind return.
#[derive(Default)]
struct CountedCalls(GuestStats);

impl CountedCalls {
    fn put(&mut self, put: Result<(), PutRefused>) {
        match put {
            Ok(()) => self.0.stored_pages += 1,
            Err(reason) => self.0.refused[reason as usize] += 1,
        }
    }

    fn get(&mut self, hit: bool) {
        if hit {
            self.0.loaded_pages += 1;
        } else {
            self.0.load_failed_pages += 1;
        }
    }
}

#[test]
fn every_counter_of_either_kind_is_what_its_guests_did() {
    let (reserve, _) = reserve(64, 2);
    let clean = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let swap = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    assert_eq!([clean.is_swap(), swap.is_swap()], [false, true]);
    let mut seats = [guest(&reserve, 0), guest(&reserve, 1)];
    let mut tallies = [CountedCalls::default(), CountedCalls::default()];
    tallies.iter_mut().for_each(|tally| tally.0.inits = 1);
    let mut out = [0; 512];
    let mut random = Random::new(7);
    for step in 0..4000u64 {
        let which = random.index(2);
        let pool = [clean, swap][which];
        let key = key(pool, random.below(4), random.below(32));
        let (seat, tally) = (&mut seats[(step & 1) as usize], &mut tallies[which]);
        match random.below(16) {
            0..6 => tally.put(seat.put(key, &page(step))),
            6 => tally.put(seat.put_dirty(key, &page(step))),
            7..13 => tally.get(seat.get(key, &mut out)),
            13 => {
                seat.invalidate_page(key);
                tally.0.invalidated_pages += 1;
            }
            14 => {
                seat.invalidate_object(pool, key.object);
                tally.0.invalidated_objects += 1;
            }
            _ => {
                seat.clean(3, |_, _| true);
            }
        }
        if step % 500 == 0 {
            let run = reserve.alloc_contig(5, 1).unwrap();
            reserve.release(run).unwrap();
        }
    }
    let nowhere = PoolId(30 + u16::from(swap.is_swap()));
    tallies[1].put(seats[0].put(key(nowhere, 0, 0), &page(1)));
    tallies[1].get(seats[0].get(key(nowhere, 0, 0), &mut out));
    assert!(!seats[0].invalidate_pool(nowhere));
    tallies[1].0.invalidate_failed_pools = 1;
    assert!(seats[1].invalidate_pool(clean));
    tallies[0].0.invalidated_pools = 1;

    let stats = reserve.stats();
    for (tally, found) in tallies.iter().zip([stats.cleancache, stats.frontswap]) {
        // What guests cannot see: which pages went, and which are there.
        let expected = GuestStats {
            evicted_pages: found.evicted_pages,
            reclaimed_pages: found.reclaimed_pages,
            held_pages: found.held_pages,
            ..tally.0
        };
        assert_eq!(found, expected);
        assert!(
            found.stored_pages > 500 && found.loaded_pages > 50,
            "{found:?}"
        );
        assert!(
            found.evicted_pages > 0 && found.reclaimed_pages > 0,
            "{found:?}"
        );
    }
    assert_eq!(stats.takes, 8);
    assert_eq!(stats.released_frames, 40);
    assert_eq!(stats.taken_free + stats.taken_cold + stats.taken_hot, 40);
    let guests = stats.guests();
    assert_eq!(guests.reclaimed_pages, stats.taken_cold + stats.taken_hot);
    let occupancy = reserve.occupancy();
    assert_eq!(occupancy.frames(), 64);
    assert_eq!(
        guests.held_pages,
        occupancy.cached + occupancy.dirty + occupancy.without_frame
    );
    reserve.verify().unwrap();
}

#[test]
fn pages_that_went_are_counted_by_the_way_they_went() {
    let (reserve, _) = reserve(64, 1);
    let clean = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let swap = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..40 {
        guest.put(key(clean, 0, index), &page(index)).unwrap();
    }
    for index in 0..24 {
        guest.put(key(swap, 0, index), &page(index)).unwrap();
    }
    // Ten of the oldest go for ten more.
    for index in 24..34 {
        guest.put(key(swap, 0, index), &page(index)).unwrap();
    }
    let stats = reserve.stats();
    assert_eq!(stats.cleancache.evicted_pages, 10);
    assert_eq!(stats.cleancache.held_pages, 30);
    assert_eq!(stats.frontswap.evicted_pages, 0);
    assert_eq!(stats.frontswap.held_pages, 34);
    // A get marks a page that stays.
    assert!(guest.get(key(swap, 0, 33), &mut out));
    guest.invalidate_page(key(swap, 0, 0));
    let all = reserve.alloc_contig(64, 1).unwrap();
    let stats = reserve.stats();
    assert_eq!(
        (stats.taken_free, stats.taken_cold, stats.taken_hot),
        (1, 62, 1)
    );
    assert_eq!(stats.cleancache.reclaimed_pages, 30);
    assert_eq!(stats.frontswap.reclaimed_pages, 33);
    assert_eq!(stats.guests().held_pages, 0);
    assert_eq!(guest.put(key(clean, 0, 0), &page(0)), Err(PutRefused::Full));
    assert_eq!(reserve.stats().cleancache.refused, [0, 1, 0, 0, 0]);
    reserve.release(all).unwrap();
}

#[test]
fn a_frame_is_counted_once_and_by_what_it_is() {
    let (reserve, _) = reserve(64, 1);
    let clean = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let swap = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    for index in 0..3 {
        guest.put(key(clean, 0, index), &page(index)).unwrap();
        guest.put_dirty(key(swap, 0, index), &page(index)).unwrap();
    }
    guest.put(key(clean, 1, 0), &[9; 512]).unwrap();
    let kept = reserve.reserve("kept", 8, 1).unwrap();
    let taken = reserve.take(kept).unwrap();
    let run = reserve.alloc_contig(4, 1).unwrap();
    let during = core::cell::Cell::new(0);
    guest.clean(1, |_, _| {
        during.set(reserve.occupancy().writing);
        true
    });
    assert_eq!(during.get(), 1);
    let expected = Occupancy {
        free: 64 - 8 - 4 - 6,
        cached: 4,
        dirty: 2,
        owned: 12,
        reserved: 8,
        without_frame: 1,
        ..Occupancy::default()
    };
    assert_eq!(reserve.occupancy(), expected);
    assert_eq!(expected.frames(), 64);
    let text = std::format!("{expected}");
    assert!(text.starts_with("frames_free 46\n"), "{text}");
    reserve.release(run).unwrap();
    reserve.release(taken).unwrap();
    assert_eq!(reserve.occupancy().owned, 0);
}

#[test]
fn a_number_of_a_pool_keeps_its_kind_and_each_kind_has_as_many_as_there_may_be() {
    let (reserve, _) = reserve(64, 1);
    let mut guest = guest(&reserve, 0);
    for config in [PoolConfig::CLEAN, PoolConfig::SWAP] {
        let pools: Vec<_> = core::iter::from_fn(|| reserve.open_pool(&config)).collect();
        assert_eq!(pools.len(), 16);
        assert!(pools.iter().all(|pool| pool.is_swap() == config.is_swap));
        assert!(guest.invalidate_pool(pools[5]));
        assert_eq!(reserve.open_pool(&config), Some(pools[5]));
        assert_eq!(reserve.open_pool(&config), None);
    }
    let stats = reserve.stats();
    assert_eq!([stats.cleancache.inits, stats.frontswap.inits], [17, 17]);
}
