//! A row of a sweep: one combination and what came of it, flat, as a line of JSON.

use crate::ab::median;
use crate::measure::{Metric, replay as m};
use crate::replay::{ReplayOutcome, ReplayPolicy};
use serde::{Deserialize, Serialize};
use serde_json::Number;
use std::collections::BTreeMap;

/// What tells a combination from every other. A row that has the same is not replayed again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct CombinationKey {
    /// The digest of the trace.
    pub(super) trace: String,
    /// The digest of the files beside it that a replay reads.
    pub(super) beside: String,
    /// Frames held back.
    pub(super) squeeze: u64,
    /// Where the initial objects come to lie.
    pub(super) start: String,
    /// Whether requests are admitted by watermarks.
    pub(super) watermarks: String,
    /// The policy's name.
    pub(super) variant: String,
    /// The order of its operations; 0 is the recorded one.
    #[serde(default, skip_serializing_if = "is_recorded")]
    pub(super) interleaving: u32,
    /// The program's version and commit: another one may replay otherwise.
    pub(super) version: String,
    pub(super) commit: String,
}

impl CombinationKey {
    /// Whether the two differ in the order of their operations at most.
    pub(super) fn is_reordered(&self, other: &Self) -> bool {
        let recorded = |key: &Self| Self {
            interleaving: 0,
            ..key.clone()
        };
        recorded(self) == recorded(other)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
const fn is_recorded(interleaving: &u32) -> bool {
    *interleaving == 0
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CombinationRow {
    experiment: String,
    /// The recording's name.
    pub(super) case: String,
    #[serde(flatten)]
    pub(super) key: CombinationKey,
    /// Frames that are left.
    memory: u64,
    /// All figures, by metric.
    #[serde(flatten)]
    figures: BTreeMap<String, Number>,
}

impl CombinationRow {
    const EXPERIMENT: &'static str = "sweep";

    pub(super) fn new(
        case: &str,
        key: CombinationKey,
        memory: u64,
        outcome: &ReplayOutcome,
    ) -> Self {
        let values = outcome.values();
        let figure = |(metric, value): (Metric, f64)| (metric.name(), metric.number(value));
        Self {
            experiment: Self::EXPERIMENT.to_owned(),
            case: case.to_owned(),
            key,
            memory,
            figures: values.into_iter().map(figure).collect(),
        }
    }

    /// The row in a line; what is wrong with it, and what was expected.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let expected = "expected a row of framewright sweep";
        let row: Self = serde_json::from_str(line).map_err(|e| format!("{e}, {expected}"))?;
        match row.experiment.as_str() {
            Self::EXPERIMENT => Ok(row),
            _ => Err(format!("a row of another experiment, {expected}")),
        }
    }

    /// Whether the two say the same; the recording may have had another name.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.key == other.key && self.figures == other.figures
    }

    /// What is wrong with a row of a combination that `other` is of, too.
    pub(super) fn conflict(&self, other: &Self) -> String {
        let metric = self
            .figures
            .iter()
            .find(|(name, value)| other.figures.get(*name) != Some(value));
        let metric = metric.map_or("a figure", |(name, _)| name);
        format!(
            "a second row of {} under {}, with another {metric}, expected one row of each combination",
            self.case, self.key.variant
        )
    }

    /// Whether a row, or what is left of one, may begin so. Zeros are what a file system leaves of it.
    pub(super) fn may_begin(torn: &[u8]) -> bool {
        let zeros = torn.iter().rev().take_while(|&&byte| byte == 0).count();
        let torn = &torn[..torn.len() - zeros];
        let begin = format!("{{\"experiment\":\"{}\",", Self::EXPERIMENT);
        torn.iter().zip(begin.as_bytes()).all(|(a, b)| a == b)
    }

    pub(super) fn line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The order of a finished file: by recording, then as the options are, and policies as the command lists them.
    pub(super) fn place(&self) -> impl Ord + use<> {
        let policy = ReplayPolicy::ALL
            .iter()
            .position(|policy| policy.name() == self.key.variant);
        let case = self.case.clone();
        let CombinationKey {
            trace,
            beside,
            squeeze,
            start,
            watermarks,
            interleaving,
            ..
        } = self.key.clone();
        (
            case,
            trace,
            beside,
            squeeze,
            start,
            watermarks,
            policy,
            interleaving,
            self.key.clone(),
        )
    }

    fn figure(&self, metric: Metric) -> Option<f64> {
        self.figures.get(&metric.name())?.as_f64()
    }

    /// What choices are compared by: failures of orders 2 and 3, contaminated blocks, and the unusable index of order 9.
    pub(super) fn costs(&self) -> Option<[f64; 3]> {
        let failures = [2, 3].map(|order| self.figure(m::FAILURES.of(order)));
        Some([
            failures[0]? + failures[1]?,
            self.figure(m::CONTAMINATED_BLOCKS)?,
            self.figure(m::UNUSABLE_INDEX.of(9))?,
        ])
    }
}

/// What a combination costs over all its orders.
pub(super) struct CostRange {
    pub(super) median: [f64; 3],
    pub(super) least: [f64; 3],
    pub(super) most: [f64; 3],
    orders: usize,
}

impl CostRange {
    /// Of rows that differ in nothing else; nothing where a figure is missing.
    pub(super) fn of(rows: &[&CombinationRow]) -> Option<Self> {
        let all = rows.iter().map(|row| row.costs());
        Self::of_costs(all.collect::<Option<_>>()?)
    }

    /// Of the costs of each order; nothing of none.
    pub(super) fn of_costs(all: Vec<[f64; 3]>) -> Option<Self> {
        let each = |of: fn(&[f64]) -> f64| {
            [0, 1, 2].map(|nth: usize| of(&all.iter().map(|costs| costs[nth]).collect::<Vec<_>>()))
        };
        (!all.is_empty()).then(|| Self {
            median: each(median),
            least: each(|values| values.iter().copied().fold(f64::INFINITY, f64::min)),
            most: each(|values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            orders: all.len(),
        })
    }

    /// The `nth` cost, which is in that metric.
    pub(super) fn shown(&self, metric: Metric, nth: usize) -> String {
        let [median, least, most] =
            [self.median, self.least, self.most].map(|costs| metric.shown(costs[nth]));
        match self.orders {
            1 => median,
            _ => format!("{median} ({least} to {most})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(interleaving: u32, contaminated: f64) -> CombinationRow {
        let line = format!(
            r#"{{"experiment":"sweep","case":"a","trace":"t","beside":"b","squeeze":0,"start":"fresh","watermarks":"off","variant":"linux-4.4","interleaving":{interleaving},"version":"1","commit":"c","memory":1,"failures_order2":1,"failures_order3":2,"contaminated_blocks":{contaminated},"unusable_index_order9":0.5}}"#
        );
        CombinationRow::read(&line).unwrap()
    }

    #[test]
    fn orders_of_a_combination_have_a_median_a_least_and_a_most() {
        let rows = [row(0, 4.0), row(1, 9.0), row(2, 5.0), row(3, 6.0)];
        assert!(rows[0].key.is_reordered(&rows[3].key) && rows[0].key != rows[3].key);
        let of = |orders: usize| {
            let rows: Vec<&CombinationRow> = rows[..orders].iter().collect();
            let range = CostRange::of(&rows).unwrap();
            (range.median, range.shown(m::CONTAMINATED_BLOCKS, 1))
        };
        assert_eq!(of(1), ([3.0, 4.0, 0.5], "4.0".into()));
        assert_eq!(of(2), ([3.0, 6.5, 0.5], "6.5 (4.0 to 9.0)".into()));
        assert_eq!(of(3), ([3.0, 5.0, 0.5], "5.0 (4.0 to 9.0)".into()));
        assert_eq!(of(4), ([3.0, 5.5, 0.5], "5.5 (4.0 to 9.0)".into()));
        assert!(CostRange::of(&[]).is_none());
    }
}
