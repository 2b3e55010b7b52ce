//! Checks the invariants of per-CPU objects.

use super::class::{CLASSES, UnitClass};
use super::table::{IDLE, LISTS, LockedUnits, STUCK, UnitPageState};
use crate::stats::Broken;
use crate::sync::Ordering::Relaxed;

impl LockedUnits<'_, '_> {
    /// Checks the invariants: for tests. O(pages of a unit).
    ///
    /// # Errors
    /// The first invariant that does not hold, with a page's number in the unit.
    pub(super) fn verify(&self) -> Result<(), Broken> {
        let mut found = [0; LISTS];
        let mut bytes = 0;
        let mut objects = 0;
        let mut pages = 0;
        let mut page = 0;
        while (page as usize) < self.table.pages() {
            let state = self.state(page);
            self.verify_page(page, state)?;
            pages += u64::from(state.has_frames());
            match state {
                UnitPageState::Slab(class) => {
                    let used = self.used(page);
                    found[class.index()] += u64::from(used < class.slots());
                    objects += u64::from(used);
                    bytes += u64::from(used) * class.bytes();
                }
                UnitPageState::Run { pages } => {
                    objects += 1;
                    bytes += u64::from(pages) * 4096;
                    for by in 1..pages {
                        let is_behind = self.state(page + by) == UnitPageState::Behind { by };
                        Broken::unless(is_behind, "PC1: a run's pages", page.into())?;
                    }
                }
                UnitPageState::Behind { by } => {
                    // A call that makes or ends a run does so in parts.
                    let is_run = match self.state(page - by) {
                        UnitPageState::Run { pages } => by < pages,
                        first => first == UnitPageState::Moving,
                    };
                    Broken::unless(is_run, "PC1: a page behind another", page.into())?;
                }
                UnitPageState::Idle => found[IDLE] += 1,
                UnitPageState::Stuck => found[STUCK] += 1,
                UnitPageState::Free | UnitPageState::Moving => {}
            }
            page += 1;
        }
        for (list, found) in found.into_iter().enumerate() {
            verify_list(self, list, found)?;
        }
        let is_right = self.table.free_pages().is_consistent();
        Broken::unless(is_right, "SL2: the set of free pages", 0)?;
        let stats = self.stats();
        let counts = (stats.objects, stats.bytes, stats.pages);
        Broken::unless(counts == (objects, bytes, pages), "PC3: counts", 0)?;
        let lists = (stats.idle_pages, stats.stuck_pages);
        Broken::unless(
            lists == (found[IDLE], found[STUCK]),
            "PC3: counts of lists",
            0,
        )
    }

    fn verify_page(&self, page: u32, state: UnitPageState) -> Result<(), Broken> {
        let at = page.into();
        let free = self.table.free_pages();
        let is_right = free.contains(page as usize) == (state == UnitPageState::Free);
        Broken::unless(is_right, "PC4: the set of free pages", at)?;
        for cpu in 0..self.table.cpus() {
            let frame = self.table.frame(page, cpu);
            let is_right = match state {
                UnitPageState::Free => frame.is_none(),
                UnitPageState::Moving | UnitPageState::Stuck => true,
                _ => frame.is_some(),
            };
            Broken::unless(is_right, "PC2: the frames behind a page", at)?;
        }
        if let UnitPageState::Slab(class) = state {
            let words = self.slots(page).iter();
            let free: u32 = words.map(|word| word.load(Relaxed).count_ones()).sum();
            let is_right = free + self.used(page) == class.slots() && free < class.slots();
            Broken::unless(is_right, "PC3: a slab's slots", at)?;
        }
        Ok(())
    }
}

/// Whether a list has `count` pages, all of them its own.
fn verify_list(table: &LockedUnits<'_, '_>, list: usize, count: u64) -> Result<(), Broken> {
    let mut left = count;
    let mut next = table.head(list);
    while let Some(page) = next {
        let is_own = match table.state(page) {
            UnitPageState::Slab(class) => list < CLASSES && class == UnitClass::new(list as u32),
            UnitPageState::Idle => list == IDLE,
            UnitPageState::Stuck => list == STUCK,
            _ => false,
        };
        Broken::unless(is_own && left > 0, "PC3: a list", page.into())?;
        left -= 1;
        next = table.next(page);
    }
    Broken::unless(left == 0, "PC3: a list is too short", list as u64)
}
