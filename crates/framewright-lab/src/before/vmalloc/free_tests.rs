//! The list of free areas against a twin with a flag for each page.

use super::tests::MapsNothing;
use super::*;
use proptest::prelude::*;

const PAGE: u64 = Page::BYTES;

fn window(pages: u64) -> FreeList<MapsNothing> {
    FreeList::new(PageRange::new(Page(1000), pages).unwrap(), 1, MapsNothing)
}

#[test]
fn the_lowest_free_area_that_is_long_enough_serves() {
    let list = window(1000);
    let areas: Vec<Page> = (0..10).map(|_| list.alloc(3, PAGE).unwrap()).collect();
    for nth in [2, 5, 6] {
        list.free(areas[nth]).unwrap();
    }
    list.purge();
    list.verify().unwrap();
    // Past the free area of 4 pages, into that of 8.
    assert_eq!(list.alloc(5, PAGE), Ok(areas[5]));
    assert_eq!(list.counters().areas_walked, 1);
    // Each walk begins at the window's first free area, whatever the last one found.
    assert_eq!(list.alloc(3, PAGE), Ok(areas[2]));
    assert_eq!(list.counters().areas_walked, 1);
    assert_eq!(list.counters().fits, [1, 11, 0, 0]);
    list.verify().unwrap();
}

#[test]
fn each_free_area_that_is_too_short_is_a_step() {
    let list = window(10_000);
    let areas: Vec<Page> = (0..400).map(|_| list.alloc(1, PAGE).unwrap()).collect();
    areas
        .iter()
        .step_by(2)
        .for_each(|&area| list.free(area).unwrap());
    list.purge();
    let before = list.counters().areas_walked;
    list.alloc(100, PAGE).unwrap();
    assert_eq!(list.counters().areas_walked - before, 200);
}

#[test]
fn the_four_fits_cut_as_they_are_named() {
    let list = window(64);
    // 1000 = 8 * 125: the first page is aligned to 8.
    let first = list.alloc(1, PAGE).unwrap();
    let middle = list.alloc(1, 8 * PAGE).unwrap();
    assert_eq!((first, middle), (Page(1000), Page(1008)));
    assert_eq!(list.counters().fits, [0, 1, 0, 1]);
    // 1002 to 1008: four pages and a guard page at 1004 do not fit; three and a guard page end at 1008.
    assert_eq!(list.alloc(3, 4 * PAGE), Ok(Page(1004)));
    assert_eq!(list.counters().fits, [0, 1, 1, 1]);
    assert_eq!(list.alloc(1, PAGE), Ok(Page(1002)));
    assert_eq!(list.counters().fits, [1, 1, 1, 1]);
    list.verify().unwrap();
}

#[test]
fn a_lazy_area_merges_with_its_neighbours_and_its_descriptor_is_used_again() {
    let list = window(100);
    let areas: Vec<Page> = (0..5).map(|_| list.alloc(1, PAGE).unwrap()).collect();
    assert_eq!(list.counters().descriptors_reused, 0);
    for nth in [1, 3, 2] {
        list.free(areas[nth]).unwrap();
        list.purge();
        list.verify().unwrap();
    }
    // Alone, alone, between the two.
    assert_eq!(list.alloc(5, PAGE), Ok(areas[1]));
    assert_eq!(list.counters().descriptors_reused, 1);
    list.verify().unwrap();
}

#[test]
fn a_purge_lets_others_in_between_only_below_twice_the_threshold() {
    let list = window(100).with_lazy_pages_max(10);
    assert!(list.gives_way(19) && !list.gives_way(20));
    let busy = BusyList::new(PageRange::new(Page(1000), 100).unwrap(), 1, MapsNothing);
    assert!(busy.with_lazy_pages_max(10).gives_way(1_000_000));
}

#[test]
fn wrong_frees_are_errors_that_name_the_value() {
    let list = window(100);
    let area = list.alloc(4, PAGE).unwrap();
    assert_eq!(list.free(Page(1)), Err(RangeFreeError::Outside(Page(1))));
    let (page, start) = (Page(1001), area);
    let not_first = RangeFreeError::NotTheFirst { page, start };
    assert_eq!(list.free(page), Err(not_first));
    let behind = Page(1005);
    assert_eq!(list.free(behind), Err(RangeFreeError::NotAllocated(behind)));
    list.free(area).unwrap();
    assert_eq!(list.free(area), Err(RangeFreeError::AlreadyFree(area)));
    list.verify().unwrap();
}

/// The obviously right twin: a flag for each page.
struct PageTwin {
    used: Vec<bool>,
    lazy: Vec<(u64, u64)>,
}

impl PageTwin {
    fn place(&self, pages: u64, align: u64) -> Option<u64> {
        let all = 1000..1000 + self.used.len() as u64;
        all.filter(|start| start.is_multiple_of(align))
            .find(|&start| {
                let run = (start - 1000) as usize..(start - 1000 + pages) as usize;
                self.used
                    .get(run)
                    .is_some_and(|run| run.iter().all(|used| !used))
            })
    }

    fn fill(&mut self, start: u64, pages: u64, used: bool) {
        let start = (start - 1000) as usize;
        self.used[start..start + pages as usize].fill(used);
    }

    fn alloc(&mut self, pages: u64, align: u64) -> Option<u64> {
        let start = self.place(pages, align).or_else(|| {
            self.purge();
            self.place(pages, align)
        })?;
        self.fill(start, pages, true);
        Some(start)
    }

    fn purge(&mut self) {
        for (start, pages) in std::mem::take(&mut self.lazy) {
            self.fill(start, pages, false);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn list_and_pages_agree_on_the_first_fit(
        ops in prop::collection::vec((0u8..10, 1u64..12, 0u32..5, any::<prop::sample::Index>()), 1..120)
    ) {
        let list = window(160);
        let mut twin = PageTwin { used: vec![false; 160], lazy: Vec::new() };
        let mut live = Vec::new();
        for (what, pages, align, which) in ops {
            match what {
                0 => {
                    list.purge();
                    twin.purge();
                }
                1..=4 if !live.is_empty() => {
                    let (page, pages) = live.swap_remove(which.index(live.len()));
                    list.free(Page(page)).unwrap();
                    twin.lazy.push((page, pages));
                }
                _ => {
                    let got = list.alloc(pages, PAGE << align).ok().map(|page| page.0);
                    prop_assert_eq!(got, twin.alloc(pages + 1, 1 << align));
                    live.extend(got.map(|page| (page, pages + 1)));
                }
            }
            prop_assert_eq!(list.verify(), Ok(()));
        }
    }
}
