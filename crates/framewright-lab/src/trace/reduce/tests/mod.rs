//! Each row of the reduction's table by a few events, and what is counted where the events cannot be true.

mod histories;

use super::*;
use crate::trace::{
    EventKind, InitClass, InitObject, OpKind, ReadFrameState, TraceMove, TraceOp, write_pft5,
};
use framewright::{Frame, Mobility, Order, Run};

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// An event of task 7 on CPU 1 at time 0.
fn event(kind: EventKind) -> TraceEvent {
    TraceEvent {
        time_ns: 0,
        cpu: 1,
        pid: 7,
        kind,
    }
}

fn alloc(frame: u64, of: u8, mobility: Mobility) -> TraceEvent {
    event(EventKind::Alloc {
        frame: Some(Frame(frame)),
        order: order(of),
        mobility,
        gfp: 0xcc0,
    })
}

fn free(frame: u64, of: u8) -> TraceEvent {
    event(EventKind::Free {
        frame: Frame(frame),
        order: order(of),
    })
}

const MIGRATE_END: EventKind = EventKind::MigrateEnd {
    succeeded: 1,
    failed: 0,
};

fn op_alloc(of: u8, mobility: Mobility) -> TraceOp {
    TraceOp::alloc(false, order(of), mobility, 1, 0, 0)
}

fn op_synthetic(of: u8) -> TraceOp {
    TraceOp::alloc(false, order(of), Mobility::Unmovable, 0x81, 255, 0)
}

fn op_free(object: u32, of: u8) -> TraceOp {
    TraceOp::free(object, order(of), 1)
}

/// A snapshot of two chunks: all of the first movable, but `free` free; the second all slab.
fn two_chunks(free: std::ops::Range<usize>) -> Snapshot {
    let mut frames = vec![ReadFrameState::Movable; 1024];
    frames[free].fill(ReadFrameState::Free);
    frames.resize(2048, ReadFrameState::Slab);
    Snapshot::new(frames)
}

fn run(events: &[TraceEvent], first: Option<Snapshot>) -> Reduction {
    let reduction = reduce(events.iter().copied(), first, None).unwrap();
    check(&reduction);
    assert_eq!(reduction.counts.total(), events.len() as u64, "TR3");
    reduction
}

/// TR1: every free refers to frames of an object that is live there. TR2, on the chosen frames
/// where nothing moved: no frame is allocated twice.
fn check(reduction: &Reduction) {
    let trace = &reduction.trace;
    // What moves is alive then.
    write_pft5(trace, std::io::sink()).unwrap();
    let mut live: Vec<Vec<bool>> = vec![vec![true]; trace.init.len()];
    let mut bases: Vec<u64> = trace.init.iter().map(|object| object.frame.0).collect();
    let mut holders = vec![None; trace.nframes as usize];
    for (object, &frame) in bases.iter().enumerate() {
        assert_eq!(holders[frame as usize].replace(object), None, "TR2");
    }
    let mut chosen = reduction.chosen.iter();
    for (at, op) in trace.ops.iter().enumerate() {
        let frames = op.order().frames() as usize;
        match op.kind() {
            OpKind::Alloc => {
                let base = u64::from(*chosen.next().unwrap());
                for frame in base..base + frames as u64 {
                    let before = holders[frame as usize].replace(live.len());
                    assert!(
                        before.is_none() || reduction.anomalies.moves > 0,
                        "TR2 at op {at}"
                    );
                }
                bases.push(base);
                live.push(vec![true; frames]);
            }
            OpKind::Free | OpKind::FreePart => {
                let object = op.value as usize;
                let offset = op.offset as usize;
                if op.kind() == OpKind::Free {
                    assert_eq!(live[object].len(), frames, "TR1 at op {at}");
                }
                let parts = live[object].iter_mut().enumerate();
                for (k, part) in parts.skip(offset).take(frames) {
                    assert!(std::mem::take(part), "TR1 at op {at}");
                    let frame = bases[object] as usize + k;
                    if holders[frame] == Some(object) {
                        holders[frame] = None;
                    }
                }
            }
            OpKind::Tick | OpKind::Failed => {}
        }
    }
    assert!(
        chosen.next().is_none(),
        "a chosen frame for each allocation"
    );
}

#[test]
fn an_alloc_and_its_free_become_an_object() {
    let events = [alloc(0x1403, 0, Mobility::Movable), free(0x1403, 0)];
    let got = run(&events, None);
    assert_eq!(got.trace.nframes, 1024, "the one chunk that occurs");
    assert_eq!(got.trace.init, []);
    assert_eq!(
        got.trace.ops,
        [op_alloc(0, Mobility::Movable), op_free(0, 0)]
    );
    assert_eq!(got.trace.gfp, [0xcc0]);
    assert_eq!((got.chosen, got.chunks), (vec![3], vec![5]));
    assert!(got.anomalies.is_empty());
}

#[test]
fn chunks_are_renumbered_in_the_order_of_their_addresses() {
    let events = [
        alloc(9 << 10, 0, Mobility::Movable),
        alloc(2 << 10, 10, Mobility::Movable),
    ];
    let got = run(&events, None);
    assert_eq!((got.chunks, got.chosen), (vec![2, 9], vec![1024, 0]));
}

#[test]
fn a_free_of_what_was_known_free_gets_a_synthetic_alloc_half_way() {
    use Mobility::Movable;
    let events = [
        alloc(8, 3, Movable),
        free(8, 3), // two operations: its frames are free since operation 2
        alloc(100, 0, Movable),
        alloc(101, 0, Movable),
        alloc(102, 0, Movable),
        alloc(103, 0, Movable),
        free(8, 2), // at operation 6: half-way is before operation 4
    ];
    let got = run(&events, None);
    let m = op_alloc(0, Movable);
    assert_eq!(
        got.trace.ops,
        [
            op_alloc(3, Movable),
            op_free(0, 3),
            m,
            m,
            op_synthetic(2),
            m,
            m,
            op_free(3, 2)
        ]
    );
    assert_eq!(got.chosen, [8, 100, 101, 8, 102, 103]);
    assert!(got.trace.ops[4].is_synthetic());
    assert_eq!(
        got.anomalies,
        Anomalies {
            frees_of_unknown: 1,
            ..Anomalies::default()
        }
    );
}

#[test]
fn a_free_of_the_unheard_is_an_initial_object_where_there_is_no_snapshot() {
    let events = [
        free(6, 1),
        alloc(6, 1, Mobility::Unmovable),
        free(6, 1),
        free(6, 0),
    ];
    let got = run(&events, None);
    let movable = |frame| InitObject {
        frame: Frame(frame),
        class: InitClass::Movable,
    };
    assert_eq!(got.trace.init, [movable(6), movable(7)]);
    assert_eq!(
        got.trace.ops,
        [
            op_free(0, 0),
            op_free(1, 0),
            op_alloc(1, Mobility::Unmovable),
            op_free(2, 1),
            op_synthetic(0),
            op_free(3, 0)
        ]
    );
    assert_eq!(
        got.anomalies,
        Anomalies {
            initial_inferred: 2,
            frees_of_unknown: 1,
            frees_spanning: 1,
            ..Anomalies::default()
        }
    );
}

#[test]
fn a_second_alloc_of_a_frame_means_a_missed_free() {
    use Mobility::Movable;
    let events = [alloc(8, 2, Movable), free(10, 0), alloc(8, 0, Movable)];
    let got = run(&events, None);
    let missed = |offset, of| TraceOp::free_part(0, offset, order(of), 0x81);
    assert_eq!(
        got.trace.ops,
        [
            op_alloc(2, Movable),
            TraceOp::free_part(0, 2, order(0), 1),
            missed(0, 1),
            missed(3, 0),
            op_alloc(0, Movable)
        ]
    );
    assert_eq!(got.anomalies.missed_frees, 1);
    let whole = run(&[alloc(8, 2, Movable), alloc(9, 0, Movable)], None);
    assert_eq!(whole.trace.ops[1], TraceOp::free(0, order(2), 0x81));
}

#[test]
fn frees_of_parts_and_over_several_objects_are_told_apart() {
    use Mobility::Movable;
    let events = [
        alloc(16, 3, Movable),
        free(20, 2),
        alloc(20, 2, Movable),
        free(16, 3), // the first half of the first object, and the second
    ];
    let got = run(&events, None);
    assert_eq!(
        got.trace.ops,
        [
            op_alloc(3, Movable),
            TraceOp::free_part(0, 4, order(2), 1),
            op_alloc(2, Movable),
            TraceOp::free_part(0, 0, order(2), 1),
            op_free(1, 2)
        ]
    );
    assert_eq!(got.anomalies.frees_spanning, 1);
}

#[test]
fn a_snapshot_gives_the_initial_objects_and_the_universe() {
    let got = run(
        &[free(5, 0), alloc(0, 1, Mobility::Reclaimable)],
        Some(two_chunks(100..1024)),
    );
    // The second chunk was wholly allocated and nothing named it.
    assert_eq!((got.trace.nframes, got.chunks), (1024, vec![0]));
    // Frames 0 and 1 lay in a per-CPU list: their first event is an alloc.
    assert_eq!(got.trace.init.len(), 98);
    assert_eq!(got.trace.unlisted, [Run::new(Frame(0), 2).unwrap()]);
    assert_eq!(got.trace.init[0].frame, Frame(2));
    assert_eq!(
        got.trace.ops,
        [op_free(3, 0), op_alloc(1, Mobility::Reclaimable)]
    );
    assert_eq!(
        got.anomalies,
        Anomalies {
            percpu_at_start: 2,
            ..Anomalies::default()
        }
    );
    let named = run(&[free(1024, 0)], Some(two_chunks(0..0)));
    assert_eq!((named.chunks, named.trace.init.len()), (vec![1], 1024));
}

#[test]
fn frames_that_the_snapshot_does_not_have_are_left_out_and_absent() {
    let mut frames = vec![ReadFrameState::Free; 1024];
    frames[3..8].fill(ReadFrameState::Absent);
    let snapshot = Snapshot::new(frames);
    let events = [
        alloc(2, 1, Mobility::Movable),
        alloc(5000, 0, Mobility::Movable),
        free(u64::MAX, 0),
        alloc(0, 1, Mobility::Movable),
    ];
    let got = run(&events, Some(snapshot));
    assert_eq!(
        got.trace.absent,
        [framewright::Run::new(Frame(3), 5).unwrap()]
    );
    assert_eq!(
        (got.anomalies.outside_snapshot, got.trace.ops.len()),
        (3, 1)
    );
}

#[test]
fn frames_freed_by_a_migrating_task_are_moves_and_match_a_later_free() {
    use Mobility::{Movable, Unmovable};
    let events = [
        alloc(64, 0, Movable),
        alloc(65, 0, Unmovable),
        event(EventKind::CompactionBegin),
        event(EventKind::MigrateStart),
        free(64, 0), // moved
        free(65, 0), // a softirq's: unmovable contents were not moved
        event(MIGRATE_END),
        free(200, 0), // isolated and not used
        event(EventKind::CompactionEnd),
        alloc(64, 0, Movable),
        free(300, 0), // where the first object went
        free(301, 0), // the bulk allocator's
    ];
    let got = run(&events, Some(two_chunks(64..1024)));
    let base = 64;
    let m = op_alloc(0, Movable);
    assert_eq!(
        got.trace.ops,
        [
            m,
            op_alloc(0, Unmovable),
            op_synthetic(0), // free since 0, now 5
            op_free(base + 1, 0),
            m,
            op_free(base, 0),
            op_free(base + 2, 0)
        ]
    );
    assert_eq!(
        got.anomalies,
        Anomalies {
            moves: 1,
            moves_matched: 1,
            isolated_unused: 1,
            frees_of_unknown: 1,
            ..Anomalies::default()
        }
    );
    let moved = TraceMove {
        at: 2,
        object: base,
        offset: 0,
        order: Order::ZERO,
        from: 64,
        to: Some(300),
    };
    assert_eq!(got.trace.moves, [moved]);
}

#[test]
fn a_move_that_is_older_than_the_last_free_of_the_frame_is_not_matched() {
    use Mobility::Movable;
    let events = [
        alloc(64, 0, Movable),
        alloc(300, 0, Movable),
        event(EventKind::MigrateStart),
        free(64, 0),
        event(MIGRATE_END),
        free(300, 0),
        free(300, 0), // was allocated when the move happened: cannot be its target
    ];
    let got = run(&events, Some(two_chunks(64..1024)));
    assert_eq!(
        (
            got.anomalies.frees_of_unknown,
            got.anomalies.moves_unmatched
        ),
        (1, 1)
    );
}

#[test]
fn an_object_can_move_twice_and_be_freed_where_it_is() {
    use Mobility::Movable;
    let mut events = vec![
        alloc(64, 0, Movable),
        event(EventKind::MigrateStart),
        free(64, 0),
    ];
    events.extend([free(70, 0), event(MIGRATE_END), free(80, 0)]);
    events.push(TraceEvent {
        time_ns: 1_500_000,
        ..event(EventKind::Other)
    });
    let got = run(&events, Some(two_chunks(64..1024)));
    assert_eq!(
        got.trace.ops,
        [op_alloc(0, Movable), op_free(64, 0), TraceOp::tick(1)]
    );
    assert_eq!((got.anomalies.moves, got.anomalies.moves_matched), (2, 2));
    let moves = got.trace.moves.iter();
    let moves: Vec<_> = moves.map(|moved| (moved.from, moved.to)).collect();
    assert_eq!(moves, [(64, Some(70)), (70, Some(80))]);
    assert_eq!(
        got.reference[0].free_frames, 960,
        "all that was free at the start"
    );
}

#[test]
fn a_migrating_task_that_allocates_its_targets_itself_frees_ordinarily() {
    use Mobility::Movable;
    let events = [
        alloc(64, 0, Movable),
        event(EventKind::MigrateStart),
        alloc(65, 0, Movable),
        free(64, 0),
        alloc(66, 0, Movable),
        free(66, 0), // a target that was not needed
        event(MIGRATE_END),
    ];
    let got = run(&events, None);
    let m = op_alloc(0, Movable);
    assert_eq!(got.trace.ops, [m, m, op_free(0, 0), m, op_free(2, 0)]);
    assert!(got.anomalies.is_empty());
}

#[test]
fn lost_events_end_every_passage_and_are_summed() {
    use Mobility::Movable;
    let events = [
        alloc(64, 0, Movable),
        event(EventKind::MigrateStart),
        event(EventKind::Lost(40)),
        free(64, 0),
        event(EventKind::Lost(2)),
        event(MIGRATE_END),
        event(EventKind::CompactionEnd),
    ];
    let got = run(&events, None);
    assert_eq!(got.trace.ops, [op_alloc(0, Movable), op_free(0, 0)]);
    assert_eq!(
        got.anomalies,
        Anomalies {
            lost_events: 42,
            ends_unpaired: 2,
            ..Anomalies::default()
        }
    );
}

#[test]
fn what_no_buddy_system_does_is_counted_and_left_out() {
    let mut events = vec![alloc(1, 1, Mobility::Movable), free(1024, 11)];
    events.push(event(EventKind::Alloc {
        frame: None,
        order: order(3),
        mobility: Mobility::Unmovable,
        gfp: 1,
    }));
    let got = run(&events, None);
    let failed = TraceOp::alloc(true, order(3), Mobility::Unmovable, 1, 0, 0);
    assert_eq!(got.trace.ops, [failed]);
    assert_eq!(
        (got.anomalies.misaligned, got.anomalies.order_too_large),
        (1, 1)
    );
    assert_eq!(got.trace.nframes, 0);
}

#[test]
fn time_passes_in_ticks_and_never_backwards() {
    let at = |ms: u64, kind| TraceEvent {
        time_ns: ms * 1_000_000 + 5,
        ..event(kind)
    };
    let events = [
        at(10, EventKind::FreeBatched),
        at(12, EventKind::Other),
        at(11, EventKind::Other),
        at(13, EventKind::DirectReclaim { order: order(0) }),
        at(1011, EventKind::Other),
        at(1013, EventKind::Other),
    ];
    let got = run(&events, None);
    assert_eq!(
        got.trace.ops,
        [
            TraceOp::tick(2),
            TraceOp::tick(1),
            TraceOp::tick(998),
            TraceOp::tick(2)
        ]
    );
    assert_eq!(got.anomalies.time_backwards, 1);
    let rows: Vec<_> = got
        .reference
        .iter()
        .map(|row| (row.event, row.ms))
        .collect();
    assert_eq!(rows, [(0, 2), (3, 1003)]);
}

#[test]
fn flag_words_past_the_table_and_processes_past_the_numbers_share_one() {
    let mut reducer = Reducer::new(None);
    for k in 0..300_u64 {
        let kind = EventKind::Alloc {
            frame: Some(Frame(k)),
            order: order(0),
            mobility: Mobility::Movable,
            gfp: 1000 + k as u32,
        };
        let event = TraceEvent {
            pid: k as u32,
            ..event(kind)
        };
        reducer.push(&event).unwrap();
    }
    let got = reducer.finish(None).unwrap();
    assert_eq!((got.trace.gfp.len(), got.trace.gfp[254]), (255, 0));
    assert_eq!((got.trace.ops[253].gfp, got.trace.ops[299].gfp), (253, 254));
    assert_eq!(got.trace.ops[299].pid, 299);
}

#[test]
fn the_reference_follows_the_frames_that_the_kernel_chose() {
    let tick = TraceEvent {
        time_ns: 2_000_000,
        ..event(EventKind::Other)
    };
    let events = [
        alloc(512, 3, Mobility::Unmovable),
        event(EventKind::Extfrag {
            wanted: Mobility::Unmovable,
            taken: Mobility::Movable,
        }),
        free(0, 0),
        tick,
    ];
    let got = run(&events, Some(two_chunks(400..1024)));
    let row = got.reference[0];
    // 624 free at the start, 8 taken, frame 0 freed: only that one is in no free run of 8.
    assert_eq!((row.event, row.ms, row.free_frames), (2, 2, 617));
    assert_eq!((row.free_2m, row.free_4m, row.unusable_o9), (0, 0, 1.0));
    assert_eq!(row.unusable_o3, 1.0 / 617.0);
    assert_eq!(
        (row.blocks_unmov_any, row.blocks_mixed, row.extfrag_so_far),
        (1, 0, 1)
    );
    let mut csv = Vec::new();
    ReferenceRow::write_csv(&got.reference, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(
        csv.lines().nth(1),
        Some("2,2,617,0,0,0.0016,1.0000,0,1,0,1")
    );
}

#[test]
fn the_last_snapshot_tells_how_far_the_reduction_is_true() {
    let events = [free(0, 0), alloc(400, 0, Mobility::Movable)];
    let got = reduce(
        events,
        Some(two_chunks(400..1024)),
        Some(&two_chunks(400..1023)),
    )
    .unwrap();
    assert_eq!(
        got.agreement,
        Some(Agreement {
            both_free: 622,
            only_model_free: 2,
            only_snapshot_free: 1,
            both_allocated: 399,
            placed: 0,
        })
    );
    assert!((got.agreement.unwrap().fraction() - 1021.0 / 1024.0).abs() < 1e-12);
}

/// As [`two_chunks`] with frames from 64 on free, but for those.
fn all_free_but(allocated: &[usize]) -> Snapshot {
    let mut frames = vec![ReadFrameState::Movable; 64];
    frames.resize(1024, ReadFrameState::Free);
    for &frame in allocated {
        frames[frame] = ReadFrameState::Movable;
    }
    frames.resize(2048, ReadFrameState::Slab);
    Snapshot::new(frames)
}

#[test]
fn what_moved_and_lives_on_is_where_the_last_snapshot_has_a_frame_that_no_event_took() {
    use Mobility::Movable;
    let tick = |ms: u64| TraceEvent {
        time_ns: ms * 1_000_000,
        ..event(EventKind::Other)
    };
    let events = [
        alloc(64, 0, Movable),
        alloc(900, 0, Movable),
        tick(2),
        event(EventKind::MigrateStart),
        free(64, 0),
        event(MIGRATE_END),
        tick(2000),
        // It was taken when the move happened: the object cannot be in it.
        free(900, 0),
    ];
    let with = |last| reduce(events, Some(two_chunks(64..1024)), Some(&last)).unwrap();
    let got = with(all_free_but(&[300, 700, 900]));
    let agreement = got.agreement.unwrap();
    assert_eq!((agreement.placed, agreement.only_model_free), (1, 2));
    assert_eq!(got.anomalies.moves_unmatched, 1, "no event told where to");
    assert_eq!(got.trace.moves[0].to, Some(700), "the highest one");
    let free: Vec<u64> = got.reference.iter().map(|row| row.free_frames).collect();
    assert_eq!(free, [958, 958], "it takes a frame as long as it lives");
    // Where there is none it can be in, it stays unknown.
    let got = with(all_free_but(&[900]));
    assert_eq!(got.agreement.unwrap().placed, 0);
    let free: Vec<u64> = got.reference.iter().map(|row| row.free_frames).collect();
    assert_eq!(free, [958, 959]);
}

#[test]
fn a_block_that_moved_is_in_an_aligned_run_of_frames() {
    let events = [
        alloc(64, 1, Mobility::Movable),
        event(EventKind::MigrateStart),
        free(64, 1),
        event(MIGRATE_END),
    ];
    let placed = |allocated: &[usize]| {
        let last = all_free_but(allocated);
        let got = reduce(events, Some(two_chunks(64..1024)), Some(&last)).unwrap();
        got.agreement
            .map(|agreement| (agreement.placed, agreement.only_model_free))
    };
    assert_eq!(placed(&[600, 601, 703, 704]), Some((2, 2)));
    assert_eq!(placed(&[601, 602]), Some((0, 2)));
    // Nothing is put where a slab or nothing on a list of movable frames is: those are free in a CPU's list, or taken unseen.
    let mut frames = vec![ReadFrameState::Unmovable; 64];
    frames.resize(1024, ReadFrameState::Free);
    frames[600..602].fill(ReadFrameState::Unmovable);
    frames[700..702].fill(ReadFrameState::Slab);
    frames.resize(2048, ReadFrameState::Slab);
    let last = Snapshot::new(frames);
    let got = reduce(events, Some(two_chunks(64..1024)), Some(&last)).unwrap();
    assert_eq!(got.agreement.unwrap().placed, 0);
}

#[test]
fn a_large_block_is_placed_before_single_frames_take_its_place_apart() {
    let moved = |frame, of| {
        [
            event(EventKind::MigrateStart),
            free(frame, of),
            event(MIGRATE_END),
        ]
    };
    let mut events = vec![
        alloc(64, 0, Mobility::Movable),
        alloc(66, 1, Mobility::Movable),
    ];
    events.extend(moved(64, 0));
    events.extend(moved(66, 1));
    let last = all_free_but(&[500, 800, 801]);
    let got = reduce(events, Some(two_chunks(64..1024)), Some(&last)).unwrap();
    let places: Vec<_> = got.trace.moves.iter().map(|moved| moved.to).collect();
    assert_eq!(places, [Some(500), Some(800)]);
    assert_eq!(got.agreement.unwrap().placed, 3);
}

#[test]
fn what_no_event_names_and_is_free_in_the_end_was_free_at_the_start() {
    // In the first chunk an event names frame 0; the second has none.
    let (first, mut last) = (two_chunks(0..0), vec![ReadFrameState::Movable; 2048]);
    last[0..4].fill(ReadFrameState::Free);
    last[2000] = ReadFrameState::Free;
    let got = reduce([free(0, 0)], Some(first), Some(&Snapshot::new(last))).unwrap();
    assert_eq!(got.chunks, [0, 1]);
    assert_eq!(
        got.trace.init.len(),
        2048 - 4,
        "all but frames 1, 2, 3 and 2000"
    );
    assert_eq!(got.trace.init[1].frame, Frame(4));
    let unlisted = [(1, 3), (2000, 1)].map(|(at, n)| Run::new(Frame(at), n).unwrap());
    assert_eq!(
        got.trace.unlisted, unlisted,
        "the first snapshot has them in use"
    );
    assert_eq!(
        got.anomalies,
        Anomalies {
            free_unseen: 4,
            ..Anomalies::default()
        }
    );
    assert_eq!(got.agreement.unwrap().fraction(), 1.0);
}

#[test]
fn p5_twice_the_rows_of_the_reference_are_at_most_twice_the_steps() {
    let steps = |rows: u64| {
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
        let trace = Trace {
            nframes: rows << 10,
            init: init.collect(),
            ops: (0..rows).flat_map(row).collect(),
            ..Trace::default()
        };
        crate::steps::of(|| {
            let reference = follow_chosen(&trace, &[]);
            assert_eq!(reference.len() as u64, rows);
        })
    };
    let (once, twice) = (steps(100), steps(200));
    assert!(once >= 100, "each row looks at what changed: {once}");
    // All chunks once, and then one a row.
    assert!(twice <= 2 * once + 2, "{twice} steps after {once}");
}
