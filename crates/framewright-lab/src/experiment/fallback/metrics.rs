//! The metrics of `fallback`: under Linux's names where Linux has one.

use crate::measure::metric::{Axis, ORDERS, metrics};

/// In the order of `pressure::LIST_NAMES`.
const LISTS: Axis = Axis {
    word: "LIST",
    names: &["unmovable", "reclaimable", "movable", "reserve", "cma"],
    first: 0,
};

metrics! {
    "fallback";
    "all" {
        BLOCKS[LISTS] = "blocks_LIST", "pageblocks", Neither, Count, "pageblocks (4 MiB) of that list; those without memory count as movable, as Linux counts them. More movable ones are better";
        MIXED_PAGEBLOCKS = "mixed_pageblocks", "pageblocks", Lower, Count, "pageblocks in which the phone holds movable frames and others, both: seen from outside, the same for all kernels. The document has no such figure. At the end, which is one moment: it swings by a half within minutes";
        MIXED_PAGEBLOCKS_MEAN = "mixed_pageblocks_mean", "pageblocks", Lower, Count, "the same on average, rounded down: looked at every 10 s awake, at the same times for all kernels, and at the end";
        MIXED_PAGEBLOCKS_MAX = "mixed_pageblocks_max", "pageblocks", Lower, Count, "the same at most";
        CONTAMINATED_PAGEBLOCKS = "contaminated_pageblocks", "pageblocks", Lower, Count, "pageblocks in which it holds a frame that cannot be moved, at the end";
        CONTAMINATED_PAGEBLOCKS_MEAN = "contaminated_pageblocks_mean", "pageblocks", Lower, Count, "the same on average, as above";
        FREE[LISTS, ORDERS] = "free_LIST_orderK", "blocks", Neither, Count, "free blocks of that list and order, as `/proc/pagetypeinfo` counts them: what CPUs have cached is not among them";
        MEM_FREE_KB = "mem_free_kb", "KiB", Neither, Count, "all free blocks together, the contiguous area's included";
        FILE_KB = "file_kb", "KiB", Neither, Count, "frames that hold pages of files";
        ALLOCSTALL = "allocstall", "requests", Lower, Count, "direct reclaims of requests; a request may stall several times before it is served";
        ALLOCSTALL_ORDER[ORDERS] = "allocstall_order_K", "requests", Lower, Count, "those of one order";
        PGSCAN_KSWAPD = "pgscan_kswapd", "frames", Lower, Count, "frames that clients looked at for the background";
        PGSCAN_DIRECT = "pgscan_direct", "frames", Lower, Count, "frames that clients looked at for requests";
        PGSTEAL_KSWAPD = "pgsteal_kswapd", "frames", Lower, Count, "frames that they freed for the background";
        PGSTEAL_DIRECT = "pgsteal_direct", "frames", Lower, Count, "frames that they freed for requests";
        KSWAPD_WAKE = "kswapd_wake", "times", Lower, Count, "the background was woken";
        KSWAPD_LOW_WMARK_HIT_QUICKLY = "kswapd_low_wmark_hit_quickly", "times", Lower, Count, "woken again before its short sleep was over";
        KSWAPD_HIGH_WMARK_HIT_QUICKLY = "kswapd_high_wmark_hit_quickly", "times", Lower, Count, "found below high when it was over";
        COMPACT_STALL = "compact_stall", "requests", Lower, Count, "attempts of requests to compact that were not deferred";
        COMPACT_SUCCESS = "compact_success", "requests", Neither, Count, "of those, the ones after which there was a block; where compaction was not worth trying it is neither a success nor a failure";
        COMPACT_FAIL = "compact_fail", "requests", Lower, Count, "of those, the ones after which there was none";
        COMPACT_DAEMON_WAKE = "compact_daemon_wake", "requests", Lower, Count, "times that the background compacted";
        COMPACT_MIGRATE_SCANNED = "compact_migrate_scanned", "looks", Lower, Count, "what the scanner for frames to move passed: a frame each, or a pageblock's descriptor";
        COMPACT_FREE_SCANNED = "compact_free_scanned", "looks", Lower, Count, "what the scanner for free frames passed, in the same way";
        COMPACT_ISOLATED = "compact_isolated", "frames", Lower, Count, "sources and targets taken out of use";
        PGMIGRATE_SUCCESS = "pgmigrate_success", "frames", Lower, Count, "moved";
        PGMIGRATE_FAIL = "pgmigrate_fail", "frames", Lower, Count, "not moved";
        KILLS = "kills", "processes", Lower, Count, "chosen by rank (lowmemorykiller)";
        OOM_KILLS = "oom_kills", "processes", Lower, Count, "killed because a request found no memory at all; 0 is wanted";
        STARTS = "starts", "processes", Lower, Count, "applications that were not running when the user went to them";
        PAGES_MISSED = "pages_missed", "pages", Lower, Count, "pages of files that had to be read from the device";
        REQUESTS = "requests", "requests", Neither, Count, "blocks asked for";
        REFUSED = "refused", "requests", Lower, Count, "requests that may not wait, or would rather have a smaller block, and were not served";
        FAILED = "failed", "requests", Lower, Count, "requests that may wait and failed all the same; 0 is wanted";
    }
}
