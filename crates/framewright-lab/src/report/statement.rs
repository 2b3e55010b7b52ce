//! What must hold of figures, whatever their kind: two sides and a relation.

use std::fmt;

/// One side: a number, or a figure by its names.
#[derive(Debug, Clone, PartialEq)]
enum AssertionSide<F> {
    Number(f64),
    Figure(F),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
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
    fn split(text: &str) -> Result<(&str, Self, &str), AssertionError> {
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

    fn holds(self, a: f64, b: f64) -> bool {
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

/// Whether an assertion held in one case, with its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct AssertionHeld {
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

/// `VARIANT.METRIC` or a number on each side of `<=`, `>=`, `==`, `!=`, `<` or `>`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement<F> {
    text: String,
    left: AssertionSide<F>,
    relation: Relation,
    right: AssertionSide<F>,
}

impl<F: fmt::Display> Statement<F> {
    /// Reads it; `figure` says what a variant's name and a metric's stand for.
    pub(super) fn read(
        text: &str,
        figure: impl Fn(&str, &str) -> Result<F, AssertionError>,
    ) -> Result<Self, AssertionError> {
        let side = |text: &str| {
            let text = text.trim();
            // What is no number, `nan`, is unequal to everything: the assertion could not fail.
            if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
                return Ok(AssertionSide::Number(number));
            }
            // At the last point: the names of variants contain some, the names of metrics none.
            match text.rsplit_once('.') {
                Some((variant, metric)) => figure(variant, metric).map(AssertionSide::Figure),
                None => Err(AssertionError(format!(
                    "'{text}' is neither VARIANT.METRIC nor a number"
                ))),
            }
        };
        let (left, relation, right) = Relation::split(text)?;
        Ok(Self {
            text: text.to_owned(),
            left: side(left)?,
            relation,
            right: side(right)?,
        })
    }

    /// Checks it on one case, whose figures `value` finds.
    pub(super) fn check(
        &self,
        case: &str,
        value: impl Fn(&F) -> Option<f64>,
    ) -> Result<AssertionHeld, AssertionError> {
        let value = |side: &AssertionSide<F>| match side {
            AssertionSide::Number(number) => Ok(*number),
            AssertionSide::Figure(figure) => value(figure)
                .ok_or_else(|| AssertionError(format!("{case}: there is no figure {figure}"))),
        };
        let (left, right) = (value(&self.left)?, value(&self.right)?);
        let held = self.relation.holds(left, right);
        let word = if held { "holds" } else { "does not hold" };
        Ok(AssertionHeld {
            held,
            figures: format!("{case}: {} {word}: {left} and {right}", self.text),
        })
    }
}
