//! The areas as the proposal of 2018 has them: free ones in a list by address, and an allocation that takes the first
//! that is long enough.
//!
//! ```text
//!   window   [ busy ][ busy ]....[ busy ]..[ busy ]............
//!   list                     └─────────────┴────────┘           first fit, from the window's beginning
//!   tree                     free areas again: where a freed one belongs, and which are its neighbours
//! ```
//!
//! # Rules
//! - An allocation walks the list of free areas until one has room for the length at the alignment. It remembers no
//!   place between two walks.
//! - It takes the free area whole, cuts its left or its right end off, or splits it in two. The right part keeps the
//!   descriptor; the left one gets a descriptor from the cache of those that merges and whole areas left over.
//! - A lazy area that leaves merges with the free areas on both sides.
//!
//! # Invariants
//! - **FA1** The list of free areas is in the order of addresses, none touches the next, and the tree holds the same.
//! - **FA2** Each page of the window is in one area: free, or busy or lazy.
//!
//! # What is not here
//! The list of busy areas that Linux also keeps, which nothing walks here: its cost is spared. The tree of free areas
//! goes by their ends, so that a cut at the left end, by far the most frequent, changes no key; in the proposal's
//! red-black tree no cut changes the order, and a descriptor that is split is a hint where the new one goes.

use super::{AreaSet, HoleFit, VmallocCounters};
use framewright::vrange::RangeFreeError;
use framewright::{Page, PageRange};
use std::collections::BTreeMap;

/// No area.
const NONE: u32 = u32::MAX;

/// An area of any kind; only free ones are in the list.
#[derive(Debug, Clone, Copy)]
struct FreeOrBusy {
    start: u64,
    /// The page behind it; of a busy one the page behind its guard page.
    end: u64,
    prev: u32,
    next: u32,
    lazy: bool,
}

/// The areas of one window.
#[derive(Debug)]
pub struct FreeAreas {
    window: PageRange,
    areas: Vec<FreeOrBusy>,
    /// Descriptors that merges and whole areas left over.
    cache: Vec<u32>,
    /// Busy and lazy ones by first page.
    busy: BTreeMap<u64, u32>,
    /// Free ones by the page behind them.
    free: BTreeMap<u64, u32>,
    first: u32,
    last: u32,
    counters: VmallocCounters,
}

impl AreaSet for FreeAreas {
    const GIVES_WAY_BELOW: Option<u64> = Some(2);

    fn new(window: PageRange) -> Self {
        let mut areas = Self {
            window,
            areas: Vec::new(),
            cache: Vec::new(),
            busy: BTreeMap::new(),
            free: BTreeMap::new(),
            first: NONE,
            last: NONE,
            counters: VmallocCounters::default(),
        };
        let all = areas.descriptor(window.start().0, window.end().0);
        areas.link(all, NONE);
        areas
    }

    fn alloc(&mut self, pages: u64, align: u64) -> Option<Page> {
        let mut number = self.first;
        let (at, end) = loop {
            let area = self.area(number)?;
            let at = area.start.checked_next_multiple_of(align)?;
            match at.checked_add(pages) {
                Some(end) if end <= area.end => break (at, end),
                _ => number = area.next,
            }
            self.counters.areas_walked += 1;
        };
        let fit = self.cut(number, at, end);
        let busy = self.descriptor(at, end);
        self.busy.insert(at, busy);
        self.counters.fits[fit as usize] += 1;
        self.counters.area_allocs += 1;
        self.counters.areas_peak = self.counters.areas_peak.max(self.busy.len() as u64);
        Some(Page(at))
    }

    fn set_lazy(&mut self, page: Page) -> Result<(u32, PageRange), RangeFreeError> {
        if !self.window.contains(page) {
            return Err(RangeFreeError::Outside(page));
        }
        let Some((_, &number)) = self.busy.range(..=page.0).next_back() else {
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
        let FreeOrBusy {
            start, end, lazy, ..
        } = self.areas[number as usize];
        debug_assert!(lazy, "BL3: only lazy areas leave");
        self.busy.remove(&start);
        let behind = self.free.range(start..).next().map(|(_, &found)| found);
        let (left, right) = match behind {
            Some(found) if self.areas[found as usize].end == start => {
                (Some(found), self.areas[found as usize].next)
            }
            found => (None, found.unwrap_or(NONE)),
        };
        let touches = self.area(right).is_some_and(|area| area.start == end);
        match (left, touches) {
            (Some(left), true) => {
                self.areas[right as usize].start = self.areas[left as usize].start;
                self.unlink(left);
                self.cache.extend([left, number]);
            }
            (None, true) => {
                self.areas[right as usize].start = start;
                self.cache.push(number);
            }
            (Some(left), false) => {
                self.free.remove(&start);
                self.areas[left as usize].end = end;
                self.free.insert(end, left);
                self.cache.push(number);
            }
            (None, false) => {
                self.areas[number as usize].lazy = false;
                self.link(number, right);
            }
        }
        end - start
    }

    fn counters(&self) -> VmallocCounters {
        self.counters
    }

    fn verify(&self) -> Result<u64, String> {
        let mut free = Vec::new();
        let (mut prev, mut number) = (NONE, self.first);
        while let Some(area) = self.area(number) {
            let touches = free.last().is_some_and(|&(_, end)| end >= area.start);
            let (start, end) = (area.start, area.end);
            if touches || end <= start || area.prev != prev {
                return Err(format!(
                    "FA1: the free area at page {start:#x} is out of order"
                ));
            }
            if self.free.get(&end) != Some(&number) {
                return Err(format!(
                    "FA1: the tree lacks the free area at page {start:#x}"
                ));
            }
            free.push((start, end));
            (prev, number) = (number, area.next);
        }
        if prev != self.last || free.len() != self.free.len() {
            let (list, tree) = (free.len(), self.free.len());
            return Err(format!("FA1: {list} areas in the list, {tree} in the tree"));
        }
        let busy = self.busy.values().map(|&nth| self.areas[nth as usize]);
        let lazy = busy.clone().filter(|area| area.lazy);
        let lazy = lazy.map(|area| area.end - area.start).sum();
        let mut all: Vec<(u64, u64)> = busy.map(|area| (area.start, area.end)).collect();
        all.extend(free);
        all.sort_unstable();
        let mut at = self.window.start().0;
        for (start, end) in all {
            if start != at {
                return Err(format!(
                    "FA2: an area begins at page {start:#x}, the one before ends at {at:#x}"
                ));
            }
            at = end;
        }
        if at == self.window.end().0 {
            Ok(lazy)
        } else {
            Err(format!("FA2: the last area ends at page {at:#x}"))
        }
    }
}

impl FreeAreas {
    fn area(&self, number: u32) -> Option<&FreeOrBusy> {
        self.areas.get(number as usize)
    }

    /// A descriptor, from the cache if one is there.
    fn descriptor(&mut self, start: u64, end: u64) -> u32 {
        let area = FreeOrBusy {
            start,
            end,
            prev: NONE,
            next: NONE,
            lazy: false,
        };
        if let Some(number) = self.cache.pop() {
            self.areas[number as usize] = area;
            self.counters.descriptors_reused += 1;
            return number;
        }
        self.areas.push(area);
        u32::try_from(self.areas.len() - 1).expect("a window has at most 2^32 areas")
    }

    /// Takes `start..end` out of a free area.
    fn cut(&mut self, number: u32, start: u64, end: u64) -> HoleFit {
        let area = self.areas[number as usize];
        match (start == area.start, end == area.end) {
            (true, true) => {
                self.unlink(number);
                self.cache.push(number);
                HoleFit::Full
            }
            (true, false) => {
                self.areas[number as usize].start = end;
                HoleFit::LeftEdge
            }
            (false, true) => {
                self.free.remove(&area.end);
                self.areas[number as usize].end = start;
                self.free.insert(start, number);
                HoleFit::RightEdge
            }
            (false, false) => {
                self.areas[number as usize].start = end;
                let left = self.descriptor(area.start, start);
                self.link(left, number);
                HoleFit::NoEdge
            }
        }
    }

    /// Puts a free area into list and tree, before `next`.
    fn link(&mut self, number: u32, next: u32) {
        let prev = self.area(next).map_or(self.last, |area| area.prev);
        let area = &mut self.areas[number as usize];
        (area.prev, area.next) = (prev, next);
        let end = area.end;
        self.point(prev, number, next, number);
        self.free.insert(end, number);
    }

    /// Takes a free area out of list and tree.
    fn unlink(&mut self, number: u32) {
        let area = self.areas[number as usize];
        self.point(area.prev, area.next, area.next, area.prev);
        self.free.remove(&area.end);
    }

    /// `behind` becomes the one behind `prev`, and `before` the one before `next`.
    fn point(&mut self, prev: u32, behind: u32, next: u32, before: u32) {
        match self.areas.get_mut(prev as usize) {
            Some(area) => area.next = behind,
            None => self.first = behind,
        }
        match self.areas.get_mut(next as usize) {
            Some(area) => area.prev = before,
            None => self.last = before,
        }
    }
}
