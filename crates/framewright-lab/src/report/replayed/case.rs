//! The figures of one input under one start: columns by variant, the calibration, and what makes them hollow. All
//! forms of a report (text, page, JSON) are made from this and add nothing.

use crate::measure::Metric;
use crate::replay::ReplayOutcome;
use crate::report::{
    Answer, Deviation, FigureSource, Hollow, OwnersReport, SettingsReport, WhoReport,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// The holders in a dump of `page_owner`, where one was given.
    pub owners: Option<OwnersReport>,
    /// Settings of the recorded kernel, where some were tried.
    pub settings: Option<SettingsReport>,
    /// What stands before its table, where it was asked for.
    pub answer: Option<Answer>,
}

impl ReportCase {
    /// All columns, those of settings last: figures as every form of output has them.
    pub fn all_columns(&self) -> impl Iterator<Item = Cow<'_, ReportColumn>> {
        let settings = self.settings.iter().flat_map(SettingsReport::figures);
        let settings = settings.map(|(variant, values)| {
            Cow::Owned(ReportColumn {
                variant: variant.to_owned(),
                source: FigureSource::Simulated,
                values: values.clone(),
            })
        });
        self.columns.iter().map(Cow::Borrowed).chain(settings)
    }

    /// The figures of that variant: of a column, or of the settings that were tried.
    #[must_use]
    pub fn values(&self, variant: &str) -> Option<&BTreeMap<Metric, f64>> {
        let columns = self.columns.iter();
        let columns = columns.map(|column| (column.variant.as_str(), &column.values));
        let settings = self.settings.iter().flat_map(SettingsReport::figures);
        let mut all = columns.chain(settings);
        all.find(|(name, _)| *name == variant)
            .map(|(_, values)| values)
    }

    /// The column of that variant.
    #[must_use]
    pub fn column(&self, variant: &str) -> Option<&ReportColumn> {
        self.columns.iter().find(|column| column.variant == variant)
    }
}
