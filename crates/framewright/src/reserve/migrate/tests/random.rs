//! Random calls, beside the plainest account of the owners' runs.

use super::*;

/// Owners, tenants and pins at random, for pageblocks of `block` frames' order.
fn work(seed: u64, block: u8, config: ContigConfig) -> (u64, u64) {
    const BLOCKS: u64 = 24;
    let frames = BLOCKS << block;
    let layout = ZoneLayout::new(Frame(0), frames).with_orders(order(block), order(block + 1));
    let mut memory = vec![!0; layout.words_needed().unwrap()];
    // Caches at work.
    let zone = Zone::new(
        &layout,
        &Config::default(),
        &mut memory,
        SingleThread::new(),
    );
    let zone = zone.unwrap();
    zone.add(run(0, frames)).unwrap();
    let mut words = vec![!0; Reclaim::words_needed(&zone)];
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
    let first = (BLOCKS / 3) << block;
    let of = run(first, frames - first);
    let mut words = vec![!0; MigrateArea::<SingleThread>::words_needed(of)];
    let area = MigrateArea::new(&reclaim, of, &config, &mut words).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let holder = AreaHolder::default();
    let mut random = Random::new(seed);
    let mut owned: Vec<Run> = vec![];
    let (mut next, mut held) = (0, std::collections::BTreeSet::new());
    for step in 0..400 {
        match random.index(10) {
            0..4 => {
                let size = order(random.index(usize::from(block).min(3)) as u8);
                if let Some(frame) = seat.try_alloc(size, Movable) {
                    let moods = [
                        AreaMood::Moves,
                        AreaMood::Moves,
                        AreaMood::BusyFor(3),
                        AreaMood::Clean,
                    ];
                    let mood = moods[random.index(4)];
                    holder.put(frame, size, next, mood);
                    held.insert(next);
                    next += 1;
                }
            }
            4 => {
                let mut blocks = holder.blocks.borrow_mut();
                let nth = random.index(blocks.len().max(1));
                let found = blocks.keys().nth(nth).copied();
                if let Some(frame) = found {
                    let (size, contents, _) = blocks.remove(&frame).unwrap();
                    held.remove(&contents);
                    seat.free(frame, size).unwrap();
                }
            }
            5 => {
                let mut blocks = holder.blocks.borrow_mut();
                let nth = random.index(blocks.len().max(1));
                if let Some(block) = blocks.values_mut().nth(nth) {
                    block.2 = match block.2 {
                        AreaMood::Pinned => AreaMood::Moves,
                        _ => AreaMood::Pinned,
                    };
                }
            }
            6 | 7 if !owned.is_empty() => {
                let all = owned.swap_remove(random.index(owned.len()));
                // In two parts, as often as not.
                let part = random.index(all.frames() as usize + 1) as u64;
                for piece in [
                    run(all.start().0, part),
                    run(all.start().0 + part, all.frames() - part),
                ] {
                    if !piece.is_empty() {
                        area.release(&mut seat, piece).unwrap();
                    }
                }
            }
            _ => {
                let frames = 1 + random.index(3 << block) as u64;
                let align = 1 << random.index(usize::from(block) + 1);
                let got = area.alloc_contig(&mut seat, frames, align, &movers(&[&holder]));
                if let Ok(got) = got {
                    assert_eq!((got.frames(), got.start().0 % align), (frames, 0));
                    let apart =
                        |other: &Run| other.end() <= got.start() || got.end() <= other.start();
                    assert!(owned.iter().all(apart), "M1");
                    owned.push(got);
                }
            }
        }
        for contents in holder.dropped.borrow_mut().drain(..) {
            assert!(held.remove(&contents));
        }
        assert!(holder.contents().iter().eq(held.iter()), "seed {seed}");
        let sum: u64 = owned.iter().map(|run| run.frames()).sum();
        assert_eq!(area.claimed_frames(), sum);
        if step % 8 == 0 {
            area.verify().unwrap();
        }
    }
    zone.drain();
    zone.verify().unwrap();
    let allocated = zone.recount().allocated;
    assert_eq!(allocated[Movable.index()], holder.frames());
    assert_eq!(allocated[Unmovable.index()], area.claimed_frames());
    let stats = area.stats();
    (stats.cma_alloc_success, stats.cma_alloc_fail)
}

#[test]
fn random_owners_and_tenants_share_an_area_and_nothing_is_lost_or_had_twice() {
    let one_by_one = ContigConfig {
        one_at_a_time: true,
        batch: 1,
        ..ContigConfig::default()
    };
    let (mut served, mut refused) = (0, 0);
    for seed in 0..8 {
        for config in [ContigConfig::LINUX, ContigConfig::default(), one_by_one] {
            for block in [3, 5, 6, 7] {
                let (ok, failed) = work(seed, block, config);
                served += ok;
                refused += failed;
            }
        }
    }
    assert!(served > 1000 && refused > 100, "{served} {refused}");
}
