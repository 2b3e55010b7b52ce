//! The per-CPU lists: what they hold, how much moves at once, and that nothing is lost in them.

use super::super::percpu::Marks;
use super::{
    CPU, CpuId, Frame, LinuxBuddy, LinuxBuddyConfig, LinuxPolicy, Mobility, Movable, Order,
    Subject, Unmovable, order, zone_with,
};
use LinuxPolicy::{Linux44, Linux413, Linux612, Linux612NoFragment};

/// A zone large enough for a full batch: 4.4 moves 31 frames from 128 MiB on, 6.12 moves 63 from 1 GiB on.
const FRAMES: u64 = 1 << 18;

/// As [`super::take`], without the recount: the zones are large here.
fn take(zone: &mut LinuxBuddy, order_: u8, mobility: Mobility) -> Option<u64> {
    let frame = zone.alloc(CPU, order(order_), mobility);
    frame.map(|frame| frame.0)
}

fn free(zone: &mut LinuxBuddy, frame: u64, order_: u8) {
    zone.free(CPU, Frame(frame), order(order_)).unwrap();
}

fn free_frames(zone: &LinuxBuddy) -> u64 {
    zone.free_blocks()
        .iter()
        .flat_map(|orders| orders.iter().enumerate())
        .map(|(order, &count)| count << order)
        .sum()
}

#[test]
fn the_marks_are_those_that_the_kernels_compute() {
    let trace = 1_474_560;
    let of = |policy, frames, cpus| {
        let marks = Marks::new(policy, frames, cpus);
        (marks.batch, marks.high)
    };
    assert_eq!(of(Linux44, trace, 2), (31, 186));
    assert_eq!(of(Linux413, trace, 2), (31, 186));
    // min = 11 pageblocks = 5632 > sqrt rule; low = 5632 + max(1408, 1474) = 7106.
    assert_eq!(of(Linux612, trace, 2), (63, 3553));
    assert_eq!(of(Linux612, trace, 64), (63, 252));
    // Small zones keep nothing.
    assert_eq!(of(Linux44, 512, 1), (1, 0));
    assert_eq!(of(Linux612, 512, 1).0, 1);
}

#[test]
fn a_refill_takes_a_batch_of_consecutive_frames_and_hands_them_out_ascending() {
    for (policy, batch) in [(Linux44, 31), (Linux413, 31), (Linux612, 63)] {
        let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(policy, FRAMES)).unwrap();
        for expected in 0..8 {
            assert_eq!(take(&mut zone, 0, Movable), Some(expected), "{policy}");
            assert_eq!(free_frames(&zone), FRAMES - batch, "{policy}");
        }
    }
}

#[test]
fn what_was_freed_last_is_taken_first() {
    let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux44, FRAMES)).unwrap();
    for _ in 0..4 {
        take(&mut zone, 0, Movable);
    }
    free(&mut zone, 0, 0);
    free(&mut zone, 2, 0);
    assert_eq!(take(&mut zone, 0, Movable), Some(2));
    assert_eq!(take(&mut zone, 0, Movable), Some(0));
    assert_eq!(take(&mut zone, 0, Movable), Some(4));
}

#[test]
fn linux_44_caches_single_frames_and_612_also_orders_1_to_3_and_huge_pages() {
    for order_ in 0..=10 {
        for (policy, caches) in [
            (Linux44, order_ == 0),
            (Linux612, order_ <= 3 || order_ == 9),
        ] {
            let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(policy, FRAMES)).unwrap();
            let frame = take(&mut zone, order_, Movable).unwrap();
            free(&mut zone, frame, order_);
            assert_eq!(free_frames(&zone) < FRAMES, caches, "{policy} {order_}");
            zone.drain();
            assert_eq!(free_frames(&zone), FRAMES, "{policy} {order_}");
        }
    }
}

#[test]
fn linux_44_returns_a_batch_of_31_when_186_frames_are_cached() {
    let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux44, FRAMES)).unwrap();
    let frames: Vec<_> = (0..310).map(|_| take(&mut zone, 0, Movable)).collect();
    let free_before = free_frames(&zone);
    assert_eq!(free_before, FRAMES - 310);
    for frame in &frames[..185] {
        free(&mut zone, frame.unwrap(), 0);
    }
    assert_eq!(free_frames(&zone), free_before);
    free(&mut zone, frames[185].unwrap(), 0);
    assert_eq!(free_frames(&zone), free_before + 31);
    zone.verify().unwrap();
}

#[test]
fn linux_612_doubles_a_refill_while_nothing_is_freed() {
    let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux612, FRAMES)).unwrap();
    let mut refills = Vec::new();
    let mut free = free_frames(&zone);
    for _ in 0..1000 {
        take(&mut zone, 0, Movable);
        let now = free_frames(&zone);
        if now != free {
            refills.push(free - now);
            free = now;
        }
    }
    // 63, then twice as much each time.
    assert_eq!(refills, [63, 126, 252, 504, 1008]);
}

#[test]
fn the_lists_of_another_cpu_are_emptied_before_a_request_fails() {
    for policy in LinuxPolicy::ALL {
        let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(policy, FRAMES)).unwrap();
        // The other CPU caches a batch of movable frames; then everything else is taken.
        let kept = zone.alloc(CpuId(1), Order::ZERO, Movable).unwrap();
        zone.free(CpuId(1), kept, Order::ZERO).unwrap();
        let mut taken = 0;
        while zone.alloc(CPU, Order::ZERO, Unmovable).is_some() {
            taken += 1;
        }
        assert_eq!(taken, FRAMES, "{policy}");
    }
}

#[test]
fn a_refill_that_may_not_fragment_stops_where_its_own_list_ends() {
    // Five free frames in the unmovable pageblock, 24 in a movable one that is no claim.
    for (policy, fallbacks) in [(Linux612, 24), (Linux612NoFragment, 0)] {
        let config = LinuxBuddyConfig::new(policy, FRAMES);
        let used = [
            (0..507, Unmovable),
            (512..1000, Movable),
            (1024..FRAMES, Movable),
        ];
        let mut zone = zone_with(&config, &[Unmovable, Movable], &used);
        assert!(take(&mut zone, 0, Unmovable).is_some());
        let counts = zone.fallbacks()[Unmovable.index()][Movable.index()];
        assert_eq!(counts, fallbacks, "{policy}");
    }
}

#[test]
fn a_cpu_number_above_the_count_uses_the_lists_of_a_lower_one() {
    let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux44, FRAMES)).unwrap();
    let frame = zone.alloc(CpuId(3), Order::ZERO, Movable).unwrap();
    zone.free(CpuId(7), frame, Order::ZERO).unwrap();
    assert_eq!(zone.alloc(CpuId(1), Order::ZERO, Movable), Some(frame));
}
