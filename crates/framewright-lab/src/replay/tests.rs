//! The replay itself: what it counts, what it passes over, and that it stops at what an allocator must not do.

use super::subjects::{NoGrouping, with_engine};
use super::*;
use crate::trace::{InitClass, InitObject, Trace, TraceOp, WorkEvent, WorkKind};
use framewright::policy::Fallback;
use framewright::{CpuId, Frame, Mobility, Order, Run};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn order(n: u8) -> Order {
    Order::new(n).unwrap()
}

fn alloc(n: u8, mobility: Mobility) -> TraceOp {
    TraceOp::alloc(false, order(n), mobility, 0, 0, 0)
}

fn run(trace: &Trace, options: ReplayOptions) -> Result<ReplayOutcome, ReplayError> {
    let memory = TraceMemory::new(trace).unwrap();
    replay(
        &mut NoGrouping::new(&memory),
        &memory,
        options,
        &AtomicU64::new(0),
    )
}

/// 1024 frames, the first four in use.
fn small(ops: Vec<TraceOp>) -> Trace {
    let init = (0..4)
        .map(|f| InitObject {
            frame: Frame(f),
            class: InitClass::Movable,
        })
        .collect();
    Trace {
        nframes: 1024,
        init,
        ops,
        ..Trace::default()
    }
}

const UNMOVABLE: Mobility = Mobility::Unmovable;
const MOVABLE: Mobility = Mobility::Movable;

#[test]
fn a_failed_allocation_is_counted_by_order_and_its_frees_are_passed_over() {
    let trace = small(vec![
        alloc(9, MOVABLE),             // object 4: frames 512..1024
        alloc(9, UNMOVABLE),           // object 5: fails, no free block of order 9
        TraceOp::free(5, order(9), 0), // passed over
        TraceOp::free_part(5, 0, order(0), 0),
        TraceOp::free(4, order(9), 0),
        alloc(9, UNMOVABLE), // object 6: served
        TraceOp::tick(1),
    ]);
    let outcome = run(&trace, ReplayOptions::new(Start::Imposed)).unwrap();
    assert_eq!(outcome.failures, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!((outcome.false_failures, outcome.frees_of_failed), (0, 2));
    assert_eq!(outcome.end.free_frames(), 1024 - 512 - 4);
    assert_eq!(outcome.end.contaminated_blocks, 1);
    assert_eq!((outcome.means.samples(), outcome.ops), (1, 7));
}

#[test]
fn a_part_of_an_object_is_freed_at_its_offset() {
    let trace = small(vec![
        alloc(3, UNMOVABLE), // object 4
        TraceOp::free_part(4, 4, order(2), 0),
        TraceOp::free_part(4, 1, order(0), 0),
    ]);
    let outcome = run(&trace, ReplayOptions::new(Start::Imposed)).unwrap();
    assert_eq!(outcome.end.nonmovable_frames, 3);
    assert_eq!(outcome.end.free_frames(), 1024 - 4 - 3);
}

#[test]
fn a_request_that_failed_when_recorded_is_tried_and_holds_nothing() {
    let failed = TraceOp::alloc(true, order(9), UNMOVABLE, 0, 0, 0);
    let trace = small(vec![
        failed,
        alloc(9, MOVABLE),
        failed,
        TraceOp::free(4, order(9), 0),
    ]);
    let outcome = run(&trace, ReplayOptions::new(Start::Imposed)).unwrap();
    assert_eq!(
        outcome.retries[9],
        Tries {
            tried: 2,
            served: 1
        }
    );
    assert_eq!(outcome.failures, [0; 11]);
    assert_eq!(outcome.end.free_frames(), 1020);
}

#[test]
fn a_probe_is_tried_once_a_trace_second_and_holds_nothing() {
    let trace = small(vec![
        TraceOp::tick(0),
        TraceOp::tick(999), // not yet a second
        alloc(9, MOVABLE),
        TraceOp::tick(1),
        TraceOp::tick(5000), // one sample, though five seconds passed
    ]);
    let options = ReplayOptions {
        probe: Some(order(9)),
        ..ReplayOptions::new(Start::Imposed)
    };
    let outcome = run(&trace, options).unwrap();
    assert_eq!(
        outcome.probes,
        Tries {
            tried: 3,
            served: 1
        }
    );
    assert_eq!(outcome.means.samples(), 3);
    assert_eq!(outcome.end.free_frames(), 508);
}

#[test]
fn squeezed_frames_are_movable_and_held_to_the_end() {
    let mut trace = small(vec![TraceOp::free(0, order(0), 0), TraceOp::tick(0)]);
    trace.init[1].class = InitClass::Unmovable;
    let options = ReplayOptions {
        squeeze: 100,
        ..ReplayOptions::new(Start::Fresh)
    };
    let outcome = run(&trace, options).unwrap();
    assert_eq!(outcome.end.free_frames(), 1024 - 3 - 100);
    // All in one block: two movable objects, the hundred, and one unmovable object.
    assert_eq!(outcome.end.movable_frames_in_mixed, 2 + 100);
    let options = ReplayOptions {
        squeeze: 2000,
        ..ReplayOptions::new(Start::Fresh)
    };
    let outcome = run(&trace, options).unwrap();
    assert_eq!(
        (outcome.unplaced, outcome.end.free_frames()),
        (2000 - 1020, 1)
    );
}

#[test]
fn the_series_has_a_point_each_time_its_interval_has_passed() {
    let ops = (0..10)
        .map(|_| TraceOp::tick(250))
        .chain([alloc(0, MOVABLE)])
        .collect();
    let options = ReplayOptions {
        every_ms: Some(500),
        ..ReplayOptions::new(Start::Imposed)
    };
    let outcome = run(&small(ops), options).unwrap();
    let times: Vec<u64> = outcome.series.iter().map(|p| p.sample.ms).collect();
    assert_eq!(times, [250, 750, 1250, 1750, 2250]);
    assert_eq!(outcome.means.samples(), 3); // at 250, 1250 and 2250 ms
}

#[test]
fn the_recorded_background_steps_in_front_of_the_operations_that_it_stood_before() {
    let mut trace = small(vec![
        alloc(0, MOVABLE),
        TraceOp::tick(200),
        alloc(0, MOVABLE),
    ]);
    trace.work.traced.background = true;
    let woke = |at| WorkEvent {
        at,
        kind: WorkKind::Woke {
            node: 0,
            order: order(0),
        },
    };
    // Two before the first operation, one before the last one.
    trace.work.events = vec![woke(0), woke(0), woke(2)];
    let told = |memory: &TraceMemory<'_>, squeeze| {
        let mut subject = NoGrouping::new(memory);
        let options = ReplayOptions {
            squeeze,
            ..ReplayOptions::new(Start::Imposed)
        };
        replay(&mut subject, memory, options, &AtomicU64::new(0)).unwrap();
        let first = subject.told.first().map_or(0, |&(asked, _)| asked);
        let of = |(asked, step): (u64, _)| (asked - first, step);
        subject.told.into_iter().map(of).collect::<Vec<_>>()
    };
    let mut memory = TraceMemory::new(&trace).unwrap();
    assert_eq!(told(&memory, 0), []);
    memory.background = BackgroundRuns::of(&trace);
    let begins = Some(RecordedStep::Begins);
    let expected = [(0, None), (0, begins), (0, begins), (1, begins)];
    // A replay with a little less, which tells how far figures can be trusted, goes by the same rounds.
    assert_eq!(told(&memory, 0), expected);
    assert_eq!(told(&memory, 100), expected);
    assert_eq!(told(&memory.with_less(), 100), []);
}

#[test]
fn caches_are_filled_once_what_was_there_is_in_place() {
    let trace = Trace {
        init: (0..7)
            .map(|frame| InitObject {
                frame: Frame(frame),
                class: InitClass::Movable,
            })
            .collect(),
        ..small(vec![alloc(0, MOVABLE)])
    };
    let memory = TraceMemory::new(&trace).unwrap();
    for (start, asked) in [(Start::Imposed, 5), (Start::Fresh, 12)] {
        let mut subject = NoGrouping::new(&memory);
        let options = ReplayOptions {
            squeeze: 5,
            ..ReplayOptions::new(start)
        };
        replay(&mut subject, &memory, options, &AtomicU64::new(0)).unwrap();
        assert_eq!(subject.filled_after, [asked]);
    }
}

#[test]
fn frames_that_do_not_exist_are_neither_free_nor_handed_out() {
    let mut trace = small(vec![]);
    trace.absent = vec![Run::new(Frame(512), 500).unwrap()];
    trace.ops = (0..1024 - 500).map(|_| alloc(0, MOVABLE)).collect();
    let outcome = run(&trace, ReplayOptions::new(Start::Imposed)).unwrap();
    assert_eq!(outcome.failures[0], 4);
    assert_eq!((outcome.end.free_frames(), outcome.false_failures), (0, 0));
}

#[test]
fn an_initial_object_on_a_taken_frame_stops_the_replay() {
    let mut trace = small(vec![]);
    trace.init[3].frame = Frame(2);
    let error = run(&trace, ReplayOptions::new(Start::Imposed)).unwrap_err();
    assert!(
        matches!(error, ReplayError::Fault { op: None, .. }),
        "{error}"
    );
    assert!(run(&trace, ReplayOptions::new(Start::Fresh)).is_ok());
}

#[test]
fn a_trace_out_of_bounds_is_refused_with_the_number() {
    let empty = Trace::default();
    assert_eq!(
        TraceMemory::new(&empty).unwrap_err(),
        MemoryError::Frames(0)
    );
    let trace = small(vec![alloc(11, MOVABLE)]);
    let error = TraceMemory::new(&trace).unwrap_err();
    assert_eq!(
        error.to_string(),
        "operation 0: order 11 is above the maximum 10"
    );
}

/// What an allocator must not do, each once.
enum WrongAllocator {
    HandsOutTwice,
    FailsFalsely,
    RefusesFrees,
}

struct BrokenSubject(WrongAllocator, NoGrouping);

impl ReplaySubject for BrokenSubject {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn set_label(&mut self, _: u64, _: Mobility) {}
    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        self.1.alloc_at(frame, order, mobility)
    }
    fn alloc(&mut self, cpu: CpuId, order: Order, mobility: Mobility) -> Option<Frame> {
        match self.0 {
            WrongAllocator::HandsOutTwice => Some(Frame(64)),
            WrongAllocator::FailsFalsely => None,
            WrongAllocator::RefusesFrees => self.1.alloc(cpu, order, mobility),
        }
    }
    fn free(&mut self, _: CpuId, _: Frame, _: Order) -> Result<(), FreeRefused> {
        Err(FreeRefused)
    }
    fn drain(&mut self) {}
    fn free_blocks(&self) -> [[u64; 11]; 3] {
        self.1.free_blocks()
    }
    fn labels(&self) -> [u64; 3] {
        self.1.labels()
    }
    fn fallbacks(&self) -> [[u64; 3]; 3] {
        [[0; 3]; 3]
    }
}

#[test]
fn the_oracle_sees_what_an_allocator_must_not_do() {
    let trace = small(vec![
        alloc(0, MOVABLE),
        alloc(0, MOVABLE),
        TraceOp::free(4, order(0), 0),
    ]);
    let memory = TraceMemory::new(&trace).unwrap();
    let broken = |wrong| {
        let mut subject = BrokenSubject(wrong, NoGrouping::new(&memory));
        replay(
            &mut subject,
            &memory,
            ReplayOptions::new(Start::Imposed),
            &AtomicU64::new(0),
        )
    };
    let error = broken(WrongAllocator::HandsOutTwice).unwrap_err();
    assert!(
        matches!(error, ReplayError::Fault { op: Some(1), .. }),
        "{error}"
    );
    let error = broken(WrongAllocator::RefusesFrees).unwrap_err();
    assert!(
        matches!(error, ReplayError::Refused { op: 2, .. }),
        "{error}"
    );
    let outcome = broken(WrongAllocator::FailsFalsely).unwrap();
    assert_eq!((outcome.failures[0], outcome.false_failures), (2, 2));
}

#[test]
fn outcomes_come_in_the_order_of_the_jobs_whatever_the_threads_do() {
    let trace = small((0..300u16).map(|i| alloc((i % 4) as u8, MOVABLE)).collect());
    let memory = TraceMemory::new(&trace).unwrap();
    let jobs: Vec<ReplayJob<'_>> = (0..20)
        .map(|squeeze| ReplayJob {
            policy: ReplayPolicy::COMPARED[0],
            memory: &memory,
            options: ReplayOptions {
                squeeze,
                ..ReplayOptions::new(Start::Fresh)
            },
        })
        .collect();
    let done = AtomicU64::new(0);
    let one = replay_all(&jobs, 1, &done).unwrap();
    let many = replay_all(&jobs, 4, &done).unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 2 * 20 * 300);
    for (a, b) in one.iter().zip(&many) {
        assert_eq!((a.end, a.failures, &a.means), (b.end, b.failures, &b.means));
    }
    let free: Vec<u64> = one.iter().map(|o| o.end.free_frames()).collect();
    assert!(free.is_sorted_by(|a, b| a >= b), "{free:?}");
}

#[test]
fn no_replay_begins_once_the_caller_has_stopped_them() {
    let trace = small(vec![alloc(0, MOVABLE)]);
    let memory = TraceMemory::new(&trace).unwrap();
    let job = ReplayJob {
        policy: ReplayPolicy::OURS,
        memory: &memory,
        options: ReplayOptions::new(Start::Imposed),
    };
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let run = || replay_all_until(&[job; 3], 2, &done, &stop);
    assert_eq!(run().unwrap().len(), 3);
    stop.store(true, Ordering::Relaxed);
    assert_eq!(run().unwrap_err(), ReplayError::Stopped);
    assert_eq!(done.load(Ordering::Relaxed), 3);
}

#[test]
fn the_pole_merges_and_splits_like_a_buddy_system() {
    let trace = Trace {
        nframes: 1024 + 8,
        ..Trace::default()
    };
    let memory = TraceMemory::new(&trace).unwrap();
    let mut pole = NoGrouping::new(&memory);
    let whole = pole.free_blocks();
    assert_eq!(whole[MOVABLE.index()], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
    assert!(pole.alloc_at(Frame(517), order(0), MOVABLE));
    assert!(
        !pole.alloc_at(Frame(512), order(3), MOVABLE),
        "one of its frames is taken"
    );
    assert_eq!(pole.free_blocks()[1], [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(pole.free(CpuId(0), Frame(516), order(1)), Err(FreeRefused));
    assert_eq!(pole.free(CpuId(0), Frame(1032), order(0)), Err(FreeRefused));
    pole.free(CpuId(0), Frame(517), order(0)).unwrap();
    assert_eq!(pole.free(CpuId(0), Frame(517), order(0)), Err(FreeRefused));
    assert_eq!(pole.free_blocks(), whole);
}

#[test]
fn an_unknown_policy_is_answered_with_the_names_there_are() {
    let error = "linux-9".parse::<ReplayPolicy>().unwrap_err().to_string();
    assert!(
        error.starts_with("there is no policy 'linux-9', expected one of linux-4.4,"),
        "{error}"
    );
    for policy in ReplayPolicy::ALL {
        assert!(error.contains(policy.name()));
        assert_eq!(policy.name().parse::<ReplayPolicy>(), Ok(policy));
    }
}

/// A universe of `rows` chunks of 1,024 frames, and a free in each, two seconds apart.
fn a_row_a_free(rows: u64) -> Trace {
    let init = (0..rows).map(|row| InitObject {
        frame: Frame(row << 10),
        class: InitClass::Movable,
    });
    let row = |row| {
        [
            TraceOp::free(row as u32, Order::ZERO, 0),
            TraceOp::tick(2_000),
        ]
    };
    Trace {
        nframes: rows << 10,
        init: init.collect(),
        ops: (0..rows).flat_map(row).collect(),
        ..Trace::default()
    }
}

#[test]
fn p5_twice_the_rows_are_at_most_twice_the_steps() {
    let steps = |rows| {
        let trace = a_row_a_free(rows);
        crate::steps::of(|| {
            let outcome = run(&trace, ReplayOptions::new(Start::Imposed)).unwrap();
            assert_eq!(outcome.means.samples(), rows);
        })
    };
    let (once, twice) = (steps(100), steps(200));
    assert!(once >= 100, "each row looks at what changed: {once}");
    // All chunks once, and then one a row.
    assert!(twice <= 2 * once + 2, "{twice} steps after {once}");
}

#[test]
fn p5_a_row_of_the_engines_looks_at_each_pageblock_twice_and_at_what_changed() {
    let all = a_row_a_free(64);
    let pageblocks = all.nframes / 512;
    let steps = |rows: usize| {
        let mut trace = all.clone();
        trace.ops.truncate(2 * rows);
        let memory = TraceMemory::new(&trace).unwrap();
        let options = ReplayOptions::new(Start::Imposed);
        let replayed = |subject: &mut dyn ReplaySubject| {
            let outcome = replay(subject, &memory, options, &AtomicU64::new(0)).unwrap();
            assert_eq!(outcome.means.samples(), rows as u64);
        };
        crate::steps::of(|| with_engine(Fallback::Concentrated, &memory, replayed).unwrap())
    };
    let of_32_rows = steps(64) - steps(32);
    let of_a_row = 2 * pageblocks + 1;
    assert_eq!(of_32_rows, 32 * of_a_row, "{pageblocks} pageblocks");
}

#[test]
fn p5_a_request_that_fails_looks_at_what_changed() {
    // All of the memory is held but one pair of frames, which is asked for twice again and again.
    let groups = 64;
    let tries = 100;
    let steps = |tries: u32| {
        let mut ops = vec![alloc(10, UNMOVABLE); groups as usize];
        ops.push(TraceOp::free_part(groups as u32 - 1, 1022, order(1), 0));
        for k in 0..tries {
            let object = groups as u32 + 2 * k;
            ops.extend([alloc(1, MOVABLE), alloc(1, MOVABLE)]);
            ops.push(TraceOp::free(object, order(1), 0));
        }
        let trace = Trace {
            nframes: groups << 10,
            ops,
            ..Trace::default()
        };
        crate::steps::of(|| {
            let outcome = run(&trace, ReplayOptions::new(Start::Imposed)).unwrap();
            assert_eq!(outcome.failures[1], u64::from(tries));
        })
    };
    let (once, twice) = (steps(tries), steps(2 * tries));
    assert!(once >= u64::from(tries), "each failure looks: {once}");
    assert_eq!(twice - once, u64::from(tries), "and at one group");
}
