//! Frees that are deferred. To the model such an area is free at once; the engine has it until it frees what is deferred.

use super::{Difference, RangePair, differ};
use crate::MachineCall::{self, Barrier, Flush, Frames, Map, Relax, Unmap};
use framewright::Page;
use framewright::vrange::{AreaKind, AreaState, RangeFreeError};

/// What `vfree_atomic` must not call.
const CALLS: [MachineCall; 6] = [Barrier, Flush, Frames, Map, Relax, Unmap];

/// The areas whose free is to come.
#[derive(Clone, Copy, Default)]
pub(super) struct DeferredAreas {
    pub(super) areas: u64,
    pub(super) pages: u64,
    /// With their guard pages.
    pub(super) covers: u64,
}

impl RangePair<'_, '_> {
    pub(super) fn free_atomic(&mut self, page: Page, pages: u64) -> Result<(), Difference> {
        let must = self.model.must_free(page, AreaKind::Vmalloc, pages);
        let machine = self.paging.machine();
        let calls = || CALLS.map(|call| machine.calls(call));
        let before = calls();
        let got = self.space.vfree_atomic(page);
        if calls() != before {
            return differ!("V13: vfree_atomic of {page} called the platform");
        }
        match (got, must) {
            (Ok(freed), Ok(())) => {
                self.freed(page, freed)?;
                self.has_deferred = true;
                let again = self.space.vfree_atomic(page);
                if again != Err(RangeFreeError::AlreadyFree(page)) {
                    return differ!("V10: a second vfree_atomic of {page} says {again:?}");
                }
                let state = self.space.find(page).map(|area| area.state);
                match state == Some(AreaState::Deferred) && self.paging.mapped(page).is_some() {
                    true => Ok(()),
                    false => differ!("V13: the area at {page} is {state:?} after vfree_atomic"),
                }
            }
            (Err(error), Err(reasons)) if reasons.contains(&error) => Ok(()),
            (got, must) => {
                differ!("vfree_atomic of {page}: the engine says {got:?}, the model {must:?}")
            }
        }
    }

    pub(super) fn free_deferred(&mut self, cpu: u16) -> Result<(), Difference> {
        let areas = self.deferred().areas;
        let freed = self.seat(cpu).free_deferred();
        let left = self.deferred().areas;
        match (freed, left) == (areas, 0) {
            true => Ok(()),
            false => differ!("V13: {freed} of {areas} deferred areas are free, {left} are left"),
        }
    }

    /// The areas that the engine lists as deferred.
    pub(super) fn deferred(&mut self) -> DeferredAreas {
        let mut found = DeferredAreas::default();
        if self.has_deferred {
            self.space.for_each_area(|area| {
                if area.state == AreaState::Deferred {
                    found.areas += 1;
                    found.pages += area.pages;
                    found.covers += area.pages + area.guard;
                }
            });
            self.has_deferred = found.areas != 0;
        }
        found
    }
}
