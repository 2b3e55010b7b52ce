//! The list of busy areas against a twin of sorted ranges, and the walk's cost: the published rule, with its cache
//! and its purge.

use super::*;
use framewright::platform::{FramePlatform, TableSource};
use framewright::{PageAccess, Run};
use proptest::prelude::*;

/// Maps nothing.
pub(super) struct MapsNothing;

impl FramePlatform for MapsNothing {}

impl RangePlatform for MapsNothing {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

fn window(pages: u64) -> BusyList<MapsNothing> {
    BusyList::new(PageRange::new(Page(1000), pages).unwrap(), 1, MapsNothing)
}

const PAGE: u64 = Page::BYTES;

#[test]
fn areas_lie_one_behind_the_other_with_a_guard_page_each() {
    let list = window(100);
    let starts: Vec<u64> = (1..=3).map(|n| list.alloc(n, PAGE).unwrap().0).collect();
    assert_eq!(starts, [1000, 1002, 1005]);
    assert_eq!(list.counters().fits, [0, 3, 0, 0]);
    list.verify().unwrap();
}

#[test]
fn a_freed_area_stays_in_the_list_until_the_purge() {
    let list = window(8);
    let areas: Vec<Page> = (0..4).map(|_| list.alloc(1, PAGE).unwrap()).collect();
    list.free(areas[1]).unwrap();
    assert_eq!(list.counters().lazy_pages, 2);
    // The walk reaches the end, and purges: the place is found.
    assert_eq!(list.alloc(1, PAGE), Ok(areas[1]));
    let counters = list.counters();
    assert_eq!((counters.flushes, counters.lazy_pages), (1, 0));
    assert_eq!(
        counters.fits,
        [2, 3, 0, 0],
        "the fourth and the last one fill their holes"
    );
    assert_eq!(
        list.alloc(1, PAGE),
        Err(RangeError::NoSpace {
            pages: 1,
            align_bytes: PAGE
        })
    );
    list.verify().unwrap();
}

#[test]
fn the_walk_begins_at_the_cached_area() {
    let list = window(1000);
    let areas: Vec<Page> = (0..10).map(|_| list.alloc(3, PAGE).unwrap()).collect();
    assert_eq!(
        list.counters().areas_walked,
        0,
        "each one behind the last one"
    );
    list.free(areas[2]).unwrap();
    list.purge();
    // The purge set the cache back to the area before the hole, so the hole is found.
    assert_eq!(list.alloc(3, PAGE), Ok(areas[2]));
    assert_eq!(list.counters().areas_walked, 0);
    // Behind it the next seven are walked past, to the end.
    assert_eq!(list.alloc(3, PAGE), Ok(Page(1040)));
    assert_eq!(list.counters().areas_walked, 7);
}

#[test]
fn a_hole_that_was_passed_by_is_remembered_by_its_length() {
    let list = window(1000);
    let areas: Vec<Page> = (0..10).map(|_| list.alloc(3, PAGE).unwrap()).collect();
    list.free(areas[0]).unwrap();
    list.purge();
    // Longer than the hole: walks past it, and notes its 4 pages.
    assert_eq!(list.alloc(9, PAGE), Ok(Page(1040)));
    // 3 + 1 pages are not less than 4: the cache stands, and the hole stays.
    assert_eq!(list.alloc(3, PAGE), Ok(Page(1050)));
    // 2 + 1 pages are: the walk begins at the window's first page.
    assert_eq!(list.alloc(2, PAGE), Ok(Page(1000)));
}

#[test]
fn a_lesser_alignment_begins_at_the_windows_first_page() {
    let list = window(1000);
    // 1000 = 8 * 125.
    assert_eq!(list.alloc(1, 8 * PAGE), Ok(Page(1000)));
    assert_eq!(list.alloc(1, 8 * PAGE), Ok(Page(1008)));
    assert_eq!(list.alloc(1, PAGE), Ok(Page(1002)));
    assert_eq!(list.alloc(1, 4 * PAGE), Ok(Page(1004)));
    // One area alone in the window, one in the middle, and two at a hole's beginning.
    assert_eq!(list.counters().fits, [0, 3, 0, 1]);
}

#[test]
fn a_free_above_the_threshold_purges_and_below_does_not() {
    let list = window(100_000);
    let most = BusyList::<MapsNothing>::threshold(1);
    assert_eq!((most, BusyList::<MapsNothing>::threshold(2)), (8192, 16384));
    let areas: Vec<Page> = (0..5000).map(|_| list.alloc(1, PAGE).unwrap()).collect();
    for &area in &areas[..4096] {
        list.free(area).unwrap();
    }
    assert_eq!(list.counters().lazy_pages, most);
    assert_eq!(list.counters().flushes, 0);
    list.free(areas[4096]).unwrap();
    let counters = list.counters();
    assert_eq!((counters.flushes, counters.lazy_pages), (1, 0));
    assert_eq!(counters.lazy_pages_peak, most + 2);
    list.verify().unwrap();
}

#[test]
fn wrong_requests_and_frees_are_errors_that_name_the_value() {
    let list = window(100);
    let area = list.alloc(4, PAGE).unwrap();
    assert_eq!(list.alloc(0, PAGE), Err(RangeError::Empty));
    assert_eq!(list.alloc(1, 3), Err(RangeError::Align { bytes: 3 }));
    let pages = u64::MAX;
    assert_eq!(list.alloc(pages, PAGE), Err(RangeError::TooLong { pages }));
    assert!(list.alloc(u64::MAX - 1, PAGE).is_err());
    assert!(list.alloc(1, 1 << 63).is_err());
    assert_eq!(list.free(Page(1)), Err(RangeFreeError::Outside(Page(1))));
    let inside = Page(1001);
    let not_first = RangeFreeError::NotTheFirst {
        page: inside,
        start: area,
    };
    assert_eq!(list.free(inside), Err(not_first));
    let behind = Page(1005);
    assert_eq!(list.free(behind), Err(RangeFreeError::NotAllocated(behind)));
    list.free(area).unwrap();
    assert_eq!(list.free(area), Err(RangeFreeError::AlreadyFree(area)));
    list.verify().unwrap();
}

/// The obviously right twin: ranges in a sorted vector, the cache a page number.
struct BusyTwin {
    busy: Vec<(u64, u64, bool)>,
    end: u64,
    cache: Option<u64>,
    hole: u64,
    align: u64,
    lazy: Vec<u64>,
}

impl BusyTwin {
    fn alloc(&mut self, pages: u64, align: u64) -> Option<u64> {
        self.walk(pages, align).or_else(|| {
            self.purge();
            self.walk(pages, align)
        })
    }

    fn walk(&mut self, pages: u64, align: u64) -> Option<u64> {
        let stale = pages < self.hole || align < self.align;
        self.cache = self.cache.filter(|_| !stale);
        self.align = align;
        let up = |page: u64| page.next_multiple_of(align);
        let end_of =
            |busy: &[(u64, u64, bool)], start| busy.iter().find(|area| area.0 == start).unwrap().1;
        let mut at = match self.cache {
            Some(cache) => up(end_of(&self.busy, cache)),
            None => {
                self.hole = 0;
                up(1000)
            }
        };
        // Areas that end before `at` are passed for nothing: they are below the beginning.
        let behind: Vec<_> = self.busy.iter().copied().filter(|a| a.1 >= at).collect();
        let behind = behind.iter().filter(|a| self.cache.is_none_or(|c| a.0 > c));
        for &(start, end, _) in behind {
            if at + pages <= start || at + pages > self.end {
                break;
            }
            self.hole = self.hole.max(start.saturating_sub(at));
            at = up(end);
        }
        if at + pages > self.end {
            return None;
        }
        self.busy.push((at, at + pages, false));
        self.busy.sort_unstable();
        self.cache = Some(at);
        Some(at)
    }

    fn free(&mut self, start: u64) {
        let area = self.busy.iter_mut().find(|a| a.0 == start).unwrap();
        area.2 = true;
        self.lazy.push(start);
    }

    fn purge(&mut self) {
        while let Some(start) = self.lazy.pop() {
            let index = self.busy.iter().position(|a| a.0 == start).unwrap();
            if self.cache.is_some_and(|cache| start <= cache) {
                self.cache = index.checked_sub(1).map(|before| self.busy[before].0);
            }
            self.busy.remove(index);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn list_and_twin_hand_out_the_same_pages(
        ops in prop::collection::vec((0u8..10, 1u64..12, 0u32..5, any::<prop::sample::Index>()), 1..120)
    ) {
        let list = window(160);
        let mut twin = BusyTwin {
            busy: Vec::new(), end: 1160, cache: None, hole: 0, align: 1, lazy: Vec::new(),
        };
        let mut live = Vec::new();
        for (what, pages, align, which) in ops {
            match what {
                0 => {
                    list.purge();
                    twin.purge();
                }
                1..=4 if !live.is_empty() => {
                    let page: u64 = live.swap_remove(which.index(live.len()));
                    list.free(Page(page)).unwrap();
                    twin.free(page);
                }
                _ => {
                    let got = list.alloc(pages, PAGE << align).ok().map(|page| page.0);
                    prop_assert_eq!(got, twin.alloc(pages + 1, 1 << align));
                    live.extend(got);
                }
            }
            prop_assert_eq!(list.verify(), Ok(()));
        }
    }
}

#[test]
fn threads_get_disjoint_areas() {
    let list = window(1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let list = &list;
            scope.spawn(move || {
                let mut live = Vec::new();
                for turn in 0..4000 {
                    live.push(list.alloc(1 + (turn + thread) % 7, PAGE).unwrap());
                    if live.len() > 50 {
                        list.free(live.swap_remove((turn % 50) as usize)).unwrap();
                    }
                }
                live.into_iter().for_each(|page| list.free(page).unwrap());
            });
        }
    });
    list.verify().unwrap();
    list.purge();
    assert_eq!(list.counters().lazy_pages, 0);
    assert_eq!(
        list.alloc(1000, PAGE),
        Ok(Page(1000)),
        "all of it is one hole again"
    );
}
