//! The default: keep what cannot move together, and waste no fragment on the way.
//!
//! - A movable request takes the smallest free block that is large enough, wherever it lies, and
//!   among those the one in the fullest pageblock; so large free blocks are the last to go.
//! - A non-movable request goes where non-movable frames already are: the pageblock with the most
//!   of them, whether they are unmovable or reclaimable. Only when all of those are full does it
//!   contaminate another one, and then the emptiest, which it will fill next.
//! - Non-movable requests come from low addresses, movable ones from high addresses, so that the
//!   border between them moves and is not set.

use super::{BlockFacts, Class, Classes};
use crate::units::{Mobility, Order};

/// A step of one order costs more than all levels (20 at most) together.
const ORDER_COST: i32 = 100;
/// What a share of non-movable frames is worth: one step outweighs all levels.
const SHARE_WORTH: i32 = 20;
/// To contaminate one more pageblock costs more than any order (at most 10) in a contaminated one.
const CONTAMINATION_COST: i32 = 10_000;
/// Between equals, movable frames stay out of contiguous areas: they would have to leave.
const LENT_COST: i32 = 50;

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
    if movable > 0 {
        Class::Mixed { share, level }
    } else {
        Class::Pure { share, level }
    }
}

pub(super) fn cost(
    classes: Classes,
    mobility: Mobility,
    found: Order,
    class: Class,
) -> Option<i32> {
    let order = i32::from(found.get()) * ORDER_COST;
    let cost = if mobility.is_movable() {
        match class {
            Class::Empty => order,
            Class::Clean { level } | Class::Mixed { level, .. } | Class::Pure { level, .. } => {
                order + i32::from(level)
            }
            Class::Contiguous { level } => order + LENT_COST + i32::from(level),
            Class::Labelled { .. } | Class::HighOrder => return None,
        }
    } else {
        match class {
            Class::Mixed { share, level } | Class::Pure { share, level } => {
                order - SHARE_WORTH * i32::from(share) + i32::from(level)
            }
            Class::Clean { level } => CONTAMINATION_COST - i32::from(level),
            Class::Empty => CONTAMINATION_COST - i32::from(classes.levels()),
            Class::Labelled { .. } | Class::Contiguous { .. } | Class::HighOrder => return None,
        }
    };
    Some(cost)
}
