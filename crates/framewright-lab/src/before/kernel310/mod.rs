//! The document's kernel under pressure: Linux 3.10.49 on a 64-bit ARM phone, with one zone.
//!
//! ```text
//!   alloc ──▶ above low? ── yes ──▶ per-CPU list ◀── free lists [type][order] ◀── fallback
//!                 │ no                                  ▲              ▲
//!                 ▼                                     │              │ reserve, last
//!        wake the background, above min? ── yes ────────┘
//!                 │ no, and it may wait
//!                 ▼
//!        ┌▶ compaction (order > 0; at first only out of movable pageblocks)
//!        │        ▼ no block
//!        │  direct reclaim: a stall ──▶ above min? ──▶ drain the per-CPU lists, above min?
//!        └────────┘ orders up to 3, as long as anything is reclaimed
//! ```
//!
//! # Rules
//! - **Lists** by type: unmovable, reclaimable, movable, the reserve's, the contiguous area's. A
//!   freed block goes to the list of its pageblock's type, a single frame by way of the CPU's list.
//! - **Fallback** ([`Variant310`]): unmovable takes from reclaimable, then movable; reclaimable from
//!   unmovable, then movable; movable from the contiguous area, reclaimable, unmovable; all at last
//!   from the reserve. If the block found is at least half a pageblock's order, or the request is
//!   reclaimable, all free blocks of its pageblock move to the requester's list, and the type
//!   follows if they are half of it: only free ones count. The rest of a split block goes to the
//!   requester's list. Blocks of the contiguous area keep list and type.
//! - **Watermarks** by order, as [`Watermarks310`] computes them; free frames of the contiguous area count
//!   only for movable requests.
//! - **Direct reclaim**: priorities from 12 to 0; each client looks at its holding, shifted by the
//!   priority and made smaller by its heat, a cluster of 32 at a time and all clients in turns, until
//!   a cluster is freed. A request of an order up to 3 tries as long as anything comes of it, and every time
//!   is another stall. A request of a higher order tries once.
//! - **Compaction** moves single movable pages from the bottom to free frames in movable pageblocks
//!   and the contiguous area, from the top; a whole free pageblock is left alone. A pageblock that
//!   gave nothing is passed by until a request's scan has seen the whole zone and the background
//!   goes to sleep, or a back-off at its longest ends.
//! - **The background** is woken below low with the order of the request, reclaims by rounds of
//!   one priority each until the zone is above high at the order or compaction could do the rest,
//!   gives the order up when all was scanned for nothing, compacts if a request of the order would still
//!   fail, and takes a nap before it sleeps.
//!
//! # Time
//! One look is the unit: a frame that a client looked at, or that a scanner of compaction passed.
//! [`Kernel::background`] gives the background time for this many; a round is not cut, what it takes
//! in excess is owed to the next call. The short sleep of a tenth of a second is
//! [`Layout310::short_sleep`] looks long.
//!
//! # Invariants
//! - **LK1** Every frame that exists is in exactly one block: free, cached by one CPU, or allocated.
//! - **LK2** A free block is on exactly one list, the one its tag names; the counters are what a
//!   recount finds.
//! - **LK3** Of two buddies at most one is a free block of their order.
//! - **LK4** A block is on the contiguous area's list if and only if its pageblock is of that type.
//! - **LK5** Between two calls nothing is isolated.
//!
//! # What is not here
//! Other zones; dirty pages and the waiting for them; contention, for there is one thread: what
//! the kernel gives up where a lock is contended goes on here. Which pages a client calls
//! inactive is its own affair. The out-of-memory killer is the caller's: `None` calls it.
//!
//! # Sources
//! ChengYi He, "avoid external fragmentation related to migration fallback", linux-kernel, 30 January
//! 2016: the variant, the counters, the device. The rules are those of Linux 3.10 (`mm/page_alloc.c`,
//! `mm/vmscan.c`, `mm/compaction.c`, `mm/vmstat.c`), with what its stable series took up: scanners
//! that meet are seen to meet and begin anew, a zone is unreclaimable when it was scanned six times.
//! `extra_free_kbytes` and `min_free_order_shift` are Android's.

mod compact;
mod fallback;
mod impose;
mod kswapd;
mod lists;
mod percpu;
mod reclaim;
mod slowpath;
mod start;
#[cfg(test)]
mod tests;
mod verify;
mod watermark;

use crate::pressure::{Kernel, LISTS, PressureRequest, Tenants};
use framewright::stats::ReclaimStats;
use framewright::{CpuId, Frame, Order};
use kswapd::Kswapd;
use lists::{Tag310, Zone310, list_of};
use slowpath::Want;
pub use start::{Layout310, LayoutError};
pub use watermark::Watermarks310;

/// Which fallback the kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant310 {
    /// 3.10's own: the largest block of another type.
    Before,
    /// With the document's patch: the largest above order 3; if there is none, the smallest.
    Proposed,
}

/// One zone of Linux 3.10 with all that it does when memory runs low.
#[derive(Debug)]
pub struct Kernel310 {
    variant: Variant310,
    cma_first: bool,
    zone: Zone310,
    marks: Watermarks310,
    /// Frames on each CPU's lists.
    cached: Vec<u32>,
    /// Frames that clients were asked to look at since something was last freed to the free lists.
    pages_scanned: u64,
    scanners: compact::Scanners310,
    background: Kswapd,
    stats: ReclaimStats,
    /// What each client still has to look at in this round, and what compaction has in hand: kept
    /// so that no call allocates.
    parts: Vec<u64>,
    hands: compact::Hands,
}

impl Kernel310 {
    /// The watermarks.
    #[must_use]
    pub fn marks(&self) -> Watermarks310 {
        self.marks
    }

    /// Frames on the free lists. Those that CPUs have cached are not among them, as in Linux.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.zone.free()
    }

    fn slot(&self, cpu: CpuId) -> usize {
        cpu.index() % self.cached.len()
    }

    /// Frees a block, or an aligned part of one, after a look at whether it is one.
    #[inline]
    fn free_checked(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        let (cpu, order) = (self.slot(cpu), order.get());
        let is_block = frame.0 < u64::from(self.zone.count()) && {
            let tag = self.zone.tag(frame.0 as u32);
            tag.is_allocated() && tag.order() == order || self.zone.split(frame.0 as u32, order)
        };
        assert!(
            is_block,
            "no block of order {order} is allocated at frame {}",
            frame.0
        );
        self.zone.set_tag(frame.0 as u32, Tag310::INSIDE);
        self.free_frames_to_lists(cpu, frame.0 as u32, order);
    }
}

impl Kernel for Kernel310 {
    fn name(&self) -> &'static str {
        match self.variant {
            Variant310::Before => "before",
            Variant310::Proposed => "proposed",
        }
    }

    /// A request that may neither block nor reclaim is atomic: it goes below min. One that may block
    /// and yet not reclaim stays above min, and does not wake the background.
    #[inline]
    fn alloc(&mut self, tenants: &dyn Tenants, request: PressureRequest) -> Option<Frame> {
        if request.order.get() > crate::before::buddy::MAX_ORDER {
            return None;
        }
        let want = Want {
            cpu: self.slot(request.cpu),
            order: request.order.get(),
            list: list_of(request.mobility),
            context: request.context,
        };
        let frame = self.serve(tenants, want)?;
        Some(Frame(u64::from(frame)))
    }

    /// A part of a block may be freed before the rest of it.
    ///
    /// # Panics
    /// If no such block, and none that holds it, is allocated.
    #[inline]
    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.free_checked(cpu, frame, order);
    }

    fn background_is_awake(&self) -> bool {
        self.background.is_awake()
    }

    fn background(&mut self, tenants: &dyn Tenants, frames: u64) {
        self.run_background(tenants, frames);
    }

    fn stats(&self) -> ReclaimStats {
        self.stats
    }

    fn free_blocks(&self) -> [[u64; 11]; LISTS] {
        self.zone.free_count().map(|orders| orders.map(u64::from))
    }

    /// Pageblocks whose first frame exists, as Linux counts them.
    fn labels(&self) -> [u64; LISTS] {
        let mut counts = [0; LISTS];
        for (pageblock, &label) in self.zone.labels().iter().enumerate() {
            let first = (pageblock as u32) << self.zone.pageblock_order();
            counts[usize::from(label)] += u64::from(self.zone.tag(first) != Tag310::ABSENT);
        }
        counts
    }
}
