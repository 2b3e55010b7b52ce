//! Contiguous objects: slots of slabs, and blocks of frames.

use super::seat::Count;
use super::table::Entry;
use super::{KvError, KvFreeError, KvRequest, KvSeat};
use crate::frame::{AllocError, Blocks};
use crate::platform::{Barrier, Direct, Map, Relax, Relief, Zero};
use crate::units::{Addr, Frame, Mobility, Order, Page, Run};
use crate::vrange::FrameSource;

/// The smallest block that holds so many bytes, aligned so; `None` if there is no such order.
pub(super) fn order_of(bytes: u64, align_bytes: u64) -> Option<Order> {
    let frames = bytes.max(align_bytes).div_ceil(Page::BYTES);
    let order = frames.checked_next_power_of_two()?.trailing_zeros();
    Order::new(u8::try_from(order).ok()?)
}

impl<P, R, F> KvSeat<'_, '_, '_, P, R, F>
where
    P: Relax + Barrier + Map + Zero + Direct,
    R: Relief<F>,
    F: FrameSource + Blocks,
{
    /// Allocates an object that is contiguous in memory, in the direct map \[`kmalloc`\].
    ///
    /// Waits, collects what other CPUs keep, and has memory compacted and reclaimed as effort and
    /// context allow. With the default effort it does nothing of the kind, and fails if nothing
    /// is there at once: whoever cannot live with that asks for more.
    ///
    /// # Errors
    /// What is wrong with the request, or that nothing contiguous was to be had. Nothing has
    /// changed then.
    pub fn kmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        let need = self.need(request, false)?;
        self.obtain(request, &need)
    }

    /// A block of frames: if it is there at once, or after all that others keep was collected.
    pub(super) fn run(&mut self, order: Order, collect: bool) -> Result<Addr, AllocError> {
        let frames = self.ranges.frames();
        let frame = if collect {
            frames.block(order, Mobility::Unmovable)?
        } else {
            let frame = frames.try_block(order, Mobility::Unmovable);
            frame.ok_or(AllocError::Fragmented)?
        };
        let addr = self.kv.addr(frame);
        let Some(place) = self.kv.place(addr) else {
            // A frame that no object can lie in, by the layout: somebody else may have it.
            let freed = self.ranges.frames().free_block(frame, order);
            debug_assert!(freed.is_ok(), "{freed:?}: it was just taken");
            return Err(AllocError::Exhausted);
        };
        self.kv.table.set(place, Entry::Run(order));
        self.words.count(Count::RunAllocs, 1);
        Ok(addr)
    }

    /// Cuts a block to a shorter one, whose frames stay where they are; the others are free then.
    /// Whether it was there.
    pub(super) fn cut_run(&mut self, place: usize, order: Order, shorter: Order) -> bool {
        let (from, to) = (Entry::Run(order), Entry::Run(shorter));
        if !self.kv.table.replace(place, from, to) {
            return false;
        }
        let start = Frame(self.kv.shape.start.0 + place as u64 + shorter.frames());
        let rest = Run::new(start, order.frames() - shorter.frames());
        let rest = rest.expect("a part of a block of a zone");
        self.ranges.frames().free_run(rest);
        true
    }

    /// Frees an object that is contiguous in memory \[`kfree`\]. Returns how many bytes it could
    /// have had.
    ///
    /// # Errors
    /// What is wrong with the address. Nothing has changed then.
    pub fn kfree(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        let freed = match self.kv.place(addr) {
            Some(place) => self.free_contiguous(addr, place),
            None => Err(match self.mapped_bytes(addr) {
                Ok(_) => KvFreeError::Mapped(addr),
                Err(error) => error,
            }),
        };
        if freed.is_err() {
            self.words.count(Count::BadFrees, 1);
        }
        freed
    }

    pub(super) fn free_contiguous(&mut self, addr: Addr, place: usize) -> Result<u64, KvFreeError> {
        match self.kv.table.get(place) {
            Entry::Run(order) if addr.in_page() == 0 => {
                if !self.kv.table.clear(place, Entry::Run(order)) {
                    return Err(KvFreeError::AlreadyFree(addr));
                }
                let frame = Frame(self.kv.shape.start.0 + place as u64);
                let freed = self.ranges.frames().free_block(frame, order);
                debug_assert!(freed.is_ok(), "{freed:?}: the table says whose it is (K1)");
                self.words.count(Count::RunFrees, 1);
                Ok(order.frames() * Page::BYTES)
            }
            Entry::Run(_) | Entry::None => Err(KvFreeError::NotAllocated(addr)),
        }
    }
}
