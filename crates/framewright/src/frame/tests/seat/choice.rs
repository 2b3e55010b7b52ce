//! What a request takes, against a look at every pageblock; and CPUs that meet.

use super::*;
use crate::policy::{End, Policy};

fn uncached(fallback: Fallback) -> Config {
    Config {
        cache_permille: 0,
        ..config(fallback)
    }
}

/// The pageblock of the cheapest candidate: of equals the smallest order, and
/// then the end of memory that the policy names.
fn cheapest(
    zone: &Zone<'_, SingleThread>,
    policy: &Policy,
    wanted: Order,
    mobility: Mobility,
) -> Option<usize> {
    let pressure = policy.pressure(&zone.zone_facts());
    let list = policy.list(mobility, pressure);
    let classes = policy.classes();
    let end = policy.end(mobility);
    let blocks = zone.free_blocks_by_pageblock();
    let mut best = None;
    for (id, orders) in blocks.iter().enumerate() {
        let class = policy.class(&zone.pageblock(id));
        let number = classes.number(class);
        for found in wanted.index()..orders.len() {
            let found = order(found as u8);
            if orders[found.index()] == 0 {
                continue;
            }
            let Some(cost) = policy.cost(list, found, class) else {
                continue;
            };
            let cost = cost + policy.surcharge(pressure, mobility, wanted, found);
            let near = match end {
                End::Lowest => id,
                End::Highest => usize::MAX - id,
            };
            let key = (cost, found, number, near, id);
            if best.is_none_or(|best| key < best) {
                best = Some(key);
            }
        }
    }
    best.map(|(.., id)| id)
}

impl Zone<'_, SingleThread> {
    /// Entirely free pageblocks that every request may have.
    fn whole_and_for_all_requests(&self) -> u64 {
        let is_so = |id: &usize| {
            let facts = self.pageblock(*id);
            u64::from(facts.free) == self.map.block_frames() && matches!(facts.label, Label::Of(_))
        };
        (0..self.pageblocks()).filter(is_so).count() as u64
    }

    fn free_blocks_by_pageblock(&self) -> Vec<[u32; 11]> {
        let of = |id| {
            let mut runs = [0; 11];
            crate::slots::count_runs(self.bitmap(id), &mut runs);
            runs
        };
        (0..self.map.blocks).map(of).collect()
    }
}

#[test]
fn a_request_takes_the_cheapest_of_all_candidates_and_contaminates_when_it_was_said_to() {
    takes_the_cheapest(0);
}

#[test]
fn a_request_like_the_one_before_takes_the_cheapest_of_all_candidates_without_a_search() {
    takes_the_cheapest(90);
}

/// So many of a hundred requests are like the one before. Another CPU frees some blocks.
fn takes_the_cheapest(alike: usize) {
    let mut sums = [0; 2];
    for fallback in Fallback::ALL {
        for (pageblock, blocks) in [(4, 40), (6, 30), (9, 20)] {
            let layout = ZoneLayout::new(Frame(0), blocks << pageblock)
                .with_orders(order(pageblock), order(pageblock))
                .with_cpus(2);
            let mut memory = memory(&layout);
            let zone = full_zone(&layout, &uncached(fallback), &mut memory);
            zone.set_label(run(0, 1 << pageblock), Label::Contiguous)
                .unwrap();
            let policy = Policy::new(fallback, order(pageblock));
            let mut seat = zone.seat(CpuId(0)).unwrap();
            let mut other = zone.seat(CpuId(1)).unwrap();
            let mut random = Random::new(u64::from(pageblock));
            let mut live: Vec<(Frame, Order)> = Vec::new();
            let mut request = (Order::ZERO, Movable);
            for op in 0..3000 {
                let fills = if op / 500 % 2 == 0 { 60 } else { 45 };
                if random.index(100) < fills || live.is_empty() {
                    if alike == 0 || random.index(100) >= alike {
                        let size = order([0, 0, 0, 1, 2, 3, 4, pageblock][random.index(8)]);
                        request = (size, Mobility::ALL[random.index(3)]);
                    }
                    let (size, mobility) = request;
                    let expected = cheapest(&zone, &policy, size, mobility);
                    let contaminates = expected.is_some_and(|id| {
                        let facts = zone.pageblock(id);
                        let is_clean = match fallback {
                            Fallback::Concentrated => facts.nonmovable() == 0,
                            _ => facts.label == Label::Of(Movable),
                        };
                        !mobility.is_movable() && is_clean && u64::from(facts.free) < 1 << pageblock
                    });
                    let polluted = zone.polluting_fallbacks();
                    let would = zone.would_contaminate(size, mobility);
                    assert_eq!(would, contaminates, "{fallback:?}: {mobility:?} {size}");
                    let found = seat.try_alloc(size, mobility);
                    if fallback == Fallback::Concentrated {
                        let by = zone.polluting_fallbacks() - polluted;
                        assert!(by == 0 || by == 1 && contaminates);
                        sums[0] += by;
                    }
                    sums[1] += u64::from(contaminates);
                    let id = found.map(|frame| (frame.0 >> pageblock) as usize);
                    assert_eq!(id, expected, "{fallback:?}: {mobility:?} {size}");
                    live.extend(found.map(|frame| (frame, size)));
                } else {
                    let (frame, size) = live.swap_remove(random.index(live.len()));
                    let freer = if alike > 0 && random.index(4) == 0 {
                        &mut other
                    } else {
                        &mut seat
                    };
                    freer.free(frame, size).unwrap();
                }
                if op % 100 == 0 {
                    zone.verify().unwrap();
                    let whole = zone.whole_and_for_all_requests();
                    for max in [0, 1, whole, whole + 1, u64::MAX] {
                        assert_eq!(zone.free_pageblocks_up_to(max), whole.min(max));
                    }
                    for mobility in Mobility::ALL {
                        let usable = zone.usable_frames(mobility);
                        assert_eq!(zone.free_frames_for(mobility), usable);
                    }
                }
            }
        }
    }
    assert!(alike > 0 || sums[0] > 5 && sums[1] > 5, "{sums:?}");
}

#[test]
fn f5_a_pageblock_taken_and_given_whole_is_of_the_class_that_its_facts_say() {
    // Of less than a word, and of 1, 2, 8 and 16 words.
    for whole_order in [3, 6, 7, 9, 10].map(order) {
        let frames = whole_order.frames() * 4;
        let layout = ZoneLayout::new(Frame(0), frames).with_orders(whole_order, whole_order);
        let mut memory = memory(&layout);
        for fallback in Fallback::ALL {
            for mobility in Mobility::ALL {
                for label in [Label::Of(Unmovable), Label::Of(Movable), Label::Contiguous] {
                    let zone = full_zone(&layout, &uncached(fallback), &mut memory);
                    zone.set_label(whole(&layout), label).unwrap();
                    let mut seat = zone.seat(CpuId(0)).unwrap();
                    while let Some(frame) = seat.try_alloc(whole_order, mobility) {
                        zone.verify().unwrap();
                        seat.free(frame, whole_order).unwrap();
                        zone.verify().unwrap();
                        zone.alloc_at(frame, order(0), mobility).unwrap();
                    }
                }
            }
        }
    }
}

/// In a zone of 1300 pageblocks, takes whole ones. The first request meets another CPU at `held`,
/// which is `away` in a region.
fn met(mobility: Mobility, held: &[usize], away: Option<usize>, expected: &[usize]) {
    let layout = ZoneLayout::new(Frame(0), 1300 * 8).with_orders(order(3), order(3));
    let layout = layout.with_cpus(2);
    let mut memory = memory(&layout);
    let config = uncached(Fallback::Concentrated);
    let zone = full_zone(&layout, &config, &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let other = zone.seat(CpuId(1)).unwrap();
    let held: Vec<_> = held
        .iter()
        .map(|&id| zone.try_lock(other.words.counters(), id).unwrap())
        .collect();
    let end = zone.policy.end(mobility);
    other.words.set_away(away.map(|region| (region, end)));
    let mut take = || seat.try_alloc(order(3), mobility).unwrap().0 as usize / 8;
    let first = take();
    held.into_iter().for_each(|held| held.unlock());
    let mut found = vec![first];
    found.extend((1..expected.len()).map(|_| take()));
    assert_eq!(found, expected);
    zone.verify().unwrap();
}

#[test]
fn a_cpu_that_meets_another_goes_to_the_next_region_and_stays_there() {
    met(Unmovable, &[], None, &[0, 1, 2]);
    met(Unmovable, &[0], None, &[512, 513, 514]);
    met(Unmovable, &[0, 512], None, &[1024, 1025]);
    met(Movable, &[], None, &[1299, 1298]);
    met(Movable, &[1299], None, &[1023, 1022, 1021]);
    met(Movable, &[1299, 1023], None, &[511, 510]);
}

#[test]
fn a_cpu_that_goes_away_leaves_a_region_to_the_one_that_went_there() {
    met(Unmovable, &[], Some(0), &[0, 1]);
    met(Unmovable, &[0], Some(1), &[1024, 1025]);
    met(Movable, &[1299], Some(1), &[511, 510]);
    // With its own region at an end it goes to the first one that no CPU has.
    let far: Vec<_> = (1024..1300).chain([0, 1]).collect();
    met(Unmovable, &[0], Some(1), &far);
    let near: Vec<_> = (512..1024).chain([1024, 1025]).collect();
    met(Unmovable, &[0], Some(0), &near);
}

#[test]
fn i3_a_question_what_a_request_would_do_changes_nothing() {
    for fallback in Fallback::ALL {
        let layout = ZoneLayout::new(Frame(0), 400).with_orders(order(1), order(1));
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &uncached(fallback), &mut memory);
        let rows = 2 * zone.policy.classes().count();
        // Blocks that come and go leave bits behind, in each row those of three words.
        for row in 0..rows {
            for id in [5, 69, 133] {
                if !zone.index.contains(row, id) {
                    zone.index.insert(row, id);
                    zone.index.remove(row, id);
                }
            }
        }
        let before: Vec<u64> = zone.index.bits().collect();
        for mobility in Mobility::ALL {
            _ = zone.would_contaminate(Order::ZERO, mobility);
            _ = zone.would_contaminate(order(1), mobility);
        }
        assert_eq!(zone.free_pageblocks_up_to(u64::MAX), 200);
        assert!(zone.index.bits().eq(before), "{fallback:?}: I3");
    }
}
