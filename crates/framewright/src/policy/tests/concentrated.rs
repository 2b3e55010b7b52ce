//! The rule by its choices first, then each price and each limit at its edge.

use super::*;

const PLENTY: ZoneFacts = ZoneFacts {
    frames: 1 << 20,
    free: 1 << 18,
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
        free_large: 5320,
        blocks_of_order_2: 100,
        free_lent: 5000,
    };
    assert_eq!(pressure(&zone), Pressure::default());
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
        for share in 0..4 {
            let predominant = if share == 3 { PREDOMINANT_COST } else { 0 };
            let mixed = of(MOVABLE, Class::Mixed { share, level });
            assert_eq!(mixed, clean + predominant);
            let pure = of(MOVABLE, Class::Pure { share, level });
            assert_eq!(pure, clean + PURE_COST);
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
fn only_movable_requests_go_where_memory_is_lent() {
    let lent = Pressure {
        lent: true,
        ..Pressure::default()
    };
    assert_eq!(list(Mobility::Movable, lent), MOVABLE_LENT);
    assert_eq!(list(Mobility::Movable, Pressure::default()), MOVABLE);
    assert_eq!(list(Mobility::Unmovable, lent), NONMOVABLE);
    assert_eq!(list(Mobility::Reclaimable, lent), NONMOVABLE);
}
