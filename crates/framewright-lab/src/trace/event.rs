use framewright::{Frame, Mobility, Order};

/// One line of a text trace, by the frame number that the recording kernel chose.
///
/// The readers produce events; the reduction (`trace::reduce`) turns events into a [`super::Trace`]
/// of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds on the trace's own clock.
    pub time_ns: u64,
    /// The CPU that recorded the event.
    pub cpu: u16,
    /// The task's number.
    pub pid: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What an [`Event`] says.
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
        /// The flags as the trace's kernel numbers them, or 0 where only names were given and
        /// none of them is known.
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
    /// `mm_compaction_begin`, as `try_to_compact_pages` and the background see it.
    CompactionBegin,
    /// `mm_compaction_end`.
    CompactionEnd,
    /// `mm_vmscan_direct_reclaim_begin`.
    DirectReclaim,
    /// The ring buffer lost this many events here.
    Lost(u64),
    /// A well-formed event of another kind, counted and passed over.
    Other,
}
