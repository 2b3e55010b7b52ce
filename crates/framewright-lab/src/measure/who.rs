//! The table of metrics of those that ask for memory.

use super::metric::metrics;

metrics! {
    "who";
    "all" {
        REQUESTS = "who_requests", "requests", Neither, Count, "allocations that it asked for, those that failed included";
        FAILURES_REPORTED = "who_failures_reported", "requests", Lower, Count, "of those that failed, the ones that could have printed `page allocation failure`: on the recording machine, where memory is as recorded, and otherwise in the replay";
        BLOCKS_MADE_MIXED = "who_blocks_made_mixed", "times", Lower, Count, "times that what it was given made a 2 MiB block mixed: the first frame that cannot move beside movable ones, or the first movable one beside others";
        FALLBACKS = "who_fallbacks", "times", Lower, Count, "times that a request of it took memory from a pageblock of another mobility, as the policy itself counts; a refill of a CPU's list may do so several times. Only in the layout of a policy that says so: no recording keeps whose fallback each of the machine's was";
        FIXED_FRAMES_IN_MIXED = "who_fixed_frames_in_mixed", "frames", Lower, Count, "non-movable frames that it holds in mixed blocks at the end: these are in the way";
        MOVABLE_FRAMES_IN_MIXED = "who_movable_frames_in_mixed", "frames", Neither, Count, "movable frames that it holds in mixed blocks at the end";
    }
}
