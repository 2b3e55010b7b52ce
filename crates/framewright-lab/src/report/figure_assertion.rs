use super::assertion::{AssertionError, Held, Relation};
use super::{Figure, FigureMetric, Source};
use std::str::FromStr;

/// One side: a number, or a variant's metric by their names.
#[derive(Debug, Clone, PartialEq)]
enum Side {
    Number(f64),
    Figure { variant: String, metric: String },
}

/// What must hold of an experiment's own figures, in every case: `framewright.allocstall<=proposed.allocstall`.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureAssertion {
    text: String,
    left: Side,
    relation: Relation,
    right: Side,
}

impl FromStr for FigureAssertion {
    type Err = AssertionError;

    fn from_str(text: &str) -> Result<Self, AssertionError> {
        let (left, relation, right) = Relation::split(text)?;
        Ok(Self {
            text: text.to_owned(),
            left: side(left)?,
            relation,
            right: side(right)?,
        })
    }
}

fn side(text: &str) -> Result<Side, AssertionError> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return Ok(Side::Number(number));
    }
    match text.split_once('.') {
        Some((variant, metric)) => Ok(Side::Figure {
            variant: variant.to_owned(),
            metric: metric.to_owned(),
        }),
        None => Err(AssertionError::new(format!(
            "'{text}' is neither VARIANT.METRIC nor a number"
        ))),
    }
}

impl FigureAssertion {
    /// Checks it on one case's figures; a document's own are not among them.
    ///
    /// # Errors
    /// If the case has no such figure: the variant was not run, or there is no metric of that name.
    pub fn check<M: FigureMetric>(
        &self,
        case: &str,
        figures: &[Figure<M>],
    ) -> Result<Held, AssertionError> {
        let value = |side: &Side| match side {
            Side::Number(number) => Ok(*number),
            Side::Figure { variant, metric } => {
                let found = figures.iter().find(|figure| {
                    figure.case == case
                        && figure.source != Source::Published
                        && figure.variant == variant
                        && figure.metric.name() == *metric
                });
                found.map(|figure| figure.value).ok_or_else(|| {
                    AssertionError::new(format!("{case}: there is no figure {variant}.{metric}"))
                })
            }
        };
        let (left, right) = (value(&self.left)?, value(&self.right)?);
        let held = self.relation.holds(left, right);
        let word = if held { "holds" } else { "does not hold" };
        Ok(Held {
            held,
            figures: format!("{case}: {} {word}: {left} and {right}", self.text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::PressureMetric;

    #[test]
    fn an_assertion_is_checked_on_a_cases_own_figures() {
        let figure = |variant, value, source| Figure {
            case: "seed/1".to_owned(),
            variant,
            metric: PressureMetric::Allocstall,
            value,
            source,
        };
        let figures = [
            figure("proposed", 1.0, Source::Published),
            figure("proposed", 20.0, Source::Simulated),
            figure("framewright", 3.0, Source::Simulated),
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
