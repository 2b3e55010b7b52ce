//! Contiguous objects: slots of slabs, and blocks of frames.

use super::seat::Count;
use super::table::Entry;
use super::{KvError, KvFreeError, KvRequest, KvSeat};
use crate::frame::{AllocError, Blocks};
use crate::platform::{Barrier, Direct, Map, Relax, Relief, Zero};
use crate::units::{Addr, Frame, Mobility, Order, Page};
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
    /// Waits and has others give memory back as effort and context allow; with the default effort
    /// it never does.
    ///
    /// # Errors
    /// What is wrong with the request, or that nothing contiguous was there. Nothing has changed
    /// then.
    pub fn kmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        let order = self.check(request)?;
        let order = order.ok_or(KvError::TooLong {
            bytes: request.bytes,
        })?;
        let addr = self
            .run(order)
            .ok_or(KvError::Frames(AllocError::Fragmented));
        if addr.is_err() {
            self.words.count(Count::Failures, 1);
        }
        let addr = addr?;
        if request.zero {
            self.kv.platform.zero_bytes(addr, request.bytes);
        }
        Ok(addr)
    }

    /// The order of the block that a request needs, if there is one so large.
    pub(super) fn check(&self, request: &KvRequest) -> Result<Option<Order>, KvError> {
        let (bytes, align_bytes) = (request.bytes, request.align_bytes);
        if bytes == 0 {
            return Err(KvError::Empty);
        }
        if !align_bytes.is_power_of_two() {
            return Err(KvError::Align { bytes: align_bytes });
        }
        Ok(order_of(bytes, align_bytes))
    }

    /// A block of frames, if it is there at once.
    pub(super) fn run(&mut self, order: Order) -> Option<Addr> {
        let frame = self.ranges.frames().try_block(order, Mobility::Unmovable)?;
        let addr = self.kv.addr(frame);
        let Some(place) = self.kv.place(addr) else {
            // A frame that no object can lie in, by the layout: somebody else may have it.
            let freed = self.ranges.frames().free_block(frame, order);
            debug_assert!(freed.is_ok(), "{freed:?}: it was just taken");
            return None;
        };
        self.kv.table.set(place, Entry::Run(order));
        self.words.count(Count::RunAllocs, 1);
        Some(addr)
    }

    /// Frees an object that is contiguous in memory \[`kfree`\]. Returns how many bytes it could
    /// have had.
    ///
    /// # Errors
    /// What is wrong with the address. Nothing has changed then.
    pub fn kfree(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        let freed = match self.kv.place(addr) {
            Some(place) => self.free_contiguous(addr, place),
            None if self.ranges.space().find(addr.page()).is_some() => {
                Err(KvFreeError::Mapped(addr))
            }
            None => Err(KvFreeError::Outside(addr)),
        };
        if freed.is_err() {
            self.words.count(Count::BadFrees, 1);
        }
        freed
    }

    pub(super) fn free_contiguous(&mut self, addr: Addr, place: usize) -> Result<u64, KvFreeError> {
        match self.kv.table.get(place) {
            Entry::Run(order) if addr.in_page() == self.kv.direct % Page::BYTES => {
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
