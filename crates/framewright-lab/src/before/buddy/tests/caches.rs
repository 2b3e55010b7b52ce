//! The per-CPU lists: what they hold, how much moves at once, and that nothing is lost in them.

use super::super::marks::PerCpuMarks;
use super::{
    BuddyMarks, CPU, CpuId, Frame, LinuxBuddy, LinuxBuddyConfig, LinuxPolicy, Mobility, Movable,
    Order, ReplaySubject, Unmovable, ZoneAllocator, order, zone_with,
};
use crate::replay::{FreeRefused, ZoneLists};
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
        let marks = PerCpuMarks::new(policy, frames, cpus);
        assert_eq!(marks.high_min, marks.high_max);
        (marks.batch, marks.high_min)
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
    // The oldest ones went.
    let cached = |frame: &Option<u64>| zone.frames.tag(frame.unwrap() as u32).is_cached();
    assert!(!frames[..31].iter().any(cached));
    assert!(frames[31..186].iter().all(cached));
}

#[test]
fn linux_44_takes_from_its_lists_in_turns_and_more_behind_an_empty_one() {
    let config = LinuxBuddyConfig::new(Linux44, FRAMES);
    let used = [(0..512, Unmovable), (512..1024, Movable)];
    let mut zone = zone_with(&config, &[Unmovable, Movable], &used);
    // 86 unmovable, 100 movable, none reclaimable: movable one, (none), unmovable two, and so on.
    for frame in 0..86 {
        free(&mut zone, 2 * frame, 0);
    }
    for frame in 0..100 {
        free(&mut zone, 512 + 2 * frame, 0);
    }
    let counts = zone.free_blocks();
    assert_eq!(counts[Unmovable.index()][0], 20);
    assert_eq!(counts[Movable.index()][0], 11);
}

#[test]
fn a_cached_frame_keeps_its_label_in_44_and_looks_it_up_in_612() {
    for (policy, list) in [
        (Linux44, Movable),
        (Linux413, Movable),
        (Linux612, Unmovable),
    ] {
        let config = LinuxBuddyConfig::new(policy, FRAMES);
        let mut zone = zone_with(&config, &[], &[(0..512, Movable)]);
        free(&mut zone, 0, 0);
        zone.set_label(0, Unmovable);
        zone.drain();
        assert_eq!(zone.free_blocks()[list.index()][0], 1, "{policy}");
    }
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
fn linux_612_refills_no_more_than_the_mark_leaves_room_for() {
    let config = LinuxBuddyConfig {
        cpus: 64,
        ..LinuxBuddyConfig::new(Linux612, FRAMES)
    };
    let mut zone = LinuxBuddy::new(&config).unwrap();
    assert_eq!(zone.marks.high_min, 4 * 63);
    let mut refill = |frames: usize| {
        let before = free_frames(&zone);
        let last = take_many(&mut zone, 0, frames).pop();
        (before - free_frames(&zone), last)
    };
    // 252 less a batch are 189; the doubling stops where it does not fit.
    let (mut refilled, mut last) = (Vec::new(), None);
    for frames in [63, 126, 189, 189] {
        let (count, frame) = refill(frames);
        refilled.push(count);
        last = frame;
    }
    assert_eq!(refilled, [63, 126, 189, 189]);
    // A free halves a quadrupling.
    free(&mut zone, last.unwrap(), 0);
    let before = free_frames(&zone);
    take_many(&mut zone, 0, 2);
    assert_eq!(before - free_frames(&zone), 126);
}

/// Allocates blocks of one order, movable.
fn take_many(zone: &mut LinuxBuddy, order_: u8, blocks: usize) -> Vec<u64> {
    (0..blocks)
        .map(|_| take(zone, order_, Movable).unwrap())
        .collect()
}

/// 6.12's mark for a zone of [`FRAMES`] and two CPUs, spelled out: 11 pageblocks are 5632 frames, a
/// quarter more are 7040, and half of that is a CPU's share.
const HIGH_612: u32 = 3520;

#[test]
fn linux_612_halves_the_doubling_at_each_free() {
    let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux612, FRAMES)).unwrap();
    // Two refills, 63 and 126: the next would be 252, after a free it is 126.
    let frames = take_many(&mut zone, 0, 63 + 126);
    free(&mut zone, frames[0], 0);
    let before = free_frames(&zone);
    take_many(&mut zone, 0, 2);
    assert_eq!(before - free_frames(&zone), 126);
}

#[test]
fn linux_612_returns_as_much_as_was_freed_in_a_row_and_at_least_a_batch() {
    for (pause, returned) in [(false, 2016), (true, 63)] {
        let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux612, FRAMES)).unwrap();
        assert_eq!(zone.marks.high_min, HIGH_612);
        let frames = take_many(&mut zone, 0, 8000);
        zone.drain();
        let before = free_frames(&zone);
        let below = HIGH_612 as usize - 1;
        for &frame in &frames[..below] {
            free(&mut zone, frame, 0);
        }
        assert_eq!(
            free_frames(&zone),
            before,
            "below the mark nothing goes back"
        );
        if pause {
            // Twelve allocations in between halve the count of frames freed to nothing.
            for frame in take_many(&mut zone, 0, 12) {
                free(&mut zone, frame, 0);
            }
        }
        free(&mut zone, frames[below], 0);
        // At most 63 << 5 frames are counted; what was cached first goes first.
        assert_eq!(free_frames(&zone) - before, returned);
        let (gone, kept) = frames[..below].split_at(returned as usize);
        let cached = |&frame: &u64| zone.frames.tag(frame as u32).is_cached();
        assert!(!gone.iter().any(cached));
        assert!(kept.iter().all(cached));
    }
}

#[test]
fn linux_612_returns_the_list_it_was_freeing_to_first() {
    let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux612, FRAMES)).unwrap();
    let singles = take_many(&mut zone, 0, 3000);
    let huge = take_many(&mut zone, 9, 2);
    zone.drain();
    for &frame in &singles {
        free(&mut zone, frame, 0);
    }
    let before = free_frames(&zone);
    free(&mut zone, huge[0], 9);
    assert_eq!(free_frames(&zone), before, "3000 + 512 are below the mark");
    free(&mut zone, huge[1], 9);
    // 2016 go back: both huge pages, then single frames.
    assert_eq!(free_frames(&zone) - before, 2016);
    let cached = |&frame: &u64| zone.frames.tag(frame as u32).is_cached();
    assert!(!huge.iter().any(cached));
    assert_eq!(singles.iter().filter(|frame| cached(frame)).count(), 2008);
}

#[test]
fn linux_612_soon_returns_blocks_of_orders_1_to_3_that_are_freed_in_a_row() {
    for (alternate, returned_at) in [(false, Some((913, 1826))), (true, None)] {
        let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(Linux612, FRAMES)).unwrap();
        let pairs = take_many(&mut zone, 1, 1000);
        let singles = take_many(&mut zone, 0, 1000);
        zone.drain();
        let before = free_frames(&zone);
        // 63 + 3520 / 2 = 1823 frames in a row: after 912 pairs there are 1824, and all go.
        let mut first = None;
        for (i, (&pair, &single)) in pairs.iter().zip(&singles).enumerate() {
            if alternate {
                free(&mut zone, single, 0);
            }
            free(&mut zone, pair, 1);
            let returned = free_frames(&zone) - before;
            if returned != 0 && first.is_none() {
                first = Some((i + 1, returned));
            }
        }
        assert_eq!(first, returned_at);
    }
}

#[test]
fn after_a_theft_the_rest_of_the_refill_is_stolen_too() {
    // The first single frame belongs to a pageblock that is full otherwise; behind it on the list
    // are those of a pageblock that could be claimed, if it were looked at.
    let config = LinuxBuddyConfig::new(Linux612, FRAMES);
    let mut used = vec![(1..512, Movable), (1024..FRAMES, Movable)];
    used.extend((0..256).map(|i| (512 + 2 * i..513 + 2 * i, Movable)));
    let mut zone = zone_with(&config, &[Movable, Movable], &used);
    assert_eq!(take(&mut zone, 0, Unmovable), Some(0));
    assert_eq!(zone.labels()[Unmovable.index()], 0);
    assert_eq!(zone.fallbacks()[Unmovable.index()][Movable.index()], 63);
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
    // Five free frames in the unmovable pageblock; a movable one with 256 could be claimed.
    for (policy, fallbacks) in [(Linux612, 1), (Linux612NoFragment, 0)] {
        let config = LinuxBuddyConfig::new(policy, FRAMES);
        let used = [
            (0..507, Unmovable),
            (512..768, Movable),
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

/// A zone of a machine whose high watermark is `high`, with lists for one CPU.
fn machine_zone(policy: LinuxPolicy, high: u64) -> LinuxBuddy {
    let marks = BuddyMarks {
        managed: FRAMES,
        high,
        boost_max: 1500,
        boost_first: 0,
        batch: 63,
        high_min: 300,
        high_max: 5000,
    };
    let config = LinuxBuddyConfig {
        cpus: 1,
        marks: Some(marks),
        percpu_first: &[400],
        ..LinuxBuddyConfig::new(policy, FRAMES)
    };
    LinuxBuddy::new(&config).unwrap()
}

#[test]
fn linux_612_raises_its_mark_while_it_takes_from_a_zone_with_plenty() {
    let mut zone = machine_zone(Linux612, 1000);
    take(&mut zone, 0, Movable);
    // A refill of 63 raises it by as much.
    assert_eq!(zone.percpu[0].high, 463);
    let held = take_many(&mut zone, 0, 20_000);
    assert_eq!(zone.percpu[0].high, 5000);
    // Below high it comes down as frames return, by as many as were freed in a row, and no further than its least.
    zone.high = FRAMES;
    for &frame in &held {
        free(&mut zone, frame, 0);
    }
    assert_eq!(zone.percpu[0].high, 300);
    zone.verify().unwrap();
    // 4.4 has one mark, by the frames that the machine's allocator was given.
    let old = machine_zone(Linux44, 1000);
    assert_eq!((old.marks.high_min, old.marks.high_max), (186, 186));
}

#[test]
fn linux_612_keeps_its_lists_short_while_the_background_reclaims() {
    let mut zone = machine_zone(Linux612, 1000);
    let held = take_many(&mut zone, 0, 10_000);
    for &frame in &held[..4000] {
        free(&mut zone, frame, 0);
    }
    assert!(zone.percpu[0].count > 4 * 63);
    zone.set_reclaiming(true);
    for &frame in &held[4000..8000] {
        free(&mut zone, frame, 0);
    }
    assert!(zone.percpu[0].count <= 4 * 63);
}

#[test]
fn linux_612_lowers_its_marks_by_an_eighth_each_second() {
    let mut zone = machine_zone(Linux612, 1000);
    take_many(&mut zone, 0, 20_000);
    zone.pass_time(999);
    assert_eq!(zone.percpu[0].high, 5000);
    zone.pass_time(1);
    assert_eq!(zone.percpu[0].high, 5000 - 625);
    for _ in 0..40 {
        zone.pass_time(1000);
    }
    assert_eq!(zone.percpu[0].high, 300);
    // What lies above goes back to the zone.
    assert!(zone.percpu[0].count <= 300);
    zone.verify().unwrap();
}

#[test]
fn a_try_to_claim_part_of_a_pageblock_raises_the_watermarks_since_50() {
    let boost = |policy| {
        let mut zone = machine_zone(policy, 1000);
        for pageblock in 0..FRAMES / 512 {
            assert!(zone.alloc_at(Frame(pageblock * 512), Order::ZERO, Movable));
        }
        assert!(take(&mut zone, 0, Unmovable).is_some());
        let before = zone.boost();
        zone.lower_boost(1000);
        (before, zone.boost())
    };
    // One pageblock for each order that was tried, up to the most.
    let (before, after) = boost(Linux612);
    assert!(before > 0 && before <= 1500, "{before}");
    assert_eq!(after, before.saturating_sub(1000));
    assert_eq!(boost(Linux44), (0, 0));
    assert_eq!(boost(Linux413), (0, 0));
}

#[test]
fn what_lay_on_the_cpus_lists_is_taken_so_that_the_others_are_listed_as_they_were() {
    for (policy, filled) in [(Linux612, [4, 4]), (Linux44, [0, 0])] {
        let config = LinuxBuddyConfig::new(policy, FRAMES);
        // Free: one frame, two, four, and a whole pageblock and more.
        let used = [(1..4, Unmovable), (6..8, Unmovable), (12..512, Unmovable)];
        let mut zone = zone_with(&config, &[Unmovable], &used);
        let (free, all) = (zone.frames.free(), zone.free_blocks());
        let mut listed = ZoneLists { free_blocks: all };
        // Of what does not move the four were not listed; of what moves four frames of the largest block.
        listed.free_blocks[Unmovable.index()][2] = 0;
        let movable = &mut listed.free_blocks[Movable.index()];
        let largest = movable.iter().rposition(|&blocks| blocks > 0).unwrap();
        movable[largest] -= 1;
        for blocks in &mut movable[2..largest] {
            *blocks += 1;
        }
        zone.fill_lists(&[5, 3, 9], &listed);
        let counts: Vec<u32> = zone.percpu.iter().map(|percpu| percpu.count).collect();
        assert_eq!(counts, filled, "{policy}");
        let left = if filled == [0, 0] {
            all
        } else {
            listed.free_blocks
        };
        assert_eq!(zone.free_blocks(), left, "{policy}");
        zone.verify().unwrap();
        zone.drain();
        assert_eq!(zone.listed_free(), free);
        assert_eq!(zone.free_blocks(), all);
        zone.verify().unwrap();
    }
}

#[test]
fn cpus_lists_take_no_more_than_there_is_and_than_lay_there() {
    let fresh = || LinuxBuddy::new(&LinuxBuddyConfig::new(Linux612, FRAMES)).unwrap();
    for (frames, left) in [
        ([FRAMES, FRAMES], 0),
        ([70, 7], FRAMES - 77),
        ([0, 0], FRAMES),
    ] {
        let mut zone = fresh();
        zone.fill_lists(&frames, &ZoneLists::default());
        assert_eq!(zone.listed_free(), left);
        zone.verify().unwrap();
    }
    // Nothing that was listed is taken, though lists had room.
    let mut zone = fresh();
    let listed = ZoneLists {
        free_blocks: zone.free_blocks(),
    };
    zone.fill_lists(&[FRAMES, 0], &listed);
    assert_eq!(zone.listed_free(), FRAMES);
}

#[test]
fn what_compaction_moves_goes_to_a_listed_place_or_stays() {
    let config = LinuxBuddyConfig::new(Linux612, 2048);
    let labels = [Movable, Movable, Movable, Unmovable];
    let used = [(0..10, Movable), (1600..1601, Unmovable)];
    let mut zone = zone_with(&config, &labels, &used);
    free(&mut zone, 9, 0);
    let free_before = free_frames(&zone);
    assert_eq!(zone.move_block(Frame(3), Frame(1500), order(0)), Ok(true));
    zone.verify().unwrap();
    let lists = zone.free_blocks();
    assert_eq!(free_frames(&zone), free_before);
    // Taken; in a CPU's list; outside.
    for to in [5, 9, 4096] {
        assert_eq!(zone.move_block(Frame(4), Frame(to), order(0)), Ok(false));
        zone.verify().unwrap();
    }
    let not_there = zone.move_block(Frame(100), Frame(200), order(0));
    assert_eq!(not_there, Err(FreeRefused));
    zone.verify().unwrap();
    assert_eq!(zone.free_blocks(), lists);
    assert!(zone.free(CPU, Frame(3), order(0)).is_err());
    free(&mut zone, 1500, 0);
    free(&mut zone, 4, 0);
    zone.verify().unwrap();
    let receives = [0, 1, 2, 3, 4].map(|pageblock| zone.receives_moved(pageblock, 1));
    assert_eq!(receives, [true, true, true, false, false]);
}
