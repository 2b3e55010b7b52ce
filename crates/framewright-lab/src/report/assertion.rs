use super::Case;
use crate::measure::Metric;
use crate::replay::Policy;
use std::fmt;
use std::str::FromStr;

/// One side of an assertion.
#[derive(Debug, Clone, PartialEq)]
enum Side {
    Number(f64),
    Figure { variant: String, metric: Metric },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    AtMost,
    AtLeast,
    Equal,
    NotEqual,
    Less,
    Greater,
}

impl Relation {
    /// Longest first, so that `<=` is not read as `<`.
    const ALL: [(&'static str, Self); 6] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    /// What stands before and behind the first relation.
    pub(super) fn split(text: &str) -> Result<(&str, Self, &str), AssertionError> {
        let found = Self::ALL
            .into_iter()
            .filter_map(|(sign, relation)| Some((text.find(sign)?, sign, relation)))
            .min_by_key(|&(at, sign, _)| (at, std::cmp::Reverse(sign.len())));
        let Some((at, sign, relation)) = found else {
            return Err(AssertionError(format!(
                "'{text}' has no relation, expected VARIANT.METRIC or a number on each side of \
                 <=, >=, ==, !=, < or >"
            )));
        };
        Ok((&text[..at], relation, &text[at + sign.len()..]))
    }

    pub(super) fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::AtMost => a <= b,
            Self::AtLeast => a >= b,
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::Less => a < b,
            Self::Greater => a > b,
        }
    }
}

/// What must hold of the figures, in every case:
/// `concentrated.contaminated_blocks<=linux-4.4.contaminated_blocks`, `framewright.failures_order3==0`.
///
/// `VARIANT.METRIC` or a number on each side of `<=`, `>=`, `==`, `!=`, `<` or `>`. The variant is
/// a policy's name or alias, or `linux` for what the recording kernel did.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    text: String,
    left: Side,
    relation: Relation,
    right: Side,
}

/// Whether an assertion held in one case, with its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Whether it held.
    pub held: bool,
    /// `CASE: ASSERTION: LEFT RELATION RIGHT`.
    pub figures: String,
}

/// Why an assertion cannot be read or checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssertionError(String);

impl AssertionError {
    pub(super) const fn new(what: String) -> Self {
        Self(what)
    }
}

impl fmt::Display for AssertionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AssertionError {}

impl FromStr for Assertion {
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
    // At the last point: the names of policies contain some, the names of metrics none.
    let Some((variant, metric)) = text.rsplit_once('.') else {
        return Err(AssertionError(format!(
            "'{text}' is neither VARIANT.METRIC nor a number"
        )));
    };
    let Some(metric) = Metric::from_name(metric) else {
        return Err(AssertionError(format!(
            "there is no metric '{metric}', expected one of docs/metrics.md, as \
             contaminated_blocks or failures_order3"
        )));
    };
    let variant = match variant.parse::<Policy>() {
        Ok(policy) => policy.name().to_owned(),
        Err(_) if variant == "linux" => variant.to_owned(),
        Err(error) => return Err(AssertionError(error.to_string())),
    };
    Ok(Side::Figure { variant, metric })
}

impl Assertion {
    /// Checks it on one case.
    ///
    /// # Errors
    /// If the case has no such figure: the policy was not replayed, or the metric has no value.
    pub fn check(&self, case: &Case) -> Result<Held, AssertionError> {
        let value = |side: &Side| match side {
            Side::Number(number) => Ok(*number),
            Side::Figure { variant, metric } => {
                let column = case.column(variant);
                column
                    .and_then(|column| column.values.get(metric).copied())
                    .ok_or_else(|| {
                        let name = metric.name();
                        AssertionError(format!(
                            "{}: there is no figure {variant}.{name}",
                            case.name
                        ))
                    })
            }
        };
        let (left, right) = (value(&self.left)?, value(&self.right)?);
        let held = self.relation.holds(left, right);
        let word = if held { "holds" } else { "does not hold" };
        Ok(Held {
            held,
            figures: format!("{}: {} {word}: {left} and {right}", case.name, self.text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Column, Source};

    fn case() -> Case {
        let values = [(Metric::Failures(3), 2.0), (Metric::UnusableIndex(3), 0.25)];
        let column = Column {
            variant: Policy::ALL[0].name().into(),
            source: Source::Simulated,
            values: values.into(),
        };
        Case {
            name: "t/imposed/b0".into(),
            ops: 1,
            columns: vec![column],
            anomalies: Vec::new(),
            calibration: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_relation_is_read_and_checked() {
        let name = Policy::ALL[0].name();
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
    fn what_cannot_be_read_is_named() {
        let error = |text: &str| text.parse::<Assertion>().unwrap_err().to_string();
        assert!(error("a.b").contains("has no relation"));
        assert!(error("failures<=3").contains("'failures' is neither"));
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
