//! A boot's figures: what Linux counted from the end of the first round to the end of the last, and what memory looked like on
//! average at the ends of those rounds. Names are Linux's and the document's.

use super::points::{FallbackEvents, MemoryPoint};
use crate::results::{self, ResultRow, RowSource};
use std::collections::BTreeMap;

/// The case that has all seeds: medians and ranges.
pub(super) const ALL_SEEDS: &str = "all seeds";

/// Linux's counters that are shown as they are, and of what they are counts.
const COUNTERS: &[(&str, &str)] = &[
    ("compact_stall", "requests"),
    ("compact_fail", "requests"),
    ("compact_success", "requests"),
    ("compact_migrate_scanned", "looks"),
    ("compact_free_scanned", "looks"),
    ("compact_isolated", "frames"),
    ("pgmigrate_success", "frames"),
    ("pgmigrate_fail", "frames"),
    ("pgsteal_kswapd", "frames"),
    ("pgsteal_direct", "frames"),
    ("pgscan_kswapd", "frames"),
    ("pgscan_direct", "frames"),
    ("kswapd_low_wmark_hit_quickly", "times"),
    ("kswapd_high_wmark_hit_quickly", "times"),
    ("oom_kill", "processes"),
    ("apps_lost", "processes"),
    ("threads_refused", "requests"),
    ("datagrams_refused", "requests"),
    ("rings_refused", "requests"),
    ("buffers_refused", "requests"),
];

/// What the load asked for: the same of each kernel.
const DEMAND: &[&str] = &["apps", "threads", "datagrams", "rings", "buffers"];

/// Linux's names of types, and the document's.
const TYPES: &[(&str, &str)] = &[
    ("Unmovable", "unmovable"),
    ("Reclaimable", "reclaimable"),
    ("Movable", "movable"),
];

/// Orders that stand by themselves; what is above stands together.
const ORDERS: u64 = 4;

/// Linux's number of the movable type in its events.
const MOVABLE: u64 = 1;

/// The rows of a boot with this seed.
pub(super) fn of_boot(
    points: &[MemoryPoint],
    seed: u64,
    variant: &str,
) -> Result<Vec<ResultRow>, String> {
    // The first point is before the load, the second after its first round, in which memory fills.
    let [_, first, rest @ ..] = points else {
        return Err("it has less than two points".to_owned());
    };
    let last = rest
        .last()
        .ok_or("it has one round, which is the one before figures begin")?;
    let looks: Vec<&MemoryPoint> = rest.iter().collect();
    let mut rows = Vec::new();
    let case = format!("seed/{seed}");
    let mut add = |metric: &str, unit: &str, value: f64| {
        let names = [&case, variant, metric];
        rows.push(ResultRow::one(names, unit, RowSource::Simulated, value));
    };
    let grown = |of: &dyn Fn(&MemoryPoint) -> u64| of(last).saturating_sub(of(first)) as f64;
    let counter = |point: &MemoryPoint, name: &str| point.counters.get(name).copied().unwrap_or(0);

    let stalls = |point: &MemoryPoint| {
        let of = point
            .counters
            .iter()
            .filter(|(name, _)| name.starts_with("allocstall_"));
        of.map(|(_, count)| count).sum()
    };
    add("allocstall", "requests", grown(&stalls));
    type ByOrder = fn(&MemoryPoint) -> &BTreeMap<u64, u64>;
    let by_order: [(&str, ByOrder); 2] = [
        ("allocstall_order", |point| &point.reclaims),
        ("compact_order", |point| &point.compactions),
    ];
    for (name, of) in by_order {
        for order in 0..ORDERS {
            let count = |point: &MemoryPoint| of(point).get(&order).copied().unwrap_or(0);
            add(&format!("{name}_{order}"), "requests", grown(&count));
        }
        let above = |point: &MemoryPoint| of(point).range(ORDERS..).map(|(_, count)| count).sum();
        add(&format!("{name}_{ORDERS}_up"), "requests", grown(&above));
    }
    for (name, unit) in COUNTERS {
        add(name, unit, grown(&|point| counter(point, name)));
    }
    let fallbacks = |point: &MemoryPoint, is: &dyn Fn(&FallbackEvents) -> bool| {
        let of = point.fallbacks.iter().filter(|events| is(events));
        of.map(|events| events.count).sum()
    };
    add(
        "fallbacks",
        "requests",
        grown(&|point| fallbacks(point, &|_| true)),
    );
    let is_movable = |events: &FallbackEvents| events.mobility == MOVABLE;
    add(
        "fallbacks_movable",
        "requests",
        grown(&|point| fallbacks(point, &is_movable)),
    );
    let is_split = |events: &FallbackEvents| {
        (2..ORDERS).contains(&events.taken) && events.order < events.taken
    };
    add(
        "fallbacks_splitting_order_2_3",
        "requests",
        grown(&|point| fallbacks(point, &is_split)),
    );
    for name in DEMAND {
        add(
            &demand(name),
            "requests",
            grown(&|point| counter(point, name)),
        );
    }

    let mean = |of: &dyn Fn(&MemoryPoint) -> u64| {
        let sum: u64 = looks.iter().map(|point| of(point)).sum();
        (sum as f64 / looks.len() as f64 * 10.0).round() / 10.0
    };
    add(
        "MemFree_kB",
        "KiB",
        mean(&|point| point.memory.get("MemFree").copied().unwrap_or(0)),
    );
    for (linux, name) in TYPES {
        let free = |point: &MemoryPoint, order: u64| {
            let of = point
                .free
                .get(*linux)
                .and_then(|counts| counts.get(order as usize));
            of.copied().unwrap_or(0)
        };
        for order in 0..ORDERS {
            add(
                &format!("free_{name}_order{order}"),
                "blocks",
                mean(&|point| free(point, order)),
            );
        }
        let above = |point: &MemoryPoint| (ORDERS..=10).map(|order| free(point, order)).sum();
        add(
            &format!("free_{name}_order{ORDERS}_up"),
            "blocks",
            mean(&above),
        );
        let blocks = |point: &MemoryPoint| point.pageblocks.get(*linux).copied().unwrap_or(0);
        add(&format!("blocks_{name}"), "pageblocks", mean(&blocks));
    }
    Ok(rows)
}

fn demand(name: &str) -> String {
    format!("asked_{name}")
}

/// An error where two kernels were not asked for the same by a seed.
pub(super) fn expect_same_demand(rows: &[ResultRow]) -> Result<(), String> {
    for name in DEMAND.iter().map(|name| demand(name)) {
        let mut asked: BTreeMap<&str, f64> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.metric == name) {
            let first = *asked.entry(&row.case).or_insert(row.median);
            if first != row.median {
                let (case, variant) = (&row.case, &row.variant);
                return Err(format!(
                    "{case}, {variant}: {name} is {}, and {first} of another kernel",
                    row.median
                ));
            }
        }
    }
    Ok(())
}

/// All seeds together in front, then each.
pub(super) fn with_sum(rows: Vec<ResultRow>) -> Vec<ResultRow> {
    let mut together = rows.clone();
    for row in &mut together {
        ALL_SEEDS.clone_into(&mut row.case);
    }
    [results::gather(&[together]), rows].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::fallback::points::{points, tests::CONSOLE};

    fn value(rows: &[ResultRow], metric: &str) -> f64 {
        let mut of = rows.iter().filter(|row| row.metric == metric);
        let row = of.next().unwrap_or_else(|| panic!("{metric}"));
        assert!(of.next().is_none(), "{metric} twice");
        row.median
    }

    /// Three points, of which the last has these events.
    fn grown(change: impl Fn(&mut MemoryPoint)) -> Vec<ResultRow> {
        let mut points = points(CONSOLE).unwrap();
        points[2] = points[1].clone();
        change(&mut points[2]);
        of_boot(&points, 1, "before").unwrap()
    }

    #[test]
    fn figures_begin_after_the_first_round() {
        let still = grown(|_| {});
        for row in still
            .iter()
            .filter(|row| !row.metric.starts_with("free_") && !row.metric.starts_with("blocks_"))
        {
            assert!(
                row.median == 0.0 || row.metric == "MemFree_kB",
                "{}",
                row.metric
            );
        }
        let rows = grown(|point| {
            *point.counters.get_mut("compact_stall").unwrap() += 7;
            *point.counters.get_mut("allocstall_movable").unwrap() += 3;
            *point.reclaims.entry(2).or_default() += 5;
            *point.reclaims.entry(3).or_default() += 1;
            *point.reclaims.entry(6).or_default() += 2;
            *point.compactions.entry(3).or_default() += 4;
            let events = |order, taken, mobility, count| FallbackEvents {
                order,
                taken,
                mobility,
                count,
            };
            point.fallbacks.push(events(0, 3, MOVABLE, 10));
            point.fallbacks.push(events(3, 3, 0, 20));
            point.fallbacks.push(events(1, 2, 2, 40));
            point.fallbacks.push(events(0, 9, MOVABLE, 80));
        });
        let expected = [
            ("compact_stall", 7.0),
            ("allocstall", 3.0),
            ("allocstall_order_1", 0.0),
            ("allocstall_order_2", 5.0),
            ("allocstall_order_3", 1.0),
            ("allocstall_order_4_up", 2.0),
            ("compact_order_3", 4.0),
            ("fallbacks", 150.0),
            ("fallbacks_movable", 90.0),
            ("fallbacks_splitting_order_2_3", 50.0),
        ];
        for (metric, count) in expected {
            assert_eq!(value(&rows, metric), count, "{metric}");
        }
    }

    #[test]
    fn memory_is_looked_at_on_average_after_the_first_round() {
        let mut points = points(CONSOLE).unwrap();
        points.push(points[2].clone());
        for (nth, free) in [(0, 1000), (1, 1000), (2, 10), (3, 20)] {
            points[nth].free.get_mut("Unmovable").unwrap()[2] = free;
            points[nth].memory.insert("MemFree".to_owned(), 100 * free);
        }
        let rows = of_boot(&points, 1, "before").unwrap();
        assert_eq!(value(&rows, "free_unmovable_order2"), 15.0);
        assert_eq!(value(&rows, "MemFree_kB"), 1500.0);
        for count in 0..3 {
            assert!(of_boot(&points[..count], 1, "before").is_err());
        }
    }

    #[test]
    fn kernels_that_were_not_asked_for_the_same_are_refused() {
        let points = points(CONSOLE).unwrap();
        let rows = |seed, variant| of_boot(&points, seed, variant).unwrap();
        let mut all = [rows(1, "before"), rows(1, "proposed"), rows(2, "before")].concat();
        assert_eq!(expect_same_demand(&all), Ok(()));
        let other = all
            .iter_mut()
            .find(|row| row.variant == "proposed" && row.metric == "asked_threads");
        other.unwrap().median += 1.0;
        let said = expect_same_demand(&all).unwrap_err();
        assert!(
            said.starts_with("seed/1, proposed: asked_threads is "),
            "{said}"
        );
    }

    #[test]
    fn seeds_become_a_median_and_a_range() {
        let points = points(CONSOLE).unwrap();
        let mut rows = [1, 2, 3]
            .map(|seed| of_boot(&points, seed, "before").unwrap())
            .concat();
        for (nth, row) in rows
            .iter_mut()
            .filter(|row| row.metric == "allocstall")
            .enumerate()
        {
            (row.median, row.min, row.max) = (nth as f64, nth as f64, nth as f64);
        }
        let all = with_sum(rows.clone());
        let row = all.iter().find(|row| row.metric == "allocstall").unwrap();
        assert_eq!((row.case.as_str(), row.n), (ALL_SEEDS, 3));
        assert_eq!((row.median, row.min, row.max), (1.0, 0.0, 2.0));
        assert_eq!(all[all.len() - rows.len()..], rows);
    }
}
