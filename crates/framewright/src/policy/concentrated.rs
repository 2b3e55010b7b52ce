//! The default: keeps unmovable contents together, and breaks no large block for a small request.
//!
//! - A movable request takes the smallest free block that is large enough, in the fullest
//!   pageblock; it avoids those in which non-movable frames predominate, and still more those with
//!   non-movable frames only. So large free blocks are the last to go, and pageblocks sort
//!   themselves.
//! - A non-movable request goes where non-movable frames already are, whether unmovable or
//!   reclaimable: the pageblock with the most of them. Only when none of those has room does it
//!   contaminate another pageblock: the emptiest, which later requests fill.
//! - Non-movable requests come from low addresses, movable ones from high addresses, so that the
//!   border between them moves by itself.
//! - Two things change this for a while. When more than half of the free frames lie in contiguous
//!   areas, movable requests go there first, because no others can (*lent*). When blocks of order 3 and more are scarce, and not because memory is short but because it
//!   lies in smaller pieces, breaking one for a smaller request costs more than contaminating a
//!   pageblock by way of one of its small free blocks (*scarce*): the proposal of 2016 does that by
//!   rule, this does it by price.
//!
//! The constants are the outcome of a search over two recorded traces; docs/design/0002-concentrated.md
//! has the numbers, and what each constant is worth.

use super::{BlockFacts, Class, Classes, Pressure, ZoneFacts};
use crate::units::{Mobility, Order};

/// The rankings: one for unmovable requests, and two for movable ones.
pub(super) const NONMOVABLE: usize = 0;
pub(super) const MOVABLE: usize = 1;
pub(super) const MOVABLE_LENT: usize = 2;

/// A step of one order, for movable requests: more than all levels (20 at most) together.
const MOVABLE_ORDER_COST: i32 = 100;
/// Orders below this one are all the same to a movable request, as long as no order is scarce:
/// blocks this small are no request's last resort.
const SMALL_ORDERS: u8 = 3;
/// Three eighths of the pageblock cannot move: it belongs to the non-movable requests.
const PREDOMINANT_COST: i32 = 1000;
/// It has no movable frames: any whole pageblock (9 steps of order) is cheaper.
const PURE_COST: i32 = 3000;
/// Between equals, movable frames stay out of contiguous areas, because they would have to leave.
const LENT_COST: i32 = 50;
/// While most free frames are lent, they come before everything else, whatever has to be broken
/// there: orders cost 1000 at most and breaking 5000.
const LENT_WORTH: i32 = 20_000;

/// A step of one order, for non-movable requests: as much as all levels together.
const ORDER_COST: i32 = 20;
/// What a share of non-movable frames is worth: as much as ten steps of order.
const SHARE_WORTH: i32 = 200;
/// A pure pageblock with half its frames free comes before all others: it was emptied to be filled.
const HALF_FREE_WORTH: i32 = 5000;
/// The cost to contaminate one more pageblock: more than anything in a contaminated one.
const CONTAMINATION_COST: i32 = 10_000;

/// Scarce: breaking a block costs a non-movable request more than contaminating a pageblock...
const BREAKING_COST: i32 = 12_000;
/// ... and a movable one more than going into a pure pageblock.
const MOVABLE_BREAKING_COST: i32 = 5000;
/// Blocks of order 2 are scarce too: larger ones are broken for requests of order 2 instead.
const KEEPING_COST: i32 = 6000;
/// From this order on, taking part of a block counts as breaking it.
const BREAKABLE: u8 = 2;

pub(super) fn class(classes: Classes, facts: &BlockFacts) -> Class {
    let (nonmovable, movable) = (facts.nonmovable(), facts.movable());
    let level = classes.level(facts.free);
    if nonmovable == 0 {
        return if movable == 0 && facts.absent == 0 {
            Class::Empty
        } else {
            Class::Clean { level }
        };
    }
    let share = classes.share(nonmovable);
    if movable == 0 {
        Class::Pure { share, level }
    } else {
        Class::Mixed { share, level }
    }
}

pub(super) const fn pressure(zone: &ZoneFacts) -> Pressure {
    Pressure {
        // Less than 1.9 % of the zone is free in blocks of order 3 or more, and less than 45 % of
        // the free frames: where these are whole, little is free, but no block is broken up
        // needlessly.
        scarce: zone.free_large * 1000 < zone.frames * 19 && zone.free_large * 100 < zone.free * 45,
        // Fewer blocks of order 2 than one for each 2800 frames: 550 on the 6 GiB of the traces.
        order_2_scarce: zone.blocks_of_order_2 * 2800 < zone.frames,
        // An eighth of the zone.
        plenty: zone.free_large * 8 >= zone.frames,
        // More than half of the free frames \[Linux 5.8, 16867664\].
        lent: zone.free_lent * 2 > zone.free,
    }
}

#[inline]
pub(super) const fn list(mobility: Mobility, pressure: Pressure) -> usize {
    if !mobility.is_movable() {
        NONMOVABLE
    } else if pressure.lent {
        MOVABLE_LENT
    } else {
        MOVABLE
    }
}

pub(super) fn cost(classes: Classes, list: usize, found: Order, class: Class) -> Option<i32> {
    if list == NONMOVABLE {
        let in_contaminated = |share: u8, level: u8| {
            i32::from(found.get()) * ORDER_COST - SHARE_WORTH * i32::from(share) + i32::from(level)
        };
        return Some(match class {
            Class::Mixed { share, level } => in_contaminated(share, level),
            Class::Pure { share, level } => {
                let half = found.get() + 1 == classes.pageblock_order().get();
                let worth = if half { HALF_FREE_WORTH } else { 0 };
                in_contaminated(share, level) - worth
            }
            Class::Clean { level } => CONTAMINATION_COST - i32::from(level),
            Class::Empty => CONTAMINATION_COST - i32::from(classes.levels()),
            Class::Labelled { .. } | Class::Contiguous { .. } | Class::HighOrder => return None,
        });
    }
    let predominant = |share: u8| if share == 3 { PREDOMINANT_COST } else { 0 };
    Some(match class {
        Class::Empty => 0,
        Class::Clean { level } => i32::from(level),
        Class::Mixed { share, level } => i32::from(level) + predominant(share),
        Class::Pure { level, .. } => i32::from(level) + PURE_COST,
        Class::Contiguous { level } if list == MOVABLE_LENT => i32::from(level) - LENT_WORTH,
        Class::Contiguous { level } => i32::from(level) + LENT_COST,
        Class::Labelled { .. } | Class::HighOrder => return None,
    })
}

/// What the order found adds to the cost for a request of `order`, whatever the class.
#[inline]
pub(super) const fn surcharge(
    pressure: Pressure,
    mobility: Mobility,
    order: Order,
    found: Order,
) -> i32 {
    let (order, found) = (order.get(), found.get());
    if !pressure.scarce {
        return if mobility.is_movable() && found >= SMALL_ORDERS {
            found as i32 * MOVABLE_ORDER_COST
        } else {
            0
        };
    }
    let keeps_order_2 = order == 2 && pressure.order_2_scarce;
    let breaks = found > order && found >= BREAKABLE && !keeps_order_2;
    if mobility.is_movable() {
        let step = found as i32 * MOVABLE_ORDER_COST;
        step + if breaks { MOVABLE_BREAKING_COST } else { 0 }
    } else {
        let kept = keeps_order_2 && found == 2;
        (if breaks { BREAKING_COST } else { 0 }) + if kept { KEEPING_COST } else { 0 }
    }
}

#[cfg(test)]
#[path = "tests/concentrated.rs"]
mod tests;
