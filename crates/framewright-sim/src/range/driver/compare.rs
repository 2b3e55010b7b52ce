//! The comparison between operations. How much is lazy is the engine's choice within the bound; what is live is not.

use super::deferred::DeferredAreas;
use super::{Difference, RangePair, differ};
use crate::MachineCall;
use crate::drive::InStep as _;
use framewright::Page;
use framewright::stats::RangeStats;
use framewright::vrange::{AreaInfo, AreaKind, AreaState};

/// Up to how many pages each is looked up when everything is verified.
const FIND_ALL_PAGES: u64 = 512;

impl RangePair<'_, '_> {
    pub(super) fn compare_stats(&mut self) -> Result<(), Difference> {
        let deferred = self.deferred();
        let mut found = self.space.stats();
        // To the model they are free.
        found.area_frees += deferred.areas;
        found.live_pages -= deferred.covers;
        let expected = &self.expected;
        let calls = |call| self.paging.machine().calls(call);
        // An area of `vmalloc` with a mapping that failed half way is freed like all areas.
        let undone = found.area_frees.saturating_sub(expected.area_frees);
        // Each request tries three times: at first, with an eye on other CPUs, and after a drain.
        if undone > 3 * self.vmalloc_calls {
            return differ!("{undone} areas were freed without a call");
        }
        let pairs = [
            ("live_pages", found.live_pages, expected.live_pages),
            (
                "area_allocs",
                found.area_allocs - undone,
                expected.area_allocs,
            ),
            ("area_frees", found.area_frees - undone, expected.area_frees),
            ("failures", found.failures, expected.failures),
            ("vm_map_ram", found.vm_map_ram, expected.vm_map_ram),
            ("vm_unmap_ram", found.vm_unmap_ram, expected.vm_unmap_ram),
            ("unmap_calls", found.unmap_calls, calls(MachineCall::Unmap)),
            ("tlb_flushes", found.tlb_flushes, calls(MachineCall::Flush)),
        ];
        for (name, found, expected) in pairs {
            if found != expected {
                return differ!("{name} is {found}, the model says {expected}");
            }
        }
        self.compare_lazy(&found, deferred)
    }

    fn compare_lazy(&self, found: &RangeStats, deferred: DeferredAreas) -> Result<(), Difference> {
        let (lazy, peak) = (found.vmap_lazy_nr, found.lazy_pages_peak);
        if lazy > peak {
            return differ!("{lazy} pages are lazy, and the most ever are {peak}");
        }
        // If the platform fails to unmap, more stays lazy than is allowed; `verify` knows how much.
        let bound = self.case.config.lazy_pages_max
            + u64::from(self.case.layout.cpus) * self.space.lazy_batch_pages();
        if peak > bound && found.unmap_failures == 0 {
            return differ!("V6: {peak} pages were lazy, {bound} may be");
        }
        // Lazy ones, and those that wait: on one CPU twice as many, and of several no more than were lazy on each.
        let most = bound * (1 + u64::from(self.case.layout.cpus.max(2)));
        let taken = u64::from(self.case.pool_frames) - self.back();
        let freed = taken.saturating_sub(self.vmalloc_pages + found.kept_pages + deferred.pages);
        if freed > most && found.unmap_failures == 0 {
            return differ!("V6: {freed} frames are behind freed areas, {most} may be");
        }
        let window = self.case.layout.pages;
        if lazy + self.expected.live_pages + deferred.covers > window {
            return differ!(
                "{lazy} lazy pages and the live ones are more than the {window} there are"
            );
        }
        Ok(())
    }

    pub(super) fn verify_all(&mut self) -> Result<(), Difference> {
        if let Err(broken) = self.space.verify() {
            return differ!("{broken}");
        }
        self.compare_areas()?;
        if self.case.layout.pages <= FIND_ALL_PAGES {
            for at in 0..self.case.layout.pages + 2 {
                self.compare_find(self.page(at))?;
            }
        }
        self.check_platform()
    }

    /// Checks that the listing has all live areas as they are, by address, and that its other
    /// entries lie between.
    fn compare_areas(&self) -> Result<(), Difference> {
        let mut areas = self.model.areas();
        let (mut end, mut wrong) = (0, None);
        self.space.for_each_area(|info: AreaInfo| {
            let mut say = |what: String| {
                wrong.get_or_insert(what);
            };
            if info.start.0 - info.guard_before < end {
                say(format!("{info:?} is listed, and overlaps the one before"));
            }
            end = info.start.0 + info.pages + info.guard;
            if info.state == AreaState::Live {
                match areas.next() {
                    Some(area) if area.is(&info) => {}
                    area => say(format!("{info:?} is listed, the model has {area:?}")),
                }
            }
        });
        match (wrong, areas.next()) {
            (Some(wrong), _) => differ!("{wrong}"),
            (None, Some(area)) => differ!("{area:?} is not listed"),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn compare_find(&self, page: Page) -> Result<(), Difference> {
        let found = self.space.find(page);
        let expected = self.model.covering(page);
        let is_right = match (found, expected) {
            (Some(info), Some(area)) => info.state == AreaState::Live && area.is(&info),
            (Some(info), None) => info.state != AreaState::Live,
            (None, Some(_)) => false,
            (None, None) => true,
        };
        if !is_right {
            return differ!(
                "V4: find of {page}: the engine says {found:?}, the model {expected:?}"
            );
        }
        let is_built = |area: &AreaInfo| {
            area.kind == AreaKind::Vmalloc
                && area.state != AreaState::Lazy
                && area.range().contains(page)
        };
        let mapped = found
            .filter(is_built)
            .and_then(|_| self.paging.mapped(page));
        match self.space.frame_behind(page) {
            behind if behind == mapped => Ok(()),
            behind => differ!("V4: behind {page} is {mapped:?}, the engine says {behind:?}"),
        }
    }

    /// Checks that no page is lazy, kept or waiting.
    pub(super) fn compare_drained(&mut self) -> Result<(), Difference> {
        self.model.forget_freed();
        let lazy = self.space.stats().vmap_lazy_nr;
        if lazy > 0 {
            return differ!("{lazy} pages are lazy after a drain");
        }
        let mut left = None;
        self.space.for_each_area(|info| {
            if info.state != AreaState::Live {
                left = Some(info);
            }
        });
        if let Some(info) = left {
            return differ!("{info:?} is there after a drain");
        }
        let taken = u64::from(self.case.pool_frames) - self.back();
        if taken != self.vmalloc_pages {
            let live = self.vmalloc_pages;
            return differ!("V7: {taken} frames are taken after a drain, {live} of live areas");
        }
        Ok(())
    }
}
