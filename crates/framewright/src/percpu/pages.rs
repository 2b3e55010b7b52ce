//! Brings pages' frames, and takes them away.
//!
//! Both go without the lock: between two parts of at most 16 frames the platform may let interrupts in. What a call moves
//! belongs to it meanwhile, so other calls pass by it. Long runs of pages change their states in parts, too.

use super::search::UnitSearch;
use super::table::{IDLE, LockedUnits, STATES_PART, STUCK, UnitTable, page_of};
use crate::frame::{AllocError, FrameSource, FrameTables};
use crate::kv::KvError;
use crate::platform::ObjectPlatform;
use crate::sync::Ordering::Relaxed;
use crate::units::{Addr, Context, Page, PageAccess, PageRange, Run};
use crate::vrange::RangeError;

/// The most frames that are brought, unmapped or given back between two looks at interrupts.
pub(super) const PART: u32 = 16;
/// The words of the set of free pages that a search reads between two looks at interrupts.
const SEARCH_PART: usize = 32;
/// The most pages by themselves that one flush serves.
const BATCH: usize = 16;
/// How often a request searches again because pages became free behind its search.
const SEARCHES: u32 = 16;

/// Counts frames, and lets interrupts in between two parts of them.
struct FrameParts<'a, P> {
    platform: &'a P,
    done: u32,
}

impl<P: ObjectPlatform> FrameParts<'_, P> {
    fn add(&mut self, frames: u32) {
        self.done += frames;
        if self.done >= PART {
            self.done = 0;
            self.platform.interrupt_window();
        }
    }
}

/// The pages of all units, and what lies behind them.
#[derive(Debug)]
pub(super) struct UnitPages<'m, P> {
    pub(super) table: UnitTable<'m>,
    pub(super) platform: P,
    /// The first page of CPU 0's unit.
    pub(super) start: Page,
    pub(super) cpus: u16,
}

impl<P: ObjectPlatform> UnitPages<'_, P> {
    /// The bytes of a unit.
    pub(super) const fn unit_bytes(&self) -> u64 {
        self.table.pages() as u64 * Page::BYTES
    }

    /// The address of a CPU's copy of an object.
    #[inline(always)]
    pub(super) const fn copy(&self, object: Addr, cpu: u16) -> Addr {
        Addr(object.0.wrapping_add(cpu as u64 * self.unit_bytes()))
    }

    /// The page of a CPU's unit.
    const fn page(&self, page: u32, cpu: u16) -> Page {
        page_of(self.start, self.table.pages(), cpu, page)
    }

    /// The address of a page of CPU 0's unit.
    pub(super) const fn addr(&self, page: u32) -> Addr {
        Addr(self.page(page, 0).0 * Page::BYTES)
    }

    const fn parts(&self) -> FrameParts<'_, P> {
        FrameParts {
            platform: &self.platform,
            done: 0,
        }
    }

    /// Calls `change` with each part of some pages, under the lock.
    pub(super) fn in_parts(
        &self,
        first: u32,
        pages: u32,
        mut change: impl FnMut(&LockedUnits<'_, '_>, u32, u32),
    ) {
        let (part, end) = (STATES_PART, first + pages);
        for from in (first..end).step_by(part as usize) {
            if from != first {
                self.platform.interrupt_window();
            }
            let table = self.table.lock(&self.platform);
            change(&table, from, part.min(end - from));
        }
    }

    /// Takes free pages and brings their frames. They are the caller's to move then. What is idle or stuck goes back if
    /// that is what is missing; a request that must not wait is told so.
    pub(super) fn bring(
        &self,
        pages: u32,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<u32, KvError> {
        match self.try_bring(pages, context, frames) {
            Err(_) if context.may_block && self.holds_back() => {
                self.purge(frames);
                self.try_bring(pages, context, frames)
            }
            Err(error)
                if !matches!(error, KvError::Ranges(RangeError::Map(_))) && self.holds_back() =>
            {
                Err(KvError::Frames(AllocError::WouldWait))
            }
            result => result,
        }
    }

    /// Whether pages are idle or stuck.
    fn holds_back(&self) -> bool {
        let table = self.table.lock(&self.platform);
        table.count(IDLE) + table.count(STUCK) != 0
    }

    fn try_bring(
        &self,
        pages: u32,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<u32, KvError> {
        let first = self.take_pages(pages).ok_or({
            KvError::Ranges(RangeError::NoSpace {
                pages: pages.into(),
                align_bytes: Page::BYTES,
            })
        })?;
        // All frames before the first is mapped: what is not mapped goes back without a flush.
        if let Err(error) = self.take_frames(first, pages, context, frames) {
            self.give_back(first, pages, frames);
            return Err(error);
        }
        let mapped = self.map_all(first, pages, context, frames);
        let Err((touched, error)) = mapped else {
            return Ok(first);
        };
        self.give_back(first + touched, pages - touched, frames);
        if context.may_block {
            self.take_away(first, touched, frames);
        } else {
            // A flush waits for other CPUs.
            self.leave_stuck(first, touched);
        }
        Err(error)
    }

    fn take_frames(
        &self,
        first: u32,
        pages: u32,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<(), KvError> {
        let mut parts = self.parts();
        for page in first..first + pages {
            for cpu in 0..self.cpus {
                let run = frames.alloc_run(1, context).map_err(KvError::Frames)?;
                let word = self.table.frame_word(page, cpu);
                word.store(run.start().0 + 1, Relaxed);
                parts.add(1);
            }
        }
        Ok(())
    }

    /// Maps pages' frames. If the platform refuses, how many of the pages it has been asked for with success.
    fn map_all(
        &self,
        first: u32,
        pages: u32,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<(), (u32, KvError)> {
        let mut parts = self.parts();
        let tables = &mut FrameTables::new(frames, context);
        for page in first..first + pages {
            for cpu in 0..self.cpus {
                let frame = self.table.frame(page, cpu);
                let run = frame.and_then(|frame| Run::new(frame, 1));
                let mapped = run.map_or(Ok(()), |run| {
                    let at = self.page(page, cpu);
                    self.platform.map(at, run, PageAccess::DATA, tables)
                });
                if let Err(error) = mapped {
                    let touched = page - first + u32::from(cpu != 0);
                    return Err((touched, KvError::Ranges(RangeError::Map(error))));
                }
                parts.add(1);
            }
        }
        Ok(())
    }

    /// Takes free pages side by side, for the caller to move: the first ones that will do.
    fn take_pages(&self, pages: u32) -> Option<u32> {
        if pages == 1 {
            return self.table.lock(&self.platform).take_page();
        }
        for _ in 0..SEARCHES {
            let freed = self.table.freed();
            let mut from = 0;
            while let Some(first) = self.search(from, pages) {
                match self.claim(first, pages) {
                    Ok(()) => return Some(first),
                    Err(taken) => from = taken,
                }
            }
            if self.table.freed() == freed {
                break;
            }
        }
        None
    }

    /// The first of so many free pages side by side, from page `from` on. Another CPU may take them meanwhile.
    fn search(&self, from: u32, pages: u32) -> Option<u32> {
        let mut search = UnitSearch::new(self.table.free_pages(), from, pages);
        loop {
            match search.go_on(SEARCH_PART) {
                Some(found) => return found,
                None => self.platform.interrupt_window(),
            }
        }
    }

    /// Takes these pages if they are free.
    ///
    /// # Errors
    /// The first page of a part that another CPU has taken a page of. None is taken then.
    fn claim(&self, first: u32, pages: u32) -> Result<(), u32> {
        let mut lost = None;
        self.in_parts(first, pages, |table, from, pages| {
            if lost.is_none() && !table.claim(from, pages) {
                lost = Some(from);
            }
        });
        let Some(lost) = lost else {
            return Ok(());
        };
        self.make_free(first, lost - first);
        Err(lost)
    }

    /// Gives back what frames pages have that are not mapped, and makes them free.
    fn give_back(&self, first: u32, pages: u32, frames: &mut impl FrameSource) {
        let mut parts = self.parts();
        for page in first..first + pages {
            for cpu in 0..self.cpus {
                let Some(frame) = self.table.frame(page, cpu) else {
                    continue;
                };
                // Before: if the source unwinds, the frame has gone back all the same.
                self.table.frame_word(page, cpu).store(0, Relaxed);
                if let Some(run) = Run::new(frame, 1) {
                    frames.free_run(run);
                }
                parts.add(1);
            }
        }
        self.make_free(first, pages);
    }

    fn make_free(&self, first: u32, pages: u32) {
        self.in_parts(first, pages, |table, first, pages| {
            (first..first + pages).for_each(|page| table.make_free(page));
        });
    }

    /// Unmaps pages that the caller moves, and gives back what frames they have. They are free then, or stuck.
    pub(super) fn take_away(&self, first: u32, pages: u32, frames: &mut impl FrameSource) {
        if pages == 0 {
            return;
        }
        if !self.unmap(first, pages) {
            return self.leave_stuck(first, pages);
        }
        self.platform.flush_all();
        self.give_back(first, pages, frames);
    }

    /// Leaves pages that the caller moves for a later call to take away.
    fn leave_stuck(&self, first: u32, pages: u32) {
        self.in_parts(first, pages, |table, first, pages| {
            (first..first + pages).for_each(|page| table.set_aside(page, STUCK));
        });
    }

    /// Whether the platform unmapped those pages in every unit.
    fn unmap(&self, first: u32, pages: u32) -> bool {
        let mut parts = self.parts();
        (0..self.cpus).all(|cpu| {
            (0..pages).step_by(PART as usize).all(|from| {
                let now = PART.min(pages - from);
                let range = PageRange::new(self.page(first + from, cpu), now.into());
                let is_done = range.is_some_and(|range| self.platform.unmap(range).is_ok());
                parts.add(now);
                is_done
            })
        })
    }

    /// Gives the frames of all idle pages back, and tries once more with those that the platform did not unmap.
    pub(super) fn purge(&self, frames: &mut impl FrameSource) {
        self.take_away_of(IDLE, 0, frames);
        self.take_away_of(STUCK, 0, frames);
    }

    /// Takes pages of a list away, each once, until at most `most` are left. A flush serves several.
    pub(super) fn take_away_of(&self, list: usize, most: u64, frames: &mut impl FrameSource) {
        let count = self.table.lock(&self.platform).count(list);
        let mut left = count.saturating_sub(most);
        while left > 0 {
            let mut batch = [0; BATCH];
            let mut len = 0;
            {
                let table = self.table.lock(&self.platform);
                while len < BATCH && (len as u64) < left && table.count(list) > most {
                    let Some(page) = table.pop(list) else {
                        break;
                    };
                    batch[len] = page;
                    len += 1;
                }
            }
            if len == 0 {
                return;
            }
            left -= len as u64;
            self.take_batch_away(&mut batch[..len], frames);
        }
    }

    fn take_batch_away(&self, batch: &mut [u32], frames: &mut impl FrameSource) {
        let mut unmapped = 0;
        for nth in 0..batch.len() {
            if self.unmap(batch[nth], 1) {
                batch.swap(nth, unmapped);
                unmapped += 1;
            } else {
                self.leave_stuck(batch[nth], 1);
            }
        }
        if unmapped > 0 {
            self.platform.flush_all();
        }
        for page in &batch[..unmapped] {
            self.give_back(*page, 1, frames);
        }
    }
}
