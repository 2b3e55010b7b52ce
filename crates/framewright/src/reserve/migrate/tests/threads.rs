//! Several owners beside tenants that come and go, on several CPUs.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Movable blocks of all threads: a thread that moves one holds it.
#[derive(Default)]
struct SharedArea {
    blocks: Mutex<BTreeMap<Frame, (Order, u64)>>,
}

impl Migrate for SharedArea {
    fn migrate(&self, moves: &mut [Move]) {
        let mut blocks = self.blocks.lock().unwrap();
        for of in moves {
            if let Some(block) = blocks.remove(&of.from) {
                assert_eq!(block.0, of.order);
                assert_eq!(blocks.insert(of.to, block), None);
                of.state = MoveState::Moved;
            }
        }
    }
}

#[test]
fn m1_owners_on_several_cpus_beside_tenants_never_share_a_frame() {
    for config in [ContigConfig::LINUX, ContigConfig::default()] {
        let layout = ZoneLayout::new(Frame(0), FRAMES)
            .with_orders(order(6), order(8))
            .with_cpus(4);
        let mut memory = vec![!0; layout.words_needed().unwrap()];
        let zone = Zone::new(&layout, &Config::default(), &mut memory, ()).unwrap();
        zone.add(run(0, FRAMES)).unwrap();
        let mut words = vec![!0; Reclaim::words_needed(&zone)];
        let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
        let of = run(FIRST, AREA);
        let mut words = vec![!0; MigrateArea::<()>::words_needed(of)];
        let area = MigrateArea::new(&reclaim, of, &config, &mut words).unwrap();
        let shared = SharedArea::default();
        let next = AtomicU64::new(0);
        // The mark of each owned frame.
        let marks: Vec<AtomicBool> = (0..FRAMES).map(|_| AtomicBool::new(false)).collect();
        let mark = |run: Run, set: bool| {
            for at in run.start().0..run.end().0 {
                assert_eq!(marks[at as usize].swap(set, SeqCst), !set, "M1 {run:?}");
            }
        };
        let served = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for cpu in 0..4 {
                let (zone, area, shared, next, mark) = (&zone, &area, &shared, &next, &mark);
                let served = &served;
                scope.spawn(move || {
                    let mut seat = zone.seat(CpuId(cpu)).unwrap();
                    let mut random = Random::new(u64::from(cpu));
                    let mut owned: Vec<Run> = vec![];
                    for _ in 0..1500 {
                        match random.index(8) {
                            0..4 => {
                                // Under the lock: a live block that is not in the list is in the
                                // way.
                                let mut blocks = shared.blocks.lock().unwrap();
                                if let Some(frame) = seat.try_alloc(Order::ZERO, Movable) {
                                    let contents = next.fetch_add(1, SeqCst);
                                    blocks.insert(frame, (Order::ZERO, contents));
                                }
                            }
                            4 | 5 => {
                                let mut blocks = shared.blocks.lock().unwrap();
                                let from = Frame(random.index(FRAMES as usize) as u64);
                                let found = blocks.range(from..).next().map(|(f, b)| (*f, b.0));
                                if let Some((frame, size)) = found {
                                    blocks.remove(&frame);
                                    seat.free(frame, size).unwrap();
                                }
                            }
                            6 if !owned.is_empty() => {
                                let run = owned.swap_remove(random.index(owned.len()));
                                mark(run, false);
                                area.release(&mut seat, run).unwrap();
                            }
                            _ => {
                                let frames = 1 + random.index(100) as u64;
                                let movers: [&dyn Migrate; 1] = [shared];
                                let clients = super::movers(&movers);
                                let got = area.alloc_contig(&mut seat, frames, 1, &clients);
                                if let Ok(run) = got {
                                    mark(run, true);
                                    owned.push(run);
                                    served.fetch_add(1, SeqCst);
                                }
                            }
                        }
                    }
                    for run in owned {
                        mark(run, false);
                        area.release(&mut seat, run).unwrap();
                    }
                });
            }
        });
        area.verify().unwrap();
        assert_eq!(area.claimed_frames(), 0);
        zone.drain();
        zone.verify().unwrap();
        let blocks = shared.blocks.into_inner().unwrap();
        assert_eq!(zone.recount().free, FRAMES - blocks.len() as u64);
        let mut contents: Vec<_> = blocks.values().map(|of| of.1).collect();
        contents.sort_unstable();
        contents.dedup();
        assert_eq!(contents.len(), blocks.len());
        assert!(served.load(SeqCst) > 50, "{served:?}");
    }
}
