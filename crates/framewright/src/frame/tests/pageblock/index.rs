//! The index alone, against sets.

extern crate std;
use super::look::FoundRow;
use super::*;
use crate::policy::End;
use crate::random::Random;
use crate::raw::Carver;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

#[test]
fn the_index_finds_what_a_set_of_triples_holds_from_either_end() {
    finds_what_a_set_holds(5000);
}

#[test]
fn the_index_of_a_zone_whose_summaries_are_one_word_each_finds_the_same() {
    finds_what_a_set_holds(4096);
}

fn finds_what_a_set_holds(blocks: usize) {
    let (orders, classes) = (3, 4);
    let rows = orders * classes;
    let shape = IndexShape::new(orders, classes, blocks);
    let (mut memory, counts) = (vec![0; shape.words()], [0; 3].map(AtomicU64::new));
    // List 0 ranks by falling class, list 1 excludes odd classes, the others rank by class.
    let index = BlockIndex::new(
        shape,
        Carver::of(&mut memory),
        (counts.each_ref(), false),
        |list, _, class| match list {
            0 => Some(-(class as i32)),
            1 => (class % 2 == 0).then_some(class as i32),
            _ => Some(class as i32),
        },
    );
    let mut model = BTreeSet::new();
    let mut random = Random::new(1);
    let mut none = 0;
    for _ in 0..20_000 {
        let row = random.index(rows);
        let id = random.index(blocks);
        if random.below(16) < 7 {
            if model.insert((row, id)) {
                index.insert(row, id);
            }
        } else if model.remove(&(row, id)) {
            index.remove(row, id);
        }
        if random.below(64) == 0 && !model.is_empty() {
            model.retain(|&(r, i)| {
                let keep = r == row;
                if !keep {
                    index.remove(r, i);
                }
                keep
            });
        }
        let of_row = |row| model.range((row, 0)..(row, blocks)).map(|&(_, id)| id);
        // Each list sees the rows of its classes, whichever bits stayed behind.
        let (list, from) = (random.index(LISTS), random.index(orders + 1));
        let is_seen = |of: usize| list != 1 || (of % classes).is_multiple_of(2);
        let has = model
            .range((from * classes, 0)..)
            .any(|&(of, _)| is_seen(of));
        let may = index.may_have(list, from);
        assert!(may || !has, "list {list}, order {from}");
        none += usize::from(!may);
        let beyond = |f: &dyn Fn(usize) -> bool| of_row(row).filter(|&i| f(i)).min();
        assert_eq!(index.find(row, End::Lowest, None, true), of_row(row).next());
        assert_eq!(
            index.find(row, End::Highest, None, random.below(2) == 0),
            of_row(row).next_back()
        );
        assert_eq!(
            index.find(row, End::Lowest, Some(id), true),
            beyond(&|i| i > id)
        );
        assert_eq!(
            index.find(row, End::Highest, Some(id), false),
            of_row(row).filter(|&i| i < id).max()
        );
        // The search clears bits without a pageblock on the way, so the first look then finds what
        // is there.
        let last = index.find(row, End::Highest, None, true);
        let last = last.filter(|&id| id / 4096 == (blocks - 1) / 4096);
        assert_eq!(index.find_at_end(row, End::Highest), last);
        index.find(row, End::Lowest, None, true);
        let first = of_row(row).next().filter(|&id| id < 4096);
        assert_eq!(index.find_at_end(row, End::Lowest), first);
        let region = id / REGION;
        let (low, high) = (region * REGION, (region + 1) * REGION);
        let mut inside = of_row(row).filter(|id| (low..high).contains(id));
        index.find(row, End::Highest, Some(high), true);
        let found = index.find_in_region(row, End::Highest, region);
        assert_eq!(found, inside.clone().next_back());
        index.find(row, End::Lowest, low.checked_sub(1), true);
        let found = index.find_in_region(row, End::Lowest, region);
        assert_eq!(found, inside.next());
        let behind = 2 * 4096 / REGION;
        assert_eq!(index.find_in_region(row, End::Lowest, behind), None);
        assert!(index.is_consistent(), "I2");
        for (list, order) in [(0, 0), (1, 1), (2, 2)] {
            let of_order = |row: &usize| row / classes == order;
            let there = model.iter().map(|&(row, _)| row).filter(of_order);
            let mut there = there.map(|row| row % classes);
            let expected = match list {
                0 => there.max(),
                1 => there.find(|class| class % 2 == 0),
                _ => there.min(),
            };
            // What one search finds is what is there, from any rank on, and one from outside writes nothing.
            let end = if random.below(2) == 0 {
                End::Lowest
            } else {
                End::Highest
            };
            let from = random.index(classes);
            let before: Vec<_> = match list {
                0 => index.bits().collect(),
                _ => vec![],
            };
            let outside = index.first((list, order), from, end, &mut Passing::OUTSIDE.clone());
            assert!(list > 0 || index.bits().eq(before), "I3");
            let first = index.first((list, order), from, end, &mut Passing::SEATED.clone());
            let place = |found: FoundRow| (found.class, found.id);
            assert_eq!(first.map(place), outside.map(place));
            let ranked = (0..classes).filter_map(|class| {
                let rank = index.rank(list, order * classes + class)?;
                let ids = || of_row(order * classes + class);
                let nearest = match end {
                    End::Lowest => ids().next(),
                    End::Highest => ids().next_back(),
                };
                (rank >= from).then_some((rank, class, nearest?))
            });
            let expected_first = ranked.min().map(|(_, class, id)| (class, id));
            assert_eq!(first.map(place), expected_first, "list {list} from {from}");
            let mut from = 0;
            let found = loop {
                let Some((rank, class, _)) = index.cheapest(list, order, from) else {
                    break None;
                };
                let row = order * classes + class;
                if index.find(row, End::Lowest, None, true).is_some() {
                    break Some(class);
                }
                // Its bit is cleared here, so it is no longer the cheapest.
                index.lower_flag(list, row);
                from = rank;
            };
            assert_eq!(found, expected, "list {list}");
        }
    }
    assert!(none > 100, "{none}");
}

#[test]
fn classes_are_ranked_by_cost_and_then_by_number_in_each_list() {
    let (orders, classes, blocks) = (3, 150, 70);
    let shape = IndexShape::new(orders, classes, blocks);
    let (mut memory, counts) = (vec![0; shape.words()], [0; 3].map(AtomicU64::new));
    // All of 16 bits, many equal, and some excluded.
    let cost = |list: usize, order: usize, class: usize| {
        let mixed = ((class + 31 * order + 7) * (list + 3)) as u64 * 2_654_435_761;
        let cost = (mixed >> 12) as u16 as i16;
        let cost = if class.is_multiple_of(5) {
            cost % 4
        } else {
            cost
        };
        (mixed % 11 > list as u64).then_some(i32::from(cost))
    };
    let index = BlockIndex::new(
        shape,
        Carver::of(&mut memory),
        (counts.each_ref(), false),
        cost,
    );
    for (list, order) in [(0, 0), (1, 0), (2, 0), (0, 2), (1, 2), (2, 1)] {
        let ranked = |row_is_there: &dyn Fn(usize) -> bool| {
            let there = (0..classes).filter(|class| row_is_there(*class));
            let costs = there.filter_map(|class| Some((cost(list, order, class)?, class)));
            costs.collect::<BTreeSet<_>>()
        };
        let all = ranked(&|_| true);
        let found = || {
            let mut from = 0;
            core::iter::from_fn(move || {
                let (rank, class, cost) = index.cheapest(list, order, from)?;
                assert!(rank >= from);
                from = rank + 1;
                Some((rank, (cost, class)))
            })
        };
        assert_eq!(found().count(), 0, "nothing is there yet");
        for class in 0..classes {
            index.insert(order * classes + class, class % blocks);
        }
        assert!(found().eq(all.iter().copied().enumerate()));
        // A search passes by rows that have become empty, after a first look.
        for class in (0..classes).filter(|class| class % 3 != 0) {
            let row = order * classes + class;
            index.remove(row, class % blocks);
            assert_eq!(index.find(row, End::Lowest, None, true), None);
            for list in 0..LISTS {
                index.lower_flag(list, row);
            }
        }
        let rest = ranked(&|class| class % 3 == 0);
        assert!(found().map(|(_, found)| found).eq(rest.iter().copied()));
        for class in (0..classes).filter(|class| class % 3 == 0) {
            let row = order * classes + class;
            index.remove(row, class % blocks);
            assert_eq!(index.find(row, End::Lowest, None, true), None);
            for list in 0..LISTS {
                index.lower_flag(list, row);
            }
        }
        assert_eq!(found().count(), 0);
    }
}

#[test]
fn i2_every_level_above_a_leaf_bit_counts() {
    let shape = IndexShape::new(2, 70, 5000);
    let damaged = |damage: &dyn Fn(&BlockIndex<'_>)| {
        let (mut memory, counts) = (vec![0; shape.words()], [0; 3].map(AtomicU64::new));
        let words = Carver::of(&mut memory);
        // A row has another rank in each list.
        let index = BlockIndex::new(
            shape,
            words,
            (counts.each_ref(), false),
            |list, _, class| Some((class as i32 + list as i32) % 70),
        );
        index.insert(75, 4999);
        index.insert(67, 64);
        assert!(index.is_consistent());
        damage(&index);
        index.is_consistent()
    };
    let clear = |word: &AtomicU64, bit: usize| {
        assert!(word.load(Relaxed) >> bit & 1 != 0, "it was set");
        clear_bits(word, 1 << bit, true);
    };
    assert!(damaged(&|_| ()));
    // Leaf word 78 of row 75 has bit 14 in the second summary word.
    assert!(!damaged(&|index| clear(&index.summaries[75 * 2 + 1], 14)));
    assert!(!damaged(&|index| clear(&index.summaries[67 * 2], 1)));
    assert!(!damaged(&|index| clear(&index.some[1], 11)));
    assert!(!damaged(&|index| clear(&index.some[1], 3)));
    for list in 0..LISTS {
        // Two words for each order, two orders for each list; row 75 is class 5 of order 1.
        let rank = 5 + list;
        let word = (list * 2 + 1) * 2;
        assert!(!damaged(&|index| clear(&index.ranked[word], rank)));
        let rank = (67 + list) % 70;
        let word = list * 4 + rank / 64;
        assert!(!damaged(&|index| clear(&index.ranked[word], rank % 64)));
    }
    // A bit without a pageblock does no harm.
    assert!(damaged(&|index| _ = set_bits(&index.some[0], 1, true)));
    assert!(damaged(&|index| _ = set_bits(&index.summaries[0], 1, true)));
}

#[test]
fn i3_a_look_from_outside_finds_what_is_there_and_writes_nothing() {
    let shape = IndexShape::new(1, 2, 64 * 300);
    let (mut memory, counts) = (vec![0; shape.words()], [0; 3].map(AtomicU64::new));
    let words = Carver::of(&mut memory);
    let index = BlockIndex::new(shape, words, (counts.each_ref(), false), |_, _, class| {
        Some(class as i32)
    });
    // Wrong bits in both words of the summary.
    for id in [3, 70, 500, 64 * 200, 64 * 299] {
        index.insert(1, id);
        index.remove(1, id);
    }
    let before: std::vec::Vec<u64> = index.bits().collect();
    for end in [End::Lowest, End::Highest] {
        assert_eq!(index.peek(1, end, None), None);
        assert_eq!(index.peek(1, end, Some(400)), None);
    }
    assert!(index.bits().eq(before), "I3");
    index.insert(1, 900);
    assert_eq!(index.peek(1, End::Lowest, Some(3)), Some(900));
    assert_eq!(index.peek(1, End::Highest, None), Some(900));
    assert_eq!(index.peek(1, End::Highest, Some(900)), None);
}
