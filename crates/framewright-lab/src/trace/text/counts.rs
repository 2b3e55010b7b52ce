//! What became of each line of a text. A reader passes over what it does not know, and this is how its user learns
//! of that.

use crate::printable;
use std::collections::BTreeMap;

/// The number of different names of passed-over events that are kept; beyond it they are counted
/// together, so that a trace of everything the kernel does needs no more memory.
const NAMES_MAX: usize = 256;

/// The name under which further passed-over events are counted.
const MANY: &str = "(further names)";

/// What a text was made of. Every line is counted exactly once in one of the groups, so that
/// nothing disappears unseen: `lines` is the sum of blank lines, comments, continuations, lost
/// markers, cut lines, refused lines and events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextCounts {
    /// Lines read.
    pub lines: u64,
    /// Empty lines.
    pub blank: u64,
    /// Headers and comments.
    pub comments: u64,
    /// Lines that belong to the event above: call chains and stacks.
    pub continuations: u64,
    /// `mm_page_alloc` with a page.
    pub allocs: u64,
    /// `mm_page_alloc` without one.
    pub allocs_failed: u64,
    /// `mm_page_free`.
    pub frees: u64,
    /// `mm_page_free_batched`, each a repetition of an `mm_page_free`.
    pub frees_batched: u64,
    /// `mm_page_alloc_extfrag` between two of the three mobilities.
    pub extfrags: u64,
    /// `mm_page_alloc_extfrag` from or to another migratetype: contiguous areas, reserves.
    pub extfrags_elsewhere: u64,
    /// `mm_migrate_pages_start`.
    pub migrate_starts: u64,
    /// `mm_migrate_pages`.
    pub migrate_ends: u64,
    /// `mm_compaction_try_to_compact_pages`.
    pub direct_compactions: u64,
    /// `mm_compaction_begin`.
    pub compaction_begins: u64,
    /// `mm_compaction_end`.
    pub compaction_ends: u64,
    /// `mm_vmscan_direct_reclaim_begin`.
    pub direct_reclaims: u64,
    /// `mm_vmscan_direct_reclaim_end`.
    pub direct_reclaim_ends: u64,
    /// `mm_vmscan_kswapd_wake`.
    pub background_wakes: u64,
    /// `mm_vmscan_kswapd_sleep`.
    pub background_sleeps: u64,
    /// Events of other kinds, by name.
    pub others: BTreeMap<String, u64>,

    /// Lines that say that the ring buffer lost events here.
    pub lost_lines: u64,
    /// Events that those lines say were lost, where they say how many.
    pub lost_events: u64,
    /// Of `lost_lines`, those that do not say how many.
    pub lost_unknown: u64,
    /// Events that were written and then overwritten before the trace was read, from the header.
    pub overwritten_events: u64,
    /// A last line without its end that is no whole event: 0 or 1.
    pub cut_last_line: u64,
    /// Lines that were refused with an error.
    pub refused_lines: u64,
    /// Flag names that are not known; the flags beside them still count.
    pub unknown_flag_names: u64,
    /// Migratetypes 1 and 2 that were read with the numbers of Linux 4.4 and later before any
    /// line had shown which numbers the kernel uses.
    pub migratetypes_assumed: u64,
    /// Allocations whose migratetype is not the one their flags ask for; the migratetype counts.
    pub migratetypes_unlike_flags: u64,
    /// Allocations with a migratetype that is none of the three mobilities; the flags count.
    pub migratetypes_elsewhere: u64,
    /// Events whose time is a number without a unit.
    pub times_without_unit: u64,

    /// The order of the machine's pageblocks, as its last `mm_page_alloc_extfrag` has it.
    pub pageblock_order: Option<u64>,
}

impl TextCounts {
    /// Events of every kind.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.allocs
            + self.allocs_failed
            + self.frees
            + self.frees_batched
            + self.extfrags
            + self.extfrags_elsewhere
            + self.migrate_starts
            + self.migrate_ends
            + self.direct_compactions
            + self.compaction_begins
            + self.compaction_ends
            + self.direct_reclaims
            + self.direct_reclaim_ends
            + self.background_wakes
            + self.background_sleeps
            + self.others.values().sum::<u64>()
    }

    /// What the trace cannot mean, does not hold, or was read with an assumption: each kind with
    /// its number, in a fixed order, without the zeros. Kinds are fit for `anomalies_KIND`.
    ///
    /// Lost events whose number is known are not among them: they are events
    /// ([`EventKind::Lost`](super::super::EventKind::Lost)), and the reduction counts those.
    #[must_use]
    pub fn anomalies(&self) -> Vec<(&'static str, u64)> {
        [
            ("lost_unknown", self.lost_unknown),
            ("overwritten_events", self.overwritten_events),
            ("cut_last_line", self.cut_last_line),
            ("refused_lines", self.refused_lines),
            ("unknown_flag_names", self.unknown_flag_names),
            ("migratetypes_assumed", self.migratetypes_assumed),
            ("migratetypes_unlike_flags", self.migratetypes_unlike_flags),
            ("migratetypes_elsewhere", self.migratetypes_elsewhere),
            ("extfrags_elsewhere", self.extfrags_elsewhere),
            ("times_without_unit", self.times_without_unit),
        ]
        .into_iter()
        .filter(|&(_, n)| n > 0)
        .collect()
    }

    /// Counts an event of another kind. Allocates only for a name that is new.
    pub(super) fn other(&mut self, name: &[u8]) {
        let name = printable::bytes(&name[..name.len().min(64)]);
        if let Some(n) = self.others.get_mut(&name) {
            *n += 1;
        } else if self.others.len() < NAMES_MAX {
            self.others.insert(name, 1);
        } else {
            *self.others.entry(MANY.to_owned()).or_insert(0) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_names_than_are_kept_are_counted_together() {
        let mut counts = TextCounts::default();
        for i in 0..1000 {
            counts.other(format!("event_{i}").as_bytes());
        }
        counts.other(b"event_0");
        assert_eq!(counts.others.len(), NAMES_MAX + 1);
        assert_eq!(counts.others["event_0"], 2);
        assert_eq!(counts.others[MANY], 1000 - NAMES_MAX as u64);
        assert_eq!(counts.events(), 1001);
    }

    #[test]
    fn p7_a_name_from_the_trace_is_kept_printable() {
        let mut counts = TextCounts::default();
        counts.other(b"\x1b[2Ja\xe2\x80\xaeb\xff");
        let names: Vec<&String> = counts.others.keys().collect();
        assert_eq!(names, ["\\u{1b}[2Ja\\u{202e}b\\xff"]);
    }
}
