//! Assertions over the columns of a replay's report. The grammar is `statement`'s; this file says which names there
//! are and where their figures stand.

use super::ReportCase;
use super::replayed::AS_SET;
use super::statement::{AssertionError, AssertionHeld, Statement};
use crate::measure::Metric;
use crate::measure::metric::metric_named;
use crate::measure::replay::TABLE;
use crate::replay::{ModelledSetting, ReplayPolicy};
use std::fmt;
use std::str::FromStr;

/// A policy's metric.
#[derive(Debug, Clone, PartialEq)]
struct PolicyMetric {
    variant: String,
    metric: Metric,
}

impl fmt::Display for PolicyMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.variant, self.metric.name())
    }
}

/// What must hold of the figures of a replay, in every case:
/// `concentrated.contaminated_blocks<=linux-4.4.contaminated_blocks`, `framewright.failures_order3==0`.
///
/// The variant is a policy's name or alias, `linux` for what the recording kernel did, or of settings that were tried `as-set`
/// or one with its value, as `vm.defrag_mode=1`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion(Statement<PolicyMetric>);

impl FromStr for Assertion {
    type Err = AssertionError;

    fn from_str(text: &str) -> Result<Self, AssertionError> {
        let figure = |variant: &str, metric: &str| {
            let Some(metric) = metric_named(TABLE, metric) else {
                return Err(AssertionError::new(format!(
                    "there is no metric '{metric}', expected one of docs/metrics.md, as \
                     contaminated_blocks or failures_order3"
                )));
            };
            let variant = match variant.parse::<ReplayPolicy>() {
                Ok(policy) => policy.name().to_owned(),
                Err(_) if variant == "linux" || is_setting(variant) => variant.to_owned(),
                Err(error) => return Err(AssertionError::new(error.to_string())),
            };
            Ok(PolicyMetric { variant, metric })
        };
        Statement::read(text, figure).map(Self)
    }
}

impl Assertion {
    /// Checks it on one case.
    ///
    /// # Errors
    /// If the case has no such figure: the policy was not replayed, or the metric has no value.
    pub fn check(&self, case: &ReportCase) -> Result<AssertionHeld, AssertionError> {
        self.0.check(&case.name, |figure| {
            let values = case.values(&figure.variant)?;
            values.get(&figure.metric).copied()
        })
    }
}

/// Whether a row of settings may have that name.
fn is_setting(variant: &str) -> bool {
    let is_modelled = |(name, value): (&str, &str)| {
        let mut all = ModelledSetting::ALL.into_iter();
        all.any(|setting| setting.name() == name) && value.parse::<u64>().is_ok()
    };
    variant == AS_SET || variant.split_once('=').is_some_and(is_modelled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::replay as m;
    use crate::replay::ReplayOutcome;
    use crate::report::{FigureSource, ReportColumn, SettingsReport};

    fn case() -> ReportCase {
        let values = [(m::FAILURES.of(3), 2.0), (m::UNUSABLE_INDEX.of(3), 0.25)];
        let column = ReportColumn {
            variant: ReplayPolicy::ALL[0].name().into(),
            source: FigureSource::Simulated,
            values: values.into(),
        };
        ReportCase {
            name: "t/imposed/b0".into(),
            ops: 1,
            columns: vec![column],
            anomalies: Vec::new(),
            calibration: None,
            owners: None,
            settings: None,
            answer: None,
            who: None,
            hollow: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_relation_is_read_and_checked() {
        let name = ReplayPolicy::ALL[0].name();
        for (relation, held) in [
            ("<=", true),
            (">=", true),
            ("==", true),
            ("!=", false),
            ("<", false),
            (">", false),
        ] {
            let text = format!("{name}.failures_order3 {relation} 2");
            let result = text.parse::<Assertion>().unwrap().check(&case()).unwrap();
            assert_eq!(result.held, held, "{text}");
        }
        let text = format!("{name}.unusable_index_order3<{name}.failures_order3");
        let result = text.parse::<Assertion>().unwrap().check(&case()).unwrap();
        assert_eq!(
            result.figures,
            format!("t/imposed/b0: {text} holds: 0.25 and 2")
        );
    }

    #[test]
    fn a_setting_that_was_tried_is_a_variant() {
        let mut outcome = ReplayOutcome::new("linux-6.12", 1);
        outcome.failures[3] = 40;
        let mut settings = SettingsReport::new(&outcome, false, None);
        outcome.failures[3] = 2;
        settings.add("vm.defrag_mode=1".into(), &outcome);
        let case = ReportCase {
            settings: Some(settings),
            ..case()
        };
        let text = "vm.defrag_mode=1.failures_order3<as-set.failures_order3";
        let held = text.parse::<Assertion>().unwrap().check(&case).unwrap();
        assert_eq!(
            held.figures,
            format!("t/imposed/b0: {text} holds: 2 and 40")
        );
        for other in ["vm.defrag_mode", "vm.defrag_mode=x", "vm.swappiness=1"] {
            let text = format!("{other}.failures_order3==0");
            assert!(text.parse::<Assertion>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = |text: &str| text.parse::<Assertion>().unwrap_err().to_string();
        assert!(error("a.b").contains("has no relation"));
        assert!(error("failures<=3").contains("'failures' is neither"));
        for endless in ["nan", "inf", "-inf"] {
            let text = format!("linux.failures_order3!={endless}");
            assert!(error(&text).contains("is neither"), "{text}");
        }
        assert!(error("concentrated.failures_order33<=3").contains("no metric 'failures_order33'"));
        assert!(error("linux-9.failures_order3<=3").contains("there is no policy 'linux-9'"));
        let missing = "linux.failures_order3<=3".parse::<Assertion>().unwrap();
        let error = missing.check(&case()).unwrap_err().to_string();
        assert_eq!(
            error,
            "t/imposed/b0: there is no figure linux.failures_order3"
        );
    }
}
