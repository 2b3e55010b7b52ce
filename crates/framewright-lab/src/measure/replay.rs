//! The metrics of a replay.

use super::metric::{Axis, ORDERS, metrics};

const ORDERS_FROM_1: Axis = Axis { first: 1, ..ORDERS };

/// Mobilities in the order of their numbers.
const LABELS: Axis = Axis {
    word: "LABEL",
    names: &["unmovable", "movable", "reclaimable"],
    first: 0,
};

/// Mobilities asked for, and the labels of pageblocks in their place.
const FALLBACK_PAIRS: Axis = Axis {
    word: "FROM_TO",
    names: &[
        "unmovable_movable",
        "unmovable_reclaimable",
        "movable_unmovable",
        "movable_reclaimable",
        "reclaimable_unmovable",
        "reclaimable_movable",
    ],
    first: 0,
};

/// Requests by what their flags say, together and apart.
const REQUEST_KINDS: Axis = Axis {
    word: "KIND",
    names: &["all", "no_reclaim", "may_reclaim", "optional"],
    first: 0,
};

metrics! {
    "replay";
    "memory" {
        FREE_FRAMES = "free_frames", "frames", Neither, Mean, "`F`. Where requests fail, more stays free";
        FREE_2M_BLOCKS = "free_2m_blocks", "blocks", Higher, Mean, "`S_9`";
        UNUSABLE_INDEX[ORDERS_FROM_1] = "unusable_index_orderK", "1", Lower, Fixed(3), "`(F - S_K 2^K) / F`; 1 if F = 0";
        FRAGMENTATION_INDEX[ORDERS_FROM_1] = "fragmentation_index_orderK", "1", Neither, Fixed(3), "`1 - (1 + F / 2^K) / sum over j of free_j`, over those samples only at which `S_K = 0` and `F > 0`; absent if there was none";
        CONTAMINATED_BLOCKS = "contaminated_blocks", "blocks", Lower, Mean, "2 MiB blocks with at least one non-movable frame";
        CONTAMINATED_BLOCKS_FLOOR = "contaminated_blocks_floor", "blocks", Neither, Mean, "`ceil(non-movable frames / 512)`: no policy can have fewer";
        MIXED_BLOCKS = "mixed_blocks", "blocks", Lower, Mean, "contaminated blocks that also hold a movable frame";
        MOVABLE_FRAMES_IN_MIXED = "movable_frames_in_mixed", "frames", Lower, Mean, "movable frames in mixed blocks";
        TAINTED_REGIONS = "tainted_regions", "regions", Lower, Mean, "aligned runs of 64 2 MiB blocks (128 MiB; the last may be shorter) with at least one contaminated block";
        TAINTED_REGIONS_FLOOR = "tainted_regions_floor", "regions", Neither, Mean, "`ceil(non-movable frames / 32768)`: no policy can have fewer";
    }
    "requests" {
        FAILURES[ORDERS] = "failures_orderK", "requests", Lower, Count, "allocations of the trace that the policy did not serve. Without `--reclaim` nothing reclaims or compacts, so a failure stays one: the object is absent from then on. With it, what fails in the end";
        FAILURES_REPORTED[ORDERS] = "failures_reported_orderK", "requests", Lower, Count, "of those, the ones that could have printed `page allocation failure`: no `__GFP_NOWARN`. A request that may reclaim waits before it fails, and up to order 3 without `__GFP_NORETRY` Linux goes on trying";
        FAILURES_NO_RECLAIM[ORDERS] = "failures_no_reclaim_orderK", "requests", Lower, Count, "of the failures, those of requests that may not reclaim (no `__GFP_DIRECT_RECLAIM`): they fail at once";
        FAILURES_OPTIONAL[ORDERS] = "failures_optional_orderK", "requests", Lower, Count, "of the failures, those of requests whose callers can do with something else (`__GFP_NORETRY`)";
        REQUESTS[ORDERS] = "requests_orderK", "requests", Neither, Count, "allocations of the trace; in the column of the recorded kernel (`linux`) with those that failed";
        REQUESTS_REPORTED[ORDERS] = "requests_reported_orderK", "requests", Neither, Count, "of those, the ones whose failure Linux prints. Requests whose flags no event showed are in `requests_orderK` only";
        REQUESTS_NO_RECLAIM[ORDERS] = "requests_no_reclaim_orderK", "requests", Neither, Count, "of the requests, those that may not reclaim";
        REQUESTS_OPTIONAL[ORDERS] = "requests_optional_orderK", "requests", Neither, Count, "of the requests, those whose callers can do with something else";
        FALSE_FAILURES = "false_failures", "requests", Lower, Count, "requests of any kind (allocations, retries, probes) that were not served while `S_K > 0`. Not 0 is a fault of the policy. Behind watermarks nothing is counted: marks, and lists that a request may not empty, are reasons. With `--reclaim` probes are not among them, and below the min watermark it is no fault";
        STALLED[ORDERS] = "stalled_orderK", "requests", Lower, Count, "requests that would have waited for memory: they may reclaim, and to serve them would have gone below the min watermark. The recording machine served them, so what they waited for is among the recording's frees; here the CPUs' lists are emptied for them, and where that is not enough they are served below the mark. Only behind watermarks (`--watermarks on`, or `auto` where the recording shows the rounds of kswapd), and absent where none waits";
        RECLAIM_WAITS[ORDERS] = "reclaim_waits_orderK", "requests", Lower, Count, "of the recording machine: requests that reclaimed before they were served or failed, each once, as the kernel's events show them. Only in the column of the recorded kernel (`linux`), and absent where none waited or the recording does not show it";
        RECLAIM_WAIT_MS[ORDERS] = "reclaim_wait_ms_orderK", "ms", Lower, Mean, "how long those reclaimed, all together";
        COMPACTION_WAITS[ORDERS] = "compaction_waits_orderK", "requests", Lower, Count, "the same as `reclaim_waits_orderK` of requests that compacted";
        COMPACTION_WAIT_MS[ORDERS] = "compaction_wait_ms_orderK", "ms", Lower, Mean, "how long those compacted, all together";
        RETRIED[ORDERS] = "retried_orderK", "requests", Neither, Count, "requests that failed on the recording machine: tried, and freed at once";
        RETRIES_SERVED[ORDERS] = "retries_served_orderK", "requests", Higher, Count, "of those, the served ones";
        RECALL[REQUEST_KINDS, ORDERS] = "recall_KIND_orderK", "1", Higher, Fixed(3), "calibration by request: of the requests of this kind that failed on the recording machine, the share that fails under these rules too, those that may wait even after the CPUs' lists are emptied for them. `no_reclaim`: no `__GFP_DIRECT_RECLAIM`; `may_reclaim`: with it; `optional`: `__GFP_NORETRY`, of either. Only from the recorded layout and without squeeze; absent where none failed on the machine";
        PRECISION[REQUEST_KINDS, ORDERS] = "precision_KIND_orderK", "1", Higher, Fixed(3), "of the requests of this kind that fail under these rules, the share that failed on the recording machine too; the others are in `failures_orderK`: the machine served them. Absent where none fails";
        RECALL_OF_ALL[REQUEST_KINDS] = "recall_KIND", "1", Higher, Fixed(3), "the same as `recall_KIND_orderK`, of all orders together";
        PRECISION_OF_ALL[REQUEST_KINDS] = "precision_KIND", "1", Higher, Fixed(3), "the same as `precision_KIND_orderK`, of all orders together";
        PROBES = "probes", "requests", Neither, Count, "`--probe ORDER`: at each sample one request, freed at once; unmovable below order 9 (the kernel asks for those orders: stacks, slabs, rings), movable from order 9 on (huge pages)";
        PROBES_SERVED = "probes_served", "requests", Higher, Count, "of those, the served ones";
        FALLBACKS[FALLBACK_PAIRS] = "fallbacks_FROM_TO", "requests", Neither, Count, "requests for mobility FROM that were served from a pageblock of label TO, as the policy counts them, during the trace without the start. Not comparable between policies that take pieces of different size";
    }
    "lists" {
        PAGEBLOCKS[LABELS] = "pageblocks_LABEL", "blocks", Neither, Mean, "pageblocks with this label, as the policy says";
        FREE_BLOCKS[ORDERS] = "free_blocks_orderK", "blocks", Neither, Mean, "`free_K`";
        LISTED_BLOCKS[LABELS, ORDERS] = "free_blocks_LABEL_orderK", "blocks", Neither, Mean, "free blocks on the policy's own lists";
    }
    "requests" {
        UNPLACED_FRAMES = "unplaced_frames", "frames", Neither, Count, "initial objects (start `fresh`) and squeezed frames that found no place";
        FREES_OF_FAILED = "anomalies_frees_of_failed", "operations", Neither, Count, "frees of objects whose allocation had failed in this replay: passed over";
        MOVED_FRAMES = "moved_frames", "frames", Neither, Count, "frames that were moved because compaction emptied their places on the recording machine at that time; absent where none moved";
    }
    "reclaim" {
        STALL[ORDERS] = "allocstall_orderK", "requests", Lower, Count, "stalls: times that a request reclaimed before it was served or failed, as the kernel counts them; 3.10 counts each of a request's rounds";
        COMPACT_STALL_BY_ORDER[ORDERS] = "compact_stall_orderK", "requests", Lower, Count, "attempts of requests to compact";
        COMPACT_DAEMON_WAKE = "compact_daemon_wake", "times", Neither, Count, "the background began to compact";
        COMPACT_FAIL = "compact_fail", "requests", Neither, Count, "attempts to compact after which there was no block";
        COMPACT_FREE_SCANNED = "compact_free_scanned", "looks", Neither, Count, "of the scanner for free frames, the background's included";
        COMPACT_ISOLATED = "compact_isolated", "frames", Neither, Count, "taken out of use by either scanner";
        COMPACT_MIGRATE_SCANNED = "compact_migrate_scanned", "looks", Neither, Count, "of the scanner for frames to move, the background's included";
        COMPACT_STALL = "compact_stall", "requests", Neither, Count, "attempts of requests to compact";
        COMPACT_SUCCESS = "compact_success", "requests", Neither, Count, "attempts to compact after which there was a block";
        KSWAPD_HIGH_WMARK_HIT_QUICKLY = "kswapd_high_wmark_hit_quickly", "times", Neither, Count, "the background found itself below high after its nap";
        KSWAPD_LOW_WMARK_HIT_QUICKLY = "kswapd_low_wmark_hit_quickly", "times", Neither, Count, "the background was woken in its nap";
        KSWAPD_WAKE = "kswapd_wake", "times", Neither, Count, "the background was woken";
        PGMIGRATE_FAIL = "pgmigrate_fail", "frames", Neither, Count, "contents not moved";
        PGMIGRATE_SUCCESS = "pgmigrate_success", "frames", Neither, Count, "contents moved";
        PGSCAN_DIRECT = "pgscan_direct", "frames", Neither, Count, "looked at by clients for requests";
        PGSCAN_KSWAPD = "pgscan_kswapd", "frames", Neither, Count, "looked at by clients for the background";
        PGSTEAL_DIRECT = "pgsteal_direct", "frames", Neither, Count, "given back for requests";
        PGSTEAL_KSWAPD = "pgsteal_kswapd", "frames", Neither, Count, "given back for the background";
        RECLAIMED_OBJECTS = "reclaimed_objects", "objects", Neither, Count, "that reclaim took";
        FREES_OF_RECLAIMED = "frees_of_reclaimed", "operations", Neither, Count, "frees of such objects, or of parts of them: passed over";
        HUGE_PROBES = "huge_probes", "requests", Neither, Count, "`--probe-huge N`: after the trace, requests of order 9 for movable memory, each held; they may compact, but no client gives frames back and no time passes for the background";
        HUGE_PROBES_SERVED = "huge_probes_served", "requests", Higher, Count, "of those, the served ones";
        HUGE_PROBES_MIGRATED = "huge_probes_migrated", "frames", Lower, Count, "moved for them";
        HUGE_PROBES_SCANNED = "huge_probes_scanned", "looks", Lower, Count, "of both scanners, for them";
    }
    "requests" {
        SAMPLES = "samples", "samples", Neither, Count, "samples in each mean";
        REPLAY_NS_PER_OP = "replay_ns_per_op", "ns", Lower, Mean, "`--time`: wall time of the operations, allocator, observer and samples together, divided by the operations of the trace; without the start, and without the time in which a policy lists its own free blocks. The only figure that differs from run to run";
    }
}
