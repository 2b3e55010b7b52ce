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
//! - Three things change this for a while. When more than half of the free frames lie in contiguous
//!   areas, movable requests go there first, because no others can (*lent*). When little is free in
//!   mixed pageblocks, movable requests leave it to requests that have no other place (*heal*).
//!   When blocks of order 3 and more are scarce, and not because memory is short but because it
//!   lies in smaller pieces, breaking one for a smaller request costs more than contaminating a
//!   pageblock by way of one of its small free blocks (*scarce*): the proposal of 2016 does that by
//!   rule, this does it by price.
//!
//! The constants are the outcome of a search over two recorded traces; `docs/design` has the
//! numbers, and what each constant is worth.

use super::{BlockFacts, Class, Classes, Pressure, ZoneFacts};
use crate::units::{Mobility, Order};

/// The rankings: one for unmovable requests, and three for movable ones.
pub(super) const NONMOVABLE: usize = 0;
pub(super) const MOVABLE: usize = 1;
pub(super) const MOVABLE_HEALING: usize = 2;
pub(super) const MOVABLE_LENT: usize = 3;

/// A step of one order, for movable requests: more than all levels (20 at most) together.
const MOVABLE_ORDER_COST: i32 = 100;
/// Orders below this one are all the same to a movable request, as long as no order is scarce:
/// blocks this small are no request's last resort.
const SMALL_ORDERS: u8 = 3;
/// Three eighths of the pageblock cannot move: it belongs to the non-movable requests.
const PREDOMINANT_COST: i32 = 1000;
/// It has no movable frames: any whole pageblock (9 steps of order) is cheaper.
const PURE_COST: i32 = 3000;
/// Little is free in mixed pageblocks.
const HEALING_COST: i32 = 1000;
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
        // Less than a tenth of the free frames is in mixed pageblocks.
        heals: zone.free_mixed * 10 < zone.free,
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
    } else if pressure.heals {
        MOVABLE_HEALING
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
    let healing = if list == MOVABLE_HEALING {
        HEALING_COST
    } else {
        0
    };
    let predominant = |share: u8| if share == 3 { PREDOMINANT_COST } else { 0 };
    Some(match class {
        Class::Empty => 0,
        Class::Clean { level } => i32::from(level),
        Class::Mixed { share, level } => i32::from(level) + predominant(share) + healing,
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
    let scarce = pressure.scarce;
    let (order, found) = (order.get(), found.get());
    let keeps_order_2 = scarce && order == 2 && pressure.order_2_scarce;
    let breaks = scarce && found > order && found >= BREAKABLE && !keeps_order_2;
    if mobility.is_movable() {
        let small = found < SMALL_ORDERS && !scarce;
        let step = if small {
            0
        } else {
            found as i32 * MOVABLE_ORDER_COST
        };
        step + if breaks { MOVABLE_BREAKING_COST } else { 0 }
    } else {
        let kept = keeps_order_2 && found == 2;
        (if breaks { BREAKING_COST } else { 0 }) + if kept { KEEPING_COST } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: ZoneFacts = ZoneFacts {
        frames: 1 << 20,
        free: 1 << 18,
        free_mixed: 1 << 17,
        free_large: 1 << 17,
        blocks_of_order_2: 1 << 12,
        free_lent: 0,
    };

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    /// The cheapest of several candidates (order found, class), the first of equals.
    fn cheapest(
        zone: &ZoneFacts,
        mobility: Mobility,
        wanted: u8,
        candidates: &[(u8, Class)],
    ) -> (u8, Class) {
        let classes = Classes::new(order(9));
        let cost = |&&(found, class): &&(u8, Class)| {
            cost(classes, list(mobility, pressure(zone)), order(found), class).unwrap()
                + surcharge(pressure(zone), mobility, order(wanted), order(found))
        };
        *candidates.iter().min_by_key(cost).unwrap()
    }

    #[test]
    fn non_movable_requests_go_where_most_non_movable_frames_are() {
        let few = (1, Class::Mixed { share: 1, level: 3 });
        let many = (
            5,
            Class::Mixed {
                share: 3,
                level: 14,
            },
        );
        let pure = (
            5,
            Class::Pure {
                share: 3,
                level: 14,
            },
        );
        let clean = (0, Class::Clean { level: 0 });
        let empty = (9, Class::Empty);
        for mobility in [Mobility::Unmovable, Mobility::Reclaimable] {
            let best = |candidates: &[_]| cheapest(&PLENTY, mobility, 0, candidates);
            assert_eq!(best(&[few, many, clean, empty]), many);
            assert_eq!(best(&[few, many, pure]), many);
            let half = (
                8,
                Class::Pure {
                    share: 0,
                    level: 16,
                },
            );
            assert_eq!(best(&[few, many, half]), half);
            assert_eq!(best(&[few, clean, empty]), few);
            assert_eq!(best(&[clean, empty]), empty);
            assert_eq!(
                best(&[clean, (0, Class::Clean { level: 9 })]).1,
                Class::Clean { level: 9 }
            );
        }
    }

    #[test]
    fn movable_requests_take_small_blocks_and_leave_pure_pageblocks_alone() {
        let best = |candidates: &[_]| cheapest(&PLENTY, Mobility::Movable, 0, candidates);
        let clean = (4, Class::Clean { level: 12 });
        let empty = (9, Class::Empty);
        let mixed = (0, Class::Mixed { share: 1, level: 5 });
        let full = (0, Class::Mixed { share: 3, level: 5 });
        let pure = (0, Class::Pure { share: 3, level: 5 });
        assert_eq!(best(&[clean, mixed, empty]), mixed);
        assert_eq!(best(&[clean, full, pure]), clean);
        assert_eq!(best(&[empty, full, pure]), empty);
        assert_eq!(best(&[pure, full]), full);
        let fuller = (2, Class::Clean { level: 2 });
        assert_eq!(best(&[fuller, (0, Class::Clean { level: 3 })]), fuller);
    }

    #[test]
    fn movable_requests_leave_mixed_pageblocks_alone_while_these_heal() {
        let healing = ZoneFacts {
            free_mixed: 1 << 14,
            ..PLENTY
        };
        let mixed = (0, Class::Mixed { share: 1, level: 5 });
        let empty = (9, Class::Empty);
        assert_eq!(
            cheapest(&healing, Mobility::Movable, 0, &[mixed, empty]),
            empty
        );
        assert_eq!(
            cheapest(&PLENTY, Mobility::Movable, 0, &[mixed, empty]),
            mixed
        );
    }

    #[test]
    fn scarce_large_blocks_are_dearer_than_a_contaminated_pageblock() {
        let scarce = ZoneFacts {
            free_large: 1 << 14,
            ..PLENTY
        };
        let mixed = (4, Class::Mixed { share: 2, level: 9 });
        let clean = (1, Class::Clean { level: 3 });
        let best =
            |zone, order, candidates: &[_]| cheapest(zone, Mobility::Unmovable, order, candidates);
        assert_eq!(best(&PLENTY, 1, &[mixed, clean]), mixed);
        assert_eq!(best(&scarce, 1, &[mixed, clean]), clean);
        // Not breaking: the order asked for.
        assert_eq!(best(&scarce, 4, &[mixed, (9, Class::Empty)]), mixed);
        let few = ZoneFacts {
            blocks_of_order_2: 10,
            ..scarce
        };
        let exact = (2, Class::Mixed { share: 2, level: 9 });
        assert_eq!(best(&few, 2, &[exact, mixed]), mixed);
        assert_eq!(best(&scarce, 2, &[exact, mixed]), exact);
        let lent = (0, Class::Pure { share: 3, level: 5 });
        let movable = |zone| {
            cheapest(
                zone,
                Mobility::Movable,
                0,
                &[lent, (4, Class::Clean { level: 9 })],
            )
        };
        assert_eq!(movable(&PLENTY).0, 4);
        assert_eq!(movable(&scarce).0, 0);
    }

    #[test]
    fn each_pressure_begins_just_below_its_limit() {
        let zone = ZoneFacts {
            frames: 280_000,
            free: 50_000,
            free_mixed: 5000,
            free_large: 5320,
            blocks_of_order_2: 100,
            free_lent: 5000,
        };
        assert_eq!(pressure(&zone), Pressure::default());
        let below = ZoneFacts {
            free_mixed: 4999,
            ..zone
        };
        let heals = Pressure {
            heals: true,
            ..Pressure::default()
        };
        assert_eq!(pressure(&below), heals);
        let below = ZoneFacts {
            free_large: 5319,
            ..zone
        };
        let scarce = Pressure {
            scarce: true,
            ..Pressure::default()
        };
        assert_eq!(pressure(&below), scarce);
        // Of 11,820 free frames, 5319 are 45 %: little is free, but it is whole.
        let whole = |free| pressure(&ZoneFacts { free, ..below });
        assert_eq!(whole(11_821), scarce);
        assert_eq!(whole(11_820), Pressure::default());
        let below = ZoneFacts {
            blocks_of_order_2: 99,
            ..zone
        };
        let order_2_scarce = Pressure {
            order_2_scarce: true,
            ..Pressure::default()
        };
        assert_eq!(pressure(&below), order_2_scarce);
        let lent = |free_lent| pressure(&ZoneFacts { free_lent, ..zone }).lent;
        assert!(lent(25_001) && !lent(25_000));
        let plenty = |free_large| pressure(&ZoneFacts { free_large, ..zone }).plenty;
        assert!(plenty(35_000) && !plenty(34_999));
    }

    #[test]
    fn a_pageblock_is_classed_by_what_is_in_it() {
        let classes = Classes::new(order(9));
        let of = |unmovable, movable, reclaimable, absent| {
            let by_mobility = [unmovable, movable, reclaimable];
            let facts = BlockFacts {
                label: crate::policy::Label::Of(Mobility::Movable),
                free: 512 - by_mobility.iter().sum::<u32>() - absent,
                by_mobility,
                absent,
            };
            (class(classes, &facts), classes.level(facts.free))
        };
        assert_eq!(of(0, 0, 0, 0).0, Class::Empty);
        let (found, level) = of(0, 0, 0, 1);
        assert_eq!(found, Class::Clean { level });
        let (found, level) = of(0, 100, 0, 0);
        assert_eq!(found, Class::Clean { level });
        let (found, level) = of(10, 1, 10, 0);
        assert_eq!(found, Class::Mixed { share: 1, level });
        let (found, level) = of(0, 0, 300, 0);
        assert_eq!(found, Class::Pure { share: 3, level });
        let (found, level) = of(7, 0, 0, 400);
        assert_eq!(found, Class::Pure { share: 0, level });
    }

    #[test]
    fn a_non_movable_request_weighs_share_before_order_before_level() {
        let classes = Classes::new(order(9));
        let of = |found, class| cost(classes, NONMOVABLE, order(found), class).unwrap();
        let kinds: [fn(u8, u8) -> Class; 2] = [
            |share, level| Class::Mixed { share, level },
            |share, level| Class::Pure { share, level },
        ];
        for kind in kinds {
            assert!(of(4, kind(1, 3)) < of(4, kind(1, 4)));
            assert!(of(3, kind(1, 17)) < of(4, kind(1, 0)));
            assert!(of(0, kind(1, 17)) < of(1, kind(1, 0)));
            assert!(of(7, kind(2, 17)) < of(0, kind(1, 0)));
        }
        assert_eq!(of(5, kinds[0](2, 9)), of(5, kinds[1](2, 9)));
        // A pure pageblock of which half is free comes before all others, one with less does not.
        assert!(of(8, kinds[1](0, 16)) < of(0, kinds[1](3, 0)));
        assert!(of(7, kinds[1](0, 16)) > of(0, kinds[1](3, 0)));
        // A contaminated pageblock comes before a clean one; of that the emptiest.
        assert!(of(7, kinds[0](0, 17)) < of(9, Class::Empty));
        assert_eq!(
            of(9, Class::Empty) + 1,
            of(0, Class::Clean { level: 17 }),
            "the emptiest of all"
        );
        assert_eq!(cost(classes, NONMOVABLE, order(0), Class::HighOrder), None);
        let lent = Class::Contiguous { level: 3 };
        assert_eq!(cost(classes, NONMOVABLE, order(0), lent), None);
    }

    #[test]
    fn a_movable_request_pays_for_each_thing_that_speaks_against_a_pageblock() {
        let classes = Classes::new(order(9));
        let of = |list, class| cost(classes, list, order(3), class).unwrap();
        for level in [0, 1, 17] {
            let clean = of(MOVABLE, Class::Clean { level });
            assert_eq!(clean, i32::from(level));
            assert_eq!(of(MOVABLE_HEALING, Class::Clean { level }), clean);
            for share in 0..4 {
                let predominant = if share == 3 { PREDOMINANT_COST } else { 0 };
                let mixed = of(MOVABLE, Class::Mixed { share, level });
                assert_eq!(mixed, clean + predominant);
                let pure = of(MOVABLE, Class::Pure { share, level });
                assert_eq!(pure, clean + PURE_COST);
                let healing = |class| of(MOVABLE_HEALING, class) - HEALING_COST;
                assert_eq!(healing(Class::Mixed { share, level }), mixed);
                assert_eq!(of(MOVABLE_HEALING, Class::Pure { share, level }), pure);
            }
            assert_eq!(of(MOVABLE, Class::Contiguous { level }), clean + LENT_COST);
        }
        assert_eq!(of(MOVABLE, Class::Empty), 0);
        assert_eq!(cost(classes, MOVABLE, order(0), Class::HighOrder), None);
    }

    #[test]
    fn what_is_lent_comes_first_while_most_of_what_is_free_is_lent() {
        let lent = ZoneFacts {
            free_lent: PLENTY.free / 2 + 1,
            free_large: 1 << 14,
            ..PLENTY
        };
        let area = (9, Class::Contiguous { level: 17 });
        let clean = (0, Class::Clean { level: 0 });
        let best = |zone| cheapest(zone, Mobility::Movable, 0, &[clean, area]);
        assert_eq!(best(&lent), area);
        assert_eq!(best(&PLENTY), clean);
    }

    #[test]
    fn the_order_found_costs_a_request_what_it_destroys() {
        let calm = Pressure::default();
        let scarce = Pressure {
            scarce: true,
            ..calm
        };
        let both = Pressure {
            order_2_scarce: true,
            ..scarce
        };
        let of = |pressure, mobility, wanted, found| {
            surcharge(pressure, mobility, order(wanted), order(found))
        };
        for mobility in [Mobility::Unmovable, Mobility::Reclaimable] {
            assert_eq!(of(calm, mobility, 0, 9), 0);
            // A block of the order asked for is not broken, and below order 2 no block is.
            assert_eq!(of(scarce, mobility, 4, 4), 0);
            assert_eq!(of(scarce, mobility, 0, 1), 0);
            assert_eq!(of(scarce, mobility, 0, 2), BREAKING_COST);
            assert_eq!(of(scarce, mobility, 2, 3), BREAKING_COST);
            // Only order 2 is kept, only from requests of order 2, only if both are scarce.
            assert_eq!(of(both, mobility, 2, 2), KEEPING_COST);
            assert_eq!(of(both, mobility, 2, 3), 0);
            assert_eq!(of(both, mobility, 1, 2), BREAKING_COST);
            assert_eq!(of(scarce, mobility, 2, 2), 0);
            let order_2_scarce = Pressure {
                scarce: false,
                ..both
            };
            assert_eq!(of(order_2_scarce, mobility, 2, 2), 0);
        }
        let step = MOVABLE_ORDER_COST;
        assert_eq!(of(calm, Mobility::Movable, 0, 2), 0);
        assert_eq!(of(calm, Mobility::Movable, 0, 3), 3 * step);
        assert_eq!(of(scarce, Mobility::Movable, 0, 1), step);
        assert_eq!(of(scarce, Mobility::Movable, 2, 2), 2 * step);
        let breaks = 2 * step + MOVABLE_BREAKING_COST;
        assert_eq!(of(scarce, Mobility::Movable, 0, 2), breaks);
        assert_eq!(of(both, Mobility::Movable, 2, 3), 3 * step);
    }

    #[test]
    fn only_movable_requests_heal() {
        let heals = Pressure {
            heals: true,
            ..Pressure::default()
        };
        assert_eq!(list(Mobility::Movable, heals), MOVABLE_HEALING);
        assert_eq!(list(Mobility::Movable, Pressure::default()), MOVABLE);
        let lent = Pressure {
            lent: true,
            ..heals
        };
        assert_eq!(list(Mobility::Movable, lent), MOVABLE_LENT);
        assert_eq!(list(Mobility::Unmovable, lent), NONMOVABLE);
        assert_eq!(list(Mobility::Unmovable, heals), NONMOVABLE);
        assert_eq!(list(Mobility::Reclaimable, heals), NONMOVABLE);
    }
}
