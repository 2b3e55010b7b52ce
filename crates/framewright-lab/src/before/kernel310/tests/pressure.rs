//! Watermarks, direct reclaim, the background.

use super::*;
use crate::before::kernel310::watermark::Privileges;

/// A zone of one pageblock in which exactly those frames are free, with the marks given.
fn zone_with(used: &[(core::ops::Range<u32>, usize)], min: u64, low: u64, high: u64) -> Kernel310 {
    let mut kernel = kernel(Variant310::Before, &[(MOVABLE, used)]);
    kernel.marks = Watermarks310 {
        min,
        low,
        high,
        order_shift: 1,
    };
    kernel.background = Kswapd::new(1_000);
    kernel
}

/// A holder of a cache in these frames.
fn cache(frames: core::ops::Range<u64>) -> Holder310 {
    let holder = Holder310::new();
    holder.cache.borrow_mut().extend(frames);
    holder
}

fn ask(
    kernel: &mut Kernel310,
    holder: &Holder310,
    order_: u8,
    mobility: Mobility,
    context: Context,
) -> Option<Frame> {
    let request = PressureRequest {
        context,
        ..request(order_, mobility)
    };
    let frame = holder.with(|tenants| kernel.alloc(tenants, request));
    kernel.verify().unwrap();
    frame
}

/// Gives the background time until it sleeps; how many looks.
fn run_to_sleep(kernel: &mut Kernel310, holder: &Holder310) -> u64 {
    let mut looks = 0;
    while kernel.background_is_awake() {
        holder.with(|tenants| kernel.background(tenants, 10));
        kernel.verify().unwrap();
        looks += 10;
        assert!(looks < 10_000_000, "it does not end");
    }
    looks
}

#[test]
fn the_marks_are_those_of_the_documents_phone() {
    let layout = Layout310 {
        extra_free_kbytes: 24_300,
        ..Layout310::new(2_792_568 / 4)
    };
    let marks = Kernel310::new(&layout, Variant310::Before).unwrap().marks();
    // 4 * sqrt(2,792,568) = 6684 KiB.
    assert_eq!(marks.min, 6684 / 4);
    assert_eq!(marks.low, 1671 + 417 + 6075);
    assert_eq!(marks.high, 1671 + 835 + 6075);
}

#[test]
fn frames_in_lower_orders_do_not_count_for_higher_ones() {
    // 32 single frames, 8 blocks of order 1, 4 of order 2.
    let mut used: Vec<_> = (0..32).map(|i| (2 * i..2 * i + 1, MOVABLE)).collect();
    used.extend((16..24).map(|i| (4 * i..4 * i + 2, MOVABLE)));
    used.extend((12..16).map(|i| (8 * i..8 * i + 4, MOVABLE)));
    used.push((128..1024, MOVABLE));
    let kernel = zone_with(&used, 0, 0, 0);
    assert_eq!(
        [0, 1, 2, 3].map(|order| kernel.zone.free_at(order)),
        [32, 8, 4, 0]
    );
    let above = |order, mark| kernel.is_above(order, mark, Privileges::NONE);
    assert!(above(0, 63) && !above(0, 64));
    // 64 - 1 - 32 = 31 above half the mark.
    assert!(above(1, 61) && !above(1, 62));
    // 64 - 3 - 32 = 29 above half of it, and 13 above a quarter.
    assert!(above(2, 51) && !above(2, 52));
    let mut lax = kernel;
    lax.marks.order_shift = 4;
    assert!(lax.is_above(2, 60, Privileges::NONE));
}

#[test]
fn free_frames_of_the_contiguous_area_count_only_for_requests_that_may_use_them() {
    let mut kernel = kernel(
        Variant310::Before,
        &[(UNMOVABLE, &[(0..1000, UNMOVABLE)]), (CMA, &[])],
    );
    (kernel.marks.min, kernel.marks.low) = (100, 100);
    let holder = Holder310::new();
    assert_eq!(ask(&mut kernel, &holder, 1, Unmovable, Context::ANY), None);
    assert!(ask(&mut kernel, &holder, 1, Movable, Context::ANY).is_some());
}

#[test]
fn a_request_that_cannot_wait_goes_below_min_and_one_that_would_rather_not_does_not() {
    // 40 frames are free; of 64 the atomic one has to leave 24.
    let used = [(0..512, MOVABLE), (552..1024, MOVABLE)];
    let rather_not = Context {
        may_block: true,
        ..Context::NOWAIT
    };
    let holder = Holder310::new();
    let mut kernel = zone_with(&used, 64, 64, 64);
    assert_eq!(ask(&mut kernel, &holder, 1, Unmovable, rather_not), None);
    assert!(!kernel.background_is_awake(), "and does not wake kswapd");
    assert!(ask(&mut kernel, &holder, 1, Unmovable, Context::NOWAIT).is_some());
    assert!(kernel.background_is_awake());
    let mut served = 1;
    while ask(&mut kernel, &holder, 1, Unmovable, Context::NOWAIT).is_some() {
        served += 1;
    }
    assert_eq!((served, kernel.free_frames()), (8, 24));
    assert_eq!(kernel.stats().allocstalls(), 0);
}

#[test]
fn below_low_the_background_is_woken_and_below_min_the_request_reclaims() {
    let mut kernel = zone_with(&[(0..512, MOVABLE)], 100, 200, 300);
    let holder = cache(0..512);
    let mut stalls = Vec::new();
    for _ in 0..500 {
        ask(&mut kernel, &holder, 1, Unmovable, Context::ANY).unwrap();
        stalls.push(kernel.stats().allocstalls());
        if stalls.len() == 155 {
            assert!(!kernel.background_is_awake(), "{}", kernel.free_frames());
        } else if stalls.len() == 157 {
            assert!(kernel.background_is_awake());
        }
        if kernel.stats().allocstalls() == 3 {
            break;
        }
    }
    let first = stalls.iter().position(|&n| n > 0).unwrap();
    assert_eq!(first, 206, "512 - 2 * 206 = 100");
    let stats = kernel.stats();
    assert_eq!(stats.kswapd_wake, 1);
    assert_eq!(stats.allocstall[1], 3);
    // With 512 pages priority 4 is the first to look at a cluster: 0+0+0+1+2+4+8+16 before it.
    assert!(stats.pgsteal_direct >= 3 * 32, "{stats}");
    assert_eq!(stats.pgsteal_direct, stats.pgscan_direct);
}

#[test]
fn a_request_stops_reclaiming_with_a_cluster() {
    let mut kernel = zone_with(&[(0..1024, MOVABLE)], 0, 0, 0);
    let holder = cache(0..1024);
    let got = holder.with(|tenants| kernel.direct_reclaim(tenants, 0, Context::ANY));
    // Priorities 10 to 5: 1 + 2 + 4 + 8 + 15 + 31 of what is left each time.
    let mut left = 1024;
    let mut expected = 0;
    for priority in (0..=12).rev() {
        let part = (left >> priority).min(32);
        expected += part;
        left -= part;
        if expected >= 32 {
            break;
        }
    }
    assert_eq!(got, expected);
    assert_eq!(kernel.stats().pgscan_direct, expected);
    kernel.verify().unwrap();
}

#[test]
fn a_request_of_a_costly_order_tries_once() {
    let mut kernel = zone_with(&[(0..1024, MOVABLE)], 0, 0, 0);
    let holder = Holder310::new();
    for frame in (0..1024).step_by(2) {
        holder.cache.borrow_mut().push(frame);
    }
    let before = holder.cache.borrow().len();
    let context = Context::NOFS;
    assert_eq!(ask(&mut kernel, &holder, 5, Unmovable, context), None);
    assert_eq!(kernel.stats().allocstall[5], 1);
    assert!(!holder.cache.borrow().is_empty(), "of {before}");
    // One of order 3 goes on until there is nothing left, each time another stall.
    assert_eq!(ask(&mut kernel, &holder, 3, Unmovable, context), None);
    assert!(kernel.stats().allocstall[3] > 5);
    assert!(holder.cache.borrow().is_empty());
}

#[test]
fn squeezed_to_nothing_a_request_fails_and_ends() {
    let mut kernel = zone_with(&[(0..1024, MOVABLE)], 0, 0, 0);
    let stingy = cache(0..1024);
    stingy.gives.set(0);
    for holder in [Holder310::new(), stingy] {
        for context in [Context::ANY, Context::NOFS, Context::NOIO, Context::NOWAIT] {
            for order_ in [0, 1, 3, 4, 10, 11] {
                let got = ask(&mut kernel, &holder, order_, Unmovable, context);
                assert_eq!(got, None, "order {order_}");
            }
        }
        assert!(kernel.background_is_awake());
        run_to_sleep(&mut kernel, &holder);
    }
}

#[test]
fn the_background_works_up_to_high_naps_and_sleeps() {
    let mut kernel = zone_with(&[(0..824, MOVABLE)], 50, 200, 300);
    let holder = cache(0..824);
    ask(&mut kernel, &holder, 0, Unmovable, Context::ANY).unwrap();
    assert!(kernel.background_is_awake());
    let looks = run_to_sleep(&mut kernel, &holder);
    assert!(kernel.free_frames() > 300);
    let stats = kernel.stats();
    assert!(stats.pgsteal_kswapd > 100);
    assert_eq!(stats.pgsteal_direct, 0);
    assert!((1_000..2_000).contains(&looks), "a nap is in it: {looks}");
    assert_eq!(
        (
            stats.kswapd_low_wmark_hit_quickly,
            stats.kswapd_high_wmark_hit_quickly
        ),
        (0, 0)
    );
    // Nothing to do: it is not woken.
    holder.with(|tenants| kernel.background(tenants, 1_000_000));
    assert_eq!(kernel.stats(), stats);
}

#[test]
fn a_request_that_wakes_it_from_its_nap_hits_low_quickly() {
    let mut kernel = zone_with(&[(0..824, MOVABLE)], 50, 200, 300);
    kernel.background = Kswapd::new(1_000_000);
    let holder = cache(0..824);
    ask(&mut kernel, &holder, 0, Unmovable, Context::ANY).unwrap();
    holder.with(|tenants| kernel.background(tenants, 10_000));
    assert!(kernel.background_is_awake(), "it naps");
    while kernel.stats().kswapd_wake < 2 {
        ask(&mut kernel, &holder, 1, Unmovable, Context::ANY).unwrap();
    }
    assert_eq!(kernel.stats().kswapd_low_wmark_hit_quickly, 1);
}

#[test]
fn what_it_finds_below_high_after_its_nap_was_hit_quickly() {
    let mut kernel = zone_with(&[(0..824, MOVABLE)], 50, 200, 300);
    kernel.background = Kswapd::new(10_000);
    let holder = cache(0..824);
    ask(&mut kernel, &holder, 0, Unmovable, Context::ANY).unwrap();
    holder.with(|tenants| kernel.background(tenants, 1_000));
    // Below high, but not below low, so that no request wakes it.
    while kernel.free_frames() > 250 {
        ask(&mut kernel, &holder, 1, Unmovable, Context::ANY).unwrap();
    }
    run_to_sleep(&mut kernel, &holder);
    let stats = kernel.stats();
    assert_eq!(stats.kswapd_wake, 1);
    assert_eq!(stats.kswapd_low_wmark_hit_quickly, 0);
    assert_eq!(stats.kswapd_high_wmark_hit_quickly, 1);
    assert!(kernel.free_frames() > 300);
}

#[test]
fn the_background_gives_an_order_up_that_scanning_everything_does_not_bring() {
    // Every second frame can be given back, and nothing moves: no block of order 1 ever.
    let mut kernel = zone_with(&[(0..1024, UNMOVABLE)], 0, 0, 10);
    let holder = Holder310::new();
    holder.cache.borrow_mut().extend((0..600).step_by(2));
    let context = Context {
        may_fs: false,
        ..Context::ANY
    };
    let _ = ask(&mut kernel, &holder, 4, Unmovable, context);
    assert!(kernel.background_is_awake());
    run_to_sleep(&mut kernel, &holder);
    assert_eq!(kernel.background_order(), 0);
}

#[test]
fn a_debt_of_the_background_is_paid_before_it_goes_on() {
    let mut kernel = zone_with(&[(0..824, MOVABLE)], 50, 200, 500);
    let holder = cache(0..824);
    ask(&mut kernel, &holder, 0, Unmovable, Context::ANY).unwrap();
    let mut given = 0;
    while kernel.stats().pgscan_kswapd < 100 {
        holder.with(|tenants| kernel.background(tenants, 1));
        given += 1;
    }
    // What the last round took in advance is at most the round.
    assert!(
        given + 200 > kernel.stats().pgscan_kswapd && given < 400,
        "{given}"
    );
}

/// Eight pageblocks of cache, and their holder.
fn full_of_cache() -> (Kernel310, Holder310) {
    let full: HeldBlock310<'_> = (MOVABLE, &[(0..1024, MOVABLE)]);
    (kernel(Variant310::Before, &[full; 8]), cache(0..8192))
}

#[test]
fn a_large_order_reclaims_until_compaction_has_two_blocks_of_frames() {
    // At priority 12 a look at this cache is one at two frames, later at one.
    let reclaimed = |order_| {
        let (mut kernel, holder) = full_of_cache();
        holder.with(|tenants| kernel.direct_reclaim(tenants, order_, Context::ANY))
    };
    // Twice 2^5, and enough that compaction finds them free; the CPU keeps some.
    assert!(
        (64 + 1..64 + 186).contains(&reclaimed(5)),
        "{}",
        reclaimed(5)
    );
    // In need, which begins at priority 9, a lower order does so too: the CPU keeps the first 186.
    assert!((187..250).contains(&reclaimed(3)), "{}", reclaimed(3));
    // Priorities 12 to 8: 2 + 3 + 7 + 15 + 31.
    assert_eq!(reclaimed(0), 2 + 3 + 7 + 15 + 31);
}

#[test]
fn a_costly_order_is_left_to_compaction_where_enough_is_free() {
    let (mut kernel, holder) = full_of_cache();
    for _ in 0..2 {
        for frame in (0..1024).step_by(2) {
            let frame = holder.cache.borrow_mut().remove(frame / 2);
            kernel.free(CPU, Frame(frame), Order::ZERO);
        }
        kernel.drain_all();
        let got = holder.with(|tenants| kernel.direct_reclaim(tenants, 4, Context::ANY));
        assert_eq!(got, 1);
        assert_eq!(kernel.stats().pgscan_direct, 0);
        kernel.marks.low = 0;
    }
    // Not enough of it: 1024 frames are free.
    kernel.marks.high = 1024 - (2 << 4);
    let got = holder.with(|tenants| kernel.direct_reclaim(tenants, 4, Context::ANY));
    assert!(got >= 32);
}

#[test]
fn a_hot_client_is_asked_for_less_but_not_at_the_end() {
    let scanned = |heat, gives| {
        let (mut kernel, holder) = full_of_cache();
        holder.heat.set(heat);
        holder.gives.set(gives);
        holder.with(|tenants| kernel.direct_reclaim(tenants, 0, Context::ANY));
        kernel.stats().pgscan_direct
    };
    assert_eq!(scanned(0, u64::MAX), 2 + 3 + 7 + 15 + 31);
    // Three quarters are spared: 0 + 1 + 1 + 3 + 7 + 15 + 31.
    assert_eq!(scanned(192, u64::MAX), 1 + 1 + 3 + 7 + 15 + 31);
    assert!(scanned(255, 0) >= 8192, "priority 0 spares no page");
}

#[test]
fn the_background_compacts_where_nothing_is_left_to_reclaim() {
    let odd: Vec<_> = (0..512).map(|i| (2 * i..2 * i + 1, MOVABLE)).collect();
    let pages = Holder310::new();
    pages.anon.borrow_mut().extend((0..512).map(|i| 2 * i));
    pages
        .anon
        .borrow_mut()
        .extend((0..512).map(|i| 1024 + 2 * i));
    let mut kernel = kernel(Variant310::Before, &[(MOVABLE, &odd), (MOVABLE, &odd)]);
    kernel.background = Kswapd::new(1_000);
    let atomic = Context::NOWAIT;
    assert_eq!(ask(&mut kernel, &pages, 3, Unmovable, atomic), None);
    run_to_sleep(&mut kernel, &pages);
    let stats = kernel.stats();
    assert_eq!(stats.compact_daemon_wake, 1);
    assert_eq!(stats.compact_stall, 0);
    assert!(stats.pgmigrate_success > 0);
    assert!(ask(&mut kernel, &pages, 3, Unmovable, atomic).is_some());
}
