//! What a seat noted of its last search, against searches without a note.

use super::*;
use crate::frame::wanted::WantedBlock;
use crate::sync::Ordering;

/// Whether the seat has a note of either kind that holds.
fn has_note(zone: &Zone<'_, SingleThread>, seat: &Seat<'_, '_, SingleThread>) -> [bool; 2] {
    let (tidied, _) = zone.index.tidied();
    let (_, insertions) = zone.facts_and_insertions();
    [insertions, insertions.wrapping_add(tidied)].map(|at| seat.words.noted(at) != 0)
}

/// A random history: the results of its calls, and how often a seat had a note.
fn history(
    layout: &ZoneLayout,
    config: &Config,
    seed: u64,
    is_noting: bool,
) -> (Vec<(u64, u64)>, usize) {
    let mut memory = memory(layout);
    let zone = full_zone(layout, config, &mut memory);
    let mut seats: Vec<_> = (0..layout.cpus)
        .map(|cpu| zone.seat(CpuId(cpu)).unwrap())
        .collect();
    let mut random = Random::new(seed);
    let (mut log, mut noted) = (Vec::new(), 0);
    let mut live: Vec<(Frame, Order)> = Vec::new();
    let size = layout.pageblock_order.frames();
    let blocks = (layout.frames / size) as usize;
    let mut isolated = vec![false; blocks];
    let (mut cpu, mut request) = (0, (Order::ZERO, Movable));
    for op in 0..1500 {
        for seat in &seats {
            if !is_noting {
                seat.words.note(0, u64::MAX);
            }
            noted += usize::from(has_note(&zone, seat) != [false; 2]);
        }
        if random.index(8) == 0 {
            cpu = random.index(seats.len());
        }
        if random.index(10) == 0 {
            let largest = usize::from(layout.pageblock_order.get());
            let wanted = random.index([5, largest + 1][seed as usize % 2].min(largest + 1));
            request = (order(wanted as u8), Mobility::ALL[random.index(3)]);
        }
        let fills = [58, 44, 70, 30, 51][op / 300 % 5];
        let roll = random.index(1000);
        let at = random.index(blocks);
        let block = run(layout.start.0 + at as u64 * size, size);
        if roll < 4 {
            let labels = [Label::Contiguous, Label::Of(Movable), Label::Of(Unmovable)];
            let label = labels[random.index(3)];
            log.push((0, u64::from(zone.set_label(block, label).is_ok())));
        } else if roll < 8 {
            let is_done = if isolated[at] {
                zone.unisolate(block).is_ok()
            } else {
                zone.isolate(block).is_ok()
            };
            isolated[at] ^= is_done;
            log.push((1, u64::from(is_done)));
        } else if roll < 11 {
            zone.drain();
        } else if roll < 16 {
            let is_done = if random.index(3) == 0 {
                zone.remove(block).is_ok()
            } else {
                zone.add(block).is_ok()
            };
            log.push((2, u64::from(is_done)));
        } else if random.index(100) < fills || live.is_empty() {
            let (size, mobility) = request;
            let found = match random.index(5) {
                0 => seats[cpu].alloc(size, mobility).ok(),
                1 => seats[cpu].alloc_at_once(size, mobility).ok(),
                _ => seats[cpu].try_alloc(size, mobility),
            };
            let place = found.map_or(u64::MAX, |frame| frame.0);
            log.push((place, u64::from(size.get())));
            live.extend(found.map(|frame| (frame, size)));
        } else {
            let (frame, size) = live.swap_remove(random.index(live.len()));
            let by = [cpu, cpu, random.index(seats.len())][random.index(3)];
            seats[by].free(frame, size).unwrap();
        }
    }
    zone.verify().unwrap();
    (log, noted)
}

#[test]
fn notes_change_nothing_of_what_is_placed_where() {
    let mut with_notes = 0;
    for fallback in Fallback::ALL {
        for (frames, pageblock, cpus) in [(512 * 12, 9, 3), (64 * 40, 6, 4), (16 * 300, 4, 2)] {
            for permille in [0, 40] {
                for seed in 0..2 {
                    let layout = ZoneLayout::new(Frame(0), frames)
                        .with_orders(order(pageblock), order(pageblock))
                        .with_cpus(cpus);
                    let config = Config {
                        cache_permille: permille,
                        ..config(fallback)
                    };
                    let [(on, noted), (off, none)] =
                        [true, false].map(|noting| history(&layout, &config, seed, noting));
                    let differs = on.iter().zip(&off).position(|(on, off)| on != off);
                    assert_eq!(differs, None, "{fallback:?} {frames} {permille} {seed}");
                    assert_eq!(none, 0);
                    with_notes += noted;
                }
            }
        }
    }
    assert!(with_notes > 1000, "{with_notes}");
}

#[test]
fn a_look_that_found_nothing_is_noted() {
    let layout = ZoneLayout::new(Frame(0), 512 * 2).with_cpus(2);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &caching(0), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    while seat.try_alloc(order(6), Movable).is_some() {}
    let wanted = WantedBlock {
        order: order(6),
        mobility: Movable,
    };
    assert!(seat.is_barren(wanted));
    assert!(has_note(&zone, &seat)[1]);
    zone.verify().unwrap();
}

#[test]
fn a_note_hides_nothing_that_the_search_published_of_a_pageblock_that_it_passed_by() {
    let layout = ZoneLayout::new(Frame(0), 20 * 16)
        .with_orders(order(4), order(4))
        .with_cpus(2);
    let config = Config {
        cache_permille: 0,
        ..config(Fallback::LargestFirst)
    };
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &config, &mut memory);
    let [mut seat, mut other] = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    while seat.try_alloc(order(0), Movable).is_some() {}
    // Eight in each pageblock but the first.
    for frame in (16..20 * 16).filter(|frame| frame % 8 < 4) {
        seat.free(Frame(frame), order(0)).unwrap();
    }
    for frame in [16, 18] {
        assert_eq!(seat.try_alloc(order(1), Movable), Some(Frame(frame)));
    }
    // The first pageblock as a CPU leaves it that went on between two steps: it has unlocked it when another CPU had left
    // two frames there, and that one has not collected them yet.
    let _held = zone.try_lock(other.words.counters(), 0).unwrap();
    for frame in [0, 1] {
        other.free(Frame(frame), order(0)).unwrap();
    }
    zone.descriptor(0).lock.fetch_sub(1, Ordering::Relaxed);
    // And as a search finds it that looked before its last block of four frames was taken.
    let row = zone.row(2, zone.meta(1).class());
    zone.index.insert(row, 0);
    assert_eq!(seat.try_alloc(order(1), Movable), Some(Frame(24)));
    zone.index.remove(row, 0);
    assert_eq!(seat.try_alloc(order(1), Movable), Some(Frame(0)));
    zone.verify().unwrap();
}

#[test]
fn a_cache_holds_the_last_blocks_of_the_largest_zone() {
    let layout = ZoneLayout::new(Frame(0), 512).with_cpus(1);
    let mut memory = memory(&layout);
    let zone = Zone::new(&layout, &caching(0), &mut memory, SingleThread::new()).unwrap();
    let seat = zone.seat(CpuId(0)).unwrap();
    let first = (1 << 32) - 63;
    seat.words.fill_cache(Movable, Order::ZERO, first, 63);
    let entries = seat.words.entries(Movable, 0);
    let [youngest, oldest] = [62, 0].map(|place: usize| entries[place].load(Ordering::Relaxed));
    assert_eq!([youngest as usize, oldest as usize], [first, (1 << 32) - 1]);
}
