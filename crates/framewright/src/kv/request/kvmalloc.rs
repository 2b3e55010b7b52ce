//! Objects that need not be contiguous in memory: the same, or mapped pages.

use super::super::lengths::addr_of;
use super::super::{KvError, KvFreeError, KvSeat};
use super::KvRequest;
use super::obtain::MemoryNeed;
use crate::frame::FrameSource;
use crate::platform::{ObjectPlatform, Relief};
use crate::units::{Addr, Page};
use crate::vrange::{AreaKind, AreaState, RangeFreeError};

impl<P, F, R> KvSeat<'_, '_, '_, P, F, R>
where
    P: ObjectPlatform,
    R: Relief<F>,
    F: FrameSource,
{
    /// Allocates an object: contiguous if such memory is there now, and else of mapped pages
    /// \[`kvmalloc`\].
    ///
    /// The request's effort says how hard it tries; all calls that it makes are within its context.
    /// The mapped path is open to every context: a request that may not wait takes frames and pages
    /// that are there at once.
    ///
    /// # Errors
    /// What is wrong with the request, or which resource was missing. Nothing has changed then.
    #[inline(always)]
    pub fn kvmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        let addr = match self.at_hand(request) {
            Some(addr) => addr,
            None => self.kvmalloc_slow(*request)?,
        };
        Ok(addr)
    }

    #[inline(never)]
    fn kvmalloc_slow(&mut self, request: KvRequest) -> Result<Addr, KvError> {
        self.obtain_for(&request, true)
    }

    /// Allocates zeroed memory for `count` elements of `bytes_each`. All else is as `request` says,
    /// except its length, which is ignored \[`kvcalloc`\].
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

    /// Allocates an object of mapped pages, even if there are blocks \[`vmalloc`\]. Effort and
    /// context have the same meaning as for [`kvmalloc`](Self::kvmalloc).
    ///
    /// # Errors
    /// As [`kvmalloc`](Self::kvmalloc).
    pub fn vmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        let need = MemoryNeed {
            class: None,
            order: None,
            may_spill: false,
            ..self.need(request, true)?
        };
        if need.pages.is_none() {
            let bytes = request.bytes;
            return Err(KvError::TooLong { bytes });
        }
        self.obtain(request, &need)
    }

    /// Frees an object of either kind \[`kvfree`\]. Returns how many bytes it could have had. Time:
    /// O(1) to find out the kind.
    ///
    /// # Errors
    /// What is wrong with the address. Nothing has changed then.
    #[inline(always)]
    pub fn kvfree(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        let table = self.held.table;
        let bytes = match table.place_at(addr) {
            // A run needs no seat of this allocator. So it comes first, where the address can be one's.
            Some(place) if addr.in_page() == 0 => match table.run_at(place) {
                Some(run) => self.free_run(table, addr, place, run)?,
                None => self.free_slot_called(addr, place)?,
            },
            Some(place) => self.free_slot_called(addr, place)?,
            None => self.free_mapped(addr)?,
        };
        Ok(bytes)
    }

    #[inline(never)]
    fn free_slot_called(&mut self, addr: Addr, place: usize) -> Result<u64, KvFreeError> {
        self.free_slot(addr, place)
    }

    #[inline(never)]
    fn free_mapped(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        if addr.in_page() != 0 {
            let error = self.mapped_bytes(addr);
            return error.or_else(|error| self.refuse(error));
        }
        match self.ranges.vfree(addr.page()) {
            Ok(pages) => {
                self.held.words.counters.mapped_frees.add(1);
                Ok(pages * Page::BYTES)
            }
            Err(error) => self.refuse(KvFreeError::of_mapped(addr, error)),
        }
    }

    /// How many bytes the object at `addr` can have \[`ksize`\]. Time: O(1).
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn kvsize(&self, addr: Addr) -> Result<u64, KvFreeError> {
        match self.kv.place(addr) {
            Some(place) => self.length(addr, place),
            None => self.mapped_bytes(addr),
        }
    }

    /// How many bytes the mapped object at `addr` has.
    pub(super) fn mapped_bytes(&self, addr: Addr) -> Result<u64, KvFreeError> {
        let (page, space) = (addr.page(), self.ranges.space());
        let Some(area) = space.find(page) else {
            let is_inside = page.0.wrapping_sub(space.start().0) < space.pages();
            return Err(if is_inside {
                KvFreeError::NotAllocated(addr)
            } else {
                KvFreeError::Outside(addr)
            });
        };
        let start = addr_of(area.start);
        if area.state != AreaState::Live {
            Err(if start == addr {
                KvFreeError::AlreadyFree(addr)
            } else {
                KvFreeError::NotAllocated(addr)
            })
        } else if start != addr {
            Err(KvFreeError::NotTheFirst { addr, start })
        } else if area.kind != AreaKind::Vmalloc {
            Err(KvFreeError::Ranges(RangeFreeError::WrongKind(page)))
        } else {
            Ok(area.pages * Page::BYTES)
        }
    }
}
