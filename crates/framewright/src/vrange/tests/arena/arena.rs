//! The arena in step with a sorted list of ranges, and its worst cases by hand.

use super::twin::{ArenaTwin, ArenaWindow, Refusal, lock, table_words};
use super::*;
use crate::random::Random;
use crate::raw::{Carver, RawRecord, atomic_words};
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

/// One random history; a seed repeats its failure, and the smallest window that fails comes first.
fn history(seed: u64, pages: u32, ops: usize) {
    let mut random = Random::new(seed);
    let base = [0, 1, 24, 1 << 40, (1 << 51) - 1][random.index(5)];
    let mut window = ArenaWindow::new(base, pages);
    let arena = window.arena();
    let mut guard = lock(&arena);
    let mut twin = ArenaTwin {
        base,
        pages,
        gaps: vec![],
    };
    let mut live: Vec<(u32, u32)> = vec![(0, pages)];
    for op in 0..ops {
        let fills = if op / 100 % 2 == 0 { 6 } else { 4 };
        let most = if random.index(4) == 0 {
            pages
        } else {
            1 + pages / 16
        };
        let len = 1 + random.index(most as usize) as u32;
        if random.index(10) < fills {
            let align = 1u64 << [0, 0, 1, 2, 3, 5, 8, 51][random.index(8)];
            let before = u32::from(len > 1 && random.index(4) == 0);
            let wanted = WantedGap::aligned_behind(before, len, align).unwrap();
            let found = guard.alloc_wanted(&wanted);
            let expected = twin.alloc_behind(before, len, align);
            assert_eq!(
                found, expected,
                "seed {seed}, {before} and {len} pages at {align}"
            );
            if let Some((start, _)) = found {
                live.push((start, len));
            }
        } else if random.index(8) == 0 {
            let start = random.index(pages as usize) as u32;
            let len = len.min(pages - start);
            let (found, expected) = (guard.alloc_at(start, len), twin.alloc_at(start, len));
            assert_eq!(found.ok(), expected.ok(), "seed {seed}");
            if found.is_ok() {
                live.push((start, len));
            }
        } else if random.index(8) == 0 {
            // Anything: mostly wrong, and then without effect.
            let start = random.index(pages as usize) as u32;
            let before = twin.clone();
            let (found, expected) = (guard.give(start, len), twin.give(start, len));
            assert_eq!(found.is_ok(), expected.is_ok(), "seed {seed}");
            if found.is_ok() {
                twin = before;
                guard.alloc_at(start, len).unwrap();
            }
        } else if !live.is_empty() {
            let at = random.index(live.len());
            let (start, len) = live.swap_remove(at);
            // Parts of a taken range may come back.
            let part = if random.index(3) == 0 {
                1 + random.index(len as usize) as u32
            } else {
                len
            };
            guard.give(start, part).unwrap();
            twin.give(start, part).unwrap();
            if part < len {
                live.push((start + part, len - part));
            }
        }
        twin.compare(&guard);
        let page = random.index(pages as usize) as u32;
        let gap = twin.gaps.iter().find(|g| g.0 <= page && page < g.1);
        let found = guard.gap_at(page).map(|gap| (gap.start, gap.end()));
        assert_eq!(found.as_ref(), gap);
        assert_eq!(guard.taken_span(), twin.taken_span(), "seed {seed}");
    }
}

#[test]
fn the_arena_is_in_step_with_a_sorted_list() {
    let sizes: &[u32] = if cfg!(miri) {
        &[1, 9, 40]
    } else {
        &[1, 2, 3, 5, 8, 13, 40, 100, 300, 1000, 2000]
    };
    let (seeds, ops) = if cfg!(miri) { (1, 30) } else { (20, 400) };
    for &pages in sizes {
        for seed in 0..seeds {
            history(seed, pages, ops);
        }
    }
}

#[test]
fn every_sequence_of_six_operations_on_eight_pages() {
    // Operations depend on the words alone, so sequences that lead to the same words are followed
    // once. All that can be asked for, and all that can be given, rightly or wrongly.
    const PAGES: u32 = 8;
    let base = 3;
    let depth = if cfg!(miri) { 1 } else { 6 };
    let mut states = BTreeSet::from([vec![0; table_words(PAGES) + ArenaRecord::WORDS]]);
    let mut all = states.clone();
    for _ in 0..depth {
        let mut next = BTreeSet::new();
        for state in &states {
            let mut attempt = |op: &dyn Fn(&mut ArenaGuard<'_>, &mut ArenaTwin)| {
                let mut words = state.clone();
                let (table, own) = words.split_at_mut(table_words(PAGES));
                let table = AreaTable::new(atomic_words(table));
                let arena = Arena::new(table, Carver::of(own).in_zeroed(true).record(), base);
                let mut guard = lock(&arena);
                let gaps = guard.gaps().map(|gap| (gap.start, gap.end())).collect();
                let mut twin = ArenaTwin {
                    base,
                    pages: PAGES,
                    gaps,
                };
                op(&mut guard, &mut twin);
                twin.compare(&guard);
                drop(guard);
                // Old words of pages without a gap have no meaning.
                for page in 0..PAGES {
                    if twin.gaps.iter().all(|gap| gap.0 != page) {
                        words[2 * page as usize..][..2].fill(0);
                    }
                }
                if all.insert(words.clone()) {
                    next.insert(words);
                }
            };
            for pages in 1..=PAGES {
                for align in [1, 2, 4, 8] {
                    attempt(&|guard, twin| {
                        assert_eq!(guard.alloc(pages, align), twin.alloc(pages, align));
                    });
                }
                for start in 0..PAGES {
                    attempt(&|guard, twin| {
                        let given = guard.give(start, pages);
                        assert_eq!(given.is_ok(), twin.give(start, pages).is_ok());
                    });
                    attempt(&|guard, twin| {
                        if start + pages <= PAGES {
                            let taken = guard.alloc_at(start, pages);
                            assert_eq!(taken.ok(), twin.alloc_at(start, pages).ok());
                        }
                    });
                }
            }
        }
        states = next;
    }
    assert!(cfg!(miri) || all.len() >= 256, "every set of gaps at least");
}

#[test]
fn perfectly_aligned_holes_among_small_ones_are_all_found() {
    // 1 GiB, 4 MiB blocks; every second block free, and between them holes that are too small, too
    // short, or long enough and aligned otherwise.
    const BLOCK: u32 = 1024;
    let (blocks, holes) = if cfg!(miri) { (6, 2) } else { (256, 124) };
    let mut window = ArenaWindow::new(0x7f00_0000_0000 >> 12, blocks * BLOCK);
    let arena = window.arena();
    let mut guard = lock(&arena);
    for nth in 0..holes {
        let block = 2 * nth * BLOCK;
        guard.give(block, BLOCK).unwrap();
        let between = block + BLOCK;
        for small in 0..8 {
            guard.give(between + 1 + small * 100, 1 + small).unwrap();
        }
    }
    // Longer than a block, but the last and the first page of the aligned one in it are missing.
    let odd = 2 * holes * BLOCK;
    guard.give(odd + 1, 2 * BLOCK - 2).unwrap();
    let found: Vec<_> = core::iter::from_fn(|| guard.alloc(BLOCK, u64::from(BLOCK))).collect();
    assert_eq!(found.len(), holes as usize);
    for (nth, (start, fit)) in (0..).zip(found) {
        assert_eq!((start, fit), (2 * nth * BLOCK, Fit::Full));
    }
    assert_eq!(guard.longest(), 2 * BLOCK - 2, "unaligned, it is there");
    assert!(guard.alloc(BLOCK, 1).is_some());
    guard.verify().unwrap();
}

#[test]
fn many_gaps_make_no_deep_tree() {
    let gaps = if cfg!(miri) { 40 } else { 100_000 };
    for upwards in [true, false] {
        let mut window = ArenaWindow::new(0, 2 * gaps);
        let arena = window.arena();
        let mut guard = lock(&arena);
        for nth in 0..gaps {
            let nth = if upwards { nth } else { gaps - 1 - nth };
            guard.give(2 * nth, 1).unwrap();
        }
        guard.verify().unwrap();
        let depth = |page: u32| {
            let mut path = Path::new();
            arena.tree().place(page, &mut path);
            path.depth() + 1
        };
        let deepest = (0..gaps).map(|nth| depth(2 * nth)).max().unwrap();
        let bound = 1.4405 * f64::from(gaps + 2).log2() - 0.3277;
        assert!((deepest as f64) <= bound, "{deepest} above {bound}");
        // And stays so while two thirds go.
        for nth in 0..gaps {
            if nth % 3 != 0 {
                guard.alloc_at(2 * nth, 1).unwrap();
            }
        }
        guard.verify().unwrap();
        assert_eq!(guard.gap_count(), gaps.div_ceil(3));
    }
}

#[test]
fn each_fit_is_named_and_leaves_what_it_should() {
    let mut window = ArenaWindow::new(1, 64);
    let arena = window.arena();
    let mut guard = lock(&arena);
    guard.give(0, 64).unwrap();
    // Absolute page 8 is page 7 here.
    assert_eq!(guard.alloc(8, 8), Some((7, Fit::NoEdge)));
    assert_eq!(guard.alloc(2, 1), Some((0, Fit::LeftEdge)));
    assert_eq!(guard.alloc(4, 4), Some((3, Fit::RightEdge)));
    assert_eq!(guard.alloc(1, 1), Some((2, Fit::Full)));
    assert_eq!(guard.alloc(49, 1), Some((15, Fit::Full)));
    assert_eq!((guard.free_pages(), guard.gap_count()), (0, 0));
    assert_eq!((guard.longest(), guard.taken_span()), (0, Some((0, 64))));
    assert_eq!(guard.alloc(1, 1), None);
    guard.verify().unwrap();
}

#[test]
fn alignment_is_of_absolute_page_numbers() {
    for base in [0, 1, 6, 1 << 40, (1 << 30) + 5] {
        let mut window = ArenaWindow::new(base, 200);
        let arena = window.arena();
        let mut guard = lock(&arena);
        guard.give(0, 200).unwrap();
        for align in [64u64, 16, 2] {
            let (start, _) = guard.alloc(3, align).unwrap();
            assert_eq!((base + u64::from(start)) % align, 0);
        }
    }
}

#[test]
fn what_no_address_can_satisfy_fails_and_page_zero_satisfies_everything() {
    let mut window = ArenaWindow::new(5, 100);
    let arena = window.arena();
    let mut guard = lock(&arena);
    guard.give(0, 100).unwrap();
    for align in (7..64).map(|log| 1 << log) {
        assert_eq!(guard.alloc(1, align), None, "{align}");
    }
    assert_eq!(guard.alloc(1, 64), Some((59, Fit::NoEdge)));
    assert_eq!(guard.alloc(42, 64), None, "the window ends before");
    for (pages, align) in [(0, 1), (1, 0), (1, 3), (101, 1), (u32::MAX, 1)] {
        assert_eq!(guard.alloc(pages, align), None);
    }
    drop(guard);
    let mut window = ArenaWindow::new(0, 4);
    let arena = window.arena();
    let mut guard = lock(&arena);
    guard.give(0, 4).unwrap();
    assert_eq!(guard.alloc(3, 1 << 63), Some((0, Fit::LeftEdge)));
    assert_eq!(guard.alloc(1, 1 << 63), None);
}

#[test]
fn wrong_gives_are_errors_that_change_nothing() {
    let mut window = ArenaWindow::new(0, 32);
    let arena = window.arena();
    let mut guard = lock(&arena);
    guard.give(4, 4).unwrap();
    guard.give(12, 4).unwrap();
    let free = |gap| Err(ArenaError::Free { gap });
    let outside = |start, pages| Err(ArenaError::Outside { start, pages });
    for (start, pages, expected) in [
        (4, 4, free(4)),
        (7, 1, free(4)),
        (0, 5, free(4)),
        (7, 2, free(4)),
        (8, 5, free(12)),
        (0, 32, free(4)),
        (15, 17, free(12)),
        (0, 0, outside(0, 0)),
        (32, 1, outside(32, 1)),
        (31, 2, outside(31, 2)),
        (1, u32::MAX, outside(1, u32::MAX)),
    ] {
        assert_eq!(guard.give(start, pages), expected, "{start} {pages}");
    }
    let taken = |page| Err(Refusal::Taken(page));
    let no_range = |start, pages| Err(Refusal::Outside(ArenaError::Outside { start, pages }));
    for (start, pages, expected) in [
        (3, 1, taken(3)),
        (8, 1, taken(8)),
        (7, 2, taken(8)),
        (4, 9, taken(8)),
        (20, 1, taken(20)),
        (0, 0, no_range(0, 0)),
        (31, 2, no_range(31, 2)),
    ] {
        let found = guard.alloc_at(start, pages).map(|_| ());
        assert_eq!(found, expected, "{start} {pages}");
    }
    let gaps: Vec<_> = guard.gaps().map(|gap| (gap.start, gap.pages)).collect();
    assert_eq!(gaps, [(4, 4), (12, 4)]);
    guard.verify().unwrap();
    let said = [free(4), outside(1, 2)].map(|e| std::format!("{}", e.unwrap_err()));
    assert_eq!(
        said,
        [
            "the gap at 0x4 has some of the pages already",
            "2 pages from 0x1 are no range of the window"
        ]
    );
}

#[test]
fn the_first_give_touches_no_page() {
    let mut window = ArenaWindow::new(0, 1000);
    lock(&window.arena()).give(0, 1000).unwrap();
    assert!(window.table.iter().all(|&word| word == 0));
    lock(&window.arena()).alloc_at(500, 100).unwrap();
    assert!(window.table[2..].iter().all(|&word| word == 0));
    assert_ne!((window.table[0], window.table[1]), (0, 0));
}

#[test]
fn v2_what_is_broken_is_found() {
    let mut window = ArenaWindow::new(0, 256);
    let mut broken = |damage: fn(&Arena<'_>)| {
        window.table.fill(0);
        window.words.fill(0);
        let arena = window.arena();
        let mut guard = lock(&arena);
        for start in [10, 20, 30, 40, 50] {
            guard.give(start, 5).unwrap();
        }
        guard.verify().unwrap();
        damage(&arena);
        guard.verify()
    };
    fn change(arena: &Arena<'_>, page: u32, word: usize, bits: u64) {
        let word = &arena.table.words(page)[word];
        word.store(word.load(Relaxed) ^ bits, Relaxed);
    }
    // The root is 20, with 10 and 40 below it, 30 and 50 below that.
    assert_eq!(
        broken(|arena| change(arena, 10, 1, 1 << 30)),
        Err(10),
        "its length"
    );
    assert_eq!(
        broken(|arena| change(arena, 20, 1, 7)),
        Err(20),
        "the longest below"
    );
    assert_eq!(
        broken(|arena| change(arena, 50, 1, 1 << 60)),
        Err(50),
        "its point"
    );
    assert_eq!(
        broken(|arena| change(arena, 30, 0, 1 << 62)),
        Err(30),
        "its order"
    );
    assert_eq!(
        broken(|arena| change(arena, 40, 0, 1 << 60)),
        Err(40),
        "its balance"
    );
    assert_eq!(
        broken(|arena| change(arena, 30, 0, 1 << 63)),
        Err(30),
        "no node"
    );
    assert_eq!(
        broken(|arena| change(arena, 40, 0, 0xff)),
        Err(0xff ^ 50),
        "a link"
    );
    assert_eq!(
        broken(|arena| count(&arena.words.free_pages, 1)),
        Err(256),
        "the count"
    );
    assert_eq!(
        broken(|arena| count(&arena.words.gaps, -1)),
        Err(256),
        "the count"
    );
    let rootless = broken(|arena| arena.words.root.store(0, Relaxed));
    assert_eq!(rootless, Err(256), "no root");
    let last = broken(|arena| arena.set_end_gap(202));
    assert_eq!(last, Err(50), "the last one touches it");
    let bound = broken(|arena| arena.words.tree_end.store(54, Relaxed));
    assert_eq!(bound, Err(256), "the bound");
}
