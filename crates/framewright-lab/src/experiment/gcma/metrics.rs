//! The metrics of `gcma`.

use crate::measure::metric::{Axis, metrics};

/// Which of a size's requests; the document has the first three.
const OF_REQUESTS: Axis = Axis {
    word: "WHICH",
    names: &["min", "max", "avg", "p50", "p99"],
    first: 0,
};

/// Which of a size's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The shortest.
    Min,
    /// The longest.
    Max,
    /// The mean of all.
    Avg,
    /// The middle one.
    P50,
    /// The one that 99 % are not longer than.
    P99,
}

impl Of {
    /// All of them, in the order of the axis.
    pub const ALL: [Self; 5] = [Self::Min, Self::Max, Self::Avg, Self::P50, Self::P99];
}

metrics! {
    "gcma";
    "all" {
        LATENCY_US[OF_REQUESTS] = "latency_us_WHICH", "us", Lower, ShortTime, "latency of the size's requests: the least, the largest, the mean, and by nearest rank the ones that 50 and 99 of a hundred are not longer than";
        REQUESTS = "requests", "requests", Neither, Count, "requests of that size";
        FAILURES = "failures", "requests", Lower, Count, "of those, the ones that got nothing";
        PREEMPTED = "preempted", "requests", Neither, Count, "of those, the ones during which the scheduler took the CPU from the caller (`ru_nivcsw`): the rest of such a latency is another thread's time slice";
        PAGES_MIGRATED = "pages_migrated", "pages", Lower, Count, "contents that were moved for them";
        PAGES_DISCARDED = "pages_discarded", "pages", Lower, Count, "guests' pages that were dropped for them";
        WAIT_US = "wait_us", "us", Lower, ShortTime, "time in which requests waited, summed over the size's requests: gcma and framewright until a guest had finished a copy; cma until pages that were being read or written could move; cma and framewright until reclaim, which is work of its own, had made room for pages that move or are put back";
        USER_S = "user_s", "s", Lower, Fixed(3), "CPU time of the build's threads in user mode (`ru_utime` of each): the threads that page in, that reclaim in the background and that make the requests are not in it";
        SYSTEM_S = "system_s", "s", Lower, Fixed(3), "the same in the kernel (`ru_stime`)";
        ELAPSED_S = "elapsed_s", "s", Lower, Fixed(3), "from the build's begin until its last thread is done";
        ELAPSED_VS_ORIGINAL = "elapsed_vs_original", "1", Lower, Fixed(3), "the same over that of `original` in the same invocation";
        CPU_PERCENT = "cpu_percent", "%", Neither, Time, "(`user_s` + `system_s`) / `elapsed_s`, the mean over builds";
        LOAD_AVERAGE = "load_average", "threads", Neither, Time, "the machine's load average of the last minute, at the end of the build, this process included";
        FOREIGN_LOAD = "foreign_load", "CPUs", Neither, Time, "CPUs that other processes and the hypervisor had on average while it was built: above 0.5 compare columns of one invocation, and times not at all";
        DEVICE_BYTES_WRITTEN = "device_bytes_written", "bytes", Lower, Mib, "written to the swap device and to files meanwhile; compressed memory is no device";
        SWAP_PAGES_STORED = "swap_pages_stored", "pages", Neither, Count, "versions of pages of paged memory that were swapped out: each is a content that a page did not have before";
        SWAP_PAGES_WRITTEN = "swap_pages_written", "pages", Lower, Count, "of these, written to the swap device, at once or by a cleaner";
        PAGES_WRITTEN_TWICE = "pages_written_twice", "pages", Lower, Count, "written to the swap device, as the device counts them, beyond one for each version that was stored and neither got back unwritten nor still to be written; for `gcma.zram` as frontswap counts both, since bytes of compressed pages are no pages";
        HIT_RATIO = "hit_ratio", "1", Higher, Percent(1), "of the pages that guests looked for in the area (cleancache and frontswap together), those that were there";
    }
}
