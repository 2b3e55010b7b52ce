//! What a space has counted.

use super::LockStats;

/// What a space has counted since it was made.
///
/// A snapshot: plain numbers, taken counter by counter, so that counters read while other CPUs
/// work may be some operations apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeStats {
    /// Areas allocated, in every way.
    pub area_allocs: u64,
    /// Areas freed.
    pub area_frees: u64,
    /// Frees of areas in another CPU's span.
    pub remote_frees: u64,
    /// Requests of `vmalloc` that a kept area served.
    pub kept_takes: u64,
    /// Pages with frames in areas that are kept constructed.
    pub kept_pages: u64,
    /// Requests that failed for want of space.
    pub failures: u64,
    /// Pages of live areas, with the guard page behind each, without one before it. So do all counts of areas' pages.
    pub live_pages: u64,
    /// Pieces cut from the arena: spans, vmap blocks, and areas taken directly (`alloc_vmap_area`).
    pub alloc_vmap_area: u64,
    /// Pieces given back to the arena.
    pub free_vmap_area: u64,
    /// Spans cut from the arena, vmap blocks not among them.
    pub span_takes: u64,
    /// Spans given back to the arena entirely free.
    pub span_returns: u64,
    /// Spans dissolved: their free pages went to the arena, and their areas too.
    pub span_dissolves: u64,
    /// Vmap blocks cut from the arena (`new_vmap_block`).
    pub new_vmap_block: u64,
    /// Vmap blocks given back (`free_vmap_block`).
    pub free_vmap_block: u64,
    /// Calls of `map_ram` that were served (`vm_map_ram`).
    pub vm_map_ram: u64,
    /// Calls of `unmap_ram` that were right (`vm_unmap_ram`).
    pub vm_unmap_ram: u64,
    /// Freed pages that still need an unmap or a flush before they can be reused.
    pub vmap_lazy_nr: u64,
    /// The most of them at one time, without areas longer than the bound, which are purged as they
    /// are freed. Exact as long as one CPU at a time works.
    pub lazy_pages_peak: u64,
    /// Passes in which lazy pages were unmapped.
    pub purges: u64,
    /// Calls of the platform's `unmap`.
    pub unmap_calls: u64,
    /// Calls of the platform's `unmap` that failed.
    pub unmap_failures: u64,
    /// Calls of the platform's `flush_all`.
    pub tlb_flushes: u64,
    /// Times that another CPU's seat was claimed to purge its freed pages.
    pub claims: u64,
    /// Times that all CPUs were stopped because a request would have failed.
    pub drains: u64,
    /// The most gaps given back under one hold of the arena's lock.
    pub merges_per_hold_max: u64,
    /// From the lowest page to the highest that was ever cut from the arena.
    pub va_span_pages: u64,
    /// Pieces cut from the arena that were the whole gap. This and the next three are Linux's `classify_va_fit_type`
    /// \[`FL_FIT_TYPE`\].
    pub fits_full: u64,
    /// Those cut from their gap's start on \[`LE_FIT_TYPE`\].
    pub fits_left_edge: u64,
    /// Those cut up to their gap's end \[`RE_FIT_TYPE`\].
    pub fits_right_edge: u64,
    /// Those that made two gaps of one \[`NE_FIT_TYPE`\].
    pub fits_no_edge: u64,
    /// The space's stop lock; only if locks are accounted.
    pub stop_lock: LockStats,
    /// The arena's lock.
    pub arena_lock: LockStats,
    /// The depot's lock. A CPU that gave the wait up does not count.
    pub depot_lock: LockStats,
}
