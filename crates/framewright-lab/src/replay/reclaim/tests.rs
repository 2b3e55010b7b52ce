//! The replay itself, on the plainest kernel that reclaims, so that no kernel's rule is tested along with it.

use super::*;
use crate::measure::{AllocatorFault, replay as m};
use crate::pressure::{Frees, Impose, Kernel, LISTS, PressureRequest, Tenants};
use crate::replay::subjects::NoGrouping;
use crate::replay::{
    ReclaimOptions, ReplayError, ReplayOptions, ReplayOutcome, ReplayPolicy, ReplaySubject, Start,
    TraceMemory,
};
use crate::trace::{InitClass, InitObject, Trace, TraceOp};
use framewright::reclaim::Ask;
use framewright::stats::ReclaimStats;
use framewright::{CpuId, Frame, Mobility, Order};
use framewright_sim::Random;
use std::sync::atomic::AtomicU64;

/// Flags of a page that is written to a file, and of one that a program touched.
const CACHE: u8 = 0;
const ANONYMOUS: u8 = 1;
const FLAGS: [u32; 2] = [0x14_1cca, 0x14_0dca];

fn order(n: u8) -> Order {
    Order::new(n).unwrap()
}

/// The plainest kernel that reclaims. When there is no block it asks the clients for as many frames as
/// a block has, until there is a block or no client gives any.
struct PlainestKernel {
    lists: NoGrouping,
    stats: ReclaimStats,
    background: u64,
    /// What it hands out for any request of that order, whose ever it is.
    lies: Option<(Order, Frame)>,
}

impl Frees for PlainestKernel {
    fn give(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.free(cpu, frame, order);
    }
}

impl Kernel for PlainestKernel {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn alloc(&mut self, tenants: &dyn Tenants, request: PressureRequest) -> Option<Frame> {
        let PressureRequest {
            cpu,
            order,
            mobility,
            context,
        } = request;
        if let Some((_, frame)) = self.lies.filter(|lie| lie.0 == order) {
            return Some(frame);
        }
        loop {
            let found = self.lists.alloc(cpu, order, mobility);
            if found.is_some() || !context.may_reclaim {
                return found;
            }
            self.stats.allocstall[order.index()] += 1;
            let ask = Ask {
                wanted: order.frames(),
                scan: order.frames(),
                order,
                context,
            };
            let mut freed = 0;
            for shrinker in tenants.shrinkers() {
                freed += shrinker.shrink(self as &mut dyn Frees, &ask).freed;
            }
            self.stats.pgsteal_direct += freed;
            if freed == 0 {
                return None;
            }
        }
    }

    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.lists.free(cpu, frame, order).unwrap();
    }

    fn background_is_awake(&self) -> bool {
        true
    }

    fn background(&mut self, _: &dyn Tenants, frames: u64) {
        self.background += frames;
    }

    fn stats(&self) -> ReclaimStats {
        self.stats
    }

    fn free_blocks(&self) -> [[u64; 11]; LISTS] {
        [[0; 11]; LISTS]
    }

    fn labels(&self) -> [u64; LISTS] {
        [0; LISTS]
    }
}

impl Impose for PlainestKernel {
    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        self.lists.set_label(pageblock, label);
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        self.lists.alloc_at(frame, order, mobility)
    }

    fn free_part(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.free(cpu, frame, order);
    }
}

/// 1024 frames, the first four in use for files.
fn small(ops: Vec<TraceOp>) -> Trace {
    let init = (0..4).map(|frame| InitObject {
        frame: Frame(frame),
        class: InitClass::Movable,
    });
    Trace {
        nframes: 1024,
        init: init.collect(),
        ops,
        gfp: FLAGS.to_vec(),
        ..Trace::default()
    }
}

fn alloc(n: u8, mobility: Mobility, flags: u8) -> TraceOp {
    TraceOp::alloc(false, order(n), mobility, 0, flags, 0)
}

fn options(huge_probes: u64) -> ReplayOptions {
    ReplayOptions {
        reclaim: Some(ReclaimOptions { huge_probes }),
        ..ReplayOptions::new(Start::Imposed)
    }
}

fn run(trace: &Trace, options: ReplayOptions) -> (ReplayOutcome, PlainestKernel) {
    let (outcome, kernel) = run_with(None, trace, options);
    (outcome.unwrap(), kernel)
}

fn run_with(
    lies: Option<(Order, Frame)>,
    trace: &Trace,
    options: ReplayOptions,
) -> (Result<ReplayOutcome, ReplayError>, PlainestKernel) {
    let memory = TraceMemory::new(trace).unwrap();
    let mut kernel = PlainestKernel {
        lists: NoGrouping::new(&memory),
        stats: ReclaimStats::default(),
        background: 0,
        lies,
    };
    let contents = ObjectContent::of_all(trace);
    let done = AtomicU64::new(0);
    let outcome = replay_with_reclaim("plain", &mut kernel, &memory, &contents, options, &done);
    (outcome, kernel)
}

const MOVABLE: Mobility = Mobility::Movable;
const UNMOVABLE: Mobility = Mobility::Unmovable;

#[test]
fn what_reclaim_took_is_gone_and_the_trace_s_free_of_it_is_passed_over() {
    let trace = small(vec![
        alloc(9, MOVABLE, CACHE),      // object 4: frames 512..1024
        alloc(9, UNMOVABLE, CACHE),    // object 5: the four initial ones have to go
        TraceOp::free(2, order(0), 0), // gone already
        TraceOp::free(0, order(0), 0),
        TraceOp::free(4, order(9), 0),
        TraceOp::tick(1),
    ]);
    let (outcome, _) = run(&trace, options(0));
    let stalls = outcome.stalls.as_deref().unwrap();
    assert_eq!(stalls.stats.allocstall[9], 1);
    assert_eq!(
        stalls.stats.pgsteal_direct,
        4 + 512,
        "the large one goes, too"
    );
    assert_eq!(
        (stalls.reclaimed_objects, stalls.frees_of_reclaimed),
        (5, 3)
    );
    assert_eq!((outcome.failures, outcome.frees_of_failed), ([0; 11], 0));
    assert_eq!(outcome.end.free_frames(), 512);
    assert_eq!(outcome.values().get(&m::STALL.of(9)).copied(), Some(1.0));
    assert_eq!(
        outcome.values().get(&m::PGSTEAL_DIRECT).copied(),
        Some(516.0)
    );
    assert_eq!(outcome.values().get(&m::HUGE_PROBES).copied(), None);
}

#[test]
fn what_programs_and_the_kernel_hold_is_never_given_back() {
    let trace = small(vec![
        alloc(9, MOVABLE, ANONYMOUS), // object 4
        alloc(8, UNMOVABLE, CACHE),   // object 5: 256..512
        alloc(9, UNMOVABLE, CACHE),   // object 6: fails, though the initial ones are gone
        TraceOp::free(6, order(9), 0),
        TraceOp::free(5, order(8), 0),
        TraceOp::free(4, order(9), 0),
    ]);
    let (outcome, _) = run(&trace, options(0));
    let stalls = outcome.stalls.as_deref().unwrap();
    assert_eq!(outcome.failures[9], 1);
    assert_eq!(
        (stalls.reclaimed_objects, stalls.stats.allocstall[9]),
        (4, 2)
    );
    assert_eq!(outcome.frees_of_failed, 1);
    assert_eq!(outcome.end.free_frames(), 1024);
}

#[test]
fn of_a_file_read_in_parts_what_was_not_freed_goes_and_the_rest_of_its_frees_is_passed_over() {
    let trace = small(vec![
        alloc(9, MOVABLE, CACHE), // object 4: frames 512..1024
        TraceOp::free_part(4, 64, order(6), 0),
        alloc(9, UNMOVABLE, CACHE), // object 5: takes 0..512 when all else is gone
        TraceOp::free_part(4, 0, order(6), 0),
        TraceOp::free_part(4, 128, order(7), 0),
    ]);
    let (outcome, _) = run(&trace, options(0));
    let stalls = outcome.stalls.as_deref().unwrap();
    assert_eq!(stalls.stats.pgsteal_direct, 4 + 512 - 64);
    assert_eq!(stalls.frees_of_reclaimed, 2);
    assert_eq!(outcome.end.free_frames(), 512);
}

#[test]
fn a_request_that_must_not_reclaim_fails_fast() {
    let mut trace = small(vec![
        alloc(9, MOVABLE, CACHE),
        alloc(9, UNMOVABLE, 2),
        TraceOp::alloc(true, order(9), UNMOVABLE, 0, 2, 0),
    ]);
    trace.gfp.push(0x2800);
    let (outcome, kernel) = run(&trace, options(0));
    assert_eq!((outcome.failures[9], outcome.retries[9].tried), (1, 1));
    assert_eq!(outcome.retries[9].served, 0);
    assert_eq!(kernel.stats.allocstalls(), 0);
}

#[test]
fn the_oracle_sees_what_is_handed_out_to_probes_and_retries_too() {
    let somebodys = Frame(3);
    let twice = |op| ReplayError::Fault {
        policy: "plain",
        op: Some(op),
        fault: AllocatorFault::TakenTwice(somebodys, order(0)),
    };
    let lies = Some((order(0), somebodys));
    let retry = TraceOp::alloc(true, order(0), MOVABLE, 0, CACHE, 0);
    let (outcome, _) = run_with(lies, &small(vec![TraceOp::tick(1), retry]), options(0));
    assert_eq!(outcome.unwrap_err(), twice(1));
    let probing = ReplayOptions {
        probe: Some(order(0)),
        ..options(0)
    };
    let (outcome, _) = run_with(lies, &small(vec![TraceOp::tick(1)]), probing);
    assert_eq!(outcome.unwrap_err(), twice(0));
}

#[test]
fn the_background_has_a_thousand_looks_a_millisecond_of_trace_time() {
    let trace = small(vec![
        TraceOp::tick(3),
        alloc(0, MOVABLE, CACHE),
        TraceOp::tick(4),
    ]);
    let (outcome, kernel) = run(&trace, options(0));
    assert_eq!(kernel.background, 7 * BACKGROUND_FRAMES_PER_MS);
    assert_eq!(outcome.means.samples(), 1);
}

#[test]
fn huge_pages_after_the_trace_are_held_and_nothing_is_reclaimed_for_them() {
    let (outcome, kernel) = run(&small(vec![TraceOp::tick(1)]), options(3));
    let stalls = outcome.stalls.as_deref().unwrap();
    assert_eq!((stalls.huge.tries.tried, stalls.huge.tries.served), (3, 1));
    assert_eq!(stalls.reclaimed_objects, 0);
    assert_eq!(kernel.stats.pgsteal_direct, 0);
    assert_eq!(stalls.stats.allocstalls(), 0, "the trace's own are counted");
    assert_eq!(outcome.end.free_frames(), 1020, "as the trace left it");
    assert_eq!(
        outcome.values().get(&m::HUGE_PROBES_SERVED).copied(),
        Some(1.0)
    );
}

#[test]
fn a_balloon_takes_what_others_give_back_and_no_more() {
    let squeezed = |squeeze| ReplayOptions {
        squeeze,
        ..options(0)
    };
    let trace = small(vec![
        alloc(0, MOVABLE, CACHE),
        TraceOp::free(4, order(0), 0),
    ]);
    let (outcome, _) = run(&trace, squeezed(1023));
    assert_eq!((outcome.unplaced, outcome.failures[0]), (0, 0));
    let stalls = outcome.stalls.as_deref().unwrap();
    let own = stalls.stats.allocstalls();
    assert_eq!(own, 1, "the three of the start do not count");
    let (outcome, _) = run(&trace, squeezed(u64::MAX));
    assert_eq!(outcome.unplaced, u64::MAX - 1024);
    assert_eq!((outcome.failures[0], outcome.frees_of_failed), (1, 1));
}

/// 16 MiB that fill up with files, programs and what the kernel keeps, in an order drawn from `seed`.
fn tight(seed: u64) -> Trace {
    let mut random = Random::new(seed);
    let mut below = |bound| random.below(bound);
    let mut trace = Trace {
        nframes: 4096,
        gfp: FLAGS.to_vec(),
        ..Trace::default()
    };
    let initial = (0..4096).filter(|frame| frame % 3 == 0);
    trace.init.extend(initial.map(|frame| InitObject {
        frame: Frame(frame),
        class: [InitClass::Movable, InitClass::Slab][usize::from(frame % 15 == 0)],
    }));
    let mut live: Vec<(u32, u8)> = (0..trace.init.len() as u32).map(|id| (id, 0)).collect();
    let mut next = live.len() as u32;
    for nth in 0..12_000 {
        if below(100) < 55 {
            let n = [0, 0, 0, 0, 1, 2, 3, 4][below(8) as usize];
            let (mobility, flags) = [
                (MOVABLE, CACHE),
                (MOVABLE, CACHE),
                (MOVABLE, ANONYMOUS),
                (UNMOVABLE, ANONYMOUS),
            ][below(4) as usize];
            trace.ops.push(alloc(n, mobility, flags));
            live.push((next, n));
            next += 1;
        } else if !live.is_empty() {
            let (id, n) = live.swap_remove(below(live.len() as u64) as usize);
            if n == 3 {
                trace.ops.push(TraceOp::free_part(id, 4, order(1), 1));
                trace.ops.push(TraceOp::free_part(id, 0, order(2), 0));
            } else {
                trace.ops.push(TraceOp::free(id, order(n), 1));
            }
        }
        if nth % 50 == 0 {
            trace.ops.push(TraceOp::tick(1 + nth % 3));
        }
    }
    trace
}

fn under(policy: ReplayPolicy, trace: &Trace, options: ReplayOptions) -> ReplayOutcome {
    let memory = TraceMemory::new(trace).unwrap();
    let contents = ObjectContent::of_all(trace);
    let done = AtomicU64::new(0);
    let outcome = with_kernel(policy, &memory, |kernel| {
        replay_with_reclaim("any", kernel, &memory, &contents, options, &done)
    });
    outcome.unwrap().unwrap()
}

fn all_that_reclaim() -> Vec<ReplayPolicy> {
    let all = ReplayPolicy::ALL
        .into_iter()
        .filter(|&policy| reclaims(policy));
    all.collect()
}

#[test]
fn the_same_trace_gives_the_same_figures_and_reclaim_leaves_fewer_failures() {
    let trace = tight(7);
    for policy in all_that_reclaim() {
        for start in [Start::Imposed, Start::Fresh] {
            let options = ReplayOptions {
                squeeze: 300,
                start,
                ..options(4)
            };
            let once = under(policy, &trace, options);
            let twice = under(policy, &trace, options);
            assert_eq!(once.stalls, twice.stalls, "{policy}");
            assert_eq!(once.end, twice.end);
            let stalls = once.stalls.unwrap();
            let stolen = stalls.stats.pgsteal_direct + stalls.stats.pgsteal_kswapd;
            assert!(stolen > 0 && stalls.frees_of_reclaimed > 0, "{policy}");
            assert!(stalls.reclaimed_objects <= stolen);
            let memory = TraceMemory::new(&trace).unwrap();
            let plain = ReplayOptions {
                reclaim: None,
                ..options
            };
            let plain = policy.with(&memory, |subject| {
                crate::replay::replay(subject, &memory, plain, &AtomicU64::new(0))
            });
            let without: u64 = plain.unwrap().unwrap().failures.iter().sum();
            let with: u64 = once.failures.iter().sum();
            assert!(with < without, "{policy}: {with} of {without}");
        }
    }
}

#[test]
fn memory_squeezed_to_nothing_ends_and_says_what_failed() {
    let trace = tight(8);
    for policy in all_that_reclaim() {
        let outcome = under(
            policy,
            &trace,
            ReplayOptions {
                squeeze: 100_000,
                ..options(2)
            },
        );
        assert!(outcome.unplaced > 90_000, "{policy}");
        assert!(outcome.failures.iter().sum::<u64>() > 1000, "{policy}");
    }
}

#[test]
fn a_policy_without_a_kernel_that_reclaims_is_refused() {
    let trace = small(Vec::new());
    let memory = TraceMemory::new(&trace).unwrap();
    let refused = with_kernel(ReplayPolicy::ASSUMED_KERNEL, &memory, |_| ());
    assert!(!reclaims(ReplayPolicy::ASSUMED_KERNEL));
    assert!(refused.unwrap_err().contains("no kernel that reclaims"));
}
