//! What all text readers produce and the reduction takes: one event, free of any text's form.

use framewright::{Frame, Mobility, Order};

/// One line of a text trace, by the frame number that the recording kernel chose.
///
/// The readers produce events; the reduction (`trace::reduce`) turns events into a [`super::Trace`]
/// of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// Nanoseconds on the trace's own clock; a clock without a unit (`counter`, `x86-tsc`,
    /// `uptime`) counts one a tick. A marker of lost events without a time has that of the event
    /// before it.
    pub time_ns: u64,
    /// The CPU that recorded the event.
    pub cpu: u16,
    /// The task's number.
    pub pid: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What an [`TraceEvent`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// `mm_page_alloc`; no frame where the allocation failed.
    Alloc {
        /// The frame that the recording kernel chose.
        frame: Option<Frame>,
        /// The order asked for.
        order: Order,
        /// The mobility asked for.
        mobility: Mobility,
        /// The flags, numbered as Linux 6.18 numbers them: the text gives names, and only names
        /// keep their meaning from one kernel to the next. Bits that the text gives as a number
        /// stand as they are.
        gfp: u32,
    },
    /// `mm_page_free`.
    Free {
        /// The first frame of the block.
        frame: Frame,
        /// The block's order.
        order: Order,
    },
    /// `mm_page_free_batched`: repeats an `mm_page_free`, and is only counted.
    FreeBatched,
    /// `mm_page_alloc_extfrag`: a request served from another mobility's pageblock.
    Extfrag {
        /// The mobility asked for.
        wanted: Mobility,
        /// The mobility of the pageblock it was served from.
        taken: Mobility,
    },
    /// `mm_migrate_pages_start`: frees by this task from here on are moves.
    MigrateStart,
    /// `mm_migrate_pages`: the end of such a passage.
    MigrateEnd {
        /// Pages moved.
        succeeded: u64,
        /// Pages not moved.
        failed: u64,
    },
    /// `mm_compaction_try_to_compact_pages`: a request that compacts before it is served.
    DirectCompaction {
        /// The request's order.
        order: Order,
    },
    /// `mm_compaction_begin`: one run over one zone, for a request or in the background.
    CompactionBegin,
    /// `mm_compaction_end`.
    CompactionEnd,
    /// `mm_vmscan_direct_reclaim_begin`: a request that reclaims before it is served.
    DirectReclaim {
        /// The request's order.
        order: Order,
    },
    /// `mm_vmscan_direct_reclaim_end`.
    DirectReclaimEnd {
        /// Pages that it gave back.
        reclaimed: u64,
    },
    /// `mm_vmscan_kswapd_wake`: the background of a node begins to reclaim.
    BackgroundWakes {
        /// The node.
        node: u16,
        /// The order that it was woken for.
        order: Order,
    },
    /// `mm_vmscan_kswapd_sleep`: the background of a node has nothing left to do.
    BackgroundSleeps {
        /// The node.
        node: u16,
    },
    /// The ring buffer lost this many events here; 0 where the trace does not say how many.
    Lost(u64),
    /// A well-formed event of another kind, counted by its name and passed over.
    Other,
}
