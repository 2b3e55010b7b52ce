//! Page tables over any memory and any [entry](EntryFormat): map, unmap, translate.
//!
//! ```text
//!   page number, 36 bits:   | 9: root | 9: level 3 | 9: level 2 | 9: level 1 |
//!                                                      │            └ 4 KiB
//!                                                      └ 2 MiB, where page and frame are aligned
//! ```
//! With 39 bits of address, 27 of the page number, level 3 is the root.
//!
//! # Invariants
//! - **PT1** A table that stands in an entry stays there: none is ever freed. So a walker, of this
//!   code or of a CPU, that has found a table may go on in it, [at any later time](KnownTables), and CPUs may work in
//!   one table at the same time, each on pages of its own.
//! - **PT2** An error changes no translation, not even for a moment, in which a CPU could keep it: a call takes the
//!   tables that it needs before it writes the first entry of a page.
//! - **PT3** A split of 2 MiB into 512 pages changes no translation either: the new table is complete
//!   before its entry takes the huge one's place.
//!
//! # Locks
//! None. An entry of a table is written by one compare-and-swap, because two CPUs may bring a table for it
//! at the same time; an entry of a page by a plain store, because one CPU at a time has the page.
//!
//! # Not here
//! Fences: an architecture that asks for one behind a change has it around these calls. Freeing of tables; it would need a
//! lock or a count in each. Pages of 1 GiB. Architectures that forbid a change of a page's size without an empty entry in
//! between, as Arm does: a split is one store.

mod known;
mod write;

pub use known::{CpuMap, CpusTables, KnownTables};

use crate::entry::EntryFormat;
use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use framewright::platform::MapError;
pub use framewright::platform::TableSource;
use framewright::{Frame, Page, PageAccess, PageRange, Run};
use write::{empty, empty_many, fill, fill_each};

/// The entries of a table: 4096 bytes of 8.
pub const ENTRIES: usize = 512;

/// The pages of 4 KiB in one of 2 MiB.
const HUGE_PAGES: u64 = 512;

/// A table's memory.
pub type TablePage = [AtomicU64; ENTRIES];

/// Where physical memory lies.
pub trait PhysMap {
    /// The table in `frame`: one that the source gave, or the root.
    fn table(&self, frame: Frame) -> &TablePage;

    /// Where the calling CPU remembers tables that it found, if it does.
    #[inline(always)]
    fn known_tables(&self) -> Option<&KnownTables> {
        None
    }
}

/// A page table, by its root: where its tables lie, and how its entries are written.
#[derive(Clone, Copy, Debug)]
pub struct EntryTables<M, E> {
    root: Frame,
    phys: M,
    entry: PhantomData<fn() -> E>,
}

/// An entry of nothing.
const EMPTY: u64 = 0;

/// The upper bits of a page's number, which are all alike: with 48 bits of address, bits 47 to 63 of it.
#[inline(always)]
const fn upper_bits<E: EntryFormat>(page: Page) -> u64 {
    page.0 >> (9 * E::LEVELS - 1)
}

/// Whether a page has an address that a CPU takes.
#[inline(always)]
const fn is_canonical<E: EntryFormat>(page: Page) -> bool {
    let upper = upper_bits::<E>(page);
    upper == 0 || upper == upper_bits::<E>(Page((1 << 52) - 1))
}

/// Whether all pages from the first to the last have addresses that a CPU takes.
const fn are_in_one_half<E: EntryFormat>(first: Page, last: Page) -> bool {
    is_canonical::<E>(first) && upper_bits::<E>(first) == upper_bits::<E>(last)
}

/// The page's entry in a table of that level, 0 for the pages' own.
const fn index(page: Page, level: u32) -> usize {
    (page.0 >> (9 * level)) as usize % ENTRIES
}

/// The pages up to the next border of 2 MiB, or to `end`.
fn within_table(page: Page, end: u64) -> u64 {
    (HUGE_PAGES - page.0 % HUGE_PAGES).min(end - page.0)
}

/// Whether this many pages from a border of 2 MiB on, in front of frames from this one on, are one huge page.
const fn fits_huge(pages: u64, frame: Frame) -> bool {
    pages == HUGE_PAGES && frame.0.is_multiple_of(HUGE_PAGES)
}

/// The parts of a mapping that lie in one table each: the first page, how many there are, and the first frame.
fn pieces(at: Page, end: u64, frames: Run) -> impl Iterator<Item = (Page, u64, Frame)> {
    let mut page = at;
    core::iter::from_fn(move || {
        let pages = within_table(page, end);
        let piece = (page, pages, Frame(frames.start().0 + (page.0 - at.0)));
        page = Page(page.0 + pages);
        (pages > 0).then_some(piece)
    })
}

impl<M: PhysMap, E: EntryFormat> EntryTables<M, E> {
    /// The tables below the root in `root`, which the caller has made: zeroes, or entries of its own.
    pub const fn new(root: Frame, phys: M) -> Self {
        Self {
            root,
            phys,
            entry: PhantomData,
        }
    }

    /// The root's frame, for the register of the page table.
    pub const fn root(&self) -> Frame {
        self.root
    }

    /// Maps as many pages as `frames` has frames, from `at` on, in order: 2 MiB at a time where page and frame
    /// are aligned and no table stands there yet. None of the pages is mapped before.
    ///
    /// # Errors
    /// [`MapError::Page`] if a page has no address, or is part of a huge mapping; [`MapError::Frame`]
    /// if an entry cannot name a frame; [`MapError::NoMemory`] if the source has no frame for a table.
    /// None of the pages is mapped then. New tables stay.
    #[inline]
    pub fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), MapError> {
        if self.map_known(at, frames, access) {
            return Ok(());
        }
        self.map_slow(at, frames, access, source)
    }

    /// The same if the CPU remembers the table. If not it has done nothing, and returns false. For the crates of the architectures.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn map_known(&self, at: Page, frames: Run, access: PageAccess) -> bool {
        self.fill_run(self.known_table(at, frames.frames()), at, frames, access)
    }

    /// Maps a page to each frame, wherever it lies, from `at` on.
    ///
    /// # Errors
    /// As [`map`](Self::map), with the number of pages that are mapped, the first ones.
    #[inline]
    pub fn map_frames(
        &self,
        at: Page,
        frames: &[Frame],
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), (u64, MapError)> {
        if self.map_frames_known(at, frames, access) {
            return Ok(());
        }
        self.map_each(at, frames, access, source)
    }

    /// The same if the CPU remembers the table. If not it has done nothing, and returns false. For the crates of the architectures.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn map_frames_known(&self, at: Page, frames: &[Frame], access: PageAccess) -> bool {
        let table = self.known_table(at, frames.len() as u64);
        self.fill_frames(table, at, frames, access)
    }

    /// The same where the CPU does not know the table.
    #[inline(never)]
    fn map_each(
        &self,
        at: Page,
        frames: &[Frame],
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), (u64, MapError)> {
        if self.fill_frames(self.find_table(at, frames.len() as u64), at, frames, access) {
            return Ok(());
        }
        for (nth, &frame) in (0..).zip(frames) {
            let page = at.0.checked_add(nth).ok_or((nth, MapError::Page(at)))?;
            let run = Run::new(frame, 1).ok_or((nth, MapError::Frame(frame)))?;
            let mapped = self.map(Page(page), run, access, source);
            mapped.map_err(|error| (nth, error))?;
        }
        Ok(())
    }

    /// Writes the entries of a run's pages, if that is their table and entries can name the frames.
    #[inline(always)]
    fn fill_run(&self, table: Option<Frame>, at: Page, frames: Run, access: PageAccess) -> bool {
        let Some(table) = table.filter(|_| frames.end().0 <= E::FRAMES_MAX) else {
            return false;
        };
        let entries = self.entries_in(table, at, frames.frames());
        fill::<E>(entries, frames.start(), access);
        true
    }

    /// The same of a page for each frame.
    #[inline(always)]
    fn fill_frames(
        &self,
        table: Option<Frame>,
        at: Page,
        frames: &[Frame],
        access: PageAccess,
    ) -> bool {
        let all_bits = frames.iter().fold(0, |bits, frame| bits | frame.0);
        let Some(table) = table.filter(|_| all_bits < E::FRAMES_MAX) else {
            return false;
        };
        let entries = self.entries_in(table, at, frames.len() as u64);
        fill_each::<E>(entries, frames, access);
        true
    }

    /// The table with the entries of this many pages from `page` on, if they lie in one, and the CPU remembers it.
    #[inline(always)]
    fn known_table(&self, page: Page, pages: u64) -> Option<Frame> {
        let are_in_one = pages <= (ENTRIES - index(page, 0)) as u64;
        let known = self.phys.known_tables().filter(|_| are_in_one)?;
        known.find(page)
    }

    /// The same, if it is there. The CPU remembers it then.
    #[inline]
    fn find_table(&self, page: Page, pages: u64) -> Option<Frame> {
        if !is_canonical::<E>(page) || pages > (ENTRIES - index(page, 0)) as u64 {
            return None;
        }
        let found = E::from_bits(self.huge_entry(page)?.load(Acquire));
        let table = found.is_table().then(|| found.frame())?;
        if let Some(known) = self.phys.known_tables() {
            known.set::<E>(page, table);
        }
        Some(table)
    }

    /// The entries of this many pages from `page` on, which lie in that table.
    #[inline(always)]
    fn entries_in(&self, table: Frame, page: Page, pages: u64) -> &[AtomicU64] {
        let first = index(page, 0);
        &self.phys.table(table)[first..first + pages as usize]
    }

    /// The same as `map` where the CPU does not know the table.
    #[inline(never)]
    fn map_slow(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), MapError> {
        if self.fill_run(self.find_table(at, frames.frames()), at, frames, access) {
            return Ok(());
        }
        self.map_pieces(at, frames, access, source)
    }

    /// The same where tables may be missing, or pages be huge.
    fn map_pieces(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        source: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let count = frames.frames();
        if frames.end().0 > E::FRAMES_MAX {
            return Err(MapError::Frame(Frame(frames.end().0 - 1)));
        }
        let end = at.0.checked_add(count).ok_or(MapError::Page(at))?;
        if count > 0 && !are_in_one_half::<E>(at, Page(end - 1)) {
            return Err(MapError::Page(at));
        }
        // All tables first, so that what fails has written no entry of a page (PT2).
        for (page, pages, frame) in pieces(at, end, frames) {
            let entry = self.bring_to(page, source)?;
            if !(fits_huge(pages, frame) && entry.load(Relaxed) == EMPTY) {
                self.below(entry, page, source)?;
            }
        }
        for (page, pages, frame) in pieces(at, end, frames) {
            self.map_piece(page, pages, frame, access);
        }
        Ok(())
    }

    /// The entry of the 2 MiB around a page, with the tables down to it.
    #[inline]
    fn bring_to(&self, page: Page, source: &mut impl TableSource) -> Result<&AtomicU64, MapError> {
        let mut table = self.phys.table(self.root);
        for level in (2..E::LEVELS).rev() {
            table = self.below(&table[index(page, level)], page, source)?;
        }
        Ok(&table[index(page, 1)])
    }

    /// Maps pages of one table, which is there unless they are huge.
    #[inline]
    fn map_piece(&self, page: Page, pages: u64, frame: Frame, access: PageAccess) {
        let Some(entry) = self.huge_entry(page) else {
            debug_assert!(false, "the tables are there");
            return;
        };
        if fits_huge(pages, frame) {
            let huge = E::huge(frame, access).bits();
            // Another CPU cannot have a page here: all 512 are the caller's. A table may stand there.
            let placed = entry.compare_exchange(EMPTY, huge, Release, Relaxed);
            if placed.is_ok() {
                return;
            }
        }
        let first = index(page, 0);
        let table = self.phys.table(E::from_bits(entry.load(Acquire)).frame());
        fill::<E>(&table[first..first + pages as usize], frame, access);
    }

    /// The table that an entry names; if it names none, a new one.
    #[inline]
    fn below(
        &self,
        entry: &AtomicU64,
        page: Page,
        source: &mut impl TableSource,
    ) -> Result<&TablePage, MapError> {
        // Acquire pairs with the Release of the CPU that brought the table: its entries are zero.
        let mut found = E::from_bits(entry.load(Acquire));
        if !found.is_present() {
            found = self.bring(entry, source)?;
        }
        if found.is_huge() {
            return Err(MapError::Page(page));
        }
        Ok(self.phys.table(found.frame()))
    }

    /// Brings a table for an empty entry, unless another CPU does so at the same time.
    #[cold]
    fn bring(&self, entry: &AtomicU64, source: &mut impl TableSource) -> Result<E, MapError> {
        let frame = source.take_table().ok_or(MapError::NoMemory)?;
        for word in self.phys.table(frame) {
            word.store(EMPTY, Relaxed);
        }
        Ok(self.install(entry, EMPTY, frame, source))
    }

    /// Puts the table in `frame` in the place of `before`; what stands there afterwards.
    fn install(
        &self,
        entry: &AtomicU64,
        before: u64,
        frame: Frame,
        source: &mut impl TableSource,
    ) -> E {
        let table = E::table(frame);
        // Release: a CPU that sees the table sees its entries.
        match entry.compare_exchange(before, table.bits(), AcqRel, Acquire) {
            Ok(_) => table,
            Err(others) => {
                source.give_back(frame);
                E::from_bits(others)
            }
        }
    }

    /// Unmaps every page of the range. Some of them may not be mapped. Of 2 MiB that reach out of the range it
    /// first makes pages (PT3); the others stay mapped.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if the source has no frame for that. Each page is as it was.
    #[inline]
    pub fn unmap(&self, range: PageRange, source: &mut impl TableSource) -> Result<(), MapError> {
        if let Some(table) = self.known_table(range.start(), range.pages()) {
            empty(self.entries_in(table, range.start(), range.pages()));
            return Ok(());
        }
        self.unmap_slow(range, source)
    }

    /// The same where the CPU does not know the table, or pages are huge.
    #[inline(never)]
    fn unmap_slow(&self, range: PageRange, source: &mut impl TableSource) -> Result<(), MapError> {
        if let Some(table) = self.find_table(range.start(), range.pages()) {
            empty_many(self.entries_in(table, range.start(), range.pages()));
            return Ok(());
        }
        if range.is_empty() {
            return Ok(());
        }
        let (first, last) = (range.start(), Page(range.end().0 - 1));
        if !are_in_one_half::<E>(first, last) {
            return Err(MapError::Page(first));
        }
        // Only the pages at the two ends can lie in 2 MiB that reach out.
        if !first.0.is_multiple_of(HUGE_PAGES) {
            self.split(first, source)?;
        }
        if !range.end().0.is_multiple_of(HUGE_PAGES) {
            self.split(last, source)?;
        }
        self.clear(first, range.end().0);
        Ok(())
    }

    /// The entry of the 2 MiB around a page, if there are tables down to it.
    #[inline(always)]
    fn huge_entry(&self, page: Page) -> Option<&AtomicU64> {
        let mut table = self.phys.table(self.root);
        for level in (2..E::LEVELS).rev() {
            let entry = E::from_bits(table[index(page, level)].load(Acquire));
            if !entry.is_table() {
                return None;
            }
            table = self.phys.table(entry.frame());
        }
        Some(&table[index(page, 1)])
    }

    /// Turns the 2 MiB around a page into 512 pages, if it is mapped so.
    #[inline]
    fn split(&self, page: Page, source: &mut impl TableSource) -> Result<(), MapError> {
        match self.huge_entry(page) {
            Some(entry) if E::from_bits(entry.load(Acquire)).is_huge() => {
                self.split_entry(entry, source)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn split_entry(
        &self,
        entry: &AtomicU64,
        source: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let huge = E::from_bits(entry.load(Acquire));
        let frame = source.take_table().ok_or(MapError::NoMemory)?;
        for (word, number) in self.phys.table(frame).iter().zip(huge.frame().0..) {
            word.store(E::page(Frame(number), huge.access()).bits(), Relaxed);
        }
        // Another CPU that unmaps other pages of these 2 MiB may have split them first.
        self.install(entry, huge.bits(), frame, source);
        Ok(())
    }

    /// Empties the entries of the pages from `page` up to `end`; a huge entry lies in them entirely.
    fn clear(&self, mut page: Page, end: u64) {
        while page.0 < end {
            let pages = within_table(page, end);
            if let Some(entry) = self.huge_entry(page) {
                let found = E::from_bits(entry.load(Acquire));
                if found.is_huge() {
                    debug_assert_eq!(pages, HUGE_PAGES, "2 MiB are split before");
                    entry.store(EMPTY, Release);
                } else if found.is_present() {
                    let first = index(page, 0);
                    let table = self.phys.table(found.frame());
                    empty_many(&table[first..first + pages as usize]);
                }
            }
            page = Page(page.0 + pages);
        }
    }

    /// The frame that a page shows, and the access it grants.
    #[must_use]
    pub fn translate(&self, page: Page) -> Option<(Frame, PageAccess)> {
        if !is_canonical::<E>(page) {
            return None;
        }
        let found = E::from_bits(self.huge_entry(page)?.load(Acquire));
        if found.is_huge() {
            let frame = Frame(found.frame().0 + page.0 % HUGE_PAGES);
            return Some((frame, found.access()));
        }
        if !found.is_present() {
            return None;
        }
        let table = self.phys.table(found.frame());
        let found = E::from_bits(table[index(page, 0)].load(Acquire));
        found.is_present().then(|| (found.frame(), found.access()))
    }

    /// How many tables there are below the root. A walk of all of them; CPUs may bring others meanwhile.
    #[must_use]
    pub fn count_tables(&self) -> u64 {
        self.count_below(self.root, E::LEVELS - 1)
    }

    fn count_below(&self, table: Frame, level: u32) -> u64 {
        let words = self.phys.table(table).iter();
        let entries = words.map(|word| E::from_bits(word.load(Acquire)));
        let below = |entry: E| match level {
            1 => 1,
            _ => 1 + self.count_below(entry.frame(), level - 1),
        };
        entries.filter(|entry| entry.is_table()).map(below).sum()
    }

    /// Whether a page is part of a mapping of 2 MiB.
    #[must_use]
    pub fn is_huge(&self, page: Page) -> bool {
        let entry = self.huge_entry(page).filter(|_| is_canonical::<E>(page));
        entry.is_some_and(|entry| E::from_bits(entry.load(Acquire)).is_huge())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
