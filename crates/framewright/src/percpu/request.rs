//! Allocates and frees per-CPU objects.
//!
//! A page's frames come and go without the lock: between two parts of at most 16 frames the platform may let interrupts
//! in. What a call moves belongs to it meanwhile, so other calls pass by it.

use super::PerCpuUnits;
use super::class::UnitClass;
use super::table::{IDLE, STUCK, UnitPageState, page_of};
use crate::frame::FrameSource;
use crate::kv::{KvError, KvFreeError};
use crate::platform::ObjectPlatform;
use crate::platform::parts::zero_object;
use crate::sync::Ordering::Relaxed;
use crate::units::{Addr, Context, Page, PageRange, Run};
use crate::vrange::RangeError;

/// The most pages that stay idle, but for those of the last call \[`PCPU_EMPTY_POP_PAGES_HIGH`\].
const IDLE_MAX: u64 = 4;
/// The most frames that are brought or given back between two looks at interrupts.
const PART: u32 = 16;

impl<P: ObjectPlatform> PerCpuUnits<'_, P> {
    /// As [`Cpu::alloc_percpu`](crate::engine::Cpu::alloc_percpu), with frames from `frames`.
    pub(crate) fn alloc(
        &self,
        bytes: u64,
        align_bytes: u64,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<Addr, KvError> {
        if bytes == 0 {
            return Err(KvError::Empty);
        }
        if !align_bytes.is_power_of_two() {
            return Err(KvError::Align { bytes: align_bytes });
        }
        if bytes > self.unit_bytes() {
            return Err(KvError::TooLong { bytes });
        }
        if align_bytes > Page::BYTES {
            return Err(KvError::AlignContiguous { bytes: align_bytes });
        }
        let found = match UnitClass::of(bytes, align_bytes) {
            Some(class) => self.alloc_slot(class, context, frames),
            None => self.alloc_pages(bytes.div_ceil(Page::BYTES) as u32, context, frames),
        };
        let (object, room) =
            found.inspect_err(|_| self.table.lock(&self.platform).count_failure())?;
        for cpu in 0..self.cpus {
            zero_object(&self.platform, self.copy(object, cpu), room);
            if (cpu + 1) % PART as u16 == 0 {
                self.platform.interrupt_window();
            }
        }
        Ok(object)
    }

    /// A slot: its address in CPU 0's unit, and its bytes.
    fn alloc_slot(
        &self,
        class: UnitClass,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<(Addr, u64), KvError> {
        let taken = {
            let table = self.table.lock(&self.platform);
            let taken = table.take_slot(class);
            if taken.is_some() {
                table.count_alloc(class.bytes());
            }
            taken
        };
        let (page, slot) = match taken {
            Some(taken) => taken,
            None => {
                let page = self.bring(1, context, frames)?;
                let table = self.table.lock(&self.platform);
                table.begin_slab(page, class);
                table.count_alloc(class.bytes());
                // The page is the first in its list.
                table.take_slot(class).unwrap_or((page, 0))
            }
        };
        let at = self.addr(page).0 + u64::from(slot) * class.bytes();
        Ok((Addr(at), class.bytes()))
    }

    fn alloc_pages(
        &self,
        pages: u32,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<(Addr, u64), KvError> {
        let first = self.bring(pages, context, frames)?;
        let bytes = u64::from(pages) * Page::BYTES;
        let table = self.table.lock(&self.platform);
        table.begin_run(first, pages);
        table.count_alloc(bytes);
        Ok((self.addr(first), bytes))
    }

    /// Takes free pages and brings their frames. They are the caller's to move then. What is idle or stuck goes back if
    /// that is what is missing.
    fn bring(
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
            result => result,
        }
    }

    /// Whether pages are idle or stuck.
    fn holds_back(&self) -> bool {
        let table = self.table.lock(&self.platform);
        table.idle() + table.stuck() != 0
    }

    fn try_bring(
        &self,
        pages: u32,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<u32, KvError> {
        let taken = self.table.lock(&self.platform).take_pages(pages);
        let first = taken.ok_or(KvError::Ranges(RangeError::NoSpace {
            pages: pages.into(),
            align_bytes: Page::BYTES,
        }))?;
        let mut part = 0;
        for page in first..first + pages {
            for cpu in 0..self.cpus {
                if let Err(error) = self.bring_one(page, cpu, context, frames) {
                    if context.may_block {
                        self.take_away(first, pages, frames);
                    } else {
                        // A flush waits for other CPUs.
                        self.leave_stuck(first, pages);
                    }
                    return Err(error);
                }
                part += 1;
                if part % PART == 0 {
                    self.platform.interrupt_window();
                }
            }
        }
        Ok(first)
    }

    fn bring_one(
        &self,
        page: u32,
        cpu: u16,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<(), KvError> {
        let run = frames.alloc_run(1, context).map_err(KvError::Frames)?;
        if let Err(error) = self.platform.map(self.page(page, cpu), run, context) {
            frames.free_run(run);
            return Err(KvError::Ranges(RangeError::Map(error)));
        }
        let word = self.table.frame_word(page, cpu);
        word.store(run.start().0 + 1, Relaxed);
        Ok(())
    }

    /// Unmaps pages that the caller moves, and gives back what frames they have. They are free then, or stuck.
    fn take_away(&self, first: u32, pages: u32, frames: &mut impl FrameSource) {
        if !self.unmap(first, pages) {
            return self.leave_stuck(first, pages);
        }
        self.platform.flush_all();
        let mut part = 0;
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
                part += 1;
                if part % PART == 0 {
                    self.platform.interrupt_window();
                }
            }
        }
        let table = self.table.lock(&self.platform);
        (first..first + pages).for_each(|page| table.make_free(page));
    }

    /// Leaves pages that the caller moves for a later call to take away.
    fn leave_stuck(&self, first: u32, pages: u32) {
        let table = self.table.lock(&self.platform);
        (first..first + pages).for_each(|page| table.set_aside(page, STUCK));
    }

    /// Whether the platform unmapped those pages in every unit.
    fn unmap(&self, first: u32, pages: u32) -> bool {
        (0..self.cpus).all(|cpu| {
            if cpu != 0 && cpu % 8 == 0 {
                self.platform.interrupt_window();
            }
            let range = PageRange::new(self.page(first, cpu), pages.into());
            range.is_some_and(|range| self.platform.unmap(range).is_ok())
        })
    }

    /// Tries again to take a stuck page away. Returns whether one is free now.
    fn retry_stuck(&self, frames: &mut impl FrameSource) -> bool {
        let stuck = {
            let table = self.table.lock(&self.platform);
            let before = table.stuck();
            table.pop(STUCK).map(|page| (page, before))
        };
        let Some((page, before)) = stuck else {
            return false;
        };
        self.take_away(page, 1, frames);
        self.table.lock(&self.platform).stuck() < before
    }

    /// As [`Cpu::free_percpu`](crate::engine::Cpu::free_percpu); frames go to `frames`.
    pub(crate) fn free(
        &self,
        object: Addr,
        frames: &mut impl FrameSource,
    ) -> Result<u64, KvFreeError> {
        let (start, bytes) = (self.addr(0).0, self.unit_bytes());
        let offset = object.0.wrapping_sub(start);
        if offset >= bytes {
            return Err(KvFreeError::Outside(object));
        }
        let page = (offset / Page::BYTES) as u32;
        let inside = offset % Page::BYTES;
        let not_first = |first: u32, inside: u64| KvFreeError::NotTheFirst {
            addr: object,
            start: Addr(self.addr(first).0 + inside),
        };
        let table = self.table.lock(&self.platform);
        match table.state(page) {
            UnitPageState::Slab(class) => {
                let slot = (inside / class.bytes()) as u32;
                if slot >= class.slots() {
                    return Err(KvFreeError::NotAllocated(object));
                }
                if !inside.is_multiple_of(class.bytes()) {
                    return Err(not_first(page, u64::from(slot) * class.bytes()));
                }
                let word = table.slots(page)[slot as usize / 64].load(Relaxed);
                if word >> (slot % 64) & 1 != 0 {
                    return Err(KvFreeError::AlreadyFree(object));
                }
                table.count_free(class.bytes());
                let is_idle = table.free_slot(page, class, slot);
                drop(table);
                if is_idle {
                    let most = if frames.is_short() { 0 } else { IDLE_MAX };
                    self.trim(most, frames);
                }
                Ok(class.bytes())
            }
            UnitPageState::Run { .. } if inside != 0 => Err(not_first(page, 0)),
            UnitPageState::Run { pages } => {
                let bytes = u64::from(pages) * Page::BYTES;
                table.count_free(bytes);
                table.end_run(page, pages);
                drop(table);
                self.take_away(page, pages, frames);
                Ok(bytes)
            }
            UnitPageState::Behind { by } => Err(not_first(page - by, 0)),
            UnitPageState::Free
            | UnitPageState::Moving
            | UnitPageState::Idle
            | UnitPageState::Stuck => Err(KvFreeError::NotAllocated(object)),
        }
    }

    /// Gives the frames of all idle pages back, and tries once more with those that the platform did not unmap.
    pub(crate) fn purge(&self, frames: &mut impl FrameSource) {
        self.trim(0, frames);
        while self.retry_stuck(frames) {}
    }

    /// Takes idle pages away until at most `most` are left.
    fn trim(&self, most: u64, frames: &mut impl FrameSource) {
        loop {
            let table = self.table.lock(&self.platform);
            let page = (table.idle() > most).then(|| table.pop(IDLE)).flatten();
            drop(table);
            let Some(page) = page else {
                return;
            };
            self.take_away(page, 1, frames);
        }
    }

    /// The page of a CPU's unit.
    const fn page(&self, page: u32, cpu: u16) -> Page {
        page_of(self.start, self.table.pages(), cpu, page)
    }

    /// The address of a page of CPU 0's unit.
    const fn addr(&self, page: u32) -> Addr {
        Addr(self.page(page, 0).0 * Page::BYTES)
    }
}
