//! A policy asked directly: it is a pure function, so no zone is needed.
//!
//! An unmovable frame is wanted, and no unmovable pageblock has room. Which pageblock is broken
//! into?
//!
//! `cargo run -p framewright-examples --bin policy`

use framewright::policy::{BlockFacts, Config, Fallback, Label, Policy, ZoneFacts};
use framewright::{Mobility, Order};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let order = |order| Order::new(order).ok_or("not an order");
    let facts = |by_mobility: [u32; 3]| BlockFacts {
        label: Label::Of(Mobility::Movable),
        free: 512 - by_mobility.iter().sum::<u32>(),
        by_mobility,
        absent: 0,
    };
    // Allocated frames: unmovable, movable, reclaimable; and the largest free block.
    let candidates = [
        ("clean, a large free block", facts([0, 400, 0]), order(6)?),
        ("mixed, a small free block", facts([40, 300, 0]), order(3)?),
    ];
    for fallback in [
        Fallback::LargestFirst,
        Fallback::SmallestWhenCostly,
        Fallback::Concentrated,
    ] {
        let policy = Policy::new(fallback, order(9)?);
        let zone = ZoneFacts {
            frames: 1 << 20,
            free: 1 << 18,
            free_mixed: 1 << 16,
            free_large: 1 << 17,
            blocks_of_order_2: 1 << 12,
            free_lent: 0,
        };
        let list = policy.list(Mobility::Unmovable, policy.pressure(&zone));
        let cost = |(_, facts, found): &&(&str, BlockFacts, Order)| {
            let class = policy.class(facts);
            policy.cost(list, *found, class).unwrap_or(i32::MAX)
        };
        let (name, ..) = candidates.iter().min_by_key(cost).ok_or("no candidate")?;
        println!("{:<22}{name}", fallback.name());
    }
    println!("the default is {}", Config::default().fallback.name());
    Ok(())
}
