//! The two historical rules, applied to whole pageblocks: a request is served from pageblocks with
//! its own label, smallest sufficient block first; if there is none, it falls back.
//!
//! - `LargestFirst` takes the largest free block that another label has, so that the next
//!   fallbacks need not happen [Linux up to 4.12].
//! - `SmallestWhenCostly` does the same while there are blocks above order 3, and then takes the
//!   smallest sufficient one, to keep the last blocks of orders 2 and 3 whole.
//!
//! # Sources
//! ChengYi He, "avoid external fragmentation related to migration fallback", linux-mm, January 2016
//! (the rule); Documentation of Linux's `PAGE_ALLOC_COSTLY_ORDER` (the 3).

use super::{BlockFacts, Class, Classes, Label};
use crate::units::{Mobility, Order};

/// The largest order that requests are expected to get without effort [`PAGE_ALLOC_COSTLY_ORDER`].
const COSTLY_ORDER: u8 = 3;
/// A step of one order costs more than all levels (20 at most) together.
const ORDER_COST: i32 = 100;
/// One label's candidates (orders 0 to 10) end before the next one's begin.
const LABEL_COST: i32 = 20 * ORDER_COST;
/// The second fallback label breaks ties within an order only: Linux goes through the orders
/// outside and through the labels inside.
const SECOND_LABEL_COST: i32 = 30;

/// The order in which other labels are tried [Linux's `fallbacks` table].
const fn other_labels(mobility: Mobility) -> [Mobility; 2] {
    match mobility {
        Mobility::Unmovable => [Mobility::Reclaimable, Mobility::Movable],
        Mobility::Reclaimable => [Mobility::Unmovable, Mobility::Movable],
        Mobility::Movable => [Mobility::Reclaimable, Mobility::Unmovable],
    }
}

pub(super) fn cost(
    classes: Classes,
    list: usize,
    found: Order,
    class: Class,
    smallest_when_costly: bool,
) -> Option<i32> {
    // A list for each mobility.
    let mobility = Mobility::from_index(list)?;
    let order = i32::from(found.get());
    let (label, level) = match class {
        Class::Labelled { label, level } => (label, i32::from(level)),
        Class::Contiguous { level } if mobility.is_movable() => {
            // After the own label and before any fallback: contents that leave it later are moved,
            // not lost.
            return Some(LABEL_COST + order * ORDER_COST + i32::from(level));
        }
        _ => return None,
    };
    if label == mobility {
        return Some(order * ORDER_COST + level);
    }
    let second = if label == other_labels(mobility)[1] {
        SECOND_LABEL_COST
    } else {
        0
    };
    // Among large blocks the largest is the cheapest. Small ones come after all large ones.
    let top = i32::from(classes.pageblock_order().get());
    let rank = if smallest_when_costly && order <= i32::from(COSTLY_ORDER) {
        top + order
    } else {
        top - order
    };
    Some(2 * LABEL_COST + rank * ORDER_COST + second + level)
}

/// Whether at least half of the pageblock is free or used alike.
pub(super) fn is_mostly_alike(facts: &BlockFacts, mobility: Mobility) -> bool {
    let alike = if mobility.is_movable() {
        facts.movable()
    } else {
        facts.nonmovable()
    };
    let all = facts.free + facts.movable() + facts.nonmovable();
    2 * (facts.free + alike) >= all
}

pub(super) fn is_relabelled(
    classes: Classes,
    facts: &BlockFacts,
    mobility: Mobility,
    found: Order,
) -> bool {
    debug_assert!(
        facts.label != Label::Of(mobility),
        "a fallback changes the label"
    );
    let large = found.get() >= classes.pageblock_order().get() / 2;
    (large || !mobility.is_movable()) && is_mostly_alike(facts, mobility)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheapest(smallest_when_costly: bool, orders: &[u8]) -> u8 {
        let classes = Classes::new(Order::new(9).unwrap());
        let cost = |order: u8| {
            let class = Class::Labelled {
                label: Mobility::Movable,
                level: 17,
            };
            let found = Order::new(order).unwrap();
            cost(
                classes,
                Mobility::Unmovable.index(),
                found,
                class,
                smallest_when_costly,
            )
            .unwrap()
        };
        *orders.iter().min_by_key(|&&order| cost(order)).unwrap()
    }

    #[test]
    fn largest_first_takes_the_largest() {
        assert_eq!(cheapest(false, &[0, 2, 3]), 3);
        assert_eq!(cheapest(false, &[0, 2, 3, 9]), 9);
    }

    #[test]
    fn smallest_when_costly_takes_the_smallest_only_if_none_is_above_order_3() {
        assert_eq!(cheapest(true, &[0, 2, 3]), 0);
        assert_eq!(cheapest(true, &[0, 2, 3, 4]), 4);
        assert_eq!(cheapest(true, &[2, 4, 8]), 8);
    }

    #[test]
    fn the_own_label_comes_before_lent_blocks_and_those_before_fallback() {
        let classes = Classes::new(Order::new(10).unwrap());
        let of = |class, order| {
            cost(
                classes,
                Mobility::Movable.index(),
                Order::new(order).unwrap(),
                class,
                false,
            )
            .unwrap()
        };
        let labelled = |label, level| Class::Labelled { label, level };
        let own = of(labelled(Mobility::Movable, 19), 10);
        let lent = of(Class::Contiguous { level: 0 }, 0);
        let fallback = of(labelled(Mobility::Reclaimable, 0), 10);
        assert!(own < lent && lent < fallback);
        assert!(of(Class::Contiguous { level: 19 }, 10) < fallback);
        // Reclaimable before unmovable, but only within one order.
        assert!(fallback < of(labelled(Mobility::Unmovable, 0), 10));
        assert!(
            of(labelled(Mobility::Unmovable, 19), 10) < of(labelled(Mobility::Reclaimable, 0), 9)
        );
    }

    #[test]
    fn within_a_label_the_smallest_order_comes_first_and_then_the_fullest_pageblock() {
        let classes = Classes::new(Order::new(9).unwrap());
        let list = Mobility::Movable.index();
        let own = |level| Class::Labelled {
            label: Mobility::Movable,
            level,
        };
        let other = |level| Class::Labelled {
            label: Mobility::Unmovable,
            level,
        };
        let of = |class, order| {
            let order = Order::new(order).unwrap();
            cost(classes, list, order, class, false).unwrap()
        };
        for order in 0..9 {
            assert!(of(own(3), order) < of(own(4), order));
            assert!(of(own(17), order) < of(own(0), order + 1));
            assert!(of(other(3), order) < of(other(4), order));
            assert!(of(other(17), order + 1) < of(other(0), order));
            let lent = |level| Class::Contiguous { level };
            assert!(of(lent(3), order) < of(lent(4), order));
            assert!(of(lent(17), order) < of(lent(0), order + 1));
            assert!(of(own(17), 9) < of(lent(0), order));
        }
        let unmovable = Mobility::Unmovable.index();
        let lent = Class::Contiguous { level: 0 };
        assert_eq!(cost(classes, unmovable, Order::ZERO, lent, false), None);
        assert_eq!(
            cost(classes, list, Order::ZERO, Class::HighOrder, false),
            None
        );
    }

    fn facts(free: u32, by_mobility: [u32; 3]) -> BlockFacts {
        BlockFacts {
            label: Label::Contiguous,
            free,
            by_mobility,
            absent: 512 - free - by_mobility.iter().sum::<u32>(),
        }
    }

    #[test]
    fn half_of_the_frames_that_exist_must_be_free_or_alike() {
        use Mobility::{Movable, Reclaimable, Unmovable};
        assert!(is_mostly_alike(&facts(256, [0, 256, 0]), Unmovable));
        assert!(!is_mostly_alike(&facts(255, [0, 257, 0]), Unmovable));
        assert!(is_mostly_alike(&facts(1, [200, 256, 55]), Unmovable));
        assert!(!is_mostly_alike(&facts(1, [200, 257, 54]), Reclaimable));
        assert!(is_mostly_alike(&facts(1, [200, 255, 56]), Movable));
        assert!(!is_mostly_alike(&facts(1, [200, 254, 57]), Movable));
        // Absent frames do not count.
        assert!(is_mostly_alike(&facts(8, [2, 10, 0]), Unmovable));
        assert!(!is_mostly_alike(&facts(7, [2, 10, 0]), Unmovable));
    }

    #[test]
    fn a_movable_request_relabels_only_from_half_the_pageblock_order_on() {
        use Mobility::{Movable, Reclaimable, Unmovable};
        let classes = Classes::new(Order::new(9).unwrap());
        let is_relabelled = |facts, mobility, found| {
            is_relabelled(classes, &facts, mobility, Order::new(found).unwrap())
        };
        let alike = facts(300, [100, 100, 12]);
        for mobility in [Unmovable, Reclaimable] {
            assert!(is_relabelled(alike, mobility, 0));
        }
        assert!(!is_relabelled(alike, Movable, 3));
        assert!(is_relabelled(alike, Movable, 4));
        for mobility in [Unmovable, Reclaimable] {
            assert!(!is_relabelled(facts(100, [0, 412, 0]), mobility, 9));
        }
        assert!(!is_relabelled(facts(100, [412, 0, 0]), Movable, 6));
    }
}
