//! A zone while all CPUs stand still: drains, labels, and the note of a request that failed.

use super::super::pageblock::HeldBlock;
use super::{Zone, kind};
use crate::platform::FramePlatform;
use crate::policy::Label;
use crate::seats::{self, SeatSet};
use crate::sync::Ordering::Relaxed;
use crate::units::{Mobility, Order};

const fn is_restricted(label: Label, isolated: bool) -> bool {
    isolated || !matches!(label, Label::Of(_))
}

/// All CPUs stand still, until this is dropped: no seat is busy, no pageblock is locked, no
/// block is remote.
pub(in super::super) type StoppedZone<'z, 'm, P> = seats::Stopped<'z, 'm, Zone<'m, P>>;

impl<P: FramePlatform> StoppedZone<'_, '_, P> {
    /// Gives all cached blocks back to their pageblocks. Time: O(CPUs), each with at most 372 blocks
    /// and 24 words of its caches.
    pub(in super::super) fn drain(&self) {
        for seat in self.set.all_seats() {
            seat.drain(self.set);
        }
        self.set.stop_words().memo.stand_still();
    }

    /// Notes that after draining there was no block for that request.
    pub(in super::super) fn note_in_vain(&self, order: Order, mobility: Mobility) {
        let happened = self.set.happened();
        // Where there is none, there is no larger one; but single frames are not taken from the
        // high-order reserve, from which larger blocks of what does not move are.
        let largest = if order == Order::ZERO && !mobility.is_movable() {
            order
        } else {
            self.set.max_order()
        };
        for order in (order.get()..=largest.get()).filter_map(Order::new) {
            self.set
                .stop_words()
                .memo
                .note(kind(order, mobility), happened);
        }
    }

    /// Records that blocks may have become available.
    pub(super) fn count_change(&self) {
        let changes = &self.set.words.changes;
        changes.store(changes.load(Relaxed) + 1, Relaxed);
    }

    /// Changes the label of a pageblock, or its isolation.
    pub(super) fn relabel(&self, id: usize, label: Label, isolated: bool) {
        let meta = self.set.meta(id);
        let was_restricted = is_restricted(meta.label(), meta.is_isolated());
        let had = self.set.words.restricted.load(Relaxed);
        let restricted =
            had + u64::from(is_restricted(label, isolated)) - u64::from(was_restricted);
        self.set.words.restricted.store(restricted, Relaxed);
        // A seat knows only whether there are any: it is not told again for each pageblock.
        if (had != 0) != (restricted != 0) {
            for seat in self.set.all_seats() {
                seat.set_restricted(restricted != 0);
            }
        }
        self.count_change();
        let held = self.hold(id);
        held.unlock_as(label, isolated);
    }

    /// Holds a pageblock, which no other CPU can while all stand still.
    pub(in super::super) fn hold(&self, id: usize) -> HeldBlock<'_, '_, P> {
        self.set
            .try_lock(self.set.unseated_counters(), id)
            .expect("no pageblock is locked while all CPUs stand still")
    }
}
