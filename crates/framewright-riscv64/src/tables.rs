//! Page tables of Sv39 and Sv48: the walk of `framewright-paging` over this architecture's entries, and the
//! fences that stand behind it.
//!
//! # When a mapping is visible
//! A hart reads page tables by accesses of their own, which no `fence` orders with its loads and stores; `SFENCE.VMA` does.
//! And it may keep an entry that was *not valid* when it read it (The RISC-V Instruction Set Manual, volume II,
//! "Supervisor Memory-Management Fence Instruction": until the fence behind a change from invalid to valid, either
//! entry may be used, and an access may fault). So
//! - the hart that maps executes the fence, in [`map`](SvTables::map) and [`map_frames`](SvTables::map_frames);
//! - another hart that has learnt of the page may still fault. Its handler asks
//!   [`was_stale`](SvTables::was_stale), which fences, and tries the access again. An interrupt of all harts
//!   for each mapping would be the other way, and costs more than the fault that hardly comes.
//!
//! So a handler of faults runs on a stack that is mapped from the start.
//!
//! A fence that names an address orders the entry of its page alone, and not those of tables above it. So a call that brought
//! a table fences everything. Where another hart brought the table, the handler of faults makes up for that.
//!
//! # Behind an unmapping
//! stands no fence here: the engine asks for a [flush](crate::shootdown) of all harts before it uses pages or
//! frames again. The answer to it is an `SFENCE.VMA` behind the load that saw the question, so the
//! stores of the hart that asked come before it.
//!
//! # Locks
//! None.

use crate::entry::{FaultedAccess, SvEntry};
use framewright::platform::MapError;
use framewright::{Context, Frame, Page, PageAccess, PageRange, Run};
use framewright_paging::tables::EntryTables;
pub use framewright_paging::tables::{
    CpuMap, CpusTables, ENTRIES, KnownTables, PhysMap, TablePage, TableSource,
};

/// From this many pages on a mapping is followed by one fence of everything. As many as Linux fences one by one.
pub const FENCED_PAGES_MAX: u64 = 64;

/// How the calling hart makes its accesses find what was written into page tables before.
pub trait TableFence {
    /// In the entries of this page. \[`sfence.vma` with its address\]
    fn fence_page(&self, page: Page);

    /// In all tables, and drops all translations that the hart keeps. \[`sfence.vma`\]
    fn fence_all(&self);
}

/// A page table, by its root.
#[derive(Clone, Copy, Debug)]
pub struct SvTables<M, F, const LEVELS: u32> {
    tables: EntryTables<M, SvEntry<LEVELS>>,
    fence: F,
}

/// Page tables with 39 bits of address.
pub type Sv39Tables<M, F> = SvTables<M, F, 3>;
/// Page tables with 48 bits of address.
pub type Sv48Tables<M, F> = SvTables<M, F, 4>;

/// A source that notes whether it was asked.
struct NotingSource<'s, S> {
    source: &'s mut S,
    was_asked: bool,
}

impl<S: TableSource> TableSource for NotingSource<'_, S> {
    #[inline(always)]
    fn context(&self) -> Context {
        self.source.context()
    }

    fn take_table(&mut self) -> Option<Frame> {
        self.was_asked = true;
        self.source.take_table()
    }

    fn give_back(&mut self, frame: Frame) {
        self.source.give_back(frame);
    }

    fn try_give_back(&mut self, frame: Frame) -> bool {
        self.source.try_give_back(frame)
    }
}

impl<M: PhysMap, F: TableFence, const LEVELS: u32> SvTables<M, F, LEVELS> {
    /// The tables below the root in `root`, which the caller has made: zeroes, or entries of its own.
    pub const fn new(root: Frame, phys: M, fence: F) -> Self {
        Self {
            tables: EntryTables::new(root, phys),
            fence,
        }
    }

    /// The root's frame.
    pub const fn root(&self) -> Frame {
        self.tables.root()
    }

    /// The register `satp` for this table, of address space 0.
    #[must_use]
    pub const fn register(&self) -> u64 {
        let mode = 8 + LEVELS as u64 - 3;
        mode << 60 | self.root().0
    }

    /// Maps as many pages as `frames` has frames, from `at` on, in order: 2 MiB at a time where page and frame
    /// are aligned and no table stands there yet. None of the pages is mapped before. The calling hart's accesses
    /// find them when it returns.
    ///
    /// # Errors
    /// As of [`EntryTables::map`].
    #[inline]
    pub fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), MapError> {
        if self.tables.map_known(at, frames, access) {
            self.fence(at, frames.frames(), false);
            return Ok(());
        }
        self.map_noting(at, frames, access, source)
    }

    /// The same where a table may be missing.
    #[inline(never)]
    fn map_noting(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let mut noting = NotingSource {
            source,
            was_asked: false,
        };
        self.tables.map(at, frames, access, &mut noting)?;
        self.fence(at, frames.frames(), noting.was_asked);
        Ok(())
    }

    /// Maps a page to each frame, wherever it lies, from `at` on. The calling hart's accesses find them when it returns.
    ///
    /// # Errors
    /// As of [`EntryTables::map_frames`], with the number of pages that are mapped, the first ones.
    #[inline]
    pub fn map_frames(
        &self,
        at: Page,
        frames: &[Frame],
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), (u64, MapError)> {
        if self.tables.map_frames_known(at, frames, access) {
            self.fence(at, frames.len() as u64, false);
            return Ok(());
        }
        self.map_frames_noting(at, frames, access, source)
    }

    #[inline(never)]
    fn map_frames_noting(
        &self,
        at: Page,
        frames: &[Frame],
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), (u64, MapError)> {
        let mut noting = NotingSource {
            source,
            was_asked: false,
        };
        let mapped = (self.tables).map_frames(at, frames, access, &mut noting);
        let pages = mapped.map_or_else(|(done, _)| done, |()| frames.len() as u64);
        self.fence(at, pages, noting.was_asked);
        mapped
    }

    #[inline]
    fn fence(&self, at: Page, pages: u64, are_tables_new: bool) {
        if are_tables_new || pages > FENCED_PAGES_MAX {
            return self.fence.fence_all();
        }
        for page in at.0..at.0 + pages {
            self.fence.fence_page(Page(page));
        }
    }

    /// Unmaps every page of the range. Some of them may not be mapped. Harts may keep translations until they fence.
    ///
    /// # Errors
    /// As of [`EntryTables::unmap`].
    #[inline]
    pub fn unmap(&self, range: PageRange, source: &mut impl TableSource) -> Result<(), MapError> {
        self.tables.unmap(range, source)
    }

    /// For the handler of a page fault: whether the page's entry grants the access. Then the hart had kept an entry
    /// from before; it has fenced now, and the access is tried again.
    ///
    /// An access that faults again at once has another cause, such as the bits for user mode. A handler that tries
    /// without a bound would not end.
    #[must_use]
    pub fn was_stale(&self, page: Page, access: FaultedAccess) -> bool {
        let found = self.tables.translate(page);
        let is_granted = found.is_some_and(|(_, granted)| access.is_granted_by(granted));
        if is_granted {
            self.fence.fence_all();
        }
        is_granted
    }

    /// The frame that a page shows, and the access it grants.
    #[must_use]
    pub fn translate(&self, page: Page) -> Option<(Frame, PageAccess)> {
        self.tables.translate(page)
    }

    /// How many tables there are below the root, as [`EntryTables::count_tables`].
    #[must_use]
    pub fn count_tables(&self) -> u64 {
        self.tables.count_tables()
    }

    /// Whether a page is part of a mapping of 2 MiB.
    #[must_use]
    pub fn is_huge(&self, page: Page) -> bool {
        self.tables.is_huge(page)
    }
}

#[cfg(test)]
mod tests;
