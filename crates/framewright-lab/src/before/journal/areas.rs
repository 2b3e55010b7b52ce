//! Mapped pages: a tree of gaps and a tree of areas, each under one lock for all CPUs.

use super::lock::{CountedLock, LockCount};
use framewright::platform::{MapError, RangePlatform};
use framewright::{Frame, Page, PageAccess, PageRange, Run};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Lazy areas that become gaps under one hold of the lock.
const MERGES_PER_HOLD: usize = 32;

/// Pages of one step of the purge threshold: 32 MiB.
const LAZY_STEP_PAGES: u64 = (32 << 20) / Page::BYTES;

/// The address space.
#[derive(Debug)]
pub(super) struct Areas {
    window: PageRange,
    /// Gaps: pages by first page.
    gaps: CountedLock<BTreeMap<u64, u64>>,
    /// Areas by first page.
    busy: CountedLock<BTreeMap<u64, JournalArea>>,
    /// Freed areas: their pages are unmapped, and wait for a flush.
    lazy: CountedLock<Vec<(u64, u64)>>,
    lazy_pages: AtomicU64,
    lazy_pages_max: u64,
    purging: Mutex<()>,
    purges: AtomicU64,
}

/// An area: its pages, without the guard page, and what they show.
#[derive(Debug)]
pub(super) struct JournalArea {
    pub(super) frames: Vec<u32>,
}

impl Areas {
    /// A window that is one gap. It purges above `fls(cpus) * 32 MiB`.
    pub(super) fn new(window: PageRange, cpus: u16) -> Self {
        let gaps = BTreeMap::from([(window.start().0, window.pages())]);
        Self {
            window,
            gaps: CountedLock::new("free_vmap_area", gaps),
            busy: CountedLock::new("vmap_area", BTreeMap::new()),
            lazy: CountedLock::new("purge_vmap_area", Vec::new()),
            lazy_pages: AtomicU64::new(0),
            lazy_pages_max: u64::from(u16::BITS - cpus.leading_zeros()) * LAZY_STEP_PAGES,
            purging: Mutex::new(()),
            purges: AtomicU64::new(0),
        }
    }

    #[cfg(test)]
    pub(super) fn set_lazy_pages_max(&mut self, pages: u64) {
        self.lazy_pages_max = pages;
    }

    /// The lowest gap that `pages` pages and a guard page fit into; purges once if there is none.
    pub(super) fn reserve(&self, pages: u64, mapper: &impl RangePlatform) -> Option<u64> {
        self.cut(pages + 1).or_else(|| {
            self.purge(mapper);
            self.cut(pages + 1)
        })
    }

    fn cut(&self, pages: u64) -> Option<u64> {
        let mut gaps = self.gaps.lock();
        let (&start, &len) = gaps.iter().find(|(_, len)| **len >= pages)?;
        gaps.remove(&start);
        if len > pages {
            gaps.insert(start + pages, len - pages);
        }
        Some(start)
    }

    /// Gives back what was reserved and never mapped.
    pub(super) fn cancel(&self, start: u64, pages: u64) {
        merge(&mut self.gaps.lock(), start, pages + 1);
    }

    /// Maps frames from page `start` on, a call for each run of them.
    pub(super) fn map(
        &self,
        start: u64,
        frames: &[u32],
        mapper: &impl RangePlatform,
    ) -> Result<(), MapError> {
        let mut at = 0;
        while at < frames.len() {
            let follows = |nth: &usize| frames[*nth] == frames[at] + (*nth - at) as u32;
            let end = (at + 1..frames.len())
                .take_while(follows)
                .last()
                .map_or(at + 1, |last| last + 1);
            let page = Page(start + at as u64);
            if let Some(run) = Run::new(Frame(u64::from(frames[at])), (end - at) as u64)
                && let Err(error) = mapper.map(page, run, PageAccess::DATA, &mut ())
            {
                self.unmap(start, at as u64, mapper);
                return Err(error);
            }
            at = end;
        }
        Ok(())
    }

    /// Enters an area whose frames are mapped.
    pub(super) fn enter(&self, start: u64, area: JournalArea) {
        self.busy.lock().insert(start, area);
    }

    fn unmap(&self, start: u64, pages: u64, mapper: &impl RangePlatform) {
        if let Some(range) = PageRange::new(Page(start), pages) {
            // It cannot fail in a kernel; what a host refuses stays mapped until its next use.
            let _: Result<(), MapError> = mapper.unmap(range);
        }
    }

    /// Takes the area that starts at `start` out, and unmaps its pages.
    pub(super) fn remove(&self, start: u64, mapper: &impl RangePlatform) -> Option<JournalArea> {
        let area = self.busy.lock().remove(&start)?;
        self.unmap(start, area.frames.len() as u64, mapper);
        Some(area)
    }

    /// Leaves a removed area's address space to the next purge. If too much is lazy now, purges at once, unless
    /// another thread purges already.
    pub(super) fn set_lazy(&self, start: u64, pages: u64, mapper: &impl RangePlatform) {
        let pages = pages + 1;
        let lazy = self.lazy_pages.fetch_add(pages, Relaxed) + pages;
        self.lazy.lock().push((start, pages));
        if lazy > self.lazy_pages_max
            && let Ok(_purging) = self.purging.try_lock()
        {
            self.purge_lazy(mapper);
        }
    }

    /// Makes gaps of everything lazy.
    pub(super) fn purge(&self, mapper: &impl RangePlatform) {
        let _purging = self.purging.lock().unwrap_or_else(PoisonError::into_inner);
        self.purge_lazy(mapper);
    }

    fn purge_lazy(&self, mapper: &impl RangePlatform) {
        let areas = std::mem::take(&mut *self.lazy.lock());
        if areas.is_empty() {
            return;
        }
        self.purges.fetch_add(1, Relaxed);
        mapper.flush_all();
        for part in areas.chunks(MERGES_PER_HOLD) {
            let mut gaps = self.gaps.lock();
            for &(start, pages) in part {
                merge(&mut gaps, start, pages);
                self.lazy_pages.fetch_sub(pages, Relaxed);
            }
        }
    }

    pub(super) fn lock_counts(&self) -> [LockCount; 3] {
        [self.gaps.count(), self.busy.count(), self.lazy.count()]
    }

    /// Lazy pages now, and purges so far.
    #[cfg(test)]
    pub(super) fn lazy(&self) -> (u64, u64) {
        (self.lazy_pages.load(Relaxed), self.purges.load(Relaxed))
    }

    /// Gaps, areas and lazy areas are the window, without holes and overlaps.
    pub(super) fn verify(&self) -> Result<(), String> {
        let mut all: Vec<(u64, u64)> = self.gaps.lock().iter().map(|(s, n)| (*s, *n)).collect();
        let busy = self.busy.lock();
        all.extend(
            busy.iter()
                .map(|(s, area)| (*s, area.frames.len() as u64 + 1)),
        );
        all.extend(self.lazy.lock().iter());
        all.sort_unstable();
        let mut at = self.window.start().0;
        for (start, pages) in all {
            if start != at {
                return Err(format!("J5: {at} to {start} has no owner, or two"));
            }
            at += pages;
        }
        if at != self.window.end().0 {
            return Err(format!(
                "J5: the window ends at {}, not at {at}",
                self.window.end().0
            ));
        }
        Ok(())
    }
}

fn merge(gaps: &mut BTreeMap<u64, u64>, start: u64, pages: u64) {
    let (mut start, mut pages) = (start, pages);
    if let Some(behind) = gaps.remove(&(start + pages)) {
        pages += behind;
    }
    if let Some((&before, &len)) = gaps.range(..start).next_back()
        && before + len == start
    {
        gaps.remove(&before);
        (start, pages) = (before, len + pages);
    }
    gaps.insert(start, pages);
}
