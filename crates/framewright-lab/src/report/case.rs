//! The figures of one input under one start: columns by variant, the calibration, and what makes them hollow. All
//! forms of a report (text, page, JSON) are made from this and add nothing.

use super::{Answer, Hollow, WhoReport};
use crate::measure::Metric;
use crate::replay::ReplayOutcome;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureSource {
    /// Observed on a real machine: a recording, or this machine's clock.
    Measured,
    /// The outcome of a replay or a model.
    Simulated,
    /// Taken from a document.
    Published,
}

/// The figures of one variant: a policy, or what Linux itself did.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportColumn {
    /// The policy's name, or `linux`.
    pub variant: String,
    /// Where its figures come from.
    pub source: FigureSource,
    /// The figures; a metric that the variant has no value for is absent.
    pub values: BTreeMap<Metric, f64>,
}

impl ReportColumn {
    /// The figures of a replay.
    #[must_use]
    pub fn of(outcome: &ReplayOutcome) -> Self {
        Self {
            variant: outcome.policy.to_owned(),
            source: FigureSource::Simulated,
            values: outcome.values(),
        }
    }
}

/// How far the model of the recording kernel is from what that kernel did, for one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// What Linux itself had.
    pub linux: f64,
    /// What its model has, from the same start.
    pub model: f64,
    /// The calibration error: a difference between policies that is not larger means nothing.
    ///
    /// For a mean over samples the mean of the absolute differences at each sample, so that
    /// errors of opposite sign do not cancel; for a count the absolute difference.
    pub error: f64,
}

impl Deviation {
    /// Whether there is nothing that it could have been off by: the figure was 0 on the machine and in the model.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.linux == 0.0 && self.model == 0.0 && self.error == 0.0
    }
}

/// The replay of the recording kernel's own policy, compared with what that kernel did.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The policy that stands for the recording kernel.
    pub model: &'static str,
    /// The samples compared.
    pub samples: u64,
    /// The error by metric; a metric that the recording does not have is absent.
    pub deviations: BTreeMap<Metric, Deviation>,
}

impl Calibration {
    /// Whether `a` and `b` differ by more than the error; `None` where the error is not known, or is 0 because nothing
    /// of the kind happened.
    #[must_use]
    pub fn tells_apart(&self, metric: Metric, a: f64, b: f64) -> Option<bool> {
        let deviation = self.deviations.get(&metric)?;
        if deviation.is_empty() {
            return None;
        }
        Some((a - b).abs() > deviation.error)
    }
}

/// One input under one start.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportCase {
    /// Input, start mode and squeeze: `fileA/imposed/b0`.
    pub name: String,
    /// Operations replayed.
    pub ops: u64,
    /// A column a variant, in the order asked for.
    pub columns: Vec<ReportColumn>,
    /// What the input could not mean as it stands, by kind.
    pub anomalies: Vec<(String, u64)>,
    /// The model's error, where the recording comes with what Linux itself did.
    pub calibration: Option<Calibration>,
    /// Why its figures say less than they seem to.
    pub hollow: Vec<Hollow>,
    /// What a reader must know besides, a sentence each.
    pub notes: Vec<String>,
    /// The askers, where the recording names them.
    pub who: Option<WhoReport>,
    /// What stands before its table, where it was asked for.
    pub answer: Option<Answer>,
}

impl ReportCase {
    /// The column of that variant.
    #[must_use]
    pub fn column(&self, variant: &str) -> Option<&ReportColumn> {
        self.columns.iter().find(|column| column.variant == variant)
    }
}
