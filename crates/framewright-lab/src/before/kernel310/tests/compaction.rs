//! Compaction on three pageblocks, where every look and every move can be counted by hand.

use super::*;
use crate::before::kernel310::compact::{Attempt310, Outcome310};

fn attempt(order: u8, sync: bool) -> Attempt310 {
    Attempt310 {
        order,
        list: UNMOVABLE,
        sync,
        background: false,
        cpu: 0,
    }
}

/// An attempt that never ends before the scanners meet: for the contiguous area, of which there is
/// none.
fn whole(sync: bool) -> Attempt310 {
    Attempt310 {
        list: CMA,
        ..attempt(8, sync)
    }
}

/// Three movable pageblocks: in the first every second frame holds a page, the second is full, in
/// the third every second frame is free.
fn scattered(label: usize, pages: &Holder310) -> Kernel310 {
    let odd: Vec<_> = (0..512).map(|i| (2 * i..2 * i + 1, MOVABLE)).collect();
    let kernel = kernel(
        Variant310::Before,
        &[
            (label, &odd),
            (MOVABLE, &[(0..1024, UNMOVABLE)]),
            (MOVABLE, &odd),
        ],
    );
    let mut anon = pages.anon.borrow_mut();
    anon.extend((0..512).map(|i| 2 * i));
    anon.extend((0..512).map(|i| 2048 + 2 * i));
    drop(anon);
    kernel
}

/// Every page is where its tag says, and nothing else is a page.
fn pages_are_where_the_holder_finds_them(kernel: &Kernel310, pages: &Holder310) {
    kernel.verify().unwrap();
    let anon = pages.anon.borrow();
    for &frame in anon.iter() {
        assert_eq!(kernel.zone.tag(frame as u32), Tag310::LRU, "{frame}");
    }
    let tags = kernel.zone.tags();
    let count = tags.iter().filter(|&&tag| tag == Tag310::LRU).count();
    assert_eq!(count, anon.len());
}

#[test]
fn a_request_gets_its_block_by_moving_pages_up() {
    let pages = Holder310::new();
    let mut kernel = scattered(MOVABLE, &pages);
    let got = pages.with(|tenants| kernel.alloc(tenants, request(3, Unmovable)));
    assert!(got.is_some());
    pages_are_where_the_holder_finds_them(&kernel, &pages);
    let stats = kernel.stats();
    assert_eq!(
        (
            stats.compact_stall,
            stats.compact_success,
            stats.compact_fail
        ),
        (1, 1, 0)
    );
    assert_eq!(stats.allocstalls(), 0);
    assert!(stats.pgmigrate_success > 0);
    assert_eq!(stats.pgmigrate_fail, 0);
}

#[test]
fn looks_are_counted_by_the_frame_and_isolation_on_both_sides() {
    let pages = Holder310::new();
    let mut kernel = scattered(MOVABLE, &pages);
    let end = pages.with(|tenants| kernel.compact(tenants, whole(false)));
    assert_eq!(end, Outcome310::Complete);
    pages_are_where_the_holder_finds_them(&kernel, &pages);
    let stats = kernel.stats();
    // The first pageblock, and the second, full of what does not move.
    assert_eq!(stats.compact_migrate_scanned, 2048);
    // The third one gives all its free frames at the first look.
    assert_eq!(stats.compact_free_scanned, 1024);
    assert_eq!(stats.compact_isolated, 512 + 512);
    assert_eq!(stats.pgmigrate_success, 512);
}

#[test]
fn at_first_only_pageblocks_of_movable_pages_are_emptied() {
    let pages = Holder310::new();
    let mut kernel = scattered(RECLAIMABLE, &pages);
    let end = pages.with(|tenants| kernel.compact(tenants, whole(false)));
    assert_eq!(end, Outcome310::Complete);
    assert_eq!(kernel.stats().pgmigrate_success, 0);
    // One look at the first pageblock, the second, and a cluster of the third, for which there is
    // nothing above.
    assert_eq!(kernel.stats().compact_migrate_scanned, 1 + 1024 + 63);
    let end = pages.with(|tenants| kernel.compact(tenants, whole(true)));
    assert_eq!(end, Outcome310::Complete);
    assert_eq!(kernel.stats().pgmigrate_success, 512);
    pages_are_where_the_holder_finds_them(&kernel, &pages);
}

#[test]
fn nothing_is_moved_to_whole_free_pageblocks_or_to_those_of_other_types() {
    let pages = Holder310::new();
    let odd: Vec<_> = (0..512).map(|i| (2 * i..2 * i + 1, MOVABLE)).collect();
    for above in [
        (MOVABLE, &[][..]),
        (UNMOVABLE, &[(0..4, UNMOVABLE)]),
        (RESERVE, &[]),
    ] {
        let mut kernel = kernel(Variant310::Before, &[(MOVABLE, &odd), above]);
        // So that the whole pageblock is no reason to leave off.
        kernel.marks.low = kernel.free_frames() - 513;
        let end = pages.with(|tenants| kernel.compact(tenants, whole(true)));
        assert_ne!(end, Outcome310::Skipped);
        assert_eq!(kernel.stats().pgmigrate_success, 0);
        assert_eq!(kernel.stats().compact_free_scanned, 0);
        kernel.verify().unwrap();
    }
}

#[test]
fn pinned_pages_stay_and_are_counted() {
    let pages = Holder310::new();
    let mut kernel = scattered(MOVABLE, &pages);
    let all = pages.anon.borrow().clone();
    pages.pinned.borrow_mut().extend(&all);
    let got = pages.with(|tenants| kernel.alloc(tenants, request(3, Unmovable)));
    assert_eq!(got, None);
    assert_eq!(*pages.anon.borrow(), all);
    pages_are_where_the_holder_finds_them(&kernel, &pages);
    let stats = kernel.stats();
    assert_eq!(stats.pgmigrate_success, 0);
    assert!(stats.pgmigrate_fail >= 512);
    assert_eq!(
        stats.compact_stall,
        1 + stats.compact_fail - stats.compact_stall.min(1)
    );
}

#[test]
fn a_page_in_use_is_tried_ten_times() {
    for (busy, stays) in [(9 * 32, false), (10 * 32, true)] {
        let pages = Holder310::new();
        let mut kernel = scattered(MOVABLE, &pages);
        pages.busy.set(busy);
        let end = pages.with(|tenants| kernel.compact(tenants, whole(false)));
        assert_eq!(end, Outcome310::Complete);
        pages_are_where_the_holder_finds_them(&kernel, &pages);
        assert_eq!(kernel.stats().pgmigrate_fail, 0);
        assert_eq!(pages.anon.borrow().contains(&0), stays);
        assert!(!pages.anon.borrow().contains(&64));
    }
}

#[test]
fn too_little_free_or_too_few_fragments_are_no_reason_to_compact() {
    let pages = Holder310::new();
    let mut kernel = scattered(MOVABLE, &pages);
    kernel.marks.low = 1024 - (2 << 3);
    let skipped = |kernel: &mut Kernel310, pages: &Holder310| {
        pages.with(|tenants| kernel.compact(tenants, attempt(3, true))) == Outcome310::Skipped
    };
    assert!(skipped(&mut kernel, &pages), "1024 frames are free");
    kernel.marks.low -= 1;
    assert!(!skipped(&mut kernel, &pages));
    // 36 free frames in two blocks: for order 5 memory is what lacks.
    let used = [(0..512, MOVABLE), (528..560, MOVABLE), (580..1024, MOVABLE)];
    let mut few = super::kernel(Variant310::Before, &[(MOVABLE, &used)]);
    let few_is_skipped = pages.with(|tenants| few.compact(tenants, attempt(5, true)));
    assert_eq!(few_is_skipped, Outcome310::Skipped);
}

#[test]
fn a_pageblock_that_gave_nothing_is_passed_by_until_the_background_sleeps() {
    let pages = Holder310::new();
    let mut kernel = scattered(MOVABLE, &pages);
    pages.with(|tenants| kernel.compact(tenants, whole(true)));
    let first = kernel.stats();
    // So that what came of it is no reason to leave off.
    kernel.marks.low = 511;
    kernel.drain_all();
    pages.with(|tenants| kernel.compact(tenants, whole(true)));
    let second = kernel.stats();
    // The second pageblock had nothing, the first nothing more; then a cluster of the third.
    let looks = second.compact_migrate_scanned - first.compact_migrate_scanned;
    assert_eq!(looks, 1 + 1 + 32);
    kernel.scanners.flush_if_due();
    pages.with(|tenants| kernel.compact(tenants, whole(true)));
    let third = kernel.stats();
    let looks = third.compact_migrate_scanned - second.compact_migrate_scanned;
    assert_eq!(looks, 1024 + 1024 + 32);
}

#[test]
fn failures_are_backed_off_from_twice_as_long_each_time() {
    let mut kernel = scattered(MOVABLE, &Holder310::new());
    let scanners = &mut kernel.scanners;
    let passed =
        |scanners: &mut compact::Scanners310| (0..).take_while(|_| scanners.is_deferred(3)).count();
    assert_eq!(passed(scanners), 0);
    for expected in [1, 3, 7, 15, 31, 63, 63] {
        scanners.defer(3);
        assert_eq!(passed(scanners), expected);
    }
    assert!(!scanners.is_deferred(2), "smaller orders did not fail");
    scanners.succeeded(3);
    assert_eq!(passed(scanners), 0);
}

#[test]
fn frames_of_a_large_movable_block_are_not_pages_of_their_own() {
    let pages = Holder310::new();
    let mut kernel = kernel(Variant310::Before, &[(MOVABLE, &[]), (MOVABLE, &[])]);
    let huge = pages
        .with(|tenants| kernel.alloc(tenants, request(9, Movable)))
        .unwrap();
    kernel.marks.low = 1_000;
    pages.with(|tenants| kernel.compact(tenants, whole(true)));
    assert_eq!(kernel.stats().compact_isolated, 0);
    kernel.free(CPU, huge, order(9));
    kernel.verify().unwrap();
}
