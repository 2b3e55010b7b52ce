//! Several CPUs that allocate, free and compact at once.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Movable blocks of all threads: a thread that moves one holds it.
#[derive(Default)]
struct SharedZones {
    blocks: Mutex<BTreeMap<Frame, (Order, u64)>>,
    moved: AtomicU64,
}

impl Migrate for SharedZones {
    fn migrate(&self, moves: &mut [Move]) {
        let mut blocks = self.blocks.lock().unwrap();
        for of in moves {
            if let Some(block) = blocks.remove(&of.from) {
                assert_eq!(block.0, of.order);
                assert_eq!(blocks.insert(of.to, block), None, "R2");
                of.state = MoveState::Moved;
                self.moved.fetch_add(1, SeqCst);
            }
        }
    }
}

#[test]
fn r1_several_cpus_allocate_free_and_compact_at_once() {
    const BLOCKS: u64 = 32;
    for cache_permille in [0, 5, 100] {
        let config = Config {
            cache_permille,
            ..Config::default()
        };
        let layout = ZoneLayout::new(Frame(0), 64 * BLOCKS)
            .with_orders(order(6), order(8))
            .with_cpus(4);
        let mut memory = vec![!0; layout.words_needed().unwrap()];
        let zone = Zone::new(&layout, &config, &mut memory, ()).unwrap();
        zone.add(run(0, 64 * BLOCKS)).unwrap();
        let mut words = vec![!0; Reclaim::words_needed(&zone)];
        let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
        let shared = SharedZones::default();
        let next = AtomicU64::new(0);
        // The mark of each frame in use that does not move.
        let owned: Vec<AtomicBool> = (0..64 * BLOCKS).map(|_| AtomicBool::new(false)).collect();
        let mark = |frame: Frame, order: Order, set: bool| {
            for at in frame.0..frame.0 + order.frames() {
                let before = owned[at as usize].swap(set, SeqCst);
                assert_eq!(before, !set, "{frame} {order}");
            }
        };
        std::thread::scope(|scope| {
            for cpu in 0..4 {
                let (zone, reclaim, shared, next, mark) = (&zone, &reclaim, &shared, &next, &mark);
                scope.spawn(move || {
                    let mut seat = zone.seat(CpuId(cpu)).unwrap();
                    let mut random = Random::new(u64::from(cpu));
                    let mut fixed: Vec<(Frame, Order)> = vec![];
                    for _ in 0..5000 {
                        let size = order([0, 0, 0, 1, 2][random.index(5)]);
                        match random.index(16) {
                            0..7 => {
                                // Under the lock: a live block that no client knows would be a bug.
                                let mut blocks = shared.blocks.lock().unwrap();
                                if let Some(frame) = seat.try_alloc(size, Movable) {
                                    let contents = next.fetch_add(1, SeqCst);
                                    let before = blocks.insert(frame, (size, contents));
                                    assert_eq!(before, None);
                                }
                            }
                            7..12 => {
                                let mut blocks = shared.blocks.lock().unwrap();
                                let from = Frame(random.index(64 * BLOCKS as usize) as u64);
                                let found = blocks.range(from..).next().map(|(f, b)| (*f, *b));
                                if let Some((frame, (size, contents))) = found {
                                    blocks.remove(&frame);
                                    seat.free(frame, size).unwrap();
                                    assert!(contents < next.load(SeqCst));
                                }
                            }
                            12 => {
                                if let Some(frame) = seat.try_alloc(size, Unmovable) {
                                    mark(frame, size, true);
                                    fixed.push((frame, size));
                                }
                            }
                            13 | 14 if !fixed.is_empty() => {
                                let (frame, size) = fixed.swap_remove(random.index(fixed.len()));
                                mark(frame, size, false);
                                seat.free(frame, size).unwrap();
                            }
                            _ => {
                                let size = order(2 + random.index(6) as u8);
                                let mobility = Mobility::ALL[random.index(3)];
                                let effort = crate::reclaim::moving::CompactEffort::Background;
                                let got = reclaim.compact_with(
                                    &mut seat,
                                    size,
                                    mobility,
                                    effort,
                                    &[shared],
                                );
                                if let Compaction::Captured(frame) = got {
                                    mark(frame, size, true);
                                    fixed.push((frame, size));
                                }
                            }
                        }
                    }
                    for (frame, size) in fixed {
                        mark(frame, size, false);
                        seat.free(frame, size).unwrap();
                    }
                });
            }
        });
        let blocks = shared.blocks.into_inner().unwrap();
        let held = blocks.values().map(|(size, _)| size.frames()).sum();
        assert_nothing_is_left(&zone, held);
        let mut contents: Vec<_> = blocks.values().map(|&(_, contents)| contents).collect();
        contents.sort_unstable();
        contents.dedup();
        assert_eq!(contents.len(), blocks.len());
        let mut seat = zone.seat(CpuId(0)).unwrap();
        for (frame, (size, _)) in blocks {
            seat.free(frame, size).unwrap();
        }
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.recount().free, 64 * BLOCKS);
        assert!(shared.moved.load(SeqCst) > 100);
    }
}
