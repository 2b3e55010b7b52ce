//! What a report says, before it has a form: text and page are made from the same.

use crate::measure::Film;
use crate::report::{Accent, Distribution, Grid};

/// Something that stands below a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Sentences, broken where a terminal breaks them.
    Text(String),
    /// Lines in columns, shown as they stand.
    Listing(String),
}

/// A table with what stands above and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tabled {
    /// What it is a table of.
    pub caption: String,
    /// The figures.
    pub grid: Grid,
    /// What a reader must know of them.
    pub notes: Vec<Note>,
}

impl Tabled {
    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.caption, self.grid.text());
        for note in &self.notes {
            let (Note::Text(lines) | Note::Listing(lines)) = note;
            text += lines;
            if !lines.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}

/// A line of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotLine {
    /// What it is of.
    pub name: String,
    /// Its column, if it has one; lines without are drawn behind the others.
    pub accent: Option<Accent>,
    /// Whether a document's: drawn thin.
    pub is_published: bool,
    /// Time, or what is in its place, and value; ascending.
    pub points: Vec<(f64, f64)>,
    /// Of a line that only marks a place: that place.
    pub mark: Option<PlotMark>,
}

/// A place on a plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlotMark {
    /// By both axes.
    pub at: (f64, f64),
    /// Whether the line's name stands beside it.
    pub is_named: bool,
}

/// How axes are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Both from 0 on, evenly.
    Linear,
    /// Both by powers of ten; what is 0 or less has no place.
    Logarithmic,
}

/// Values over time, or over another quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct OverTime {
    /// What it shows.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub across: &'static str,
    /// Of both axes.
    pub scale: Scale,
    /// The vertical axis, with its unit.
    pub value: &'static str,
    /// The lines.
    pub lines: Vec<PlotLine>,
    /// What a reader must know.
    pub note: String,
}

/// How long calls took: of each the share that took no longer.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// What it shows.
    pub title: String,
    /// A line a variant.
    pub of: Vec<Distribution>,
    /// What a reader must know.
    pub note: String,
}

/// Pageblocks over time, a map a policy.
#[derive(Debug, Clone)]
pub struct BlockMaps {
    /// What it shows.
    pub title: String,
    /// The policies and what became of memory under each, at the same moments.
    pub films: Vec<(String, Film)>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Item {
    /// A table, in every form of a report.
    Table(Tabled),
    /// Sentences, in every form.
    Text(String),
    /// On a page only.
    OverTime(OverTime),
    /// On a page only.
    Latency(Latency),
    /// On a page only.
    Map(BlockMaps),
}

impl Item {
    /// Whether it is a plot.
    #[must_use]
    pub const fn is_plot(&self) -> bool {
        matches!(self, Self::OverTime(_) | Self::Latency(_))
    }

    /// A plot of latencies, if there are any.
    #[must_use]
    pub fn latencies(title: String, of: Vec<Distribution>) -> Option<Self> {
        let of: Vec<Distribution> = of.into_iter().filter(|one| one.shares.len() > 1).collect();
        (!of.is_empty()).then(|| {
            Self::Latency(Latency {
                title,
                of,
                note: "Each call timed by itself; both axes are logarithmic, the lower one in what is left: the \
                       further right, the rarer."
                    .into(),
            })
        })
    }
}

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
pub struct VerdictCard {
    /// One of its section's sentences.
    pub verdict: String,
    /// What it comes to in one number.
    pub figure: CardFigure,
    /// What shows it; a page draws only plots.
    pub plot: Option<Item>,
}

/// How long the main job runs everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Less than two minutes in all.
    Quick,
    /// As long as the documents did.
    Full,
}

/// What one question came to.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its name in addresses: letters and hyphens.
    pub id: String,
    /// The question.
    pub title: String,
    /// What was done, broken where a terminal breaks it.
    pub introduction: String,
    /// What came out.
    pub items: Vec<Item>,
    /// How each kind of figure was taken, for a page, which has room for it.
    pub method: &'static str,
    /// In one line: what was reproduced, by how much it differs, and why.
    pub summary: Vec<String>,
    /// Those of them that a page shows before everything else.
    pub cards: Vec<VerdictCard>,
}

impl Section {
    /// As text: what plots and maps show is left out.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}", self.title, self.introduction);
        for item in &self.items {
            match item {
                Item::Table(table) => {
                    text.push('\n');
                    text += &table.text();
                }
                Item::Text(lines) => {
                    text.push('\n');
                    text += lines;
                }
                Item::OverTime(_) | Item::Latency(_) | Item::Map(_) => {}
            }
        }
        text
    }
}
