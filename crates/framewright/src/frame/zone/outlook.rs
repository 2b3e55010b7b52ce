//! What reclaim looks at in a zone, so often that it must be cheap. Each figure is as of one
//! moment, but not all of the same one.

use super::Zone;
use crate::policy::End;
use crate::units::Mobility;

impl<P> Zone<'_, P> {
    /// Free frames in pageblocks that requests of `mobility` may have; cached ones do not count.
    /// Time: O(CPUs).
    pub(crate) fn free_frames_for(&self, mobility: Mobility) -> u64 {
        let facts = self.zone_facts();
        if mobility.is_movable() {
            facts.free
        } else {
            facts.free.saturating_sub(facts.free_lent)
        }
    }

    /// Entirely free pageblocks that every request may have, counted up to `max`. Time: O(max).
    pub(crate) fn free_pageblocks_up_to(&self, max: u64) -> u64 {
        let mut count = 0;
        let mut seen = [None; Mobility::ALL.len()];
        for mobility in Mobility::ALL {
            let row = self.whole_row(mobility);
            // By composition they are all of one class, whatever their label.
            if seen.contains(&Some(row)) {
                continue;
            }
            seen[mobility.index()] = Some(row);
            let mut at = None;
            while count < max {
                at = self.index.peek(row, End::Lowest, at);
                if at.is_none() {
                    break;
                }
                count += 1;
            }
        }
        count
    }

    /// Fallbacks so far that put unmovable contents into a pageblock whose contents could all move.
    /// Time: O(CPUs).
    pub(crate) fn polluting_fallbacks(&self) -> u64 {
        self.all_seats()
            .map(|seat| seat.counters().polluted.read())
            .sum()
    }

    /// How many CPUs have a seat.
    pub(crate) const fn cpus(&self) -> u16 {
        self.map.cpus
    }
}
