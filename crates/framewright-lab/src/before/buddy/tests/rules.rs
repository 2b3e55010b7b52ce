//! One constellation a rule, with the rule's own numbers.

use super::super::{LinuxBuddyConfig, LinuxPolicy};
use super::*;
use LinuxPolicy::{Linux44, Linux413, Linux612, Linux612NoFragment, NoGrouping, Proposal};

/// Two pageblocks, the first unmovable with free blocks of order 3 (at 8) and order 0 (at 5), the
/// second movable and full.
fn unmovable_with_orders_3_and_0(policy: LinuxPolicy) -> LinuxBuddy {
    zone(
        policy,
        &[Unmovable, Movable],
        &[
            (0..5, Unmovable),
            (6..8, Unmovable),
            (16..512, Unmovable),
            (512..1024, Movable),
        ],
    )
}

#[test]
fn linux_44_breaks_the_largest_block_and_keeps_its_rest() {
    let mut zone = unmovable_with_orders_3_and_0(Linux44);
    assert_eq!(take(&mut zone, 0, Movable), Some(8));
    // Below order 4 a movable request moves nothing but the rest of the block it broke.
    assert_eq!(free_of(&zone, Movable), [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(free_of(&zone, Unmovable), [(0, 1)]);
    assert_eq!(label_of(&zone, 0), Unmovable);
    assert_eq!(fallbacks_of(&zone), [(Movable, Unmovable, 1)]);
}

#[test]
fn the_proposal_takes_the_smallest_block_where_the_largest_is_of_order_3() {
    let mut zone = unmovable_with_orders_3_and_0(Proposal);
    assert_eq!(take(&mut zone, 0, Movable), Some(5));
    assert_eq!(free_of(&zone, Unmovable), [(3, 1)]);
    assert_eq!(free_of(&zone, Movable), []);
    // An order-1 request searches from order 1 upward, and finds only the one of order 3.
    assert_eq!(take(&mut zone, 1, Movable), Some(8));
    assert_eq!(free_of(&zone, Movable), [(1, 1), (2, 1)]);
}

#[test]
fn the_proposal_takes_the_largest_block_where_that_is_of_order_4() {
    for (policy, first) in [(Proposal, 16), (Linux44, 16), (Linux413, 5), (Linux612, 5)] {
        // Order 4 at 16, order 0 at 5, in an unmovable pageblock that is otherwise full.
        let mut zone = zone(
            policy,
            &[Unmovable],
            &[(0..5, Unmovable), (6..16, Unmovable), (32..512, Unmovable)],
        );
        assert_eq!(take(&mut zone, 0, Movable), Some(first), "{policy}");
    }
}

#[test]
fn linux_413_serves_movable_requests_from_the_smallest_block_and_others_from_the_largest() {
    let mut movable = unmovable_with_orders_3_and_0(Linux413);
    assert_eq!(take(&mut movable, 0, Movable), Some(5));
    assert_eq!(free_of(&movable, Unmovable), [(3, 1)]);

    // One order makes the difference: order 1 at 4, order 0 at 9.
    let used = [(0..4, Unmovable), (6..9, Unmovable), (10..512, Unmovable)];
    let mut close = zone(Linux413, &[Unmovable], &used);
    assert_eq!(take(&mut close, 0, Movable), Some(9));

    // A reclaimable request moves all of the pageblock's free blocks, then takes the smallest.
    let mut other = unmovable_with_orders_3_and_0(Linux413);
    assert_eq!(take(&mut other, 0, Reclaimable), Some(5));
    assert_eq!(free_of(&other, Reclaimable), [(3, 1)]);
    assert_eq!(free_of(&other, Unmovable), []);
    assert_eq!(label_of(&other, 0), Unmovable);
}

#[test]
fn linux_44_moves_the_pageblock_and_relabels_it_at_half_of_it_free() {
    for (used, label) in [(256, Unmovable), (257, Movable)] {
        // `512 - used` frames are free, and the largest of their blocks has order 7 or 8.
        let mut zone = zone(Linux44, &[Movable], &[(0..used, Movable)]);
        assert!(take(&mut zone, 0, Unmovable).is_some());
        assert_eq!(free_of(&zone, Movable), [], "all free blocks moved");
        assert_eq!(label_of(&zone, 0), label, "{used} frames used");
    }
}

#[test]
fn linux_44_lets_a_movable_request_move_the_pageblock_from_order_4_on() {
    // The same free frames beside a block of order 4, and beside one of order 3.
    for (largest, left) in [(4, vec![]), (3, vec![(0, 1)])] {
        let mut zone = zone(
            Linux44,
            &[Reclaimable],
            &[
                (1..16, Reclaimable),
                (16 + (1 << largest)..512, Reclaimable),
            ],
        );
        assert_eq!(take(&mut zone, 0, Movable), Some(16));
        assert_eq!(free_of(&zone, Reclaimable), left);
    }
}

#[test]
fn half_the_pageblock_order_scales_with_the_pageblock() {
    // Pageblocks of 1024 frames, as in the document: half of order 10 is 5.
    for (largest, left) in [(5, vec![]), (4, vec![(0, 1)])] {
        let config = LinuxBuddyConfig {
            pageblock_order: 10,
            per_cpu_lists: false,
            ..LinuxBuddyConfig::new(Linux44, 1024)
        };
        let used = [(1..32, Unmovable), (32 + (1 << largest)..1024, Unmovable)];
        let mut zone = zone_with(&config, &[Unmovable], &used);
        assert_eq!(take(&mut zone, 0, Movable), Some(32));
        assert_eq!(free_of(&zone, Unmovable), left);
    }
}

#[test]
fn a_whole_pageblock_changes_its_label_and_an_order_10_block_changes_two() {
    for policy in [Linux44, Proposal, Linux413, Linux612, Linux612NoFragment] {
        let mut nine = zone(policy, &[Movable, Movable], &[(512..1024, Movable)]);
        assert_eq!(take(&mut nine, 0, Unmovable), Some(0), "{policy}");
        assert_eq!(nine.labels(), [1, 1, 0], "{policy}");
        let mut ten = zone(policy, &[Movable, Movable], &[]);
        assert_eq!(take(&mut ten, 9, Reclaimable), Some(0), "{policy}");
        assert_eq!(ten.labels(), [0, 0, 2], "{policy}");
        assert_eq!(free_of(&ten, Reclaimable), [(9, 1)], "{policy}");
    }
}

#[test]
fn the_order_decides_before_the_table_of_mobilities_does() {
    for policy in [Linux44, Proposal, Linux413] {
        // Reclaimable first within order 5, but a movable block of order 6 before both.
        let used = [
            (32..512, Reclaimable),
            (512..520, Movable),
            (576..1024, Movable),
        ];
        let mut both = zone(policy, &[Reclaimable, Movable], &used);
        let found = take(&mut both, 3, Unmovable).unwrap();
        assert_eq!(
            fallbacks_of(&both),
            [(Unmovable, Reclaimable, 1)],
            "{policy}: {found}"
        );
        let used = [(32..512, Reclaimable), (576..1024, Movable)];
        let mut larger = zone(policy, &[Reclaimable, Movable], &used);
        take(&mut larger, 3, Unmovable).unwrap();
        assert_eq!(fallbacks_of(&larger), [(Unmovable, Movable, 1)], "{policy}");
    }
}

#[test]
fn each_mobility_falls_back_in_the_order_of_the_table() {
    for policy in [Linux44, Proposal, Linux413, Linux612, Linux612NoFragment] {
        for (wanted, first, second) in [
            (Unmovable, Reclaimable, Movable),
            (Movable, Reclaimable, Unmovable),
            (Reclaimable, Unmovable, Movable),
        ] {
            // One free frame in a pageblock of each of the two others.
            let used = [(1..512, first), (513..1024, second)];
            let mut zone = zone(policy, &[first, second], &used);
            assert_eq!(take(&mut zone, 0, wanted), Some(0), "{policy} {wanted}");
            assert_eq!(take(&mut zone, 0, wanted), Some(512), "{policy} {wanted}");
            assert_eq!(take(&mut zone, 0, wanted), None, "{policy} {wanted}");
        }
    }
}

#[test]
fn since_412_allocated_frames_of_the_requesters_kind_count_for_the_label() {
    for policy in [Linux413, Linux612] {
        for (alike, label) in [(156, Unmovable), (155, Movable)] {
            // 100 free and 156 not movable are 256, half of 512.
            let used = [(100..100 + alike, Unmovable), (100 + alike..512, Movable)];
            let mut zone = zone(policy, &[Movable], &used);
            assert!(take(&mut zone, 2, Unmovable).is_some());
            assert_eq!(label_of(&zone, 0), label, "{policy} {alike}");
        }
        for (alike, label) in [(156, Movable), (155, Unmovable)] {
            let used = [(100..100 + alike, Movable), (100 + alike..512, Unmovable)];
            let mut zone = zone(policy, &[Unmovable], &used);
            assert!(take(&mut zone, 2, Movable).is_some());
            assert_eq!(label_of(&zone, 0), label, "{policy} {alike}");
        }
    }
    // 4.4 counts the free ones only.
    let used = [(100..300, Unmovable), (300..512, Movable)];
    let mut before = zone(Linux44, &[Movable], &used);
    assert!(take(&mut before, 2, Unmovable).is_some());
    assert_eq!(label_of(&before, 0), Movable);
}

#[test]
fn between_unmovable_and_reclaimable_nothing_counts_as_alike() {
    for policy in [Linux413, Linux612] {
        let mut zone = zone(policy, &[Reclaimable], &[(255..512, Unmovable)]);
        assert!(take(&mut zone, 0, Unmovable).is_some());
        assert_eq!(label_of(&zone, 0), Reclaimable, "{policy}");
    }
}

#[test]
fn linux_612_steals_the_smallest_block_and_leaves_its_rest_where_it_was() {
    // 24 free frames of 512 and nothing alike: no claim. Order 3 at 488, order 4 at 496.
    let mut zone = zone(Linux612, &[Movable], &[(0..488, Movable)]);
    assert_eq!(take(&mut zone, 0, Unmovable), Some(488));
    assert_eq!(free_of(&zone, Movable), [(0, 1), (1, 1), (2, 1), (4, 1)]);
    assert_eq!(free_of(&zone, Unmovable), []);
    assert_eq!(label_of(&zone, 0), Movable);
    assert_eq!(fallbacks_of(&zone), [(Unmovable, Movable, 1)]);
}

#[test]
fn linux_612_claims_with_all_free_blocks_and_then_takes_the_smallest() {
    // 256 free frames: order 7 at 384, order 6 at 320 and 64 of order 0.
    let mut used: Vec<_> = (0..64).map(|i| (2 * i..2 * i + 1, Movable)).collect();
    used.push((128..320, Movable));
    let mut zone = zone(Linux612, &[Movable], &used);
    assert_eq!(take(&mut zone, 0, Unmovable), Some(1));
    assert_eq!(free_of(&zone, Unmovable), [(0, 63), (6, 1), (7, 1)]);
    assert_eq!(label_of(&zone, 0), Unmovable);
}

#[test]
fn moved_blocks_go_to_the_head_until_510_and_to_the_tail_since() {
    for (policy, next) in [(Linux44, 190), (Linux413, 190), (Linux612, 180)] {
        // Order 8 at 256 is reason enough; with it move the single frames 180 and 190.
        let used = [(0..180, Movable), (181..190, Movable), (191..256, Movable)];
        let mut zone = zone(policy, &[Movable], &used);
        assert_eq!(take(&mut zone, 8, Unmovable), Some(256), "{policy}");
        assert_eq!(take(&mut zone, 0, Unmovable), Some(next), "{policy}");
    }
}

#[test]
fn linux_612_looks_at_one_block_an_order() {
    // Both pageblocks have a free block of order 5; only in the second is the rest free enough,
    // but there in frames that stand alone. The first one's block is first on the list.
    let singles = |start: u64| (0..240).map(move |i| (start + 2 * i..start + 2 * i + 1, Movable));
    let mut used = vec![(0..480, Movable)];
    used.extend(singles(512));
    for (order_, expected) in [(1, 480), (0, 513)] {
        let mut zone = zone(Linux612, &[Movable, Movable], &used);
        // Order 5 fails at the first pageblock. A request of order 0 comes down to the single
        // frames, whose pageblock has 240 + 32 = 272 free frames and is claimed.
        assert_eq!(take(&mut zone, order_, Unmovable), Some(expected));
        let label = if order_ == 0 { Unmovable } else { Movable };
        assert_eq!(label_of(&zone, 1), label);
        assert_eq!(label_of(&zone, 0), Movable);
    }
}

#[test]
fn linux_612_claims_nothing_below_order_4_for_movable_requests() {
    // 272 frames are free, in blocks of order 3 and of order 4: half of order 9 is 4.
    for (step, label) in [(8, Unmovable), (16, Movable)] {
        let used: Vec<_> = (0..512 / (2 * step))
            .map(|i| 2 * i * step..(2 * i + 1) * step)
            .map(|frames| (frames, Unmovable))
            .collect();
        let mut zone = zone(Linux612, &[Unmovable], &used);
        assert_eq!(take(&mut zone, 0, Movable), Some(step));
        assert_eq!(label_of(&zone, 0), label, "blocks of {step} frames");
    }
}

#[test]
fn a_freed_block_returns_to_the_list_of_its_pageblock() {
    for policy in LinuxPolicy::ALL {
        let mut zone = zone(policy, &[Movable], &[(0..510, Movable)]);
        let got = take(&mut zone, 1, Unmovable).unwrap();
        free(&mut zone, got, 1);
        let list = if policy == NoGrouping {
            Unmovable
        } else {
            Movable
        };
        assert_eq!(free_of(&zone, list), [(1, 1)], "{policy}");
    }
}

#[test]
fn without_grouping_there_is_one_list_and_no_fallback() {
    let mut zone = zone(NoGrouping, &[Movable, Unmovable], &[(2..1024, Movable)]);
    assert_eq!(take(&mut zone, 0, Unmovable), Some(0));
    assert_eq!(take(&mut zone, 0, Movable), Some(1));
    assert_eq!(fallbacks_of(&zone), []);
    assert_eq!(zone.labels(), [2, 0, 0]);
}

#[test]
fn a_block_that_waits_only_for_its_own_buddy_goes_to_the_tail() {
    for policy in LinuxPolicy::ALL {
        // Frame 4 is freed while 6..8 is free: with 5 it would make 4..8. Frame 20 has no such
        // hope, and is taken first although it was freed first.
        let mut zone = zone(policy, &[Movable], &[(0..6, Movable), (8..512, Movable)]);
        for frame in [20, 4] {
            free(&mut zone, frame, 0);
        }
        assert_eq!(take(&mut zone, 0, Movable), Some(20), "{policy}");
        assert_eq!(take(&mut zone, 0, Movable), Some(4), "{policy}");
    }
}

#[test]
fn blocks_up_to_order_8_wait_at_the_tail_and_order_9_does_not() {
    for policy in LinuxPolicy::ALL {
        // Frames 256..512 would make 0..512 with their buddy, beside which 512..1024 is free.
        let used = [(0..512, Movable), (1024..2048, Movable)];
        let mut eight = zone(policy, &[Movable; 4], &used);
        for frame in (1024..1280).chain(256..512) {
            eight.free(CPU, Frame(frame), order(0)).unwrap();
        }
        let freed_first = take(&mut eight, 8, Movable);
        assert_eq!(freed_first, Some(1024), "{policy}");

        // A lone order-9 block goes to the head although its pair's buddy is free.
        let used = [(0..1024, Movable), (2048..3072, Movable)];
        let mut nine = zone(policy, &[Movable; 6], &used);
        for frame in (2048..2560).chain(0..512) {
            nine.free(CPU, Frame(frame), order(0)).unwrap();
        }
        assert_eq!(take(&mut nine, 9, Movable), Some(0), "{policy}");
    }
}

#[test]
fn a_pageblock_cut_off_by_the_zones_end_is_not_moved_and_not_relabelled() {
    for policy in [Linux44, Proposal, Linux413, Linux612, Linux612NoFragment] {
        // 400 frames of the second pageblock exist; 128 of them are free, in orders 6 and 5.
        let config = LinuxBuddyConfig {
            per_cpu_lists: false,
            ..LinuxBuddyConfig::new(policy, 512 + 400)
        };
        let used = [
            (0..512, Movable),
            (512..576, Unmovable),
            (640..672, Unmovable),
        ];
        let mut zone = zone_with(&config, &[Movable, Movable], &used);
        assert!(take(&mut zone, 5, Unmovable).is_some());
        assert_eq!(label_of(&zone, 1), Movable, "{policy}");
        let left: u64 = free_of(&zone, Movable).iter().map(|&(o, n)| n << o).sum();
        assert!(
            left >= 304 - 128,
            "{policy}: {left} frames were left behind"
        );
    }
}

#[test]
fn an_order_10_block_is_freed_under_its_pageblocks_own_labels_where_lists_are_strict() {
    for (policy, labels) in [(Linux44, [1, 1, 0]), (Linux612, [2, 0, 0])] {
        let mut zone = zone(policy, &[Movable, Movable], &[]);
        assert_eq!(take(&mut zone, 10, Movable), Some(0));
        zone.set_label(1, Unmovable);
        free(&mut zone, 0, 10);
        // The second half comes last, takes in the first and gives it its label.
        assert_eq!(zone.labels(), labels, "{policy}");
    }
}

#[test]
fn labels_imposed_on_free_memory_keep_pageblocks_apart_until_the_first_request() {
    for policy in [Linux44, Linux612] {
        let mut zone = zone(policy, &[Unmovable, Movable], &[]);
        assert_eq!(free_of(&zone, Unmovable), [(9, 1)]);
        assert_eq!(free_of(&zone, Movable), [(9, 1)]);
        assert!(take(&mut zone, 10, Movable).is_some(), "{policy}");
    }
}

#[test]
fn names_are_found_again_and_limits_are_said() {
    for policy in LinuxPolicy::ALL {
        assert_eq!(LinuxPolicy::from_name(policy.name()), Some(policy));
        assert_eq!(policy.is_historical(), policy != NoGrouping);
    }
    assert_eq!(LinuxPolicy::from_name("linux-2.4"), None);
    let config = LinuxBuddyConfig::new(Linux44, 64);
    for (config, message) in [
        (
            LinuxBuddyConfig {
                frames: 1 << 32,
                ..config
            },
            "4294967296 frames are above the maximum 4293918720",
        ),
        (
            LinuxBuddyConfig {
                pageblock_order: 11,
                ..config
            },
            "pageblock order 11 is not between 1 and 10",
        ),
        (
            LinuxBuddyConfig { cpus: 0, ..config },
            "0 cpus are below the minimum 1",
        ),
    ] {
        assert_eq!(LinuxBuddy::new(&config).unwrap_err().to_string(), message);
    }
}
