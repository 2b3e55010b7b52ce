//! Fallback, the contiguous area and the reserve: which block a request gets, and what its pageblock becomes.

use super::*;

const FULL: &[(core::ops::Range<u32>, usize)] = &[(0..1024, UNMOVABLE)];

#[test]
fn own_list_first_and_the_smallest_block_that_suffices() {
    let mut kernel = kernel(
        Variant310::Before,
        &[
            (UNMOVABLE, &[(0..8, UNMOVABLE), (16..1024, UNMOVABLE)]),
            (MOVABLE, &[]),
        ],
    );
    assert_eq!(take(&mut kernel, 2, Unmovable), Some(8));
    assert_eq!(free_of(&kernel, UNMOVABLE), [(2, 1)]);
    assert_eq!(free_of(&kernel, MOVABLE), [(10, 1)]);
}

#[test]
fn before_splits_the_largest_block_and_keeps_the_rest() {
    // Movable has nothing; unmovable has blocks of orders 2 and 3.
    let blocks: &[HeldBlock310<'_>] = &[(
        UNMOVABLE,
        &[
            (0..8, UNMOVABLE),
            (16..20, UNMOVABLE),
            (24..1024, UNMOVABLE),
        ],
    )];
    let mut before = kernel(Variant310::Before, blocks);
    assert_eq!(take(&mut before, 1, Movable), Some(8));
    assert_eq!(free_of(&before, MOVABLE), [(1, 1), (2, 1)]);
    assert_eq!(free_of(&before, UNMOVABLE), [(2, 1)]);
    // The proposed one takes the smaller.
    let mut proposed = kernel(Variant310::Proposed, blocks);
    assert_eq!(take(&mut proposed, 1, Movable), Some(20));
    assert_eq!(free_of(&proposed, MOVABLE), [(1, 1)]);
    assert_eq!(free_of(&proposed, UNMOVABLE), [(3, 1)]);
}

#[test]
fn proposed_still_takes_the_largest_above_order_3() {
    let blocks: &[HeldBlock310<'_>] = &[(
        UNMOVABLE,
        &[
            (0..16, UNMOVABLE),
            (32..36, UNMOVABLE),
            (40..1024, UNMOVABLE),
        ],
    )];
    for variant in [Variant310::Before, Variant310::Proposed] {
        let mut kernel = kernel(variant, blocks);
        assert_eq!(take(&mut kernel, 1, Movable), Some(16));
        assert_eq!(free_of(&kernel, UNMOVABLE), [(2, 1)]);
        assert_eq!(free_of(&kernel, MOVABLE), [(1, 1), (2, 1), (3, 1)]);
    }
}

#[test]
fn proposed_takes_a_larger_block_where_no_smaller_one_suffices() {
    let mut kernel = kernel(
        Variant310::Proposed,
        &[(UNMOVABLE, &[(0..8, UNMOVABLE), (16..1024, UNMOVABLE)])],
    );
    assert_eq!(take(&mut kernel, 2, Movable), Some(8));
    assert_eq!(take(&mut kernel, 4, Movable), None);
}

#[test]
fn half_a_pageblocks_order_brings_the_rest_of_the_pageblock_along() {
    // Order 5 and two single frames; not half of the pageblock.
    let mut kernel = kernel(
        Variant310::Before,
        &[(
            MOVABLE,
            &[(0..32, MOVABLE), (64..100, MOVABLE), (101..1024, MOVABLE)],
        )],
    );
    assert_eq!(take(&mut kernel, 2, Unmovable), Some(32));
    assert_eq!(free_of(&kernel, MOVABLE), []);
    assert_eq!(
        free_of(&kernel, UNMOVABLE),
        [(0, 1), (2, 1), (3, 1), (4, 1)]
    );
    assert_eq!(kernel.labels()[MOVABLE], 1, "only {} frames were free", 33);
}

#[test]
fn half_a_pageblock_of_free_frames_brings_its_type() {
    let mut kernel = kernel(Variant310::Before, &[(MOVABLE, &[(0..512, MOVABLE)])]);
    assert_eq!(take(&mut kernel, 2, Unmovable), Some(512));
    assert_eq!(kernel.labels()[UNMOVABLE], 1);
}

#[test]
fn small_blocks_go_alone_unless_a_reclaimable_request_takes_them() {
    let blocks: &[HeldBlock310<'_>] = &[(
        MOVABLE,
        &[(0..16, MOVABLE), (32..100, MOVABLE), (101..1024, MOVABLE)],
    )];
    let mut unmovable = kernel(Variant310::Before, blocks);
    assert_eq!(take(&mut unmovable, 4, Unmovable), Some(16));
    assert_eq!(free_of(&unmovable, MOVABLE), [(0, 1)]);
    let mut reclaimable = kernel(Variant310::Before, blocks);
    assert_eq!(take(&mut reclaimable, 4, Reclaimable), Some(16));
    assert_eq!(free_of(&reclaimable, MOVABLE), []);
    assert_eq!(free_of(&reclaimable, RECLAIMABLE), [(0, 1)]);
}

#[test]
fn movable_takes_from_the_contiguous_area_first_and_leaves_the_rest_there() {
    let mut kernel = kernel(
        Variant310::Before,
        &[
            (MOVABLE, &[(0..1024, MOVABLE)]),
            (UNMOVABLE, &[]),
            (CMA, &[]),
        ],
    );
    assert_eq!(take(&mut kernel, 2, Movable), Some(2048));
    assert_eq!(free_of(&kernel, CMA).len(), 8);
    assert_eq!(kernel.labels(), [1, 0, 1, 0, 1]);
    assert_eq!(free_of(&kernel, UNMOVABLE), [(10, 1)]);
}

#[test]
fn where_the_contiguous_area_is_filled_first_movable_requests_do() {
    let blocks: &[HeldBlock310<'_>] = &[(MOVABLE, &[]), (CMA, &[(0..1020, MOVABLE)])];
    let mut kernel = kernel(Variant310::Before, blocks);
    kernel.cma_first = true;
    assert_eq!(take(&mut kernel, 2, Unmovable), Some(0));
    assert_eq!(take(&mut kernel, 2, Movable), Some(2044));
    assert_eq!(take(&mut kernel, 2, Movable), Some(512));
}

#[test]
fn only_movable_requests_get_the_contiguous_area() {
    let mut kernel = kernel(Variant310::Before, &[(UNMOVABLE, FULL), (CMA, &[])]);
    assert_eq!(take(&mut kernel, 0, Unmovable), None);
    assert_eq!(take(&mut kernel, 0, Reclaimable), None);
    assert_eq!(take(&mut kernel, 0, Movable), Some(1024));
}

#[test]
fn a_larger_block_of_a_later_list_goes_before_a_smaller_one_of_an_earlier() {
    let mut kernel = kernel(
        Variant310::Before,
        &[
            (CMA, &[(0..1020, MOVABLE)]),
            (RECLAIMABLE, &[(0..1016, RECLAIMABLE)]),
            (UNMOVABLE, &[(0..1008, UNMOVABLE)]),
        ],
    );
    assert_eq!(take(&mut kernel, 0, Movable), Some(2 * 1024 + 1008));
}

#[test]
fn the_reserve_is_asked_last_and_keeps_its_type() {
    let mut kernel = kernel(
        Variant310::Before,
        &[(RESERVE, &[]), (MOVABLE, &[(0..1023, MOVABLE)])],
    );
    assert_eq!(take(&mut kernel, 0, Unmovable), Some(2047));
    kernel.drain_all();
    assert_eq!(take(&mut kernel, 2, Unmovable), Some(0));
    kernel.free(CPU, Frame(0), order(2));
    assert_eq!(free_of(&kernel, RESERVE), [(10, 1)]);
    assert_eq!(kernel.labels(), [0, 0, 1, 1, 0]);
}

#[test]
fn a_freed_block_goes_to_the_list_of_its_pageblock() {
    let mut kernel = kernel(
        Variant310::Before,
        &[
            (RECLAIMABLE, &[(0..1024, UNMOVABLE)]),
            (CMA, &[(0..1024, MOVABLE)]),
        ],
    );
    for frame in [4, 5, 1024 + 8, 1024 + 9] {
        kernel.free(CPU, Frame(frame), Order::ZERO);
    }
    assert_eq!(free_of(&kernel, RECLAIMABLE), [], "the CPU has them");
    kernel.drain_all();
    kernel.verify().unwrap();
    assert_eq!(free_of(&kernel, RECLAIMABLE), [(1, 1)]);
    assert_eq!(free_of(&kernel, CMA), [(1, 1)]);
}

#[test]
fn at_the_start_memory_is_movable_but_for_the_contiguous_area_and_the_reserve() {
    let cma = [Run::new(Frame(2048), 1024).unwrap()];
    let absent = [Run::new(Frame(100), 50).unwrap()];
    let layout = Layout310 {
        cma: &cma,
        absent: &absent,
        min_free_kbytes: Some(4096),
        ..Layout310::new(6 * 1024)
    };
    let kernel = Kernel310::new(&layout, Variant310::Before).unwrap();
    kernel.verify().unwrap();
    assert_eq!(kernel.free_frames(), 6 * 1024 - 50);
    assert_eq!(kernel.labels(), [0, 0, 4, 1, 1]);
    assert_eq!(free_of(&kernel, RESERVE), [(10, 1)]);
    assert_eq!(kernel.zone.label(1024), RESERVE, "the first whole one");
    let two = Layout310 {
        min_free_kbytes: Some(80 << 10),
        ..layout
    };
    let kernel = Kernel310::new(&two, Variant310::Before).unwrap();
    assert_eq!(kernel.labels()[RESERVE], 2, "at most");
}

#[test]
fn a_layout_outside_its_limits_is_refused() {
    let refused = |layout: &Layout310<'_>| {
        Kernel310::new(layout, Variant310::Before)
            .unwrap_err()
            .to_string()
    };
    let fine = Layout310::new(4096);
    let none = Layout310 { cpus: 0, ..fine };
    assert_eq!(refused(&none), "0 cpus are below the minimum 1");
    let large = Layout310 {
        pageblock_order: 11,
        ..fine
    };
    assert_eq!(
        refused(&large),
        "pageblock order 11 is not between 1 and 10"
    );
    assert_eq!(
        refused(&Layout310::new(1 << 32)),
        "4294967296 frames are above the maximum 4293918720"
    );
    let hole = [Run::new(Frame(1030), 1).unwrap()];
    for (start, len, absent) in [(512, 1024, &[][..]), (4096, 1024, &[]), (1024, 1024, &hole)] {
        let cma = [Run::new(Frame(start), len).unwrap()];
        let layout = Layout310 {
            cma: &cma,
            absent,
            ..fine
        };
        assert_eq!(
            refused(&layout),
            format!(
                "frames {start} to {} of the contiguous area are not whole existing blocks of order 10",
                start + len
            )
        );
    }
}

#[test]
fn parts_of_a_block_are_freed_in_any_order() {
    let mut kernel = kernel(Variant310::Before, &[(MOVABLE, &[])]);
    let start = take(&mut kernel, 9, Unmovable).unwrap();
    for offset in (0..512).step_by(2).chain((1..512).step_by(2)) {
        kernel.free(CPU, Frame(start + (offset * 17) % 512), Order::ZERO);
        kernel.verify().unwrap();
    }
    kernel.drain_all();
    assert_eq!(kernel.zone.free_at(10), 1);
}

#[test]
fn what_is_not_allocated_cannot_be_freed() {
    let mut kernel = kernel(Variant310::Before, &[(MOVABLE, &[])]);
    let block = take(&mut kernel, 3, Movable).unwrap();
    let mut refuses = |frame: u64, order_: u8| {
        let free = || kernel.free(CPU, Frame(frame), order(order_));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(free)).is_err();
        kernel.verify().unwrap();
        refused
    };
    for (frame, order_) in [
        (block + 8, 0),
        (block, 4),
        (block + 1, 1),
        (1024, 0),
        (u64::MAX, 0),
        (0, 11),
    ] {
        assert!(refuses(frame, order_), "{frame} of order {order_}");
    }
    assert!(!refuses(block, 3));
    assert!(refuses(block, 3), "twice");
}
