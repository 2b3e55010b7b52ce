//! Settings of the recorded kernel that were tried on its recording: a row each, below the kernel as it was set. All replays
//! behind it have the same rules, but where the setting is about rules, and the same model of a background.

use crate::measure::{MAX_ORDER, Metric, grouped, replay as m};
use crate::replay::ReplayOutcome;
use crate::report::{Grid, GridRow, Heading, Note, Tabled};
use std::collections::BTreeMap;

/// The variant of the kernel as it was set.
const AS_SET: &str = "as-set";

/// Orders that have a column at most.
const ORDERS_MAX: usize = 3;

/// What a replay under a setting came to.
#[derive(Debug, Clone, PartialEq)]
struct SettingRow {
    /// [`AS_SET`], or the setting with its value.
    variant: String,
    values: BTreeMap<Metric, f64>,
    failed: [u64; MAX_ORDER + 1],
    stalled: u64,
    fallbacks: u64,
}

/// Settings that were tried on a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingsReport {
    rules: &'static str,
    rows: Vec<SettingRow>,
}

impl SettingsReport {
    /// Of the kernel as it was set, which has the rules of its outcome.
    #[must_use]
    pub fn new(as_set: &ReplayOutcome, failed: [u64; MAX_ORDER + 1]) -> Self {
        let mut report = Self {
            rules: as_set.policy,
            rows: Vec::new(),
        };
        report.add(AS_SET.to_owned(), as_set, failed);
        report
    }

    /// Adds a row: a setting with its value, and what a replay under it came to; `failed` as the answer counts it.
    pub fn add(&mut self, variant: String, outcome: &ReplayOutcome, failed: [u64; MAX_ORDER + 1]) {
        self.rows.push(SettingRow {
            variant,
            values: outcome.values(),
            failed,
            stalled: outcome.stalled.iter().sum(),
            fallbacks: outcome.mixing_fallbacks(),
        });
    }

    /// The figures by variant, the kernel as it was set first.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &BTreeMap<Metric, f64>)> {
        self.rows
            .iter()
            .map(|row| (row.variant.as_str(), &row.values))
    }

    /// As a table.
    #[must_use]
    pub fn tabled(&self, case: &str) -> Tabled {
        let sum = |order: usize| -> u64 { self.rows.iter().map(|row| row.failed[order]).sum() };
        let mut orders: Vec<usize> = (0..=MAX_ORDER).filter(|&order| sum(order) > 0).collect();
        orders.sort_by_key(|&order| std::cmp::Reverse(sum(order)));
        orders.truncate(ORDERS_MAX);
        orders.sort_unstable();
        let titles = orders.iter().map(|order| format!("order {order}\nfails"));
        let titles = titles
            .chain(["requests\nwait", "fall-\nbacks", "contaminated_\nblocks"].map(str::to_owned));
        let heading = |title| Heading {
            title,
            accent: None,
            is_published: false,
            is_base: false,
        };
        let row = |row: &SettingRow| {
            let failed = orders.iter().map(|&order| row.failed[order]);
            let counts = failed.chain([row.stalled, row.fallbacks]);
            let mixed = row.values.get(&m::CONTAMINATED_BLOCKS);
            let mixed = mixed.map_or_else(
                || "-".to_owned(),
                |&value| m::CONTAMINATED_BLOCKS.shown(value),
            );
            GridRow {
                labels: vec![row.variant.clone()],
                unit: String::new(),
                cells: counts
                    .map(|count| grouped(count as f64))
                    .chain([mixed])
                    .collect(),
            }
        };
        Tabled {
            caption: format!("{case}: settings of the recorded kernel, under the rules of {}", self.rules),
            grid: Grid {
                labels: 1,
                headings: titles.map(heading).collect(),
                rows: self.rows.iter().map(row).collect(),
            },
            notes: vec![Note::Text(
                "what a kernel reclaims and compacts for a setting is in no replay, and what it reclaimed as it was set is in \
                 each; all have the same model of a background"
                    .into(),
            )],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_each_stands_below_the_kernel_as_it_was_set() {
        let mut outcome = ReplayOutcome::new("linux-6.12", 1);
        let mut failed = [0; MAX_ORDER + 1];
        (failed[2], failed[3], failed[4], failed[9]) = (1, 40, 7, 9);
        outcome.stalled[3] = 1_234;
        outcome.fallbacks = [[5, 1, 2], [0, 9, 0], [3, 0, 0]];
        let mut report = SettingsReport::new(&outcome, failed);
        outcome.stalled = [0; MAX_ORDER + 1];
        failed[3] = 0;
        report.add("vm.watermark_boost_factor=0".into(), &outcome, failed);
        let text = report.tabled("t/imposed/b0").text();
        assert!(
            text.starts_with(
                "t/imposed/b0: settings of the recorded kernel, under the rules of linux-6.12"
            ),
            "{text}"
        );
        let cells = |name: &str| -> Vec<String> {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name))
                .unwrap();
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(cells("as-set")[1..6], ["40", "7", "9", "1 234", "6"]);
        assert_eq!(
            cells("vm.watermark_boost_factor=0")[1..6],
            ["0", "7", "9", "0", "6"]
        );
        let variants: Vec<&str> = report.figures().map(|(variant, _)| variant).collect();
        assert_eq!(variants, [AS_SET, "vm.watermark_boost_factor=0"]);
    }
}
