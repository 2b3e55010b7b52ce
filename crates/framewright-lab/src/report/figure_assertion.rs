//! Assertions over an experiment's own figures: the grammar of `statement`, with other names than a replay's.

use super::statement::{AssertionError, AssertionHeld, Statement};
use super::{Figure, FigureSource};
use std::fmt;
use std::str::FromStr;

/// A variant's metric, by their names.
#[derive(Debug, Clone, PartialEq)]
struct VariantMetric {
    variant: String,
    metric: String,
}

impl fmt::Display for VariantMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.variant, self.metric)
    }
}

/// What must hold of an experiment's own figures, in every case: `framewright.allocstall<=proposed.allocstall`.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureAssertion(Statement<VariantMetric>);

impl FromStr for FigureAssertion {
    type Err = AssertionError;

    fn from_str(text: &str) -> Result<Self, AssertionError> {
        let figure = |variant: &str, metric: &str| {
            Ok(VariantMetric {
                variant: variant.to_owned(),
                metric: metric.to_owned(),
            })
        };
        Statement::read(text, figure).map(Self)
    }
}

impl FigureAssertion {
    /// Checks it on one case's figures; a document's own are not among them.
    ///
    /// # Errors
    /// If the case has no such figure: the variant was not run, or there is no metric of that name.
    pub fn check(&self, case: &str, figures: &[Figure]) -> Result<AssertionHeld, AssertionError> {
        self.0.check(case, |named| {
            let found = figures.iter().find(|figure| {
                figure.case == case
                    && figure.source != FigureSource::Published
                    && figure.variant == named.variant
                    && figure.metric.name() == named.metric
            });
            found.map(|figure| figure.value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::fallback::metrics as m;

    #[test]
    fn an_assertion_is_checked_on_a_cases_own_figures() {
        let figure = |variant, value, source| Figure {
            case: "seed/1".to_owned(),
            variant,
            metric: m::ALLOCSTALL,
            value,
            source,
        };
        let figures = [
            figure("proposed", 1.0, FigureSource::Published),
            figure("proposed", 20.0, FigureSource::Simulated),
            figure("framewright", 3.0, FigureSource::Simulated),
        ];
        let check = |text: &str| {
            text.parse::<FigureAssertion>()
                .unwrap()
                .check("seed/1", &figures)
        };
        let held = check("framewright.allocstall<=proposed.allocstall").unwrap();
        assert!(held.held, "{}", held.figures);
        assert!(!check("proposed.allocstall < 20").unwrap().held);
        let missing = check("before.allocstall==0").unwrap_err().to_string();
        assert_eq!(missing, "seed/1: there is no figure before.allocstall");
        let error = "allocstall<=3".parse::<FigureAssertion>().unwrap_err();
        assert!(error.to_string().contains("neither VARIANT.METRIC"));
    }
}
