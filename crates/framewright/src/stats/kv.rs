//! What an object allocator has counted.

use super::LockStats;

/// What an object allocator has counted since it was made.
///
/// A snapshot: plain numbers, taken counter by counter, so that counters read while other CPUs
/// work may be some operations apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvStats {
    /// Objects handed out from slabs.
    pub slab_allocs: u64,
    /// Objects of slabs given back, by whichever CPU.
    pub slab_frees: u64,
    /// Frees of objects in another CPU's slab.
    pub remote_frees: u64,
    /// Blocks of frames handed out as objects.
    pub run_allocs: u64,
    /// Blocks of frames given back.
    pub run_frees: u64,
    /// Objects that became mapped pages: the spills, and those that had to be mapped (`vmalloc`).
    pub mapped_allocs: u64,
    /// Those of them that could have been contiguous: of `kvmalloc`, `kvcalloc` and `kvrealloc`.
    pub spills: u64,
    /// Mapped objects given back here, including areas that the space itself made.
    pub mapped_frees: u64,
    /// Requests that failed after everything was tried that effort and context allow. A request
    /// that is refused before anything is tried does not count.
    pub failures: u64,
    /// Frames in slabs (`nr_slab_unreclaimable`).
    pub slab_frames: u64,
    /// Slabs made and given back.
    pub slab_makes: u64,
    /// Slabs given back to the frames.
    pub slab_returns: u64,
    /// Requests that had memory compacted (`compact_stall`).
    pub compact_stall: u64,
    /// Requests that had memory reclaimed (`allocstall`).
    pub allocstall: u64,
    /// Times all CPUs were stopped to collect what they kept.
    pub drains: u64,
    /// Frees refused because no object was allocated there.
    pub bad_frees: u64,
    /// Objects that two CPUs freed at the same moment; each is handed out once. If the slot's owner
    /// hands it out again before it collects the other free, that free looks like one of the new
    /// object.
    pub double_frees: u64,
    /// The stop lock; only if locks are accounted.
    pub stop_lock: LockStats,
}
