//! What the experiments on virtual ranges ask of an allocator.

use crate::experiment::Failure;
use framewright::Page;
use framewright::vrange::{RangeError, RangeFreeError};

/// One CPU's way into an address-space allocator. With the host mapper what it returns is mapped.
pub trait SpaceSubject {
    /// An area of `pages` pages.
    ///
    /// # Errors
    /// What the allocator says.
    fn alloc(&mut self, pages: u64, align_bytes: u64) -> Result<Page, RangeError>;

    /// Frees an area, whichever CPU made it.
    ///
    /// # Errors
    /// What the allocator says.
    fn free(&mut self, page: Page) -> Result<(), RangeFreeError>;

    /// Maps `pages` frames for a short time.
    ///
    /// # Errors
    /// What the allocator says.
    fn map_ram(&mut self, pages: u64) -> Result<Page, RangeError>;

    /// Unmaps them.
    ///
    /// # Errors
    /// What the allocator says.
    fn unmap_ram(&mut self, page: Page, pages: u64) -> Result<(), RangeFreeError>;

    /// Makes everything free that this CPU made lazy.
    fn purge(&mut self);

    /// Makes everything free that any CPU made lazy, and returns the free pages that CPUs keep.
    fn drain(&mut self);
}

/// An address-space allocator that threads share.
pub trait Allocator: Sync {
    /// One CPU's way into it.
    type Seat<'a>: SpaceSubject + Send
    where
        Self: 'a;

    /// The way of CPU `cpu`; one at a time has it.
    ///
    /// # Errors
    /// If it cannot be had.
    fn seat(&self, cpu: u16) -> Result<Self::Seat<'_>, Failure>;

    /// What it counted so far.
    fn counters(&self) -> SubjectCounters;
}

/// What an allocator says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubjectCounters {
    /// Areas, spans and vmap blocks cut from the address space (`alloc_vmap_area`).
    pub area_allocs: u64,
    /// vmap blocks given back (`free_vmap_block`).
    pub block_frees: u64,
    /// Flushes of the TLB.
    pub tlb_flushes: u64,
    /// The most lazy pages at once.
    pub lazy_pages_peak: u64,
    /// How many it allows, or where it begins to purge.
    pub lazy_pages_bound: u64,
    /// What the peak is never above; `None` where nothing bounds it.
    pub lazy_pages_most: Option<u64>,
    /// Full, left edge, right edge, no edge; `None` where not every allocation has a gap.
    pub fits: Option<[u64; 4]>,
    /// Busy areas walked past; `None` where nothing is walked.
    pub areas_walked: Option<u64>,
    /// The most merges under one hold of the lock; `None` where nothing bounds them.
    pub merges_per_hold_max: Option<u64>,
}
