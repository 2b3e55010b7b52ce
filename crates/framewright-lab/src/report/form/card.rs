//! A verdict as a page shows it before any table: one figure, one sentence, one plot.

use super::Item;

/// A number that is read first, and what it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardFigure {
    /// The number, with its unit.
    pub value: String,
    /// What it is of, in the few words that stand behind it.
    pub what: String,
}

impl CardFigure {
    /// This value of that.
    pub(crate) fn new(value: impl Into<String>, what: impl Into<String>) -> Self {
        let (value, what) = (value.into(), what.into());
        Self { value, what }
    }
}

/// A verdict.
#[derive(Debug, Clone)]
pub struct Card {
    /// One of its section's sentences.
    pub verdict: String,
    /// What it comes to in one number.
    pub figure: CardFigure,
    /// What shows it; a page draws only plots.
    pub plot: Option<Item>,
}
