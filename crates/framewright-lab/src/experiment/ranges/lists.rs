//! The lists of `before` and `proposed` as subjects of the experiments on virtual ranges.

use crate::before::vmalloc::{AreaSet, VmallocList};
use crate::experiment::{Allocator, Failure, SpaceSubject, SubjectCounters};
use framewright::Page;
use framewright::platform::RangePlatform;
use framewright::vrange::{RangeError, RangeFreeError};

/// At the address-space level.
impl<A: AreaSet + Send, M: RangePlatform + Send + Sync> Allocator for VmallocList<A, M> {
    type Seat<'a>
        = &'a Self
    where
        Self: 'a;

    fn seat(&self, _cpu: u16) -> Result<Self::Seat<'_>, Failure> {
        Ok(self)
    }

    fn counters(&self) -> SubjectCounters {
        let counters = self.counters();
        SubjectCounters {
            area_allocs: counters.area_allocs,
            tlb_flushes: counters.flushes,
            lazy_pages_peak: counters.lazy_pages_peak,
            lazy_pages_bound: self.lazy_pages_max(),
            fits: Some(counters.fits),
            areas_walked: Some(counters.areas_walked),
            ..SubjectCounters::default()
        }
    }
}

impl<A: AreaSet, M: RangePlatform> SpaceSubject for &VmallocList<A, M> {
    #[inline]
    fn alloc(&mut self, pages: u64, align_bytes: u64) -> Result<Page, RangeError> {
        VmallocList::alloc(self, pages, align_bytes)
    }

    #[inline]
    fn free(&mut self, page: Page) -> Result<(), RangeFreeError> {
        VmallocList::free(self, page)
    }

    /// An area for each mapping, which Linux does only above 64 pages: no case that is shown
    /// asks for it.
    fn map_ram(&mut self, pages: u64) -> Result<Page, RangeError> {
        VmallocList::alloc(self, pages, Page::BYTES)
    }

    fn unmap_ram(&mut self, page: Page, _pages: u64) -> Result<(), RangeFreeError> {
        VmallocList::free(self, page)
    }

    fn purge(&mut self) {
        VmallocList::purge(self);
    }

    fn drain(&mut self) {
        VmallocList::purge(self);
    }
}
