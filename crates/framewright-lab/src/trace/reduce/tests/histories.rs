//! Random histories with gaps, as rings that lose events leave them: whatever is missing, the result is a trace.

use super::*;
use framewright_sim::Random;

/// A history as a kernel of 8 chunks could write it, and a bit as it could not.
fn history(random: &mut Random) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    let mut live: Vec<(u64, u8)> = Vec::new();
    for step in 0..400 {
        let of = [0, 0, 0, 1, 2, 3, 9, 10][random.remainder(8) as usize];
        let frame = random.remainder(8 << 10) >> of << of;
        let mobility = Mobility::ALL[random.remainder(3) as usize];
        let kind = match random.remainder(20) {
            0..=7 => {
                live.push((frame, of));
                alloc(frame, of, mobility).kind
            }
            8..=13 if !live.is_empty() => {
                let (frame, of) = live.swap_remove(random.remainder(live.len() as u64) as usize);
                let part = of - random.remainder(u64::from(of) + 1) as u8;
                free(frame, part).kind
            }
            14 => free(frame, of).kind,
            15 => EventKind::MigrateStart,
            16 => MIGRATE_END,
            17 => EventKind::CompactionBegin,
            18 => EventKind::CompactionEnd,
            _ => EventKind::Lost(random.remainder(9)),
        };
        // Some events never reach the reader.
        if random.remainder(10) != 0 {
            events.push(TraceEvent {
                time_ns: step * 700_000 + random.remainder(1_000_000),
                cpu: random.remainder(300) as u16,
                pid: random.remainder(3) as u32,
                kind,
            });
        }
    }
    events
}

#[test]
fn random_histories_with_gaps_always_become_traces_whose_frees_refer_to_live_objects() {
    for seed in 1..=40 {
        let mut random = Random::new(seed);
        let events = history(&mut random);
        let first = (seed % 2 == 0).then(|| {
            let state = |_| match random.remainder(8) {
                0 => ReadFrameState::Movable,
                1 => ReadFrameState::Slab,
                2 => ReadFrameState::Unmovable,
                _ => ReadFrameState::Free,
            };
            Snapshot::new((0..6 << 10).map(state).collect())
        });
        let last = two_chunks(0..1000);
        let got = reduce(events.iter().copied(), first.clone(), Some(&last)).unwrap();
        check(&got);
        assert_eq!(got.counts.total(), events.len() as u64, "TR3, seed {seed}");
        let again = reduce(events.iter().copied(), first, Some(&last)).unwrap();
        assert_eq!(got, again, "TR4, seed {seed}");
    }
}
