//! Which pageblock compaction empties for a request, and when it leaves off.

use super::evacuation::{COPY, evacuation_cost};
use super::{BlockFacts, Label};
use crate::units::{Mobility, Order};

/// What it costs to make a free block of `order` for contents of `mobility` in a pageblock of
/// `pageblock_order` by moving its contents; `None` if that cannot be done, or there are no
/// contents to move. `pinned` is the number of pins in it.
///
/// For a larger order, it is the pageblock's part of the cost, which is the cost of emptying it.
/// For a smaller order, only the cheapest block of that order is emptied, and counts can only give
/// an estimate of it: as many copies as movable frames lie in an average block, and, because a
/// block with a non-movable frame does not count, one more copy for each non-movable frame in an
/// average block.
///
/// Unmovable contents go where such contents are. To contaminate another pageblock for a small
/// block costs as much as copying all of it, so a contaminated pageblock is emptied first. A whole
/// pageblock in a contiguous area costs as much more: when it is free, unmovable requests cannot
/// use it.
#[inline]
#[must_use]
pub(crate) fn compaction_cost(
    facts: &BlockFacts,
    pinned: u32,
    pageblock_order: Order,
    order: Order,
    mobility: Mobility,
) -> Option<u32> {
    let is_lent = facts.label == Label::Contiguous;
    let may = match facts.label {
        Label::Of(_) => true,
        Label::Contiguous => mobility.is_movable(),
        Label::HighOrder => false,
    };
    if !may || pinned > 0 {
        return None;
    }
    let (movable, nonmovable) = (facts.movable(), facts.nonmovable());
    let all = COPY << pageblock_order.get();
    if order >= pageblock_order {
        // One of several pageblocks may be free already.
        let is_worth_it = movable > 0 || order > pageblock_order;
        if facts.absent > 0 || nonmovable > 0 || !is_worth_it {
            return None;
        }
        let surcharge = if is_lent { all } else { 0 };
        return evacuation_cost(facts, pinned).map(|cost| cost + surcharge);
    }
    let usable = facts.free + movable;
    if movable == 0 || u64::from(usable) < order.frames() {
        return None;
    }
    // At most 16 * 1024 * 512: of orders below a pageblock's.
    let copies = ((COPY * movable) << order.get()) / usable;
    let in_the_way = ((COPY * nonmovable) << order.get()) >> pageblock_order.get();
    let contaminates = !mobility.is_movable() && nonmovable == 0;
    let contamination = if contaminates { all } else { 0 };
    Some(copies + in_the_way + contamination)
}

/// Whether unmovable contents have settled in a pageblock: an eighth of it or more.
///
/// It will hardly ever be one free block again, so unmovable contents belong there, and movable
/// ones have better places.
#[inline]
#[must_use]
pub(crate) const fn is_settled(facts: &BlockFacts, pageblock_order: Order) -> bool {
    facts.nonmovable() as u64 * 8 >= pageblock_order.frames()
}

/// Whether compaction may move contents into a pageblock: it has movable contents already, and
/// where labels decide, it is for them.
#[inline]
#[must_use]
pub(crate) const fn takes_contents(facts: &BlockFacts, labelled: bool) -> bool {
    let may = match facts.label {
        Label::Of(label) => !labelled || label.is_movable(),
        Label::Contiguous => true,
        Label::HighOrder => false,
    };
    may && facts.movable() > 0
}

/// How long compaction leaves off: for 2^shift requests after `shift` failed attempts, up to a
/// limit (`defer_compaction`). The value fits a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Deferral {
    /// Requests since the last failed attempt.
    considered: u32,
    /// Failed attempts, up to the limit.
    shift: u8,
    /// The smallest order that an attempt failed for; smaller ones are not deferred.
    failed: u8,
}

impl Deferral {
    /// The deferral that `word` encodes.
    #[must_use]
    pub(crate) const fn from_word(word: u64) -> Self {
        Self {
            considered: word as u32,
            shift: (word >> 32) as u8,
            failed: (word >> 40) as u8,
        }
    }

    /// The word that encodes it. Zero is no deferral.
    #[must_use]
    pub(crate) const fn to_word(self) -> u64 {
        self.considered as u64 | (self.shift as u64) << 32 | (self.failed as u64) << 40
    }

    /// Counts a request of `order`. Returns whether it is to leave off.
    #[must_use]
    pub(crate) const fn defers(&mut self, order: Order) -> bool {
        if order.get() < self.failed {
            return false;
        }
        let limit = 1 << self.shift;
        if self.considered + 1 >= limit {
            self.considered = limit;
            return false;
        }
        self.considered += 1;
        true
    }

    /// Whether compaction begins again after it has left off for the longest time: then the places
    /// that it passed over deserve another look (`compaction_restarting`).
    #[must_use]
    pub(crate) const fn restarts(&self, order: Order, shift_max: u8) -> bool {
        order.get() >= self.failed && self.shift >= shift_max && self.considered >= 1 << self.shift
    }

    /// Records that an attempt for `order` failed.
    pub(crate) const fn failed(&mut self, order: Order, shift_max: u8) {
        self.considered = 0;
        if self.shift < shift_max {
            self.shift += 1;
        }
        if order.get() < self.failed || self.shift == 1 {
            self.failed = order.get();
        }
    }

    /// Records that there was a block of `order`.
    pub(crate) const fn succeeded(&mut self, order: Order) {
        self.considered = 0;
        self.shift = 0;
        if order.get() >= self.failed {
            self.failed = order.get() + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVABLE: Label = Label::Of(Mobility::Movable);

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    fn facts(label: Label, [unmovable, movable, reclaimable]: [u32; 3]) -> BlockFacts {
        BlockFacts {
            label,
            free: 512 - unmovable - movable - reclaimable,
            by_mobility: [unmovable, movable, reclaimable],
            absent: 0,
        }
    }

    fn cost(facts: &BlockFacts, size: u8, mobility: Mobility) -> Option<u32> {
        compaction_cost(facts, 0, order(9), order(size), mobility)
    }

    #[test]
    fn an_eighth_that_cannot_move_has_settled_and_its_share_says_so() {
        let classes = crate::policy::Classes::new(order(9));
        for nonmovable in [0, 1, 63, 64, 65, 512] {
            let half = nonmovable / 2;
            let facts = facts(MOVABLE, [half, 0, nonmovable - half]);
            assert_eq!(is_settled(&facts, order(9)), nonmovable >= 64);
            let share = classes.share(nonmovable);
            assert_eq!(share >= crate::policy::SHARE_SETTLED, nonmovable >= 64);
        }
    }

    #[test]
    fn a_whole_pageblock_costs_its_movable_frames_and_one_that_cannot_move_forbids_it() {
        let of = |by_mobility| cost(&facts(MOVABLE, by_mobility), 9, Mobility::Movable);
        assert_eq!(of([0, 100, 0]), Some(1600));
        assert_eq!(of([1, 100, 0]), None);
        assert_eq!(of([0, 100, 1]), None);
        assert_eq!(of([0, 0, 0]), None, "nothing is to be moved");
        let part_of_larger = cost(&facts(MOVABLE, [0, 0, 0]), 10, Mobility::Movable);
        assert_eq!(part_of_larger, Some(0));
        let mut holes = facts(MOVABLE, [0, 100, 0]);
        holes.free -= 1;
        holes.absent += 1;
        assert_eq!(cost(&holes, 9, Mobility::Movable), None);
    }

    #[test]
    fn r6_what_is_pinned_costs_nothing_that_could_be_paid() {
        let facts = facts(MOVABLE, [0, 1, 0]);
        for size in [1, 5, 9, 10] {
            let cost = compaction_cost(&facts, 1, order(9), order(size), Mobility::Movable);
            assert_eq!(cost, None);
        }
    }

    #[test]
    fn a_small_block_is_made_where_fewest_copies_are_expected() {
        let of = |by_mobility| cost(&facts(MOVABLE, by_mobility), 4, Mobility::Movable).unwrap();
        assert!(of([0, 100, 0]) < of([0, 200, 0]));
        assert!(of([0, 100, 0]) < of([100, 100, 0]));
        assert!(of([10, 100, 0]) < of([0, 400, 0]));
        // Eight frames remain: too few for a block of order 4.
        assert_eq!(
            cost(&facts(MOVABLE, [504, 8, 0]), 4, Mobility::Movable),
            None
        );
        assert!(cost(&facts(MOVABLE, [504, 8, 0]), 3, Mobility::Movable).is_some());
    }

    #[test]
    fn what_cannot_move_goes_where_such_contents_are() {
        for mobility in [Mobility::Unmovable, Mobility::Reclaimable] {
            let clean = cost(&facts(MOVABLE, [0, 10, 0]), 2, mobility).unwrap();
            let contaminated = cost(&facts(MOVABLE, [0, 500, 12]), 2, mobility).unwrap();
            assert!(contaminated < clean);
        }
        let movable = |by_mobility| cost(&facts(MOVABLE, by_mobility), 2, Mobility::Movable);
        assert!(movable([0, 10, 0]) < movable([12, 490, 0]));
    }

    #[test]
    fn labels_say_for_which_mobility_a_block_may_be_made() {
        let of = |label, mobility| cost(&facts(label, [0, 9, 0]), 9, mobility).is_some();
        assert!(of(Label::Contiguous, Mobility::Movable));
        assert!(!of(Label::Contiguous, Mobility::Unmovable));
        for mobility in Mobility::ALL {
            assert!(!of(Label::HighOrder, mobility));
            assert!(of(MOVABLE, mobility));
        }
    }

    #[test]
    fn a_lent_pageblock_is_emptied_when_nothing_else_can_be() {
        let of = |label, movable| cost(&facts(label, [0, movable, 0]), 9, Mobility::Movable);
        assert!(of(Label::Contiguous, 1) > of(MOVABLE, 511));
        let small = |label| cost(&facts(label, [0, 100, 0]), 3, Mobility::Movable);
        assert_eq!(small(Label::Contiguous), small(MOVABLE));
    }

    #[test]
    fn contents_are_moved_to_where_such_contents_are() {
        let unmovable = Label::Of(Mobility::Unmovable);
        for (label, movable, labelled, may) in [
            (MOVABLE, 1, true, true),
            (MOVABLE, 0, false, false),
            (unmovable, 1, true, false),
            (unmovable, 1, false, true),
            (Label::Contiguous, 1, true, true),
            (Label::HighOrder, 1, false, false),
        ] {
            assert_eq!(
                takes_contents(&facts(label, [1, movable, 0]), labelled),
                may
            );
        }
    }

    #[test]
    fn each_attempt_in_vain_doubles_the_requests_that_leave_off_up_to_the_limit() {
        let mut deferral = Deferral::default();
        let mut left_off = [0; 9];
        for count in &mut left_off {
            while deferral.defers(order(3)) {
                *count += 1;
            }
            deferral.failed(order(3), 6);
        }
        assert_eq!(left_off, [0, 1, 3, 7, 15, 31, 63, 63, 63]);
        assert!(!deferral.restarts(order(3), 6), "not yet");
        while deferral.defers(order(3)) {}
        assert!(deferral.restarts(order(3), 6));
        assert_eq!(Deferral::from_word(deferral.to_word()), deferral);
    }

    #[test]
    fn a_smaller_order_than_the_one_that_failed_is_not_deferred() {
        let mut deferral = Deferral::default();
        deferral.failed(order(4), 6);
        deferral.failed(order(4), 6);
        assert!(!deferral.defers(order(3)));
        assert!(deferral.defers(order(4)) && deferral.defers(order(5)));
        deferral.succeeded(order(4));
        assert!(!deferral.defers(order(4)) && !deferral.defers(order(9)));
        assert_eq!(Deferral::from_word(0), Deferral::default());
    }
}
