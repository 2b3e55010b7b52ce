//! Zones behind their marks: which requests are served and from where, which wait, and which are refused.

use super::*;
use crate::before::buddy::{BuddyMarks, LinuxBuddy, LinuxBuddyConfig, LinuxPolicy};
use crate::trace::Trace;
use crate::trace::state::ZoneInfo;
use framewright::Run;
use framewright_sim::Random;

const CPU: CpuId = CpuId(0);
const OTHER: CpuId = CpuId(1);
use Mobility::{Movable, Unmovable};

const KERNEL: u32 = 0xcc0;
const NOWAIT: u32 = 0x2800;
const ATOMIC: u32 = 0x820;
const MEMALLOC: u32 = 0x2_0800;
const DMA32: u32 = 0xcc4;

/// Frames of the lower zone, and of both.
const LOWER: u64 = 2048;
const ALL: u64 = 6144;
const MARKS: [[u64; 3]; 2] = [[100, 200, 300], [400, 600, 800]];
/// What the lower zone keeps from requests that the upper one could serve.
const PROTECTED: u64 = 500;

fn info(nth: usize, start: u64, frames: u64) -> ZoneInfo {
    ZoneInfo {
        node: 0,
        zone: ["DMA", "DMA32", "Normal"][nth].into(),
        nth,
        free: frames,
        span: Run::new(Frame(start), frames).unwrap(),
        present: frames,
        managed: frames,
        watermarks: MARKS[nth - 1],
        boost: 0,
        protection: vec![0, 0, if nth == 1 { PROTECTED } else { 0 }],
        cpus: Vec::new(),
    }
}

fn machine() -> MachineZones {
    let trace = Trace {
        nframes: ALL,
        ..Trace::default()
    };
    // On the machine much lies between the two that the trace knows nothing of.
    let infos = [info(1, 4096, LOWER), info(2, 1 << 20, ALL - LOWER)];
    let machine = MachineZones::recorded(&trace, &infos, None);
    assert_eq!(machine.zones.len(), 2);
    machine
}

fn zoned(policy: LinuxPolicy, per_cpu_lists: bool) -> Zoned<LinuxBuddy> {
    boosted(policy, per_cpu_lists, 0)
}

/// The same; claims of pageblocks raise the marks by up to `boost_max`.
fn boosted(policy: LinuxPolicy, per_cpu_lists: bool, boost_max: u64) -> Zoned<LinuxBuddy> {
    let machine = machine();
    let of = |zone: &MachineZone| {
        // Lists large enough to hold something.
        let marks = BuddyMarks {
            managed: zone.managed,
            high: 0,
            boost_max,
            boost_first: zone.boost,
            batch: 31,
            high_min: 2000,
            high_max: 2000,
        };
        let config = LinuxBuddyConfig {
            per_cpu_lists,
            marks: Some(marks),
            ..LinuxBuddyConfig::new(policy, zone.frames)
        };
        LinuxBuddy::new(&config).unwrap()
    };
    let buddies: Vec<LinuxBuddy> = machine.zones.iter().map(of).collect();
    Zoned::new(policy.name(), &machine, buddies)
}

fn recorded(
    cpu: CpuId,
    order: Order,
    mobility: Mobility,
    flags: Option<u32>,
    is_served: bool,
) -> RecordedRequest {
    RecordedRequest {
        cpu,
        order,
        mobility,
        flags,
        is_served,
    }
}

fn order(n: u8) -> Order {
    Order::new(n).unwrap()
}

fn free_in(zoned: &Zoned<LinuxBuddy>) -> [u64; 2] {
    [0, 1].map(|at| zoned.zones[at].allocator.listed_free())
}

/// Takes one frame after the other until an answer is not `Served`, which it returns.
fn until_not_served(zoned: &mut Zoned<LinuxBuddy>, flags: u32) -> ReplayAnswer {
    for _ in 0..=ALL {
        let answer = zoned.request(recorded(CPU, Order::ZERO, Movable, Some(flags), true));
        if !matches!(answer, ReplayAnswer::Served(_)) {
            return answer;
        }
    }
    panic!("every request is served");
}

#[test]
fn the_upper_zone_serves_down_to_low_then_the_lower_one_then_both_down_to_min() {
    let mut zoned = zoned(LinuxPolicy::Linux44, false);
    let take = |zoned: &mut Zoned<LinuxBuddy>| {
        let answer = zoned.request(recorded(CPU, Order::ZERO, Movable, Some(KERNEL), true));
        matches!(answer, ReplayAnswer::Served(frame) if frame.0 >= LOWER)
    };
    for _ in 0..ALL - LOWER - 600 {
        assert!(take(&mut zoned));
    }
    assert_eq!(free_in(&zoned), [LOWER, 600]);
    // The low mark of the lower zone, with what it protects.
    for _ in 0..LOWER - 200 - PROTECTED {
        assert!(!take(&mut zoned));
    }
    assert_eq!(free_in(&zoned), [200 + PROTECTED, 600]);
    assert!(zoned.round.is_none());
    for _ in 0..600 - 400 {
        assert!(take(&mut zoned));
    }
    assert!(zoned.round.is_some(), "below low the background is woken");
    for _ in 0..200 - 100 {
        assert!(!take(&mut zoned));
    }
    assert_eq!(free_in(&zoned), [100 + PROTECTED, 400]);
    // A request for 32-bit memory is not one that the upper zone could serve.
    let answer = zoned.request(recorded(CPU, Order::ZERO, Unmovable, Some(DMA32), true));
    assert!(matches!(answer, ReplayAnswer::Served(frame) if frame.0 < LOWER));
}

#[test]
fn who_may_not_wait_is_refused_and_who_may_stalls() {
    let mut zoned = zoned(LinuxPolicy::Linux44, false);
    let refused = ReplayAnswer::Refused(Some(FailureCause::Watermark));
    assert_eq!(until_not_served(&mut zoned, NOWAIT), refused);
    assert_eq!(free_in(&zoned), [100 + PROTECTED, 400]);
    let kernel = |zoned: &mut Zoned<LinuxBuddy>, is_served| {
        zoned.request(recorded(CPU, Order::ZERO, Movable, Some(KERNEL), is_served))
    };
    // What the machine refused, too, is no reason to serve it below the marks.
    assert_eq!(kernel(&mut zoned, false), refused);
    assert_eq!(free_in(&zoned), [100 + PROTECTED, 400]);
    // What it served: from the zone that is least below its own mark, and there as many more as one that waits reclaims.
    let first = kernel(&mut zoned, true);
    assert!(matches!(first, ReplayAnswer::Stalled(_)));
    let is_upper = first.frame().unwrap().0 >= LOWER;
    for _ in 1..RECLAIMED_A_REQUEST {
        let next = kernel(&mut zoned, true);
        assert!(matches!(next, ReplayAnswer::Served(frame) if (frame.0 >= LOWER) == is_upper));
    }
    // Then it is the other's turn.
    let other = kernel(&mut zoned, true);
    assert!(matches!(other, ReplayAnswer::Stalled(frame) if (frame.0 >= LOWER) != is_upper));
    // AD2: to the last frame.
    for _ in RECLAIMED_A_REQUEST + 1..100 + PROTECTED + 400 {
        assert!(kernel(&mut zoned, true).frame().is_some());
    }
    let exhausted = ReplayAnswer::Refused(Some(FailureCause::Exhausted));
    assert_eq!(kernel(&mut zoned, true), exhausted);
}

#[test]
fn urgent_requests_dip_into_the_reserve_and_those_for_reclaim_empty_it() {
    let mut zoned = zoned(LinuxPolicy::Linux44, false);
    until_not_served(&mut zoned, NOWAIT);
    until_not_served(&mut zoned, ATOMIC);
    // A half, and a quarter of that: 400 becomes 150, 100 becomes 38.
    assert_eq!(free_in(&zoned), [38 + PROTECTED, 150]);
    until_not_served(&mut zoned, MEMALLOC);
    assert_eq!(free_in(&zoned), [0, 0]);
}

#[test]
fn a_request_is_refused_for_fragments_only_where_a_zone_is_above_its_mark() {
    let mut zoned = zoned(LinuxPolicy::Linux44, false);
    let mut taken = Vec::new();
    while let ReplayAnswer::Served(frame) =
        zoned.request(recorded(CPU, Order::ZERO, Movable, Some(NOWAIT), true))
    {
        taken.push(frame);
    }
    let nowait = |zoned: &mut Zoned<LinuxBuddy>, n| {
        zoned.request(recorded(CPU, order(n), Unmovable, Some(NOWAIT), true))
    };
    let watermark = ReplayAnswer::Refused(Some(FailureCause::Watermark));
    assert_eq!(nowait(&mut zoned, 1), watermark);
    // Every other frame of the upper zone comes back: nothing of order 1 among them, but for the reserve.
    let upper: Vec<Frame> = taken.into_iter().filter(|frame| frame.0 >= LOWER).collect();
    for frame in upper.iter().filter(|frame| frame.0 % 2 == 0) {
        zoned.free(CPU, *frame, Order::ZERO).unwrap();
    }
    while let ReplayAnswer::Served(_) = nowait(&mut zoned, 1) {}
    let fragmented = ReplayAnswer::Refused(Some(FailureCause::Fragmented));
    assert_eq!(nowait(&mut zoned, 1), fragmented);
    let free = free_in(&zoned);
    assert!(free[1] > 400 + 1, "the upper zone is above its mark");
    let answer = zoned.request(recorded(CPU, Order::ZERO, Unmovable, Some(NOWAIT), true));
    assert!(matches!(answer, ReplayAnswer::Served(_)));
}

#[test]
fn frames_on_cpus_lists_do_not_count_and_only_who_may_wait_empties_those_of_others() {
    let mut zoned = zoned(LinuxPolicy::Linux612, true);
    // The first request brings a batch to the other CPU's list.
    let take = |zoned: &mut Zoned<LinuxBuddy>, n| {
        let answer = zoned.request(recorded(OTHER, order(n), Movable, Some(NOWAIT), true));
        match answer {
            ReplayAnswer::Served(frame) => Some(frame),
            _ => None,
        }
    };
    let held = [(); 2].map(|()| take(&mut zoned, 0).unwrap());
    // No list holds blocks of order 4: they bring both zones down to min, and the next refills below it.
    while take(&mut zoned, 4).is_some() {}
    while take(&mut zoned, 0).is_some() {}
    let before = free_in(&zoned);
    // They go to the other CPU's lists and stay there.
    for frame in held {
        zoned.free(OTHER, frame, Order::ZERO).unwrap();
    }
    assert_eq!(free_in(&zoned), before);
    let ask = |zoned: &mut Zoned<LinuxBuddy>, flags, is_served| {
        zoned.request(recorded(CPU, Order::ZERO, Movable, Some(flags), is_served))
    };
    let refused = ReplayAnswer::Refused(Some(FailureCause::Watermark));
    assert_eq!(ask(&mut zoned, NOWAIT, false), refused);
    assert_eq!(free_in(&zoned), before, "AD3");
    if let ReplayAnswer::Stalled(frame) = ask(&mut zoned, KERNEL, false) {
        zoned.free(CPU, frame, Order::ZERO).unwrap();
    } else {
        panic!("the lists of the other CPU are emptied for it");
    }
    // The same where the machine did serve it: the lists first, and below the mark only if they do not suffice.
    zoned.drain();
    let all = free_in(&zoned);
    let more = [0, 1].map(|at| all[at] - before[at]);
    assert!(more[0] + more[1] > 0, "{before:?} {all:?}");
    let held = [(); 2].map(|()| take(&mut zoned, 0).unwrap());
    while take(&mut zoned, 0).is_some() {}
    for frame in held {
        zoned.free(OTHER, frame, Order::ZERO).unwrap();
    }
    let before = free_in(&zoned);
    let answer = ask(&mut zoned, KERNEL, true);
    assert!(matches!(answer, ReplayAnswer::Stalled(_)));
    let after = free_in(&zoned);
    assert!(
        after[0] + after[1] > before[0] + before[1],
        "{before:?} {after:?}"
    );
}

#[test]
fn the_background_rests_when_a_zone_is_above_high() {
    let mut zoned = zoned(LinuxPolicy::Linux44, false);
    let mut taken = Vec::new();
    while let ReplayAnswer::Served(frame) =
        zoned.request(recorded(CPU, Order::ZERO, Movable, Some(NOWAIT), true))
    {
        taken.push(frame);
    }
    let mut upper = taken.into_iter().filter(|frame| frame.0 >= LOWER);
    while zoned.round.is_some() {
        assert!(free_in(&zoned)[1] <= 800);
        zoned.free(CPU, upper.next().unwrap(), Order::ZERO).unwrap();
    }
    assert_eq!(free_in(&zoned)[1], 801);
}

#[test]
fn ad4_a_recorded_round_ends_the_boosts_that_it_found_and_nothing_else_does() {
    let mut zoned = boosted(LinuxPolicy::Linux612, false, 1500);
    zoned.follow_background();
    let boost = |zoned: &Zoned<LinuxBuddy>| zoned.zones[1].allocator.boost();
    let take = |zoned: &mut Zoned<LinuxBuddy>| {
        let request = recorded(CPU, Order::ZERO, Unmovable, Some(KERNEL), true);
        zoned.request(request).frame().unwrap()
    };
    // Of each pageblock of the upper zone the second half is free, and all are the movable ones'.
    let mut taken = Vec::new();
    while let ReplayAnswer::Served(frame) =
        zoned.request(recorded(CPU, Order::ZERO, Movable, Some(NOWAIT), true))
    {
        taken.push(frame);
    }
    for frame in taken {
        if frame.0 >= LOWER && frame.0 % 512 >= 256 {
            zoned.free(CPU, frame, Order::ZERO).unwrap();
        }
    }
    assert_eq!(boost(&zoned), 0);
    let first = take(&mut zoned);
    assert_eq!(boost(&zoned), 512);
    zoned.free(CPU, first, Order::ZERO).unwrap();
    assert!(zoned.round.is_none(), "a free wakes no model");
    zoned.background(RecordedStep::Begins);
    while boost(&zoned) == 512 {
        take(&mut zoned);
    }
    assert_eq!(boost(&zoned), 1024, "what came since it began");
    zoned.background(RecordedStep::Ended);
    assert_eq!(boost(&zoned), 512);
    zoned.background(RecordedStep::Ended);
    assert_eq!(boost(&zoned), 512, "no round, nothing to end");
    // The next one begins without a sleep.
    zoned.background(RecordedStep::Begins);
    zoned.background(RecordedStep::Begins);
    assert_eq!((boost(&zoned), zoned.round.is_some()), (0, true));
    // Below the marks nothing but the recording wakes it.
    zoned.background(RecordedStep::Ended);
    until_not_served(&mut zoned, NOWAIT);
    assert!(zoned.round.is_none());
}

/// Takes all that NOWAIT gets, then frees every other frame of the upper zone and a whole pageblock of the lower one.
fn mixed_above_and_whole_below(policy: LinuxPolicy) -> Zoned<LinuxBuddy> {
    let mut zoned = zoned(policy, false);
    let mut taken = Vec::new();
    while let ReplayAnswer::Served(frame) =
        zoned.request(recorded(CPU, Order::ZERO, Movable, Some(NOWAIT), true))
    {
        taken.push(frame);
    }
    for frame in taken {
        let is_back = match frame.0 >= LOWER {
            true => frame.0 % 2 == 0,
            false => frame.0 < 512,
        };
        if is_back {
            zoned.free(CPU, frame, Order::ZERO).unwrap();
        }
    }
    zoned
}

#[test]
fn a_kernel_that_avoids_fragments_uses_the_zone_below_before_it_mixes_the_upper_one() {
    let is_upper = |policy, flags| {
        let mut zoned = mixed_above_and_whole_below(policy);
        let answer = zoned.request(recorded(CPU, Order::ZERO, Unmovable, flags, true));
        assert!(matches!(answer, ReplayAnswer::Served(_)));
        answer.frame().unwrap().0 >= LOWER
    };
    assert!(is_upper(LinuxPolicy::Linux44, Some(KERNEL)));
    assert!(!is_upper(LinuxPolicy::Linux612, Some(KERNEL)));
    assert!(!is_upper(LinuxPolicy::Linux618Defrag, Some(KERNEL)));
    // The bulk allocator, whose requests have no event, does not.
    assert!(is_upper(LinuxPolicy::Linux612, None));
    assert!(is_upper(LinuxPolicy::Linux618Defrag, None));
    // It serves single frames: a larger block without an event is another request's.
    let mut zoned = mixed_above_and_whole_below(LinuxPolicy::Linux612);
    let answer = zoned.request(recorded(CPU, order(2), Unmovable, None, true));
    assert!(matches!(answer, ReplayAnswer::Served(frame) if frame.0 < LOWER));
}

#[test]
fn each_zone_begins_with_what_lay_on_the_cpus_lists() {
    let mut zoned = zoned(LinuxPolicy::Linux612, true);
    let [lower, upper] = free_in(&zoned);
    for (at, listed, cached) in [(0, lower - 120, [100, 50]), (1, 0, [0, 700])] {
        let of = &mut zoned.zones[at].of;
        (of.listed, of.cached) = (listed, cached.to_vec());
        of.lists = Some(ZoneLists::default());
    }
    zoned.fill_caches(&[]);
    assert_eq!(free_in(&zoned), [lower - 120, upper - 700]);
    zoned.drain();
    assert_eq!(free_in(&zoned), [lower, upper]);
}

#[test]
fn each_cpu_begins_with_the_blocks_that_it_took_first_up_to_what_it_had() {
    let mut zoned = zoned(LinuxPolicy::Linux612, true);
    let [lower, upper] = free_in(&zoned);
    zoned.zones[0].of.cached = vec![2, 9];
    let block = |frame, n, cpu| CachedBlock {
        frame: Frame(frame),
        order: Order::new(n).unwrap(),
        cpu: CpuId(cpu),
    };
    // Of the second zone is not known how much each CPU had. Of orders 4 and 5 there are no lists; 100 is taken twice.
    let blocks = [
        block(100, 1, 0),
        block(110, 0, 0),
        block(112, 3, 1),
        block(120, 0, 1),
        block(LOWER + 5, 0, 1),
        block(128, 4, 1),
        block(100, 0, 1),
    ];
    zoned.fill_caches(&blocks);
    assert_eq!(free_in(&zoned), [lower - 12, upper - 1]);
    // What the first CPU took beyond what it had lies with the second; what all took beyond what they had, with its taker.
    let mut take = |cpu: u16, n: u8| {
        let order = Order::new(n).unwrap();
        let zone = &mut zoned.zones[0].allocator;
        let frame = zone.serve(CpuId(cpu), order, Movable, ZonePass::AtOnce);
        frame.unwrap().0
    };
    assert_eq!(take(0, 1), 100);
    assert_eq!([take(1, 0), take(1, 0), take(1, 3)], [110, 120, 112]);
}

#[test]
fn what_a_request_that_waited_reclaimed_serves_the_next_that_may_wait_until_frees_bring_it() {
    let mut zoned = zoned(LinuxPolicy::Linux612, false);
    let served = |zoned: &mut Zoned<LinuxBuddy>, flags| {
        let mut taken = Vec::new();
        loop {
            let answer = zoned.request(recorded(CPU, Order::ZERO, Movable, Some(flags), true));
            match answer {
                ReplayAnswer::Served(frame) => taken.push(frame),
                other => return (taken, other),
            }
        }
    };
    let (_, first) = served(&mut zoned, KERNEL);
    assert!(matches!(first, ReplayAnswer::Stalled(_)));
    // 32 frames are reclaimed, and one is taken. A request that may not wait sees the frames that are there.
    let (none, refused) = served(&mut zoned, NOWAIT);
    assert!(none.is_empty() && matches!(refused, ReplayAnswer::Refused(_)));
    let (next, again) = served(&mut zoned, KERNEL);
    assert_eq!(next.len(), 31);
    assert!(matches!(again, ReplayAnswer::Stalled(_)));
    // What comes back first is what was reclaimed: the zone is not above its mark by it.
    let free = |zoned: &Zoned<LinuxBuddy>| {
        let rights = RequestRights::of(KERNEL);
        [0, 1].map(|at| zoned.zones[at].free(rights))
    };
    let before = free(&zoned);
    for frame in next {
        zoned.free(CPU, frame, Order::ZERO).unwrap();
    }
    assert_eq!(free(&zoned), before);
    // What a request got that the machine did not serve comes back at once, and brings nothing.
    let reclaimed = |zoned: &Zoned<LinuxBuddy>| [0, 1].map(|at| zoned.zones[at].reclaimed);
    let owed = reclaimed(&zoned);
    assert!(owed.iter().sum::<u64>() > 0);
    let tried = zoned.request(recorded(CPU, Order::ZERO, Movable, Some(MEMALLOC), false));
    zoned
        .free(CPU, tried.frame().unwrap(), Order::ZERO)
        .unwrap();
    assert_eq!(reclaimed(&zoned), owed);
}

#[test]
fn a_request_of_a_large_order_that_is_optional_fails_below_the_marks() {
    let below_the_marks = |order, flags| {
        let mut zoned = zoned(LinuxPolicy::Linux612, false);
        until_not_served(&mut zoned, NOWAIT);
        zoned.request(recorded(CPU, order, Movable, Some(flags), true))
    };
    const NORETRY: u32 = 1 << 16;
    let refused = ReplayAnswer::Refused(Some(FailureCause::Watermark));
    assert_eq!(below_the_marks(order(4), KERNEL | NORETRY), refused);
    let waits = |answer| matches!(answer, ReplayAnswer::Stalled(_));
    assert!(waits(below_the_marks(order(4), KERNEL)));
    assert!(waits(below_the_marks(order(3), KERNEL | NORETRY)));
    // Not where Linux would compact: a zone is above low by twice the block.
    let mut zoned = zoned(LinuxPolicy::Linux612, false);
    let rights = RequestRights::of(KERNEL | NORETRY);
    let upper_low = MARKS[1][1];
    for _ in 0..ALL {
        let room = free_in(&zoned)[1] - upper_low;
        assert_eq!(
            zoned.can_compact(1, order(4), rights),
            room > 32 || free_in(&zoned)[0] > MARKS[0][1] + PROTECTED + 32
        );
        if room == 0 {
            break;
        }
        zoned.request(recorded(CPU, Order::ZERO, Movable, Some(KERNEL), true));
    }
}

#[test]
fn in_defrag_mode_who_may_not_wait_fails_rather_than_mix_and_who_may_waits_first() {
    let after_the_whole_block = |policy, flags| {
        let mut zoned = mixed_above_and_whole_below(policy);
        // The pageblock below is taken, and its zone is back at its low mark.
        while zoned.zones[0].allocator.listed_free() > 200 + PROTECTED {
            let answer = zoned.request(recorded(CPU, Order::ZERO, Unmovable, Some(KERNEL), true));
            assert!(answer.frame().unwrap().0 < LOWER);
        }
        // What is left of it, down to min.
        loop {
            let answer = zoned.request(recorded(CPU, order(3), Unmovable, Some(flags), true));
            if !matches!(answer, ReplayAnswer::Served(frame) if frame.0 < LOWER) {
                return answer;
            }
        }
    };
    let fragmented = ReplayAnswer::Refused(Some(FailureCause::Fragmented));
    assert_eq!(
        after_the_whole_block(LinuxPolicy::Linux618Defrag, NOWAIT),
        fragmented
    );
    let waits = after_the_whole_block(LinuxPolicy::Linux618Defrag, KERNEL);
    assert!(matches!(waits, ReplayAnswer::Stalled(_)));
    let mixes = after_the_whole_block(LinuxPolicy::Linux612, NOWAIT);
    assert!(matches!(mixes, ReplayAnswer::Served(frame) if frame.0 >= LOWER));
}

/// AD1 and AD2 over random requests and frees, on the numbers themselves.
#[test]
fn what_is_served_leaves_its_zone_above_the_mark_and_what_waits_finds_every_block() {
    let mut random = Random::new(1);
    let mut random = |n| random.below(n);
    for policy in [LinuxPolicy::Linux44, LinuxPolicy::Linux612] {
        let mut zoned = zoned(policy, false);
        let mut held: Vec<(Frame, Order)> = Vec::new();
        let (mut refused, mut stalled) = (0, 0);
        for _ in 0..20_000 {
            if random(100) < 35 && !held.is_empty() {
                let (frame, order) = held.swap_remove(random(held.len() as u64) as usize);
                zoned.free(CPU, frame, order).unwrap();
                continue;
            }
            let flags = [KERNEL, NOWAIT, ATOMIC][random(3) as usize];
            let wanted = order([0, 0, 0, 1, 2, 3][random(6) as usize]);
            let mobility = [Movable, Unmovable][random(2) as usize];
            let answer = zoned.request(recorded(CPU, wanted, mobility, Some(flags), true));
            let rights = RequestRights::of(flags);
            match answer {
                ReplayAnswer::Served(frame) => {
                    let at = usize::from(frame.0 >= LOWER);
                    let zone = &zoned.zones[at];
                    let before = zone.free(rights) + wanted.frames();
                    let mark = rights.min(MARKS[at][0]) + zone.of.protects_from(1);
                    assert!(is_above(before, wanted.get(), mark), "AD1 {flags:#x}");
                    held.push((frame, wanted));
                }
                ReplayAnswer::Stalled(frame) => {
                    stalled += 1;
                    assert!(rights.may_wait);
                    held.push((frame, wanted));
                }
                ReplayAnswer::Refused(_) if rights.may_wait => {
                    let has = zoned
                        .zones
                        .iter()
                        .any(|zone| zone.allocator.has_listed(wanted));
                    assert!(!has, "AD2");
                }
                ReplayAnswer::Refused(_) => refused += 1,
            }
        }
        assert!(refused > 100 && stalled > 100, "{refused} {stalled}");
        for zone in &zoned.zones {
            zone.allocator.verify().unwrap();
        }
    }
}

/// P6: a file of zones may say anything.
#[test]
fn p6_zones_of_any_size_admit_or_refuse_and_nothing_wraps() {
    let trace = Trace {
        nframes: ALL,
        ops: (0..100)
            .map(|_| crate::trace::TraceOp::alloc(false, Order::ZERO, Movable, 0, 255, 0))
            .collect(),
        ..Trace::default()
    };
    let cpu = crate::trace::state::ZoneInfoCpu {
        count: u64::MAX,
        high: u64::MAX,
        batch: u64::MAX,
        high_min: u64::MAX,
        high_max: u64::MAX,
    };
    for (free, count) in [(ALL, 0), (u64::MAX, u64::MAX)] {
        let info = ZoneInfo {
            free,
            managed: u64::MAX,
            watermarks: [u64::MAX; 3],
            boost: u64::MAX,
            protection: vec![u64::MAX; 4],
            cpus: vec![crate::trace::state::ZoneInfoCpu { count, ..cpu }; 2],
            ..info(2, 0, ALL)
        };
        let mut memory = crate::replay::TraceMemory::new(&trace).unwrap();
        let machine = MachineZones::recorded(&trace, &[info], None);
        assert_eq!(machine.min(), 1 << 40);
        memory.zones = Some(machine);
        for &policy in &crate::replay::ReplayPolicy::ALL {
            let job = crate::replay::ReplayJob {
                policy,
                memory: &memory,
                options: crate::replay::ReplayOptions::new(crate::replay::Start::Fresh),
            };
            let done = std::sync::atomic::AtomicU64::new(0);
            let outcome = crate::replay::replay_all(&[job], 1, &done).unwrap();
            // Each was served by the machine and may wait, so it stalls.
            assert_eq!(outcome[0].stalled[0], 100, "{policy}");
        }
    }
}

#[test]
fn a_block_moves_inside_its_zone_alone() {
    let mut zoned = zoned(LinuxPolicy::Linux612, false);
    let (held, other) = (Frame(LOWER - 8), Frame(LOWER));
    let three = order(3);
    assert!(zoned.alloc_at(held, three, Movable));
    let before = free_in(&zoned);
    // The place behind the zone's end is free, and another zone's.
    assert_eq!(zoned.move_block(held, other, three), Ok(false));
    assert_eq!(free_in(&zoned), before);
    assert_eq!(zoned.zone_of(held), 0..LOWER);
    assert_eq!(zoned.zone_of(other), LOWER..ALL);
    // Neither a place nor a block that reaches over the end, or lies behind all zones.
    assert_eq!(zoned.move_block(held, Frame(ALL), three), Ok(false));
    assert!(zoned.move_block(Frame(ALL), other, three).is_err());
    assert_eq!(zoned.zone_of(Frame(u64::MAX)), LOWER..ALL);
    assert_eq!(zoned.move_block(held, Frame(LOWER - 16), three), Ok(true));
    assert_eq!(free_in(&zoned), before);
    assert!(zoned.alloc_at(held, three, Movable), "it is free now");
    assert!(!zoned.alloc_at(Frame(LOWER - 16), three, Movable));
}

#[test]
fn lists_that_were_just_emptied_are_left_alone_for_a_while() {
    let mut zoned = zoned(LinuxPolicy::Linux612, true);
    zoned.follow_background();
    let take = |zoned: &mut Zoned<LinuxBuddy>| {
        let answer = zoned.request(recorded(CPU, Order::ZERO, Movable, Some(NOWAIT), true));
        answer.frame().unwrap()
    };
    let mut held: Vec<Frame> = (0..200).map(|_| take(&mut zoned)).collect();
    zoned.drain();
    let mut drained_of = |cached: usize| {
        let before = free_in(&zoned);
        for frame in held.drain(..cached) {
            zoned.free(OTHER, frame, Order::ZERO).unwrap();
        }
        assert_eq!(free_in(&zoned), before, "they lie on its lists");
        let is_done = zoned.drain_if_due();
        let more: u64 = free_in(&zoned).iter().sum::<u64>() - before.iter().sum::<u64>();
        (is_done, more)
    };
    // So many that the next two leave lists alone, and not three.
    assert_eq!(drained_of(130), (true, 130));
    assert_eq!(drained_of(1), (false, 0));
    assert_eq!(drained_of(1), (false, 0));
    assert_eq!(drained_of(1), (true, 3));
    assert_eq!(drained_of(1), (true, 1), "those were few");
}
