//! The model of a space. A page that was freed is free to it at once, so what is lazy can only make the engine
//! refuse, never serve wrongly.

use framewright::Page;
use framewright::vrange::{AreaKind, RangeError, RangeFreeError, SpaceLayout};
use std::collections::BTreeMap;

/// The pages of the window that belong to an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelExtent {
    /// Before its first one: a guard page, if it was asked for.
    pub before: u64,
    /// From its first one on: with the guard page, or rounded up to a slot.
    pub covers: u64,
}

impl From<u64> for ModelExtent {
    fn from(covers: u64) -> Self {
        Self { before: 0, covers }
    }
}

/// A live area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelArea {
    /// The first page that its user has.
    pub start: Page,
    /// Its length, as it was asked for.
    pub pages: u64,
    /// The pages of the window before that which belong to it.
    pub before: u64,
    /// Those from there on.
    pub covers: u64,
    /// The call that made it.
    pub kind: AreaKind,
    /// The caller's number.
    pub tag: u32,
    /// Its number among all areas ever made, which determines the contents of its pages.
    pub id: u64,
    place: usize,
}

/// The virtual ranges' obviously right, slow twin: the live areas, sorted by address.
///
/// All pages outside live areas are free: the twin knows no lazy, kept or waiting pages, and no
/// spans.
///
/// # Invariants
/// - A request is served if and only if a free range of its length and alignment exists.
/// - An area handed out is free, aligned, and in the window.
/// - A free succeeds if and only if an area of that kind (and length) starts there.
#[derive(Clone, Debug)]
pub struct RangeModel {
    window: (u64, u64),
    areas: BTreeMap<u64, ModelArea>,
    /// First pages of the areas, in an arbitrary order.
    live: Vec<u64>,
    /// Freed areas, by first page, with the pages that they covered, until one of these is handed
    /// out again.
    freed: BTreeMap<u64, ModelExtent>,
    live_pages: u64,
    next_id: u64,
}

impl RangeModel {
    /// The model of an empty space of that layout.
    #[must_use]
    pub fn new(layout: &SpaceLayout) -> Self {
        Self {
            window: (layout.start.0, layout.start.0 + layout.pages),
            areas: BTreeMap::new(),
            live: Vec::new(),
            freed: BTreeMap::new(),
            live_pages: 0,
            next_id: 1,
        }
    }

    /// How many areas live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// The number of the next area.
    #[must_use]
    pub const fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Pages of live areas as they were asked for.
    #[must_use]
    pub const fn live_pages(&self) -> u64 {
        self.live_pages
    }

    /// The area that `pick` names. `None` if there are no areas.
    #[must_use]
    pub fn pick(&self, pick: u32) -> Option<ModelArea> {
        let nth = (pick as usize).checked_rem(self.live.len())?;
        Some(self.areas[&self.live[nth]])
    }

    /// The live areas by address.
    pub fn areas(&self) -> impl Iterator<Item = &ModelArea> {
        self.areas.values()
    }

    /// The live area that covers the page, its guard pages or rounding included.
    #[must_use]
    pub fn covering(&self, page: Page) -> Option<&ModelArea> {
        let behind = page.0.checked_add(1).and_then(|page| self.areas.get(&page));
        if let Some(area) = behind.filter(|area| area.before != 0) {
            return Some(area);
        }
        let (_, area) = self.areas.range(..=page.0).next_back()?;
        (page.0 < area.start.0 + area.covers).then_some(area)
    }

    /// Whether a free range of that length and alignment exists.
    #[must_use]
    pub fn has_gap(&self, extent: impl Into<ModelExtent>, align_pages: u64) -> bool {
        let ModelExtent { before, covers } = extent.into();
        let (start, end) = self.window;
        let fits = |from: u64, to: u64| {
            from.checked_add(before)
                .and_then(|from| from.checked_next_multiple_of(align_pages))
                .and_then(|at| at.checked_add(covers))
                .is_some_and(|last| last <= to)
        };
        // Mostly no address at all is aligned so.
        if !fits(start, end) {
            return false;
        }
        let mut from = start;
        for area in self.areas.values() {
            if fits(from, area.start.0 - area.before) {
                return true;
            }
            from = area.start.0 + area.covers;
        }
        fits(from, end)
    }

    /// Checks whether some window of this length can serve a request.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, pages: u64, align_bytes: u64) -> Result<(), RangeError> {
        if pages == 0 {
            return Err(RangeError::Empty);
        }
        if !align_bytes.is_power_of_two() {
            return Err(RangeError::Align { bytes: align_bytes });
        }
        if pages > self.window.1 - self.window.0 {
            return Err(RangeError::TooLong { pages });
        }
        Ok(())
    }

    /// Whether a window of this length and place serves such a request while no area is allocated.
    #[must_use]
    pub fn could_serve(
        &self,
        pages: u64,
        extent: impl Into<ModelExtent>,
        align_bytes: u64,
    ) -> bool {
        let ModelExtent { before, covers } = extent.into();
        let (start, end) = self.window;
        let align_pages = (align_bytes / Page::BYTES).max(1);
        let aligned = (start + before).checked_next_multiple_of(align_pages);
        let last = aligned.and_then(|at| at.checked_add(covers));
        self.check(pages, align_bytes).is_ok() && last.is_some_and(|last| last <= end)
    }

    /// What the result of a request of so many pages must be: served, or refused for that reason.
    ///
    /// # Errors
    /// Why it must fail.
    pub fn must_alloc(
        &self,
        pages: u64,
        extent: impl Into<ModelExtent>,
        align_bytes: u64,
    ) -> Result<(), RangeError> {
        self.check(pages, align_bytes)?;
        let align_pages = (align_bytes / Page::BYTES).max(1);
        if self.has_gap(extent, align_pages) {
            Ok(())
        } else {
            Err(RangeError::NoSpace { pages, align_bytes })
        }
    }

    /// Why exactly this range cannot be handed out.
    #[must_use]
    pub fn objection(
        &self,
        start: Page,
        extent: impl Into<ModelExtent>,
        align_bytes: u64,
    ) -> Option<String> {
        let ModelExtent { before, covers } = extent.into();
        let align_pages = (align_bytes / Page::BYTES).max(1);
        let end = start.0.checked_add(covers);
        if start.0 < self.window.0 + before || end.is_none_or(|end| end > self.window.1) {
            return Some(format!("{covers} pages at {start} are not in the window"));
        }
        if !start.0.is_multiple_of(align_pages) {
            return Some(format!("{start} is not aligned to {align_bytes} bytes"));
        }
        let (first, end) = (start.0 - before, start.0 + covers);
        // The area behind may have its guard page in this one.
        self.areas
            .range(..=end)
            .rev()
            .take(2)
            .find(|(_, area)| {
                area.start.0 + area.covers > first && area.start.0 - area.before < end
            })
            .map(|(_, area)| format!("{covers} pages at {start} overlap {area:?}"))
    }

    /// Records that the range is an area now.
    pub fn alloc(
        &mut self,
        start: Page,
        pages: u64,
        extent: impl Into<ModelExtent>,
        kind: AreaKind,
        tag: u32,
    ) -> ModelArea {
        let ModelExtent { before, covers } = extent.into();
        let area = ModelArea {
            start,
            pages,
            before,
            covers,
            kind,
            tag,
            id: self.next_id,
            place: self.live.len(),
        };
        self.next_id += 1;
        self.live_pages += pages;
        self.live.push(start.0);
        self.areas.insert(start.0, area);
        let (first, end) = (start.0 - before, start.0 + covers);
        let behind = self.freed.get(&end);
        if behind.is_some_and(|freed| freed.before != 0) {
            self.freed.remove(&end);
        }
        while let Some((&old, freed)) = self.freed.range(..end).next_back() {
            if old + freed.covers <= first {
                break;
            }
            self.freed.remove(&old);
        }
        area
    }

    /// What the result of a free must be; the length only matters to `unmap_ram`.
    ///
    /// # Errors
    /// All the reasons for which it may be refused, if it must be.
    pub fn must_free(
        &self,
        page: Page,
        kind: AreaKind,
        pages: u64,
    ) -> Result<(), Vec<RangeFreeError>> {
        if page.0 < self.window.0 || page.0 >= self.window.1 {
            return Err(vec![RangeFreeError::Outside(page)]);
        }
        let Some(area) = self.covering(page) else {
            // The engine may forget a freed area at any time.
            let mut reasons = vec![RangeFreeError::NotAllocated(page)];
            let behind = self.freed.get(&(page.0 + 1));
            if behind.is_some_and(|freed| freed.before != 0) {
                let start = Page(page.0 + 1);
                reasons.push(RangeFreeError::NotTheFirst { page, start });
            }
            match self.freed.range(..=page.0).next_back() {
                Some((&start, _)) if start == page.0 => {
                    reasons.push(RangeFreeError::AlreadyFree(page));
                }
                Some((&start, freed)) if page.0 < start + freed.covers => {
                    let start = Page(start);
                    reasons.push(RangeFreeError::NotTheFirst { page, start });
                }
                _ => {}
            }
            return Err(reasons);
        };
        let (start, mapped) = (area.start, area.pages);
        if start != page {
            return Err(vec![RangeFreeError::NotTheFirst { page, start }]);
        }
        if area.kind != kind {
            return Err(vec![RangeFreeError::WrongKind(page)]);
        }
        if kind == AreaKind::Ram && mapped != pages {
            let wrong = RangeFreeError::WrongLength {
                page,
                pages,
                mapped,
            };
            return Err(vec![wrong]);
        }
        Ok(())
    }

    /// Removes an area.
    ///
    /// # Panics
    /// If no area starts there.
    pub fn free(&mut self, start: Page) -> ModelArea {
        let area = self.areas.remove(&start.0).expect("a live area");
        self.live.swap_remove(area.place);
        if let Some(&moved) = self.live.get(area.place) {
            let moved = self.areas.get_mut(&moved).expect("a live area");
            moved.place = area.place;
        }
        self.live_pages -= area.pages;
        let (before, covers) = (area.before, area.covers);
        self.freed.insert(start.0, ModelExtent { before, covers });
        area
    }

    /// Makes all freed areas gaps, and forgets the areas.
    pub fn forget_freed(&mut self) {
        self.freed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> RangeModel {
        RangeModel::new(&SpaceLayout::new(Page(1024), 32))
    }

    #[test]
    fn a_gap_is_found_where_it_is_and_only_there() {
        let mut model = model();
        assert!(model.has_gap(32, 1) && !model.has_gap(33, 1) && model.has_gap(1, 1024));
        assert!(!model.has_gap(1, 2048));
        model.alloc(Page(1027), 1, 2, AreaKind::Plain, 0);
        assert!(model.has_gap(27, 1) && !model.has_gap(28, 1));
        assert!(model.has_gap(24, 8) && !model.has_gap(25, 8));
        assert!(model.has_gap(3, 1024) && !model.has_gap(4, 1024));
        let (pages, align_bytes) = (3, 1 << 22);
        let no_space = RangeError::NoSpace { pages, align_bytes };
        assert_eq!(model.must_alloc(3, 4, 1 << 22), Err(no_space));
        assert_eq!(model.must_alloc(2, 3, 1 << 22), Ok(()));
        assert_eq!(model.must_alloc(0, 1, 3), Err(RangeError::Empty));
        assert_eq!(
            model.must_alloc(1, 2, 3),
            Err(RangeError::Align { bytes: 3 })
        );
        let too_long = RangeError::TooLong { pages: 33 };
        assert_eq!(model.must_alloc(33, 34, 1), Err(too_long));
    }

    #[test]
    fn a_guard_page_before_an_area_is_its_own() {
        let mut model = model();
        let guarded = |covers| ModelExtent { before: 1, covers };
        assert!(model.has_gap(guarded(31), 1) && !model.has_gap(guarded(32), 1));
        assert!(model.has_gap(guarded(24), 8) && !model.has_gap(guarded(25), 8));
        assert!(!model.could_serve(30, guarded(31), 1 << 13));
        assert!(model.could_serve(29, guarded(30), 1 << 13));
        model.alloc(Page(1030), 2, guarded(3), AreaKind::Vmalloc, 0);
        assert_eq!(model.covering(Page(1029)).unwrap().start, Page(1030));
        assert_eq!(model.covering(Page(1028)), None);
        let objection = |start, extent| model.objection(Page(start), extent, 1);
        assert_eq!(objection(1025, guarded(4)), None);
        assert!(objection(1025, guarded(5)).unwrap().contains("overlap"));
        assert!(objection(1033, guarded(2)).unwrap().contains("overlap"));
        assert_eq!(objection(1034, guarded(2)), None);
        assert!(objection(1024, guarded(2)).unwrap().contains("window"));
        let (page, start) = (Page(1029), Page(1030));
        let inside = RangeFreeError::NotTheFirst { page, start };
        let wrong = |model: &RangeModel| model.must_free(page, AreaKind::Vmalloc, 2).unwrap_err();
        assert_eq!(wrong(&model), [inside]);
        model.free(start);
        assert!(wrong(&model).contains(&inside));
        model.alloc(Page(1027), 2, 3, AreaKind::Plain, 0);
        model.free(Page(1027));
        assert!(
            !wrong(&model).contains(&inside),
            "part of it was handed out again"
        );
    }

    #[test]
    fn what_cannot_be_handed_out_is_said() {
        let mut model = model();
        model.alloc(Page(1030), 3, 4, AreaKind::Plain, 0);
        let objection = |start, covers, align| model.objection(Page(start), covers, align);
        assert_eq!(objection(1024, 6, 4096), None);
        assert_eq!(objection(1034, 22, 8192), None);
        assert!(objection(1024, 7, 4096).unwrap().contains("overlap"));
        assert!(objection(1033, 1, 4096).unwrap().contains("overlap"));
        assert!(objection(1035, 1, 8192).unwrap().contains("aligned"));
        assert!(objection(1050, 7, 1).unwrap().contains("window"));
        assert!(objection(1023, 1, 1).unwrap().contains("window"));
        assert!(objection(u64::MAX, 1, 1).unwrap().contains("window"));
    }

    #[test]
    fn each_wrong_free_has_its_reason() {
        use RangeFreeError::{AlreadyFree, NotAllocated, NotTheFirst, Outside, WrongKind};
        let mut model = model();
        let (page, start) = (Page(1026), Page(1025));
        model.alloc(start, 2, 3, AreaKind::Ram, 0);
        let wrong = |model: &RangeModel, page, pages| {
            model
                .must_free(Page(page), AreaKind::Ram, pages)
                .unwrap_err()
        };
        assert_eq!(wrong(&model, 1023, 1), [Outside(Page(1023))]);
        assert_eq!(wrong(&model, 1056, 1), [Outside(Page(1056))]);
        assert_eq!(wrong(&model, 1024, 1), [NotAllocated(Page(1024))]);
        assert_eq!(wrong(&model, 1026, 1), [NotTheFirst { page, start }]);
        let other = model.must_free(start, AreaKind::Plain, 2);
        assert_eq!(other, Err(vec![WrongKind(start)]));
        let length = wrong(&model, 1025, 3);
        assert!(matches!(
            length[..],
            [RangeFreeError::WrongLength { mapped: 2, .. }]
        ));
        assert_eq!(model.must_free(start, AreaKind::Ram, 2), Ok(()));
        model.free(start);
        assert!(wrong(&model, 1025, 2).contains(&AlreadyFree(start)));
        assert!(wrong(&model, 1026, 2).contains(&NotTheFirst { page, start }));
        model.alloc(Page(1024), 2, 3, AreaKind::Plain, 0);
        model.free(Page(1024));
        // Older freed areas are forgotten, but not that the page was inside of one freed since.
        let inside = NotTheFirst {
            page: start,
            start: Page(1024),
        };
        assert_eq!(wrong(&model, 1025, 2), [NotAllocated(start), inside]);
        model.forget_freed();
        assert_eq!(wrong(&model, 1024, 2), [NotAllocated(Page(1024))]);
    }

    #[test]
    fn picks_follow_what_lives() {
        let mut model = model();
        assert_eq!(model.pick(3), None);
        for start in [1024, 1030, 1040] {
            model.alloc(Page(start), 2, 3, AreaKind::Plain, start as u32);
        }
        model.free(Page(1024));
        let starts: Vec<u64> = (0..3).map(|n| model.pick(n).unwrap().start.0).collect();
        assert_eq!(starts, [1040, 1030, 1040]);
        assert_eq!((model.live(), model.live_pages()), (2, 4));
        assert_eq!(model.covering(Page(1032)).unwrap().tag, 1030);
        assert_eq!(model.covering(Page(1033)), None);
    }
}
