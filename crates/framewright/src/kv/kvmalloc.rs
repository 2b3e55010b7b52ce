//! Objects that need not be contiguous in memory: the same, or mapped pages.

use super::seat::Count;
use super::table::Entry;
use super::{KvError, KvFreeError, KvRequest, KvSeat};
use crate::frame::Blocks;
use crate::platform::{Barrier, Direct, Map, Relax, Relief, Zero};
use crate::units::{Addr, Order, Page};
use crate::vrange::{AreaRequest, FrameSource, RangeError};

impl<P, R, F> KvSeat<'_, '_, '_, P, R, F>
where
    P: Relax + Barrier + Map + Zero + Direct,
    R: Relief<F>,
    F: FrameSource + Blocks,
{
    /// Allocates an object: contiguous in memory if that is there now, and else of mapped pages
    /// \[`kvmalloc`\].
    ///
    /// # Errors
    /// What is wrong with the request, or what could not be had for it. Nothing has changed then.
    pub fn kvmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        let order = self.check(request)?;
        if let Some(addr) = order.and_then(|order| self.run(order)) {
            if request.zero {
                self.kv.platform.zero_bytes(addr, request.bytes);
            }
            return Ok(addr);
        }
        let mut tries = 0;
        loop {
            let error = match self.map(request) {
                Ok(addr) => return Ok(addr),
                Err(error) => error,
            };
            let would_help = matches!(error, KvError::Ranges(RangeError::Frames(_)));
            if !would_help || !request.effort.reclaims(request.context, tries) {
                self.words.count(Count::Failures, 1);
                return Err(error);
            }
            self.words.count(Count::AllocStall, 1);
            let wanted = request.bytes.div_ceil(Page::BYTES);
            let frames = self.ranges.frames();
            if self.kv.relief.reclaim(frames, wanted, request.context) == 0 {
                self.words.count(Count::Failures, 1);
                return Err(error);
            }
            tries += 1;
        }
    }

    fn map(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        let area = AreaRequest {
            pages: request.bytes.div_ceil(Page::BYTES),
            align_bytes: request.align_bytes,
            zero: request.zero,
            context: request.context,
            tag: request.tag,
        };
        let page = self.ranges.vmalloc(&area).map_err(KvError::Ranges)?;
        self.words.count(Count::Spills, 1);
        Ok(Addr(page.0 * Page::BYTES))
    }

    /// Allocates zeroed memory for `count` elements of `bytes_each`, in all else as `request` says,
    /// whose length does not matter \[`kvcalloc`\].
    ///
    /// # Errors
    /// As [`kvmalloc`](Self::kvmalloc), and if the product is no number.
    pub fn kvcalloc(
        &mut self,
        count: u64,
        bytes_each: u64,
        request: &KvRequest,
    ) -> Result<Addr, KvError> {
        let bytes = KvRequest::array(count, bytes_each)?.bytes;
        self.kvmalloc(&KvRequest { bytes, ..*request }.zeroed())
    }

    /// Changes the length of an object to the request's; the bytes that both lengths have are kept,
    /// and those behind them zero if the request says so \[`kvrealloc`\]. The object may move.
    ///
    /// # Errors
    /// As [`kvmalloc`](Self::kvmalloc), and what is wrong with the address. The object is as it was
    /// then.
    pub fn kvrealloc(&mut self, addr: Addr, request: &KvRequest) -> Result<Addr, KvError> {
        let had = self.kvsize(addr).map_err(KvError::Free)?;
        let new = self.kvmalloc(request)?;
        self.kv
            .platform
            .copy_bytes(addr, new, had.min(request.bytes));
        let freed = self.kvfree(addr);
        debug_assert!(freed.is_ok(), "{freed:?}: it was there a moment ago");
        Ok(new)
    }

    /// Frees an object, whichever kind it is of \[`kvfree`\]. Returns how many bytes it could have
    /// had. Time: O(1) to find the kind out.
    ///
    /// # Errors
    /// What is wrong with the address. Nothing has changed then.
    pub fn kvfree(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        let freed = match self.kv.place(addr) {
            Some(place) => self.free_contiguous(addr, place),
            None if addr.in_page() != 0 => Err(KvFreeError::NotAllocated(addr)),
            None => match self.ranges.vfree(addr.page()) {
                Ok(pages) => {
                    self.words.count(Count::MappedFrees, 1);
                    Ok(pages * Page::BYTES)
                }
                Err(error) => Err(KvFreeError::Ranges(error)),
            },
        };
        if freed.is_err() {
            self.words.count(Count::BadFrees, 1);
        }
        freed
    }

    /// How many bytes the object at `addr` can have \[`ksize`\].
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn kvsize(&self, addr: Addr) -> Result<u64, KvFreeError> {
        let Some(place) = self.kv.place(addr) else {
            let area = self.ranges.space().find(addr.page());
            let area = area.ok_or(KvFreeError::Outside(addr))?;
            return match area.range().start() == addr.page() && addr.in_page() == 0 {
                true => Ok(area.range().pages() * Page::BYTES),
                false => Err(KvFreeError::NotAllocated(addr)),
            };
        };
        match self.kv.table.get(place) {
            Entry::Run(order) => Ok(bytes_of(order)),
            Entry::None => Err(KvFreeError::NotAllocated(addr)),
        }
    }
}

const fn bytes_of(order: Order) -> u64 {
    order.frames() * Page::BYTES
}
