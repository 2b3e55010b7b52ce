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

#[test]
fn a_full_cache_gives_back_blocks_of_few_pageblocks_at_a_time() {
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
    // Neighbours in this list lie in different pageblocks.
    let scattered: Vec<_> = (0..4 * PAGEBLOCKS)
        .map(|nth| Frame(nth % PAGEBLOCKS * 512 + 64 * (1 + nth / PAGEBLOCKS)))
        .collect();
    for frame in &scattered {
        zone.alloc_at(*frame, order(0), Movable).unwrap();
    }
    let mut most = 0;
    for frame in &scattered {
        let before = free_of(&zone);
        let cached = seat.words.cached(Movable, 0);
        seat.free(*frame, order(0)).unwrap();
        let now = seat.words.cached(Movable, 0);
        assert!(now > cached || now > 32, "{cached} before, {now} now");
        most = most.max(changed(&zone, &before));
        zone.verify().unwrap();
    }
    assert_eq!(most, 4);
    seat.free(first, order(0)).unwrap();
    zone.drain();
    assert_eq!(zone.recount().free, 512 * PAGEBLOCKS);
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
