//! Allocates and frees per-CPU objects.

use super::PerCpuUnits;
use super::class::UnitClass;
use super::pages::PART;
use super::table::{IDLE, UnitPageState};
use crate::frame::FrameSource;
use crate::kv::{KvError, KvFreeError};
use crate::platform::ObjectPlatform;
use crate::platform::parts::zero_object;
use crate::sync::Ordering::Relaxed;
use crate::units::{Addr, Context, Page};

/// The most pages that stay idle, but for those of the last call \[`PCPU_EMPTY_POP_PAGES_HIGH`\].
const IDLE_MAX: u64 = 4;

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
        if bytes > self.pages.unit_bytes() {
            return Err(KvError::TooLong { bytes });
        }
        if align_bytes > Page::BYTES {
            return Err(KvError::AlignContiguous { bytes: align_bytes });
        }
        let found = match UnitClass::of(bytes, align_bytes) {
            Some(class) => self.alloc_slot(class, context, frames),
            None => self.alloc_pages(bytes.div_ceil(Page::BYTES) as u32, context, frames),
        };
        let (object, room) = found?;
        for cpu in 0..self.pages.cpus {
            zero_object(&self.pages.platform, self.pages.copy(object, cpu), room);
            if (cpu + 1) % PART as u16 == 0 {
                self.pages.platform.interrupt_window();
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
            let table = self.pages.table.lock(&self.pages.platform);
            let taken = table.take_slot(class);
            if taken.is_some() {
                table.count_alloc(class.bytes());
            }
            taken
        };
        let (page, slot) = match taken {
            Some(taken) => taken,
            None => {
                let page = self.pages.bring(1, context, frames)?;
                let table = self.pages.table.lock(&self.pages.platform);
                table.begin_slab(page, class);
                table.count_alloc(class.bytes());
                table
                    .take_slot(class)
                    .expect("the slab that this CPU just made has free slots")
            }
        };
        let at = self.pages.addr(page).0 + u64::from(slot) * class.bytes();
        Ok((Addr(at), class.bytes()))
    }

    fn alloc_pages(
        &self,
        pages: u32,
        context: Context,
        frames: &mut impl FrameSource,
    ) -> Result<(Addr, u64), KvError> {
        let idle = match pages {
            1 => self.pages.table.lock(&self.pages.platform).pop(IDLE),
            _ => None,
        };
        let first = match idle {
            Some(page) => page,
            None => self.pages.bring(pages, context, frames)?,
        };
        let bytes = u64::from(pages) * Page::BYTES;
        // The first last: it makes them an object.
        self.pages
            .in_parts(first + 1, pages - 1, |table, page, pages| {
                table.begin_behind(first, page, pages);
            });
        let table = self.pages.table.lock(&self.pages.platform);
        table.begin_run(first, pages);
        table.count_alloc(bytes);
        Ok((self.pages.addr(first), bytes))
    }

    /// As [`Cpu::free_percpu`](crate::engine::Cpu::free_percpu); frames go to `frames`.
    pub(crate) fn free(
        &self,
        object: Addr,
        frames: &mut impl FrameSource,
    ) -> Result<u64, KvFreeError> {
        let (start, bytes) = (self.pages.addr(0).0, self.pages.unit_bytes());
        let offset = object.0.wrapping_sub(start);
        if offset >= bytes {
            return Err(KvFreeError::Outside(object));
        }
        let page = (offset / Page::BYTES) as u32;
        let inside = offset % Page::BYTES;
        let not_first = |first: u32, inside: u64| KvFreeError::NotTheFirst {
            addr: object,
            start: Addr(self.pages.addr(first).0 + inside),
        };
        let table = self.pages.table.lock(&self.pages.platform);
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
                    self.pages.take_away_of(IDLE, most, frames);
                }
                Ok(class.bytes())
            }
            UnitPageState::Run { .. } if inside != 0 => Err(not_first(page, 0)),
            UnitPageState::Run { pages } => {
                let bytes = u64::from(pages) * Page::BYTES;
                table.count_free(bytes);
                table.begin_move(page, 1);
                drop(table);
                self.pages
                    .in_parts(page + 1, pages - 1, |table, first, pages| {
                        table.begin_move(first, pages);
                    });
                self.pages.take_away(page, pages, frames);
                Ok(bytes)
            }
            UnitPageState::Behind { by } => Err(not_first(page - by, 0)),
            UnitPageState::Free
            | UnitPageState::Moving
            | UnitPageState::Idle
            | UnitPageState::Stuck => Err(KvFreeError::NotAllocated(object)),
        }
    }
}
