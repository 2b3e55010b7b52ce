//! A strict space: a free unmaps its area before it returns, as Linux clears the page tables (V12).
//!
//! The CPU that frees calls the platform, once its change of the header has made the area lazy, and in its busy seat.
//! So no other CPU frees the area, hands its pages out, or stops this one meanwhile. The pages are lazy then as in
//! any other space: they wait for a pass and a flush. The pass has nothing to unmap.
//!
//! An unmapped area says so to a CPU that [collects](super::inbox) it: its header's link is its own first page, which
//! is no area's next one. A span says whether it may have any other lazy area: one that the platform failed to unmap,
//! or that a call [left](super::super::request) which neither unmaps nor waits.

use super::super::AreaHeader;
use super::super::seat::Held;
use crate::platform::RangePlatform;

impl<P: RangePlatform> Held<'_, '_, P> {
    /// If the space is strict, unmaps an area that this CPU has just made lazy. Returns whether the area is unmapped.
    #[inline(always)]
    pub(in super::super) fn unmap_if_strict(&self, at: u32, header: AreaHeader) -> bool {
        self.space.config.strict && self.unmap_at_once(at, header)
    }

    #[inline(never)]
    fn unmap_at_once(&self, at: u32, header: AreaHeader) -> bool {
        let end = at + header.pages() - header.kind().guard_pages() as u32;
        let unmapped = self.unmap(at, end);
        if unmapped {
            self.space.table.set_header(at, header.lazy(Some(at)));
        }
        unmapped
    }

    /// Lets an area of the arena wait that this CPU has made lazy and unmapped.
    pub(in super::super) fn wait_in_arena(&self, at: u32, header: AreaHeader) {
        self.ready_areas();
        self.append_waiting_area(at, header);
        self.words.areas_stamp.set(self.space.stamp());
        self.words.add_unmapped(u64::from(header.pages()));
    }
}
