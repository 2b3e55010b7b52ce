//! A page table for tests: what is mapped, and what the TLBs still know of it.

extern crate std;

use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::units::{Page, PageAccess, PageRange, Run};
use core::cell::{Cell, RefCell};
use std::vec;
use std::vec::Vec;

/// What a page table and the TLBs know of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TestMapping {
    Clean,
    Mapped,
    /// Unmapped, but not flushed.
    Stale,
}

/// A page table for one window. Its n-th unmap can be made to fail.
#[derive(Debug)]
pub(super) struct TestPages {
    pub start: u64,
    pub pages: RefCell<Vec<TestMapping>>,
    pub unmaps_until_failure: Cell<u64>,
    /// Pages below this one cannot be unmapped.
    pub stuck_below: Cell<u64>,
}

impl TestPages {
    pub(super) fn new(start: Page, pages: u64) -> Self {
        Self {
            start: start.0,
            pages: RefCell::new(vec![TestMapping::Clean; pages as usize]),
            unmaps_until_failure: Cell::new(u64::MAX),
            stuck_below: Cell::new(0),
        }
    }

    /// How many pages are mapped from `at` on.
    pub(super) fn mapped_pages(&self, at: Page, pages: u64) -> usize {
        let all = self.pages.borrow();
        let start = (at.0 - self.start) as usize;
        let range = &all[start..start + pages as usize];
        range
            .iter()
            .filter(|page| **page == TestMapping::Mapped)
            .count()
    }

    /// A caller maps its area.
    pub(super) fn use_area(&self, at: Page, pages: u64) {
        let mut all = self.pages.borrow_mut();
        let start = (at.0 - self.start) as usize;
        // The guard page, too, must be one that no access reaches.
        for (nth, page) in all[start..start + pages as usize + 1]
            .iter_mut()
            .enumerate()
        {
            assert_eq!(*page, TestMapping::Clean, "V5: page {nth} of {at}");
            if nth < pages as usize {
                *page = TestMapping::Mapped;
            }
        }
    }
}

impl FramePlatform for TestPages {
    const ASYMMETRIC: bool = true;
    const ALONE: bool = true;

    fn relax(&self, attempt: u32) {
        assert!(attempt < 1000, "one thread waits for itself");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for TestPages {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Err(MapError::NoMemory)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let left = self.unmaps_until_failure.get();
        if left == 0 || range.start().0 < self.stuck_below.get() {
            return Err(MapError::Limit { max: 0 });
        }
        self.unmaps_until_failure.set(left - 1);
        let mut all = self.pages.borrow_mut();
        let start = (range.start().0 - self.start) as usize;
        for page in &mut all[start..start + range.pages() as usize] {
            if *page == TestMapping::Mapped {
                *page = TestMapping::Stale;
            }
        }
        Ok(())
    }

    fn flush_all(&self) {
        for page in self.pages.borrow_mut().iter_mut() {
            if *page == TestMapping::Stale {
                *page = TestMapping::Clean;
            }
        }
    }

    fn zero(&self, _frames: Run) {}
}
