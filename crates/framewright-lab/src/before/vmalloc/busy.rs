//! The areas of Linux up to 5.1: busy ones in a list by address, and an allocation that walks it until a hole between
//! two of them fits.
//!
//! ```text
//!   window   [ area ][ area ]....[ area ]..[ area ][ area ]............
//!   list        └──────┴───────────┴─────────┴───────┘
//!                                  ▲ cache: where the last area was made; the walk begins behind it
//! ```
//!
//! # Rules
//! - The walk begins at the cached area, unless a request could fit into a hole *below* it that the
//!   last walk passed by: one that is shorter than the largest hole seen, or less aligned than the
//!   request before. Then it begins at the window's first page.
//! - A lazy area that leaves the list moves the cache back to the area before it, if it starts at or
//!   before the cached one.
//!
//! # Invariants
//! - **BL1** The list is in the order of addresses, its areas are disjoint and inside the window, and
//!   the tree holds the same areas.
//! - **BL2** The cached area is in the list.

use super::{AreaSet, HoleFit, VmallocCounters};
use framewright::vrange::RangeFreeError;
use framewright::{Page, PageRange};
use std::collections::BTreeMap;

/// No area.
const NONE: u32 = u32::MAX;

/// A busy area: live or lazy.
#[derive(Debug, Clone, Copy)]
struct BusyArea {
    start: u64,
    /// The page behind its guard page.
    end: u64,
    prev: u32,
    next: u32,
    lazy: bool,
}

/// The busy areas of one window: a list by address, a tree by address, and where the last walk
/// ended. Descriptors are numbers in a vector and used again, so that an operation costs no heap
/// call of its own.
#[derive(Debug)]
pub struct BusyAreas {
    window: PageRange,
    areas: Vec<BusyArea>,
    unused: Vec<u32>,
    /// By first page.
    tree: BTreeMap<u64, u32>,
    first: u32,
    last: u32,
    cached: u32,
    /// The longest hole below the cached area that a walk passed by.
    cached_hole: u64,
    cached_align: u64,
    counters: VmallocCounters,
}

impl AreaSet for BusyAreas {
    const GIVES_WAY_BELOW: Option<u64> = None;

    fn new(window: PageRange) -> Self {
        Self {
            window,
            areas: Vec::new(),
            unused: Vec::new(),
            tree: BTreeMap::new(),
            first: NONE,
            last: NONE,
            cached: NONE,
            cached_hole: 0,
            cached_align: 1,
            counters: VmallocCounters::default(),
        }
    }

    fn counters(&self) -> VmallocCounters {
        self.counters
    }

    fn alloc(&mut self, pages: u64, align: u64) -> Option<Page> {
        let begin = self.window.start().0;
        let end = self.window.end().0;
        if pages < self.cached_hole || align < self.cached_align {
            self.cached = NONE;
        }
        if self.cached == NONE {
            self.cached_hole = 0;
        }
        self.cached_align = align;
        let (mut at, mut next) = match self.area(self.cached) {
            Some(cached) => (cached.end.checked_next_multiple_of(align)?, cached.next),
            None => {
                let at = begin.checked_next_multiple_of(align)?;
                (at, self.first_not_before(at))
            }
        };
        // `next` is the first area that may end behind `at`; what is before it does not matter.
        while let Some(area) = self.areas.get(next as usize) {
            let wanted_end = at.checked_add(pages)?;
            if wanted_end <= area.start || wanted_end > end {
                break;
            }
            if at + self.cached_hole < area.start {
                self.cached_hole = area.start - at;
            }
            at = area.end.checked_next_multiple_of(align)?;
            next = area.next;
            self.counters.areas_walked += 1;
        }
        let wanted_end = at.checked_add(pages).filter(|&e| e <= end)?;
        let number = self.insert(at, wanted_end, next);
        self.cached = number;
        Some(Page(at))
    }

    fn set_lazy(&mut self, page: Page) -> Result<(u32, PageRange), RangeFreeError> {
        if !self.window.contains(page) {
            return Err(RangeFreeError::Outside(page));
        }
        let Some((_, &number)) = self.tree.range(..=page.0).next_back() else {
            return Err(RangeFreeError::NotAllocated(page));
        };
        let area = &mut self.areas[number as usize];
        if area.end <= page.0 {
            return Err(RangeFreeError::NotAllocated(page));
        }
        if area.start != page.0 {
            let start = Page(area.start);
            return Err(RangeFreeError::NotTheFirst { page, start });
        }
        if area.lazy {
            return Err(RangeFreeError::AlreadyFree(page));
        }
        area.lazy = true;
        let range = PageRange::new(page, area.end - area.start);
        Ok((number, range.expect("an area ends inside its window")))
    }

    fn remove(&mut self, number: u32) -> u64 {
        let area = self.areas[number as usize];
        debug_assert!(area.lazy, "BL3: only lazy areas leave the list");
        if let Some(cached) = self.area(self.cached)
            && area.start <= cached.start
        {
            self.cached = area.prev;
        }
        match self.areas.get_mut(area.prev as usize) {
            Some(prev) => prev.next = area.next,
            None => self.first = area.next,
        }
        match self.areas.get_mut(area.next as usize) {
            Some(next) => next.prev = area.prev,
            None => self.last = area.prev,
        }
        self.tree.remove(&area.start);
        self.unused.push(number);
        area.end - area.start
    }

    fn verify(&self) -> Result<u64, String> {
        let mut lazy = 0;
        let mut at = self.window.start().0;
        let mut prev = NONE;
        let mut number = self.first;
        let mut count = 0;
        let mut cache_found = self.cached == NONE;
        while let Some(area) = self.area(number) {
            if area.start < at || area.end <= area.start || area.prev != prev {
                return Err(format!(
                    "BL1: the area at page {:#x} is out of order",
                    area.start
                ));
            }
            if self.tree.get(&area.start) != Some(&number) {
                return Err(format!(
                    "BL1: the tree lacks the area at page {:#x}",
                    area.start
                ));
            }
            lazy += if area.lazy { area.end - area.start } else { 0 };
            cache_found |= number == self.cached;
            (at, prev, number, count) = (area.end, number, area.next, count + 1);
        }
        if at > self.window.end().0 || prev != self.last || count != self.tree.len() {
            return Err(format!(
                "BL1: {count} areas in the list, {} in the tree",
                self.tree.len()
            ));
        }
        if !cache_found {
            return Err("BL2: the cached area is not in the list".into());
        }
        Ok(lazy)
    }
}

impl BusyAreas {
    fn area(&self, number: u32) -> Option<&BusyArea> {
        self.areas.get(number as usize)
    }

    /// The area from which on a walk must look at `page`: the first one that ends at or behind it.
    fn first_not_before(&self, page: u64) -> u32 {
        let at_or_before = self.tree.range(..=page).next_back();
        match at_or_before {
            Some((_, &number)) if self.areas[number as usize].end >= page => number,
            Some((_, &number)) => self.areas[number as usize].next,
            None => self.first,
        }
    }

    /// Puts a new area before `next`.
    fn insert(&mut self, start: u64, end: u64, next: u32) -> u32 {
        let prev = self.area(next).map_or(self.last, |area| area.prev);
        let area = BusyArea {
            start,
            end,
            prev,
            next,
            lazy: false,
        };
        let number = match self.unused.pop() {
            Some(number) => {
                self.areas[number as usize] = area;
                number
            }
            None => {
                self.areas.push(area);
                u32::try_from(self.areas.len() - 1).expect("a window has at most 2^32 areas")
            }
        };
        let hole_start = self
            .area(prev)
            .map_or(self.window.start().0, |area| area.end);
        let hole_end = self.area(next).map_or(self.window.end().0, |a| a.start);
        let fit = match (start == hole_start, end == hole_end) {
            (true, true) => HoleFit::Full,
            (true, false) => HoleFit::LeftEdge,
            (false, true) => HoleFit::RightEdge,
            (false, false) => HoleFit::NoEdge,
        };
        match self.areas.get_mut(prev as usize) {
            Some(area) => area.next = number,
            None => self.first = number,
        }
        match self.areas.get_mut(next as usize) {
            Some(area) => area.prev = number,
            None => self.last = number,
        }
        self.tree.insert(start, number);
        self.counters.fits[fit as usize] += 1;
        self.counters.area_allocs += 1;
        self.counters.areas_peak = self.counters.areas_peak.max(self.tree.len() as u64);
        number
    }
}
