//! The tables that a CPU found lately: most calls map or unmap beside an earlier one, and need no walk.
//!
//! A table that stands in an entry stays there (PT1). So what was found once is right for as long as there is the root.
//! A CPU must not map or unmap in a handler that interrupted the same: kernels have interrupts off there, as in all calls
//! of the engine.

use super::{PhysMap, TablePage, is_canonical};
use crate::entry::EntryFormat;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use framewright::{CpuId, Frame, Page};

/// How many tables a CPU remembers: one for each value of the lowest bits of a region.
const PLACES: usize = 16;

/// The pages of one table, by their common part.
const fn region(page: Page) -> u64 {
    page.0 >> 9
}

/// No page's region: a page's number has 52 bits.
const NO_REGION: u64 = u64::MAX;

/// Tables of pages' entries that one CPU has found below one root. Only that CPU uses it.
#[derive(Debug)]
#[repr(align(64))]
pub struct KnownTables([KnownTable; PLACES]);

#[derive(Debug)]
struct KnownTable {
    region: AtomicU64,
    table: AtomicU64,
}

impl KnownTables {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(
            [const {
                KnownTable {
                    region: AtomicU64::new(NO_REGION),
                    table: AtomicU64::new(0),
                }
            }; PLACES],
        )
    }

    #[inline(always)]
    const fn place(&self, page: Page) -> &KnownTable {
        &self.0[region(page) as usize % PLACES]
    }

    /// The table of a page, if the CPU remembers it.
    #[inline(always)]
    pub(super) fn find(&self, page: Page) -> Option<Frame> {
        let place = self.place(page);
        let is_its = place.region.load(Relaxed) == region(page);
        is_its.then(|| Frame(place.table.load(Relaxed)))
    }

    /// Remembers the table of a page that has an address.
    pub(super) fn set<E: EntryFormat>(&self, page: Page, table: Frame) {
        debug_assert!(is_canonical::<E>(page), "PT1 is of pages with an address");
        let place = self.place(page);
        place.table.store(table.0, Relaxed);
        place.region.store(region(page), Relaxed);
    }
}

impl Default for KnownTables {
    fn default() -> Self {
        Self::new()
    }
}

/// The known tables of each CPU: a kernel's static, for its one root.
#[derive(Debug)]
pub struct CpusTables<const CPUS: usize>([KnownTables; CPUS]);

impl<const CPUS: usize> CpusTables<CPUS> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { KnownTables::new() }; CPUS])
    }

    /// The same memory as seen by `cpu`, the calling CPU, which remembers its tables if there is such a CPU.
    #[inline(always)]
    pub fn on<M>(&self, cpu: CpuId, phys: M) -> CpuMap<'_, M> {
        let known = self.0.get(cpu.index());
        CpuMap { known, phys }
    }
}

impl<const CPUS: usize> Default for CpusTables<CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Physical memory, and the tables that one CPU found in it.
#[derive(Clone, Copy, Debug)]
pub struct CpuMap<'a, M> {
    known: Option<&'a KnownTables>,
    phys: M,
}

impl<M: PhysMap> PhysMap for CpuMap<'_, M> {
    #[inline(always)]
    fn table(&self, frame: Frame) -> &TablePage {
        self.phys.table(frame)
    }

    #[inline(always)]
    fn known_tables(&self) -> Option<&KnownTables> {
        self.known
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tests::ToyEntry;
    use super::*;

    #[test]
    fn a_cpu_remembers_a_table_until_another_one_takes_its_place() {
        let known = KnownTables::new();
        let at = |nth: u64, page: u64| Page(nth << 9 | page);
        assert_eq!(known.find(Page(0)), None, "frame 0 is a frame");
        let places = PLACES as u64;
        for nth in 0..places {
            known.set::<ToyEntry<4>>(at(nth, 3), Frame(nth));
        }
        for nth in 0..places {
            assert_eq!(known.find(at(nth, 511)), Some(Frame(nth)));
            assert_eq!(known.find(at(nth + places, 0)), None);
        }
        known.set::<ToyEntry<4>>(at(places, 0), Frame(99));
        assert_eq!(known.find(at(places, 5)), Some(Frame(99)));
        assert_eq!(known.find(at(0, 3)), None);
    }

    #[test]
    fn each_cpu_remembers_its_own_and_one_too_many_remembers_none() {
        let all = CpusTables::<2>::new();
        let of = |cpu| all.on(CpuId(cpu), ()).known;
        let [first, second] = [0, 1].map(|cpu| of(cpu).unwrap());
        first.set::<ToyEntry<4>>(Page(9), Frame(7));
        assert_eq!(first.find(Page(1)), Some(Frame(7)));
        assert_eq!(second.find(Page(1)), None);
        assert!(of(2).is_none());
    }
}
