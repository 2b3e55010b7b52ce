//! Settings of the recorded kernel that were tried on its recording: a row each, below the kernel as it was set. All replays
//! behind it have the same rules, but where the setting is about rules, and the same model of a background.

use crate::measure::{MAX_ORDER, Metric, grouped, replay as m};
use crate::replay::ReplayOutcome;
use crate::report::{Grid, GridRow, Heading, Note, Tabled};
use std::collections::BTreeMap;

/// The variant of the kernel as it was set.
pub(in crate::report) const AS_SET: &str = "as-set";

/// Orders that have a column at most.
const ORDERS_MAX: usize = 3;

/// What a replay under a setting came to.
#[derive(Debug, Clone, PartialEq)]
struct SettingRow {
    /// [`AS_SET`], or the setting with its value.
    variant: String,
    values: BTreeMap<Metric, f64>,
    /// What the machine served and fails here, as the metric has it.
    failed: [u64; MAX_ORDER + 1],
    /// What the machine refused and fails here, too: of the order that the answer is about, or of all where there is none.
    refused: u64,
    stalled: u64,
    fallbacks: u64,
}

/// Settings that were tried on a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingsReport {
    rules: &'static str,
    /// Whether memory is as recorded: then the answer counts what the machine refused, too.
    is_as_recorded: bool,
    /// The order that the answer is about.
    judged: Option<usize>,
    rows: Vec<SettingRow>,
}

impl SettingsReport {
    /// Of the kernel as it was set, which has the rules of its outcome.
    #[must_use]
    pub fn new(as_set: &ReplayOutcome, is_as_recorded: bool, judged: Option<usize>) -> Self {
        let mut report = Self {
            rules: as_set.policy,
            is_as_recorded,
            judged,
            rows: Vec::new(),
        };
        report.add(AS_SET.to_owned(), as_set);
        report
    }

    /// Adds a row: a setting with its value, and what a replay under it came to.
    pub fn add(&mut self, variant: String, outcome: &ReplayOutcome) {
        self.rows.push(SettingRow {
            variant,
            values: outcome.values(),
            failed: outcome.failures,
            refused: match (self.is_as_recorded, self.judged) {
                (false, _) => 0,
                (true, Some(order)) => outcome.met.counts.all[order],
                (true, None) => outcome.met.total(),
            },
            stalled: outcome.stalled.iter().sum(),
            fallbacks: outcome.mixing_fallbacks(),
        });
    }

    /// Adds figures to the last row, which its replay alone does not say.
    pub fn extend_last(&mut self, values: BTreeMap<Metric, f64>) {
        if let Some(row) = self.rows.last_mut() {
            row.values.extend(values);
        }
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
        // The one that the answer is about is never left out, also where all that fails of it the machine refused, too.
        let is_shown = |&order: &usize| sum(order) > 0 || self.judged == Some(order);
        let mut orders: Vec<usize> = (0..=MAX_ORDER).filter(is_shown).collect();
        orders.sort_by_key(|&order| (self.judged != Some(order), std::cmp::Reverse(sum(order))));
        let mut left_out = orders.split_off(orders.len().min(ORDERS_MAX));
        orders.sort_unstable();
        left_out.sort_unstable();
        let has_refused = self.rows.iter().any(|row| row.refused > 0);
        let titles = orders.iter().map(|order| format!("order {order}\nfails"));
        let titles = titles
            .chain(has_refused.then(|| match self.judged {
                Some(order) => format!("order {order} refused\nthere, fails here"),
                None => "refused there,\nfails here".to_owned(),
            }))
            .chain(["requests\nwait", "fall-\nbacks", "contaminated_\nblocks"].map(str::to_owned));
        let heading = |title| Heading {
            title,
            accent: None,
            is_published: false,
            is_base: false,
        };
        let row = |row: &SettingRow| {
            let failed = orders.iter().map(|&order| row.failed[order]);
            let refused = has_refused.then_some(row.refused);
            let counts = failed.chain(refused).chain([row.stalled, row.fallbacks]);
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
        let mut notes = vec![
            "what a kernel reclaims and compacts for a setting is in no replay, and what it reclaimed as it was set is in each; \
             all have the same model of a background"
                .to_owned(),
        ];
        if has_refused {
            let of = match self.judged {
                Some(order) => format!("of order {order}"),
                None => "of whatever order".to_owned(),
            };
            notes.push(format!(
                "what the machine itself refused and fails here, too, {of}, has a column of its own; the answer counts both"
            ));
        }
        if !left_out.is_empty() {
            let left_out: Vec<String> = left_out.iter().map(usize::to_string).collect();
            notes.push(format!(
                "not shown: failures of order {}",
                left_out.join(", ")
            ));
        }
        Tabled {
            caption: format!(
                "{case}: settings of the recorded kernel, under the rules of {}",
                self.rules
            ),
            grid: Grid {
                labels: 1,
                headings: titles.map(heading).collect(),
                rows: self.rows.iter().map(row).collect(),
            },
            notes: notes.into_iter().map(Note::Text).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_each_stands_below_the_kernel_as_it_was_set() {
        let mut outcome = ReplayOutcome::new("linux-6.12", 1);
        for (order, failed) in [(2, 1), (3, 40), (4, 7), (9, 9)] {
            outcome.failures[order] = failed;
        }
        (outcome.met.counts.all[2], outcome.met.counts.all[3]) = (5, 8);
        outcome.stalled[3] = 1_234;
        outcome.fallbacks = [[5, 1, 2], [0, 9, 0], [3, 0, 0]];
        let mut report = SettingsReport::new(&outcome, true, Some(2));
        outcome.stalled = [0; MAX_ORDER + 1];
        outcome.failures[3] = 0;
        report.add("vm.watermark_boost_factor=0".into(), &outcome);
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
        // The answer is about order 2, so one that fails more often has no place.
        assert_eq!(cells("as-set")[1..7], ["1", "40", "9", "5", "1 234", "6"]);
        assert_eq!(
            cells("vm.watermark_boost_factor=0")[1..7],
            ["1", "0", "9", "5", "0", "6"]
        );
        assert!(text.contains("not shown: failures of order 4"), "{text}");
        assert!(
            text.contains("fails here, too, of order 2, has a column of its own"),
            "{text}"
        );
        // Of another order all that fails here the machine refused, too; without one the column has all orders.
        outcome.met.counts.all[1] = 6;
        let cell = |judged, title: &str| -> String {
            let grid = SettingsReport::new(&outcome, true, judged).tabled("t").grid;
            let nth = grid.headings.iter().position(|one| one.title == title);
            grid.rows[0].cells[nth.unwrap()].clone()
        };
        assert_eq!(cell(Some(1), "order 1\nfails"), "0");
        assert_eq!(cell(Some(1), "order 1 refused\nthere, fails here"), "6");
        assert_eq!(cell(None, "refused there,\nfails here"), "19");
        // In less memory the answer does not count what the machine refused.
        let squeezed = SettingsReport::new(&outcome, false, None);
        assert!(!squeezed.tabled("t").text().contains("refused"));
        // As the rows of figures have it.
        for (row, (_, values)) in report.rows.iter().zip(report.figures()) {
            for order in 0..=MAX_ORDER {
                let failed = values.get(&m::FAILURES.of(order)).copied();
                assert_eq!(failed.unwrap_or(0.0), row.failed[order] as f64);
            }
        }
        let variants: Vec<&str> = report.figures().map(|(variant, _)| variant).collect();
        assert_eq!(variants, [AS_SET, "vm.watermark_boost_factor=0"]);
    }
}
