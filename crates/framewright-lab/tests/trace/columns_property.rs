use crate::support::{cases, input, order};
use framewright::{Frame, Mobility, Run};
use framewright_lab::trace::{
    Askers, CallChains, InitClass, InitObject, KernelWork, Liveness, OpKind, Trace, TraceMove,
    TraceOp, TracedWork, WorkEvent, WorkKind, read_frames, read_pft, write_frames, write_pft5,
};
use framewright_sim::Random;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What an arbitrary operation is made of; what it becomes depends on what is alive.
type Seed = (u8, u8, u8, u8, u16, u32, u32);

/// A trace that is one, from arbitrary numbers.
fn trace(nframes: u32, absent: &[(u32, u32)], init: &[(u32, u8)], seeds: &[Seed]) -> Trace {
    let mut runs = Vec::new();
    let mut at = 0u64;
    for &(skip, frames) in absent {
        let (start, frames) = (at + u64::from(skip), u64::from(frames));
        if start + frames <= u64::from(nframes) {
            runs.push(Run::new(Frame(start), frames).unwrap());
            at = start + frames;
        }
    }
    let mut taken = BTreeSet::new();
    let mut objects = Vec::new();
    for &(frame, class) in init {
        let frame = Frame(u64::from(frame % nframes));
        if !runs.iter().any(|r| r.contains(frame)) && taken.insert(frame) {
            let class =
                [InitClass::Unmovable, InitClass::Movable, InitClass::Slab][usize::from(class) % 3];
            objects.push(InitObject { frame, class });
        }
    }
    let gfp: Vec<u32> = seeds.iter().take(40).map(|s| s.5).collect();
    let mut live = Liveness::new(objects.len() as u32);
    let (mut ops, mut moves) = (Vec::new(), Vec::new());
    for &(kind, n, mobility, cpu, pid, value, offset) in seeds {
        moves.extend(moved(nframes, ops.len(), &live, (n, value, offset)));
        let mobility = Mobility::ALL[usize::from(mobility) % 3];
        let index = match value as usize % (gfp.len() + 1) {
            i if i == gfp.len() => 255,
            i => i as u8,
        };
        let size = order(n % 15);
        match kind % 8 {
            0..=2 => {
                live.alloc(size);
                ops.push(TraceOp::alloc(false, size, mobility, cpu, index, pid));
            }
            3 => ops.push(TraceOp::alloc(true, size, mobility, cpu, index, pid)),
            4 => ops.push(TraceOp::tick(value)),
            _ if live.objects() == 0 => {}
            kind => {
                let object = value % live.objects() as u32;
                let Some(allocated) = live.order(object) else {
                    continue;
                };
                if kind == 5 {
                    if live.free(object, allocated).is_ok() {
                        ops.push(TraceOp::free(object, allocated, cpu));
                    }
                } else {
                    let part = order(n % (allocated.get() + 1));
                    let offset = Frame(u64::from(offset) % allocated.frames())
                        .align_down(part)
                        .0;
                    if live.free_part(object, offset, part).is_ok() {
                        ops.push(TraceOp::free_part(object, offset as u32, part, cpu));
                    }
                }
            }
        }
    }
    // Every other free frame up to a point.
    let used = |frame: &u64| {
        objects.iter().any(|object| object.frame.0 == *frame)
            || runs.iter().any(|run: &Run| run.contains(Frame(*frame)))
    };
    let few = u64::from(nframes).min(2 * seeds.len() as u64);
    let unlisted = (0..few).step_by(2).filter(|frame| !used(frame));
    let unlisted = unlisted
        .filter_map(|frame| Run::new(Frame(frame), 1))
        .collect();
    Trace {
        unlisted,
        nframes: u64::from(nframes),
        absent: runs,
        init: objects,
        askers: askers(&ops, seeds),
        work: work(&ops, seeds),
        moves,
        ops,
        gfp,
    }
}

/// A move of something that is alive before the operation `at`.
fn moved(
    nframes: u32,
    at: usize,
    live: &Liveness,
    (n, value, offset): (u8, u32, u32),
) -> Option<TraceMove> {
    let object = value.checked_rem(live.objects() as u32)?;
    let allocated = live.order(object)?;
    let part = order(n % (allocated.get() + 1));
    let block = |number: u32| number & !(part.frames() as u32 - 1);
    let moved = TraceMove {
        at: at as u32,
        object,
        offset: block(offset % allocated.frames() as u32),
        order: part,
        from: block(value % nframes),
        to: (n > 99).then(|| block(offset % nframes)),
    };
    let ends = |first: u32| u64::from(first) + part.frames() <= u64::from(nframes);
    let is_move =
        live.has_block(object, moved.offset, part) && ends(moved.from) && moved.to.is_none_or(ends);
    is_move.then_some(moved)
}

/// Names and chains of any bytes and depths.
fn askers(ops: &[TraceOp], seeds: &[Seed]) -> Askers {
    let mut askers = Askers::default();
    for &(kind, n, _, _, pid, value, _) in seeds {
        let name = value.to_le_bytes().repeat(usize::from(n) / 2);
        askers.comms.push(&name);
        askers.chains.functions.push(&name);
        let last = askers.chains.functions.len() as u32 - 1;
        if kind & 1 == 1 {
            let depth = usize::from(pid) % (CallChains::DEPTH_MAX + 1);
            askers.chains.push(&vec![value % (last + 1); depth]);
        }
    }
    let chains = askers.chains.len() as u32;
    let asked = |op: &&TraceOp| matches!(op.kind(), OpKind::Alloc | OpKind::Failed);
    if chains > 0 {
        let of = |op: &TraceOp| match u32::from(op.pid) % (chains + 1) {
            none if none == chains => Askers::NO_CHAIN,
            chain => chain,
        };
        askers.chain_of = ops.iter().filter(asked).map(of).collect();
    }
    askers
}

/// Work of any kind, in the order of its places.
fn work(ops: &[TraceOp], seeds: &[Seed]) -> KernelWork {
    let mut events: Vec<WorkEvent> = (seeds.iter())
        .map(|&(kind, n, _, _, node, value, _)| {
            let (order, is_again, ns) = (order(n % 16), n > 99, u64::from(value) << (n % 33));
            let kind = match kind % 5 {
                0 => WorkKind::Woke { node, order },
                1 => WorkKind::Slept { node },
                2 => WorkKind::Reclaimed {
                    order,
                    ns,
                    frames: u64::from(value),
                    is_again,
                },
                3 => WorkKind::Compacted {
                    order,
                    ns,
                    is_again,
                },
                _ => WorkKind::BackgroundCompacted { ns },
            };
            let at = value % (ops.len() as u32 + 1);
            WorkEvent { at, kind }
        })
        .collect();
    events.sort_by_key(|event| event.at);
    let has = |nth: u8| seeds.iter().any(|seed| seed.0 % 5 == nth);
    let traced = TracedWork {
        background: has(0) || has(1),
        reclaim: has(2),
        compaction: has(3) || has(4),
    };
    KernelWork { traced, events }
}

fn traces() -> impl Strategy<Value = Trace> {
    (
        prop_oneof![1u32..4000, Just(u32::MAX)],
        prop::collection::vec((0u32..500, 1u32..500), 0..4),
        prop::collection::vec(any::<(u32, u8)>(), 0..30),
        prop::collection::vec(any::<Seed>(), 0..120),
    )
        .prop_map(|(nframes, absent, init, seeds)| trace(nframes, &absent, &init, &seeds))
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_pft5(trace, &mut bytes).unwrap();
    bytes
}

/// Reads what may be broken; what is read can be written and is the same then (P1).
fn reads_or_refuses(bytes: &[u8]) {
    if let Ok(trace) = read_pft(input(bytes).unwrap()) {
        let again = written(&trace);
        assert_eq!(read_pft(input(again).unwrap()).unwrap(), trace);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn what_is_written_is_read_back_and_written_the_same(trace in traces()) {
        let bytes = written(&trace);
        let read = read_pft(input(bytes.clone()).unwrap()).unwrap();
        prop_assert_eq!(&read, &trace);
        prop_assert_eq!(written(&read), bytes);
    }

    #[test]
    fn a_file_with_changed_bytes_is_read_or_refused(
        trace in traces(),
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6),
        cut in any::<u16>(),
    ) {
        let mut bytes = written(&trace);
        let len_bytes = bytes.len();
        for (at, value) in changes {
            bytes[usize::from(at) % len_bytes] = value;
        }
        reads_or_refuses(&bytes);
        reads_or_refuses(&bytes[..usize::from(cut) % len_bytes]);
    }

    #[test]
    fn columns_of_anything_are_read_or_refused(
        numbers in prop::array::uniform4(prop_oneof![0u32..40, any::<u32>()]),
        columns in prop::array::uniform13(prop::collection::vec(any::<u8>(), 0..40)),
        is_second in any::<bool>(),
    ) {
        let (magic, ncols) = if is_second { (b"PFT2", 13) } else { (b"PFT1", 10) };
        let columns = &columns[..ncols];
        let mut bytes = magic.to_vec();
        for number in numbers.into_iter().chain([ncols as u32]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let names = [
            "init", "absent", "gfptab", "ops", "cpu", "free", "part", "gfp", "pid", "tick", "comm",
            "stacks", "stack",
        ];
        for (name, column) in names.iter().zip(columns) {
            let mut padded = [0u8; 8];
            padded[..name.len()].copy_from_slice(name.as_bytes());
            bytes.extend_from_slice(&padded);
            bytes.extend_from_slice(&(column.len() as u64).to_le_bytes());
        }
        bytes.extend(columns.concat());
        reads_or_refuses(&bytes);
    }

    #[test]
    fn chosen_frames_come_back_and_damaged_ones_are_refused(
        trace in traces(),
        seed in any::<u32>(),
        damage in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        // Large enough for every order.
        let trace = Trace { nframes: u64::from(u32::MAX), ..trace };
        let mut frames = Vec::new();
        let mut random = Random::new(u64::from(seed));
        for op in trace.ops.iter().filter(|op| op.kind() == OpKind::Alloc) {
            let blocks = trace.nframes / op.order().frames();
            frames.push((random.below(blocks) * op.order().frames()) as u32);
        }
        let mut bytes = Vec::new();
        write_frames(&frames, &mut bytes).unwrap();
        prop_assert_eq!(read_frames(input(bytes).unwrap(), &trace), Ok(frames.clone()));
        if let Ok(read) = read_frames(input(damage).unwrap(), &trace) {
            prop_assert_eq!(read.len(), frames.len());
        }
    }
}
