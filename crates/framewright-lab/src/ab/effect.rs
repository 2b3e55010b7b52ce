//! What a setting does to a figure, by the ranges of runs or of a prediction: both are judged by the same rule, and by the
//! same median.

use serde::{Deserialize, Serialize};

/// What a setting did to a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AbEffect {
    /// Every run of B had less than every run of A.
    Less,
    /// The ranges overlap.
    None,
    /// Every run of B had more than every run of A.
    More,
}

impl AbEffect {
    /// By the ranges of both arms' runs.
    #[must_use]
    pub fn between(a: &[f64], b: &[f64]) -> Self {
        let range = |of: &[f64]| {
            let least = of.iter().copied().fold(f64::INFINITY, f64::min);
            (least, of.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        };
        let ((a_least, a_most), (b_least, b_most)) = (range(a), range(b));
        match (b_most < a_least, b_least > a_most) {
            (true, _) => Self::Less,
            (_, true) => Self::More,
            _ => Self::None,
        }
    }

    /// What a range of a change says.
    #[must_use]
    pub fn of_range([low, high]: [f64; 2]) -> Self {
        match (high < 0.0, low > 0.0) {
            (true, _) => Self::Less,
            (_, true) => Self::More,
            _ => Self::None,
        }
    }

    /// One character for tables.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Less => "-",
            Self::None => "0",
            Self::More => "+",
        }
    }
}

/// The middle of some values, the mean of the two in the middle of an even number; 0 of none.
#[must_use]
pub fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}
