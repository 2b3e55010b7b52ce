//! What a cache that is full gives back, and how much of it at a time.

use super::*;

const PAGEBLOCKS: u64 = 40;

/// The pageblocks that have other counts than `before`.
fn changed(zone: &Zone<'_, impl crate::platform::FramePlatform>, before: &[u32]) -> usize {
    let now = free_of(zone);
    let pairs = before.iter().zip(&now);
    pairs.filter(|(before, now)| before != now).count()
}

fn free_of(zone: &Zone<'_, impl crate::platform::FramePlatform>) -> Vec<u32> {
    let blocks = 0..PAGEBLOCKS as usize;
    blocks.map(|block| zone.pageblock(block).free).collect()
}

/// The most pageblocks in which one of these frees gives blocks back, and the most blocks that one gives back. The cache
/// is full after the first 64, and `others` are in use meanwhile.
fn most_changed(frames: &[Frame], others: &[Frame]) -> (usize, usize) {
    let layout = ZoneLayout::new(Frame(0), 512 * PAGEBLOCKS);
    let mut memory = memory(&layout);
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let first = seat.alloc(order(0), Movable).unwrap();
    assert_eq!(seat.words.limit(Movable, 0), 64);
    zone.drain();
    for frame in frames.iter().chain(others) {
        zone.alloc_at(*frame, order(0), Movable).unwrap();
    }
    let (mut most, mut most_blocks) = (0, 0);
    for frame in frames {
        let before = free_of(&zone);
        let cached = seat.words.cached(Movable, 0);
        seat.free(*frame, order(0)).unwrap();
        let now = seat.words.cached(Movable, 0);
        assert!(now > cached || now > 32, "{cached} before, {now} now");
        most = most.max(changed(&zone, &before));
        most_blocks = most_blocks.max((cached + 1).saturating_sub(now));
        zone.verify().unwrap();
    }
    seat.free(first, order(0)).unwrap();
    seat.free_bulk(order(0), others).unwrap();
    zone.drain();
    assert_eq!(zone.recount().free, 512 * PAGEBLOCKS);
    (most, most_blocks)
}

#[test]
fn a_full_cache_gives_back_blocks_of_few_pageblocks_at_a_time() {
    // Neighbours in this list lie in different pageblocks: alone in a word, or with others of it.
    let frames = |together: u64| -> Vec<_> {
        let places =
            (0..4 * PAGEBLOCKS).map(|nth| nth % PAGEBLOCKS * 512 + 64 * (1 + nth / PAGEBLOCKS));
        places
            .flat_map(|place| (place..place + together).map(Frame))
            .collect()
    };
    assert_eq!(most_changed(&frames(1), &[]), (7, 7));
    assert_eq!(most_changed(&frames(2), &[]), (7, 14));
    // Half the cache, because those of a word go back together.
    assert_eq!(most_changed(&frames(4), &[]), (8, 32));
}

#[test]
fn blocks_that_change_little_go_back_in_many_pageblocks_at_a_time() {
    // Another frame of each word is in use, and makes a run of each order: none comes or goes with these.
    let places = |within: u64| -> Vec<_> {
        (0..5 * PAGEBLOCKS)
            .map(|nth| Frame(nth % PAGEBLOCKS * 512 + 64 * (nth / PAGEBLOCKS) + within))
            .collect()
    };
    assert_eq!(most_changed(&places(8), &places(1)), (32, 32));
}

#[test]
fn blocks_of_a_run_that_find_their_caches_full_go_back_in_one_turn() {
    let layout = ZoneLayout::new(Frame(0), 512 * PAGEBLOCKS);
    let mut memory = memory(&layout);
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    // All caches are full; the one of order 4 has room for one more.
    let room = |size: u8| (64 >> size) - usize::from(size == 4);
    for size in 0..5 {
        let blocks: Vec<_> = (0..128 >> size)
            .map(|_| seat.alloc(order(size), Unmovable).unwrap())
            .collect();
        for block in blocks {
            if seat.words.cached(Unmovable, size.into()) < room(size) {
                seat.free(block, order(size)).unwrap();
            }
        }
    }
    let caches =
        |seat: &Seat<'_, '_, _>| [0, 1, 2, 3, 4].map(|size| seat.words.cached(Unmovable, size));
    let full = caches(&seat);
    assert_eq!(full, [64, 32, 16, 8, 3]);
    let at = Frame(512 * (PAGEBLOCKS - 1));
    for (size, place) in [(4, 0), (3, 16), (2, 24), (1, 28), (0, 30)] {
        let block = Frame(at.0 + place);
        zone.alloc_at(block, order(size), Unmovable).unwrap();
    }
    let before = free_of(&zone);
    seat.free_frames(Run::new(at, 31).unwrap()).unwrap();
    assert_eq!(caches(&seat)[..4], full[..4], "none gives anything back");
    assert_eq!(caches(&seat)[4], full[4] + 1);
    let last = PAGEBLOCKS as usize - 1;
    assert_eq!(zone.pageblock(last).free, before[last] + 15);
    assert_eq!(changed(&zone, &before), 1);
    zone.verify().unwrap();
}

#[test]
fn blocks_of_a_run_go_into_caches_that_have_room_where_some_pageblock_is_isolated() {
    let layout = ZoneLayout::new(Frame(0), 512 * PAGEBLOCKS);
    let mut memory = memory(&layout);
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for size in 0..3 {
        seat.alloc(order(size), Unmovable).unwrap();
    }
    let at = Frame(512 * (PAGEBLOCKS - 1));
    for (size, place) in [(2, 0), (1, 4), (0, 6)] {
        let block = Frame(at.0 + place);
        zone.alloc_at(block, order(size), Unmovable).unwrap();
    }
    zone.isolate(Run::new(Frame(512 * 20), 512).unwrap())
        .unwrap();
    assert!(seat.words.is_restricted());
    let caches = |seat: &Seat<'_, '_, _>| [0, 1, 2].map(|size| seat.words.cached(Unmovable, size));
    let before = caches(&seat);
    seat.free_frames(Run::new(at, 7).unwrap()).unwrap();
    assert_eq!(caches(&seat), before.map(|cached| cached + 1));
    zone.verify().unwrap();
}

#[test]
fn one_full_cache_makes_room_for_the_rest_of_a_block_and_the_others_stay_as_they_are() {
    let layout = ZoneLayout::new(Frame(0), 512 * PAGEBLOCKS);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let first = seat.alloc(order(4), Unmovable).unwrap();
    seat.free(first, order(4)).unwrap();
    for size in [0, 1] {
        let blocks: Vec<_> = (0..128)
            .map(|_| seat.alloc(order(size), Unmovable).unwrap())
            .collect();
        for block in blocks {
            if seat.words.cached(Unmovable, size.into()) < 64 >> size {
                seat.free(block, order(size)).unwrap();
            }
        }
    }
    let caches = |seat: &Seat<'_, '_, _>| [0, 1].map(|size| seat.words.cached(Unmovable, size));
    assert_eq!(caches(&seat), [64, 32]);
    let looks = seat.looks();
    let run = seat.try_first((order(4), Unmovable), 13).unwrap();
    // A single and a pair are left: only the cache of singles, which comes first, gives some back.
    let [singles, pairs] = caches(&seat);
    assert!(
        run.frames() == 13 && singles < 40 && pairs == 32,
        "{singles}, {pairs}"
    );
    assert!(
        seat.looks() <= looks + 2,
        "one for the block, one for its rest"
    );
    seat.free_frames(run).unwrap();
    zone.verify().unwrap();
}

#[test]
fn a_pageblock_full_of_single_frames_goes_back_in_several_turns() {
    let layout = ZoneLayout::new(Frame(0), 512 * PAGEBLOCKS);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(100), &mut memory).with_lock_accounts();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let frames: Vec<_> = (0..128)
        .map(|_| seat.alloc(order(0), Movable).unwrap())
        .collect();
    for frame in frames {
        if seat.words.cached(Movable, 0) < 64 {
            seat.free(frame, order(0)).unwrap();
        }
    }
    let middle = PAGEBLOCKS as usize / 2;
    let at = Frame(512 * middle as u64);
    for mobilities in [[Movable, Movable], [Movable, Unmovable]] {
        for nth in 0..512 {
            let mobility = mobilities[nth as usize % 2];
            zone.alloc_at(Frame(at.0 + nth), order(0), mobility)
                .unwrap();
        }
        assert_eq!(zone.pageblock(middle).free, 0);
        let taken = || zone.stats().pageblock_locks.acquisitions;
        let before = taken();
        seat.free_frames(Run::new(at, 512).unwrap()).unwrap();
        let turns = taken() - before;
        assert!((6..=20).contains(&turns), "{turns} times locked");
        zone.verify().unwrap();
        zone.drain();
        assert_eq!(zone.pageblock(middle).free, 512);
    }
}
