//! Counts one level above pageblocks.

use super::*;
use crate::frame::zone::Region;

#[test]
fn a_region_counts_its_contaminated_and_its_free_pageblocks() {
    let layout = ZoneLayout::new(Frame(0), 130 * 512);
    let mut words = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut words);
    let free = |free_pageblocks| Region {
        free_pageblocks,
        ..Region::default()
    };
    assert_eq!(zone.regions(), 3);
    assert_eq!([0, 1, 2].map(|nth| zone.region(nth)), [64, 64, 2].map(free));
    for (block, taken, mobility) in [
        (64, order(0), Movable),
        (65, order(0), Unmovable),
        (66, order(3), Reclaimable),
        (129, order(9), Unmovable),
    ] {
        zone.alloc_at(Frame(block * 512), taken, mobility).unwrap();
    }
    let second = Region {
        contaminated_pageblocks: 2,
        nonmovable_frames: 9,
        free_pageblocks: 61,
    };
    let last = Region {
        contaminated_pageblocks: 1,
        nonmovable_frames: 512,
        free_pageblocks: 1,
    };
    assert_eq!(
        [0, 1, 2].map(|nth| zone.region(nth)),
        [free(64), second, last]
    );
}

#[test]
fn from_8_gib_on_a_region_is_a_gibibyte() {
    for (blocks, regions) in [(64, 1), (65, 2), (4095, 64), (4096, 8), (4097, 9)] {
        let layout = ZoneLayout::new(Frame(0), blocks * 512);
        let mut words = memory(&layout);
        let zone = Zone::new(&layout, &Config::default(), &mut words, SingleThread::new()).unwrap();
        assert_eq!(zone.regions(), regions, "{blocks} pageblocks");
    }
}
