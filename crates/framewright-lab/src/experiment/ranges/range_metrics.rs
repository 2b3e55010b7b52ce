//! The metrics of the experiments on virtual ranges, `vmap-blocks` and `va-fit`.

use crate::measure::metric::{Form, Metric, QUANTILES, metrics};

metrics! {
    "ranges";
    "times" {
        OP_NS_MIN = "op_ns_min", "ns", Lower, Time, "a repetition is a batch of `--loops` operations behind a tenth as many that warm up; its time divided by its operations; the least of `--repeat` of them. One thread: the thread's CPU time. Several: wall time, the mean of the threads";
        OP_NS_MEDIAN = "op_ns_median", "ns", Lower, Time, "the same, the middle repetition";
        OP_NS_MAX = "op_ns_max", "ns", Lower, Time, "the same, the longest repetition";
        TIME_VS_BEFORE = "time_vs_before", "1", Lower, Left, "the time of a repetition divided by that of `before` in the same turn; the middle one. `published`: the ratio of the middle runs of the document's i5-3320M";
        TIME_VS_BEFORE_MIN = "time_vs_before_min", "1", Lower, Left, "the same, the least; `published`: the least of the five runs side by side";
        TIME_VS_BEFORE_MAX = "time_vs_before_max", "1", Lower, Left, "the same, the most";
        TIME_VS_BEFORE_HIKEY = "time_vs_before_hikey960", "1", Lower, Left, "`published` only: the ratio of the middle runs of the document's HiKey960";
        TEST_US_I5 = "test_us_i5_3320m", "us", Lower, Time, "`published` only: the middle of the document's five runs of a whole test on its first machine; how many operations a test has it does not tell";
        TEST_US_HIKEY = "test_us_hikey960", "us", Lower, Time, "the same on its second machine";
        ALLOC_NS[QUANTILES] = "alloc_ns_QUANTILE", "ns", Lower, Time, "quantiles of the single calls in a pass of its own, wall time, less what two readings of the clock cost. A case that maps for a short time: `map_ram`";
        FREE_NS[QUANTILES] = "free_ns_QUANTILE", "ns", Lower, Time, "the same of the frees. A case that maps for a short time: `unmap_ram`";
    }
    "counts" {
        MAP_CALLS = "map.calls", "calls", Neither, Count, "`map_ram`";
    }
    "times" {
        MAP_NS_MEAN = "map.ns_mean", "ns", Lower, Time, "mean of the single calls of `map_ram` in the same way, of the repetition with the least mean";
    }
    "counts" {
        UNMAP_CALLS = "unmap.calls", "calls", Neither, Count, "`unmap_ram`";
    }
    "times" {
        UNMAP_NS_MEAN = "unmap.ns_mean", "ns", Lower, Time, "the same of `unmap_ram`";
        BLOCK_ALLOC_NS_MEAN = "block_alloc.ns_mean", "ns", Lower, Time, "in a run of its own: mean of the calls of `map_ram` that cut a block from the address space, whole calls. `published`: `alloc_vmap_area` alone";
        BLOCK_FREE_NS_MEAN = "block_free.ns_mean", "ns", Lower, Time, "the same of the calls of `unmap_ram` in which blocks were given back. `published`: `free_vmap_block` alone";
    }
    "counts" {
        OPS = "ops", "operations", Neither, Count, "those that the counts of its case are of, of all threads: `--loops` and a tenth as many that warm up; in `remote_free` all that was done, on one thread and on two. The preparation comes on top";
        AREA_ALLOCS = "area_allocs", "areas", Lower, Count, "areas, spans and vmap blocks cut from the address space (`alloc_vmap_area`)";
        BLOCK_FREES = "block_frees", "blocks", Neither, Count, "vmap blocks given back (`free_vmap_block`)";
        AREA_ALLOCS_LEAST = "area_allocs_least", "areas", Lower, Count, "`random`: `area_allocs` with each of the seeds from 1 to 40; the least";
        AREA_ALLOCS_MOST = "area_allocs_most", "areas", Lower, Count, "the same, the most";
        BLOCK_FREES_LEAST = "block_frees_least", "blocks", Neither, Count, "`random`: `block_frees` with each of the seeds from 1 to 40; the least";
        BLOCK_FREES_MIDDLE = "block_frees_middle", "blocks", Neither, Count, "the same, the middle one";
        BLOCK_FREES_MOST = "block_frees_most", "blocks", Neither, Count, "the same, the most";
        BLOCKS_HELD = "blocks_held", "blocks", Lower, Count, "vmap blocks that were cut and not given back when the scenario ended; no mapping is live then";
        BLOCK_BYTES = "block_bytes", "bytes", Lower, Count, "what describes them: in `before` and `proposed` 304 bytes a block, a `vmap_block` and a `vmap_area` of Linux 6.12 on x86-64; in `framewright` all metadata of a block's address space, with its table of pages";
        VA_SPAN_BYTES = "va_span_bytes", "bytes", Lower, Mib, "from the lowest byte ever handed out to the highest";
        LAZY_PAGES_PEAK = "lazy_pages_peak", "pages", Lower, Count, "the most pages, guard pages included, that were freed and not yet reusable. With one thread exact";
        LAZY_PAGES_BOUND = "lazy_pages_bound", "pages", Neither, Count, "what is allowed: 8,192 for each binary digit of the number of CPUs (2 in `va-fit`, 1 in `vmap-blocks`; a 32-bit case has an eighth of its window). In `before` and `proposed` a threshold; in the engine a bound, at most an eighth of the window";
        LAZY_PAGES_MOST = "lazy_pages_most", "pages", Neither, Count, "what `lazy_pages_peak` is never above: `lazy_pages_bound` and one batch for each CPU. Not in `before` and `proposed`, where nothing bounds it";
        TLB_FLUSHES = "tlb_flushes", "flushes", Lower, Count, "of the whole TLB";
        FITS_FULL = "fits_full", "areas", Neither, Count, "pieces that filled their gap, the preparation included; not with spans, which cut most areas from no gap";
        FITS_LEFT_EDGE = "fits_left_edge", "areas", Neither, Count, "pieces cut from their gap's left edge";
        FITS_RIGHT_EDGE = "fits_right_edge", "areas", Neither, Count, "pieces cut from their gap's right edge";
        FITS_NO_EDGE = "fits_no_edge", "areas", Neither, Count, "pieces cut from the middle of their gap";
        AREAS_WALKED = "areas_walked", "areas", Lower, Count, "`before`: busy areas that allocations walked past; `proposed`: free areas that were too short";
        FAILED = "failed", "requests", Neither, Count, "`align_shift`: alignments that the window does not have";
    }
    "times" {
        OPS_PER_SECOND = "ops_per_second", "operations/s", Higher, Time, "of all threads together, from the moment all begin until the first is done; the best repetition";
        SPEEDUP = "speedup", "1", Higher, Fixed(2), "`ops_per_second` divided by that of the first thread alone, with the same seats, by turns";
        SPEEDUP_CPU = "speedup_cpu", "1", Higher, Fixed(2), "threads times the least CPU time of an operation of the first thread alone, divided by the least of all: the speedup if each thread had a CPU to itself. Sleeping for a lock is not in it; on a machine that others use, `speedup` is lower";
        LOAD_AVERAGE = "load_average", "1", Neither, Fixed(2), "the machine's load average of the last minute when the case ended, this process included";
        FOREIGN_LOAD = "foreign_load", "CPUs", Neither, Fixed(2), "CPUs that other processes and the hypervisor had while the case ran, on average; above 0.50 the case's times are marked with `*`";
        STOLEN_CPUS = "stolen_cpus", "CPUs", Neither, Fixed(2), "those of them that the hypervisor took";
        QUEUE_NS = "queue_ns", "ns", Neither, Time, "`remote_free`: handing one area over, without an allocator";
        REMOTE_VS_LOCAL = "remote_vs_local", "1", Lower, Fixed(2), "`remote_free`: time of an allocation and a free on two threads, without the queue, divided by that on one, both in batches of 64";
    }
    "counts" {
        REQUESTS = "requests", "requests", Neither, Count, "`aligned_holes`: requests made";
        SERVED = "served", "requests", Higher, Count, "of those, the served ones";
        LIVE_MAPPINGS = "live_mappings", "mappings", Higher, Count, "`pinned_blocks`: live mappings of one page when a window of 128 MiB takes no more; 63 of 64 are unmapped at once. The variants are those of `vmap-blocks`";
        OCCUPANCY = "occupancy", "1", Higher, Percent(1), "live pages, guard pages included, divided by the window's when a request first fails; the mean of 16 runs";
        OCCUPANCY_WORST = "occupancy_worst", "1", Higher, Percent(1), "the same in the worst of them";
    }
    "times" {
        OP_NS_FEW_LIVE = "op_ns_live_1000", "ns", Lower, Time, "`op_ns_min` of `long_busy_list` with 1,000 areas live";
        OP_NS_MANY_LIVE = "op_ns_live_1000000", "ns", Lower, Time, "the same with 1,000,000";
        COST_GROWTH = "cost_growth", "1", Lower, Fixed(2), "the second divided by the first";
    }
    "counts" {
        LAZY_AREAS = "lazy_areas", "areas", Neither, Count, "`backlog`: pending when the bound is reached";
    }
    "times" {
        FREE_NS_WORST = "free_ns_worst", "ns", Lower, Time, "`backlog`: of each of 5,000 frees the least time in several runs; the longest of them. What is left is the allocator's own";
        FREE_NS_WORST_MEDIAN = "free_ns_worst_median", "ns", Lower, Time, "`backlog`: the longest of the 5,000 frees in each run; the middle run. What disturbs the CPU is in it";
        FREE_NS_WORST_MAX = "free_ns_worst_max", "ns", Lower, Time, "the same, the run in which it was longest";
        PURGE_NS = "purge_ns", "ns", Lower, Time, "`backlog`: the least time of one purge of everything";
    }
    "counts" {
        MERGES_PER_HOLD_MAX = "merges_per_hold_max", "areas", Lower, Count, "the most areas given back under one hold of the arena's lock";
    }
    "times" {
        LOCK_HOLD_NS = "lock_hold_ns", "ns", Lower, Time, "`backlog`: `merges_per_hold_max * purge_ns / lazy_areas`: what so many areas take in a purge, which does more with each than hold the lock. 0 where the pending areas are in spans, which are not given back";
    }
    "counts" {
        METADATA_SHARE = "metadata_share", "1", Lower, Percent(2), "the space's metadata divided by the bytes that are live at that moment";
    }
}

/// Whether it comes from the clock, and so differs from run to run. Its form tells: of this table only counts, bytes
/// and percentages come from counters.
#[must_use]
pub const fn is_timed(metric: Metric) -> bool {
    !matches!(
        metric.row().form,
        Form::Count | Form::Mib | Form::Percent(_)
    )
}
