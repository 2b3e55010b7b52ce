//! Watermarks, rounds and targets as numbers: no zone is needed, because policies are pure.

extern crate std;
use super::*;
use std::string::ToString;

const CONFIG: ReclaimConfig = ReclaimConfig {
    priority_first: 12,
    rounds_max: 32,
    batch_frames: 32,
    quota_frames: 32,
    compactions_max: 3,
    defer_shift_max: 6,
    pageblocks_percent: 100,
    stock_percent: 0,
    boost_percent: 150,
    empties_for_nonmovable: true,
};

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

#[test]
fn each_limit_is_named_with_the_number_that_broke_it() {
    assert_eq!(ReclaimConfig::default().check(), Ok(()));
    let broken = [
        (
            ReclaimConfig {
                priority_first: 32,
                ..CONFIG
            },
            "priority_first 32 is above the maximum 31",
        ),
        (
            ReclaimConfig {
                rounds_max: 12,
                ..CONFIG
            },
            "rounds_max 12 is below the minimum 13",
        ),
        (
            ReclaimConfig {
                batch_frames: 0,
                ..CONFIG
            },
            "batch_frames 0 is below the minimum 1",
        ),
        (
            ReclaimConfig {
                quota_frames: 4097,
                ..CONFIG
            },
            "quota_frames 4097 is above the maximum 4096",
        ),
        (
            ReclaimConfig {
                compactions_max: 17,
                ..CONFIG
            },
            "compactions_max 17 is above the maximum 16",
        ),
        (
            ReclaimConfig {
                defer_shift_max: 17,
                ..CONFIG
            },
            "defer_shift_max 17 is above the maximum 16",
        ),
        (
            ReclaimConfig {
                pageblocks_percent: 1001,
                ..CONFIG
            },
            "pageblocks_percent 1001 is above the maximum 1000",
        ),
        (
            ReclaimConfig {
                stock_percent: 1001,
                ..CONFIG
            },
            "stock_percent 1001 is above the maximum 1000",
        ),
        (
            ReclaimConfig {
                boost_percent: 401,
                ..CONFIG
            },
            "boost_percent 401 is above the maximum 400",
        ),
    ];
    for (config, message) in broken {
        assert_eq!(config.check().unwrap_err().to_string(), message);
    }
}

#[test]
fn a_client_is_asked_for_more_the_deeper_the_colder_and_the_more_it_holds() {
    assert_eq!(share(1 << 20, 0, 12), 256);
    assert_eq!(share(1 << 20, 128, 12), 128);
    assert_eq!(share(1 << 20, 255, 12), 1);
    assert_eq!(share(u64::MAX, 0, 1), u64::MAX / 2);
    for heat in [0, 1, 100, 255] {
        let shares = [12, 11, 5, 1, 0].map(|priority| share(100_000, heat, priority));
        assert!(shares.is_sorted(), "{shares:?}");
        assert_eq!(shares[4], 100_000, "at the deepest everything");
    }
    assert!(share(100_000, 10, 3) > share(100_000, 11, 3));
    assert_eq!(share(4095, 0, 12), 0);
    assert_eq!(share(u64::MAX, 0, 200), 0);
}

#[test]
fn high_order_reclaim_goes_on_only_while_it_can_help() {
    // Order 3: 8 frames and as many again.
    assert_eq!(remedy(order(3), 116, 100, 0), Remedy::Compact);
    assert_eq!(remedy(order(3), 115, 100, 1), Remedy::Reclaim);
    assert_eq!(remedy(order(3), 115, 100, 0), Remedy::Nothing);
    assert_eq!(remedy(order(20), 0, u64::MAX, u64::MAX), Remedy::Reclaim);
}

#[test]
fn r3_rounds_deepen_and_end() {
    let mut priority = CONFIG.priority_first;
    let mut rounds = 1;
    while let Some(next) = next_priority(&CONFIG, priority, rounds, 0) {
        assert_eq!(next, priority - 1);
        priority = next;
        rounds += 1;
    }
    assert_eq!(
        (priority, rounds),
        (0, 13),
        "R7: the deepest came to nothing"
    );
    assert_eq!(next_priority(&CONFIG, 0, 31, 1), Some(0));
    assert_eq!(next_priority(&CONFIG, 0, 32, 1), None);
}

#[test]
fn the_quota_keeps_all_cpus_together_above_min() {
    assert_eq!(quota(&CONFIG, 10_000, 1000, 4), 32);
    assert_eq!(quota(&CONFIG, 1100, 1000, 4), 25);
    assert_eq!(quota(&CONFIG, 1003, 1000, 4), 0);
    assert_eq!(quota(&CONFIG, 0, 1000, 0), 0);
}

#[test]
fn targets_in_frames_stand_above_what_lies_in_the_pageblocks_that_are_kept() {
    // The document's device: 698,142 frames, pageblocks of 1024.
    let marks = Watermarks::of(698_142);
    assert_eq!((marks.min, marks.low, marks.high), (1670, 2087, 2505));
    let targets = CONFIG.targets(marks, order(10), 0);
    let pageblocks = targets.pageblocks;
    assert_eq!((pageblocks.min, pageblocks.low, pageblocks.high), (2, 3, 4));
    let frames = targets.frames;
    assert_eq!(frames.min, 1670);
    assert_eq!(frames.low, 2087 + 3 * 1024);
    assert_eq!(frames.high, 2505 + 4 * 1024);
    let raised = CONFIG.targets(marks, order(10), 2);
    assert_eq!(raised.pageblocks.high, 6);
    assert_eq!(raised.frames.high, frames.high + 2048);
    assert_eq!(raised.frames.min, frames.min);
    let without = ReclaimConfig {
        pageblocks_percent: 0,
        ..CONFIG
    };
    let plain = without.targets(marks, order(10), 1);
    assert_eq!(plain.pageblocks, Watermarks::default());
    assert_eq!(plain.frames.high, marks.high + 1024);
}

#[test]
fn the_stock_follows_the_pageblocks_and_no_more_than_eight_times_it_is_held_back() {
    let marks = Watermarks::of(698_142);
    let with = ReclaimConfig {
        stock_percent: 50,
        ..CONFIG
    };
    let (without, with) = (
        CONFIG.targets(marks, order(10), 0),
        with.targets(marks, order(10), 7),
    );
    assert_eq!(without.stock, Watermarks::default());
    // Half of 3 and 4 pageblocks, whatever the boost.
    assert_eq!((with.stock.low, with.stock.high), (1536, 2048));
    assert_eq!(with.frames.high, without.frames.high + 7 * 1024);
    assert_eq!(with.frames.min, without.frames.min);
    assert_eq!(held_back(1 << 40, &without), 0);
    assert_eq!(
        (held_back(5, &with), held_back(1 << 40, &with)),
        (5, 16_384)
    );
}

#[test]
fn a_boost_grows_by_pageblocks_up_to_its_limit_and_ends_when_it_was_reached() {
    // 150 % of 4096 are 6144 frames: 12 pageblocks of 512.
    let grown = |boost, fallbacks| boosted(&CONFIG, boost, fallbacks, 4096, order(9));
    assert_eq!(grown(0, 0), 0);
    assert_eq!(grown(0, 3), 3);
    assert_eq!(grown(3, 100), 12);
    assert_eq!(boosted(&CONFIG, 0, 1, 10, order(9)), 1);
    let without = ReclaimConfig {
        boost_percent: 0,
        ..CONFIG
    };
    assert_eq!(boosted(&without, 0, 5, 4096, order(9)), 0);
    assert_eq!((boost_after(5, true), boost_after(5, false)), (0, 2));
    assert_eq!(boost_after(1, false), 0);
}
