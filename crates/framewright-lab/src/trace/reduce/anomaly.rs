//! What the reduction met and what it had to leave out, by kind. Nothing is dropped without a count here (TR3).

use framewright::Mobility;
use std::fmt;

/// Every event that the reduction was given, by kind: the sum of all is the number of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Allocations that succeeded.
    pub allocs: u64,
    /// Allocations that failed.
    pub failed_allocs: u64,
    /// Frees.
    pub frees: u64,
    /// Repetitions of a free: counted here and nowhere else.
    pub frees_batched: u64,
    /// Requests served from another mobility's pageblock: `[wanted][taken from]`.
    pub extfrag: [[u64; 3]; 3],
    /// Beginnings of a passage that migrates.
    pub migrate_starts: u64,
    /// Ends of such a passage.
    pub migrate_ends: u64,
    /// Beginnings of a compaction.
    pub compaction_begins: u64,
    /// Ends of a compaction.
    pub compaction_ends: u64,
    /// Beginnings of a direct reclaim.
    pub direct_reclaims: u64,
    /// Direct compactions.
    pub direct_compactions: u64,
    /// Ends of a direct reclaim.
    pub direct_reclaim_ends: u64,
    /// The background began to reclaim.
    pub background_wakes: u64,
    /// The background went to sleep.
    pub background_sleeps: u64,
    /// Reports of lost events: see [`Anomalies::lost_events`] for how many they were.
    pub loss_reports: u64,
    /// Events of other kinds.
    pub others: u64,
}

impl EventCounts {
    /// How many events there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.allocs
            + self.failed_allocs
            + self.frees
            + self.frees_batched
            + self.extfrag.iter().flatten().sum::<u64>()
            + self.migrate_starts
            + self.migrate_ends
            + self.compaction_begins
            + self.compaction_ends
            + self.direct_reclaims
            + self.direct_compactions
            + self.direct_reclaim_ends
            + self.background_wakes
            + self.background_sleeps
            + self.loss_reports
            + self.others
    }
}

impl fmt::Display for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "events {}: alloc {} failed_alloc {} free {} free_batched {} extfrag {} migrate_start {} migrate_end {} compaction_begin {} compaction_end {} direct_reclaim {} direct_compaction {} direct_reclaim_end {} background_wake {} background_sleep {} loss_reports {} other {}",
            self.total(),
            self.allocs,
            self.failed_allocs,
            self.frees,
            self.frees_batched,
            self.extfrag.iter().flatten().sum::<u64>(),
            self.migrate_starts,
            self.migrate_ends,
            self.compaction_begins,
            self.compaction_ends,
            self.direct_reclaims,
            self.direct_compactions,
            self.direct_reclaim_ends,
            self.background_wakes,
            self.background_sleeps,
            self.loss_reports,
            self.others,
        )?;
        write!(f, "extfrag wanted->taken:")?;
        if self.extfrag == [[0; 3]; 3] {
            write!(f, " none")?;
        }
        for wanted in Mobility::ALL {
            for taken in Mobility::ALL {
                let count = self.extfrag[wanted.index()][taken.index()];
                if count != 0 {
                    write!(f, " {wanted}->{taken} {count}")?;
                }
            }
        }
        Ok(())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// What the events could not mean as they stand, by kind. Nothing is dropped silently:
        /// each departure of the [`Trace`](super::super::Trace) from the events is counted here.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Anomalies {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Anomalies {
            /// Each kind's name and count, in a fixed order.
            #[must_use]
            pub fn kinds(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

kinds! {
    /// Events that the ring buffer lost, as the trace itself reports them.
    lost_events,
    /// Frees of a block whose allocation no event shows, though its frames were known to be free:
    /// the kernel's bulk allocator has no event. Each gets a synthetic unmovable allocation half-way
    /// between the last free of its frames and this one.
    frees_of_unknown,
    /// Frames freed that no event and no snapshot had named before: they were allocated before
    /// the trace, and become initial objects, counted as movable.
    initial_inferred,
    /// Frames that the first snapshot calls allocated and whose first event is an allocation:
    /// they lay in a per-CPU list, and count as free at the start.
    percpu_at_start,
    /// Frames that the first snapshot calls allocated and the last one free, with no event in
    /// between: they lay in a per-CPU list, or the kernel took them into its care late, and count
    /// as free at the start.
    free_unseen,
    /// Objects whose frames were allocated again without a free: the free was missed, and is
    /// put in directly before.
    missed_frees,
    /// Frees of frames that compaction had isolated and did not use: left out.
    isolated_unused,
    /// Frees inside `migrate_pages()` by the migrating task: the object moved and lives on.
    moves,
    /// Frees of a frame whose allocation no event shows, matched to an object that had moved.
    moves_matched,
    /// Objects that moved and whose later free was not found: they live on to the end.
    moves_unmatched,
    /// Frees that cover several objects; each object is freed on its own.
    frees_spanning,
    /// Allocations and frees whose first frame cannot start a block of their order: left out.
    misaligned,
    /// Allocations and frees of an order above 10: left out.
    order_too_large,
    /// Allocations and frees of frames that the snapshot does not have: left out.
    outside_snapshot,
    /// Events whose time is before that of the event above: taken in the order of the trace.
    time_backwards,
    /// Ends of a migration, compaction or direct reclaim by a task that had none open.
    ends_unpaired,
}

impl Anomalies {
    /// Whether nothing at all was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds().iter().all(|&(_, count)| count == 0)
    }
}

impl fmt::Display for Anomalies {
    /// The kinds that occurred, as `kind count`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, count) in self.kinds() {
            if count != 0 {
                write!(f, "{}{name} {count}", if first { "" } else { " " })?;
                first = false;
            }
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}
