//! The metrics of `kvmalloc`.

use crate::measure::metric::{Axis, QUANTILES, metrics};

/// The locks that are accounted: the engine's, and the baselines'.
const LOCKS: Axis = Axis {
    word: "LOCK",
    names: &[
        "arena",
        "depot",
        "frame_stop",
        "free_vmap_area",
        "lru",
        "object_stop",
        "pageblocks",
        "purge_vmap_area",
        "range_stop",
        "vmap_area",
        "zone",
    ],
    first: 0,
};

metrics! {
    "kvmalloc";
    "all" {
        COMMITS_PER_S = "commits_per_s", "commits/s", Higher, Time, "each thread's commits divided by its wall time, added up";
        COMMITS_VS_BEFORE = "commits_vs_before", "1", Higher, Fixed(2), "the same divided by that of `before`; `published`: \"more than doubles\"";
        COMMITS_PER_CPU_S = "commits_per_cpu_s", "commits/s", Higher, Time, "commits divided by the CPU time of the threads and of the background: what neighbours on the machine do not change";
        COMMITS_PER_CPU_VS_BEFORE = "commits_per_cpu_vs_before", "1", Higher, Fixed(2), "the same divided by that of `before`";
        KVMALLOC_CPU_NS = "kvmalloc_cpu_ns", "ns", Lower, Time, "CPU time of the threads in their allocation phases divided by calls. Commits whose calls are timed one by one are not in it";
        KVMALLOC_CPU_VS_BEFORE = "kvmalloc_cpu_vs_before", "1", Lower, Fixed(3), "the same divided by that of `before`; `published`: \"~5x reduction\"";
        COPY_CPU_NS = "copy_cpu_ns", "ns", Neither, Time, "CPU time of copying divided by calls: a word at a time, through the direct map, by way of the page table";
        KVMALLOC_VS_COPY = "kvmalloc_vs_copy", "1", Lower, Fixed(3), "`kvmalloc_cpu_ns / copy_cpu_ns`; `published`: the two shares divided";
        KVFREE_CPU_NS = "kvfree_cpu_ns", "ns", Lower, Time, "CPU time of the free phases divided by calls";
        KVMALLOC_SHARE = "kvmalloc_share", "1", Lower, Percent(2), "CPU time of the allocation phases divided by all CPU time: the threads', with reading in and checksums, and the background's";
        COPY_SHARE = "copy_share", "1", Neither, Percent(2), "the same of copying";
        KVFREE_SHARE = "kvfree_share", "1", Lower, Percent(2), "the same of the free phases; `published`: `kvfree`";
        BACKGROUND_SHARE = "background_share", "1", Lower, Percent(2), "CPU time of the background thread (reclaim; in `before` and `proposed` compaction too) divided by all";
        COMPACT_SHARE = "compact_share", "1", Lower, Percent(2), "CPU time of calls in compaction divided by all CPU time, in a run of its own; `published`: `__alloc_pages_direct_compact`, before";
        RECLAIM_SHARE = "reclaim_share", "1", Lower, Percent(2), "the same in reclaim, by the allocator or by the writer on behalf of a call that found no frame; `published`: `try_to_free_pages`, before";
        LOCK_WAIT_SHARE = "lock_wait_share", "1", Lower, Percent(2), "time that threads and background waited for locks that others held, divided by all CPU time. Not of `framewright`, whose locks do not time their waits. `published`: the spinlocks that the profile names below the allocation";
        FRAME_RUNS = "frame_runs", "runs", Lower, Fixed(2), "runs of neighbouring frames that a buffer consists of, the mean in that run: 1 is contiguous";
        CALLS = "calls", "calls", Neither, Count, "calls of `kvmalloc`";
        SPILLED_SHARE = "spilled_share", "1", Neither, Percent(2), "calls served with mapped pages divided by calls";
        COMPACT_STALL = "compact_stall", "calls", Lower, Count, "attempts of calls to compact that were neither deferred nor skipped (as Linux counts); 0 is wanted";
        COMPACT_SUCCESS = "compact_success", "calls", Lower, Count, "of those, the ones after which the block was had";
        ALLOCSTALL = "allocstall", "calls", Lower, Count, "direct reclaims for calls: by the allocator (`before`, `proposed`), or by the writer whose call found no frame (`framewright`, which is fail-fast and never reclaims by itself); 0 is wanted";
        RECLAIMED = "reclaimed", "pages", Lower, Count, "pages that these took from the cache";
        MIGRATED = "migrated", "pages", Lower, Count, "pages that compaction moved, the background's included";
        WAITS = "waits", "calls", Lower, Count, "times that the writer had to reclaim because a call found no frame; they are in `allocstall`; 0 is wanted";
        KVMALLOC_NS[QUANTILES] = "kvmalloc_ns_QUANTILE", "ns", Lower, Time, "quantiles of the calls of every fourth commit, wall time, less what two readings of the clock cost";
        LOCK_CONTENDED_SHARE[LOCKS] = "lock_contended_share.LOCK", "1", Lower, Percent(2), "acquisitions of the lock of that name that found it taken, divided by its acquisitions; absent for a lock that was never taken. Below 1 % is wanted";
        LOCK_PER_CALL[LOCKS] = "lock_per_call.LOCK", "1", Lower, Fixed(3), "acquisitions divided by calls: 1 or more of a lock that all share means that all CPUs meet there";
        LOCK_HOLD_NS_MAX[LOCKS] = "lock_hold_ns_max.LOCK", "ns", Lower, Time, "the longest hold, preemption included; of the baselines every sixteenth is timed";
    }
}
